//! The provider: translation of the contract to PostgreSQL.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use async_trait::async_trait;
use memory_core::{
    Capabilities, Context, DocumentStore, Durability, Error, ErrorKind, Gate, Health, IdempotencyKey, Memory, MemoryId,
    MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, RestoreReport, Result, TextIndex, Timestamp,
    Updated, check_batch, check_repetition, path_hash, record_rows, words,
};
use sqlx::Row;
use tokio::sync::RwLock;
use uuid::Uuid;

use crate::config::PostgresConfig;
use crate::connection::{Connections, Session, retry, retry_repeatable};
use crate::documents::PostgresDocuments;
use crate::error::{native, native_write};
use crate::statements::{self, column, id_to_sql, memory_id, revision_to_sql};
use crate::{migrate, query};

/// Agent memory in a schema of a PostgreSQL database.
///
/// Open it, call [`init`](MemoryProvider::init), and hold it as `Arc<dyn MemoryProvider>`. Clones share the connections.
#[derive(Debug, Clone)]
pub struct PostgresMemory {
    shared: Arc<Shared>,
}

/// What the ledger and the documents of one provider share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: PostgresConfig,
    pub(crate) gate: Gate,
    /// Set by `init`, taken by `shutdown`.
    connections: RwLock<Option<Arc<Connections>>>,
}

const BACKEND: &str = "postgres";

impl PostgresMemory {
    /// A provider for a server (by its URL) or with other settings. Touches nothing before [`init`](MemoryProvider::init).
    ///
    /// `InvalidInput` when the URL or the namespace is not valid.
    pub fn open<C>(config: C) -> Result<Self>
    where
        C: TryInto<PostgresConfig>,
        Error: From<C::Error>,
    {
        let config = config.try_into()?;
        statements::Statements::new(&config.namespace)?;
        let gate = Gate::new(BACKEND, config.deadline);
        Ok(Self { shared: Arc::new(Shared { config, gate, connections: RwLock::default() }) })
    }
}

impl Shared {
    /// The connections, behind a gate that is open.
    pub(crate) async fn connections(&self) -> Result<Arc<Connections>> {
        let closed = || Error::new(ErrorKind::Closed, "the provider has no connection");
        self.connections.read().await.clone().ok_or_else(closed)
    }
}

#[async_trait]
impl MemoryProvider for PostgresMemory {
    async fn init(&self) -> Result<()> {
        let work = async {
            let connections = Connections::new(&self.shared.config)?;
            let set_up = async {
                retry_repeatable(|| migrate::run(&connections)).await?;
                retry_repeatable(|| connections.set_up_text_index(self.shared.config.text_index)).await
            };
            if let Err(error) = set_up.await {
                connections.close().await;
                return Err(error);
            }
            *self.shared.connections.write().await = Some(Arc::new(connections));
            Ok(())
        };
        self.shared.gate.init(work).await
    }

    async fn check_health(&self) -> Result<Health> {
        let work = async {
            let connections = self.shared.connections().await?;
            retry(|| connections.health()).await
        };
        self.shared.gate.health(work).await
    }

