//! What becomes of a message when the ledger does not answer.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_context::embedding::Embedder;
use memory_context::flow::{End, Incoming, Why};
use memory_context::state::ContextParts;
use memory_core::{
    Backfill, Changes, DocumentStore, Error, ErrorKind, Health, InMemory, Memory, MemoryId, MemoryPage, MemoryPatch,
    MemoryProvider, MemoryQuery, MemoryRecall, NewMemory, Recalled, RestoreReport, Result, SpaceLevel, SpaceQuery,
    Status, Updated, Watch,
};

use crate::stage::{Stage, audience, said, text};

/// An engine in memory that does not do everything.
#[derive(Debug, Default)]
struct Broken {
    inner: InMemory,
    /// No store comes to its end.
    stores_hang: AtomicBool,
    /// No update that ends a run comes to its end.
    ends_hang: AtomicBool,
    /// Updates that end a run are refused.
    ends_fail: AtomicBool,
    /// So many reads of a memory don't find it yet.
    gets_lag: AtomicUsize,
    /// So many stores under a key fail.
    keyed_stores_fail: AtomicUsize,
}

#[async_trait]
impl MemoryProvider for Broken {
    async fn init(&self) -> Result<()> {
        self.inner.init().await
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        if self.stores_hang.load(Ordering::SeqCst) {
            return pending().await;
        }
        if memory.idempotency_key.is_some() && take_one(&self.keyed_stores_fail) {
            return Err(Error::new(ErrorKind::Unavailable, "the engine is down").retryable());
        }
        self.inner.store(memory).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        self.inner.store_many(memories).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        if take_one(&self.gets_lag) {
            return Ok(None);
        }
        self.inner.get(id).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        self.inner.query(query).await
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        self.inner.recall(recall).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let is_end = patch.status == Some(Status::Completed);
        if is_end && self.ends_hang.load(Ordering::SeqCst) {
            return pending().await;
        }
        if is_end && self.ends_fail.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the engine is down"));
        }
        self.inner.update(id, patch).await
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.inner.spaces(query).await
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        self.inner.watch(watch).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        self.inner.restore(memories).await
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        self.inner.backfill().await
    }

    async fn check_health(&self) -> Result<Health> {
        self.inner.check_health().await
    }

    async fn shutdown(&self) -> Result<()> {
        self.inner.shutdown().await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        self.inner.documents()
    }
}

/// Whether there was one more.
fn take_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

async fn broken() -> (Arc<Broken>, Stage) {
    let broken = Arc::new(Broken::default());
    broken.init().await.expect("opens");
    let stage = Stage::upon(Arc::clone(&broken) as _, None);
    (broken, stage)
}

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Embedder for Counting {
    fn model(&self) -> &str {
        "m"
    }

    fn width(&self) -> usize {
        1
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(vec![vec![1.0]; texts.len()])
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_before_the_message_is_stored() {
    let (broken, counting) = (Arc::new(Broken::default()), Arc::new(Counting::default()));
    broken.init().await.expect("opens");
    broken.stores_hang.store(true, Ordering::SeqCst);
    let mut stage = Stage::upon(Arc::clone(&broken) as _, Some(Arc::clone(&counting) as _));
    let end = stage.receive(said("ana", "one", 2)).await.expect("no panic");
    assert_eq!((end.as_str(), counting.0.load(Ordering::SeqCst)), ("failed", 0));
    assert!(stage.asked_already().is_none());
    broken.stores_hang.store(false, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "two", 1), |_| text("Hi")).await;
    assert_eq!((end, counting.0.load(Ordering::SeqCst)), (End::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_hangs_holds_up_no_room() {
    let (broken, mut stage) = broken().await;
    broken.stores_hang.store(true, Ordering::SeqCst);
    let end = stage.receive(said("ana", "one", 3)).await.expect("no panic");
    assert!(matches!(&end, End::Failed { reason } if reason.contains("did not answer within 30000 ms")), "{end:?}");
    broken.stores_hang.store(false, Ordering::SeqCst);
    broken.ends_hang.store(true, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "two", 2), |_| text("Hi")).await;
    assert_eq!(end, End::Completed, "it was answered");
    broken.ends_hang.store(false, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "three", 1), |_| text("Hi again")).await;
    assert_eq!((end, stage.platform.texts()), (End::Completed, vec!["Hi".to_owned(), "Hi again".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_lags_makes_no_known_message_new() {
    let (broken, mut stage) = broken().await;
    let delivered = || {
        let Incoming { message, is_addressed } = said("ana", "hello", 1);
        Incoming { message: message.with_external_id("7"), is_addressed }
    };
    let (end, _) = stage.play(delivered(), |_| text("Hi")).await;
    assert_eq!(end, End::Completed);
    broken.gets_lag.store(2, Ordering::SeqCst);
    let (end, asked) = stage.play(delivered(), |_| text("Hi")).await;
    assert_eq!((end, asked.len()), (End::Ignored(Why::Known), 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_decided_on_outlives_a_failure_of_the_ledger() {
    let (broken, mut stage) = broken().await;
    broken.keyed_stores_fail.store(1, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "one", 2), |_| text("Hi")).await;
    assert_eq!((end, stage.platform.texts()), (End::Completed, vec!["Hi".to_owned()]), "it is tried again");
    broken.keyed_stores_fail.store(usize::MAX, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "two", 1), |_| text("Hello")).await;
    assert_eq!((end.as_str(), stage.memory("two").await.status), ("left", Status::Running));
    broken.keyed_stores_fail.store(0, Ordering::SeqCst);
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), |service| service);
    assert_eq!(other.recover().await.expect("no panic"), [End::Completed]);
    assert!(other.asked_already().is_none(), "no model is asked again");
    assert_eq!(other.platform.texts(), ["Hello"]);
}

#[tokio::test]
async fn an_end_is_kept_whatever_its_reason_quotes() {
    let mut stage = Stage::new().await;
    let run = stage.receive(said("ana", "hello", 1));
    stage.asked().await.fail_with(&format!("\0{}", "x".repeat(100 << 10)));
    assert_eq!(run.await.expect("no panic").as_str(), "failed");
    assert_eq!(stage.memory("hello").await.status, Status::Failed);
}

#[tokio::test]
async fn a_message_whose_end_was_not_kept_counts_as_one_interaction() {
    let (broken, mut stage) = broken().await;
    broken.ends_fail.store(true, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "hello", 1), |_| text("Hi")).await;
    assert_eq!((end, stage.memory("hello").await.status), (End::Completed, Status::Running));
    let relationships = stage.records.relationships();
    assert!(relationships.of(&audience()).await.expect("read").is_empty(), "no evaluator runs twice");
    broken.ends_fail.store(false, Ordering::SeqCst);
    stage.leases_run_out();
    let other = stage.elsewhere(ContextParts::default(), |service| service);
    assert_eq!(other.recover().await.expect("no panic"), [End::Completed]);
    assert_eq!(other.memory("hello").await.status, Status::Completed);
    let [one] = &stage.records.relationships().of(&audience()).await.expect("read")[..] else {
        panic!("one relationship")
    };
    assert_eq!(one.interactions, 1);
}
