//! `copy` of many memories from SQLite to PostgreSQL, with the most memory that it ever had.

use std::process::Child;
use std::time::{Duration, Instant};

use conformance::server::TestServer;
use conformance::workload::Ledger;
use tokio::runtime::Runtime;

use crate::{agent_memory, most_resident, rows};

pub(crate) fn run() {
    let (rows, runtime) = (rows(1_000_000), Runtime::new().expect("a runtime"));
    let postgres = TestServer::postgres().unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let sign = if postgres.url().contains('?') { '&' } else { '?' };
    let to = format!("{}{sign}namespace=bench_copy", postgres.url());
    let folder = tempfile::tempdir().expect("a folder");
    let from = format!("sqlite://{}", folder.path().join("memory.db").display());
    runtime.block_on(async {
        let provider = memory_runtime::open(&from).expect("a URL");
        provider.init().await.expect("a new database");
        for batch in Ledger::new(rows).batches() {
            provider.store_many(batch).await.expect("stores");
        }
        provider.shutdown().await.expect("closes");
    });
    let start = Instant::now();
    let mut copy = agent_memory(&from).args(["copy", "--to", &to]).spawn().expect("the binary runs");
    let most = watch(&mut copy);
    let took = start.elapsed().as_secs_f64();
    println!("\n| memories | copied and verified | most memory |\n|---|---|---|");
    println!("| {rows} | in {took:.0} s, {:.0} /s | {:.0} MB |", rows as f64 / took, most as f64 / 1e6);
}

/// Waits for a process, which must succeed, and returns its peak resident memory, in bytes.
fn watch(child: &mut Child) -> u64 {
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        // The kernel's high-water mark, so that no peak between two samples is missed.
        most = most.max(most_resident(child));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(child.wait().expect("a child").success(), "the copy failed");
    most
}
