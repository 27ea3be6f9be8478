//! An agent whose process is killed, on SQLite and PostgreSQL, with a model behind an endpoint. The process is this test again, with a
//! place.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use conformance::server::{Missing, TestServer, trial};
use conformance::{CaseResult, Namespace};
use libtest_mimic::Arguments;
use memory_context::flow::{
    AttachmentContent, AttachmentKind, AttachmentReader, Events, Incoming, Limits, MessageService, Platform,
};
use memory_context::prompt::{MemoryLoadContext, MemoryStore, PromptMemory};
use memory_context::records::{
    AgentId, Attachment, Audience, EntityId, Message, MessageContent, NewMessage, Records, RoomId,
};
use memory_context::state::{Character, Composer, ContextParts, Services};
use memory_context::tool::{Tool, ToolContext, ToolOutput};
use memory_core::{
    Backfill, DEFAULT_DEADLINE, DocumentStore, Health, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider,
    MemoryQuery, MemoryRecall, NewMemory, Recalled, RestoreReport, Result, SpaceLevel, SpaceQuery, Status, SystemClock,
    Timestamp, Updated,
};
use memory_model::openai::{OpenAiConfig, OpenAiModel};
use memory_runtime::Sandbox;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

#[path = "conversations/model.rs"]
mod model;
use model::Model;

/// What the other process does, and with what.
const ROLE: &str = "MEMORY_TEST_ROLE";
const LEDGER: &str = "MEMORY_TEST_LEDGER";
const NAME: &str = "MEMORY_TEST_NAME";
const AGENT: &str = "MEMORY_TEST_AGENT";
const FOLDER: &str = "MEMORY_TEST_FOLDER";
const MODEL: &str = "MEMORY_TEST_MODEL";
/// At which of its points it kills itself.
const KILL: &str = "MEMORY_TEST_KILL";

/// Well above the points that a life has.
const MOST_POINTS: usize = 200;
/// The messages of the test with two processes: more than one page of open messages has.
const MANY: usize = 60;

/// A test on the engine of a URL.
type Test = fn(String) -> CaseResult;

