//! The schema: migrations and their backfills, removal, and the inspection for operators.

use std::cmp::Ordering;
use std::time::Instant;

use async_trait::async_trait;
use memory_core::engine::{Config, Mark, corrupt};
use memory_core::{
    Backfill, Blocks, Collection, Documents, Error, Inspection, Ledger, Outcome, Result, SpaceId, Timestamp,
};
use migrations::{
    Applied, ERASURE, EXPIRY, FEED as FEED_STEP, HISTORY, Kind, NO_WORDS, PATHS, READ_ONLY, Report, Step, Target,
    VECTORS,
};
use redis::{InfoDict, Pipeline, Value};

use crate::config::RedisConfig;
use crate::connection::{Connections, RedisSession, command};
use crate::feed::Stamps;
use crate::rows::{self, ROWS, Stored};
use crate::statements::{
    COLLECTIONS, Call, FEED, INDEXED, MOVE, PLACES, RowChange, SCHEMA, STEPS, WRITER, decoded, step,
};

/// The keys that writes of version 1 touch, and the names that their values are moved to.
const MOVED: [[&str; 2]; 7] = [
    ["time", "old:time"],
    ["time:words", "old:time:words"],
    ["spaces", "old:spaces"],
    ["keys", "idempotency"],
    ["collections", "old:collections"],
    ["pending", "old:pending"],
    ["running", "old:running"],
];
/// The prefixes of keys that are finally removed: all other keys of version 1, the rest of those that were moved, and
/// the words of version 2.
const LEFT: [&str; 10] = ["m:", "p:", "c:", "w:", "d:", "dt:", "dw:", "old:", "x:", "ew:"];
/// Puts a string in the place of a collection's documents by time.
const SET_ASIDE: &str = "
    if redis.call('TYPE', KEYS[1]).ok == 'zset' then redis.call('RENAME', KEYS[1], KEYS[2]) end
    return redis.call('SET', KEYS[1], 'version 2')";
/// Counts the documents of a collection that are left, also before it was set aside.
const COUNT: &str = "return redis.call('ZCARD', redis.call('TYPE', KEYS[1]).ok == 'zset' and KEYS[1] or KEYS[2])";
/// Advances the sweep. At the end of a round, if nothing is left to move, completes the steps. Does nothing if another
/// program has advanced it, or if a server other than the swept one answers. While the slot moves, remaining keys may
/// be on the other node; a node then refuses this script, because the last key is absent unless something is left to
/// move.
const ADVANCE: &str = "
    if (redis.call('HGET', KEYS[1], 'swept') or '') ~= ARGV[1] then return 0 end
    if not string.find(redis.call('INFO', 'server'), ARGV[2], 1, true) then return 0 end
    if ARGV[3] ~= '0' then return redis.call('HSET', KEYS[1], 'swept', ARGV[2] .. ' ' .. ARGV[3]) end
    if redis.call('EXISTS', KEYS[3]) == 1 then return redis.call('HDEL', KEYS[1], 'swept') end
    for place = 5, #ARGV, 2 do
      local steps = redis.call('HGET', KEYS[2], ARGV[place])
      redis.call('HSET', KEYS[2], ARGV[place], (string.gsub(steps, ARGV[place + 1] .. ARGV[4], ARGV[place + 1])))
    end
    return redis.call('DEL', KEYS[1])";
/// Stores the document that the places backfill has reached; completes the step after the last one. Does nothing if
/// another program has completed it.
const ADVANCE_PLACES: &str = "
    local steps = redis.call('HGET', KEYS[2], ARGV[1])
    if not string.find(steps, ARGV[2] .. ARGV[3], 1, true) then return 0 end
    if ARGV[4] ~= '' then return redis.call('HSET', KEYS[1], 'collection', ARGV[4], 'step', ARGV[5]) end
    redis.call('HSET', KEYS[2], ARGV[1], (string.gsub(steps, ARGV[2] .. ARGV[3], ARGV[2])))
    return redis.call('DEL', KEYS[1])";
