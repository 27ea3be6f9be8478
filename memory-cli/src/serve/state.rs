//! What all requests share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use memory_context::agent::Agent;
use memory_core::engine::{HeavyWork, Permit};
use memory_core::{DocumentStore, Embedder, MAX_WATCHES, MemoryProvider, Result, SpaceId, SpaceSelector};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::access::{Access, Secret, Tokens, Writable};
use super::console::{ConsoleKey, Pass};
use super::doctor::Doctor;
use super::metrics::Metrics;
use super::problem::Problem;
use super::samples::Samples;
use super::tools::Tool;

/// The server, shared by all its requests.
pub(crate) type Server = Arc<ServerState>;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) provider: Arc<dyn MemoryProvider>,
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) tools: Vec<Tool>,
    /// The agent that it offers.
    pub(crate) agent: Option<Agent>,
    /// The model by which questions are asked for what they mean.
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) metrics: Metrics,
    /// What the pages for people draw.
    pub(crate) samples: Samples,
    pub(crate) doctor: Doctor,
    pub(crate) callers: Callers,
    /// Whether the pages of the console change records.
    pub(crate) console_write: bool,
    pub(crate) limits: Limits,
    /// Cancelled when the server is asked to end: streams that have no end of their own end then.
    pub(crate) stopping: CancellationToken,
}

/// Who calls, and what they may do.
#[derive(Debug)]
pub(crate) struct Callers {
    pub(crate) door: Door,
    /// Signs what browsers keep.
    pub(crate) key: ConsoleKey,
    /// What a caller may do over REST who has no token of a file.
    pub(crate) rest: Access,
    /// What such a caller may do over MCP.
    pub(crate) mcp: Access,
    /// The names under which the server is reached, besides those of the machine itself.
    pub(crate) hosts: Vec<String>,
    /// The web pages that may call it, besides its own.
    pub(crate) origins: Vec<String>,
}

/// What a caller has to show.
#[derive(Debug)]
pub(crate) enum Door {
    /// Nothing: whoever reaches the server is let in.
    Open,
    /// The one secret of the server.
    Secret(Secret),
    /// One of the tokens, which says what its caller may do.
    Tokens(Tokens),
}

impl Callers {
    /// Leaves what lies in and below the space of the agent to that agent, but where the operator has opened it: to callers without a
    /// token, over REST, and over MCP where that writes there and nowhere else.
    pub(crate) fn reserve(&mut self, space: &SpaceId) -> Result<()> {
        if let Door::Tokens(tokens) = &mut self.door {
            tokens.reserve(space);
        }
        let own = SpaceSelector::under(space)?;
        if !matches!(&self.mcp.writable, Writable::Under(path) if own.matches(path.as_str())) {
            self.mcp.reserve(space);
        }
        Ok(())
    }

    /// What who shows this token may do over REST; `None` where it is not valid, or where none is needed.
    pub(crate) fn by_token(&self, token: &str) -> Option<&Access> {
        match &self.door {
            Door::Open => None,
            Door::Secret(secret) => secret.is(token).then_some(&self.rest),
            Door::Tokens(tokens) => tokens.find(token),
        }
    }

    /// The same of who shows the pass that a browser has for a token.
    pub(crate) fn by_pass(&self, pass: &Pass) -> Option<&Access> {
        let stands_for = |digest: &[u8; 32]| pass.stands_for(digest, &self.key);
        match &self.door {
            Door::Open => None,
            Door::Secret(secret) => secret.has_digest(stands_for).then_some(&self.rest),
            Door::Tokens(tokens) => tokens.find_by_digest(stands_for),
        }
    }
}

impl Door {
    /// The digests of what callers show; none where that is nothing.
    pub(crate) fn digests(&self) -> Vec<[u8; 32]> {
        match self {
            Self::Open => Vec::new(),
            Self::Secret(secret) => vec![secret.digest()],
            Self::Tokens(tokens) => tokens.digests().collect(),
        }
    }

    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        match self {
            Self::Tokens(tokens) => Some(tokens),
            Self::Open | Self::Secret(_) => None,
        }
    }
}

/// What requests may use up.
#[derive(Debug)]
pub(crate) struct Limits {
    /// How long one may take.
    pub(crate) time: Duration,
    /// After how long without an event a stream of changes sends a comment, so that whoever is between knows that it goes on.
    pub(crate) heartbeat: Duration,
    /// How long a client that takes nothing, or does not answer, is taken to be there.
    pub(crate) stall: Duration,
    /// How many are answered at once.
    pub(crate) requests: Places,
    /// How many are answered at once of those that show no token, since they need none: so they take no place of the others.
    pub(crate) strangers: Places,
    /// How many tools run at once; those of MCP go on when their request has been answered.
    pub(crate) tool_calls: Places,
    /// How many questions an agent answers at once; it goes on when the client is gone.
    pub(crate) answers: Places,
    /// How many MCP sessions are open over HTTP; each goes on until its client ends it or has been silent for five minutes.
    pub(crate) sessions: Places,
    /// How many watches are open; each goes on until its client leaves.
    pub(crate) watches: Places,
    /// How many watches of each token read what is there, or what they have missed, at once, where there are several tokens.
    catching_up: HashMap<String, Arc<Semaphore>>,
    /// How many requests with globs or regexes are worked on at once.
    patterns: HeavyWork,
}

