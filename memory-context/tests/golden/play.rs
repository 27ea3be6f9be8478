//! An agent in a file, a model that follows a script, and the result of each turn.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use futures::future::LocalBoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use memory_context::agent::{
    Agent, AgentBuilder, Answer, Arrival, ContextContent, ContextPart, ContextParts, End, HttpTrigger, Incoming,
    Limits, Piece,
};
use memory_context::core::{Clock, Error, ErrorKind, MemoryProvider, Result, Timestamp};
use memory_context::flow::platform::Origin;
use memory_context::flow::{EventKind, Notice, Platform, Recovered};
use memory_context::model::Modalities;
use memory_context::prompt::PromptMemory;
use memory_context::providers::Anxiety;
use memory_context::records::{
    Attachment, ChannelType, ChoiceOption, Entity, Message, NewChoice, NewMessage, Room, Secret, SettingDefinition,
    World,
};
use memory_context::state::{Character, ComposeOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::engine::Wrapped;
use crate::faults::{Prompts, Switch, Telegraph};
use crate::http::posts;
use crate::model::{Asked, Model, Question, within};
use crate::{record, tools};

/// Something that somebody says.
#[derive(Clone, Default)]
pub(crate) struct Line {
    pub(crate) room: &'static str,
    pub(crate) user: &'static str,
    pub(crate) text: &'static str,
    pub(crate) source: &'static str,
    pub(crate) id: Option<&'static str>,
    pub(crate) is_addressed: bool,
    pub(crate) attachments: Vec<Attachment>,
}

/// The model's answer to one request.
pub(crate) enum Reply {
    /// This text.
    Writes(String),
    /// This text, piece by piece.
    Streams(&'static [&'static str]),
    /// The beginning of a text, and why it breaks off.
    BreaksOff(&'static str, &'static str),
    /// Calls of tools.
    Calls(Vec<(&'static str, Value)>),
    /// An error.
    Fails(StatusCode),
    /// An error, however often it is asked.
    AlwaysFails(StatusCode),
    /// Nothing.
    Hangs,
}

/// Ada, her memory, and the turns so far.
pub(crate) struct Play {
    model: Model,
    ada: Ada,
    parts: Parts,
    minutes: i64,
    _folder: TempDir,
    turns: Vec<String>,
    /// The model's reflections on conversations, one after the other.
    pub(crate) reflections: VecDeque<Value>,
    /// The last prompt of each room.
    prompts: BTreeMap<&'static str, String>,
}

/// An agent, and the events of its runs.
struct Ada {
    agent: Agent,
    events: Events,
}

impl Ada {
    fn new(agent: Agent) -> Self {
        Self { events: Box::pin(agent.events().subscribe()), agent }
    }
}

/// The parts of the agents, one after the other.
struct Parts {
    engine: Arc<dyn MemoryProvider>,
    ledger: Switch,
    prompt_memory: Switch,
    endpoint: String,
    clock: Arc<Ticking>,
}

type Events = Pin<Box<dyn Stream<Item = Notice> + Send>>;

/// A clock on which no two things happen at the same time.
#[derive(Debug)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst)).expect("a time")
    }
}

/// A platform that is down.
#[derive(Debug)]
struct Down;

#[async_trait]
impl Platform for Down {
    async fn say(&self, _: &Message) -> Result<()> {
        Err(Error::new(ErrorKind::Unavailable, "the platform is down"))
    }
}

/// The providers that a prompt has only when they are named.
const NAMED: [&str; 6] = ["ATTACHMENTS", "ENTITIES", "FACTS", "REFLECTIONS", "RELATIONSHIPS", "WORLD"];
/// A full minute, in milliseconds since 1970.
const BEGIN: i64 = 1_700_000_040_000;
const GROUP: &str = "plaza";
/// It is not renewed during the test.
const LEASE: Duration = Duration::from_secs(3_600);

impl Play {
    pub(crate) async fn start() -> Self {
        let (folder, model) = (tempfile::tempdir().expect("a temporary folder"), Model::start().await);
        let url = format!("sqlite://{}", folder.path().join("agent.db").display());
        let engine = memory_runtime::open(&url).expect("a provider");
        let (ledger, prompt_memory, endpoint) = (Switch::default(), Switch::default(), model.url.clone());
        let clock = Arc::new(Ticking(AtomicI64::new(BEGIN)));
        let parts = Parts { engine, ledger, prompt_memory, endpoint, clock };
        let ada = Ada::new(parts.agent(|builder| builder).await);
        let (turns, reflections, prompts) = (Vec::new(), VecDeque::new(), BTreeMap::new());
        let play = Self { model, ada, parts, minutes: 0, _folder: folder, turns, reflections, prompts };
        play.set_up().await.expect("kept");
        play
    }

