//! The settings of an agent's builder.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use memory_context::agent::{Agent, End, Incoming, Limits};
use memory_context::core::{Clock, InMemory, MemoryProvider, SystemClock};
use memory_context::flow::platform::Origin;
use memory_context::flow::{AttachmentContent, AttachmentKind, AttachmentReader, RespondRules, Why};
use memory_context::model::{Completion, Embedder, Model, Prompt};
use memory_context::prompt::{MarkdownMemory, MemoryLoadContext, MemoryStore, PromptMemory};
use memory_context::records::{
    Attachment, Audience, ChannelType, Entity, EntityId, FactQuery, NewFact, NewMessage, Room, RoomId,
};
use memory_context::state::{Budget, ComposeOptions, ContextProvider, Cx, ProviderInfo, ProviderResult, Stability};
use memory_context::{ErrorKind, Result};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::yield_now;

use crate::model::{self, Question, within};
use crate::stage::{Stage, answer, results};

fn room(id: &str, channel_type: ChannelType) -> Room {
    Room::new(RoomId::parse(id).expect("valid"), channel_type)
}

fn person(id: &str, name: &str) -> Entity {
    Entity::new(EntityId::parse(id).expect("valid"), name)
}

fn audience(room: &str) -> Audience {
    Audience::new(RoomId::parse(room).expect("valid"), EntityId::parse("ana").expect("valid"))
}

#[tokio::test]
async fn a_prompt_memory_of_the_host_takes_the_place_of_the_agents_own() {
    let (folder, memory) = (tempfile::tempdir().expect("a folder"), Arc::new(InMemory::new()));
    let markdown = MarkdownMemory::new(folder.path());
    let mut stage = Stage::whole(|builder| builder.memory(Arc::clone(&memory)).prompt_memory(markdown)).await;
    let question = stage.asks("ana", "Remember that I like tea");
    stage.model.asked().await.calls(&[("REMEMBER", json!({ "store": "user", "text": "Ana likes tea" }))]);
    stage.model.asked().await.writes("I do");
    answer(question).await;
    let files = fs::read_dir(folder.path()).expect("the folder").map(|file| file.expect("a file").path());
    let texts: Vec<_> = files.map(|file| fs::read_to_string(file).expect("text")).collect();
    assert_eq!(texts.iter().filter(|text| text.contains("Ana likes tea")).count(), 1, "{texts:?}");
    let question = stage.asks("ana", "What do I like?");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("## About You\n\nAna likes tea"), "{}", asked.prompt);
    asked.writes("Tea");
    answer(question).await;
    let records = stage.agent.records();
    let said = records.messages().recent(&audience("dm:ana"), 1).await.expect("read").remove(0);
    let context = MemoryLoadContext::of(records.agent(), &said).with_user("ana");
    let own = PromptMemory::new(memory.documents());
    assert_eq!(own.read(&context, MemoryStore::User).await.expect("read"), None, "nothing is in the memory");
    stage.ends().await;
}

#[tokio::test]
async fn rules_of_the_host_answer_without_asking_a_model() {
    let rules = RespondRules::default().with_channel_type(ChannelType::Group);
    let mut stage = Stage::with(|builder| builder.rules(rules)).await;
    let group = stage.agent.room(room("group", ChannelType::Group));
    let told = tokio::spawn(async move { group.tell("ana", "Who comes?").await });
    stage.model.asked_to(Question::Answer).await.says("I do");
    assert_eq!(answer(told).await.text, "I do");
    stage.ends().await;
}

#[tokio::test]
async fn who_has_left_a_room_comes_back_with_what_they_say() {
    let mut stage = Stage::new().await;
    let audience = audience("dm:ana");
    for text in ["Hello", "I am back"] {
        let question = stage.asks("ana", text);
        stage.model.asked().await.writes("Hi");
        answer(question).await;
        let participants = stage.agent.records().participants();
        assert!(participants.get(&audience, &audience.entity).await.expect("read").is_some(), "{text}");
        participants.leave(&audience.room, &audience.entity).await.expect("left");
    }
    stage.ends().await;
}

/// An agent of one instance, whose leases no test outlives.
async fn instance(memory: Arc<InMemory>, url: String) -> Agent {
    let limits = Limits { lease: Duration::from_secs(24 * 3_600), ..Limits::default() };
    let builder = Agent::builder("ada").memory(memory).model(url, "small").limits(limits);
    builder.instance("one").build().await.expect("an agent")
}

#[tokio::test]
async fn an_agent_goes_on_with_what_its_instance_left_open() {
    let (memory, mut model) = (Arc::new(InMemory::new()), model::Model::start().await);
    // The first process ends with this runtime, in the middle of its work.
    let process = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let killed = process.spawn({
        let (memory, url) = (Arc::clone(&memory), model.url.clone());
        async move { instance(memory, url).await.ask("ana", "Are you there?").await.map(|answer| answer.text) }
    });
    let mut lost = model.asked().await;
    process.shutdown_background();
    killed.await.expect_err("it was killed");
    lost.is_given_up().await;
    let agent = instance(memory, model.url.clone()).await;
    let asked = model.asked().await;
    assert!(asked.prompt.contains("Are you there?"), "{}", asked.prompt);
    asked.says("I am");
    within(agent.shutdown()).await.expect("closes");
    let messages = agent.records().messages().recent(&audience("dm:ana"), 9).await.expect("read");
    let texts: Vec<_> = messages.iter().map(|message| message.content.text.as_str()).collect();
    assert_eq!(texts, ["I am", "Are you there?"]);
}

