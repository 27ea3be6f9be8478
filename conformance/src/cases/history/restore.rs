//! Restoring versions from elsewhere (H9).

use std::sync::Arc;

use memory_core::{
    Document, Erasure, ErrorKind, HistorySettings, Memory, MemoryId, MemoryPatch, MemoryProvider, Record, RecordId,
    RestoreReport, Result, Revision, Status, Version,
};

use super::{BEGIN, set_clock, versions_of};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, actor, at, context, key, metadata, new_document, new_memory, note, remove_note, the, trigger,
};

chapter!("history":
    versions_are_restored_with_their_times_and_actors ["H9"] needs History,
    a_restore_of_versions_goes_on_behind_what_is_there ["H9"] needs History,
    versions_of_what_was_erased_stay_out ["H9", "E3"] needs History,
    what_is_none_of_the_versions_stays ["H9"] needs History,
    what_is_no_history_of_a_record_is_refused ["H9"] needs History,
    a_first_version_may_lack_its_time ["H4", "H9"] needs History,
    a_history_goes_on_behind_versions_that_were_restored ["H5", "H9"] needs History,
    versions_go_on_behind_a_change_of_transient_members ["H8", "H9"] needs History,
    versions_go_on_behind_a_lease_that_was_not_renewed ["H8", "H9"] needs History,
    versions_go_on_behind_a_first_one_that_was_renewed ["H8", "H9"] needs History,
    a_way_back_to_the_same_values_is_none_of_the_versions ["H8", "H9"] needs History,
    versions_go_on_behind_a_plain_restore ["H8", "H9"] needs History,
    the_same_change_by_another_is_none_of_the_versions ["H8", "H9", "W7"] needs History,
    an_update_to_equal_values_is_taken_over_once ["H8", "H9", "W7"] needs History,
    a_version_of_metadata_alone_is_taken_over_once ["H8", "H9"] needs History,
    what_differs_in_more_than_transient_members_stays ["H8", "H9"] needs History,
    versions_are_restored_only_where_a_history_is_kept ["H6", "H9"] needs History,
);

