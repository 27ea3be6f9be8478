//! The vectors of messages.

use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{join, poll};
use memory_context::embedding::Embedder;
use memory_context::flow::End;
use memory_context::records::{ActionStatus, ChannelType, NewFact, Room};
use memory_context::tool;
use memory_core::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};

use crate::stage::{NOW, Stage, asking_for_facts, at, audience, entity, room, said, text};

type Asked = (Vec<String>, oneshot::Sender<()>);

/// An embedder that asks the test before it answers.
#[derive(Debug)]
struct Asking(mpsc::UnboundedSender<Asked>);

#[async_trait]
impl Embedder for Asking {
    fn model(&self) -> &str {
        "m"
    }

    fn width(&self) -> usize {
        1
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let (answer, answered) = oneshot::channel();
        self.0.send((texts.to_vec(), answer)).expect("the test listens");
        answered.await.expect("the test answers");
        Ok(vec![vec![1.0]; texts.len()])
    }
}

/// An embedder that is down, or does not answer.
#[derive(Debug)]
struct Down {
    hangs: bool,
}

#[async_trait]
impl Embedder for Down {
    fn model(&self) -> &str {
        "m"
    }

    fn width(&self) -> usize {
        1
    }

    async fn embed(&self, _: &[String]) -> Result<Vec<Vec<f32>>> {
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(Error::new(ErrorKind::Unavailable, "as a test"))
    }
}

async fn stage() -> (Stage, mpsc::UnboundedReceiver<Asked>) {
    let (sender, asked) = mpsc::unbounded_channel();
    (Stage::with_embedder(Arc::new(Asking(sender))).await, asked)
}

#[tokio::test]
async fn no_run_waits_for_a_vector_and_its_end_ends_the_call() {
    let (mut stage, mut asked) = stage().await;
    let run = stage.receive(said("ana", "hello", 1));
    let (texts, mut answer) = asked.recv().await.expect("asked");
    assert_eq!(texts, ["hello"]);
    stage.asked().await.answer(text("Hi"));
    answer.closed().await;
    // After the answer the agent makes the vectors of the messages.
    let (texts, answer) = asked.recv().await.expect("asked");
    assert_eq!(texts.len(), 2);
    answer.send(()).expect("it waits");
    assert_eq!(run.await.expect("no panic"), End::Completed);
}

