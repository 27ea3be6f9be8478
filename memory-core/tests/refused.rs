//! Values that the types of the contract refuse (V2 to V9, Q1, S7, F5, D4), before any engine could see them.

use memory_core::filter::Field;
use memory_core::{
    Collection, Content, Context, DocumentId, DocumentQuery, DocumentSelection, Documents, ErrorKind, Filter,
    IdempotencyKey, MemoryQuery, Metadata, QueryBuilder, Result, Revision, SpaceId, SpaceSelector, Spaces, Status,
    Timestamp, Trigger,
};

use ErrorKind::{InvalidInput, TooLarge};

fn kind<T>(made: Result<T>) -> Option<ErrorKind> {
    made.err().map(|error| error.kind())
}

#[test]
fn spaces_beyond_their_rules() {
    let refused = |id: &str, expected| {
        assert_eq!(kind(SpaceId::parse(id)), Some(expected), "{id:.20?}");
        assert_eq!(kind(SpaceSelector::exact(id)), Some(expected), "exact {id:.20?}");
    };
    for id in ["", "a\0", "a\0b", "\n", "a\nb", "a\tb", "a\u{7f}", "a\u{7f}b", "a\u{85}", "a\u{85}b"] {
        refused(id, InvalidInput);
    }
    for (part, times) in [("x", 513), ("é", 257), ("-", 33), ("a-", 33), ("a/", 33), ("-/:", 11), ("a-b:c/", 11)] {
        refused(&part.repeat(times), TooLarge);
    }
}

