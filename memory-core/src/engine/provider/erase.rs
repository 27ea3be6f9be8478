//! Erasing records: found first, then erased in one step (E1); and tombstones from elsewhere (E5).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Open, Shared};
use crate::engine::session::{Erasing, ErasingRecord, Found, Reader as _, Writer, no_erasure};
use crate::engine::{Access, Engine};
use crate::erasure::Erased;
use crate::query::{Documents, Ledger};
use crate::{
    Collection, Document, DocumentId, DocumentQuery, ErasedSlice, Erasure, Error, ErrorKind, HashKey, History,
    KeyedHash, MAX_ERASED, Memory, MemoryId, MemoryQuery, Outcome, Record, RecordId, RestoreReport, Result, SpaceId,
    Timestamp, Tombstone, TombstonePage,
};

/// How many of the last versions of a document tell where it was before.
const VERSIONS: usize = 100;

/// The most bytes of the records of one step, but for the last ones that are read at once.
const MAX_ERASED_BYTES: usize = 64 << 20;
/// How many records are read at once: few at first, since one may have 12 MiB, and more while those before were small.
const AT_ONCE: usize = 16;
const MOST_AT_ONCE: usize = 100;
const SMALL_BYTES: usize = 256 << 10;

/// The spaces that documents had in their last versions, also those that are there no more.
type Spaces = HashMap<RecordId, BTreeSet<SpaceId>>;

/// One slice of an erasure.
struct Slice {
    erasure: Arc<Erasure>,
    records: Vec<RecordId>,
    spaces: Arc<Spaces>,
    at: Timestamp,
    hash_key: HashKey,
}

/// Tombstones from elsewhere.
struct Buried {
    tombstones: Arc<Vec<Tombstone>>,
    /// The first one that is left.
    first: usize,
    spaces: Arc<Spaces>,
    hash_key: HashKey,
    /// Whether their hashes were made with that key.
    is_own_key: bool,
}

impl<E: Engine> Shared<E> {
    pub(super) async fn erase(self: &Arc<Self>, erasure: &Erasure) -> Result<ErasedSlice> {
        let open = self.ready().await?;
        let hash_key = open.hash_key(None).await?.ok_or_else(no_erasure)?;
        let erasure = Arc::new(erasure.clone());
        let (mut cursor, mut is_complete) = (None, true);
        loop {
            let records = match &erasure.of {
                Erased::Records(records) => records.clone(),
                Erased::Memories(query) => {
                    let query = MemoryQuery { limit: erasure.limit, offset: 0, cursor: cursor.take(), ..query.clone() };
                    let page = self.memories(Access::ReadLatest, &query).await?;
                    (cursor, is_complete) = (page.next.as_ref().map(ToString::to_string), page.next.is_none());
                    page.memories.into_iter().map(|memory| memory.id.into()).collect()
                }
                Erased::Documents(query) => {
                    let query =
                        DocumentQuery { limit: erasure.limit, offset: 0, cursor: cursor.take(), ..query.clone() };
                    let page = self.documents(Access::ReadLatest, &query).await?;
                    (cursor, is_complete) = (page.next.as_ref().map(ToString::to_string), page.next.is_none());
                    page.documents.into_iter().map(|document| (document.collection, document.id).into()).collect()
                }
            };
            let (erased, is_cut) = open.erase_slice(&erasure, self.spaces_of(records).await?, &hash_key).await?;
            is_complete &= !is_cut;
            // What has gone meanwhile, or does not match any more, is no slice.
            if !erased.is_empty() || is_complete || is_cut {
                return Ok(ErasedSlice { records: erased, is_complete });
            }
        }
    }

    /// What makes the hashes of tombstones, if that is known already.
    pub(super) fn known_hash_key(&self) -> Option<HashKey> {
        self.open().ok()?.hash_key.get().cloned()
    }

    pub(super) async fn hash_key(&self) -> Result<Option<HashKey>> {
        self.ready().await?.hash_key(None).await
    }

