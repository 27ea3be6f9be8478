//! The result of a composition: the state, and the outcome of each provider.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use memory_core::Error;
use serde::{Serialize, Serializer};

use super::{ProviderResult, Snapshot, StateData, Values};

/// The composed state: what an agent knows when it answers a message.
#[derive(Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct State {
    /// The values of all providers, for templates. On a collision the value of the higher position wins. The value `providers` is the text.
    pub values: Values,
    /// The results of each provider, for programs.
    pub data: StateData,
    /// The texts of all providers, for the prompt.
    pub text: String,
    /// The outcome of each selected provider, in the order in which they ran.
    pub outcomes: Vec<ProviderOutcome>,
    /// The values that more than one provider gave.
    pub collisions: Vec<Collision>,
    /// The requested names that no provider has.
    pub unknown: Vec<String>,
}

/// The outcome of a provider in a composition.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProviderOutcome {
    /// The name of the provider.
    pub provider: String,
    /// Whether it contributed, and if not, why.
    pub status: ProviderStatus,
    /// Whether the result comes from another composition, an earlier or a concurrent one.
    pub cached: bool,
    /// How long the composition waited for it; in JSON as `micros`, in microseconds.
    #[serde(rename = "micros", serialize_with = "micros")]
    pub duration: Duration,
    /// The size of the result as JSON, in bytes.
    pub bytes: usize,
    /// The size of its section of the text, in bytes.
    pub text_bytes: usize,
    /// The range of its section in the text of the state; empty if it has none.
    #[serde(skip)]
    pub(super) text_place: Range<usize>,
    /// What the budget cut from its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The error of a failure.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "message")]
    pub error: Option<Error>,
}

/// Whether a provider contributed to a state, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ProviderStatus {
    /// It contributed something.
    Ok,
    /// It had nothing to contribute.
    Empty,
    /// It failed or panicked.
    Failed,
    /// It missed its deadline.
    TimedOut,
    /// It was not started, since the deadline of the composition had passed.
    Skipped,
}

/// The size of what was cut from a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// The number of lines that are missing.
    pub lines: usize,
    /// The number of bytes that are missing.
    pub bytes: usize,
}

/// A value that two providers gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Collision {
    /// The name of the value.
    pub value: String,
    /// The provider whose value is in the state.
    pub kept: String,
    /// The provider whose value is lost.
    pub lost: String,
}

impl State {
    /// Returns the result of a provider, if it ran and did not fail.
    pub fn provider(&self, name: &str) -> Option<&ProviderResult> {
        self.data.providers.get(name).map(Arc::as_ref)
    }

    /// Returns the values and the results without the text, as evaluators see them in [`Cx::state`](super::Cx::state).
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { values: self.values.clone(), data: self.data.clone() }
    }

    /// Returns the sections of the text in their order, each with the outcome of its provider. Providers without a section are left out.
    pub fn sections(&self) -> Vec<(&ProviderOutcome, &str)> {
        let section = |outcome: &ProviderOutcome| self.text.get(outcome.text_place.clone()).unwrap_or_default();
        let mut sections: Vec<_> = self.outcomes.iter().map(|outcome| (outcome, section(outcome))).collect();
        sections.retain(|(_, section)| !section.is_empty());
        sections.sort_by_key(|(outcome, _)| outcome.text_place.start);
        sections
    }

    /// Returns the outcome of a provider, if it was selected.
    pub fn outcome(&self, name: &str) -> Option<&ProviderOutcome> {
        self.outcomes.iter().find(|outcome| outcome.provider == name)
    }
}

impl fmt::Debug for State {
    /// Shows only the outcomes, so that payloads stay out of logs.
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
    /// The name, as in JSON.
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
