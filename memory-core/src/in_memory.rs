//! The reference engine: the smallest one that satisfies the contract, written to be read rather than to be fast.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::engine::{
    Access, Append, Appended, Config, DocumentsFound, Embed, EmbedRecord, Engine, EngineSettings, Erasing,
    ErasingRecord, FeedEnd, FeedEntry, FeedPage, FeedPosition, FeedWrite, Found, HistoryRow, Mark, MemoriesFound,
    Place, Provider, Put, Reader, Removal, Scanned, VersionEntry, Visit, Walk, Work, Writer, offer_in_order,
};
use crate::query::{Documents, Ledger};
use crate::{
    Clock, Collection, DEFAULT_DEADLINE, Document, DocumentId, Durability, Error, Health, IdempotencyKey, KeyedHash,
    Memory, MemoryId, RecordId, Result, Selects, SystemClock, Timestamp, Tombstone,
};

/// Number of entries that the feed keeps.
const KEPT: usize = 100_000;

/// A provider that keeps everything in memory and loses it on drop.
pub type InMemory = Provider<InMemoryEngine>;

/// Without optimisation, crates share what a crate below them has compiled: this compiles the provider here, once, instead of in each program
/// that uses it.
#[cfg(all(debug_assertions, not(test)))]
#[used]
static COMPILED_HERE: fn(Arc<InMemory>) -> Arc<dyn crate::MemoryProvider> = |provider| provider;

/// The engine of [`InMemory`].
#[derive(Debug)]
pub struct InMemoryEngine {
    data: InMemorySession,
}

/// Configuration of an [`InMemory`].
#[derive(Debug, Clone)]
pub struct InMemoryConfig {
    data: InMemorySession,
    settings: EngineSettings,
}

/// A session on the data that all sessions share.
#[derive(Debug, Clone, Default)]
pub struct InMemorySession {
    data: Arc<Mutex<Data>>,
    /// Notifies sessions that wait for the feed to grow.
    grown: Arc<Notify>,
    /// Marks the feed entries that this provider writes.
    epoch: u64,
}

#[derive(Clone, Default)]
struct Data {
    memories: HashMap<MemoryId, Memory>,
    by_key: HashMap<IdempotencyKey, MemoryId>,
    /// Each with the number of the put that wrote it, as its version.
    documents: BTreeMap<Collection, BTreeMap<DocumentId, Found<Document, u64>>>,
    puts: u64,
    /// When each memory was stored, by the provider's clock.
    stored_at: HashMap<MemoryId, Timestamp>,
    /// The history entries of each record, oldest first.
    history: BTreeMap<RecordId, Vec<VersionEntry>>,
    /// Outer `None`: whether there is a history is not decided yet. Inner `None`: there is none. Else the time since
    /// when there is one.
    since: Option<Option<Timestamp>>,
    secret: Option<String>,
    is_read_only: bool,
    hash_key: Option<String>,
    retention: Option<String>,
    vector_model: Option<String>,
    vectors: HashMap<RecordId, Vec<u8>>,
    tombstones: BTreeMap<RecordId, Tombstone>,
    /// The newest entries; `dropped` counts those before them.
    feed: VecDeque<Noted>,
    dropped: u64,
    /// The end of the feed that can be delivered, with its number, if later entries wait for an earlier write.
    #[cfg(test)]
    held_after: Option<(u64, FeedPosition)>,
}

/// A feed entry, with the epoch of the provider that wrote it. When a copy of the data continues, its entries take the
/// numbers of others; the epoch tells them apart.
#[derive(Clone)]
struct Noted {
    epoch: u64,
    write: FeedWrite,
}

impl InMemory {
    /// Makes an empty provider with the machine's clock and the default deadline.
    pub fn new() -> Self {
        Self::with(Arc::new(SystemClock), DEFAULT_DEADLINE)
    }

    /// Makes an empty provider with this clock and deadline.
    pub fn with(clock: Arc<dyn Clock>, deadline: Duration) -> Self {
        Self::on(InMemorySession::default(), settings(clock, deadline))
    }

    /// Opens another provider on the same data with a life cycle of its own, like a second process on one engine.
    #[must_use]
    pub fn reopen(&self, clock: Arc<dyn Clock>, deadline: Duration) -> Self {
        self.reopen_with(settings(clock, deadline))
    }