    async fn shutdown(&self) -> Result<()> {
        let work = async {
            // The gate let the calls in flight finish, so every session has ended.
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
        let work = async {
            let known = self.shared.connections().await?.append(&[&memory]).await?;
            Ok(known.get(&memory.id).copied().unwrap_or(memory.id))
        };
        self.shared.gate.write("store", work).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let work = async {
            let memories = check_batch(memories)?;
            record_rows(memories.len());
            self.shared.connections().await?.store_many(&memories).await
        };
        self.shared.gate.write("store_many", work).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let work = async {
            let connections = self.shared.connections().await?;
            loop {
                // Only a race that was lost is run again, until the deadline.
                let attempt = retry(|| connections.update(id, &patch, self.shared.config.clock.now())).await?;
                if let Some(updated) = attempt {
                    return Ok(updated);
                }
            }
        };
        self.shared.gate.write("update", work).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let work = async {
            let connections = self.shared.connections().await?;
            let read = || async {
                let mut session = connections.read().await?;
                let memory = connections.memory(&mut session, id).await;
                session.commit().await?;
                memory
            };
            retry(read).await
        };
        self.shared.gate.read("get", work).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let work = async {
            if query.text().is_some() && self.shared.config.text_index != TextIndex::All {
                return Err(Error::no_ledger_text());
            }
            let connections = self.shared.connections().await?;
            let read = || async {
                let mut session = connections.read().await?;
                let page = query::memories(&mut session, &connections.statements, query).await?;
                session.commit().await.map(|()| page)
            };
            let page = retry(read).await?;
            record_rows(page.memories.len());
            Ok(page)
        };
        self.shared.gate.read("query", work).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.connections().await?.restore(&memories).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore", work).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(PostgresDocuments::new(Arc::clone(&self.shared)))
    }
}

/// How many memories, and about how many bytes, are restored by one statement.
const RESTORED: (usize, usize) = (1_000, 16 << 20);

impl Connections {
    async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        let mut session = self.write().await?;
        let row = session.statement(&self.statements.health).fetch_one(&mut *session).await.map_err(native)?;
        session.commit().await?;
        let text = |index| column::<&str>(&row, index);
        let version = column::<Option<i64>>(&row, 1)?.unwrap_or_default();
        let at_risk = |reason: &str| Durability::AtRisk { reason: reason.to_owned(), bound: None };
        let durability = match (text(2)?, text(3)?, text(4)?) {
            ("off", _, _) => {
                at_risk("fsync is off on the server: a crash of its machine can lose or damage everything")
            }
            (_, "off", _) => at_risk("full_page_writes is off on the server: a crash of its machine can damage pages"),
            (_, _, "off") => at_risk("synchronous_commit is off: a crash of the server can lose the latest writes"),
            _ => Durability::Durable,
        };
        let version = u32::try_from(version).unwrap_or_default();
        Ok(Health::new(BACKEND, text(0)?, version, start.elapsed(), durability))
    }

    /// Indexes the words of the whole ledger if that is wanted and nobody did it before.
    async fn set_up_text_index(&self, text_index: TextIndex) -> Result<()> {
        self.refresh_has_ledger_text().await?;
        if text_index != TextIndex::All {
            return Ok(());
        }
        let statements = &self.statements;
        let mut session = self.transaction().await?;
        let is_complete = session.statement(&statements.is_ledger_text_complete).fetch_one(&mut *session).await;
        if is_complete.and_then(|row| row.try_get(0)).map_err(native)? {
            return session.commit().await;
        }
        // Waits for the stores that don't know of the index yet; whoever comes later indexes what it stores.
        session.statement(&statements.lock_ledger).execute(&mut *session).await.map_err(native)?;
        session.statement(&statements.begin_ledger_text).execute(&mut *session).await.map_err(native)?;
        session.commit().await?;
        self.has_ledger_text.store(true, Ordering::Relaxed);

        let mut from = Some(Uuid::nil());
        while let Some(id) = from {
            let mut session = self.write().await?;
            let slice = session.statement(&statements.memories_from_id).bind(id);
            let rows = slice.fetch_all(&mut *session).await.map_err(native)?;
            // A row that can't be read has no words.
            let memories: Vec<_> = rows.iter().filter_map(|row| statements::memory(row).ok()).collect();
            let ids: Vec<_> = memories.iter().map(|memory| id_to_sql(memory.id)).collect();
            let words: Vec<_> = memories.iter().map(words_of).collect();
            let insert = session.statement(&statements.insert_words).bind(ids).bind(words);
            insert.execute(&mut *session).await.map_err(native_write)?;
            session.commit().await?;
            let last = rows.last().map(|row| column::<Uuid>(row, 0)).transpose()?;
            from = last.and_then(|id| id.as_u128().checked_add(1)).map(Uuid::from_u128);
        }
        let mut session = self.write().await?;
        session.statement(&statements.complete_ledger_text).execute(&mut *session).await.map_err(native_write)?;
        session.commit().await
    }

