//! Erasure: one script deletes everything about some records, and stores their tombstones as fields of one hash.
//!
//! Feed entries tell in which space a record was, and the server can't change entries. So if the feed describes one of
//! the records, it is copied first, in slices, without their descriptions, and the script replaces the feed with the
//! copy. Entries keep their numbers and stamps, so a watch does not notice.

use std::collections::BTreeSet;

use memory_core::engine::{Erasing, ErasingRecord, Found};
use memory_core::{Documents, Error, IdempotencyKey, Ledger, Outcome, RecordId, Result, Tombstone};
use redis::{Pipeline, Value};
use uuid::Uuid;

use crate::connection::{Connections, FeedCopy, RedisSession, command};
use crate::feed::{self, Stamps};
use crate::rows::Version;
use crate::statements::{Call, ERASURES, FEED, FEED_COPY, IDEMPOTENCY, Lua, TOMBSTONES, step_of};
use crate::tombstone::{hash_name, name, read_tombstone, record_of, tombstone_of};

/// The script's answer if something has changed since it was read.
const CHANGED: i64 = 0;
/// The script's answer once it has erased.
const ERASED: i64 = 1;
/// The script's answer if more entries have come to the feed than it processes.
const MORE: i64 = 3;
/// Passed instead of an entry number if the feed may describe the records.
const FEED_STAYS: &str = "*";
/// The answer of the copying script at the end of the feed.
const COPIED: i64 = 0;
/// The answer of the copying script if there is more.
const GOES_ON: i64 = 1;

/// Scans the next fields of a hash if the cursor is from this server, else the first ones: each server scans in another
/// order, and a restarted one does too. Also returns the server to continue with.
const SCAN: &str = "
    local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
    local found = redis.call('HSCAN', KEYS[1], ARGV[1] == server and ARGV[2] or '0', 'COUNT', ARGV[3])
    return {server, found[1], found[2]}";

/// Returns the tombstones of some records.
pub(crate) async fn tombstones(on: &Connections, of: &[RecordId]) -> Result<Vec<Tombstone>> {
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let mut read = Pipeline::with_capacity(1);
    read.cmd("HMGET").arg(on.keys.of(TOMBSTONES)).arg(of.iter().map(name).collect::<Vec<_>>());
    let found: Vec<Option<Vec<u8>>> = on.read_one(&read).await?;
    of.iter().zip(found).filter_map(|(record, bytes)| Some(read_tombstone(record, &bytes?))).collect()
}

/// Returns the next tombstones in the server's scan order, and where to continue. One may be returned twice: after a
/// restart or failover, and if the slot has moved, the scan starts over.
pub(crate) async fn tombstones_behind(
    on: &Connections,
    behind: Option<&[u8]>,
    most: usize,
) -> Result<(Vec<Tombstone>, Option<Vec<u8>>)> {
    let (server, cursor) = match behind {
        None => ("", 0),
        Some(bytes) => read_place(bytes).ok_or_else(no_page)?,
    };
    let mut read = Pipeline::with_capacity(1);
    // In one script, so that the server that names itself is the one that has the hash, even while the slot moves.
    read.cmd("EVAL").arg(SCAN).arg(1).arg(on.keys.of(TOMBSTONES)).arg(server).arg(cursor).arg(most);
    let (server, next, fields): (String, u64, Vec<Field>) = on.read_one(&read).await?;
    // The other fields are hashes of keys, and a counter.
    let named = fields.iter().filter_map(|(name, bytes)| Some((record_of(name)?, bytes)));
    let found = named.map(|(record, bytes)| read_tombstone(&record, bytes)).collect::<Result<_>>()?;
    Ok((found, (next != 0).then(|| place(&server, next))))
}

/// A field of a hash, and its value.
type Field = (Vec<u8>, Vec<u8>);