/// Makes the namespace read-only, or writable again. Each script that writes checks this first.
const SET_READ_ONLY: &str = "
    local least = tonumber(redis.call('GET', KEYS[1]) or 0) % tonumber(ARGV[2])
    return redis.call('SET', KEYS[1], string.format('%d', least + tonumber(ARGV[1]) * tonumber(ARGV[2])))";
/// Moves memories from one list of all memories to the other, if they are still there.
const LIST: &str = "
    for place = 1, #ARGV do
      if redis.call('ZSCORE', KEYS[1], ARGV[place]) then
        redis.call('ZADD', KEYS[2], 0, ARGV[place])
        redis.call('ZREM', KEYS[1], ARGV[place])
      end
    end
    return #ARGV";
/// Makes a complete step incomplete.
const BEGIN_AGAIN: &str = "
    local steps = redis.call('HGET', KEYS[1], ARGV[1])
    if string.find(steps, ARGV[2] .. ARGV[3], 1, true) then return 0 end
    return redis.call('HSET', KEYS[1], ARGV[1], (string.gsub(steps, ARGV[2], ARGV[2] .. ARGV[3])))";
/// Where a row of version 1 has its createdAt, as a big-endian number.
const CREATED_AT_1: (usize, usize) = (17, 24);
/// Number of records that a slice moves, unless they are long.
const SLICE: usize = ROWS;
/// The last byte of the beginning of a row, which covers everything up to its space.
const BEGIN: usize = 599;
/// Number of bytes of a step that hold its time.
const TIME: usize = 6;
/// Number of memories that a slice moves from one list of all memories to the other, and of server keys that it scans.
const LONG_SLICE: usize = 4_000;
/// Suffix of a step's line in the bookkeeping until its backfill is complete.
const BEGUN: &str = " begun";

/// Creates or migrates the schema, as `init` does, and returns the applied steps. Scans all keys of the server, in
/// slices, for what older programs have left. As in all functions for operators, each command has the deadline of a
/// call (`Timeout`).
pub async fn migrate(config: &RedisConfig) -> Result<Report> {
    let connections = connect(config)?;
    let report = connections.retry(|| run(&connections)).await?;
    let earlier = Outcome::unknown_if(!report.applied.is_empty());
    begin_again(&connections).await.map_err(|error| error.after(earlier))?;
    Ok(report)
}

/// Returns the steps that [`migrate`] would apply. Changes nothing.
pub async fn plan(config: &RedisConfig) -> Result<Report> {
    let connections = connect(config)?;
    let plan = || async { migrations::plan(&mut RedisTarget::new(&connections), migrations::redis()).await };
    connections.retry(plan).await.map_err(|error| error.with_outcome(Outcome::NotDone))
}

/// Deletes all keys of the namespace. Scans all keys of the server, in slices. Does nothing if there are none. After an
/// error with the outcome `Unknown` some keys may be gone; another call continues.
pub async fn remove(config: &RedisConfig) -> Result<()> {
    let connections = connect(config)?;
    let (mut cursor, mut server, mut earlier) = (b"0".to_vec(), None, Outcome::NotDone);
    loop {
        let slice = connections.retry(|| scan_whole_slot(&connections, &cursor)).await;
        let (next, keys, answering) = slice.map_err(|error| error.after(earlier))?;
        if !keys.is_empty() {
            let unlink = || unlink(&connections, keys.clone(), Instant::now());
            connections.retry(unlink).await.map_err(|error| error.after(earlier))?;
            earlier = Outcome::Unknown;
        }
        // Another server has another order, in which the cursor means nothing.
        let is_same = server.is_none_or(|server| server == answering);
        if is_same && next == b"0" {
            return Ok(());
        }
        (cursor, server) = (if is_same { next } else { b"0".to_vec() }, Some(answering));
    }
}

