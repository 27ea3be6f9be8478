//! The shared workloads on SQLite, compared with rusqlite doing the same work on the same tables.
//!
//! `cargo bench -p agent-memory-sqlite` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million. The 64
//! tasks of the bare driver take turns on its one connection, and it imports a whole ledger in one transaction.

mod bare;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use conformance::bench::{Bare, Engine};
use memory_core::{HistorySettings, MemoryProvider};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use tempfile::TempDir;

use crate::bare::BareRusqlite;

fn main() {
    conformance::bench::run(&Sqlite { folder: TempDir::new().expect("a folder") });
}

struct Sqlite {
    folder: TempDir,
}

impl Sqlite {
    fn file(&self, namespace: &str) -> PathBuf {
        self.folder.path().join(namespace)
    }
}

#[async_trait]
impl Engine for Sqlite {
    async fn open(&self, namespace: &str, history: HistorySettings) -> (Arc<dyn MemoryProvider>, Arc<dyn Bare>) {
        let mut config = SqliteConfig::new(self.file(namespace));
        config.history = history;
        let provider = SqliteMemory::open(config).expect("a configuration");
        provider.init().await.expect("opens");
        (Arc::new(provider), Arc::new(BareRusqlite::open(&self.file(namespace))))
    }

    async fn size(&self, namespace: &str) -> u64 {
        let config = SqliteConfig::from(self.file(namespace));
        memory_sqlite::inspect(&config).await.expect("answers").bytes.expect("a size")
    }

    async fn remove(&self, namespace: &str) {
        memory_sqlite::remove(&SqliteConfig::from(self.file(namespace))).await.expect("removes");
    }
}
