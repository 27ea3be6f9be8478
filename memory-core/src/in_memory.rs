//! The reference provider: the contract in its simplest form, written for reading and not for speed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::page::{PageBuilder, Selects, Verdict};
use crate::provider::check_batch;
use crate::query::Kind;
use crate::{
    Capabilities, Clock, Collection, DEFAULT_DEADLINE, Document, DocumentId, DocumentPage, DocumentQuery,
    DocumentSelection, DocumentStore, DocumentWrite, Durability, Error, Gate, Health, IdempotencyKey, Memory, MemoryId,
    MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, Order, Query, RestoreReport, Result, SystemClock,
    TextIndex, Timestamp, Updated, check_repetition, record_rows, words,
};

/// A provider that keeps everything in memory and loses it when it is dropped.
///
/// It answers every call as the contract wants it, so it is what other engines are compared with.
#[derive(Debug)]
pub struct InMemory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    gate: Gate,
    data: Arc<Mutex<Data>>,
    clock: Arc<dyn Clock>,
    text_index: TextIndex,
}

#[derive(Default)]
struct Data {
    memories: HashMap<MemoryId, Memory>,
    by_time: BTreeSet<(Timestamp, MemoryId)>,
    by_key: HashMap<IdempotencyKey, MemoryId>,
    documents: BTreeMap<Collection, BTreeMap<DocumentId, Document>>,
}

impl InMemory {
    /// An empty provider.
    pub fn new() -> Self {
        Self::with(Arc::new(SystemClock), TextIndex::default(), DEFAULT_DEADLINE)
    }

    /// An empty provider with its settings.
    pub fn with(clock: Arc<dyn Clock>, text_index: TextIndex, deadline: Duration) -> Self {
        let gate = Gate::new(BACKEND, deadline);
        Self { shared: Arc::new(Shared { gate, data: Arc::default(), clock, text_index }) }
    }

    /// Another provider on the same data, with a life cycle of its own, as a second process on one engine is.
    #[must_use]
    pub fn reopen(&self, clock: Arc<dyn Clock>, text_index: TextIndex, deadline: Duration) -> Self {
        let (gate, data) = (Gate::new(BACKEND, deadline), Arc::clone(&self.shared.data));
        Self { shared: Arc::new(Shared { gate, data, clock, text_index }) }
    }
}

impl Default for InMemory {
    fn default() -> Self {
        Self::new()
    }
}

const BACKEND: &str = "in-memory";

impl fmt::Debug for Data {
    /// Not the whole database.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} memories, {} collections)", self.memories.len(), self.documents.len())
    }
}

