//! The feed of changes after large calls.

use std::time::Instant;

use memory_core::engine::{Access, FeedPosition, FeedWrite, Reader};

use super::*;

/// A transaction has one time in the log, from which each page after it has to start again.
pub(crate) async fn a_page_of_the_feed_has_many_removals() -> CaseResult {
    const COUNT: usize = 2_000;
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let engine = MongoEngine::open(&config(&server.url())).await?;
    let notes = Collection::parse("notes")?;
    let write = |number: usize| {
        let (space, content) = (SpaceId::parse("a").expect("a space"), Content::parse("x").expect("a content"));
        DocumentWrite::new(notes.clone(), space, content, at(number as i64))
    };
    provider.documents().put_many((0..COUNT).map(write).collect()).await?;
    let until = || Instant::now() + Duration::from_secs(60);
    let newest = engine.run(Access::ReadLatest, until(), Arc::new(()), |reader, ()| Box::pin(reader.newest_change()));
    let before = newest.await?.position;
    let all = DocumentSelection::matching(DocumentQuery::builder(notes.clone()).under("a"))?;
    assert_eq!(provider.documents().remove(&all, COUNT).await?.len(), COUNT);
    provider.store(event("b", 1)).await?;
    let (mut behind, mut removed, mut pages) = (before, 0, 0);
    loop {
        let page = engine.run(Access::ReadLatest, until(), Arc::new(behind), |reader, behind: &FeedPosition| {
            Box::pin(reader.changes(behind, 256))
        });
        let page = page.await?;
        pages += usize::from(!page.entries.is_empty());
        removed += page.entries.iter().filter(|entry| matches!(entry.write, FeedWrite::Removal { .. })).count();
        if page.entries.iter().any(|entry| matches!(entry.write, FeedWrite::Memory { .. })) {
            break;
        }
        behind = page.reached;
    }
    assert_eq!((removed, pages), (COUNT, 2), "the removals, and behind them what came later");
    engine.close().await?;
    Ok(())
}

/// To check the end of the feed that a token has, the log need not be read.
pub(crate) async fn a_watch_that_continues_reads_the_log_once() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let watch = Watch::new(Watched::Memories, MemoryQuery::builder().all())?;
    let token = provider.watch(&watch).await?.next().await.ok_or("the watch has ended")??.token;
    let opened = async || {
        let status = database.run_command(doc! { "serverStatus": 1 }).await?;
        let stages = status.get_document("metrics").and_then(|metrics| metrics.get_document("aggStageCounters"));
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(stages?.get_i64("$changeStream")?)
    };
    let before = opened().await?;
    let _continued = provider.watch(&watch.from(token.into())).await?;
    assert_eq!(opened().await? - before, 1);
    Ok(())
}
