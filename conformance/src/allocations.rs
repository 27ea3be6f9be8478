//! How often an engine asks for memory.

use memory_core::{MemoryProvider, MemoryQuery};

use crate::workload::Ledger;

/// How many rows a recall gives, and how many bytes of text each has.
const ROWS: usize = 50;
const PAYLOAD: usize = 1_000;
const RECALLS: usize = 20;

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
