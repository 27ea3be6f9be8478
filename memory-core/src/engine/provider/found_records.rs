//! Reads records before they are erased, with their earlier versions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;
use tokio::time::timeout_at;

use super::open::{Open, Shared};
use crate::engine::session::{Found, Reader, Writer};
use crate::engine::{Access, Engine};
use crate::{
    Collection, Document, DocumentId, ErrorKind, History, Memory, MemoryId, Record, RecordId, Result, SpaceId,
    Timestamp, Tombstone, Version,
};

/// How many of a document's last versions tell where it was before.
const VERSIONS: usize = 100;
/// Number of documents whose histories are read at once.
const ASKED_AT_ONCE: usize = 4;
/// Maximum bytes of the records of one step; the last ones that are read at once may exceed that.
const MAX_BYTES: usize = 64 << 20;
/// Number of records that are read at once: few, because one may have 12 MiB.
const AT_ONCE: usize = 16;

/// Earlier states of documents, also of removed ones, from their histories.
pub(super) type Earlier = HashMap<RecordId, LastVersions>;

/// The last versions of a document.
#[derive(Debug, Default)]
pub(super) struct LastVersions {
    pub(super) spaces: BTreeSet<SpaceId>,
    /// The creation time of the latest document under this id.
    pub(super) created_at: Option<Timestamp>,
}

/// Divides records into steps: all that are left, until a step fails twice because records changed meanwhile; then half
/// as many each time. So a record that is written all the time delays only those beside it, and finally only itself.
pub(super) struct Steps {
    len: usize,
    first: usize,
    size: usize,
    is_again: bool,
}

impl Steps {
    pub(super) fn of(len: usize) -> Self {
        Self { len, first: 0, size: len, is_again: false }
    }

    /// Returns the records of the next step; `None` if none is left.
    pub(super) fn next(&self) -> Option<Range<usize>> {
        let end = self.len.min(self.first + self.size);
        (self.first < end).then_some(self.first..end)
    }

    /// Advances by the records that the step has examined.
    pub(super) fn took(&mut self, count: usize) {
        self.first += count;
        self.is_again = false;
    }

    /// Notes that the step failed because records changed meanwhile.
    pub(super) fn lost(&mut self) {
        if std::mem::replace(&mut self.is_again, true) {
            self.size = self.size.min(self.len - self.first).div_ceil(2);
        }
    }
}

impl<E: Engine> Open<E> {
    /// Returns the earlier states of the documents among the first of these records, and the number of records covered:
    /// as many as can be read until the given time.
    pub(super) async fn earlier(&self, records: &[RecordId], until: Instant) -> Result<(usize, Earlier)> {
        let mut earlier = Earlier::new();
        if self.history_since().await?.is_none() {
            return Ok((records.len(), earlier));
        }
        let documents: Vec<_> = records.iter().enumerate().filter(|(_, record)| is_document(record)).collect();
        for some in documents.chunks(ASKED_AT_ONCE) {
            let last = try_join_all(some.iter().map(|(_, record)| self.was(record, until)));
            match (timeout_at(until.into(), last).await, some.first()) {
                (Ok(last), _) => earlier.extend(last?.into_iter().flatten()),
                (Err(_), Some((place, _))) => return Ok((*place, earlier)),
                (Err(_), None) => break,
            }
        }
        Ok((records.len(), earlier))
    }

    /// Returns `None` for a document without a history.
    async fn was(&self, record: &RecordId, until: Instant) -> Result<Option<(RecordId, LastVersions)>> {
        let history = History::of(record.clone()).with_removed().limit(VERSIONS)?;
        let last = match self.last_versions(&history, until).await {
            // A document whose history can't be read is erased all the same.
            Err(error) if error.kind() == ErrorKind::Corrupt => LastVersions::default(),
            page => match page?.versions {
                versions if versions.is_empty() => return Ok(None),
                versions => LastVersions::of(versions),
            },
        };
        Ok(Some((record.clone(), last)))
    }
}

impl<E: Engine> Shared<E> {
    /// Returns which of these documents have a tombstone; none, without a read, if there are at most `ASKED_AT_ONCE`.
    pub(super) async fn with_tombstones(self: &Arc<Self>, records: &[RecordId]) -> Result<HashSet<RecordId>> {
        let documents: Vec<_> = records.iter().filter(|record| is_document(record)).cloned().collect();
        if documents.len() <= ASKED_AT_ONCE {
            return Ok(HashSet::new());
        }
        let open = self.ready().await?;
        let found =
            open.run(Access::ReadLatest, documents, |reader, documents| Box::pin(tombstones(reader, documents)));
        Ok(found.await?.into_keys().collect())
    }
}

