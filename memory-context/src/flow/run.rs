//! The run: the work on one message, from its receipt to the one event that ends it.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{MemoryId, Result, Timestamp};
use tokio::time::timeout;

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
    /// A newer message of the room came before the answer.
    Superseded,
    /// The message was not to be answered.
    Ignored(Why),
    /// It took longer than it may, and was given up.
    TimedOut {
        /// How long it took.
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
        /// Its name.
        action: String,
    },
    /// An action is over.
    ActionEnded {
        /// Its name.
        action: String,
        /// Whether it did what it should.
        success: bool,
    },
}

/// A run that is going on; [`Events::start`](super::Events::start) begins it.
///
/// # Behavior
/// - It ends with exactly one event: ending it takes it away, and one that is dropped before, as where its task is cancelled or
///   panics, has failed.
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

    /// Does the work of the run and ends it with what comes of that: with [`End::Failed`] after an error, and with
    /// [`End::TimedOut`] when it is not over within the limit, when the work is dropped and does nothing any more.
    pub async fn drive(self, limit: Duration, work: impl AsyncFnOnce(&Self) -> Result<End>) -> End {
        let end = match timeout(limit, work(&self)).await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => End::Failed { reason: error.to_string() },
            Err(_) => End::TimedOut { after: limit },
        };
        self.end(end.clone());
        end
    }

    fn send(&self, kind: EventKind) {
        self.sink.send(Event { run: Arc::clone(&self.context), at: self.sink.now(), kind });
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over {
            self.send(EventKind::Ended(End::Failed { reason: "the run was stopped before its end".to_owned() }));
        }
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
