//! The suite on redb.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::{Harness, Namespace};
use memory_core::{Error, ErrorKind, MemoryProvider, Result};
use memory_redb::{RedbConfig, RedbMemory};

/// One file for each namespace.
#[derive(Debug)]
struct Redb(tempfile::TempDir);

#[async_trait::async_trait]
impl Harness for Redb {
    fn can_erase(&self) -> bool {
        false
    }

    fn name(&self) -> &str {
        "redb"
    }

    fn can_be_read_only(&self) -> bool {
        false
    }

    fn can_watch(&self) -> bool {
        false
    }

    fn keeps_history(&self) -> bool {
        false
    }

    fn keeps_vectors(&self) -> bool {
        false
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut config = RedbConfig::new(self.0.path().join(&namespace.name));
        config.settings.clock = Arc::<memory_core::ManualClock>::clone(&namespace.clock);
        config.settings.deadline = namespace.deadline;
        Ok(Arc::new(RedbMemory::open(config)?))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        match std::fs::remove_file(self.0.path().join(&namespace.name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::new(ErrorKind::Unexpected, "the file can't be removed").with_source(error))
            }
            _ => Ok(()),
        }
    }
}

fn main() -> ExitCode {
    conformance::run(vec![Arc::new(Redb(tempfile::tempdir().expect("a temporary folder")))])
}
