//! Counts the allocations of a query.

use std::error::Error;
use std::process::ExitCode;

use libtest_mimic::Arguments;
use memory_core::{MemoryProvider, MemoryQuery};
use tokio::runtime::Runtime;

use crate::server::trial;
use crate::workload::Ledger;

/// The limit of each recall, in rows, and the text of each row, in bytes.
const ROWS: usize = 50;
const PAYLOAD: usize = 1_000;
const RECALLS: usize = 20;

/// Fails if a query allocates more than `most` times per row. Runs as the `main` of a test with `harness = false`.
/// `start` returns a provider on a new server, and a guard that ends the server when it is dropped; `allocations`
/// returns how many allocations the process has made so far.
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

/// The number of allocations per row when a query returns 50 rows of 1 KB. It counts those of the whole process, so nothing else may run.
///
/// Stores its rows on `provider`, which must be initialised and empty. `allocations` returns how many allocations the process has made so
/// far.
pub async fn per_recalled_row(provider: &dyn MemoryProvider, allocations: impl Fn() -> u64) -> f64 {
    let rows = Ledger { payload: PAYLOAD, ..Ledger::new(ROWS) }.rows();
    provider.store_many(rows.collect()).await.expect("stores");
    let query = MemoryQuery::builder().under("plugin-discord").limit(ROWS).build().expect("a valid query");
    let recall = async || {
        for _ in 0..RECALLS {
            assert_eq!(provider.query(&query).await.expect("answers").memories.len(), ROWS);
        }
    };
    // The first round opens connections and prepares statements, so it is not counted.
    recall().await;
    let before = allocations();
    recall().await;
    (allocations() - before) as f64 / (RECALLS * ROWS) as f64
}
