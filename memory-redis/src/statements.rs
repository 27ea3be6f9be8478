//! Every key, every script, and the commands that are made of them.

use std::collections::BTreeMap;

use memory_core::{Collection, Document, DocumentId, IdempotencyKey, Memory, MemoryId, Status, Timestamp, words};
use redis::{Cmd, Pipeline, Script, cmd};

use crate::rows;

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

    /// All spaces, each with createdAt and id of its memories: see [`member_of_space`].
    pub(crate) fn spaces(&self) -> Vec<u8> {
        self.key("spaces")
    }

    /// The memories below an ancestor, by time.
    pub(crate) fn path(&self, path: &str) -> Vec<u8> {
        self.key(&format!("p:{path}"))
    }

    /// The memories with this open status, by time.
    pub(crate) fn open(&self, status: Status) -> Vec<u8> {
        self.key(status.as_str())
    }

    /// The memories with this word, by time.
    pub(crate) fn word(&self, word: &str) -> Vec<u8> {
        self.key(&format!("w:{word}"))
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
        [self.prefix.as_bytes(), name.as_bytes()].concat()
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
    pub(crate) siblings: Script,
    pub(crate) walk: Script,
    sources: [&'static str; 7],
}

impl Scripts {
    pub(crate) fn new() -> Self {
        let sources = [
            include_str!("scripts/append.lua"),
            include_str!("scripts/update.lua"),
            include_str!("scripts/index.lua"),
            include_str!("scripts/put.lua"),
            include_str!("scripts/remove.lua"),
            include_str!("scripts/siblings.lua"),
            include_str!("scripts/walk.lua"),
        ];
        let [append, update, index, put, remove, siblings, walk] = sources.map(Script::new);
        Self { append, update, index, put, remove, siblings, walk, sources }
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
    sets: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl<'m> Append<'m> {
    pub(crate) fn new(keys: &Keys, memories: &[&'m Memory], with_words: bool) -> Self {
        let mut append = Self { rows: Vec::with_capacity(memories.len()), sets: BTreeMap::new() };
        let by_time = if with_words { keys.indexed() } else { keys.unindexed() };
        for memory in memories {
            append.rows.push((memory, rows::from_memory(memory)));
            append.add(by_time.clone(), memory);
            append.set(keys.spaces()).extend([b"0".to_vec(), member_of_space(memory)]);
            for path in memory.space_id.ancestors() {
                append.add(keys.path(path), memory);
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
            pipeline.cmd("ZADD").arg(set).arg(entries);
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
            call = call.number(entries.len() as i64).args(entries.iter().cloned());
        }
        call
    }

    fn add(&mut self, set: Vec<u8>, memory: &Memory) {
        self.set(set).extend([score(memory.created_at), memory.id.as_bytes().to_vec()]);
    }

    fn set(&mut self, set: Vec<u8>) -> &mut Vec<Vec<u8>> {
        self.sets.entry(set).or_default()
    }
}

/// The steps of `spaces`: the space, a zero byte, which no space holds, and then six bytes of createdAt and sixteen of the id. They
/// sort by space, and within one in the order of the contract.
pub(crate) fn member_of_space(memory: &Memory) -> Vec<u8> {
    let since_earliest = (memory.created_at.as_millis() - Timestamp::MIN.as_millis()).to_be_bytes();
    [memory.space_id.as_str().as_bytes(), &[0], &since_earliest[2..], memory.id.as_bytes()].concat()
}

/// The time and the id in such a step, if it is one.
pub(crate) fn time_and_id(member: &[u8]) -> Option<(i64, Vec<u8>)> {
    let (rest, id) = member.split_last_chunk::<16>()?;
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
