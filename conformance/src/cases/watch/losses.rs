//! A watch is told when its feed has lost changes (C6).

use memory_core::{
    ChangeKind, Changes, Erasure, ErrorKind, MemoryPatch, MemoryProvider, Record, Result, Status, WatchFrom, WatchToken,
};

use super::{all_shown, everything, next, until_reached};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{kind, new_memory};

chapter!("watch":
    a_feed_that_was_cut_is_reset ["C6"] needs LostChanges,
    a_storage_that_went_back_is_reset ["C6"] needs LostChanges,
    a_watch_that_has_delivered_what_is_lost_is_reset ["C6"] needs LostChanges,
);

async fn token_now(provider: &dyn MemoryProvider) -> Result<WatchToken> {
    Ok(next(&mut provider.watch(&everything(WatchFrom::Now)).await?).await?.token)
}

/// Stores memories one after the other.
async fn store(provider: &dyn MemoryProvider, count: i64) -> Result<()> {
    for number in 0..count {
        provider.store(new_memory("a", number)).await?;
    }
    Ok(())
}

async fn is_reset(provider: &dyn MemoryProvider, token: &WatchToken) -> bool {
    kind(provider.watch(&everything(token.clone())).await) == Some(ErrorKind::FeedReset)
}

/// The first change of a watch, and its token.
async fn first(provider: &dyn MemoryProvider, from: WatchFrom) -> Result<(ChangeKind, WatchToken)> {
    let change = next(&mut provider.watch(&everything(from)).await?).await?;
    Ok((change.kind, change.token))
}

/// The error with which a watch ends.
async fn end(changes: &mut Changes) -> ErrorKind {
    loop {
        if let Err(error) = next(changes).await {
            return error.kind();
        }
    }
}

async fn a_feed_that_was_cut_is_reset(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let empty = token_now(&*provider).await?;
    store(&*provider, 150).await?;
    let old = token_now(&*provider).await?;
    let mut behind = provider.watch(&everything(old.clone())).await?;
    let mut snapshot = provider.watch(&everything(WatchFrom::Beginning)).await?;
    let in_snapshot = next(&mut snapshot).await?.token;
    store(&*provider, 20).await?;
    let newest = token_now(&*provider).await?;
    stage.harness().drop_changes(stage.namespace()).await?;
    for (token, name) in [(&empty, "empty"), (&old, "old"), (&in_snapshot, "in the snapshot")] {
        assert!(is_reset(&*provider, token).await, "{name}");
    }
    assert_eq!(end(&mut behind).await, ErrorKind::FeedReset, "one that was begun before");
    assert_eq!(end(&mut snapshot).await, ErrorKind::FeedReset, "one that is in its snapshot");
    // Nothing is missing after the newest change.
    provider.store(new_memory("next", 1)).await?;
    let told = until_reached(&mut provider.watch(&everything(newest)).await?).await?;
    assert_eq!(all_shown(&told), ["stored next"]);
    // A watch that begins with a snapshot has everything.
    let told = until_reached(&mut provider.watch(&everything(WatchFrom::Beginning)).await?).await?;
    let records = told.iter().filter(|change| matches!(change.kind, ChangeKind::Stored(_)));
    assert_eq!(records.count(), 171);
    Ok(())
}

/// A backup brings back an earlier feed, which then grows beyond the tokens that were given in between.
async fn a_storage_that_went_back_is_reset(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store(&*provider, 10).await?;
    let before = token_now(&*provider).await?;
    provider.shutdown().await?;
    stage.harness().back_up(stage.namespace()).await?;
    let provider = stage.open().await?;
    let mut lost = Vec::new();
    for _ in 0..5 {
        store(&*provider, 1).await?;
        lost.push(token_now(&*provider).await?);
    }
    provider.shutdown().await?;
    stage.harness().go_back(stage.namespace()).await?;
    let provider = stage.open().await?;
    for more in 0..8 {
        for (number, token) in lost.iter().enumerate() {
            assert!(is_reset(&*provider, token).await, "token {number} after {more} changes");
        }
        // Deliveries from before the backup remain valid.
        let told = until_reached(&mut provider.watch(&everything(before.clone())).await?).await?;
        assert_eq!(told.len(), more);
        store(&*provider, 1).await?;
    }
    Ok(())
}

/// A watch delivers records as they are now, so an early page of the feed may show the effects of later changes. Then the
/// storage goes back to a state that has the page, but not these changes.
async fn a_watch_that_has_delivered_what_is_lost_is_reset(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let before = token_now(&*provider).await?;
    let changed = provider.store(new_memory("a", 1)).await?;
    let erased = provider.store(new_memory("a", 2)).await?;
    let (_, kept) = first(&*provider, WatchFrom::from(before.clone())).await?;
    // More than any engine reads at once.
    for _ in 0..3 {
        provider.store_many((0..400).map(|number| new_memory("a", number)).collect()).await?;
    }
    provider.shutdown().await?;
    stage.harness().back_up(stage.namespace()).await?;
    let provider = stage.open().await?;
    provider.update(changed, MemoryPatch::new().with_status(Status::Failed)).await?;
    let can_erase = stage.harness().can_erase();
    if can_erase {
        provider.erase(&Erasure::records([erased.into()], "asked for")?).await?;
    }
    // One that knows the update, one that has missed the erased memory (if the engine can erase), and one that has read both.
    let (kind, updated) = first(&*provider, WatchFrom::from(before)).await?;
    assert!(matches!(&kind, ChangeKind::Updated(Record::Memory(memory)) if memory.id == changed), "{kind:?}");
    let (kind, missed) = first(&*provider, WatchFrom::from(updated.clone())).await?;
    assert!(
        matches!(&kind, ChangeKind::Stored(Record::Memory(memory)) if (memory.id != erased) == can_erase),
        "{kind:?}"
    );
    let (_, snapshot) = first(&*provider, WatchFrom::Beginning).await?;
    provider.shutdown().await?;
    stage.harness().go_back(stage.namespace()).await?;
    let provider = stage.open().await?;
    for (token, name) in [(&updated, "updated"), (&missed, "missed"), (&snapshot, "in the snapshot")] {
        assert!(is_reset(&*provider, token).await, "{name}");
    }
    let told = until_reached(&mut provider.watch(&everything(kept)).await?).await?;
    assert_eq!(told.len(), 1_201, "a token of a watch that has seen no lost change is valid");
    Ok(())
}