/// Returns the server's time and the size of all its data. Changes nothing. Indexes are created with the data, so none
/// is ever missing.
pub async fn inspect(config: &RedisConfig) -> Result<Inspection> {
    let connections = connect(config)?;
    let mut commands = Pipeline::new();
    commands.cmd("TIME").cmd("INFO").arg("memory");
    // Seconds, and the remaining microseconds.
    let told = connections.retry(|| connections.read_as::<((i64, i64), InfoDict)>(&commands)).await;
    let ((seconds, micros), memory) = told.map_err(|error| error.with_outcome(Outcome::NotDone))?;
    let millis = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
    let bytes = |name| memory.get::<u64>(name);
    // Data stays in the connections' buffers for a while.
    let buffers = ["mem_clients_normal", "mem_clients_slaves", "mem_aof_buffer"].into_iter().filter_map(bytes);
    let bytes = bytes("used_memory").map(|used| buffers.fold(used, u64::saturating_sub));
    Ok(Inspection::new(Vec::new(), Some(Timestamp::from_millis(millis)?), bytes))
}

/// Migrates, on the connections of a provider.
pub(crate) async fn run(connections: &Connections) -> Result<Report> {
    let mut target = RedisTarget::new(connections);
    let migrated = migrations::migrate(&mut target, migrations::redis()).await;
    migrated.map_err(|error| error.after(target.outcome))
}

/// Returns the steps whose backfills are not complete.
async fn begun(connections: &Connections) -> Result<Vec<&'static Step>> {
    let applied = RedisTarget::new(connections).applied().await?;
    let is_begun = |step: &&Step| applied.iter().any(|applied| applied.name == step.name && !applied.complete);
    Ok(migrations::redis().iter().filter(is_begun).collect())
}

/// Returns whether a step's backfill removes what older programs have left. One sweep covers all such steps.
fn removes(step: &Step) -> bool {
    step.kind == Kind::Backfill && step.name != PATHS
}

/// Restarts the removals if a program of version 1 that was still running has left rows since they were complete.
async fn begin_again(connections: &Connections) -> Result<()> {
    let (left, mut cursor) = (LEFT.map(|prefix| connections.keys.of(prefix)), b"0".to_vec());
    loop {
        let (next, keys) = connections.retry(|| scan(connections, &cursor)).await?;
        if keys.iter().any(|key| left.iter().any(|prefix| key.starts_with(prefix))) {
            let mut again = Pipeline::new();
            for step in migrations::redis().iter().filter(|step| removes(step)) {
                again.cmd("EVAL").arg(BEGIN_AGAIN).arg(1).arg(connections.keys.of(SCHEMA));
                again.arg(step.version).arg(line(step)).arg(BEGUN);
            }
            return connections.retry(|| connections.write(again.clone(), Instant::now())).await.map(drop);
        }
        cursor = next;
        if cursor == b"0" {
            return Ok(());
        }
    }
}

/// Returns some of the next keys of the namespace, and the cursor after them.
async fn scan(connections: &Connections, cursor: &[u8]) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
    connections.read_one(&scan_command(connections, cursor)).await
}

/// The same, on a server that has all keys of the namespace, which it identifies. Fails while the slot moves: a scan names no key, so
/// no server would refuse it.
async fn scan_whole_slot(connections: &Connections, cursor: &[u8]) -> Result<(Vec<u8>, Vec<Vec<u8>>, String)> {
    let mut commands = scan_command(connections, cursor);
    commands.cmd("EXISTS").arg(connections.keys.any()).cmd("INFO").arg("server");
    let answers = connections.read_here(&commands).await?;
    let ((next, keys), _, info) = decoded::<((Vec<u8>, Vec<Vec<u8>>), i64, InfoDict)>(Value::Array(answers))?;
    Ok((next, keys, info.get::<String>("run_id").unwrap_or_default()))
}

