//! Updating memories.

use std::collections::BTreeSet;

use futures::future::join_all;
use memory_core::{Context, ErrorKind, Memory, MemoryId, MemoryPatch, Metadata, Number, Revision, Status, Timestamp};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, key, kind, ledger, metadata, new_memory, race, the, walk};
use crate::golden;

chapter!("update":
    unknown_id_is_not_found ["W5"],
    address_trigger_and_creation_never_change ["W6"],
    other_memories_stay_as_they_are ["W6"],
    each_field_works_alone ["W7"],
    contexts_absent_null_and_empty_differ ["W7", "V3"],
    merge_follows_the_golden_table ["W7"],
    equal_values_still_count ["W7"],
    empty_patch_changes_nothing_and_answers ["W7", "W8"],
    updated_at_comes_from_the_clock ["V5", "V7", "W7"],
    updated_memory_is_visible_through_another_handle ["W1"],
    merge_over_64_kib_is_too_large_and_writes_nothing ["V4", "W7"],
    wrong_revision_is_a_conflict_and_writes_nothing ["W8"],
    racing_writers_of_one_revision_have_one_winner ["W8"],
    counters_kept_by_revision_add_up ["W8"],
    racing_patches_of_different_keys_all_survive ["W9"],
    racing_patches_of_different_fields_all_survive ["W9"],
    racing_patches_and_stores_leave_each_other_alone ["W9", "W1"],
);

