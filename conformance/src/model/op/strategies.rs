//! The strategies that make random calls, and the alphabets that they take values from.

use memory_core::{Expect, MAX_LIMIT, Order, Revision, Status};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any as arbitrary, prop_oneof};
use proptest::sample::select;

use super::{
    Ask, Begins, Call, Item, Mode, Of, Op, Patch, Question, Restored, Selector, Slices, Tree, Watching, Whose, Why,
    Write,
};
use crate::model::condition::condition;

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
