//! Questions, and who hears the answers.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::http::StatusCode;
use memory_context::agent::{Agent, End};
use memory_context::core::{Clock, InMemory, Outcome, SystemClock};
use memory_context::flow::platform::Origin;
use memory_context::flow::{Incoming, Platform, Why};
use memory_context::model::Usage;
use memory_context::records::{Audience, ChannelType, Entity, Message, NewMessage, Room, RoomId};
use memory_context::state::{Evaluation, Evaluator, EvaluatorInfo};
use memory_context::{ErrorKind, Result};

use crate::model::Question;
use crate::stage::{Stage, answer, failure, said};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_a_runtime_asks_on_its_small_stack() {
    let mut stage = Stage::new().await;
    let asked = stage.asks("ana", "Hello");
    stage.model.asked().await.writes("Hi");
    assert_eq!(answer(asked).await.text, "Hi");
    stage.ends().await;
}

#[tokio::test]
async fn a_question_is_answered_and_remembered() {
    let mut stage = Stage::new().await;
    let first = stage.asks("ana", "Hello");
    let asked = stage.model.asked().await;
    let messages = asked.messages();
    assert_eq!((messages[0], messages[1].0), (("system", "You are terse."), "user"));
    assert!(!messages[1].1.contains("You are terse."), "the instructions are told once");
    assert_eq!(asked.offered(), ["weather"]);
    asked.says("Hi");
    let first = answer(first).await;
    assert_eq!((first.text.as_str(), &first.end, first.results.len()), ("Hi", &End::Completed, 0));
    assert_eq!(first.usage, Usage { input_tokens: 10, output_tokens: 2 });
    assert_eq!(first.said[0].content.room.as_str(), "dm:ana");

    let second = stage.asks("ana", "And now?");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("ana: Hello") && asked.prompt.contains("ada: Hi"), "{}", asked.prompt);
    asked.says("Still here");
    let second = answer(second).await;
    assert_eq!(second.text, "Still here");
    assert_ne!(first.run, second.run);
    stage.ends().await;
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_before_anything_is_kept() {
    let mut stage = Stage::new().await;
    let refused = failure(stage.asks("ana", &"x".repeat((64 << 10) + 1))).await;
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::TooLarge, Outcome::NotDone));
    let audience = Audience::new("dm:ana".parse().expect("valid"), "ana".parse().expect("valid"));
    let records = stage.agent.records();
    assert!(records.messages().recent(&audience, 9).await.expect("read").is_empty());
    assert_eq!(records.rooms().get(&audience).await.expect("read"), None);
    let longest = stage.asks("ana", &"x".repeat(64 << 10));
    stage.model.asked().await.says("Long");
    assert_eq!(answer(longest).await.text, "Long");
    stage.ends().await;
}

/// Says its name after each answer.
#[derive(Debug)]
struct Footnote(EvaluatorInfo);

#[async_trait]
impl Evaluator for Footnote {
    fn info(&self) -> &EvaluatorInfo {
        &self.0
    }

    async fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<()> {
        evaluation.say(&self.0.name).await.map(drop)
    }
}

#[tokio::test]
async fn what_an_awaited_evaluator_says_is_part_of_the_answer() {
    let mut awaited = EvaluatorInfo::new("By the way", "");
    awaited.is_awaited = true;
    let (awaited, other) = (Footnote(awaited), Footnote(EvaluatorInfo::new("Later", "")));
    let mut stage = Stage::with(|builder| builder.evaluator(awaited).evaluator(other)).await;
    let question = stage.asks("ana", "Hello");
    stage.model.asked().await.says("Hi");
    let first = answer(question).await;
    assert_eq!((said(&first), first.text.as_str()), (vec!["Hi", "By the way"], "Hi\n\nBy the way"));
    stage.ends().await;
}

#[tokio::test]
async fn what_the_agent_said_itself_is_ignored() {
    let stage = Stage::new().await;
    let (id, room) = (stage.agent.records().agent().entity(), RoomId::parse("channel").expect("an id"));
    let origin = Origin { world: None, room: Room::new(room, ChannelType::Group), author: Entity::new(id, "Ada") };
    let message = NewMessage::new(origin.message("I have said this"), SystemClock.now());
    let received = stage.agent.receive(origin, Incoming { message, is_addressed: false }).await;
    assert_eq!(received.expect("an answer").end, End::Ignored(Why::Own));
    stage.ends().await;
}