fn scan_command(connections: &Connections, cursor: &[u8]) -> Pipeline {
    let (pattern, count) = (connections.keys.pattern(), LONG_SLICE.to_string());
    command("SCAN", &[cursor, b"MATCH", pattern.as_bytes(), b"COUNT", count.as_bytes()])
}

/// Deletes these keys.
async fn unlink(connections: &Connections, keys: Vec<Vec<u8>>, until: Instant) -> Result<()> {
    let mut unlink = Pipeline::with_capacity(keys.len());
    for key in keys {
        unlink.cmd("UNLINK").arg(key);
    }
    connections.write(unlink, until).await.map(drop)
}

fn connect(config: &RedisConfig) -> Result<Connections> {
    config.check()?;
    Connections::new(config)
}

/// Returns the line of a completed step in the bookkeeping.
fn line(step: &Step) -> String {
    format!("{} {}", step.checksum(), step.name)
}

/// The position of the places backfill: the last document that it has covered, or the start of a collection.
#[derive(Debug, Default)]
struct Reached {
    collection: Vec<u8>,
    step: Vec<u8>,
}

impl Reached {
    /// Returns the bound from which on a collection's steps are left.
    fn bound(&self, collection: &[u8]) -> Vec<u8> {
        match collection.cmp(&self.collection) {
            Ordering::Less => b"+".to_vec(),
            Ordering::Equal if !self.step.is_empty() => [b"(", self.step.as_slice()].concat(),
            _ => b"-".to_vec(),
        }
    }
}

/// Needs no lock: a step is one script, which the server runs alone, and which does nothing if the step was applied.
struct RedisTarget<'c> {
    connections: &'c Connections,
    /// Whether this run has created the first version, so that no program of version 1 can have been there.
    is_new: bool,
    /// The outcome of a failure: that of a later step does not undo an earlier one.
    outcome: Outcome,
}

impl<'c> RedisTarget<'c> {
    fn new(connections: &'c Connections) -> Self {
        Self { connections, is_new: false, outcome: Outcome::NotDone }
    }
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
        // A field is a version; its value has a line for each step. A step whose state is set here is not complete: an
        // older program may store while a step is applied that removes what such programs leave.
        let state = if removes(step) && !self.is_new { BEGUN } else { "" };
        let text = format!(
            "local steps, state = redis.call('HGET', KEYS[1], ARGV[1]), ARGV[3]\n\
             if steps and string.find(steps, ARGV[2], 1, true) then return 0 end\n{}\n\
             return redis.call('HSET', KEYS[1], ARGV[1], (steps and steps .. '\\n' or '') .. ARGV[2] .. state)",
            step.text
        );
        let others = match step.name {
            PATHS => [WRITER, COLLECTIONS].as_slice(),
            NO_WORDS | HISTORY | ERASURE | EXPIRY | VECTORS => &[WRITER],
            FEED_STEP => &[WRITER, FEED],
            _ => MOVED.as_flattened(),
        };
        let keys: Vec<_> = [SCHEMA].iter().chain(others).map(|name| self.connections.keys.of(name)).collect();
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("EVAL").arg(text).arg(keys.len()).arg(keys).arg(step.version).arg(line(step)).arg(state);
        let is_done = self.connections.write(pipeline, Instant::now()).await? != [Value::Int(0)];
        self.is_new |= step.version == 1 && is_done;
        self.outcome = if is_done { Outcome::Unknown } else { self.outcome };
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Makes the namespace read-only, or writable again.
pub(crate) async fn set_read_only(connections: &Connections, is_read_only: bool) -> Result<()> {
    let (key, is_read_only) = (connections.keys.of(WRITER), i32::from(is_read_only));
    let mut script = Pipeline::with_capacity(1);
    script.cmd("EVAL").arg(SET_READ_ONLY).arg(1).arg(key).arg(is_read_only).arg(READ_ONLY);
    connections.write(script, Instant::now()).await.map(drop)
}

/// Returns whether the namespace is read-only.
pub(crate) async fn is_read_only(connections: &Connections) -> Result<bool> {
    let least: Option<u32> = connections.read_one(&command("GET", &[&connections.keys.of(WRITER)])).await?;
    Ok(least.is_some_and(|least| least >= READ_ONLY))
}

impl RedisSession {
    /// Returns the progress of the incomplete backfills, in the order in which they run.
    pub(crate) async fn pending(&self) -> Result<Vec<Backfill>> {
        let begun = begun(&self.on).await?;
        let has_left = begun.iter().any(|step| removes(step));
        if has_left && let Some(layout) = self.unmoved().await? {
            return Ok(vec![layout]);
        }
        let mut pending = Vec::new();
        if begun.iter().any(|step| step.name == PATHS) {
            pending.push(self.unplaced().await?);
        }
        if has_left {
            pending.push(self.unswept().await?);
        }
        Ok(pending)
    }

