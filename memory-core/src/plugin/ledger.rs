//! The ledger as the verbs have it: there to be read.

use std::sync::Arc;

use crate::{Memory, MemoryPage, MemoryProvider, MemoryQuery, MemoryRecall, Recalled, Result};

/// A provider of which only what reads the ledger can be called.
#[derive(Debug)]
pub(super) struct ReadOnlyLedger(Arc<dyn MemoryProvider>);

impl ReadOnlyLedger {
    pub(super) fn new(provider: Arc<dyn MemoryProvider>) -> Self {
        Self(provider)
    }

    /// See [`MemoryProvider::query`].
    pub(super) async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        self.0.query(query).await
    }

    /// What answers a question best: [`MemoryProvider::recall`].
    pub(super) async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        self.0.recall(recall).await
    }
}
