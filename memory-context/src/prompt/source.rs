//! The trait of a prompt memory.

use std::fmt;

use async_trait::async_trait;
use memory_core::{IdempotencyKey, Result};

use super::{MemoryContext, MemoryLoadContext, MemoryUpdate, PromptMemory, SyncReport};

/// The prompt memory of an agent: a [`PromptMemory`] over any engine, or a host's own. Held as `Arc<dyn PromptSource>`.
///
/// An agent gives each call ten seconds; then the future is dropped and the call has failed. A panic is a failure, too. The message is
/// answered anyway.
#[async_trait]
pub trait PromptSource: Send + Sync + 'static {
    /// Returns the text for the prompt of a turn; `None` if there is none.
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>>;

    /// Applies the updates that a model decided on, each to its store; those of one store atomically. Repeating a batch under its key
    /// applies nothing twice; other updates under a known key fail with `Conflict`.
    async fn sync(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport>;
}

impl fmt::Debug for dyn PromptSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PromptSource")
    }
}

#[async_trait]
impl PromptSource for PromptMemory {
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        Self::prefetch(self, context).await
    }

    async fn sync(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        self.sync_once(context, batch, updates).await
    }
}
