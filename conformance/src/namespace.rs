//! The place of a case on an engine.

use std::sync::Arc;
use std::time::Duration;

use memory_core::engine::EngineSettings;
use memory_core::{Clock, DEFAULT_DEADLINE, HistorySettings, ManualClock, Timestamp};
use uuid::Uuid;

/// What a provider is opened with: a place of its own, and the settings that a case wants.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// Unique for each case: lower-case letters, digits and `_`, at most 48 bytes.
    pub name: String,
    /// Where `updatedAt` comes from. Stands at 1,000,000 ms until the case sets it.
    pub clock: Arc<ManualClock>,
    /// How long a call may take.
    pub deadline: Duration,
    /// What is asked of the history. Nothing, until the case asks something.
    pub history: HistorySettings,
}

impl Namespace {
    /// A namespace that nobody else has.
    pub fn unique() -> Self {
        Self {
            name: format!("t_{}", Uuid::now_v7().simple()),
            clock: Arc::new(ManualClock::new(Timestamp::try_from(1_000_000).unwrap_or(Timestamp::MIN))),
            deadline: DEFAULT_DEADLINE,
            history: HistorySettings::default(),
        }
    }

    /// What an engine is opened with that keeps its settings so.
    pub fn settings(&self) -> EngineSettings {
        let Self { deadline, history, .. } = self.clone();
        let clock = Arc::<ManualClock>::clone(&self.clock) as Arc<dyn Clock>;
        EngineSettings { deadline, history, clock, ..EngineSettings::default() }
    }
}
