//! Parts of the agent that can be down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use memory_context::core::{Error, ErrorKind, IdempotencyKey, Outcome, Result};
use memory_context::embedding::Embedder;
use memory_context::flow::Platform;
use memory_context::prompt::{MemoryContext, MemoryLoadContext, MemoryUpdate, PromptMemory, PromptSource, SyncReport};
use memory_context::records::Message;

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

/// An embedder for which all texts about a home mean the same.
#[derive(Debug)]
pub(crate) struct Homes;

#[async_trait]
impl Embedder for Homes {
    fn model(&self) -> &str {
        "homes"
    }

    fn width(&self) -> usize {
        2
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let tells_of_home = |text: &String| text.contains("lives in") || text.contains("home");
        Ok(texts.iter().map(|text| if tells_of_home(text) { vec![1.0, 0.0] } else { vec![0.0, 1.0] }).collect())
    }
}

/// A platform that never reports whether a message was said.
#[derive(Debug)]
pub(crate) struct Telegraph;

#[async_trait]
impl Platform for Telegraph {
    async fn say(&self, _: &Message) -> Result<()> {
        Err(Error::new(ErrorKind::Unavailable, "the line is cut").with_outcome(Outcome::Unknown))
    }
}
