//! What a recall costs the allocator: counts, which no other work on the machine changes. Alone in its process.

use conformance::allocations::per_recalled_row;
use dhat::{Alloc, HeapStats, Profiler};
use memory_core::MemoryProvider;
use memory_sqlite::SqliteMemory;

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

#[tokio::test]
async fn a_recall_allocates_six_times_for_each_row_at_most() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let provider = SqliteMemory::open(folder.path().join("memory.db")).expect("a configuration");
    provider.init().await.expect("opens");
    let _profiler = Profiler::builder().testing().build();
    let count = per_recalled_row(&provider, || HeapStats::get().total_blocks).await;
    println!("{count:.2} allocations for each row");
    assert!(count <= 6.0, "{count} allocations for each row");
}