    /// Returns how many records of version 1 were moved; `None` if all were.
    async fn unmoved(&self) -> Result<Option<Backfill>> {
        let (on, keys) = (&self.on, &self.on.keys);
        let mut counts = Pipeline::new();
        counts.cmd("HGET").arg(keys.of(MOVE)).arg("done");
        for set in ["old:time", "old:time:words"] {
            counts.cmd("ZCARD").arg(keys.of(set));
        }
        let collections = self.old_collections().await?;
        for name in &collections {
            let sets = ["dt:", "old:dt:"].map(|kind| keys.with(kind, name));
            counts.cmd("EVAL").arg(COUNT).arg(sets.len()).arg(&sets);
        }
        let counts: Vec<Option<u64>> = on.read_as(&counts).await?;
        let (done, left) = (counts[0].unwrap_or_default(), counts[1..].iter().flatten().sum::<u64>());
        let is_left = left > 0 || !collections.is_empty();
        Ok(is_left.then(|| Backfill::new("the layout of version 2", done, done + left, Blocks::Everything)))
    }

    /// Returns how many memories are on the final list of all memories. The sweep that follows counts as one more.
    async fn unswept(&self) -> Result<Backfill> {
        let mut counts = Pipeline::new();
        for set in [STEPS, INDEXED] {
            counts.cmd("ZCARD").arg(self.on.keys.of(set));
        }
        let (listed, others): (u64, u64) = self.on.read_as(&counts).await?;
        Ok(Backfill::of_no_words(listed, listed + others + 1))
    }

    /// Returns how many documents have places: all except those after the one that the backfill has reached.
    async fn unplaced(&self) -> Result<Backfill> {
        let (on, keys, reached) = (&self.on, &self.on.keys, self.reached().await?);
        let names: Vec<Vec<u8>> = on.read_one(&command("ZRANGE", &[&keys.of(COLLECTIONS), b"0", b"-1"])).await?;
        let mut counts = Pipeline::with_capacity(2 * names.len());
        for name in &names {
            counts.cmd("ZLEXCOUNT").arg(keys.with("et:", name)).arg(reached.bound(name)).arg("+");
        }
        for name in &names {
            counts.cmd("ZCARD").arg(keys.with("et:", name));
        }
        let counts: Vec<u64> = on.read_as(&counts).await?;
        let (left, all) = counts.split_at(names.len());
        let (left, total): (u64, u64) = (left.iter().sum(), all.iter().sum());
        Ok(Backfill::of_places(total.saturating_sub(left), total))
    }

    /// Returns the document that the places backfill has reached.
    async fn reached(&self) -> Result<Reached> {
        let reached = command("HMGET", &[&self.on.keys.of(PLACES), b"collection", b"step"]);
        let (collection, step): (Option<Vec<u8>>, Option<Vec<u8>>) = self.on.read_one(&reached).await?;
        Ok(Reached { collection: collection.unwrap_or_default(), step: step.unwrap_or_default() })
    }

