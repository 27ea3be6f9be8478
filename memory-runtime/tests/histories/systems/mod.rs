//! The engines, each with the trouble that its servers can have.

mod mongo;
mod postgres;
mod redis;
mod redis_cluster;
mod sqlite;

use std::thread;
use std::time::{Duration, Instant};

use conformance::server;
use fastrand::Rng;

use crate::Fallible;
use crate::judge::Setting;

pub(crate) use mongo::Mongo;
pub(crate) use postgres::Postgres;
pub(crate) use redis::Redis;
pub(crate) use redis_cluster::Cluster;
pub(crate) use sqlite::Sqlite;

/// The system under test: an engine with its servers.
pub(crate) trait System {
    /// Repairs the servers, and returns the URL of an empty namespace.
    fn begin(&mut self) -> Fallible<String>;

    /// Which anomalies are no surprise.
    fn setting(&self) -> Setting {
        Setting::STRICT
    }

    /// Whether there are servers to bring into trouble.
    fn has_servers(&self) -> bool {
        true
    }

    /// Disturbs a server for a limited time, and says which. `calls` waits until this many more calls have ended, or
    /// for a second.
    fn disturb(&mut self, random: &mut Rng, calls: &dyn Fn(usize)) -> Fallible<String>;

    /// Takes a server away, and returns when another one has taken over.
    fn fail_over(&mut self, random: &mut Rng, calls: &dyn Fn(usize)) -> Fallible<String>;
}

/// The time limit for something that must happen. Well above what it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(20);

/// The deadline of each call: short, so that few seconds pass while a server is away.
const PARAMETERS: &str = "deadline_ms=5000";

/// The parameters of a unique namespace.
fn parameters() -> String {
    format!("namespace={}&{PARAMETERS}", conformance::Namespace::unique().name)
}

/// Waits until a condition holds.
fn wait_until(what: &str, mut is_so: impl FnMut() -> Fallible<bool>) -> Fallible {
    let limit = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > limit {
            return Err(format!("{what}: not within {PATIENCE:?}").into());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Stops a process and its workers for a time.
pub(crate) fn pause(process: Option<u32>, millis: u64) -> Fallible<String> {
    server::pause(process.ok_or("it does not run")?, Duration::from_millis(millis))?;
    Ok(format!("stopped for {millis} ms"))
}
