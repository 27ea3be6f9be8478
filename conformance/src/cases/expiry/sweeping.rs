//! What a sweep erases, and what it leaves (X4).

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use memory_core::{
    Change, ChangeKind, Collections, ErrorKind, History, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, RecordId,
    Result, Retention, SpaceSelector, Sweep, Watch, WatchFrom, WatchToken, Watched,
};

use super::{END, MANY_SLICES, expiring, expiring_note, get_note, set_clock, sorted, swept};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, ids, kind, ledger, new_document, new_memory, note, put};

chapter!("expiry":
    a_sweep_erases_what_is_over_and_nothing_else ["X4"] needs Erasure,
    a_sweep_goes_by_what_holds_now ["X1", "X4"] needs Erasure,
    many_records_take_several_slices ["X4"] needs Erasure,
    a_round_goes_on_where_its_slices_end ["X4"] needs Erasure,
    a_round_of_what_is_due_leaves_rules_alone ["X3", "X4"] needs Erasure,
    sweeps_at_the_same_time_erase_once ["X4"] needs Erasure,
    a_watch_is_told_of_what_was_swept ["X4", "E4"] needs Erasure,
    a_damaged_row_stops_no_sweep ["X4"] needs Damage,
);

async fn a_sweep_erases_what_is_over_and_nothing_else(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0), "of nothing");
    let over = [provider.store(expiring("a", 1)).await?, provider.store(expiring("b", 2)).await?];
    let kept = provider.store(new_memory("a", 3)).await?;
    let later = provider.store(new_memory("a", 4).expires_at(at(END + 1))).await?;
    put(&*provider, expiring_note("over", "a", "text")).await?;
    put(&*provider, new_document(NOTES, "kept", "a", "text")).await?;
    put(&*provider, new_document(NOTES, "later", "a", "text").expires_at(at(END + 1))).await?;
    set_clock(&stage, END - 1);
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0), "before its time");
    set_clock(&stage, END);
    let expected = sorted([over[0].into(), over[1].into(), note("over")]);
    assert_eq!(swept(&*provider, Sweep::all()).await?, (expected, 0));
    assert_eq!(swept(&*provider, Sweep::all()).await?, (vec![], 0), "once");
    assert_eq!(ids(&ledger(&*provider).await?), [kept, later]);
    for (id, is_there) in [("over", false), ("kept", true), ("later", true)] {
        assert_eq!(get_note(&*provider, id).await?.is_some(), is_there, "{id}");
    }
    // The tombstone has the time of the expiry, however late the sweep is.
    set_clock(&stage, END + 1_000);
    assert_eq!(swept(&*provider, Sweep::due()).await?.0, sorted([later.into(), note("later")]));
    for record in [RecordId::from(later), note("later")] {
        let tombstone = provider.tombstone(&record).await?.ok_or("a tombstone")?;
        assert_eq!((tombstone.at, tombstone.reason.as_str(), tombstone.actor), (at(END + 1), "expired", None));
    }
    // The tombstone has hashes instead of the space, as that of an erasure has; the memory had no idempotency key.
    let hash_key = provider.hash_key().await?.ok_or("a key")?;
    let tombstone = provider.tombstone(&over[1].into()).await?.ok_or("a tombstone")?;
    let mut places = hash_key.of_space(&crate::fixture::space("b"));
    places.sort_unstable();
    assert_eq!((tombstone.places, tombstone.key), (places, None));
    if stage.harness().keeps_history() {
        for record in [RecordId::from(over[0]), note("over")] {
            assert_eq!(provider.history(&History::of(record).with_removed()).await?.versions, []);
        }
    }
    Ok(())
}

