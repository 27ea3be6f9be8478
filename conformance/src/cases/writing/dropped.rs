//! Calls whose caller goes away before they are over.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use futures::future::try_join_all;
use memory_core::{ContextPatch, Expect, MemoryId, MemoryPatch, MemoryProvider, Revision, Status};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    collection, context, document_id, key, ledger, metadata, new_document, new_memory, query, the, walk,
};
use crate::random::Random;

chapter!("dropped":
    dropped_stores_are_whole_or_none ["W10"],
    dropped_stores_can_be_repeated_by_their_key ["W10", "W3", "W11"],
    dropped_batches_are_whole_or_none ["W10", "W4"],
    dropped_updates_are_whole_or_none ["W10", "W8"],
    dropped_restores_leave_whole_memories ["W10", "W12"],
    dropped_puts_are_whole_or_none ["W10", "D1"],
    dropped_reads_leave_the_provider_working ["W10"],
    dropped_inits_can_be_repeated ["W10", "L1"],
    calls_dropped_at_random_points_are_whole_or_none ["W10", "W1", "W3", "W4"],
);

/// Polls a call as often as it is told, lets others work in between, and drops it; its answer if there was one by then.
async fn drop_after<T>(polls: usize, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    for _ in 0..polls {
        if let Poll::Ready(answer) = futures::poll!(&mut call) {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// How often the call with this number is polled: 0 to 6 times.
fn polls(number: usize) -> usize {
    number % 7
}

/// A provider that was left by many callers takes a full load (rig#1756: cancelled calls left a poisoned pool).
async fn assert_works(provider: &dyn MemoryProvider) -> memory_core::Result<()> {
    let stored = try_join_all((0..50).map(|time| provider.store(new_memory("after", time)))).await?;
    let found = walk(provider, |query| query.exact("after")).await?;
    assert_eq!(found.len(), stored.len(), "the provider does not work any more");
    provider.check_health().await?;
    Ok(())
}

/// A store that its caller left is there with all its parts and on every path, or not at all.
async fn dropped_stores_are_whole_or_none(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..100 {
        let memory = new_memory(&format!("left-{number}"), number as i64)
            .with_context(context(&number.to_string()))
            .with_metadata(metadata(&format!(r#"{{"n":{number}}}"#)));
        drop_after(polls(number), provider.store(memory)).await;
    }
    assert_works(&*provider).await?;
    // What may still come through belongs to the handle that was left.
    provider.shutdown().await?;
    let provider = stage.open().await?;
    let found = walk(&*provider, |query| query.under("left")).await?;
    assert_eq!(found.len(), BTreeSet::from_iter(found.iter().map(|memory| &memory.space_id)).len(), "stored twice");
    for memory in found {
        let number = memory.created_at.as_millis();
        let expected = new_memory(&format!("left-{number}"), number)
            .with_context(context(&number.to_string()))
            .with_metadata(metadata(&format!(r#"{{"n":{number}}}"#)));
        assert_eq!(memory, expected.into_memory(memory.id), "half of a memory was stored");
        assert_eq!(provider.get(memory.id).await?.as_ref(), Some(&memory), "get and query disagree");
        assert_eq!(walk(&*provider, |query| query.exact(&memory.space_id)).await?, [memory], "an index disagrees");
    }
    Ok(())
}

/// A caller that left comes back with the same key and gets its one memory.
async fn dropped_stores_can_be_repeated_by_their_key(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memory = |number: usize| {
        let name = format!("left-{number}");
        new_memory(&name, number as i64).with_idempotency_key(key(&name))
    };
    for number in 0..100 {
        drop_after(polls(number), provider.store(memory(number))).await;
    }
    let mut repeated = Vec::new();
    for number in 0..100 {
        repeated.push(provider.store(memory(number)).await?);
    }
    let found = ledger(&*provider).await?;
    assert_eq!(found.iter().map(|memory| memory.id).collect::<Vec<_>>(), repeated, "a key made two memories");
    Ok(())
}

/// A batch that its caller left is there with all its items, or none (openai-agents-python#4212).
async fn dropped_batches_are_whole_or_none(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..30 {
        let batch = (0..40).map(|time| new_memory(&format!("left-{number}"), time)).collect();
        drop_after(polls(number), provider.store_many(batch)).await;
    }
    assert_works(&*provider).await?;
    for number in 0..30 {
        let name = format!("left-{number}");
        let count = walk(&*provider, |query| query.exact(&name)).await?.len();
        assert!(count == 0 || count == 40, "{count} of 40 memories of a batch are there");
    }
    Ok(())
}

/// An update that its caller left changed all that it names and counted, or nothing.
async fn dropped_updates_are_whole_or_none(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let new = |number: usize| new_memory("left", number as i64);
    let stored = provider.store_many((0..50).map(new).collect()).await?;
    for (number, id) in stored.iter().enumerate() {
        let mut patch = MemoryPatch::new().with_status(Status::Completed).merge_metadata(metadata(r#"{"done":true}"#));
        patch.context = ContextPatch::Set(context("1"));
        drop_after(polls(number), provider.update(*id, patch)).await;
    }
    assert_works(&*provider).await?;
    for (number, id) in stored.into_iter().enumerate() {
        let memory = the(&*provider, id).await?;
        if memory.revision == Revision::FIRST {
            assert_eq!(memory, new(number).into_memory(id), "half of an update was done");
        } else {
            let parts = (memory.revision.get(), memory.status, memory.context.is_some(), memory.updated_at.is_some());
            assert_eq!(parts, (2, Status::Completed, true, true), "half of an update was done");
            assert_eq!(memory.metadata, metadata(r#"{"done":true}"#), "half of an update was done");
        }
    }
    Ok(())
}

/// Each memory of a restore that its caller left is whole, and to repeat it writes the rest.
async fn dropped_restores_leave_whole_memories(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memories = (0..60_u8).map(|number| {
        let memory = new_memory("left", number.into()).with_context(context(&number.to_string()));
        memory.with_idempotency_key(key(&number.to_string())).into_memory(MemoryId::from_bytes([number; 16]))
    });
    let memories: Vec<_> = memories.collect();
    for number in 0..14 {
        drop_after(polls(number), provider.restore(memories.clone())).await;
    }
    let report = provider.restore(memories.clone()).await?;
    assert_eq!(report.conflicts, [0; 0], "a half memory was left behind");
    assert_eq!(report.written + report.equal, memories.len());
    assert_eq!(ledger(&*provider).await?, memories);
    Ok(())
}

/// A put that its caller left is there whole, or not at all, and the document can be put again.
async fn dropped_puts_are_whole_or_none(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (documents, notes) = (provider.documents(), collection("notes"));
    for number in 0..50 {
        let write = new_document("notes", &format!("d{number}"), "left", &format!("text {number}"));
        drop_after(polls(number), documents.put(write.with_metadata(metadata(r#"{"a":1}"#)))).await;
    }
    for number in 0..50 {
        let id = document_id(&format!("d{number}"));
        let expect = match documents.get(&notes, &id).await? {
            None => continue,
            Some(document) => {
                assert_eq!(document.content.as_str(), format!("text {number}"), "half of a put was done");
                assert_eq!((document.revision, document.metadata), (Revision::FIRST, metadata(r#"{"a":1}"#)));
                Expect::Revision(Revision::FIRST)
            }
        };
        let again = new_document("notes", id.as_str(), "left", "again").expect(expect);
        assert_eq!(documents.put(again).await?.revision.get(), 2);
    }
    assert_works(&*provider).await?;
    Ok(())
}

/// Readers that leave take no connection and no lock with them.
async fn dropped_reads_leave_the_provider_working(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many((0..200).map(|time| new_memory("a", time)).collect()).await?;
    let everything = query(|query| query.all().limit(1_000));
    for (number, id) in stored.into_iter().enumerate() {
        match number % 3 {
            0 => drop(drop_after(polls(number), provider.query(&everything)).await),
            1 => drop(drop_after(polls(number), provider.get(id)).await),
            _ => drop(drop_after(polls(number), provider.check_health()).await),
        }
    }
    assert_works(&*provider).await?;
    assert_eq!(ledger(&*provider).await?.len(), 250);
    Ok(())
}

/// A start that was broken off can be tried again, on the same handle and on another.
async fn dropped_inits_can_be_repeated(stage: Stage) -> CaseResult {
    for number in 0..14 {
        let provider = stage.open_uninitialised().await?;
        drop_after(polls(number), provider.init()).await;
        provider.init().await?;
        provider.store(new_memory("a", number as i64)).await?;
        assert_eq!(ledger(&*provider).await?.len(), number + 1);
        provider.shutdown().await?;
    }
    Ok(())
}

/// However far a call has come when its caller leaves: what was answered is there, once, and the rest is there as a whole or
/// not at all.
async fn calls_dropped_at_random_points_are_whole_or_none(stage: Stage) -> CaseResult {
    let seed = stage.settings().seed;
    let mut random = Random::new(seed);
    let provider = stage.open().await?;
    let mut answered = Vec::new();
    for number in 0..120 {
        let name = format!("left-{number}");
        let (memory, batch) = (new_memory(&name, 1), vec![new_memory(&name, 1); 3]);
        // Of each order of magnitude alike, from the first poll to long after the engine has answered.
        let most = 1 << random.below(14);
        let polls = random.below(most);
        let is_answered = match number % 3 {
            0 => drop_after(polls, provider.store(memory)).await.transpose()?.is_some(),
            1 => {
                drop_after(polls, provider.store(memory.with_idempotency_key(key(&name)))).await.transpose()?.is_some()
            }
            _ => drop_after(polls, provider.store_many(batch)).await.transpose()?.is_some(),
        };
        answered.push((name, if number % 3 == 2 { 3 } else { 1 }, is_answered));
    }
    assert_works(&*provider).await?;
    // What may still come through belongs to the handle that was left.
    provider.shutdown().await?;
    let provider = stage.open().await?;
    for (name, whole, is_answered) in answered {
        let found = walk(&*provider, |query| query.exact(&name)).await?.len();
        assert!(found == whole || found == 0 && !is_answered, "{name}: {found} of {whole} are there: seed {seed}");
    }
    Ok(())
}
