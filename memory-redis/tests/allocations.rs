//! What a recall costs the allocator: counts, which no other work on the machine changes. Alone in its process.

use std::process::ExitCode;

use conformance::allocations::per_recalled_row;
use conformance::server::redis::LocalRedis;
use conformance::server::trial;
use dhat::{Alloc, HeapStats, Profiler};
use libtest_mimic::Arguments;
use memory_core::MemoryProvider;
use memory_redis::{RedisConfig, RedisMemory};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

/// How often a recall may allocate for each row.
const MOST: f64 = 8.0;

fn main() -> ExitCode {
    let trial = trial("redis::a_recall_allocates_little_for_each_row", || {
        let server = LocalRedis::start()?;
        check(&server.url())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

#[tokio::main]
async fn check(url: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let provider = RedisMemory::open(RedisConfig::from_url(url)?)?;
    provider.init().await?;
    let _profiler = Profiler::builder().testing().build();
    let count = per_recalled_row(&provider, || HeapStats::get().total_blocks).await;
    println!("{count:.2} allocations for each row");
    assert!(count <= MOST, "{count} allocations for each row");
    Ok(())
}
