//! Which changes come, and in which order (C1 to C3).

use std::sync::Arc;

use futures::future::try_join_all;
use memory_core::{
    ChangeKind, Collections, Document, Error, Memory, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Record,
    RecordId, Watch, WatchFrom, Watched,
};

use super::{Reader, apply, everything, named, next, next_kind, replicate, shown, until_reached};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    NOTES, at, collection, context, document_id, ledger, metadata, new_document, new_memory, note, remove_note, the,
    trigger, walk_documents,
};
use crate::model::naive::json;
use crate::model::replica::Replica;

chapter!("watch":
    changes_come_as_they_are_committed ["C1", "C2", "C3", "C7"] needs Feed,
    batches_and_restores_come_whole ["C1", "C3"] needs Feed,
    late_and_backdated_rows_come ["C3"] needs Feed,
    a_snapshot_comes_first_and_whole ["C1", "C2"] needs Feed,
    a_snapshot_goes_on_as_the_feed ["C2", "C3"] needs Feed,
    a_record_comes_in_the_order_of_its_revisions ["C3"] needs Feed,
    documents_that_are_put_again_come_behind_their_removal ["C3"] needs Feed,
    writers_on_several_handles_are_replicated ["C2", "C3", "C5"] needs Feed,
    what_is_watched_is_named ["C1"] needs Feed,
    damaged_rows_are_told ["C1", "Q8"] needs DamageAndFeed,
);

