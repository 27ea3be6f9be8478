//! The calls of a sequence, with values from small alphabets, so that spaces, times, keys and ids collide often.

mod strategies;

use memory_core::{
    Collections, DocumentWrite, Erasure, Expect, IdempotencyKey, Kind, Ledger, MemoryId, MemoryPatch, MemoryQuery,
    NewMemory, Order, QueryBuilder, Result, Revision, SpaceQuery, SpaceQueryBuilder, SpaceSelector, Status, Timestamp,
    Watch, WatchFrom, Watched,
};

use super::condition::Condition;
use crate::fixture::{actor, at, collection, context, metadata, new_document, new_memory, trigger};

pub(crate) use strategies::{CLOCK, DOCUMENT_IDS, call};

/// A call, and the handle that it goes to, modulo the number of open handles.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) handle: usize,
    pub(crate) op: Op,
}

/// One call.
///
/// A `slot` is the index of an id that the sequence has made, erased ones included, modulo their number. A `StoreRun` is a batch of copies
/// of one item, without a key and at a few different times. `twice` repeats the records within the same call. A `WatchOn` continues one of
/// the watches that were begun. An `Embed` keeps vectors, each for the record's revision or for a wrong one. An `Advance` moves the clock
/// forward. A `RestoreErased` restores an erased record, a memory perhaps under a new id. A `Recall` asks by a word, a vector, or both.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Store(Item),
    StoreMany(Vec<Item>),
    StoreRun { item: Item, count: usize },
    Update { slot: usize, patch: Patch },
    UpdateUnknown(Patch),
    Get { slot: usize },
    Query(Question),
    WalkWhileStoring { question: Question, meanwhile: Vec<Item> },
    Restore { memories: Vec<Restored>, twice: bool },
    RestoreAgain { slot: usize, changed: bool },
    Put(Write),
    PutMany(Vec<Write>),
    GetDocument { collection: &'static str, slot: usize },
    QueryDocuments { collection: &'static str, ask: Ask },
    Recall { collection: Option<&'static str>, question: Question, word: &'static str, number: Option<u8> },
    Remove { collection: &'static str, slots: Vec<usize>, ask: Ask, max: usize },
    RestoreDocuments { writes: Vec<Write>, twice: bool },
    Spaces(Tree),
    Collections,
    Watch(Watching),
    WatchOn { slot: usize },
    History { whose: Whose, limit: usize, with_removed: bool },
    AsOf { whose: Whose },
    EraseRecords { whose: Vec<Whose>, has_unknown: bool, why: Why },
    EraseMemories { question: Question, slices: Slices, why: Why },
    EraseDocuments { collection: &'static str, ask: Ask, slices: Slices, why: Why },
    RestoreErased { slot: usize, has_new_id: bool },
    Tombstone { whose: Whose },
    Embed { whose: Vec<(Whose, bool)>, number: u8 },
    Sweep { is_due: bool, to_the_end: bool },
    SetClock(i64),
    Advance(i64),
    Reopen,
}

/// A record, by its kind and its slot.
#[derive(Debug, Clone)]
pub(crate) enum Whose {
    Memory { slot: usize },
    Document { collection: &'static str, slot: usize },
}

/// The reason of an erasure, and its actor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Why {
    pub(crate) reason: &'static str,
    pub(crate) actor: Option<&'static str>,
}

/// How many records one erasing call takes of those that a query finds, and whether calls go on until none is left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slices {
    pub(crate) limit: usize,
    pub(crate) to_the_end: bool,
}

/// A memory to store.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) space: String,
    pub(crate) trigger: &'static str,
    /// Whether the trigger also has a text of [`LARGE`] bytes.
    pub(crate) is_large: bool,
    pub(crate) context: Option<&'static str>,
    pub(crate) created_at: i64,
    pub(crate) metadata: &'static str,
    pub(crate) status: Status,
    pub(crate) key: Option<&'static str>,
    /// In how many milliseconds it expires.
    pub(crate) expires: Option<i64>,
}

/// A memory to restore, under one of a few ids.
#[derive(Debug, Clone)]
pub(crate) struct Restored {
    pub(crate) id: &'static str,
    pub(crate) revision: u64,
    pub(crate) item: Item,
    /// In how many milliseconds it expires, which may be negative.
    pub(crate) expires: Option<i64>,
}

/// A patch of a memory.
#[derive(Debug, Clone)]
pub(crate) struct Patch {
    context: Option<Option<&'static str>>,
    metadata: Option<(Mode, &'static str)>,
    status: Option<Status>,
    /// `Some(None)` clears the expiry, and `Some(Some(n))` sets it to `n` milliseconds from now.
    expires: Option<Option<i64>>,
    if_revision: Option<u64>,
    actor: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Replace,
    Merge,
}

/// What queries of memories and of documents have in common.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// All spaces when empty.
    pub(crate) spaces: Vec<Selector>,
    pub(crate) within: Option<Selector>,
    pub(crate) filter: Option<Condition>,
    pub(crate) text: Option<String>,
    pub(crate) order: Order,
    pub(crate) limit: usize,
    pub(crate) offset: usize,
}

/// A listing of spaces, of the ledger or of a collection.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) collection: Option<&'static str>,
    pub(crate) under: Option<String>,
    pub(crate) within: Option<Selector>,
    pub(crate) depth: usize,
    pub(crate) limit: usize,
}

