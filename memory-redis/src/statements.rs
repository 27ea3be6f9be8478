//! Every key, every script, and the commands that are made of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use memory_core::engine::{Append, KeptChanges, Mark, Place, Walk};
use memory_core::{
    BOUNDARIES, Collection, Document, Error, IdempotencyKey, Ledger, Memory, Order, RecordId, Result, Selects, SpaceId,
    Status, Timestamp,
};
use redis::{Arg, Cmd, Pipeline, Script, Value, cmd};

use crate::connection::decoded;
use crate::erasure;
use crate::feed::Stamps;
use crate::rows;

/// The version that a program must know to write; absent while it may be any.
pub(crate) const WRITER: &str = "writer";
/// What was written, in the order in which it was.
pub(crate) const FEED: &str = "feed";
/// All memories, but for those in [`INDEXED`].
pub(crate) const STEPS: &str = "steps";
/// The memories that an older program has put into its index of words, until a backfill has moved them to [`STEPS`].
pub(crate) const INDEXED: &str = "steps:words";
/// The memories with an open status: its name, and their steps.
pub(crate) const OPEN: &str = "open";
/// From idempotency keys to ids.
pub(crate) const IDEMPOTENCY: &str = "idempotency";
/// The collections that hold a document.
pub(crate) const COLLECTIONS: &str = "et";
/// There when a row may be long.
pub(crate) const LONG_ROWS: &str = "long";
/// The steps of the schema that were applied.
pub(crate) const SCHEMA: &str = "schema";
/// What seals the cursors.
pub(crate) const SECRET: &str = "secret";
/// When the history begins.
pub(crate) const SINCE: &str = "since";
/// What stands there where the namespace keeps no history.
pub(crate) const NO_HISTORY: &str = "none";
/// The tombstones by the names of their records, the hashes of idempotency keys that they have, and how many erasures there were.
pub(crate) const TOMBSTONES: &str = "tombstones";
/// The field of the last.
pub(crate) const ERASURES: &str = "erasures";
/// What makes the hashes of tombstones.
pub(crate) const HASH_KEY: &str = "hash_key";
/// The records that say when they expire: the time as the score, in milliseconds, and [`RecordId::to_key`] as the member.
pub(crate) const EXPIRY: &str = "expiry";
/// The rules of retention.
pub(crate) const RETENTION: &str = "retention";
/// The embedding model.
pub(crate) const VECTOR_MODEL: &str = "vector_model";
/// What the key of a copy of the feed begins with.
pub(crate) const FEED_COPY: &str = "feed:";
/// How far the move from version 1 and the removal of the keys of older versions are.
pub(crate) const MOVE: &str = "move";
/// How far the backfill of the places of documents is.
pub(crate) const PLACES: &str = "places";

/// The keys of one namespace. All of them begin with its hash tag, and so share a slot.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    /// How many entries the feed keeps.
    kept: KeptChanges,
}

impl Keys {
    pub(crate) fn new(namespace: &str, kept: KeptChanges) -> Self {
        Self { prefix: format!("{{{namespace}}}:"), kept }
    }

    /// A key of a kind, or what all keys of the kind begin with.
    pub(crate) fn of(&self, kind: &str) -> Vec<u8> {
        self.with(kind, [])
    }

    /// The key of a kind that ends with this.
    pub(crate) fn with(&self, kind: &str, name: impl AsRef<[u8]>) -> Vec<u8> {
        [self.prefix.as_bytes(), kind.as_bytes(), name.as_ref()].concat()
    }

    /// What is known below a path, or in all, of the ledger or of a collection: the steps of the records below the path; for each space that
    /// is the path and one segment more, the boundary, the segment, a zero byte and the steps of its records; for each path of this kind with
    /// records below, the boundary, the segment, and the boundary behind it (of documents, which can be removed, one for all boundaries).
    pub(crate) fn node(&self, of: Option<&Collection>, path: Option<&str>) -> Vec<u8> {
        let kind = of.map_or_else(|| "n".to_owned(), |collection| format!("en:{collection}"));
        path.map_or_else(|| self.of(&kind), |path| self.with(&kind, format!(":{path}")))
    }

