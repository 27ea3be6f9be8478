//! The reference engine behind a connection that can break, for the cases on servers in trouble.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use conformance::fault::Faults;
use conformance::{Harness, Namespace};
use futures::future::BoxFuture;
use memory_core::{
    Backfill, Changes, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentRecall,
    DocumentSelection, DocumentStore, DocumentWrite, Embedding, ErasedSlice, Erasure, Error, ErrorKind, HashKey,
    Health, History, HistoryPage, InMemory, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery,
    MemoryRecall, NewMemory, Outcome, Recalled, Record, RecordId, RestoreReport, Result, Retention, SpaceLevel,
    SpaceQuery, Sweep, Swept, Timestamp, Tombstone, TombstonePage, Updated, VectorModel, Version, Watch,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::flaw::Flaw;

/// The number of memories that a restore with [`Flaw::RestoreForgetsItsStart`] sends at once.
const SLICE: usize = 100;

/// A server, and a harness whose providers have one flaw.
#[derive(Debug)]
pub(crate) struct WiredHarness {
    flaw: Flaw,
    url: String,
    calls: Arc<Calls>,
    open: Mutex<HashMap<String, InMemory>>,
    server: AbortHandle,
}

/// The calls to the server. Only the number of a call goes over the connection, and comes back when the call was made;
/// everything else stays in this process.
#[derive(Default)]
struct Calls {
    count: AtomicU64,
    waiting: Mutex<HashMap<u64, BoxFuture<'static, ()>>>,
}

impl WiredHarness {
    pub(crate) async fn new(flaw: Flaw) -> io::Result<Arc<Self>> {
        let (listener, calls) = (TcpListener::bind("127.0.0.1:0").await?, Arc::<Calls>::default());
        let url = format!("wired://{}", listener.local_addr()?);
        let server = tokio::spawn(serve(listener, Arc::clone(&calls))).abort_handle();
        Ok(Arc::new(Self { flaw, url, calls, open: Mutex::default(), server }))
    }

    fn provider(&self, url: &str, namespace: &Namespace) -> Arc<dyn MemoryProvider> {
        let mut open = locked(&self.open);
        let inner = open.entry(namespace.name.clone()).or_default();
        Arc::new(Wired(Arc::new(Line {
            inner: inner.reopen_with(namespace.settings()),
            address: url.trim_start_matches("wired://").to_owned(),
            calls: Arc::clone(&self.calls),
            connection: tokio::sync::Mutex::default(),
            deadline: namespace.deadline,
            flaw: self.flaw,
        })))
    }
}

impl Drop for WiredHarness {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[async_trait]
impl Harness for WiredHarness {
    fn name(&self) -> &str {
        "wired"
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        Ok(self.provider(&self.url, namespace))
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        locked(&self.open).remove(&namespace.name);
        Ok(())
    }

    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }
}

#[async_trait]
impl Faults for WiredHarness {
    fn url(&self) -> &str {
        &self.url
    }

    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let url = if self.flaw == Flaw::GoesAroundTheProxy { &self.url } else { url };
        Ok(self.provider(url, namespace))
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

async fn serve(listener: TcpListener, calls: Arc<Calls>) {
    while let Ok((mut connection, _)) = listener.accept().await {
        let calls = Arc::clone(&calls);
        tokio::spawn(async move {
            while let Ok(number) = connection.read_u64().await {
                let call = locked(&calls.waiting).remove(&number);
                if let Some(call) = call {
                    call.await;
                }
                if connection.write_u64(number).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The way of one provider to the server.
#[derive(Debug)]
struct Line {
    inner: InMemory,
    address: String,
    calls: Arc<Calls>,
    connection: tokio::sync::Mutex<Option<TcpStream>>,
    deadline: Duration,
    flaw: Flaw,
}

impl Line {
    /// Lets the server make a call. An error says whether it may have been made.
    async fn ask<T, F>(&self, call: impl FnOnce(InMemory) -> F) -> Result<T, Outcome>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let ((reply, answer), call) = (oneshot::channel(), call(self.inner.clone()));
        let number = self.calls.count.fetch_add(1, Ordering::Relaxed);
        // The caller may be gone.
        let call = Box::pin(async move { drop(reply.send(call.await)) });
        locked(&self.calls.waiting).insert(number, call);
        let mut connection = self.connection.lock().await;
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => TcpStream::connect(&self.address).await.map_err(|_| Outcome::NotDone)?,
        };
        let (sent, back) = (stream.write_u64(number).await, stream.read_u64().await);
        sent.and(back).map_err(|_| Outcome::Unknown)?;
        *connection = Some(stream);
        answer.await.map_err(|_| Outcome::Unknown)
    }

    async fn read<T, F>(&self, call: impl FnOnce(InMemory) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let answer = tokio::time::timeout(self.deadline, self.ask(call)).await;
        answer.map_err(|_| late(Outcome::NotDone))?.map_err(|_| lost(Outcome::NotDone))?
    }

    /// Makes a call that writes, and again with this flaw when its answer is lost.
    async fn write<T, F>(&self, repeats: Option<Flaw>, call: impl Fn(InMemory) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let work = async {
            let mut answer = self.ask(&call).await;
            match self.flaw {
                Flaw::LostAnswersAreNotDone => answer = answer.map_err(|_| Outcome::NotDone),
                Flaw::RefusalHidesTheLoss if answer.is_err() => {
                    let again = self.ask(|inner| async move { inner.check_health().await.map(drop) }).await;
                    answer = answer.map_err(|lost| if again.is_ok() { lost } else { Outcome::NotDone });
                }
                flaw if Some(flaw) == repeats && answer.is_err() => answer = self.ask(&call).await,
                _ => {}
            }
            answer
        };
        let answer = tokio::time::timeout(self.deadline, work).await;
        answer.map_err(|_| late(Outcome::Unknown))?.map_err(lost)?
    }
}

fn late(outcome: Outcome) -> Error {
    Error::new(ErrorKind::Timeout, "no answer in time").with_outcome(outcome)
}

fn lost(outcome: Outcome) -> Error {
    Error::new(ErrorKind::Unavailable, "the line is broken").with_outcome(outcome)
}

#[derive(Debug)]
struct Wired(Arc<Line>);

#[async_trait]
impl MemoryProvider for Wired {
    async fn init(&self) -> Result<()> {
        self.0.read(|inner| async move { inner.init().await }).await
    }

    async fn check_health(&self) -> Result<Health> {
        match self.0.flaw {
            Flaw::HealthForgetsTheServer => self.0.inner.check_health().await,
            _ => {
                self.0.read(|inner| async move { inner.check_health().await }).await.map_err(|_| lost(Outcome::NotDone))
            }
        }
    }

    async fn shutdown(&self) -> Result<()> {
        self.0.inner.shutdown().await
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        self.0.inner.backfill().await
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let store = self.0.write(Some(Flaw::StoresAreRepeated), |inner| {
            let memory = memory.clone();
            async move { inner.store(memory).await }
        });
        match self.0.flaw {
            Flaw::SlowIsBroken => {
                tokio::time::timeout(Duration::from_millis(5), store).await.unwrap_or(Err(late(Outcome::Unknown)))
            }
            _ => store.await,
        }
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let store = async |memories: &[NewMemory]| {
            let call = |inner: InMemory| {
                let memories = memories.to_vec();
                async move { inner.store_many(memories).await }
            };
            self.0.write(Some(Flaw::StoresAreRepeated), call).await
        };
        if self.0.flaw != Flaw::BatchGoesOneByOne {
            return store(&memories).await;
        }
        let mut ids = Vec::new();
        for memory in memories {
            ids.extend(store(&[memory]).await.map_err(|error| error.with_outcome(Outcome::Unknown))?);
        }
        Ok(ids)
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let call = |inner: InMemory| {
            let patch = patch.clone();
            async move { inner.update(id, patch).await }
        };
        self.0.write(Some(Flaw::UpdatesAreRepeated), call).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.0.read(|inner| async move { inner.get(id).await }).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let query = query.clone();
        self.0.read(|inner| async move { inner.query(&query).await }).await
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        let recall = recall.clone();
        self.0.read(|inner| async move { inner.recall(&recall).await }).await
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        let query = query.clone();
        self.0.read(|inner| async move { inner.spaces(&query).await }).await
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        let watch = watch.clone();
        self.0.read(|inner| async move { inner.watch(&watch).await }).await
    }

    async fn history(&self, history: &History) -> Result<HistoryPage> {
        let history = history.clone();
        self.0.read(|inner| async move { inner.history(&history).await }).await
    }

    async fn get_as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>> {
        let id = id.clone();
        self.0.read(|inner| async move { inner.get_as_of(&id, time).await }).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let slice = if self.0.flaw == Flaw::RestoreForgetsItsStart { SLICE } else { usize::MAX };
        for memories in memories.chunks(slice) {
            let call = |inner: InMemory| {
                let memories = memories.to_vec();
                async move { inner.restore(memories).await }
            };
            let restored = self.0.write(None, call).await;
            let forgets = |error: Error| if slice == SLICE { error.with_outcome(Outcome::NotDone) } else { error };
            let restored = restored.map_err(forgets)?;
            report.written += restored.written;
            report.equal += restored.equal;
            report.conflicts.extend(restored.conflicts);
            report.erased.extend(restored.erased);
        }
        Ok(report)
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        self.0.write(None, |inner| async move { inner.set_read_only(is_read_only).await }).await
    }

    async fn is_read_only(&self) -> Result<bool> {
        self.0.read(|inner| async move { inner.is_read_only().await }).await
    }

    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let call = |inner: InMemory| {
            let memories = memories.clone();
            async move { inner.restore_newer(memories).await }
        };
        self.0.write(None, call).await
    }

    async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport> {
        let call = |inner: InMemory| {
            let versions = versions.clone();
            async move { inner.restore_versions(versions).await }
        };
        self.0.write(None, call).await
    }

    async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice> {
        let call = |inner: InMemory| {
            let erasure = erasure.clone();
            async move { inner.erase(&erasure).await }
        };
        self.0.write(None, call).await
    }

    async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        let record = record.clone();
        self.0.read(|inner| async move { inner.tombstone(&record).await }).await
    }

    async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage> {
        let behind = behind.map(str::to_owned);
        self.0.read(|inner| async move { inner.tombstones(behind.as_deref()).await }).await
    }

    async fn hash_key(&self) -> Result<Option<HashKey>> {
        self.0.read(|inner| async move { inner.hash_key().await }).await
    }

    async fn restore_tombstones(&self, tombstones: Vec<Tombstone>, key: &HashKey) -> Result<RestoreReport> {
        let call = |inner: InMemory| {
            let (key, tombstones) = (key.clone(), tombstones.clone());
            async move { inner.restore_tombstones(tombstones, &key).await }
        };
        self.0.write(None, call).await
    }

    async fn sweep(&self, from: &Sweep) -> Result<Swept> {
        let call = |inner: InMemory| {
            let from = from.clone();
            async move { inner.sweep(&from).await }
        };
        self.0.write(None, call).await
    }

    async fn retention(&self) -> Result<Vec<Retention>> {
        self.0.read(|inner| async move { inner.retention().await }).await
    }

    async fn set_retention(&self, rules: Vec<Retention>) -> Result<()> {
        let call = |inner: InMemory| {
            let rules = rules.clone();
            async move { inner.set_retention(rules).await }
        };
        self.0.write(None, call).await
    }

    async fn vector_model(&self) -> Result<Option<VectorModel>> {
        self.0.read(|inner| async move { inner.vector_model().await }).await
    }

    async fn set_vector_model(&self, model: &VectorModel) -> Result<()> {
        let call = |inner: InMemory| {
            let model = model.clone();
            async move { inner.set_vector_model(&model).await }
        };
        self.0.write(None, call).await
    }

    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>> {
        let call = |inner: InMemory| {
            let (model, embeddings) = (model.clone(), embeddings.clone());
            async move { inner.embed(&model, embeddings).await }
        };
        self.0.write(None, call).await
    }

    async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        let of = of.to_vec();
        self.0.read(|inner| async move { inner.vectors(&of).await }).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(WiredDocuments(Arc::clone(&self.0)))
    }
}

#[derive(Debug)]
struct WiredDocuments(Arc<Line>);

#[async_trait]
impl DocumentStore for WiredDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        let call = |inner: InMemory| {
            let write = write.clone();
            async move { inner.documents().put(write).await }
        };
        self.0.write(Some(Flaw::UpdatesAreRepeated), call).await
    }

    async fn put_many(&self, writes: Vec<DocumentWrite>) -> Result<Vec<Document>> {
        let put = async |writes: &[DocumentWrite]| {
            let call = |inner: InMemory| {
                let writes = writes.to_vec();
                async move { inner.documents().put_many(writes).await }
            };
            self.0.write(Some(Flaw::UpdatesAreRepeated), call).await
        };
        if self.0.flaw != Flaw::PutsGoOneByOne {
            return put(&writes).await;
        }
        let mut documents = Vec::new();
        for write in writes {
            documents.extend(put(&[write]).await.map_err(|error| error.with_outcome(Outcome::Unknown))?);
        }
        Ok(documents)
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let (collection, id) = (collection.clone(), id.clone());
        self.0.read(|inner| async move { inner.documents().get(&collection, &id).await }).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let query = query.clone();
        self.0.read(|inner| async move { inner.documents().query(&query).await }).await
    }

    async fn recall(&self, recall: &DocumentRecall) -> Result<Recalled<Document>> {
        let recall = recall.clone();
        self.0.read(|inner| async move { inner.documents().recall(&recall).await }).await
    }

    async fn spaces(&self, collection: &Collection, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        let (collection, query) = (collection.clone(), query.clone());
        self.0.read(|inner| async move { inner.documents().spaces(&collection, &query).await }).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let mut selection = selection.clone();
        if self.0.flaw == Flaw::RemovalTakesWhatComesBetween {
            let wanted = selection.clone();
            let found = self.0.read(|inner| async move { wanted.preview(&*inner.documents(), max).await }).await?;
            if found.is_empty() {
                return Ok(found);
            }
            selection = DocumentSelection::ids(selection.collection().clone(), found)?;
        }
        let call = |inner: InMemory| {
            let selection = selection.clone();
            async move { inner.documents().remove(&selection, max).await }
        };
        self.0.write(Some(Flaw::RemovalsAreRepeated), call).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let call = |inner: InMemory| {
            let documents = documents.clone();
            async move { inner.documents().restore(documents).await }
        };
        self.0.write(None, call).await
    }

    async fn restore_newer(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let call = |inner: InMemory| {
            let documents = documents.clone();
            async move { inner.documents().restore_newer(documents).await }
        };
        self.0.write(None, call).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        self.0.read(|inner| async move { inner.documents().collections().await }).await
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