impl Shared {
    fn data(&self) -> MutexGuard<'_, Data> {
        // No code that holds the lock can panic half way through a change.
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl MemoryProvider for InMemory {
    async fn init(&self) -> Result<()> {
        self.shared.gate.init(async { Ok(()) }).await
    }

    async fn check_health(&self) -> Result<Health> {
        let work = async {
            let start = Instant::now();
            drop(self.shared.data());
            let durability = Durability::AtRisk { reason: "kept in memory only".into(), bound: None };
            Ok(Health::new(BACKEND, env!("CARGO_PKG_VERSION"), 1, start.elapsed(), durability))
        };
        self.shared.gate.health(work).await
    }

    async fn shutdown(&self) -> Result<()> {
        self.shared.gate.shutdown(async { Ok(()) }).await
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.text_index.capabilities()
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let memory = memory.into_memory(MemoryId::generate());
        self.shared.gate.write("store", async { self.shared.data().store(memory) }).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let work = async {
            let memories = check_batch(memories)?;
            record_rows(memories.len());
            let mut data = self.shared.data();
            // All keys are checked before anything is written.
            memories.iter().try_for_each(|memory| data.known(memory).map(drop))?;
            memories.into_iter().map(|memory| data.store(memory)).collect()
        };
        self.shared.gate.write("store_many", work).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let work = async {
            let mut data = self.shared.data();
            let memory = data.memories.get_mut(&id).ok_or_else(Error::not_found)?;
            if let Some(patched) = patch.apply(memory, self.shared.clock.now())? {
                *memory = patched;
            }
            Ok(Updated::from(&*memory))
        };
        self.shared.gate.write("update", work).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.shared.gate.read("get", async { Ok(self.shared.data().memories.get(&id).cloned()) }).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let work = async {
            let data = self.shared.data();
            let oldest_first = data.by_time.iter().filter_map(|(_, id)| data.memories.get(id));
            let page = match (query.text(), query.order()) {
                (Some(_), _) if self.shared.text_index != TextIndex::All => return Err(Error::no_ledger_text()),
                (Some(_), _) => {
                    let text_of = |memory: &Memory| words::text_of(&memory.trigger, memory.context.as_ref());
                    page(query, by_rank(oldest_first.rev(), &query.words, text_of))
                }
                (None, Order::NewestFirst) => page(query, oldest_first.rev()),
                (None, Order::OldestFirst) => page(query, oldest_first),
            };
            record_rows(page.memories.len());
            Ok(page)
        };
        self.shared.gate.read("query", work).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async {
            let mut data = self.shared.data();
            let mut report = RestoreReport::default();
            for (place, memory) in memories.into_iter().enumerate() {
                let key_owner = memory.idempotency_key.as_ref().and_then(|key| data.by_key.get(key));
                match data.memories.get(&memory.id) {
                    Some(present) if *present == memory => report.equal += 1,
                    None if key_owner.is_none() => {
                        data.insert(memory);
                        report.written += 1;
                    }
                    _ => report.conflicts.push(place),
                }
            }
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore", work).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(InMemoryDocuments { shared: Arc::clone(&self.shared) })
    }
}

impl Data {
    /// The id behind the idempotency key of a memory, if there is one (W3).
    fn known(&self, memory: &Memory) -> Result<Option<MemoryId>> {
        let known = memory.idempotency_key.as_ref().and_then(|key| self.by_key.get(key));
        let Some(first) = known.and_then(|id| self.memories.get(id)) else { return Ok(None) };
        check_repetition(memory, first.space_id.as_str(), first.trigger.as_str()).map(|()| Some(first.id))
    }

    fn store(&mut self, memory: Memory) -> Result<MemoryId> {
        match self.known(&memory)? {
            Some(id) => Ok(id),
            None => Ok(self.insert(memory)),
        }
    }

    fn insert(&mut self, memory: Memory) -> MemoryId {
        let id = memory.id;
        self.by_time.insert((memory.created_at, id));
        self.by_key.extend(memory.idempotency_key.clone().map(|key| (key, id)));
        self.memories.insert(id, memory);
        id
    }
}

/// The documents of an [`InMemory`].
#[derive(Debug)]
struct InMemoryDocuments {
    shared: Arc<Shared>,
}

#[async_trait]
impl DocumentStore for InMemoryDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        let work = async {
            let mut data = self.shared.data();
            let id = write.id.clone().unwrap_or_else(DocumentId::generate);
            let current = data.documents.get(&write.collection).and_then(|documents| documents.get(&id));
            let document = write.apply(&id, current, self.shared.clock.now())?;
            data.documents.entry(write.collection).or_default().insert(id, document.clone());
            Ok(document)
        };
        self.shared.gate.write("documents.put", work).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let work = async { Ok(self.shared.data().collection(collection).find(|document| document.id == *id).cloned()) };
        self.shared.gate.read("documents.get", work).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let work = async {
            let data = self.shared.data();
            let mut documents: Vec<_> = data.collection(query.collection()).collect();
            documents.sort_by(|left, right| crate::compare_heads(&left.head(), &right.head(), query.order()));
            let page = match query.text() {
                Some(_) => {
                    let text_of = |document: &Document| document.content.as_str().to_owned();
                    page(query, by_rank(documents, &query.words, text_of))
                }
                None => page(query, documents),
            };
            record_rows(page.documents.len());
            Ok(page)
        };
        self.shared.gate.read("documents.query", work).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let work = async {
            let mut data = self.shared.data();
            let found = data.collection(selection.collection()).filter(|document| selection.matches(document));
            let ids: Vec<_> = found.map(|document| document.id.clone()).collect();
            if ids.len() > max {
                return Err(Error::limit_exceeded(max));
            }
            if let Some(documents) = data.documents.get_mut(selection.collection()) {
                ids.iter().for_each(|id| drop(documents.remove(id)));
            }
            record_rows(ids.len());
            Ok(ids)
        };
        self.shared.gate.write("documents.remove", work).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async {
            let mut data = self.shared.data();
            let mut report = RestoreReport::default();
            for (place, document) in documents.into_iter().enumerate() {
                let present = data.documents.entry(document.collection.clone()).or_default();
                match present.get(&document.id) {
                    Some(present) if *present == document => report.equal += 1,
                    Some(_) => report.conflicts.push(place),
                    None => {
                        present.insert(document.id.clone(), document);
                        report.written += 1;
                    }
                }
            }
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("documents.restore", work).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let work = async {
            let data = self.shared.data();
            let in_use = data.documents.iter().filter(|(_, documents)| !documents.is_empty());
            Ok(in_use.map(|(collection, _)| collection.clone()).collect())
        };
        self.shared.gate.read("documents.collections", work).await
    }
}

impl Data {
    fn collection(&self, collection: &Collection) -> impl Iterator<Item = &Document> {
        self.documents.get(collection).into_iter().flat_map(BTreeMap::values)
    }
}

/// The page of a query, from all records in its order.
fn page<'a, K>(query: &Query<K>, records: impl IntoIterator<Item = &'a K::Record>) -> K::Page
where
    K: Selects + Kind,
    K::Record: Clone + 'a,
{
    let mut page = PageBuilder::new(query);
    for record in records {
        let verdict = match page.examine(&K::head(record)) {
            Verdict::Take => page.push(record.clone()),
            other => other,
        };
        if verdict == Verdict::Stop {
            break;
        }
    }
    page.finish()
}

