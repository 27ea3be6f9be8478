//! Calls that name or select expired records, and walks that began before the expiry (X2).

use memory_core::{
    DocumentQuery, DocumentSelection, Erasure, ErrorKind, History, MemoryPatch, MemoryQuery, Order, RecordId, Status,
    Sweep,
};

use super::looking::Ask;
use super::{END, expiring, expiring_note, get_note, set_clock, sorted, swept};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, at, collection, document_id, ids, kind, ledger, new_document, new_memory, note, put, query, the,
};

chapter!("expiry":
    names_of_what_is_over_are_erased ["X2", "E2"] needs Erasure,
    removals_do_not_find_what_is_over ["X2", "D4"] needs Erasure,
    a_walk_goes_on_without_what_is_over ["X2", "Q6"] needs Erasure,
    erasures_find_what_is_over ["X2"] needs Erasure,
    what_was_removed_before_shows_no_more ["X2", "H5"] needs Erasure,
);

const REASON: &str = "somebody asked for it";

/// `get` and `update` of an expired memory are `Erased`, as after an erasure; `get` of an expired document finds nothing. Both have
/// tombstones.
async fn names_of_what_is_over_are_erased(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(expiring("a", 1)).await?;
    let kept = provider.store(new_memory("a", 2)).await?;
    put(&*provider, expiring_note("n", "a", "text")).await?;
    set_clock(&stage, END - 1);
    the(&*provider, id).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
    set_clock(&stage, END);
    for is_swept in [false, true] {
        if is_swept {
            swept(&*provider, Sweep::due()).await?;
        }
        for handle in [&provider, &stage.open().await?] {
            assert_eq!(kind(handle.get(id).await), Some(ErrorKind::Erased), "swept: {is_swept}");
            assert_eq!(get_note(&**handle, "n").await?, None);
            for record in [RecordId::from(id), note("n")] {
                let tombstone = handle.tombstone(&record).await?.ok_or("a tombstone")?;
                assert_eq!((tombstone.reason.as_str(), tombstone.at), ("expired", at(END)), "swept: {is_swept}");
                assert!(tombstone.is_of_expiry() && tombstone.actor.is_none());
            }
            assert_eq!(handle.tombstone(&kept.into()).await?, None);
            assert_eq!(ids(&ledger(&**handle).await?), [kept]);
        }
    }
    for patch in [MemoryPatch::new(), MemoryPatch::new().clear_expiry(), MemoryPatch::new().set_expiry(at(END + 9))] {
        assert_eq!(kind(provider.update(id, patch).await), Some(ErrorKind::Erased));
    }
    Ok(())
}

async fn removals_do_not_find_what_is_over(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for number in 0..3 {
        put(&*provider, expiring_note(&format!("over{number}"), "a", "text")).await?;
    }
    put(&*provider, new_document(NOTES, "kept", "a", "text")).await?;
    set_clock(&stage, END);
    let (documents, names) = (provider.documents(), ["over0", "over1", "kept"].map(document_id));
    let in_a = || DocumentQuery::builder(collection(NOTES)).exact("a");
    let named = DocumentSelection::ids(collection(NOTES), names)?;
    // If they counted, there would be more than `max`, and nothing would be removed.
    for selection in [named, DocumentSelection::matching(in_a())?, DocumentSelection::matching(in_a().text("text"))?] {
        assert_eq!(selection.preview(&*documents, 1).await?, [document_id("kept")]);
    }
    let over = DocumentSelection::ids(collection(NOTES), [document_id("over0")])?;
    assert_eq!(documents.remove(&over, 1).await?, []);
    assert_eq!(documents.remove(&DocumentSelection::matching(in_a())?, 1).await?, [document_id("kept")]);
    // The removal does not take them: they have expired. Until they are swept, their collection is listed.
    assert_eq!(documents.collections().await?, [collection(NOTES)]);
    swept(&*provider, Sweep::due()).await?;
    assert_eq!(documents.collections().await?, []);
    let tombstone = provider.tombstone(&note("over0")).await?.ok_or("a tombstone")?;
    assert_eq!((tombstone.reason.as_str(), tombstone.at), ("expired", at(END)));
    Ok(())
}

