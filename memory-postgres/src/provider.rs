//! The provider: translation of the contract to PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use async_trait::async_trait;
use memory_core::{
    Capabilities, DocumentStore, Durability, Error, ErrorKind, Gate, Group, Health, Memory, MemoryId, MemoryPage,
    MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, RestoreReport, Result, TextIndex, Updated, check_batch,
    record_rows,
};
use sqlx::Row;
use tokio::sync::RwLock;
use uuid::Uuid;

use crate::config::PostgresConfig;
use crate::connection::{Connections, retry, retry_repeatable};
use crate::documents::PostgresDocuments;
use crate::error::{native, native_write};
use crate::statements::{self, column, id_to_sql};
use crate::writing::words_of;
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
        self.shared.gate.write("store", async { Group::store(&self.shared.connections().await?, memory).await }).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let work = async {
            let memories = check_batch(memories)?;
            record_rows(memories.len());
            let memories: Vec<_> = memories.iter().collect();
            self.shared.connections().await?.store_all(&memories).await
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
                let memory = connections.memory(&mut session, id).await?;
                session.commit().await.map(|()| memory)
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
        if self.has_ledger_text.load(Ordering::Relaxed) {
            let is_complete = session.statement(&statements.is_ledger_text_complete).fetch_one(&mut *session).await;
            if is_complete.and_then(|row| row.try_get(0)).map_err(native)? {
                return session.commit().await;
            }
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

    pub(crate) async fn refresh_has_ledger_text(&self) -> Result<()> {
        let mut session = self.write().await?;
        let has_text = session.statement(&self.statements.has_ledger_text).bind(self.statements.ledger_text.clone());
        let answer = has_text.fetch_one(&mut *session).await;
        if answer.and_then(|row| row.try_get(0)).map_err(native)? {
            self.has_ledger_text.store(true, Ordering::Relaxed);
        }
        session.commit().await
    }
}
