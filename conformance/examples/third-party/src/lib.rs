#![doc = include_str!("../README.md")]

mod database;
mod documents;
mod error;
mod ledger;
mod tables;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use memory_core::{
    Capabilities, Clock, DEFAULT_DEADLINE, DocumentStore, Durability, Error, ErrorKind, Gate, Health, Memory, MemoryId,
    MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, RestoreReport, Result, SystemClock, TextIndex,
    Updated, check_batch,
};
use redb::Database;

use database::File;
use documents::RedbDocuments;

const BACKEND: &str = "redb";

/// Where the file is, and the settings of the provider.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RedbConfig {
    /// The file; made with its folder when it is missing.
    pub path: PathBuf,
    /// What text search covers; only documents by default.
    pub text_index: TextIndex,
    /// How long a call may take; 30 s by default.
    pub deadline: Duration,
    /// Where `updatedAt` comes from; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

impl RedbConfig {
    /// The default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let (text_index, clock) = (TextIndex::default(), Arc::new(SystemClock));
        Self { path: path.into(), text_index, deadline: DEFAULT_DEADLINE, clock }
    }
}

/// A provider that keeps everything in one file of redb.
#[derive(Debug)]
pub struct RedbMemory {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    gate: Gate,
    pub(crate) config: RedbConfig,
    /// Open since `init`.
    file: OnceLock<Arc<File>>,
}

impl RedbMemory {
    /// A provider that touches nothing before `init`.
    pub fn new(config: RedbConfig) -> Self {
        let gate = Gate::new(BACKEND, config.deadline);
        Self { shared: Arc::new(Shared { gate, config, file: OnceLock::new() }) }
    }
}

impl Shared {
    pub(crate) async fn read<T, W>(&self, operation: &'static str, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Database) -> Result<T> + Send + 'static,
    {
        self.gate.read(operation, async { on_a_thread(self.file()?, work).await }).await
    }

    pub(crate) async fn write<T, W>(&self, operation: &'static str, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Database) -> Result<T> + Send + 'static,
    {
        self.gate.write(operation, async { on_a_thread(self.file()?, work).await }).await
    }

    fn file(&self) -> Result<Arc<File>> {
        let closed = || Error::new(ErrorKind::Closed, "the provider is not initialised: call init first");
        self.file.get().map(Arc::clone).ok_or_else(closed)
    }
}

/// redb blocks, so it works on a thread of its own; whoever waits for it may go away, and the work is done all the same (W10).
async fn on_a_thread<T: Send + 'static>(
    file: Arc<File>,
    work: impl FnOnce(&Database) -> Result<T> + Send + 'static,
) -> Result<T> {
    let ended = |error| Error::new(ErrorKind::Unexpected, "the call ended early").with_source(error);
    tokio::task::spawn_blocking(move || work(&file)).await.map_err(ended)?
}

#[async_trait]
impl MemoryProvider for RedbMemory {
    async fn init(&self) -> Result<()> {
        let work = async {
            let path = self.shared.config.path.clone();
            let ended = |error| Error::new(ErrorKind::Unexpected, "init ended early").with_source(error);
            let file = tokio::task::spawn_blocking(move || File::open(&path)).await.map_err(ended)??;
            self.shared.file.get_or_init(|| file);
            Ok(())
        };
        self.shared.gate.init(work).await
    }

    async fn check_health(&self) -> Result<Health> {
        let start = Instant::now();
        let work = async {
            on_a_thread(self.shared.file()?, |database| ledger::get(database, MemoryId::from_bytes([0; 16]))).await?;
            Ok(Health::new(BACKEND, "4", tables::VERSION, start.elapsed(), Durability::Durable))
        };
        self.shared.gate.health(work).await
    }

    async fn shutdown(&self) -> Result<()> {
        self.shared.gate.shutdown(async { Ok(()) }).await
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.config.text_index.capabilities()
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let memory = memory.into_memory(MemoryId::generate());
        let id = memory.id;
        let store = move |database: &Database| ledger::store(database, &[memory]);
        Ok(self.shared.write("store", store).await?.first().copied().unwrap_or(id))
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let store = move |database: &Database| ledger::store(database, &check_batch(memories)?);
        self.shared.write("store_many", store).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let now = self.shared.config.clock.now();
        self.shared.write("update", move |database| ledger::update(database, id, &patch, now)).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.shared.read("get", move |database| ledger::get(database, id)).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        if query.text().is_some() && self.shared.config.text_index != TextIndex::All {
            return self.shared.gate.read("query", async { Err(Error::no_ledger_text()) }).await;
        }
        let query = query.clone();
        self.shared.read("query", move |database| ledger::query(database, &query)).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        self.shared.write("restore", move |database| ledger::restore(database, &memories)).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(RedbDocuments { shared: Arc::clone(&self.shared) })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).finish_non_exhaustive()
    }
}
