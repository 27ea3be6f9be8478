//! The one place of the runtime that touches the provider.

use std::sync::Arc;
use std::time::Duration;

use memory_core::filter::Field;
use memory_core::plugin::{MemoryPlugin, Plugin};
use memory_core::{
    Clock, Cursor, DocumentStore, Embedder, ErrorKind, Filter, JsonText, Ledger, Memory, MemoryId, MemoryPage,
    MemoryProvider, MemoryQuery, NewMemory, Order, QueryBuilder, Result, Status, Timestamp,
};

use crate::claim::{Claim, TASK};
use crate::leases::Leases;
use crate::{NewTask, place};

/// Everything that the runtime asks of its memory. Nothing else holds the provider, apart from its leases and the provider's own
/// plugin.
#[derive(Debug)]
pub(crate) struct MemoryManager {
    provider: Arc<dyn MemoryProvider>,
    clock: Arc<dyn Clock>,
}

impl MemoryManager {
    pub(crate) fn new(provider: Arc<dyn MemoryProvider>, clock: Arc<dyn Clock>) -> Self {
        Self { provider, clock }
    }

    pub(crate) async fn init(&self) -> Result<()> {
        self.provider.init().await
    }

    pub(crate) async fn check_health(&self) -> Result<()> {
        self.provider.check_health().await.map(drop)
    }

    /// The plugin that the provider brings along, or the standard one with this model.
    pub(crate) fn plugin(&self, embedder: Option<Arc<dyn Embedder>>) -> Arc<dyn Plugin> {
        match embedder {
            Some(embedder) => Arc::new(MemoryPlugin::new(Arc::clone(&self.provider)).with_embedder(embedder)),
            None => Arc::clone(&self.provider).plugin(),
        }
    }

    pub(crate) async fn shutdown(&self) -> Result<()> {
        self.provider.shutdown().await
    }

    /// The present, by the clock of the leases.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What takes tasks of this memory, under the name of an instance.
    pub(crate) fn leases(&self, instance: Option<&str>, length: Duration) -> Arc<Leases> {
        Leases::new(Arc::clone(&self.provider), Arc::clone(&self.clock), instance, length)
    }

    /// Persists the trigger of a task that somebody holds already, so that nobody else takes it.
    pub(crate) async fn store_task(&self, task: &NewTask, claim: &Claim) -> Result<MemoryId> {
        let memory = new_memory(task)?.with_metadata(place::describe(task, claim)?);
        self.provider.store(memory).await
    }

    /// Persists what was seen and is not answered.
    pub(crate) async fn observe(&self, task: &NewTask) -> Result<MemoryId> {
        self.provider.store(new_memory(task)?.with_metadata(task.metadata.clone()).with_status(Status::Observed)).await
    }

    /// The memory with this id. To a task, one that was erased is not there.
    pub(crate) async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        match self.provider.get(id).await {
            Err(error) if error.kind() == ErrorKind::Erased => Ok(None),
            found => found,
        }
    }

    /// One page of what a query finds.
    pub(crate) async fn query(&self, query: QueryBuilder<Ledger>) -> Result<MemoryPage> {
        self.provider.query(&query.build()?).await
    }

    /// The documents beside the ledger.
    pub(crate) fn documents(&self) -> Arc<dyn DocumentStore> {
        self.provider.documents()
    }

    /// One page of the open tasks of runtimes that are free, by [`Leases::free`], oldest first. Costs what is open, not what the ledger
    /// holds (Q9).
    pub(crate) async fn free_tasks(&self, free: &Filter, cursor: Option<&Cursor>) -> Result<MemoryPage> {
        // Messages of agents are leased alike, and have no container.
        let is_placed = Field::metadata([TASK, "container"]).is_not_null();
        let query = MemoryQuery::builder().all().status(Status::Pending).status(Status::Running);
        let query = query.filter(is_placed.and(free.clone())).order(Order::OldestFirst);
        let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor));
        self.query(query).await
    }
}

fn new_memory(task: &NewTask) -> Result<NewMemory> {
    let trigger = JsonText::from_value(&task.trigger)?;
    Ok(NewMemory::new(task.space.id().clone(), trigger, task.trigger.timestamp))
}