/// Also escapes that stand for no text, such as half of a surrogate pair.
#[test]
fn triggers_and_contexts_that_are_not_json() {
    let text = ["", " ", "{", "[1,]", "nul", "'a'", "01", "1 2", "\"\u{1}\""];
    for text in text.into_iter().chain([r#""\ud800""#, r#""\udc00x""#, r#"{"\ud800":1}"#]) {
        assert_eq!(kind(Trigger::parse(text)), Some(InvalidInput), "{text:?}");
        assert_eq!(kind(Context::parse(text)), Some(InvalidInput), "{text:?}");
    }
}

/// Duplicate keys, U+0000 and numbers that overflow would not mean the same on all engines.
#[test]
fn metadata_beyond_their_rules() {
    let twice = [r#"{"a":1,"a":1}"#, r#"{"a":{"b":1,"b":2}}"#, r#"{"a":1,"\u0061":2}"#];
    let others = [r#"{"a":"\u0000"}"#, r#"{"\u0000":1}"#, r#"{"a":1e400}"#, r#"{"a":NaN}"#, r#"{"a":"\ud800"}"#];
    for text in ["", "[]", "1", "null", "{}x"].into_iter().chain(twice).chain(others) {
        assert_eq!(kind(Metadata::parse(text)), Some(InvalidInput), "{text}");
    }
}

/// At its limit each is accepted. White space between tokens does not count.
#[test]
fn values_over_their_sizes() {
    let json = |bytes: usize| format!(" \"{}\" ", "x".repeat(bytes - 2));
    let object = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let text = |bytes: usize| "x".repeat(bytes);
    for (what, at_the_limit, over) in [
        ("trigger", kind(Trigger::parse(&json(4 << 20))), kind(Trigger::parse(&json((4 << 20) + 1)))),
        ("context", kind(Context::parse(&json(8 << 20))), kind(Context::parse(&json((8 << 20) + 1)))),
        ("levels", kind(Trigger::parse(&nested(100))), kind(Trigger::parse(&nested(101)))),
        ("metadata", kind(Metadata::parse(&object(64 << 10))), kind(Metadata::parse(&object((64 << 10) + 1)))),
        ("content", kind(Content::parse(text(1 << 20))), kind(Content::parse(text((1 << 20) + 1)))),
        ("key", kind(IdempotencyKey::parse(text(256))), kind(IdempotencyKey::parse(text(257)))),
        ("id of a document", kind(DocumentId::parse(text(256))), kind(DocumentId::parse(text(257)))),
        ("collection", kind(Collection::parse(text(64))), kind(Collection::parse(text(65)))),
    ] {
        assert_eq!((at_the_limit, over), (None, Some(TooLarge)), "{what}");
    }
}

#[test]
fn names_and_numbers_beyond_their_rules() {
    for text in ["", "a\0", "a\nb", "\u{85}"] {
        assert_eq!(kind(IdempotencyKey::parse(text)), Some(InvalidInput), "{text:?}");
        assert_eq!(kind(DocumentId::parse(text)), Some(InvalidInput), "{text:?}");
    }
    for name in ["", "Pending", "done", "pending "] {
        assert_eq!(kind(Status::parse(name)), Some(InvalidInput), "{name:?}");
    }
    assert_eq!(kind(Content::parse("a\0b")), Some(InvalidInput));
    assert_eq!((kind(Revision::new(0)), kind(Revision::new(1 << 53))), (Some(InvalidInput), Some(InvalidInput)));
}

/// No removal of everything happens by accident.
#[test]
fn removals_that_name_nothing() {
    let collection = || Collection::parse("notes").expect("a valid name");
    let notes = || DocumentQuery::builder(collection());
    let matching = |query: QueryBuilder<Documents>| kind(DocumentSelection::matching(query));
    let everywhere = SpaceSelector::regex(".*").expect("a valid expression");
    for (what, refused) in [
        ("no ids", kind(DocumentSelection::ids(collection(), []))),
        ("all spaces alone", matching(notes().all())),
        ("all spaces, confined", matching(notes().all().within(everywhere))),
        ("no spaces", matching(notes())),
        ("an empty prefix", matching(notes().prefix(""))),
        ("an empty path", matching(notes().under(""))),
    ] {
        assert_eq!(refused, Some(InvalidInput), "{what}");
    }
    let ids = |count: usize| (0..count).map(|place| DocumentId::parse(place.to_string()).expect("a valid id"));
    let named = |count: usize| kind(DocumentSelection::ids(collection(), ids(count)));
    assert_eq!((named(1_000), named(1_001)), (None, Some(TooLarge)));
}

#[test]
fn times_beyond_the_limits() {
    for millis in [i64::MIN, -8_640_000_000_001, 8_640_000_000_001, 1 << 53, i64::MAX] {
        assert_eq!(kind(Timestamp::from_millis(millis)), Some(InvalidInput), "{millis}");
    }
    assert_eq!((Timestamp::MIN.as_millis(), Timestamp::MAX.as_millis()), (-8_640_000_000_000, 8_640_000_000_000));
}

/// No selector never means "everything", and all spaces together with a selector are refused, too.
#[test]
fn queries_that_name_no_space() {
    let within = SpaceSelector::under("guild-1").expect("a valid path");
    for builder in [
        MemoryQuery::builder(),
        MemoryQuery::builder().limit(1),
        MemoryQuery::builder().status(Status::Pending),
        MemoryQuery::builder().within(within),
        MemoryQuery::builder().all().within(Spaces::Any(Vec::new())),
        MemoryQuery::builder().all().exact("a"),
    ] {
        assert_eq!(kind(builder.build()), Some(InvalidInput));
    }
}

#[test]
fn patterns_beyond_their_rules() {
    let (query, long) = (MemoryQuery::builder, "a".repeat(1_025));
    for (what, builder) in [
        ("empty prefix", query().prefix("")),
        ("empty path", query().under("")),
        ("empty glob", query().glob("")),
        ("empty id", query().exact("")),
        ("long prefix", query().prefix(&long)),
        ("long path", query().under(&long)),
        ("long glob", query().glob(&long)),
        ("long regex", query().regex(&long)),
        ("a mistake beside what is right", query().exact("a").prefix("")),
    ] {
        assert_eq!(kind(builder.build()), Some(InvalidInput), "{what}");
    }
    let unfinished = ["(", "[a", "a{2", "*", "a**{", "\\", "(?<n>", "(?x"];
    for regex in unfinished.into_iter().chain(["(?=a)", "\\1", "[z-a]", "a{1000}{1000}{1000}"]) {
        assert_eq!(kind(query().regex(regex).build()), Some(InvalidInput), "{regex}");
    }
}

/// Written as a text and built in Rust; filters at the limit are accepted.
#[test]
fn filters_beyond_their_limits() {
    let condition = || Field::metadata(["v"]).eq(1);
    let (many, one_of) = (
        |count: usize| (1..count).fold(condition(), |filter, _| filter.or(condition())),
        |count: usize| Field::metadata(["v"]).one_of(vec![1; count]),
    );
    let deep = |levels: usize| {
        let deeper = |filter: Filter, level| match level % 2 {
            0 => filter.and(condition()),
            _ => filter.or(condition()),
        };
        (0..levels).fold(condition(), deeper)
    };
    let built = |filter: Filter| kind(MemoryQuery::builder().all().filter(filter).build());
    for within in [many(256), deep(14), one_of(1_000)] {
        assert_eq!(built(within), None);
    }
    for over in [many(257), many(5_000), deep(40), one_of(1_001), Field::metadata(["v"]).eq("x".repeat(17 << 10))] {
        assert_eq!(built(over), Some(TooLarge));
    }
    let written = |text: &str| kind(MemoryQuery::builder().all().filter_text(text).build());
    let text = |bytes: usize| format!("metadata.v = '{}'", "x".repeat(bytes - 15));
    let conditions = |count: usize| vec!["metadata.v = 1"; count].join(" OR ");
    let values = |count: usize| format!("metadata.v IN ({})", vec!["1"; count].join(","));
    let depth = |levels: usize| format!("{}metadata.v = 1{}", "(".repeat(levels), ")".repeat(levels));
    for (within, over) in [
        (text(16 << 10), text((16 << 10) + 1)),
        (conditions(256), conditions(257)),
        (values(1_000), values(1_001)),
        (depth(14), depth(17)),
    ] {
        assert_eq!((written(&within), written(&over)), (None, Some(TooLarge)), "{over:.40}");
    }
    for bomb in ["NOT ".repeat(4_000), "(".repeat(16_000), "metadata.v = 1 AND ".repeat(800), "-".repeat(16_000)] {
        assert!(written(&format!("{bomb}metadata.v = 1")).is_some(), "{bomb:.40}");
    }
}
