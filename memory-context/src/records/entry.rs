//! What a run keeps of its steps in the message that it is about.

use std::fmt;

use memory_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MessageContent;

/// What is kept of one step of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    /// The name of the step, unique in its run.
    pub(crate) step: String,
    pub(crate) state: EntryState,
}

/// How far a step is.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum EntryState {
    /// It may have had its effect.
    Begun,
    /// It had its effect, and this came of it.
    Done(Value),
    /// Something is said.
    Said(Box<Said>),
}

/// Something that a run says, as it is stored and said however often.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Said {
    pub(crate) at: Timestamp,
    pub(crate) content: MessageContent,
    pub(crate) delivery: Delivery,
}

/// What became of something that is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Delivery {
    /// It may have been said.
    Pending,
    /// It was said.
    Delivered,
    /// It could not be said.
    Failed,
    /// It may have been said: it was said again under its id, and nobody knows what came of that either.
    Unclear,
}

impl fmt::Debug for Entry {
    /// Payloads stay out of logs, and a step may have the name that a model gave: only how far it is shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            EntryState::Begun => "begun",
            EntryState::Done(_) => "done",
            EntryState::Said(_) => "said",
        };
        write!(f, "Entry({state})")
    }
}
