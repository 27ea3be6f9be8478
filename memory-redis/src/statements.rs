//! Every key, every script, and the commands that are made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use memory_core::engine::{Mark, Place, Walk};
use memory_core::{
    Collection, Document, DocumentId, IdempotencyKey, Memory, MemoryId, Order, Status, Timestamp, words,
};
use redis::{Arg, Cmd, Pipeline, Script, cmd};

use crate::rows;

/// How many of its newest steps a path keeps outside of chunks at least.
const KEPT: usize = 64;
/// How many steps a chunk has at most.
const CHUNK: usize = 64;
/// From how many steps on a path gives some to chunks: so many at least, and so many for each chunk that there is. What comes out of
/// order mostly finds its place before it is in a chunk then, and the rest of it meets several in each chunk.
const FULL: (usize, usize) = (KEPT + 2 * CHUNK, 8);
/// How many steps one script moves into chunks at most.
const MOVED: usize = 1_024;
/// Of so many memories one lets its paths be looked at, whether they are full.
const LOOKED_AT: u8 = 32;
/// Up to how many sets a slice reads by plain commands; more of them are merged by the script.
const PLAIN: usize = 16;
/// Up to how many entries it reads so; more of them may be too much at once.
const PLAIN_SLICE: usize = 128;

/// Whether a path with so many steps and so many chunks is full.
pub(crate) fn is_full(steps: i64, chunks: i64) -> bool {
    steps >= (FULL.1 as i64 * chunks).max(FULL.0 as i64)
}

/// The keys of one namespace. All of them begin with its hash tag, and so share a slot.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { prefix: format!("{{{namespace}}}:") }
    }

    /// The row of a memory.
    pub(crate) fn memory(&self, id: MemoryId) -> Vec<u8> {
        [self.memories().as_slice(), id.as_bytes()].concat()
    }

    /// What the keys of all rows of memories begin with.
    pub(crate) fn memories(&self) -> Vec<u8> {
        self.key("m:")
    }

    /// The memories whose words are not indexed, by time.
    pub(crate) fn unindexed(&self) -> Vec<u8> {
        self.key("time")
    }

    /// The memories whose words are, by time. With the others these are the whole ledger.
    pub(crate) fn indexed(&self) -> Vec<u8> {
        self.key("time:words")
    }

    /// All spaces, each followed by a zero byte and the steps of its memories.
    pub(crate) fn spaces(&self) -> Vec<u8> {
        self.key("spaces")
    }

    /// The steps of the memories below an ancestor: of the newest [`KEPT`] at least, and of those that came since the others went
    /// into chunks.
    pub(crate) fn path(&self, path: &str) -> Vec<u8> {
        self.key_of("p:", path)
    }

    /// The first step of each chunk of an ancestor. The chunk has that behind this key and a zero byte.
    pub(crate) fn chunks(&self, path: &str) -> Vec<u8> {
        self.key_of("c:", path)
    }

    /// The memories with this open status, by time.
    pub(crate) fn open(&self, status: Status) -> Vec<u8> {
        self.key(status.as_str())
    }

    /// The memories with this word, by time.
    pub(crate) fn word(&self, word: &str) -> Vec<u8> {
        self.key_of("w:", word)
    }

    /// From idempotency keys to ids.
    pub(crate) fn idempotency(&self) -> Vec<u8> {
        self.key("keys")
    }

    /// The row of a document.
    pub(crate) fn document(&self, collection: &Collection, id: &DocumentId) -> Vec<u8> {
        [self.documents(collection).as_slice(), id.as_str().as_bytes()].concat()
    }

    /// What the keys of all rows of documents of a collection begin with. No name of a collection holds a colon.
    pub(crate) fn documents(&self, collection: &Collection) -> Vec<u8> {
        self.key(&format!("d:{collection}:"))
    }

    /// The documents of a collection, by time.
    pub(crate) fn collection(&self, collection: &Collection) -> Vec<u8> {
        self.key(&format!("dt:{collection}"))
    }

    /// The documents of a collection with this word, by time.
    pub(crate) fn document_word(&self, collection: &Collection, word: &str) -> Vec<u8> {
        self.key(&format!("dw:{collection}:{word}"))
    }

    /// The collections that hold a document.
    pub(crate) fn collections(&self) -> Vec<u8> {
        self.key("collections")
    }

    /// There when a row may be long.
    pub(crate) fn long(&self) -> Vec<u8> {
        self.key("long")
    }

    /// The steps of the schema that were applied.
    pub(crate) fn schema(&self) -> Vec<u8> {
        self.key("schema")
    }

    /// Any key at all, to find out which node has the slot.
    pub(crate) fn any(&self) -> &str {
        &self.prefix
    }

    /// What matches all keys of the namespace and no others.
    pub(crate) fn pattern(&self) -> String {
        let escaped = self.prefix.chars().flat_map(|char| {
            let is_special = matches!(char, '*' | '?' | '[' | ']' | '\\' | '^' | '-');
            is_special.then_some('\\').into_iter().chain([char])
        });
        escaped.chain(['*']).collect()
    }

    fn key(&self, name: &str) -> Vec<u8> {
        self.key_of(name, "")
    }

    fn key_of(&self, kind: &str, name: &str) -> Vec<u8> {
        [&self.prefix, kind, name].concat().into_bytes()
    }
}

