//! How much memory a query by text holds at once. Runs alone in its process.

use std::process::ExitCode;

use conformance::CaseResult;
use conformance::server::async_trial;
use conformance::server::mongo::LocalMongo;
use dhat::{Alloc, HeapStats, Profiler};
use libtest_mimic::Arguments;
use memory_core::{
    Collection, Content, DocumentQuery, DocumentWrite, MAX_PAGE_BYTES, MemoryProvider, SpaceId, Timestamp,
};
use memory_mongo::{MongoConfig, MongoMemory};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc;

/// The number of documents with the word, each of the largest size.
const DOCUMENTS: i64 = 96;
const MEBIBYTE: usize = 1 << 20;
/// Limit of the held bytes: the page, and about as much again in rows and in the answer of the server.
const MOST: usize = 48 * MEBIBYTE;

fn main() -> ExitCode {
    let _profiler = Profiler::builder().testing().build();
    let trial = async_trial("mongo::a_query_by_text_holds_little_more_than_its_page", a_query_by_text_holds_little);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

async fn a_query_by_text_holds_little() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = MongoMemory::open(MongoConfig::from_url(&server.url())?)?;
    provider.init().await?;
    let (documents, collection) = (provider.documents(), Collection::parse("notes")?);
    let text = Content::parse(format!("cat{}", ".".repeat(MEBIBYTE - 3)))?;
    for number in 0..DOCUMENTS {
        let (space, at) = (SpaceId::parse("a")?, Timestamp::from_millis(number)?);
        documents.put(DocumentWrite::new(collection.clone(), space, text.clone(), at)).await?;
    }
    let query = DocumentQuery::builder(collection).all().text("cat").limit(1_000).build()?;
    let page = documents.query(&query).await?;
    assert_eq!(page.documents.len(), MAX_PAGE_BYTES / MEBIBYTE - 1, "a document is a little more than its text");
    let most = HeapStats::get().max_bytes;
    println!("{} MiB at most", most / MEBIBYTE);
    assert!(most < MOST, "{most} bytes");
    Ok(())
}
