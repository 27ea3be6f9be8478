//! Calls whose future is dropped before they end (W10).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures::future::try_join_all;
use memory_core::{
    Clock as _, ContextPatch, Document, DocumentId, DocumentQuery, DocumentSelection, Expect, MemoryId, MemoryPatch,
    MemoryProvider, Order, QueryBuilder, Result, Status,
};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    collection, context, document_id, ids, key, ledger, metadata, new_document, new_memory, query, the, walk,
    walk_documents,
};
use crate::random::Random;

chapter!("dropped":
    dropped_stores_are_whole_or_none ["W10", "W1"],
    dropped_stores_can_be_repeated_by_their_key ["W10", "W3", "W11"],
    dropped_batches_are_whole_or_none ["W10", "W1", "W4"],
    dropped_updates_are_whole_or_none ["W10", "W1", "W8"],
    dropped_restores_leave_whole_memories ["W10", "W12"],
    dropped_puts_are_whole_or_none ["W10", "W1", "D1"],
    dropped_put_manys_are_whole_or_none ["W10", "W1", "D7"],
    dropped_removals_are_whole_or_none ["W10", "W1", "D4", "D5"],
    dropped_restores_leave_whole_documents ["W10"],
    dropped_reads_leave_the_provider_working ["W10"],
    dropped_inits_can_be_repeated ["W10", "L1"],
);

/// A caller that drops its calls. The seed of the run says how long it waits for each.
struct Leaver(Random);

impl Leaver {
    fn of(stage: &Stage) -> Self {
        Self(Random::new(stage.settings().seed))
    }

    /// Polls a call, lets other tasks work in between, and drops it. Returns the answer if there was one by then.
    async fn call<T>(&mut self, call: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        // Each order of magnitude is equally likely, from the first poll to long after the engine has answered, so that every round trip is
        // cut.
        let least = 1 << self.0.below(14);
        let mut call = pin!(call);
        for _ in 0..least + self.0.below(least) {
            if let Poll::Ready(answer) = futures::poll!(&mut call) {
                return answer.map(Some);
            }
            tokio::task::yield_now().await;
        }
        Ok(None)
    }
}

/// Another handle on the data of a provider whose calls were dropped. The provider itself gets a full load before it is
/// shut down (rig#1756: cancelled calls left a poisoned pool), which ends the calls in flight.
async fn behind(stage: &Stage, left: &dyn MemoryProvider) -> Result<Arc<dyn MemoryProvider>> {
    let stored = try_join_all((0..50).map(|time| left.store(new_memory("after", time)))).await?;
    let found = walk(left, |query| query.exact("after")).await?;
    assert_eq!(found.len(), stored.len(), "the provider no longer works");
    left.check_health().await?;
    left.shutdown().await?;
    stage.open().await
}

