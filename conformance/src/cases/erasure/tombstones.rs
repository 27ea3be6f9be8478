//! Tombstones are copied with a ledger (E5).

use memory_core::{Erasure, ErrorKind, History, RecordId};

use super::{REASON, erase};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, actor, at, collection, document_id, key, kind, ledger, new_document, new_memory, note, put, remove_note, the,
};

chapter!("erasure":
    tombstones_keep_out_elsewhere_too ["E5"] needs Erasure,
    tombstones_erase_what_is_there ["E5"] needs Erasure,
    what_was_put_behind_an_erasure_elsewhere_stays ["E5"] needs Erasure,
    tombstones_learn_from_each_other ["E5"] needs Erasure,
    what_cant_be_read_keeps_no_tombstone_from_coming ["E5"] needs Damage,
    tombstones_come_in_pages ["E5"] needs Erasure,
);

/// A ledger that gets the tombstones of another one first keeps out what that ledger keeps out.
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
    assert_eq!((report.written, report.equal), (0, 2), "repeating it changes nothing");
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

/// Tombstones that arrive late erase existing records, even in a ledger that has a hash key of its own.
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
    assert_eq!((report.written, report.equal), (3, 1), "what was put after the erasure stays");
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

/// A document that was put after the erasure keeps its history when the tombstone arrives, even if it was removed since.
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
    remove_note(&*other, "n").await?;
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let report = other.restore_tombstones(provider.tombstones(None).await?.tombstones, &hash_key).await?;
    assert_eq!((report.written, report.equal), (0, 1));
    assert_eq!(other.history(&History::of(note("n")).with_removed()).await?.versions.len(), 2);
    assert_eq!(other.documents().restore(vec![later]).await?.written, 1);
    Ok(())
}

/// A tombstone that comes with another hash key blocks no idempotency key; once it comes with the ledger's own, it blocks its key.
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