/// An update of an unknown id fails, and creates nothing (maiar-ai: such an update succeeded).
async fn unknown_id_is_not_found(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(new_memory("a", 1)).await?;
    let before = ledger(&*provider).await?;
    let id = MemoryId::generate();
    for patch in [
        MemoryPatch::new().with_status(Status::Failed),
        MemoryPatch::new().merge_metadata(metadata(r#"{"a":1}"#)),
        MemoryPatch::new().set_context(context("1")).if_revision(Revision::FIRST),
        MemoryPatch::new().if_revision(Revision::FIRST),
        MemoryPatch::new(),
    ] {
        assert_eq!(kind(provider.update(id, patch.clone()).await), Some(ErrorKind::NotFound), "{patch:?}");
    }
    assert_eq!(provider.get(id).await?, None, "an update made a memory");
    assert_eq!(ledger(&*provider).await?, before);
    Ok(())
}

/// No patch changes id, space, trigger or createdAt (langgraph#8340: an update overwrote the creation time).
async fn address_trigger_and_creation_never_change(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let new = new_memory("a-1", -3).with_idempotency_key(key("k"));
    let id = provider.store(new.clone()).await?;
    let patch = MemoryPatch::new()
        .set_context(context(r#"{"id":"x","spaceId":"y"}"#))
        .replace_metadata(metadata(r#"{"spaceId":"b","createdAt":5,"trigger":{},"id":"z","revision":9}"#))
        .with_status(Status::Running);
    for patch in [patch, MemoryPatch::new().clear_context(), MemoryPatch::new().merge_metadata(Metadata::default())] {
        provider.update(id, patch).await?;
        let memory = the(&*provider, id).await?;
        assert_eq!((memory.id, &memory.space_id, memory.created_at), (id, &new.space_id, new.created_at));
        assert_eq!((&memory.trigger, &memory.idempotency_key), (&new.trigger, &new.idempotency_key));
        // It is found where it was, and nowhere else.
        assert_eq!(walk(&*provider, |query| query.under("a").created_before(at(-2))).await?, [memory]);
        assert_eq!(walk(&*provider, |query| query.exact("b")).await?, []);
    }
    Ok(())
}

/// An update changes one memory, even among equal ones.
async fn other_memories_stay_as_they_are(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(vec![new_memory("a", 1); 5]).await?;
    let mut expected = ledger(&*provider).await?;
    provider.update(stored[2], MemoryPatch::new().with_status(Status::Failed)).await?;
    expected[2] = the(&*provider, stored[2]).await?;
    assert_eq!(expected[2].status, Status::Failed);
    assert_eq!(ledger(&*provider).await?, expected, "an update touched another memory");
    Ok(())
}

/// A patch, and its effect on a memory.
type Step = (MemoryPatch, fn(&mut Memory));

/// A patch of one field takes effect and leaves the others alone (mem0#6418 dropped it, mem0#3966 wiped the rest).
async fn each_field_works_alone(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let new = new_memory("a", 1).with_context(context("1")).with_metadata(metadata(r#"{"a":1,"b":2}"#));
    let id = provider.store(new.with_status(Status::Running)).await?;
    let mut expected = the(&*provider, id).await?;
    let steps: [Step; 5] = [
        (MemoryPatch::new().with_status(Status::Completed), |memory| memory.status = Status::Completed),
        (MemoryPatch::new().set_context(context("[2]")), |memory| memory.context = Some(context("[2]"))),
        (MemoryPatch::new().merge_metadata(metadata(r#"{"b":3}"#)), |memory| {
            memory.metadata = metadata(r#"{"a":1,"b":3}"#);
        }),
        (MemoryPatch::new().replace_metadata(metadata(r#"{"c":4}"#)), |memory| {
            memory.metadata = metadata(r#"{"c":4}"#);
        }),
        (MemoryPatch::new().clear_context(), |memory| memory.context = None),
    ];
    for (step, (patch, change)) in steps.into_iter().enumerate() {
        provider.update(id, patch).await?;
        change(&mut expected);
        expected.revision = expected.revision.next()?;
        expected.updated_at = Some(at(1_000_000));
        assert_eq!(the(&*provider, id).await?, expected, "step {step}");
    }
    Ok(())
}

/// No context, a context of null, and empty ones are all different (maiar-ai read the empty string back as null).
async fn contexts_absent_null_and_empty_differ(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let values = [None, Some("null"), Some("\"\""), Some("{}"), Some("[]"), Some("false"), Some("0")];
    let id = provider.store(new_memory("a", 1)).await?;
    for from in values {
        for to in values {
            for value in [from, to] {
                let patch = match value {
                    Some(text) => MemoryPatch::new().set_context(context(text)),
                    None => MemoryPatch::new().clear_context(),
                };
                provider.update(id, patch).await?;
                let found = the(&*provider, id).await?.context;
                assert_eq!(found.as_ref().map(Context::as_str), value, "from {from:?} to {to:?}");
            }
        }
    }
    Ok(())
}

/// A merge gives the results of `golden/patches.json`: the examples of RFC 7396, and then patches that engines get wrong.
async fn merge_follows_the_golden_table(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for line in golden::patches() {
        let id = provider.store(new_memory("a", 1).with_metadata(line.metadata)).await?;
        provider.update(id, MemoryPatch::new().merge_metadata(line.patch)).await?;
        let memory = the(&*provider, id).await?;
        assert_eq!(memory.metadata.as_str(), line.merged.as_str(), "{}", line.id);
        assert_eq!(memory.revision.get(), 2, "{}: a merge counts, also one that changes nothing", line.id);
    }
    Ok(())
}

/// A patch that names a field counts as an update, even with an equal value.
async fn equal_values_still_count(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (same_context, same_metadata) = (context("1"), metadata(r#"{"a":1}"#));
    let new = new_memory("a", 1).with_context(same_context.clone()).with_metadata(same_metadata.clone());
    let id = provider.store(new.clone()).await?;
    let patches = [
        MemoryPatch::new().with_status(Status::Pending),
        MemoryPatch::new().set_context(same_context),
        MemoryPatch::new().replace_metadata(same_metadata.clone()),
        MemoryPatch::new().merge_metadata(same_metadata),
        MemoryPatch::new().merge_metadata(Metadata::default()),
    ];
    for (patch, revision) in patches.into_iter().zip(2..) {
        stage.namespace().clock.set(at(revision as i64));
        let updated = provider.update(id, patch).await?;
        assert_eq!((updated.revision.get(), updated.updated_at), (revision, Some(at(revision as i64))));
    }
    let memory = the(&*provider, id).await?;
    assert_eq!((memory.status, memory.context, memory.metadata), (new.status, new.context, new.metadata));
    Ok(())
}

/// An empty patch returns revision and updatedAt, and writes nothing; it still checks the revision that its caller expects.
async fn empty_patch_changes_nothing_and_answers(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    stage.namespace().clock.set(at(5));
    for patch in [MemoryPatch::new(), MemoryPatch::new().if_revision(Revision::FIRST)] {
        let updated = provider.update(id, patch).await?;
        assert_eq!((updated.revision, updated.updated_at), (Revision::FIRST, None));
    }
    let wrong = MemoryPatch::new().if_revision(Revision::new(2)?);
    assert_eq!(kind(provider.update(id, wrong).await), Some(ErrorKind::Conflict));
    assert_eq!(the(&*provider, id).await?, new_memory("a", 1).into_memory(id));
    let changed = provider.update(id, MemoryPatch::new().clear_context()).await?;
    stage.namespace().clock.set(at(6));
    assert_eq!(
        provider.update(id, MemoryPatch::new()).await?,
        changed,
        "its time is that of the last update, not the present"
    );
    Ok(())
}

/// Each update counts one, and its time is that of the clock, even if the clock stands still or runs backwards. A reader finds what the
/// update answered.
async fn updated_at_comes_from_the_clock(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 77)).await?;
    assert_eq!(the(&*provider, id).await?.updated_at, None, "a new memory was never updated");
    for (time, revision) in [at(5), at(5), at(0), at(-1), Timestamp::MIN, Timestamp::MAX].into_iter().zip(2..) {
        stage.namespace().clock.set(time);
        let updated = provider.update(id, MemoryPatch::new().clear_context()).await?;
        let memory = the(&*provider, id).await?;
        assert_eq!((updated.revision.get(), updated.updated_at), (revision, Some(time)), "what the update answers");
        assert_eq!((memory.revision.get(), memory.updated_at), (revision, Some(time)), "what a reader finds");
        assert_eq!(memory.created_at, at(77));
    }
    Ok(())
}

/// A returned update is visible to every reader, even after a restart.
async fn updated_memory_is_visible_through_another_handle(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let id = handles[0].store(new_memory("a", 1)).await?;
    for number in 0..30 {
        let (writer, reader) = (&handles[number % 2], &handles[(number + 1) % 2]);
        let text = format!("[{number}]");
        writer.update(id, MemoryPatch::new().set_context(context(&text))).await?;
        let found = [the(&**reader, id).await?, walk(&**reader, |query| query.exact("a")).await?.remove(0)];
        for memory in found {
            assert_eq!(memory.context.as_ref().map(Context::as_str), Some(&*text), "a reader missed an update");
        }
    }
    let before = the(&*handles[0], id).await?;
    for handle in handles {
        handle.shutdown().await?;
    }
    assert_eq!(the(&*stage.open().await?, id).await?, before);
    Ok(())
}

/// The limit holds for the result of a merge, which no type can check beforehand.
async fn merge_over_64_kib_is_too_large_and_writes_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    // Two objects of one member each. Merged, they are one byte shorter than their sum: a comma replaces a pair of braces.
    let member = |key: char, bytes: usize| metadata(&format!(r#"{{"{key}":"{}"}}"#, "x".repeat(bytes - 8)));
    let half = Metadata::MAX_BYTES / 2;
    let id = provider.store(new_memory("a", 1).with_metadata(member('a', half))).await?;
    let before = the(&*provider, id).await?;
    let over = MemoryPatch::new().merge_metadata(member('b', half + 2)).with_status(Status::Failed);
    assert_eq!(kind(provider.update(id, over).await), Some(ErrorKind::TooLarge));
    assert_eq!(the(&*provider, id).await?, before, "a refused update wrote something");
    provider.update(id, MemoryPatch::new().merge_metadata(member('b', half + 1))).await?;
    assert_eq!(the(&*provider, id).await?.metadata.as_str().len(), Metadata::MAX_BYTES, "the very limit is allowed");
    Ok(())
}

/// A caller who did not see the last change does not overwrite it (adk-python#4751 reloaded silently and continued).
async fn wrong_revision_is_a_conflict_and_writes_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    provider.update(id, MemoryPatch::new().set_context(context("1"))).await?;
    let before = the(&*provider, id).await?;
    for revision in [Revision::FIRST, Revision::new(3)?, Revision::MAX] {
        let patch = MemoryPatch::new().set_context(context("2")).with_status(Status::Failed);
        let patch = patch.merge_metadata(metadata(r#"{"a":1}"#)).if_revision(revision);
        assert_eq!(kind(provider.update(id, patch).await), Some(ErrorKind::Conflict), "revision {revision}");
    }
    assert_eq!(the(&*provider, id).await?, before, "a refused update wrote something");
    // A memory can be changed right after it was (adk-python#3717: equal times were judged stale).
    let mut revision = before.revision;
    for _ in 0..5 {
        let patch = MemoryPatch::new().with_status(Status::Running).if_revision(revision);
        let updated = provider.update(id, patch).await?;
        assert_eq!(updated.revision, revision.next()?);
        revision = updated.revision;
    }
    Ok(())
}

/// Of 32 writers that saw the same revision one wins, on whichever handle (protean#1258: advertised, not delivered).
async fn racing_writers_of_one_revision_have_one_winner(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let id = handles[0].store(new_memory("a", 1)).await?;
    let mut revision = Revision::FIRST;
    for _ in 0..5 {
        let writers = race(&handles, 32, move |handle, number| async move {
            let patch = MemoryPatch::new().set_context(context(&number.to_string())).if_revision(revision);
            handle.update(id, patch).await
        });
        let mut winners = Vec::new();
        for (number, result) in writers.await.into_iter().enumerate() {
            match result {
                Ok(updated) => winners.push((number, updated.revision)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
            }
        }
        let memory = the(&*handles[0], id).await?;
        revision = revision.next()?;
        assert_eq!(winners.len(), 1, "one writer wins");
        assert_eq!((memory.revision, winners[0].1), (revision, revision));
        let text = winners[0].0.to_string();
        assert_eq!(memory.context.as_ref().map(Context::as_str), Some(&*text), "the winner's value is there");
    }
    Ok(())
}

/// Read, change and write by revision: no step is lost (headroom#2296).
async fn counters_kept_by_revision_add_up(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1).with_context(context("0"))).await?;
    let counters = race(std::slice::from_ref(&provider), 8, move |provider, _| async move {
        let mut left = 5;
        while left > 0 {
            let memory = the(&*provider, id).await?;
            let count: u64 = memory.context.expect("a counter").to_value()?;
            let patch = MemoryPatch::new().set_context(context(&(count + 1).to_string()));
            match provider.update(id, patch.if_revision(memory.revision)).await {
                Ok(_) => left -= 1,
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
    for counter in counters.await {
        counter?;
    }
    let memory = the(&*provider, id).await?;
    assert_eq!((memory.context, memory.revision.get()), (Some(context("40")), 41));
    Ok(())
}

/// 64 writers that each add a key of their own keep all of them (curie#391, open-webui#28742).
async fn racing_patches_of_different_keys_all_survive(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let id = handles[0].store(new_memory("a", 1)).await?;
    let writers = race(&handles, 64, move |handle, number| async move {
        let patch = MemoryPatch::new().merge_metadata(metadata(&format!(r#"{{"k{number}":{number}}}"#)));
        handle.update(id, patch).await
    });
    let mut revisions = BTreeSet::new();
    for result in writers.await {
        revisions.insert(result?.revision.get());
    }
    assert_eq!(Vec::from_iter(revisions), (2..66).collect::<Vec<_>>(), "each update has a revision of its own");
    let memory = the(&*handles[1], id).await?;
    let members = memory.metadata.to_object();
    for number in 0..64 {
        let value = members.get(&format!("k{number}"));
        assert_eq!(value, Some(&memory_core::Json::Number(Number::Int(number))), "a concurrent patch was lost");
    }
    assert_eq!((members.len(), memory.revision.get()), (64, 65));
    Ok(())
}

/// Writers of status, context and metadata do not undo each other.
async fn racing_patches_of_different_fields_all_survive(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for round in 0..10 {
        let id = provider.store(new_memory("a", round)).await?;
        let patches = [
            MemoryPatch::new().with_status(Status::Completed),
            MemoryPatch::new().set_context(context("1")),
            MemoryPatch::new().merge_metadata(metadata(r#"{"a":1}"#)),
        ];
        for result in join_all(patches.into_iter().map(|patch| provider.update(id, patch))).await {
            result?;
        }
        let memory = the(&*provider, id).await?;
        assert_eq!((memory.status, memory.revision.get()), (Status::Completed, 4));
        assert_eq!((memory.context, memory.metadata), (Some(context("1")), metadata(r#"{"a":1}"#)));
    }
    Ok(())
}

/// Concurrent reads, updates and stores block nobody (mem0#7196: "database is locked" at once).
async fn racing_patches_and_stores_leave_each_other_alone(stage: Stage) -> CaseResult {
    let handles = [stage.open().await?, stage.open().await?];
    let id = handles[0].store(new_memory("hot", 0)).await?;
    let calls = race(&handles, 60, move |handle, number| async move {
        match number % 3 {
            0 => handle.store(new_memory("cold", number as i64)).await.map(drop),
            1 => handle.update(id, MemoryPatch::new().with_status(Status::Running)).await.map(drop),
            _ => ledger(&*handle).await.map(drop),
        }
    });
    for result in calls.await {
        result?;
    }
    assert_eq!(the(&*handles[0], id).await?.revision.get(), 21);
    assert_eq!(ledger(&*handles[1]).await?.len(), 21);
    Ok(())
}