    /// Like [`reopen`](Self::reopen), with all settings. `patience` is ignored, because nothing waits.
    #[must_use]
    pub fn reopen_with(&self, settings: EngineSettings) -> Self {
        Self::on(self.config().data.clone(), settings)
    }

    /// Makes a provider on a copy of the data, like the backup of a file.
    #[must_use]
    pub fn copy(&self) -> Self {
        let InMemoryConfig { data, settings } = self.config();
        let copied = Arc::new(Mutex::new(data.lock().clone()));
        Self::on(InMemorySession { data: copied, ..InMemorySession::default() }, settings.clone())
    }

    /// Drops all entries of the feed except the newest.
    pub fn drop_changes(&self) {
        self.config().data.lock().keep_changes(1);
    }

    fn on(data: InMemorySession, settings: EngineSettings) -> Self {
        Self::with_config(InMemoryConfig { data, settings })
    }
}

impl Default for InMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Config for InMemoryConfig {
    fn settings(&self) -> EngineSettings {
        EngineSettings { patience: Duration::ZERO, ..self.settings.clone() }
    }
}

fn settings(clock: Arc<dyn Clock>, deadline: Duration) -> EngineSettings {
    EngineSettings { deadline, clock, ..EngineSettings::default() }
}

impl Engine for InMemoryEngine {
    const NAME: &'static str = "in-memory";
    const BATCH: Option<(usize, usize)> = None;
    const RESTORE: (usize, usize) = (10_000, 64 << 20);
    const HISTORY: bool = true;
    const ERASES: bool = true;
    const VECTORS: bool = true;

    type Config = InMemoryConfig;
    type Session = InMemorySession;

    async fn open(config: &InMemoryConfig) -> Result<Self> {
        let id = MemoryId::generate();
        let [.., a, b, c, d, e, f, g, h] = *id.as_bytes();
        let epoch = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Ok(Self { data: InMemorySession { epoch, ..config.data.clone() } })
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        Ok(self.data.lock().secret.get_or_insert_with(|| proposed.to_owned()).clone())
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        self.data.lock().is_read_only = is_read_only;
        Ok(())
    }

    async fn is_read_only(&self) -> Result<bool> {
        Ok(self.data.lock().is_read_only)
    }

    async fn history_since(&self, proposed: Option<Timestamp>) -> Result<Option<Timestamp>> {
        Ok(*self.data.lock().since.get_or_insert(proposed))
    }

    async fn hash_key(&self, proposed: &str) -> Result<String> {
        Ok(self.data.lock().hash_key.get_or_insert_with(|| proposed.to_owned()).clone())
    }

    async fn retention(&self) -> Result<Option<String>> {
        Ok(self.data.lock().retention.clone())
    }

    async fn set_retention(&self, rules: &str) -> Result<()> {
        self.data.lock_to_write()?.retention = Some(rules.to_owned());
        Ok(())
    }

    async fn vector_model(&self) -> Result<Option<String>> {
        Ok(self.data.lock().vector_model.clone())
    }

    async fn set_vector_model(&self, model: &str) -> Result<()> {
        self.data.lock_to_write()?.vector_model = Some(model.to_owned());
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        drop(self.data.lock());
        let durability = Durability::AtRisk { reason: "kept in memory only".into(), bound: None };
        Ok(Health::new(Self::NAME, env!("CARGO_PKG_VERSION"), 1, start.elapsed(), durability))
    }

    async fn run<A, T>(&self, _: Access, _: Instant, argument: Arc<A>, work: Work<InMemorySession, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        work(&mut self.data.clone(), &argument).await
    }

    async fn changed(&self, after: &FeedPosition, until: Instant) -> Result<()> {
        // Registered before the check, so that no change between check and wait is missed.
        let grown = self.data.grown.notified();
        if self.data.lock().newest() == *after {
            // The caller looks again, whether this timed out or not.
            let _ = tokio::time::timeout(until.saturating_duration_since(Instant::now()), grown).await;
        }
        Ok(())
    }
}

impl Reader for InMemorySession {
    /// Of a memory its revision, of a document the number of the put that wrote it.
    type Version = u64;

