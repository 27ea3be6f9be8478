//! The schema: its migrations and its removal, and what an operator looks at.

use async_trait::async_trait;
use memory_core::engine::Config;
use memory_core::{Error, Inspection, Result, Timestamp};
use migrations::{Applied, Report, Step, Target};
use redis::{Pipeline, Value};

use crate::config::RedisConfig;
use crate::connection::{Connections, array, bytes, command, facts, unexpected_answer};

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
    let (pattern, mut cursor) = (connections.keys.pattern(), b"0".to_vec());
    loop {
        let scan = command("SCAN", &[&cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"]);
        let found = array(connections.retry(|| connections.read_one(&scan)).await?)?;
        let [next, keys] = <[Value; 2]>::try_from(found).map_err(|_| unexpected_answer())?;
        let mut unlink = Pipeline::new();
        for key in array(keys)? {
            unlink.cmd("UNLINK").arg(bytes(key)?);
        }
        if !unlink.is_empty() {
            connections.retry(|| connections.write(unlink.clone())).await?;
        }
        cursor = bytes(next)?;
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
    let answers = connections.retry(|| connections.read(&commands)).await?;
    let memory = facts(answers.get(1));
    // Seconds, and the microseconds beyond them.
    let time = array(answers.into_iter().next().ok_or_else(unexpected_answer)?)?;
    let [seconds, micros] = <[Value; 2]>::try_from(time).map_err(|_| unexpected_answer())?;
    let millis = number(seconds)?.saturating_mul(1_000).saturating_add(number(micros)? / 1_000);
    let bytes = |name| memory.get(name).and_then(|bytes| bytes.parse::<u64>().ok());
    // What goes through the connections stays in their buffers for a while.
    let buffers = ["mem_clients_normal", "mem_clients_slaves", "mem_aof_buffer"].into_iter().filter_map(bytes);
    let bytes = bytes("used_memory").map(|used| buffers.fold(used, u64::saturating_sub));
    Ok(Inspection::new(Vec::new(), Some(Timestamp::from_millis(millis)?), bytes))
}

/// Migrates over the connections of a provider.
pub(crate) async fn run(connections: &Connections) -> Result<Report> {
    migrations::migrate(&mut RedisTarget { connections }, migrations::redis(), &[]).await
}

fn connect(config: &RedisConfig) -> Result<Connections> {
    config.check()?;
    Connections::new(config)
}

fn number(value: Value) -> Result<i64> {
    let digits = bytes(value)?;
    std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(unexpected_answer)
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
        let fields = self.connections.read_one(&command("HGETALL", &[&self.connections.keys.schema()])).await?;
        let text = |value: &Value| match value {
            Value::BulkString(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            _ => Err(unexpected_answer()),
        };
        let step = |field: &[Value]| {
            let (version, step) = (text(&field[0])?, text(&field[1])?);
            let bad = || Error::corrupt("the bookkeeping of the schema can't be read");
            let (checksum, name) = step.split_once(' ').ok_or_else(bad)?;
            Ok(Applied {
                version: version.parse().map_err(|_| bad())?,
                name: name.to_owned(),
                checksum: checksum.to_owned(),
                complete: true,
            })
        };
        array(fields)?.chunks_exact(2).map(step).collect()
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        // A field is the version, its value the checksum and the name.
        let text = format!(
            "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end\n{}\n\
             return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])",
            step.text
        );
        let entry = format!("{} {}", step.checksum(), step.name);
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("EVAL").arg(text).arg(1).arg(self.connections.keys.schema()).arg(step.version).arg(entry);
        self.connections.write(pipeline).await.map(drop)
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(())
    }
}
