//! A batch of records to import.

use std::collections::BTreeMap;

use memory_core::{
    Clock as _, Document, DocumentStore, Embedding, ErrorKind, HashKey, Memory, MemoryId, MemoryProvider, NewMemory,
    Record as CoreRecord, RecordId, RestoreReport, SystemClock, Timestamp, Tombstone, Vector, Version,
};

use crate::line::Record;
use crate::output;
use crate::progress::Progress;
use crate::tombstones;
use crate::vectors::VectorWriter;
use crate::versions::{AT_ONCE, restore_behind};

/// Limits of a batch, in lines and bytes.
const MAX_LINES: usize = 1_000;
const MAX_BYTES: usize = 8 << 20;

/// Records that are written together, by kind.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: usize,
    pub(super) bytes: usize,
    pub(super) first: u64,
    /// Tombstones, grouped by the key of their hashes.
    tombstones: Vec<(HashKey, Vec<Tombstone>)>,
    new: Numbered<NewMemory>,
    memories: Numbered<Memory>,
    documents: Numbered<Document>,
    versions: Numbered<Version>,
    /// The last version of the previous batch, which versions of the same record continue.
    before: Option<Version>,
}

/// The result of writing a batch.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The number of new records.
    pub(super) written: u64,
    /// The number of records that differ from existing ones.
    pub(super) conflicts: u64,
    /// The number of records that were erased before, and are left out.
    pub(super) erased: u64,
    /// The number of new tombstones.
    pub(super) tombstones: u64,
}

/// Records with the numbers of their lines.
#[derive(Debug)]
struct Numbered<T> {
    numbers: Vec<u64>,
    records: Vec<T>,
    /// The vectors of the records that have one, by index.
    vectors: BTreeMap<usize, Embedding>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: Vec::new(), records: Vec::new(), vectors: BTreeMap::new() }
    }
}

impl<T> Numbered<T> {
    fn push(&mut self, number: u64, record: T) {
        self.numbers.push(number);
        self.records.push(record);
    }

    fn push_with(&mut self, number: u64, record: T, embedding: Option<Embedding>) {
        let place = self.records.len();
        self.vectors.extend(embedding.map(|embedding| (place, embedding)));
        self.push(number, record);
    }
}

/// Returns the vectors of the records that are stored as their lines say.
fn embeddings(vectors: BTreeMap<usize, Embedding>, report: &RestoreReport) -> Vec<Embedding> {
    let is_there = |place: &usize| !report.conflicts.contains(place) && !report.erased.contains(place);
    vectors.into_iter().filter(|(place, _)| is_there(place)).map(|(_, embedding)| embedding).collect()
}

impl Batch {
    /// Makes a batch that continues after this version.
    pub(super) fn behind(before: Option<Version>) -> Self {
        Self { before, ..Self::default() }
    }

    /// The last version in the batch.
    pub(super) fn last_version(&self) -> Option<Version> {
        self.versions.records.last().cloned()
    }

    /// Whether the batch has reached a limit.
    pub(super) fn is_full(&self) -> bool {
        self.lines >= MAX_LINES || self.bytes >= MAX_BYTES
    }

    /// Adds a record, with its number and its size in the source.
    pub(super) fn push(&mut self, number: u64, bytes: usize, record: Record, vector: Option<Vector>) {
        if self.lines == 0 {
            self.first = number;
        }
        self.lines += 1;
        self.bytes += bytes;
        match record {
            Record::New(memory) => self.new.push(number, memory),
            Record::Memory(memory) => {
                let texts = Some((&memory).into());
                let embedding = vector.map(|vector| Embedding {
                    record: memory.id.into(),
                    revision: memory.revision,
                    texts,
                    vector,
                });
                self.memories.push_with(number, memory, embedding);
            }
            Record::Document(document) => {
                let (record, texts) = ((&document).into(), Some((&document).into()));
                let embedding = vector.map(|vector| Embedding { record, revision: document.revision, texts, vector });
                self.documents.push_with(number, document, embedding);
            }
            Record::Version(version) => {
                let of = version.record.as_ref().map(|record| (record.id(), Some(record.into()))).zip(vector);
                let embedding =
                    of.map(|((record, texts), vector)| Embedding { record, revision: version.revision, texts, vector });
                self.versions.push_with(number, version, embedding);
            }
            // The model is of the whole import, not of a batch.
            Record::VectorModel(_) => {}
            Record::Tombstone(tombstone, key) => match self.tombstones.last_mut() {
                Some((last, tombstones)) if *last == key => tombstones.push(tombstone),
                _ => self.tombstones.push((key, vec![tombstone])),
            },
        }
    }

