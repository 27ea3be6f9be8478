//! What every engine can be configured with.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::gate::DEFAULT_DEADLINE;
use crate::{Clock, Error, Language, Result, SystemClock};

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
    /// Where `updatedAt` comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for EngineSettings {
    /// 30 seconds for a call and its attempts, English, and the clock of the machine.
    fn default() -> Self {
        let (deadline, clock) = (DEFAULT_DEADLINE, Arc::new(SystemClock));
        Self { deadline, patience: deadline, language: Language::default(), clock }
    }
}

/// The value of a parameter of a database URL. `InvalidInput` names the parameter and quotes nothing.
pub fn parameter<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::invalid(format!("the value of the URL parameter {name} is not valid")))
}
