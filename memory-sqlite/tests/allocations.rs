//! The allocations of a recall: counts, which other work on the machine does not change. Runs alone in its process.

use conformance::allocations::per_recalled_row;
use dhat::{Alloc, HeapStats, Profiler};
use memory_core::{MemoryProvider, MemoryQuery};
use memory_sqlite::SqliteMemory;

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

const RECALLS: usize = 500;

#[tokio::test]
async fn a_recall_allocates_six_times_for_each_row_at_most_and_keeps_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let provider = SqliteMemory::open(folder.path().join("memory.db")).expect("a configuration");
    provider.init().await.expect("opens");
    let _profiler = Profiler::builder().testing().build();
    let count = per_recalled_row(&provider, || HeapStats::get().total_blocks).await;
    println!("{count:.2} allocations for each row");
    assert!(count <= 6.0, "{count} allocations for each row");

    let query = MemoryQuery::builder().under("plugin-discord").build().expect("a query");
    let before = HeapStats::get().curr_bytes;
    for _ in 0..RECALLS {
        provider.query(&query).await.expect("a page");
    }
    let kept = HeapStats::get().curr_bytes.saturating_sub(before) / RECALLS;
    println!("{kept} bytes are kept of each recall");
    assert!(kept <= 100, "{kept} bytes are kept of each recall");
}
