//! Writes that meet expired records (X2, X4).

use std::sync::Arc;

use futures::future::join_all;
use memory_core::{
    Document, DocumentWrite, ErrorKind, Expect, History, Memory, MemoryId, MemoryPatch, Outcome, Record, RecordId,
    Revision, Status, Sweep,
};

use super::{END, expiring, expiring_note, get_note, set_clock, swept};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, actor, at, document_id, key, kind, ledger, new_document, new_memory, note, put, the};

chapter!("expiry":
    a_memory_that_is_over_is_not_updated ["X2", "E2"] needs Erasure,
    a_key_that_is_over_is_not_stored_again ["X2", "E3"] needs Erasure,
    a_put_never_meets_what_is_over ["X2", "X4", "D1"] needs Erasure,
    a_batch_of_puts_meets_nothing_that_is_over ["X2", "X4", "D7"] needs Erasure,
    a_restore_leaves_out_what_is_over ["X2", "W12", "W13"] needs Erasure,
    what_was_there_is_restored_by_nobody ["X2", "E3"] needs Erasure,
    racing_puts_make_one_document ["X2"] needs Erasure,
    versions_that_were_over_are_restored_as_they_are ["X2", "H9"] needs Erasure,
    what_is_over_gives_way_to_a_later_version ["X2", "W13"] needs Erasure,
    a_thousand_puts_in_the_place_of_what_is_over_are_one_call ["X2", "D7"] needs Erasure,
);

/// Moves the clock to the expiry, and sweeps if `is_swept`. A case plays its scenario with and without a sweep, and expects the same
/// answers.
async fn behind_both(stage: &Stage, is_swept: bool) -> CaseResult {
    set_clock(stage, END);
    if is_swept {
        swept(&*stage.open().await?, Sweep::due()).await?;
    }
    Ok(())
}

async fn a_memory_that_is_over_is_not_updated(stage: Stage) -> CaseResult {
    for is_swept in [false, true] {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let patches = [
            MemoryPatch::new(),
            MemoryPatch::new().with_status(Status::Running),
            MemoryPatch::new().clear_expiry(),
            MemoryPatch::new().set_expiry(at(END + 9)),
            MemoryPatch::new().clear_context().if_revision(Revision::FIRST),
            MemoryPatch::new().clear_context().if_revision(Revision::new(7)?),
        ];
        let memories = (0..6).map(|number| expiring("a", number)).collect();
        let ids = provider.store_many(memories).await?;
        behind_both(&stage, is_swept).await?;
        for (id, patch) in ids.into_iter().zip(patches) {
            let refused = provider.update(id, patch).await.expect_err("it is over");
            assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Erased, Outcome::NotDone), "swept: {is_swept}");
            assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
        }
    }
    Ok(())
}

async fn a_key_that_is_over_is_not_stored_again(stage: Stage) -> CaseResult {
    for is_swept in [false, true] {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let keyed = |name: &str| new_memory("a", 1).with_idempotency_key(key(name));
        for name in ["k", "l", "m"] {
            provider.store(keyed(name).expires_at(at(END))).await?;
        }
        behind_both(&stage, is_swept).await?;
        for handle in [&provider, &stage.open().await?] {
            let batch = handle.store_many(vec![keyed("new"), keyed("l")]).await;
            assert_eq!(kind(batch), Some(ErrorKind::Erased), "swept: {is_swept}");
            let again = handle.store(keyed("k")).await.expect_err("it is over");
            assert_eq!((again.kind(), again.outcome()), (ErrorKind::Erased, Outcome::NotDone), "swept: {is_swept}");
            // Refused even where the store would be a conflict with the expired memory.
            let other = handle.store(new_memory("b", 7).with_idempotency_key(key("k"))).await;
            assert_eq!(kind(other), Some(ErrorKind::Erased), "swept: {is_swept}");
            assert_eq!(ledger(&**handle).await?, [], "all or none");
        }
        // Concurrent stores, which an engine may write in one batch: a refused one makes no other one fail.
        let stores = join_all((0..20).map(|number| {
            let memory = keyed(if number % 2 == 0 { "m" } else { "new" }).expires_at(at(END + 9));
            let provider = Arc::clone(&provider);
            async move { provider.store(memory).await }
        }));
        for (number, stored) in stores.await.into_iter().enumerate() {
            let expected = (number % 2 == 0).then_some(ErrorKind::Erased);
            assert_eq!(kind(stored), expected, "{number}, swept: {is_swept}");
        }
        assert_eq!(ledger(&*provider).await?.len(), 1);
    }
    Ok(())
}

