//! Histories of concurrent calls on each engine, while its servers and programs are killed, stopped, cut off and replaced. Each is judged.
//!
//! `MEMORY_TEST_HISTORIES` sets how many are played on each engine (5). `MEMORY_TEST_CALLS` sets the number of calls of each (2,000), and
//! `MEMORY_TEST_SEED` the seed of the first; the next ones follow it. `MEMORY_TEST_RECORD` names a folder for the histories; without it, those
//! with an anomaly are kept in Cargo's folder for temporary files.

mod client;
mod judge;
mod log;
mod memory;
mod plan;
mod planted;
mod stage;
mod systems;
mod watcher;

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use conformance::server::{Missing, run_waiting, trial};
use tokio::runtime::Runtime;

use crate::judge::judge;
use crate::judge::search::Loss;
use crate::log::{Call, Outcome};
use crate::systems::{Cluster, Mongo, Postgres, Redis, Sqlite, System};

/// The environment variables that give a program its role and its target.
const ROLE: &str = "MEMORY_TEST_ROLE";
const PART: &str = "MEMORY_TEST_PART";
/// How many engines are tested at once. Their programs mostly wait for servers.
const AT_ONCE: usize = 4;

type Fallible<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    if let (Ok(role), Ok(part)) = (env::var(ROLE), env::var(PART)) {
        let lived = live(&role, &part);
        if let Err(error) = &lived {
            eprintln!("{role}: {error:?}");
        }
        return if lived.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut trials = planted::trials();
    trials.extend([
        trial("sqlite::histories", || histories("sqlite", || Ok(Sqlite::default()))),
        trial("postgres::histories", || histories("postgres", Postgres::start)),
        trial("redis-sentinel::histories", || histories("redis-sentinel", || Ok(Redis::new(true)))),
        trial("redis-without-wait::histories", || histories("redis-without-wait", || Ok(Redis::new(false)))),
        trial("redis-cluster::histories", || histories("redis-cluster", Cluster::start)),
        trial("mongo::histories", || histories("mongo", Mongo::start)),
    ]);
    run_waiting(AT_ONCE, trials)
}

/// The life of a program.
fn live(role: &str, part: &str) -> Fallible {
    let runtime = Runtime::new()?;
    match role {
        "calls" => runtime.block_on(client::live(serde_json::from_str(part)?)),
        _ => runtime.block_on(watcher::watch(serde_json::from_str(part)?)),
    }
}

fn histories<S: System>(name: &str, start: impl FnOnce() -> Fallible<S>) -> Fallible {
    let (count, calls) = (number("MEMORY_TEST_HISTORIES", 5)?, number("MEMORY_TEST_CALLS", 2_000)?);
    let first = number("MEMORY_TEST_SEED", fastrand::u32(..).into())?;
    println!("{name}: MEMORY_TEST_SEED={first}");
    let (mut system, mut failovers, mut allowed, mut undecided, mut wrong) = (start()?, 0, 0, 0, Vec::new());
    for seed in first..first + count {
        let start = Instant::now();
        let played = stage::play(&mut system, seed, calls as usize);
        // A server that is not installed is found missing in the first history. Anything later is a failure.
        let played_to_its_end = played.map_err(|error| match seed == first && error.is::<Missing>() {
            true => error,
            false => format!("seed {seed}: {error}").into(),
        });
        let (history, happened) = played_to_its_end?;
        let (played, start) = (start.elapsed(), Instant::now());
        let record = |folder: &Path| {
            let file = folder.join(format!("{name}-{seed}.json"));
            Fallible::Ok(fs::write(&file, serde_json::to_vec(&history)?).map(|()| file)?)
        };
        let folder = env::var_os("MEMORY_TEST_RECORD");
        folder.as_ref().map(|folder| record(Path::new(folder))).transpose()?;
        let is_answered = |call: &&Call| matches!(call.outcome, Outcome::Done(_));
        if history.calls.values().filter(is_answered).count() * 2 < history.calls.len() {
            return Err(format!("seed {seed}: most calls have no answer, so the history shows nothing").into());
        }
        // In a quick history all calls may have ended before the last trouble.
        let is_met = |failover: &_| history.calls.values().any(|call| call.is_during(*failover));
        failovers += history.failovers.iter().filter(|failover| is_met(failover)).count();
        let verdict = judge(&history, system.setting());
        println!(
            "{name}: seed {seed}: {} calls, {} told, {} in order, {} anomalies, {} allowed, {} undecided; {played:.1?} and {:.1?}; {}",
            history.calls.len(),
            history.told.len(),
            verdict.ordered,
            verdict.anomalies.len(),
            verdict.allowed.len(),
            verdict.undecided.len(),
            start.elapsed(),
            happened.join("; "),
        );
        allowed += verdict.allowed.len();
        undecided += verdict.undecided.len() as u64;
        for anomaly in verdict.anomalies.iter().take(3) {
            // At once, too, since many histories take long.
            println!("{name}: seed {seed}: {anomaly}");
            wrong.push(format!("seed {seed}: {anomaly}"));
        }
        for undecided in &verdict.undecided {
            println!("{name}: seed {seed}: undecided: {undecided}");
        }
        if folder.is_none() && !(verdict.anomalies.is_empty() && verdict.undecided.is_empty()) {
            println!("{name}: seed {seed}: kept in {}", record(Path::new(env!("CARGO_TARGET_TMPDIR")))?.display());
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n").into());
    }
    if system.has_servers() && failovers == 0 {
        return Err("no call was made during any failover".into());
    }
    // Without any loss the judge would prove nothing: each failover with such a setting loses writes.
    if system.setting().loss == Loss::Any && allowed == 0 {
        return Err("no failover has lost a write that was acknowledged".into());
    }
    if undecided > count {
        return Err(format!("{undecided} records could not be judged, and the losses of {allowed} could").into());
    }
    Ok(())
}

fn number(variable: &str, default: u64) -> Fallible<u64> {
    env::var(variable).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{variable} is no number").into()))
}