    pub(super) async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        let open = self.ready().await?;
        let work = open.run(Access::Read, record.clone(), |reader, record| {
            Box::pin(async move { super::tombstone(reader, record).await })
        });
        work.await
    }

    pub(super) async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage> {
        let open = self.ready().await?;
        let behind = behind.map(|place| URL_SAFE_NO_PAD.decode(place).map_err(|_| no_page())).transpose()?;
        let work = open.run(Access::ReadLatest, behind, |reader, behind| {
            Box::pin(async move { reader.tombstones_behind(behind.as_deref(), MAX_ERASED).await })
        });
        let (tombstones, next) = work.await?;
        Ok(TombstonePage { tombstones, next: next.map(|next| URL_SAFE_NO_PAD.encode(next)) })
    }

    pub(super) async fn restore_tombstones(
        self: &Arc<Self>,
        mut tombstones: Vec<Tombstone>,
        key: &HashKey,
    ) -> Result<RestoreReport> {
        if tombstones.len() > MAX_ERASED {
            return Err(Error::invalid(format!("a call restores at most {MAX_ERASED} tombstones")));
        }
        let open = self.ready().await?;
        let hash_key = open.hash_key(Some(key)).await?.ok_or_else(no_erasure)?;
        let given = tombstones.len();
        // The latest one of each.
        tombstones.sort_by(|one, other| (&one.record, other.at).cmp(&(&other.record, one.at)));
        tombstones.dedup_by(|later, first| later.record == first.record);
        let records = tombstones.iter().map(|tombstone| tombstone.record.clone()).collect();
        let spaces = Arc::new(self.spaces_of(records).await?.1);
        let (tombstones, is_own_key) = (Arc::new(tombstones), hash_key == *key);
        let (mut first, mut written) = (0, 0);
        while first < tombstones.len() {
            let (tombstones, spaces, hash_key) = (Arc::clone(&tombstones), Arc::clone(&spaces), hash_key.clone());
            let buried = Buried { tombstones, first, spaces, hash_key, is_own_key };
            let step = open.run(Access::Write, buried, |writer, given| Box::pin(bury(writer, given)));
            let earlier = if written > 0 { Outcome::Unknown } else { Outcome::NotDone };
            if let Some((count, new)) = step.await.map_err(|error| error.after(earlier))? {
                (first, written) = (first + count, written + new);
            }
        }
        Ok(RestoreReport { written, equal: given - written, ..RestoreReport::default() })
    }

    /// These records, with the spaces that the documents among them had.
    async fn spaces_of(self: &Arc<Self>, records: Vec<RecordId>) -> Result<(Vec<RecordId>, Spaces)> {
        let mut spaces = Spaces::new();
        if self.ready().await?.history_since().await?.is_none() {
            return Ok((records, spaces));
        }
        for record in records.iter().filter(|record| matches!(record, RecordId::Document { .. })) {
            let history = History::of(record.clone()).with_removed().limit(VERSIONS)?;
            let versions = match self.history(&history).await {
                // What can't be read goes all the same.
                Err(error) if error.kind() == ErrorKind::Corrupt => Vec::new(),
                page => page?.versions,
            };
            if versions.is_empty() {
                continue;
            }
            let documents = versions.into_iter().filter_map(|version| match version.record {
                Some(Record::Document(document)) => Some(document.space_id),
                _ => None,
            });
            spaces.insert(record.clone(), documents.collect());
        }
        Ok((records, spaces))
    }
}

fn no_page() -> Error {
    Error::invalid("not a place that a page of tombstones gave")
}

impl<E: Engine> Open<E> {
    /// What makes the hashes of tombstones: what the namespace has, or else this key, or a new one. `None` where the engine can't erase.
    pub(super) async fn hash_key(&self, proposed: Option<&HashKey>) -> Result<Option<HashKey>> {
        if !E::ERASES {
            return Ok(None);
        }
        let agree = || async {
            let proposed = match proposed {
                Some(key) => key.to_text(),
                None => HashKey::generate()?.to_text(),
            };
            let keep = |_| self.engine.hash_key(&proposed);
            let kept = self.retry().repeatable().run(|error| self.engine.is_temporary(error), keep).await;
            // What may have been kept is no part of a call.
            HashKey::parse(&kept.map_err(|error| error.with_outcome(Outcome::NotDone))?)
        };
        self.hash_key.get_or_try_init(agree).await.cloned().map(Some)
    }

