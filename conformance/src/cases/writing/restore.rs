//! Backup and copy: memories that are restored as they were (W12, W13).

use std::ops::Range;

use memory_core::{ErrorKind, Memory, MemoryId, MemoryPatch, Order, RestoreReport, Revision, Status};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, key, kind, ledger, metadata, new_memory, the, trigger, walk};

chapter!("restore":
    memories_come_back_exactly ["W12", "W1"],
    any_version_of_uuid_is_taken ["W12", "V1"],
    equal_memories_are_counted_and_left_alone ["W12"],
    different_memories_are_conflicts_by_place ["W12"],
    every_field_makes_a_difference ["W12"],
    repetitions_within_the_input_are_compared_too ["W12"],
    key_of_another_memory_is_a_conflict ["W12", "V8"],
    restored_key_finds_its_memory ["W12", "W3"],
    highest_revision_is_kept_and_ends_updates ["W12", "V7", "W8"],
    restored_memory_is_found_on_every_path ["W12", "S3", "Q2", "T3"],
    ledger_copied_elsewhere_is_the_same ["W12", "L5"],
    later_versions_replace_what_is_there ["W13", "W1"],
    earlier_and_other_versions_stay_out ["W13", "W6"],
    versions_of_one_call_are_compared_in_their_order ["W13"],
    replaced_memory_is_found_by_what_it_is_now ["W13", "Q9", "T2"],
    racing_restores_leave_the_highest_revision ["W13"],
    thousands_of_memories_are_restored_in_one_call ["W12", "W13"],
);

/// A memory whose id has this byte 16 times.
fn memory(byte: u8) -> Memory {
    new_memory(&format!("space-{byte}"), 10).into_memory(MemoryId::from_bytes([byte; 16]))
}

