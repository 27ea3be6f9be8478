//! A read-only view of the ledger for the verbs.

use std::sync::Arc;

use crate::{Memory, MemoryPage, MemoryProvider, MemoryQuery, MemoryRecall, Recalled, Result};

/// A wrapper of a provider that exposes only the methods that read the ledger.
#[derive(Debug)]
pub(super) struct ReadOnlyLedger(Arc<dyn MemoryProvider>);

impl ReadOnlyLedger {
    pub(super) fn new(provider: Arc<dyn MemoryProvider>) -> Self {
        Self(provider)
    }

    /// Calls [`MemoryProvider::query`].
    pub(super) async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        self.0.query(query).await
    }

    /// Calls [`MemoryProvider::recall`].
    pub(super) async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        self.0.recall(recall).await
    }
}
