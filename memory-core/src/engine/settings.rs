//! The settings that all engines share.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::gate::DEFAULT_DEADLINE;
use super::parameter::parameter;
use crate::{Clock, Error, HistorySettings, Language, Result, SystemClock};

/// The configuration of an engine.
pub trait Config: fmt::Debug + Clone + Send + Sync + 'static {
    /// Returns the settings that [`Provider`](super::Provider) uses.
    fn settings(&self) -> EngineSettings;

    /// Refuses a configuration that can never work, before anything is opened (`InvalidInput`).
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The settings that mean the same on every engine.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// The deadline of a call (L6).
    pub deadline: Duration,
    /// How long a call retries after temporary failures.
    pub patience: Duration,
    /// The language of questions and records, unless a question names its own (R2).
    pub language: Language,
    /// The history settings (H6, H8).
    pub history: HistorySettings,
    /// The source of `updatedAt`, of commit times, and of the time that expiry is compared with.
    pub clock: Arc<dyn Clock>,
}

/// How many changes the feed of a namespace keeps, approximately, on an engine that decides that itself (C6). Each
/// program trims the feed to its own number, so programs that write to one namespace should agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptChanges(u32);

impl KeptChanges {
    /// The smallest number, which every client may rely on, and the default.
    pub const MIN: Self = Self(100_000);
    /// The largest number that a URL may set.
    pub const MAX: Self = Self(1_000_000_000);

    /// Makes a number of changes; `InvalidInput` below [`KeptChanges::MIN`] or above [`KeptChanges::MAX`].
    pub fn new(count: u32) -> Result<Self> {
        if (Self::MIN.0..=Self::MAX.0).contains(&count) {
            return Ok(Self(count));
        }
        Err(Error::invalid(format!("a feed must keep {} to {} changes", Self::MIN.0, Self::MAX.0)))
    }

    /// Returns the number of changes.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for KeptChanges {
    fn default() -> Self {
        Self::MIN
    }
}

impl FromStr for KeptChanges {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(parameter("kept_changes", text)?)
    }
}

impl Default for EngineSettings {
    /// 30 seconds for a call including its retries, English, the namespace's own decision on history, and the clock of
    /// the machine.
    fn default() -> Self {
        let (deadline, clock) = (DEFAULT_DEADLINE, Arc::new(SystemClock));
        let (language, history) = (Language::default(), HistorySettings::default());
        Self { deadline, patience: deadline, language, history, clock }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_keeps_as_many_changes_as_everybody_counts_on() {
        for valid in ["100000", "1000000000"] {
            assert_eq!(valid.parse::<KeptChanges>().expect("valid").get().to_string(), valid);
        }
        for refused in ["99999", "1000000001", "-1", "many", ""] {
            assert!(refused.parse::<KeptChanges>().is_err(), "{refused}");
        }
    }
}
