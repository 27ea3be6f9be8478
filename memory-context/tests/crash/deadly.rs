//! The points at which a process may be killed: before and behind each write, and each effect that the world sees.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_core::{
    Backfill, Changes, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentRecall,
    DocumentSelection, DocumentStore, DocumentWrite, Health, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider,
    MemoryQuery, MemoryRecall, NewMemory, Recalled, RestoreReport, Result, SpaceLevel, SpaceQuery, Updated, Watch,
};

/// The environment variable with the number of the point at which the process kills itself.
pub(crate) const KILL: &str = "MEMORY_TEST_KILL";

static PASSED: AtomicUsize = AtomicUsize::new(0);

/// A point.
fn point() {
    let kill = std::env::var(KILL).ok().and_then(|kill| kill.parse().ok());
    if kill == Some(PASSED.fetch_add(1, Ordering::SeqCst)) {
        std::process::abort();
    }
}

/// How many points the process has passed.
pub(crate) fn passed() -> usize {
    PASSED.load(Ordering::SeqCst)
}

/// Shows the world something, as a line of a file, between two points.
pub(crate) fn effect(folder: &Path, line: &str) {
    point();
    let file = OpenOptions::new().create(true).append(true).open(folder.join("effects"));
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("a file");
    point();
}

/// What the world has seen.
pub(crate) fn effects(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Does a write between two points.
async fn between_points<T>(write: impl Future<Output = Result<T>>) -> Result<T> {
    point();
    let written = write.await;
    point();
    written
}

/// A provider whose writes lie between points.
#[derive(Debug)]
pub(crate) struct Deadly(pub(crate) Arc<dyn MemoryProvider>);

#[async_trait]
impl MemoryProvider for Deadly {
    async fn init(&self) -> Result<()> {
        self.0.init().await
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        between_points(self.0.store(memory)).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        between_points(self.0.store_many(memories)).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.0.get(id).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        self.0.query(query).await
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        self.0.recall(recall).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        between_points(self.0.update(id, patch)).await
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.0.spaces(query).await
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        self.0.watch(watch).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        self.0.restore(memories).await
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        self.0.backfill().await
    }

    async fn check_health(&self) -> Result<Health> {
        self.0.check_health().await
    }

    async fn shutdown(&self) -> Result<()> {
        self.0.shutdown().await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(DeadlyDocuments(self.0.documents()))
    }
}

/// The same for documents.
#[derive(Debug)]
struct DeadlyDocuments(Arc<dyn DocumentStore>);

#[async_trait]
impl DocumentStore for DeadlyDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        between_points(self.0.put(write)).await
    }

    async fn put_many(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Document>> {
        between_points(self.0.put_many(writes)).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        self.0.get(collection, id).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        self.0.query(query).await
    }

    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>> {
        self.0.recall(recall).await
    }

    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.0.spaces(collection, query).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        between_points(self.0.remove(selection, max)).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        self.0.restore(documents).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        self.0.collections().await
    }
}
