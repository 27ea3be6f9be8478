//! The provider: translation of the contract to MongoDB.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use memory_core::{
    Capabilities, Clock, Context, DocumentStore, Durability, Error, ErrorKind, Gate, Group, Health, IdempotencyKey,
    Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, RestoreReport, Result,
    TextIndex, Timestamp, Updated, check_batch, record_rows,
};
use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;
use tokio::sync::RwLock;

use crate::config::{MongoConfig, check_namespace};
use crate::connection::{Call, Connections};
use crate::documents::MongoDocuments;
use crate::error::{DUPLICATE_KEY, code, native, native_write};
use crate::statements::{self, has_words, id_to_bson, memory_words, paths_of, revision_to_bson};
use crate::{migrate, query, text};

/// Agent memory in a database of a MongoDB replica set or of shards.
///
/// Open it, call [`init`](MemoryProvider::init), and hold it as `Arc<dyn MemoryProvider>`. Clones share the connections.
#[derive(Debug, Clone)]
pub struct MongoMemory {
    shared: Arc<Shared>,
}

/// What the ledger and the documents of one provider share.
#[derive(Debug)]
pub(crate) struct Shared {
    config: MongoConfig,
    pub(crate) gate: Gate,
    /// Set by `init`, taken by `shutdown`.
    connections: RwLock<Option<Arc<Connections>>>,
}

const BACKEND: &str = "mongo";

impl MongoMemory {
    /// A provider for servers (by their URL) or with other settings. Touches nothing before
    /// [`init`](MemoryProvider::init).
    ///
    /// `InvalidInput` when the URL or the namespace is not valid.
    pub fn open<C>(config: C) -> Result<Self>
    where
        C: TryInto<MongoConfig>,
        Error: From<C::Error>,
    {
        let config = config.try_into()?;
        check_namespace(&config.namespace)?;
        let gate = Gate::new(BACKEND, config.deadline);
        Ok(Self { shared: Arc::new(Shared { config, gate, connections: RwLock::default() }) })
    }
}

impl Shared {
    /// Where `updatedAt` comes from.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.config.clock)
    }

    /// A call, behind a gate that is open.
    pub(crate) async fn call(&self) -> Result<Call> {
        let closed = || Error::new(ErrorKind::Closed, "the provider has no connection");
        self.connections.read().await.as_ref().map(Connections::call).ok_or_else(closed)
    }
}

#[async_trait]
impl MemoryProvider for MongoMemory {
    async fn init(&self) -> Result<()> {
        let work = async {
            let connections = Arc::new(Connections::new(&self.shared.config).await?);
            let text_index = self.shared.config.text_index;
            let call = connections.call();
            let set_up = call.run(async move |call| {
                call.check_topology().await?;
                migrate::run(&call).await?;
                text::set_up_ledger(&call, text_index).await
            });
            if let Err(error) = set_up.await {
                connections.close().await;
                return Err(error);
            }
            *self.shared.connections.write().await = Some(connections);
            Ok(())
        };
        self.shared.gate.init(work).await
    }

    async fn check_health(&self) -> Result<Health> {
        let work = async { self.shared.call().await?.run(async |call| call.retry(|| call.health()).await).await };
        self.shared.gate.health(work).await
    }

