//! The provider: translation of the contract to SQLite.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use memory_core::{
    Capabilities, DocumentStore, Durability, Error, ErrorKind, Gate, Health, Memory, MemoryId, MemoryPage, MemoryPatch,
    MemoryProvider, MemoryQuery, NewMemory, RestoreReport, Result, TextIndex, Updated, check_batch, check_repetition,
    record_rows, words,
};
use rusqlite::{Connection, params};
use tokio::sync::RwLock;

use crate::config::{Location, SqliteConfig};
use crate::connection::Threads;
use crate::documents::SqliteDocuments;
use crate::error::native;
use crate::statements::{self, SLOT_BITS, column, execute, first, prepare};
use crate::{paths, query};

/// Agent memory in one SQLite file.
///
/// Open it, call [`init`](MemoryProvider::init), and hold it as `Arc<dyn MemoryProvider>`. Clones share the connections.
#[derive(Debug, Clone)]
pub struct SqliteMemory {
    shared: Arc<Shared>,
}

/// What the ledger and the documents of one provider share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: SqliteConfig,
    pub(crate) gate: Gate,
    /// Set by `init`, taken by `shutdown`.
    threads: RwLock<Option<Arc<Threads>>>,
}

const BACKEND: &str = "sqlite";
/// The longest deadline; SQLite can't wait for more than 24 days.
const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

impl SqliteMemory {
    /// A provider for a file (by its path) or with other settings. Touches nothing before [`init`](MemoryProvider::init).
    pub fn open(config: impl Into<SqliteConfig>) -> Result<Self> {
        let mut config = config.into();
        config.deadline = config.deadline.min(MAX_DEADLINE);
        let gate = Gate::new(BACKEND, config.deadline);
        Ok(Self { shared: Arc::new(Shared { config, gate, threads: RwLock::default() }) })
    }
}

impl Shared {
    /// The threads, behind a gate that is open.
    pub(crate) async fn threads(&self) -> Result<Arc<Threads>> {
        let closed = || Error::new(ErrorKind::Closed, "the provider has no connection");
        self.threads.read().await.clone().ok_or_else(closed)
    }
}

#[async_trait]
impl MemoryProvider for SqliteMemory {
    async fn init(&self) -> Result<()> {
        let work = async {
            let threads = Threads::start(&self.shared.config).await?;
            *self.shared.threads.write().await = Some(Arc::new(threads));
            Ok(())
        };
        self.shared.gate.init(work).await
    }

    async fn check_health(&self) -> Result<Health> {
        let work = async {
            let start = Instant::now();
            let read = |connection: &Connection| {
                first(connection, statements::SCHEMA_VERSION, [], |row| column::<u32>(row, 0))
            };
            let schema_version = self.shared.threads().await?.read(read).await?.unwrap_or_default();
            let durability = match self.shared.config.location {
                Location::File(_) => Durability::Durable,
                Location::Memory => Durability::AtRisk { reason: "the database is in memory".into(), bound: None },
            };
            Ok(Health::new(BACKEND, rusqlite::version(), schema_version, start.elapsed(), durability))
        };
        self.shared.gate.health(work).await
    }

    async fn shutdown(&self) -> Result<()> {
        let work = async {
            // The gate let the calls in flight finish, so nobody else holds the threads.
            match self.shared.threads.write().await.take().map(Arc::into_inner) {
                Some(Some(threads)) => threads.stop().await,
                _ => Ok(()),
            }
        };
        self.shared.gate.shutdown(work).await
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.config.text_index.capabilities()
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let memory = memory.into_memory(MemoryId::generate());
        let work = async { self.shared.threads().await?.write(move |writing| writing.store(&memory)).await };
        self.shared.gate.write("store", work).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let work = async {
            let memories = check_batch(memories)?;
            record_rows(memories.len());
            self.shared.threads().await?.write(move |writing| writing.store_many(&memories)).await
        };
        self.shared.gate.write("store_many", work).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        // Asked here: a clock that panics must not end the thread that writes.
        let now = self.shared.config.clock.now();
        let work = async {
            let update = move |writing: &mut Writing<'_>| writing.update(id, &patch, now);
            self.shared.threads().await?.write(update).await
        };
        self.shared.gate.write("update", work).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let work = async {
            let read = move |connection: &Connection| {
                first(connection, statements::MEMORY_BY_ID, [id.as_bytes().as_slice()], statements::memory)
            };
            self.shared.threads().await?.read(read).await
        };
        self.shared.gate.read("get", work).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        if query.text().is_some() && self.shared.config.text_index != TextIndex::All {
            return self.shared.gate.read("query", async { Err(Error::no_ledger_text()) }).await;
        }
        let query = query.clone();
        let work = async {
            let page = self.shared.threads().await?.read(move |connection| query::memories(connection, &query)).await?;
            record_rows(page.memories.len());
            Ok(page)
        };
        self.shared.gate.read("query", work).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.threads().await?.write(move |writing| writing.restore(&memories)).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore", work).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(SqliteDocuments::new(Arc::clone(&self.shared)))
    }
}

