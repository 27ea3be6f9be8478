//! A watch is told when its feed has lost changes (C6).

use memory_core::{ChangeKind, Changes, ErrorKind, MemoryProvider, Result, WatchFrom, WatchToken};

use super::{all_shown, everything, next, until_reached};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{kind, new_memory};

chapter!("watch":
    a_feed_that_was_cut_is_reset ["C6"] needs LostChanges,
    a_storage_that_went_back_is_reset ["C6"] needs LostChanges,
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
            assert!(is_reset(&*provider, token).await, "token {number} behind {more} changes");
        }
        // Deliveries from before the backup remain valid.
        let told = until_reached(&mut provider.watch(&everything(before.clone())).await?).await?;
        assert_eq!(told.len(), more);
        store(&*provider, 1).await?;
    }
    Ok(())
}