#[tokio::test]
async fn plain_text_is_an_answer() {
    let mut stage = Stage::new().await;
    let question = stage.asks("ana", "What is 1 < 2?");
    stage.model.asked().await.writes("It is true: 1 < 2, and {2} is a set.\n");
    let answer = answer(question).await;
    assert_eq!((answer.text.as_str(), answer.end), ("It is true: 1 < 2, and {2} is a set.", End::Completed));
    stage.ends().await;
}

#[tokio::test]
async fn two_users_are_answered_side_by_side_and_see_nothing_of_each_other() {
    let mut stage = Stage::new().await;
    let ana = stage.asks("ana", "I am Ana");
    let for_ana = stage.model.asked().await;
    let bo = stage.asks("bo", "I am Bo");
    let for_bo = stage.model.asked().await;
    assert!(!for_bo.prompt.contains("I am Ana"), "{}", for_bo.prompt);
    for_bo.says("Hello, Bo");
    assert_eq!(answer(bo).await.text, "Hello, Bo");
    for_ana.says("Hello, Ana");
    assert_eq!(answer(ana).await.text, "Hello, Ana");
    stage.ends().await;
}

#[tokio::test]
async fn a_newer_question_supersedes_an_answer_which_says_so() {
    let mut stage = Stage::new().await;
    let older = stage.asks("ana", "Where is");
    let mut given_up = stage.model.asked().await;
    let newer = stage.asks("ana", "the key?");
    let superseded = answer(older).await;
    assert_eq!((superseded.text.as_str(), superseded.end), ("", End::Superseded));
    given_up.is_given_up().await;
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains(": Where is\n"), "{}", asked.prompt);
    asked.says("On the table");
    assert_eq!(answer(newer).await.text, "On the table");
    stage.ends().await;
}

#[tokio::test]
async fn what_fails_is_an_error() {
    let mut stage = Stage::new().await;
    let question = stage.asks("ana", "Hello");
    stage.model.asked().await.fails(StatusCode::UNAUTHORIZED);
    let error = failure(question).await;
    assert!(error.message().contains("the endpoint answered 401"), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown, "the question is stored");
    for user in ["", "a\nb", &"a".repeat(80)] {
        assert!(stage.agent.ask(user, "Hello").await.is_err(), "{user:?}");
    }
    let error = stage.agent.ask("ada", "Hello").await.expect_err("herself");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    stage.ends().await;
}

/// Records what is said in the kitchen.
#[derive(Debug, Clone, Default)]
struct Kitchen(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Platform for Kitchen {
    async fn say(&self, message: &Message) -> Result<()> {
        self.0.lock().expect("no panic").push(message.content.text.clone());
        Ok(())
    }
}

#[tokio::test]
async fn in_a_group_it_answers_who_asks_and_thinks_about_the_rest() {
    let kitchen = Kitchen::default();
    let mut stage = Stage::with(|builder| builder.platform("house", kitchen.clone())).await;
    let mut room = Room::new(RoomId::parse("kitchen").expect("valid"), ChannelType::Group);
    room.source = "house".to_owned();
    let room = stage.agent.room(room);
    let told = tokio::spawn({
        let room = room.clone();
        async move { room.tell("bo", "Ana, is there tea?").await }
    });
    stage.model.asked_to(Question::Respond).await.decides("IGNORE");
    let ignored = answer(told).await;
    assert_eq!((ignored.text.as_str(), ignored.end), ("", End::Ignored(Why::Model)));
    let asked = tokio::spawn(async move { room.ask("ana", "Is there?").await });
    let question = stage.model.asked_to(Question::Answer).await;
    assert!(question.prompt.contains("bo: Ana, is there tea?"), "{}", question.prompt);
    question.says("Yes");
    assert_eq!(said(&answer(asked).await), ["Yes"]);
    assert_eq!(*kitchen.0.lock().expect("no panic"), ["Yes"]);
    // In a private conversation nothing is said on the platform.
    let direct = stage.asks("ana", "Hello");
    stage.model.asked().await.says("Hi");
    assert_eq!(answer(direct).await.text, "Hi");
    assert_eq!(kitchen.0.lock().expect("no panic").len(), 1);
    stage.ends().await;
}

#[tokio::test]
async fn what_is_missing_is_told_before_anything_is_opened() {
    for builder in [
        Agent::builder("ada").model("http://localhost:1/v1", "small"),
        Agent::builder("ada").memory(Arc::new(InMemory::new())),
        Agent::builder("").memory(Arc::new(InMemory::new())).model("http://localhost:1/v1", "small"),
        Agent::builder("ada").memory("nowhere://").model("http://localhost:1/v1", "small"),
        Agent::builder("ada").memory(Arc::new(InMemory::new())).model("nowhere", "small"),
    ] {
        let error = builder.build().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
