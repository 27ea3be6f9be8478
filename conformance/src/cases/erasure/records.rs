//! What an erasure removes of records, and what stays of them (E1, E2).

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use memory_core::{
    Clock as _, Erasure, ErrorKind, History, Ledger, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall,
    Outcome, QueryBuilder, Record, RecordId, SpaceQuery, Status,
};

use super::{REASON, erase};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, actor, at, collection, document_id, ids, key, kind, ledger, metadata, new_document, new_memory, note, put,
    query, remove_note, space, the, trigger, walk, walk_documents,
};

chapter!("erasure":
    records_are_erased_or_that_is_refused_plainly ["E1"],
    an_erased_memory_is_gone_and_told_as_such ["E1", "E2"] needs Erasure,
    an_erased_memory_has_no_history ["E1"] needs Erasure,
    a_tombstone_has_keyed_hashes_alone ["E2"] needs Erasure,
    an_erased_document_is_gone_with_its_history ["E1", "E2"] needs Erasure,
    a_removed_document_goes_with_its_history ["E1"] needs Erasure,
    nothing_finds_what_was_erased ["E1"] needs Erasure,
    what_is_left_is_as_if_the_rest_had_never_been ["E1"] needs Erasure,
    what_cant_be_read_and_is_named_is_told ["E1"] needs Damage,
    racing_updates_bring_nothing_back ["E1"] needs Erasure,
);

/// An engine erases, or answers `Unsupported`.
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
    // An id that never existed is not reported as erased.
    assert_eq!(provider.get(MemoryId::generate()).await?, None);
    let unknown = provider.update(MemoryId::generate(), MemoryPatch::new().clear_context()).await;
    assert_eq!(kind(unknown), Some(ErrorKind::NotFound));
    // Repeating an erasure changes nothing.
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

/// The space and the idempotency key can be recognised with the hash key of the ledger, and can't be guessed without it: two ledgers have
/// no hash in common.
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
    remove_note(&*provider, "n").await?;
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

/// An erased record is in none of the indexes that an engine may use for a condition.
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

/// Pages, counts and ranks equal those of a ledger that never had the records.
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
    assert_eq!(provider.erase(&found).await?.records, [stored[1].into()], "a walk skips it");
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
