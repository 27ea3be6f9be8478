//! Storing memories: one or many, once or repeatedly.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use memory_core::{
    ErrorKind, MAX_BATCH, MAX_BATCH_BYTES, MemoryId, MemoryPatch, NewMemory, Order, Outcome, Result, Status, Timestamp,
};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, key, kind, ledger, metadata, new_memory, race, space, the, trigger, walk};

chapter!("store":
    stored_memory_comes_back_whole ["W1"],
    stored_memory_survives_a_reopen ["W1", "W3", "V8"],
    concurrent_stores_of_two_handles_are_all_kept ["W1", "W2"],
    equal_stores_are_two_memories ["W2"],
    ids_ascend_and_do_not_use_the_clock ["V1", "V5"],
    repeated_key_returns_the_first_id ["W3"],
    repeated_key_with_another_trigger_or_space_is_a_conflict ["W3"],
    racing_stores_of_one_key_are_one ["W3"],
    key_repeated_within_a_batch_is_one_memory ["W3", "W4"],
    repeated_batch_returns_the_first_ids ["W3", "W4"],
    racing_batches_of_the_same_keys_agree ["W3", "W4"],
    batch_ids_follow_the_input ["W4"],
    batch_with_a_conflict_in_its_last_item_writes_nothing ["W4", "W3"],
    batch_of_10_000_is_taken ["W4"],
    batch_of_64_mib_is_taken_and_one_byte_more_is_not ["W4"],
    refused_store_says_that_nothing_was_done ["W11"],
);