/// Each write comes with the record as the write left it, whichever handle made it.
async fn changes_come_as_they_are_committed(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    provider.store(new_memory("earlier", 1)).await?;
    let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
    assert_eq!(next(&mut changes).await?.kind, ChangeKind::Reached, "there is a token before anything has changed");
    let id = provider.store(new_memory("a-1", 1)).await?;
    let memory = async || Ok::<_, Error>(Record::Memory(the(&*provider, id).await?));
    assert_eq!(next_kind(&mut changes).await?, ChangeKind::Stored(memory().await?));
    provider.update(id, MemoryPatch::new().set_context(context("1"))).await?;
    assert_eq!(next_kind(&mut changes).await?, ChangeKind::Updated(memory().await?));
    other.update(id, MemoryPatch::new().merge_metadata(metadata(r#"{"n":1}"#))).await?;
    assert_eq!(next_kind(&mut changes).await?, ChangeKind::Updated(memory().await?));
    // Neither changes anything.
    other.update(id, MemoryPatch::new()).await?;
    other.update(MemoryId::generate(), MemoryPatch::new().clear_context()).await.expect_err("not there");
    let put = other.documents().put(new_document(NOTES, "n", "a", "one")).await?;
    assert_eq!(next_kind(&mut changes).await?, ChangeKind::Stored(Record::Document(put)));
    let put = provider.documents().put(new_document(NOTES, "n", "a-2", "two")).await?;
    assert_eq!(next_kind(&mut changes).await?, ChangeKind::Updated(Record::Document(put)));
    remove_note(&*other, "n").await?;
    assert_eq!(next_kind(&mut changes).await?, ChangeKind::Removed(note("n")));
    Ok(())
}

/// More changes than a page of a feed holds are written in one step.
async fn batches_and_restores_come_whole(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
    // In the order of the ids, and in another order of time.
    let memories = (0..1_500).map(|number| new_memory(&format!("a-{}", number % 7), number * 37 % 1_500));
    let mut due: Vec<_> = provider.store_many(memories.collect()).await?;
    let restored = |number: i64| Memory { created_at: at(-number), ..restored_memory("b", number) };
    let memories: Vec<_> = (1..=600).map(restored).collect();
    due.extend(memories.iter().map(|memory| memory.id));
    assert_eq!(provider.restore(memories).await?.written, 600);
    let mut due: Vec<_> = due.into_iter().map(RecordId::Memory).collect();
    let documents: Vec<_> = (0..300).map(|number| restored_document(&format!("d{number}"))).collect();
    due.extend(documents.iter().map(|document| Record::Document(document.clone()).id()));
    assert_eq!(provider.documents().restore(documents).await?.written, 300);
    let mut told = Vec::new();
    while told.len() < due.len() {
        told.extend(named(&next_kind(&mut changes).await?));
    }
    due.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, due, "each comes once, since nothing has changed twice");
    Ok(())
}

fn restored_memory(space_id: &str, millis: i64) -> Memory {
    new_memory(space_id, millis).into_memory(MemoryId::generate())
}

fn restored_document(id: &str) -> Document {
    let write = new_document(NOTES, id, "b", "restored");
    write.apply(&document_id(id), None, at(1)).expect("nothing is in its place")
}

/// Rows come even if their createdAt is before that of rows that were read already. A consumer that polls by createdAt would miss them.
async fn late_and_backdated_rows_come(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let mut reader = Reader::begin(&*provider, everything(WatchFrom::Now)).await?;
    let mut due = Vec::new();
    for (number, millis) in [5_000, 4_000, -1, 5_000, -5_000_000].into_iter().enumerate() {
        let space = format!("a-{number}");
        other.store(new_memory(&space, millis)).await?;
        due.push(format!("stored {space}"));
    }
    assert_eq!(reader.since(&*provider).await?, due);
    provider.store(new_memory("new", 6_000)).await?;
    // Under an id below all others.
    let old = Memory { id: MemoryId::from_bytes([0; 16]), ..restored_memory("old", -6_000_000) };
    other.restore(vec![old]).await?;
    let mut late = new_document(NOTES, "late", "late", "x");
    late.created_at = at(-7);
    other.documents().put(late).await?;
    assert_eq!(reader.since(&*provider).await?, ["stored new", "stored old", "stored late"]);
    Ok(())
}

async fn a_snapshot_comes_first_and_whole(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let ids = provider.store_many((0..250).map(|number| new_memory("a", number % 3)).collect()).await?;
    provider.update(ids[7], MemoryPatch::new().set_context(context("1"))).await?;
    for number in 0..120 {
        provider.documents().put(new_document(NOTES, &format!("{number}"), "a", "x")).await?;
        provider.documents().put(new_document("other", &format!("{number}"), "a", "x")).await?;
    }
    let told = until_reached(&mut provider.watch(&everything(WatchFrom::Beginning)).await?).await?;
    let mut replica = Replica::default();
    told.iter().for_each(|change| apply(&mut replica, change));
    assert_eq!(told.len(), 490, "each once");
    assert_eq!(replica.records(), all_records(&*provider).await?);
    let updated = told.iter().filter(|change| matches!(change.kind, ChangeKind::Updated(_)));
    assert_eq!(updated.filter_map(|change| named(&change.kind)).collect::<Vec<_>>(), [RecordId::Memory(ids[7])]);
    // Of one collection alone.
    let notes = Watched::Documents(Collections::Named([collection("other")].into()));
    let notes = Watch::new(notes, MemoryQuery::builder().all())?.from(WatchFrom::Beginning);
    assert_eq!(until_reached(&mut provider.watch(&notes).await?).await?.len(), 120);
    Ok(())
}

/// Everything that a watch of everything must deliver.
async fn all_records(provider: &dyn MemoryProvider) -> Result<Vec<String>, Error> {
    let mut records: Vec<_> = ledger(provider).await?.iter().map(json).collect();
    for name in provider.documents().collections().await? {
        let found = walk_documents(&*provider.documents(), name.as_str(), |query| query.all()).await?;
        records.extend(found.iter().map(json));
    }
    records.sort_unstable();
    Ok(records)
}

/// A change during a snapshot is in none or some of its pages, and always in the feed.
async fn a_snapshot_goes_on_as_the_feed(stage: Stage) -> CaseResult {
    let (provider, other) = (stage.open().await?, stage.open().await?);
    let ids = provider.store_many((0..400).map(|number| new_memory("a", number)).collect()).await?;
    for number in 0..150 {
        provider.documents().put(new_document(NOTES, &format!("d{number:03}"), "a", "x")).await?;
    }
    let mut changes = provider.watch(&everything(WatchFrom::Beginning)).await?;
    let mut replica = Replica::default();
    // Some of it is delivered already, and some is not.
    for step in 0..40 {
        apply(&mut replica, &next(&mut changes).await?);
        let number = step * 10;
        other.update(ids[number], MemoryPatch::new().set_context(context("1"))).await?;
        other.store(new_memory("a", number as i64)).await?;
        let id = format!("d{:03}", number % 150);
        match step % 3 {
            0 => drop(other.documents().put(new_document(NOTES, &id, "b", "y")).await?),
            1 => remove_note(&*other, &id).await?,
            _ => drop(other.documents().put(new_document("new", &id, "a", "z")).await?),
        }
    }
    replicate(&mut changes, &mut replica).await?;
    assert_eq!(replica.records(), all_records(&*provider).await?);
    Ok(())
}

async fn a_record_comes_in_the_order_of_its_revisions(stage: Stage) -> CaseResult {
    let handles = try_join_all((0..3).map(|_| stage.open())).await?;
    let provider = &handles[0];
    let ids = provider.store_many(vec![new_memory("a", 1), new_memory("a", 1)]).await?;
    let mut changes = provider.watch(&everything(WatchFrom::Beginning)).await?;
    let write = async |handle: &Arc<dyn MemoryProvider>| {
        for number in 0..60 {
            handle.update(ids[number % 2], MemoryPatch::new().merge_metadata(metadata(r#"{"n":1}"#))).await?;
            handle.documents().put(new_document(NOTES, "n", "a", &number.to_string())).await?;
        }
        Ok::<_, Error>(())
    };
    let writers = async {
        try_join_all(handles.iter().map(&write)).await?;
        provider.store(new_memory("last", 1)).await
    };
    let mut replica = Replica::default();
    // Later writes come in the feed, in their order.
    replicate(&mut changes, &mut replica).await?;
    let reader = async {
        loop {
            let change = next(&mut changes).await?;
            apply(&mut replica, &change);
            if shown(&change.kind) == "stored last" {
                return Ok::<_, Error>(());
            }
        }
    };
    futures::try_join!(writers, reader)?;
    assert_eq!(the(&**provider, ids[0]).await?.revision.get(), 91);
    assert_eq!(replica.records(), all_records(&**provider).await?);
    Ok(())
}

async fn documents_that_are_put_again_come_behind_their_removal(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let documents = provider.documents();
    let mut reader = Reader::begin(&*provider, everything(WatchFrom::Now)).await?;
    let put = async |content: &str| documents.put(new_document(NOTES, "n", "a", content)).await.map(drop);
    put("one").await?;
    let mut late = Reader { watch: reader.watch.clone() };
    assert_eq!(reader.since(&*provider).await?, ["stored a"]);
    put("two").await?;
    assert_eq!(reader.since(&*provider).await?, ["updated a"]);
    remove_note(&*provider, "n").await?;
    put("again").await?;
    assert_eq!(reader.since(&*provider).await?, ["removed n", "stored a"]);
    remove_note(&*provider, "n").await?;
    assert_eq!(reader.since(&*provider).await?, ["removed n"]);
    put("and again").await?;
    assert_eq!(reader.since(&*provider).await?, ["stored a"]);
    // A consumer that resumes only now receives at least the last removal, and has the new document in the end.
    let told = late.since(&*provider).await?;
    assert_eq!(told[told.len() - 2..], ["removed n", "stored a"]);
    Ok(())
}

/// Three handles write, and a consumer resumes on another handle again and again: nothing is lost, and nothing is out of order.
async fn writers_on_several_handles_are_replicated(stage: Stage) -> CaseResult {
    let handles = try_join_all((0..3).map(|_| stage.open())).await?;
    let writers = handles.iter().enumerate().map(|(writer, handle)| {
        let handle = Arc::clone(handle);
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for number in 0..80_usize {
                ids.push(handle.store(new_memory(&format!("a-{writer}"), number as i64 % 5)).await?);
                handle.update(ids[number / 2], MemoryPatch::new().set_context(context("1"))).await?;
                let id = format!("d{}", number % 5);
                match number % 4 {
                    0 => remove_note(&*handle, &id).await?,
                    _ => drop(handle.documents().put(new_document(NOTES, &id, "a", &number.to_string())).await?),
                }
            }
            Ok::<_, Error>(())
        })
    });
    let writers: Vec<_> = writers.collect();
    let (mut replica, mut from, mut rounds) = (Replica::default(), WatchFrom::Beginning, 0);
    let mut is_over = false;
    loop {
        let mut changes = handles[rounds % 3].watch(&everything(from.clone())).await?;
        rounds += 1;
        // The last round reads everything that is left.
        for _ in 0..if is_over { usize::MAX } else { 25 } {
            let change = next(&mut changes).await?;
            apply(&mut replica, &change);
            from = change.token.into();
            if change.kind == ChangeKind::Reached {
                break;
            }
        }
        if is_over {
            break;
        }
        is_over = writers.iter().all(|writer| writer.is_finished());
    }
    for writer in writers {
        writer.await??;
    }
    assert_eq!(replica.records(), all_records(&*handles[0]).await?);
    Ok(())
}

async fn what_is_watched_is_named(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let of = |of| Watch::new(of, MemoryQuery::builder().all()).expect("a valid watch");
    let notes = Watched::Documents(Collections::Named([collection(NOTES)].into()));
    let mut memories = Reader::begin(&*provider, of(Watched::Memories)).await?;
    let mut notes = Reader::begin(&*provider, of(notes)).await?;
    let mut documents = Reader::begin(&*provider, of(Watched::Documents(Collections::All))).await?;
    provider.documents().put(new_document("other", "o", "a-other", "x")).await?;
    provider.store(new_memory("a-memory", 1)).await?;
    provider.documents().put(new_document(NOTES, "n", "a-note", "x")).await?;
    assert_eq!(memories.since(&*provider).await?, ["stored a-memory"]);
    assert_eq!(notes.since(&*provider).await?, ["stored a-note"]);
    assert_eq!(documents.since(&*provider).await?, ["stored a-other", "stored a-note"]);
    Ok(())
}

/// A row that can't be read hides no other, neither in a snapshot nor in the feed.
async fn damaged_rows_are_told(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
    let mut damaged = new_memory("a", 1);
    damaged.trigger = trigger("1");
    let damaged = provider.store(damaged).await?;
    assert!(stage.harness().damage(stage.namespace(), damaged).await?);
    provider.store(new_memory("b", 2)).await?;
    let mut snapshot = provider.watch(&everything(WatchFrom::Beginning)).await?;
    for changes in [&mut changes, &mut snapshot] {
        let mut told = [next_kind(changes).await?, next_kind(changes).await?];
        told.sort_by_key(shown);
        let [ChangeKind::Stored(_), ChangeKind::Unreadable(unreadable)] = &told else { panic!("{told:?}") };
        assert_eq!(unreadable.id, damaged.to_string());
    }
    Ok(())
}
