//! The suite on SQLite.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::{Harness, Namespace};
use memory_core::{Error, ErrorKind, MemoryId, MemoryProvider, Result};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use tempfile::TempDir;

/// One file for each namespace.
#[derive(Debug)]
struct Sqlite {
    folder: TempDir,
}

impl Sqlite {
    fn file(&self, namespace: &Namespace) -> PathBuf {
        self.folder.path().join(&namespace.name).join("memory.db")
    }
}

#[async_trait]
impl Harness for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut config = SqliteConfig::new(self.file(namespace));
        config.clock = Arc::<memory_core::ManualClock>::clone(&namespace.clock);
        config.deadline = namespace.deadline;
        Ok(Arc::new(SqliteMemory::open(config)?))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        memory_sqlite::remove(&SqliteConfig::new(self.file(namespace))).await
    }

    fn can_damage(&self) -> bool {
        true
    }

    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        let unexpected = |error| Error::new(ErrorKind::Unexpected, "the row can't be damaged").with_source(error);
        let file = rusqlite::Connection::open(self.file(namespace)).map_err(unexpected)?;
        let sql = "UPDATE memories SET trigger = '{\"cut' WHERE id = ?1";
        let changed = file.execute(sql, [id.as_bytes().as_slice()]).map_err(unexpected)?;
        Ok(changed == 1)
    }
}

fn main() -> ExitCode {
    match TempDir::new() {
        Ok(folder) => conformance::run(vec![Arc::new(Sqlite { folder })]),
        Err(error) => {
            eprintln!("no temporary folder: {error}");
            ExitCode::FAILURE
        }
    }
}
