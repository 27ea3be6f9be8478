//! Erasures: E1 to E4.

use std::collections::BTreeSet;

use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use memory_core::{
    Change, ChangeKind, Clock as _, Collections, DocumentQuery, DocumentWrite, Erasure, ErrorKind, History, Ledger,
    MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall, Outcome, QueryBuilder, Record, RecordId, Result,
    SpaceQuery, SpaceSelector, Status, Watch, WatchFrom, WatchToken, Watched,
};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    actor, at, collection, document_id, ids, key, kind, ledger, metadata, new_document, new_memory, query, space, the,
    trigger, walk, walk_documents,
};

chapter!("erasure":
    records_are_erased_or_that_is_refused_plainly ["E1"],
    an_erased_memory_is_gone_and_told_as_such ["E1", "E2"] needs Erasure,
    an_erased_memory_has_no_history ["E1"] needs Erasure,
    a_tombstone_has_keyed_hashes_alone ["E2"] needs Erasure,
    an_erased_document_is_gone_with_its_history ["E1", "E2"] needs Erasure,
    a_removed_document_goes_with_its_history ["E1"] needs Erasure,
    slices_are_taken_until_nothing_is_left ["E1"] needs Erasure,
    what_is_selected_goes_and_nothing_else ["E1"] needs Erasure,
    nothing_finds_what_was_erased ["E1"] needs Erasure,
    names_limit_what_a_query_takes ["E1"] needs Erasure,
    what_is_left_is_as_if_the_rest_had_never_been ["E1"] needs Erasure,
    a_key_that_was_erased_is_not_stored_again ["E3"] needs Erasure,
    a_backup_brings_nothing_back ["E3"] needs Erasure,
    a_document_that_is_put_anew_is_another_one ["E3"] needs Erasure,
    a_tombstone_keeps_out_all_that_had_its_name ["E3"] needs Erasure,
    what_cant_be_read_and_is_named_is_told ["E1"] needs Damage,
    nothing_comes_behind_the_end_of_time ["E3"] needs Erasure,
    racing_updates_bring_nothing_back ["E1"] needs Erasure,
    a_watch_is_told_where_it_may_look ["E4"] needs Erasure,
    a_watch_is_told_where_a_document_was_before ["E4"] needs Erasure,
    tombstones_keep_out_elsewhere_too ["E5"] needs Erasure,
    tombstones_erase_what_is_there ["E5"] needs Erasure,
    what_was_put_behind_an_erasure_elsewhere_stays ["E5"] needs Erasure,
    tombstones_learn_from_each_other ["E5"] needs Erasure,
    what_cant_be_read_keeps_no_tombstone_from_coming ["E5"] needs Damage,
    tombstones_come_in_pages ["E5"] needs Erasure,
);

const NOTES: &str = "notes";
const REASON: &str = "somebody asked for it";

fn note(id: &str) -> RecordId {
    RecordId::Document { collection: collection(NOTES), id: document_id(id) }
}

async fn erase(provider: &dyn MemoryProvider, records: impl IntoIterator<Item = RecordId>) -> Result<Vec<RecordId>> {
    let erased = provider.erase(&Erasure::records(records, REASON)?).await?;
    assert!(erased.is_complete);
    Ok(erased.records)
}

async fn put(provider: &dyn MemoryProvider, write: DocumentWrite) -> Result<memory_core::Document> {
    provider.documents().put(write).await
}

/// An engine erases, or says that it can't.
async fn records_are_erased_or_that_is_refused_plainly(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    let erased = provider.erase(&Erasure::records([id.into()], REASON)?).await;
    if stage.harness().can_erase() {
        assert_eq!(erased?.records, [id.into()]);
        return Ok(());
    }
    let refused = erased.expect_err("it can't erase");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unsupported, Outcome::NotDone));
    assert_eq!(provider.tombstone(&id.into()).await?, None);
    the(&*provider, id).await?;
    Ok(())
}

