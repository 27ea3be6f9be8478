//! All keys and scripts, the commands made of them, and how answers are decoded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use memory_core::engine::{KeptChanges, Mark, Place, Walk};
use memory_core::{
    BOUNDARIES, Collection, Document, Error, ErrorKind, Order, RecordId, Result, Selects, SpaceId, Status, Timestamp,
};
use redis::{Arg, Cmd, FromRedisValue, Pipeline, Script, Value, cmd};

use crate::rows::time;
use crate::tombstone;

/// The lowest writer version that may write; absent while any may.
pub(crate) const WRITER: &str = "writer";
/// The feed: all writes, in their order.
pub(crate) const FEED: &str = "feed";
/// All memories, except those in [`INDEXED`].
pub(crate) const STEPS: &str = "steps";
/// The memories that an older program has put into its word index, until a backfill has moved them to [`STEPS`].
pub(crate) const INDEXED: &str = "steps:words";
/// The memories with an open status: the name of the status, then the step.
pub(crate) const OPEN: &str = "open";
/// Maps idempotency keys to ids.
pub(crate) const IDEMPOTENCY: &str = "idempotency";
/// The collections that hold a document.
pub(crate) const COLLECTIONS: &str = "et";
/// Exists if a row may be long.
pub(crate) const LONG_ROWS: &str = "long";
/// The applied steps of the schema.
pub(crate) const SCHEMA: &str = "schema";
/// Written with an empty text when a call that writes nothing waits for replicas.
pub(crate) const WAITED: &str = "waited";
/// The key that seals cursors.
pub(crate) const SECRET: &str = "secret";
/// The time when the history begins.
pub(crate) const SINCE: &str = "since";
/// The value of [`SINCE`] if the namespace keeps no history.
pub(crate) const NO_HISTORY: &str = "none";
/// The tombstones by the names of their records, the hashes of idempotency keys, and the number of erasures.
pub(crate) const TOMBSTONES: &str = "tombstones";
/// The field with the number of erasures.
pub(crate) const ERASURES: &str = "erasures";
/// The key of the hashes in tombstones.
pub(crate) const HASH_KEY: &str = "hash_key";
/// The records with an expiry time of their own: the time in milliseconds as score, [`RecordId::to_key`] as member.
pub(crate) const EXPIRY: &str = "expiry";
/// The retention rules.
pub(crate) const RETENTION: &str = "retention";
/// The vector model.
pub(crate) const VECTOR_MODEL: &str = "vector_model";
/// The prefix of the key of a feed copy.
pub(crate) const FEED_COPY: &str = "feed:";
/// The progress of the move from version 1, and of the removal of older versions' keys.
pub(crate) const MOVE: &str = "move";
/// The progress of the backfill of the documents' places.
pub(crate) const PLACES: &str = "places";

/// The keys of one namespace. All begin with its hash tag, and so share a slot.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    /// Number of entries that the feed keeps.
    kept: KeptChanges,
}

impl Keys {
    pub(crate) fn new(namespace: &str, kept: KeptChanges) -> Self {
        Self { prefix: format!("{{{namespace}}}:"), kept }
    }

