//! Which watches are told of an erasure (E4).

use futures::StreamExt as _;
use memory_core::{
    Change, ChangeKind, Collections, MemoryProvider, MemoryQuery, SpaceSelector, Watch, WatchFrom, WatchToken, Watched,
};

use super::erase;
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, new_document, new_memory, note, put};

chapter!("erasure":
    a_watch_is_told_where_it_may_look ["E4"] needs Erasure,
    a_watch_is_told_where_a_document_was_before ["E4"] needs Erasure,
);

/// A watch that may look at a place is told that something in it was erased, and no other watch is.
async fn a_watch_is_told_where_it_may_look(stage: Stage) -> CaseResult {
    if !stage.harness().can_watch() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a-b", 1)).await?;
    let elsewhere = provider.store(new_memory("c", 2)).await?;
    put(&*provider, new_document(NOTES, "n", "a-b", "text")).await?;
    let within = |path: &str| MemoryQuery::builder().all().within(SpaceSelector::under(path).expect("a path"));
    let mut watches = Vec::new();
    for (conditions, expected) in [
        (MemoryQuery::builder().all(), vec![id.into(), note("n"), elsewhere.into()]),
        (within("a"), vec![id.into(), note("n")]),
        (within("a-b"), vec![id.into(), note("n")]),
        (within("c"), vec![elsewhere.into()]),
        (within("d"), vec![]),
        (MemoryQuery::builder().under("c"), vec![elsewhere.into()]),
    ] {
        let watch = Watch::new(Watched::Both(Collections::All), conditions)?;
        let (_, token) = told(&*provider, watch.clone().from(WatchFrom::Now)).await?;
        watches.push((watch.from(token.into()), expected));
    }
    erase(&*provider, [id.into()]).await?;
    erase(&*provider, [note("n")]).await?;
    erase(&*provider, [elsewhere.into()]).await?;
    for (watch, expected) in watches {
        let (kinds, _) = told(&*provider, watch).await?;
        assert_eq!(kinds, expected.into_iter().map(ChangeKind::Erased).collect::<Vec<_>>());
    }
    // A watch that begins with a snapshot is not told of earlier erasures.
    let all = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    let (kinds, _) = told(&*provider, all.from(WatchFrom::Beginning)).await?;
    assert_eq!(kinds, []);
    Ok(())
}

async fn a_watch_is_told_where_a_document_was_before(stage: Stage) -> CaseResult {
    if !stage.harness().can_watch() || !stage.harness().keeps_history() {
        return Ok(());
    }
    let provider = stage.open().await?;
    put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    let mut watches = Vec::new();
    for (path, is_told) in [("a", true), ("b", true), ("c", false)] {
        let watch = Watch::new(Watched::Documents(Collections::All), MemoryQuery::builder().under(path))?;
        let (_, token) = told(&*provider, watch.clone().from(WatchFrom::Now)).await?;
        watches.push((watch.from(token.into()), is_told));
    }
    put(&*provider, new_document(NOTES, "n", "b", "text")).await?;
    erase(&*provider, [note("n")]).await?;
    for (watch, is_told) in watches {
        let (kinds, _) = told(&*provider, watch).await?;
        assert_eq!(kinds.contains(&ChangeKind::Erased(note("n"))), is_told);
    }
    Ok(())
}

/// The changes of a watch up to the next *reached*, and the token to continue from.
async fn told(
    provider: &dyn MemoryProvider,
    watch: Watch,
) -> std::result::Result<(Vec<ChangeKind>, WatchToken), Box<dyn std::error::Error + Send + Sync>> {
    let (mut changes, mut kinds) = (provider.watch(&watch).await?, Vec::new());
    loop {
        let Change { kind, token } = changes.next().await.ok_or("the watch has ended")??;
        match kind {
            ChangeKind::Reached => return Ok((kinds, token)),
            ChangeKind::Progress => {}
            kind => kinds.push(kind),
        }
    }
}
