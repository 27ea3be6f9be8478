//! The schema: its migrations and its removal, and what an operator looks at.

use std::time::Instant;

use async_trait::async_trait;
use memory_core::engine::Config;
use memory_core::{Error, Inspection, Result, Timestamp};
use migrations::{Applied, Report, Step, Target};
use redis::{InfoDict, Pipeline};

use crate::config::RedisConfig;
use crate::connection::{Connections, command};
use crate::migrate::MOVED;
use crate::statements::{MOVE, SCHEMA};

/// What is behind the line of a step in the bookkeeping that its backfill has not completed.
const BEGUN: &str = " begun";

/// Creates or migrates the schema, as `init` does, and tells which steps that took.
pub async fn migrate(config: &RedisConfig) -> Result<Report> {
    let connections = connect(config)?;
    connections.retry(|| run(&connections)).await
}

/// Tells which steps [`migrate`] would take, and changes nothing.
pub async fn plan(config: &RedisConfig) -> Result<Report> {
    let connections = connect(config)?;
    let plan =
        || async { migrations::plan(&mut RedisTarget { connections: &connections }, migrations::redis(), &[]).await };
    connections.retry(plan).await
}

/// Removes all keys of the namespace, for ever. Goes over all keys of the server, slice by slice. Nothing happens when there is none.
pub async fn remove(config: &RedisConfig) -> Result<()> {
    let connections = connect(config)?;
    let mut cursor = b"0".to_vec();
    loop {
        let (next, keys) = connections.retry(|| scan(&connections, &cursor)).await?;
        connections.retry(|| unlink(&connections, keys.clone())).await?;
        cursor = next;
        if cursor == b"0" {
            return Ok(());
        }
    }
}

/// Tells what time it is at the server and how many bytes all of its data take, and changes nothing. Its indexes are made with what they
/// index, so none is ever missing.
pub async fn inspect(config: &RedisConfig) -> Result<Inspection> {
    let connections = connect(config)?;
    let mut commands = Pipeline::new();
    commands.cmd("TIME").cmd("INFO").arg("memory");
    // Seconds, and the microseconds beyond them.
    let ((seconds, micros), memory): ((i64, i64), InfoDict) =
        connections.retry(|| connections.read_as(&commands)).await?;
    let millis = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
    let bytes = |name| memory.get::<u64>(name);
    // What goes through the connections stays in their buffers for a while.
    let buffers = ["mem_clients_normal", "mem_clients_slaves", "mem_aof_buffer"].into_iter().filter_map(bytes);
    let bytes = bytes("used_memory").map(|used| buffers.fold(used, u64::saturating_sub));
    Ok(Inspection::new(Vec::new(), Some(Timestamp::from_millis(millis)?), bytes))
}

/// Migrates over the connections of a provider.
pub(crate) async fn run(connections: &Connections) -> Result<Report> {
    migrations::migrate(&mut RedisTarget { connections }, migrations::redis(), &[]).await
}

/// The step that a backfill has to complete.
pub(crate) async fn begun(connections: &Connections) -> Result<Option<&'static Step>> {
    let applied = RedisTarget { connections }.applied().await?;
    let is_begun = |step: &&Step| applied.iter().any(|applied| applied.name == step.name && !applied.complete);
    Ok(migrations::redis().iter().find(is_begun))
}

/// Records that the backfill of a step has come to its end.
pub(crate) async fn complete(connections: &Connections, step: &Step) -> Result<()> {
    let text = "local steps = redis.call('HGET', KEYS[1], ARGV[1])\n\
                redis.call('HSET', KEYS[1], ARGV[1], (string.gsub(steps, ARGV[2] .. ARGV[3], ARGV[2])))\n\
                return redis.call('DEL', KEYS[2])";
    let (keys, mut pipeline) = ([SCHEMA, MOVE].map(|name| connections.keys.of(name)), Pipeline::with_capacity(1));
    pipeline.cmd("EVAL").arg(text).arg(keys.len()).arg(&keys).arg(step.version).arg(line(step)).arg(BEGUN);
    connections.write(pipeline, Instant::now()).await.map(drop)
}

/// Some of the next keys of the namespace, and where the following are.
pub(crate) async fn scan(connections: &Connections, cursor: &[u8]) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let pattern = connections.keys.pattern();
    connections.read_one(&command("SCAN", &[cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"4000"])).await
}

/// Removes these keys with all that they hold.
pub(crate) async fn unlink(connections: &Connections, keys: Vec<Vec<u8>>) -> Result<()> {
    let mut unlink = Pipeline::with_capacity(keys.len());
    for key in keys {
        unlink.cmd("UNLINK").arg(key);
    }
    connections.write(unlink, Instant::now()).await.map(drop)
}

fn connect(config: &RedisConfig) -> Result<Connections> {
    config.check()?;
    Connections::new(config)
}

/// The line of a step in the bookkeeping, if it is complete.
fn line(step: &Step) -> String {
    format!("{} {}", step.checksum(), step.name)
}

/// Needs no lock: a step is one script, which the server runs alone, and which does nothing where the step was applied.
struct RedisTarget<'c> {
    connections: &'c Connections,
}

#[async_trait]
impl Target for RedisTarget<'_> {
    async fn lock(&mut self) -> Result<()> {
        Ok(())
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        let fields = command("HGETALL", &[&self.connections.keys.of(SCHEMA)]);
        let mut applied = Vec::new();
        for (version, steps) in self.connections.read_one::<Vec<(String, String)>>(&fields).await? {
            let bad = || Error::corrupt("the bookkeeping of the schema can't be read");
            let version = version.parse().map_err(|_| bad())?;
            for step in steps.lines() {
                let (checksum, name) = step.split_once(' ').ok_or_else(bad)?;
                let begun = name.strip_suffix(BEGUN);
                let (name, checksum) = (begun.unwrap_or(name).to_owned(), checksum.to_owned());
                applied.push(Applied { version, name, checksum, complete: begun.is_none() });
            }
        }
        Ok(applied)
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        // A field is a version, its value a line for each step. A step whose text sets the state is not complete.
        let text = format!(
            "local steps, state = redis.call('HGET', KEYS[1], ARGV[1]), ''\n\
             if steps and string.find(steps, ARGV[2], 1, true) then return 0 end\n{}\n\
             return redis.call('HSET', KEYS[1], ARGV[1], (steps and steps .. '\\n' or '') .. ARGV[2] .. state)",
            step.text
        );
        let keys: Vec<_> =
            [SCHEMA].iter().chain(MOVED.as_flattened()).map(|name| self.connections.keys.of(name)).collect();
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("EVAL").arg(text).arg(keys.len()).arg(keys).arg(step.version).arg(line(step));
        self.connections.write(pipeline, Instant::now()).await.map(drop)
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(())
    }
}