    /// Returns a key of a kind, or the prefix of all keys of the kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<u8> {
        self.with(kind, [])
    }

    /// Returns the key of a kind that ends with a name.
    pub(crate) fn with(&self, kind: &str, name: impl AsRef<[u8]>) -> Vec<u8> {
        [self.prefix.as_bytes(), kind.as_bytes(), name.as_ref()].concat()
    }

    /// The index node of a path (of everything for `None`), for the ledger or a collection. It holds: the steps of the
    /// records below the path; for each space one segment below it, the boundary, the segment, a zero byte and the step
    /// of each record; for each path one segment below it that has records below, the boundary, the segment, and the
    /// next boundary (for documents, which can be removed, one entry for all boundaries).
    pub(crate) fn node(&self, of: Option<&Collection>, path: Option<&str>) -> Vec<u8> {
        let kind = of.map_or_else(|| "n".to_owned(), |collection| format!("en:{collection}"));
        path.map_or_else(|| self.of(&kind), |path| self.with(&kind, format!(":{path}")))
    }

    /// Returns the prefix of all row keys of the ledger or of a collection. No collection name holds a colon.
    pub(crate) fn rows(&self, collection: Option<&Collection>) -> Vec<u8> {
        collection.map_or_else(|| self.of("r:"), |collection| self.with("e:", format!("{collection}:")))
    }

    /// Returns the key of a record's row.
    pub(crate) fn row(&self, collection: Option<&Collection>, id: impl AsRef<[u8]>) -> Vec<u8> {
        [&self.rows(collection), id.as_ref()].concat()
    }

    /// Returns the key of the row of a record with this id.
    pub(crate) fn row_of(&self, of: &RecordId) -> Vec<u8> {
        match of {
            RecordId::Memory(id) => self.row(None, id.as_bytes()),
            RecordId::Document { collection, id } => self.row(Some(collection), id.as_str()),
        }
    }

    /// Returns the key of a record's history.
    pub(crate) fn history(&self, of: &RecordId) -> Vec<u8> {
        match of {
            RecordId::Memory(id) => self.with("h:", id.as_bytes()),
            RecordId::Document { collection, id } => self.with("eh:", format!("{collection}:{id}")),
        }
    }

    /// Returns the prefix of all vector keys of the ledger or of a collection.
    pub(crate) fn vectors(&self, collection: Option<&Collection>) -> Vec<u8> {
        collection.map_or_else(|| self.of("v:"), |collection| self.with("ev:", format!("{collection}:")))
    }

    /// Returns the key of a record's vector.
    pub(crate) fn vector(&self, of: &RecordId) -> Vec<u8> {
        match of {
            RecordId::Memory(id) => [self.vectors(None).as_slice(), id.as_bytes()].concat(),
            RecordId::Document { collection, id } => {
                [self.vectors(Some(collection)).as_slice(), id.as_str().as_bytes()].concat()
            }
        }
    }

    /// Returns the key of a collection's documents.
    pub(crate) fn collection(&self, collection: &Collection) -> Vec<u8> {
        self.with("et:", collection.as_str())
    }

    /// Returns an arbitrary key, which tells the node that has the slot.
    pub(crate) fn any(&self) -> &str {
        &self.prefix
    }

    /// Returns the pattern that matches exactly the namespace's keys.
    pub(crate) fn pattern(&self) -> String {
        let escaped = self.prefix.chars().flat_map(|char| {
            let is_special = matches!(char, '*' | '?' | '[' | ']' | '\\' | '^' | '-');
            is_special.then_some('\\').into_iter().chain([char])
        });
        escaped.chain(['*']).collect()
    }
}

/// A script, identified on the server by its hash.
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

/// Makes the commands that load all scripts to a server.
pub(crate) fn load_scripts() -> Pipeline {
    let mut load = Pipeline::with_capacity(SOURCES.len());
    for source in SOURCES {
        load.cmd("SCRIPT").arg("LOAD").arg(source);
    }
    load
}

/// A call of a script. It names all keys that it touches, so a node that lacks one of them refuses it as a whole.
#[derive(Debug)]
pub(crate) struct Call<'k> {
    namespace: &'k Keys,
    script: Lua,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
    /// The members to add to each sorted set, with their scores.
    coming: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, i64>>,
    /// The members to remove from each sorted set.
    going: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    pruned: BTreeSet<Pruned>,
}

/// An entry to remove from a parent node once its child node is gone, or has no entries after a boundary. Deeper nodes
/// come first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pruned {
    depth: Reverse<usize>,
    node: Vec<u8>,
    above: Vec<u8>,
    /// Empty if the node must be gone.
    boundary: Vec<u8>,
    member: Vec<u8>,
}

/// A row to write.
#[derive(Debug)]
pub(crate) struct RowChange<'r> {
    /// The key of the row.
    pub(crate) row: Vec<u8>,
    /// The head as it was read; empty if there was no row.
    pub(crate) head: &'r [u8],
    /// The new row; empty to leave it as it is.
    pub(crate) new: Vec<u8>,
    /// The feed entry; empty if the record is unchanged.
    pub(crate) entry: Vec<u8>,
    /// The history entry, if any.
    pub(crate) kept: Option<Kept>,
    /// The document, if a tombstone may block the put.
    pub(crate) guarded: Option<&'r Document>,
    /// The key of the vector to delete; `None` to keep an existing one.
    pub(crate) vector: Option<Vec<u8>>,
}

