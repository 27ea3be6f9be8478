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
use std::sync::Arc;

use conformance::server::Missing;
use conformance::server::mongo::MongoServer;
use conformance::server::postgres::PostgresServer;
use conformance::server::redis::RedisServer;
use libtest_mimic::{Arguments, Trial};
use memory_core::Error;
use tokio::runtime::Runtime;

use crate::stage::{Case, Engine, play};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = Arc::new(Runtime::new().expect("a runtime to test on"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sqlite = format!("sqlite://{}", folder.path().join("memory.db").display());
    let (postgres, redis, mongo) = (PostgresServer::start(), RedisServer::start(), MongoServer::start());
    let opened = |engine: Result<Engine, Error>| engine.expect("an engine that opens");
    let open = |url: &str| opened(runtime.block_on(Engine::open(url)));
    let engines = [
        ("in-memory", Ok(opened(runtime.block_on(Engine::in_memory())))),
        ("sqlite", Ok(open(&sqlite))),
        ("postgres", postgres.as_ref().map(|server| open(server.url()))),
        ("redis", redis.as_ref().map(|server| open(server.url()))),
        ("mongo", mongo.as_ref().map(|server| open(server.url()))),
    ];
    let groups = [
        ("prompt", [context::cases(), stores::cases(), sync::cases(), history::cases()].concat()),
        ("records", records::cases()),
        ("flow", flow::cases()),
    ];
    let mut trials = Vec::new();
    for (name, engine) in &engines {
        for (group, cases) in &groups {
            let named = |case: &Case| format!("{name}::{group}.{}", case.name);
            trials.extend(cases.iter().map(|case| trial(&runtime, &named(case), engine.as_ref(), *case)));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for (_, engine) in engines {
        let Ok(engine) = engine else { continue };
        runtime.block_on(engine.remove()).expect("the place is removed");
    }
    conclusion.exit_code()
}

/// Ignored with the reason, or failing where the engine is required, when there is no server.
fn trial(runtime: &Arc<Runtime>, name: &str, engine: Result<&Engine, &&Missing>, case: Case) -> Trial {
    match engine {
        Ok(engine) => {
            let (runtime, engine) = (Arc::clone(runtime), engine.clone());
            Trial::test(name.to_owned(), move || runtime.block_on(play(engine, case)))
        }
        Err(missing) => missing.trial(name),
    }
}