fn is_document(record: &RecordId) -> bool {
    matches!(record, RecordId::Document { .. })
}

impl LastVersions {
    fn of(versions: Vec<Version>) -> Self {
        let mut last = Self::default();
        for version in versions {
            if let Some(Record::Document(document)) = version.record {
                last.created_at = last.created_at.max(Some(document.created_at));
                last.spaces.insert(document.space_id);
            }
        }
        last
    }
}

/// The stored records under these ids; `None` for one that can't be read.
pub(super) struct FoundRecords<V> {
    memories: HashMap<MemoryId, Option<Found<Memory, V>>>,
    documents: HashMap<RecordId, Option<Found<Document, V>>>,
    /// How many records were read, until these had as many bytes as one step may have.
    pub(super) count: usize,
}

/// The stored record under one id.
pub(super) enum FoundRecord<'f, V> {
    Memory(&'f Found<Memory, V>),
    Document(&'f Found<Document, V>),
    Unreadable,
    Nothing,
}

impl<V> FoundRecords<V> {
    pub(super) fn get(&self, record: &RecordId) -> FoundRecord<'_, V> {
        match record {
            RecordId::Memory(id) => self.memories.get(id).map(|found| found.as_ref().map(FoundRecord::Memory)),
            RecordId::Document { .. } => {
                self.documents.get(record).map(|found| found.as_ref().map(FoundRecord::Document))
            }
        }
        .map_or(FoundRecord::Nothing, |found| found.unwrap_or(FoundRecord::Unreadable))
    }
}

pub(super) async fn find<W: Writer>(writer: &mut W, records: &[RecordId]) -> Result<FoundRecords<W::Version>> {
    let mut found = FoundRecords { memories: HashMap::new(), documents: HashMap::new(), count: 0 };
    let mut bytes = 0;
    for some in records.chunks(AT_ONCE) {
        if bytes > MAX_BYTES {
            break;
        }
        bytes += find_some(writer, some, &mut found).await?;
        found.count += some.len();
    }
    Ok(found)
}

/// Reads these records, and returns their bytes.
async fn find_some<W: Writer>(
    writer: &mut W,
    records: &[RecordId],
    found: &mut FoundRecords<W::Version>,
) -> Result<usize> {
    let FoundRecords { memories, documents, .. } = found;
    let (mut ids, mut by_collection) = (Vec::<MemoryId>::new(), HashMap::<&Collection, Vec<DocumentId>>::new());
    for record in records {
        match record {
            RecordId::Memory(id) => ids.push(*id),
            RecordId::Document { collection, id } => by_collection.entry(collection).or_default().push(id.clone()),
        }
    }
    let mut bytes = 0;
    if !ids.is_empty() {
        for (id, found) in writer.memories(&ids).await? {
            let found = readable(found)?;
            bytes += found.as_ref().map_or(0, |found| found.record.size());
            memories.insert(id, found);
        }
    }
    for (collection, ids) in by_collection {
        let found = writer.documents(collection, &ids).await?;
        // The error of an unreadable document does not say which one it is.
        let ids = if found.iter().any(Result::is_err) { ids } else { Vec::new() };
        for found in found.into_iter().flatten() {
            bytes += found.record.size();
            documents.insert((&found.record).into(), Some(found));
        }
        for id in ids {
            let record = (collection.clone(), id.clone()).into();
            if let Some(Err(error)) = writer.documents(collection, &[id]).await?.pop() {
                readable::<Found<Document, W::Version>>(Err(error))?;
                documents.insert(record, None);
            }
        }
    }
    Ok(bytes)
}

fn readable<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        found => found.map(Some),
    }
}

/// Returns the tombstones of these records.
pub(super) async fn tombstones(reader: &mut impl Reader, of: &[RecordId]) -> Result<HashMap<RecordId, Tombstone>> {
    let tombstones = reader.tombstones(of).await?.into_iter();
    Ok(tombstones.map(|tombstone| (tombstone.record.clone(), tombstone)).collect())
}
