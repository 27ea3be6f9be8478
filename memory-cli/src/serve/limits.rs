//! The limits of requests: how long they take, and how many run at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use memory_core::MAX_WATCHES;
use memory_core::engine::{HeavyWork, Permit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::callers::tokens::Tokens;
use super::problem::Problem;
use super::settings::Settings;

/// The limits of requests.
#[derive(Debug)]
pub(crate) struct Limits {
    /// The deadline of a request.
    pub(crate) time: Duration,
    /// The time without an event after which a stream of changes sends a comment, so that proxies keep the connection.
    pub(crate) heartbeat: Duration,
    /// How long a client may read nothing, or not answer, before it counts as gone.
    pub(crate) stall: Duration,
    /// The concurrent requests.
    pub(crate) requests: Places,
    /// The concurrent requests that need no token, counted separately, so that they take no permits of the others.
    pub(crate) strangers: Places,
    /// The concurrent tool calls; those of MCP continue after their request was answered.
    pub(crate) tool_calls: Places,
    /// The concurrent questions to the agent, which continue if the client disconnects.
    pub(crate) answers: Places,
    /// The open MCP sessions over HTTP. Each lasts until its client ends it or has been silent for five minutes.
    pub(crate) sessions: Places,
    /// The open watches. Each lasts until its client disconnects.
    pub(crate) watches: Places,
    /// The concurrent watches of each token that read existing records or catch up, if there are several tokens.
    catching_up: HashMap<String, Arc<Semaphore>>,
    /// The concurrent requests with globs or regexes.
    patterns: HeavyWork,
}

/// A concurrency limit: a total and, if there are several tokens, half of it per token, so that no token alone can take all permits.
#[derive(Debug)]
pub(crate) struct Places {
    count: u32,
    all: Arc<Semaphore>,
    of_tokens: HashMap<String, Arc<Semaphore>>,
}

/// A permit, until dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_token: Option<OwnedSemaphorePermit>,
}

/// How long a shutdown waits for requests in progress.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How many times more sessions than requests are allowed, since most sessions are idle most of the time.
const SESSIONS: u32 = 16;

/// The most concurrent requests that need no token and change something: those that sign in or out. Static files take
/// no permit.
const STRANGERS: u32 = 16;
pub(crate) const STRANGER_TIME: Duration = Duration::from_secs(5);

/// The most watches of a token that catch up concurrently.
const CATCHING_UP: usize = 16;
/// The bytes of a watch's conditions that one permit covers; nearly all watches have fewer.
const BYTES_OF_PLACE: usize = 256;
/// The permits that a pattern takes, which may need a MiB of memory, while other selectors need a few bytes.
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

    /// Waits in turn for a permit to compile patterns, as a heavy call does (L8).
    pub(crate) async fn place_for_patterns(&self) -> Result<Permit, Problem> {
        let permit = self.patterns.permit(self.time / 2).await;
        permit.ok_or_else(|| Problem::busy("too many requests with globs or regexes at once: try again later"))
    }

    /// Returns how many permits a watch takes, by the bytes of its conditions and the number of globs and regexes in them. It keeps them in
    /// memory and checks each change against them.
    pub(crate) fn places_of_watch(&self, bytes: usize, patterns: usize) -> u32 {
        let places = 1 + bytes / BYTES_OF_PLACE + patterns * PLACES_OF_PATTERN;
        places.try_into().unwrap_or(u32::MAX)
    }

    /// Waits until a watch may catch up, after the other watches of its caller. All watches of an engine share a few sessions, page by
    /// page, so those of one caller must not be the majority of those that wait.
    pub(crate) async fn turn_to_catch_up(&self, caller: &str) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(self.catching_up.get(caller)?).acquire_owned().await.ok()
    }

    /// Waits until nothing runs, at most for `patience`.
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
        // A single token shares the permits with nobody.
        let several = tokens.filter(|tokens| tokens.names().count() > 1);
        let of_tokens = several.into_iter().flat_map(Tokens::names).map(half).collect();
        Self { count, all: places(count), of_tokens }
    }

    /// Takes a permit for this caller; `None` if there is none.
    pub(crate) fn take(&self, caller: &str) -> Option<Place> {
        self.take_many(caller, 1)
    }

    /// Takes `count` permits for this caller; `None` if there are fewer.
    pub(crate) fn take_many(&self, caller: &str, count: u32) -> Option<Place> {
        let take = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_many_owned(count).ok();
        let of_token = match self.of_tokens.get(caller) {
            Some(places) => Some(take(places)?),
            None => None,
        };
        Some(Place { _of_all: take(&self.all)?, _of_token: of_token })
    }

    /// Waits for all permits. `None` only if the semaphore were closed, which it never is.
    async fn take_all(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_many_owned(self.count).await.ok()
    }
}
