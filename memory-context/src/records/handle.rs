//! The records of one agent, as a host holds them.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{
    Clock, DocumentStore, Ledger, MAX_LIMIT, Memory, MemoryProvider, QueryBuilder, Result, SpaceId, SystemClock,
    Timestamp,
};

use tokio::sync::Mutex;

use super::id::{AgentId, RoomId};
use super::layout::{room_space, task_space};
use super::table::Table;
use crate::embedding::{Cached, Embedder, Hurried, keeper};

/// The records of one agent, on any engine. Cheap to clone.
///
/// Agents that share a provider don't see each other's records.
#[derive(Debug, Clone)]
pub struct Records {
    provider: Arc<dyn MemoryProvider>,
    documents: Arc<dyn DocumentStore>,
    agent: AgentId,
    /// What makes vectors of questions and of texts.
    embedder: Option<Arc<Cached>>,
    clock: Arc<dyn Clock>,
    upkeep: Arc<Upkeep>,
}

#[derive(Debug, Default)]
struct Upkeep {
    /// Held while vectors are made, so that none is made twice at once.
    at_it: Mutex<()>,
    /// Held by the one call that waits for that: it will see what any call before has seen.
    waits: Mutex<()>,
}

impl Records {
    /// The records of an agent, without embeddings. The provider is initialised by whoever holds it.
    pub fn new(provider: Arc<dyn MemoryProvider>, agent: AgentId) -> Self {
        let documents = provider.documents();
        Self { provider, documents, agent, embedder: None, clock: Arc::new(SystemClock), upkeep: Arc::default() }
    }

    /// With a model by which facts and messages are found by what they mean, too. It is that of the namespace: who makes the vectors, which is
    /// [`upkeep`](Self::upkeep) or a [`keeper`] elsewhere, uses the same one. The engine has to keep vectors.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(Arc::new(Cached::new(embedder)));
        self
    }

    /// With another clock; it tells when documents were made.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Does what is to be done from time to time, as after each run: has the [`keeper`] make the vectors that the memory lacks; tells how many
    /// were made. Nothing to do without an embedder. A call that is given up has done a part, and the next one goes on. While another
    /// call on these records or their clones is at it, this one waits for it to end; while a third waits already, that one does the
    /// part of this, which returns.
    ///
    /// `SchemaMismatch` where the namespace has its vectors from another model: see
    /// [`VectorKeeper::taking_over`](crate::embedding::VectorKeeper::taking_over).
    pub async fn upkeep(&self) -> Result<usize> {
        let Some(embedder) = self.embedder.as_ref().map(|cached| Arc::clone(cached.inner())) else { return Ok(0) };
        let Ok(waits) = self.upkeep.waits.try_lock() else { return Ok(0) };
        let _at_it = self.upkeep.at_it.lock().await;
        drop(waits);
        let keeper = keeper(Arc::clone(&self.provider), embedder).clock(Arc::clone(&self.clock));
        keeper.catch_up().await.map(|kept| kept.embedded)
    }

    /// Whose records they are.
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The space of a room: what lies under it belongs to the room.
    pub fn room_space(&self, room: &RoomId) -> Result<SpaceId> {
        room_space(&self.agent, room)
    }

    /// Where the tasks of a room go, or below it: those of a runtime, too.
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

    /// What makes the vector of a question within this time, if anything does. It remembers the last ones.
    pub(super) fn asking(&self, patience: Duration) -> Option<Arc<dyn Embedder>> {
        let cached = Arc::clone(self.embedder.as_ref()?);
        Some(Arc::new(Hurried { cached, patience }))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What of the ledger a query finds and `read` takes, up to the limit of the query. A page may be short: only one without a
    /// cursor ends.
    pub(super) async fn find<T>(
        &self,
        query: QueryBuilder<Ledger>,
        read: impl Fn(&Memory) -> Option<T>,
    ) -> Result<Vec<T>> {
        let limit = query.clone().build()?.limit();
        let (mut found, mut cursor) = (Vec::new(), None);
        while found.len() < limit {
            let page = query.clone().limit(limit - found.len());
            let page = cursor.iter().fold(page, |page, cursor| page.cursor(cursor));
            let page = self.provider.query(&page.build()?).await?;
            for row in page.unreadable {
                tracing::warn!(id = row.id, reason = row.reason, "a record of the ledger can't be read");
            }
            found.extend(page.memories.iter().filter_map(&read));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// The same without a limit.
    pub(super) async fn find_all<T>(
        &self,
        query: QueryBuilder<Ledger>,
        read: impl Fn(&Memory) -> Option<T>,
    ) -> Result<Vec<T>> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = query.clone().limit(MAX_LIMIT);
            let page = cursor.iter().fold(page, |page, cursor| page.cursor(cursor));
            let page = self.provider.query(&page.build()?).await?;
            found.extend(page.memories.iter().filter_map(&read));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    pub(super) fn table(&self) -> Table<'_> {
        Table { documents: &self.documents, agent: &self.agent }
    }
}