    const PLACES: usize = usize::MAX;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<u64>> {
        let data = self.lock();
        let found = |memory: &Memory| Found { record: memory.clone(), version: memory.revision.get() };
        Ok(ids.iter().filter_map(|id| Some((*id, Ok(found(data.memories.get(id)?))))).collect())
    }

    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        let data = self.lock();
        let wanted = data.memories.values().filter(|memory| walk.wants(memory));
        let scanned = |memory: Memory| data.scanned(memory.id.into(), Scanned::new(memory));
        offer_in_order(wanted.cloned().map(scanned), walk, visit)
    }

    async fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<Place>>> {
        let after = after.unwrap_or_default();
        let data = self.lock();
        let spaces: Vec<_> = match of {
            None => data.memories.values().map(|memory| memory.space_id.as_str()).collect(),
            Some(collection) => data.of(collection).map(|document| document.space_id.as_str()).collect(),
        };
        let siblings = spaces.into_iter().filter_map(|space| Place::sibling(prefix, space));
        let siblings: BTreeSet<_> = siblings.collect();
        let mut siblings: Vec<_> =
            siblings.into_iter().filter(|place| place.path() > after || after.is_empty()).collect();
        let paths: BTreeSet<_> = siblings.iter().map(|place| place.path().to_owned()).collect();
        if let Some(beyond) = paths.iter().nth(most) {
            siblings.retain(|place| place.path() < beyond.as_str());
        }
        Ok(Some(siblings))
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<u64>> {
        let data = self.lock();
        let present = data.documents.get(collection);
        Ok(ids.iter().filter_map(|id| present?.get(id).cloned().map(Ok)).collect())
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        let data = self.lock();
        let wanted = data.of(collection).filter(|document| walk.wants_document(document));
        let scanned = |document: Document| data.scanned((&document).into(), Scanned::new(document));
        offer_in_order(wanted.cloned().map(scanned), walk, visit)
    }

    async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
        let data = self.lock();
        let behind = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let all = data.documents.range::<Collection, _>((behind, Bound::Unbounded));
        let in_use = all.filter(|(_, documents)| !documents.is_empty());
        Ok(in_use.map(|(collection, _)| collection.clone()).take(most).collect())
    }

    async fn newest_change(&mut self) -> Result<FeedEnd> {
        let data = self.lock();
        #[cfg(test)]
        if let Some((_, position)) = data.held_after.clone() {
            return Ok(FeedEnd { held_back_to: Some(data.newest()).filter(|newest| *newest != position), position });
        }
        Ok(data.newest().into())
    }

    async fn changes(&mut self, after: &FeedPosition, most: usize) -> Result<FeedPage> {
        let data = self.lock();
        let behind = data.number_of(after).ok_or_else(Error::feed_reset)?;
        #[cfg(test)]
        let most = data.held_after.as_ref().map_or(most, |(last, _)| most.min(last.saturating_sub(behind) as usize));
        let entries = (behind + 1..).zip(data.feed.range((behind - data.dropped) as usize..)).take(most);
        let entries = entries.map(|(number, Noted { epoch, write })| FeedEntry {
            position: place(number, *epoch),
            write: write.clone(),
        });
        let entries: Vec<_> = entries.collect();
        let reached = entries.last().map_or(after, |entry| &entry.position).clone();
        let is_end = reached == data.newest();
        Ok(FeedPage { entries, reached, is_end })
    }

    async fn history(&mut self, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
        let data = self.lock();
        let entries = data.history.get(of).map(Vec::as_slice).unwrap_or_default();
        let older = &entries[..usize::try_from(below).unwrap_or(usize::MAX).min(entries.len())];
        let row = |(place, entry): (usize, &VersionEntry)| HistoryRow { place: place as u64, entry: entry.clone() };
        Ok(older.iter().enumerate().rev().take(most).map(row).collect())
    }

    async fn tombstones(&mut self, of: &[RecordId]) -> Result<Vec<Tombstone>> {
        let data = self.lock();
        Ok(of.iter().filter_map(|record| data.tombstones.get(record).cloned()).collect())
    }

    async fn tombstones_behind(
        &mut self,
        behind: Option<&[u8]>,
        most: usize,
    ) -> Result<(Vec<Tombstone>, Option<Vec<u8>>)> {
        let data = self.lock();
        let behind = |record: &RecordId| behind.is_none_or(|behind| record.to_key().as_slice() > behind);
        let mut left: Vec<_> = data.tombstones.values().filter(|tombstone| behind(&tombstone.record)).collect();
        left.sort_by_key(|tombstone| tombstone.record.to_key());
        let page: Vec<_> = left.iter().take(most).map(|tombstone| Tombstone::clone(tombstone)).collect();
        let next = page.last().filter(|_| left.len() > most).map(|last| last.record.to_key());
        Ok((page, next))
    }

    async fn expired(
        &mut self,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> Result<Vec<(Timestamp, RecordId)>> {
        let data = self.lock();
        let memories = data.memories.values().map(|memory| (memory.expires_at, memory.id.into()));
        let documents = data.documents.keys().flat_map(|collection| data.of(collection));
        let documents = documents.map(|document| (document.expires_at, document.into()));
        let place = |at: Timestamp, record: &RecordId| (at, record.to_key());
        let behind = behind.map(|(at, record)| place(*at, record));
        let timed =
            memories.chain(documents).filter_map(|(at, record): (Option<Timestamp>, RecordId)| Some((at?, record)));
        let over =
            timed.filter(|(at, record)| *at <= by && behind.as_ref().is_none_or(|behind| place(*at, record) > *behind));
        let mut over: Vec<_> = over.collect();
        over.sort_by_key(|(at, record)| place(*at, record));
        over.truncate(most);
        Ok(over)
    }

    async fn vectors(&mut self, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
        let data = self.lock();
        Ok(of.iter().filter_map(|record| Some((record.clone(), data.vectors.get(record)?.clone()))).collect())
    }

    async fn stored_at(&mut self, id: MemoryId) -> Result<Option<Timestamp>> {
        Ok(self.lock().stored_at.get(&id).copied())
    }
}