/// A script, known to the server by its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lua {
    Append,
    Update,
    Index,
    Put,
    Remove,
    Seal,
    Siblings,
    Walk,
}

/// In the order of [`Lua`].
const SOURCES: [&str; 8] = [
    include_str!("scripts/append.lua"),
    include_str!("scripts/update.lua"),
    include_str!("scripts/index.lua"),
    include_str!("scripts/put.lua"),
    include_str!("scripts/remove.lua"),
    concat!(include_str!("scripts/order.lua"), include_str!("scripts/seal.lua")),
    include_str!("scripts/siblings.lua"),
    concat!(include_str!("scripts/order.lua"), include_str!("scripts/walk.lua")),
];
static SCRIPTS: LazyLock<[Script; 8]> = LazyLock::new(|| SOURCES.map(Script::new));

/// Makes all scripts known to a server.
pub(crate) fn load_scripts() -> Pipeline {
    let mut load = Pipeline::with_capacity(SOURCES.len());
    for source in SOURCES {
        load.cmd("SCRIPT").arg("LOAD").arg(source);
    }
    load
}

/// A script with what it is called on.
#[derive(Debug)]
pub(crate) struct Call {
    script: Lua,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) fn new(script: Lua) -> Self {
        Self { script, keys: Vec::new(), arguments: Vec::new() }
    }

    pub(crate) fn keys(mut self, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.keys.extend(keys);
        self
    }

    pub(crate) fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn number(self, number: i64) -> Self {
        self.arg(number.to_string())
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// Moves what is full into chunks.
    pub(crate) fn seal<'p>(keys: &Keys, paths: impl IntoIterator<Item = &'p str>) -> Self {
        let sets = paths.into_iter().flat_map(|path| [keys.path(path), keys.chunks(path)]);
        let sizes = [FULL.0, FULL.1, KEPT, CHUNK, MOVED];
        Self::new(Lua::Seal).keys(sets).args(sizes.map(|size| size.to_string().into_bytes()))
    }

    pub(crate) fn into_cmd(self) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(SCRIPTS[self.script as usize].get_hash()).arg(self.keys.len()).arg(self.keys).arg(self.arguments);
        call
    }

    pub(crate) fn into_pipeline(self) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(self.into_cmd());
        pipeline
    }
}

/// Kinds of sets, as the script that merges them names them: of ids whose scores are createdAt, of steps, and of the first steps of
/// chunks.
const IDS: &str = "ids";
const STEPS: &str = "steps";
const CHUNKS: &str = "chunks";

/// A sorted set with entries, or a part of one.
#[derive(Debug)]
pub(crate) struct Set {
    key: Vec<u8>,
    kind: &'static str,
    /// What the steps of the part begin with, which ends with a zero byte; empty for the whole set.
    head: Vec<u8>,
}

impl Set {
    /// A set of ids.
    pub(crate) fn of_ids(key: Vec<u8>) -> Self {
        Self { key, kind: IDS, head: Vec::new() }
    }

    /// The sets with the memories of a place.
    pub(crate) fn of_place(keys: &Keys, place: &Place) -> Vec<Self> {
        let whole = |key, kind| Self { key, kind, head: Vec::new() };
        match place {
            Place::Space(space) => {
                vec![Self { key: keys.spaces(), kind: STEPS, head: [space.as_bytes(), &[0]].concat() }]
            }
            Place::Below(path) => vec![whole(keys.path(path), STEPS), whole(keys.chunks(path), CHUNKS)],
        }
    }

    /// Whether the scores of its entries are their times.
    pub(crate) fn has_times(&self) -> bool {
        self.kind == IDS
    }

    /// Asks for the first entries.
    fn begin(&self, commands: &mut Pipeline, order: Order, count: usize) {
        if let Some((_, path)) = self.head.split_last() {
            let (low, high) = ([b"[", self.head.as_slice()].concat(), [b"(", path, &[1]].concat());
            match order {
                Order::NewestFirst => commands.cmd("ZREVRANGEBYLEX").arg(&self.key).arg(high).arg(low),
                Order::OldestFirst => commands.cmd("ZRANGEBYLEX").arg(&self.key).arg(low).arg(high),
            };
            commands.arg("LIMIT").arg(0).arg(count);
            return;
        }
        commands.cmd(if order == Order::NewestFirst { "ZREVRANGE" } else { "ZRANGE" });
        commands.arg(&self.key).arg(0).arg(count - 1);
        if self.has_times() {
            commands.arg("WITHSCORES");
        }
    }
}