/// A memory with every field set to something other than its default.
fn old_memory(byte: u8) -> Memory {
    Memory {
        trigger: trigger(r#"{"n":1.50,"e":"\u00e9","n":2}"#),
        context: Some(context("null")),
        updated_at: Some(at(-7)),
        metadata: metadata(r#"{"a.b":[1e100,null]}"#),
        status: Status::Failed,
        revision: Revision::new(42).expect("a valid revision"),
        idempotency_key: Some(key(&format!("key-{byte}"))),
        ..memory(byte)
    }
}

/// A report without conflicts.
fn report(written: usize, equal: usize) -> RestoreReport {
    RestoreReport { written, equal, conflicts: Vec::new(), ..RestoreReport::default() }
}

/// Every field comes back as it was given, id, revision and updatedAt too, to every reader and after a restart.
async fn memories_come_back_exactly(stage: Stage) -> CaseResult {
    let (provider, reader) = (stage.open().await?, stage.open().await?);
    let memories = vec![memory(1), old_memory(2), memory(3)];
    assert_eq!(provider.restore(memories.clone()).await?, report(3, 0));
    assert_eq!(provider.restore(Vec::new()).await?, report(0, 0), "an empty restore");
    provider.shutdown().await?;
    for provider in [reader, stage.open().await?] {
        assert_eq!(ledger(&*provider).await?, memories);
        for expected in &memories {
            let found = the(&*provider, expected.id).await?;
            assert_eq!(found.trigger.as_str(), expected.trigger.as_str(), "byte for byte");
            assert_eq!(found, *expected);
        }
    }
    Ok(())
}

/// Other systems make ids of other versions.
async fn any_version_of_uuid_is_taken(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids = [
        "00000000-0000-0000-0000-000000000000",
        "c232ab00-9414-11ec-b3c8-9f6bdeced846",
        "5df41881-3aed-3515-88a7-2f4a814cf09e",
        "919108f7-52d1-4320-9bac-f847db4148a8",
        "2ed6657d-e927-568b-95e1-2665a8aea6a2",
        "1ec9414c-232a-6b00-b3c8-9f6bdeced846",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "320c3d4d-cc00-875b-8ec9-32d5f69181c0",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ];
    for id in ids {
        let expected = Memory { id: MemoryId::parse(id)?, ..memory(1) };
        assert_eq!(provider.restore(vec![expected.clone()]).await?, report(1, 0), "{id}");
        assert_eq!(the(&*provider, expected.id).await?, expected);
    }
    assert_eq!(ledger(&*provider).await?.len(), ids.len());
    Ok(())
}

/// A restore can be repeated after it was interrupted: equal memories are left alone.
async fn equal_memories_are_counted_and_left_alone(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memories = vec![old_memory(1), memory(2)];
    provider.restore(memories.clone()).await?;
    assert_eq!(provider.restore(memories.clone()).await?, report(0, 2));
    let more = vec![memory(3), old_memory(1), memory(2), memory(4)];
    assert_eq!(provider.restore(more).await?, report(2, 2));
    // A memory that was stored here counts as equal as well.
    let id = provider.store(new_memory("a", 1).with_idempotency_key(key("k"))).await?;
    assert_eq!(provider.restore(vec![the(&*provider, id).await?]).await?, report(0, 1));
    assert_eq!(ledger(&*provider).await?.len(), 5);
    Ok(())
}

/// The record in place wins, and the rest of the input is still written.
async fn different_memories_are_conflicts_by_place(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.restore(vec![memory(1), old_memory(2)]).await?;
    let changed = |mut memory: Memory| {
        memory.context = Some(context("\"changed\""));
        memory
    };
    let input = vec![memory(3), changed(memory(1)), memory(1), changed(old_memory(2)), memory(4)];
    let expected = RestoreReport { written: 2, equal: 1, conflicts: vec![1, 3], ..RestoreReport::default() };
    assert_eq!(provider.restore(input).await?, expected);
    assert_eq!(ledger(&*provider).await?, [memory(1), old_memory(2), memory(3), memory(4)]);
    Ok(())
}

/// Memories are equal when all their fields are.
async fn every_field_makes_a_difference(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let original = old_memory(1);
    provider.restore(vec![original.clone()]).await?;
    let changes: [fn(&mut Memory); 10] = [
        |memory| memory.space_id = crate::fixture::space("space-1 "),
        |memory| memory.trigger = trigger(r#"{"n":1.5,"e":"\u00e9","n":2}"#),
        |memory| memory.context = None,
        |memory| memory.created_at = at(11),
        |memory| memory.updated_at = None,
        |memory| memory.updated_at = Some(at(-8)),
        |memory| memory.metadata = metadata("{}"),
        |memory| memory.status = Status::Completed,
        |memory| memory.revision = Revision::FIRST,
        |memory| memory.idempotency_key = None,
    ];
    for (place, change) in changes.into_iter().enumerate() {
        let mut changed = original.clone();
        change(&mut changed);
        assert_eq!(provider.restore(vec![changed]).await?.conflicts, [0], "change {place} is not noticed");
    }
    assert_eq!(ledger(&*provider).await?, [original]);
    Ok(())
}

/// If a memory comes several times in one input, the later ones are compared with the first.
async fn repetitions_within_the_input_are_compared_too(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut other = old_memory(1);
    other.status = Status::Pending;
    let input = vec![old_memory(1), old_memory(1), other, memory(2)];
    let expected = RestoreReport { written: 2, equal: 1, conflicts: vec![2], ..RestoreReport::default() };
    assert_eq!(provider.restore(input).await?, expected);
    assert_eq!(ledger(&*provider).await?, [old_memory(1), memory(2)]);
    Ok(())
}

/// A key stands for one memory, so a restore of another memory with it is a conflict.
async fn key_of_another_memory_is_a_conflict(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1).with_idempotency_key(key("k"))).await?;
    let with_key = |byte, name: &str| Memory { idempotency_key: Some(key(name)), ..memory(byte) };
    let input = vec![with_key(1, "k"), with_key(2, "free"), with_key(3, "free"), with_key(4, "K")];
    let expected = RestoreReport { written: 2, equal: 0, conflicts: vec![0, 2], ..RestoreReport::default() };
    assert_eq!(provider.restore(input).await?, expected);
    assert_eq!(ids(&ledger(&*provider).await?), [id, memory(2).id, memory(4).id]);
    Ok(())
}

/// A caller whose key was backed up and restored still finds its memory.
async fn restored_key_finds_its_memory(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.restore(vec![old_memory(1)]).await?;
    let mut again = new_memory("space-1", 99).with_idempotency_key(key("key-1"));
    assert_eq!(kind(provider.store(again.clone()).await), Some(ErrorKind::Conflict), "another trigger");
    again.trigger = old_memory(1).trigger;
    assert_eq!(provider.store(again.clone()).await?, old_memory(1).id);
    assert_eq!(provider.store_many(vec![again]).await?, [old_memory(1).id]);
    assert_eq!(ledger(&*provider).await?, [old_memory(1)]);
    Ok(())
}

/// The highest revision is exact on every engine, and there is none after it. Updates count on from a restored revision.
async fn highest_revision_is_kept_and_ends_updates(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (byte, number) in [(1, (1 << 53) - 1), (2, (1 << 53) - 2), (3, 1 << 31), (4, (1 << 32) + 1), (5, 42)] {
        let expected = Memory { revision: Revision::new(number)?, ..old_memory(byte) };
        provider.restore(vec![expected.clone()]).await?;
        assert_eq!(the(&*provider, expected.id).await?, expected, "revision {number}");
        let patch = MemoryPatch::new().clear_context();
        let stale = provider.update(expected.id, patch.clone().if_revision(Revision::FIRST)).await;
        assert_eq!(kind(stale), Some(ErrorKind::Conflict), "revision {number}");
        let updated = provider.update(expected.id, patch.if_revision(expected.revision)).await;
        if expected.revision == Revision::MAX {
            assert_eq!(kind(updated), Some(ErrorKind::TooLarge));
            assert_eq!(the(&*provider, expected.id).await?, expected, "a refused update wrote something");
        } else {
            let updated = updated?;
            assert_eq!((updated.revision.get(), updated.updated_at), (number + 1, Some(at(1_000_000))));
            assert_eq!(the(&*provider, expected.id).await?.context, None);
        }
    }
    Ok(())
}

/// A restored memory is in every index that a stored one is in.
async fn restored_memory_is_found_on_every_path(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let open = Memory { status: Status::Running, ..old_memory(1) };
    provider.restore(vec![open.clone()]).await?;
    let found = [
        walk(&*provider, |query| query.all()).await?,
        walk(&*provider, |query| query.exact("space-1")).await?,
        walk(&*provider, |query| query.under("space")).await?,
        walk(&*provider, |query| query.prefix("spac")).await?,
        walk(&*provider, |query| query.glob("space-?")).await?,
        walk(&*provider, |query| query.regex("^space-[0-9]$")).await?,
        walk(&*provider, |query| query.all().status(Status::Running)).await?,
        walk(&*provider, |query| query.all().created_after(at(9)).created_before(at(11))).await?,
        walk(&*provider, |query| query.all().text("É")).await?,
    ];
    for (path, memories) in found.into_iter().enumerate() {
        assert_eq!(memories, std::slice::from_ref(&open), "path {path} misses a restored memory");
    }
    assert_eq!(walk(&*provider, |query| query.all().status(Status::Pending)).await?, []);
    Ok(())
}

/// A ledger that is copied to another namespace is the same ledger, in the same order.
async fn ledger_copied_elsewhere_is_the_same(stage: Stage) -> CaseResult {
    let (here, there) = (stage.open().await?, stage.elsewhere().open().await?);
    let stored = here.store_many((0..30).map(|number| new_memory("a", number % 3)).collect()).await?;
    here.update(stored[5], MemoryPatch::new().set_context(context("null"))).await?;
    let keyed = new_memory("b", 1).with_idempotency_key(key("k"));
    let id = here.store(keyed.clone()).await?;
    let copy = ledger(&*here).await?;
    assert_eq!(there.restore(copy.clone()).await?, report(31, 0));
    assert_eq!(ledger(&*there).await?, copy);
    assert_eq!(there.store(keyed).await?, id, "the key did not come along");
    Ok(())
}

/// A memory with every field set, at this revision.
fn version(byte: u8, revision: u64) -> Memory {
    let revision = Revision::new(revision).expect("a valid revision");
    Memory { context: Some(context(&revision.to_string())), revision, ..old_memory(byte) }
}

/// A copy that is kept up to date takes each version as it is at its source, and updates count on from there.
async fn later_versions_replace_what_is_there(stage: Stage) -> CaseResult {
    let (provider, reader) = (stage.open().await?, stage.open().await?);
    provider.restore(vec![version(1, 2), memory(2)]).await?;
    let later = Memory {
        updated_at: Some(at(99)),
        metadata: metadata(r#"{"b":2}"#),
        status: Status::Completed,
        ..version(1, 40)
    };
    let input = vec![later.clone(), memory(2), version(3, 7)];
    assert_eq!(provider.restore_newer(input.clone()).await?, report(2, 1));
    assert_eq!(ledger(&*reader).await?, [later.clone(), memory(2), version(3, 7)]);
    assert_eq!(provider.restore_newer(input).await?, report(0, 3), "a repetition");
    // A field that the later version lacks is not kept from the earlier one.
    let bare = Memory { context: None, updated_at: Some(at(100)), revision: Revision::new(41)?, ..later.clone() };
    assert_eq!(provider.restore_newer(vec![bare.clone()]).await?, report(1, 0));
    assert_eq!(the(&*reader, later.id).await?, bare);
    let stale = MemoryPatch::new().clear_context().if_revision(later.revision);
    assert_eq!(kind(provider.update(later.id, stale).await), Some(ErrorKind::Conflict));
    let patch = MemoryPatch::new().with_status(Status::Failed).if_revision(bare.revision);
    assert_eq!(provider.update(later.id, patch).await?.revision.get(), 42);
    Ok(())
}

/// The record in place stays unless the input has a later version of it.
async fn earlier_and_other_versions_stay_out(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let present = version(1, 42);
    let with_key = Memory { idempotency_key: Some(key("k")), ..memory(9) };
    provider.restore(vec![present.clone(), with_key.clone()]).await?;
    let changed = |revision, change: fn(&mut Memory)| {
        let mut memory = version(1, revision);
        change(&mut memory);
        memory
    };
    let input = vec![
        version(1, 41),
        version(1, 1),
        changed(42, |memory| memory.context = None),
        changed(43, |memory| memory.space_id = crate::fixture::space("space-2")),
        changed(43, |memory| memory.trigger = trigger("2")),
        changed(43, |memory| memory.created_at = at(11)),
        changed(43, |memory| memory.idempotency_key = None),
        Memory { idempotency_key: Some(key("k")), ..memory(2) },
        present.clone(),
        memory(3),
    ];
    let expected = RestoreReport { written: 1, equal: 1, conflicts: (0..8).collect(), erased: vec![] };
    assert_eq!(provider.restore_newer(input).await?, expected);
    assert_eq!(ledger(&*provider).await?, [present, memory(3), with_key]);
    assert_eq!(provider.restore_newer(Vec::new()).await?, report(0, 0));
    Ok(())
}

/// An input with several versions of a memory takes them one after the other.
async fn versions_of_one_call_are_compared_in_their_order(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let input = vec![version(1, 3), version(1, 5), version(1, 4), version(1, 5), version(2, 1), version(1, 6)];
    let expected = RestoreReport { written: 4, equal: 1, conflicts: vec![2], ..RestoreReport::default() };
    assert_eq!(provider.restore_newer(input).await?, expected);
    assert_eq!(ledger(&*provider).await?, [version(1, 6), version(2, 1)]);
    Ok(())
}

/// Indexes and texts follow a version that was replaced.
async fn replaced_memory_is_found_by_what_it_is_now(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let open = Memory { status: Status::Pending, context: Some(context(r#""apple""#)), ..version(1, 2) };
    provider.restore(vec![open.clone()]).await?;
    let done = Memory { status: Status::Completed, context: Some(context(r#""banana""#)), ..version(1, 5) };
    provider.restore_newer(vec![done.clone()]).await?;
    assert_eq!(walk(&*provider, |query| query.all().status(Status::Pending)).await?, []);
    assert_eq!(walk(&*provider, |query| query.under("space").text("apple")).await?, []);
    assert_eq!(walk(&*provider, |query| query.under("space").text("banana")).await?, [done]);
    let again = Memory { status: Status::Running, ..version(1, 6) };
    provider.restore_newer(vec![again.clone()]).await?;
    assert_eq!(walk(&*provider, |query| query.all().status(Status::Running)).await?, std::slice::from_ref(&again));
    assert_eq!(walk(&*provider, |query| query.all().status(Status::Completed)).await?, []);
    assert_eq!(walk(&*provider, |query| query.exact("space-1")).await?, [again]);
    Ok(())
}

/// Concurrent restores of several versions, in any order, leave the one of the highest revision.
async fn racing_restores_leave_the_highest_revision(stage: Stage) -> CaseResult {
    let providers = [stage.open().await?, stage.open().await?];
    let calls = (1..=16_u64).map(|number| {
        let provider = &providers[number as usize % 2];
        // Not in the order of the revisions.
        provider.restore_newer(vec![version(1, number * 7 % 17), version(2, 17 - number)])
    });
    futures::future::try_join_all(calls).await?;
    assert_eq!(ledger(&*providers[0]).await?, [version(1, 16), version(2, 16)]);
    Ok(())
}

/// One call restores a large backup (mempalace#1015: a cap on bound parameters), and one call brings many later versions to a copy that
/// has not been updated for long.
async fn thousands_of_memories_are_restored_in_one_call(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memories = |numbers: Range<u32>, revision: u64| {
        let memory = move |number: u32| {
            let mut bytes = [4; 16];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            let revision = Revision::new(revision).expect("a valid revision");
            Memory { revision, ..new_memory("backup-1", 5).into_memory(MemoryId::from_bytes(bytes)) }
        };
        numbers.map(memory).collect::<Vec<_>>()
    };
    let all = async || walk(&*provider, |query| query.under("backup").order(Order::OldestFirst).limit(1_000)).await;
    assert_eq!(provider.restore(memories(0..5_000, 1)).await?, report(5_000, 0));
    assert_eq!(all().await?, memories(0..5_000, 1));
    let newer = || memories(4_000..5_500, 3);
    assert_eq!(provider.restore_newer(newer()).await?, report(1_500, 0));
    assert_eq!(provider.restore_newer(newer()).await?, report(0, 1_500));
    assert_eq!(all().await?, [memories(0..4_000, 1), newer()].concat());
    Ok(())
}