impl Writer for InMemorySession {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        let mut data = self.lock_to_write()?;
        let owner = |data: &Data, memory: &Memory| match data.memories.contains_key(&memory.id) {
            true => Some(memory.id),
            false => memory.idempotency_key.as_ref().and_then(|key| data.by_key.get(key).copied()),
        };
        let owners = append.memories.iter().filter_map(|memory| Some((memory.id, owner(&data, memory)?))).collect();
        let is_erased = |memory: &Memory| data.has_tombstone(memory, append.hash(memory));
        let erased = append.memories.iter().filter(|memory| is_erased(memory)).map(|memory| memory.id).collect();
        let appended = append.outcomes(&owners, &erased);
        let is_written = |(_, appended): &(_, &Appended)| **appended == Appended::Written;
        for (memory, _) in append.memories.iter().zip(&appended).filter(is_written) {
            data.insert(memory);
            data.stored_at.extend(append.at.map(|at| (memory.id, at)));
            self.note(&mut data, write_of(memory));
        }
        Ok(appended)
    }

    async fn replace(
        &mut self,
        before: &Found<Memory, u64>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> Result<bool> {
        let mut data = self.lock_to_write()?;
        let present = data.memories.get_mut(&after.id).filter(|memory| memory.revision.get() == before.version);
        let is_unchanged = present.map(|memory| memory.clone_from(after)).is_some();
        if is_unchanged {
            self.note(&mut data, write_of(after));
            data.keep(after.id.into(), entry);
            if !after.has_texts_of(&before.record) {
                data.vectors.remove(&after.id.into());
            }
        }
        Ok(is_unchanged)
    }

    async fn put(&mut self, puts: &[Put<'_, u64>]) -> Result<bool> {
        let mut data = self.lock_to_write()?;
        let present = |document: &Document| data.documents.get(&document.collection)?.get(&document.id);
        let is_unchanged =
            |put: &Put<'_, u64>| present(put.after).map(|found| found.version) == put.before.map(|found| found.version);
        let is_kept_out = |put: &Put<'_, u64>| put.is_guarded && data.keeps_out(put.after);
        let is_unchanged = puts.iter().all(|put| is_unchanged(put) && !is_kept_out(put));
        for Put { before, after, entry, .. } in puts.iter().filter(|_| is_unchanged) {
            data.puts += 1;
            if !before.is_some_and(|found| after.has_texts_of(&found.record)) {
                data.vectors.remove(&(*after).into());
            }
            data.keep((*after).into(), entry.as_ref());
            let put = Found { record: Document::clone(after), version: data.puts };
            data.documents.entry(after.collection.clone()).or_default().insert(after.id.clone(), put);
            let before = before.map(|found| &found.record.space_id).filter(|space| **space != after.space_id);
            let write = FeedWrite::Document {
                collection: after.collection.clone(),
                id: after.id.clone(),
                space: after.space_id.to_string(),
                before: before.map(ToString::to_string),
                revision: after.revision.get(),
            };
            self.note(&mut data, write);
        }
        Ok(is_unchanged)
    }

    async fn remove(&mut self, collection: &Collection, removals: &[Removal<'_, u64>]) -> Result<bool> {
        let mut data = self.lock_to_write()?;
        let documents = data.documents.entry(collection.clone()).or_default();
        let is_unchanged = |Removal { found, .. }: &Removal<'_, u64>| {
            documents.get(&found.record.id).is_some_and(|present| present.version == found.version)
        };
        let is_unchanged = removals.iter().all(is_unchanged);
        if is_unchanged {
            removals.iter().for_each(|removal| drop(documents.remove(&removal.found.record.id)));
            for Removal { found, end } in removals {
                let Document { id, space_id, .. } = &found.record;
                data.keep((&found.record).into(), end.as_ref());
                data.vectors.remove(&(&found.record).into());
                let (collection, id, space) = (collection.clone(), id.clone(), space_id.to_string());
                self.note(&mut data, FeedWrite::Removal { collection, id, space });
            }
        }
        Ok(is_unchanged)
    }

    async fn erase(&mut self, erasings: &[Erasing<'_, u64>]) -> Result<bool> {
        let mut data = self.lock_to_write()?;
        let is_unchanged = erasings.iter().all(|erasing| match erasing.found {
            ErasingRecord::Memory(found) => {
                data.memories.get(&found.record.id).is_some_and(|memory| memory.revision.get() == found.version)
            }
            ErasingRecord::Document(Found { record: Document { collection, id, .. }, version }) => {
                let present = data.documents.get(collection).and_then(|documents| documents.get(id));
                present.is_some_and(|present| present.version == *version)
            }
            ErasingRecord::Absent => match &erasing.tombstone.record {
                RecordId::Memory(id) => !data.memories.contains_key(id),
                RecordId::Document { collection, id } => {
                    data.documents.get(collection).is_none_or(|documents| !documents.contains_key(id))
                }
            },
        });
        for Erasing { found, tombstone } in erasings.iter().filter(|_| is_unchanged) {
            let record = &tombstone.record;
            match found {
                ErasingRecord::Memory(Found { record: memory, .. }) => {
                    data.memories.remove(&memory.id);
                    data.stored_at.remove(&memory.id);
                    if let Some(key) = &memory.idempotency_key {
                        data.by_key.remove(key);
                    }
                }
                ErasingRecord::Document(Found { record: Document { collection, id, .. }, .. }) => {
                    data.documents.get_mut(collection).and_then(|documents| documents.remove(id));
                }
                ErasingRecord::Absent => {}
            }
            data.history.remove(record);
            data.vectors.remove(record);
            data.forget(record);
            data.tombstones.insert(record.clone(), tombstone.clone());
            self.note(&mut data, FeedWrite::Erasure { record: record.clone(), places: tombstone.places.clone() });
        }
        Ok(is_unchanged)
    }

    async fn forget(&mut self, tombstones: &[Tombstone]) -> Result<()> {
        let mut data = self.lock_to_write()?;
        for tombstone in tombstones {
            if data.tombstones.get(&tombstone.record) == Some(tombstone) {
                data.tombstones.remove(&tombstone.record);
            }
        }
        Ok(())
    }

    async fn embed(&mut self, embeds: &[Embed<'_, u64>]) -> Result<Vec<bool>> {
        let mut data = self.lock_to_write()?;
        let embed = |Embed { found, vector }: &Embed<'_, u64>| {
            let is_unchanged = match found {
                EmbedRecord::Memory(Found { record: Memory { id, .. }, version }) => {
                    data.memories.get(id).is_some_and(|memory| memory.revision.get() == *version)
                }
                EmbedRecord::Document(Found { record: document, version }) => {
                    let present = data.documents.get(&document.collection).and_then(|all| all.get(&document.id));
                    present.is_some_and(|present| present.version == *version)
                }
            };
            if is_unchanged {
                data.vectors.insert(found.id(), vector.clone());
            }
            is_unchanged
        };
        Ok(embeds.iter().map(embed).collect())
    }
}

impl InMemorySession {
    fn lock(&self) -> MutexGuard<'_, Data> {
        // No code can panic half way through a change while it holds the lock.
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds back all entries from here on, as if they waited for an earlier write.
    #[cfg(test)]
    pub(crate) fn hold_back(&self) {
        let mut data = self.lock();
        data.held_after = Some((data.last(), data.newest()));
    }

    fn lock_to_write(&self) -> Result<MutexGuard<'_, Data>> {
        let data = self.lock();
        if data.is_read_only { Err(Error::read_only()) } else { Ok(data) }
    }

    /// Appends a feed entry, in the same step as the write that it describes.
    fn note(&self, data: &mut Data, write: FeedWrite) {
        data.feed.push_back(Noted { epoch: self.epoch, write });
        data.keep_changes(KEPT);
        self.grown.notify_waiters();
    }
}

impl fmt::Debug for Data {
    /// Shows counts only, not the whole database.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} memories, {} collections)", self.memories.len(), self.documents.len())
    }
}

