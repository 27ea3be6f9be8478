//! Triggers, which bring messages to an agent.

use std::future::pending;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::http::StatusCode;
use futures::StreamExt;
use memory_context::agent::{
    Agent, Arrival, ContextContent, ContextPart, ContextParts, ContextPlugin, HttpTrigger, Incoming, Limits,
    MessageTrigger, SourceTrigger, TriggerContext,
};
use memory_context::core::{Clock, Erasure, InMemory, MemoryId, Status, SystemClock};
use memory_context::flow::platform::Origin;
use memory_context::flow::{End, Event, EventKind, Notice};
use memory_context::model::{Completion, Prompt};
use memory_context::records::{Audience, ChannelType, Entity, NewMessage, Room, RoomId};
use memory_context::state::{Services, Values};
use memory_context::{Error, ErrorKind, Result};
use memory_runtime::{ContextItem, ContextKind, Finished, NewTask, Space, TaskSender, TriggerSource};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use crate::http::posts;
use crate::model::within;
use crate::stage::Stage;

fn room() -> Room {
    Room::new(RoomId::parse("line").expect("valid"), ChannelType::Api)
}

/// A line on which a test calls the agent.
#[derive(Debug)]
struct Line {
    calls: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    heard: mpsc::UnboundedSender<String>,
    log: Log,
}

/// The starts and ends, in their order.
type Log = Arc<Mutex<Vec<&'static str>>>;

/// The test's ends of a line.
struct Caller {
    calls: mpsc::UnboundedSender<String>,
    heard: mpsc::UnboundedReceiver<String>,
}

fn line(log: &Log) -> (Line, Caller) {
    let ((calls, called), (said, heard)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let line = Line { calls: Mutex::new(Some(called)), heard: said, log: Arc::clone(log) };
    (line, Caller { calls, heard })
}

#[async_trait]
impl MessageTrigger for Line {
    fn name(&self) -> &str {
        "line"
    }

    async fn run(&self, context: TriggerContext) -> Result<()> {
        let calls = self.calls.lock().expect("no panic holds it").take();
        let mut calls = calls.ok_or_else(|| Error::invalid("it runs once"))?;
        loop {
            tokio::select! {
                () = context.stopped() => break,
                Some(text) = calls.recv() => {
                    let answer = context.agent()?.room(room()).ask("bo", text).await?;
                    // The test may have ended.
                    let _ = self.heard.send(answer.text);
                }
            }
        }
        assert!(context.is_stopped());
        self.log.lock().expect("no panic holds it").push("line");
        Ok(())
    }
}

/// Brings a line along.
#[derive(Debug)]
struct Telephone {
    line: Arc<Line>,
}

#[async_trait]
impl ContextPlugin for Telephone {
    fn name(&self) -> &str {
        "telephone"
    }

    async fn init(&self, _: &Values, _: &Services) -> Result<ContextParts> {
        Ok(ContextParts::default().with_trigger(Arc::clone(&self.line) as _))
    }

    async fn shutdown(&self) -> Result<()> {
        self.line.log.lock().expect("no panic holds it").push("telephone");
        Ok(())
    }
}

async fn calls(stage: &mut Stage, caller: &mut Caller, text: &str) {
    caller.calls.send(text.to_owned()).expect("it listens");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains(text), "{}", asked.prompt);
    asked.says("Who is there?");
    assert_eq!(within(caller.heard.recv()).await.expect("an answer"), "Who is there?");
}

#[tokio::test]
async fn what_a_trigger_of_a_plugin_brings_is_answered_by_the_same_agent() {
    let (log, mut stage) = (Log::default(), Stage::with(|builder| builder).await);
    let (line, mut caller) = line(&log);
    let telephone = Telephone { line: Arc::new(line) };
    stage.agent.install(telephone, &Values::new()).await.expect("installed");
    calls(&mut stage, &mut caller, "Hello").await;
    let audience = Audience::new(room().id, "bo".parse().expect("valid"));
    let stored = stage.agent.records().messages().recent(&audience, 9).await.expect("read");
    let stored: Vec<_> = stored.iter().map(|message| message.content.text.as_str()).collect();
    assert_eq!(stored, ["Who is there?", "Hello"]);

    assert!(within(stage.agent.uninstall("telephone")).await.expect("ended"));
    assert_eq!(*log.lock().expect("no panic holds it"), ["line", "telephone"], "the trigger ends first");
    assert!(caller.calls.send("Hello?".into()).is_err(), "nobody listens");
    stage.ends().await;
}

