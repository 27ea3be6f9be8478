//! The handle to the records of one agent.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{
    Clock, DocumentStore, Ledger, MAX_LIMIT, Memory, MemoryProvider, QueryBuilder, Result, SpaceId, SystemClock,
    Timestamp, Unreadable,
};

use tokio::sync::Mutex;

use super::id::{AgentId, RoomId};
use super::layout::{room_space, task_space};
use super::table::Table;
use crate::embedding::{Cached, Embedder, Hurried, keeper};

/// The records of one agent, on any engine. Cloning is cheap.
///
/// Agents that share a provider don't see each other's records.
#[derive(Debug, Clone)]
pub struct Records {
    provider: Arc<dyn MemoryProvider>,
    documents: Arc<dyn DocumentStore>,
    agent: AgentId,
    /// The embedding model, with a cache for questions.
    embedder: Option<Arc<Cached>>,
    clock: Arc<dyn Clock>,
    upkeep: Arc<Upkeep>,
}

#[derive(Debug, Default)]
struct Upkeep {
    /// Locked while vectors are made, so that concurrent calls don't make the same ones.
    at_it: Mutex<()>,
    /// Locked by the one call that waits for `at_it`. It will see every record that the calls before it could see.
    waits: Mutex<()>,
}

impl Records {
    /// Makes a handle without an embedder. The caller must initialise the provider.
    pub fn new(provider: Arc<dyn MemoryProvider>, agent: AgentId) -> Self {
        let documents = provider.documents();
        Self { provider, documents, agent, embedder: None, clock: Arc::new(SystemClock), upkeep: Arc::default() }
    }

    /// Sets the embedding model, with which facts and messages are also found by meaning. It must be the model of the namespace, with which
    /// [`upkeep`](Self::upkeep) or a separate [`keeper`] makes the vectors. The engine must support vectors.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(Arc::new(Cached::new(embedder)));
        self
    }

    /// Sets the clock that gives documents their `createdAt`; the system clock by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes all missing vectors of the memory with the [`keeper`], and returns how many were made. Call it from time to time, for example
    /// after each run. Without an embedder it does nothing. If the future is dropped, the next call continues from there.
    ///
    /// Only one call on these records and their clones works at a time. A second call waits for it; a third returns at once, since the
    /// second will do its work.
    ///
    /// Fails with `SchemaMismatch` if the namespace has its vectors from another model; see
    /// [`VectorKeeper::taking_over`](crate::embedding::VectorKeeper::taking_over).
    pub async fn upkeep(&self) -> Result<usize> {
        let Some(embedder) = self.embedder.as_ref().map(|cached| Arc::clone(cached.inner())) else { return Ok(0) };
        let Ok(waits) = self.upkeep.waits.try_lock() else { return Ok(0) };
        let _at_it = self.upkeep.at_it.lock().await;
        drop(waits);
        let keeper = keeper(Arc::clone(&self.provider), embedder).clock(Arc::clone(&self.clock));
        keeper.catch_up().await.map(|kept| kept.embedded)
    }

    /// The agent to which the records belong.
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The space of a room. Everything under it belongs to the room.
    pub fn room_space(&self, room: &RoomId) -> Result<SpaceId> {
        room_space(&self.agent, room)
    }

    /// The space for the tasks of a room, including tasks of a runtime; they lie in it or below it.
    pub fn task_space(&self, room: &RoomId) -> Result<SpaceId> {
        task_space(&self.agent, room)
    }

    pub(crate) fn provider(&self) -> &Arc<dyn MemoryProvider> {
        &self.provider
    }

    pub(crate) fn documents(&self) -> &Arc<dyn DocumentStore> {
        &self.documents
    }

    pub(crate) fn has_embedder(&self) -> bool {
        self.embedder.is_some()
    }

    /// The embedder for questions, with a cache and this deadline; `None` if there is no embedder.
    pub(super) fn asking(&self, patience: Duration) -> Option<Arc<dyn Embedder>> {
        let cached = Arc::clone(self.embedder.as_ref()?);
        Some(Arc::new(Hurried { cached, patience }))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Reads the memories that a query finds and that `read` accepts, up to the limit of the query.
    pub(super) async fn find<T>(
        &self,
        query: QueryBuilder<Ledger>,
        read: impl Fn(&Memory) -> Option<T>,
    ) -> Result<Vec<T>> {
        let limit = query.clone().build()?.limit();
        self.take(query, limit, read).await
    }

    /// Like [`find`](Self::find), but without a limit.
    pub(super) async fn find_all<T>(
        &self,
        query: QueryBuilder<Ledger>,
        read: impl Fn(&Memory) -> Option<T>,
    ) -> Result<Vec<T>> {
        self.take(query, usize::MAX, read).await
    }

    pub(super) fn table(&self) -> Table<'_> {
        Table { documents: &self.documents, agent: &self.agent }
    }

    /// Reads at most `limit` memories. It follows cursors, since a short page need not be the last.
    async fn take<T>(
        &self,
        query: QueryBuilder<Ledger>,
        limit: usize,
        read: impl Fn(&Memory) -> Option<T>,
    ) -> Result<Vec<T>> {
        let (mut found, mut cursor) = (Vec::new(), None);
        while found.len() < limit {
            let page = query.clone().limit((limit - found.len()).min(MAX_LIMIT));
            let page = cursor.iter().fold(page, |page, cursor| page.cursor(cursor));
            let page = self.provider.query(&page.build()?).await?;
            warn_of(&page.unreadable);
            found.extend(page.memories.iter().filter_map(&read));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

fn warn_of(unreadable: &[Unreadable]) {
    for row in unreadable {
        tracing::warn!(id = row.id, reason = row.reason, "a record of the ledger can't be read");
    }
}
