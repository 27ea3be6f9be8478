//! The allocations of a recall: counts, which other work on the machine does not change. Runs alone in its process.

use std::process::ExitCode;

use conformance::allocations;
use conformance::server::mongo::LocalMongo;
use dhat::{Alloc, HeapStats, Profiler};
use memory_mongo::{MongoConfig, MongoMemory};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

/// How often a recall may allocate for each row.
const MOST: f64 = 11.5;

fn main() -> ExitCode {
    let _profiler = Profiler::builder().testing().build();
    let start = || {
        let server = LocalMongo::start()?;
        Ok((MongoMemory::open(MongoConfig::from_url(&server.url())?)?, server))
    };
    allocations::run("mongo", MOST, start, || HeapStats::get().total_blocks)
}
