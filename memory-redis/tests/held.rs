//! How much memory a query holds at once, however long the records are. Runs alone in its process.

use std::process::ExitCode;

use conformance::server::redis::LocalRedis;
use conformance::server::trial;
use dhat::{Alloc, HeapStats, Profiler};
use libtest_mimic::Arguments;
use memory_core::{Collection, Content, DocumentQuery, DocumentWrite, MemoryProvider, SpaceId, Timestamp};
use memory_redis::RedisConfig;

mod common;
use common::{Case, open, run};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

/// Limit of a query's memory in bytes: a page of 16 MiB, the rows that are read for it at once, and the part of them
/// that is still in the connection.
const MOST: usize = 40 << 20;

fn main() -> ExitCode {
    let trial =
        trial("redis::a_query_holds_little_more_than_its_page", || run(a_query_holds_little_more_than_its_page()));
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// Each collection has far more than a page: rows whose lengths are asked for, and the longest of the others.
async fn a_query_holds_little_more_than_its_page() -> Case {
    let server = LocalRedis::start()?;
    for (name, count, length) in [("short", 1_001, 60_000), ("long", 40, 1 << 20)] {
        let mut config = RedisConfig::from_url(&server.url())?;
        config.namespace = name.to_owned();
        let (provider, collection) = (open(config).await?, Collection::parse("notes")?);
        let (documents, word) = (provider.documents(), "apple ");
        for number in 0..count {
            let content = Content::parse(format!("{word}{}", "x".repeat(length - word.len())))?;
            let (space, time) = (SpaceId::parse("a-b")?, Timestamp::from_millis(number)?);
            documents.put(DocumentWrite::new(collection.clone(), space, content, time)).await?;
        }
        let query = DocumentQuery::builder(collection).all().text(word).limit(1_000).build()?;
        // It counts from here on.
        let _profiler = Profiler::builder().testing().build();
        let page = documents.query(&query).await?.documents;
        let held = HeapStats::get().max_bytes;
        println!("{} rows of {length} bytes: {held} bytes were held at most", page.len());
        assert!(page.len() * length >= 15 << 20, "a page of {} rows", page.len());
        assert!(held <= MOST, "{held} bytes were held for {} rows of {length} bytes", page.len());
    }
    Ok(())
}
