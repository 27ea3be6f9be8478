//! A wrapper that gives a prompt memory a deadline.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use memory_core::{Error, ErrorKind, IdempotencyKey, Outcome, Result};
use tokio::time::timeout;

use super::{MemoryContext, MemoryLoadContext, MemoryUpdate, PromptSource, SyncReport};
use crate::deadline::late;

/// The deadline of one call of the host's prompt memory.
const DEADLINE: Duration = Duration::from_secs(10);

/// Wraps a host's prompt memory. A call that panics fails with `Unexpected`, and one that misses [`DEADLINE`] with `Timeout`.
#[derive(Debug)]
pub(crate) struct Guarded(Arc<dyn PromptSource>);

impl Guarded {
    pub(crate) fn new(source: Arc<dyn PromptSource>) -> Self {
        Self(source)
    }
}

#[async_trait]
impl PromptSource for Guarded {
    async fn prefetch(&self, context: &MemoryLoadContext) -> Result<Option<MemoryContext>> {
        guarded(Outcome::NotDone, async { self.0.prefetch(context).await }).await
    }

    async fn sync(
        &self,
        context: &MemoryLoadContext,
        batch: &IdempotencyKey,
        updates: &[MemoryUpdate],
    ) -> Result<SyncReport> {
        guarded(Outcome::Unknown, async { self.0.sync(context, batch, updates).await }).await
    }
}

/// Runs a call with a deadline; `outcome` is that of the error if the call panics or is late.
async fn guarded<T>(outcome: Outcome, call: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(DEADLINE, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Error::new(ErrorKind::Unexpected, "the prompt memory panicked").with_outcome(outcome)),
        Err(_) => Err(late(DEADLINE, outcome)),
    }
}
