//! An agent in a file, a model that follows a script, and what came of each turn.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use futures::future::LocalBoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use memory_context::agent::{Agent, Answer, ContextParts, End, Incoming, Limits};
use memory_context::core::{Clock, Error, ErrorKind, Result, Timestamp};
use memory_context::flow::platform::Origin;
use memory_context::flow::{EventKind, Notice, Platform};
use memory_context::model::Modalities;
use memory_context::providers::Anxiety;
use memory_context::records::{
    Attachment, ChannelType, ChoiceOption, Entity, Message, NewChoice, NewMessage, Room, Secret, SettingDefinition,
    World,
};
use memory_context::state::{Character, ComposeOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

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

/// What the model answers to one request.
pub(crate) enum Reply {
    /// This text.
    Writes(String),
    /// Calls of tools.
    Calls(Vec<(&'static str, Value)>),
    /// An error.
    Fails(StatusCode),
    /// An error, however often it is asked.
    AlwaysFails(StatusCode),
    /// Nothing.
    Hangs,
}

/// Ada, her memory, and what happened so far.
pub(crate) struct Play {
    model: Model,
    agent: Agent,
    events: Events,
    clock: Arc<Ticking>,
    minutes: i64,
    folder: TempDir,
    turns: Vec<String>,
    /// What the model makes of conversations, one after the other.
    pub(crate) reflections: VecDeque<Value>,
    /// The last prompts of the direct conversation and of the group.
    prompts: [String; 2],
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

impl Play {
    pub(crate) async fn start() -> Self {
        let (folder, model) = (tempfile::tempdir().expect("a temporary folder"), Model::start().await);
        let clock = Arc::new(Ticking(AtomicI64::new(BEGIN)));
        let agent = build(&folder, &model, &clock).await;
        let events = Box::pin(agent.events().subscribe());
        let (turns, reflections, prompts) = (Vec::new(), VecDeque::new(), Default::default());
        let play = Self { model, agent, events, clock, minutes: 0, folder, turns, reflections, prompts };
        play.set_up().await.expect("kept");
        play
    }

    /// What belongs to the group from the beginning.
    async fn set_up(&self) -> Result<()> {
        let (records, now) = (self.agent.records(), self.clock.now());
        origin(&Line { room: GROUP, user: "ana", ..Line::default() }).ensure(records).await?;
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

    /// Somebody says something; the model answers with these replies, all of them.
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

    /// The second is said before the model has answered the first.
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

    /// The process ends while the model is asked, and the next one goes on.
    pub(crate) async fn hears_across_a_restart(&mut self, line: Line, reply: Reply) {
        self.time_passes();
        let left = self.receives(&line);
        let waiting = self.model.asked().await;
        within(self.agent.shutdown()).await.expect("closes");
        drop(waiting);
        let left = within(left).await.expect("no panic").expect("what was said until then");
        assert!(matches!(left.end, End::Left { .. }), "{left:?}");
        self.agent = build(&self.folder, &self.model, &self.clock).await;
        self.events = Box::pin(self.agent.events().subscribe());
        let mut turn = Turn::of(&line);
        self.plays(&mut VecDeque::from([reply]), &mut turn).await;
        self.ends_turn(&line, turn, None).await;
    }

    /// Ends the agent; gives the turns and what is in the file, and the last prompts.
    pub(crate) async fn ends(mut self) -> (usize, String, String) {
        assert!(self.model.is_idle() && self.reflections.is_empty(), "all is said");
        within(self.agent.shutdown()).await.expect("closes");
        let provider = memory_runtime::open(&url(&self.folder)).expect("a provider");
        provider.init().await.expect("opens");
        let count = self.turns.len();
        let mut lines = self.turns;
        lines.extend(record::export(provider.as_ref()).await);
        provider.shutdown().await.expect("closes");
        (count, record::stable(&lines), record::stable(&self.prompts))
    }

    /// The next minute begins, however often the clock was read in the last one.
    fn time_passes(&mut self) {
        self.minutes += 1;
        self.clock.0.store(BEGIN + self.minutes * 60_000, Ordering::SeqCst);
    }

    fn receives(&self, line: &Line) -> JoinHandle<Result<Answer>> {
        let origin = origin(line);
        let mut message = NewMessage::new(origin.message(line.text), self.clock.now());
        message.content.attachments.clone_from(&line.attachments);
        message.external_id = line.id.map(str::to_owned);
        let (agent, incoming) = (self.agent.clone(), Incoming { message, is_addressed: line.is_addressed });
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
                        self.prompts[usize::from(turn.room == GROUP)].clone_from(&asked.prompt);
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
                    match replies.pop_front().expect("the first") {
                        Reply::Writes(text) => asked.writes(&text),
                        Reply::Calls(calls) => asked.calls(&calls),
                        Reply::Fails(status) | Reply::AlwaysFails(status) => asked.fails(status),
                        Reply::Hangs => unanswered.push(asked),
                    }
                }
                () = ended(&mut self.events) => return,
            }
        }
    }

    async fn ended(&mut self) {
        within(ended(&mut self.events)).await;
    }

    async fn ends_turn(&mut self, line: &Line, turn: Turn, answer: Option<JoinHandle<Result<Answer>>>) {
        let mut told =
            json!({ "number": self.turns.len() + 1, "room": line.room, "user": line.user, "text": line.text });
        told["asked"] = json!(turn.asked);
        if let Some(answer) = answer {
            match within(answer).await.expect("no panic") {
                Err(error) => told["error"] = json!(error.to_string()),
                Ok(answer) => {
                    told["end"] = json!(answer.end.as_str());
                    told["answer"] = json!(answer.text);
                    let result = |result: &memory_context::agent::ToolResult| {
                        json!([result.tool, result.success, result.error.as_ref().or(result.text.as_ref())])
                    };
                    told["results"] = answer.results.iter().map(result).collect();
                }
            }
        }
        self.turns.push(record::line(&told));
    }
}

/// What the model was asked in a turn.
struct Turn {
    room: &'static str,
    asked: Vec<Value>,
}

impl Turn {
    fn of(line: &Line) -> Self {
        Self { room: line.room, asked: Vec::new() }
    }

    /// What it was asked about, and the results of tools that it was shown.
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

fn url(folder: &TempDir) -> String {
    format!("sqlite://{}", folder.path().join("agent.db").display())
}

async fn build(folder: &TempDir, model: &Model, clock: &Arc<Ticking>) -> Agent {
    let limits = Limits {
        model: Duration::from_secs(10),
        action: Duration::from_secs(3),
        // Not renewed while the test goes on.
        lease: Duration::from_secs(3_600),
        ..Limits::default()
    };
    let character = json!({
        "name": "Ada",
        "bio": ["Ada keeps the diary of the town."],
        "topics": ["tides"],
        "adjectives": ["calm"],
        "style": { "all": ["Say it once."] }
    });
    let character: Character = serde_json::from_value(character).expect("a character");
    let builder = Agent::builder("ada")
        .memory(url(folder))
        .model(&model.url, "small")
        .model_modalities(Modalities { images: true, documents: false })
        .character(character)
        .system("You are terse.")
        .options(ComposeOptions::with(NAMED))
        .memory_tools()
        .platform("radio", Down)
        .limits(limits)
        .grace(Duration::ZERO)
        .clock(Shared(Arc::clone(clock)));
    let agent = tools::of_the_host(builder).build().await.expect("an agent");
    // Of one piece of advice and one of each trait, no lot is drawn.
    let advice = serde_json::from_value(json!({ "direct": ["Sing."], "group": ["Be brief."] })).expect("advice");
    agent.replace(ContextParts::default().with_provider(Arc::new(Anxiety::with(advice)))).expect("a name");
    agent
}

/// A clock that several agents read.
#[derive(Debug)]
struct Shared(Arc<Ticking>);

impl Clock for Shared {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

fn origin(line: &Line) -> Origin {
    let author = Entity::new(line.user.parse().expect("an id"), line.user);
    let (mut room, mut world) = (Room::new(line.room.parse().expect("an id"), ChannelType::Dm), None);
    if line.room == GROUP {
        let mut town = World::new("town".parse().expect("an id"));
        town.owner = Some("ana".parse().expect("an id"));
        room = Room::new(room.id, ChannelType::Group);
        room.world = Some(town.id.clone());
        world = Some(town);
    }
    room.source = line.source.to_owned();
    Origin { world, room, author }
}
