//! The namespace of a case on an engine.

use std::sync::Arc;
use std::time::Duration;

use memory_core::engine::EngineSettings;
use memory_core::{Clock, DEFAULT_DEADLINE, HistorySettings, ManualClock, Timestamp};
use uuid::Uuid;

/// What a harness opens a provider with: the name of a namespace, and the settings that the case wants.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// Unique to the case: lower-case letters, digits and `_`, at most 48 bytes.
    pub name: String,
    /// The clock of the provider, such as for `updatedAt`. It shows 1,000,000 ms until the case sets it.
    pub clock: Arc<ManualClock>,
    /// The deadline of each call.
    pub deadline: Duration,
    /// The history settings; the defaults unless the case sets others.
    pub history: HistorySettings,
}

impl Namespace {
    /// A namespace with a new, unique name and default settings.
    pub fn unique() -> Self {
        Self {
            name: format!("t_{}", Uuid::now_v7().simple()),
            clock: Arc::new(ManualClock::new(Timestamp::try_from(1_000_000).unwrap_or(Timestamp::MIN))),
            deadline: DEFAULT_DEADLINE,
            history: HistorySettings::default(),
        }
    }

    /// The clock, the deadline and the history settings, for an engine that is opened with [`EngineSettings`].
    pub fn settings(&self) -> EngineSettings {
        let Self { deadline, history, .. } = self.clone();
        let clock = Arc::<ManualClock>::clone(&self.clock) as Arc<dyn Clock>;
        EngineSettings { deadline, history, clock, ..EngineSettings::default() }
    }
}
