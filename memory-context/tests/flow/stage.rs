//! Helpers of the tests of the flow.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use memory_context::embedding::Embedder;
use memory_context::flow::{
    End, EventKind, Events, FlowStep, Incoming, MessageService, Notice, Platform, ReflectionEvaluator,
};
use memory_context::records::{
    ActionResult, AgentId, Audience, ChannelType, EntityId, Message, MessageContent, NewMessage, Records, RoomId,
    RoomState,
};
use memory_context::state::{Character, Composer, ContextParts, Services};
use memory_context::tool;
use memory_core::{Clock, Error, ErrorKind, InMemory, ManualClock, Memory, MemoryProvider, Outcome, Result, Timestamp};
use memory_model::{Completion, Model, Prompt, ToolCall};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

/// The purpose of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Decide,
    Answer,
    Reflect,
    Post,
}

/// A question that a model was asked, and that the test answers.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) task: Task,
    pub(crate) prompt: String,
    /// The last message to the model: the prompt, or the result of its last call.
    pub(crate) told: String,
    answer: oneshot::Sender<Result<Completion>>,
}

impl Call {
    pub(crate) fn answer(self, answer: impl Into<Completion>) {
        // An error means that nobody waits any more, which the test sees afterwards.
        let _ = self.answer.send(Ok(answer.into()));
    }

    pub(crate) fn fail(self) {
        self.fail_with("the model is down");
    }

    pub(crate) fn fail_with(self, message: &str) {
        let _ = self.answer.send(Err(Error::new(ErrorKind::Unavailable, message)));
    }

    /// Waits until nobody waits for the answer.
    pub(crate) async fn dropped(mut self) {
        self.answer.closed().await;
    }

    /// The line of the message to answer.
    pub(crate) fn received(&self) -> &str {
        let (_, received) = self.prompt.split_once("# Received Message\n").expect("a message");
        received.lines().next().expect("a line")
    }
}

/// A model that asks the test.
#[derive(Debug)]
struct Asking(mpsc::UnboundedSender<Call>);

#[async_trait]
impl Model for Asking {
    async fn complete(&self, prompt: &Prompt) -> Result<Completion> {
        let asked = prompt.messages[0].content.clone();
        let tasks = [
            ("Decide whether", Task::Decide),
            ("says and does next", Task::Answer),
            ("Reflect on", Task::Reflect),
            ("Write a post", Task::Post),
        ];
        let (_, task) = tasks.into_iter().find(|(words, _)| asked.contains(words)).expect("a known template");
        let (answer, answered) = oneshot::channel();
        let told = prompt.messages.last().expect("a message").content.clone();
        let call = Call { task, prompt: asked, told, answer };
        self.0.send(call).map_err(|_| Error::new(ErrorKind::Unavailable, "the test is over"))?;
        answered.await.map_err(|_| Error::new(ErrorKind::Unavailable, "the test gave no answer"))?
    }
}

/// Records what is said.
#[derive(Debug)]
pub(crate) struct Said {
    messages: Mutex<Vec<Message>>,
    fails: AtomicBool,
    /// The number of messages that it says without reporting success.
    pub(crate) loses: AtomicUsize,
    /// Each message needs a permit.
    pub(crate) gate: Semaphore,
}

impl Said {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.messages.lock().expect("no panic").iter().map(|message| message.content.text.clone()).collect()
    }

    /// The messages, with their ids.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.messages.lock().expect("no panic").clone()
    }

    pub(crate) fn fails(&self) {
        self.fails.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Platform for Said {
    async fn say(&self, message: &Message) -> Result<()> {
        self.gate.acquire().await.expect("the gate is not closed").forget();
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the platform is down"));
        }
        self.messages.lock().expect("no panic").push(message.clone());
        let lost = self.loses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match lost {
            Ok(_) => Err(Error::new(ErrorKind::Unavailable, "the answer is lost").with_outcome(Outcome::Unknown)),
            Err(_) => Ok(()),
        }
    }
}

/// A service, and everything that it talks to.
pub(crate) struct Stage {
    pub(crate) service: Arc<MessageService>,
    /// Its composer; the service has the same registration.
    pub(crate) composer: Composer,
    /// The provider of the records.
    pub(crate) provider: Arc<dyn MemoryProvider>,
    pub(crate) records: Records,
    pub(crate) platform: Arc<Said>,
    pub(crate) clock: Arc<ManualClock>,
    calls: mpsc::UnboundedReceiver<Call>,
    events: BoxStream<'static, Notice>,
}