/// A put on an expired document finds nothing in place and makes another document, with revision 1.
async fn a_put_never_meets_what_is_over(stage: Stage) -> CaseResult {
    for is_swept in [false, true] {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let ids = ["any", "absent", "revision"];
        let mut before = Vec::new();
        for id in ids {
            put(&*provider, new_document(NOTES, id, "a", "one")).await?;
            before.push(put(&*provider, expiring_note(id, "a", "two")).await?);
        }
        behind_both(&stage, is_swept).await?;
        let write = |id: &str, expect: Expect| new_document(NOTES, id, "b", "anew").expect(expect);
        let stale = put(&*provider, write("revision", Expect::Revision(Revision::new(2)?))).await;
        assert_eq!(kind(stale), Some(ErrorKind::Conflict), "swept: {is_swept}");
        for (id, expect) in ids.into_iter().zip([Expect::Any, Expect::Absent, Expect::Absent]) {
            let anew = put(&*provider, write(id, expect).by(actor("ana"))).await?;
            assert_eq!((anew.revision, anew.created_at, anew.updated_at), (Revision::FIRST, at(END + 1), None));
            for handle in [&provider, &stage.open().await?] {
                assert_eq!(get_note(&**handle, id).await?.as_ref(), Some(&anew), "{id}, swept: {is_swept}");
            }
            if stage.harness().keeps_history() {
                let history = provider.history(&History::of(note(id)).with_removed()).await?;
                let records: Vec<_> = history.versions.into_iter().map(|version| version.record).collect();
                assert_eq!(records, [Some(Record::Document(anew.clone()))], "{id}, swept: {is_swept}");
                assert_eq!(provider.get_as_of(&note(id), at(END)).await?, Some(Record::Document(anew)));
            }
            let tombstone = provider.tombstone(&note(id)).await?.ok_or("a tombstone")?;
            assert!(tombstone.is_of_expiry());
            assert_eq!(tombstone.at, at(END));
        }
        // A restore of the earlier documents is kept out, and a sweep takes none of the new ones.
        let report = provider.documents().restore(before).await?;
        assert_eq!((report.written, report.equal, report.erased.len()), (0, 0, 3));
        assert_eq!(swept(&*provider, Sweep::all()).await?.0, []);
        for id in ids {
            assert_eq!(get_note(&*provider, id).await?.map(|document| document.revision), Some(Revision::FIRST));
        }
    }
    Ok(())
}

async fn a_batch_of_puts_meets_nothing_that_is_over(stage: Stage) -> CaseResult {
    for is_swept in [false, true] {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        for id in ["n", "o"] {
            put(&*provider, expiring_note(id, "a", "text")).await?;
        }
        let kept = put(&*provider, new_document(NOTES, "kept", "a", "text")).await?;
        behind_both(&stage, is_swept).await?;
        let write = |id: &str| new_document(NOTES, id, "a", "anew");
        let refused = vec![write("n"), write("kept").expect(Expect::Absent)];
        assert_eq!(kind(provider.documents().put_many(refused).await), Some(ErrorKind::Conflict));
        assert_eq!(get_note(&*provider, "n").await?, None, "swept: {is_swept}");
        assert_eq!(get_note(&*provider, "kept").await?.as_ref(), Some(&kept));
        let batch = vec![write("n").expect(Expect::Absent), write("new"), write("kept"), write("o")];
        let revisions: Vec<_> = provider.documents().put_many(batch).await?.iter().map(revision_and_time).collect();
        let expected = [(1, at(END + 1)), (1, at(1_000)), (2, at(1_000)), (1, at(END + 1))];
        assert_eq!(revisions, expected, "swept: {is_swept}");
    }
    Ok(())
}

fn revision_and_time(document: &Document) -> (u64, memory_core::Timestamp) {
    (document.revision.get(), document.created_at)
}

