//! The one place of the runtime that touches the provider.

use std::sync::Arc;

use memory_core::filter::Field;
use memory_core::plugin::Plugin;
use memory_core::{
    Clock, Cursor, DocumentStore, Filter, JsonText, Ledger, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider,
    MemoryQuery, NewMemory, Order, QueryBuilder, Result, Status, Timestamp, Updated,
};

use crate::NewTask;
use crate::claim::{Claim, TASK};

/// Everything that the runtime asks of its memory. Nothing else holds the provider, apart from the provider's own
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

    /// The plugin that the provider brings along.
    pub(crate) fn plugin(&self) -> Arc<dyn Plugin> {
        Arc::clone(&self.provider).plugin()
    }

    pub(crate) async fn shutdown(&self) -> Result<()> {
        self.provider.shutdown().await
    }

    /// The present, by the clock of the leases.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Persists the trigger of a task that somebody holds already, so that nobody else takes it.
    pub(crate) async fn store_task(&self, task: &NewTask, claim: &Claim) -> Result<MemoryId> {
        let memory = new_memory(task)?.with_metadata(claim.add_to(&task.metadata, &task.space)?);
        self.provider.store(memory).await
    }

    /// Persists what was seen and is not answered.
    pub(crate) async fn observe(&self, task: &NewTask) -> Result<MemoryId> {
        self.provider.store(new_memory(task)?.with_metadata(task.metadata.clone()).with_status(Status::Observed)).await
    }

    pub(crate) async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        self.provider.update(id, patch).await
    }

    pub(crate) async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.provider.get(id).await
    }

    /// One page of what a query finds.
    pub(crate) async fn query(&self, query: QueryBuilder<Ledger>) -> Result<MemoryPage> {
        self.provider.query(&query.build()?).await
    }

    /// The documents beside the ledger.
    pub(crate) fn documents(&self) -> Arc<dyn DocumentStore> {
        self.provider.documents()
    }

    /// One page of the open tasks that nobody holds at this time, or that an earlier run of this instance held, oldest
    /// first. Costs what is open, not what the ledger holds (Q9).
    pub(crate) async fn free_tasks(
        &self,
        instance: &str,
        holder: &str,
        now: Timestamp,
        cursor: Option<&Cursor>,
    ) -> Result<MemoryPage> {
        let member = |name| Field::metadata([TASK, name]);
        let expired = member("leaseUntil").le(now.as_millis());
        let own: Filter = member("instance").eq(instance).and(member("holder").ne(holder));
        let query = MemoryQuery::builder().all().status(Status::Pending).status(Status::Running);
        let query = query.filter(expired.or(own)).order(Order::OldestFirst);
        let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor));
        self.query(query).await
    }
}

fn new_memory(task: &NewTask) -> Result<NewMemory> {
    let trigger = JsonText::from_value(&task.trigger)?;
    Ok(NewMemory::new(task.space.id().clone(), trigger, task.trigger.timestamp))
}