    async fn shutdown(&self) -> Result<()> {
        let work = async {
            // The gate let the calls in flight finish.
            if let Some(connections) = self.shared.connections.write().await.take() {
                connections.close().await;
            }
            Ok(())
        };
        self.shared.gate.shutdown(work).await
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.config.text_index.capabilities()
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let memory = memory.into_memory(MemoryId::generate());
        let work = async { Group::store(&Arc::new(self.shared.call().await?), memory).await };
        self.shared.gate.write("store", work).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let work = async {
            let memories = check_batch(memories)?;
            record_rows(memories.len());
            self.shared.call().await?.run(async move |call| call.store_many(&memories).await).await
        };
        self.shared.gate.write("store_many", work).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let work = async {
            let clock = self.shared.clock();
            let update = async move |call: Call| loop {
                // Only a race that was lost is run again, until the deadline.
                if let Some(updated) = call.retry(|| call.update(id, &patch, clock.now())).await? {
                    return Ok(updated);
                }
            };
            self.shared.call().await?.run(update).await
        };
        self.shared.gate.write("update", work).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let work = async {
            let get = async move |call: Call| {
                let find = async || call.on.reads.memories.find_one(by_id(id)).await.map_err(native);
                call.retry(find).await?.as_deref().map(statements::memory).transpose()
            };
            self.shared.call().await?.run(get).await
        };
        self.shared.gate.read("get", work).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let work = async {
            if query.text().is_some() && self.shared.config.text_index != TextIndex::All {
                return Err(Error::no_ledger_text());
            }
            let query = query.clone();
            let read = async move |call: Call| call.retry(|| query::memories(&call.on.reads.memories, &query)).await;
            let page = self.shared.call().await?.run(read).await?;
            record_rows(page.memories.len());
            Ok(page)
        };
        self.shared.gate.read("query", work).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.call().await?.run(async move |call| call.restore(&memories).await).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore", work).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(MongoDocuments::new(Arc::clone(&self.shared)))
    }
}

/// How many memories, and about how many bytes, are restored at once.
const RESTORED: (usize, usize) = (1_000, 16 << 20);