/// A restore leaves out expired records and counts them as erased, whatever is in place.
async fn a_restore_leaves_out_what_is_over(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    set_clock(&stage, END);
    let memory = |byte: u8, time: Option<i64>| {
        let memory = new_memory("a", i64::from(byte)).into_memory(MemoryId::from_bytes([byte; 16]));
        Memory { expires_at: time.map(at), ..memory }
    };
    let memories = vec![memory(1, Some(END)), memory(2, Some(END + 1)), memory(3, None), memory(4, Some(0))];
    let report = provider.restore(memories.clone()).await?;
    assert_eq!((report.written, report.equal, report.erased), (2, 0, vec![0, 3]));
    let report = provider.restore_newer(memories.clone()).await?;
    assert_eq!((report.written, report.equal, report.erased), (0, 2, vec![0, 3]));
    assert_eq!(ledger(&*provider).await?, memories[1..3], "exactly as given");
    // It never existed here, so `get` finds nothing, and does not answer `Erased`.
    assert_eq!(provider.get(memories[0].id).await?, None);
    assert_eq!(provider.tombstone(&memories[0].id.into()).await?, None);

    put(&*provider, new_document(NOTES, "2", "a", "text")).await?;
    let documents = provider.documents();
    let template = get_note(&*provider, "2").await?.ok_or("a note")?;
    let document =
        |id: &str, time: Option<i64>| Document { id: document_id(id), expires_at: time.map(at), ..template.clone() };
    let some = vec![document("1", Some(END)), document("2", None), document("3", Some(END + 1))];
    for (report, written) in [(documents.restore(some.clone()).await?, 1), (documents.restore_newer(some).await?, 0)] {
        assert_eq!((report.written, report.equal, report.erased), (written, 2 - written, vec![0]));
    }
    assert_eq!(get_note(&*provider, "1").await?, None);
    assert_eq!(get_note(&*provider, "3").await?.and_then(|document| document.expires_at), Some(at(END + 1)));
    // A later version that has expired does not replace the record in place.
    let later = Memory { revision: Revision::new(9)?, ..memory(3, Some(END)) };
    assert_eq!(provider.restore_newer(vec![later]).await?.erased, [0]);
    assert_eq!(the(&*provider, memories[2].id).await?, memories[2]);
    Ok(())
}

/// An expired memory can't be restored, neither in an earlier version nor under another id with its key.
async fn what_was_there_is_restored_by_nobody(stage: Stage) -> CaseResult {
    for is_swept in [false, true] {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let id = provider.store(new_memory("a", 1).with_idempotency_key(key("k"))).await?;
        let memory = the(&*provider, id).await?;
        let document = put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
        provider.update(id, MemoryPatch::new().set_expiry(at(END))).await?;
        put(&*provider, expiring_note("n", "a", "text")).await?;
        behind_both(&stage, is_swept).await?;
        let other = Memory { id: MemoryId::generate(), ..memory.clone() };
        let report = provider.restore(vec![memory.clone(), other.clone()]).await?;
        assert_eq!((report.written, report.erased, report.conflicts), (0, vec![0, 1], vec![]), "swept: {is_swept}");
        let report = provider.restore_newer(vec![memory, other]).await?;
        assert_eq!((report.written, report.erased, report.conflicts), (0, vec![0, 1], vec![]), "swept: {is_swept}");
        let report = provider.documents().restore(vec![document.clone()]).await?;
        assert_eq!((report.written, report.erased, report.conflicts), (0, vec![0], vec![]), "swept: {is_swept}");
        let behind = Document { created_at: at(END + 1), ..document };
        let report = provider.documents().restore(vec![behind.clone()]).await?;
        assert_eq!((report.written, report.erased), (1, vec![]), "swept: {is_swept}");
        assert_eq!(get_note(&*provider, "n").await?, Some(behind));
        assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
        for record in [RecordId::from(id), note("n")] {
            assert!(provider.tombstone(&record).await?.is_some_and(|tombstone| tombstone.is_of_expiry()));
        }
    }
    Ok(())
}

