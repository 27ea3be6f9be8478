//! Walks along sorted sets, in bounded slices.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;

use memory_core::{Error, Order, Position, Query, Result, Timestamp, Verdict};
use redis::{Cmd, Pipeline, Value, from_redis_value};

use crate::connection::{Connections, unexpected_answer};
use crate::statements::{Call, KEPT, Keys, score, time_and_id};

/// So many sets are merged by the server; more of them in several calls.
const MERGED: usize = 64;
/// So many rows are read by one command when their ids are known.
const ROWS: usize = 8;
/// So many sets begin with plain commands; more of them are merged by the server at once.
const PLAIN: usize = 16;
/// A slice of so many begins with plain commands; a longer one may be too much at once, and is left to the script.
const PLAIN_SLICE: usize = 128;
/// How many candidates a slice has at most. Each has twice as many as the one before.
const MAX_SLICE: usize = 1_024;

/// Sorted sets with candidates, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// A set of ids whose scores are createdAt.
    Ids(Vec<u8>),
    /// What is in a set of steps behind a head, which ends with a zero byte.
    Steps {
        /// The set.
        set: Vec<u8>,
        /// What the steps of the part begin with.
        head: Vec<u8>,
    },
    /// A set of steps, the older ones of which are in chunks.
    Chunked {
        /// The set, which has the newest [`KEPT`] if there are chunks.
        newest: Vec<u8>,
        /// The directory of the chunks.
        chunks: Vec<u8>,
    },
}

impl Source {
    /// The memories of one space.
    pub(crate) fn space(keys: &Keys, space: &str) -> Self {
        Self::Steps { set: keys.spaces(), head: [space.as_bytes(), &[0]].concat() }
    }

    /// The memories below an ancestor.
    pub(crate) fn below(keys: &Keys, path: &str) -> Self {
        Self::Chunked { newest: keys.path(path), chunks: keys.chunks(path) }
    }

    /// Each set with its kind and head, as the script takes them.
    fn sets(&self, only_newest: bool) -> impl Iterator<Item = (&Vec<u8>, [&[u8]; 2])> {
        let (set, form, chunks) = match self {
            Self::Ids(set) => (set, [b"ids".as_slice(), &[]], None),
            Self::Steps { set, head } => (set, [b"steps".as_slice(), head], None),
            Self::Chunked { newest, chunks } => (newest, [b"steps".as_slice(), &[]], Some(chunks)),
        };
        let chunks = chunks.filter(|_| !only_newest).map(|chunks| (chunks, [b"chunks".as_slice(), &[]]));
        [(set, form)].into_iter().chain(chunks)
    }

    /// Asks for the first entries.
    fn begin(&self, commands: &mut Pipeline, order: Order, count: usize) {
        let whole = if order == Order::NewestFirst { "ZREVRANGE" } else { "ZRANGE" };
        match self {
            Self::Ids(set) => commands.cmd(whole).arg(set).arg(0).arg(count - 1).arg("WITHSCORES"),
            Self::Chunked { newest, .. } => commands.cmd(whole).arg(newest).arg(0).arg(count - 1),
            Self::Steps { set, head } => {
                let behind = [&head[..head.len() - 1], &[1]].concat();
                let (low, high) = ([b"[", head.as_slice()].concat(), [b"(", behind.as_slice()].concat());
                match order {
                    Order::NewestFirst => commands.cmd("ZREVRANGEBYLEX").arg(set).arg(high).arg(low),
                    Order::OldestFirst => commands.cmd("ZRANGEBYLEX").arg(set).arg(low).arg(high),
                };
                commands.arg("LIMIT").arg(0).arg(count)
            }
        };
    }

    /// The times and ids in the answer to that.
    fn entries(&self, answer: Value) -> Result<Vec<(i64, Vec<u8>)>> {
        let unexpected = |error| unexpected_answer().with_source(error);
        if let Self::Ids(_) = self {
            let entries = from_redis_value::<Vec<(Vec<u8>, f64)>>(answer).map_err(unexpected)?;
            // Times have at most 44 bits.
            return Ok(entries.into_iter().map(|(id, time)| (time as i64, id)).collect());
        }
        let steps = from_redis_value::<Vec<Vec<u8>>>(answer).map_err(unexpected)?;
        let corrupt = || Error::corrupt("a step of an index lacks a part");
        steps.iter().map(|step| time_and_id(step).ok_or_else(corrupt)).collect()
    }
}

/// Where rows are, in which order they are wanted, and between which times.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    /// What the keys of the rows begin with; nothing when rows are not wanted.
    prefix: Vec<u8>,
    order: Order,
    place: Option<(i64, Vec<u8>)>,
    after: Vec<u8>,
    before: Vec<u8>,
}

