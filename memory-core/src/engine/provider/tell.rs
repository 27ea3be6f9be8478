//! What the entries of a feed are to a watch: each is judged by itself, by the record as it is now (C3, C4).

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

/// How many records are read at once at most: four times as many as before, and as long as these are small, since one may have 12 MiB.
const SLICE: usize = 16;
const GROWTH: usize = 4;
const SMALL_BYTES: usize = 256 << 10;

/// Entries that concern a watch.
pub(super) struct Noted {
    pub(super) watch: Arc<Watch>,
    pub(super) entries: Vec<Arc<FeedEntry>>,
    /// From when on the page ends with what it has, so that a watch comes on however slowly it reads.
    pub(super) until: Instant,
}

/// What is told of them.
pub(super) struct Told {
    /// In the order of the entries.
    pub(super) changes: Vec<(FeedPosition, ChangeKind)>,
    /// The last entry that was looked at, where some are left.
    pub(super) cut: Option<FeedPosition>,
}

/// The records of some entries as they are now. What is not there was removed since.
#[derive(Default)]
struct Present {
    memories: HashMap<MemoryId, Result<Memory>>,
    documents: HashMap<(Collection, DocumentId), Result<Document>>,
}

/// Whether a watch may have to tell of an entry. What lies outside of its spaces costs no more than this.
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
            // Where that can't be told of what is asked for, it is told; of where the caller may look, it is not (E4).
            // What an erasure has taken from the feed before has no places: it is told by that one.
            is_of
                && !places.is_empty()
                && conditions.within().is_none_or(|within| finds(within) == Some(true))
                && finds(&conditions.spaces) != Some(false)
        }
    }
}

/// What is told of entries that concern a watch.
pub(super) async fn tell(reader: &mut impl Reader, noted: &Noted) -> Result<Told> {
    let Noted { watch, entries, until } = noted;
    let last: HashMap<_, _> = entries.iter().enumerate().map(|(place, entry)| (entry.write.record(), place)).collect();
    // A later entry of the same record stands for this one.
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

/// What an entry is told as.
///
/// An entry is passed over only when a later one of the same record tells what there is to tell, whatever the watch has seen before: where
/// the record has left since, the entry of that has a space in the scope; where it is gone, that of its removal does.
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
                true => Some(of_memory(memory)),
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
                    false if conditions.has_content::<Documents>(&document) => Some(of_document(document)),
                    false => Some(ChangeKind::Left(write.record())),
                }),
            }
        }
    }
}

/// What a record is told as, or that it can't be read.
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

/// How a memory is told that satisfies the conditions.
pub(super) fn of_memory(memory: Memory) -> ChangeKind {
    let is_first = memory.revision == Revision::FIRST;
    let record = Record::Memory(memory);
    if is_first { ChangeKind::Stored(record) } else { ChangeKind::Updated(record) }
}

/// How a document is told that satisfies the conditions.
pub(super) fn of_document(document: Document) -> ChangeKind {
    let is_first = document.revision == Revision::FIRST;
    let record = Record::Document(document);
    if is_first { ChangeKind::Stored(record) } else { ChangeKind::Updated(record) }
}

impl Present {
    /// How many bytes all of them have.
    fn bytes(&self) -> usize {
        let memories = self.memories.values().flatten().map(Memory::size);
        memories.chain(self.documents.values().flatten().map(Document::size)).sum()
    }

    /// How many bytes the record has that was written.
    fn size(&self, write: &FeedWrite) -> usize {
        match write.record() {
            RecordId::Memory(id) => self.memories.get(&id).map(|found| found.as_ref().map_or(0, Memory::size)),
            RecordId::Document { collection, id } => {
                self.documents.get(&(collection, id)).map(|found| found.as_ref().map_or(0, Document::size))
            }
        }
        .unwrap_or_default()
    }

    /// Reads the records that were written.
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
        // Only by itself a document tells that it is the damaged one.
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
