//! Ledgers that older schemas left behind: the folder `ledgers` has two of each engine.
//!
//! The test of an engine loads one into a new namespace, and [`check`] opens it there. Every record is looked up by every index that has
//! it, so a migration that loses a single entry fails.

mod compare;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;
use memory_core::{
    Document, DocumentSelection, DocumentStore, Expect, Memory, MemoryPatch, MemoryProvider, NewMemory, Result, Status,
    Timestamp,
};

use crate::case::CaseResult;
use crate::fixture::{at, context, key, metadata, new_document, space, trigger};
use crate::model::naive::{Naive, json};
use crate::model::op::Ask;
use crate::server::trial;
pub(crate) use compare::compare;

/// The records of every ledger of version 1, as an export.
const RECORDS: &str = include_str!("../../ledgers/v1/records.jsonl");

/// Stands for every commit time, since the histories of the model are not compared here.
const NO_TIME: Timestamp = Timestamp::MIN;

/// Runs a test on the two ledgers of version 1 of an engine, one without and one with an index of the words of its memories, as the `main`
/// of a test with `harness = false`. The test loads the ledger into a new namespace and calls [`check`].
pub fn run(engine: &str, ledgers: [&'static str; 2], test: fn(&'static str) -> CaseResult) -> ExitCode {
    let trials = ["", "_with_words"].into_iter().zip(ledgers);
    let trials = trials
        .map(|(kind, ledger)| trial(format!("{engine}::a_ledger_of_version_1{kind}_goes_on"), move || test(ledger)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Checks that a ledger of version 1 is complete when `open` opens it, when its backfills are complete, and when it is
/// opened again. It must take stores, updates, puts and removals of documents while its backfills are pending, and
/// after it was opened again.
pub async fn check(open: impl AsyncFn() -> Result<Arc<dyn MemoryProvider>>) -> CaseResult {
    let (memories, documents) = records()?;
    let mut model = Naive::default();
    model.restore(memories, NO_TIME);
    model.restore_documents(documents.clone(), NO_TIME);
    let provider = open().await?;
    provider.init().await?;
    check_open(&*provider, &mut model, &documents).await?;
    while provider.backfill().await?.is_some() {}
    compare(&*provider, &model).await?;
    provider.shutdown().await?;

    let provider = open().await?;
    provider.init().await?;
    assert_eq!(provider.backfill().await?, None, "what is complete stays complete");
    check_open(&*provider, &mut model, &documents).await?;
    provider.shutdown().await?;
    Ok(())
}

/// Looks up everything, writes, and looks everything up again.
async fn check_open(provider: &dyn MemoryProvider, model: &mut Naive, documents: &[Document]) -> CaseResult {
    compare(provider, model).await?;
    repeat_keys(provider, model).await?;
    write(provider, model).await?;
    write_documents(&*provider.documents(), model, documents).await?;
    compare(provider, model).await
}

fn records() -> serde_json::Result<(Vec<Memory>, Vec<Document>)> {
    let (mut memories, mut documents) = (vec![], vec![]);
    for line in RECORDS.lines() {
        match line.strip_prefix(r#"{"kind":"document","#) {
            Some(fields) => documents.push(serde_json::from_str(&format!("{{{fields}"))?),
            None => memories.push(serde_json::from_str(line)?),
        }
    }
    Ok((memories, documents))
}

/// Checks that each idempotency key still stands for its memory.
async fn repeat_keys(provider: &dyn MemoryProvider, model: &Naive) -> CaseResult {
    for memory in model.memories() {
        let Some(key) = memory.idempotency_key.clone() else { continue };
        let again = NewMemory::new(memory.space_id.clone(), memory.trigger.clone(), at(7)).with_idempotency_key(key);
        assert_eq!(provider.store(again).await?, memory.id, "the key of {memory:?}");
    }
    Ok(())
}

/// Stores and updates memories, in the engine and in the model.
async fn write(provider: &dyn MemoryProvider, model: &mut Naive) -> CaseResult {
    // They have the times of old memories, so that their index entries lie between existing ones.
    let beside = model.memories().iter().step_by(2).zip(1..).map(|(old, number)| {
        let text = trigger(&format!(r#"{{"text":"newcomer pear {}"}}"#, number % 7));
        let status = Status::ALL[number % Status::ALL.len()];
        NewMemory::new(old.space_id.clone(), text, old.created_at).with_status(status)
    });
    let batch: Vec<_> = beside.collect();
    let ids = provider.store_many(batch.clone()).await?;
    let due = model.store_many(batch, &ids, NO_TIME);
    assert_eq!(due, Ok(ids.into_iter().map(Some).collect()));

    let below = space("discord-42/general:thread-9/new");
    let new = NewMemory::new(below, trigger(r#""a newcomer""#), at(1_800_000_000_000)).with_idempotency_key(key("new"));
    let id = provider.store(new.clone()).await?;
    assert_eq!(model.store_many(vec![new], &[id], NO_TIME), Ok(vec![Some(id)]));

    let patches = [
        MemoryPatch::new().with_status(Status::Running),
        MemoryPatch::new().with_status(Status::Completed).set_context(context(r#""an update about a quince""#)),
        MemoryPatch::new().with_status(Status::Pending).clear_context(),
        MemoryPatch::new().merge_metadata(metadata(r#"{"topic":"updated"}"#)),
    ];
    let ids: Vec<_> = model.memories().iter().step_by(5).map(|memory| memory.id).collect();
    for (id, patch) in ids.into_iter().zip(patches.iter().cycle()) {
        let updated = provider.update(id, patch.clone()).await?;
        let now = updated.updated_at.ok_or("an update has no time")?;
        assert_eq!(model.update(id, patch, now), Ok(updated), "the update of {id}");
    }
    Ok(())
}

/// Puts and removes documents, in the engine and in the model.
async fn write_documents(documents: &dyn DocumentStore, model: &mut Naive, old: &[Document]) -> CaseResult {
    let write = |document: &Document| {
        let (name, id, space) = (document.collection.as_str(), document.id.as_str(), document.space_id.as_str());
        new_document(name, id, space, "an update about a quince")
    };
    let mut writes: Vec<_> = old.iter().step_by(3).map(write).collect();
    writes.push(new_document("notes", "new", "discord-42/new", "a newcomer and a pear"));
    for write in writes {
        let id = write.id.clone().ok_or("a document without an id")?;
        let present = model.document(&write.collection, &id);
        let write = write.expect(present.map_or(Expect::Absent, |present| Expect::Revision(present.revision)));
        let put = documents.put(write.clone()).await?;
        let due = model.put(write, None, put.updated_at.unwrap_or(put.created_at));
        assert_eq!(due.as_ref().map(json), Ok(json(&put)));
    }
    for document in old.iter().skip(1).step_by(6) {
        let (name, ids) = (&document.collection, [document.id.clone()]);
        let removed = documents.remove(&DocumentSelection::ids(name.clone(), ids.clone())?, 1).await?;
        assert_eq!(model.remove(name, &ids, &Ask::everything(1), 1, NO_TIME), Ok(removed));
    }
    Ok(())
}