    /// What the keys of all rows of the ledger or of a collection begin with. No name of a collection holds a colon.
    pub(crate) fn rows(&self, collection: Option<&Collection>) -> Vec<u8> {
        collection.map_or_else(|| self.of("r:"), |collection| self.with("e:", format!("{collection}:")))
    }

    /// The row of a record with this id.
    pub(crate) fn row(&self, collection: Option<&Collection>, id: impl AsRef<[u8]>) -> Vec<u8> {
        [&self.rows(collection), id.as_ref()].concat()
    }

    /// The history of a record.
    pub(crate) fn history(&self, of: &RecordId) -> Vec<u8> {
        match of {
            RecordId::Memory(id) => self.with("h:", id.as_bytes()),
            RecordId::Document { collection, id } => self.with("eh:", format!("{collection}:{id}")),
        }
    }

    /// What the keys of all vectors of the ledger or of a collection begin with.
    pub(crate) fn vectors(&self, collection: Option<&Collection>) -> Vec<u8> {
        collection.map_or_else(|| self.of("v:"), |collection| self.with("ev:", format!("{collection}:")))
    }

    /// The vector of a record.
    pub(crate) fn vector(&self, of: &RecordId) -> Vec<u8> {
        match of {
            RecordId::Memory(id) => [self.vectors(None).as_slice(), id.as_bytes()].concat(),
            RecordId::Document { collection, id } => {
                [self.vectors(Some(collection)).as_slice(), id.as_str().as_bytes()].concat()
            }
        }
    }

    /// The documents of a collection.
    pub(crate) fn collection(&self, collection: &Collection) -> Vec<u8> {
        self.with("et:", collection.as_str())
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
}

/// A script, known to the server by its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lua {
    Append,
    Change,
    Remove,
    Copy,
    Erase,
    Forget,
    SetText,
    Embed,
}

/// In the order of [`Lua`].
const SOURCES: [&str; 8] = [
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/append.lua")),
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/change.lua")),
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/remove.lua")),
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/scrub.lua"), include_str!("scripts/copy.lua")),
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/scrub.lua"), include_str!("scripts/erase.lua")),
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/forget.lua")),
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/set_text.lua")),
    concat!(include_str!("scripts/prelude.lua"), include_str!("scripts/embed.lua")),
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

/// A script with what it is called on. It names all keys that it touches, so a node that lacks one of them refuses it as a whole.
#[derive(Debug)]
pub(crate) struct Call<'k> {
    namespace: &'k Keys,
    script: Lua,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
    /// The members that come to each sorted set, with their scores.
    coming: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, i64>>,
    /// The members that leave each.
    going: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    pruned: BTreeSet<Pruned>,
}

/// Where a node is gone, or has nothing more behind a boundary, the node above it loses what it has of that. The deeper ones come first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pruned {
    depth: Reverse<usize>,
    node: Vec<u8>,
    above: Vec<u8>,
    /// Empty where the node has to be gone.
    boundary: Vec<u8>,
    member: Vec<u8>,
}

/// A row to write.
#[derive(Debug)]
pub(crate) struct RowChange<'r> {
    /// Its key.
    pub(crate) row: Vec<u8>,
    /// The head that was read; empty where there was no row.
    pub(crate) head: &'r [u8],
    /// The new row; empty where it stays as it is.
    pub(crate) new: Vec<u8>,
    /// Its entry of the feed; empty where the record is the same.
    pub(crate) entry: Vec<u8>,
    /// What it leaves in a history, if anything.
    pub(crate) kept: Option<Kept>,
    /// What is put unless a tombstone keeps it out.
    pub(crate) guarded: Option<&'r Document>,
    /// The key of the vector that goes; `None` where one that is there stays.
    pub(crate) vector: Option<Vec<u8>>,
}

