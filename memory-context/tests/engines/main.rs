//! Prompt memory on every engine: each case is a test of its own, named `engine::prompt.case`.
//!
//! All cases of an engine share one namespace, and each has a session and a user of its own there.

mod context;
mod history;
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
        ("postgres", postgres.as_ref().map(|server| open(&with_namespace(server.url())))),
        ("redis", redis.as_ref().map(|server| open(&with_namespace(server.url())))),
        ("mongo", mongo.as_ref().map(|server| open(&with_database(server.url())))),
    ];
    let cases = [context::cases(), stores::cases(), sync::cases(), history::cases()].concat();
    let mut trials = Vec::new();
    for (name, engine) in &engines {
        trials.extend(cases.iter().map(|case| trial(&runtime, name, engine.as_ref(), *case)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// On a server that outlives the tests, each run uses the same place, and removes its documents.
const NAMESPACE: &str = "prompt_memory_tests";

/// Where the namespace is a parameter of the URL.
fn with_namespace(url: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}namespace={NAMESPACE}")
}

/// Where it is the database in the path.
fn with_database(url: &str) -> String {
    let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
    let servers: Vec<_> = address.splitn(4, '/').take(3).collect();
    format!("{}/{NAMESPACE}?{parameters}", servers.join("/"))
}

/// Ignored with the reason, or failing where the engine is required, when there is no server.
fn trial(runtime: &Arc<Runtime>, name: &str, engine: Result<&Engine, &&Missing>, case: Case) -> Trial {
    let name = format!("{name}::prompt.{}", case.name);
    match engine {
        Ok(engine) => {
            let (runtime, engine) = (Arc::clone(runtime), engine.clone());
            Trial::test(name, move || runtime.block_on(play(engine, case)))
        }
        Err(missing) => missing.trial(&name),
    }
}
