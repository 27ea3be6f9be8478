//! Expiry: the records with an expiry time of their own are members of one sorted set, with that time as score.
//!
//! The scripts that write rows maintain it. Members with the same time are in byte order.

use memory_core::{Error, RecordId, Result, Timestamp};
use redis::Pipeline;

use crate::connection::{Connections, command};
use crate::statements::EXPIRY;

/// Returns the members after a given one, which may be gone. Any number of members may share a score, so the first
/// greater one is found by binary search. (Lua compares texts by the server's locale, so this compares bytes.)
const BEHIND: &str = "
    local function is_greater(one, other)
      for place = 1, math.min(#one, #other) do
        local left, right = string.byte(one, place), string.byte(other, place)
        if left ~= right then return left > right end
      end
      return #one > #other
    end
    local first, last = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[3]), redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[3])
    while first < last do
      local middle = math.floor((first + last) / 2)
      if is_greater(redis.call('ZRANGE', KEYS[1], middle, middle)[1], ARGV[4]) then last = middle else first = middle + 1 end
    end
    last = math.min(first + tonumber(ARGV[2]), redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1]))
    if first >= last then return {} end
    return redis.call('ZRANGE', KEYS[1], first, last - 1, 'WITHSCORES')";

/// Returns the next records that expired by a time.
pub(crate) async fn expired(
    on: &Connections,
    by: Timestamp,
    behind: Option<&(Timestamp, RecordId)>,
    most: usize,
) -> Result<Vec<(Timestamp, RecordId)>> {
    let (key, by, most) = (on.keys.of(EXPIRY), by.as_millis().to_string(), most.to_string());
    let read = match behind {
        None => {
            let range = [key.as_slice(), b"-inf", by.as_bytes(), b"WITHSCORES", b"LIMIT", b"0", most.as_bytes()];
            command("ZRANGEBYSCORE", &range)
        }
        Some((time, record)) => {
            let mut read = Pipeline::with_capacity(1);
            read.cmd("EVAL").arg(BEHIND).arg(1).arg(key).arg(by).arg(most).arg(time.as_millis()).arg(record.to_key());
            read
        }
    };
    let listed: Vec<(Vec<u8>, f64)> = on.read_one(&read).await?;
    let bad = || Error::corrupt("an entry of the list of what expires can't be read");
    let entry = |(member, millis): (Vec<u8>, f64)| {
        // Exact, because all times have fewer than the 53 bits of such a number.
        let time = Timestamp::from_millis(millis as i64).map_err(|_| bad())?;
        Ok((time, RecordId::from_key(&member).ok_or_else(bad)?))
    };
    listed.into_iter().map(entry).collect()
}