impl Data {
    fn insert(&mut self, memory: &Memory) {
        self.by_key.extend(memory.idempotency_key.clone().map(|key| (key, memory.id)));
        self.memories.insert(memory.id, memory.clone());
    }

    /// Adds the record's vector.
    fn scanned<K: Selects>(&self, record: RecordId, scanned: Scanned<K>) -> Scanned<K> {
        Scanned { vector: self.vectors.get(&record).cloned(), ..scanned }
    }

    /// Returns whether a tombstone has the memory's id, or the hash of its idempotency key.
    fn has_tombstone(&self, memory: &Memory, hash: Option<KeyedHash>) -> bool {
        let has_key = |hash| self.tombstones.values().any(|tombstone| tombstone.key == Some(hash));
        self.tombstones.contains_key(&memory.id.into()) || hash.is_some_and(has_key)
    }

    /// Returns whether a tombstone keeps a document out of a restore (E3).
    fn keeps_out(&self, document: &Document) -> bool {
        let record = document.into();
        self.tombstones.get(&record).is_some_and(|tombstone| tombstone.keeps_out(document))
    }

    /// Overwrites the feed entries of a record, because they tell its space. They keep their positions in the feed;
    /// entries of earlier erasures stay as they are.
    fn forget(&mut self, record: &RecordId) {
        let tells = |write: &FeedWrite| !write.is_erasure() && write.record() == *record;
        for noted in self.feed.iter_mut().filter(|noted| tells(&noted.write)) {
            noted.write = FeedWrite::Erasure { record: record.clone(), places: Vec::new() };
        }
    }

