//! What all requests share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use memory_core::engine::heavy_calls;
use memory_core::{DocumentStore, MemoryProvider};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::access::{Access, Tokens};
use super::metrics::Metrics;
use super::problem::Problem;
use super::tools::Tool;

/// The server, shared by all its requests.
pub(crate) type Server = Arc<ServerState>;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) provider: Arc<dyn MemoryProvider>,
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) metrics: Metrics,
    pub(crate) callers: Callers,
    pub(crate) limits: Limits,
}

/// Who calls, and what they may do.
#[derive(Debug)]
pub(crate) struct Callers {
    /// When there are none, whoever reaches the server is let in.
    pub(crate) tokens: Option<Tokens>,
    /// What a caller without a token may do over REST.
    pub(crate) rest: Access,
    /// What a caller without a token may do over MCP.
    pub(crate) mcp: Access,
    /// The names under which the server is reached, besides those of the machine itself.
    pub(crate) hosts: Vec<String>,
    /// The web pages that may call it, besides its own.
    pub(crate) origins: Vec<String>,
}

/// What requests may use up.
#[derive(Debug)]
pub(crate) struct Limits {
    /// How long one may take.
    pub(crate) time: Duration,
    /// How many are answered at once.
    pub(crate) requests: Places,
    /// How many tools run at once; those of MCP go on when their request has been answered.
    pub(crate) tool_calls: Places,
    /// How many MCP sessions are open over HTTP; each goes on until its client ends it or has been silent for five minutes.
    pub(crate) sessions: Arc<Semaphore>,
    /// How many requests with globs or regexes are worked on at once.
    patterns: Arc<Semaphore>,
}

/// How many go on at once: so many in all, and half as many of each token, so that none leaves the others without a place.
#[derive(Debug)]
pub(crate) struct Places {
    count: u32,
    all: Semaphore,
    of_tokens: HashMap<String, Semaphore>,
}

/// Most sessions wait most of the time, so there may be more of them than of requests: this many times.
const SESSIONS: usize = 16;

impl Limits {
    pub(crate) fn new(time: Duration, concurrency: u32, tokens: Option<&Tokens>) -> Self {
        let places = || Places::new(concurrency, tokens);
        let sessions = Arc::new(Semaphore::new(SESSIONS * concurrency as usize));
        let patterns = Arc::new(Semaphore::new(heavy_calls()));
        Self { time, requests: places(), tool_calls: places(), sessions, patterns }
    }

    /// A place for a request whose patterns are to be compiled, after those that came before it. It waits as a heavy call does (L8).
    pub(crate) async fn place_for_patterns(&self) -> Result<OwnedSemaphorePermit, Problem> {
        match tokio::time::timeout(self.time / 2, Arc::clone(&self.patterns).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            // Nothing closes the semaphore.
            _ => {
                let detail = "too many requests with globs or regexes at once: try again later";
                Err(Problem { retryable: true, ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail) })
            }
        }
    }

    /// Waits until nothing runs, but not for ever.
    pub(crate) async fn drain(&self, patience: Duration) {
        let all = async {
            let _requests = self.requests.take_all().await;
            let _tool_calls = self.tool_calls.take_all().await;
        };
        let _ = tokio::time::timeout(patience, all).await;
    }
}

impl Places {
    fn new(count: u32, tokens: Option<&Tokens>) -> Self {
        let half = || Semaphore::new(count.div_ceil(2) as usize);
        let of_tokens = tokens.into_iter().flat_map(Tokens::names).map(|name| (name.to_owned(), half())).collect();
        Self { count, all: Semaphore::new(count as usize), of_tokens }
    }

    /// A place for this caller until it is dropped; `None` when there is none.
    pub(crate) fn take(&self, caller: &str) -> Option<(SemaphorePermit<'_>, Option<SemaphorePermit<'_>>)> {
        let of_token = match self.of_tokens.get(caller) {
            Some(places) => Some(places.try_acquire().ok()?),
            None => None,
        };
        Some((self.all.try_acquire().ok()?, of_token))
    }

    /// All places, when they are free. A closed semaphore can't be waited for, and nothing closes this one.
    async fn take_all(&self) -> Option<SemaphorePermit<'_>> {
        self.all.acquire_many(self.count).await.ok()
    }
}