    /// Erases those of these records that are there and selected, as many as one step may have; gives which, and whether some are left.
    async fn erase_slice(
        &self,
        erasure: &Arc<Erasure>,
        (records, spaces): (Vec<RecordId>, Spaces),
        hash_key: &HashKey,
    ) -> Result<(Vec<RecordId>, bool)> {
        if records.is_empty() {
            return Ok((Vec::new(), false));
        }
        let spaces = Arc::new(spaces);
        loop {
            let (erasure, spaces) = (Arc::clone(erasure), Arc::clone(&spaces));
            // Asked here, since a clock that panics must not end a thread of the engine.
            let at = self.settings.clock.now();
            let slice = Slice { erasure, records: records.clone(), spaces, at, hash_key: hash_key.clone() };
            let erased = self.run(Access::Write, slice, |writer, slice| Box::pin(erase(writer, slice)));
            if let Some(erased) = erased.await? {
                return Ok(erased);
            }
        }
    }
}

/// Finds and erases them in one step. `None`, and nothing is erased, when some have changed meanwhile.
async fn erase<W: Writer>(writer: &mut W, slice: &Slice) -> Result<Option<(Vec<RecordId>, bool)>> {
    let FoundRecords { memories, documents, count } = find(writer, &slice.records).await?;
    let (records, left) = slice.records.split_at(count);
    let mut erasings = Vec::new();
    for found in memories.values().flatten().filter(|found| slice.takes_memory(&found.record)) {
        let tombstone = slice.tombstone(found.record.id.into()).of_memory(&found.record, &slice.hash_key);
        erasings.push(Erasing { found: ErasingRecord::Memory(found), tombstone });
    }
    for (record, found) in &documents {
        if let Some(found) = found.as_ref().filter(|found| slice.takes_document(&found.record)) {
            let (tombstone, earlier) = (slice.tombstone(record.clone()), slice.spaces.get(record));
            let tombstone = tombstone.of_document(Some(&found.record), earlier, &slice.hash_key);
            erasings.push(Erasing { found: ErasingRecord::Document(found), tombstone });
        }
    }
    if let Erased::Records(_) = &slice.erasure.of {
        // A document that was removed, of which there is a history.
        for record in records.iter().filter(|record| !documents.contains_key(*record)) {
            if let Some(earlier) = slice.spaces.get(record) {
                let tombstone = slice.tombstone(record.clone()).of_document(None, Some(earlier), &slice.hash_key);
                erasings.push(Erasing { found: ErasingRecord::Absent, tombstone });
            }
        }
    }
    let is_erased = erase_all(writer, &mut erasings).await?;
    let erased = || erasings.into_iter().map(|erasing| erasing.tombstone.record).collect();
    Ok(is_erased.then(|| (erased(), !left.is_empty())))
}

/// Brings the next tombstones from elsewhere in one step. Gives of how many, and how many were not there; `None`, and none is brought, when
/// something has changed meanwhile.
async fn bury<W: Writer>(writer: &mut W, given: &Buried) -> Result<Option<(usize, usize)>> {
    let tombstones = &given.tombstones[given.first..];
    let records: Vec<_> = tombstones.iter().map(|tombstone| tombstone.record.clone()).collect();
    let FoundRecords { memories, documents, count } = find(writer, &records).await?;
    let present = writer.tombstones(&records[..count]).await?;
    let present: HashMap<_, _> = present.into_iter().map(|tombstone| (tombstone.record.clone(), tombstone)).collect();
    let mut erasings = Vec::new();
    for tombstone in &tombstones[..count] {
        let (record, earlier) = (&tombstone.record, given.spaces.get(&tombstone.record));
        let bare = || Tombstone { key: None, places: Vec::new(), ..tombstone.clone() };
        let memory = match record {
            RecordId::Memory(id) => memories.get(id),
            RecordId::Document { .. } => None,
        };
        let (found, tombstone) = match (memory, documents.get(record)) {
            (Some(Some(found)), _) => (ErasingRecord::Memory(found), bare().of_memory(&found.record, &given.hash_key)),
            (_, Some(Some(found))) if tombstone.keeps_out(&found.record) => {
                let tombstone = bare().of_document(Some(&found.record), earlier, &given.hash_key);
                (ErasingRecord::Document(found), tombstone)
            }
            (Some(_), _) | (_, Some(_)) => continue,
            (None, None) if present.get(record).is_some_and(|present| present.at >= tombstone.at) => continue,
            (None, None) => {
                let own = if given.is_own_key { tombstone.clone() } else { bare() };
                let own = own.of_document(None, earlier, &given.hash_key);
                (ErasingRecord::Absent, present.get(record).into_iter().fold(own, Tombstone::with_hashes_of))
            }
        };
        erasings.push(Erasing { found, tombstone });
    }
    let written = erasings.len();
    Ok(erase_all(writer, &mut erasings).await?.then_some((count, written)))
}

