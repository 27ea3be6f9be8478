//! The provider: translation of the contract to Redis.

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use memory_core::{
    Capabilities, DocumentStore, Error, ErrorKind, Gate, Health, Memory, MemoryId, MemoryPage, MemoryPatch,
    MemoryProvider, MemoryQuery, NewMemory, RestoreReport, Result, TextIndex, Updated, check_batch, record_rows,
};

use crate::config::RedisConfig;
use crate::connection::Connections;
use crate::documents::RedisDocuments;
use crate::{migrate, query};

/// Agent memory in a namespace of a Redis server or cluster.
///
/// Open it, call [`init`](MemoryProvider::init), and hold it as `Arc<dyn MemoryProvider>`. Clones share the connections.
#[derive(Debug, Clone)]
pub struct RedisMemory {
    shared: Arc<Shared>,
}

/// What the ledger and the documents of one provider share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: RedisConfig,
    pub(crate) gate: Gate,
    /// Set by `init`, taken by `shutdown`.
    connections: RwLock<Option<Arc<Connections>>>,
}

const BACKEND: &str = "redis";

impl RedisMemory {
    /// A provider for a server (by its URL) or with other settings. Touches nothing before [`init`](MemoryProvider::init).
    ///
    /// `InvalidInput` when the URL or the namespace is not valid.
    pub fn open<C>(config: C) -> Result<Self>
    where
        C: TryInto<RedisConfig>,
        Error: From<C::Error>,
    {
        let config = config.try_into()?;
        config.check()?;
        let gate = Gate::new(BACKEND, config.deadline);
        Ok(Self { shared: Arc::new(Shared { config, gate, connections: RwLock::default() }) })
    }
}

impl Shared {
    /// The connections, behind a gate that is open.
    pub(crate) fn connections(&self) -> Result<Arc<Connections>> {
        let connections = self.connections.read().unwrap_or_else(PoisonError::into_inner);
        connections.clone().ok_or_else(|| Error::new(ErrorKind::Closed, "the provider has no connection"))
    }

    fn set_connections(&self, connections: Option<Arc<Connections>>) -> Option<Arc<Connections>> {
        std::mem::replace(&mut *self.connections.write().unwrap_or_else(PoisonError::into_inner), connections)
    }
}

#[async_trait]
impl MemoryProvider for RedisMemory {
    async fn init(&self) -> Result<()> {
        let work = async {
            let connections = Connections::new(&self.shared.config)?;
            connections.retry_repeatable(|| migrate::run(&connections)).await?;
            if self.shared.config.text_index == TextIndex::All {
                connections.index_words().await?;
            }
            self.shared.set_connections(Some(Arc::new(connections)));
            Ok(())
        };
        self.shared.gate.init(work).await
    }

    async fn check_health(&self) -> Result<Health> {
        let work = async {
            let connections = self.shared.connections()?;
            connections.retry(|| connections.health()).await
        };
        self.shared.gate.health(work).await
    }

    async fn shutdown(&self) -> Result<()> {
        let work = async {
            // The gate let the calls in flight finish.
            if let Some(connections) = self.shared.set_connections(None) {
                connections.close();
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
        self.shared.gate.write("store", async { self.shared.connections()?.store(memory).await }).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let work = async {
            let memories = check_batch(memories)?;
            record_rows(memories.len());
            self.shared.connections()?.store_many(&memories).await
        };
        self.shared.gate.write("store_many", work).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let work = async {
            let connections = self.shared.connections()?;
            loop {
                // Only a race that was lost is run again, until the deadline.
                if let Some(updated) = connections.update(id, &patch, self.shared.config.clock.now()).await? {
                    return Ok(updated);
                }
            }
        };
        self.shared.gate.write("update", work).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let work = async {
            let connections = self.shared.connections()?;
            connections.retry(|| connections.memory(id)).await
        };
        self.shared.gate.read("get", work).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let work = async {
            if query.text().is_some() && self.shared.config.text_index != TextIndex::All {
                return Err(Error::no_ledger_text());
            }
            let connections = self.shared.connections()?;
            let recall = || async {
                // Nobody closes it, so this only waits. Who pauses before another attempt takes no turn meanwhile.
                let _turn = connections.recalls.acquire().await;
                query::memories(&connections, query).await
            };
            let page = connections.retry(recall).await?;
            record_rows(page.memories.len());
            Ok(page)
        };
        self.shared.gate.read("query", work).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.connections()?.restore(&memories).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore", work).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(RedisDocuments::new(Arc::clone(&self.shared)))
    }
}