/// The records that hold a wanted word, those with the most distinct ones first, and else in their order.
fn by_rank<'a, T>(
    records: impl IntoIterator<Item = &'a T>,
    wanted: &BTreeSet<String>,
    text_of: impl Fn(&T) -> String,
) -> Vec<&'a T> {
    let rank = |record: &'a T| (words::distinct(&text_of(record)).intersection(wanted).count(), record);
    let mut ranked: Vec<_> = records.into_iter().map(rank).filter(|(rank, _)| *rank > 0).collect();
    ranked.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    ranked.into_iter().map(|(_, record)| record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SpaceId, Trigger};

    #[tokio::test]
    async fn equal_ranks_come_newest_first() {
        let provider = InMemory::with(Arc::new(SystemClock), TextIndex::All, DEFAULT_DEADLINE);
        provider.init().await.expect("opens");
        for millis in [4, 2, 9, 7, 1, 3, 8] {
            let (space, time) = (SpaceId::parse("a").expect("valid"), Timestamp::from_millis(millis).expect("valid"));
            let trigger = if millis == 3 { r#""both words""# } else { r#""some words""# };
            let memory = NewMemory::new(space, Trigger::parse(trigger).expect("valid"), time);
            provider.store(memory).await.expect("stored");
        }
        let query = MemoryQuery::builder().all().text("both words").build().expect("valid");
        let page = provider.query(&query).await.expect("a page");
        let times: Vec<_> = page.memories.iter().map(|memory| memory.created_at.as_millis()).collect();
        assert_eq!(times, [3, 9, 8, 7, 4, 2, 1]);
    }
}