pub(crate) const NOW: i64 = 1_700_000_000_000;

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(|services| services, |service| service).await
    }

    /// The same with other services, and another service.
    pub(crate) async fn with(
        services: impl FnOnce(Services) -> Services,
        service: impl FnOnce(MessageService) -> MessageService,
    ) -> Self {
        Self::build(services, ContextParts::default(), None, service).await
    }

    /// The same with these parts.
    pub(crate) async fn with_parts(parts: ContextParts) -> Self {
        Self::build(|services| services, parts, None, |service| service).await
    }

    /// The same with an embedder.
    pub(crate) async fn with_embedder(embedder: Arc<dyn Embedder>) -> Self {
        Self::build(|services| services, ContextParts::default(), Some(embedder), |service| service).await
    }

    /// The same with these parts, and another service.
    pub(crate) async fn build_with(
        parts: ContextParts,
        service: impl FnOnce(MessageService) -> MessageService,
    ) -> Self {
        Self::build(|services| services, parts, None, service).await
    }

    /// The same with a reflection, which a conversation of this many messages triggers.
    pub(crate) async fn reflecting(messages: usize) -> Self {
        let reflection = ReflectionEvaluator::new(Duration::from_secs(60));
        let parts = ContextParts::default().with_evaluator(Arc::new(reflection));
        Self::build(|services| services.with_conversation_length(messages), parts, None, |service| service).await
    }

    /// Another process on the same memory, with the built-in tools.
    pub(crate) fn restarted(&self) -> Self {
        let provider = Arc::clone(&self.provider);
        Self::on(provider, |services| services, tool::built_in_tools(), None, |service| service)
    }

    /// The same on another provider.
    pub(crate) fn upon(provider: Arc<dyn MemoryProvider>, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self::on(provider, |services| services, ContextParts::default(), embedder, |service| service)
    }

    /// The services of its agent, without a host's own.
    pub(crate) fn services(&self) -> Services {
        Services::new(self.records.clone(), Character::named("Eliza"))
    }

    async fn build(
        services: impl FnOnce(Services) -> Services,
        parts: ContextParts,
        embedder: Option<Arc<dyn Embedder>>,
        service: impl FnOnce(MessageService) -> MessageService,
    ) -> Self {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("opens");
        Self::on(provider, services, parts, embedder, service)
    }

    /// Another process with the same memory, and a platform and a model of its own.
    pub(crate) fn elsewhere(
        &self,
        parts: ContextParts,
        service: impl FnOnce(MessageService) -> MessageService,
    ) -> Self {
        let (provider, clock) = (Arc::clone(&self.provider), Arc::clone(&self.clock));
        Self::over(provider, clock, |services| services, parts, None, service)
    }

    fn on(
        provider: Arc<dyn MemoryProvider>,
        services: impl FnOnce(Services) -> Services,
        parts: ContextParts,
        embedder: Option<Arc<dyn Embedder>>,
        service: impl FnOnce(MessageService) -> MessageService,
    ) -> Self {
        Self::over(provider, Arc::new(ManualClock::new(at(NOW))), services, parts, embedder, service)
    }

    fn over(
        provider: Arc<dyn MemoryProvider>,
        clock: Arc<ManualClock>,
        services: impl FnOnce(Services) -> Services,
        parts: ContextParts,
        embedder: Option<Arc<dyn Embedder>>,
        service: impl FnOnce(MessageService) -> MessageService,
    ) -> Self {
        let records = Records::new(Arc::clone(&provider), AgentId::parse("eliza").expect("valid"));
        let records = embedder.into_iter().fold(records, Records::with_embedder);
        let (sender, calls) = mpsc::unbounded_channel();
        let model: Arc<dyn Model> = Arc::new(Asking(sender));
        let base = Services::new(records.clone(), Character::named("Eliza")).with_clock(Arc::clone(&clock) as _);
        let composer = Composer::builder(services(base)).built_in().parts(parts).build();
        let composer = composer.expect("a composer");
        let (messages, gate) = (Mutex::default(), Semaphore::new(1_000));
        let (fails, loses) = (AtomicBool::new(false), AtomicUsize::new(0));
        let platform = Arc::new(Said { messages, fails, loses, gate });
        let events = Events::new(10_000, Arc::clone(&clock) as _);
        let stream = events.subscribe().boxed();
        let service = service(MessageService::new(composer.clone(), model, Arc::clone(&platform) as _, events));
        Self { service: Arc::new(service), composer, provider, records, platform, clock, calls, events: stream }
    }

    /// The agent follows the room.
    pub(crate) async fn follows(&self) {
        let (participants, agent) = (self.records.participants(), entity("eliza"));
        participants.join(&audience().room, &agent).await.expect("joins");
        participants.set_state(&audience().room, &agent, Some(RoomState::Followed)).await.expect("set");
    }

    /// Works on a message.
    pub(crate) fn receive(&self, incoming: Incoming) -> JoinHandle<End> {
        tokio::spawn(self.service.receive(incoming))
    }

    /// Resumes open work.
    pub(crate) fn recover(&self) -> JoinHandle<Vec<End>> {
        let service = Arc::clone(&self.service);
        tokio::spawn(async move {
            let recovered = service.recover().await.expect("looks");
            recovered.into_iter().map(|one| one.end).collect()
        })
    }

    /// So much time passes that every lease has run out.
    pub(crate) fn leases_run_out(&self) {
        self.clock.set(at(self.clock.now().as_millis() + 60_000));
    }

    /// The one message of Ana, as the ledger has it.
    pub(crate) async fn memory(&self, text: &str) -> Memory {
        let stored = self.stored().await;
        let message = stored.iter().find(|one| one.content.text == text).expect("it is stored");
        self.provider.get(message.id).await.expect("answers").expect("stored")
    }

    /// The next call of a model.
    pub(crate) async fn asked(&mut self) -> Call {
        self.calls.recv().await.expect("the service has the model")
    }

    /// The next call of a model, if there is one already.
    pub(crate) fn asked_already(&mut self) -> Option<Call> {
        self.calls.try_recv().ok()
    }

    /// Answers each call until a run is over, and returns the purposes of the calls.
    pub(crate) async fn play(&mut self, incoming: Incoming, answer: impl Fn(&Call) -> String) -> (End, Vec<Task>) {
        let mut run: BoxFuture<'_, End> = self.service.receive(incoming).boxed();
        let mut asked = Vec::new();
        loop {
            tokio::select! {
                biased;
                end = &mut run => return (end, asked),
                call = self.calls.recv() => {
                    let call = call.expect("the service has the model");
                    asked.push(call.task);
                    let answer = answer(&call);
                    call.answer(answer);
                }
            }
        }
    }

    /// The next event of any run.
    pub(crate) async fn event(&mut self) -> EventKind {
        match self.events.next().await.expect("the service has the events") {
            Notice::Event(event) => event.kind,
            Notice::Missed(missed) => panic!("{missed} missed"),
        }
    }

    /// Waits for a step of any run.
    pub(crate) async fn step(&mut self, is_meant: impl Fn(&FlowStep) -> bool) {
        while !matches!(self.event().await, EventKind::Step(step) if is_meant(&step)) {}
    }

    /// The events of all runs so far.
    pub(crate) fn events(&mut self) -> Vec<EventKind> {
        let mut events = Vec::new();
        while let Some(kind) = self.event().now_or_never() {
            events.push(kind);
        }
        events
    }

    /// All that is stored of the room, oldest first.
    pub(crate) async fn stored(&self) -> Vec<Message> {
        let mut stored = self.records.messages().recent(&audience(), 1_000).await.expect("read");
        stored.reverse();
        stored
    }

    pub(crate) async fn results(&self) -> Vec<ActionResult> {
        self.stored().await.into_iter().filter_map(|message| message.content.action_result).collect()
    }
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("in range")
}