fn main() -> ExitCode {
    if let (Ok(role), Some(place)) = (env::var(ROLE), Place::of_this_process()) {
        let lived = block_on(live(&role, &place));
        if let Err(error) = &lived {
            eprintln!("{error:?}");
        }
        return if lived.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    // Dropped with the last test, so that the server ends.
    let postgres = Arc::new(OnceLock::new());
    let tests: [(&str, Test); 2] = [
        ("a_process_that_is_killed_at_any_step_loses_and_repeats_nothing", |url| block_on(killed_anywhere(&url))),
        ("two_processes_answer_each_message_once", |url| block_on(two_processes(&url))),
    ];
    let mut trials = Vec::new();
    for (name, test) in tests {
        trials.push(trial(format!("sqlite::{name}"), move || {
            let folder = tempfile::tempdir()?;
            test(format!("sqlite://{}", folder.path().join("memory.db").display()))
        }));
        let postgres: Arc<OnceLock<Result<TestServer, Missing>>> = Arc::clone(&postgres);
        trials.push(trial(format!("postgres::{name}"), move || {
            let server = postgres.get_or_init(TestServer::postgres).clone()?;
            test(server.url().to_owned())
        }));
    }
    drop(postgres);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn block_on<T>(test: impl Future<Output = std::result::Result<T, Failed>>) -> std::result::Result<T, Failed> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Where a life takes place.
struct Place {
    /// The engine, and the name of the place on it.
    url: String,
    name: String,
    agent: String,
    /// Where the world is.
    folder: PathBuf,
    /// The URL of the model.
    model: String,
}

impl Place {
    fn of_this_process() -> Option<Self> {
        let of = |name| env::var(name).ok();
        let folder = env::var_os(FOLDER)?.into();
        Some(Self { url: of(LEDGER)?, name: of(NAME)?, agent: of(AGENT)?, folder, model: of(MODEL)? })
    }

    fn sandbox(&self) -> Sandbox {
        Sandbox { name: self.name.clone(), clock: Arc::new(SystemClock), deadline: DEFAULT_DEADLINE }
    }

    async fn provider(&self) -> Result<Arc<dyn MemoryProvider>> {
        let provider = self.sandbox().open(&self.url)?;
        provider.init().await?;
        Ok(provider)
    }

    fn agent(&self) -> Result<AgentId> {
        AgentId::parse(&self.agent)
    }

    fn service(&self, provider: Arc<dyn MemoryProvider>) -> Result<MessageService> {
        let records = Records::new(Arc::new(Deadly(provider)), self.agent()?);
        let services = Services::new(records, Character::named("Eliza"));
        let tools = vec![once(&self.folder), again(&self.folder)];
        let parts = ContextParts { tools, ..ContextParts::default() };
        let composer = Composer::builder(services).built_in().parts(parts).build()?;
        let model = OpenAiModel::new(OpenAiConfig::new(&self.model, "small"))?;
        let events = Events::new(100, Arc::new(SystemClock));
        let platform = Arc::new(Loud(self.folder.clone()));
        let service = MessageService::new(composer, Arc::new(model), platform, events);
        Ok(service.with_attachment_reader(Arc::new(Reading(self.folder.clone()))))
    }

    fn start(&self, role: &str, kill: Option<usize>) -> std::io::Result<Child> {
        let mut command = Command::new(env::current_exe()?);
        command.env(ROLE, role).env(LEDGER, &self.url).env(NAME, &self.name).env(AGENT, &self.agent);
        command.env(FOLDER, &self.folder).env(MODEL, &self.model).stdin(Stdio::null());
        if let Some(kill) = kill {
            command.env(KILL, kill.to_string());
        }
        command.spawn()
    }

    /// Lets another process live; tells whether it came to its end.
    async fn lives(&self, role: &'static str, kill: Option<usize>) -> std::result::Result<bool, Failed> {
        let mut child = self.start(role, kill)?;
        let status = tokio::task::spawn_blocking(move || child.wait()).await??;
        match status.code() {
            Some(0) => Ok(true),
            // A signal has ended it.
            None => Ok(false),
            Some(code) => Err(format!("the life {role}, killed at {kill:?}, ended with {code}").into()),
        }
    }
}

/// A place at which the process may be killed: before and behind everything that is kept or has an effect.
fn point() {
    static PASSED: AtomicUsize = AtomicUsize::new(0);
    let kill = env::var(KILL).ok().and_then(|kill| kill.parse().ok());
    if kill == Some(PASSED.fetch_add(1, Ordering::SeqCst)) {
        std::process::abort();
    }
}

/// What the world sees of the process, one line after the other.
fn effect(folder: &Path, line: &str) {
    point();
    let file = OpenOptions::new().create(true).append(true).open(folder.join("effects"));
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("a file");
    point();
}

fn effects(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The provider, with a point around each write.
#[derive(Debug)]
struct Deadly(Arc<dyn MemoryProvider>);

#[async_trait]
impl MemoryProvider for Deadly {
    async fn init(&self) -> Result<()> {
        self.0.init().await
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        point();
        let stored = self.0.store(memory).await;
        point();
        stored
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        self.0.store_many(memories).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.0.get(id).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        self.0.query(query).await
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        self.0.recall(recall).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        point();
        let updated = self.0.update(id, patch).await;
        point();
        updated
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        self.0.spaces(query).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        self.0.restore(memories).await
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        self.0.backfill().await
    }

    async fn check_health(&self) -> Result<Health> {
        self.0.check_health().await
    }

    async fn shutdown(&self) -> Result<()> {
        self.0.shutdown().await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        self.0.documents()
    }
}

#[derive(Debug)]
struct Loud(PathBuf);

#[async_trait]
impl Platform for Loud {
    async fn say(&self, message: &Message) -> Result<()> {
        effect(&self.0, &format!("say {} {}", message.id, message.content.text));
        Ok(())
    }
}

/// Puts what comes with a message into words.
#[derive(Debug)]
struct Reading(PathBuf);

#[async_trait]
impl AttachmentReader for Reading {
    async fn read(&self, _: &Attachment, _: AttachmentKind) -> Result<Option<AttachmentContent>> {
        effect(&self.0, "READ");
        Ok(Some(AttachmentContent { text: Some("a letter".to_owned()), ..AttachmentContent::default() }))
    }
}

/// A tool whose effect may not be repeated.
fn once(folder: &Path) -> Tool {
    let folder = folder.to_owned();
    Tool::new("ONCE", move |(), _| {
        effect(&folder, "ONCE");
        async { Ok("done") }
    })
}

/// A tool whose effect may be repeated, and that talks.
fn again(folder: &Path) -> Tool {
    let folder = folder.to_owned();
    let tool = Tool::new("AGAIN", move |(), context: ToolContext| {
        let folder = folder.clone();
        async move {
            context.say("Looking").await?;
            effect(&folder, "AGAIN");
            Ok(ToolOutput::said("Looked"))
        }
    });
    tool.repeatable()
}

/// What somebody says in a room. It is the same whenever the platform delivers it.
fn incoming(number: usize) -> Result<Incoming> {
    let mut content = MessageContent::new(RoomId::parse(format!("r{number}"))?, EntityId::parse("ana")?, "hello");
    content.attachments.push(Attachment { id: "1".to_owned(), url: "file:letter".to_owned(), ..Attachment::default() });
    let message = NewMessage::new(content, Timestamp::from_millis(1_700_000_000_000)?).with_external_id("7");
    Ok(Incoming { message, is_addressed: false })
}

/// The life of the other process.
async fn live(role: &str, place: &Place) -> CaseResult {
    let provider = place.provider().await?;
    let service = place.service(Arc::clone(&provider))?;
    let service = match role {
        // The name is the same in every life, so that none waits for the lease of the one before.
        "receive" | "recover" => {
            let service = Arc::new(service.with_instance("crash-test")?);
            if role == "receive" {
                service.receive(incoming(0)?).await;
            }
            service.recover().await?;
            service
        }
        "flood" => {
            // Long enough to be renewed while all begin at once, and short enough to be waited for.
            let limits = Limits { lease: Duration::from_secs(3), ..Limits::default() };
            let service = Arc::new(service.with_limits(limits));
            let runs = (0..MANY).map(|number| Ok(service.receive(incoming(number)?)));
            futures::future::join_all(runs.collect::<Result<Vec<_>>>()?).await;
            service
        }
        _ => {
            let service = Arc::new(service);
            while open(provider.as_ref()).await? > 0 {
                service.recover().await?;
                // Until the leases of the process that was killed have run out, or the other is done.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            service
        }
    };
    service.shutdown().await;
    provider.shutdown().await?;
    Ok(())
}

/// How many messages are open.
async fn open(provider: &dyn MemoryProvider) -> Result<usize> {
    let query = MemoryQuery::builder().all().status(Status::Pending).status(Status::Running).build()?;
    Ok(provider.query(&query).await?.memories.len())
}

/// What the model says when it has the results.
const ANSWER: &str = "<response><thought>t</thought><actions>REPLY</actions><text>Hi</text>\
    <memory><update><store>user</store><text>Ana likes tea</text></update></memory></response>";

/// Has both tools called, and says and keeps something when it is told what came of them.
fn play(mut model: Model) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let asked = model.asked().await;
            let results = asked.messages().iter().filter(|(role, _)| *role == "tool").count();
            match results {
                0 => asked.calls(&[("ONCE", json!({})), ("AGAIN", json!({}))]),
                2 => asked.writes(ANSWER),
                _ => panic!("{results} results"),
            }
        }
    })
}

