//! The backfills: the move from the keys of version 1 to those of version 2, and the index of words.

use std::time::Instant;

use memory_core::engine::{Mark, corrupt};
use memory_core::{Backfill, Blocks, Collection, Result, SpaceId, TextIndex};
use migrations::Step;
use redis::Pipeline;

use crate::connection::command;
use crate::read::{LATE, RedisSession};
use crate::rows;
use crate::schema::{begun, complete, scan, unlink};
use crate::statements::{Call, INDEXED, MOVE, UNINDEXED, Words, step, words_of, words_of_document};

/// The keys that writes of version 1 touch, and the names that their values get.
pub(crate) const MOVED: [[&str; 2]; 7] = [
    ["time", "old:time"],
    ["time:words", "old:time:words"],
    ["spaces", "old:spaces"],
    ["keys", "idempotency"],
    ["collections", "old:collections"],
    ["pending", "old:pending"],
    ["running", "old:running"],
];
/// What the keys begin with that are removed in the end: all others of version 1, and what is left of those that have moved.
const LEFT: [&str; 8] = ["m:", "p:", "c:", "w:", "d:", "dt:", "dw:", "old:"];
/// Puts a string in the place of the documents of a collection, by time.
const SET_ASIDE: &str = "
    if redis.call('TYPE', KEYS[1]).ok == 'zset' then redis.call('RENAME', KEYS[1], KEYS[2]) end
    return redis.call('SET', KEYS[1], 'version 2')";
/// How many records a slice moves.
const SLICE: usize = 256;
/// How many memories a slice takes into the index of words.
const TAKEN_OVER: usize = 512;

impl RedisSession {
    /// How far the backfill is that comes next; `None` when all are complete.
    pub(crate) async fn pending(&self) -> Result<Option<Backfill>> {
        let (on, keys) = (&self.on, &self.on.keys);
        let mut counts = Pipeline::new();
        if begun(on).await?.is_none() {
            if on.config.text_index != TextIndex::All {
                return Ok(None);
            }
            counts.cmd("ZCARD").arg(keys.of(INDEXED)).cmd("ZCARD").arg(keys.of(UNINDEXED));
            let (indexed, unindexed): (u64, u64) = on.read_as(&counts).await?;
            let backfill = Backfill::new("the index of words", indexed, indexed + unindexed, Blocks::LedgerText);
            return Ok(Some(backfill).filter(|_| unindexed > LATE as u64));
        }
        counts.cmd("HGET").arg(keys.of(MOVE)).arg("done");
        for set in ["old:time", "old:time:words"] {
            counts.cmd("ZCARD").arg(keys.of(set));
        }
        let collections = self.old_collections().await?;
        for name in &collections {
            counts.cmd("ZCARD").arg(keys.with("old:dt:", name));
        }
        let counts: Vec<Option<u64>> = on.read_as(&counts).await?;
        let (done, left) = (counts[0].unwrap_or_default(), counts[1..].iter().flatten().sum::<u64>());
        Ok(Some(match left == 0 && collections.is_empty() {
            true => Backfill::new("the keys of version 1", 0, 1, Blocks::Nothing),
            false => Backfill::new("the layout of version 2", done, done + left, Blocks::Everything),
        }))
    }

    /// Takes its next slice.
    pub(crate) async fn backfill(&self) -> Result<()> {
        let (on, keys) = (&self.on, &self.on.keys);
        let Some(step) = begun(on).await? else { return self.index_words(TAKEN_OVER).await.map(drop) };
        for (set, has_words) in [("old:time", false), ("old:time:words", true)] {
            let index = |call: &mut Call<'_>, mark: &Mark, row: &[u8]| index_memory(call, mark, row, has_words);
            if self.move_some(&keys.of(set), &keys.of("m:"), &keys.rows(None), index).await? {
                return Ok(());
            }
        }
        let Some(name) = self.old_collections().await?.pop() else { return self.sweep(step).await };
        let (set, rows) = (keys.with("old:dt:", &name), [keys.with("d:", &name).as_slice(), b":"].concat());
        // A removal of version 1 is an error from here on.
        let mut aside = Pipeline::with_capacity(1);
        aside.cmd("EVAL").arg(SET_ASIDE).arg(2).arg(keys.with("dt:", &name)).arg(&set);
        on.write(aside, Instant::now()).await?;
        let collection = Collection::parse(String::from_utf8_lossy(&name)).map_err(corrupt)?;
        let index = |call: &mut Call<'_>, mark: &Mark, row: &[u8]| index_document(call, mark, row, &collection);
        if !self.move_some(&set, &rows, &keys.rows(Some(&collection)), index).await? {
            on.write(command("ZREM", &[&keys.of("old:collections"), &name]), Instant::now()).await?;
        }
        Ok(())
    }

