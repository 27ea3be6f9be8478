//! How a database is opened.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memory_core::{Address, Clock, DEFAULT_DEADLINE, Error, Result, SystemClock, TextIndex};

/// Where the database is, and the settings of the provider.
///
/// ```
/// use memory_sqlite::SqliteConfig;
///
/// let config = SqliteConfig::from_url("sqlite://data/memory.db?text_index=all&deadline_ms=5000")?;
/// assert_eq!(config.deadline.as_secs(), 5);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The file, or memory.
    pub location: Location,
    /// What text search covers; only documents by default. Once switched on for a file, every program that writes to it
    /// keeps the index.
    pub text_index: TextIndex,
    /// How long a call may take; 30 s by default, a day at most.
    pub deadline: Duration,
    /// How many threads read at the same time; 4 by default. Memory has none: its one connection does both.
    pub readers: NonZeroUsize,
    /// Where `updatedAt` comes from; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file; made with its folder when it is missing.
    File(PathBuf),
    /// Memory that this provider alone sees, and that ends with it.
    Memory,
}

impl SqliteConfig {
    /// The default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::at(Location::File(path.into()))
    }

    /// The default settings for a database in memory.
    pub fn in_memory() -> Self {
        Self::at(Location::Memory)
    }

    /// Reads `sqlite://PATH` (relative, or absolute with a third slash) or `sqlite::memory:`, with the parameters
    /// `text_index` (`documents` or `all`), `deadline_ms` and `readers`. Any other is `InvalidInput` that names it.
    pub fn from_url(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| Error::invalid("an SQLite URL begins with sqlite:"))?;
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
            text_index: TextIndex::default(),
            deadline: DEFAULT_DEADLINE,
            readers: const { NonZeroUsize::new(4).unwrap() },
            clock: Arc::new(SystemClock),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = || Error::invalid(format!("the value of the URL parameter {name} is not valid"));
        match name {
            "text_index" => {
                self.text_index = match value {
                    "documents" => TextIndex::Documents,
                    "all" => TextIndex::All,
                    _ => return Err(wrong()),
                }
            }
            "deadline_ms" => self.deadline = Duration::from_millis(value.parse().map_err(|_| wrong())?),
            "readers" => self.readers = value.parse().map_err(|_| wrong())?,
            _ => return Err(Error::invalid(format!("the SQLite URL has an unknown parameter: {name}"))),
        }
        Ok(())
    }
}

impl From<&Path> for SqliteConfig {
    fn from(path: &Path) -> Self {
        Self::new(path)
    }
}

impl From<&str> for SqliteConfig {
    fn from(path: &str) -> Self {
        Self::new(path)
    }
}

impl From<PathBuf> for SqliteConfig {
    fn from(path: PathBuf) -> Self {
        Self::new(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_files_and_memory() {
        for (url, location) in [
            ("sqlite://data/memory.db", Location::File("data/memory.db".into())),
            ("sqlite:data/memory.db", Location::File("data/memory.db".into())),
            ("sqlite:///var/memory.db", Location::File("/var/memory.db".into())),
            ("sqlite://a%20b.db?readers=2", Location::File("a b.db".into())),
            ("sqlite::memory:", Location::Memory),
        ] {
            assert_eq!(SqliteConfig::from_url(url).expect(url).location, location);
        }
    }

    #[test]
    fn unknown_parameters_are_refused_by_name() {
        for (url, named) in [
            ("sqlite://x.db?mode=ro", "mode"),
            ("sqlite://x.db?readers=0", "readers"),
            ("sqlite://x.db?deadline_ms=soon", "deadline_ms"),
            ("sqlite://x.db?text_index=ledger", "text_index"),
            ("sqlite://", "names no file"),
            ("postgres://x", "sqlite:"),
        ] {
            let error = SqliteConfig::from_url(url).expect_err(url);
            assert!(error.message().contains(named), "{error}");
        }
    }
}
