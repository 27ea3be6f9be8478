//! How heavy and light calls stand to each other, and what a step that is tried again finds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::engine::Work;
use crate::engine::{Config, EngineSettings, heavy_calls};
use crate::in_memory::InMemorySession;
use crate::{Durability, Precision, QueryBuilder, RecordId, Revision, SpaceId, Trigger, Vector};

/// What takes longer hangs.
const HANG: Duration = Duration::from_secs(60);

/// An engine whose reads wait until they are let go.
#[derive(Debug, Clone)]
struct Held {
    begun: Arc<AtomicUsize>,
    go: Arc<Semaphore>,
    /// Where they keep their thread meanwhile.
    busy: Option<Arc<Mutex<Receiver<()>>>>,
}

impl Config for Held {
    fn settings(&self) -> EngineSettings {
        EngineSettings::default()
    }
}

impl Engine for Held {
    const NAME: &'static str = "held";
    const BATCH: Option<(usize, usize)> = None;
    const RESTORE: (usize, usize) = (1, 1);

    type Config = Self;
    type Session = InMemorySession;

    async fn open(config: &Self) -> Result<Self> {
        Ok(config.clone())
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        Ok(proposed.to_owned())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(Self::NAME, "1", 1, Duration::ZERO, Durability::Durable))
    }

    async fn run<A, T>(
        &self,
        access: Access,
        _: Instant,
        argument: Arc<A>,
        work: Work<InMemorySession, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        if access != Access::Write {
            self.begun.fetch_add(1, Ordering::Relaxed);
            match &self.busy {
                None => self.go.acquire().await.expect("nobody closes it").forget(),
                Some(busy) => busy.lock().expect("sound").recv_timeout(HANG).expect("let go"),
            }
        }
        work(&mut InMemorySession::default(), &argument).await
    }
}

impl Held {
    fn new() -> Self {
        Self { begun: Arc::default(), go: Arc::new(Semaphore::new(0)), busy: None }
    }

    /// Waits until so many reads have begun, and sees that no further one does.
    async fn until_begun(&self, count: usize) {
        while self.begun.load(Ordering::Relaxed) < count {
            yield_now().await;
        }
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(self.begun.load(Ordering::Relaxed), count);
    }
}

fn query(
    provider: &Provider<Held>,
    build: impl FnOnce(QueryBuilder<crate::Ledger>) -> QueryBuilder<crate::Ledger>,
) -> JoinHandle<Result<MemoryPage>> {
    let (provider, query) = (provider.clone(), build(MemoryQuery::builder().all()).build().expect("valid"));
    tokio::spawn(async move { provider.query(&query).await })
}

fn memory() -> NewMemory {
    let (space, trigger) = (SpaceId::parse("a").expect("valid"), Trigger::parse("1").expect("valid"));
    NewMemory::new(space, trigger, Timestamp::MIN)
}

/// The executor of the test has one thread.
#[tokio::test]
async fn heavy_work_keeps_no_thread_of_the_executor() {
    let (go, busy) = mpsc::channel();
    let engine = Held { busy: Some(Arc::new(Mutex::new(busy))), ..Held::new() };
    let provider = Provider::<Held>::open(engine.clone()).expect("valid");
    provider.init().await.expect("opens");
    let heavy = query(&provider, |query| query.filter_text("id IS NULL"));
    engine.until_begun(1).await;
    provider.store(memory()).await.expect("stored");
    go.send(()).expect("it waits");
    heavy.await.expect("not dropped").expect("a page");
}

#[tokio::test]
async fn only_heavy_calls_wait_for_heavy_calls() {
    let engine = Held::new();
    let provider = Provider::<Held>::open(engine.clone()).expect("valid");
    provider.init().await.expect("opens");
    let heavy = || query(&provider, |query| query.filter_text("id IS NULL"));
    let (most, mut begun) = (heavy_calls(), heavy_calls());
    let mut calls: Vec<_> = (0..most + 3).map(|_| heavy()).collect();
    engine.until_begun(begun).await;
    // Light calls pass.
    calls.push(query(&provider, |query| query));
    begun += 1;
    engine.until_begun(begun).await;
    provider.store(memory()).await.expect("stored");
    provider.check_health().await.expect("healthy");
    // Of two that are dropped, one is at work and makes room, and one waits.
    calls.swap_remove(0).abort();
    calls.remove(most).abort();
    begun += 1;
    engine.until_begun(begun).await;
    engine.go.add_permits(calls.len());
    for call in calls {
        assert!(call.await.expect("not dropped").expect("a page").memories.is_empty());
    }
    provider.shutdown().await.expect("closes");
}

/// An engine that counts its steps. Its namespace may get another model during its first write, which may fail, too.
#[derive(Debug, Clone, Default)]
struct Counted {
    is_overtaken: bool,
    fails: bool,
    model: Arc<Mutex<Option<String>>>,
    session: Arc<tokio::sync::Mutex<InMemorySession>>,
    writes: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

impl Config for Counted {
    fn settings(&self) -> EngineSettings {
        EngineSettings::default()
    }
}

impl Engine for Counted {
    const NAME: &'static str = "counted";
    const BATCH: Option<(usize, usize)> = None;
    const RESTORE: (usize, usize) = (1, 1);
    const VECTORS: bool = true;

