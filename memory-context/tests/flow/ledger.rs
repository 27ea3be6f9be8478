//! Messages while the ledger does not answer.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_context::embedding::Embedder;
use memory_context::flow::{End, FlowStep, Incoming, Why};
use memory_context::records::Entity;
use memory_context::state::ContextParts;
use memory_context::tool::{self, Tool};
use memory_core::{Erasure, Error, ErrorKind, InMemory, MemoryProvider, Result, Status};

use crate::engine::{Around, Call, Wrapped};
use crate::stage::{NOW, Stage, actions, asking_for_facts, at, audience, once, said, text};

/// The faults of the engine in memory. All clones share them.
#[derive(Debug, Clone, Default)]
struct Broken(Arc<Faults>);

#[derive(Debug, Default)]
struct Faults {
    /// No store ends.
    stores_hang: AtomicBool,
    /// No update that ends a run ends.
    ends_hang: AtomicBool,
    /// Updates that end a run are refused.
    ends_fail: AtomicBool,
    /// So many reads of a memory don't find it yet.
    gets_lag: AtomicUsize,
    /// So many stores under a key fail.
    keyed_stores_fail: AtomicUsize,
    /// No read of documents ends.
    documents_hang: AtomicBool,
    /// So many reads of one document never end.
    document_gets_hang: AtomicUsize,
    /// So many puts of documents fail.
    puts_fail: AtomicUsize,
}

impl Around for Broken {
    async fn around<T: Send>(&self, call: Call, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let is_set = |fault: &AtomicBool| fault.load(Ordering::SeqCst);
        let (is_hanging, is_down) = match &call {
            Call::Store { is_keyed } => (is_set(&self.0.stores_hang), *is_keyed && take_one(&self.0.keyed_stores_fail)),
            Call::Update(patch) if patch.status == Some(Status::Completed) => {
                (is_set(&self.0.ends_hang), is_set(&self.0.ends_fail))
            }
            Call::ReadDocuments => (is_set(&self.0.documents_hang), false),
            Call::GetDocument => (take_one(&self.0.document_gets_hang), false),
            Call::PutDocument => (false, take_one(&self.0.puts_fail)),
            _ => (false, false),
        };
        match (is_hanging, is_down) {
            (true, _) => pending().await,
            (false, true) => Err(Error::new(ErrorKind::Unavailable, "the engine is down").retryable()),
            (false, false) => work.await,
        }
    }

    fn finds(&self) -> bool {
        !take_one(&self.0.gets_lag)
    }
}

/// How many writes fail until a write that is tried again is given up.
const ATTEMPTS: usize = 4;

/// Whether there was one more.
fn take_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

async fn broken(embedder: Option<Arc<dyn Embedder>>) -> (Arc<Faults>, Stage) {
    broken_upon(Arc::new(InMemory::new()), embedder).await
}

