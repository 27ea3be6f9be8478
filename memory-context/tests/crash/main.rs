//! An agent whose process is killed, on SQLite and PostgreSQL, with a model over HTTP. The process is this test again,
//! with a place.
//!
//! Each story is killed at 20 of its points, which differ between the engines, and in each of its requests;
//! `MEMORY_TEST_KILLS` sets another number of points.

mod deadly;
mod direct;
#[path = "../common/engine.rs"]
mod engine;
mod followed;
mod group;
#[path = "../conversations/model.rs"]
mod model;
mod place;
mod play;
mod story;
mod streamed;

use std::env;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use conformance::CaseResult;
use conformance::server::{Missing, TestServer, trial};
use libtest_mimic::Arguments;

use crate::place::{Place, ROLE};

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
    let tests: [(&str, Test); 5] = [
        ("a_process_that_is_killed_at_any_step_loses_and_repeats_nothing", |url| block_on(direct::killed(&url))),
        ("a_group_is_answered_wherever_its_agent_is_killed", |url| block_on(group::killed(&url))),
        ("a_group_that_is_followed_is_answered_by_actions_and_told_no_secret", |url| block_on(followed::killed(&url))),
        ("an_answer_that_is_streamed_is_kept_once_wherever_it_is_cut", |url| block_on(streamed::killed(&url))),
        ("two_processes_answer_each_message_once", |url| block_on(direct::two_processes(&url))),
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

fn block_on(test: impl Future<Output = CaseResult>) -> CaseResult {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
}

/// The life of the other process, which prints at its end how many points it has passed.
async fn live(role: &str, place: &Place) -> CaseResult {
    let provider = place.provider().await?;
    match role.split_once(' ') {
        Some(("direct", part)) => direct::live(part, place, &provider).await?,
        Some(("followed", part)) => followed::live(part, place, &provider).await?,
        Some(("group", part)) => group::live(part, place, &provider).await?,
        Some(("streamed", part)) => streamed::live(part, place, &provider).await?,
        _ => return Err(format!("there is no life {role}").into()),
    }
    provider.shutdown().await?;
    println!("{}", deadly::passed());
    Ok(())
}
