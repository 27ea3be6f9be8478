//! Every key, every script, and the commands that are made of them.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{Collection, Document, DocumentId, IdempotencyKey, Memory, MemoryId, Status, Timestamp, words};
use redis::{Cmd, Pipeline, Script, cmd};

use crate::rows;

/// How many of its newest steps a path keeps outside of chunks at least.
pub(crate) const KEPT: usize = 64;
/// How many steps a chunk has at most.
const CHUNK: usize = 64;
/// From how many steps on a path gives some to chunks: so many at least, and so many for each chunk that there is. What comes out of
/// order mostly finds its place before it is in a chunk then, and the rest of it meets several in each chunk.
const FULL: (usize, usize) = (KEPT + 2 * CHUNK, 8);
/// How many steps one script moves into chunks at most.
const MOVED: usize = 1_024;
/// Of so many memories one lets its paths be looked at, whether they are full.
const LOOKED_AT: u8 = 32;

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

    /// The row of a document. No name of a collection holds a colon.
    pub(crate) fn document(&self, collection: &Collection, id: &DocumentId) -> Vec<u8> {
        [self.documents(collection).as_slice(), id.as_str().as_bytes()].concat()
    }

    /// What the keys of all rows of documents of a collection begin with.
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

/// Every script, known to the server by its hash.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) append: Script,
    pub(crate) update: Script,
    pub(crate) index: Script,
    pub(crate) put: Script,
    pub(crate) remove: Script,
    pub(crate) seal: Script,
    pub(crate) siblings: Script,
    pub(crate) walk: Script,
    sources: [&'static str; 8],
}

impl Scripts {
    pub(crate) fn new() -> Self {
        let sources = [
            include_str!("scripts/append.lua"),
            include_str!("scripts/update.lua"),
            include_str!("scripts/index.lua"),
            include_str!("scripts/put.lua"),
            include_str!("scripts/remove.lua"),
            concat!(include_str!("scripts/order.lua"), include_str!("scripts/seal.lua")),
            include_str!("scripts/siblings.lua"),
            concat!(include_str!("scripts/order.lua"), include_str!("scripts/walk.lua")),
        ];
        let [append, update, index, put, remove, seal, siblings, walk] = sources.map(Script::new);
        Self { append, update, index, put, remove, seal, siblings, walk, sources }
    }

    /// Makes all of them known to a server.
    pub(crate) fn load(&self) -> Pipeline {
        let mut load = Pipeline::new();
        for source in self.sources {
            load.cmd("SCRIPT").arg("LOAD").arg(source);
        }
        load
    }
}

/// A script with what it is called on.
#[derive(Debug)]
pub(crate) struct Call<'s> {
    script: &'s Script,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl<'s> Call<'s> {
    pub(crate) fn new(script: &'s Script) -> Self {
        Self { script, keys: Vec::new(), arguments: Vec::new() }
    }

    pub(crate) fn key(mut self, key: Vec<u8>) -> Self {
        self.keys.push(key);
        self
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
    pub(crate) fn seal<'p>(scripts: &'s Scripts, keys: &Keys, paths: impl IntoIterator<Item = &'p str>) -> Self {
        let sets = paths.into_iter().flat_map(|path| [keys.path(path), keys.chunks(path)]);
        let sizes = [FULL.0, FULL.1, KEPT, CHUNK, MOVED];
        Self::new(&scripts.seal).keys(sets).args(sizes.map(|size| size.to_string().into_bytes()))
    }

    pub(crate) fn into_cmd(self) -> Cmd {
        let mut call = cmd("EVALSHA");
        call.arg(self.script.get_hash()).arg(self.keys.len()).arg(self.keys).arg(self.arguments);
        call
    }

    pub(crate) fn into_pipeline(self) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(self.into_cmd());
        pipeline
    }
}

/// What it takes to store memories: their rows, and what goes into each sorted set.
#[derive(Debug)]
pub(crate) struct Append<'m> {
    rows: Vec<(&'m Memory, Vec<u8>)>,
    /// The score and the member of each entry.
    sets: BTreeMap<Vec<u8>, Vec<(i64, Vec<u8>)>>,
    /// The ancestors that may be full then.
    pub(crate) paths: BTreeSet<&'m str>,
}