    async fn refresh_has_ledger_text(&self) -> Result<()> {
        let mut session = self.write().await?;
        let answer = session.statement(&self.statements.has_ledger_text).fetch_one(&mut *session).await;
        if answer.and_then(|row| row.try_get(0)).map_err(native)? {
            self.has_ledger_text.store(true, Ordering::Relaxed);
        }
        session.commit().await
    }

    async fn store_many(&self, memories: &[Memory]) -> Result<Vec<MemoryId>> {
        let mut keys = HashMap::<&IdempotencyKey, &Memory>::new();
        let mut fresh = Vec::with_capacity(memories.len());
        let mut firsts = Vec::with_capacity(memories.len());
        for memory in memories {
            let first = match memory.idempotency_key.as_ref().map(|key| keys.entry(key)) {
                Some(Entry::Occupied(first)) => {
                    check_repetition(memory, first.get().space_id.as_str(), first.get().trigger.as_str())?;
                    first.get().id
                }
                entry => {
                    if let Some(Entry::Vacant(entry)) = entry {
                        entry.insert(memory);
                    }
                    fresh.push(memory);
                    memory.id
                }
            };
            firsts.push(first);
        }
        let known = self.append(&fresh).await?;
        Ok(firsts.into_iter().map(|id| known.get(&id).copied().unwrap_or(id)).collect())
    }

    /// Writes memories with different keys, all or none. Tells of those that repeat another one which that is, by the id
    /// that they were given.
    async fn append(&self, memories: &[&Memory]) -> Result<HashMap<MemoryId, MemoryId>> {
        if memories.is_empty() {
            return Ok(HashMap::new());
        }
        loop {
            // Under its own ids a memory is stored once, however often that is tried (W11).
            if let Some(known) = retry_repeatable(|| self.try_append(memories)).await? {
                return Ok(known);
            }
            self.refresh_has_ledger_text().await?;
        }
    }

    /// `None` when the memories have to be written with their words.
    async fn try_append(&self, memories: &[&Memory]) -> Result<Option<HashMap<MemoryId, MemoryId>>> {
        // One statement is all or nothing by itself; but of several keys some may be known.
        let is_atomic = memories.len() == 1 || memories.iter().all(|memory| memory.idempotency_key.is_none());
        let mut session = if is_atomic { self.write().await? } else { self.transaction().await? };
        let inserted = self.insert(&mut session, memories).await?;
        let missing: Vec<_> = memories.iter().filter(|memory| !inserted.contains(&memory.id)).copied().collect();
        if missing.is_empty() {
            session.commit().await?;
            return Ok(Some(HashMap::new()));
        }
        match self.known(&mut session, &missing).await {
            Ok(Some(known)) => session.commit().await.map(|()| Some(known)),
            other => session.roll_back().await.and(other),
        }
    }

    /// Which memories were there before, by the ids of these; `None` if some were not.
    async fn known(&self, session: &mut Session, memories: &[&Memory]) -> Result<Option<HashMap<MemoryId, MemoryId>>> {
        let ids: Vec<_> = memories.iter().map(|memory| id_to_sql(memory.id)).collect();
        let keys: Vec<_> = memories.iter().filter_map(|memory| memory.idempotency_key.as_ref()).collect();
        let keys: Vec<_> = keys.into_iter().map(|key| key.as_str().to_owned()).collect();
        let rows = session.statement(&self.statements.known_memories).bind(ids).bind(keys);
        let rows = rows.fetch_all(&mut **session).await.map_err(native)?;
        let (mut by_id, mut by_key) = (HashSet::new(), HashMap::new());
        for row in &rows {
            by_id.insert(memory_id(row, 0)?);
            by_key.insert(column::<Option<&str>>(row, 1)?, row);
        }
        let mut known = HashMap::new();
        for memory in memories {
            let key = memory.idempotency_key.as_ref().map(IdempotencyKey::as_str);
            let of_key = key.and_then(|key| by_key.get(&Some(key)));
            match (by_id.contains(&memory.id), of_key) {
                // An earlier attempt has stored it.
                (true, _) => drop(known.insert(memory.id, memory.id)),
                (false, Some(row)) => {
                    check_repetition(memory, column(row, 2)?, column(row, 3)?)?;
                    known.insert(memory.id, memory_id(row, 0)?);
                }
                (false, None) => return Ok(None),
            }
        }
        Ok(Some(known))
    }

