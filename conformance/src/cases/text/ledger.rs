//! The words of the ledger: T3.

use std::collections::BTreeSet;

use memory_core::{ErrorKind, MemoryPatch, MemoryProvider, NewMemory, Result, SpaceSelector, Status};

use super::{NOTES, found};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, metadata, new_document, new_memory, query, trigger, walk};

chapter!("text":
    ledger_is_found_by_its_strings ["T3", "T1"],
    ledger_text_follows_updates ["T3"],
    ledger_text_goes_with_every_bound ["T3", "T2"],
    ledger_text_off_is_unsupported ["T3"],
    ledger_text_switched_on_later_finds_old_rows ["T3"],
    rows_of_a_handle_without_ledger_text_are_found ["T3"],
    restored_memories_are_found_by_text ["T3", "W12"],
);

/// A memory with this trigger.
fn triggered(space_id: &str, millis: i64, json: &str) -> NewMemory {
    let mut memory = new_memory(space_id, millis);
    memory.trigger = trigger(json);
    memory
}

/// How many memories a text finds.
async fn count(provider: &dyn MemoryProvider, text: &str) -> Result<usize> {
    Ok(provider.query(&query(|query| query.all().text(text).limit(1_000))).await?.memories.len())
}

/// With `TextIndex::All` a memory is found by every string value of its trigger and context, and by no key, number or
/// metadata.
async fn ledger_is_found_by_its_strings(stage: Stage) -> CaseResult {
    let provider = stage.with_ledger_text().open().await?;
    assert!(provider.capabilities().ledger_text, "the capability is told");
    let memory = triggered("x", 1, r#"{"key1":"Alpha","deep":[{"key2":"caf\u00e9 \"bravo\""}],"n":12345,"b":true}"#);
    let memory = memory.with_context(context(r#"["charlie",{"role":"delta-echo"},null]"#));
    let id = provider.store(memory.with_metadata(metadata(r#"{"foxtrot":"golf"}"#))).await?;
    provider.store(triggered("x", 2, r#""plain string""#)).await?;
    provider.store(triggered("x", 3, "7")).await?;
    for text in ["alpha", "café", "bravo", "charlie", "delta", "ECHO", "bravo plan"] {
        let page = provider.query(&query(|query| query.all().text(text))).await?;
        assert_eq!(ids(&page.memories), [id], "{text}");
    }
    for text in [
        "key1",
        "key2",
        "deep",
        "role",
        "12345",
        "true",
        "null",
        "7",
        "foxtrot",
        "golf",
        "u00e9",
        "pending",
        "alphabravo",
    ] {
        assert_eq!(count(&*provider, text).await?, 0, "{text}");
    }
    assert_eq!(count(&*provider, "string").await?, 1, "a trigger that is a string");
    Ok(())
}

/// The words of a memory follow its context: set, replaced, cleared, and left alone by a patch of something else.
async fn ledger_text_follows_updates(stage: Stage) -> CaseResult {
    let provider = stage.with_ledger_text().open().await?;
    let id = provider.store(triggered("x", 1, r#"{"text":"trigger"}"#)).await?;
    let steps = [
        (MemoryPatch::new().set_context(context(r#""first""#)), "first", "second"),
        (MemoryPatch::new().with_status(Status::Running), "first", "second"),
        (MemoryPatch::new().merge_metadata(metadata(r#"{"second":"second"}"#)), "first", "second"),
        (MemoryPatch::new().set_context(context(r#"["second"]"#)), "second", "first"),
        (MemoryPatch::new().set_context(context(r#"{"first":1}"#)), "trigger", "first second"),
        (MemoryPatch::new().set_context(context(r#""second trigger""#)), "second", "first"),
        (MemoryPatch::new().clear_context(), "trigger", "first second"),
    ];
    for (place, (patch, finds, finds_not)) in steps.into_iter().enumerate() {
        provider.update(id, patch).await?;
        assert_eq!(count(&*provider, finds).await?, 1, "{finds} after step {place}");
        assert_eq!(count(&*provider, finds_not).await?, 0, "{finds_not} after step {place}");
        assert_eq!(count(&*provider, "trigger").await?, 1, "the trigger's words after step {place}");
    }
    Ok(())
}

/// Text in the ledger goes with selectors, `within`, times, statuses, exclude, filter and limit.
async fn ledger_text_goes_with_every_bound(stage: Stage) -> CaseResult {
    let provider = stage.with_ledger_text().open().await?;
    let decoys = (0..60).map(|place| triggered("you-1", 5_000 + place, r#"{"text":"red red"}"#));
    provider.store_many(decoys.collect()).await?;
    let red = |space_id: &str, millis| triggered(space_id, millis, r#"{"text":"a red word"}"#);
    let a = provider.store(red("me-1", 10).with_status(Status::Completed)).await?;
    let b = provider.store(red("me-2", 20).with_metadata(metadata(r#"{"topic":"x"}"#))).await?;
    let c = provider.store(red("mean", 30)).await?;
    provider.store(triggered("me-1", 40, r#"{"red":"blue"}"#)).await?;
    let me = SpaceSelector::under("me")?;
    let queries = [
        (query(|query| query.under("me").text("red").limit(2)), vec![a, b]),
        (query(|query| query.all().within(me.clone()).text("red")), vec![a, b]),
        (query(|query| query.all().created_before(at(30)).text("red")), vec![a, b]),
        (query(|query| query.all().created_after(at(10)).created_before(at(31)).text("red")), vec![b, c]),
        (query(|query| query.all().status(Status::Completed).text("red")), vec![a]),
        (query(|query| query.prefix("me").exclude(a).text("red").limit(2)), vec![b, c]),
        (query(|query| query.prefix("me").text("red").limit(0)), vec![]),
    ];
    for (number, (query, expected)) in queries.iter().enumerate() {
        let page = provider.query(query).await?;
        let found: BTreeSet<_> = ids(&page.memories).into_iter().collect();
        assert_eq!(found, expected.iter().copied().collect(), "query number {number}");
        assert_eq!(page.next, None, "text has no further pages");
    }
    let page =
        provider.query(&query(|query| query.all().text("red").filter_text("metadata.topic = 'x'").limit(1))).await?;
    assert_eq!(ids(&page.memories), [b], "the filter comes before the limit");
    Ok(())
}

/// Without the index a text query of the ledger is `Unsupported`, leaves no trace, and leaves documents searchable.
async fn ledger_text_off_is_unsupported(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    assert!(!provider.capabilities().ledger_text, "off by default");
    provider.store(new_memory("x", 1)).await?;
    provider.documents().put(new_document(NOTES, "a", "x", "hello")).await?;
    let before = walk(&*provider, |query| query.all()).await?;
    for text in ["hello", "", "---"] {
        let refused =
            provider.query(&query(|query| query.all().text(text))).await.expect_err("the ledger has no text index");
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{text:?}: never a wider answer instead");
    }
    assert_eq!(walk(&*provider, |query| query.all()).await?, before);
    assert_eq!(found(&*provider.documents(), "hello").await?, ["a".to_owned()].into());
    provider.check_health().await?;
    Ok(())
}

/// Switched on over a ledger that exists, the index finds the old rows too, as they are now.
async fn ledger_text_switched_on_later_finds_old_rows(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let old = (0..300).map(|place| triggered("x", place, &format!(r#"{{"text":"old number{place}"}}"#)));
    let old = provider.store_many(old.collect()).await?;
    provider.update(old[7], MemoryPatch::new().set_context(context(r#""answer""#))).await?;
    provider.shutdown().await?;

    let provider = stage.clone().with_ledger_text().open().await?;
    assert_eq!(count(&*provider, "old").await?, 300);
    assert_eq!(count(&*provider, "number299").await?, 1);
    assert_eq!(count(&*provider, "answer").await?, 1);
    provider.store(triggered("x", 1, r#""new""#)).await?;
    assert_eq!(count(&*provider, "new").await?, 1);
    provider.shutdown().await?;

    let provider = stage.open().await?;
    let refused =
        provider.query(&query(|query| query.all().text("old"))).await.expect_err("the text index is off again");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    provider.update(old[7], MemoryPatch::new().set_context(context(r#""question""#))).await?;
    provider.store(triggered("x", 1, r#""newest""#)).await?;
    provider.shutdown().await?;
    let provider = stage.with_ledger_text().open().await?;
    assert_eq!(count(&*provider, "question").await?, 1, "an update while it was off");
    assert_eq!(count(&*provider, "answer").await?, 0, "an update while it was off");
    assert_eq!(count(&*provider, "newest").await?, 1, "a row stored while it was off");
    Ok(())
}

/// What a handle without the index stores and updates, a handle with it finds.
async fn rows_of_a_handle_without_ledger_text_are_found(stage: Stage) -> CaseResult {
    let without = stage.open().await?;
    let with = stage.with_ledger_text().open().await?;
    let id = without.store(triggered("x", 1, r#""apple""#)).await?;
    assert_eq!(count(&*with, "apple").await?, 1, "stored by the other handle");
    without.update(id, MemoryPatch::new().set_context(context(r#""pear""#))).await?;
    assert_eq!(count(&*with, "pear").await?, 1, "updated by the other handle");
    without.update(id, MemoryPatch::new().clear_context()).await?;
    assert_eq!(count(&*with, "pear").await?, 0, "cleared by the other handle");
    without.store_many((0..20).map(|place| triggered("x", place, r#""plum""#)).collect()).await?;
    assert_eq!(count(&*with, "plum").await?, 20, "a batch of the other handle");
    Ok(())
}

/// Memories that were restored are found by their words as those that were stored.
async fn restored_memories_are_found_by_text(stage: Stage) -> CaseResult {
    let (source, target) = (stage.open().await?, stage.elsewhere().with_ledger_text().open().await?);
    source.store(triggered("x", 1, r#""apple""#).with_context(context(r#""pear""#))).await?;
    target.restore(walk(&*source, |query| query.all()).await?).await?;
    assert_eq!(count(&*target, "apple").await?, 1);
    assert_eq!(count(&*target, "pear").await?, 1);
    Ok(())
}