#[tokio::test]
async fn an_embedder_that_panics_takes_no_run_with_it() {
    let (mut stage, mut asked) = stage().await;
    let run = stage.receive(said("ana", "hello", 1));
    drop(asked.recv().await.expect("asked"));
    let call = stage.asked().await;
    tokio::task::yield_now().await;
    call.answer(text("Hi"));
    drop(asked.recv().await.expect("asked behind the answer"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
}

#[tokio::test]
async fn facts_takes_the_vector_that_was_asked_for_at_the_receipt() {
    let (mut stage, mut asked) = stage().await;
    let fact = NewFact::new(audience().room, entity("ana"), entity("eliza"), "Ana likes tea", at(NOW - 9));
    stage.records.facts().remember(fact).await.expect("kept");
    let run = stage.receive(said("ana", "which tea do I drink", 1));
    let (texts, answer) = asked.recv().await.expect("asked");
    assert_eq!(texts, ["which tea do I drink"]);
    answer.send(()).expect("the run waits");
    let asks = "<thought>t</thought><actions>REPLY</actions><providers>FACTS</providers><text>Hm</text>";
    stage.asked().await.answer(asks);
    let call = stage.asked().await;
    assert!(call.prompt.contains("Ana likes tea"), "{}", call.prompt);
    call.answer(text("Tea"));
    // After the answer the agent makes the vectors of everything stored; it has embedded the question once.
    let (texts, answer) = asked.recv().await.expect("asked");
    assert!(texts.contains(&"Ana likes tea".to_owned()), "{texts:?}");
    answer.send(()).expect("the run waits");
    assert_eq!(run.await.expect("no panic"), End::Completed);
    assert!(asked.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn facts_are_shown_by_their_words_while_the_embedder_is_down() {
    for hangs in [false, true] {
        let mut stage = Stage::with_embedder(Arc::new(Down { hangs })).await;
        let fact = NewFact::new(audience().room, entity("ana"), entity("eliza"), "Ana likes tea", at(NOW - 9));
        stage.records.facts().remember(fact).await.expect("kept");
        let run = stage.receive(said("ana", "which tea do I drink", 1));
        let asks = "<thought>t</thought><actions>REPLY</actions><providers>FACTS</providers><text>Hm</text>";
        stage.asked().await.answer(asks);
        let call = stage.asked().await;
        assert!(call.prompt.contains("Ana likes tea"), "{}", call.prompt);
        call.answer(text("Green tea"));
        assert_eq!(run.await.expect("no panic"), End::Completed);
    }
}

#[tokio::test]
async fn facts_are_looked_for_so_many_times_about_one_message() {
    let mut stage = Stage::with_embedder(Arc::new(Down { hangs: false })).await;
    stage.composer.add(tool::built_in_tools()).expect("new names");
    for ago in [2, 1] {
        let run = stage.receive(said("ana", "Which teas do I like?", ago));
        for times in [3, 2] {
            stage.asked().await.answer(asking_for_facts(times));
        }
        stage.asked().await.answer(text("All of them"));
        assert_eq!(run.await.expect("no panic"), End::Completed);
    }
    let found: Vec<_> = stage.results().await.into_iter().map(|result| result.status).collect();
    let one = [[ActionStatus::Completed; 4].as_slice(), &[ActionStatus::Failed]].concat();
    assert_eq!(found, [one.clone(), one].concat());
}

#[tokio::test]
async fn facts_that_were_looked_for_are_not_shown_to_who_comes_later() {
    let mut stage = Stage::with_embedder(Arc::new(Down { hangs: false })).await;
    stage.composer.add(tool::built_in_tools()).expect("new names");
    let elsewhere = room("elsewhere");
    for room in [&audience().room, &elsewhere] {
        stage.records.rooms().ensure(&Room::new(room.clone(), ChannelType::Dm)).await.expect("kept");
        stage.records.participants().join(room, &entity("ana")).await.expect("joins");
    }
    let fact = NewFact::new(elsewhere, entity("ana"), entity("eliza"), "Ana likes tea number 0", at(NOW - 9));
    stage.records.facts().remember(fact).await.expect("kept");
    let run = stage.receive(said("ana", "What do I like?", 3));
    stage.asked().await.answer(asking_for_facts(1));
    let call = stage.asked().await;
    assert!(call.told.contains("Ana likes tea"), "Ana alone hears of it: {}", call.told);
    call.answer(text("You know that"));
    assert_eq!(run.await.expect("no panic"), End::Completed);
    stage.records.participants().join(&audience().room, &entity("dan")).await.expect("joins");
    for (author, ago) in [("dan", 2), ("ana", 1)] {
        let run = stage.receive(said(author, "What did she ask?", ago));
        let call = stage.asked().await;
        assert!(call.prompt.contains("FIND_FACTS (completed)"), "{}", call.prompt);
        assert!(!call.prompt.contains("Ana likes tea"), "Dan listens: {}", call.prompt);
        call.answer(text("Something"));
        assert_eq!(run.await.expect("no panic"), End::Completed);
    }
    let stored = serde_json::to_string(&stage.stored().await).expect("JSON");
    assert!(!stored.contains("Ana likes tea"), "who reads the room may read this: {stored}");
}

#[tokio::test]
async fn a_fact_that_is_kept_while_vectors_are_made_has_one_too() {
    let (stage, mut asked) = stage().await;
    let remember = async |text| {
        let fact = NewFact::new(audience().room, entity("ana"), entity("eliza"), text, at(NOW - 9));
        stage.records.facts().remember(fact).await.expect("kept");
    };
    remember("Ana likes tea").await;
    let records = stage.records.clone();
    let begun = tokio::spawn(async move { records.upkeep().await });
    let (_, first) = asked.recv().await.expect("asked");
    remember("Ana lives in Lima").await;
    let mut waiting = pin!(stage.records.upkeep());
    assert!(poll!(&mut waiting).is_pending(), "another call is at it");
    assert_eq!(stage.records.upkeep().await.expect("no work"), 0, "another call waits to do it");
    first.send(()).expect("it waits");
    assert_eq!(begun.await.expect("no panic").expect("made"), 1);
    let second = async {
        let (texts, second) = asked.recv().await.expect("asked");
        assert_eq!(texts, ["Ana lives in Lima"]);
        second.send(()).expect("it waits");
    };
    assert_eq!(join!(waiting, second).0.expect("made"), 1);
}
