//! The allocations of a recall: counts, which other work on the machine does not change. Runs alone in its process.

use std::process::ExitCode;

use conformance::allocations;
use conformance::server::postgres::LocalPostgres;
use dhat::{Alloc, HeapStats, Profiler};
use memory_postgres::{PostgresConfig, PostgresMemory};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

/// How often a recall may allocate for each row.
const MOST: f64 = 7.0;

fn main() -> ExitCode {
    let _profiler = Profiler::builder().testing().build();
    let start = || {
        let server = LocalPostgres::start()?;
        Ok((PostgresMemory::open(PostgresConfig::from_url(server.url())?)?, server))
    };
    allocations::run("postgres", MOST, start, || HeapStats::get().total_blocks)
}
