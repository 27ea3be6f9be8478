//! The trait of a prompt memory.

use std::fmt;

use async_trait::async_trait;
use memory_core::{IdempotencyKey, Result};

use super::{MemoryContext, MemoryLoadContext, MemoryUpdate, PromptMemory, SyncReport};

/// The prompt memory of an agent: a [`PromptMemory`] over any engine, or a host's own. Held as `Arc<dyn PromptSource>`.
///
/// Each call of an agent has a deadline of ten seconds, at which its future is dropped. A call that is late, fails or panics does not keep
/// the message from being answered.
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
