//! Which expiries are valid, and what sets and clears them (X1).

use std::time::Duration;

use memory_core::{Erasure, ErrorKind, MemoryId, MemoryPatch, Outcome, Retention, Sweep, Timestamp};

use super::{END, expiring, expiring_note, get_note, set_clock};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, key, kind, ledger, new_document, new_memory, put, the};

chapter!("expiry":
    expiries_are_taken_or_refused_plainly ["X1", "X4"],
    times_that_are_not_in_the_future_are_refused ["X1"] needs Erasure,
    a_store_keeps_its_time ["X1"] needs Erasure,
    a_patch_sets_and_clears_the_time ["X1", "W7"] needs Erasure,
    a_put_without_a_time_clears_it ["X1"] needs Erasure,
    an_erasure_has_another_reason ["X4"] needs Erasure,
);

/// An engine lets records expire, or answers `Unsupported`.
async fn expiries_are_taken_or_refused_plainly(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    let kept = put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    let calls = [
        provider.store(expiring("a", 2)).await.map(drop),
        provider.store_many(vec![new_memory("a", 3), expiring("a", 4)]).await.map(drop),
        provider.update(id, MemoryPatch::new().set_expiry(at(END))).await.map(drop),
        put(&*provider, expiring_note("n", "a", "other")).await.map(drop),
        provider.documents().put_many(vec![expiring_note("o", "a", "text")]).await.map(drop),
        provider.sweep(&Sweep::all()).await.map(drop),
        provider.set_retention(vec![Retention::new("a", Duration::from_secs(1))?]).await,
    ];
    if stage.harness().can_erase() {
        return calls.into_iter().collect::<Result<_, _>>().map_err(Into::into);
    }
    for (number, call) in calls.into_iter().enumerate() {
        let refused = call.err().ok_or("a call succeeds although the engine can't erase")?;
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unsupported, Outcome::NotDone), "{number}");
    }
    let memory = the(&*provider, id).await?;
    assert_eq!((memory.revision.get(), memory.expires_at), (1, None));
    assert_eq!(ledger(&*provider).await?, [memory]);
    assert_eq!(get_note(&*provider, "n").await?, Some(kept));
    assert_eq!(get_note(&*provider, "o").await?, None);
    Ok(())
}

/// An expiry in the past or at the present time is refused by every call, and nothing is written.
async fn times_that_are_not_in_the_future_are_refused(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = |name: &str| new_memory("a", 1).with_idempotency_key(key(name));
    let id = provider.store(keyed("k").expires_at(at(END))).await?;
    let before = the(&*provider, id).await?;
    let kept = put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    for time in [at(1_000_000), at(999_999), at(0), Timestamp::MIN] {
        let batch = vec![new_memory("a", 2), new_memory("a", 3).expires_at(time)];
        let puts = vec![new_document(NOTES, "o", "a", "x"), new_document(NOTES, "n", "a", "x").expires_at(time)];
        let calls = [
            provider.store(new_memory("a", 2).expires_at(time)).await.map(drop),
            // Refused even where the key would find an earlier memory.
            provider.store(keyed("k").expires_at(time)).await.map(drop),
            provider.store_many(batch).await.map(drop),
            provider.update(id, MemoryPatch::new().set_expiry(time)).await.map(drop),
            provider.update(MemoryId::generate(), MemoryPatch::new().set_expiry(time)).await.map(drop),
            put(&*provider, new_document(NOTES, "n", "a", "x").expires_at(time)).await.map(drop),
            provider.documents().put_many(puts).await.map(drop),
        ];
        for (number, call) in calls.into_iter().enumerate() {
            let refused = call.err().ok_or("a time that is not in the future is accepted")?;
            assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::InvalidInput, Outcome::NotDone), "{number}");
        }
        assert_eq!(ledger(&*provider).await?, std::slice::from_ref(&before));
        assert_eq!(get_note(&*provider, "n").await?.as_ref(), Some(&kept));
        assert_eq!(get_note(&*provider, "o").await?, None);
    }
    for time in [at(1_000_001), Timestamp::MAX] {
        let id = provider.store(new_memory("a", 2).expires_at(time)).await?;
        assert_eq!(the(&*provider, id).await?.expires_at, Some(time));
    }
    Ok(())
}