/// The present expiry counts: records whose expiry was extended or cleared stay, and those that now expire earlier are erased.
async fn a_sweep_goes_by_what_holds_now(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut ids = [MemoryId::from_bytes([0; 16]); 4];
    for (id, number) in ids.iter_mut().zip(0..) {
        *id = provider.store(expiring("a", number)).await?;
    }
    let [extended, cleared, sooner, over] = ids;
    for id in ["cleared", "extended", "sooner", "over"] {
        put(&*provider, expiring_note(id, "a", "one")).await?;
    }
    provider.update(extended, MemoryPatch::new().set_expiry(at(END + 500))).await?;
    provider.update(cleared, MemoryPatch::new().clear_expiry()).await?;
    provider.update(sooner, MemoryPatch::new().set_expiry(at(END - 500))).await?;
    put(&*provider, new_document(NOTES, "cleared", "a", "two")).await?;
    put(&*provider, new_document(NOTES, "extended", "a", "two").expires_at(at(END + 500))).await?;
    put(&*provider, new_document(NOTES, "sooner", "a", "two").expires_at(at(END - 500))).await?;
    set_clock(&stage, END - 500);
    assert_eq!(swept(&*provider, Sweep::due()).await?.0, sorted([sooner.into(), note("sooner")]));
    set_clock(&stage, END);
    assert_eq!(swept(&*provider, Sweep::due()).await?.0, sorted([over.into(), note("over")]));
    for id in [extended, cleared] {
        assert_eq!(kind(provider.get(id).await), None);
    }
    for id in ["extended", "cleared"] {
        assert!(get_note(&*provider, id).await?.is_some(), "{id}");
    }
    set_clock(&stage, END + 500);
    assert_eq!(swept(&*provider, Sweep::due()).await?.0, sorted([extended.into(), note("extended")]));
    assert_eq!(kind(provider.get(cleared).await), None);
    assert!(get_note(&*provider, "cleared").await?.is_some());
    Ok(())
}

/// The slices of one round take all records, even if all expire in the same millisecond.
async fn many_records_take_several_slices(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids = provider.store_many((0..250).map(|number| expiring("a", number)).collect()).await?;
    let notes = (0..150).map(|number| expiring_note(&format!("n{number}"), "a", "text")).collect();
    provider.documents().put_many(notes).await?;
    let kept = provider.store(new_memory("a", 7)).await?;
    set_clock(&stage, END);
    let (mut erased, mut slices, mut next) = (Vec::new(), 0, Some(Sweep::due()));
    while let Some(from) = next {
        let slice = provider.sweep(&from).await?;
        slices += usize::from(!slice.records.is_empty());
        assert!(slice.records.len() <= 100 && slices < MANY_SLICES);
        erased.extend(slice.records);
        next = slice.next;
    }
    assert!(slices >= 3, "{slices} slices");
    let notes = (0..150).map(|number| note(&format!("n{number}")));
    assert_eq!(sorted(erased), sorted(ids.into_iter().map(RecordId::from).chain(notes)));
    assert_eq!(crate::fixture::ids(&ledger(&*provider).await?), [kept]);
    assert_eq!(provider.documents().collections().await?, []);
    Ok(())
}

/// Records that expire during a round are swept by this round or by the next one.
async fn a_round_goes_on_where_its_slices_end(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let first = provider.store_many((0..150).map(|number| expiring("a", number)).collect()).await?;
    let more = (0..20).map(|number| new_memory("a", number).expires_at(at(END + 1))).collect();
    let more = provider.store_many(more).await?;
    set_clock(&stage, END);
    let slice = provider.sweep(&Sweep::due()).await?;
    assert!((1..=100).contains(&slice.records.len()), "a slice of {}", slice.records.len());
    set_clock(&stage, END + 1);
    let mut erased = slice.records;
    erased.extend(swept(&*provider, slice.next.ok_or("the first slice was the last")?).await?.0);
    erased.extend(swept(&*provider, Sweep::due()).await?.0);
    assert_eq!(sorted(erased), sorted(first.into_iter().chain(more).map(RecordId::from)));
    assert_eq!(ledger(&*provider).await?, []);
    Ok(())
}

/// Rules are left to full rounds, since they require a look at each record of their places.
async fn a_round_of_what_is_due_leaves_rules_alone(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let over = provider.store(expiring("a", 1)).await?;
    let by_rule = provider.store(new_memory("a", 2)).await?;
    put(&*provider, new_document(NOTES, "n", "a", "text")).await?;
    let elsewhere = provider.store(new_memory("b", 2)).await?;
    let made_at = by_rule.made_at().ok_or("an id of version 7")?.as_millis();
    provider.set_retention(vec![Retention::new("a", Duration::from_millis(500))?]).await?;
    set_clock(&stage, made_at + 500);
    assert_eq!(kind(provider.get(by_rule).await), Some(ErrorKind::Erased));
    assert_eq!(swept(&*provider, Sweep::due()).await?.0, [over.into()]);
    // The record is hidden as before but not erased: without the rule it shows again.
    assert_eq!(kind(provider.get(by_rule).await), Some(ErrorKind::Erased));
    provider.set_retention(vec![]).await?;
    assert_eq!(ids(&ledger(&*provider).await?), [by_rule, elsewhere]);
    provider.set_retention(vec![Retention::new("a", Duration::from_millis(500))?]).await?;
    assert_eq!(swept(&*provider, Sweep::all()).await?.0, sorted([by_rule.into(), note("n")]));
    assert_eq!(ids(&ledger(&*provider).await?), [elsewhere]);
    let tombstone = provider.tombstone(&by_rule.into()).await?.ok_or("a tombstone")?;
    assert_eq!((tombstone.at, tombstone.reason.as_str()), (at(made_at + 500), "expired"));
    // It had expired more than 90 days before it was swept, so its tombstone was removed in the same round.
    assert_eq!(provider.tombstone(&note("n")).await?, None);
    Ok(())
}

