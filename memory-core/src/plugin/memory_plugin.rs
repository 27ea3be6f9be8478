//! The standard memory plugin: the same three verbs on every engine.

use std::sync::Arc;

use async_trait::async_trait;

use super::add_document::AddDocument;
use super::ledger::ReadOnlyLedger;
use super::query::QueryMemory;
use super::remove_document::RemoveDocument;
use super::{Executor, Plugin};
use crate::{MemoryProvider, Result};

/// `memory:query`, `memory:add_document` and `memory:remove_document`, over the documents of a provider and a read-only view of
/// its ledger.
///
/// A provider that adds verbs of its own implements [`Plugin`] with its executors behind those of this one.
#[derive(Debug)]
pub struct MemoryPlugin {
    executors: [Arc<dyn Executor>; 3],
}

impl MemoryPlugin {
    /// The plugin over a provider.
    pub fn new(provider: Arc<dyn MemoryProvider>) -> Self {
        let documents = provider.documents();
        Self {
            executors: [
                Arc::new(QueryMemory::new(Arc::clone(&documents), ReadOnlyLedger::new(provider))),
                Arc::new(AddDocument::new(Arc::clone(&documents))),
                Arc::new(RemoveDocument::new(documents)),
            ],
        }
    }
}

#[async_trait]
impl Plugin for MemoryPlugin {
    fn id(&self) -> &str {
        "memory"
    }

    fn description(&self) -> &str {
        "Remembers across conversations: searches what was saved and what happened, saves texts, and removes them."
    }

    fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.executors
    }

    async fn init(&self) -> Result<()> {
        Ok(())
    }

    /// Leaves the provider open: it belongs to the host.
    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}
