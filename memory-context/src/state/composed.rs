//! What a composition gives: the state, and how it came to be.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use memory_core::Error;
use serde::{Serialize, Serializer};

use super::{ProviderResult, Snapshot, StateData, Values};

/// What an agent knows when it speaks.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct State {
    /// The values of all providers, for templates; those of higher positions over those of lower ones. `providers` is the
    /// text.
    pub values: Values,
    /// The results of each, for programs.
    pub data: StateData,
    /// The texts of all, for the prompt.
    pub text: String,
    /// How each selected provider fared, in the order in which they ran.
    pub outcomes: Vec<ProviderOutcome>,
    /// Which values were given more than once.
    pub collisions: Vec<Collision>,
    /// Names that were asked for and that no provider has.
    pub unknown: Vec<String>,
}

/// How a provider fared.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProviderOutcome {
    /// Its name.
    pub provider: String,
    /// What became of it.
    pub status: ProviderStatus,
    /// Whether its result is that of an earlier composition, or of one at the same time.
    pub cached: bool,
    /// How long the composition waited for it. As JSON, in microseconds.
    #[serde(rename = "micros", serialize_with = "micros")]
    pub duration: Duration,
    /// The size of its result as JSON.
    pub bytes: usize,
    /// The size of its part of the text.
    pub text_bytes: usize,
    /// Where its part stands in the text of the state; empty where it has none there.
    #[serde(skip)]
    pub(super) text_place: Range<usize>,
    /// What the budget left out of its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "message")]
    pub error: Option<Error>,
}

/// What became of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProviderStatus {
    /// It contributed.
    Ok,
    /// It had nothing to contribute.
    Empty,
    /// It failed, or panicked.
    Failed,
    /// It was given up.
    TimedOut,
    /// It was not begun, since the deadline of the composition had passed.
    Skipped,
}

/// What is missing in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// How many lines.
    pub lines: usize,
    /// How many bytes.
    pub bytes: usize,
}

/// A value that two providers gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collision {
    /// The name of the value.
    pub value: String,
    /// Whose it is in the state.
    pub kept: String,
    /// Whose is lost.
    pub lost: String,
}

impl State {
    /// What a provider gave, if it ran and did not fail.
    pub fn provider(&self, name: &str) -> Option<&ProviderResult> {
        self.data.providers.get(name).map(Arc::as_ref)
    }

    /// Values and results alone, as actions and evaluators see them.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { values: self.values.clone(), data: self.data.clone() }
    }

    /// The parts of the text in their order, each with how its provider fared. One that has no part is left out.
    pub fn sections(&self) -> Vec<(&ProviderOutcome, &str)> {
        let section = |outcome: &ProviderOutcome| self.text.get(outcome.text_place.clone()).unwrap_or_default();
        let mut sections: Vec<_> = self.outcomes.iter().map(|outcome| (outcome, section(outcome))).collect();
        sections.retain(|(_, section)| !section.is_empty());
        sections.sort_by_key(|(outcome, _)| outcome.text_place.start);
        sections
    }

    /// How a provider fared, if it was selected.
    pub fn outcome(&self, name: &str) -> Option<&ProviderOutcome> {
        self.outcomes.iter().find(|outcome| outcome.provider == name)
    }
}

impl fmt::Debug for State {
    /// Payloads stay out of logs: the outcomes show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("text_bytes", &self.text.len())
            .field("outcomes", &self.outcomes)
            .field("collisions", &self.collisions)
            .field("unknown", &self.unknown)
            .finish_non_exhaustive()
    }
}

impl ProviderStatus {
    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Empty => "empty",
            Self::Failed => "failed",
            Self::TimedOut => "timedOut",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for ProviderStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn micros<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

fn message<S: Serializer>(error: &Option<Error>, serializer: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(ToString::to_string).serialize(serializer)
}