/// A query of the ledger.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) ask: Ask,
    pub(crate) after: Option<i64>,
    pub(crate) before: Option<i64>,
    pub(crate) statuses: Vec<Status>,
    pub(crate) exclude: Vec<usize>,
}

/// What is watched, and how the watch begins.
#[derive(Debug, Clone)]
pub(crate) struct Watching {
    pub(crate) of: Of,
    pub(crate) question: Question,
    pub(crate) begins: Begins,
}

/// Which records are watched. `None` watches no documents, and an empty list those of all collections.
#[derive(Debug, Clone)]
pub(crate) struct Of {
    pub(crate) memories: bool,
    pub(crate) collections: Option<&'static [&'static str]>,
}

/// How a watch begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Begins {
    WithASnapshot,
    Now,
}

/// A selector of spaces.
#[derive(Debug, Clone)]
pub(crate) enum Selector {
    Exact(String),
    Under(String),
    Prefix(String),
    Glob(String),
    Regex(String),
}

/// A document to put or to restore.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) collection: &'static str,
    /// `None` lets the provider make the id.
    pub(crate) id: Option<&'static str>,
    pub(crate) space: String,
    pub(crate) content: &'static str,
    /// Whether [`LARGE`] bytes follow the content.
    pub(crate) is_large: bool,
    pub(crate) created_at: i64,
    pub(crate) metadata: &'static str,
    pub(crate) expect: Expect,
    pub(crate) actor: Option<&'static str>,
    /// In how many milliseconds it expires.
    pub(crate) expires: Option<i64>,
}

impl Op {
    /// The batch of an [`Op::StoreRun`]: a tenth of the copies if they are large.
    pub(crate) fn run(item: &Item, count: usize) -> Vec<Item> {
        let count = if item.is_large { count.div_ceil(10) } else { count };
        let item = |number: i64| Item { created_at: item.created_at + number % 7, key: None, ..item.clone() };
        (0..).map(item).take(count).collect()
    }
}

impl Why {
    /// The erasure with the actor added.
    pub(crate) fn told_of(&self, erasure: Erasure) -> Erasure {
        self.actor.map(actor).into_iter().fold(erasure, Erasure::by)
    }
}

/// The time from which expiries are counted; `None` if nothing expires.
pub(crate) type Since = Option<Timestamp>;

/// When something expires.
pub(crate) fn end(since: Since, millis: Option<i64>) -> Option<Timestamp> {
    Some(at(since?.as_millis() + millis?))
}