impl<'r> RowChange<'r> {
    /// Leaves a row as it is, or the place of one.
    pub(crate) fn none(row: Vec<u8>, head: &'r [u8]) -> Self {
        Self { row, head, new: Vec::new(), entry: Vec::new(), kept: None, guarded: None, vector: None }
    }
}

/// An entry of a history.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The key of the history.
    pub(crate) history: Vec<u8>,
    /// The entry.
    pub(crate) entry: Vec<u8>,
}

/// A sorted set, and a member that has to be in it.
type Expected<'m> = Option<(Vec<u8>, &'m [u8])>;

impl<'k> Call<'k> {
    pub(crate) fn new(script: Lua, namespace: &'k Keys) -> Self {
        let (keys, (coming, going, pruned)) = (vec![namespace.of(WRITER), namespace.of(FEED)], Default::default());
        Self { namespace, script, keys, arguments: Vec::new(), coming, going, pruned }
    }

    /// Appends some of these memories: all or none, unless one's id or idempotency key is taken or erased.
    pub(crate) fn append(keys: &'k Keys, memories: &[&Memory], of: &Append<'_>) -> Self {
        let mut call = Self::new(Lua::Append, keys).key(keys.of(IDEMPOTENCY)).key(keys.of(TOMBSTONES));
        call = call.arg(memories.len().to_string());
        let (mut stamps, mut vectors) = (Stamps::new(), Vec::new());
        for memory in memories {
            let idempotency_key = memory.idempotency_key.as_ref().map_or("", IdempotencyKey::as_str);
            call = call.key(keys.row(None, memory.id.as_bytes()));
            call = call.arg(*memory.id.as_bytes()).arg(idempotency_key).arg(rows::from_memory(memory, of.at));
            call = call.arg(stamps.of_memory(memory)).arg(of.hash(memory).map(erasure::hash_name).unwrap_or_default());
            let step = step_of::<Ledger>(memory);
            call.place(&step, &memory.space_id, Some(memory.status));
            call.list(step);
            call.schedule(&memory.id.into(), None, memory.expires_at);
            // One whose row the server has lost may have left its vector. A new id has none.
            vectors.extend(of.is_repeated.then(|| keys.vector(&memory.id.into())));
        }
        call = call.arg(vectors.len().to_string());
        call.keys.append(&mut vectors);
        call
    }

    /// Writes rows, all or none, if what was read of each is still in place.
    pub(crate) fn change(keys: &'k Keys, rows: Vec<RowChange<'_>>, expected: Expected<'_>) -> Self {
        // Of no member nothing is expected, whatever the set, and where no tombstone may keep something out none is asked for.
        let (set, member) = expected.unwrap_or_else(|| (keys.of(WRITER), &[]));
        let is_guarded = rows.iter().any(|change| change.guarded.is_some());
        let tombstones = keys.of(if is_guarded { TOMBSTONES } else { WRITER });
        let mut call = Self::new(Lua::Change, keys).key(set).key(tombstones).arg(member).arg(rows.len().to_string());
        let (mut histories, mut vectors) = (Vec::with_capacity(rows.len()), Vec::new());
        for RowChange { row, head, new, entry, kept, guarded, vector } in rows {
            // Of no entry no history is touched, so any key does that the script has.
            let kept = kept.unwrap_or_else(|| Kept { history: row.clone(), entry: Vec::new() });
            call = call.key(row).arg(head).arg(new).arg(entry).arg(kept.entry);
            call = call.arg(guarded.map(guard).unwrap_or_default());
            histories.push(kept.history);
            vectors.extend(vector);
        }
        call = call.arg(vectors.len().to_string());
        call.keys.append(&mut histories);
        call.keys.append(&mut vectors);
        call
    }

    pub(crate) fn key(mut self, key: Vec<u8>) -> Self {
        self.keys.push(key);
        self
    }