impl Call {
    async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        let build = async { self.on.database.run_command(doc! { "buildInfo": 1 }).await.map_err(native) };
        let (build, schema) = futures::try_join!(build, migrate::version(self))?;
        let version = build.get_str("version").unwrap_or("unknown");
        // Every write waits until the journals of a majority have it.
        Ok(Health::new(BACKEND, version, schema, start.elapsed(), Durability::Durable))
    }

    async fn store_many(&self, memories: &[Memory]) -> Result<Vec<MemoryId>> {
        let mut keys = HashMap::<&IdempotencyKey, MemoryId>::new();
        let mut fresh = Vec::with_capacity(memories.len());
        let mut firsts = Vec::with_capacity(memories.len());
        for memory in memories {
            match memory.idempotency_key.as_ref().map(|key| keys.entry(key)) {
                Some(Entry::Occupied(first)) => firsts.push(*first.get()),
                entry => {
                    if let Some(Entry::Vacant(entry)) = entry {
                        entry.insert(memory.id);
                    }
                    fresh.push(memory);
                    firsts.push(memory.id);
                }
            }
        }
        let known = self.append(&fresh).await?;
        Ok(firsts.into_iter().map(|id| known.get(&id).copied().unwrap_or(id)).collect())
    }

    /// `None` when the memory was changed meanwhile.
    async fn update(&self, id: MemoryId, patch: &MemoryPatch, now: Timestamp) -> Result<Option<Updated>> {
        // What a patch is applied to is the latest, since anything else would lose the race; what is only told must stay.
        let concern = if patch.is_empty() { ReadConcern::majority() } else { ReadConcern::local() };
        let find = self.on.primary.memories.find_one(by_id(id)).read_concern(concern);
        let row = find.await.map_err(native)?.ok_or_else(Error::not_found)?;
        let memory = statements::memory(&row)?;
        let Some(patched) = patch.apply(&memory, now)? else {
            return Ok(Some(Updated::from(&memory)));
        };
        let has_words = has_words(&row);
        let mut set = doc! { "revision": revision_to_bson(patched.revision), "updatedAt": now.as_millis() };
        let mut update = Document::new();
        if patched.context != memory.context {
            match patched.context.as_ref().map(Context::as_str) {
                Some(context) => drop(set.insert("context", context)),
                None => drop(update.insert("$unset", doc! { "context": "" })),
            }
            if has_words {
                set.insert("words", memory_words(&patched));
            }
        }
        if patched.metadata != memory.metadata {
            set.insert("metadata", patched.metadata.as_str());
        }
        if patched.status != memory.status {
            set.insert("status", patched.status.as_str());
            set.insert("paths", paths_of(&patched.space_id, patched.status));
        }
        update.insert("$set", set);
        let unchanged = doc! {
            "_id": id_to_bson(id),
            "revision": revision_to_bson(memory.revision),
            // Whoever indexes old rows leaves their revision alone.
            "words": { "$exists": has_words },
        };
        let updated = self.on.primary.memories.update_one(unchanged, update).await.map_err(native_write)?;
        Ok((updated.matched_count == 1).then(|| Updated::from(&patched)))
    }

    async fn restore(&self, memories: &[Memory]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let mut rest = memories;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(restored_at_once(rest));
            let start = memories.len() - rest.len();
            let mut open: Vec<_> = (start..).zip(some).collect();
            while !open.is_empty() {
                let given: Vec<_> = open.iter().map(|(_, memory)| *memory).collect();
                let (present, owners) = self.retry(|| self.present(&given)).await?;
                open.retain(|(place, memory)| {
                    let has_owner =
                        memory.idempotency_key.as_ref().is_some_and(|key| owners.contains_key(key.as_str()));
                    match present.get(&memory.id) {
                        Some(Some(present)) if present == *memory => report.equal += 1,
                        None if !has_owner => return true,
                        _ => report.conflicts.push(*place),
                    }
                    false
                });
                let written = self.insert_new(&open.iter().map(|(_, memory)| *memory).collect::<Vec<_>>()).await?;
                open.retain(|(_, memory)| !written.contains(&memory.id));
                report.written += written.len();
            }
            rest = others;
        }
        report.conflicts.sort_unstable();
        Ok(report)
    }

    /// Writes memories of which none was there a moment ago, and tells which were written.
    async fn insert_new(&self, memories: &[&Memory]) -> Result<HashSet<MemoryId>> {
        let (keyed, keyless): (Vec<_>, Vec<_>) = memories.iter().partition(|memory| memory.idempotency_key.is_some());
        let was_known = self.has_ledger_text();
        let refused = self.retry(|| self.try_insert_each(&keyless)).await?;
        let stored = keyless.iter().enumerate().filter(|(place, _)| !refused.contains_key(place));
        let mut written: HashSet<_> = stored.map(|(_, memory)| memory.id).collect();
        self.learns_of_ledger_text(was_known, refused.into_values());
        if keyed.is_empty() {
            return Ok(written);
        }
        match self.retry(|| self.insert_all(&keyed)).await {
            Ok(()) => written.extend(keyed.iter().map(|memory| memory.id)),
            // Somebody else was first: look again.
            Err(error)
                if code(&error) == Some(DUPLICATE_KEY) || self.learns_of_ledger_text(was_known, code(&error)) => {}
            Err(error) => return Err(error),
        }
        Ok(written)
    }

    /// What is there under the ids of these memories, `None` for what can't be read, and whom their keys belong to.
    async fn present(
        &self,
        memories: &[&Memory],
    ) -> Result<(HashMap<MemoryId, Option<Memory>>, HashMap<String, MemoryId>)> {
        // Before the rows, so that the row of each key that is there is found, too.
        let owners = self.owners(memories).await?;
        let ids: Vec<_> = memories.iter().map(|memory| id_to_bson(memory.id)).collect();
        let find = self.on.primary.memories.find(doc! { "_id": { "$in": ids } }).read_concern(ReadConcern::majority());
        let mut rows = find.await.map_err(native)?;
        let mut present = HashMap::new();
        while rows.advance().await.map_err(native)? {
            present.insert(statements::memory_id(rows.current())?, statements::memory(rows.current()).ok());
        }
        Ok((present, owners))
    }
}

pub(crate) fn by_id(id: MemoryId) -> Document {
    doc! { "_id": id_to_bson(id) }
}

/// How many of the first memories are restored at once: as long as their ids and keys differ, and few enough.
fn restored_at_once(memories: &[Memory]) -> usize {
    let (mut ids, mut keys, mut bytes) = (HashSet::new(), HashSet::new(), 0);
    memories
        .iter()
        .take_while(|memory| {
            bytes += memory.size();
            ids.len() < RESTORED.0
                && (bytes <= RESTORED.1 || ids.is_empty())
                && ids.insert(memory.id)
                && memory.idempotency_key.as_ref().is_none_or(|key| keys.insert(key.as_str()))
        })
        .count()
}