/// Remembers the texts whose vectors it is asked for.
#[derive(Debug)]
struct Vectors(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Embedder for Vectors {
    fn model(&self) -> &str {
        "tests"
    }

    fn width(&self) -> usize {
        2
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        self.0.lock().expect("no panic holds it").extend_from_slice(texts);
        let is_drink = |text: &String| ["drink", "sencha"].iter().any(|word| text.contains(word));
        Ok(texts.iter().map(|text| if is_drink(text) { vec![1.0, 0.0] } else { vec![0.0, 1.0] }).collect())
    }
}

/// Waits until the vector of a fact is requested; upkeep requests it after an answer.
async fn upkeep(embedded: &Mutex<Vec<String>>, fact: &str) {
    let is_asked = || embedded.lock().expect("no panic holds it").iter().any(|text| text.contains(fact));
    within(async {
        while !is_asked() {
            yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_embedder_of_the_host_is_asked_about_questions_and_facts() {
    let embedded = Arc::new(Mutex::new(Vec::new()));
    let mut stage = Stage::with(|builder| builder.embedder(Vectors(Arc::clone(&embedded)))).await;
    let (records, Audience { room, entity }) = (stage.agent.records(), audience("dm:ana"));
    let fact = NewFact::new(room, entity, records.agent().entity(), "Ana has sencha every morning", SystemClock.now());
    records.facts().remember(fact).await.expect("kept");
    for question in ["Hello", "What do I drink?"] {
        let asking = stage.asks("ana", question);
        let asked = stage.model.asked().await;
        assert!(embedded.lock().expect("no panic holds it").contains(&question.to_owned()));
        asked.says("Well");
        answer(asking).await;
    }
    upkeep(&embedded, "sencha").await;
    stage.ends().await;
}

#[tokio::test]
async fn a_model_finds_facts_by_their_meaning() {
    let mut stage = Stage::whole(|builder| builder.embedder(Vectors(Arc::default()))).await;
    let (records, Audience { room, entity }) = (stage.agent.records(), audience("dm:ana"));
    for text in ["Ana has sencha every morning", "Ana lives in Lima"] {
        let fact = NewFact::new(room.clone(), entity.clone(), records.agent().entity(), text, SystemClock.now());
        records.facts().remember(fact).await.expect("kept");
    }
    let said = stage.asks("ana", "Hello");
    stage.model.asked().await.says("Hi");
    answer(said).await;
    // Upkeep makes the vectors after the answer.
    let (facts, of_ana) = (records.facts(), audience("dm:ana"));
    let recalled = || async { facts.recall(&of_ana, &FactQuery::new("Lima")).await.expect("a recall") };
    within(async { while recalled().await.unembedded > 0 {} }).await;
    let question = stage.asks("ana", "What else?");
    let asked = stage.model.asked().await;
    assert!(asked.offered().contains(&"FIND_FACTS"), "{:?}", asked.offered());
    // It shares no word with the fact.
    asked.calls(&[("FIND_FACTS", json!({ "question": "Which drink?" }))]);
    stage.model.asked().await.writes("Sencha");
    let answer = answer(question).await;
    let [("FIND_FACTS", true, found)] = results(&answer)[..] else { panic!("{:?}", results(&answer)) };
    let found: Vec<Value> = serde_json::from_str(found).expect("JSON");
    assert_eq!(found[0]["fact"], "Ana has sencha every morning", "{found:?}");
    assert_eq!(found[0]["similarity"], 1.0);
    stage.ends().await;
}

/// A provider with this many lines below its name.
struct Note(ProviderInfo, usize);

#[async_trait]
impl ContextProvider for Note {
    fn info(&self) -> &ProviderInfo {
        &self.0
    }

    async fn get(&self, _: &Cx<'_>) -> Result<ProviderResult> {
        Ok(ProviderResult::text(format!("{}-begins{}", self.0.name, "\nxxxxxxxxx".repeat(self.1))))
    }
}

#[tokio::test]
async fn a_budget_and_an_order_of_the_host_make_the_prompts_of_runs() {
    // The order of the two does not matter.
    let options = || ComposeOptions::with(["LONG", "LAST"]).stable_first();
    for is_before in [true, false] {
        let mut stage = Stage::with(|builder| {
            let long = ProviderInfo::new("LONG", "").dynamic().priority(60);
            let last = ProviderInfo::new("LAST", "").priority(99).position(1_000).stability(Stability::Stable);
            let builder = builder.provider(Note(long, 5_000)).provider(Note(last, 0));
            match is_before {
                true => builder.budget(Budget::bytes(8_000)).options(options()),
                false => builder.options(options()).budget(Budget::bytes(8_000)),
            }
        })
        .await;
        let question = stage.asks("ana", "Hello");
        let asked = stage.model.asked().await;
        let prompt = &asked.prompt;
        // The text of the template is added to this.
        assert!((8_000..30_000).contains(&prompt.len()), "{} bytes", prompt.len());
        let place = |text: &str| prompt.find(text).unwrap_or_else(|| panic!("{text} in {prompt}"));
        assert!(place("LAST-begins") < place("LONG-begins"), "what stays the same is at the beginning");
        asked.says("Hi");
        answer(question).await;
        stage.ends().await;
    }
}

/// Ignores every message.
#[derive(Debug)]
struct Deaf;

#[async_trait]
impl Model for Deaf {
    async fn complete(&self, _: &Prompt) -> Result<Completion> {
        Ok("<response><reasoning>because</reasoning><action>IGNORE</action></response>".into())
    }
}

#[tokio::test]
async fn a_small_model_of_the_host_decides_whether_to_answer() {
    let mut stage = Stage::with(|builder| builder.small_model_client(Deaf)).await;
    let group = stage.agent.room(room("group", ChannelType::Group));
    let ignored = within(group.tell("ana", "Who comes?")).await.expect("an answer");
    assert_eq!((ignored.text.as_str(), ignored.end), ("", End::Ignored(Why::Model)));
    let asked = tokio::spawn(async move { group.ask("ana", "Ada, who comes?").await });
    stage.model.asked_to(Question::Answer).await.says("I do");
    assert_eq!(answer(asked).await.text, "I do", "the large one writes");
    stage.ends().await;
}

/// Sees a cat in every image.
#[derive(Debug)]
struct CatLover;

#[async_trait]
impl AttachmentReader for CatLover {
    async fn read(&self, _: &Attachment, kind: AttachmentKind) -> Result<Option<AttachmentContent>> {
        let seen = AttachmentContent { description: Some("A cat, surely".to_owned()), ..AttachmentContent::default() };
        Ok((kind == AttachmentKind::Image).then_some(seen))
    }
}

#[tokio::test]
async fn a_reader_of_the_host_puts_attachments_into_words() {
    let mut stage = Stage::with(|builder| builder.attachment_reader(CatLover)).await;
    let origin = Origin { world: None, room: room("dm:ana", ChannelType::Dm), author: person("ana", "Ana") };
    let mut message = NewMessage::new(origin.message("Look"), SystemClock.now());
    let (url, content_type) = ("https://host.example/roof.jpg".to_owned(), Some("image/jpeg".to_owned()));
    message.content.attachments.push(Attachment { id: "roof".into(), url, content_type, ..Attachment::default() });
    let agent = stage.agent.clone();
    let told = tokio::spawn(async move { agent.receive(origin, Incoming { message, is_addressed: false }).await });
    let asked = stage.model.asked_to(Question::Answer).await;
    assert!(asked.prompt.contains("A cat, surely"), "{}", asked.prompt);
    asked.says("Nice");
    assert_eq!(answer(told).await.text, "Nice");
    stage.ends().await;
}

#[tokio::test]
async fn rooms_are_there_from_the_beginning() {
    let kitchen = room("kitchen", ChannelType::Group);
    let members = || [person("ana", "Ana"), person("bo", "Bo")];
    let mut stage = Stage::with(|builder| builder.room(kitchen.clone(), members())).await;
    let records = stage.agent.records();
    assert_eq!(records.rooms().get(&audience("kitchen")).await.expect("read"), Some(kitchen.clone()));
    let present = records.participants().of_room(&audience("kitchen")).await.expect("read");
    let present: Vec<_> = present.iter().map(|participant| participant.entity.as_str()).collect();
    assert_eq!(present, ["ada", "ana", "bo"]);
    let bo = EntityId::parse("bo").expect("valid");
    let known = records.entities().get(&audience("kitchen"), &bo).await.expect("read").expect("Bo");
    assert_eq!(known.names, ["Bo"]);
    let said = stage.agent.room(kitchen);
    let told = tokio::spawn(async move { said.ask("ana", "Who is there?").await });
    stage.model.asked_to(Question::Answer).await.says("Bo");
    assert_eq!(answer(told).await.text, "Bo");

    // After a build with other members, the records stay, and a member that has left does not come back.
    records.participants().leave(&audience("kitchen").room, &bo).await.expect("left");
    let second = Agent::builder("ada").memory(stage.url()).model(&stage.model.url, "small");
    let second = second.room(room("kitchen", ChannelType::Dm), [person("cy", "Cy")]).build().await.expect("an agent");
    let known = second.records().rooms().get(&audience("kitchen")).await.expect("read").expect("the room");
    assert_eq!(known.channel_type, ChannelType::Group);
    assert_eq!(second.records().participants().of_room(&audience("kitchen")).await.expect("read").len(), 2);
    within(second.shutdown()).await.expect("closes");
    let of_ana = Agent::builder("ada").memory(stage.url()).model(&stage.model.url, "small");
    let refused = of_ana.room(room("dm:ana", ChannelType::Dm), members()).build().await.expect_err("a room of Ana's");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    stage.ends().await;
}