#[tokio::test]
async fn triggers_end_where_they_are_replaced_or_taken_away_and_at_the_shutdown() {
    let log = Log::default();
    let ((first, mut caller), (second, mut other), (third, mut last)) = (line(&log), line(&log), line(&log));
    let mut stage = Stage::with(|builder| builder.trigger(first)).await;
    calls(&mut stage, &mut caller, "Hello").await;
    let parts = |line| ContextParts::default().with_trigger(Arc::new(line));
    stage.agent.replace(parts(second)).expect("a name");
    within(caller.calls.closed()).await;
    calls(&mut stage, &mut other, "And now?").await;
    assert!(stage.agent.remove(&ContextPart::Trigger("line".into())));
    within(other.calls.closed()).await;
    stage.agent.add(parts(third)).expect("a new name");
    let (unfit, _caller) = line(&log);
    assert_eq!(stage.agent.add(parts(unfit)).expect_err("taken").kind(), ErrorKind::InvalidInput);
    calls(&mut stage, &mut last, "Still there?").await;
    within(stage.agent.shutdown()).await.expect("closes");
    assert_eq!(*log.lock().expect("no panic holds it"), ["line"; 3]);
    let (late, caller) = line(&log);
    stage.agent.replace(parts(late)).expect("a name");
    assert!(!caller.calls.is_closed() && log.lock().expect("no panic holds it").len() == 3, "nothing starts any more");
}

/// A bell, for a runtime or for an agent.
#[derive(Debug)]
struct Bell {
    rings: Mutex<Option<mpsc::UnboundedReceiver<Ring>>>,
    heard: mpsc::UnboundedSender<Heard>,
}

