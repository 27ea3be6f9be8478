//! Retention rules of an operator: how long records below a path are kept (X3).

use std::time::Duration;

use memory_core::{
    Document, ErrorKind, MAX_RETENTION, Memory, MemoryId, MemoryPatch, MemoryProvider, NewMemory, Outcome, RecordId,
    Result, Retention, Revision, SpaceQuery, Status, Sweep, Timestamp,
};

use super::{get_note, set_clock, sorted, swept, until_seen};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, ids, key, kind, ledger, new_document, new_memory, note, put, spaces, the};

chapter!("expiry":
    rules_are_kept_for_every_handle ["X3"] needs Erasure,
    rules_that_are_none_are_refused ["X3"] needs Erasure,
    the_rule_of_the_longest_path_holds ["X3", "S3"] needs Erasure,
    a_memory_is_kept_from_its_storing ["X3"] needs Erasure,
    a_document_is_kept_from_its_last_put ["X3"] needs Erasure,
    of_a_rule_and_a_time_the_earlier_holds ["X3", "X4"] needs Erasure,
    without_its_rule_a_record_shows_again ["X3"] needs Erasure,
    other_handles_learn_of_rules ["X3"] needs Erasure,
    what_a_rule_has_over_is_as_what_has_expired ["X2", "X3"] needs Erasure,
    a_sweep_takes_what_rules_have_over ["X3", "X4"] needs Erasure,
    a_round_goes_on_while_time_does ["X3", "X4"] needs Erasure,
    a_put_under_a_rule_is_as_young_as_it_is ["X3"] needs Erasure,
);

/// What the clock of a namespace shows at first, in milliseconds.
const BEGIN: i64 = 1_000_000;
/// How long memories are kept after they were stored, in milliseconds.
const KEEP: i64 = 1_000;

fn rule(path: &str, keep: i64) -> Result<Retention> {
    Retention::new(path, Duration::from_millis(keep.unsigned_abs()))
}

/// Restores a memory whose id no provider has made, so its age counts from its createdAt.
async fn restored(provider: &dyn MemoryProvider, byte: u8, memory: NewMemory) -> Result<MemoryId> {
    let id = MemoryId::from_bytes([byte; 16]);
    let report = provider.restore(vec![memory.into_memory(id)]).await?;
    assert_eq!(report.written, 1);
    Ok(id)
}

/// Rules come back in the order of their paths, on every handle; new rules replace all earlier ones.
async fn rules_are_kept_for_every_handle(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    assert_eq!(provider.retention().await?, []);
    let all: [&[&str]; 3] = [&["b", "a-b", "a", "a/", "é%\"x"], &["c"], &[]];
    for paths in all {
        let rules: Vec<_> = paths.iter().zip(1..).map(|(path, keep)| rule(path, keep)).collect::<Result<_>>()?;
        provider.set_retention(rules.clone()).await?;
        let mut expected = rules;
        expected.sort_by(|one, other| one.under().cmp(other.under()));
        for handle in [&provider, &stage.open().await?] {
            assert_eq!(handle.retention().await?, expected);
        }
    }
    // Another namespace has rules of its own.
    provider.set_retention(vec![rule("a", 1)?]).await?;
    assert_eq!(stage.elsewhere().open().await?.retention().await?, []);
    Ok(())
}

async fn rules_that_are_none_are_refused(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (path, keep) in [
        ("", Duration::from_secs(1)),
        ("a", Duration::ZERO),
        ("a", Duration::from_nanos(999_999)),
        ("a", Duration::from_millis(Timestamp::MAX.as_millis().unsigned_abs() + 1)),
        ("a", Duration::MAX),
    ] {
        assert_eq!(kind(Retention::new(path, keep)), Some(ErrorKind::InvalidInput));
    }
    let most: Vec<_> = (0..MAX_RETENTION).map(|number| rule(&format!("a-{number:04}"), 1)).collect::<Result<_>>()?;
    provider.set_retention(most.clone()).await?;
    assert_eq!(provider.retention().await?, most);
    let mut more = most.clone();
    more.push(rule("b", 1)?);
    for (rules, expected) in [
        (more, ErrorKind::TooLarge),
        (vec![rule("a", 1)?, rule("b", 1)?, rule("a", 2)?], ErrorKind::InvalidInput),
        (vec![rule("a", 1)?, rule("a", 1)?], ErrorKind::InvalidInput),
    ] {
        let refused = provider.set_retention(rules).await.expect_err("these are no rules");
        assert_eq!((refused.kind(), refused.outcome()), (expected, Outcome::NotDone));
        assert_eq!(provider.retention().await?, most, "those that were there stay");
    }
    Ok(())
}