/// How many go on at once: so many in all, and where there are several tokens, half as many of each, so that no token alone takes the places of
/// the others.
#[derive(Debug)]
pub(crate) struct Places {
    count: u32,
    all: Arc<Semaphore>,
    of_tokens: HashMap<String, Arc<Semaphore>>,
}

/// One of the places, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_token: Option<OwnedSemaphorePermit>,
}

/// Most sessions wait most of the time, so there may be more of them than of requests: this many times.
const SESSIONS: u32 = 16;

/// How many requests without a token are answered at once, and how long one may take: it sends a token, or gets a style sheet.
const STRANGERS: u32 = 16;
pub(crate) const STRANGER_TIME: Duration = Duration::from_secs(5);

/// How many watches of a token catch up at once.
const CATCHING_UP: usize = 16;
/// How much a watch asks for with one place: more than nearly all do.
const BYTES_OF_PLACE: usize = 256;
/// How many places a pattern takes, which may need a MiB, where other selectors need some bytes.
const PLACES_OF_PATTERN: usize = 32;

impl Limits {
    pub(crate) fn new(settings: &Settings) -> Self {
        let Settings { time, heartbeat, stall, concurrency, .. } = *settings;
        let places = |count| Places::new(count, settings.callers.door.tokens());
        let sessions = places(concurrency.saturating_mul(SESSIONS));
        let (requests, tool_calls, answers) = (places(concurrency), places(concurrency), places(concurrency));
        let (watches, strangers) = (places(MAX_WATCHES as u32), Places::new(STRANGERS, None));
        let several = settings.callers.door.tokens().filter(|tokens| tokens.names().count() > 1);
        let turns = |name: &str| (name.to_owned(), Arc::new(Semaphore::new(CATCHING_UP)));
        let catching_up = several.into_iter().flat_map(Tokens::names).map(turns).collect();
        let patterns = HeavyWork::default();
        Self {
            time,
            heartbeat,
            stall,
            requests,
            strangers,
            tool_calls,
            answers,
            sessions,
            watches,
            catching_up,
            patterns,
        }
    }

    /// A place for a request whose patterns are to be compiled, after those that came before it. It waits as a heavy call does (L8).
    pub(crate) async fn place_for_patterns(&self) -> Result<Permit, Problem> {
        self.patterns.permit(self.time / 2).await.ok_or_else(|| {
            let detail = "too many requests with globs or regexes at once: try again later";
            Problem { retryable: true, ..Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
        })
    }

    /// How many places a watch takes that is asked for with so many bytes, and with so many globs and regexes among them: it keeps them,
    /// and compares each change of any caller with them.
    pub(crate) fn places_of_watch(&self, bytes: usize, patterns: usize) -> u32 {
        let places = 1 + bytes / BYTES_OF_PLACE + patterns * PLACES_OF_PATTERN;
        places.try_into().unwrap_or(u32::MAX)
    }

    /// Waits for the turn of a watch to catch up, after the others of its caller. All watches of an engine share few sessions, one page after the
    /// other, so those of one caller must not be most of those that wait for one.
    pub(crate) async fn turn_to_catch_up(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        Arc::clone(self.catching_up.get(caller)?).acquire_owned().await.ok()
    }

    /// Waits until nothing runs, but not for ever.
    pub(crate) async fn drain(&self, patience: Duration) {
        let all = async {
            let _requests = self.requests.take_all().await;
            let _tool_calls = self.tool_calls.take_all().await;
            let _answers = self.answers.take_all().await;
        };
        let _ = tokio::time::timeout(patience, all).await;
    }
}

impl Places {
    fn new(count: u32, tokens: Option<&Tokens>) -> Self {
        let places = |count: u32| Arc::new(Semaphore::new(count as usize));
        let half = |name: &str| (name.to_owned(), places(count.div_ceil(2)));
        // A single one has nobody to leave a place to.
        let several = tokens.filter(|tokens| tokens.names().count() > 1);
        let of_tokens = several.into_iter().flat_map(Tokens::names).map(half).collect();
        Self { count, all: places(count), of_tokens }
    }

    /// A place for this caller; `None` when there is none.
    pub(crate) fn take(&self, caller: &str) -> Option<Place> {
        self.take_many(caller, 1)
    }

    /// So many places for this caller, as one; `None` when there are fewer.
    pub(crate) fn take_many(&self, caller: &str, count: u32) -> Option<Place> {
        let take = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_many_owned(count).ok();
        let of_token = match self.of_tokens.get(caller) {
            Some(places) => Some(take(places)?),
            None => None,
        };
        Some(Place { _of_all: take(&self.all)?, _of_token: of_token })
    }

    /// All places, when they are free. A closed semaphore can't be waited for, and nothing closes this one.
    async fn take_all(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_many_owned(self.count).await.ok()
    }
}