async fn an_erased_memory_is_gone_and_told_as_such(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let [erased, kept] = [provider.store(new_memory("a-b", 1)).await?, provider.store(new_memory("a-b", 2)).await?];
    provider.update(erased, MemoryPatch::new().with_status(memory_core::Status::Failed)).await?;
    stage.namespace().clock.set(at(5_000_000));
    let erasure = Erasure::records([erased.into()], REASON)?.by(actor("op"));
    let slice = provider.erase(&erasure).await?;
    assert_eq!((slice.records, slice.is_complete), (vec![erased.into()], true));
    for handle in [&provider, &other, &stage.open().await?] {
        let update = handle.update(erased, MemoryPatch::new().with_status(memory_core::Status::Running)).await;
        let nothing = handle.update(erased, MemoryPatch::new()).await;
        for kind in [kind(handle.get(erased).await), kind(update), kind(nothing)] {
            assert_eq!(kind, Some(ErrorKind::Erased));
        }
        let tombstone = handle.tombstone(&erased.into()).await?.ok_or("a tombstone")?;
        assert_eq!((tombstone.record, tombstone.at), (erased.into(), at(5_000_000)));
        assert_eq!((tombstone.reason.as_str(), tombstone.actor), (REASON, Some(actor("op"))));
        assert_eq!(ledger(&**handle).await?, [the(&**handle, kept).await?]);
        assert_eq!(handle.tombstone(&kept.into()).await?, None);
    }
    // Of one that never was, nobody says that it was erased.
    assert_eq!(provider.get(MemoryId::generate()).await?, None);
    let unknown = provider.update(MemoryId::generate(), MemoryPatch::new().clear_context()).await;
    assert_eq!(kind(unknown), Some(ErrorKind::NotFound));
    // To repeat it changes nothing.
    assert_eq!(provider.erase(&erasure).await?.records, []);
    assert_eq!(provider.tombstone(&erased.into()).await?.map(|tombstone| tombstone.at), Some(at(5_000_000)));
    Ok(())
}

async fn an_erased_memory_has_no_history(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_history() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Failed)).await?;
    let (all, then) = (History::of(id).with_removed(), stage.namespace().clock.now());
    assert_eq!(provider.history(&all).await?.versions.len(), 2);
    erase(&*provider, [id.into()]).await?;
    for handle in [&provider, &stage.open().await?] {
        assert_eq!(handle.history(&all).await?.versions, [], "operators see none either");
        assert_eq!(handle.get_as_of(&id.into(), then).await?, None);
    }
    Ok(())
}

/// Who has the key of the ledger knows the names again, and nobody else can guess them: two ledgers have nothing in common.
async fn a_tombstone_has_keyed_hashes_alone(stage: Stage) -> CaseResult {
    let mut hashes = Vec::new();
    for stage in [stage.clone(), stage.elsewhere()] {
        let provider = stage.open().await?;
        let id = provider.store(new_memory("a-b", 1).with_idempotency_key(key("a-key"))).await?;
        erase(&*provider, [id.into()]).await?;
        let tombstone = provider.tombstone(&id.into()).await?.ok_or("a tombstone")?;
        let hash_key = provider.hash_key().await?.ok_or("a key")?;
        assert_eq!(tombstone.key, Some(hash_key.of_key(&key("a-key"))));
        let places: BTreeSet<_> = hash_key.of_space(&space("a-b")).into_iter().collect();
        assert!(tombstone.places.iter().eq(&places), "those of its space, in ascending order");
        hashes.extend(tombstone.places.into_iter().chain(tombstone.key));
    }
    let distinct: BTreeSet<_> = hashes.iter().collect();
    assert_eq!(distinct.len(), hashes.len());
    Ok(())
}

async fn an_erased_document_is_gone_with_its_history(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for content in ["one", "two"] {
        put(&*provider, new_document(NOTES, "n", "a", content)).await?;
    }
    put(&*provider, new_document(NOTES, "kept", "a", "three")).await?;
    assert_eq!(erase(&*provider, [note("n"), note("never")]).await?, [note("n")]);
    let documents = provider.documents();
    assert_eq!(documents.get(&collection(NOTES), &document_id("n")).await?, None);
    let left = walk_documents(&*documents, NOTES, QueryBuilder::all).await?;
    assert_eq!(left.iter().map(|document| document.id.as_str()).collect::<Vec<_>>(), ["kept"]);
    assert!(provider.tombstone(&note("n")).await?.is_some());
    assert_eq!(provider.tombstone(&note("never")).await?, None);
    if stage.harness().keeps_history() {
        let history = provider.history(&History::of(note("n")).with_removed()).await?;
        assert_eq!(history.versions, [], "operators see none either");
        assert_eq!(provider.get_as_of(&note("n"), stage.namespace().clock.now()).await?, None);
    }
    Ok(())
}

async fn a_removed_document_goes_with_its_history(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_history() {
        return Ok(());
    }
    let provider = stage.open().await?;
    for content in ["one", "two"] {
        put(&*provider, new_document(NOTES, "n", "a", content)).await?;
    }
    remove(&*provider, "n").await?;
    let all = History::of(note("n")).with_removed();
    assert_eq!(provider.history(&all).await?.versions.len(), 3);
    assert_eq!(erase(&*provider, [note("n"), note("never")]).await?, [note("n")]);
    assert_eq!(provider.history(&all).await?.versions, []);
    assert!(provider.tombstone(&note("n")).await?.is_some());
    assert_eq!(erase(&*provider, [note("n")]).await?, [], "nothing is left");
    let after = put(&*provider, new_document(NOTES, "n", "a", "after")).await?;
    let versions = provider.history(&all).await?.versions;
    assert_eq!(versions.into_iter().map(|version| version.record).collect::<Vec<_>>(), [Some(Record::Document(after))]);
    Ok(())
}