/// The transaction of the writer's thread.
///
/// A call that fails with an error of the contract has checked everything before it wrote anything.
#[derive(Debug)]
pub(crate) struct Writing<'c> {
    pub(crate) connection: &'c Connection,
    /// Whether the words of the ledger are indexed, as all programs on the file have agreed.
    has_ledger_text: bool,
    /// What goes into the path index in the end, in its own order.
    paths: Vec<PathEntry>,
}

#[derive(Debug)]
struct PathEntry {
    slot: i64,
    tokens: String,
    /// Whether the slot has other rows, whose tokens are in the index already.
    is_shared: bool,
}

impl<'c> Writing<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Result<Self> {
        let has_ledger_text = first(connection, statements::HAS_LEDGER_TEXT, [], |_| Ok(()))?.is_some();
        Ok(Self { connection, has_ledger_text, paths: Vec::new() })
    }

    /// A point to which [`Writing::has_written_since`] refers.
    pub(crate) fn mark(&self) -> u64 {
        self.connection.total_changes()
    }

    pub(crate) fn has_written_since(&self, mark: u64) -> bool {
        // After some failures SQLite itself ends the transaction; what followed would be committed statement by statement.
        self.connection.total_changes() != mark || self.connection.is_autocommit()
    }

    /// Whether the words of the ledger are to be indexed and are not.
    pub(crate) fn lacks_text_index(&self, wanted: TextIndex) -> bool {
        wanted == TextIndex::All && !self.has_ledger_text
    }

    /// Indexes the words of the whole ledger if that is wanted and nobody did it before.
    pub(crate) fn set_up_text_index(&mut self, text_index: TextIndex) -> Result<()> {
        // Another program may have been first.
        if !self.lacks_text_index(text_index) {
            return Ok(());
        }
        let mut statement = prepare(self.connection, statements::ALL_MEMORIES_BY_SEQ)?;
        let mut rows = statement.query([]).map_err(native)?;
        while let Some(row) = rows.next().map_err(native)? {
            // A row that can't be read has no words.
            if let Ok(memory) = statements::memory(row) {
                self.insert_words(column(row, SEQ)?, &memory)?;
            }
        }
        execute(self.connection, statements::SET_LEDGER_TEXT, [])
    }

    /// Writes the path entries, in the order in which FTS5 takes them without flushing in between.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.paths.sort_by_key(|entry| entry.slot);
        let mut insert = prepare(self.connection, statements::INSERT_PATHS)?;
        for PathEntry { slot, tokens, is_shared } in self.paths {
            let tokens = if is_shared { missing_tokens(self.connection, slot, &tokens)? } else { tokens };
            if !tokens.is_empty() {
                insert.execute(params![slot, tokens]).map_err(native)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, memory: &Memory) -> Result<MemoryId> {
        match self.known(memory)? {
            Some(id) => Ok(id),
            None => self.insert(memory).map(|()| memory.id),
        }
    }

    fn store_many(&mut self, memories: &[Memory]) -> Result<Vec<MemoryId>> {
        // All keys are checked before anything is written.
        memories.iter().try_for_each(|memory| self.known(memory).map(drop))?;
        memories.iter().map(|memory| self.store(memory)).collect()
    }

    fn update(&mut self, id: MemoryId, patch: &MemoryPatch, now: memory_core::Timestamp) -> Result<Updated> {
        let read = |row: &rusqlite::Row<'_>| Ok((column::<i64>(row, SEQ)?, statements::memory(row)?));
        let found = first(self.connection, statements::MEMORY_BY_ID, [id.as_bytes().as_slice()], read)?;
        let (seq, memory) = found.ok_or_else(Error::not_found)?;
        let Some(patched) = patch.apply(&memory, now)? else { return Ok(Updated::from(&memory)) };
        statements::update_memory(self.connection, &patched)?;
        if self.has_ledger_text && patched.context != memory.context {
            execute(self.connection, statements::DELETE_MEMORY_WORDS, [seq])?;
            self.insert_words(seq, &patched)?;
        }
        Ok(Updated::from(&patched))
    }

    fn restore(&mut self, memories: &[Memory]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let (mut accepted, mut keys) = (HashMap::new(), HashSet::new());
        for (place, memory) in memories.iter().enumerate() {
            let present = match accepted.get(&memory.id) {
                Some(earlier) => Some(*earlier == memory),
                None => self.is_there(memory)?,
            };
            let key = memory.idempotency_key.as_ref();
            match present {
                Some(true) => report.equal += 1,
                None if !key.is_some_and(|key| keys.contains(key)) && !self.has_key_of(memory)? => {
                    accepted.insert(memory.id, memory);
                    keys.extend(key);
                }
                _ => report.conflicts.push(place),
            }
        }
        // In the order of time, in which rows of one millisecond get slots of their own.
        let mut accepted: Vec<_> = accepted.into_values().collect();
        accepted.sort_unstable_by_key(|memory| (memory.created_at, memory.id));
        accepted.iter().try_for_each(|memory| self.insert(memory))?;
        report.written = accepted.len();
        Ok(report)
    }

    /// Whether a memory with this id is there, and then whether it is equal. One that can't be read differs.
    fn is_there(&self, memory: &Memory) -> Result<Option<bool>> {
        let id = memory.id.as_bytes().as_slice();
        let is_equal = |row: &rusqlite::Row<'_>| Ok(statements::memory(row).is_ok_and(|present| present == *memory));
        first(self.connection, statements::MEMORY_BY_ID, [id], is_equal)
    }

    /// The id behind the idempotency key of a memory, if there is one (W3).
    fn known(&self, memory: &Memory) -> Result<Option<MemoryId>> {
        let Some(key) = &memory.idempotency_key else { return Ok(None) };
        first(self.connection, statements::MEMORY_BY_KEY, [key.as_str()], |row| {
            check_repetition(memory, statements::text(row, 1)?, statements::text(row, 2)?)?;
            column::<[u8; 16]>(row, 0).map(MemoryId::from_bytes)
        })
    }

    fn has_key_of(&self, memory: &Memory) -> Result<bool> {
        let Some(key) = &memory.idempotency_key else { return Ok(false) };
        Ok(first(self.connection, statements::MEMORY_BY_KEY, [key.as_str()], |_| Ok(()))?.is_some())
    }

    fn insert(&mut self, memory: &Memory) -> Result<()> {
        let (slot, is_shared) = self.slot_for(memory)?;
        statements::insert_memory(self.connection, memory, slot)?;
        if self.has_ledger_text {
            self.insert_words(self.connection.last_insert_rowid(), memory)?;
        }
        self.paths.push(PathEntry { slot, tokens: paths::tokens_of(memory), is_shared });
        Ok(())
    }

    /// The slot for a new row, and whether other rows are in it.
    ///
    /// Slots are in the order of (createdAt, id). A row that is the last of its millisecond, as rows that are stored one
    /// after the other are, gets the next slot. Only a row that comes between others of its millisecond, or after more than
    /// a million of them, shares the slot of the one before it.
    fn slot_for(&self, memory: &Memory) -> Result<(i64, bool)> {
        let start = memory.created_at.as_millis() << SLOT_BITS;
        let end = start | ((1 << SLOT_BITS) - 1);
        // A row with an impossible id has its place all the same.
        let read = |row: &rusqlite::Row<'_>| Ok((column::<i64>(row, 0)?, column::<Vec<u8>>(row, 1)?));
        let Some((last, last_id)) = first(self.connection, statements::LAST_OF_MILLISECOND, [start, end], read)? else {
            return Ok((start, false));
        };
        if last_id.as_slice() < memory.id.as_bytes().as_slice() {
            return Ok((last + i64::from(last < end), last == end));
        }
        // The last slot whose first row comes before the new one, or else the first of all.
        let (mut low, mut high) = (start, last);
        while low < high {
            let middle = low + (high - low + 1) / 2;
            match first(self.connection, statements::FIRST_FROM_SLOT, [middle, high], read)? {
                Some((slot, id)) if id.as_slice() < memory.id.as_bytes().as_slice() => low = slot,
                _ => high = middle - 1,
            }
        }
        Ok((low, true))
    }

    fn insert_words(&self, seq: i64, memory: &Memory) -> Result<()> {
        let text = words::text_of(&memory.trigger, memory.context.as_ref());
        let words: Vec<_> = words::of(&text).collect();
        execute(self.connection, statements::INSERT_MEMORY_WORDS, params![seq, words.join(" ")])
    }
}

/// Those of the tokens that the slot does not have yet.
fn missing_tokens(connection: &Connection, slot: i64, tokens: &str) -> Result<String> {
    let mut missing = Vec::new();
    for token in tokens.split(' ') {
        let expression = paths::match_any([token]);
        if first(connection, statements::SLOT_HAS_PATH, params![slot, expression], |_| Ok(()))?.is_none() {
            missing.push(token);
        }
    }
    Ok(missing.join(" "))
}

/// The column behind those of a memory.
const SEQ: usize = 10;