async fn broken_upon(engine: Arc<InMemory>, embedder: Option<Arc<dyn Embedder>>) -> (Arc<Faults>, Stage) {
    let around = Broken::default();
    let faults = Arc::clone(&around.0);
    let engine = Wrapped { engine, around };
    engine.init().await.expect("opens");
    (faults, Stage::upon(Arc::new(engine), embedder))
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
    let counting = Arc::new(Counting::default());
    let (broken, mut stage) = broken(Some(Arc::clone(&counting) as _)).await;
    broken.stores_hang.store(true, Ordering::SeqCst);
    let end = stage.receive(said("ana", "one", 2)).await.expect("no panic");
    assert_eq!((end.as_str(), counting.0.load(Ordering::SeqCst)), ("failed", 0));
    assert!(stage.asked_already().is_none());
    broken.stores_hang.store(false, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "two", 1), |_| text("Hi")).await;
    // At the receipt of the message, and for the records after the answer.
    assert_eq!((end, counting.0.load(Ordering::SeqCst)), (End::Completed, 2));
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_hangs_holds_up_no_room() {
    let (broken, mut stage) = broken(None).await;
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
    let (broken, mut stage) = broken(None).await;
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
    let (broken, mut stage) = broken(None).await;
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

/// If its failure were stored, the later run, which says it, would count the results in another way than they were stored.
#[tokio::test(start_paused = true)]
async fn a_reply_beside_tools_outlives_a_failure_of_the_ledger() {
    let (broken, mut stage) = broken(None).await;
    let parts = || ContextParts::default().with_tool(Tool::new("COUNT", |(), _| async { Ok("one") }));
    stage.composer.add(parts()).expect("new names");
    broken.keyed_stores_fail.store(ATTEMPTS, Ordering::SeqCst);
    let answer = actions("REPLY, COUNT", "Hi");
    let (end, _) = stage.play(said("ana", "hello", 1), |call| once(call, &answer)).await;
    assert_eq!((end.as_str(), stage.results().await.len()), ("left", 0));
    stage.leases_run_out();
    let mut other = stage.elsewhere(parts(), |service| service);
    let recovered = other.recover();
    other.asked().await.answer(text("One"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    assert_eq!(other.platform.texts(), ["Hi", "One"]);
    let results: Vec<_> = other.results().await.into_iter().map(|result| (result.action, result.step)).collect();
    assert_eq!(results, [("COUNT".to_owned(), 1)]);
}

/// Whether Ana is in the room.
async fn is_present(stage: &Stage) -> bool {
    let participants = stage.records.participants();
    participants.get(&audience(), &audience().entity).await.expect("read").is_some()
}

#[tokio::test(start_paused = true)]
async fn an_author_is_put_into_the_room_as_soon_as_the_ledger_takes_it() {
    for (fails, is_there_before_the_answer) in [(1, true), (ATTEMPTS, false)] {
        let (broken, mut stage) = broken(None).await;
        broken.puts_fail.store(fails, Ordering::SeqCst);
        let run = stage.receive(said("ana", "hello", 1));
        let call = stage.asked().await;
        assert_eq!(is_present(&stage).await, is_there_before_the_answer, "{fails} failures");
        call.answer(text("Hi"));
        assert_eq!(run.await.expect("no panic"), End::Completed);
        assert!(is_present(&stage).await, "{fails} failures");
    }
}

#[tokio::test(start_paused = true)]
async fn an_author_who_may_have_left_meanwhile_is_not_put_into_the_room_after_the_answer() {
    let (broken, mut stage) = broken(None).await;
    let (room, ana) = (&audience().room, &audience().entity);
    stage.records.entities().ensure(&Entity::new(ana.clone(), "Ana")).await.expect("stored");
    stage.records.participants().join(room, ana).await.expect("joins");
    stage.records.participants().leave(room, ana).await.expect("left");
    broken.puts_fail.store(ATTEMPTS, Ordering::SeqCst);
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    assert!(!is_present(&stage).await, "the ledger refused it");
    stage.records.participants().leave(room, ana).await.expect("left");
    call.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert!(!is_present(&stage).await);
}

#[tokio::test(start_paused = true)]
async fn the_author_of_a_message_that_is_erased_meanwhile_is_not_put_into_the_room() {
    let engine = Arc::new(InMemory::new());
    let (broken, mut stage) = broken_upon(Arc::clone(&engine), None).await;
    broken.puts_fail.store(ATTEMPTS, Ordering::SeqCst);
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    let erasure = Erasure::records([stage.memory("hello").await.id.into()], "a test").expect("valid");
    assert_eq!(engine.erase(&erasure).await.expect("erased").records.len(), 1);
    call.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic").as_str(), "left");
    assert!(!is_present(&stage).await);
}

#[tokio::test(start_paused = true)]
async fn an_author_who_was_not_put_into_the_room_is_in_it_when_the_message_is_taken_up() {
    let (broken, mut stage) = broken(None).await;
    broken.puts_fail.store(ATTEMPTS, Ordering::SeqCst);
    let run = stage.receive(said("ana", "hello", 1));
    let call = stage.asked().await;
    run.abort();
    call.dropped().await;
    assert!(!is_present(&stage).await);
    stage.leases_run_out();
    let mut other = stage.elsewhere(ContextParts::default(), |service| service);
    let recovered = other.recover();
    other.asked().await.answer(text("Hi"));
    assert_eq!(recovered.await.expect("no panic"), [End::Completed]);
    assert!(is_present(&other).await);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_answered_even_if_its_author_can_not_be_put_into_the_room() {
    let (broken, mut stage) = broken(None).await;
    broken.puts_fail.store(usize::MAX, Ordering::SeqCst);
    let (end, _) = stage.play(said("ana", "hello", 1), |_| text("Hi")).await;
    assert_eq!((end, stage.memory("hello").await.status), (End::Completed, Status::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_message_is_held_while_its_author_is_put_into_the_room() {
    let (broken, mut stage) = broken(None).await;
    broken.document_gets_hang.store(1, Ordering::SeqCst);
    let run = stage.receive(said("ana", "hello", 1));
    stage.step(|step| matches!(step, FlowStep::Stored(_))).await;
    stage.clock.set(at(NOW + 50_000));
    let call = stage.asked().await;
    // The lease that it was stored with has run out.
    stage.clock.set(at(NOW + 70_000));
    let other = stage.elsewhere(ContextParts::default(), |service| service);
    assert_eq!(other.recover().await.expect("no panic"), []);
    call.answer(text("Hi"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
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
    let (broken, mut stage) = broken(None).await;
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

#[tokio::test(start_paused = true)]
async fn facts_are_looked_for_as_long_as_the_prompt_waits_for_them() {
    let (broken, mut stage) = broken(Some(Arc::new(Counting::default()))).await;
    stage.composer.add(tool::built_in_tools()).expect("new names");
    let run = stage.receive(said("ana", "Which tea do I like?", 1));
    let asked = stage.asked().await;
    broken.documents_hang.store(true, Ordering::SeqCst);
    asked.answer(asking_for_facts(1));
    stage.step(|step| matches!(step, FlowStep::ActionEnded { success: false, .. })).await;
    broken.documents_hang.store(false, Ordering::SeqCst);
    stage.asked().await.answer(text("I can't tell"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    let stored = stage.stored().await;
    let result = stored.iter().find(|message| message.content.action_result.is_some()).expect("a result");
    assert!(result.content.text.contains("no answer within 5000 ms"), "{}", result.content.text);
}
