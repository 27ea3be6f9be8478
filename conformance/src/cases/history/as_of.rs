//! Records as of an earlier time.

use memory_core::{ErrorKind, MemoryPatch, MemoryProvider, Record, RecordId, Result, Timestamp};

use super::{BEGIN, set_clock, updated};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, context, kind, new_document, new_memory, note, the};

chapter!("history":
    as_of_gives_each_version_between_its_commits ["H3"] needs History,
    as_of_before_the_store_finds_nothing ["H3"] needs History,
    as_of_follows_a_clock_that_goes_back ["H3"] needs History,
    as_of_outside_of_the_history_is_refused ["H4"] needs History,
);

async fn then(provider: &dyn MemoryProvider, id: impl Into<RecordId>, millis: i64) -> Result<Option<Record>> {
    provider.get_as_of(&id.into(), at(BEGIN + millis)).await
}

/// Each version holds from its commit until the millisecond before the next commit.
async fn as_of_gives_each_version_between_its_commits(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let first = the(&*provider, id).await?;
    set_clock(&stage, 10);
    let second = updated(&*provider, id, MemoryPatch::new().set_context(context("[1]"))).await?;
    set_clock(&stage, 20);
    updated(&*provider, id, MemoryPatch::new().clear_context()).await?;
    // Of two versions of one millisecond the later one counts.
    let fourth = updated(&*provider, id, MemoryPatch::new().set_context(context("[2]"))).await?;
    set_clock(&stage, 30);
    for (millis, memory) in [(0, &first), (9, &first), (10, &second), (19, &second), (20, &fourth), (30, &fourth)] {
        assert_eq!(then(&*provider, id, millis).await?, Some(Record::Memory(memory.clone())), "{millis}");
    }
    Ok(())
}

/// Neither a memory nor a document exists before its store, whatever its createdAt.
async fn as_of_before_the_store_finds_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    set_clock(&stage, 10);
    let id = provider.store(new_memory("a", 0)).await?;
    let ids = provider.store_many(vec![new_memory("a", 1), new_memory("b", -5)]).await?;
    provider.documents().put(new_document(NOTES, "n", "a", "text")).await?;
    set_clock(&stage, 20);
    for record in ids.into_iter().chain([id]).map(RecordId::Memory).chain([note("n")]) {
        assert_eq!(then(&*provider, record.clone(), 9).await?, None);
        assert!(then(&*provider, record, 10).await?.is_some());
    }
    assert_eq!(then(&*provider, note("none"), 15).await?, None);
    Ok(())
}

/// The recorded time of each commit counts, even if the clock went back.
async fn as_of_follows_a_clock_that_goes_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    set_clock(&stage, 50);
    let second = updated(&*provider, id, MemoryPatch::new().set_context(context("2"))).await?;
    set_clock(&stage, 20);
    let third = updated(&*provider, id, MemoryPatch::new().set_context(context("3"))).await?;
    set_clock(&stage, 60);
    assert_eq!(then(&*provider, id, 19).await?.map(|record| record.revision().get()), Some(1));
    for millis in [20, 49, 50, 60] {
        assert_eq!(then(&*provider, id, millis).await?, Some(Record::Memory(third.clone())), "{millis}");
    }
    assert_eq!(second.revision.get(), 2);
    Ok(())
}

/// A time before the beginning of the history, or in the future, is refused.
async fn as_of_outside_of_the_history_is_refused(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 0)).await?;
    set_clock(&stage, 10);
    // A handle that is opened later does not change the beginning.
    let later = stage.open().await?;
    for millis in [-1, 11] {
        for record in [id.into(), note("none")] {
            for provider in [&provider, &later] {
                assert_eq!(kind(then(&**provider, record.clone(), millis).await), Some(ErrorKind::InvalidInput));
            }
        }
    }
    for time in [Timestamp::MIN, Timestamp::MAX, at(0)] {
        assert_eq!(kind(provider.get_as_of(&id.into(), time).await), Some(ErrorKind::InvalidInput));
    }
    assert!(then(&*later, id, 0).await?.is_some() && then(&*later, id, 10).await?.is_some());
    Ok(())
}
