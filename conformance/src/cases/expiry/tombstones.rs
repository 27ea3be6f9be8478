//! Tombstones of expired records, and how long they stay (X4).

use memory_core::{Erasure, ErrorKind, MemoryPatch, RecordId, Revision, Status, Sweep, Tombstone};

use super::{DAY, END, expiring, expiring_note, get_note, set_clock, sorted, swept};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, collection, key, kind, ledger, new_document, new_memory, note, put, the};

chapter!("expiry":
    tombstones_of_expiry_go_after_90_days ["X4"] needs Erasure,
    tombstones_of_erasures_stay_for_good ["X4", "E2"] needs Erasure,
    an_expiry_ends_no_earlier_erasure ["X4", "E3"] needs Erasure,
    a_late_sweep_leaves_no_tombstones ["X4"] needs Erasure,
    tombstones_of_expiry_go_along ["X4", "E5"] needs Erasure,
    what_was_extended_elsewhere_is_not_taken ["X4", "E5"] needs Erasure,
    an_erasure_by_name_lasts_behind_an_expiry ["X4", "E1"] needs Erasure,
);

const REASON: &str = "somebody asked for it";

/// For 90 days a store with the key is refused; after that it is as if the record had never existed.
async fn tombstones_of_expiry_go_after_90_days(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = || new_memory("a", 1).with_idempotency_key(key("k"));
    let id = provider.store(keyed().expires_at(at(END))).await?;
    let document = put(&*provider, expiring_note("n", "a", "text")).await?;
    set_clock(&stage, END);
    let expected = sorted([RecordId::from(id), note("n")]);
    assert_eq!(swept(&*provider, Sweep::all()).await?, (expected, 0));
    set_clock(&stage, END + 89 * DAY);
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0));
    assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
    assert_eq!(kind(provider.store(keyed()).await), Some(ErrorKind::Erased));
    set_clock(&stage, END + 90 * DAY);
    assert_eq!(swept(&*provider, Sweep::due()).await?, (vec![], 0), "this sweep takes records alone");
    assert_eq!(kind(provider.store(keyed()).await), Some(ErrorKind::Erased), "until they are taken away");
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 2));
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0), "once");
    for handle in [&provider, &stage.open().await?] {
        assert_eq!(handle.tombstones(None).await?.tombstones, []);
        assert_eq!(handle.tombstone(&id.into()).await?, None);
        assert_eq!(handle.get(id).await?, None);
        let unknown = handle.update(id, MemoryPatch::new().with_status(Status::Failed)).await;
        assert_eq!(kind(unknown), Some(ErrorKind::NotFound));
    }
    let again = provider.store(keyed()).await?;
    assert_ne!(again, id);
    assert_eq!(ledger(&*provider).await?, [the(&*provider, again).await?]);
    let anew = put(&*provider, new_document(NOTES, "n", "a", "anew")).await?;
    assert_eq!((anew.revision, anew.created_at), (Revision::FIRST, document.created_at));
    Ok(())
}

async fn tombstones_of_erasures_stay_for_good(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = || new_memory("a", 1).with_idempotency_key(key("k"));
    let erased = provider.store(keyed()).await?;
    // One is erased before it expires, and the other one afterwards.
    let before = provider.store(expiring("a", 2)).await?;
    let over = provider.store(expiring("a", 3)).await?;
    put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    provider.erase(&Erasure::records([RecordId::from(erased), before.into(), note("n")], REASON)?).await?;
    set_clock(&stage, END);
    provider.erase(&Erasure::records([RecordId::from(over)], REASON)?).await?;
    set_clock(&stage, END + 1_000 * DAY);
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0));
    for id in [erased, before, over] {
        assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
        let tombstone = provider.tombstone(&id.into()).await?.ok_or("a tombstone")?;
        assert_eq!(tombstone.reason.as_str(), REASON);
    }
    assert_eq!(kind(provider.store(keyed()).await), Some(ErrorKind::Erased));
    assert!(provider.tombstone(&note("n")).await?.is_some());
    Ok(())
}

/// A document is erased, put again, and expires: when the tombstone of the expiry is removed, the erasure still keeps
/// out the erased document.
async fn an_expiry_ends_no_earlier_erasure(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let erased = put(&*provider, new_document(NOTES, "n", "a", "erased")).await?;
    provider.erase(&Erasure::records([note("n")], REASON)?).await?;
    let anew = put(&*provider, expiring_note("n", "a", "anew")).await?;
    assert_eq!((anew.revision, anew.created_at), (Revision::FIRST, at(1_000_001)));
    set_clock(&stage, END);
    assert_eq!(swept(&*provider, Sweep::all()).await?.0, [note("n")]);
    set_clock(&stage, END + 1_000 * DAY);
    swept(&*provider, Sweep::all()).await?;
    let report = provider.documents().restore(vec![erased]).await?;
    assert_eq!((report.written, report.erased), (0, vec![0]));
    assert_eq!(get_note(&*provider, "n").await?, None);
    assert!(provider.tombstone(&note("n")).await?.is_some_and(|tombstone| !tombstone.is_of_expiry()));
    Ok(())
}

