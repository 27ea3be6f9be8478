//! The calls of a sequence, with values from small alphabets, so that spaces, times, keys and ids collide often.

use memory_core::{
    Collections, DocumentWrite, Erasure, Expect, IdempotencyKey, Kind, Ledger, MAX_LIMIT, MemoryId, MemoryPatch,
    MemoryQuery, NewMemory, Order, QueryBuilder, Result, Revision, SpaceQuery, SpaceQueryBuilder, SpaceSelector,
    Status, Timestamp, Watch, WatchFrom, Watched,
};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any as arbitrary, prop_oneof};
use proptest::sample::select;

use super::condition::{Condition, condition};
use crate::fixture::{actor, at, collection, context, metadata, new_document, new_memory, trigger};

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

/// The times that the clock is set to, which may go back. The third is where it begins. Records are also asked for as of these times.
pub(crate) const CLOCK: &[i64] = &[-1, 0, 1_000_000, 1_000_001, 1_000_500, 2_000_000, 2_000_000];
/// How far the clock moves forward, in milliseconds. Some steps equal a lifetime, and the last exceeds the 90 days for which tombstones of
/// expiry are kept (X4).
const STEPS: &[i64] = &[1, 1, 500, 500, 1_000_000, 100 * 24 * 60 * 60 * 1_000];
/// Lifetimes of records, in milliseconds.
const LIFETIMES: &[i64] = &[1, 2, 500, 500, 1_000, 1_000_000];
const ACTORS: &[&str] = &["ana", "run 7"];
const REASONS: &[&str] = &["asked for", "the term is over"];
const TIMES: &[i64] = &[-1, 0, 1, 5_000];
const TRIGGERS: &[&str] = &[r#"{"text":"red apple"}"#, r#""blue""#, r#""red blue""#, r#"[1.50,{"red":null}]"#];
const CONTEXTS: &[&str] = &["null", r#""""#, r#"["Red","pear"]"#, r#"{"b":1E2,"a":"caf\u00e9"}"#, r#"{"k":["a","b"]}"#];
const METADATA: &[&str] = &[
    "{}",
    r#"{"n":1}"#,
    r#"{"n":1.0,"t":null}"#,
    r#"{"n":10,"t":"x","a.b":true}"#,
    r#"{"n":"1","o":{"p":null,"q":[1,"x"]}}"#,
    r#"{"n":9007199254740993,"t":"it's","o":{"p":{"q":1},"q":[]}}"#,
];
const MERGES: &[&str] = &[
    "{}",
    r#"{"n":2}"#,
    r#"{"n":null,"t":"y"}"#,
    r#"{"n":null}"#,
    r#"{"o":{"p":1.0}}"#,
    r#"{"o":{"p":null,"none":null}}"#,
    r#"{"o":7}"#,
    r#"{"o":{"q":{"r":null,"s":[null]}},"a.b":false}"#,
];
const KEYS: &[&str] = &["k", "k2", "K"];
const CONTENTS: &[&str] = &["red apple", "Red", "", "blue, pear!", "red blue", "café 東京"];
const COLLECTIONS: &[&str] = &["c", "c-1"];
/// The collections of watches; an empty list watches all.
const WATCHED: &[&[&str]] = &[&[], &["c"], &["c-1", "d"]];
pub(crate) const DOCUMENT_IDS: &[&str] = &["a", "a*", "ab", "A", "%"];
/// Some are part of a word, a key or a number, and find nothing.
const TEXTS: &[&str] = &["red", "RED blue", "pear -apple", "", "*", "京 cafe", "\"café", "re", "k text 50"];
/// UUIDs of version 1, 4 and 7 and of no version. All sort below or above those that a provider makes now.
const MEMORY_IDS: &[&str] = &[
    "00000000-0000-0000-0000-000000000001",
    "00000000-0000-7000-8000-000000000000",
    "7fffffff-0000-4000-8000-000000000000",
    "80000000-0000-1000-8000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];
/// The words of recalls. No two words of the texts above have the same stem. Without a word, a recall asks by a vector only.
const WORDS: &[&str] = &["red", "Pear", "blue", ""];
const GLOBS: &[&str] = &["a*", "*1", "[ab]?*", "*-*", "a", "[^a]*", "?", "[", "%*", "a[-.]b*", "a-[a-c]*", "*[]b]"];
const REGEXES: &[&str] = &["^a", "1$", "a.b", "^[^-]*$", "(?i)A", ":|/", r"^a\.b", "(-b){3,}"];
/// The spaces of most rows: a space, spaces below it, and siblings that start with the same bytes.
const HOT_SPACES: &[&str] = &["a", "a", "a-b", "a-b", "a-b-c", "ab", "a.b", "a/b"];
/// The highest possible revision leaves no room for a change (V7).
const REVISIONS: &[u64] = &[1, 2, 2, (1 << 53) - 1];

/// A random call on a random handle.
pub(crate) fn call() -> BoxedStrategy<Call> {
    (0..3_usize, op()).prop_map(|(handle, op)| Call { handle, op }).boxed()
}

fn op() -> impl Strategy<Value = Op> {
    let collection = || select(COLLECTIONS);
    prop_oneof![
        8 => item().prop_map(Op::Store),
        2 => vec(item(), 0..5).prop_map(Op::StoreMany),
        1 => (item(), 1..200_usize).prop_map(|(item, count)| Op::StoreRun { item, count }),
        6 => (slot(), patch()).prop_map(|(slot, patch)| Op::Update { slot, patch }),
        1 => patch().prop_map(Op::UpdateUnknown),
        2 => slot().prop_map(|slot| Op::Get { slot }),
        10 => question().prop_map(Op::Query),
        2 => (question(), vec(item(), 1..5))
            .prop_map(|(question, meanwhile)| Op::WalkWhileStoring { question, meanwhile }),
        2 => (vec(restored(), 0..5), arbitrary::<bool>())
            .prop_map(|(memories, twice)| Op::Restore { memories, twice }),
        1 => (slot(), arbitrary::<bool>()).prop_map(|(slot, changed)| Op::RestoreAgain { slot, changed }),
        12 => write().prop_map(Op::Put),
        3 => vec(write(), 0..4).prop_map(Op::PutMany),
        2 => (collection(), slot()).prop_map(|(collection, slot)| Op::GetDocument { collection, slot }),
        5 => (collection(), ask()).prop_map(|(collection, ask)| Op::QueryDocuments { collection, ask }),
        5 => recall(),
        5 => (collection(), prop_oneof![Just(vec![]), vec(slot(), 1..4)], ask(), select(&[0, 1, 2, 100][..]))
            .prop_map(|(collection, slots, ask, max)| Op::Remove { collection, slots, ask, max }),
        1 => (vec(write(), 0..4), arbitrary::<bool>())
            .prop_map(|(writes, twice)| Op::RestoreDocuments { writes, twice }),
        6 => tree().prop_map(Op::Spaces),
        1 => Just(Op::Collections),
        3 => watching().prop_map(Op::Watch),
        6 => slot().prop_map(|slot| Op::WatchOn { slot }),
        3 => (whose(), prop_oneof![1..4_usize, Just(MAX_LIMIT)], arbitrary::<bool>())
            .prop_map(|(whose, limit, with_removed)| Op::History { whose, limit, with_removed }),
        3 => whose().prop_map(|whose| Op::AsOf { whose }),
        // Erasures are rare, so that other calls have something to work with.
        1 => (vec(whose(), 1..5), arbitrary::<bool>(), why())
            .prop_map(|(whose, has_unknown, why)| Op::EraseRecords { whose, has_unknown, why }),
        1 => prop_oneof![
            (erased(), question(), slices(), why()).prop_map(|(ask, question, slices, why)| Op::EraseMemories {
                question: Question { ask, ..question },
                slices,
                why,
            }),
            (collection(), erased(), slices(), why())
                .prop_map(|(collection, ask, slices, why)| Op::EraseDocuments { collection, ask, slices, why }),
        ],
        2 => (slot(), arbitrary::<bool>()).prop_map(|(slot, has_new_id)| Op::RestoreErased { slot, has_new_id }),
        1 => whose().prop_map(|whose| Op::Tombstone { whose }),
        6 => (vec((whose(), weighted(0.15)), 1..5), 0..4_u8).prop_map(|(whose, number)| Op::Embed { whose, number }),
        2 => (arbitrary::<bool>(), arbitrary::<bool>()).prop_map(|(is_due, to_the_end)| Op::Sweep { is_due, to_the_end }),
        4 => select(CLOCK).prop_map(Op::SetClock),
        4 => select(STEPS).prop_map(Op::Advance),
        1 => Just(Op::Reopen),
    ]
}

/// A recall takes no text, no offset, and only the default order.
fn recall() -> impl Strategy<Value = Op> {
    let number = prop_oneof![1 => Just(None), 3 => (0..4_u8).prop_map(Some)];
    (option::of(select(COLLECTIONS)), question(), select(WORDS), number).prop_map(
        |(collection, question, word, number)| {
            let ask = Ask { text: None, offset: 0, order: Order::NewestFirst, ..question.ask };
            Op::Recall { collection, question: Question { ask, ..question }, word, number }
        },
    )
}

/// Whether a text is large. Few are, because every comparison reads all of them.
fn largeness() -> impl Strategy<Value = bool> {
    weighted(0.01)
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![
        slot().prop_map(|slot| Whose::Memory { slot }),
        (select(COLLECTIONS), slot()).prop_map(|(collection, slot)| Whose::Document { collection, slot }),
    ]
}

fn why() -> impl Strategy<Value = Why> {
    (select(REASONS), who()).prop_map(|(reason, actor)| Why { reason, actor })
}

fn slices() -> impl Strategy<Value = Slices> {
    let limit = prop_oneof![3 => 1..4_usize, 1 => Just(100)];
    (limit, arbitrary::<bool>()).prop_map(|(limit, to_the_end)| Slices { limit, to_the_end })
}

/// The query of an erasure: in most cases it covers little, in one place.
fn erased() -> impl Strategy<Value = Ask> {
    let place = prop_oneof![space().prop_map(Selector::Exact), space().prop_map(Selector::Under)];
    let filter = option::weighted(0.4, condition());
    let text = option::weighted(0.4, select(TEXTS).prop_map(str::to_owned));
    let of_a_place = (place, filter, text).prop_map(|(place, filter, text)| Ask {
        spaces: vec![place],
        filter,
        text,
        ..Ask::everything(MAX_LIMIT)
    });
    prop_oneof![4 => of_a_place, 1 => ask()]
}

fn who() -> impl Strategy<Value = Option<&'static str>> {
    option::of(select(ACTORS))
}

fn watching() -> impl Strategy<Value = Watching> {
    let of = (arbitrary::<bool>(), option::weighted(0.7, select(WATCHED)));
    let of = of.prop_map(|(memories, collections)| Of { memories: memories || collections.is_none(), collections });
    let begins = select(&[Begins::WithASnapshot, Begins::Now][..]);
    (of, question(), begins).prop_map(|(of, question, begins)| Watching { of, question, begins })
}

fn tree() -> impl Strategy<Value = Tree> {
    let collection = option::weighted(0.4, select(COLLECTIONS));
    let limit = prop_oneof![4 => 1..4_usize, 1 => Just(0), 3 => Just(MAX_LIMIT)];
    (collection, option::weighted(0.7, space()), option::weighted(0.4, selector()), 1..4_usize, limit)
        .prop_map(|(collection, under, within, depth, limit)| Tree { collection, under, within, depth, limit })
}

fn slot() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..12_usize, 1 => 0..500_usize]
}

