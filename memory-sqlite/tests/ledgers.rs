//! Ledgers of older schemas, in SQLite.

use std::fs;
use std::sync::Arc;

use conformance::ledgers;
use memory_core::MemoryProvider;
use memory_sqlite::{SqliteConfig, SqliteMemory};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_of_version_1_goes_on() {
    goes_on(include_bytes!("../../conformance/ledgers/v1/sqlite.sqlite")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_of_version_1_with_words_goes_on() {
    goes_on(include_bytes!("../../conformance/ledgers/v1/sqlite-text.sqlite")).await;
}

async fn goes_on(ledger: &[u8]) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("memory.db");
    fs::write(&file, ledger).expect("a copy of the ledger");
    let config = SqliteConfig::new(file);
    assert_eq!(memory_sqlite::plan(&config).await.expect("a plan").before, 1);

    let open = async || Ok(Arc::new(SqliteMemory::open(config.clone())?) as Arc<dyn MemoryProvider>);
    ledgers::check(open).await.expect("a ledger that goes on");
    assert_eq!(memory_sqlite::inspect(&config).await.expect("an inspection").missing, [""; 0]);
}