/// Sweeps that come more than 90 days after the expiry leave no tombstone: the same round or the next one removes it.
async fn a_late_sweep_leaves_no_tombstones(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = || new_memory("a", 1).with_idempotency_key(key("k"));
    let id = provider.store(keyed().expires_at(at(END))).await?;
    put(&*provider, expiring_note("n", "a", "text")).await?;
    set_clock(&stage, END + 100 * DAY);
    assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
    let (mut erased, first) = swept(&*provider, Sweep::all()).await?;
    let (rest, second) = swept(&*provider, Sweep::all()).await?;
    erased.extend(rest);
    assert_eq!((erased, first + second), (sorted([RecordId::from(id), note("n")]), 2));
    assert_eq!(provider.get(id).await?, None);
    provider.store(keyed()).await?;
    assert_eq!(provider.documents().collections().await?, []);
    Ok(())
}

/// Tombstones of expiry that are copied to another ledger keep out the same records, and are removed at the same time.
async fn tombstones_of_expiry_go_along(stage: Stage) -> CaseResult {
    let elsewhere = stage.elsewhere();
    let (provider, other) = (stage.open().await?, elsewhere.open().await?);
    let keyed = || new_memory("a", 1).with_idempotency_key(key("k"));
    let id = provider.store(keyed().expires_at(at(END))).await?;
    put(&*provider, expiring_note("n", "a", "text")).await?;
    let memory = the(&*provider, id).await?;
    other.restore(vec![memory.clone()]).await?;
    set_clock(&stage, END);
    swept(&*provider, Sweep::all()).await?;
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let page = provider.tombstones(None).await?;
    assert_eq!((page.tombstones.len(), page.next), (2, None));
    assert!(page.tombstones.iter().all(Tombstone::is_of_expiry));
    // In the other ledger, whose clock is earlier, the memory has not expired.
    assert_eq!(the(&*other, id).await?, memory);
    let report = other.restore_tombstones(page.tombstones.clone(), &hash_key).await?;
    assert_eq!((report.written, report.equal), (2, 0));
    let mut there = other.tombstones(None).await?.tombstones;
    let mut here = page.tombstones;
    for tombstones in [&mut here, &mut there] {
        tombstones.sort_by(|one, other| one.record.cmp(&other.record));
    }
    // Without the hashes: the other ledger made a hash key of its own when it got a memory with an idempotency key.
    let told = |tombstones: &[Tombstone]| tombstones.iter().map(|one| (one.record.clone(), one.at)).collect::<Vec<_>>();
    assert_eq!(told(&there), told(&here));
    assert!(there.iter().all(Tombstone::is_of_expiry));
    assert_eq!(kind(other.get(id).await), Some(ErrorKind::Erased));
    assert_eq!(kind(other.store(keyed()).await), Some(ErrorKind::Erased));
    set_clock(&elsewhere, END + 90 * DAY);
    assert_eq!(swept(&*other, Sweep::all()).await?, (vec![], 2));
    assert_eq!(other.get(id).await?, None);
    other.store(keyed()).await?;
    assert_eq!(other.documents().get(&collection(NOTES), &crate::fixture::document_id("n")).await?, None);
    Ok(())
}

/// A copied tombstone erases no record that is to expire later in the other ledger.
async fn what_was_extended_elsewhere_is_not_taken(stage: Stage) -> CaseResult {
    let elsewhere = stage.elsewhere();
    let (provider, other) = (stage.open().await?, elsewhere.open().await?);
    let id = provider.store(expiring("a", 1)).await?;
    let document = put(&*provider, expiring_note("n", "a", "text")).await?;
    other.restore(vec![the(&*provider, id).await?]).await?;
    other.documents().restore(vec![document]).await?;
    other.update(id, MemoryPatch::new().set_expiry(at(END + 1))).await?;
    put(&*other, new_document(NOTES, "n", "a", "text").expires_at(at(END + 1))).await?;
    set_clock(&stage, END);
    swept(&*provider, Sweep::all()).await?;
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let page = provider.tombstones(None).await?;
    let report = other.restore_tombstones(page.tombstones, &hash_key).await?;
    assert_eq!((report.written, report.conflicts), (0, vec![]));
    assert_eq!(the(&*other, id).await?.expires_at, Some(at(END + 1)));
    assert!(get_note(&*other, "n").await?.is_some());
    Ok(())
}

/// An erasure by name of an expired record leaves a tombstone of an erasure, which stays for good.
async fn an_erasure_by_name_lasts_behind_an_expiry(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(expiring("a", 1).with_idempotency_key(key("k"))).await?;
    put(&*provider, expiring_note("n", "a", "text")).await?;
    set_clock(&stage, END);
    swept(&*provider, Sweep::all()).await?;
    let records = [RecordId::from(id), note("n")];
    let erased = provider.erase(&Erasure::records(records.clone(), REASON)?).await?;
    assert_eq!((erased.records, erased.is_complete), (sorted(records.clone()), true));
    set_clock(&stage, END + 91 * DAY);
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0));
    for record in &records {
        let tombstone = provider.tombstone(record).await?.ok_or("a tombstone")?;
        assert_eq!(tombstone.reason.as_str(), REASON);
    }
    let again = provider.store(new_memory("a", 1).with_idempotency_key(key("k"))).await;
    assert_eq!(kind(again), Some(ErrorKind::Erased));
    Ok(())
}