    /// The group's records from the beginning.
    async fn set_up(&self) -> Result<()> {
        let (records, now) = (self.ada.agent.records(), self.parts.clock.now());
        origin(GROUP, "ana").ensure(records).await?;
        let choice = |name: &str| ChoiceOption { name: name.into(), description: String::new() };
        let new = NewChoice::new(GROUP.parse()?, "Where do we meet?", ["harbour", "market"].map(choice), now);
        records.choices().ask(new).await?;
        for (key, is_secret) in [("language", false), ("password", true)] {
            let (key, name) = (key.to_owned(), key.to_owned());
            let definition =
                SettingDefinition { key: key.clone(), name, description: String::new(), is_required: true, is_secret };
            records.settings().define(&"town".parse()?, definition).await?;
            records.settings().set(&"town".parse()?, &key, Some(Secret::new("Spanish"))).await?;
        }
        Ok(())
    }

    /// Somebody says something, and the model gives all of these replies.
    ///
    /// Boxed, so that the futures of many turns don't share one stack.
    pub(crate) fn hears(&mut self, line: Line, replies: Vec<Reply>) -> LocalBoxFuture<'_, ()> {
        self.hear(line, replies).boxed_local()
    }

    async fn hear(&mut self, line: Line, replies: Vec<Reply>) {
        self.time_passes();
        let (mut replies, mut turn) = (VecDeque::from(replies), Turn::of(&line));
        let answer = self.receives(&line);
        if line.user != "ada" {
            self.plays(&mut replies, &mut turn).await;
        }
        self.ends_turn(&line, turn, Some(answer)).await;
        let left = replies.iter().filter(|reply| !matches!(reply, Reply::AlwaysFails(_))).count();
        assert_eq!(left, 0, "replies that the model was not asked for: {}", line.text);
    }

    /// Somebody asks the agent in private, and hears the answer as it is written.
    pub(crate) async fn hears_as_it_is_written(&mut self, line: Line, reply: Reply) {
        self.time_passes();
        let (mut turn, mut pieces) = (Turn::of(&line), self.ada.agent.ask_stream(line.user, line.text));
        let heard = tokio::spawn(async move {
            let mut heard = Vec::new();
            while let Some(piece) = pieces.next().await {
                heard.push(match piece.expect("no failure") {
                    Piece::Text(text) => text,
                    Piece::Answer(answer) => format!("{}: {}", answer.end.as_str(), answer.text),
                    other => panic!("{other:?}"),
                });
            }
            heard
        });
        self.plays(&mut VecDeque::from([reply]), &mut turn).await;
        let heard = within(heard).await.expect("no panic");
        self.keeps_turn(&line, turn, &json!({ "heard": heard }));
    }

    /// The second message comes before the model has answered the first.
    pub(crate) async fn hears_both(&mut self, first: Line, second: Line, reply: Reply) {
        self.time_passes();
        let superseded = self.receives(&first);
        let mut waiting = self.model.asked().await;
        self.time_passes();
        let answer = self.receives(&second);
        let mut turn = Turn::of(&first);
        turn.sees(&waiting);
        waiting.is_given_up().await;
        drop(waiting);
        self.ended().await;
        self.ends_turn(&first, turn, Some(superseded)).await;
        let mut turn = Turn::of(&second);
        self.plays(&mut VecDeque::from([reply]), &mut turn).await;
        self.ends_turn(&second, turn, Some(answer)).await;
    }

    /// The process ends while the model is asked, and the next one continues.
    pub(crate) async fn hears_across_a_restart(&mut self, line: Line, reply: Reply) {
        self.time_passes();
        let left = self.receives(&line);
        let waiting = self.model.asked().await;
        within(self.ada.agent.shutdown()).await.expect("closes");
        drop(waiting);
        let left = within(left).await.expect("no panic").expect("what was said until then");
        assert!(matches!(left.end, End::Left { .. }), "{left:?}");
        self.is_now(self.parts.agent(|builder| builder).await);
        let mut turn = Turn::of(&line);
        self.plays(&mut VecDeque::from([reply]), &mut turn).await;
        self.ends_turn(&line, turn, None).await;
    }

    /// Goes on with an agent that is built otherwise.
    pub(crate) async fn restarts(&mut self, set: impl FnOnce(AgentBuilder) -> AgentBuilder) {
        within(self.ada.agent.shutdown()).await.expect("closes");
        self.is_now(self.parts.agent(set).await);
    }

    /// Continues with another agent; returns the previous one.
    fn is_now(&mut self, agent: Agent) -> Ada {
        std::mem::replace(&mut self.ada, Ada::new(agent))
    }

    /// The ledger is down when somebody says something.
    pub(crate) async fn hears_without_ledger(&mut self, line: Line) {
        self.parts.ledger.goes_down();
        self.hears(line, vec![]).await;
        self.parts.ledger.comes_back();
    }

    /// The ledger goes down while the model is asked, and comes back. The agent continues when the lease of the message
    /// has expired.
    pub(crate) async fn hears_and_loses_the_ledger(&mut self, line: Line, reply: fn() -> Reply) {
        self.time_passes();
        let (answer, mut turn) = (self.receives(&line), Turn::of(&line));
        let asked = self.model.asked().await;
        self.parts.ledger.goes_down();
        turn.sees(&asked);
        reply().give(asked);
        self.ended().await;
        self.parts.ledger.comes_back();
        self.minutes += i64::try_from(LEASE.as_secs() / 60).expect("some minutes");
        self.time_passes();
        let service = Arc::clone(self.ada.agent.service());
        let recovered = tokio::spawn(async move { service.recover().await });
        self.plays(&mut VecDeque::from([reply()]), &mut turn).await;
        let recovered = within(recovered).await.expect("no panic").expect("recovered");
        assert!(matches!(&recovered[..], [Recovered { end: End::Completed, .. }]), "{recovered:?}");
        self.ends_turn(&line, turn, Some(answer)).await;
    }

    /// Another process with the same instance takes the message while the model is asked, and answers it.
    pub(crate) async fn hears_and_loses_the_message(&mut self, line: Line, reply: fn() -> Reply) {
        self.time_passes();
        let (answer, mut turn) = (self.receives(&line), Turn::of(&line));
        let asked = self.model.asked().await;
        turn.sees(&asked);
        let other = self.parts.agent(|builder| builder).await;
        let mut first = self.is_now(other);
        self.plays(&mut VecDeque::from([reply()]), &mut turn).await;
        reply().give(asked);
        within(ended(&mut first.events)).await;
        within(first.agent.shutdown()).await.expect("closes");
        self.ends_turn(&line, turn, Some(answer)).await;
    }

    /// The agent posts something in the group.
    pub(crate) async fn posts(&mut self, reply: Reply) {
        self.time_passes();
        let line = Line { room: GROUP, user: "ada", ..Line::default() };
        let (service, room) = (Arc::clone(self.ada.agent.service()), origin(line.room, line.user).room);
        let posted = tokio::spawn(async move { service.post(&room).await });
        // Its prompt is not that of an answer.
        let mut turn = Turn { room: "plaza: a post", ..Turn::of(&line) };
        self.plays(&mut VecDeque::from([reply]), &mut turn).await;
        let posted = within(posted).await.expect("no panic").expect("a post");
        self.keeps_turn(&line, turn, &json!({ "end": "completed", "answer": posted.post.post }));
    }

    /// Somebody says something by a route of the host.
    pub(crate) async fn is_posted(&mut self, line: Line, reply: Reply) {
        self.time_passes();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let clock = Arc::clone(&self.parts.clock);
        let read = move |posted: ContextContent| {
            let posted: Value = posted.to_value()?;
            let text = |name: &str| posted[name].as_str().unwrap_or_default();
            let origin = origin(text("room"), text("user"));
            let message = NewMessage::new(origin.message(text("text")), clock.now());
            Ok(Arrival { origin, incoming: Incoming { message, is_addressed: true } })
        };
        let route = HttpTrigger::new("route", listener, "/messages", read).expect("a route");
        self.ada.agent.add(ContextParts::default().with_trigger(Arc::new(route))).expect("a name");
        let body = json!({ "room": line.room, "user": line.user, "text": line.text });
        let posted = tokio::spawn(async move { posts(address, "accept: */*", &body).await });
        let mut turn = Turn::of(&line);
        self.plays(&mut VecDeque::from([reply]), &mut turn).await;
        let (status, body) = within(posted).await.expect("no panic");
        assert_eq!(status, 200, "{body}");
        self.keeps_turn(&line, turn, &json!({ "end": body["end"], "answer": body["text"] }));
        assert!(self.ada.agent.remove(&ContextPart::Trigger("route".to_owned())));
    }

    /// Somebody says something while the prompt memory is down.
    pub(crate) async fn hears_without_prompt_memory(&mut self, line: Line, replies: Vec<Reply>) {
        self.parts.prompt_memory.goes_down();
        self.hears(line, replies).await;
        self.parts.prompt_memory.comes_back();
    }

    /// Ends the agent. Returns the turns and the content of the file, and the last prompts.
    pub(crate) async fn ends(mut self) -> (usize, String, String) {
        assert!(self.model.is_idle() && self.reflections.is_empty(), "all is said");
        within(self.ada.agent.shutdown()).await.expect("closes");
        let (count, mut lines) = (self.turns.len(), self.turns);
        lines.extend(record::export(self.parts.engine.as_ref()).await);
        self.parts.engine.shutdown().await.expect("closes");
        let prompts: Vec<_> = self.prompts.into_values().collect();
        (count, record::stable(&lines), record::stable(&prompts))
    }

    /// The next minute begins, however often the clock was read in the last one.
    fn time_passes(&mut self) {
        self.minutes += 1;
        self.parts.clock.0.store(BEGIN + self.minutes * 60_000, Ordering::SeqCst);
    }

    fn receives(&self, line: &Line) -> JoinHandle<Result<Answer>> {
        let mut origin = origin(line.room, line.user);
        origin.room.source = line.source.to_owned();
        let mut message = NewMessage::new(origin.message(line.text), self.parts.clock.now());
        message.content.attachments.clone_from(&line.attachments);
        message.external_id = line.id.map(str::to_owned);
        let (agent, incoming) = (self.ada.agent.clone(), Incoming { message, is_addressed: line.is_addressed });
        tokio::spawn(async move { agent.receive(origin, incoming).await })
    }

    /// Answers for the model until the run is over.
    async fn plays(&mut self, replies: &mut VecDeque<Reply>, turn: &mut Turn) {
        let mut unanswered = Vec::new();
        loop {
            tokio::select! {
                biased;
                asked = self.model.asked() => {
                    if asked.about == Question::Reflect {
                        turn.sees(&asked);
                        let reflection = self.reflections.pop_front();
                        asked.writes(&reflection.unwrap_or_else(|| json!({ "thought": "It went well." })).to_string());
                        continue;
                    }
                    if asked.about == Question::Answer {
                        self.prompts.insert(turn.room, asked.prompt.clone());
                    }
                    let reply = replies.front().unwrap_or_else(|| panic!("no reply to {}", asked.prompt));
                    if let Reply::AlwaysFails(status) = reply {
                        if turn.asked.is_empty() {
                            turn.sees(&asked);
                        }
                        asked.fails(*status);
                        continue;
                    }
                    turn.sees(&asked);
                    unanswered.extend(replies.pop_front().expect("the first").give(asked));
                }
                () = ended(&mut self.ada.events) => return,
            }
        }
    }

    async fn ended(&mut self) {
        within(ended(&mut self.ada.events)).await;
    }

    async fn ends_turn(&mut self, line: &Line, turn: Turn, answer: Option<JoinHandle<Result<Answer>>>) {
        let answer = match answer {
            None => json!({}),
            Some(answer) => match within(answer).await.expect("no panic") {
                Err(error) => json!({ "error": error.to_string() }),
                Ok(answer) => {
                    let result = |result: &memory_context::agent::ToolResult| {
                        json!([result.tool, result.success, result.error.as_ref().or(result.text.as_ref())])
                    };
                    let results: Value = answer.results.iter().map(result).collect();
                    json!({ "end": answer.end.as_str(), "answer": answer.text, "results": results })
                }
            },
        };
        self.keeps_turn(line, turn, &answer);
    }

    fn keeps_turn(&mut self, line: &Line, turn: Turn, answer: &Value) {
        let mut told =
            json!({ "number": self.turns.len() + 1, "room": line.room, "user": line.user, "text": line.text });
        told["asked"] = json!(turn.asked);
        for (name, value) in answer.as_object().into_iter().flatten() {
            told[name] = value.clone();
        }
        self.turns.push(record::line(&told));
    }
}

