//! What time it is at the server and how much it holds, for operators.

use memory_core::{Inspection, Result, Timestamp};
use redis::{Pipeline, Value};

use crate::config::RedisConfig;
use crate::connection::{Connections, facts, unexpected_answer};

/// Tells what time it is at the server and how many bytes all of its data take, and changes nothing. Its indexes are made with what they
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
    let memory = facts(answers.get(1));
    let bytes = |name| memory.get(name).and_then(|bytes| bytes.parse::<u64>().ok());
    // What goes through the connections stays in their buffers for a while.
    let buffers = ["mem_clients_normal", "mem_clients_slaves", "mem_aof_buffer"].into_iter().filter_map(bytes);
    let bytes = bytes("used_memory").map(|used| buffers.fold(used, u64::saturating_sub));
    Ok(Inspection::new(Vec::new(), Some(Timestamp::from_millis(millis)?), bytes))
}

fn number(value: &Value) -> Result<i64> {
    let Value::BulkString(digits) = value else { return Err(unexpected_answer()) };
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(unexpected_answer)
}