/// A dropped store exists with all its parts and on every path, or not at all.
async fn dropped_stores_are_whole_or_none(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let new = |number: i64| {
        new_memory(&format!("left-{number}"), number)
            .with_context(context(&number.to_string()))
            .with_metadata(metadata(&format!(r#"{{"n":{number}}}"#)))
    };
    let mut answered = BTreeSet::new();
    for number in 0..100 {
        answered.extend(leaver.call(provider.store(new(number))).await?);
    }
    let provider = behind(&stage, &*provider).await?;
    let found = walk(&*provider, |query| query.under("left")).await?;
    assert!(answered.is_subset(&ids(&found).into_iter().collect()), "what was answered is not there");
    assert_eq!(found.len(), BTreeSet::from_iter(found.iter().map(|memory| &memory.space_id)).len(), "stored twice");
    for memory in found {
        let expected = new(memory.created_at.as_millis()).into_memory(memory.id);
        assert_eq!(memory, expected, "half of a memory was stored");
        assert_eq!(provider.get(memory.id).await?.as_ref(), Some(&memory), "get and query disagree");
        assert_eq!(walk(&*provider, |query| query.exact(&memory.space_id)).await?, [memory], "an index disagrees");
    }
    Ok(())
}

/// A caller that repeats a dropped store with the same key gets its one memory.
async fn dropped_stores_can_be_repeated_by_their_key(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let memory = |number: usize| {
        let name = format!("left-{number}");
        new_memory(&name, number as i64).with_idempotency_key(key(&name))
    };
    let mut first = Vec::new();
    for number in 0..100 {
        first.push(leaver.call(provider.store(memory(number))).await?);
    }
    let mut repeated = Vec::new();
    for (number, first) in first.into_iter().enumerate() {
        let again = provider.store(memory(number)).await?;
        assert!(first.is_none_or(|first| first == again), "a key made two memories");
        repeated.push(again);
    }
    assert_eq!(ids(&ledger(&*provider).await?), repeated, "a key made two memories");
    Ok(())
}

/// A dropped batch exists with all its items, or with none (openai-agents-python#4212).
async fn dropped_batches_are_whole_or_none(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let mut answers = Vec::new();
    for number in 0..40 {
        let batch = (0..40).map(|time| new_memory(&format!("left-{number}"), time)).collect();
        answers.push(leaver.call(provider.store_many(batch)).await?);
    }
    let provider = behind(&stage, &*provider).await?;
    for (number, answer) in answers.into_iter().enumerate() {
        let name = format!("left-{number}");
        let found = walk(&*provider, |query| query.exact(&name)).await?.len();
        assert!(found == 40 || found == 0 && answer.is_none(), "{found} of 40 memories of a batch are there");
    }
    Ok(())
}

/// A dropped update has made all of its changes and incremented the revision, or changed nothing.
async fn dropped_updates_are_whole_or_none(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let new = |number: usize| new_memory("left", number as i64);
    let stored = provider.store_many((0..60).map(new).collect()).await?;
    let mut patch = MemoryPatch::new().with_status(Status::Completed).merge_metadata(metadata(r#"{"done":true}"#));
    patch.context = ContextPatch::Set(context("1"));
    let mut answers = Vec::new();
    for id in &stored {
        answers.push(leaver.call(provider.update(*id, patch.clone())).await?);
    }
    let provider = behind(&stage, &*provider).await?;
    let completed = ids(&walk(&*provider, |query| query.under("left").status(Status::Completed)).await?);
    for (number, (id, answer)) in stored.into_iter().zip(answers).enumerate() {
        let memory = the(&*provider, id).await?;
        let before = new(number).into_memory(id);
        if memory == before {
            assert_eq!(answer, None, "what was answered is not there");
        } else {
            assert_eq!(
                Some(&memory),
                patch.apply(&before, stage.namespace().clock.now())?.as_ref(),
                "half of an update"
            );
        }
        assert_eq!(completed.contains(&id), memory != before, "an index disagrees");
    }
    Ok(())
}

/// Each memory of a dropped restore is whole, and repeating the call writes the rest.
async fn dropped_restores_leave_whole_memories(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let memories: Vec<_> = (0..200_u8)
        .map(|number| {
            let memory = new_memory("left", number.into()).with_context(context(&number.to_string()));
            memory.with_idempotency_key(key(&number.to_string())).into_memory(MemoryId::from_bytes([number; 16]))
        })
        .collect();
    for some in memories.chunks(10) {
        let answer = leaver.call(provider.restore(some.to_vec())).await?;
        assert!(answer.is_none_or(|report| report.written == some.len()), "what was answered is not there");
    }
    let provider = behind(&stage, &*provider).await?;
    let found = walk(&*provider, |query| query.exact("left")).await?;
    assert!(found.iter().all(|memory| memories.contains(memory)), "half of a memory was restored");
    let report = provider.restore(memories.clone()).await?;
    assert_eq!(report.conflicts, [0; 0], "a half memory was left behind");
    assert_eq!(report.written + report.equal, memories.len());
    let left = walk(&*provider, |query| query.exact("left").order(Order::OldestFirst)).await?;
    assert_eq!(left, memories);
    Ok(())
}

/// A dropped put exists whole and on every path, or not at all, and the document can be put again.
async fn dropped_puts_are_whole_or_none(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let (documents, now) = (provider.documents(), stage.namespace().clock.now());
    let ids = Vec::from_iter((0..60).map(|number| document_id(&format!("d{number:02}"))));
    let write = |id: &DocumentId, word: &str| {
        let write = new_document("notes", id.as_str(), word, &format!("{word} text of {id}"));
        write.with_metadata(metadata(&format!(r#"{{"word":"{word}"}}"#)))
    };
    // Every second one replaces another.
    try_join_all(ids.iter().step_by(2).map(|id| documents.put(write(id, "old")))).await?;
    let mut answers = Vec::new();
    for id in &ids {
        answers.push(leaver.call(documents.put(write(id, "new"))).await?);
    }
    let documents = behind(&stage, &*provider).await?.documents();
    let mut words = BTreeMap::<_, BTreeSet<_>>::new();
    for (number, (id, answer)) in ids.iter().zip(answers).enumerate() {
        let old = if number % 2 == 0 { Some(write(id, "old").apply(id, None, now)?) } else { None };
        let new = write(id, "new").apply(id, old.as_ref(), now)?;
        let found = documents.get(&collection("notes"), id).await?;
        let is_done = found.as_ref() == Some(&new);
        assert!(is_done || found == old && answer.is_none(), "half of a put was done");
        words.entry(if is_done { "new" } else { "old" }).or_default().extend(found.map(|document| document.id));
    }
    for word in ["new", "old"] {
        let by_word = walk_documents(&*documents, "notes", |query| query.exact(word).text(word).limit(100)).await?;
        let by_word = BTreeSet::from_iter(by_word.into_iter().map(|document| document.id));
        assert_eq!(by_word, words.remove(word).unwrap_or_default(), "an index disagrees about what is {word}");
    }
    for id in &ids {
        let present = documents.get(&collection("notes"), id).await?;
        let expect = present.map_or(Expect::Absent, |document| Expect::Revision(document.revision));
        documents.put(write(id, "again").expect(expect)).await?;
    }
    Ok(())
}

/// A dropped batch of puts has put all of its documents, on every path, or none.
async fn dropped_put_manys_are_whole_or_none(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let documents = provider.documents();
    // Every second one replaces another.
    let write = |place: usize, space: &str| new_document("notes", &format!("d{place:02}"), space, "text");
    let mut answers = Vec::new();
    for number in 0..40 {
        let old = (0..40).step_by(2).map(|place| write(40 * number + place, "old"));
        documents.put_many(old.collect()).await?;
        let new = (0..40).map(|place| write(40 * number + place, &format!("left-{number}")));
        answers.push(leaver.call(documents.put_many(new.collect())).await?);
    }
    let documents = behind(&stage, &*provider).await?.documents();
    let mut done = 0;
    for (number, answer) in answers.into_iter().enumerate() {
        let name = format!("left-{number}");
        let found = walk_documents(&*documents, "notes", |query| query.exact(&name)).await?.len();
        assert!(found == 40 || found == 0 && answer.is_none(), "{found} of 40 documents of a call are there");
        done += found / 40;
    }
    let old = walk_documents(&*documents, "notes", |query| query.exact("old").limit(1_000)).await?.len();
    assert_eq!(old, 20 * (40 - done), "an index disagrees");
    Ok(())
}

/// A dropped removal has removed everything that it selects, from every path, or nothing, and can be repeated.
async fn dropped_removals_are_whole_or_none(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let documents = provider.documents();
    let groups = Vec::from_iter(stored_documents(&stage)?.chunks(10).map(<[_]>::to_vec));
    documents.restore(groups.concat()).await?;
    // By their ids and by their space in turn.
    let selections = groups.iter().enumerate().map(|(number, group)| match number % 2 {
        0 => DocumentSelection::ids(collection("notes"), group.iter().map(|document| document.id.clone())),
        _ => DocumentSelection::matching(DocumentQuery::builder(collection("notes")).exact(&group[0].space_id)),
    });
    let selections = selections.collect::<Result<Vec<_>>>()?;
    let mut answers = Vec::new();
    for selection in &selections {
        answers.push(leaver.call(documents.remove(selection, 10)).await?);
    }
    let documents = behind(&stage, &*provider).await?.documents();
    for ((group, selection), answer) in groups.iter().zip(&selections).zip(answers) {
        let space = &group[0].space_id;
        let found = walk_documents(&*documents, "notes", |query| query.exact(space)).await?.len();
        assert!(found == 0 || found == 10 && answer.is_none(), "{found} of 10 documents of a removal are there");
        let by_word = walk_documents(&*documents, "notes", |query| query.exact(space).text("text")).await?.len();
        assert_eq!(by_word, found, "an index disagrees");
        assert_eq!(documents.remove(selection, 10).await?.len(), found, "the rest can't be removed");
    }
    assert_eq!(documents.collections().await?, [], "a removed document left something behind");
    Ok(())
}

/// Each document of a dropped restore is whole, and repeating the call writes the rest.
async fn dropped_restores_leave_whole_documents(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let (documents, all) = (provider.documents(), stored_documents(&stage)?);
    for some in all.chunks(10) {
        let answer = leaver.call(documents.restore(some.to_vec())).await?;
        assert!(answer.is_none_or(|report| report.written == some.len()), "what was answered is not there");
    }
    let documents = behind(&stage, &*provider).await?.documents();
    let found = walk_documents(&*documents, "notes", |query| query.all()).await?;
    assert!(found.iter().all(|document| all.contains(document)), "half of a document was restored");
    let report = documents.restore(all.clone()).await?;
    assert_eq!(report.conflicts, [0; 0], "a half document was left behind");
    assert_eq!(report.written + report.equal, all.len());
    let by_word = |query: QueryBuilder<_>| query.all().text("text").limit(1_000);
    assert_eq!(walk_documents(&*documents, "notes", by_word).await?.len(), all.len(), "an index disagrees");
    assert_eq!(walk_documents(&*documents, "notes", |query| query.all().order(Order::OldestFirst)).await?, all);
    Ok(())
}

/// Documents to restore, in the order of their ids. Each ten share a space.
fn stored_documents(stage: &Stage) -> Result<Vec<Document>> {
    let stored = |number: usize| {
        let id = format!("d{number:03}");
        let write = new_document("notes", &id, &format!("left-{}", number / 10), &format!("text of {id}"));
        write.apply(&document_id(&id), None, stage.namespace().clock.now())
    };
    (0..250).map(stored).collect()
}

/// Dropped reads keep no connection and no lock.
async fn dropped_reads_leave_the_provider_working(stage: Stage) -> CaseResult {
    let (provider, mut leaver) = (stage.open().await?, Leaver::of(&stage));
    let stored = provider.store_many((0..200).map(|time| new_memory("a", time)).collect()).await?;
    let everything = query(|query| query.all().limit(1_000));
    for (number, id) in stored.into_iter().enumerate() {
        match number % 3 {
            0 => drop(leaver.call(provider.query(&everything)).await?),
            1 => drop(leaver.call(provider.get(id)).await?),
            _ => drop(leaver.call(provider.check_health()).await?),
        }
    }
    let provider = behind(&stage, &*provider).await?;
    assert_eq!(ledger(&*provider).await?.len(), 250);
    Ok(())
}

/// A dropped `init` of an empty namespace can be repeated, on the same handle and on another.
async fn dropped_inits_can_be_repeated(stage: Stage) -> CaseResult {
    let mut leaver = Leaver::of(&stage);
    for _ in 0..6 {
        let stage = stage.elsewhere();
        let handles = [stage.open_uninitialised().await?, stage.open_uninitialised().await?];
        for provider in &handles {
            leaver.call(provider.init()).await?;
        }
        for (number, provider) in handles.iter().enumerate() {
            provider.init().await?;
            provider.store(new_memory("a", number as i64)).await?;
            assert_eq!(ledger(&**provider).await?.len(), number + 1);
        }
        try_join_all(handles.iter().map(|provider| provider.shutdown())).await?;
    }
    Ok(())
}