async fn remove(provider: &dyn MemoryProvider, id: &str) -> Result<()> {
    let one = memory_core::DocumentSelection::ids(collection(NOTES), [document_id(id)])?;
    provider.documents().remove(&one, 1).await.map(drop)
}

async fn slices_are_taken_until_nothing_is_left(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..25 {
        provider.store(new_memory("a-b", number)).await?;
        put(&*provider, new_document(NOTES, &format!("n{number}"), "a-b", "text")).await?;
    }
    let others = [new_memory("a-bc", 1), new_memory("a", 2)];
    let others = provider.store_many(others.to_vec()).await?;
    let memories = Erasure::memories(MemoryQuery::builder().under("a-b"), REASON)?.limit(10)?;
    let documents = Erasure::documents(DocumentQuery::builder(collection(NOTES)).under("a-b"), REASON)?.limit(10)?;
    for erasure in [memories, documents] {
        let mut counts = Vec::new();
        loop {
            let slice = provider.erase(&erasure).await?;
            counts.push(slice.records.len());
            for record in &slice.records {
                assert!(provider.tombstone(record).await?.is_some());
            }
            if slice.is_complete {
                break;
            }
        }
        assert_eq!(counts.iter().sum::<usize>(), 25);
        assert!(counts.iter().all(|count| *count <= 10), "{counts:?}");
        assert_eq!(provider.erase(&erasure).await?.records, [], "nothing is left");
    }
    let mut left = ledger(&*provider).await?.iter().map(|memory| memory.id).collect::<Vec<_>>();
    left.sort_unstable();
    let mut expected = others;
    expected.sort_unstable();
    assert_eq!(left, expected);
    Ok(())
}