/// A rule holds for what *under* finds, and for no sibling; of several rules, that of the longest path holds.
async fn the_rule_of_the_longest_path_holds(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let all = ["a", "a-x", "a-b", "a-b-x", "a-b-c", "a-bc", "ab", "b"];
    for (space, byte) in all.into_iter().zip(1..) {
        restored(&*provider, byte, new_memory(space, BEGIN)).await?;
        let mut write = new_document(NOTES, space, space, "text");
        write.created_at = at(BEGIN);
        put(&*provider, write).await?;
    }
    provider.set_retention(vec![rule("a", 1_000)?, rule("a-b", 5_000)?, rule("a-b-c", 10)?]).await?;
    let steps: [(i64, &[&str]); 8] = [
        (0, &all),
        (9, &all),
        (10, &["a", "a-x", "a-b", "a-b-x", "a-bc", "ab", "b"]),
        (999, &["a", "a-x", "a-b", "a-b-x", "a-bc", "ab", "b"]),
        (1_000, &["a-b", "a-b-x", "ab", "b"]),
        (4_999, &["a-b", "a-b-x", "ab", "b"]),
        (5_000, &["ab", "b"]),
        (5_000_000, &["ab", "b"]),
    ];
    for (millis, expected) in steps {
        set_clock(&stage, BEGIN + millis);
        assert_eq!(spaces(&ledger(&*provider).await?), expected, "after {millis} ms");
        for space in all {
            let found = get_note(&*provider, space).await?;
            assert_eq!(found.is_some(), expected.contains(&space), "{space} after {millis} ms");
        }
    }
    Ok(())
}

/// The age of a memory counts from the time in its id, whatever its createdAt says; if no provider made the id, from its createdAt.
async fn a_memory_is_kept_from_its_storing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let made = MemoryId::generate();
    let begin = made.made_at().ok_or("an id of version 7")?.as_millis();
    let mut all = Vec::new();
    for created_at in [1, begin, begin + 1_000_000] {
        let id = provider.store(new_memory("a", created_at)).await?;
        all.push((id, id.made_at().ok_or("an id of version 7")?.as_millis()));
    }
    // A memory from elsewhere, with an id that a provider made there.
    provider.restore(vec![new_memory("a", 7).into_memory(made)]).await?;
    all.push((made, begin));
    all.push((restored(&*provider, 1, new_memory("a", begin + 70)).await?, begin + 70));
    provider.set_retention(vec![rule("a", KEEP)?]).await?;
    all.sort_unstable_by_key(|(_, stored_at)| *stored_at);
    for (id, stored_at) in all {
        set_clock(&stage, stored_at + KEEP - 1);
        the(&*provider, id).await?;
        // An update does not extend the time.
        provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
        set_clock(&stage, stored_at + KEEP);
        assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
    }
    Ok(())
}

/// The age of a document counts from its last put; if it was put only once, before there was a rule, from its createdAt.
async fn a_document_is_kept_from_its_last_put(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let write = |id: &str, created_at: i64| {
        let mut write = new_document(NOTES, id, "a", "text");
        write.created_at = at(created_at);
        write
    };
    put(&*provider, write("once", BEGIN - 300)).await?;
    put(&*provider, write("later", BEGIN + 200)).await?;
    for _ in 0..2 {
        put(&*provider, write("twice", BEGIN - 300)).await?;
    }
    put(&*provider, write("again", BEGIN - 300)).await?;
    provider.set_retention(vec![rule("a", 500)?]).await?;
    let ids = ["once", "twice", "later", "again"];
    let there = async || {
        let mut there = Vec::new();
        for id in ids {
            if get_note(&*provider, id).await?.is_some() {
                there.push(id);
            }
        }
        Ok::<_, memory_core::Error>(there)
    };
    for (millis, expected) in [(199, &ids[..]), (200, &ids[1..]), (499, &ids[1..]), (500, &ids[2..]), (700, &ids[3..])]
    {
        set_clock(&stage, BEGIN + millis);
        assert_eq!(there().await?, expected, "after {millis} ms");
        if millis < 500 {
            // Each put starts the time again.
            put(&*provider, write("again", BEGIN - 300)).await?;
        }
    }
    set_clock(&stage, BEGIN + 998);
    assert_eq!(there().await?, ["again"]);
    set_clock(&stage, BEGIN + 999);
    assert_eq!(there().await?, [""; 0]);
    Ok(())
}