    /// Writes the batch, and returns the result.
    pub(super) async fn write(
        self,
        provider: &dyn MemoryProvider,
        documents: &dyn DocumentStore,
        vectors: &mut VectorWriter,
        progress: &Progress,
    ) -> memory_core::Result<Written> {
        let Written { mut written, mut conflicts, mut erased, tombstones: mut buried } = Written::default();
        // Tombstones first, so that a new ledger takes over their key.
        for (key, some) in self.tombstones {
            let report = provider.restore_tombstones(some, &key).await?;
            buried += report.written as u64;
            let unreadable = report.conflicts.len() as u64;
            if unreadable > 0 {
                conflicts += unreadable;
                progress.note(&tombstones::unreadable(unreadable));
            }
        }
        if !self.new.records.is_empty() {
            let stored = store(provider, self.new, progress).await?;
            written += stored.written;
            conflicts += stored.conflicts;
            erased += stored.erased;
        }
        if !self.memories.records.is_empty() {
            let Numbered { numbers, records, vectors: given } = self.memories;
            let ids: Vec<_> = records.iter().map(|memory| memory.id).collect();
            let report = provider.restore(records).await?;
            written += report.written as u64;
            conflicts += report.conflicts.len() as u64;
            erased += report.erased.len() as u64;
            vectors.write(provider, embeddings(given, &report)).await?;
            for place in report.conflicts {
                progress.note(&conflict(numbers[place], &format!("the memory {}", ids[place])));
            }
        }
        if !self.documents.records.is_empty() {
            let Numbered { numbers, records, vectors: given } = self.documents;
            let ids: Vec<_> = records.iter().map(|document| document.id.clone()).collect();
            let report = documents.restore(records).await?;
            written += report.written as u64;
            conflicts += report.conflicts.len() as u64;
            erased += report.erased.len() as u64;
            vectors.write(provider, embeddings(given, &report)).await?;
            for place in report.conflicts {
                progress.note(&conflict(
                    numbers[place],
                    &format!("the document {}", output::printable(ids[place].as_str())),
                ));
            }
        }
        let (mut before, Numbered { numbers, records, vectors: mut given }) = (self.before, self.versions);
        let (mut versions, mut numbers, mut done) = (records.as_slice(), numbers.as_slice(), 0);
        while let Some(of) = versions.first().and_then(record_of) {
            let is_of = |version: &&Version| record_of(version).as_ref() == Some(&of);
            let count = versions.iter().take(AT_ONCE).take_while(is_of).count();
            let some = versions[..count].to_vec();
            let last = some.last().cloned();
            let report = restore_behind(provider, before.filter(|before| is_of(&before)), some).await?;
            before = last;
            let behind = given.split_off(&(done + count));
            let of_these = given.into_iter().map(|(place, embedding)| (place - done, embedding)).collect();
            vectors.write(provider, embeddings(of_these, &report)).await?;
            (given, done) = (behind, done + count);
            written += report.written as u64;
            conflicts += report.conflicts.len() as u64;
            erased += report.erased.len() as u64;
            for place in report.conflicts {
                progress.note(&conflict(numbers[place], &format!("a version of {}", name(&of))));
            }
            (versions, numbers) = (&versions[count..], &numbers[count..]);
        }
        Ok(Written { written, conflicts, erased, tombstones: buried })
    }
}

/// The record of a version.
fn record_of(version: &Version) -> Option<RecordId> {
    version.record.as_ref().map(CoreRecord::id)
}

fn name(of: &RecordId) -> String {
    match of {
        RecordId::Memory(id) => format!("the memory {id}"),
        RecordId::Document { id, .. } => format!("the document {}", output::printable(id.as_str())),
    }
}

/// Stores new memories in one call; one by one if a key is taken, so that only that line is left out.
async fn store(
    provider: &dyn MemoryProvider,
    memories: Numbered<NewMemory>,
    progress: &Progress,
) -> memory_core::Result<Written> {
    // Ids of this process ascend, so memories with ids above this one are new. Only the count relies on that: a concurrent
    // import of the same lines may count a line, too.
    let before = MemoryId::generate();
    let count = |mut ids: Vec<MemoryId>| {
        ids.sort_unstable();
        ids.dedup();
        ids.iter().filter(|id| **id > before).count() as u64
    };
    let Numbered { numbers, records, .. } = memories;
    let all = numbers.len();
    // Expired memories can't be stored.
    let (numbers, records): (Vec<_>, Vec<_>) =
        numbers.into_iter().zip(records).filter(|(_, memory)| !is_over(memory)).unzip();
    let mut erased = (all - records.len()) as u64;
    if records.is_empty() {
        return Ok(Written { erased, ..Written::default() });
    }
    match provider.store_many(records.clone()).await {
        Ok(ids) => return Ok(Written { written: count(ids), erased, ..Written::default() }),
        Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Erased) => {}
        // Some have expired since they were checked.
        Err(error) if error.kind() == ErrorKind::InvalidInput && records.iter().any(is_over) => {}
        Err(error) => return Err(error),
    }
    let (mut ids, mut conflicts) = (Vec::new(), 0);
    for (number, memory) in numbers.into_iter().zip(records) {
        let expires_at = memory.expires_at;
        match provider.store(memory).await {
            Ok(id) => ids.push(id),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                conflicts += 1;
                progress.note(&format!("error: line {number}: {}", error.message()));
            }
            Err(error) if error.kind() == ErrorKind::Erased => erased += 1,
            Err(error) if error.kind() == ErrorKind::InvalidInput && has_passed(expires_at) => erased += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(Written { written: count(ids), conflicts, erased, tombstones: 0 })
}

fn is_over(memory: &NewMemory) -> bool {
    has_passed(memory.expires_at)
}

fn has_passed(expires_at: Option<Timestamp>) -> bool {
    expires_at.is_some_and(|time| time <= SystemClock.now())
}

fn conflict(number: u64, record: &str) -> String {
    format!("error: line {number}: {record} is there and differs, or another has its key; it stays as it is")
}
