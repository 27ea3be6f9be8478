//! A temporary data store on an engine, for a probe, a benchmark or a test that leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, HistorySettings, Inspection, MemoryProvider, Result};

use crate::engine::{self, Engine};

/// A separate namespace (a file, a schema, a key tag or a database) beside the one that a URL names, and settings that
/// replace those of the URL.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// The name of the namespace, or the end of the name of the file: lower-case letters, digits and `_`, at most 48
    /// bytes.
    pub name: String,
    /// The clock that sets `updatedAt`.
    pub clock: Arc<dyn Clock>,
    /// The deadline of a provider call.
    pub deadline: Duration,
    /// The settings of the history.
    pub history: HistorySettings,
}

impl Sandbox {
    /// Returns a provider of the sandbox on the engine of a URL. It touches nothing before `init`, and never the data that the URL names.
    ///
    /// Refuses the URLs that [`open`](crate::open) refuses, and those of an in-memory database, which has only one handle.
    pub fn open(&self, url: &str) -> Result<Arc<dyn MemoryProvider>> {
        self.engine(url)?.open()
    }

    /// Inspects the sandbox as [`inspect`](crate::inspect) does the data that a URL names.
    pub async fn inspect(&self, url: &str) -> Result<Inspection> {
        self.engine(url)?.inspect().await
    }

    /// Removes the sandbox with everything in it. No provider may be open on it.
    pub async fn remove(&self, url: &str) -> Result<()> {
        self.engine(url)?.remove().await
    }

    /// The engine of a URL, switched to this sandbox.
    fn engine(&self, url: &str) -> Result<Box<dyn Engine>> {
        let mut engine = engine::engine(url)?;
        engine.set_place(&self.name)?;
        engine.set(Arc::clone(&self.clock), self.deadline, self.history.clone());
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
