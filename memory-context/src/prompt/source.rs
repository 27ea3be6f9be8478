//! What the prompt memory of an agent can be.

use std::fmt;

use async_trait::async_trait;
use memory_core::{IdempotencyKey, Result};

use super::{MemoryContext, MemoryLoadContext, MemoryUpdate, PromptMemory, SyncReport};

/// Where the prompt memory of an agent lies, held as `Arc<dyn PromptSource>`: a [`PromptMemory`] over any engine, or a host's own.
///
/// A call of one that an agent has may take ten seconds; then its future is dropped, and it has failed, as one that panics has. The
/// message is answered all the same.
#[async_trait]
pub trait PromptSource: Send + Sync + 'static {
    /// What goes into the prompt of a turn; `None` when there is nothing to put there.
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>>;

    /// Applies what a model decided to keep, each update to its store, all or none of one store. A batch that is repeated under its
    /// key doubles nothing; other updates under a known key are `Conflict`.
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
