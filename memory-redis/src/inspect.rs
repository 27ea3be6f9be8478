//! What time it is at the server and how much it holds, for operators.

use memory_core::{Inspection, Result, Timestamp};
use redis::{Pipeline, Value};

use crate::config::RedisConfig;
use crate::connection::{Connections, facts, unexpected_answer};

/// Tells what time it is at the server and how many bytes it holds in all, and changes nothing. Its indexes are made with what they
/// index, so none is ever missing.
pub async fn inspect(config: &RedisConfig) -> Result<Inspection> {
    config.check()?;
    let connections = Connections::new(config)?;
    let mut commands = Pipeline::new();
    commands.cmd("TIME").cmd("INFO").arg("memory");
    let answers = connections.retry(|| async { connections.read(&commands).await }).await?;
    let Some(Value::Array(parts)) = answers.first() else { return Err(unexpected_answer()) };
    // Seconds, and the microseconds beyond them.
    let [seconds, micros] = parts.as_slice() else { return Err(unexpected_answer()) };
    let millis = number(seconds)?.saturating_mul(1_000).saturating_add(number(micros)? / 1_000);
    let bytes = facts(answers.get(1)).get("used_memory").and_then(|bytes| bytes.parse().ok());
    Ok(Inspection::new(Vec::new(), Some(Timestamp::from_millis(millis)?), bytes))
}

fn number(value: &Value) -> Result<i64> {
    let Value::BulkString(digits) = value else { return Err(unexpected_answer()) };
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(unexpected_answer)
}
