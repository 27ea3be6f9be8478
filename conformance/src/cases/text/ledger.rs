//! The words of memories: T3.

use memory_core::{MemoryId, MemoryPatch, MemoryProvider, NewMemory, Order, Result, SpaceSelector, Status};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, metadata, new_memory, query, trigger, walk};

chapter!("text":
    ledger_is_found_by_its_strings ["T3", "T1"],
    ledger_text_follows_updates ["T3"],
    ledger_text_goes_with_every_bound ["T3", "T2"],
    ledger_text_comes_in_order_over_its_pages ["T3", "T2", "Q4", "Q6"],
    a_rare_word_is_found_behind_many_candidates ["T3", "T2", "Q5"],
    a_walk_by_text_survives_writes ["T3", "T2", "Q6"],
    what_another_handle_writes_is_found_by_text ["T3", "W1"],
);

/// A memory with this trigger.
fn triggered(space_id: &str, millis: i64, json: &str) -> NewMemory {
    let mut memory = new_memory(space_id, millis);
    memory.trigger = trigger(json);
    memory
}

/// How many memories a text finds.
async fn count(provider: &dyn MemoryProvider, text: &str) -> Result<usize> {
    Ok(walk(provider, |query| query.all().text(text).limit(1_000)).await?.len())
}

/// A memory is found by the words of every string value of its trigger and context, and by no part of a word, key, number or metadata.
async fn ledger_is_found_by_its_strings(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memory = triggered("x", 1, r#"{"key1":"Alpha","deep":[{"key2":"caf\u00e9 \"bravo\""}],"n":12345,"b":true}"#);
    let memory = memory.with_context(context(r#"["charlie",{"role":"delta-echo"},null]"#));
    let id = provider.store(memory.with_metadata(metadata(r#"{"foxtrot":"golf"}"#))).await?;
    provider.store(triggered("x", 2, r#""plain string""#)).await?;
    provider.store(triggered("x", 3, "7")).await?;
    for text in ["alpha", "café", "bravo", "charlie", "delta", "ECHO", "bravo plan"] {
        let page = provider.query(&query(|query| query.all().text(text))).await?;
        assert_eq!(ids(&page.memories), [id], "{text}");
    }
    #[rustfmt::skip]
    let strangers = [
        "key1", "key2", "deep", "role", "12345", "true", "null", "7", "foxtrot", "golf", "u00e9", "pending",
        "alphabravo", "alph", "lpha", "harli", "caf", "", "?!",
    ];
    for text in strangers {
        assert_eq!(count(&*provider, text).await?, 0, "{text}");
    }
    assert_eq!(count(&*provider, "string").await?, 1, "a trigger that is a string");
    Ok(())
}

/// The words of a memory follow its context: set, replaced, cleared, and unchanged by a patch of another field.
async fn ledger_text_follows_updates(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
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

/// Text combines with selectors, `within`, times, statuses, exclude, filter, order, offset and limit.
async fn ledger_text_goes_with_every_bound(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let decoys = (0..60).map(|place| triggered("you-1", 5_000 + place, r#"{"text":"red red"}"#));
    provider.store_many(decoys.collect()).await?;
    let red = |space_id: &str, millis| triggered(space_id, millis, r#"{"text":"a red word"}"#);
    let a = provider.store(red("me-1", 10).with_status(Status::Completed)).await?;
    let b = provider.store(red("me-2", 20).with_metadata(metadata(r#"{"topic":"x"}"#))).await?;
    let c = provider.store(red("mean", 30)).await?;
    provider.store(triggered("me-1", 40, r#"{"red":"blue"}"#)).await?;
    let me = SpaceSelector::under("me")?;
    let queries = [
        (query(|query| query.under("me").text("red")), vec![b, a], false),
        (query(|query| query.all().within(me.clone()).text("red")), vec![b, a], false),
        (query(|query| query.all().created_before(at(30)).text("red")), vec![b, a], false),
        (query(|query| query.all().created_after(at(10)).created_before(at(31)).text("red")), vec![c, b], false),
        (query(|query| query.all().status(Status::Completed).text("red")), vec![a], false),
        (query(|query| query.prefix("me").exclude(b).text("red").limit(2)), vec![c, a], false),
        (query(|query| query.prefix("me").text("red").order(Order::OldestFirst)), vec![a, b, c], false),
        (query(|query| query.prefix("me").text("red").order(Order::OldestFirst).limit(2)), vec![a, b], true),
        (query(|query| query.prefix("me").text("red").offset(1)), vec![b, a], false),
        (query(|query| query.prefix("me").text("red").offset(1).limit(1)), vec![b], true),
        (query(|query| query.prefix("me").text("red").limit(0)), vec![], false),
        (query(|query| query.all().text("red").filter_text("metadata.topic = 'x'").limit(1)), vec![b], false),
    ];
    for (number, (query, expected, has_next)) in queries.iter().enumerate() {
        let page = provider.query(query).await?;
        assert_eq!((&ids(&page.memories), page.next.is_some()), (expected, *has_next), "query number {number}");
    }
    Ok(())
}

/// Pages of any size give the same hits in the same order: by time, and not by how often a record holds which words.
async fn ledger_text_comes_in_order_over_its_pages(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let texts = ["red", "blue", "red blue red", "green", "a red", "BLUE", "reddish", "red red red blue"];
    let rows = (0..160).map(|number: i64| {
        // Some have the same time.
        triggered(&format!("a-{}", number % 3), number / 5, &format!("{:?}", texts[number as usize % texts.len()]))
    });
    let stored = provider.store_many(rows.collect()).await?;
    let is_hit = |number: &usize| !["green", "reddish"].contains(&texts[number % texts.len()]);
    let oldest_first: Vec<_> = (0..160).filter(is_hit).map(|number| stored[number]).collect();
    let newest_first: Vec<_> = oldest_first.iter().rev().copied().collect();
    for (order, expected) in [(Order::OldestFirst, oldest_first), (Order::NewestFirst, newest_first)] {
        for limit in [1, 7, 119, 120, 121] {
            let found = walk(&*provider, |query| query.under("a").text("red, blue").order(order).limit(limit)).await?;
            assert_eq!(ids(&found), expected, "{order:?}, {limit} a page");
        }
        let behind = query(|query| query.under("a").text("red, blue").order(order).offset(100));
        assert_eq!(ids(&provider.query(&behind).await?.memories), expected[100..], "{order:?}, after an offset");
    }
    Ok(())
}

/// Rows without the word, however many, take no room on a page, and the walk finds what lies after them.
async fn a_rare_word_is_found_behind_many_candidates(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rare = |millis| triggered("a-b", millis, r#"{"text":"a zebra"}"#);
    let oldest = provider.store(rare(-1)).await?;
    provider.store_many((0..3_000).map(|millis| new_memory("a-b", millis)).collect()).await?;
    let newest = provider.store(rare(3_000)).await?;
    for (order, expected) in [(Order::NewestFirst, [newest, oldest]), (Order::OldestFirst, [oldest, newest])] {
        for limit in [1, 2, 1_000] {
            let zebras = walk(&*provider, |query| query.under("a").text("zebra").order(order).limit(limit)).await?;
            assert_eq!(ids(&zebras), expected, "{order:?}, {limit} a page");
        }
    }
    Ok(())
}

/// A memory that has the word throughout a walk comes once, whatever is stored meanwhile, and whichever memories get or
/// lose the word.
async fn a_walk_by_text_survives_writes(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let red = |millis| triggered("a", millis, r#""red""#);
    let stored = provider.store_many((0..40).map(red).collect()).await?;
    let blue = provider.store_many((0..40).map(|millis| triggered("a", millis, r#""blue""#)).collect()).await?;
    let fickle = provider.store(triggered("a", 20, r#""green""#).with_context(context(r#""red""#))).await?;
    let asked = || memory_core::MemoryQuery::builder().exact("a").text("red").limit(3);
    let (mut walked, mut page) = (Vec::<MemoryId>::new(), provider.query(&asked().build()?).await?);
    for number in 0.. {
        walked.extend(ids(&page.memories));
        let Some(cursor) = page.next else { break };
        provider.store_many(vec![red(number), red(100 + number), triggered("b", number, r#""red""#)]).await?;
        provider.update(blue[number as usize % 40], MemoryPatch::new().set_context(context(r#""pink""#))).await?;
        let fickle_context = if number % 2 == 0 { r#""blue""# } else { r#""red""# };
        provider.update(fickle, MemoryPatch::new().set_context(context(fickle_context))).await?;
        page = provider.query(&asked().cursor(&cursor).build()?).await?;
    }
    assert!(stored.iter().all(|id| walked.contains(id)), "the walk lost what was there throughout");
    assert!(!blue.iter().any(|id| walked.contains(id)), "the walk gives what never held the word");
    let mut distinct = walked.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), walked.len(), "the walk gives a memory twice");
    Ok(())
}

/// Another handle finds by text at once what one handle stores and updates.
async fn what_another_handle_writes_is_found_by_text(stage: Stage) -> CaseResult {
    let (writer, reader) = (stage.open().await?, stage.open().await?);
    let id = writer.store(triggered("x", 1, r#""apple""#)).await?;
    assert_eq!(count(&*reader, "apple").await?, 1, "stored by the other handle");
    writer.update(id, MemoryPatch::new().set_context(context(r#""pear""#))).await?;
    assert_eq!(count(&*reader, "pear").await?, 1, "updated by the other handle");
    writer.update(id, MemoryPatch::new().clear_context()).await?;
    assert_eq!(count(&*reader, "pear").await?, 0, "cleared by the other handle");
    writer.store_many((0..20).map(|place| triggered("x", place, r#""plum""#)).collect()).await?;
    assert_eq!(count(&*reader, "plum").await?, 20, "a batch of the other handle");
    Ok(())
}
