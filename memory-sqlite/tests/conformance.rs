//! The suite on SQLite.

use std::fs;
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
        config.history = namespace.history.clone();
        Ok(Arc::new(SqliteMemory::open(config)?))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        memory_sqlite::remove(&SqliteConfig::new(self.file(namespace))).await
    }

    fn can_damage(&self) -> bool {
        true
    }

    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        let file = rusqlite::Connection::open(self.file(namespace)).map_err(refused)?;
        let sql = "UPDATE memories SET trigger = '{\"cut' WHERE id = ?1";
        let changed = file.execute(sql, [id.as_bytes().as_slice()]).map_err(refused)?;
        Ok(changed == 1)
    }

    fn can_make_newer(&self) -> bool {
        true
    }

    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        let file = rusqlite::Connection::open(self.file(namespace)).map_err(refused)?;
        let sql = "INSERT INTO schema_migrations VALUES (99, 'future', 'unknown', TRUE)";
        file.execute(sql, []).map(drop).map_err(refused)
    }

    fn can_lose_changes(&self) -> bool {
        true
    }

    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        let file = rusqlite::Connection::open(self.file(namespace)).map_err(refused)?;
        let sql = "DELETE FROM changes WHERE seq < (SELECT max(seq) FROM changes)";
        file.execute(sql, []).map(drop).map_err(refused)
    }

    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let file = self.file(namespace);
        fs::copy(&file, file.with_extension("backup")).map(drop).map_err(refused)
    }

    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        memory_sqlite::remove(&SqliteConfig::new(self.file(namespace))).await?;
        let file = self.file(namespace);
        fs::copy(file.with_extension("backup"), &file).map(drop).map_err(refused)
    }
}

fn refused(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unexpected, "the file can't be prepared for a case").with_source(error)
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