fn item() -> impl Strategy<Value = Item> {
    let key = option::weighted(0.2, select(KEYS));
    let text = (select(TRIGGERS), largeness(), option::of(select(CONTEXTS)), select(METADATA));
    (space(), text, select(TIMES), status(), key, lifetime()).prop_map(
        |(space, (trigger, is_large, context, metadata), created_at, status, key, expires)| Item {
            space,
            trigger,
            is_large,
            context,
            created_at,
            metadata,
            status,
            key,
            expires,
        },
    )
}

fn restored() -> impl Strategy<Value = Restored> {
    let expires = option::weighted(0.2, prop_oneof![select(LIFETIMES), select(&[-1_000_000, 0][..])]);
    (select(MEMORY_IDS), select(REVISIONS), item(), expires).prop_map(|(id, revision, item, expires)| Restored {
        id,
        revision,
        item,
        expires,
    })
}

fn patch() -> impl Strategy<Value = Patch> {
    let metadata = prop_oneof![
        select(METADATA).prop_map(|text| (Mode::Replace, text)),
        select(MERGES).prop_map(|text| (Mode::Merge, text)),
    ];
    let context = option::weighted(0.4, option::of(select(CONTEXTS)));
    let if_revision = option::weighted(0.4, 1..4_u64);
    let expires = option::weighted(0.15, option::weighted(0.7, select(LIFETIMES)));
    (context, option::weighted(0.4, metadata), option::weighted(0.3, status()), expires, if_revision, who()).prop_map(
        |(context, metadata, status, expires, if_revision, actor)| Patch {
            context,
            metadata,
            status,
            expires,
            if_revision,
            actor,
        },
    )
}