    /// Runs the next slice of the next backfill.
    pub(crate) async fn backfill(&self) -> Result<()> {
        let begun = begun(&self.on).await?;
        let removals: Vec<_> = begun.iter().copied().filter(|step| removes(step)).collect();
        if !removals.is_empty() && self.move_next().await? {
            return Ok(());
        }
        if let Some(paths) = begun.iter().find(|step| step.name == PATHS) {
            return self.place_some(paths).await;
        }
        match removals.is_empty() || self.list_some().await? {
            true => Ok(()),
            false => self.sweep(&removals).await,
        }
    }

    /// Moves the next records of version 1. Returns whether there may be more.
    async fn move_next(&self) -> Result<bool> {
        let (on, keys) = (&self.on, &self.on.keys);
        for set in ["old:time", "old:time:words"] {
            if self.move_some(&keys.of(set), &keys.of("m:"), None).await? {
                return Ok(true);
            }
        }
        let Some(name) = self.old_collections().await?.pop() else { return Ok(false) };
        let (set, rows) = (keys.with("old:dt:", &name), [keys.with("d:", &name).as_slice(), b":"].concat());
        // From here on a removal by version 1 fails.
        let mut aside = Pipeline::with_capacity(1);
        aside.cmd("EVAL").arg(SET_ASIDE).arg(2).arg(keys.with("dt:", &name)).arg(&set);
        on.write(aside, self.until).await?;
        let collection = Collection::parse(String::from_utf8_lossy(&name)).map_err(corrupt)?;
        if !self.move_some(&set, &rows, Some(&collection)).await? {
            on.write(command("ZREM", &[&keys.of("old:collections"), &name]), self.until).await?;
        }
        Ok(true)
    }

    /// Moves the next records of a set of version 1: writes their rows under the new keys if they are still in the set.
    /// A record that another program has moved may already be changed or removed. Returns whether there may be more.
    async fn move_some(&self, set: &[u8], from: &[u8], of: Option<&Collection>) -> Result<bool> {
        let (on, last) = (&self.on, (SLICE - 1).to_string());
        let entries = command("ZRANGE", &[set, b"0", last.as_bytes(), b"WITHSCORES"]);
        let entries: Vec<(Vec<u8>, i64)> = on.read_one(&entries).await?;
        let mut marks: Vec<_> = entries.into_iter().map(|(id, millis)| Mark { millis, id }).collect();
        if marks.is_empty() {
            return Ok(false);
        }
        let found = marks.len();
        // Version 1 marked only rows of 1 MiB or more as long.
        marks.truncate(self.measured(from, &marks, 0).await?);
        let ids: Vec<_> = marks.iter().map(|mark| mark.id.as_slice()).collect();
        let (mut moves, mut stamps) = (Pipeline::with_capacity(marks.len()), Stamps::new());
        for (mark, row) in marks.iter().zip(self.rows(from, ids.clone()).await?) {
            // An entry without a row counts as none.
            let Some(row) = row else { continue };
            let row = rows::from_form_1(&row).unwrap_or(row);
            let expected = Some((set.to_vec(), mark.id.as_slice()));
            // A watch may have begun before a late record was moved. An unreadable record is delivered to nobody.
            let entry = match of {
                None => Ledger::read(of, &mark.id, &row).map(|held| stamps.of_memory(&held.record)),
                Some(_) => Documents::read(of, &mark.id, &row).map(|held| stamps.of_put(None, &held.record)),
            };
            let entry = entry.unwrap_or_default();
            // The time of its write is unknown, so it exists from the beginning of the history.
            let key = on.keys.row(of, &mark.id);
            let change = RowChange { new: row.clone(), entry, ..RowChange::none(key, &[]) };
            let mut call = Call::change(&on.keys, vec![change], expected);
            index(&mut call, mark, &row, of);
            moves.add_command(call.into_cmd());
        }
        on.write(moves, self.until).await?;
        // Only after all of them have been written.
        let mut clear = Pipeline::with_capacity(3);
        clear.cmd("UNLINK").arg(ids.iter().map(|id| [from, id].concat()).collect::<Vec<_>>());
        clear.cmd("ZREM").arg(set).arg(&ids).cmd("HINCRBY").arg(on.keys.of(MOVE)).arg("done").arg(ids.len());
        on.write(clear, self.until).await?;
        Ok(found == SLICE || marks.len() < found)
    }