    /// Writes memories that are not there, and tells which those are.
    async fn insert(&self, session: &mut Session, memories: &[&Memory]) -> Result<HashSet<MemoryId>> {
        let has_words = self.has_ledger_text.load(Ordering::Relaxed);
        let words = |memory: &&Memory| has_words.then(|| words_of(memory));
        let insert = match memories {
            [memory] => {
                let insert = session.statement(&self.statements.insert_memory);
                insert
                    .bind(id_to_sql(memory.id))
                    .bind(memory.created_at.as_millis())
                    .bind(memory.updated_at.map(Timestamp::as_millis))
                    .bind(revision_to_sql(memory.revision))
                    .bind(memory.status.as_str())
                    .bind(memory.space_id.as_str().to_owned())
                    .bind(memory.idempotency_key.as_ref().map(|key| key.as_str().to_owned()))
                    .bind(memory.metadata.as_str().to_owned())
                    .bind(memory.trigger.as_str().to_owned())
                    .bind(memory.context.as_ref().map(|context| context.as_str().to_owned()))
                    .bind(words(memory))
                    .bind(paths_of(memory))
            }
            memories => {
                let paths: Vec<_> = memories.iter().map(|memory| (memory.id, paths_of(memory))).collect();
                let entries = paths.iter().flat_map(|(id, paths)| paths.iter().map(|path| (id_to_sql(*id), *path)));
                let (ids, paths): (Vec<_>, Vec<_>) = entries.unzip();
                let insert = session.statement(&self.statements.insert_memories);
                // Planned for its own number of rows, not for those of others.
                let insert = insert.persistent(false);
                insert
                    .bind(all(memories, |memory| id_to_sql(memory.id)))
                    .bind(all(memories, |memory| memory.created_at.as_millis()))
                    .bind(all(memories, |memory| memory.updated_at.map(Timestamp::as_millis)))
                    .bind(all(memories, |memory| revision_to_sql(memory.revision)))
                    .bind(all(memories, |memory| memory.status.as_str()))
                    .bind(all(memories, |memory| memory.space_id.as_str().to_owned()))
                    .bind(all(memories, |memory| memory.idempotency_key.as_ref().map(|key| key.as_str().to_owned())))
                    .bind(all(memories, |memory| memory.metadata.as_str().to_owned()))
                    .bind(all(memories, |memory| memory.trigger.as_str().to_owned()))
                    .bind(all(memories, |memory| memory.context.as_ref().map(|context| context.as_str().to_owned())))
                    .bind(memories.iter().map(words).collect::<Vec<_>>())
                    .bind(ids)
                    .bind(paths)
            }
        };
        let rows = insert.fetch_all(&mut **session).await.map_err(native_write)?;
        rows.iter().map(|row| memory_id(row, 0)).collect()
    }

    /// `None` when the memory was changed meanwhile.
    async fn update(&self, id: MemoryId, patch: &MemoryPatch, now: Timestamp) -> Result<Option<Updated>> {
        let mut session = self.write().await?;
        let memory = self.memory(&mut session, id).await?;
        let memory = memory.ok_or_else(Error::not_found)?;
        let Some(patched) = patch.apply(&memory, now)? else {
            return session.commit().await.map(|()| Some(Updated::from(&memory)));
        };
        let has_new_words = patched.context != memory.context;
        let words = (has_new_words && self.has_ledger_text.load(Ordering::Relaxed)).then(|| words_of(&patched));
        let update = session.statement(&self.statements.update_memory);
        let update = update
            .bind(id_to_sql(id))
            .bind(revision_to_sql(memory.revision))
            .bind(patched.status.as_str())
            .bind(patched.context.as_ref().map(|context: &Context| context.as_str().to_owned()))
            .bind(patched.updated_at.map(Timestamp::as_millis))
            .bind(patched.metadata.as_str().to_owned())
            .bind(words)
            .bind(has_new_words);
        let changed = update.fetch_optional(&mut *session).await.map_err(native_write)?;
        session.commit().await?;
        if changed.is_none() {
            self.refresh_has_ledger_text().await?;
        }
        Ok(changed.map(|_| Updated::from(&patched)))
    }

