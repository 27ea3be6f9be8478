//! An agent knows in the next turn what it learned in one; and runs whose message is erased.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use memory_context::flow::{End, Events, Incoming, MessageService, Platform, ReflectionEvaluator};
use memory_context::records::{Audience, EntityId, Message, MessageContent, NewMessage, RoomId};
use memory_context::state::{Character, ComposeOptions, Composer, ContextParts, Services, Turn};
use memory_core::{Clock, Erasure, Result, SystemClock};
use memory_model::{Completion, Model, Prompt};
use tokio::sync::Notify;

use crate::stage::{CaseResult, Stage, cases};

cases! {
    what_a_reflection_learned_is_recalled_in_the_next_turn,
    the_run_of_a_message_that_is_erased_ends_and_says_nothing,
}

/// Learns one fact, and asks for `FACTS` if it is asked about tea.
#[derive(Debug, Default)]
struct Scripted {
    prompts: Mutex<Vec<String>>,
}

#[async_trait]
impl Model for Scripted {
    async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
        let asked = prompt.messages[0].content.clone();
        let answer = if asked.contains("Reflect on") {
            r#"{"thought":"t","facts":[{"claim":"Ana drinks green tea in the morning","subject":"ana"}]}"#
        } else if asked.contains("What do I drink?") {
            r#"{"thought":"t","actions":["REPLY"],"providers":["FACTS"],"text":"Tea"}"#
        } else {
            r#"{"thought":"t","actions":["REPLY"],"text":"Good"}"#
        };
        self.prompts.lock().expect("no panic").push(asked);
        Ok(answer.into())
    }
}

#[derive(Debug)]
struct Silent;

#[async_trait]
impl Platform for Silent {
    async fn say(&self, _: &Message) -> Result<()> {
        Ok(())
    }
}

async fn what_a_reflection_learned_is_recalled_in_the_next_turn(stage: Stage) -> CaseResult {
    let records = stage.records("flow");
    let audience = Audience::new(RoomId::parse("r")?, EntityId::parse("ana")?);
    let model = Arc::new(Scripted::default());
    let asked: Arc<dyn Model> = Arc::clone(&model) as _;
    let reflection = ReflectionEvaluator::new(Duration::from_secs(60));
    let services = Services::new(records.clone(), Character::named("Eliza")).with_conversation_length(4);
    let parts = ContextParts::default().with_evaluator(Arc::new(reflection));
    let composer = Composer::builder(services).built_in().parts(parts).build()?;
    let events = Events::new(1_000, Arc::new(SystemClock));
    let service = Arc::new(MessageService::new(composer.clone(), asked, Arc::new(Silent), events));
    for text in ["Every morning I have sencha", "What do I drink?"] {
        let content = MessageContent::new(audience.room.clone(), audience.entity.clone(), text);
        let incoming = Incoming { message: NewMessage::new(content, SystemClock.now()), is_addressed: false };
        assert_eq!(service.receive(incoming).await, End::Completed);
    }
    let prompts = model.prompts.lock().expect("no panic").clone();
    let knows = |prompt: &&String| prompt.contains("Ana drinks green tea in the morning");
    let answers: Vec<_> = prompts.iter().filter(|prompt| prompt.contains("says and does next")).collect();
    let [first, second, with_facts] = &answers[..] else { panic!("{} answers", answers.len()) };
    assert!(!knows(first) && !knows(second) && knows(with_facts), "FACTS was asked for in the last alone");
    // Another process knows it, too.
    let services = Services::new(stage.records_elsewhere("flow"), Character::named("Eliza"));
    let elsewhere = Composer::builder(services).built_in().build()?;
    let content = MessageContent::new(audience.room.clone(), audience.entity.clone(), "green tea?");
    let message = records.messages().add(NewMessage::new(content, SystemClock.now())).await?;
    let state = elsewhere.compose_state(&Turn::new(message), &ComposeOptions::only(["FACTS"])).await;
    assert!(state.text.contains("Ana drinks green tea in the morning"), "{}", state.text);
    let [fact] = &records.facts().newest(&audience, 10).await?[..] else { panic!("one fact") };
    assert_eq!((&fact.subject, &fact.author), (&audience.entity, &records.agent().entity()));
    Ok(())
}

/// Tells when it is asked, and answers when it may.
#[derive(Debug, Default)]
struct Patient {
    asked: Notify,
    may_answer: Notify,
}

#[async_trait]
impl Model for Patient {
    async fn complete(&self, _: &Prompt) -> Result<Completion> {
        self.asked.notify_one();
        self.may_answer.notified().await;
        Ok(r#"{"thought":"t","actions":["REPLY"],"text":"Hello"}"#.into())
    }
}

/// Keeps what is said.
#[derive(Debug, Default)]
struct Listening {
    said: Mutex<Vec<String>>,
}

#[async_trait]
impl Platform for Listening {
    async fn say(&self, message: &Message) -> Result<()> {
        self.said.lock().expect("no panic").push(message.content.text.clone());
        Ok(())
    }
}

async fn the_run_of_a_message_that_is_erased_ends_and_says_nothing(stage: Stage) -> CaseResult {
    let records = stage.records("erased");
    let audience = Audience::new(RoomId::parse("r")?, EntityId::parse("ana")?);
    let (model, platform) = (Arc::new(Patient::default()), Arc::new(Listening::default()));
    let composer = Composer::builder(Services::new(records.clone(), Character::named("Eliza"))).built_in().build()?;
    let events = Events::new(1_000, Arc::new(SystemClock));
    let service = MessageService::new(composer, Arc::clone(&model) as _, Arc::clone(&platform) as _, events);
    let service = Arc::new(service);
    let content = MessageContent::new(audience.room.clone(), audience.entity.clone(), "Hello?");
    let incoming = Incoming { message: NewMessage::new(content, SystemClock.now()), is_addressed: false };
    let run = tokio::spawn(service.receive(incoming));
    model.asked.notified().await;
    let message = records.messages().recent(&audience, 1).await?.remove(0).id;
    let erasure = Erasure::records([message.into()], "a test")?;
    assert_eq!(stage.provider().erase(&erasure).await?.records.len(), 1);
    model.may_answer.notify_one();
    let end = run.await?;
    let End::Left { reason } = &end else { panic!("{end:?}") };
    // That it was erased is for operators.
    assert!(reason.contains("the message no longer exists") && !reason.contains("rased"), "{reason}");
    assert!(platform.said.lock().expect("no panic").is_empty());
    assert!(records.messages().recent(&audience, 9).await?.is_empty());
    assert!(service.recover().await?.is_empty(), "nobody goes on with it");
    Ok(())
}
