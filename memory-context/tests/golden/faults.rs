//! Parts of the agent that can be down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_context::core::{Error, ErrorKind, IdempotencyKey, Result};
use memory_context::embedding::Embedder;
use memory_context::prompt::{MemoryContext, MemoryLoadContext, MemoryUpdate, PromptMemory, PromptSource, SyncReport};

use crate::engine::{Around, Call};

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

/// The ledger can be down; the documents beside it never are.
impl Around for Switch {
    async fn around<T: Send>(&self, call: Call, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        if let Call::Get | Call::Read | Call::Store { .. } | Call::Update(_) | Call::StoreMany = call {
            self.pass("the ledger")?;
        }
        work.await
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
