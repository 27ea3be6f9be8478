//! The events of a run.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, MemoryId, Timestamp};

use super::respond::Why;
use crate::records::{EntityId, RoomId};

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The run.
    pub run: Arc<RunContext>,
    /// The time of the event.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
}

/// The kind of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The run started; its first event.
    Started,
    /// The run made a step.
    Step(FlowStep),
    /// The run ended; its last event.
    Ended(End),
}

/// The identity of a run, and the room and the author of the message that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunContext {
    /// The id, unique among all runs.
    pub id: MemoryId,
    /// The room of the message.
    pub room: RoomId,
    /// The author of the message; for a post the agent.
    pub author: EntityId,
    /// The time at which this process started or continued the run.
    pub began_at: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The message was answered.
    Completed,
    /// A newer message of the room was to be answered before this one's answer was decided.
    Superseded,
    /// The message was not to be answered, for this reason.
    Ignored(Why),
    /// The run took longer than its limit and was dropped.
    TimedOut {
        /// The limit. The time that the run waited for other messages does not count.
        after: Duration,
    },
    /// The run failed.
    Failed {
        /// The reason, which never quotes messages.
        reason: String,
    },
    /// The run stopped before its end. The message is still open: it was given back at a shutdown, another process has taken it, the ledger
    /// failed to store what was done, or the run was dropped. Or the message was erased.
    Left {
        /// The reason, which never quotes messages.
        reason: String,
    },
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowStep {
    /// The message was stored in the ledger.
    Stored(MemoryId),
    /// A message of the agent was stored and said.
    Answered(MemoryId),
    /// An action started.
    ActionStarted {
        /// The name of the action; empty if the model named one that does not exist.
        action: String,
    },
    /// An action ended.
    ActionEnded {
        /// The name of the action; empty if the model named one that does not exist.
        action: String,
        /// Whether the action succeeded.
        success: bool,
    },
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Failed { reason: error.to_string() }
    }
}

impl End {
    /// The name, for logs and metrics.
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