impl Reply {
    /// Sends the reply; returns a request that gets no answer.
    fn give(self, asked: Asked) -> Option<Asked> {
        match self {
            Self::Writes(text) => asked.writes(&text),
            Self::Streams(pieces) => {
                let writing = asked.begins();
                pieces.iter().for_each(|piece| writing.writes(piece));
                writing.ends();
            }
            Self::BreaksOff(text, reason) => asked.breaks_off(text, reason),
            Self::Calls(calls) => asked.calls(&calls),
            Self::Fails(status) | Self::AlwaysFails(status) => asked.fails(status),
            Self::Hangs => return Some(asked),
        }
        None
    }
}

/// The model's requests in a turn.
struct Turn {
    room: &'static str,
    asked: Vec<Value>,
}

impl Turn {
    fn of(line: &Line) -> Self {
        Self { room: line.room, asked: Vec::new() }
    }

    /// Records the subject of a request, and the results of tools that it shows.
    fn sees(&mut self, asked: &Asked) {
        let results = asked.messages().into_iter().filter(|(role, _)| *role == "tool").map(|(_, text)| text);
        let results: Vec<_> = results.collect();
        self.asked.push(json!({ "about": format!("{:?}", asked.about), "results": results }));
    }
}

/// Waits for the end of a run.
async fn ended(events: &mut Events) {
    loop {
        match events.next().await.expect("the agent is there") {
            Notice::Event(event) if matches!(event.kind, EventKind::Ended(_)) => return,
            Notice::Event(_) => {}
            Notice::Missed(missed) => panic!("{missed} missed"),
        }
    }
}