async fn what_is_selected_goes_and_nothing_else(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (id, user) in [("ana", "ana"), ("bo", "bo")] {
        let mut memory = new_memory("a", 1);
        memory.metadata = crate::fixture::metadata(&format!(r#"{{"user":"{user}"}}"#));
        provider.store(memory).await?;
        put(&*provider, new_document(NOTES, id, "a", &format!("{user} likes tea"))).await?;
    }
    let of_ana = Erasure::memories(MemoryQuery::builder().all().filter_text("metadata.user = 'ana'"), REASON)?;
    assert_eq!(provider.erase(&of_ana).await?.records.len(), 1);
    let left = ledger(&*provider).await?;
    assert_eq!(left.iter().map(|memory| memory.metadata.as_str()).collect::<Vec<_>>(), [r#"{"user":"bo"}"#]);
    let of_bo = DocumentQuery::builder(collection(NOTES)).all().text("bo");
    assert_eq!(provider.erase(&Erasure::documents(of_bo, REASON)?).await?.records, [note("bo")]);
    Ok(())
}

/// Whichever index an engine uses for a condition, what was erased is not in it.
async fn nothing_finds_what_was_erased(stage: Stage) -> CaseResult {
    type Ask = fn(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>;
    let provider = stage.open().await?;
    let (mut erased, mut kept) = (new_memory("a-b", 1), new_memory("a-b", 2));
    (erased.trigger, erased.metadata) = (trigger(r#"{"text":"red tea"}"#), metadata(r#"{"user":"ana"}"#));
    kept.trigger = trigger(r#"{"text":"green tea"}"#);
    let (erased, kept) = (provider.store(erased).await?, provider.store(kept).await?);
    for (id, content) in [("erased", "red tea"), ("kept", "green tea")] {
        put(&*provider, new_document(NOTES, id, "a-b", content)).await?;
    }
    erase(&*provider, [erased.into(), note("erased")]).await?;
    let asked: [(Ask, &[MemoryId]); 6] = [
        (|all| all.all().text("red"), &[]),
        (|all| all.all().text("red tea"), &[kept]),
        (|all| all.all().filter_text("metadata.user = 'ana'"), &[]),
        (|all| all.all().filter_text("text LIKE '%red%'"), &[]),
        (|all| all.exact("a-b").status(Status::Pending), &[kept]),
        (|all| all.under("a"), &[kept]),
    ];
    for handle in [&provider, &stage.open().await?] {
        for (number, (ask, expected)) in asked.iter().enumerate() {
            assert_eq!(ids(&walk(&**handle, ask).await?), *expected, "{number}");
        }
        let recalled = handle.recall(&MemoryRecall::new("red tea", query(QueryBuilder::all))?).await?;
        assert_eq!(recalled.hits.into_iter().map(|hit| hit.record.id).collect::<Vec<_>>(), [kept]);
        let documents = walk_documents(&*handle.documents(), NOTES, |all| all.all().text("red tea")).await?;
        assert_eq!(documents.iter().map(|document| document.id.as_str()).collect::<Vec<_>>(), ["kept"]);
    }
    Ok(())
}

/// What was listed before, and matches no more, stays.
async fn names_limit_what_a_query_takes(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids = provider.store_many((0..3).map(|number| new_memory("a", number)).collect()).await?;
    provider.update(ids[1], MemoryPatch::new().with_status(memory_core::Status::Failed)).await?;
    let pending = || MemoryQuery::builder().exact("a").status(memory_core::Status::Pending);
    let among = |some: &[MemoryId]| {
        Erasure::memories(pending(), REASON)?.among(some.iter().copied().map(RecordId::from).collect::<Vec<_>>())
    };
    let slice = provider.erase(&among(&[ids[0], ids[1], MemoryId::generate()])?).await?;
    assert_eq!((slice.records, slice.is_complete), (vec![ids[0].into()], true));
    for id in ["n", "o"] {
        put(&*provider, new_document(NOTES, id, "a", "text")).await?;
    }
    put(&*provider, new_document(NOTES, "n", "b", "text")).await?;
    let in_a = Erasure::documents(DocumentQuery::builder(collection(NOTES)).exact("a"), REASON)?;
    let slice = provider.erase(&in_a.among([note("n"), note("o"), note("never")])?).await?;
    assert_eq!((slice.records, slice.is_complete), (vec![note("o")], true));
    // Names of what no such query finds.
    let of_memories = Erasure::memories(MemoryQuery::builder().exact("b"), REASON)?.among([note("n")])?;
    let drafts = Erasure::documents(DocumentQuery::builder(collection("drafts")).exact("b"), REASON)?;
    let of_documents = Erasure::documents(DocumentQuery::builder(collection(NOTES)).exact("a"), REASON)?;
    for erasure in [of_memories, drafts.among([note("n")])?, of_documents.among([ids[2].into()])?] {
        let slice = provider.erase(&erasure).await?;
        assert_eq!((slice.records, slice.is_complete), (vec![], true));
    }
    assert_eq!(ledger(&*provider).await?.len(), 2);
    assert!(provider.documents().get(&collection(NOTES), &document_id("n")).await?.is_some());
    Ok(())
}

/// Pages, counts and ranks agree with those of a ledger that never had the records.
async fn what_is_left_is_as_if_the_rest_had_never_been(stage: Stage) -> CaseResult {
    let (provider, never) = (stage.open().await?, stage.elsewhere().open().await?);
    let mut erased = Vec::new();
    for number in 0..40_i64 {
        let mut memory = new_memory(if number % 2 == 0 { "a-b" } else { "a-c" }, number);
        memory.trigger = trigger(&format!(r#"{{"text":"tea number {number} and rain"}}"#));
        let id = provider.store(memory).await?;
        let content = format!("tea of {number}, and rain");
        put(&*provider, new_document(NOTES, &format!("n{number}"), "a-b", &content)).await?;
        if number % 4 == 0 {
            erased.extend([id.into(), note(&format!("n{number}"))]);
        } else {
            never.restore(vec![the(&*provider, id).await?]).await?;
            let document = provider.documents().get(&collection(NOTES), &document_id(&format!("n{number}"))).await?;
            never.documents().restore(document.into_iter().collect()).await?;
        }
    }
    assert_eq!(erase(&*provider, erased).await?.len(), 20);
    for handle in [&provider, &never] {
        assert_eq!(walk(&**handle, |all| all.under("a-b")).await?.len(), 10);
    }
    assert_eq!(ledger(&*provider).await?, ledger(&*never).await?);
    let levels = SpaceQuery::builder().depth(2).build()?;
    assert_eq!(provider.spaces(&levels).await?, never.spaces(&levels).await?);
    let asked = MemoryRecall::new("rain and tea", query(|all| all.under("a")))?;
    let found = |recalled: memory_core::Recalled<memory_core::Memory>| {
        recalled.hits.into_iter().map(|hit| (hit.record.id, hit.score.to_bits())).collect::<Vec<_>>()
    };
    assert_eq!(found(provider.recall(&asked).await?), found(never.recall(&asked).await?));
    let of = |handle: Arc<dyn MemoryProvider>| async move {
        walk_documents(&*handle.documents(), NOTES, |all| all.all().text("rain")).await
    };
    assert_eq!(of(provider).await?, of(never).await?);
    Ok(())
}

async fn a_key_that_was_erased_is_not_stored_again(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = |name: &str| new_memory("a", 1).with_idempotency_key(key(name));
    let erased = provider.store(keyed("k")).await?;
    erase(&*provider, [erased.into()]).await?;
    for handle in [&provider, &stage.open().await?] {
        let again = handle.store(keyed("k")).await.expect_err("it was erased");
        assert_eq!((again.kind(), again.outcome()), (ErrorKind::Erased, Outcome::NotDone));
        let batch = handle.store_many(vec![keyed("l"), keyed("k")]).await;
        assert_eq!(kind(batch), Some(ErrorKind::Erased));
        assert_eq!(ledger(&**handle).await?, [], "all or none");
    }
    // Stores that share a step with others.
    let stores = join_all((0..20).map(|number| {
        let (provider, memory) = (Arc::clone(&provider), keyed(if number % 2 == 0 { "k" } else { "m" }));
        async move { provider.store(memory).await }
    }));
    for (number, stored) in stores.await.into_iter().enumerate() {
        let expected = (number % 2 == 0).then_some(ErrorKind::Erased);
        assert_eq!(kind(stored), expected, "{number}");
    }
    assert_eq!(ledger(&*provider).await?.len(), 1);
    Ok(())
}

async fn a_backup_brings_nothing_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut backup = Vec::new();
    for number in 0..3 {
        let memory = new_memory("a", number).with_idempotency_key(key(&format!("k{number}")));
        backup.push(the(&*provider, provider.store(memory).await?).await?);
        put(&*provider, new_document(NOTES, &format!("n{number}"), "a", "text")).await?;
    }
    let documents = walk_documents(&*provider.documents(), NOTES, QueryBuilder::all).await?;
    stage.namespace().clock.set(at(5_000_000));
    erase(&*provider, [backup[1].id.into(), note("n1")]).await?;
    let place = documents.iter().position(|document| document.id.as_str() == "n1").ok_or("a document")?;
    // Under another id, its key keeps it out.
    let other = memory_core::Memory { id: MemoryId::generate(), ..backup[1].clone() };
    let mut memories = backup.clone();
    memories.push(other);
    for report in [provider.restore(memories.clone()).await?, provider.restore_newer(memories).await?] {
        assert_eq!((report.written, report.equal, report.erased, report.conflicts), (0, 2, vec![1, 3], vec![]));
    }
    let store = provider.documents();
    for report in [store.restore(documents.clone()).await?, store.restore_newer(documents.clone()).await?] {
        assert_eq!((report.written, report.equal, report.erased, report.conflicts), (0, 2, vec![place], vec![]));
    }
    assert_eq!(kind(provider.get(backup[1].id).await), Some(ErrorKind::Erased));
    Ok(())
}

async fn a_document_that_is_put_anew_is_another_one(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let before = put(&*provider, new_document(NOTES, "n", "a", "before")).await?;
    stage.namespace().clock.set(at(5_000_000));
    erase(&*provider, [note("n")]).await?;
    let mut write = new_document(NOTES, "n", "a", "after");
    write.created_at = at(7);
    let after = put(&*provider, write).await?;
    assert_eq!((after.revision, after.created_at), (memory_core::Revision::FIRST, at(5_000_001)));
    if stage.harness().keeps_history() {
        let history = provider.history(&History::of(note("n")).with_removed()).await?;
        let records: Vec<_> = history.versions.into_iter().map(|version| version.record).collect();
        assert_eq!(records, [Some(Record::Document(after.clone()))]);
    }
    let store = provider.documents();
    assert_eq!(store.restore(vec![before]).await?.conflicts, [0], "what is there stays");
    remove(&*provider, "n").await?;
    let report = store.restore(vec![after.clone()]).await?;
    assert_eq!((report.written, report.erased), (1, vec![]), "it was put behind the erasure");
    assert!(provider.tombstone(&note("n")).await?.is_some());
    Ok(())
}

/// However late a document says that it was created, also one that was removed before.
async fn a_tombstone_keeps_out_all_that_had_its_name(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_history() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let mut late = new_document(NOTES, "n", "a", "text");
    late.created_at = at(9_000_000);
    let late = put(&*provider, late).await?;
    remove(&*provider, "n").await?;
    stage.namespace().clock.set(at(5_000_000));
    assert_eq!(erase(&*provider, [note("n")]).await?, [note("n")]);
    assert_eq!(provider.documents().restore(vec![late]).await?.erased, [0]);
    Ok(())
}

async fn what_cant_be_read_and_is_named_is_told(stage: Stage) -> CaseResult {
    if !stage.harness().can_erase() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let stored = provider.store_many(vec![new_memory("a", 1), new_memory("a", 2)]).await?;
    assert!(stage.harness().damage(stage.namespace(), stored[0]).await?);
    let named = Erasure::records(stored.iter().copied().map(RecordId::from), REASON)?;
    let refused = provider.erase(&named).await.expect_err("one can't be read");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Corrupt, Outcome::NotDone));
    the(&*provider, stored[1]).await?;
    let found = Erasure::memories(MemoryQuery::builder().exact("a"), REASON)?;
    assert_eq!(provider.erase(&found).await?.records, [stored[1].into()], "a walk passes it over");
    Ok(())
}

/// Behind a document that was created then, no other one can be, so that none is put that a restore would leave out.
async fn nothing_comes_behind_the_end_of_time(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let last = |content: &str| {
        let mut write = new_document(NOTES, "n", "a", content);
        write.created_at = memory_core::Timestamp::MAX;
        write
    };
    put(&*provider, last("text")).await?;
    assert_eq!(erase(&*provider, [note("n")]).await?, [note("n")]);
    for write in [last("again"), new_document(NOTES, "n", "a", "again")] {
        let refused = put(&*provider, write).await.expect_err("nothing comes behind it");
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Conflict, Outcome::NotDone));
    }
    assert_eq!(provider.documents().get(&collection(NOTES), &document_id("n")).await?, None);
    Ok(())
}

async fn racing_updates_bring_nothing_back(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    for round in 0..5 {
        let id = provider.store(new_memory("a", round)).await?;
        let updates = join_all((0..10).map(|number| {
            let (other, patch) =
                (Arc::clone(&other), MemoryPatch::new().set_context(crate::fixture::context(&number.to_string())));
            async move { other.update(id, patch).await }
        }));
        let (updated, erased) = futures::join!(updates, erase(&*provider, [id.into()]));
        assert_eq!(erased?, [id.into()]);
        for update in updated {
            assert!(matches!(kind(update), None | Some(ErrorKind::Erased)));
        }
        assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
    }
    Ok(())
}

/// Whoever may look at a place learns that something in it was erased, and nobody else does.
async fn a_watch_is_told_where_it_may_look(stage: Stage) -> CaseResult {
    if !stage.harness().can_watch() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a-b", 1)).await?;
    let elsewhere = provider.store(new_memory("c", 2)).await?;
    put(&*provider, new_document(NOTES, "n", "a-b", "text")).await?;
    let within = |path: &str| MemoryQuery::builder().all().within(SpaceSelector::under(path).expect("a path"));
    let mut watches = Vec::new();
    for (conditions, expected) in [
        (MemoryQuery::builder().all(), vec![id.into(), note("n"), elsewhere.into()]),
        (within("a"), vec![id.into(), note("n")]),
        (within("a-b"), vec![id.into(), note("n")]),
        (within("c"), vec![elsewhere.into()]),
        (within("d"), vec![]),
        (MemoryQuery::builder().under("c"), vec![elsewhere.into()]),
    ] {
        let watch = Watch::new(Watched::Both(Collections::All), conditions)?;
        let (_, token) = told(&*provider, watch.clone().from(WatchFrom::Now)).await?;
        watches.push((watch.from(token.into()), expected));
    }
    erase(&*provider, [id.into()]).await?;
    erase(&*provider, [note("n")]).await?;
    erase(&*provider, [elsewhere.into()]).await?;
    for (watch, expected) in watches {
        let (kinds, _) = told(&*provider, watch).await?;
        assert_eq!(kinds, expected.into_iter().map(ChangeKind::Erased).collect::<Vec<_>>());
    }
    // Who begins at the front is told of nothing that was there before.
    let all = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all())?;
    let (kinds, _) = told(&*provider, all.from(WatchFrom::Beginning)).await?;
    assert_eq!(kinds, []);
    Ok(())
}

async fn a_watch_is_told_where_a_document_was_before(stage: Stage) -> CaseResult {
    if !stage.harness().can_watch() || !stage.harness().keeps_history() {
        return Ok(());
    }
    let provider = stage.open().await?;
    put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    let mut watches = Vec::new();
    for (path, is_told) in [("a", true), ("b", true), ("c", false)] {
        let watch = Watch::new(Watched::Documents(Collections::All), MemoryQuery::builder().under(path))?;
        let (_, token) = told(&*provider, watch.clone().from(WatchFrom::Now)).await?;
        watches.push((watch.from(token.into()), is_told));
    }
    put(&*provider, new_document(NOTES, "n", "b", "text")).await?;
    erase(&*provider, [note("n")]).await?;
    for (watch, is_told) in watches {
        let (kinds, _) = told(&*provider, watch).await?;
        assert_eq!(kinds.contains(&ChangeKind::Erased(note("n"))), is_told);
    }
    Ok(())
}

/// A ledger to which the tombstones of another one are copied first keeps out what that one does.
async fn tombstones_keep_out_elsewhere_too(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.elsewhere().open().await?);
    let memory = new_memory("a", 1).with_idempotency_key(key("k"));
    let memory = the(&*provider, provider.store(memory).await?).await?;
    let document = put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    stage.namespace().clock.set(at(5_000_000));
    let by = Erasure::records([memory.id.into(), note("n")], REASON)?.by(actor("op"));
    provider.erase(&by).await?;
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let page = provider.tombstones(None).await?;
    assert_eq!((page.tombstones.len(), page.next), (2, None));
    let report = other.restore_tombstones(page.tombstones.clone(), &hash_key).await?;
    assert_eq!((report.written, report.equal), (2, 0));
    let report = other.restore_tombstones(page.tombstones.clone(), &hash_key).await?;
    assert_eq!((report.written, report.equal), (0, 2), "to repeat it changes nothing");
    assert_eq!(other.hash_key().await?.as_ref(), Some(&hash_key));
    let mut there = other.tombstones(None).await?.tombstones;
    let mut here = page.tombstones;
    for tombstones in [&mut here, &mut there] {
        tombstones.sort_by(|one, other| one.record.cmp(&other.record));
    }
    assert_eq!(there, here);
    let id = memory.id;
    assert_eq!(other.restore(vec![memory]).await?.erased, [0]);
    assert_eq!(other.documents().restore(vec![document]).await?.erased, [0]);
    assert_eq!(kind(other.get(id).await), Some(ErrorKind::Erased));
    let again = other.store(new_memory("a", 1).with_idempotency_key(key("k"))).await;
    assert_eq!(kind(again), Some(ErrorKind::Erased));
    assert_eq!(ledger(&*other).await?, []);
    Ok(())
}

/// Also where they come late, and the ledger has a key of its own.
async fn tombstones_erase_what_is_there(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.elsewhere().open().await?);
    other.store(new_memory("a", 7).with_idempotency_key(key("own"))).await?;
    let memory = new_memory("a", 1).with_idempotency_key(key("k"));
    let memory = the(&*provider, provider.store(memory).await?).await?;
    let gone = the(&*provider, provider.store(new_memory("a", 2).with_idempotency_key(key("l"))).await?).await?;
    other.restore(vec![memory.clone()]).await?;
    let mut documents = Vec::new();
    for id in ["n", "o"] {
        documents.push(put(&*provider, new_document(NOTES, id, "a", "text")).await?);
    }
    other.documents().restore(vec![documents[0].clone()]).await?;
    stage.namespace().clock.set(at(5_000_000));
    erase(&*provider, [memory.id.into(), gone.id.into(), note("n"), note("o")]).await?;
    let mut later = new_document(NOTES, "o", "a", "after");
    later.created_at = at(5_000_001);
    let later = put(&*other, later).await?;

    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let tombstones = provider.tombstones(None).await?.tombstones;
    let report = other.restore_tombstones(tombstones.clone(), &hash_key).await?;
    assert_eq!((report.written, report.equal), (3, 1), "what was put behind the erasure stays");
    assert_eq!(other.documents().get(&collection(NOTES), &document_id("n")).await?, None);
    assert_eq!(other.documents().get(&collection(NOTES), &document_id("o")).await?, Some(later));
    for id in [memory.id, gone.id] {
        assert_eq!(kind(other.get(id).await), Some(ErrorKind::Erased));
        let there = other.tombstone(&id.into()).await?.ok_or("a tombstone")?;
        assert_eq!((there.at, there.reason.as_str()), (at(5_000_000), REASON));
    }
    assert_eq!(other.restore(vec![memory, gone]).await?.erased, [0, 1]);
    let again = other.store(new_memory("a", 1).with_idempotency_key(key("k"))).await;
    assert_eq!(kind(again), Some(ErrorKind::Erased), "it was erased here, with its key");
    assert_eq!(ledger(&*other).await?.len(), 1);
    let others = provider.restore_tombstones(tombstones, &memory_core::HashKey::generate()?).await?;
    assert_eq!((others.written, others.equal), (0, 4), "what is there stays");
    Ok(())
}

/// Also where it was removed since, and only its history is left.
async fn what_was_put_behind_an_erasure_elsewhere_stays(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_history() {
        return Ok(());
    }
    let (provider, other) = (stage.open().await?, stage.elsewhere().open().await?);
    put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    stage.namespace().clock.set(at(5_000_000));
    erase(&*provider, [note("n")]).await?;
    let mut later = new_document(NOTES, "n", "a", "later");
    later.created_at = at(5_000_001);
    let later = put(&*other, later).await?;
    remove(&*other, "n").await?;
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let report = other.restore_tombstones(provider.tombstones(None).await?.tombstones, &hash_key).await?;
    assert_eq!((report.written, report.equal), (0, 1));
    assert_eq!(other.history(&History::of(note("n")).with_removed()).await?.versions.len(), 2);
    assert_eq!(other.documents().restore(vec![later]).await?.written, 1);
    Ok(())
}

/// One that came by way of a ledger with another key knows no idempotency key, and learns it from one that does.
async fn tombstones_learn_from_each_other(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.elsewhere().open().await?);
    let keyed = || new_memory("a", 1).with_idempotency_key(key("k"));
    let id = provider.store(keyed()).await?;
    erase(&*provider, [id.into()]).await?;
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let tombstones = provider.tombstones(None).await?.tombstones;
    // It brings the key of the hashes, and no tombstone.
    other.restore_tombstones(Vec::new(), &hash_key).await?;
    other.restore_tombstones(tombstones.clone(), &memory_core::HashKey::generate()?).await?;
    assert_eq!(other.tombstone(&id.into()).await?.and_then(|tombstone| tombstone.key), None);
    for (written, equal) in [(1, 0), (0, 1)] {
        let report = other.restore_tombstones(tombstones.clone(), &hash_key).await?;
        assert_eq!((report.written, report.equal), (written, equal));
        assert_eq!(other.tombstones(None).await?.tombstones, tombstones);
        assert_eq!(kind(other.store(keyed()).await), Some(ErrorKind::Erased));
    }
    Ok(())
}

async fn what_cant_be_read_keeps_no_tombstone_from_coming(stage: Stage) -> CaseResult {
    if !stage.harness().can_erase() {
        return Ok(());
    }
    let (provider, elsewhere) = (stage.open().await?, stage.elsewhere());
    let other = elsewhere.open().await?;
    let ids = provider.store_many((0..3).map(|number| new_memory("a", number)).collect()).await?;
    let mut memories = Vec::new();
    for id in &ids {
        memories.push(the(&*provider, *id).await?);
    }
    other.restore(memories).await?;
    assert!(stage.harness().damage(elsewhere.namespace(), ids[1]).await?);
    erase(&*provider, ids.iter().copied().map(RecordId::from)).await?;
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let mut tombstones = provider.tombstones(None).await?.tombstones;
    tombstones.sort_by(|one, another| one.record.cmp(&another.record));
    let place = tombstones.iter().position(|tombstone| tombstone.record == ids[1].into()).ok_or("a tombstone")?;
    let report = other.restore_tombstones(tombstones, &hash_key).await?;
    assert_eq!((report.written, report.equal, report.conflicts), (2, 0, vec![place]));
    for (place, id) in ids.into_iter().enumerate() {
        let expected = if place == 1 { ErrorKind::Corrupt } else { ErrorKind::Erased };
        assert_eq!(kind(other.get(id).await), Some(expected));
    }
    Ok(())
}

async fn tombstones_come_in_pages(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    assert_eq!(provider.tombstones(None).await?.tombstones, []);
    let ids = provider.store_many((0..1_000).map(|number| new_memory("a", number)).collect()).await?;
    let more = provider.store_many((0..100).map(|number| new_memory("a", number)).collect()).await?;
    let documents: Vec<_> = (0..20).map(|number| new_document(NOTES, &format!("n{number}"), "a", "text")).collect();
    for document in documents {
        put(&*provider, document).await?;
    }
    let notes = (0..20).map(|number| note(&format!("n{number}")));
    let mut expected: Vec<RecordId> = ids.into_iter().chain(more).map(RecordId::from).chain(notes).collect();
    for some in expected.chunks(600) {
        erase(&*provider, some.to_vec()).await?;
    }
    let (mut found, mut behind) = (Vec::new(), None);
    loop {
        let page = provider.tombstones(behind.as_deref()).await?;
        assert!(page.tombstones.len() < expected.len(), "a page is bounded");
        found.extend(page.tombstones.into_iter().map(|tombstone| tombstone.record));
        behind = page.next;
        if behind.is_none() {
            break;
        }
    }
    found.sort_unstable();
    found.dedup();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let refused = provider.tombstones(Some("?")).await;
    assert_eq!(kind(refused), Some(ErrorKind::InvalidInput));
    Ok(())
}

/// What a watch tells until it has told all, and where to go on.
async fn told(
    provider: &dyn MemoryProvider,
    watch: Watch,
) -> std::result::Result<(Vec<ChangeKind>, WatchToken), Box<dyn std::error::Error + Send + Sync>> {
    let (mut changes, mut kinds) = (provider.watch(&watch).await?, Vec::new());
    loop {
        let Change { kind, token } = changes.next().await.ok_or("it goes on")??;
        match kind {
            ChangeKind::Reached => return Ok((kinds, token)),
            ChangeKind::Progress => {}
            kind => kinds.push(kind),
        }
    }
}