fn question() -> impl Strategy<Value = Question> {
    let time = || option::weighted(0.2, select(TIMES));
    (ask(), time(), time(), vec(status(), 0..3), vec(slot(), 0..3))
        .prop_map(|(ask, after, before, statuses, exclude)| Question { ask, after, before, statuses, exclude })
}

fn ask() -> impl Strategy<Value = Ask> {
    let limit = prop_oneof![3 => 1..4_usize, 1 => 10..100_usize, 1 => Just(0), 4 => Just(MAX_LIMIT)];
    let order = select(&[Order::NewestFirst, Order::OldestFirst][..]);
    let filter = option::weighted(0.35, condition());
    let text = option::weighted(0.2, select(TEXTS).prop_map(str::to_owned));
    let offset = prop_oneof![8 => Just(0), 1 => 1..5_usize, 1 => 5..200_usize];
    (vec(selector(), 0..3), option::weighted(0.2, selector()), filter, text, order, limit, offset).prop_map(
        |(spaces, within, filter, text, order, limit, offset)| Ask {
            spaces,
            within,
            filter,
            text,
            order,
            limit,
            offset,
        },
    )
}

fn selector() -> impl Strategy<Value = Selector> {
    prop_oneof![
        2 => space().prop_map(Selector::Exact),
        4 => space().prop_map(Selector::Under),
        4 => space().prop_map(Selector::Prefix),
        1 => select(GLOBS).prop_map(|pattern| Selector::Glob(pattern.to_owned())),
        1 => select(REGEXES).prop_map(|pattern| Selector::Regex(pattern.to_owned())),
    ]
}