/// The earlier of a rule and an expiresAt holds; the tombstone shows which it was.
async fn of_a_rule_and_a_time_the_earlier_holds(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut over = Vec::new();
    for (byte, space, expires, end) in [
        (1, "short", Some(500), 100),
        (2, "short", Some(50), 50),
        (3, "short", None, 100),
        (4, "long", Some(500), 500),
        (5, "long", None, 1_000),
    ] {
        let mut memory = new_memory(space, BEGIN);
        memory.expires_at = expires.map(|millis| at(BEGIN + millis));
        let mut write = new_document(NOTES, &format!("n{byte}"), space, "text");
        (write.created_at, write.expires_at) = (at(BEGIN), memory.expires_at);
        over.push((RecordId::from(restored(&*provider, byte, memory).await?), BEGIN + end));
        put(&*provider, write).await?;
        over.push((note(&format!("n{byte}")), BEGIN + end));
    }
    provider.set_retention(vec![rule("short", 100)?, rule("long", 1_000)?]).await?;
    for millis in [49, 50, 99, 100, 499, 500, 999, 1_000] {
        set_clock(&stage, BEGIN + millis);
        let left = over.iter().filter(|(_, end)| *end > BEGIN + millis).count();
        let notes = crate::fixture::walk_documents(&*provider.documents(), NOTES, |all| all.all()).await?;
        assert_eq!(ledger(&*provider).await?.len() + notes.len(), left, "after {millis} ms");
    }
    set_clock(&stage, BEGIN + 5_000);
    let expected = sorted(over.iter().map(|(record, _)| record.clone()));
    assert_eq!(swept(&*provider, Sweep::all()).await?, (expected, 0));
    for (record, end) in over {
        let tombstone = provider.tombstone(&record).await?.ok_or("a tombstone")?;
        assert_eq!((tombstone.at, tombstone.reason.as_str()), (at(end), "expired"), "{record:?}");
    }
    Ok(())
}

/// A record shows again when its rule is gone, unless it was swept before.
async fn without_its_rule_a_record_shows_again(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let first = restored(&*provider, 1, new_memory("a", BEGIN)).await?;
    let document = put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    let before = ledger(&*provider).await?;
    provider.set_retention(vec![rule("a", 5)?]).await?;
    set_clock(&stage, BEGIN + 5);
    assert_eq!(ledger(&*provider).await?, []);
    assert_eq!(get_note(&*provider, "n").await?, None);
    // A rule that keeps it for longer has the same effect as none.
    for rules in [vec![], vec![rule("a", 5_000_000)?], vec![rule("b", 5)?], vec![rule("a", 5)?, rule("a-b", 5)?]] {
        let is_there = rules.iter().all(|rule| rule.under() != "a" || rule.keep_millis() > 5);
        provider.set_retention(rules).await?;
        assert_eq!(ledger(&*provider).await?, if is_there { before.clone() } else { vec![] });
        assert_eq!(get_note(&*provider, "n").await?, is_there.then(|| document.clone()));
    }
    let expected = sorted([RecordId::from(first), note("n")]);
    assert_eq!(swept(&*provider, Sweep::all()).await?, (expected, 0));
    provider.set_retention(vec![]).await?;
    assert_eq!(ledger(&*provider).await?, []);
    assert_eq!(kind(provider.get(first).await), Some(ErrorKind::Erased));
    Ok(())
}

/// Another handle learns of rules within about a second, each time; the handle that sets them knows them at once.
async fn other_handles_learn_of_rules(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let id = restored(&*provider, 1, new_memory("a", BEGIN)).await?;
    set_clock(&stage, BEGIN + 100);
    for (keep, expected) in [(100, Some(ErrorKind::Erased)), (101, None), (1, Some(ErrorKind::Erased))] {
        // This read makes the handle load the earlier rules.
        drop(other.get(id).await);
        provider.set_retention(vec![rule("a", keep)?]).await?;
        assert_eq!(kind(provider.get(id).await), expected);
        until_seen(&*other, id, expected).await;
    }
    // Any handle may set the rules.
    other.set_retention(vec![]).await?;
    the(&*other, id).await?;
    until_seen(&*provider, id, None).await;
    Ok(())
}

/// Records that a rule has ended behave as expired ones in every call, reads and writes alike.
async fn what_a_rule_has_over_is_as_what_has_expired(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = || new_memory("a-b", BEGIN).with_idempotency_key(key("k"));
    let id = restored(&*provider, 1, keyed()).await?;
    let kept = restored(&*provider, 2, new_memory("a", BEGIN)).await?;
    let memory = the(&*provider, id).await?;
    let mut write = new_document(NOTES, "n", "a-b", "before");
    write.created_at = at(BEGIN);
    let document = put(&*provider, write).await?;
    provider.set_retention(vec![rule("a-b", 5)?]).await?;
    set_clock(&stage, BEGIN + 5);
    assert_eq!(ids(&ledger(&*provider).await?), [kept]);
    let levels = provider.spaces(&SpaceQuery::builder().depth(2).build()?).await?;
    let listed: Vec<_> = levels.iter().flat_map(|level| &level.spaces).map(|space| space.id.as_str()).collect();
    assert_eq!(listed, ["a"]);
    assert_eq!(kind(provider.update(id, MemoryPatch::new().clear_context()).await), Some(ErrorKind::Erased));
    assert_eq!(kind(provider.store(keyed()).await), Some(ErrorKind::Erased));
    let mut anew = new_document(NOTES, "n", "a-b", "anew");
    anew.created_at = at(BEGIN + 7);
    let anew = put(&*provider, anew.expect(memory_core::Expect::Absent)).await?;
    assert_eq!((anew.revision, anew.created_at), (Revision::FIRST, at(BEGIN + 7)));
    assert_eq!(get_note(&*provider, "n").await?, Some(anew));
    // A restore brings back nothing that has expired.
    let another = Memory { id: MemoryId::from_bytes([3; 16]), idempotency_key: None, ..memory.clone() };
    let report = provider.restore(vec![memory, another]).await?;
    assert_eq!((report.written, report.erased), (0, vec![0, 1]));
    let another = Document { id: crate::fixture::document_id("o"), ..document };
    assert_eq!(provider.documents().restore(vec![another]).await?.erased, [0]);
    Ok(())
}