pub(crate) fn room(name: &str) -> RoomId {
    RoomId::parse(name).expect("valid")
}

pub(crate) fn entity(name: &str) -> EntityId {
    EntityId::parse(name).expect("valid")
}

/// The room of most tests, as Ana sees it.
pub(crate) fn audience() -> Audience {
    Audience::new(room("r"), entity("ana"))
}

/// What somebody said this many milliseconds ago.
pub(crate) fn said(author: &str, text: &str, ago: i64) -> Incoming {
    let content = MessageContent::new(audience().room, entity(author), text);
    Incoming { message: NewMessage::new(content, at(NOW - ago)), is_addressed: false }
}

/// The same in a group, where a model is asked whether to answer.
pub(crate) fn said_in_group(author: &str, text: &str, ago: i64) -> Incoming {
    let mut incoming = said(author, text, ago);
    incoming.message.content.channel_type = ChannelType::Group;
    incoming
}

pub(crate) const RESPOND: &str = "<response><action>RESPOND</action></response>";
pub(crate) const IGNORE: &str = "<response><action>IGNORE</action></response>";

/// An answer that is a text.
pub(crate) fn text(text: &str) -> String {
    format!("<response><thought>t</thought><actions>REPLY</actions><text>{text}</text></response>")
}

/// The first answer of a model, and nothing more once there are results of actions.
pub(crate) fn once(call: &Call, first: &str) -> String {
    if call.prompt.contains("# Results of Actions") { actions("IGNORE", "") } else { first.to_owned() }
}

/// An answer with actions.
pub(crate) fn actions(actions: &str, text: &str) -> String {
    format!("<response><thought>why</thought><actions>{actions}</actions><text>{text}</text></response>")
}

/// An answer that looks for facts this many times, each time for something else.
pub(crate) fn asking_for_facts(times: usize) -> Completion {
    let calls = (0..times).map(|time| ToolCall {
        id: time.to_string(),
        name: "FIND_FACTS".to_owned(),
        arguments: serde_json::json!({ "question": format!("Which tea is number {time}?") }).to_string(),
    });
    Completion { tool_calls: calls.collect(), ..Completion::default() }
}