fn write() -> impl Strategy<Value = Write> {
    let expect = prop_oneof![
        4 => Just(Expect::Any),
        1 => Just(Expect::Absent),
        2 => (1..4_u64).prop_map(|number| Expect::Revision(Revision::new(number).expect("a valid revision"))),
    ];
    let id = option::weighted(0.8, select(DOCUMENT_IDS));
    let text = (select(CONTENTS), largeness(), select(METADATA));
    (select(COLLECTIONS), id, space(), text, select(TIMES), expect, who(), lifetime()).prop_map(
        |(collection, id, space, (content, is_large, metadata), created_at, expect, actor, expires)| Write {
            collection,
            id,
            space,
            content,
            is_large,
            created_at,
            metadata,
            expect,
            actor,
            expires,
        },
    )
}

/// Few records expire, so that other calls have something to work with.
fn lifetime() -> impl Strategy<Value = Option<i64>> {
    option::weighted(0.15, select(LIFETIMES))
}

fn status() -> impl Strategy<Value = Status> {
    select(&Status::ALL[..])
}

/// A few spaces hold most rows; some others lie deep.
fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(HOT_SPACES).prop_map(str::to_owned),
        3 => short_space(),
        1 => (2..32_usize, select(&["", "-b", "/a", ":"][..]))
            .prop_map(|(depth, end)| format!("a{}{end}", "-b".repeat(depth))),
    ]
}

/// One to three segments. Some are empty, and some are prefixes of others.
fn short_space() -> impl Strategy<Value = String> {
    let segment = || select(&["a", "b", "a1", "", "A", "%"][..]);
    (segment(), vec((select(&["-", "-", "/", ":"][..]), segment()), 0..3)).prop_map(|(first, rest)| {
        let space = rest.iter().fold(first.to_owned(), |space, (boundary, segment)| space + boundary + segment);
        if space.is_empty() { "a".to_owned() } else { space }
    })
}
