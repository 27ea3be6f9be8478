//! The journal of a run, which is kept in the message that the run answers.

use std::fmt;

use memory_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MessageContent;

/// The journal entry of one step of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    /// The name of the step, unique within its run.
    pub(crate) step: String,
    pub(crate) state: EntryState,
}

/// The progress of a step.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EntryState {
    /// The step was begun, so it may have had its effect, and it has no result.
    Begun,
    /// The step is done, with this result.
    Done(Value),
    /// The step says this message.
    Said(Box<Said>),
}

/// A message that a run says. It is the same each time that the run stores or says it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Said {
    pub(crate) at: Timestamp,
    pub(crate) content: MessageContent,
    pub(crate) delivery: Delivery,
}

/// The delivery state of a message that a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Delivery {
    /// It is not delivered yet, or the process ended before it recorded the delivery.
    Pending,
    /// It was delivered.
    Delivered,
    /// It could not be delivered.
    Failed,
    /// It may have been delivered: it was sent again under its id, and the outcome of that is unknown as well.
    Unclear,
}

impl fmt::Debug for Entry {
    /// Shows only the progress: payloads stay out of logs, and a step's name may be what a model wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            EntryState::Begun => "begun",
            EntryState::Done(_) => "done",
            EntryState::Said(_) => "said",
        };
        write!(f, "Entry({state})")
    }
}
