//! The settings of a runtime.

use std::time::Duration;

use memory_core::Collection;

/// The settings of a runtime; [`RuntimeBuilder`](crate::RuntimeBuilder) documents them and their defaults.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) concurrency: u32,
    pub(crate) queue: u32,
    pub(crate) window: usize,
    pub(crate) step_deadline: Duration,
    pub(crate) max_steps: usize,
    pub(crate) max_runs: u32,
    pub(crate) collections: Vec<Collection>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            concurrency: 8,
            queue: 1_000,
            window: 10,
            step_deadline: Duration::from_secs(120),
            max_steps: 50,
            max_runs: 3,
            collections: Vec::new(),
        }
    }
}