/// A sweep of rules takes records of many places and of more than one collection, in several slices, and nothing else.
async fn a_sweep_takes_what_rules_have_over(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut expected = Vec::new();
    for space in ["a", "a-b", "b"] {
        let batch = (0..70).map(|number| new_memory(space, number)).collect();
        expected.extend(provider.store_many(batch).await?.into_iter().map(RecordId::from));
    }
    for name in [NOTES, "drafts"] {
        let writes = (0..60).map(|number| new_document(name, &format!("n{number}"), "a", "text")).collect();
        let put = provider.documents().put_many(writes).await?;
        expected.extend(put.into_iter().map(|document| RecordId::from((document.collection, document.id))));
    }
    let kept = provider.store(new_memory("c", 1)).await?;
    put(&*provider, new_document(NOTES, "kept", "c", "text")).await?;
    let made_at = kept.made_at().ok_or("an id of version 7")?.as_millis();
    provider.set_retention(vec![rule("a", 1_000)?, rule("a-b", 2_000)?, rule("b", 3_000)?]).await?;
    set_clock(&stage, made_at + 60_000);
    let (mut erased, mut slices, mut next) = (Vec::new(), 0, Some(Sweep::all()));
    while let Some(from) = next {
        let slice = provider.sweep(&from).await?;
        slices += 1;
        assert!(slice.records.len() <= 100 && slices < super::MANY_SLICES);
        erased.extend(slice.records);
        next = slice.next;
    }
    assert_eq!(sorted(erased), sorted(expected));
    assert_eq!(ids(&ledger(&*provider).await?), [kept]);
    assert!(get_note(&*provider, "kept").await?.is_some());
    Ok(())
}

/// A round sweeps, slice after slice, the records that had expired when it came to a rule, by the rules of that time.
async fn a_round_goes_on_while_time_does(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memories = (0..250).map(|number| new_memory("a", number)).collect();
    let ids = provider.store_many(memories).await?;
    let newest = ids.iter().filter_map(MemoryId::made_at).max().ok_or("ids of version 7")?.as_millis();
    provider.set_retention(vec![rule("a", KEEP)?]).await?;
    let (mut erased, mut next) = (Vec::new(), Some(Sweep::all()));
    for tick in 0..1_000 {
        let Some(from) = next else { break };
        set_clock(&stage, newest + KEEP + tick);
        let slice = provider.sweep(&from).await?;
        erased.extend(slice.records);
        next = slice.next;
        if tick == 1 {
            provider.set_retention(vec![rule("a", KEEP)?, rule("b", KEEP)?]).await?;
        }
    }
    assert_eq!(next, None);
    assert_eq!(sorted(erased), sorted(ids.into_iter().map(RecordId::from)));
    Ok(())
}

/// A createdAt from the caller makes a document neither older nor younger under a rule.
async fn a_put_under_a_rule_is_as_young_as_it_is(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.set_retention(vec![rule("a", KEEP)?]).await?;
    for (id, created_at) in [("old", BEGIN - 10 * KEEP), ("new", BEGIN + 10 * KEEP)] {
        let mut write = new_document(NOTES, id, "a", "text");
        write.created_at = at(created_at);
        let document = put(&*provider, write).await?;
        assert_eq!((document.created_at, document.updated_at), (at(created_at), Some(at(BEGIN))));
        assert_eq!(get_note(&*provider, id).await?, Some(document));
    }
    set_clock(&stage, BEGIN + KEEP - 1);
    assert!(get_note(&*provider, "old").await?.is_some() && get_note(&*provider, "new").await?.is_some());
    set_clock(&stage, BEGIN + KEEP);
    assert!(get_note(&*provider, "old").await?.is_none() && get_note(&*provider, "new").await?.is_none());
    Ok(())
}
