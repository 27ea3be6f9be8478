//! An agent in a group: two people talk to it, the second while it thinks about the first.

use std::collections::{BTreeMap, BTreeSet};
use std::io::stdin;
use std::pin::pin;
use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use conformance::CaseResult;
use futures::StreamExt;
use futures::future::select;
use memory_context::agent::Agent;
use memory_context::embedding::Embedder;
use memory_context::flow::Incoming;
use memory_context::flow::platform::Origin;
use memory_context::prompt::{MemoryLoadContext, MemoryStore, PromptMemory};
use memory_context::records::{
    Audience, ChannelType, Entity, EntityId, FactQuery, NewFact, NewMessage, Records, Room, RoomId, World, WorldId,
};
use memory_context::tool::{Tool, ToolContext};
use memory_core::{
    Collection, Content, DocumentId, DocumentQuery, DocumentWrite, IdempotencyKey, Json, MemoryProvider, MemoryQuery,
    NewMemory, Result, SpaceId, Status, Timestamp, Trigger,
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::deadly::Deadly;
use crate::model::{Asked, Question};
use crate::place::{Place, open};
use crate::play::{INSTANCE, Looking, Loud, again, assert_said_once, count, once, said};
use crate::story::{Story, Told, kill_everywhere};

/// The source and target of messages.
const SOURCE: &str = "loud";
/// The number of earlier messages in the room: with those of the story, more than a reflection waits for.
const BEFORE: usize = 5;
const FIRST: &str = "Does anybody know Eliza?";
const SECOND: &str = "Who sings?";
const LATER: &str = "Eliza, are you there?";
const DAY: i64 = 1_700_000_000_000;

/// The number of the model's calls for the second message.
const CALLS: usize = 6;
const ANSWER: &str = "Hi";

/// An agent whose writes are between points.
pub(crate) async fn agent(place: &Place, provider: &Arc<dyn MemoryProvider>) -> Result<Agent> {
    let deadly = Deadly::engine(provider);
    let files = files(&deadly, place)?;
    Agent::builder(&place.agent)
        .memory(deadly)
        .model(&place.endpoint, &place.model)
        .embedder(Flat)
        .platform(SOURCE, Loud(place.folder.clone()))
        .tool(once(&place.folder))
        .tool(again(&place.folder))
        .tool(files)
        .evaluator(Looking::new(&place.folder))
        .instance(INSTANCE)
        .build()
        .await
}

/// Waits until the agent, by itself, has continued all open work.
pub(crate) async fn goes_on(agent: &Agent, provider: &Arc<dyn MemoryProvider>) -> Result<()> {
    let mut events = pin!(agent.events().subscribe());
    while open(provider.as_ref()).await? > 0 {
        events.next().await;
    }
    Ok(())
}

/// A tool that keeps several things at once, under the message of its call.
fn files(provider: &Arc<dyn MemoryProvider>, place: &Place) -> Result<Tool> {
    let (provider, space) = (Arc::clone(provider), file_space(place)?);
    let tool = Tool::new("FILE", move |(), context: ToolContext| {
        let (provider, space, message) = (Arc::clone(&provider), space.clone(), context.message().clone());
        async move {
            let keys = || ["a", "b"].map(|part| format!("{}-{part}", message.id));
            let memory = |key| {
                let trigger = Trigger::from_value(&json!({ "text": "filed" }))?;
                let memory = NewMemory::new(space.clone(), trigger, message.created_at).with_status(Status::Observed);
                Ok(memory.with_idempotency_key(IdempotencyKey::parse(key)?))
            };
            provider.store_many(keys().into_iter().map(memory).collect::<Result<_>>()?).await?;
            let document = |key| {
                let content = Content::parse("filed")?;
                let write = DocumentWrite::new(Collection::parse("files")?, space.clone(), content, message.created_at);
                Ok(write.with_id(DocumentId::parse(key)?))
            };
            provider.documents().put_many(keys().into_iter().map(document).collect::<Result<_>>()?).await?;
            Ok("filed")
        }
    });
    Ok(tool.repeatable())
}

fn file_space(place: &Place) -> Result<SpaceId> {
    SpaceId::parse(format!("files-{}", place.agent))
}

/// All texts mean the same.
#[derive(Debug)]
struct Flat;

#[async_trait]
impl Embedder for Flat {
    fn model(&self) -> &str {
        "flat"
    }

    fn width(&self) -> usize {
        1
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        Ok(vec![vec![1.0]; texts.len()])
    }
}

fn origin(author: &str) -> Result<Origin> {
    let world = World::new(WorldId::parse("town")?);
    let mut room = Room::new(RoomId::parse("plaza")?, ChannelType::Group);
    (room.world, room.source) = (Some(world.id.clone()), SOURCE.to_owned());
    Ok(Origin { world: Some(world), room, author: Entity::new(EntityId::parse(author)?, author) })
}

/// Somebody says something; each delivery is the same.
async fn says(agent: &Agent, author: &str, text: &str) -> Result<()> {
    let origin = origin(author)?;
    let seconds = (0..).zip([FIRST, SECOND, LATER]).find(|(_, one)| *one == text).map_or(0, |(seconds, _)| seconds);
    let at = Timestamp::from_millis(DAY + 1_000 * seconds)?;
    let message = NewMessage::new(origin.message(text), at).with_external_id(text);
    agent.receive(origin, Incoming { message, is_addressed: text == LATER }).await.map(drop)
}

/// Completes when the program that started this process tells it something.
fn told_something() -> oneshot::Receiver<()> {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        let _ = stdin().read_line(&mut String::new());
        let _ = tell.send(());
    });
    told
}

