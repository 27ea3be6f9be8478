//! A place on an engine that nobody else uses, for a probe, a benchmark or a test that leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, HistorySettings, Inspection, MemoryProvider, Result};

use crate::engine::{self, Engine};

/// Where a provider keeps its data beside what a URL names, and what no URL says.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Lower-case letters, digits and `_`, at most 48 bytes: the name of the schema or of the
    /// database, or the end of the name of the file.
    pub name: String,
    /// Where `updatedAt` comes from.
    pub clock: Arc<dyn Clock>,
    /// How long a call may take.
    pub deadline: Duration,
    /// What is asked of the history.
    pub history: HistorySettings,
}

impl Sandbox {
    /// The provider of this place on the engine that a URL names. Touches nothing before `init`; what the URL itself names
    /// stays untouched.
    ///
    /// Refuses the URLs that [`open`](crate::open) refuses, and those of a database in memory, which has no second handle.
    pub fn open(&self, url: &str) -> Result<Arc<dyn MemoryProvider>> {
        self.engine(url)?.open()
    }

    /// What [`inspect`](crate::inspect) tells of the place.
    pub async fn inspect(&self, url: &str) -> Result<Inspection> {
        self.engine(url)?.inspect().await
    }

    /// Removes the place with everything in it. No provider may be open on it.
    pub async fn remove(&self, url: &str) -> Result<()> {
        self.engine(url)?.remove().await
    }

    /// The engine of a URL with this place instead of its own.
    fn engine(&self, url: &str) -> Result<Box<dyn Engine>> {
        let mut engine = engine::engine(url)?;
        engine.set_place(&self.name)?;
        engine.set(self);
        Ok(engine)
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use memory_core::{DEFAULT_DEADLINE, ErrorKind, SystemClock};

    use super::*;

    fn sandbox() -> Sandbox {
        Sandbox {
            name: "t_1".to_owned(),
            clock: Arc::new(SystemClock),
            deadline: DEFAULT_DEADLINE,
            history: HistorySettings::default(),
        }
    }

    #[tokio::test]
    async fn a_sandbox_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}", folder.path().join("memory.db").display());
        let provider = sandbox().open(&url).expect("valid");
        provider.init().await.expect("a new file");
        assert!(folder.path().join("memory.db-t_1").exists());
        provider.shutdown().await.expect("closes");
        sandbox().remove(&url).await.expect("removed");
        sandbox().remove(&url).await.expect("nothing to remove");
        assert_eq!(folder.path().read_dir().expect("the folder").count(), 0);
    }

    #[test]
    fn memory_has_no_sandbox() {
        let refused = sandbox().open("sqlite::memory:").expect_err("one handle only");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}