    /// Places the next documents: collection by collection, and within each in the order of time. A document that is
    /// changed meanwhile has been placed by that.
    async fn place_some(&self, step: &Step) -> Result<()> {
        let (on, keys) = (&self.on, &self.on.keys);
        let reached = self.reached().await?;
        let next = |set: &[u8], from: &[u8], count: usize| {
            command("ZRANGEBYLEX", &[set, from, b"+", b"LIMIT", b"0", count.to_string().as_bytes()])
        };
        let from = [b"[", reached.collection.as_slice()].concat();
        let found: Vec<Vec<u8>> = on.read_one(&next(&keys.of(COLLECTIONS), &from, 1)).await?;
        let mut last = Reached::default();
        if let Some(name) = found.into_iter().next() {
            let collection = Collection::parse(String::from_utf8_lossy(&name)).map_err(corrupt)?;
            let from = reached.bound(&name);
            let steps: Vec<Vec<u8>> = on.read_one(&next(&keys.collection(&collection), &from, SLICE)).await?;
            let key = |step: &[u8]| keys.row(Some(&collection), step.get(TIME..).unwrap_or_default());
            let (mut begins, mut place) = (Pipeline::with_capacity(steps.len()), Pipeline::with_capacity(steps.len()));
            for step in &steps {
                begins.cmd("GETRANGE").arg(key(step)).arg(0).arg(BEGIN);
            }
            for (step, row) in steps.iter().zip(on.read_as::<Vec<Vec<u8>>>(&begins).await?) {
                // An unreadable document is in no place.
                if let Ok(space) = rows::read_head(&[], &row).and_then(|head| SpaceId::parse(head.space)) {
                    let unchanged = RowChange::none(key(step), rows::head(&row));
                    let mut call = Call::change(keys, vec![unchanged], None);
                    call.place_document(&collection, step, &space);
                    place.add_command(call.into_cmd());
                }
            }
            on.write(place, self.until).await?;
            last = match steps.last() {
                Some(step) => Reached { collection: name, step: step.clone() },
                // The lowest name after this one.
                None => Reached { collection: [name.as_slice(), b"\0"].concat(), step: Vec::new() },
            };
        }
        let mut advance = Pipeline::with_capacity(1);
        advance.cmd("EVAL").arg(ADVANCE_PLACES).arg(2).arg(keys.of(PLACES)).arg(keys.of(SCHEMA)).arg(step.version);
        advance.arg(line(step)).arg(BEGUN).arg(last.collection).arg(last.step);
        on.write(advance, self.until).await.map(drop)
    }

    /// Moves the next memories that an older program has listed separately to the list of all others. Returns whether
    /// there were any.
    async fn list_some(&self) -> Result<bool> {
        let (on, keys, last) = (&self.on, &self.on.keys, (LONG_SLICE - 1).to_string());
        let some: Vec<Vec<u8>> = on.read_one(&command("ZRANGE", &[&keys.of(INDEXED), b"0", last.as_bytes()])).await?;
        if some.is_empty() {
            return Ok(false);
        }
        // In one script, so that an erased memory can't come back meanwhile.
        let mut list = Pipeline::with_capacity(1);
        list.cmd("EVAL").arg(LIST).arg(2).arg(keys.of(INDEXED)).arg(keys.of(STEPS)).arg(&some);
        on.write(list, self.until).await?;
        Ok(true)
    }

