//! Merges the results of providers into a state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use memory_core::Error;
use serde_json::Value;

use super::cache::{Kept, Seen};
use super::render::{Section, render};
use super::{
    Collision, ComposeOptions, ProviderInfo, ProviderOutcome, ProviderResult, ProviderStatus, Snapshot, State,
};

/// The merged results of a composition so far.
#[derive(Debug, Default)]
pub(super) struct Merge<'a> {
    snapshot: Snapshot,
    seen: Seen,
    /// The provider of each value.
    owners: BTreeMap<String, &'a str>,
    outcomes: Vec<(&'a ProviderInfo, ProviderOutcome)>,
    collisions: Vec<Collision>,
}

/// The run of a provider: its outcome and its result.
#[derive(Debug)]
pub(super) struct Run {
    status: ProviderStatus,
    kept: Option<Kept>,
    is_cached: bool,
    error: Option<Error>,
    duration: Duration,
}

/// The name of the value that holds the text of the state.
const TEXT: &str = "providers";
/// The owner of that value in collisions.
const OWNER: &str = "compose_state";

impl<'a> Merge<'a> {
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The provider runs in the snapshot.
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Adds a run after the earlier ones.
    pub(super) fn add(&mut self, info: &'a ProviderInfo, run: Run) {
        let Run { status, kept, is_cached, error, duration } = run;
        let name = info.name.as_ref();
        if let Some(error) = &error {
            tracing::warn!(provider = name, %status, %error, "the state is composed without a provider");
        }
        let bytes = kept.as_ref().map_or(0, |kept| kept.bytes);
        if let Some(Kept { result, stamp, .. }) = kept {
            self.add_values(name, &result);
            self.snapshot.data.providers.insert(name.to_owned(), result);
            self.seen.push((name.to_owned(), stamp));
        }
        let provider = name.to_owned();
        let outcome = ProviderOutcome {
            provider,
            status,
            cached: is_cached,
            duration,
            bytes,
            text_bytes: 0,
            text_place: 0..0,
            cut: None,
            error,
        };
        self.outcomes.push((info, outcome));
    }

    /// Makes the state, with its text.
    pub(super) fn into_state(mut self, options: &ComposeOptions, unknown: Vec<String>) -> State {
        let text_of = |name: &str| self.snapshot.provider(name).map_or("", |result| &result.text);
        let sections: Vec<_> =
            self.outcomes.iter().map(|(info, _)| Section { info, text: text_of(&info.name) }).collect();
        let (shown, text) = render(&sections, options.order, options.budget.as_ref());
        let mut outcomes: Vec<_> = self.outcomes.into_iter().map(|(_, outcome)| outcome).collect();
        for (outcome, shown) in outcomes.iter_mut().zip(shown) {
            (outcome.text_bytes, outcome.text_place, outcome.cut) = (shown.text.len(), shown.place, shown.cut);
        }
        if let Some(lost) = self.owners.get(TEXT) {
            self.collisions.push(Collision { value: TEXT.into(), kept: OWNER.into(), lost: (*lost).into() });
        }
        let Snapshot { mut values, data } = self.snapshot;
        values.insert(TEXT.to_owned(), Value::String(text.clone()));
        State { values, data, text, outcomes, collisions: self.collisions, unknown }
    }

    fn add_values(&mut self, name: &'a str, result: &Arc<ProviderResult>) {
        for (value, given) in &result.values {
            if let Some(before) = self.owners.insert(value.clone(), name) {
                tracing::debug!(value, kept = name, lost = before, "two providers gave a value of the same name");
                self.collisions.push(Collision { value: value.clone(), kept: name.into(), lost: before.into() });
            }
            self.snapshot.values.insert(value.clone(), given.clone());
        }
    }
}

impl Run {
    pub(super) fn with_result(kept: Kept, is_cached: bool, duration: Duration) -> Self {
        let status = if kept.result.is_empty() { ProviderStatus::Empty } else { ProviderStatus::Ok };
        Self { status, kept: Some(kept), is_cached, error: None, duration }
    }

    pub(super) fn without_result(status: ProviderStatus, error: Option<Error>, duration: Duration) -> Self {
        Self { status, kept: None, is_cached: false, error, duration }
    }
}
