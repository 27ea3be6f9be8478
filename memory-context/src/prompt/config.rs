//! The settings of prompt memory.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, Error, Result, SystemClock};

/// The settings of a [`PromptMemory`](super::PromptMemory).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PromptConfig {
    /// The most bytes that a prefetch returns; 20,000 by default, at least 256.
    pub budget: usize,
    /// The deadline of a prefetch; 5 s by default.
    pub deadline: Duration,
    /// What a prefetch does if a store can't be read before the deadline; it fails by default.
    pub on_failure: OnFailure,
    /// How long a text stays cached, unless this process changes it; zero by default, so that each prefetch reads the store and sees the
    /// writes of other processes. Hours are safe if this process is the only writer.
    pub cache_for: Duration,
    /// The most bytes in one update; 32 KiB by default.
    pub max_entry_bytes: usize,
    /// The most bytes of text in one store; 64 KiB by default, at most 128 KiB.
    pub max_store_bytes: usize,
    /// The clock for the times in the history; the system clock by default.
    pub clock: Arc<dyn Clock>,
}

/// What a prefetch does if a store can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The prefetch fails.
    #[default]
    Fail,
    /// The prefetch returns the text that was known last, with a warning for the model and the host.
    Open,
}

const MIN_BUDGET: usize = 256;
const MAX_STORE_BYTES: usize = 128 << 10;

impl PromptConfig {
    /// Fails with `InvalidInput` if a setting is out of its range.
    pub(super) fn check(&self) -> Result<()> {
        if self.budget < MIN_BUDGET {
            return Err(Error::invalid(format!("a budget of {} bytes; at least {MIN_BUDGET} are needed", self.budget)));
        }
        if self.max_store_bytes > MAX_STORE_BYTES {
            let asked = self.max_store_bytes;
            return Err(Error::invalid(format!("a store of {asked} bytes; at most {MAX_STORE_BYTES} are allowed")));
        }
        Ok(())
    }
}

impl Default for PromptConfig {
    fn default() -> Self {
        Self {
            budget: 20_000,
            deadline: Duration::from_secs(5),
            on_failure: OnFailure::Fail,
            cache_for: Duration::ZERO,
            max_entry_bytes: 32 << 10,
            max_store_bytes: 64 << 10,
            clock: Arc::new(SystemClock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_at_their_limits() {
        let with =
            |budget, max_store_bytes| PromptConfig { budget, max_store_bytes, ..PromptConfig::default() }.check();
        assert!(with(MIN_BUDGET, MAX_STORE_BYTES).is_ok() && PromptConfig::default().check().is_ok());
        assert!(with(MIN_BUDGET - 1, 1).is_err() && with(MIN_BUDGET, MAX_STORE_BYTES + 1).is_err());
    }
}