async fn erase_all<W: Writer>(writer: &mut W, erasings: &mut [Erasing<'_, W::Version>]) -> Result<bool> {
    // Engines that lock records lock them in one order.
    erasings.sort_by(|one, other| one.tombstone.record.cmp(&other.tombstone.record));
    Ok(erasings.is_empty() || writer.erase(erasings).await?)
}

/// What is there under the names of the first records; nothing in the place of what can't be read, which nobody erases.
struct FoundRecords<V> {
    memories: HashMap<MemoryId, Option<Found<Memory, V>>>,
    documents: HashMap<RecordId, Option<Found<Document, V>>>,
    /// Of how many records, until these have as many bytes as one step may have.
    count: usize,
}

async fn find<W: Writer>(writer: &mut W, records: &[RecordId]) -> Result<FoundRecords<W::Version>> {
    let mut found = FoundRecords { memories: HashMap::new(), documents: HashMap::new(), count: 0 };
    let (mut at_once, mut bytes) = (AT_ONCE, 0);
    while found.count < records.len() && bytes <= MAX_ERASED_BYTES {
        let rest = &records[found.count..];
        let some = &rest[..at_once.min(rest.len())];
        found.count += some.len();
        let before = bytes;
        bytes += find_some(writer, some, &mut found).await?;
        // Only few at once while they are large.
        at_once = if bytes - before <= SMALL_BYTES { MOST_AT_ONCE } else { AT_ONCE };
    }
    Ok(found)
}

/// Reads these, and tells how many bytes they have.
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
        // One that can't be read does not say which it is.
        let ids = if found.iter().any(Result::is_err) { ids } else { Vec::new() };
        for found in found.into_iter().flatten() {
            bytes += found.record.size();
            documents.insert((collection.clone(), found.record.id.clone()).into(), Some(found));
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

impl Tombstone {
    /// With what an earlier one of the same record knows.
    fn with_hashes_of(self, earlier: &Self) -> Self {
        let places: BTreeSet<_> = self.places.iter().chain(&earlier.places).copied().collect();
        Self { key: self.key.or(earlier.key), places: places.into_iter().collect(), ..self }
    }

    /// With the hashes of a memory.
    fn of_memory(self, memory: &Memory, hash_key: &HashKey) -> Self {
        let key = memory.idempotency_key.as_ref().map(|key| hash_key.of_key(key));
        let places: BTreeSet<_> = hash_key.of_space(&memory.space_id).into_iter().collect();
        Self { key, places: places.into_iter().collect(), ..self }
    }

    /// With those of a document, and of where it was before, besides its own.
    fn of_document(self, document: Option<&Document>, earlier: Option<&BTreeSet<SpaceId>>, hash_key: &HashKey) -> Self {
        // However far behind its clock is, it keeps out what it has erased (E3).
        let at = document.map_or(self.at, |document| self.at.max(document.created_at));
        let mut spaces: BTreeSet<_> = earlier.into_iter().flatten().collect();
        spaces.extend(document.map(|document| &document.space_id));
        let places = spaces.into_iter().flat_map(|space| hash_key.of_space(space));
        let places: BTreeSet<KeyedHash> = places.chain(self.places.iter().copied()).collect();
        Self { at, places: places.into_iter().collect(), ..self }
    }
}

impl Slice {
    fn takes_memory(&self, memory: &Memory) -> bool {
        match &self.erasure.of {
            Erased::Memories(query) => query.covers(memory.space_id.as_str()) && query.has_content::<Ledger>(memory),
            _ => true,
        }
    }

    fn takes_document(&self, document: &Document) -> bool {
        match &self.erasure.of {
            Erased::Documents(query) => {
                query.covers(document.space_id.as_str()) && query.has_content::<Documents>(document)
            }
            _ => true,
        }
    }

    /// One that has no hash so far.
    fn tombstone(&self, record: RecordId) -> Tombstone {
        let Erasure { reason, actor, .. } = &*self.erasure;
        let (reason, actor) = (reason.clone(), actor.clone());
        Tombstone { record, at: self.at, reason, actor, key: None, places: Vec::new() }
    }
}
