//! The configuration of a database.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_core::engine::{Config, EngineSettings, KeptChanges, heavy_calls, parameter};
use memory_core::{Address, Clock, DEFAULT_DEADLINE, Error, HistorySettings, Language, Result, SystemClock};

/// Maximum deadline. SQLite counts the time to wait for a lock in 32 bits, which is enough for 24 days.
const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// The location of a database, and the settings of its provider.
///
/// ```
/// use memory_sqlite::SqliteConfig;
///
/// let config = SqliteConfig::from_url("sqlite://data/memory.db?language=german&deadline_ms=5000")?;
/// assert_eq!(config.deadline.as_secs(), 5);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The file, or a database in memory.
    pub location: Location,
    /// The language of questions and records, unless a question names its own; English by default.
    pub language: Language,
    /// The history settings; by default the namespace's own decision.
    pub history: HistorySettings,
    /// The deadline of a call; 30 s by default, a day at most.
    pub deadline: Duration,
    /// Number of threads that read; by default one for each heavy call that may run at once (L8), and two more for
    /// light calls. Ignored for a database in memory, which has only one connection.
    pub readers: NonZeroUsize,
    /// Number of rows that the feed of changes keeps; 100,000 by default and at least.
    pub kept_changes: KeptChanges,
    /// The source of `updatedAt` and of commit times; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

/// The location of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file; it and its folder are created if missing.
    File(PathBuf),
    /// Memory that only this provider can use, and that ends with it.
    Memory,
}

impl SqliteConfig {
    /// Makes the default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::at(Location::File(path.into()))
    }

    /// Makes the default settings for a database in memory.
    pub fn in_memory() -> Self {
        Self::at(Location::Memory)
    }

    /// Parses `sqlite://PATH` (relative, or absolute with a third slash) or `sqlite::memory:`, with the parameters
    /// `language` (such as `german`, or `none`), `history` (`all` or `none`), `transient`, `deadline_ms`, `readers` and
    /// `kept_changes`. Any other parameter is `InvalidInput`, and the message names it.
    pub fn from_url(url: &str) -> Result<Self> {
        let rest =
            url.strip_prefix("sqlite:").ok_or_else(|| Error::invalid("an SQLite URL must begin with sqlite:"))?;
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        let mut config = match path {
            "" => return Err(Error::invalid("the SQLite URL names no file: sqlite://data/memory.db does")),
            ":memory:" => Self::in_memory(),
            path => Self::new(Address::decode(path)?),
        };
        for (name, value) in form_urlencoded::parse(parameters.as_bytes()) {
            config.set(&name, &value)?;
        }
        Ok(config)
    }

    fn at(location: Location) -> Self {
        Self {
            location,
            language: Language::default(),
            history: HistorySettings::default(),
            deadline: DEFAULT_DEADLINE,
            readers: NonZeroUsize::MIN.saturating_add(heavy_calls() + 1),
            kept_changes: KeptChanges::default(),
            clock: Arc::new(SystemClock),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "language" => self.language = parameter(name, value)?,
            "deadline_ms" => self.deadline = Duration::from_millis(parameter(name, value)?),
            "readers" => self.readers = parameter(name, value)?,
            "kept_changes" => self.kept_changes = parameter(name, value)?,
            _ if self.history.set(name, value)? => {}
            _ => return Err(Error::invalid(format!("the SQLite URL has an unknown parameter: {name}"))),
        }
        Ok(())
    }
}

impl Config for SqliteConfig {
    fn settings(&self) -> EngineSettings {
        EngineSettings {
            deadline: self.deadline.min(MAX_DEADLINE),
            // SQLite itself waits for other programs.
            patience: Duration::ZERO,
            language: self.language,
            history: self.history.clone(),
            clock: Arc::clone(&self.clock),
        }
    }
}

impl<P: Into<PathBuf>> From<P> for SqliteConfig {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}