/// The expiry comes back on every handle, for a batch too, and a repeated store does not change it.
async fn a_store_keeps_its_time(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let keyed = |time: i64| new_memory("a", 1).with_idempotency_key(key("k")).expires_at(at(time));
    let first = provider.store(keyed(END)).await?;
    assert_eq!(provider.store(keyed(END + 1)).await?, first);
    let ids = provider.store_many(vec![expiring("a", 2), new_memory("a", 3), expiring("b", 4)]).await?;
    for handle in [&provider, &stage.open().await?] {
        let mut times = vec![the(&**handle, first).await?.expires_at];
        for id in &ids {
            times.push(the(&**handle, *id).await?.expires_at);
        }
        assert_eq!(times, [Some(at(END)), Some(at(END)), None, Some(at(END))]);
        let all = ledger(&**handle).await?;
        assert_eq!(all.iter().map(|memory| memory.expires_at).collect::<Vec<_>>(), times);
    }
    Ok(())
}

async fn a_patch_sets_and_clears_the_time(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    let mut revision = 1;
    for (patch, expected) in [
        (MemoryPatch::new().set_expiry(at(END)), Some(at(END))),
        // A patch that does not name the expiry leaves it alone.
        (MemoryPatch::new().clear_context(), Some(at(END))),
        // Setting the same value is a change, too.
        (MemoryPatch::new().set_expiry(at(END)), Some(at(END))),
        (MemoryPatch::new().set_expiry(at(END + 5)), Some(at(END + 5))),
        (MemoryPatch::new().clear_expiry(), None),
        (MemoryPatch::new().clear_expiry(), None),
        (MemoryPatch::new().set_expiry(at(END + 7)), Some(at(END + 7))),
    ] {
        revision += 1;
        assert_eq!(provider.update(id, patch).await?.revision.get(), revision);
        for handle in [&provider, &stage.open().await?] {
            let memory = the(&**handle, id).await?;
            assert_eq!((memory.revision.get(), memory.expires_at), (revision, expected));
        }
    }
    // The expiry that holds is the present one, not an earlier one.
    set_clock(&stage, END + 6);
    the(&*provider, id).await?;
    set_clock(&stage, END + 7);
    assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
    Ok(())
}

async fn a_put_without_a_time_clears_it(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let document = put(&*provider, expiring_note("n", "a", "one")).await?;
    assert_eq!(document.expires_at, Some(at(END)));
    assert_eq!(get_note(&*provider, "n").await?, Some(document));
    let document = put(&*provider, new_document(NOTES, "n", "a", "two")).await?;
    assert_eq!((document.revision.get(), document.expires_at), (2, None));
    let later = new_document(NOTES, "n", "a", "three").expires_at(at(END + 5));
    let many = vec![later, expiring_note("o", "a", "one"), new_document(NOTES, "p", "a", "one")];
    let times: Vec<_> = provider.documents().put_many(many).await?.into_iter().map(|each| each.expires_at).collect();
    assert_eq!(times, [Some(at(END + 5)), Some(at(END)), None]);
    for handle in [&provider, &stage.open().await?] {
        for (id, expected) in ["n", "o", "p"].into_iter().zip(&times) {
            let document = get_note(&**handle, id).await?.ok_or("a note")?;
            assert_eq!(document.expires_at, *expected);
        }
    }
    set_clock(&stage, END + 5);
    for (id, is_there) in [("n", false), ("o", false), ("p", true)] {
        assert_eq!(get_note(&*provider, id).await?.is_some(), is_there, "{id}");
    }
    Ok(())
}

/// Only an expiry leaves a tombstone with the reason `expired`; an erasure may not use it.
async fn an_erasure_has_another_reason(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    assert_eq!(kind(Erasure::records([id.into()], "expired")), Some(ErrorKind::InvalidInput));
    let in_a = memory_core::MemoryQuery::builder().exact("a");
    assert_eq!(kind(Erasure::memories(in_a, "expired")), Some(ErrorKind::InvalidInput));
    provider.erase(&Erasure::records([id.into()], "it has expired")?).await?;
    let tombstone = provider.tombstone(&id.into()).await?.ok_or("a tombstone")?;
    assert!(!tombstone.is_of_expiry());
    Ok(())
}