/// Of racing puts that expect no document one wins, even during a sweep, and none sees the expired document.
async fn racing_puts_make_one_document(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    for round in 0..5_i64 {
        let now = 1_000_000 + 10 * round;
        set_clock(&stage, now);
        let id = format!("n{round}");
        put(&*provider, new_document(NOTES, &id, "a", "before").expires_at(at(now + 5))).await?;
        set_clock(&stage, now + 5);
        let puts = join_all((0..8).map(|number| {
            let handle = Arc::clone(if number % 2 == 0 { &provider } else { &other });
            let write = new_document(NOTES, &id, "a", &format!("by {number}")).expect(Expect::Absent);
            async move { handle.documents().put(write).await }
        }));
        let (puts, sweep) = futures::join!(puts, swept(&*other, Sweep::due()));
        sweep?;
        let mut won = Vec::new();
        for put in puts {
            match put {
                Ok(document) => won.push(document),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
            }
        }
        assert_eq!(won.len(), 1);
        assert_eq!(revision_and_time(&won[0]), (1, at(now + 6)));
        assert_eq!(get_note(&*provider, &id).await?, won.pop());
    }
    Ok(())
}

/// A version is restored even if its expiry has passed, since a later version may have extended it; otherwise that one would be lost.
async fn versions_that_were_over_are_restored_as_they_are(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_history() {
        return Ok(());
    }
    let (source, elsewhere) = (stage.open().await?, stage.elsewhere());
    let id = source.store(expiring("a", 1)).await?;
    source.update(id, MemoryPatch::new().set_expiry(at(3 * END))).await?;
    put(&*source, expiring_note("n", "a", "text")).await?;
    put(&*source, new_document(NOTES, "n", "a", "text")).await?;
    let target = elsewhere.open().await?;
    set_clock(&elsewhere, 2 * END);
    for record in [RecordId::from(id), note("n")] {
        let mut versions = source.history(&History::of(record.clone())).await?.versions;
        versions.reverse();
        let report = target.restore_versions(versions).await?;
        assert_eq!((report.written, report.erased, report.conflicts), (2, vec![], vec![]));
        assert_eq!(target.tombstone(&record).await?, None);
    }
    assert_eq!(target.get(id).await?, source.get(id).await?);
    assert_eq!(get_note(&*target, "n").await?, get_note(&*source, "n").await?);
    Ok(())
}

/// A copy that is kept up to date may lag behind, and hold an earlier expiry that has passed.
async fn what_is_over_gives_way_to_a_later_version(stage: Stage) -> CaseResult {
    let (source, elsewhere) = (stage.open().await?, stage.elsewhere());
    let target = elsewhere.open().await?;
    let id = source.store(expiring("a", 1)).await?;
    let before = put(&*source, expiring_note("n", "a", "text")).await?;
    target.restore(vec![the(&*source, id).await?]).await?;
    target.documents().restore(vec![before]).await?;
    source.update(id, MemoryPatch::new().set_expiry(at(3 * END))).await?;
    let after = put(&*source, new_document(NOTES, "n", "a", "text")).await?;
    set_clock(&elsewhere, END);
    assert_eq!(kind(target.get(id).await), Some(ErrorKind::Erased));
    let memory = the(&*source, id).await?;
    assert_eq!(target.restore_newer(vec![memory.clone()]).await?.written, 1);
    assert_eq!(target.documents().restore_newer(vec![after.clone()]).await?.written, 1);
    assert_eq!(target.get(id).await?, Some(memory));
    assert_eq!(get_note(&*target, "n").await?, Some(after));
    assert_eq!(swept(&*target, Sweep::all()).await?, (vec![], 0));
    Ok(())
}

async fn a_thousand_puts_in_the_place_of_what_is_over_are_one_call(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let write = |number: usize| new_document(NOTES, &format!("n{number:03}"), "a", "text");
    let writes = |expires: bool| {
        let expiring = move |write: DocumentWrite| if expires { write.expires_at(at(END)) } else { write };
        (0..1_000).map(|number| expiring(write(number))).collect::<Vec<_>>()
    };
    provider.documents().put_many(writes(true)).await?;
    set_clock(&stage, END);
    let put = provider.documents().put_many(writes(false)).await?;
    assert!(put.iter().all(|document| document.revision == Revision::FIRST && document.expires_at.is_none()));
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0));
    assert_eq!(get_note(&*provider, "n999").await?.as_ref(), put.last());
    Ok(())
}