    type Config = Self;
    type Session = InMemorySession;

    async fn open(config: &Self) -> Result<Self> {
        Ok(config.clone())
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        Ok(proposed.to_owned())
    }

    async fn vector_model(&self) -> Result<Option<String>> {
        Ok(self.model.lock().expect("sound").clone())
    }

    async fn set_vector_model(&self, model: &str) -> Result<()> {
        *self.model.lock().expect("sound") = Some(model.to_owned());
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(Self::NAME, "1", 1, Duration::ZERO, Durability::Durable))
    }

    async fn run<A, T>(
        &self,
        access: Access,
        _: Instant,
        argument: Arc<A>,
        work: Work<InMemorySession, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let count = if access == Access::Write { &self.writes } else { &self.reads };
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        if self.is_overtaken && access == Access::Write && is_first {
            self.set_vector_model(&named("other").to_text()).await?;
            if self.fails {
                let error = Error::new(ErrorKind::Unavailable, "the connection has broken").retryable();
                return Err(error.with_outcome(Outcome::Unknown));
            }
        }
        work(&mut *self.session.lock().await, &argument).await
    }

    fn is_temporary(&self, error: &Error) -> bool {
        error.is_retryable()
    }
}

fn named(model: &str) -> VectorModel {
    VectorModel::new(model, 2, Precision::Compact).expect("valid")
}

/// It may have replaced vectors of the other one, so it is told that it may have been done, and is tried no more.
#[tokio::test]
async fn vectors_that_another_model_overtakes_are_told_of() {
    for fails in [false, true] {
        let engine = Counted { is_overtaken: true, fails, ..Counted::default() };
        let provider = Provider::<Counted>::open(engine.clone()).expect("valid");
        provider.init().await.expect("opens");
        provider.set_vector_model(&named("one")).await.expect("set");
        let record = RecordId::Memory(MemoryId::generate());
        let vector = Vector::new(&[1.0, 0.0]).expect("valid");
        let embedding = Embedding { record, revision: Revision::FIRST, texts: None, vector };
        let error = provider.embed(&named("one"), vec![embedding]).await.expect_err("another model is set");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::SchemaMismatch, Outcome::Unknown), "{fails}");
        assert_eq!(engine.writes.load(Ordering::Relaxed), 1, "{fails}");
    }
}

/// A session may cost a wait for other servers, so it stores many. Those that are read are held, and each may be as large as a record can be.
#[tokio::test]
async fn many_vectors_are_stored_at_once_and_few_are_read() {
    let engine = Counted::default();
    let provider = Provider::<Counted>::open(engine.clone()).expect("valid");
    provider.init().await.expect("opens");
    provider.set_vector_model(&named("one")).await.expect("set");
    let mut of = Vec::new();
    for _ in 0..70 {
        of.push(RecordId::Memory(provider.store(memory()).await.expect("stored")));
    }
    let vector = |record: &RecordId| {
        let vector = Vector::new(&[1.0, 0.0]).expect("valid");
        Embedding { record: record.clone(), revision: Revision::FIRST, texts: None, vector }
    };
    let count = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
    count(&engine.writes);
    provider.embed(&named("one"), of.iter().map(vector).collect()).await.expect("kept");
    assert_eq!(count(&engine.writes), 2);
    count(&engine.reads);
    let kept = provider.vectors(&of).await.expect("read");
    assert_eq!(count(&engine.reads), 9);
    assert!(kept.iter().all(Option::is_some));
}

/// A session keeps the records that it reads, and its locks, until it ends.
#[tokio::test]
async fn vectors_of_large_records_are_stored_in_several_sessions() {
    let engine = Counted::default();
    let provider = Provider::<Counted>::open(engine.clone()).expect("valid");
    provider.init().await.expect("opens");
    provider.set_vector_model(&named("one")).await.expect("set");
    let context = crate::Context::parse(&format!("\"{}\"", "x".repeat(1 << 20))).expect("valid");
    let mut embeddings = Vec::new();
    for _ in 0..16 {
        let id = provider.store(memory().with_context(context.clone())).await.expect("stored");
        let vector = Vector::new(&[1.0, 0.0]).expect("valid");
        embeddings.push(Embedding { record: id.into(), revision: Revision::FIRST, texts: None, vector });
    }
    embeddings[2].revision = Revision::FIRST.next().expect("another");
    embeddings.reverse();
    engine.writes.store(0, Ordering::Relaxed);
    let kept = provider.embed(&named("one"), embeddings).await.expect("kept");
    assert_eq!(engine.writes.load(Ordering::Relaxed), 2);
    let left_out: Vec<_> = (0..kept.len()).filter(|place| !kept[*place]).collect();
    assert_eq!(left_out, [13], "the answers are in the order of the call");
}