    /// Appends an entry to a record's history.
    fn keep(&mut self, of: RecordId, entry: Option<&VersionEntry>) {
        self.history.entry(of).or_default().extend(entry.cloned());
    }

    /// Drops the oldest entries of the feed until at most `most` are left.
    fn keep_changes(&mut self, most: usize) {
        let over = self.feed.len().saturating_sub(most);
        self.feed.drain(..over);
        self.dropped += over as u64;
    }

    /// Returns the position of the newest feed entry.
    fn newest(&self) -> FeedPosition {
        place(self.last(), self.feed.back().map_or(0, |noted| noted.epoch))
    }

    fn last(&self) -> u64 {
        self.dropped + self.feed.len() as u64
    }

    /// Returns the number of the entry at a position, if the feed still has it and everything after it.
    fn number_of(&self, position: &FeedPosition) -> Option<u64> {
        let (number, epoch) = position.as_bytes().split_first_chunk::<8>()?;
        let (number, epoch) = (u64::from_be_bytes(*number), u64::from_be_bytes(epoch.try_into().ok()?));
        let is_there = match number.checked_sub(self.dropped + 1) {
            None => number == 0 && self.dropped == 0,
            Some(place) => self.feed.get(usize::try_from(place).ok()?).is_some_and(|noted| noted.epoch == epoch),
        };
        is_there.then_some(number)
    }

    fn of(&self, collection: &Collection) -> impl Iterator<Item = &Document> {
        let found = self.documents.get(collection).into_iter().flat_map(BTreeMap::values);
        found.map(|found| &found.record)
    }
}

/// Encodes the position of an entry. The number comes first, so that later positions are greater.
fn place(number: u64, epoch: u64) -> FeedPosition {
    FeedPosition::of([number.to_be_bytes(), epoch.to_be_bytes()].concat())
}

fn write_of(memory: &Memory) -> FeedWrite {
    FeedWrite::Memory { id: memory.id, space: memory.space_id.to_string() }
}
