//! An agent whose process is killed, on SQLite, with a model behind an endpoint. The process is this test again, with a file.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use libtest_mimic::{Arguments, Failed, Trial};
use memory_context::flow::{Events, Incoming, Limits, MessageService, Platform};
use memory_context::records::{AgentId, EntityId, Message, MessageContent, NewMessage, Records, RoomId, Scope};
use memory_context::state::{Character, Composer, ContextParts, Services};
use memory_context::tool::Tool;
use memory_core::{
    Backfill, DocumentStore, Health, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery,
    MemoryRecall, NewMemory, Recalled, RestoreReport, Result, SpaceLevel, SpaceQuery, Status, SystemClock, Timestamp,
    Updated,
};
use memory_model::openai::{OpenAiConfig, OpenAiModel};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

#[path = "conversations/model.rs"]
mod model;
use model::Model;

/// What the other process does, and with what.
const ROLE: &str = "MEMORY_TEST_ROLE";
const FOLDER: &str = "MEMORY_TEST_FOLDER";
const MODEL: &str = "MEMORY_TEST_MODEL";
/// At which of its points it kills itself.
const KILL: &str = "MEMORY_TEST_KILL";

/// Well above the points that a life has.
const MOST_POINTS: usize = 200;
/// The messages of the test with two processes.
const MANY: usize = 12;

