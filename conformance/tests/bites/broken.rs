//! The reference with one bug.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::plugin::Plugin;
use memory_core::{
    Capabilities, Context, ContextPatch, DocumentStore, ErrorKind, Health, InMemory, IntoDynProvider, Memory, MemoryId,
    MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, MetadataPatch, NewMemory, RestoreReport, Result, Revision,
    Updated,
};

use crate::documents::BrokenDocuments;
use crate::flaw::Flaw;
use crate::naive::Naive;
use crate::plugin::BrokenPlugin;

/// A provider that passes every call on, apart from its flaw.
#[derive(Debug)]
pub(crate) struct Broken {
    naive: Naive,
    documents: Arc<BrokenDocuments>,
    flaw: Flaw,
}

impl Broken {
    pub(crate) fn new(inner: InMemory, flaw: Flaw) -> Self {
        let documents = Arc::new(BrokenDocuments::new(inner.documents(), flaw));
        Self { naive: Naive::new(inner, flaw), documents, flaw }
    }

    fn inner(&self) -> &InMemory {
        self.naive.inner()
    }

    /// The memory as this provider gives it to its callers.
    fn seen(&self, mut memory: Memory) -> Memory {
        match self.flaw {
            Flaw::UpdateMovesCreatedAt => memory.created_at = memory.updated_at.unwrap_or(memory.created_at),
            Flaw::EmptyContextIsAbsent => memory.context = memory.context.filter(|context| context.as_str() != r#""""#),
            _ => {}
        }
        memory
    }
}

#[async_trait]
impl MemoryProvider for Broken {
    async fn init(&self) -> Result<()> {
        self.inner().init().await
    }

    async fn check_health(&self) -> Result<Health> {
        self.inner().check_health().await
    }

    async fn shutdown(&self) -> Result<()> {
        match self.flaw {
            Flaw::ClosedStillAnswers => Ok(()),
            _ => self.inner().shutdown().await,
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    async fn store(&self, mut memory: NewMemory) -> Result<MemoryId> {
        if self.flaw == Flaw::KeyIgnored {
            memory.idempotency_key = None;
        }
        let key = memory.idempotency_key.clone();
        match self.inner().store(memory).await {
            Err(error)
                if error.kind() == ErrorKind::Conflict && self.flaw == Flaw::KeyReturnsFirstWhateverTheTrigger =>
            {
                let all = self.naive.everything().await?;
                all.iter().find(|memory| memory.idempotency_key == key).map(|memory| memory.id).ok_or(error)
            }
            result => result,
        }
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        if self.flaw != Flaw::BatchIsPartlyApplied {
            return self.inner().store_many(memories).await;
        }
        let mut ids = Vec::new();
        for memory in memories {
            ids.push(self.inner().store(memory).await?);
        }
        Ok(ids)
    }

    async fn update(&self, id: MemoryId, mut patch: MemoryPatch) -> Result<Updated> {
        match (self.flaw, &patch.context, &patch.metadata) {
            (Flaw::IfRevisionIgnored, ..) => patch.if_revision = None,
            (Flaw::MergeReplaces, _, MetadataPatch::Merge(metadata)) => {
                patch.metadata = MetadataPatch::Replace(metadata.clone());
            }
            (Flaw::ClearKeepsNull, ContextPatch::Clear, _) => {
                patch.context = ContextPatch::Set(Context::parse("null")?);
            }
            _ => {}
        }
        match self.inner().update(id, patch).await {
            Err(error) if error.kind() == ErrorKind::NotFound && self.flaw == Flaw::UpdateOfUnknownSucceeds => {
                Ok(Updated { revision: Revision::FIRST, updated_at: None })
            }
            result => result,
        }
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        Ok(self.inner().get(id).await?.map(|memory| self.seen(memory)))
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let mut page = self.naive.query(query).await?;
        page.memories = page.memories.into_iter().map(|memory| self.seen(memory)).collect();
        Ok(page)
    }

    async fn restore(&self, mut memories: Vec<Memory>) -> Result<RestoreReport> {
        if self.flaw == Flaw::RestoreMakesNewIds {
            memories.iter_mut().for_each(|memory| memory.id = MemoryId::generate());
        }
        self.inner().restore(memories).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::clone(&self.documents) as Arc<dyn DocumentStore>
    }

    fn plugin(self: Arc<Self>) -> Arc<dyn Plugin> {
        let flaw = self.flaw;
        Arc::new(BrokenPlugin::new(self.into_dyn(), flaw))
    }
}
