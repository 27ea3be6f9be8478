//! The memory manager, which makes all calls of the runtime to the provider except those of the leases.

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

/// The calls of the runtime to its memory. Apart from it, only the leases and the provider's own plugin hold the provider (R3).
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

    /// The plugin of the provider; with an embedder, the standard plugin with this model.
    pub(crate) fn plugin(&self, embedder: Option<Arc<dyn Embedder>>) -> Arc<dyn Plugin> {
        match embedder {
            Some(embedder) => Arc::new(MemoryPlugin::new(Arc::clone(&self.provider)).with_embedder(embedder)),
            None => Arc::clone(&self.provider).plugin(),
        }
    }

    pub(crate) async fn shutdown(&self) -> Result<()> {
        self.provider.shutdown().await
    }

    /// The present time by the clock of the leases.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Makes leases on tasks of this memory with an instance name.
    pub(crate) fn leases(&self, instance: Option<&str>, length: Duration) -> Arc<Leases> {
        Leases::new(Arc::clone(&self.provider), Arc::clone(&self.clock), instance, length)
    }

    /// Stores the trigger of a task together with a claim, so that nobody else can take it.
    pub(crate) async fn store_task(&self, task: &NewTask, claim: &Claim) -> Result<MemoryId> {
        let memory = new_memory(task)?.with_metadata(place::describe(task, claim)?);
        self.provider.store(memory).await
    }

    /// Stores an event with the status `observed`.
    pub(crate) async fn observe(&self, task: &NewTask) -> Result<MemoryId> {
        self.provider.store(new_memory(task)?.with_metadata(task.metadata.clone()).with_status(Status::Observed)).await
    }

    /// Returns the memory with this id. `None` if there is none, or if it was erased.
    pub(crate) async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        match self.provider.get(id).await {
            Err(error) if error.kind() == ErrorKind::Erased => Ok(None),
            found => found,
        }
    }

    /// Returns one page of a query of the ledger.
    pub(crate) async fn query(&self, query: QueryBuilder<Ledger>) -> Result<MemoryPage> {
        self.provider.query(&query.build()?).await
    }

    /// The document store of the provider.
    pub(crate) fn documents(&self) -> Arc<dyn DocumentStore> {
        self.provider.documents()
    }

    /// Returns one page of the free tasks of runtimes, by the filter of [`Leases::free`], oldest first. The cost grows with the open
    /// tasks, not with the ledger (Q9).
    pub(crate) async fn free_tasks(&self, free: &Filter, cursor: Option<&Cursor>) -> Result<MemoryPage> {
        // Messages of agents are leased the same way, but have no container.
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
