//! What every engine can be configured with.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::gate::DEFAULT_DEADLINE;
use crate::{Clock, Error, HistorySettings, Language, Result, SystemClock};

/// The configuration of an engine.
pub trait Config: fmt::Debug + Clone + Send + Sync + 'static {
    /// What [`Provider`](super::Provider) needs to know of it.
    fn settings(&self) -> EngineSettings;

    /// Refuses what could never be opened, before anything is (`InvalidInput`).
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The settings that mean the same on every engine.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// How long a call may take (L6).
    pub deadline: Duration,
    /// How long a call tries again after temporary failures.
    pub patience: Duration,
    /// The language of the questions and of the records, unless a question has its own (R2).
    pub language: Language,
    /// What is asked of the history (H6, H8).
    pub history: HistorySettings,
    /// Where `updatedAt` comes from.
    pub clock: Arc<dyn Clock>,
}

/// How many changes the feed of a namespace keeps, about (C6), where the engine decides that. Programs that write to one namespace drop what
/// is more by their own number each, so they should have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptChanges(u32);

impl KeptChanges {
    /// The fewest, which everybody may count on, and the default.
    pub const MIN: Self = Self(100_000);
    /// The most that a URL may ask for.
    pub const MAX: Self = Self(1_000_000_000);

    /// So many; `InvalidInput` for fewer than [`KeptChanges::MIN`] or more than [`KeptChanges::MAX`].
    pub fn new(count: u32) -> Result<Self> {
        if (Self::MIN.0..=Self::MAX.0).contains(&count) {
            return Ok(Self(count));
        }
        Err(Error::invalid(format!("a feed keeps {} to {} changes", Self::MIN.0, Self::MAX.0)))
    }

    /// How many changes these are.
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
    /// 30 seconds for a call and its attempts, English, what the namespace keeps of a history, and the clock of the machine.
    fn default() -> Self {
        let (deadline, clock) = (DEFAULT_DEADLINE, Arc::new(SystemClock));
        let (language, history) = (Language::default(), HistorySettings::default());
        Self { deadline, patience: deadline, language, history, clock }
    }
}

/// The value of a parameter of a database URL. `InvalidInput` names the parameter and quotes nothing.
pub fn parameter<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::invalid(format!("the value of the URL parameter {name} is not valid")))
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
