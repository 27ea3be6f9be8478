//! The settings of prompt memory.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, Error, Result, SystemClock};

/// How a [`PromptMemory`](super::PromptMemory) behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PromptConfig {
    /// The most bytes that a prefetch puts into the prompt; 20,000 by default, 256 at least.
    pub budget: usize,
    /// How long a prefetch waits for the engine; 5 seconds by default.
    pub deadline: Duration,
    /// What a prefetch does when a store can't be read by then; fails by default.
    pub on_failure: OnFailure,
    /// For how long a text that was read counts as the present one, unless this process changes it. None by default: each
    /// prefetch reads, and sees what other processes wrote. A process that is the only writer can set it to hours.
    pub cache_for: Duration,
    /// The most bytes in one update; 32 KiB by default.
    pub max_entry_bytes: usize,
    /// The most bytes of text in one store; 64 KiB by default, 128 KiB at most.
    pub max_store_bytes: usize,
    /// Where the times in the history come from; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

/// What to do about a store that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The call fails.
    #[default]
    Fail,
    /// The turn goes on with what was known last, and a warning that the model and the host see.
    Open,
}

const MIN_BUDGET: usize = 256;
const MAX_STORE_BYTES: usize = 128 << 10;

impl PromptConfig {
    /// `InvalidInput` when a setting is out of its range.
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
