//! Decides what a watch delivers for the entries of a feed: each by itself, by the record's current state (C3, C4).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use crate::engine::session::Reader;
use crate::engine::{FeedEntry, FeedPosition, FeedWrite};
use crate::watch::MAX_CHANGES_BYTES;
use crate::{
    ChangeKind, Collection, Document, DocumentId, Documents, ErrorKind, HashKey, Memory, MemoryId, Record, RecordId,
    Result, Revision, Spaces, Unreadable, Watch,
};

/// Number of records that are read at once: it grows by this factor, as long as they are small, since one may have 12
/// MiB.
const SLICE: usize = 16;
const GROWTH: usize = 4;
const SMALL_BYTES: usize = 256 << 10;

/// Entries that concern a watch.
pub(super) struct Noted {
    pub(super) watch: Arc<Watch>,
    pub(super) entries: Vec<Arc<FeedEntry>>,
    /// After this time the page ends with what it has, so that a slow watch makes progress.
    pub(super) until: Instant,
}

/// The changes that a watch delivers for some entries.
pub(super) struct Told {
    /// The changes, in the order of the entries.
    pub(super) changes: Vec<(FeedPosition, ChangeKind)>,
    /// The last entry that was examined, if some are left.
    pub(super) cut: Option<FeedPosition>,
}

/// The current records of some entries. A record that is missing was removed since.
#[derive(Default)]
struct Present {
    memories: HashMap<MemoryId, Result<Memory>>,
    documents: HashMap<(Collection, DocumentId), Result<Document>>,
}

/// Returns whether a watch may have to deliver an entry. This is all that entries outside of its spaces cost.
pub(super) fn concerns(watch: &Watch, write: &FeedWrite, hash_key: Option<&HashKey>) -> bool {
    let (of, conditions) = (watch.of(), watch.conditions());
    match write {
        FeedWrite::Memory { space, .. } => of.has_memories() && conditions.covers(space),
        FeedWrite::Document { collection, space, before, .. } => {
            of.has_collection(collection)
                && (conditions.covers(space) || before.as_deref().is_some_and(|before| conditions.covers(before)))
        }
        FeedWrite::Removal { collection, space, .. } => of.has_collection(collection) && conditions.covers(space),
        FeedWrite::Erasure { record, places } => {
            let is_of = match record {
                RecordId::Memory(_) => of.has_memories(),
                RecordId::Document { collection, .. } => of.has_collection(collection),
            };
            let finds = |spaces: &Spaces| hash_key.and_then(|hash_key| hash_key.finds(places, spaces));
            // If hashes can't tell: for the query's own spaces it is delivered, for the caller's `within` it is not
            // (E4). An entry that a later erasure has overwritten has no places; the later one is delivered.
            is_of
                && !places.is_empty()
                && conditions.within().is_none_or(|within| finds(within) == Some(true))
                && finds(&conditions.spaces) != Some(false)
        }
    }
}

/// Returns the changes for entries that concern a watch.
pub(super) async fn tell(reader: &mut impl Reader, noted: &Noted) -> Result<Told> {
    let Noted { watch, entries, until } = noted;
    let last: HashMap<_, _> = entries.iter().enumerate().map(|(place, entry)| (entry.write.record(), place)).collect();
    // A later entry of the same record covers this one.
    let is_last = |place: usize, write: &FeedWrite| last.get(&write.record()) == Some(&place);
    let (mut changes, mut bytes) = (Vec::new(), 0);
    let (mut first, mut size) = (0, 1);
    while first < entries.len() {
        let slice = &entries[first..entries.len().min(first + size)];
        let due = || slice.iter().enumerate().filter(|(place, entry)| is_last(first + place, &entry.write));
        let mut present = Present::read(reader, due().map(|(_, entry)| &entry.write)).await?;
        size = if present.bytes() < SMALL_BYTES { SLICE.min(size * GROWTH) } else { 1 };
        for entry in slice {
            let is_last = is_last(first, &entry.write);
            bytes += if is_last { present.size(&entry.write) } else { 0 };
            let kind = judge(watch, &entry.write, is_last, &mut present)?;
            changes.extend(kind.map(|kind| (entry.position.clone(), kind)));
            first += 1;
            if bytes >= MAX_CHANGES_BYTES && first < entries.len() {
                return Ok(Told { changes, cut: Some(entry.position.clone()) });
            }
        }
        if Instant::now() >= *until && first < entries.len() {
            let cut = slice.last().map(|entry| entry.position.clone());
            return Ok(Told { changes, cut });
        }
    }
    Ok(Told { changes, cut: None })
}