/// The life of the other process.
pub(crate) async fn live(part: &str, place: &Place, provider: &Arc<dyn MemoryProvider>) -> CaseResult {
    let agent = agent(place, provider).await?;
    if part == "talks" {
        let ana = agent.clone();
        let mut first = tokio::spawn(async move { says(&ana, "ana", FIRST).await });
        // The second message comes while the model works on the first.
        select(&mut first, told_something()).await;
        says(&agent, "bo", SECOND).await?;
        first.await??;
    } else {
        goes_on(&agent, provider).await?;
        for (author, text) in [("ana", FIRST), ("bo", SECOND), ("ana", LATER)] {
            says(&agent, author, text).await?;
        }
    }
    Ok(agent.shutdown().await?)
}

/// Two messages, of which the second supersedes the first, and a later one after both are done.
struct Group;

#[async_trait]
impl Story for Group {
    const LIFE: &'static str = "group talks";
    const THEN: &'static [&'static str] = &["group goes on"];

    async fn begin(&self, records: &Records) -> Result<()> {
        let Origin { room, author: ana, .. } = origin("ana")?;
        let at = |minutes: i64| Timestamp::from_millis(DAY - 3_600_000 + 60_000 * minutes);
        for minutes in (0..).take(BEFORE) {
            let new = NewMessage::new(origin("cleo")?.message(format!("It is {minutes}")), at(minutes)?);
            records.messages().add(new).await?;
        }
        let records = records.clone().with_embedder(Arc::new(Flat));
        for claim in ["Ana lives in Lima", "Ana sings"] {
            let fact = NewFact::new(room.id.clone(), ana.id.clone(), records.agent().entity(), claim, at(0)?);
            records.facts().remember(fact).await?;
        }
        records.upkeep().await.map(drop)
    }

    fn answer(&self, asked: Asked, life: &str) -> Option<Asked> {
        let results = asked.messages().iter().filter(|(role, _)| *role == "tool").count();
        match asked.about {
            Question::Respond => asked.decides("RESPOND"),
            Question::Reflect => {
                let fact = |claim: &str, corrects: &str| json!({ "claim": claim, "subject": "ana", "type": "fact", "corrects": corrects });
                let facts = [fact("Ana likes tea", ""), fact("Ana lives in Cusco", "Ana lives in Lima")];
                asked.writes(&json!({ "thought": "It went well.", "facts": facts }).to_string());
            }
            Question::Answer if asked.prompt.contains(LATER) => asked.writes("Fine"),
            Question::Answer if asked.prompt.contains(SECOND) && results == CALLS => asked.writes(ANSWER),
            Question::Answer if asked.prompt.contains(SECOND) => asked.calls(&[
                ("ONCE", json!({})),
                ("AGAIN", json!({})),
                ("FILE", json!({})),
                ("FORGET", json!({ "fact": "Ana sings" })),
                ("REMEMBER", json!({ "store": "user", "text": "The group likes songs" })),
                ("REMEMBER", json!({ "store": "memory", "text": "The deadline is Friday" })),
            ]),
            Question::Answer if life == Self::LIFE => return Some(asked),
            Question::Answer => asked.writes("Yes"),
        }
        None
    }

    async fn check(&mut self, told: &Told<'_>) -> CaseResult {
        let (records, effects) = (&told.records, &told.effects);
        let said = said(effects);
        assert_said_once(&said);
        assert!(["Looking", "Looked", "Hi", "Fine"].iter().all(|text| said.contains_key(text)), "{told:?}");
        let unclear = |name: &str| said.keys().filter(|text| text.starts_with(name)).count();
        let (unclear_once, unclear_forget) = (unclear("ONCE: "), unclear("FORGET: "));
        let is_first_answered = said.contains_key("Yes");
        assert!(told.is_cut || !is_first_answered, "the second supersedes it, {told:?}");
        let texts = 4 + unclear_once + unclear_forget + usize::from(is_first_answered);
        assert_eq!(said.len(), texts, "nothing else is said, {told:?}");
        let done = |name: &str| count(effects, name);
        assert!(done("ONCE") + unclear_once >= 1 && done("ONCE") <= 1, "{told:?}");
        assert!((1..=2).contains(&done("AGAIN")), "{told:?}");
        assert!([FIRST, SECOND].iter().all(|text| done(&format!("LOOKING at {text}")) <= 1), "{told:?}");
        assert_eq!(done(&format!("LOOKING at {LATER}")), 1, "{told:?}");

        let Origin { world, room, author: ana } = origin("ana")?;
        let audience = Audience::new(room.id.clone(), ana.id.clone());
        let stored = records.messages().recent(&audience, 100).await?;
        let results = stored.iter().filter(|message| message.content.action_result.is_some()).count();
        assert_eq!((stored.len(), results), (BEFORE + 3 + CALLS + texts, CALLS), "each once, {told:?}");
        let mut ends = BTreeMap::new();
        for message in stored.iter().filter(|message| [FIRST, SECOND, LATER].contains(&&*message.content.text)) {
            let memory = told.provider.get(message.id).await?.ok_or("a message")?;
            ends.insert(message.content.text.as_str(), memory.metadata.to_object()["end"].clone());
        }
        let completed = Json::String("completed".to_owned());
        let first = if is_first_answered { completed.clone() } else { Json::String("superseded".to_owned()) };
        let expected = [(FIRST, first), (SECOND, completed.clone()), (LATER, completed)];
        assert_eq!(ends, BTreeMap::from(expected), "{told:?}");

        assert_eq!(records.worlds().get(&audience).await?, world, "{told:?}");
        assert_eq!(records.rooms().of_world(&audience).await?, [room], "{told:?}");
        let people = records.entities().in_room(&audience).await?;
        let people: BTreeSet<_> = people.iter().map(|entity| entity.id.as_str()).collect();
        assert_eq!(people, BTreeSet::from(["ana", "bo", &*told.place.agent]), "{told:?}");
        let members = records.participants().of_room(&audience).await?;
        assert_eq!(members.len(), people.len(), "{told:?}");
        let met = records.relationships().of(&audience).await?;
        let of_ana = met.iter().find(|relationship| relationship.source == ana.id).ok_or("ana was answered")?;
        assert!((1..=1 + u64::from(is_first_answered)).contains(&of_ana.interactions), "{met:?}, {told:?}");

        let facts = records.facts().newest(&audience, 100).await?;
        let mut facts: Vec<_> = facts.iter().map(|fact| fact.text.as_str()).collect();
        facts.sort_unstable();
        facts.retain(|fact| unclear_forget == 0 || *fact != "Ana sings");
        assert_eq!(facts, ["Ana likes tea", "Ana lives in Cusco"], "each once, {told:?}");
        let embedded = records.clone().with_embedder(Arc::new(Flat));
        embedded.upkeep().await?;
        let found = embedded.facts().recall(&audience, &FactQuery::new("anything")).await?;
        assert_eq!(found.unembedded, 0, "{told:?}");
        let thoughts = records.reflections().newest(&audience, 100).await?;
        let sources: BTreeSet<_> = thoughts.iter().map(|thought| thought.source).collect();
        assert!(!thoughts.is_empty() && thoughts.len() == sources.len(), "{told:?}");

        let memory = PromptMemory::new(told.provider.documents());
        let question = stored.iter().find(|message| message.content.text == SECOND).ok_or("the question")?;
        let of = MemoryLoadContext::of(&told.place.agent()?, question);
        for (store, kept) in
            [(MemoryStore::User, "The group likes songs"), (MemoryStore::Memory, "The deadline is Friday")]
        {
            assert_eq!(memory.read(&of, store).await?.as_deref(), Some(kept), "kept once, {told:?}");
        }

        let space = file_space(told.place)?;
        let filed = told.provider.query(&MemoryQuery::builder().exact(space.clone()).build()?).await?.memories.len();
        let documents = DocumentQuery::builder(Collection::parse("files")?).exact(space).build()?;
        let documents = told.provider.documents().query(&documents).await?.documents.len();
        assert_eq!((filed, documents), (2, 2), "{told:?}");
        Ok(())
    }
}

pub(crate) async fn killed(url: &str) -> CaseResult {
    let cut = kill_everywhere(url, &mut Group).await?;
    assert!(cut > 15, "{cut} lives were cut");
    Ok(())
}