    /// Moves the next records of a set of version 1. Tells whether there were any.
    async fn move_some(
        &self,
        set: &[u8],
        from: &[u8],
        to: &[u8],
        index: impl Fn(&mut Call<'_>, &Mark, &[u8]),
    ) -> Result<bool> {
        let last = (SLICE - 1).to_string();
        let entries = command("ZRANGE", &[set, b"0", last.as_bytes(), b"WITHSCORES"]);
        let entries: Vec<(Vec<u8>, i64)> = self.on.read_one(&entries).await?;
        let mut marks: Vec<_> = entries.into_iter().map(|(id, millis)| Mark { millis, id }).collect();
        if marks.is_empty() {
            return Ok(false);
        }
        // Version 1 told of rows from 1 MiB on only.
        marks.truncate(self.measured(from, &marks).await?);
        self.move_rows(&marks, from, to, Some(set), index).await?;
        let ids: Vec<_> = marks.iter().map(|mark| mark.id.as_slice()).collect();
        // Only when all of them have arrived.
        let mut clear = Pipeline::with_capacity(3);
        clear.cmd("UNLINK").arg(ids.iter().map(|id| [from, id].concat()).collect::<Vec<_>>());
        clear.cmd("ZREM").arg(set).arg(&ids).cmd("HINCRBY").arg(self.on.keys.of(MOVE)).arg("done").arg(ids.len());
        self.on.write(clear, Instant::now()).await?;
        Ok(true)
    }

    /// Writes the rows of version 1 under their new keys, where they still stand in their set, if they have one: where another program has
    /// moved one, it may be changed or removed already.
    async fn move_rows(
        &self,
        marks: &[Mark],
        from: &[u8],
        to: &[u8],
        set: Option<&[u8]>,
        index: impl Fn(&mut Call<'_>, &Mark, &[u8]),
    ) -> Result<()> {
        let ids = marks.iter().map(|mark| mark.id.as_slice()).collect();
        let mut moves = Pipeline::with_capacity(marks.len());
        for (mark, row) in marks.iter().zip(self.rows(from, ids).await?) {
            // An entry whose row is gone is none.
            let Some(row) = row else { continue };
            let row = rows::from_form_1(&row).unwrap_or(row);
            let expected = set.map(|set| (set.to_vec(), mark.id.as_slice(), true));
            let mut call = Call::change(&self.on.keys, [to, &mark.id].concat(), &[], &row, expected);
            index(&mut call, mark, &row);
            moves.add_command(call.into_cmd());
        }
        self.on.write(moves, Instant::now()).await.map(drop)
    }

    /// Removes some of what is left of version 1. Completes the step when a whole round over the keys has found nothing: after a restart or
    /// a failover, the server may go over them in another order.
    async fn sweep(&self, step: &Step) -> Result<()> {
        let (on, keys) = (&self.on, &self.on.keys);
        let state = command("HMGET", &[&keys.of(MOVE), b"cursor", b"found"]);
        let (cursor, found) = on.read_one::<(Option<Vec<u8>>, Option<bool>)>(&state).await?;
        let left = LEFT.map(|prefix| keys.of(prefix));
        let (cursor, mut some) = scan(on, cursor.as_deref().unwrap_or(b"0")).await?;
        some.retain(|key| left.iter().any(|prefix| key.starts_with(prefix)));
        self.adopt(&some).await?;
        let found_now = !some.is_empty();
        unlink(on, some).await?;
        let found = found_now || found == Some(true);
        let is_round = cursor == b"0";
        if is_round && !found {
            return complete(on, step).await;
        }
        let found: &[u8] = if found && !is_round { b"1" } else { b"0" };
        on.write(command("HSET", &[&keys.of(MOVE), b"cursor", &cursor, b"found", found]), Instant::now())
            .await
            .map(drop)
    }

    /// Moves memories that a program of version 1 has stored since the step began: it writes the row of a store before it meets the error,
    /// and takes the store for done when it repeats it.
    async fn adopt(&self, old: &[Vec<u8>]) -> Result<()> {
        let (keys, rows) = (&self.on.keys, self.on.keys.of("m:"));
        let ids: Vec<_> = old.iter().filter_map(|key| key.strip_prefix(rows.as_slice())).collect();
        let mut marks = Vec::with_capacity(ids.len());
        for (id, row) in ids.iter().zip(self.rows(&rows, ids.clone()).await?) {
            let row = row.as_deref().and_then(rows::from_form_1).unwrap_or_default();
            if let Ok(head) = rows::read_head(id, &row) {
                marks.push(Mark { millis: head.created_at.as_millis(), id: id.to_vec() });
            }
        }
        let index = |call: &mut Call<'_>, mark: &Mark, row: &[u8]| index_memory(call, mark, row, false);
        self.move_rows(&marks, &rows, &keys.rows(None), None, index).await
    }

    /// The names of the collections of which documents may be left.
    async fn old_collections(&self) -> Result<Vec<Vec<u8>>> {
        let names = command("ZRANGE", &[&self.on.keys.of("old:collections"), b"0", b"-1"]);
        self.on.read_one(&names).await
    }
}

/// A memory that can't be read to its end stands where its head says, or among all memories at least.
fn index_memory(call: &mut Call<'_>, Mark { millis, id }: &Mark, row: &[u8], has_words: bool) {
    let step = step(*millis, id);
    if let Ok(head) = rows::read_head(id, row)
        && let Ok(space) = SpaceId::parse(head.space)
    {
        call.place(&step, &space, head.status);
    }
    let words = || rows::memory(id, row).map(|memory| words_of(&memory)).unwrap_or_default();
    call.list(step, has_words.then(words));
}

fn index_document(call: &mut Call<'_>, Mark { millis, id }: &Mark, row: &[u8], collection: &Collection) {
    let step = step(*millis, id);
    let words = rows::document(collection, id, row).map(|document| words_of_document(&document)).unwrap_or_default();
    call.list_document(collection, step, &Words::new(), &words);
}