/// The next entries of some sets in the order (createdAt, id), each once.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) sets: Vec<Set>,
    /// What the keys of their rows begin with; nothing where rows are not wanted.
    pub(crate) prefix: Vec<u8>,
    pub(crate) order: Order,
    /// Only entries behind this one.
    pub(crate) behind: Option<Mark>,
    /// Only entries between these times, exclusively.
    pub(crate) bounds: [Option<Timestamp>; 2],
    pub(crate) count: usize,
}

impl Slice {
    /// The next entries of a walk, at most so many.
    pub(crate) fn of(walk: &Walk<'_>, sets: Vec<Set>, prefix: Vec<u8>, most: usize) -> Self {
        let (behind, bounds) = (walk.behind.cloned(), [walk.created_after, walk.created_before]);
        let mut slice = Self { sets, prefix, order: walk.order, behind, bounds, count: walk.count.clamp(1, most) };
        // The newest are in no chunk.
        if slice.is_first() && slice.order == Order::NewestFirst && slice.count <= KEPT {
            slice.sets.retain(|set| set.kind != CHUNKS);
        }
        slice
    }

    /// The newest entries of a set of ids between two times, without rows.
    pub(crate) fn of_ids(set: Vec<u8>, bounds: [Option<Timestamp>; 2], count: usize) -> Self {
        let (sets, order) = (vec![Set::of_ids(set)], Order::NewestFirst);
        Self { sets, prefix: Vec::new(), order, behind: None, bounds, count }
    }

    /// Whether it begins where its sets do.
    fn is_first(&self) -> bool {
        self.behind.is_none() && self.bounds == [None; 2]
    }

    /// Whether [`Slice::begin`] can read it.
    pub(crate) fn is_plain(&self) -> bool {
        let is_small = self.sets.len() <= PLAIN && self.count <= PLAIN_SLICE;
        self.is_first() && is_small && self.sets.iter().all(|set| set.kind != CHUNKS)
    }

    /// Reads the first entries of each set, and tells whether rows may be long, as a transaction: an update may move a memory from set
    /// to set.
    pub(crate) fn begin(&self, keys: &Keys) -> Pipeline {
        let mut commands = Pipeline::with_capacity(self.sets.len() + 3);
        commands.cmd("MULTI");
        self.sets.iter().for_each(|set| set.begin(&mut commands, self.order, self.count));
        commands.cmd("EXISTS").arg(keys.long()).cmd("EXEC");
        commands
    }

    /// Merges the sets at the server.
    pub(crate) fn merge(&self) -> Call {
        let (time, id) =
            self.behind.as_ref().map_or_else(Default::default, |mark| (mark.millis.to_string(), &*mark.id));
        Call::new(Lua::Walk)
            .keys(self.sets.iter().map(|set| set.key.clone()))
            .arg(self.prefix.as_slice())
            .number((self.order == Order::NewestFirst).into())
            .number(self.count as i64)
            .arg(time)
            .arg(id)
            .args(self.bounds.map(|bound| bound.map(score).unwrap_or_default()))
            .args(self.sets.iter().flat_map(|set| [set.kind.into(), set.head.clone()]))
    }
}

/// What it takes to append memories: their rows, and what goes into each sorted set.
#[derive(Debug)]
pub(crate) struct Insert<'m> {
    rows: Vec<(&'m Memory, Vec<u8>)>,
    /// The score and the member of each entry.
    sets: BTreeMap<Vec<u8>, Vec<(i64, Vec<u8>)>>,
    /// The ancestors that may be full then.
    pub(crate) paths: BTreeSet<&'m str>,
}

