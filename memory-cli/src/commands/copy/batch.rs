//! A batch of changes to apply to the target.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{
    Change, ChangeKind, Clock as _, Collection, Document, DocumentId, DocumentSelection, Memory, MemoryProvider,
    Record, RecordId, RestoreReport, Result, Revision, SystemClock, Tombstone, Unreadable,
};

use crate::collections::is_copied;
use crate::vectors::VectorWriter;

/// Limits of a batch: the number of changes, and the approximate bytes of records, without the last record.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 4 << 20;
/// The most documents that one call removes: as many as are allowed for documents of any size (D4).
const REMOVED: usize = 50;

/// Changes grouped into steps. Only the order of changes of the same document matters, and the steps keep that.
#[derive(Debug, Default)]
pub(super) struct Batch {
    steps: Vec<Step>,
    /// The number of records in the batch.
    pub(super) count: u64,
    bytes: usize,
    /// The token of the last change.
    pub(super) token: Option<String>,
    /// Whether the watch has caught up with the source.
    pub(super) is_reached: bool,
    /// The records that can't be read at the source.
    pub(super) unreadable: Vec<Unreadable>,
}

/// Changes that can be applied together.
#[derive(Debug, Default)]
struct Step {
    memories: Vec<Memory>,
    removed: BTreeMap<Collection, BTreeSet<DocumentId>>,
    erased: BTreeSet<RecordId>,
    /// The documents to put after the removals.
    documents: Vec<Document>,
    /// The ids of these documents.
    put: BTreeSet<RecordId>,
}

/// The result of applying a batch to the target.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// The records that are the same as at the source.
    pub(super) same: Vec<RecordId>,
    /// The records that differ in the target, at the same revision or a later one.
    pub(super) conflicts: Vec<RecordId>,
    /// The records that were erased in the target, and are not restored there.
    pub(super) erased: Vec<RecordId>,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.count >= MOST as u64 || self.bytes >= MOST_BYTES
    }

    pub(super) fn add(&mut self, change: Change) {
        self.token = Some(change.token.to_string());
        match change.kind {
            ChangeKind::Stored(record) | ChangeKind::Updated(record) => self.add_record(record),
            ChangeKind::Removed(id) => self.add_removal(id),
            ChangeKind::Erased(id) => self.add_erasure(id),
            ChangeKind::Unreadable(record) => self.unreadable.push(record),
            ChangeKind::Reached => self.is_reached = true,
            // A watch without conditions has no other kinds of changes.
            _ => {}
        }
    }

    fn add_record(&mut self, record: Record) {
        let id = record.id();
        match record {
            Record::Document(document) if !is_copied(&document.collection) => return,
            Record::Memory(memory) => {
                self.bytes += memory.size();
                self.last().memories.push(memory);
            }
            Record::Document(document) => {
                self.bytes += document.size();
                let step = self.last();
                step.documents.push(document);
                step.put.insert(id);
            }
        }
        self.count += 1;
    }

    fn add_removal(&mut self, record: RecordId) {
        if self.last().put.contains(&record) {
            self.steps.push(Step::default());
        }
        // Memories are never removed.
        let RecordId::Document { collection, id } = record else { return };
        if is_copied(&collection) {
            self.last().removed.entry(collection).or_default().insert(id);
            self.count += 1;
        }
    }

    fn add_erasure(&mut self, record: RecordId) {
        if let RecordId::Document { collection, .. } = &record
            && !is_copied(collection)
        {
            return;
        }
        if self.last().put.contains(&record) {
            self.steps.push(Step::default());
        }
        self.last().erased.insert(record);
        self.count += 1;
    }

    fn last(&mut self) -> &mut Step {
        if self.steps.is_empty() {
            self.steps.push(Step::default());
        }
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    /// Applies the batch to the target, with the tombstones and the vectors of the source. It is idempotent.
    pub(super) async fn apply(
        self,
        source: &dyn MemoryProvider,
        target: &dyn MemoryProvider,
        vectors: &mut VectorWriter,
    ) -> Result<Taken> {
        let (documents, mut taken) = (target.documents(), Taken::default());
        for Step { memories, removed, erased, documents: put, .. } in self.steps {
            if !memories.is_empty() {
                let ids = memories.iter().map(|memory| RecordId::Memory(memory.id)).collect();
                let versions: Vec<(RecordId, Revision)> =
                    memories.iter().map(|memory| (memory.id.into(), memory.revision)).collect();
                let report = target.restore_newer(memories).await?;
                vectors.carry(source, target, &without(versions, &report)).await?;
                taken.add(ids, &report);
            }
            for (collection, ids) in removed {
                let ids: Vec<_> = ids.into_iter().collect();
                for some in ids.chunks(REMOVED) {
                    let selection = DocumentSelection::ids(collection.clone(), some.iter().cloned())?;
                    documents.remove(&selection, some.len()).await?;
                }
                taken.same.extend(ids.into_iter().map(|id| RecordId::Document { collection: collection.clone(), id }));
            }
            if !erased.is_empty() {
                let report = erase(source, target, &erased).await?;
                taken.add(erased.into_iter().collect(), &report);
            }
            if !put.is_empty() {
                let id = |Document { collection, id, .. }: &Document| RecordId::Document {
                    collection: collection.clone(),
                    id: id.clone(),
                };
                let ids = put.iter().map(id).collect();
                let versions: Vec<(RecordId, Revision)> =
                    put.iter().map(|document| (document.into(), document.revision)).collect();
                let report = documents.restore_newer(put).await?;
                vectors.carry(source, target, &without(versions, &report)).await?;
                taken.add(ids, &report);
            }
        }
        Ok(taken)
    }
}