    /// Removes some of what older programs have left. Completes the steps after a whole round over the keys of one
    /// server: after a restart or failover, and if the slot has moved, the server scans in another order, and the round
    /// starts over.
    async fn sweep(&self, steps: &[&Step]) -> Result<()> {
        let (on, keys) = (&self.on, &self.on.keys);
        let mut look = Pipeline::with_capacity(2);
        look.cmd("HGET").arg(keys.of(MOVE)).arg("swept").cmd("INFO").arg("server");
        let (swept, info): (Option<String>, InfoDict) = on.read_as(&look).await?;
        let (swept, server) = (swept.unwrap_or_default(), info.get::<String>("run_id").unwrap_or_default());
        let from = swept.strip_prefix(&server).and_then(|rest| rest.strip_prefix(' ')).unwrap_or("0");
        let (left, adopted) = (LEFT.map(|prefix| keys.of(prefix)), keys.of("old:time"));
        let (next, mut some) = scan(on, from.as_bytes()).await?;
        // Another program may just have adopted a row. The list disappears by itself once nothing is left to move.
        some.retain(|key| *key != adopted && left.iter().any(|prefix| key.starts_with(prefix)));
        unlink(on, self.adopt(some).await?, self.until).await?;
        let (keys, mut advance) = ([MOVE, SCHEMA, "old:time"].map(|name| keys.of(name)), Pipeline::with_capacity(1));
        advance.cmd("EVAL").arg(ADVANCE).arg(keys.len()).arg(&keys).arg(&swept).arg(server).arg(next).arg(BEGUN);
        for step in steps {
            advance.arg(step.version).arg(line(step));
        }
        on.write(advance, self.until).await.map(drop)
    }

    /// Adopts memories that a program of version 1 has stored since the step began, so that they are moved: such a
    /// store writes its row before it fails, and counts as done when it is repeated. Returns the other keys.
    async fn adopt(&self, old: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let (on, prefix) = (&self.on, self.on.keys.of("m:"));
        let (late, others): (Vec<_>, Vec<_>) = old.into_iter().partition(|key| key.starts_with(&prefix));
        let ids: Vec<_> = late.iter().map(|key| &key[prefix.len()..]).collect();
        let (mut created, mut adopt) = (Pipeline::with_capacity(ids.len()), Pipeline::with_capacity(ids.len()));
        for key in &late {
            created.cmd("GETRANGE").arg(key).arg(CREATED_AT_1.0).arg(CREATED_AT_1.1);
        }
        let created: Vec<Vec<u8>> = on.read_as(&created).await?;
        for (id, created_at) in ids.iter().zip(created) {
            // A row that is cut earlier, or has no valid time there, gets the time 0.
            let created_at = created_at.try_into().map(i64::from_be_bytes).ok();
            let created_at = created_at.filter(|millis| Timestamp::from_millis(*millis).is_ok()).unwrap_or_default();
            adopt.cmd("ZADD").arg(on.keys.of("old:time")).arg(created_at).arg(id);
        }
        on.write(adopt, self.until).await?;
        Ok(others)
    }

    /// Returns the names of the collections of version 1 that may have documents left.
    async fn old_collections(&self) -> Result<Vec<Vec<u8>>> {
        let names = command("ZRANGE", &[&self.on.keys.of("old:collections"), b"0", b"-1"]);
        self.on.read_one(&names).await
    }
}

/// Adds a record to the indexes. An unreadable record is placed as far as its head tells, or at least among all others.
fn index(call: &mut Call<'_>, Mark { millis, id }: &Mark, row: &[u8], of: Option<&Collection>) {
    let step = step(*millis, id);
    if let Some(collection) = of {
        if let Ok(space) = rows::read_head(id, row).and_then(|head| SpaceId::parse(head.space)) {
            call.place_document(collection, &step, &space);
        }
        return call.list_document(collection, step);
    }
    if let Ok(head) = rows::read_head(id, row)
        && let Ok(space) = SpaceId::parse(head.space)
    {
        call.place(&step, &space, head.status);
    }
    call.list(step);
}