impl<'m> Insert<'m> {
    pub(crate) fn new(keys: &Keys, memories: &[&'m Memory], with_words: bool) -> Self {
        let mut insert =
            Self { rows: Vec::with_capacity(memories.len()), sets: BTreeMap::new(), paths: BTreeSet::new() };
        let by_time = if with_words { keys.indexed() } else { keys.unindexed() };
        for memory in memories {
            insert.rows.push((memory, rows::from_memory(memory)));
            insert.add(by_time.clone(), memory);
            let step = step_of(memory);
            let in_space = [memory.space_id.as_str().as_bytes(), &[0], &step].concat();
            insert.set(keys.spaces()).push((0, in_space));
            for path in memory.space_id.ancestors() {
                insert.set(keys.path(path)).push((0, step.clone()));
            }
            // The last byte of an id is random.
            if memory.id.as_bytes()[15].is_multiple_of(LOOKED_AT) {
                insert.paths.extend(memory.space_id.ancestors());
            }
            if memory.status.is_open() {
                insert.add(keys.open(memory.status), memory);
            }
            for word in if with_words { words_of(memory) } else { BTreeSet::new() } {
                insert.add(keys.word(&word), memory);
            }
        }
        insert
    }

    /// As a transaction, for new memories without idempotency keys: there is nothing to be read first.
    pub(crate) fn transaction(&self, keys: &Keys) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(self.rows.len() + self.sets.len() + 2);
        pipeline.cmd("MULTI");
        for (memory, row) in &self.rows {
            pipeline.cmd("SET").arg(keys.memory(memory.id)).arg(row);
        }
        for (set, entries) in &self.sets {
            pipeline.cmd("ZADD").arg(set).arg(entries.as_slice());
        }
        pipeline.cmd("EXEC");
        pipeline
    }

    /// As a script, which tells which ids and keys are taken instead of writing.
    pub(crate) fn script(self, keys: &Keys, waits: bool) -> Cmd {
        let mut call = Call::new(Lua::Append)
            .keys([keys.idempotency()])
            .keys(self.rows.iter().map(|(memory, _)| keys.memory(memory.id)))
            .number(self.rows.len() as i64)
            .arg(keys.memories())
            .number(waits.into());
        for (memory, row) in self.rows {
            let key = memory.idempotency_key.as_ref().map(IdempotencyKey::as_str);
            call = call.arg(*memory.id.as_bytes()).arg(key.unwrap_or_default()).arg(row);
        }
        for (set, entries) in self.sets {
            call = call.keys([set]).number(2 * entries.len() as i64);
            for (score, member) in entries {
                call = call.number(score).arg(member);
            }
        }
        call.into_cmd()
    }

    fn add(&mut self, set: Vec<u8>, memory: &Memory) {
        self.set(set).push((memory.created_at.as_millis(), memory.id.as_bytes().to_vec()));
    }

    fn set(&mut self, set: Vec<u8>) -> &mut Vec<(i64, Vec<u8>)> {
        self.sets.entry(set).or_default()
    }
}

/// Reads rows by the ids behind a prefix.
pub(crate) fn read_rows(prefix: &[u8], ids: &[&[u8]]) -> Cmd {
    let mut key = prefix.to_vec();
    let bytes: usize = ids.iter().map(|id| prefix.len() + id.len()).sum();
    let mut rows = Cmd::with_capacity(ids.len() + 1, bytes + 8);
    rows.arg("MGET");
    for id in ids {
        key.truncate(prefix.len());
        key.extend(*id);
        rows.arg(&key);
    }
    rows
}

/// The name of a command.
pub(crate) fn name_of(command: &Cmd) -> &[u8] {
    match command.args_iter().next() {
        Some(Arg::Simple(name)) => name,
        _ => &[],
    }
}

/// Whether a command may write by itself: a command of a transaction does so with its `EXEC`.
pub(crate) fn is_write(command: &Cmd) -> bool {
    matches!(name_of(command), b"EVAL" | b"EVALSHA" | b"EXEC" | b"UNLINK")
}

/// Six bytes of createdAt and sixteen of the id, which sort in the order of the contract. A space has no zero byte: behind it and
/// one, steps sort by space first.
fn step_of(memory: &Memory) -> Vec<u8> {
    let since_earliest = (memory.created_at.as_millis() - Timestamp::MIN.as_millis()).to_be_bytes();
    [&since_earliest[2..], memory.id.as_bytes()].concat()
}

/// The place that a step stands for, whatever is before it.
pub(crate) fn mark_of(mut step: Vec<u8>) -> Option<Mark> {
    let (_, end) = step.split_last_chunk::<22>()?;
    let since_earliest = end[..6].iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
    // In place, since each candidate of a walk has one.
    step.drain(..step.len() - 16);
    Some(Mark { millis: since_earliest + Timestamp::MIN.as_millis(), id: step })
}

/// A time as a score, exactly: it has at most 44 bits.
pub(crate) fn score(time: Timestamp) -> Vec<u8> {
    time.as_millis().to_string().into_bytes()
}

/// The words of a memory.
pub(crate) fn words_of(memory: &Memory) -> BTreeSet<String> {
    words::distinct(&words::text_of(&memory.trigger, memory.context.as_ref()))
}

/// The words of a document.
pub(crate) fn words_of_document(document: &Document) -> BTreeSet<String> {
    words::distinct(document.content.as_str())
}