impl Range {
    /// What a query asks for; both times are exclusive.
    pub(crate) fn of<K>(
        query: &Query<K>,
        prefix: Vec<u8>,
        after: Option<Timestamp>,
        before: Option<Timestamp>,
    ) -> Self {
        let place = query.after().map(|Position { created_at, id }| (created_at.as_millis(), id.clone()));
        let bound = |time: Option<Timestamp>| time.map(score).unwrap_or_default();
        Self { prefix, order: query.order(), place, after: bound(after), before: bound(before) }
    }

    /// Everything, oldest first.
    pub(crate) fn all(prefix: Vec<u8>) -> Self {
        Self { prefix, order: Order::OldestFirst, place: None, after: Vec::new(), before: Vec::new() }
    }

    /// Whether it ends at no time.
    fn is_whole(&self) -> bool {
        self.after.is_empty() && self.before.is_empty()
    }

    /// The same without rows.
    pub(crate) fn without_rows(&self) -> Self {
        Self { prefix: Vec::new(), ..self.clone() }
    }
}

/// An entry of an index, with its row if that was asked for and is there.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) id: Vec<u8>,
    pub(crate) time: i64,
    pub(crate) row: Option<Vec<u8>>,
}

impl Candidate {
    fn new(time: i64, id: Vec<u8>, row: Value) -> Self {
        let row = if let Value::BulkString(row) = row { Some(row) } else { None };
        Self { id, time, row }
    }
}

/// Some sets that the server merges.
#[derive(Debug)]
pub(crate) struct Lane {
    sources: Vec<Source>,
    /// The last candidate that was read.
    place: Option<(i64, Vec<u8>)>,
    pub(crate) found: VecDeque<Candidate>,
    /// Whether there is nothing behind what was found.
    pub(crate) is_last: bool,
}

impl Lane {
    /// The place of the next candidate.
    fn front(&self) -> Option<(i64, &[u8])> {
        self.found.front().map(|candidate| (candidate.time, candidate.id.as_slice()))
    }

    /// Whether this is the first slice, and no chunk can have any of it.
    fn wants_only_newest(&self, range: &Range, slice: usize) -> bool {
        self.place.is_none() && range.is_whole() && range.order == Order::NewestFirst && slice <= KEPT
    }

    /// Whether [`Lane::begin`] can read the first slice.
    fn is_plain(&self, range: &Range, slice: usize) -> bool {
        let is_first = self.place.is_none() && range.is_whole() && !range.prefix.is_empty();
        let has_chunks = self.sources.iter().any(|source| matches!(source, Source::Chunked { .. }));
        let is_small = self.sources.len() <= PLAIN && slice <= PLAIN_SLICE;
        is_first && is_small && (!has_chunks || self.wants_only_newest(range, slice))
    }

    /// Reads the first slice by plain commands. They cost the server a sixth of what the script does, which copies all rows
    /// into Lua and out again, and a round trip more. Nothing is read where rows may be long: the script ends a slice at a number
    /// of bytes.
    async fn begin(&mut self, on: &Connections, range: &Range, slice: usize) -> Result<()> {
        let mut commands = Pipeline::with_capacity(self.sources.len() + 3);
        // At once, since an update may move a memory from set to set.
        commands.cmd("MULTI");
        self.sources.iter().for_each(|source| source.begin(&mut commands, range.order, slice));
        commands.cmd("EXISTS").arg(on.keys.long()).cmd("EXEC");
        let Some(Value::Array(mut answers)) = on.read(&commands).await?.pop() else { return Err(unexpected_answer()) };
        if answers.pop() != Some(Value::Int(0)) {
            on.has_long_rows.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let (mut entries, mut is_last) = (Vec::new(), true);
        for (source, answer) in self.sources.iter().zip(answers) {
            let found = source.entries(answer)?;
            is_last &= found.len() < slice;
            entries.extend(found);
        }
        match range.order {
            Order::OldestFirst => entries.sort_unstable(),
            Order::NewestFirst => entries.sort_unstable_by(|left, right| right.cmp(left)),
        }
        entries.dedup();
        is_last &= entries.len() <= slice;
        entries.truncate(slice);
        (self.place, self.is_last) = (entries.last().cloned(), is_last);
        if entries.is_empty() {
            return Ok(());
        }
        let mut key = range.prefix.clone();
        let mut rows = Cmd::with_capacity(entries.len() + 1, entries.len() * (key.len() + 16) + 8);
        rows.arg("MGET");
        for (_, id) in &entries {
            key.truncate(range.prefix.len());
            key.extend(id);
            rows.arg(&key);
        }
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(rows);
        let Some(Value::Array(rows)) = on.read(&commands).await?.pop() else { return Err(unexpected_answer()) };
        self.found = entries.into_iter().zip(rows).map(|((time, id), row)| Candidate::new(time, id, row)).collect();
        Ok(())
    }
}

/// Candidates of several sets in order, slice by slice, each once.
#[derive(Debug)]
pub(crate) struct Walk {
    range: Range,
    lanes: Vec<Lane>,
    slice: usize,
    /// The last candidate that was offered.
    offered: Option<(i64, Vec<u8>)>,
}

impl Walk {
    /// Along these sets, beginning with a slice of this size.
    pub(crate) fn new(sources: BTreeSet<Source>, range: Range, slice: usize) -> Self {
        let sources: Vec<_> = sources.into_iter().collect();
        let lanes = sources.chunks(MERGED).map(|sources| Self::lane(sources.to_vec(), &range)).collect();
        Self { range, lanes, slice, offered: None }
    }

