//! An engine with something of a test's own around its calls.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Backfill, Changes, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentRecall,
    DocumentSelection, DocumentStore, DocumentWrite, Embedding, ErasedSlice, Erasure, HashKey, Health, History,
    HistoryPage, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall, NewMemory,
    Recalled, Record, RecordId, RestoreReport, Result, Retention, SpaceLevel, SpaceQuery, Sweep, Swept, Timestamp,
    Tombstone, TombstonePage, Updated, VectorModel, Version, Watch,
};

/// A call of an engine, as far as tests distinguish calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call {
    /// `init`, `check_health`, `backfill`, `set_read_only`, `is_read_only`, `set_retention` or `shutdown`.
    OfTheHost,
    /// A `get` of the ledger.
    Get,
    /// Any other read of the ledger.
    Read,
    /// A `store`, and whether it has an idempotency key.
    Store { is_keyed: bool },
    /// An `update`, with its patch.
    Update(Box<MemoryPatch>),
    /// `store_many`, `restore`, `restore_newer` or `restore_versions`.
    StoreMany,
    /// A `get` of a document.
    GetDocument,
    /// Any other read of documents.
    ReadDocuments,
    /// A `put` of a document.
    PutDocument,
    /// `put_many`, `remove`, `restore` or `restore_newer` of documents.
    PutDocuments,
}

/// What a test does around the calls of an engine.
pub(crate) trait Around: Debug + Clone + Send + Sync + 'static {
    /// Makes a call, whose work begins when it is awaited, or does something else instead.
    fn around<T: Send>(
        &self,
        call: Call,
        work: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Whether a `get` of the ledger finds existing memories.
    fn finds(&self) -> bool {
        true
    }
}

/// A provider whose calls, and those of its documents, go through the test.
#[derive(Debug)]
pub(crate) struct Wrapped<A> {
    pub(crate) engine: Arc<dyn MemoryProvider>,
    pub(crate) around: A,
}

#[async_trait]
impl<A: Around> MemoryProvider for Wrapped<A> {
    async fn init(&self) -> Result<()> {
        self.around.around(Call::OfTheHost, self.engine.init()).await
    }

    async fn check_health(&self) -> Result<Health> {
        self.around.around(Call::OfTheHost, self.engine.check_health()).await
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        self.around.around(Call::OfTheHost, self.engine.backfill()).await
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        self.around.around(Call::OfTheHost, self.engine.set_read_only(is_read_only)).await
    }

    async fn is_read_only(&self) -> Result<bool> {
        self.around.around(Call::OfTheHost, self.engine.is_read_only()).await
    }

    async fn shutdown(&self) -> Result<()> {
        self.around.around(Call::OfTheHost, self.engine.shutdown()).await
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let call = Call::Store { is_keyed: memory.idempotency_key.is_some() };
        self.around.around(call, self.engine.store(memory)).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        self.around.around(Call::StoreMany, self.engine.store_many(memories)).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let call = Call::Update(Box::new(patch.clone()));
        self.around.around(call, self.engine.update(id, patch)).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let found = self.around.around(Call::Get, self.engine.get(id)).await?;
        Ok(found.filter(|_| self.around.finds()))
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        self.around.around(Call::Read, self.engine.query(query)).await
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        self.around.around(Call::Read, self.engine.recall(recall)).await
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.around.around(Call::Read, self.engine.spaces(query)).await
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        self.around.around(Call::Read, self.engine.watch(watch)).await
    }

    async fn history(&self, history: &History) -> Result<HistoryPage> {
        self.around.around(Call::Read, self.engine.history(history)).await
    }

    async fn get_as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>> {
        self.around.around(Call::Read, self.engine.get_as_of(id, time)).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        self.around.around(Call::StoreMany, self.engine.restore(memories)).await
    }

    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        self.around.around(Call::StoreMany, self.engine.restore_newer(memories)).await
    }

    async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport> {
        self.around.around(Call::StoreMany, self.engine.restore_versions(versions)).await
    }

    async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice> {
        self.around.around(Call::StoreMany, self.engine.erase(erasure)).await
    }

    async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        self.around.around(Call::Read, self.engine.tombstone(record)).await
    }

    async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage> {
        self.around.around(Call::Read, self.engine.tombstones(behind)).await
    }

    async fn hash_key(&self) -> Result<Option<HashKey>> {
        self.around.around(Call::Read, self.engine.hash_key()).await
    }

    async fn sweep(&self, from: &Sweep) -> Result<Swept> {
        self.around.around(Call::StoreMany, self.engine.sweep(from)).await
    }

    async fn retention(&self) -> Result<Vec<Retention>> {
        self.around.around(Call::Read, self.engine.retention()).await
    }

    async fn set_retention(&self, rules: Vec<Retention>) -> Result<()> {
        self.around.around(Call::OfTheHost, self.engine.set_retention(rules)).await
    }

    async fn vector_model(&self) -> Result<Option<VectorModel>> {
        self.around.around(Call::Read, self.engine.vector_model()).await
    }

    async fn set_vector_model(&self, model: &VectorModel) -> Result<()> {
        self.around.around(Call::OfTheHost, self.engine.set_vector_model(model)).await
    }

    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>> {
        self.around.around(Call::OfTheHost, self.engine.embed(model, embeddings)).await
    }

    async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        self.around.around(Call::Read, self.engine.vectors(of)).await
    }

    async fn restore_tombstones(&self, tombstones: Vec<Tombstone>, key: &HashKey) -> Result<RestoreReport> {
        self.around.around(Call::StoreMany, self.engine.restore_tombstones(tombstones, key)).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(Documents { engine: self.engine.documents(), around: self.around.clone() })
    }
}

/// The documents of a [`Wrapped`] provider.
#[derive(Debug)]
struct Documents<A> {
    engine: Arc<dyn DocumentStore>,
    around: A,
}

#[async_trait]
impl<A: Around> DocumentStore for Documents<A> {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        self.around.around(Call::PutDocument, self.engine.put(write)).await
    }

    async fn put_many(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Document>> {
        self.around.around(Call::PutDocuments, self.engine.put_many(writes)).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        self.around.around(Call::GetDocument, self.engine.get(collection, id)).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        self.around.around(Call::ReadDocuments, self.engine.query(query)).await
    }

    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>> {
        self.around.around(Call::ReadDocuments, self.engine.recall(recall)).await
    }

    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.around.around(Call::ReadDocuments, self.engine.spaces(collection, query)).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        self.around.around(Call::PutDocuments, self.engine.remove(selection, max)).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        self.around.around(Call::PutDocuments, self.engine.restore(documents)).await
    }

    async fn restore_newer(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        self.around.around(Call::PutDocuments, self.engine.restore_newer(documents)).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        self.around.around(Call::ReadDocuments, self.engine.collections()).await
    }
}