    pub(crate) fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds a memory to its space, to the paths above it, and to its status if that is open.
    pub(crate) fn place(&mut self, step: &[u8], space_id: &SpaceId, status: Option<Status>) {
        let (keys, space) = (self.namespace, space_id.as_str());
        for path in space_id.ancestors() {
            let (above, last) = parted(path);
            self.add(keys.node(None, above), [last, &space[path.len()..=path.len()]].concat().into_bytes());
            self.add(keys.node(None, Some(path)), step.to_vec());
        }
        let (above, last) = parted(space);
        self.add(keys.node(None, above), [last.as_bytes(), &[0], step].concat());
        if let Some(status) = status.filter(|status| status.is_open()) {
            self.add(keys.of(OPEN), open_entry(status, step));
        }
    }

    /// Takes a memory from its space, from the paths above it, and from its status.
    pub(crate) fn displace(&mut self, step: &[u8], space_id: &SpaceId, status: Status) {
        let (keys, space) = (self.namespace, space_id.as_str());
        for path in space_id.ancestors() {
            let (above, last) = parted(path);
            let (node, above) = (keys.node(None, Some(path)), keys.node(None, above));
            let boundary = space.as_bytes()[path.len()..=path.len()].to_vec();
            let member = [last.as_bytes(), &boundary].concat();
            self.remove(node.clone(), step.to_vec());
            self.pruned.insert(Pruned { depth: Reverse(path.len()), node, above, boundary, member });
        }
        let (above, last) = parted(space);
        self.remove(keys.node(None, above), [last.as_bytes(), &[0], step].concat());
        if status.is_open() {
            self.remove(keys.of(OPEN), open_entry(status, step));
        }
    }

    /// Adds a document to its space, and to the paths above it.
    pub(crate) fn place_document(&mut self, collection: &Collection, step: &[u8], space_id: &SpaceId) {
        let keys = self.namespace;
        for path in space_id.ancestors() {
            let (above, last) = parted(path);
            self.add(keys.node(Some(collection), above), goes_on(last));
            self.add(keys.node(Some(collection), Some(path)), step.to_vec());
        }
        let (above, last) = parted(space_id.as_str());
        self.add(keys.node(Some(collection), above), [last.as_bytes(), &[0], step].concat());
    }

    /// Takes a document from its space, and from the paths above it.
    pub(crate) fn displace_document(&mut self, collection: &Collection, step: &[u8], space_id: &SpaceId) {
        let keys = self.namespace;
        for path in space_id.ancestors() {
            let (above, last) = parted(path);
            let (node, above) = (keys.node(Some(collection), Some(path)), keys.node(Some(collection), above));
            self.remove(node.clone(), step.to_vec());
            let (boundary, member) = (Vec::new(), goes_on(last));
            self.pruned.insert(Pruned { depth: Reverse(path.len()), node, above, boundary, member });
        }
        let (above, last) = parted(space_id.as_str());
        self.remove(keys.node(Some(collection), above), [last.as_bytes(), &[0], step].concat());
    }

    /// Adds a memory to all memories.
    pub(crate) fn list(&mut self, step: Vec<u8>) {
        self.add(self.namespace.of(STEPS), step);
    }

    /// Takes a memory from all memories, on whichever list of them it is.
    pub(crate) fn unlist(&mut self, step: Vec<u8>) {
        self.remove(self.namespace.of(INDEXED), step.clone());
        self.remove(self.namespace.of(STEPS), step);
    }

    /// Adds a document to its collection.
    pub(crate) fn list_document(&mut self, collection: &Collection, step: Vec<u8>) {
        self.add(self.namespace.of(COLLECTIONS), collection.as_str().into());
        self.add(self.namespace.collection(collection), step);
    }