/// What was said, by the text: the ids under which it was.
fn said(effects: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut said = BTreeMap::<_, Vec<_>>::new();
    for line in effects.iter().filter_map(|line| line.strip_prefix("say ")) {
        let (id, text) = line.split_once(' ').expect("an id and a text");
        said.entry(text).or_default().push(id);
    }
    said
}

async fn killed_anywhere(url: &str) -> CaseResult {
    let model = Model::start().await;
    let (agent, name, folder) = (String::new(), Namespace::unique().name, PathBuf::new());
    let mut place = Place { url: url.to_owned(), name, agent, folder, model: model.url.clone() };
    let endpoint = play(model);
    let provider = place.provider().await?;
    let (mut was_cut, mut unclear) = (0, 0);
    for kill in 0.. {
        assert!(kill < MOST_POINTS, "a life comes to its end");
        let folder = TempDir::new()?;
        (place.folder, place.agent) = (folder.path().to_owned(), format!("eliza{kill}"));
        let is_over = place.lives("receive", Some(kill)).await?;
        // What was stored is answered by a process that only recovers, and what was not by one to which it is delivered again.
        assert!(place.lives("recover", None).await?, "after {kill}");
        assert!(place.lives("receive", None).await?, "after {kill}");

        let effects = effects(&place.folder);
        let said = said(&effects);
        for text in ["Looking", "Looked", "Hi"] {
            let once = said.get(text).map_or(0, |ids| ids.iter().collect::<BTreeSet<_>>().len());
            assert_eq!(once, 1, "{text} under one id, after {kill}: {effects:?}");
        }
        assert!(said.values().map(Vec::len).sum::<usize>() <= said.len() + 1, "after {kill}: {effects:?}");
        let done = |name| effects.iter().filter(|effect| *effect == name).count();
        let told = said.keys().filter(|text| text.starts_with("ONCE: ")).count();
        assert!(done("ONCE") + told >= 1 && done("ONCE") <= 1, "after {kill}: {effects:?}");
        for name in ["READ", "AGAIN"] {
            assert!((1..=2).contains(&done(name)), "{name} after {kill}: {effects:?}");
        }
        assert_eq!(said.len(), 3 + told, "nothing else is said, after {kill}: {effects:?}");
        unclear += told;

        assert_eq!(open(provider.as_ref()).await?, 0, "after {kill}");
        let records = Records::new(Arc::clone(&provider), place.agent()?);
        let audience = Audience::new(RoomId::parse("r0")?, EntityId::parse("ana")?);
        let stored = records.messages().recent(&audience, 100).await?;
        let results = stored.iter().filter(|message| message.content.action_result.is_some()).count();
        assert_eq!((stored.len(), results), (6 + told, 2), "each once, after {kill}");
        let question = stored.iter().find(|message| message.content.text == "hello").ok_or("the question")?;
        assert_eq!(question.content.attachments[0].text.as_deref(), Some("a letter"), "after {kill}");
        let (memory, of) = (PromptMemory::new(provider.documents()), MemoryLoadContext::of(&place.agent()?, question));
        let kept = memory.read(&of, MemoryStore::User).await?;
        assert_eq!(kept.as_deref(), Some("Ana likes tea"), "kept once, after {kill}");
        if is_over {
            break;
        }
        was_cut += 1;
    }
    assert!(was_cut > 30, "{was_cut} kills");
    assert!(unclear > 0, "a call was cut");
    endpoint.abort();
    provider.shutdown().await?;
    Ok(place.sandbox().remove(url).await?)
}