/// A cursor from before the expiry gives the rest of the walk, both with and without a sweep in between.
async fn a_walk_goes_on_without_what_is_over(stage: Stage) -> CaseResult {
    for is_swept in [false, true] {
        let stage = stage.elsewhere();
        let provider = stage.open().await?;
        let mut kept = Vec::new();
        for number in 0..20 {
            let expires = number % 2 == 0;
            let memory = if expires { expiring("a", number) } else { new_memory("a", number) };
            let id = provider.store(memory).await?;
            let mut write = new_document(NOTES, &format!("n{number:02}"), "a", "text");
            (write.created_at, write.expires_at) = (at(number), expires.then(|| at(END)));
            put(&*provider, write).await?;
            if !expires {
                kept.push(id);
            }
        }
        let asked: [Ask; 3] = [
            |all| all.all().order(Order::OldestFirst).limit(4),
            |all| all.exact("a").order(Order::OldestFirst).limit(4),
            |all| all.under("a").status(Status::Pending).order(Order::OldestFirst).limit(4),
        ];
        let mut cursors = Vec::new();
        for ask in asked {
            let page = provider.query(&query(ask)).await?;
            assert_eq!(page.memories.len(), 4);
            cursors.push((ask, page.next.ok_or("a cursor")?));
        }
        let notes = || DocumentQuery::builder(collection(NOTES)).all().order(Order::OldestFirst);
        let page = provider.documents().query(&notes().limit(4).build()?).await?;
        let behind = page.next.ok_or("a cursor")?;
        set_clock(&stage, END);
        if is_swept {
            swept(&*provider, Sweep::due()).await?;
        }
        for (ask, cursor) in cursors {
            let (mut found, mut next) = (Vec::new(), Some(cursor));
            while let Some(cursor) = next {
                let page = provider.query(&query(|all| ask(all).cursor(&cursor))).await?;
                found.extend(ids(&page.memories));
                next = page.next;
            }
            assert_eq!(found, kept[2..], "swept: {is_swept}");
        }
        let (mut found, mut next) = (Vec::new(), Some(behind));
        while let Some(cursor) = next {
            let page = provider.documents().query(&notes().limit(4).cursor(&cursor).build()?).await?;
            found.extend(page.documents.into_iter().map(|document| document.id.to_string()));
            next = page.next;
        }
        let expected: Vec<_> = (5..20).step_by(2).map(|number| format!("n{number:02}")).collect();
        assert_eq!(found, expected, "swept: {is_swept}");
    }
    Ok(())
}

/// Erasures by name and by query find expired records, and the tombstone is that of the erasure.
async fn erasures_find_what_is_over(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let named = provider.store(expiring("a", 1)).await?;
    let found = provider.store(expiring("b", 1)).await?;
    let left = provider.store(expiring("c", 1)).await?;
    for (id, space) in [("named", "a"), ("found", "b")] {
        put(&*provider, expiring_note(id, space, "text")).await?;
    }
    set_clock(&stage, END + 5);
    let erased = provider.erase(&Erasure::records([named.into(), note("named")], REASON)?).await?;
    assert_eq!(erased.records, sorted([named.into(), note("named")]));
    let memories = Erasure::memories(MemoryQuery::builder().exact("b"), REASON)?;
    assert_eq!(provider.erase(&memories).await?.records, [found.into()]);
    let documents = Erasure::documents(DocumentQuery::builder(collection(NOTES)).exact("b"), REASON)?;
    assert_eq!(provider.erase(&documents).await?.records, [note("found")]);
    assert_eq!(swept(&*provider, Sweep::due()).await?.0, [left.into()]);
    for record in [RecordId::from(named), note("named"), found.into(), note("found")] {
        let tombstone = provider.tombstone(&record).await?.ok_or("a tombstone")?;
        assert_eq!((tombstone.reason.as_str(), tombstone.at), (REASON, at(END + 5)));
        assert!(!tombstone.is_of_expiry());
    }
    Ok(())
}

/// The history of an earlier document under the same id, removed before, disappears in the same millisecond.
async fn what_was_removed_before_shows_no_more(stage: Stage) -> CaseResult {
    if !stage.harness().keeps_history() {
        return Ok(());
    }
    let provider = stage.open().await?;
    put(&*provider, new_document(NOTES, "n", "a", "earlier")).await?;
    let one = DocumentSelection::ids(collection(NOTES), [document_id("n")])?;
    provider.documents().remove(&one, 1).await?;
    put(&*provider, expiring_note("n", "a", "text")).await?;
    let with_removed = async || provider.history(&History::of(note("n")).with_removed()).await;
    assert_eq!(with_removed().await?.versions.len(), 3);
    set_clock(&stage, END);
    assert_eq!(with_removed().await?.versions, []);
    swept(&*provider, Sweep::due()).await?;
    assert_eq!(with_removed().await?.versions, []);
    Ok(())
}