    /// Sets at the start of a range.
    pub(crate) fn lane(sources: Vec<Source>, range: &Range) -> Lane {
        Lane { sources, place: range.place.clone(), found: VecDeque::new(), is_last: false }
    }

    /// Offers the next slice of candidates. `Stop` when the page is complete or there are no more.
    pub(crate) async fn step(
        &mut self,
        on: &Connections,
        mut offer: impl FnMut(&Candidate) -> Result<Verdict>,
    ) -> Result<Verdict> {
        fill(on, &self.range, &mut self.lanes, self.slice).await?;
        self.slice = (self.slice * 2).min(MAX_SLICE);
        loop {
            if self.lanes.iter().any(|lane| lane.found.is_empty() && !lane.is_last) {
                return Ok(Verdict::Skip);
            }
            let ready = self.lanes.iter_mut().filter(|lane| !lane.found.is_empty());
            let next = match self.range.order {
                Order::OldestFirst => ready.min_by(|left, right| left.front().cmp(&right.front())),
                Order::NewestFirst => ready.max_by(|left, right| left.front().cmp(&right.front())),
            };
            let Some(candidate) = next.and_then(|lane| lane.found.pop_front()) else { return Ok(Verdict::Stop) };
            let is_new = self.offered.as_ref().is_none_or(|(time, id)| (*time, id) != (candidate.time, &candidate.id));
            if is_new && offer(&candidate)? == Verdict::Stop {
                return Ok(Verdict::Stop);
            }
            self.offered = Some((candidate.time, candidate.id));
        }
    }
}

/// Reads a slice into each lane that is empty and not at its end.
pub(crate) async fn fill(on: &Connections, range: &Range, lanes: &mut [Lane], slice: usize) -> Result<()> {
    let empty = |lane: &&mut Lane| lane.found.is_empty() && !lane.is_last;
    for lane in lanes.iter_mut().filter(empty) {
        if lane.is_plain(range, slice) && !on.has_long_rows.load(Ordering::Relaxed) {
            lane.begin(on, range, slice).await?;
        }
    }
    let mut calls = Pipeline::new();
    for lane in lanes.iter_mut().filter(empty) {
        let (time, id) = lane.place.clone().map_or_else(Default::default, |(time, id)| (time.to_string(), id));
        let newest = range.order == Order::NewestFirst;
        let only_newest = lane.wants_only_newest(range, slice);
        let sets = || lane.sources.iter().flat_map(|source| source.sets(only_newest));
        let call = Call::new(&on.scripts.walk)
            .keys(sets().map(|(set, _)| set.clone()))
            .arg(range.prefix.clone())
            .number(newest.into())
            .number(slice as i64)
            .arg(time)
            .arg(id)
            .arg(range.after.clone())
            .arg(range.before.clone())
            .args(sets().flat_map(|(_, form)| form.map(<[u8]>::to_vec)));
        calls.add_command(call.into_cmd());
    }
    if calls.is_empty() {
        return Ok(());
    }
    let answers = on.read(&calls).await?;
    for (lane, answer) in lanes.iter_mut().filter(empty).zip(answers) {
        let Value::Array(items) = answer else { return Err(unexpected_answer()) };
        let mut items = items.into_iter();
        lane.is_last = items.next() == Some(Value::Int(0));
        while let (Some(id), Some(time), Some(row)) = (items.next(), items.next(), items.next()) {
            let (Value::BulkString(id), Value::Int(time)) = (id, time) else { return Err(unexpected_answer()) };
            lane.found.push_back(Candidate::new(time, id, row));
        }
        lane.place = lane.found.back().map(|last| (last.time, last.id.clone())).or(lane.place.take());
    }
    Ok(())
}

/// The rows of entries, in their order.
pub(crate) async fn fetch(on: &Connections, range: &Range, entries: &[(i64, &[u8])]) -> Result<Vec<Candidate>> {
    let mut commands = Pipeline::new();
    for some in entries.chunks(ROWS) {
        let keys: Vec<_> = some.iter().map(|(_, id)| [range.prefix.as_slice(), id].concat()).collect();
        commands.cmd("MGET").arg(keys);
    }
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::with_capacity(entries.len());
    for answer in on.read(&commands).await? {
        let Value::Array(answer) = answer else { return Err(unexpected_answer()) };
        rows.extend(answer);
    }
    Ok(entries.iter().zip(rows).map(|((time, id), row)| Candidate::new(*time, id.to_vec(), row)).collect())
}