fn main() -> ExitCode {
    if let (Ok(role), Some(folder), Ok(model)) = (env::var(ROLE), env::var_os(FOLDER), env::var(MODEL)) {
        let lived = block_on(live(&role, Path::new(&folder), &model));
        if let Err(error) = &lived {
            eprintln!("{error:?}");
        }
        return if lived.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let trials = vec![
        Trial::test("a_process_that_is_killed_at_any_step_loses_and_repeats_nothing", || block_on(killed_anywhere())),
        Trial::test("two_processes_answer_each_message_once", || block_on(two_processes())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn block_on<T>(test: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
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
struct Loud(std::path::PathBuf);

#[async_trait]
impl Platform for Loud {
    async fn say(&self, message: &Message) -> Result<()> {
        effect(&self.0, &format!("say {} {}", message.id, message.content.text));
        Ok(())
    }
}

/// A tool that has an effect.
fn tool(folder: &Path, name: &'static str) -> Tool {
    let folder = folder.to_owned();
    Tool::with_schema(name, "Has an effect", json!({ "type": "object" }), move |_, _| {
        let folder = folder.clone();
        async move {
            effect(&folder, name);
            Ok("done".to_owned())
        }
    })
}

async fn provider(folder: &Path) -> Result<Arc<dyn MemoryProvider>> {
    let provider = memory_runtime::open(&format!("sqlite://{}", folder.join("memory.db").display()))?;
    provider.init().await?;
    Ok(provider)
}

fn service(folder: &Path, provider: Arc<dyn MemoryProvider>, model: &str) -> Result<Arc<MessageService>> {
    let records = Records::new(Arc::new(Deadly(provider)), AgentId::parse("eliza")?);
    let services = Services::new(records, Character::named("Eliza"));
    let tools = vec![tool(folder, "ONCE"), tool(folder, "AGAIN").repeatable()];
    let parts = ContextParts { tools, ..ContextParts::default() };
    let composer = Composer::builder(services).built_in().parts(parts).build()?;
    let model = OpenAiModel::new(OpenAiConfig::new(model, "small"))?;
    let events = Events::new(100, Arc::new(SystemClock));
    Ok(Arc::new(MessageService::new(composer, Arc::new(model), Arc::new(Loud(folder.to_owned())), events)))
}

/// What Ana says in a room. It is the same whenever the platform delivers it.
fn incoming(number: usize) -> Result<Incoming> {
    let content = MessageContent::new(RoomId::parse(format!("r{number}"))?, EntityId::parse("ana")?, "hello");
    let message = NewMessage::new(content, Timestamp::from_millis(1_700_000_000_000)?).with_external_id("7");
    Ok(Incoming { message, is_addressed: false })
}

/// The life of the other process.
async fn live(role: &str, folder: &Path, model: &str) -> Result<(), Failed> {
    let provider = provider(folder).await?;
    let service = service(folder, Arc::clone(&provider), model)?;
    let service = match role {
        // The name is the same in every life, so that none waits for the lease of the one before.
        "receive" | "recover" => {
            let service = Arc::into_inner(service).ok_or("it is shared")?.with_instance("crash-test")?;
            let service = Arc::new(service);
            if role == "receive" {
                service.receive(incoming(0)?).await;
            }
            service.recover().await?;
            service
        }
        "flood" => {
            let limits = Limits { lease: Duration::from_millis(300), ..Limits::default() };
            let service = Arc::new(Arc::into_inner(service).ok_or("it is shared")?.with_limits(limits));
            let runs = (0..MANY).map(|number| Ok(service.receive(incoming(number)?)));
            futures::future::join_all(runs.collect::<Result<Vec<_>>>()?).await;
            service
        }
        _ => {
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

fn start(role: &str, folder: &Path, model: &str, kill: Option<usize>) -> Result<Child, Failed> {
    let mut command = Command::new(env::current_exe()?);
    command.env(ROLE, role).env(FOLDER, folder).env(MODEL, model).stdin(Stdio::null());
    if let Some(kill) = kill {
        command.env(KILL, kill.to_string());
    }
    Ok(command.spawn()?)
}

/// Lets another process live; tells whether it came to its end.
async fn lives(role: &'static str, folder: &Path, model: &str, kill: Option<usize>) -> Result<bool, Failed> {
    let mut child = start(role, folder, model, kill)?;
    let status = tokio::task::spawn_blocking(move || child.wait()).await??;
    match status.code() {
        Some(0) => Ok(true),
        // A signal has ended it.
        None => Ok(false),
        Some(code) => Err(format!("the life {role}, killed at {kill:?}, ended with {code}").into()),
    }
}

/// Has both tools called, and says something when it is told what came of them.
fn play(mut model: Model) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let asked = model.asked().await;
            let results = asked.messages().iter().filter(|(role, _)| *role == "tool").count();
            match results {
                0 => asked.calls(&[("ONCE", json!({})), ("AGAIN", json!({}))]),
                2 => asked.writes("Hi"),
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

async fn killed_anywhere() -> Result<(), Failed> {
    let model = Model::start().await;
    let url = model.url.clone();
    let endpoint = play(model);
    let (mut was_cut, mut unclear) = (0, 0);
    for kill in 0.. {
        assert!(kill < MOST_POINTS, "a life comes to its end");
        let folder = TempDir::new()?;
        let folder = folder.path();
        let is_over = lives("receive", folder, &url, Some(kill)).await?;
        // What was stored is answered by a process that only recovers, and what was not by one to which it is delivered again.
        assert!(lives("recover", folder, &url, None).await?, "after {kill}");
        assert!(lives("receive", folder, &url, None).await?, "after {kill}");

        let effects = effects(folder);
        let said = said(&effects);
        let once = |text: &str| said.get(text).map_or(0, |ids| ids.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(once("Hi"), 1, "one answer, under one id, after {kill}: {effects:?}");
        assert!(said.values().map(Vec::len).sum::<usize>() <= said.len() + 1, "after {kill}: {effects:?}");
        let done = |name| effects.iter().filter(|effect| *effect == name).count();
        let told = said.keys().filter(|text| text.starts_with("ONCE: ")).count();
        assert!(done("ONCE") + told >= 1 && done("ONCE") <= 1, "after {kill}: {effects:?}");
        assert!((1..=2).contains(&done("AGAIN")), "after {kill}: {effects:?}");
        assert_eq!(said.len(), 1 + told, "nothing else is said, after {kill}: {effects:?}");
        unclear += told;

        let provider = provider(folder).await?;
        assert_eq!(open(provider.as_ref()).await?, 0, "after {kill}");
        let records = Records::new(Arc::clone(&provider), AgentId::parse("eliza")?);
        let scope = Scope::new(RoomId::parse("r0")?, EntityId::parse("ana")?);
        let stored = records.messages().recent(&scope, 100).await?;
        let results = stored.iter().filter(|message| message.content.action_result.is_some()).count();
        assert_eq!((stored.len(), results), (4 + told, 2), "each once, after {kill}");
        provider.shutdown().await?;
        if is_over {
            break;
        }
        was_cut += 1;
    }
    assert!(was_cut > 20, "{was_cut} kills");
    assert!(unclear > 0, "a call was cut");
    endpoint.abort();
    Ok(())
}

async fn two_processes() -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let folder = folder.path();
    let mut model = Model::start().await;
    let url = model.url.clone();
    let mut flood = start("flood", folder, &url, None)?;
    // Each waits for its answer when the process is killed.
    let mut asked = Vec::new();
    while asked.len() < MANY {
        asked.push(model.asked().await);
    }
    flood.kill()?;
    flood.wait()?;
    drop(asked);
    let endpoint = play(model);
    let both = tokio::join!(lives("share", folder, &url, None), lives("share", folder, &url, None));
    assert!(both.0? && both.1?);
    let effects = effects(folder);
    assert_eq!(said(&effects).get("Hi").map_or(0, Vec::len), MANY, "{effects:?}");
    for name in ["ONCE", "AGAIN"] {
        assert_eq!(effects.iter().filter(|effect| *effect == name).count(), MANY, "{effects:?}");
    }
    let provider = provider(folder).await?;
    assert_eq!(open(provider.as_ref()).await?, 0);
    provider.shutdown().await?;
    endpoint.abort();
    Ok(())
}
