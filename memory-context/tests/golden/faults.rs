//! Parts of the agent that can be down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_context::core::{
    Backfill, Changes, DocumentStore, Error, ErrorKind, Health, IdempotencyKey, Memory, MemoryId, MemoryPage,
    MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall, NewMemory, Recalled, RestoreReport, Result, SpaceLevel,
    SpaceQuery, Updated, Watch,
};
use memory_context::embedding::Embedder;
use memory_context::prompt::{MemoryContext, MemoryLoadContext, MemoryUpdate, PromptMemory, PromptSource, SyncReport};

/// Whether something is down. The clones are one switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(crate) fn goes_down(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn comes_back(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn pass(&self, what: &str) -> Result<()> {
        match self.0.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Unavailable, format!("{what} is down")).retryable()),
            false => Ok(()),
        }
    }
}

/// An engine whose ledger can be down; its documents never are.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) engine: Arc<dyn MemoryProvider>,
    pub(crate) switch: Switch,
}

impl Ledger {
    fn up(&self) -> Result<&dyn MemoryProvider> {
        self.switch.pass("the ledger").map(|()| self.engine.as_ref())
    }
}

#[async_trait]
impl MemoryProvider for Ledger {
    async fn init(&self) -> Result<()> {
        self.engine.init().await
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        self.up()?.store(memory).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        self.up()?.store_many(memories).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.up()?.get(id).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        self.up()?.query(query).await
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        self.up()?.recall(recall).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        self.up()?.update(id, patch).await
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.up()?.spaces(query).await
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        self.up()?.watch(watch).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        self.up()?.restore(memories).await
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        self.engine.backfill().await
    }

    async fn check_health(&self) -> Result<Health> {
        self.engine.check_health().await
    }

    async fn shutdown(&self) -> Result<()> {
        self.engine.shutdown().await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        self.engine.documents()
    }
}

/// Prompt memory that can be down.
#[derive(Debug)]
pub(crate) struct Prompts {
    pub(crate) memory: PromptMemory,
    pub(crate) switch: Switch,
}

#[async_trait]
impl PromptSource for Prompts {
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        self.switch.pass("the prompt memory")?;
        self.memory.prefetch(context).await
    }

    async fn sync(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        self.switch.pass("the prompt memory")?;
        self.memory.sync_once(context, batch, updates).await
    }
}

/// An embedder that is down.
#[derive(Debug)]
pub(crate) struct NoVectors;

#[async_trait]
impl Embedder for NoVectors {
    fn model(&self) -> &str {
        "down"
    }

    fn width(&self) -> usize {
        2
    }

    async fn embed(&self, _: &[String]) -> Result<Vec<Vec<f32>>> {
        Err(Error::new(ErrorKind::Unavailable, "the embedder is down"))
    }
}
