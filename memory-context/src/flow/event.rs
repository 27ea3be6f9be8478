//! What happens in a run.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, MemoryId, Timestamp};

use super::respond::Why;
use crate::records::{EntityId, RoomId};

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// In which one.
    pub run: Arc<RunContext>,
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// It began. The first of its events.
    Started,
    /// It went on.
    Step(FlowStep),
    /// It ended. The last of its events.
    Ended(End),
}

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
    /// The work stopped before its end. The message is still open: it was given back at a shutdown, somebody else has taken it, the
    /// ledger failed to keep what was done, or the run was dropped. Or it is there no more.
    Left {
        /// Why; never with what was said.
        reason: String,
    },
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowStep {
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
            Self::Left { .. } => "left",
        }
    }
}