async fn two_processes(url: &str) -> CaseResult {
    let (folder, mut model) = (TempDir::new()?, Model::start().await);
    let (agent, name, folder) = ("eliza".to_owned(), Namespace::unique().name, folder.path().to_owned());
    let place = Place { url: url.to_owned(), name, agent, folder, model: model.url.clone() };
    let mut flood = place.start("flood", None)?;
    // Each waits for its answer when the process is killed.
    let mut asked = Vec::new();
    while asked.len() < MANY {
        asked.push(model.asked().await);
    }
    flood.kill()?;
    flood.wait()?;
    drop(asked);
    let endpoint = play(model);
    let both = tokio::join!(place.lives("share", None), place.lives("share", None));
    assert!(both.0? && both.1?);
    let effects = effects(&place.folder);
    assert_eq!(said(&effects).get("Hi").map_or(0, Vec::len), MANY, "{effects:?}");
    for name in ["ONCE", "AGAIN"] {
        assert_eq!(effects.iter().filter(|effect| *effect == name).count(), MANY, "{effects:?}");
    }
    let provider = place.provider().await?;
    assert_eq!(open(provider.as_ref()).await?, 0);
    endpoint.abort();
    provider.shutdown().await?;
    Ok(place.sandbox().remove(url).await?)
}
