//! How often an engine asks for memory.

use std::error::Error;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use memory_core::{MemoryProvider, MemoryQuery};
use tokio::runtime::Runtime;

use crate::server::trial;
use crate::workload::Ledger;

/// How many rows a recall gives, and how many bytes of text each has.
const ROWS: usize = 50;
const PAYLOAD: usize = 1_000;
const RECALLS: usize = 20;

/// Checks how often a recall allocates for each row, as `main` of a test with `harness = false`: at most `most` times. `start` gives a
/// provider on a new server, with what ends that when it is dropped, and `allocations` tells how many there were so far.
pub fn run<P: MemoryProvider, G>(
    engine: &str,
    most: f64,
    start: impl FnOnce() -> Result<(P, G), Box<dyn Error + Send + Sync>> + Send + 'static,
    allocations: impl Fn() -> u64 + Send + 'static,
) -> ExitCode {
    let trial = trial(format!("{engine}::a_recall_allocates_little_for_each_row"), move || {
        let (provider, _server) = start()?;
        Runtime::new()?.block_on(async move {
            provider.init().await?;
            let count = per_recalled_row(&provider, allocations).await;
            println!("{count:.2} allocations for each row");
            assert!(count <= most, "{count} allocations for each row");
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// How often a recall of 50 rows of 1 KB allocates for each row, as the whole process counts it: nothing else may be at work.
///
/// Stores the rows on a provider that is initialised and empty. `allocations` tells how many there were so far.
pub async fn per_recalled_row(provider: &dyn MemoryProvider, allocations: impl Fn() -> u64) -> f64 {
    let rows = Ledger { payload: PAYLOAD, ..Ledger::new(ROWS) }.rows();
    provider.store_many(rows.collect()).await.expect("stores");
    let query = MemoryQuery::builder().under("plugin-discord").limit(ROWS).build().expect("a valid query");
    let recall = async || {
        for _ in 0..RECALLS {
            assert_eq!(provider.query(&query).await.expect("answers").memories.len(), ROWS);
        }
    };
    // Connections are made, statements are prepared.
    recall().await;
    let before = allocations();
    recall().await;
    (allocations() - before) as f64 / (RECALLS * ROWS) as f64
}