/// Encodes where a server continues its scan of the tombstones.
fn place(server: &str, cursor: u64) -> Vec<u8> {
    format!("{server} {cursor}").into_bytes()
}

/// Decodes what [`place`] has written; `None` for anything else.
fn read_place(bytes: &[u8]) -> Option<(&str, u64)> {
    let (server, cursor) = str::from_utf8(bytes).ok()?.split_once(' ')?;
    let is_name = server.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((server, cursor.parse().ok()?)).filter(|_| is_name)
}

fn no_page() -> Error {
    Error::invalid("the cursor is not from a page of tombstones")
}

impl RedisSession {
    /// Erases records by one script.
    pub(crate) async fn erase_all(&self, erasings: &[Erasing<'_, Version>]) -> Result<bool> {
        // The feed may tell the space of an expired record until that entry is trimmed: copying the feed would add its
        // whole cost to each sweep, and to each put over an expired document.
        if erasings.iter().all(|erasing| erasing.tombstone.is_of_expiry()) {
            return Ok(self.run(self.erasure(erasings, None, FEED_STAYS)).await? == ERASED);
        }
        let names: BTreeSet<_> = erasings.iter().map(|erasing| name(&erasing.tombstone.record)).collect();
        // One copy at a time. It is kept here across each await, so that after a failed or dropped attempt the next one
        // continues it.
        let mut kept = self.on.feed_copy.lock().await;
        if kept.as_ref().is_some_and(|copy| copy.names != names) {
            self.give_up(&mut kept).await?;
        }
        let mut silent = String::new();
        loop {
            if kept.is_none() {
                match feed::silent_up_to(&self.on, &names, &silent).await? {
                    Some(up_to) => silent = up_to,
                    None => *kept = Some(FeedCopy::begin(&self.on, names.clone()).await?),
                }
            }
            let is_of_use = match kept.as_ref() {
                Some(copy) => self.copy_feed(copy).await?,
                None => true,
            };
            let answer = match is_of_use {
                true => Some(self.run(self.erasure(erasings, kept.as_ref(), &silent)).await?),
                false => None,
            };
            match answer {
                Some(ERASED) => {
                    *kept = None;
                    return Ok(true);
                }
                Some(CHANGED) => return Ok(false),
                Some(MORE) => {}
                // The copy lacks something, or describes what another erasure has taken; or an entry of a record has
                // come to the feed.
                _ => {
                    self.give_up(&mut kept).await?;
                    silent.clear();
                }
            }
        }
    }

    /// Deletes those of these tombstones that are unchanged, by one script.
    pub(crate) async fn forget_all(&self, tombstones: &[Tombstone]) -> Result<()> {
        if tombstones.is_empty() {
            return Ok(());
        }
        let keys = &self.on.keys;
        let mut call = Call::new(Lua::Forget, keys).key(keys.of(TOMBSTONES)).arg(tombstones.len().to_string());
        for tombstone in tombstones {
            call = call.arg(name(&tombstone.record)).arg(tombstone_of(tombstone));
            call = call.arg(tombstone.key.map(hash_name).unwrap_or_default());
        }
        self.run(call).await.map(drop)
    }

    /// Deletes a useless copy. It is remembered until the server has done so.
    async fn give_up(&self, kept: &mut Option<FeedCopy>) -> Result<()> {
        if let Some(copy) = &*kept {
            let removed = self.on.write(command("UNLINK", &[&copy.key]), self.until).await;
            // Nothing is erased so far.
            removed.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        }
        *kept = None;
        Ok(())
    }

    /// Continues to copy the feed, up to its end. Returns `false` if the copy is useless.
    async fn copy_feed(&self, copy: &FeedCopy) -> Result<bool> {
        loop {
            let mut call = Call::new(Lua::Copy, &self.on.keys).key(copy.key.clone()).key(self.on.keys.of(TOMBSTONES));
            call = call.arg(copy.erasures.to_string()).arg(copy.names.len().to_string());
            for name in &copy.names {
                call = call.arg(name.as_slice());
            }
            // Nothing is erased so far.
            let answers = self.on.write(call.into_pipeline(), self.until).await;
            let answers = answers.map_err(|error| error.with_outcome(Outcome::NotDone))?;
            match answers.first() {
                Some(Value::Int(COPIED)) => return Ok(true),
                Some(Value::Int(GOES_ON)) => {}
                _ => return Ok(false),
            }
        }
    }

    /// Makes the call that erases, and replaces the feed with a copy, if there is one. Without one the feed describes
    /// none of the records up to the entry `silent`.
    fn erasure(&self, erasings: &[Erasing<'_, Version>], copy: Option<&FeedCopy>, silent: &str) -> Call<'_> {
        let keys = &self.on.keys;
        // Without a copy none is touched, so any key of the script will do.
        let copied = copy.map_or_else(|| keys.of(FEED), |copy| copy.key.clone());
        let erasures = copy.map_or_else(String::new, |copy| copy.erasures.to_string());
        let mut call = Call::new(Lua::Erase, keys).key(copied).key(keys.of(TOMBSTONES)).key(keys.of(IDEMPOTENCY));
        call = call.arg(erasings.len().to_string()).arg(erasures).arg(silent);
        let mut stamps = Stamps::new();
        for Erasing { found, tombstone } in erasings {
            let (head, key) = match found {
                // A missing record has an empty head.
                ErasingRecord::Absent => ([].as_slice(), None),
                ErasingRecord::Memory(Found { record, version }) => {
                    let step = step_of::<Ledger>(record);
                    call.displace(&step, &record.space_id, record.status);
                    call.unlist(step);
                    call.schedule(&tombstone.record, record.expires_at, None);
                    (version.head.as_slice(), record.idempotency_key.as_ref())
                }
                ErasingRecord::Document(Found { record, version }) => {
                    let (collection, step) = (&record.collection, step_of::<Documents>(record));
                    call.displace_document(collection, &step, &record.space_id);
                    call.unlist_document(collection, step);
                    call.schedule(&tombstone.record, record.expires_at, None);
                    (version.head.as_slice(), None)
                }
            };
            let read = self.tombstones.get(&tombstone.record).map(tombstone_of).unwrap_or_default();
            let row = keys.row_of(&tombstone.record);
            call = call.key(row).arg(head).arg(stamps.of_erasure(tombstone)).arg(name(&tombstone.record));
            call = call.arg(read).arg(tombstone_of(tombstone)).arg(key.map_or("", IdempotencyKey::as_str));
            call = call.arg(tombstone.key.map(hash_name).unwrap_or_default());
        }
        for Erasing { tombstone, .. } in erasings {
            call = call.key(keys.history(&tombstone.record));
        }
        for Erasing { tombstone, .. } in erasings {
            call = call.key(keys.vector(&tombstone.record));
        }
        call
    }
}

impl FeedCopy {
    async fn begin(on: &Connections, names: BTreeSet<Vec<u8>>) -> Result<Self> {
        let read = command("HGET", &[&on.keys.of(TOMBSTONES), ERASURES.as_bytes()]);
        let erasures: Option<u64> = on.read_one(&read).await?;
        let key = on.keys.with(FEED_COPY, Uuid::now_v7().simple().to_string());
        Ok(Self { key, names, erasures: erasures.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for (server, cursor) in [("0123456789abcdef0123456789abcdef01234567", 1), ("", u64::MAX)] {
            assert_eq!(read_place(&place(server, cursor)), Some((server, cursor)));
        }
        for other in ["", " ", "1", "a ", "a -1", "a 1 ", "g 1", "a 18446744073709551616", "a\u{e4} 1"] {
            assert_eq!(read_place(other.as_bytes()), None, "{other}");
        }
        assert_eq!(read_place(b"a\xff 1"), None);
    }
}