impl Parts {
    /// An agent with other settings of the host.
    async fn agent(&self, set: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Agent {
        let Self { engine, ledger, prompt_memory, endpoint, clock } = self;
        let character = json!({
            "name": "Ada",
            "bio": ["Ada keeps the diary of the town."],
            "topics": ["tides"],
            "adjectives": ["calm"],
            "style": { "all": ["Say it once."] }
        });
        let character: Character = serde_json::from_value(character).expect("a character");
        let memory = PromptMemory::new(engine.documents());
        let builder = Agent::builder("ada")
            .memory(Arc::new(Wrapped { engine: Arc::clone(engine), around: ledger.clone() }))
            .prompt_memory(Prompts { memory, switch: prompt_memory.clone() })
            .model(endpoint, "small")
            .model_modalities(Modalities { images: true, documents: false })
            .character(character)
            .system("You are terse.")
            .options(ComposeOptions::with(NAMED))
            .memory_tools()
            .platform("radio", Down)
            .platform("telegraph", Telegraph)
            .limits(limits())
            .grace(Duration::ZERO)
            .instance("golden")
            .clock(Shared(Arc::clone(clock)));
        let agent = set(tools::of_the_host(builder)).build().await.expect("an agent");
        // With one piece of advice and one of each trait, nothing is chosen at random.
        let advice = serde_json::from_value(json!({ "direct": ["Sing."], "group": ["Be brief."] })).expect("advice");
        agent.replace(ContextParts::default().with_provider(Arc::new(Anxiety::with(advice)))).expect("a name");
        agent
    }
}

/// How long the agents wait.
pub(crate) fn limits() -> Limits {
    Limits { model: Duration::from_secs(10), action: Duration::from_secs(3), lease: LEASE, ..Limits::default() }
}

/// A clock that several agents read.
#[derive(Debug)]
struct Shared(Arc<Ticking>);

impl Clock for Shared {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

fn origin(room: &str, user: &str) -> Origin {
    let author = Entity::new(user.parse().expect("an id"), user);
    if room != GROUP {
        return Origin { world: None, room: Room::new(room.parse().expect("an id"), ChannelType::Dm), author };
    }
    let mut town = World::new("town".parse().expect("an id"));
    town.owner = Some("ana".parse().expect("an id"));
    let mut room = Room::new(room.parse().expect("an id"), ChannelType::Group);
    room.world = Some(town.id.clone());
    Origin { world: Some(town), room, author }
}