    /// Takes a document from its collection, and the collection from all where it was the last one.
    pub(crate) fn unlist_document(&mut self, collection: &Collection, step: Vec<u8>) {
        let (node, above) = (self.namespace.collection(collection), self.namespace.of(COLLECTIONS));
        let (boundary, member) = (Vec::new(), collection.as_str().into());
        self.remove(node.clone(), step);
        self.pruned.insert(Pruned { depth: Reverse(0), node, above, boundary, member });
    }

    /// Lists a record under the time when it expires, and takes it from the list where it had one and has none any more. One that has the
    /// same time as before is listed again, since a write that was refused in its midst may have left another one.
    pub(crate) fn schedule(&mut self, record: &RecordId, before: Option<Timestamp>, after: Option<Timestamp>) {
        match (before, after) {
            (_, Some(time)) => self.add_with(self.namespace.of(EXPIRY), record.to_key(), time.as_millis()),
            (Some(_), None) => self.remove(self.namespace.of(EXPIRY), record.to_key()),
            (None, None) => {}
        }
    }

    /// Adds a member, also where it was to be removed.
    pub(crate) fn add(&mut self, set: Vec<u8>, member: Vec<u8>) {
        self.add_with(set, member, 0);
    }

    fn add_with(&mut self, set: Vec<u8>, member: Vec<u8>, score: i64) {
        if let Some(going) = self.going.get_mut(&set) {
            going.remove(&member);
        }
        self.coming.entry(set).or_default().insert(member, score);
    }

    pub(crate) fn remove(&mut self, set: Vec<u8>, member: Vec<u8>) {
        self.going.entry(set).or_default().insert(member);
    }

    /// How many keys it has beside those of rows, of their histories and of their vectors.
    pub(crate) fn size(&self) -> usize {
        self.coming.len() + self.going.len() + 2 * self.pruned.len()
    }

    /// Whether it has so many keys that no entries of another record should come, if they can do without.
    pub(crate) fn is_full(&self) -> bool {
        self.size() > MOST_KEYS
    }

    pub(crate) fn into_cmd(mut self) -> Cmd {
        let mut call = cmd("EVALSHA");
        self.keys.extend(self.coming.keys().chain(self.going.keys()).cloned());
        let pruned =
            self.pruned.into_iter().map(|pruned| ([pruned.node, pruned.above], [pruned.boundary, pruned.member]));
        let (nodes, pruned): (Vec<_>, Vec<_>) = pruned.unzip();
        self.keys.extend(nodes.into_iter().flatten());
        call.arg(SCRIPTS[self.script as usize].get_hash()).arg(self.keys.len()).arg(self.keys).arg(self.arguments);
        call.arg(self.coming.len());
        for members in self.coming.values() {
            call.arg(2 * members.len());
            for (member, score) in members {
                call.arg(*score).arg(member);
            }
        }
        call.arg(self.going.len());
        for members in self.going.values() {
            call.arg(members.len()).arg(members);
        }
        call.arg(pruned.as_flattened()).arg(self.namespace.kept.get());
        call
    }
}

/// The steps of a sorted set that stand behind a head.
#[derive(Debug)]
pub(crate) struct Range {
    key: Vec<u8>,
    head: Vec<u8>,
}

impl Range {
    /// The steps of a set that holds nothing else.
    pub(crate) fn of(key: Vec<u8>) -> Self {
        Self { key, head: Vec::new() }
    }

    /// The memories with an open status.
    pub(crate) fn of_open(keys: &Keys, status: Status) -> Self {
        Self { key: keys.of(OPEN), head: open_entry(status, &[]) }
    }

    /// The records of a place, of the ledger or of a collection.
    pub(crate) fn of_place(keys: &Keys, of: Option<&Collection>, place: &Place) -> Self {
        match place {
            Place::Space(space) => {
                let (above, last) = parted(space);
                Self { key: keys.node(of, above), head: [last.as_bytes(), &[0]].concat() }
            }
            Place::Below(path) => Self::of(keys.node(of, Some(path))),
        }
    }