/// What a test submits by a bell.
enum Ring {
    /// Something whose end the bell waits for.
    Submit(&'static str),
    /// Something that it leaves to the host.
    Leave(&'static str),
    Observe(&'static str),
}

/// What a bell learns of its submission.
type Heard = Result<(MemoryId, Option<Finished>)>;

#[async_trait]
impl TriggerSource for Bell {
    fn name(&self) -> &str {
        "bell"
    }

    async fn run(&self, tasks: TaskSender) -> Result<()> {
        let rings = self.rings.lock().expect("no panic holds it").take();
        let mut rings = rings.ok_or_else(|| Error::invalid("it runs once"))?;
        loop {
            let ring = tokio::select! {
                () = tasks.stopped() => return Ok(()),
                Some(ring) = rings.recv() => ring,
            };
            let heard = match ring {
                Ring::Submit(text) => submitted(&tasks, text).await,
                Ring::Leave(text) => tasks.submit(task(text)?).await.map(|handle| (handle.id(), None)),
                Ring::Observe(text) => tasks.observe(task(text)?).await.map(|id| (id, None)),
            };
            // The test may have ended.
            let _ = self.heard.send(heard);
        }
    }
}

async fn submitted(tasks: &TaskSender, text: &str) -> Heard {
    let handle = tasks.submit(task(text)?).await?;
    Ok((handle.id(), Some(handle.wait().await?)))
}

fn task(text: &str) -> Result<NewTask> {
    let content = ContextContent::from_value(&json!({ "text": text }))?;
    Ok(NewTask::new(Space::new("house-door".parse()?), ContextItem::trigger("bell", content, SystemClock.now())))
}

/// A message of somebody at the door.
fn at_the_door(task: NewTask) -> Result<Arrival> {
    let content: Value = task.trigger.content.to_value()?;
    let text = content["text"].as_str().filter(|text| !text.is_empty()).ok_or_else(|| Error::invalid("no text"))?;
    let origin = Origin { world: None, room: room(), author: Entity::new("bo".parse()?, "Bo") };
    let message = NewMessage::new(origin.message(text), task.trigger.timestamp);
    Ok(Arrival { origin, incoming: Incoming { message, is_addressed: false } })
}

/// A bell at the door of an agent with this many concurrent arrivals.
async fn with_a_bell(arrivals: u32) -> (mpsc::UnboundedSender<Ring>, mpsc::UnboundedReceiver<Heard>, Stage) {
    let ((rings, rung), (told, heard)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let trigger = SourceTrigger::new(Bell { rings: Mutex::new(Some(rung)), heard: told }, at_the_door);
    let limits = Limits { arrivals, ..Limits::default() };
    (rings, heard, Stage::with(|builder| builder.trigger(trigger).limits(limits)).await)
}

#[tokio::test]
async fn what_is_submitted_is_kept_at_once_and_answered_behind_its_source() {
    let (rings, mut heard, mut stage) = with_a_bell(2).await;
    let mut ends = Box::pin(stage.agent.events().subscribe().filter_map(async |notice| match notice {
        Notice::Event(Event { kind: EventKind::Ended(end), .. }) => Some(end),
        _ => None,
    }));
    rings.send(Ring::Leave("A parcel")).expect("it listens");
    let (id, _) = within(heard.recv()).await.expect("told").expect("kept");
    let audience = Audience::new(room().id, "bo".parse().expect("valid"));
    let kept = stage.agent.records().messages().get(&audience, id).await.expect("read").expect("the message");
    assert_eq!(kept.content.text, "A parcel");
    let parcel = stage.model.asked().await;
    rings.send(Ring::Leave("And a letter")).expect("it listens");
    within(heard.recv()).await.expect("told").expect("kept, while the first is not answered");
    // It supersedes the first.
    let letter = stage.model.asked().await;
    assert!(letter.prompt.contains("Bo: And a letter"), "{}", letter.prompt);
    drop(parcel);
    assert!(stage.agent.remove(&ContextPart::Trigger("bell".into())));
    within(rings.closed()).await;
    letter.says("Thank you");
    assert_eq!([within(ends.next()).await, within(ends.next()).await], [Some(End::Superseded), Some(End::Completed)]);
    drop(ends);
    stage.ends().await;
}

#[tokio::test]
async fn what_starts_tasks_of_a_runtime_brings_messages_to_an_agent() {
    let (rings, mut heard, mut stage) = with_a_bell(1).await;
    let audience = Audience::new(room().id, "bo".parse().expect("valid"));
    rings.send(Ring::Observe("It rings")).expect("it listens");
    let (id, finished) = within(heard.recv()).await.expect("told").expect("kept");
    let observed = stage.agent.records().messages().get(&audience, id).await.expect("read").expect("the message");
    assert_eq!((observed.content.text.as_str(), finished), ("It rings", None));

    rings.send(Ring::Submit("Let me in")).expect("it listens");
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("It rings") && asked.prompt.contains("Bo: Let me in"), "{}", asked.prompt);
    asked.says("Who is there?");
    let (id, finished) = within(heard.recv()).await.expect("told").expect("answered");
    let finished = finished.expect("its end");
    let submitted = stage.agent.records().messages().get(&audience, id).await.expect("read").expect("the message");
    assert_eq!((submitted.content.text.as_str(), finished.id, finished.status), ("Let me in", id, Status::Completed));
    let chain: Vec<_> = finished.chain.iter().map(|item| (item.kind, item.content.as_str())).collect();
    assert_eq!(chain, [(ContextKind::Result, r#"{"text":"Who is there?"}"#)]);

    // A failed one is reported as failed, and ends nothing.
    rings.send(Ring::Submit("Hello?")).expect("it listens");
    stage.model.asked().await.fails(StatusCode::BAD_REQUEST);
    let (id, finished) = within(heard.recv()).await.expect("told").expect("received");
    assert_eq!(finished.expect("its end").status, Status::Failed);
    assert!(stage.agent.records().messages().get(&audience, id).await.expect("read").is_some());

    rings.send(Ring::Submit("")).expect("it listens");
    let refused = within(heard.recv()).await.expect("told").expect_err("no message");
    assert_eq!((refused.kind(), refused.message()), (ErrorKind::InvalidInput, "no text"));
    assert!(stage.agent.remove(&ContextPart::Trigger("bell".into())));
    within(rings.closed()).await;
    stage.ends().await;
}

#[tokio::test]
async fn a_source_is_told_that_what_was_erased_is_not_there() {
    let (rings, mut heard, mut stage) = with_a_bell(1).await;
    rings.send(Ring::Submit("Let me in")).expect("it listens");
    let asked = stage.model.asked().await;
    let (records, audience) = (stage.agent.records(), Audience::new(room().id, "bo".parse().expect("valid")));
    let message = records.messages().recent(&audience, 1).await.expect("read").remove(0).id;
    let erasure = Erasure::records([message.into()], "a test").expect("valid");
    assert_eq!(stage.erases(&erasure).await, 1);
    asked.says("Who is there?");
    let gone = within(heard.recv()).await.expect("told").expect_err("nobody answers it");
    assert_eq!((gone.kind(), gone.message()), (ErrorKind::NotFound, "the message no longer exists"));
    assert!(records.messages().recent(&audience, 9).await.expect("read").is_empty());
    assert!(stage.agent.remove(&ContextPart::Trigger("bell".into())));
    within(rings.closed()).await;
    stage.ends().await;
}

/// A model that is not asked.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl memory_context::model::Model for Silent {
    async fn complete(&self, _: &Prompt) -> Result<Completion> {
        Err(Error::new(ErrorKind::Unavailable, "as a test"))
    }
}

/// A trigger that misbehaves.
#[derive(Debug)]
struct Unruly(&'static str, Arc<Notify>);

#[async_trait]
impl MessageTrigger for Unruly {
    fn name(&self) -> &str {
        self.0
    }

    async fn run(&self, context: TriggerContext) -> Result<()> {
        self.1.notify_one();
        match self.0 {
            "hang" => pending().await,
            "panic" => panic!("as a test"),
            "wait" => {
                context.stopped().await;
                assert_eq!(context.agent().expect_err("it is gone").kind(), ErrorKind::Closed);
                self.1.notify_one();
                Ok(())
            }
            _ => Err(Error::invalid("as a test")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_fails_panics_or_hangs_holds_up_nobody() {
    let builder = || Agent::builder("ada").memory(Arc::new(InMemory::new())).model_client(Silent);
    let began = ["hang", "panic", "fail"].map(|name| (name, Arc::new(Notify::new())));
    let triggers = began.iter().map(|(name, began)| Unruly(name, Arc::clone(began)));
    let agent = triggers.fold(builder(), |builder, trigger| builder.trigger(trigger)).build().await.expect("an agent");
    for (_, began) in &began {
        began.notified().await;
    }
    agent.shutdown().await.expect("closes");

    // A host that drops its agent has them stop too.
    let waits = Arc::new(Notify::new());
    let agent = builder().trigger(Unruly("wait", Arc::clone(&waits))).build().await.expect("an agent");
    waits.notified().await;
    drop(agent);
    waits.notified().await;
}

/// A message as the platform posts it.
fn read(posted: ContextContent) -> Result<Arrival> {
    let posted: Value = posted.to_value()?;
    let field = |name: &str| posted[name].as_str().ok_or_else(|| Error::invalid(format!("{name} must be a text")));
    let origin = Origin { world: None, room: room(), author: Entity::new(field("from")?.parse()?, field("from")?) };
    let mut message = NewMessage::new(origin.message(field("text")?), SystemClock.now());
    message.external_id = Some(field("id")?.to_owned());
    Ok(Arrival { origin, incoming: Incoming { message, is_addressed: true } })
}

#[tokio::test]
async fn what_is_posted_to_a_route_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let trigger = HttpTrigger::new("messages", listener, "/messages", read).expect("a route");
    let mut stage = Stage::with(|builder| builder.trigger(trigger)).await;
    let hello = json!({ "from": "bo", "text": "Hello", "id": "7" });
    let posted = tokio::spawn({
        let hello = hello.clone();
        async move { posts(address, "accept: */*", &hello).await }
    });
    let asked = stage.model.asked().await;
    assert!(asked.prompt.contains("bo: Hello"), "{}", asked.prompt);
    asked.says("Hi");
    let (status, body) = within(posted).await.expect("no panic");
    assert_eq!((status, &body["text"], &body["end"]), (200, &json!("Hi"), &json!("completed")));
    assert_eq!(body["run"].as_str().expect("a run").len(), 36);

    let (status, body) = within(posts(address, "accept: */*", &hello)).await;
    assert_eq!((status, &body["text"], &body["end"]), (200, &json!(""), &json!("ignored")), "it came before");
    let (status, _) =
        within(posts(address, "accept: */*", &json!({ "from": "bo", "text": "x".repeat(65_537), "id": "8" }))).await;
    assert_eq!(status, 413);
    let (status, _) = within(posts(address, "accept: */*", &json!({ "from": "bo" }))).await;
    assert_eq!(status, 400);
    let (status, _) = within(posts(address, "origin: https://host", &hello)).await;
    assert_eq!(status, 403);
    stage.ends().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_route_takes_no_more_in_than_it_may() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let trigger = HttpTrigger::new("messages", listener, "/messages", read).expect("a route");
    let limits = Limits { arrivals: 1, ..Limits::default() };
    let mut stage = Stage::with(|builder| builder.trigger(trigger).limits(limits)).await;
    let post = |text: &str| {
        let body = json!({ "from": "bo", "text": text, "id": text });
        tokio::spawn(async move { posts(address, "accept: */*", &body).await })
    };
    let first = post("One");
    let asked = stage.model.asked().await;
    let (status, body) = within(post("Two")).await.expect("no panic");
    assert!(
        status == 503 && body["error"].as_str().is_some_and(|error| error.contains("try again")),
        "{status} {body}"
    );
    asked.says("One!");
    assert_eq!(within(first).await.expect("no panic").0, 200);
    let again = post("Two");
    stage.model.asked().await.says("Two!");
    assert_eq!(within(again).await.expect("no panic").1["text"], "Two!");
    let audience = Audience::new(room().id, "bo".parse().expect("valid"));
    assert_eq!(stage.agent.records().messages().recent(&audience, 9).await.expect("read").len(), 4);
    stage.ends().await;
}
