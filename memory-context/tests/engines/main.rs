//! Prompt memory, records and the flow of messages on every engine: each case is a test of its own, named `engine::group.case`.
//!
//! All cases of an engine share one place, and each has sessions, users and agents of its own there.

mod context;
mod flow;
mod history;
mod records;
mod stage;
mod stores;
mod sync;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use conformance::server::{Missing, TestServer, trial};
use libtest_mimic::{Arguments, Trial};
use memory_core::Error;
use tokio::runtime::Runtime;

use crate::stage::{Case, Engine, play};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = Arc::new(Runtime::new().expect("a runtime to test on"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sqlite = format!("sqlite://{}", folder.path().join("memory.db").display());
    let engines = [
        OnDemand::new("in-memory", |runtime| Ok((opened(runtime, Engine::in_memory()), None))),
        OnDemand::new("sqlite", move |runtime| Ok((opened(runtime, Engine::open(&sqlite)), None))),
        OnDemand::new("postgres", |runtime| on(runtime, TestServer::postgres_without_fsync()?)),
        OnDemand::new("redis", |runtime| on(runtime, TestServer::redis()?)),
        OnDemand::new("mongo", |runtime| on(runtime, TestServer::mongo()?)),
    ];
    let groups = [
        ("prompt", [context::cases(), stores::cases(), sync::cases(), history::cases()].concat()),
        ("records", records::cases()),
        ("flow", flow::cases()),
    ];
    let mut trials = Vec::new();
    for engine in &engines {
        for (group, cases) in &groups {
            trials.extend(cases.iter().map(|case| test(&runtime, engine, group, *case)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for engine in engines {
        let Some(Ok((engine, _))) = engine.opened.get() else { continue };
        runtime.block_on(engine.clone().remove()).expect("the place is removed");
    }
    conclusion.exit_code()
}

/// Each case is a test of its own.
fn test(runtime: &Arc<Runtime>, engine: &Arc<OnDemand>, group: &str, case: Case) -> Trial {
    let (runtime, engine) = (Arc::clone(runtime), Arc::clone(engine));
    trial(format!("{}::{group}.{}", engine.name, case.name), move || {
        let engine = engine.get(&runtime)?;
        runtime.block_on(play(engine, case))
    })
}

/// An engine, and what ends its server.
type Opened = Result<(Engine, Option<TestServer>), Missing>;

/// An engine that the first of its cases opens.
struct OnDemand {
    name: &'static str,
    open: Box<dyn Fn(&Runtime) -> Opened + Send + Sync>,
    opened: OnceLock<Opened>,
}

impl OnDemand {
    fn new(name: &'static str, open: impl Fn(&Runtime) -> Opened + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { name, open: Box::new(open), opened: OnceLock::new() })
    }

    fn get(&self, runtime: &Runtime) -> Result<Engine, Missing> {
        let opened = self.opened.get_or_init(|| (self.open)(runtime));
        opened.as_ref().map(|(engine, _)| engine.clone()).map_err(Missing::clone)
    }
}

fn on(runtime: &Runtime, server: TestServer) -> Opened {
    Ok((opened(runtime, Engine::open(server.url())), Some(server)))
}

fn opened(runtime: &Runtime, engine: impl Future<Output = Result<Engine, Error>>) -> Engine {
    runtime.block_on(engine).expect("an engine that opens")
}
