//! The allocations of a recall: counts, which other work on the machine does not change. Runs alone in its process.

use std::process::ExitCode;

use conformance::allocations;
use conformance::server::redis::LocalRedis;
use dhat::{Alloc, HeapStats, Profiler};
use memory_redis::{RedisConfig, RedisMemory};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

/// How often a recall may allocate for each row.
const MOST: f64 = 8.0;

fn main() -> ExitCode {
    let _profiler = Profiler::builder().testing().build();
    let start = || {
        let server = LocalRedis::start()?;
        Ok((RedisMemory::open(RedisConfig::from_url(&server.url())?)?, server))
    };
    allocations::run("redis", MOST, start, || HeapStats::get().total_blocks)
}
