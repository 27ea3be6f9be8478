//! Redis as a target of the migrations crate.

use async_trait::async_trait;
use memory_core::{Error, Result};
use migrations::{Applied, Migration, Report, Target};
use redis::{Pipeline, Value};

use crate::config::RedisConfig;
use crate::connection::{Connections, command, unexpected_answer};

/// Creates or migrates the schema, as `init` does, and tells which steps that took.
pub async fn migrate(config: &RedisConfig) -> Result<Report> {
    config.check()?;
    let connections = Connections::new(config)?;
    connections.retry_repeatable(|| run(&connections)).await
}

/// Tells which steps [`migrate`] would take, and changes nothing.
pub async fn plan(config: &RedisConfig) -> Result<Report> {
    config.check()?;
    let connections = Connections::new(config)?;
    connections
        .retry(|| async { migrations::plan(&mut RedisTarget { connections: &connections }, migrations::redis()).await })
        .await
}

/// Removes all keys of the namespace, for ever. Goes over all keys of the server, slice by slice. Nothing happens when there is none.
pub async fn remove(config: &RedisConfig) -> Result<()> {
    config.check()?;
    let connections = Connections::new(config)?;
    let (pattern, mut cursor) = (connections.keys.pattern(), b"0".to_vec());
    loop {
        let scan: [&[u8]; 5] = [&cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"];
        let answers = connections.retry(|| async { connections.read(&command("SCAN", &scan)).await }).await?;
        let Some(Value::Array(answer)) = answers.first() else { return Err(unexpected_answer()) };
        let [Value::BulkString(next), Value::Array(keys)] = answer.as_slice() else { return Err(unexpected_answer()) };
        let mut unlink = Pipeline::with_capacity(keys.len());
        for key in keys {
            let Value::BulkString(key) = key else { return Err(unexpected_answer()) };
            unlink.cmd("UNLINK").arg(key);
        }
        if !unlink.is_empty() {
            connections.retry_repeatable(|| connections.write(unlink.clone())).await?;
        }
        match next.as_slice() {
            b"0" => return Ok(()),
            _ => cursor.clone_from(next),
        }
    }
}

/// Migrates over the connections of a provider.
pub(crate) async fn run(connections: &Connections) -> Result<Report> {
    migrations::migrate(&mut RedisTarget { connections }, migrations::redis()).await
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
        let answers = self.connections.read(&command("HGETALL", &[&self.connections.keys.schema()])).await?;
        let Some(Value::Array(fields)) = answers.first() else { return Err(unexpected_answer()) };
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
        fields.chunks_exact(2).map(step).collect()
    }

    async fn apply(&mut self, migration: &Migration) -> Result<()> {
        // A field is the version, its value the checksum and the name.
        let text = format!(
            "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end\n{}\n\
             return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])",
            migration.text
        );
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("EVAL").arg(text).arg(1).arg(self.connections.keys.schema()).arg(migration.version).arg(format!(
            "{} {}",
            migration.checksum(),
            migration.name
        ));
        self.connections.write(pipeline).await.map(drop)
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(())
    }
}
