//! What time it is at the server, for operators.

use memory_core::{Inspection, Result, Timestamp};
use redis::Value;

use crate::config::RedisConfig;
use crate::connection::{Connections, command, unexpected_answer};

/// Tells what time it is at the server, and changes nothing. Its indexes are made with what they index, so none is ever missing.
pub async fn inspect(config: &RedisConfig) -> Result<Inspection> {
    config.check()?;
    let connections = Connections::new(config)?;
    let answers = connections.retry(|| async { connections.read(&command("TIME", &[])).await }).await?;
    let Some(Value::Array(parts)) = answers.first() else { return Err(unexpected_answer()) };
    // Seconds, and the microseconds beyond them.
    let [seconds, micros] = parts.as_slice() else { return Err(unexpected_answer()) };
    let millis = number(seconds)?.saturating_mul(1_000).saturating_add(number(micros)? / 1_000);
    Ok(Inspection::new(Vec::new(), Some(Timestamp::from_millis(millis)?)))
}

fn number(value: &Value) -> Result<i64> {
    let Value::BulkString(digits) = value else { return Err(unexpected_answer()) };
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(unexpected_answer)
}
