//! How a watch ends, and what it holds until then (C7).

use std::sync::Arc;

use futures::{StreamExt as _, poll};
use memory_core::{ChangeKind, ErrorKind, MemoryPatch, WatchFrom};

use super::{everything, next, next_kind, shown, until_reached};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{context, kind, new_memory};

chapter!("watch":
    a_watch_ends_with_its_handle ["C7", "L2"] needs Feed,
    a_watch_that_nobody_polls_holds_up_nothing ["C7", "C3"] needs Feed,
    watches_come_and_go ["C7"] needs Feed,
    a_thousand_watches_hear_of_a_change ["C7"] needs Feed,
);

async fn a_watch_ends_with_its_handle(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let unopened = stage.open_uninitialised().await?;
    assert_eq!(kind(unopened.watch(&everything(WatchFrom::Now)).await), Some(ErrorKind::Closed));
    let mut waiting = provider.watch(&everything(WatchFrom::Now)).await?;
    let mut idle = provider.watch(&everything(WatchFrom::Now)).await?;
    let mut others = other.watch(&everything(WatchFrom::Now)).await?;
    next(&mut waiting).await?;
    next(&mut others).await?;
    let waits = tokio::spawn(async move {
        let end = next(&mut waiting).await;
        (end, waiting)
    });
    // The call may not have started to wait yet.
    tokio::task::yield_now().await;
    provider.shutdown().await?;
    let (end, mut waiting) = waits.await?;
    assert_eq!(kind(end), Some(ErrorKind::Closed));
    assert!(waiting.next().await.is_none(), "nothing follows an error");
    assert_eq!(next(&mut idle).await?.kind, ChangeKind::Reached, "what it had is delivered");
    assert_eq!(kind(next(&mut idle).await), Some(ErrorKind::Closed));
    assert_eq!(kind(provider.watch(&everything(WatchFrom::Now)).await), Some(ErrorKind::Closed));
    other.store(new_memory("a", 1)).await?;
    assert_eq!(shown(&next_kind(&mut others).await?), "stored a");
    Ok(())
}

/// A slow consumer gets everything in the end, and nobody waits for it.
async fn a_watch_that_nobody_polls_holds_up_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids = provider.store_many((0..300).map(|number| new_memory("a", number)).collect()).await?;
    let mut feed = provider.watch(&everything(WatchFrom::Now)).await?;
    let mut snapshot = provider.watch(&everything(WatchFrom::Beginning)).await?;
    // Each is in the middle of a page.
    next(&mut snapshot).await?;
    next(&mut feed).await?;
    provider.store(new_memory("first", 1)).await?;
    next_kind(&mut feed).await?;
    for id in &ids {
        provider.update(*id, MemoryPatch::new().set_context(context("1"))).await?;
    }
    provider.store_many((0..2_000).map(|number| new_memory("b", number)).collect()).await?;
    provider.check_health().await?;
    let mut told = 0;
    while told < 2_300 {
        told += usize::from(next(&mut feed).await?.kind != ChangeKind::Reached);
    }
    let rest = until_reached(&mut snapshot).await?;
    assert!(rest.len() >= 299 + 2_300, "{} changes", rest.len());
    Ok(())
}

async fn watches_come_and_go(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..200 {
        let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
        next(&mut changes).await?;
        match number % 3 {
            // In the middle of waiting.
            0 => assert!(poll!(changes.next()).is_pending(), "nothing has changed"),
            1 => {
                provider.store(new_memory("a", number)).await?;
                next_kind(&mut changes).await?;
            }
            _ => {}
        }
    }
    provider.store(new_memory("last", 1)).await?;
    provider.shutdown().await?;
    Ok(())
}

async fn a_thousand_watches_hear_of_a_change(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut begun = Vec::new();
    for number in 0..1_000 {
        let watch = super::watch(|query| query.under(format!("a-{}", number % 100)));
        let mut changes = provider.watch(&watch).await?;
        next(&mut changes).await?;
        begun.push(tokio::spawn(async move { next_kind(&mut changes).await }));
    }
    let provider = Arc::clone(&provider);
    provider.store_many((0..100).map(|number| new_memory(&format!("a-{number}"), number)).collect()).await?;
    for (number, watch) in begun.into_iter().enumerate() {
        assert_eq!(shown(&watch.await??), format!("stored a-{}", number % 100));
    }
    Ok(())
}