/// A memory with every field set.
fn full_memory() -> NewMemory {
    new_memory("plugin-discord-1", -5)
        .with_context(context(r#"[{"step":1},null]"#))
        .with_metadata(metadata(r#"{"topic":"rust","n":[1,2.5]}"#))
        .with_status(Status::Observed)
        .with_idempotency_key(key("k"))
}

/// Every field comes back as it was given, at revision 1 and never updated, from `get` and from a query.
async fn stored_memory_comes_back_whole(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for memory in [full_memory(), new_memory("plain", 0)] {
        let id = provider.store(memory.clone()).await?;
        let expected = memory.into_memory(id);
        assert_eq!(provider.get(id).await?, Some(expected.clone()), "get");
        assert_eq!(walk(&*provider, |query| query.exact(&expected.space_id)).await?, [expected], "query");
    }
    assert_eq!(provider.get(MemoryId::generate()).await?, None, "an id that nobody stored");
    Ok(())
}

/// Acknowledged writes exist after the provider is opened again, and their keys are kept for ever, so that a process can repeat its calls
/// after a crash.
async fn stored_memory_survives_a_reopen(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let one = provider.store(full_memory()).await?;
    let many = provider.store_many(vec![new_memory("b", 1), new_memory("c", 2)]).await?;
    provider.update(many[0], MemoryPatch::new().set_context(context("7"))).await?;
    let before = ledger(&*provider).await?;
    provider.shutdown().await?;
    let provider = stage.open().await?;
    assert_eq!(ledger(&*provider).await?, before, "the ledger changed by a restart");
    assert_eq!(the(&*provider, one).await?, full_memory().into_memory(one));
    assert_eq!(provider.store(full_memory()).await?, one, "a key was forgotten");
    Ok(())
}

/// Two processes that write at once keep each other's memories (modelcontextprotocol/servers#4797).
async fn concurrent_stores_of_two_handles_are_all_kept(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let stores =
        race(&handles, 200, |handle, number| async move { handle.store(new_memory("shared", number as i64)).await });
    let stored: BTreeSet<_> = stores.await.into_iter().collect::<Result<_>>()?;
    assert_eq!(stored.len(), 200, "two stores got the same id");
    for handle in &handles {
        let present: BTreeSet<_> = ids(&ledger(&**handle).await?).into_iter().collect();
        assert_eq!(present, stored, "a store was lost");
    }
    Ok(())
}

/// Without a key two equal stores are two memories, and nothing is overwritten (tower-sessions#180).
async fn equal_stores_are_two_memories(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut memory = full_memory();
    memory.idempotency_key = None;
    let first = provider.store(memory.clone()).await?;
    let others = provider.store_many(vec![memory.clone(), memory.clone()]).await?;
    let expected = [first, others[0], others[1]].map(|id| memory.clone().into_memory(id));
    assert_eq!(ledger(&*provider).await?, expected);
    Ok(())
}

/// Ids are UUIDs of version 7 that ascend, whatever the times of the memories and of the provider's clock.
async fn ids_ascend_and_do_not_use_the_clock(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut stored = Vec::new();
    for time in [Timestamp::MAX, Timestamp::MIN, at(0), at(-1)] {
        stage.namespace().clock.set(time);
        stored.push(provider.store(new_memory("a", time.as_millis())).await?);
        stored.extend(provider.store_many(vec![new_memory("b", 5), new_memory("c", 4)]).await?);
    }
    assert!(stored.is_sorted() && BTreeSet::from_iter(&stored).len() == stored.len(), "ids do not ascend: {stored:?}");
    for id in stored {
        assert_eq!(id.as_bytes()[6] >> 4, 7, "{id} is not of version 7");
    }
    Ok(())
}

/// A store that is sent again writes nothing (ChatPulse#6: a replay doubled the row), not even with another context, metadata, status or
/// time, and not after the memory was updated.
async fn repeated_key_returns_the_first_id(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let first = provider.store(full_memory()).await?;
    let stored = full_memory().into_memory(first);
    let mut later = full_memory();
    later.created_at = at(99);
    later.context = None;
    for memory in [
        full_memory(),
        full_memory().with_context(context("0")),
        full_memory().with_metadata(metadata(r#"{"other":true}"#)),
        full_memory().with_status(Status::Failed),
        later,
    ] {
        for handle in [&provider, &other] {
            assert_eq!(handle.store(memory.clone()).await?, first, "a repetition got another id: {memory:?}");
        }
    }
    assert_eq!(ledger(&*provider).await?, [stored], "a repetition wrote something");
    provider.update(first, MemoryPatch::new().clear_context().with_status(Status::Completed)).await?;
    let updated = the(&*provider, first).await?;
    assert_eq!(other.store(full_memory()).await?, first);
    assert_eq!(ledger(&*provider).await?, [updated], "a repetition undid an update");
    Ok(())
}

/// The same key with another trigger or space, however alike they look, is an error that its caller must learn of.
async fn repeated_key_with_another_trigger_or_space_is_a_conflict(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut memory = new_memory("caf\u{e9}-1", 1).with_idempotency_key(key("k"));
    memory.trigger = trigger(r#"{"a":1}"#);
    let first = provider.store(memory.clone()).await?;
    // Triggers are equal when their bytes are, not when their values are.
    for text in [r#"{"a":2}"#, r#"{"a":1.0}"#, r#"{"a":1,"a":1}"#, r#"{"\u0061":1}"#, "null"] {
        let mut other = memory.clone();
        other.trigger = trigger(text);
        assert_eq!(kind(provider.store(other).await), Some(ErrorKind::Conflict), "{text}");
    }
    for id in ["caf\u{e9}-2", "caf\u{e9}", "cafe\u{301}-1", "CAF\u{c9}-1", "caf\u{e9}-1 ", "caf\u{e9}/1"] {
        let mut other = memory.clone();
        other.space_id = space(id);
        assert_eq!(kind(provider.store(other).await), Some(ErrorKind::Conflict), "{id:?}");
    }
    memory.trigger = trigger(r#" { "a" : 1 } "#);
    assert_eq!(provider.store(memory).await?, first, "white space between tokens is no part of a trigger");
    assert_eq!(ids(&ledger(&*provider).await?), [first]);
    Ok(())
}

/// Of 32 concurrent stores of one key and two triggers one writes. Those of its trigger return its id, and the others are refused.
async fn racing_stores_of_one_key_are_one(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    for round in 0..10 {
        let name = format!("round-{round}");
        // In every other round they have the same trigger.
        let triggers = [0, round % 2].map(|number| trigger(&number.to_string()));
        let stores = race(&handles, 32, |handle, number| {
            let mut memory = new_memory(&name, 1).with_idempotency_key(key(&name));
            memory.trigger = triggers[number / 2 % 2].clone();
            async move { handle.store(memory).await }
        });
        let results = stores.await;
        let winner = the(&*handles[0], *results.iter().flatten().next().expect("somebody wins")).await?;
        for (number, result) in results.into_iter().enumerate() {
            let is_equal = triggers[number / 2 % 2] == winner.trigger;
            let expected = if is_equal { Ok(winner.id) } else { Err(ErrorKind::Conflict) };
            assert_eq!(result.map_err(|error| error.kind()), expected, "store {number} of round {round}");
        }
        assert_eq!(walk(&*handles[0], |query| query.exact(&name)).await?, [winner], "one key made several memories");
    }
    Ok(())
}

/// Items of a batch that repeat each other, or a memory that exists, are one memory, and each gets its id.
async fn key_repeated_within_a_batch_is_one_memory(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = |name: &str| new_memory(name, 1).with_idempotency_key(key(name));
    let known = provider.store(keyed("known")).await?;
    let repeated = keyed("a").with_context(context("2"));
    let batch = vec![keyed("a"), keyed("b"), repeated, keyed("known").with_status(Status::Failed), new_memory("c", 1)];
    let stored = provider.store_many(batch).await?;
    assert_eq!((stored.len(), stored[0], stored[3]), (5, stored[2], known), "the same key has two ids");
    let expected = [
        keyed("known").into_memory(known),
        keyed("a").into_memory(stored[0]),
        keyed("b").into_memory(stored[1]),
        new_memory("c", 1).into_memory(stored[4]),
    ];
    assert_eq!(ledger(&*provider).await?, expected, "the first of each key counts");
    assert_eq!(provider.store_many(Vec::new()).await?, [], "an empty batch");
    Ok(())
}

/// A batch that is sent again with its keys writes nothing.
async fn repeated_batch_returns_the_first_ids(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let batch = keyed_batch(50);
    let first = provider.store_many(batch.clone()).await?;
    assert_eq!(provider.store_many(batch.clone()).await?, first);
    let mut backwards = provider.store_many(batch.into_iter().rev().collect()).await?;
    backwards.reverse();
    assert_eq!(backwards, first, "ids follow the input, not the order in which they were made");
    assert_eq!(ids(&ledger(&*provider).await?), first);
    Ok(())
}

/// Batches that race for the same keys, in both orders, make each memory once, and there is no deadlock.
async fn racing_batches_of_the_same_keys_agree(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let batches = race(&handles, 8, |handle, number| async move {
        let mut batch = keyed_batch(40);
        if number % 4 > 1 {
            batch.reverse();
        }
        let mut ids = handle.store_many(batch).await?;
        if number % 4 > 1 {
            ids.reverse();
        }
        Ok(ids)
    });
    let mut answers: BTreeSet<_> = batches.await.into_iter().collect::<Result<_>>()?;
    let mut present = ids(&ledger(&*handles[0]).await?);
    present.sort_unstable();
    let mut answer = answers.pop_first().expect("eight answers");
    assert!(answers.is_empty(), "the same batch got different ids");
    answer.sort_unstable();
    assert_eq!(present, answer);
    Ok(())
}

/// Ids follow the order of the input, whatever the times are, and ascend through a batch.
async fn batch_ids_follow_the_input(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let batch: Vec<_> = (0..300).map(|number| new_memory(&format!("s-{number}"), (number * 7_919) % 100)).collect();
    let stored = provider.store_many(batch.clone()).await?;
    assert!(stored.is_sorted(), "later items have later ids");
    for (memory, id) in batch.into_iter().zip(stored) {
        assert_eq!(the(&*provider, id).await?, memory.into_memory(id));
    }
    Ok(())
}

/// A conflict in the last item, with a memory that exists or with another item, refuses the whole batch (openai-agents-python#4212: a batch
/// was applied in part).
async fn batch_with_a_conflict_in_its_last_item_writes_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let known = provider.store(new_memory("known", 1).with_idempotency_key(key("k"))).await?;
    let mut batch = keyed_batch(1_000);
    for taken in ["k", "batch-7"] {
        batch.push(new_memory("other", 1).with_idempotency_key(key(taken)));
        let error = provider.store_many(batch.clone()).await.expect_err("the key is taken");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::NotDone), "{taken}");
        assert_eq!(ids(&ledger(&*provider).await?), [known], "a refused batch wrote something");
        batch.pop();
    }
    // The keys of the other items are free.
    for memory in &mut batch {
        memory.space_id = space("elsewhere");
    }
    provider.store_many(batch).await?;
    Ok(())
}

/// A batch of the largest size is taken in one call (mempalace#1015: the cap on bound parameters broke bulk inserts), and one over it is
/// refused as a whole.
async fn batch_of_10_000_is_taken(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    assert_eq!(kind(provider.store_many(keyed_batch(MAX_BATCH + 1)).await), Some(ErrorKind::TooLarge));
    assert_eq!(ledger(&*provider).await?, [], "a refused batch wrote something");
    let stored = provider.store_many(keyed_batch(MAX_BATCH)).await?;
    let found = walk(&*provider, |query| query.under("batch").order(Order::OldestFirst).limit(1_000)).await?;
    assert_eq!(ids(&found), stored);
    Ok(())
}

/// A batch of the largest weight is taken in one call, whatever the engine's own limit for a message or a document.
async fn batch_of_64_mib_is_taken_and_one_byte_more_is_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    // Each item weighs 4 MiB: its trigger with two quotes, its space and its metadata of `{}`.
    let text = format!("\"{}\"", "x".repeat((4 << 20) - 2 - "s-00".len() - 2));
    let batch: Vec<_> =
        (10..26).map(|number| NewMemory::new(space(&format!("s-{number}")), trigger(&text), at(number))).collect();
    let size: usize = batch.iter().map(|memory| memory.clone().into_memory(MemoryId::generate()).size()).sum();
    assert_eq!(size, MAX_BATCH_BYTES, "the case is about the very limit");
    let mut heavier = batch.clone();
    heavier[3].space_id = space("s-130");
    assert_eq!(kind(provider.store_many(heavier).await), Some(ErrorKind::TooLarge));
    assert_eq!(ledger(&*provider).await?, [], "a refused batch wrote something");

    let stored = provider.store_many(batch).await?;
    let found = ledger(&*provider).await?;
    assert_eq!(ids(&found), stored);
    assert!(found.iter().all(|memory| memory.trigger.as_str() == text), "a large trigger was changed");
    Ok(())
}

/// The error of a refused store says that nothing was done, and that repeating the call does not help.
async fn refused_store_says_that_nothing_was_done(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(new_memory("a", 1).with_idempotency_key(key("k"))).await?;
    let taken = new_memory("b", 1).with_idempotency_key(key("k"));
    let refusals = [
        provider.store(taken.clone()).await.err(),
        provider.store_many(vec![taken]).await.err(),
        provider.store_many(vec![new_memory("a", 1); MAX_BATCH + 1]).await.err(),
        provider.update(MemoryId::generate(), MemoryPatch::new()).await.err(),
    ];
    for refusal in refusals {
        let error = refusal.expect("all of these are refused");
        assert_eq!(error.outcome(), Outcome::NotDone, "{error:?}");
        assert!(!error.is_retryable(), "{error:?}");
        assert!(error.operation().is_some() && error.backend().is_some(), "{error:?} does not say where");
    }
    try_join_all((0..4).map(|time| provider.store(new_memory("a", time)))).await?;
    Ok(())
}

/// Memories with a key each, in spaces below `batch`, one a millisecond.
fn keyed_batch(count: usize) -> Vec<NewMemory> {
    let memory = |number| {
        let name = format!("batch-{number}");
        new_memory(&name, number as i64).with_idempotency_key(key(&name))
    };
    (0..count).map(memory).collect()
}
