//! The run: the work on one message, from its receipt to the one event that ends it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use memory_core::{Error, MemoryId, Result, Timestamp};
use tokio::time::{Instant, timeout};

use super::Why;
use super::events::{Event, EventKind, Sink};
use crate::records::{EntityId, RoomId};

/// What a run is about. It goes from step to step as an argument: runs at the same time share nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunContext {
    /// Unique among all runs.
    pub id: MemoryId,
    /// Where the message was said.
    pub room: RoomId,
    /// Who said it.
    pub author: EntityId,
    /// When it was received.
    pub began_at: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The message was answered.
    Completed,
    /// A newer message of the room was to be answered before the answer to this one was there.
    Superseded,
    /// The message was not to be answered.
    Ignored(Why),
    /// The work on it took longer than it may, and was given up.
    TimedOut {
        /// How long it took, without the time in which it waited for other messages.
        after: Duration,
    },
    /// Something went wrong.
    Failed {
        /// What; never with what was said.
        reason: String,
    },
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The message is in the ledger.
    Stored(MemoryId),
    /// The answer is in the ledger.
    Answered(MemoryId),
    /// An action began.
    ActionStarted {
        /// Its name; empty where no action has the name that the model gave.
        action: String,
    },
    /// An action is over.
    ActionEnded {
        /// Its name; empty where no action has the name that the model gave.
        action: String,
        /// Whether it did what it should.
        success: bool,
    },
}

/// A run that is going on; [`Events::start`](super::Events::start) begins it.
///
/// # Behavior
/// - It ends with exactly one event: ending it takes it away, and one that is dropped before, as where its task is cancelled,
///   has failed.
/// - No step of it comes after its end.
#[derive(Debug)]
pub struct Run {
    context: Arc<RunContext>,
    sink: Sink,
    is_over: bool,
}

impl Run {
    pub(super) fn start(context: RunContext, sink: Sink) -> Self {
        let run = Self { context: Arc::new(context), sink, is_over: false };
        run.send(EventKind::Started);
        run
    }

    /// What it is about.
    pub fn context(&self) -> &RunContext {
        &self.context
    }

    /// Tells of a step.
    pub fn step(&self, step: Step) {
        self.send(EventKind::Step(step));
    }

    /// Ends it.
    pub fn end(mut self, end: End) {
        self.is_over = true;
        self.send(EventKind::Ended(end));
    }

    /// Does the work of the run and ends it with what comes of that: with [`End::Failed`] after an error and after a panic.
    pub async fn drive(self, work: impl AsyncFnOnce(&Self) -> Result<End>) -> End {
        let end = match AssertUnwindSafe(work(&self)).catch_unwind().await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => End::from(error),
            Err(_) => End::Failed { reason: "the run panicked".to_owned() },
        };
        self.end(end.clone());
        end
    }

    fn send(&self, kind: EventKind) {
        self.sink.send(Event { run: Arc::clone(&self.context), at: self.sink.now(), kind });
    }
}

/// What is left of the time of a run. Waiting for other messages takes none of it.
#[derive(Debug)]
pub(super) struct TimeLeft {
    limit: Duration,
    left: Duration,
}

impl TimeLeft {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, left: limit }
    }

    /// Works for as long as there is time left; then the work is dropped and does nothing any more.
    pub(super) async fn spend<T>(&mut self, work: impl Future<Output = T>) -> Result<T, End> {
        let began = Instant::now();
        let done = timeout(self.left, work).await.map_err(|_| End::TimedOut { after: self.limit });
        self.left = self.left.saturating_sub(began.elapsed());
        done
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over {
            self.send(EventKind::Ended(End::Failed { reason: "the run was stopped before its end".to_owned() }));
        }
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed { reason: error.to_string() }
    }
}

impl End {
    /// Its name, for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Superseded => "superseded",
            Self::Ignored(_) => "ignored",
            Self::TimedOut { .. } => "timedOut",
            Self::Failed { .. } => "failed",
        }
    }
}