/// Returns the change for one entry.
///
/// An entry is skipped only if a later one of the same record tells all that there is to tell, whatever the watch has
/// seen before: if the record has left the scope since, that entry has a space in the scope; if it is gone, the entry
/// of its removal does.
fn judge(watch: &Watch, write: &FeedWrite, is_last: bool, present: &mut Present) -> Result<Option<ChangeKind>> {
    let conditions = watch.conditions();
    match write {
        FeedWrite::Erasure { record, .. } => Ok(Some(ChangeKind::Erased(record.clone()))),
        FeedWrite::Removal { .. } => Ok(Some(ChangeKind::Removed(write.record()))),
        FeedWrite::Document { space, .. } if !conditions.covers(space) => Ok(Some(ChangeKind::Left(write.record()))),
        _ if !is_last => Ok(None),
        FeedWrite::Memory { id, .. } => match present.memories.remove(id) {
            None => Ok(None),
            Some(memory) => told(memory, write, |memory| match conditions.wants(&memory) {
                true => Some(of_record(Record::Memory(memory))),
                false => Some(ChangeKind::Left(write.record())),
            }),
        },
        FeedWrite::Document { collection, id, revision, .. } => {
            match present.documents.remove(&(collection.clone(), id.clone())) {
                None => Ok(None),
                Some(document) => told(document, write, |document| match document.revision.get() < *revision {
                    // It was removed and put again.
                    true => None,
                    false if !conditions.covers(document.space_id.as_str()) => None,
                    false if conditions.has_content::<Documents>(&document) => {
                        Some(of_record(Record::Document(document)))
                    }
                    false => Some(ChangeKind::Left(write.record())),
                }),
            }
        }
    }
}

/// Returns the change for a record, or that it can't be read.
fn told<R>(
    record: Result<R>,
    write: &FeedWrite,
    tell: impl FnOnce(R) -> Option<ChangeKind>,
) -> Result<Option<ChangeKind>> {
    match record {
        Ok(record) => Ok(tell(record)),
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let id = match write.record() {
                RecordId::Memory(id) => id.to_string(),
                RecordId::Document { id, .. } => id.to_string(),
            };
            Ok(Some(ChangeKind::Unreadable(Unreadable { id, reason: error.message().to_owned() })))
        }
        Err(error) => Err(error),
    }
}

/// Returns the change for a record that satisfies the conditions.
pub(super) fn of_record(record: Record) -> ChangeKind {
    match record.revision() == Revision::FIRST {
        true => ChangeKind::Stored(record),
        false => ChangeKind::Updated(record),
    }
}

impl Present {
    /// Returns the total bytes.
    fn bytes(&self) -> usize {
        let memories = self.memories.values().flatten().map(Memory::size);
        memories.chain(self.documents.values().flatten().map(Document::size)).sum()
    }

    /// Returns the bytes of the written record.
    fn size(&self, write: &FeedWrite) -> usize {
        match write.record() {
            RecordId::Memory(id) => self.memories.get(&id).map(|found| found.as_ref().map_or(0, Memory::size)),
            RecordId::Document { collection, id } => {
                self.documents.get(&(collection, id)).map(|found| found.as_ref().map_or(0, Document::size))
            }
        }
        .unwrap_or_default()
    }

    /// Reads the written records.
    async fn read(reader: &mut impl Reader, writes: impl Iterator<Item = &FeedWrite>) -> Result<Self> {
        let (mut ids, mut of_collections) = (Vec::new(), BTreeMap::<&Collection, Vec<DocumentId>>::new());
        for write in writes {
            match write {
                FeedWrite::Memory { id, .. } => ids.push(*id),
                FeedWrite::Document { collection, id, .. } => {
                    of_collections.entry(collection).or_default().push(id.clone());
                }
                FeedWrite::Removal { .. } | FeedWrite::Erasure { .. } => {}
            }
        }
        let mut present = Self::default();
        if !ids.is_empty() {
            for (id, found) in reader.memories(&ids).await? {
                present.memories.insert(id, found.map(|found| found.record));
            }
        }
        for (collection, ids) in of_collections {
            present.read_documents(reader, collection, &ids).await?;
        }
        Ok(present)
    }

    async fn read_documents(
        &mut self,
        reader: &mut impl Reader,
        collection: &Collection,
        ids: &[DocumentId],
    ) -> Result<()> {
        let mut is_damaged = false;
        for found in reader.documents(collection, ids).await? {
            match found {
                Ok(found) => {
                    let key = (collection.clone(), found.record.id.clone());
                    self.documents.insert(key, Ok(found.record));
                }
                Err(error) if error.kind() == ErrorKind::Corrupt => is_damaged = true,
                Err(error) => return Err(error),
            }
        }
        if !is_damaged {
            return Ok(());
        }
        // Reading a document alone shows whether it is the damaged one.
        for id in ids {
            let key = (collection.clone(), id.clone());
            if self.documents.contains_key(&key) {
                continue;
            }
            if let Some(found) = reader.documents(collection, std::slice::from_ref(id)).await?.pop() {
                self.documents.insert(key, found.map(|found| found.record));
            }
        }
        Ok(())
    }
}