    async fn memory(&self, session: &mut Session, id: MemoryId) -> Result<Option<Memory>> {
        let row = session.statement(&self.statements.memory_by_id).bind(id_to_sql(id));
        let row = row.fetch_optional(&mut **session).await.map_err(native)?;
        row.as_ref().map(statements::memory).transpose()
    }

    async fn restore(&self, memories: &[Memory]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let mut rest = memories;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(restored_at_once(rest));
            let start = memories.len() - rest.len();
            let mut given: Vec<_> = some.iter().collect();
            loop {
                let mut session = self.write().await?;
                let inserted = self.insert(&mut session, &given).await?;
                given.retain(|memory| !inserted.contains(&memory.id));
                report.written += inserted.len();
                let found = self.present(&mut session, &given).await?;
                session.commit().await?;
                match found {
                    Some(present) => {
                        let missing = given.iter().map(|memory| memory.id).collect::<HashSet<_>>();
                        for (place, memory) in some.iter().enumerate() {
                            match present.get(&memory.id) {
                                _ if !missing.contains(&memory.id) => {}
                                Some(Some(present)) if present == memory => report.equal += 1,
                                _ => report.conflicts.push(start + place),
                            }
                        }
                        break;
                    }
                    None => self.refresh_has_ledger_text().await?,
                }
            }
            rest = others;
        }
        Ok(report)
    }

    /// What is there under the ids of these memories, `None` for what can't be read. Nothing when neither id nor key of one
    /// is there, so that it could have been written.
    async fn present(
        &self,
        session: &mut Session,
        memories: &[&Memory],
    ) -> Result<Option<HashMap<MemoryId, Option<Memory>>>> {
        let mut present = HashMap::new();
        if memories.is_empty() {
            return Ok(Some(present));
        }
        let ids: Vec<_> = memories.iter().map(|memory| id_to_sql(memory.id)).collect();
        let rows = session.statement(&self.statements.memories_by_ids).bind(ids.clone());
        for row in rows.fetch_all(&mut **session).await.map_err(native)? {
            present.insert(memory_id(&row, 0)?, statements::memory(&row).ok());
        }
        let keys = memories.iter().filter_map(|memory| memory.idempotency_key.as_ref());
        let keys: Vec<_> = keys.map(|key| key.as_str().to_owned()).collect();
        let rows = session.statement(&self.statements.known_memories).bind(Vec::<Uuid>::new()).bind(keys);
        let rows = rows.fetch_all(&mut **session).await.map_err(native)?;
        let keys = rows.iter().map(|row| column::<Option<&str>>(row, 1)).collect::<Result<HashSet<_>>>()?;
        let explains = |memory: &&Memory| {
            let key = memory.idempotency_key.as_ref().map(IdempotencyKey::as_str);
            present.contains_key(&memory.id) || key.is_some() && keys.contains(&key)
        };
        Ok(memories.iter().all(explains).then_some(present))
    }
}

fn all<T>(memories: &[&Memory], value: impl Fn(&Memory) -> T) -> Vec<T> {
    memories.iter().map(|memory| value(memory)).collect()
}

/// How many of the first memories one statement restores: as long as their ids differ, and few enough.
fn restored_at_once(memories: &[Memory]) -> usize {
    let (mut ids, mut bytes) = (HashSet::new(), 0);
    let fits = |memory: &&Memory| {
        bytes += memory.size();
        ids.len() < RESTORED.0 && (bytes <= RESTORED.1 || ids.is_empty()) && ids.insert(memory.id)
    };
    memories.iter().take_while(fits).count()
}

/// The keys of a memory in the path index, each once.
fn paths_of(memory: &Memory) -> Vec<i64> {
    let mut paths: Vec<_> = memory.space_id.ancestors().map(path_hash).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The words of a memory, each once, with spaces between them.
fn words_of(memory: &Memory) -> String {
    let words = words::distinct(&words::text_of(&memory.trigger, memory.context.as_ref()));
    words.into_iter().collect::<Vec<_>>().join(" ")
}