impl<'r> RowChange<'r> {
    /// Makes a change that leaves the row, or its absence, as it is.
    pub(crate) fn none(row: Vec<u8>, head: &'r [u8]) -> Self {
        Self { row, head, new: Vec::new(), entry: Vec::new(), kept: None, guarded: None, vector: None }
    }
}

/// A history entry to add.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The key of the history.
    pub(crate) history: Vec<u8>,
    /// The encoded entry.
    pub(crate) entry: Vec<u8>,
}

/// A sorted set, and a member that it must hold.
type Expected<'m> = Option<(Vec<u8>, &'m [u8])>;

impl<'k> Call<'k> {
    pub(crate) fn new(script: Lua, namespace: &'k Keys) -> Self {
        let (keys, (coming, going, pruned)) = (vec![namespace.of(WRITER), namespace.of(FEED)], Default::default());
        Self { namespace, script, keys, arguments: Vec::new(), coming, going, pruned }
    }

    /// Makes the call that writes rows, all or none, if each is still as it was read.
    pub(crate) fn change(keys: &'k Keys, rows: Vec<RowChange<'_>>, expected: Expected<'_>) -> Self {
        // An empty member expects nothing of any set; without a guarded put, no tombstone is read.
        let (set, member) = expected.unwrap_or_else(|| (keys.of(WRITER), &[]));
        let is_guarded = rows.iter().any(|change| change.guarded.is_some());
        let tombstones = keys.of(if is_guarded { TOMBSTONES } else { WRITER });
        let mut call = Self::new(Lua::Change, keys).key(set).key(tombstones).arg(member).arg(rows.len().to_string());
        let (mut histories, mut vectors) = (Vec::with_capacity(rows.len()), Vec::new());
        for RowChange { row, head, new, entry, kept, guarded, vector } in rows {
            // Without an entry no history is touched, so any key of the script will do.
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

    /// Removes a memory from its space, from the paths above it, and from its status.
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

    /// Removes a document from its space, and from the paths above it.
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

    /// Adds a memory to the list of all memories.
    pub(crate) fn list(&mut self, step: Vec<u8>) {
        self.add(self.namespace.of(STEPS), step);
    }

    /// Removes a memory from the list of all memories, whichever of the two lists it is on.
    pub(crate) fn unlist(&mut self, step: Vec<u8>) {
        self.remove(self.namespace.of(INDEXED), step.clone());
        self.remove(self.namespace.of(STEPS), step);
    }

    /// Adds a document to its collection.
    pub(crate) fn list_document(&mut self, collection: &Collection, step: Vec<u8>) {
        self.add(self.namespace.of(COLLECTIONS), collection.as_str().into());
        self.add(self.namespace.collection(collection), step);
    }

    /// Removes a document from its collection, and the collection from the list if that was its last document.
    pub(crate) fn unlist_document(&mut self, collection: &Collection, step: Vec<u8>) {
        let (node, above) = (self.namespace.collection(collection), self.namespace.of(COLLECTIONS));
        let (boundary, member) = (Vec::new(), collection.as_str().into());
        self.remove(node.clone(), step);
        self.pruned.insert(Pruned { depth: Reverse(0), node, above, boundary, member });
    }

    /// Lists a record under its expiry time, or removes it from the list if it has none any more. A record with the
    /// same time is listed again, because an earlier script that failed half way may have left another time.
    pub(crate) fn schedule(&mut self, record: &RecordId, before: Option<Timestamp>, after: Option<Timestamp>) {
        match (before, after) {
            (_, Some(time)) => self.add_with(self.namespace.of(EXPIRY), record.to_key(), time.as_millis()),
            (Some(_), None) => self.remove(self.namespace.of(EXPIRY), record.to_key()),
            (None, None) => {}
        }
    }

    /// Adds a member, even if it was to be removed.
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

    /// Returns the number of keys, without those of rows, histories and vectors.
    pub(crate) fn size(&self) -> usize {
        self.coming.len() + self.going.len() + 2 * self.pruned.len()
    }

    /// Returns whether it has so many keys that entries of another record should wait for the next script, if they can.
    pub(crate) fn is_full(&self) -> bool {
        self.size() > MOST_KEYS
    }

    /// Makes a pipeline of this call alone.
    pub(crate) fn into_pipeline(self) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(self.into_cmd());
        pipeline
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

/// The steps in a sorted set that follow a prefix.
#[derive(Debug)]
pub(crate) struct Range {
    key: Vec<u8>,
    head: Vec<u8>,
}

impl Range {
    /// Covers a set that holds only steps.
    pub(crate) fn of(key: Vec<u8>) -> Self {
        Self { key, head: Vec::new() }
    }

    /// Covers the memories with an open status.
    pub(crate) fn of_open(keys: &Keys, status: Status) -> Self {
        Self { key: keys.of(OPEN), head: open_entry(status, &[]) }
    }

    /// Covers the records of a place, of the ledger or of a collection.
    pub(crate) fn of_place(keys: &Keys, of: Option<&Collection>, place: &Place) -> Self {
        match place {
            Place::Space(space) => {
                let (above, last) = parted(space);
                Self { key: keys.node(of, above), head: [last.as_bytes(), &[0]].concat() }
            }
            Place::Below(path) => Self::of(keys.node(of, Some(path))),
        }
    }

    /// Makes the command that reads the next entries of a walk, at most `count`.
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

    /// Decodes the positions of an answer's entries.
    pub(crate) fn marks(&self, answer: Value) -> Result<Vec<Mark>> {
        let mark = |mut entry: Vec<u8>| {
            let behind = entry.get(self.head.len()..).and_then(<[u8]>::first_chunk::<6>);
            let since_earliest = behind.ok_or_else(|| Error::corrupt("a step of an index lacks a part"))?;
            let since_earliest = since_earliest.iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
            // In place, because each candidate of a walk is decoded here.
            entry.drain(..self.head.len() + 6);
            Ok(Mark { millis: since_earliest + Timestamp::MIN.as_millis(), id: entry })
        };
        decoded::<Vec<_>>(answer)?.into_iter().map(mark).collect()
    }
}

/// A byte that no step begins with, because times have at most 44 bits. Other entries of a node begin with a greater
/// one.
const BEYOND: u8 = 0x10;

/// Encodes a step: six bytes of createdAt, then the id. Steps sort in the order of the contract.
pub(crate) fn step(millis: i64, id: &[u8]) -> Vec<u8> {
    [&time(millis), id].concat()
}

pub(crate) fn step_of<K: Selects>(record: &K::Record) -> Vec<u8> {
    step(K::created_at(record).as_millis(), K::id_bytes(record))
}

/// Encodes what a script needs to decide whether a tombstone blocks a document: its createdAt, and its name.
fn guard(document: &Document) -> Vec<u8> {
    let name = tombstone::name(&document.into());
    [time(document.created_at.as_millis()).as_slice(), &name].concat()
}

/// Encodes the entry of a memory in the set of open statuses.
pub(crate) fn open_entry(status: Status, step: &[u8]) -> Vec<u8> {
    [status.as_str().as_bytes(), step].concat()
}

/// Splits a path or space into the path above it, and the boundary with the last segment.
pub(crate) fn parted(path: &str) -> (Option<&str>, &str) {
    path.rfind(BOUNDARIES).map_or((None, path), |at| (Some(&path[..at]), &path[at..]))
}

/// Encodes the entry of a documents' node for a path with documents below it.
fn goes_on(last: &str) -> Vec<u8> {
    [last, "-"].concat().into_bytes()
}

/// Returns the name of a command.
pub(crate) fn name_of(command: &Cmd) -> &[u8] {
    match command.args_iter().next() {
        Some(Arg::Simple(name)) => name,
        _ => &[],
    }
}

/// Returns whether a command writes, given that it is not sent as a read.
pub(crate) fn is_write(command: &Cmd) -> bool {
    !matches!(name_of(command), b"INFO" | b"SCRIPT" | b"WAIT")
}

/// Decodes an answer of the server. `Unexpected` if it has another form than `T`.
pub(crate) fn decoded<T: FromRedisValue>(answer: Value) -> Result<T> {
    let unexpected = "the server gave an answer of another form than asked for";
    // The driver's error quotes the answer.
    redis::from_redis_value(answer).map_err(|_| Error::new(ErrorKind::Unexpected, unexpected))
}

/// Number of keys at which a script is full: the server serves nobody else while it runs.
pub(crate) const MOST_KEYS: usize = 100_000;