impl<'m> Append<'m> {
    pub(crate) fn new(keys: &Keys, memories: &[&'m Memory], with_words: bool) -> Self {
        let mut append =
            Self { rows: Vec::with_capacity(memories.len()), sets: BTreeMap::new(), paths: BTreeSet::new() };
        let by_time = if with_words { keys.indexed() } else { keys.unindexed() };
        for memory in memories {
            append.rows.push((memory, rows::from_memory(memory)));
            append.add(by_time.clone(), memory);
            let step = step_of(memory);
            let in_space = [memory.space_id.as_str().as_bytes(), &[0], &step].concat();
            append.set(keys.spaces()).push((0, in_space));
            for path in memory.space_id.ancestors() {
                append.set(keys.path(path)).push((0, step.clone()));
            }
            // The last byte of an id is random.
            if memory.id.as_bytes()[15].is_multiple_of(LOOKED_AT) {
                append.paths.extend(memory.space_id.ancestors());
            }
            if memory.status.is_open() {
                append.add(keys.open(memory.status), memory);
            }
            for word in if with_words { words_of(memory) } else { Vec::new() } {
                append.add(keys.word(&word), memory);
            }
        }
        append
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

    /// As a script, which tells what is there already instead of writing.
    pub(crate) fn script<'s>(&self, keys: &Keys, scripts: &'s Scripts, waits: bool) -> Call<'s> {
        let mut call = Call::new(&scripts.append)
            .key(keys.idempotency())
            .keys(self.rows.iter().map(|(memory, _)| keys.memory(memory.id)))
            .keys(self.sets.keys().cloned())
            .number(self.rows.len() as i64)
            .arg(keys.memories())
            .number(waits.into());
        for (memory, row) in &self.rows {
            let key = memory.idempotency_key.as_ref().map(IdempotencyKey::as_str);
            call = call.arg(*memory.id.as_bytes()).arg(key.unwrap_or_default()).arg(row.as_slice());
        }
        for entries in self.sets.values() {
            let arguments = entries.iter().flat_map(|(score, member)| [score.to_string().into_bytes(), member.clone()]);
            call = call.number(2 * entries.len() as i64).args(arguments);
        }
        call
    }

    fn add(&mut self, set: Vec<u8>, memory: &Memory) {
        self.set(set).push((memory.created_at.as_millis(), memory.id.as_bytes().to_vec()));
    }

    fn set(&mut self, set: Vec<u8>) -> &mut Vec<(i64, Vec<u8>)> {
        self.sets.entry(set).or_default()
    }
}

/// Six bytes of createdAt and sixteen of the id, which sort in the order of the contract. A space has no zero byte: behind it and
/// one, steps sort by space first.
fn step_of(memory: &Memory) -> Vec<u8> {
    let since_earliest = (memory.created_at.as_millis() - Timestamp::MIN.as_millis()).to_be_bytes();
    [&since_earliest[2..], memory.id.as_bytes()].concat()
}

/// The time and the id in a step, whatever is before it.
pub(crate) fn time_and_id(step: &[u8]) -> Option<(i64, Vec<u8>)> {
    let (rest, id) = step.split_last_chunk::<16>()?;
    let (_, time) = rest.split_last_chunk::<6>()?;
    let since_earliest = time.iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
    Some((since_earliest + Timestamp::MIN.as_millis(), id.to_vec()))
}

/// A time as a score, exactly: it has at most 44 bits.
pub(crate) fn score(time: Timestamp) -> Vec<u8> {
    time.as_millis().to_string().into_bytes()
}

/// The words of a memory, each once.
pub(crate) fn words_of(memory: &Memory) -> Vec<String> {
    words::distinct(&words::text_of(&memory.trigger, memory.context.as_ref())).into_iter().collect()
}

/// The words of a document, each once.
pub(crate) fn words_of_document(document: &Document) -> Vec<String> {
    words::distinct(document.content.as_str()).into_iter().collect()
}
