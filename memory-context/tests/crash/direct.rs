//! A service that answers in a direct conversation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use conformance::{CaseResult, Namespace};
use memory_context::flow::{
    AttachmentContent, AttachmentKind, AttachmentReader, Events, Incoming, Limits, MessageService,
};
use memory_context::prompt::{MemoryLoadContext, MemoryStore, PromptMemory};
use memory_context::records::{Attachment, Audience, EntityId, MessageContent, NewMessage, Records, RoomId};
use memory_context::state::{Character, Composer, ContextParts, Services};
use memory_context::tool::built_in_tools;
use memory_core::{MemoryProvider, Result, SystemClock, Timestamp};
use memory_model::openai::{OpenAiConfig, OpenAiModel};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::deadly::{Deadly, effect, effects};
use crate::model::{Asked, Model};
use crate::place::{Place, first_lease, open};
use crate::play::{INSTANCE, Loud, again, assert_said_once, count, once, said};
use crate::story::{Story, Told, kill_everywhere};

/// The messages of the test with two processes: more than one page of open messages has.
const MANY: usize = 60;

/// The model's text after it has the results.
const ANSWER: &str = "Hi";

fn service(place: &Place, provider: &Arc<dyn MemoryProvider>) -> Result<MessageService> {
    let records = Records::new(Deadly::engine(provider), place.agent()?);
    let services = Services::new(records, Character::named("Eliza"));
    let tools = vec![once(&place.folder), again(&place.folder)];
    let parts = ContextParts { tools, ..ContextParts::default() };
    let composer = Composer::builder(services).built_in().parts(parts).parts(built_in_tools()).build()?;
    let model = OpenAiModel::new(OpenAiConfig::new(&place.endpoint, &place.model))?;
    let events = Events::new(100, Arc::new(SystemClock));
    let platform = Arc::new(Loud(place.folder.clone()));
    let service = MessageService::new(composer, Arc::new(model), platform, events);
    Ok(service.with_attachment_reader(Arc::new(Reading(place.folder.clone()))))
}

/// Describes the attachments of a message in words.
#[derive(Debug)]
struct Reading(PathBuf);

#[async_trait]
impl AttachmentReader for Reading {
    async fn read(&self, _: &Attachment, _: AttachmentKind) -> Result<Option<AttachmentContent>> {
        effect(&self.0, "READ");
        Ok(Some(AttachmentContent { text: Some("a letter".to_owned()), ..AttachmentContent::default() }))
    }
}

/// What somebody says in a room. Each delivery is the same.
fn incoming(number: usize) -> Result<Incoming> {
    let mut content = MessageContent::new(RoomId::parse(format!("r{number}"))?, EntityId::parse("ana")?, "hello");
    content.attachments.push(Attachment { id: "1".to_owned(), url: "file:letter".to_owned(), ..Attachment::default() });
    let message = NewMessage::new(content, Timestamp::from_millis(1_700_000_000_000)?).with_external_id("7");
    Ok(Incoming { message, is_addressed: false })
}

/// The life of the other process.
pub(crate) async fn live(part: &str, place: &Place, provider: &Arc<dyn MemoryProvider>) -> CaseResult {
    let service = service(place, provider)?;
    let service = match part {
        "receives" | "recovers" => {
            let service = Arc::new(service.with_instance(INSTANCE)?);
            if part == "receives" {
                service.receive(incoming(0)?).await;
            }
            service.recover().await?;
            service
        }
        "is flooded" => {
            let service = Arc::new(service.with_limits(short()));
            let runs = (0..MANY).map(|number| Ok(service.receive(incoming(number)?)));
            futures::future::join_all(runs.collect::<Result<Vec<_>>>()?).await;
            service
        }
        _ => {
            let service = Arc::new(service.with_limits(short()));
            // What the killed process holds is free then, and what the other one holds has expired by then, or was
            // renewed.
            while let Some(lease) = first_lease(provider.as_ref()).await? {
                tokio::time::sleep(lease).await;
                service.recover().await?;
            }
            service
        }
    };
    service.shutdown().await;
    Ok(())
}

/// With leases that are long enough to be renewed while all messages start at once, and short enough for a test to wait
/// for them.
fn short() -> Limits {
    Limits { lease: Duration::from_secs(3), ..Limits::default() }
}