/// A memory with a few updates, and its versions, oldest first.
async fn of_a_memory(stage: &Stage, provider: &dyn MemoryProvider) -> Result<(RecordId, Vec<Version>)> {
    let id = provider.store(new_memory("a-b", 5).with_idempotency_key(key("k"))).await?;
    let patches = [
        MemoryPatch::new().set_context(context(r#"["one"]"#)).by(actor("ana")),
        MemoryPatch::new().set_context(context(r#"["one","two"]"#)),
        MemoryPatch::new().with_status(Status::Completed).by(actor("bo")),
    ];
    for (patch, millis) in patches.into_iter().zip(10..) {
        set_clock(stage, millis);
        provider.update(id, patch).await?;
    }
    oldest_first(provider, id.into()).await
}

/// A document with a few puts, and its versions, oldest first.
async fn of_a_document(stage: &Stage, provider: &dyn MemoryProvider) -> Result<(RecordId, Vec<Version>)> {
    for (text, millis) in ["one", "two", "one"].into_iter().zip(20..) {
        set_clock(stage, millis);
        provider.documents().put(new_document(NOTES, "n", "a", text).by(actor(text))).await?;
    }
    oldest_first(provider, note("n")).await
}

async fn oldest_first(provider: &dyn MemoryProvider, id: RecordId) -> Result<(RecordId, Vec<Version>)> {
    let mut versions = versions_of(provider, id.clone()).await?;
    versions.reverse();
    Ok((id, versions))
}

fn report(written: usize, equal: usize) -> RestoreReport {
    RestoreReport { written, equal, conflicts: Vec::new(), ..RestoreReport::default() }
}

async fn versions_are_restored_with_their_times_and_actors(stage: Stage) -> CaseResult {
    let (provider, elsewhere) = (stage.open().await?, stage.elsewhere());
    let target = elsewhere.open().await?;
    let (memory, document) = (of_a_memory(&stage, &*provider).await?, of_a_document(&stage, &*provider).await?);
    for stage in [&stage, &elsewhere] {
        set_clock(stage, 100);
    }
    for (id, versions) in [memory, document] {
        let count = versions.len();
        assert_eq!(target.restore_versions(versions.clone()).await?, report(count, 0));
        let (_, restored) = oldest_first(&*target, id.clone()).await?;
        assert_eq!(restored, versions);
        for millis in [0, 9, 10, 11, 12, 20, 21, 22, 99] {
            let time = at(BEGIN + millis);
            assert_eq!(target.get_as_of(&id, time).await?, provider.get_as_of(&id, time).await?, "{millis}");
        }
        assert_eq!(target.restore_versions(versions).await?, report(0, count), "a repetition");
    }
    Ok(())
}

async fn a_restore_of_versions_goes_on_behind_what_is_there(stage: Stage) -> CaseResult {
    let (provider, target) = (stage.open().await?, stage.elsewhere().open().await?);
    let (memory, document) = (of_a_memory(&stage, &*provider).await?, of_a_document(&stage, &*provider).await?);
    for (id, versions) in [memory, document] {
        let count = versions.len();
        target.restore_versions(versions[..2].to_vec()).await?;
        assert_eq!(target.restore_versions(versions.clone()).await?, report(count - 2, 2));
        assert_eq!(oldest_first(&*target, id).await?.1, versions);
        // The last of the versions alone is accepted too, and is found in place.
        assert_eq!(target.restore_versions(versions[count - 1..].to_vec()).await?, report(0, 1));
    }
    assert_eq!(target.restore_versions(Vec::new()).await?, report(0, 0));
    Ok(())
}

async fn versions_of_what_was_erased_stay_out(stage: Stage) -> CaseResult {
    if !stage.harness().can_erase() {
        return Ok(());
    }
    let provider = stage.open().await?;
    let (memory, document) = (of_a_memory(&stage, &*provider).await?, of_a_document(&stage, &*provider).await?);
    for (id, versions) in [memory, document] {
        provider.erase(&Erasure::records([id.clone()], "somebody asked for it")?).await?;
        for some in [versions.clone(), versions[1..].to_vec()] {
            let places: Vec<_> = (0..some.len()).collect();
            let report = provider.restore_versions(some).await?;
            assert_eq!((report.written, report.equal, report.conflicts, report.erased), (0, 0, vec![], places));
        }
        assert_eq!(oldest_first(&*provider, id).await?.1, []);
    }
    Ok(())
}

async fn what_is_none_of_the_versions_stays(stage: Stage) -> CaseResult {
    let (provider, target) = (stage.open().await?, stage.elsewhere().open().await?);
    let (id, versions) = of_a_memory(&stage, &*provider).await?;
    let RecordId::Memory(memory) = id else { panic!("{id:?}") };
    // In the target, another memory has the idempotency key.
    let other = target.store(new_memory("a-b", 6).with_idempotency_key(key("k"))).await?;
    assert_eq!(target.restore_versions(versions.clone()).await?.conflicts, [0, 1, 2, 3]);
    assert_eq!(target.get(memory).await?, None);
    assert_eq!(versions_of(&*target, other).await?.len(), 1);
    // The target has the record at revision 2, with other values than the given version of that revision.
    let target = stage.elsewhere().open().await?;
    target.restore_versions(versions[..1].to_vec()).await?;
    target.update(memory, MemoryPatch::new().with_status(Status::Failed)).await?;
    let mine = the(&*target, memory).await?;
    let restored = target.restore_versions(versions).await?;
    assert_eq!((restored.written, restored.conflicts), (0, vec![0, 1, 2, 3]));
    assert_eq!(the(&*target, memory).await?, mine);
    assert_eq!(versions_of(&*target, memory).await?.len(), 2);
    Ok(())
}

async fn what_is_no_history_of_a_record_is_refused(stage: Stage) -> CaseResult {
    let (provider, target) = (stage.open().await?, stage.elsewhere().open().await?);
    let (id, versions) = of_a_memory(&stage, &*provider).await?;
    let (_, of_a_document) = of_a_document(&stage, &*provider).await?;
    remove_note(&*provider, "n").await?;
    let ended = super::walk(&*provider, &memory_core::History::of(note("n")).with_removed()).await?;
    let with = |change: &dyn Fn(&mut Vec<Version>)| {
        let mut versions = versions.clone();
        change(&mut versions);
        versions
    };
    let refused = [
        ("a removal", vec![ended[0].clone()]),
        ("the newest first", with(&|versions| versions.reverse())),
        ("one twice", with(&|versions| versions.insert(1, versions[0].clone()))),
        ("another record", with(&|versions| versions.push(of_a_document[0].clone()))),
        ("no time", with(&|versions| versions[2].committed_at = None)),
        ("another revision", with(&|versions| versions[3].revision = Revision::new(99).expect("a revision"))),
        (
            "another trigger",
            with(&|versions| {
                let Some(Record::Memory(memory)) = &mut versions[3].record else { panic!("a memory") };
                *memory = Memory { trigger: trigger("7"), ..memory.clone() };
            }),
        ),
        ("too many", many(&of_a_document[0])),
    ];
    for (what, versions) in refused {
        let error = target.restore_versions(versions).await.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}");
    }
    assert!(versions_of(&*target, id).await?.is_empty(), "nothing is written");
    Ok(())
}

/// More versions than one call takes.
fn many(first: &Version) -> Vec<Version> {
    let Some(Record::Document(document)) = &first.record else { panic!("a document") };
    let version = |number| {
        let (revision, mut version) = (Revision::new(number).expect("a revision"), first.clone());
        version.revision = revision;
        version.record = Some(Record::Document(Document { revision, ..document.clone() }));
        version
    };
    (1..=1_001).map(version).collect()
}

/// The first of the given versions may have no commit time, even if the target holds memories that were stored with one.
async fn a_first_version_may_lack_its_time(stage: Stage) -> CaseResult {
    let (provider, elsewhere) = (stage.open().await?, stage.elsewhere());
    let target = elsewhere.open().await?;
    let (memory, mut versions) = of_a_memory(&stage, &*provider).await?;
    let (document, mut of_document) = of_a_document(&stage, &*provider).await?;
    set_clock(&elsewhere, 50);
    let before = target.store(new_memory("b", 0)).await?;
    versions[0].committed_at = None;
    of_document[0].committed_at = None;
    set_clock(&elsewhere, 60);
    target.restore_versions(versions.clone()).await?;
    target.restore_versions(of_document[..1].to_vec()).await?;
    let behind = target.store(new_memory("b", 0)).await?;
    let times = async |id| -> Result<Vec<_>> {
        Ok(oldest_first(&*target, id).await?.1.into_iter().map(|version| version.committed_at).collect::<Vec<_>>())
    };
    assert_eq!(times(memory.clone()).await?, [None, Some(at(BEGIN + 10)), Some(at(BEGIN + 11)), Some(at(BEGIN + 12))]);
    assert_eq!(target.get_as_of(&memory, at(BEGIN)).await?, versions[0].record, "from the beginning");
    assert_eq!(times(document).await?, [Some(at(BEGIN + 60))], "when it was restored");
    assert_eq!(times(before.into()).await?, [Some(at(BEGIN + 50))]);
    assert_eq!(times(behind.into()).await?, [Some(at(BEGIN + 60))]);
    Ok(())
}

async fn a_history_goes_on_behind_versions_that_were_restored(stage: Stage) -> CaseResult {
    let (provider, elsewhere) = (stage.open().await?, stage.elsewhere());
    let target = elsewhere.open().await?;
    let (id, mut versions) = of_a_document(&stage, &*provider).await?;
    versions[0].committed_at = None;
    set_clock(&elsewhere, 60);
    target.restore_versions(versions.clone()).await?;
    for life in [70, 80] {
        set_clock(&elsewhere, life);
        remove_note(&*target, "n").await?;
        for text in ["again", "and again", "and once more"] {
            target.documents().put(new_document(NOTES, "n", "a", text)).await?;
        }
        let own = oldest_first(&*target, id.clone()).await?.1;
        let revisions: Vec<_> = own.iter().map(|version| version.revision.get()).collect();
        assert_eq!(revisions, [1, 2, 3], "those of this life alone");
        assert_eq!(target.get_as_of(&id, at(BEGIN + life - 1)).await?, None);
    }
    let whole = super::walk(&*target, &memory_core::History::of(id).with_removed()).await?;
    let revisions: Vec<_> = whole.iter().map(|version| (version.revision.get(), version.record.is_some())).collect();
    let life = [(3, true), (2, true), (1, true)];
    assert_eq!(revisions, [&life[..], &[(3, false)], &life, &[(3, false)], &life].concat());
    Ok(())
}

/// The newest version is restored with the present transient members, as an export gives it.
async fn versions_go_on_behind_a_change_of_transient_members(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    let whole = || whole(&*provider, id);
    provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
    provider.update(id, lease(5)).await?;
    target.restore_versions(whole().await?).await?;
    // The lease is renewed, which makes no version.
    provider.update(id, lease(6)).await?;
    assert_eq!(target.restore_versions(whole().await?).await?, report(1, 1));
    assert_eq!(the(&*target, id).await?, the(&*provider, id).await?);
    // The lease is renewed again, and then the status changes: the export has the version before without a lease.
    provider.update(id, lease(7)).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    assert_eq!(target.restore_versions(whole().await?).await?, report(2, 1));
    assert_eq!(the(&*target, id).await?, the(&*provider, id).await?);
    assert_eq!(oldest_first(&*target, id.into()).await?.1, oldest_first(&*provider, id.into()).await?.1);
    Ok(())
}

/// The source's earlier version has lost its lease, while the target still has it.
async fn versions_go_on_behind_a_lease_that_was_not_renewed(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    provider.update(id, lease(5).with_status(Status::Running)).await?;
    target.restore_versions(whole(&*provider, id).await?).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    assert_eq!(target.restore_versions(whole(&*provider, id).await?).await?, report(1, 2));
    // The target may have renewed the lease after the last version.
    target.update(id, lease(9)).await?;
    assert_eq!(target.restore_versions(whole(&*provider, id).await?).await?, report(0, 3));
    Ok(())
}

async fn versions_go_on_behind_a_first_one_that_was_renewed(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    for until in 5..7 {
        provider.update(id, lease(until)).await?;
        assert_eq!(target.restore_versions(whole(&*provider, id).await?).await?, report(1, 0));
        assert_eq!(the(&*target, id).await?, the(&*provider, id).await?);
    }
    provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
    assert_eq!(target.restore_versions(whole(&*provider, id).await?).await?, report(1, 1));
    assert_eq!(oldest_first(&*target, id.into()).await?.1, oldest_first(&*provider, id.into()).await?.1);
    Ok(())
}

/// A version with the same record, but another commit, is a conflict.
async fn the_same_change_by_another_is_none_of_the_versions(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    target.restore_versions(whole(&*provider, id).await?).await?;
    let completed = |by| MemoryPatch::new().with_status(Status::Completed).by(actor(by));
    provider.update(id, completed("ana")).await?;
    target.update(id, completed("bo")).await?;
    target.update(id, lease(5)).await?;
    let before = (the(&*target, id).await?, versions_of(&*target, id).await?);
    for _ in 0..2 {
        let report = target.restore_versions(whole(&*provider, id).await?).await?;
        assert_eq!((report.written, report.equal, &report.conflicts[..]), (0, 0, &[0, 1][..]));
        // The same holds after the source has renewed a lease.
        provider.update(id, lease(7)).await?;
    }
    assert_eq!((the(&*target, id).await?, versions_of(&*target, id).await?), before);
    Ok(())
}

/// A record that came back to equal values by other versions is a conflict, too.
async fn a_way_back_to_the_same_values_is_none_of_the_versions(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    target.restore_versions(whole(&*provider, id).await?).await?;
    for until in 5..8 {
        provider.update(id, lease(until)).await?;
    }
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    for status in [Status::Running, Status::Pending] {
        target.update(id, MemoryPatch::new().with_status(status).by(actor("bo"))).await?;
    }
    let before = (the(&*target, id).await?, versions_of(&*target, id).await?);
    let report = target.restore_versions(whole(&*provider, id).await?).await?;
    assert_eq!((report.written, report.equal, &report.conflicts[..]), (0, 0, &[0, 1][..]));
    assert_eq!((the(&*target, id).await?, versions_of(&*target, id).await?), before);
    Ok(())
}

/// A plain restore keeps no earlier versions, and records its own time.
async fn versions_go_on_behind_a_plain_restore(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    provider.update(id, lease(5).with_status(Status::Running)).await?;
    target.restore(vec![the(&*provider, id).await?]).await?;
    provider.update(id, lease(6)).await?;
    assert_eq!(target.restore_versions(whole(&*provider, id).await?).await?, report(1, 1));
    assert_eq!(the(&*target, id).await?, the(&*provider, id).await?);
    Ok(())
}

/// Two versions that differ in transient members alone are told apart by their commit time.
async fn an_update_to_equal_values_is_taken_over_once(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    set_clock(&stage, 10);
    provider.update(id, MemoryPatch::new().with_status(Status::Pending)).await?;
    for until in 5..8 {
        target.restore_versions(whole(&*provider, id).await?).await?;
        assert_eq!(oldest_first(&*target, id.into()).await?.1, oldest_first(&*provider, id.into()).await?.1);
        set_clock(&stage, 10 * i64::from(until));
        provider.update(id, lease(until)).await?;
    }
    Ok(())
}

/// A handle, and one on another namespace. Leases are transient in both.
async fn with_leases(stage: &Stage) -> Result<(Arc<dyn MemoryProvider>, Arc<dyn MemoryProvider>)> {
    let transient = || HistorySettings { is_kept: None, transient: "task.leaseUntil".parse().expect("keys") };
    let (stage, target) = (stage.clone().with_history(transient()), stage.elsewhere().with_history(transient()));
    Ok((stage.open().await?, target.open().await?))
}

fn lease(until: i32) -> MemoryPatch {
    MemoryPatch::new().merge_metadata(metadata(&format!(r#"{{"task":{{"leaseUntil":{until}}}}}"#)))
}

/// The versions of a memory, oldest first, the newest as it is now.
async fn whole(provider: &dyn MemoryProvider, id: MemoryId) -> Result<Vec<Version>> {
    let mut versions = oldest_first(provider, id.into()).await?.1;
    if let Some(newest) = versions.last_mut() {
        newest.record = Some(Record::Memory(the(provider, id).await?));
    }
    Ok(versions)
}

async fn a_version_of_metadata_alone_is_taken_over_once(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    provider.update(id, MemoryPatch::new().merge_metadata(metadata(r#"{"note":1,"task":{"leaseUntil":5}}"#))).await?;
    for until in 6..9 {
        target.restore_versions(whole(&*provider, id).await?).await?;
        assert_eq!(oldest_first(&*target, id.into()).await?.1, oldest_first(&*provider, id.into()).await?.1);
        provider.update(id, lease(until)).await?;
    }
    Ok(())
}

/// If the target has changed more than transient members, the restore is a conflict.
async fn what_differs_in_more_than_transient_members_stays(stage: Stage) -> CaseResult {
    let (provider, target) = with_leases(&stage).await?;
    let id = provider.store(new_memory("a", 0)).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    let mut versions = whole(&*provider, id).await?;
    target.restore_versions(versions[..1].to_vec()).await?;
    target.update(id, MemoryPatch::new().with_status(Status::Completed).merge_metadata(metadata(r#"{"x":1}"#))).await?;
    let before = (the(&*target, id).await?, versions_of(&*target, id).await?);
    // Revision 5, as if a lease had been renewed between the two versions.
    if let [_, Version { revision, record: Some(Record::Memory(memory)), .. }] = &mut versions[..] {
        memory.revision = Revision::new(5)?;
        *revision = memory.revision;
    }
    let report = target.restore_versions(versions).await?;
    assert_eq!((report.written, report.equal, &report.conflicts[..]), (0, 0, &[0, 1][..]));
    assert_eq!((the(&*target, id).await?, versions_of(&*target, id).await?), before);
    Ok(())
}

async fn versions_are_restored_only_where_a_history_is_kept(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (_, versions) = of_a_memory(&stage, &*provider).await?;
    let none = HistorySettings { is_kept: Some(false), ..HistorySettings::default() };
    let target = stage.elsewhere().with_history(none).open().await?;
    let error = target.restore_versions(versions).await.expect_err("no history");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    Ok(())
}