    /// Reads the next entries of a walk, at most so many.
    pub(crate) fn read(&self, walk: &Walk<'_>, count: usize) -> Cmd {
        let bound = |edge: &[u8], end: &[u8]| [edge, &self.head, end].concat();
        let low = walk.created_after.map_or_else(Vec::new, |after| time(after.as_millis() + 1).to_vec());
        let high = walk.created_before.map_or_else(|| vec![BEYOND], |before| time(before.as_millis()).to_vec());
        let (low, high) = (bound(b"[", &low), bound(b"(", &high));
        let behind = walk.behind.map(|mark| bound(b"(", &step(mark.millis, &mark.id)));
        let (name, first, last) = match walk.order {
            Order::NewestFirst => ("ZREVRANGEBYLEX", behind.unwrap_or(high), low),
            Order::OldestFirst => ("ZRANGEBYLEX", behind.unwrap_or(low), high),
        };
        let mut read = cmd(name);
        read.arg(&self.key).arg(first).arg(last).arg("LIMIT").arg(0).arg(count);
        read
    }

    /// The places of the entries of an answer in the order.
    pub(crate) fn marks(&self, answer: Value) -> Result<Vec<Mark>> {
        let mark = |mut entry: Vec<u8>| {
            let behind = entry.get(self.head.len()..).and_then(<[u8]>::first_chunk::<6>);
            let since_earliest = behind.ok_or_else(|| Error::corrupt("a step of an index lacks a part"))?;
            let since_earliest = since_earliest.iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
            // In place, since each candidate of a walk has one.
            entry.drain(..self.head.len() + 6);
            Ok(Mark { millis: since_earliest + Timestamp::MIN.as_millis(), id: entry })
        };
        decoded::<Vec<_>>(answer)?.into_iter().map(mark).collect()
    }
}

/// A byte that no step begins with, since times have at most 44 bits. What is no step in a node begins with a later one.
const BEYOND: u8 = 0x10;

/// Six bytes of createdAt and those of the id, which sort in the order of the contract.
pub(crate) fn step(millis: i64, id: &[u8]) -> Vec<u8> {
    [&time(millis), id].concat()
}

pub(crate) fn step_of<K: Selects>(record: &K::Record) -> Vec<u8> {
    step(K::created_at(record).as_millis(), K::id_bytes(record))
}

/// A time as six bytes, which sort as the times do.
pub(crate) fn time(millis: i64) -> [u8; 6] {
    let [_, _, time @ ..] = (millis - Timestamp::MIN.as_millis()).to_be_bytes();
    time
}

/// By what a script tells whether a tombstone keeps a document out: its createdAt, and its name.
fn guard(document: &Document) -> Vec<u8> {
    let name = erasure::name(&(document.collection.clone(), document.id.clone()).into());
    [time(document.created_at.as_millis()).as_slice(), &name].concat()
}

/// The entry of a memory among those with an open status.
pub(crate) fn open_entry(status: Status, step: &[u8]) -> Vec<u8> {
    [status.as_str().as_bytes(), step].concat()
}

/// The path above a path or a space, and how it goes on from there: by a boundary and a segment.
pub(crate) fn parted(path: &str) -> (Option<&str>, &str) {
    path.rfind(BOUNDARIES).map_or((None, path), |at| (Some(&path[..at]), &path[at..]))
}

/// What the node above a path of documents has while something is below the path.
fn goes_on(last: &str) -> Vec<u8> {
    [last, "-"].concat().into_bytes()
}

/// The name of a command.
pub(crate) fn name_of(command: &Cmd) -> &[u8] {
    match command.args_iter().next() {
        Some(Arg::Simple(name)) => name,
        _ => &[],
    }
}

/// Whether a command writes, of those that are not sent to read.
pub(crate) fn is_write(command: &Cmd) -> bool {
    !matches!(name_of(command), b"SCRIPT" | b"WAIT")
}

/// How many keys a script may have before it is full: nobody else is served meanwhile.
pub(crate) const MOST_KEYS: usize = 100_000;