/// Calls both tools and keeps something, and answers once the model has the results.
fn answer(asked: Asked) {
    let results = asked.messages().iter().filter(|(role, _)| *role == "tool").count();
    match results {
        0 => asked.calls(&[
            ("ONCE", json!({})),
            ("AGAIN", json!({})),
            ("REMEMBER", json!({ "store": "user", "text": "Ana likes tea" })),
        ]),
        3 => asked.writes(ANSWER),
        _ => panic!("{results} results"),
    }
}

/// One message and its answer.
#[derive(Default)]
struct Direct {
    /// How often the room was told that a call may have happened.
    unclear: usize,
}

#[async_trait]
impl Story for Direct {
    // A process that only recovers answers stored messages, and a process to which they are delivered again answers the
    // others.
    const LIFE: &'static str = "direct receives";
    const THEN: &'static [&'static str] = &["direct recovers", "direct receives"];

    async fn begin(&self, _: &Records) -> Result<()> {
        Ok(())
    }

    fn answer(&self, asked: Asked, _: &str) -> Option<Asked> {
        answer(asked);
        None
    }

    async fn check(&mut self, told: &Told<'_>) -> CaseResult {
        let effects = &told.effects;
        let said = said(effects);
        assert_said_once(&said);
        assert!(["Looking", "Looked", "Hi"].iter().all(|text| said.contains_key(text)), "{told:?}");
        let unclear = said.keys().filter(|text| text.starts_with("ONCE: ")).count();
        assert!(count(effects, "ONCE") + unclear >= 1 && count(effects, "ONCE") <= 1, "{told:?}");
        for name in ["READ", "AGAIN"] {
            assert!((1..=2).contains(&count(effects, name)), "{name}, {told:?}");
        }
        assert_eq!(said.len(), 3 + unclear, "nothing else is said, {told:?}");
        self.unclear += unclear;

        let audience = Audience::new(RoomId::parse("r0")?, EntityId::parse("ana")?);
        let stored = told.records.messages().recent(&audience, 100).await?;
        let results = stored.iter().filter(|message| message.content.action_result.is_some()).count();
        assert_eq!((stored.len(), results), (7 + unclear, 3), "each once, {told:?}");
        let question = stored.iter().find(|message| message.content.text == "hello").ok_or("the question")?;
        assert_eq!(question.content.attachments[0].text.as_deref(), Some("a letter"), "{told:?}");
        let memory = PromptMemory::new(told.provider.documents());
        let of = MemoryLoadContext::of(&told.place.agent()?, question);
        let kept = memory.read(&of, MemoryStore::User).await?;
        assert_eq!(kept.as_deref(), Some("Ana likes tea"), "kept once, {told:?}");
        let met = told.records.relationships().of(&audience).await?;
        assert!(met.iter().all(|relationship| relationship.interactions == 1), "{met:?}, {told:?}");
        Ok(())
    }
}

pub(crate) async fn killed(url: &str) -> CaseResult {
    let mut story = Direct::default();
    let cut = kill_everywhere(url, &mut story).await?;
    assert!(cut > 15, "{cut} lives were cut");
    assert!(story.unclear > 0, "a call was cut");
    Ok(())
}

/// Answers for the model.
fn plays(mut model: Model) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            answer(model.asked().await);
        }
    })
}

pub(crate) async fn two_processes(url: &str) -> CaseResult {
    let (folder, mut model) = (TempDir::new()?, Model::start().await);
    let (agent, name, folder) = ("eliza".to_owned(), Namespace::unique().name, folder.path().to_owned());
    let (url, endpoint) = (url.to_owned(), model.url.clone());
    let place = Place { url, name, agent, folder, endpoint, model: "small".to_owned() };
    let mut flood = place.start("direct is flooded", None)?;
    // Each waits for its answer when the process is killed.
    let mut asked = Vec::new();
    while asked.len() < MANY {
        asked.push(model.asked().await);
    }
    flood.kill()?;
    flood.wait()?;
    drop(asked);
    let endpoint = plays(model);
    let mut both = [place.start("direct shares", None)?, place.start("direct shares", None)?];
    for status in spawn_blocking(move || both.each_mut().map(|child| child.wait())).await? {
        assert!(status?.success());
    }
    let effects = effects(&place.folder);
    assert_eq!(said(&effects).get("Hi").map_or(0, Vec::len), MANY, "{effects:?}");
    for name in ["ONCE", "AGAIN"] {
        assert_eq!(count(&effects, name), MANY, "{effects:?}");
    }
    let provider = place.provider().await?;
    assert_eq!(open(provider.as_ref()).await?, 0);
    endpoint.abort();
    provider.shutdown().await?;
    Ok(place.sandbox().remove(&place.url).await?)
}