/// Carries the tombstones of these records to the target. The conflicts in the report are places in `records`.
async fn erase(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    records: &BTreeSet<RecordId>,
) -> Result<RestoreReport> {
    let (mut tombstones, mut places) = (Vec::with_capacity(records.len()), Vec::with_capacity(records.len()));
    for (place, record) in records.iter().enumerate() {
        let tombstone = match source.tombstone(record).await? {
            // The record has expired, and its tombstone is gone, too (X4), so the target gets a tombstone of an expiry.
            None if !is_there(source, record).await? => Some(Tombstone::of_expiry(record.clone(), SystemClock.now())),
            tombstone => tombstone,
        };
        places.extend(tombstone.is_some().then_some(place));
        tombstones.extend(tombstone);
    }
    let Some(key) = source.hash_key().await? else { return Ok(RestoreReport::default()) };
    let mut report = target.restore_tombstones(tombstones, &key).await?;
    report.conflicts = report.conflicts.into_iter().filter_map(|place| places.get(place).copied()).collect();
    Ok(report)
}

async fn is_there(source: &dyn MemoryProvider, record: &RecordId) -> Result<bool> {
    match record {
        RecordId::Memory(id) => Ok(source.get(*id).await?.is_some()),
        RecordId::Document { collection, id } => Ok(source.documents().get(collection, id).await?.is_some()),
    }
}

impl Taken {
    fn add(&mut self, ids: Vec<RecordId>, report: &RestoreReport) {
        let erased: BTreeSet<_> = report.erased.iter().copied().collect();
        for (place, id) in ids.into_iter().enumerate() {
            // The report lists indexes in ascending order.
            match report.conflicts.binary_search(&place) {
                Ok(_) => self.conflicts.push(id),
                Err(_) if erased.contains(&place) => self.erased.push(id),
                Err(_) => self.same.push(id),
            }
        }
    }
}

/// Returns the records that are the same in source and target.
pub(super) fn without<T>(records: Vec<T>, report: &RestoreReport) -> Vec<T> {
    let left_out: BTreeSet<_> = report.conflicts.iter().chain(&report.erased).copied().collect();
    records.into_iter().enumerate().filter(|(place, _)| !left_out.contains(place)).map(|(_, record)| record).collect()
}