impl Item {
    pub(crate) fn to_memory(&self, since: Since) -> NewMemory {
        let mut memory = new_memory(&self.space, self.created_at);
        memory.trigger = match self.is_large {
            true => trigger(&format!(r#"[{},"{}"]"#, self.trigger, filler())),
            false => trigger(self.trigger),
        };
        memory.context = self.context.map(context);
        memory.metadata = metadata(self.metadata);
        memory.status = self.status;
        memory.idempotency_key = self.key.map(|key| IdempotencyKey::parse(key).expect("a valid key"));
        memory.expires_at = end(since, self.expires);
        memory
    }
}

impl Patch {
    pub(crate) fn to_patch(&self, since: Since) -> MemoryPatch {
        let mut patch = MemoryPatch::new();
        patch = match self.context {
            None => patch,
            Some(None) => patch.clear_context(),
            Some(Some(text)) => patch.set_context(context(text)),
        };
        patch = match self.metadata {
            None => patch,
            Some((Mode::Replace, text)) => patch.replace_metadata(metadata(text)),
            Some((Mode::Merge, text)) => patch.merge_metadata(metadata(text)),
        };
        patch = match self.expires.filter(|_| since.is_some()) {
            None => patch,
            Some(millis) => match end(since, millis) {
                Some(time) => patch.set_expiry(time),
                None => patch.clear_expiry(),
            },
        };
        patch.status = self.status;
        patch.actor = self.actor.map(actor);
        patch.if_revision = self.if_revision.map(|number| Revision::new(number).expect("a valid revision"));
        patch
    }
}

impl Ask {
    /// A query of everything, in pages of `limit` records.
    pub(crate) fn everything(limit: usize) -> Self {
        let (spaces, within, filter, text, order, offset) = Default::default();
        Self { spaces, within, filter, text, order, limit, offset }
    }

    /// Adds to the builder what both kinds of queries have in common, except the offset: only the first page takes one.
    pub(crate) fn build<K: Kind>(&self, mut builder: QueryBuilder<K>) -> QueryBuilder<K> {
        if self.spaces.is_empty() {
            builder = builder.all();
        }
        for selector in &self.spaces {
            builder = builder.selector(selector.to_selector());
        }
        if let Some(within) = &self.within {
            builder = builder.within(within.to_selector());
        }
        if let Some(filter) = &self.filter {
            builder = builder.filter_text(&filter.to_string());
        }
        if let Some(text) = &self.text {
            builder = builder.text(text);
        }
        builder.order(self.order).limit(self.limit)
    }
}

impl Question {
    /// The query of the ledger, without the offset: see [`Ask::build`].
    pub(crate) fn build(&self, excluded: &[MemoryId]) -> QueryBuilder<Ledger> {
        let mut builder = self.ask.build(MemoryQuery::builder());
        if let Some(after) = self.after {
            builder = builder.created_after(at(after));
        }
        if let Some(before) = self.before {
            builder = builder.created_before(at(before));
        }
        builder = self.statuses.iter().fold(builder, |builder, status| builder.status(*status));
        excluded.iter().fold(builder, |builder, id| builder.exclude(*id))
    }
}

impl Watching {
    /// The watch that begins at `from`.
    pub(crate) fn build(&self, excluded: &[MemoryId], from: WatchFrom) -> Result<Watch> {
        let collections = |names: &[&str]| match names {
            [] => Collections::All,
            names => Collections::Named(names.iter().map(|name| collection(name)).collect()),
        };
        let of = match (self.of.memories, self.of.collections) {
            (_, None) => Watched::Memories,
            (true, Some(names)) => Watched::Both(collections(names)),
            (false, Some(names)) => Watched::Documents(collections(names)),
        };
        Ok(Watch::new(of, self.question.build(excluded))?.from(from))
    }
}

impl Tree {
    /// The listing below a path, down to a depth.
    pub(crate) fn build(&self, under: Option<&str>, depth: usize) -> SpaceQueryBuilder {
        let builder = SpaceQuery::builder().depth(depth).limit(self.limit);
        let builder = under.into_iter().fold(builder, SpaceQueryBuilder::under);
        match &self.within {
            Some(within) => builder.within(within.to_selector()),
            None => builder,
        }
    }
}

impl Selector {
    fn to_selector(&self) -> SpaceSelector {
        let selector: Result<_> = match self {
            Self::Exact(id) => SpaceSelector::exact(id),
            Self::Under(path) => SpaceSelector::under(path),
            Self::Prefix(prefix) => SpaceSelector::prefix(prefix),
            Self::Glob(pattern) => SpaceSelector::glob(pattern),
            Self::Regex(pattern) => SpaceSelector::regex(pattern),
        };
        selector.expect("a valid selector")
    }
}

impl Write {
    pub(crate) fn to_write(&self, since: Since) -> DocumentWrite {
        let filler = if self.is_large { filler() } else { String::new() };
        let content = format!("{}{filler}", self.content);
        let mut write = new_document(self.collection, self.id.unwrap_or("made"), &self.space, &content);
        if self.id.is_none() {
            write.id = None;
        }
        write.created_at = at(self.created_at);
        write.expires_at = end(since, self.expires);
        write.actor = self.actor.map(actor);
        write.with_metadata(metadata(self.metadata)).expect(self.expect)
    }
}

/// The size of a large text in bytes. Above 64 KiB, engines read a text apart from its row, or measure it first.
const LARGE: usize = 70_000;

/// A large text of one word, which no query names.
fn filler() -> String {
    " filler".repeat(LARGE / 7)
}
