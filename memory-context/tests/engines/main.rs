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
use conformance::server::postgres::PostgresServer;
use libtest_mimic::{Arguments, Trial};
use memory_core::InMemory;
use tokio::runtime::Runtime;

use crate::stage::{Case, Engine, play};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = Arc::new(Runtime::new().expect("a runtime to test on"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let postgres = PostgresServer::start();
    let on_server = |url: Result<&str, Missing>| url.map(Engine::on_server);
    let engines = [
        ("in-memory", Ok(Engine::InMemory(Arc::new(InMemory::new())))),
        ("sqlite", Ok(Engine::Url(format!("sqlite://{}", folder.path().join("memory.db").display())))),
        ("postgres", on_server(postgres.as_ref().map(PostgresServer::url).map_err(Missing::clone))),
    ];
    let cases: Vec<Case> = [context::cases(), stores::cases(), sync::cases(), history::cases()].concat();
    let trial = |engine: &Result<Engine, Missing>, name: &str, case: Case| {
        let name = format!("{name}::prompt.{}", case.name);
        match engine {
            Ok(engine) => {
                let (runtime, engine) = (Arc::clone(&runtime), engine.clone());
                Trial::test(name, move || runtime.block_on(play(&engine, case)))
            }
            Err(missing) => missing.trial(&name),
        }
    };
    let trials = engines.iter().flat_map(|(name, engine)| cases.iter().map(|case| trial(engine, name, *case)));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