async fn sweeps_at_the_same_time_erase_once(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let ids = provider.store_many((0..120).map(|number| expiring("a", number)).collect()).await?;
    set_clock(&stage, END);
    let sweeps = join_all([&provider, &other, &provider, &other].map(|handle| swept(&**handle, Sweep::due())));
    let mut erased = Vec::new();
    for sweep in sweeps.await {
        erased.extend(sweep?.0);
    }
    assert_eq!(sorted(erased), sorted(ids.into_iter().map(RecordId::from)));
    Ok(())
}

/// A watch delivers a sweep like an erasure: only where it may look.
async fn a_watch_is_told_of_what_was_swept(stage: Stage) -> CaseResult {
    if !stage.harness().can_watch() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let id = provider.store(expiring("a-b", 1)).await?;
    put(&*provider, expiring_note("n", "a-b", "text")).await?;
    let within = |path: &str| MemoryQuery::builder().all().within(SpaceSelector::under(path).expect("a path"));
    let both = || vec![RecordId::from(id), note("n")];
    let mut watches = Vec::new();
    for (conditions, expected) in [
        (MemoryQuery::builder().all(), both()),
        (within("a"), both()),
        (within("d"), vec![]),
        (MemoryQuery::builder().under("a-b"), both()),
        (MemoryQuery::builder().under("c"), vec![]),
    ] {
        let watch = Watch::new(Watched::Both(Collections::All), conditions)?;
        let (_, token) = told(&*provider, &watch.clone().from(WatchFrom::Now)).await?;
        watches.push((watch.from(token.into()), expected));
    }
    set_clock(&stage, END);
    swept(&*provider, Sweep::due()).await?;
    for (watch, expected) in watches {
        let (mut erased, _) = told(&*provider, &watch).await?;
        erased.sort_unstable();
        assert_eq!(erased, sorted(expected));
    }
    Ok(())
}

/// The erasures that a watch delivers up to the next *reached*, and the token to continue from.
async fn told(provider: &dyn MemoryProvider, watch: &Watch) -> Result<(Vec<RecordId>, WatchToken)> {
    let (mut changes, mut erased) = (provider.watch(watch).await?, Vec::new());
    loop {
        let Change { kind, token } = changes.next().await.expect("a watch goes on")?;
        match kind {
            ChangeKind::Reached => return Ok((erased, token)),
            ChangeKind::Erased(record) => erased.push(record),
            ChangeKind::Progress => {}
            kind => panic!("a sweep is told as {kind:?}"),
        }
    }
}

/// A damaged row may stay, as in the walk of an erasure, and stops no sweep.
async fn a_damaged_row_stops_no_sweep(stage: Stage) -> CaseResult {
    if !stage.harness().can_erase() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let ids = provider.store_many((0..3).map(|number| expiring("a", number)).collect()).await?;
    put(&*provider, expiring_note("n", "a", "text")).await?;
    assert!(stage.harness().damage(stage.namespace(), ids[1]).await?);
    set_clock(&stage, END);
    for round in [Sweep::due(), Sweep::all()] {
        swept(&*provider, round).await?;
        for id in [ids[0], ids[2]] {
            let tombstone = provider.tombstone(&id.into()).await?.ok_or("a tombstone")?;
            assert!(tombstone.is_of_expiry());
            assert_eq!(kind(provider.get(id).await), Some(ErrorKind::Erased));
        }
        assert!(provider.tombstone(&note("n")).await?.is_some());
    }
    // The sweep of a rule passes it, too.
    let made_at = ids[1].made_at().ok_or("an id of version 7")?.as_millis();
    let other = provider.store(new_memory("a", 7)).await?;
    provider.set_retention(vec![Retention::new("a", Duration::from_millis(1))?]).await?;
    set_clock(&stage, made_at + 60 * 60 * 1_000);
    assert!(swept(&*provider, Sweep::all()).await?.0.contains(&other.into()));
    Ok(())
}
