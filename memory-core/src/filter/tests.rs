//! The predicates that define the language, and input that nobody would write.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::like::Case;
use super::*;
use crate::{
    Collection, Content, Context, Document, DocumentId, ErrorKind, Memory, MemoryId, Metadata, NewMemory, Number,
    Revision, SpaceId, SpaceSelector, Status, Timestamp, Trigger,
};

const METADATA: &str = r#"{"topic":"rust","n":42,"f":1.5,"big":9007199254740993,"flag":true,"off":false,"nil":null,
    "tags":["news","it's",7,true,null,["x"]],"empty":"","obj":{"a":{"b c":"deep"},"x":1},"select":"kw","odd \"key":"q",
    "":"no name","max":18446744073709551615,"neg":-3,"digits":"42","straße":"ok","1st":1}"#;

fn memory() -> Memory {
    let new = NewMemory::new(
        SpaceId::parse("guild-1-Chan_2").expect("valid"),
        Trigger::parse(r#"{"key":"Happy Birthday","n":5}"#).expect("valid"),
        Timestamp::from_millis(1_700_000_000_000).expect("valid"),
    );
    let new = new.with_context(Context::parse(r#"["100% É"]"#).expect("valid")).with_status(Status::Completed);
    new.with_metadata(Metadata::parse(METADATA).expect("valid")).into_memory(MemoryId::from_bytes([7; 16]))
}

fn document() -> Document {
    Document {
        id: DocumentId::parse("d1").expect("valid"),
        collection: Collection::parse("notes").expect("valid"),
        space_id: SpaceId::parse("guild-1").expect("valid"),
        content: Content::parse("Line one\nline two").expect("valid"),
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(-5).expect("valid"),
        updated_at: Some(Timestamp::from_millis(10).expect("valid")),
        revision: Revision::FIRST,
        expires_at: None,
    }
}

fn parse(text: &str) -> Filter {
    Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn kind(text: &str) -> Option<ErrorKind> {
    Filter::parse(text).err().map(|error| error.kind())
}

/// A predicate, and whether the memory and the document above satisfy it.
const TABLE: &[(&str, bool, bool)] = &[
    // Fields.
    ("id = '07070707-0707-0707-0707-070707070707'", true, false),
    ("id = 'd1'", false, true),
    ("id = '07070707-0707-0707-0707-07070707070'", false, false),
    ("spaceId = 'guild-1'", false, true),
    ("spaceId LIKE 'guild-1%'", true, true),
    ("\"spaceId\" = 'guild-1'", false, true),
    ("createdAt = 1700000000000", true, false),
    ("createdAt = 1.7e12", true, false),
    ("createdAt > 1699999999999.5", true, false),
    ("createdAt = '1700000000000'", false, false),
    ("createdAt = -5", false, true),
    ("createdAt <= - 5", false, true),
    ("updatedAt IS NULL", true, false),
    ("updatedAt IS NOT NULL", false, true),
    ("updatedAt < 11", false, true),
    ("NOT updatedAt < 11", true, false),
    ("status = 'completed'", true, false),
    ("status IS NULL", false, true),
    ("status IN ('completed', 'failed')", true, false),
    ("status <> 'completed'", false, true),
    ("text = 'Happy Birthday\n100% É'", true, false),
    ("text LIKE '%key%'", false, false),
    ("text LIKE 'Line%two'", false, true),
    ("content = 'Line one\nline two'", false, true),
    ("content IS NULL", true, false),
    // LIKE (F4).
    ("text LIKE '%birthday%'", false, false),
    ("text ILIKE '%birthday%'", true, false),
    ("text ILIKE '%é%'", false, false),
    ("text LIKE '%100!%%' ESCAPE '!'", true, false),
    ("text LIKE '%one!%%' ESCAPE '!'", false, false),
    ("text LIKE '%100\\% %' ESCAPE '\\'", true, false),
    ("text LIKE '%100\\%%'", false, false),
    ("spaceId LIKE 'guild_1'", false, true),
    ("spaceId LIKE 'guild'", false, false),
    ("spaceId NOT LIKE 'guild-1'", true, false),
    ("metadata.n LIKE '%'", false, false),
    ("metadata.n NOT LIKE '%'", true, true),
    ("metadata.empty LIKE ''", true, false),
    ("metadata.topic ilike 'RUST'", true, false),
    // Metadata and its keys.
    ("metadata.topic = 'rust'", true, false),
    ("metadata.topic = 'Rust'", false, false),
    ("metadata.Topic = 'rust'", false, false),
    ("metadata . topic = 'rust'", true, false),
    ("metadata ._none IS NULL", true, true),
    ("metadata.\"topic\" = 'rust'", true, false),
    ("metadata.select = 'kw'", true, false),
    ("metadata.\"odd \"\"key\" = 'q'", true, false),
    ("metadata.\"\" = 'no name'", true, false),
    ("metadata.\"1st\" = 1", true, false),
    ("metadata.straße = 'ok'", true, false),
    ("metadata.obj.a.\"b c\" = 'deep'", true, false),
    ("metadata.obj.a = 'deep'", false, false),
    ("metadata.obj.x.y IS NULL", true, true),
    ("metadata.not IS NULL AND metadata.in.and IS NULL", true, true),
    ("metadata.empty = ''", true, false),
    ("metadata.empty IS NULL", false, true),
    // Two values only (F2).
    ("metadata.none = 'x'", false, false),
    ("metadata.none <> 'x'", true, true),
    ("metadata.none != 'x'", true, true),
    ("NOT (metadata.none = 'x')", true, true),
    ("metadata.none < 5 OR metadata.none >= 5", false, false),
    ("metadata.nil IS NULL", true, true),
    ("metadata.nil = 'null'", false, false),
    ("metadata.nil <> 1", true, true),
    ("metadata.topic > 1", false, false),
    ("metadata.n = '42'", false, false),
    ("metadata.digits = 42", false, false),
    ("metadata.flag = 1", false, false),
    ("metadata.flag = TRUE", true, false),
    ("metadata.off = false", true, false),
    ("metadata.flag > false", true, false),
    ("metadata.flag IN (true)", true, false),
    ("metadata.obj = 'x'", false, false),
    ("metadata.obj IS NOT NULL", true, false),
    ("metadata.tags = 'news'", false, false),
    ("metadata.tags <> 'news'", true, true),
    ("metadata.obj <> 1", true, true),
    // Numbers by value, strings by bytes (F3).
    ("metadata.n = 42.0", true, false),
    ("metadata.n = 4.2e1", true, false),
    ("metadata.n = 042", true, false),
    ("metadata.n < 5", false, false),
    ("metadata.n > 5", true, false),
    ("metadata.f = 1.5", true, false),
    ("metadata.f > .5", true, false),
    ("metadata.neg = -3", true, false),
    ("metadata.neg < -2.5", true, false),
    ("metadata.big = 9007199254740993", true, false),
    ("metadata.big = 9007199254740992", false, false),
    ("metadata.big > 9007199254740992.0", true, false),
    ("metadata.max = 18446744073709551615", true, false),
    ("metadata.max < 18446744073709551616", true, false),
    ("metadata.n > -99999999999999999999999999999999999999999999", true, false),
    ("metadata.topic < 'rusu'", true, false),
    ("metadata.topic > 'Z'", true, false),
    ("metadata.digits < '5'", true, false),
    // Lists and ranges.
    ("metadata.n IN (1, '42', 42)", true, false),
    ("metadata.n IN ('42')", false, false),
    ("metadata.n NOT IN (1)", true, true),
    ("metadata.n in ()", false, false),
    ("metadata.n NOT IN ()", true, true),
    ("metadata.n BETWEEN 42 AND 43", true, false),
    ("metadata.n BETWEEN 43 AND 42", false, false),
    ("metadata.n NOT BETWEEN 43 AND 50", true, true),
    ("metadata.neg BETWEEN -4 AND -3 AND metadata.n = 42", true, false),
    ("metadata.topic BETWEEN 'a' AND 's'", true, false),
    // Arrays.
    ("'news' = ANY(metadata.tags)", true, false),
    ("'it''s' = ANY (metadata.tags)", true, false),
    ("7.0 = any(metadata.tags)", true, false),
    ("'7' = ANY(metadata.tags)", false, false),
    ("true = ANY(metadata.tags)", true, false),
    ("'x' = ANY(metadata.tags)", false, false),
    ("NOT 'x' = ANY(metadata.tags)", true, true),
    ("'rust' = ANY(metadata.topic)", false, false),
    ("'d1' = ANY(id)", false, false),
    // Connectives.
    ("metadata.n = 42 AND metadata.f = 0 OR metadata.flag = true", true, false),
    ("metadata.n = 42 AND (metadata.f = 0 OR metadata.flag = false)", false, false),
    ("metadata.flag = true OR metadata.n = 0 AND metadata.f = 0", true, false),
    ("NOT metadata.n = 0 AND metadata.f = 1.5", true, false),
    ("NOT (metadata.n = 0 OR metadata.f = 1.5)", false, true),
    ("NOT NOT metadata.n = 42", true, false),
    ("NOT metadata.n <> 42", true, false),
    ("((metadata.n = 42))", true, false),
    ("not metadata.n = 1\n\tAnd\r\nmetadata.n is not null", true, false),
];

#[test]
fn predicates_match_as_the_table_says() {
    let (memory, document) = (memory(), document());
    for (text, on_memory, on_document) in TABLE {
        let filter = parse(text);
        assert_eq!(filter.matches(&Subject::from(&memory)), *on_memory, "memory: {text}");
        assert_eq!(filter.matches(&Subject::from(&document)), *on_document, "document: {text}");
        assert_eq!(parse(&filter.to_string()), filter, "{text}");
        assert_ne!(filter.negate().matches(&Subject::from(&memory)), *on_memory, "negated: {text}");
    }
}

#[test]
fn mistakes_are_named_by_their_place() {
    for (text, part) in [
        ("", "must not be empty"),
        (" \n", "must not be empty"),
        ("id", "an operator is expected at the end"),
        ("id =", "at the end"),
        ("id = 'x' AND", "at the end"),
        ("id = 'secret", "a quote is left open at column 6"),
        ("id = \"secret\"", "column 6; strings take single quotes"),
        ("id = secret", "column 6"),
        ("id = spaceId", "column 6; strings take single quotes"),
        ("id = NULL", "column 6: use IS NULL"),
        ("id <> NULL", "use IS NULL"),
        ("id IN ('x', NULL)", "column 13: use IS NULL"),
        ("id IN ('x' NULL)", "a comma or a closing parenthesis is expected at column 12"),
        ("Id = 'secret'", "unknown field or word at column 1"),
        ("\"secret\" = 1", "unknown field or word at column 1"),
        ("id = 'x' AND\n  secret = 1", "line 2 column 3"),
        ("id.x = 1", "an operator is expected at column 3"),
        ("metadata = 'x'", "metadata at column 1 needs a key"),
        ("metadata IS NULL", "needs a key"),
        ("metadata.'secret' = 1", "a key is expected at column 10; a key that is no plain word takes double quotes"),
        ("metadata.1 = 1", "column 9"),
        ("metadata.a-b = 1", "an operator is expected at column 11"),
        ("metadata.a[0] = 1", "column 11"),
        ("metadata.a. = 1", "a key is expected at column 13"),
        ("metadata.a->>'b' = 1", "column 11"),
        ("'secret' = id", "a field is expected at column 1; literals stand on the right"),
        ("5 < createdAt", "a field is expected at column 1"),
        ("id NOT = 'x'", "IN, BETWEEN, LIKE or ILIKE is expected at column 8"),
        ("createdAt = -'x'", "a number is expected at column 14"),
        ("id = 'x'; DROP TABLE memories", "column 9"),
        ("id = 'x' id = 'y'", "column 10"),
        ("id = 'x' -- secret", "comments are not allowed, as at column 10"),
        ("id = /* secret */ 'x'", "comments are not allowed, as at column 6"),
        ("lower(id) = 'x'", "column 1"),
        ("id(1) = 1", "column 3"),
        ("id = ('x')", "column 6"),
        ("(id, id) = 1", "column 4"),
        ("id = 'x' || 'y'", "column 10"),
        ("createdAt + 1 = 2", "column 11"),
        ("createdAt - 1 = 2", "an operator is expected at column 11"),
        ("createdAt = 1 - 1", "AND, OR or the end is expected at column 15"),
        ("createdAt = -(1)", "column 14"),
        ("createdAt = +1", "column 13"),
        ("createdAt = 1L", "column 14"),
        ("createdAt = 0x1F", "column 14"),
        ("createdAt = 1e999", "out of range at column 13"),
        ("createdAt = 1 = 2", "AND, OR or the end is expected at column 15"),
        ("createdAt == 1", "column 11"),
        ("createdAt <=> 1", "column 11"),
        ("id = ?", "column 6"),
        ("id = $1", "column 6"),
        ("id = :secret", "column 6"),
        ("id = $$secret$$", "column 6"),
        ("id = X'00'", "column 6"),
        ("id = N'secret'", "column 6"),
        ("id = E'secret'", "column 6"),
        ("id::text = 'x'", "column 3"),
        ("CAST(id AS text) = 'x'", "column 1"),
        ("id COLLATE x = 'x'", "column 4"),
        ("id = DATE '2020-01-01'", "column 6"),
        ("CASE WHEN true THEN true END", "column 1"),
        ("EXISTS (SELECT 1)", "column 1"),
        ("id IN (SELECT 1)", "column 8"),
        ("id IN ('x',)", "column 12"),
        ("id IN 'x'", "column 7"),
        ("id IN (('x'))", "column 8"),
        ("id IN ('x'", "at the end"),
        ("id IN (id)", "a literal is expected at column 8"),
        ("id BETWEEN 1", "at the end"),
        ("id BETWEEN 1 AND id", "a literal is expected at column 18"),
        ("(id = 'x'", "at the end"),
        ("(id = 'x' id", "AND, OR or a closing parenthesis is expected at column 11"),
        ("id = 'x')", "column 9"),
        ("id LIKE 5", "a pattern in single quotes is expected at column 9"),
        ("id LIKE 'x' ESCAPE ''", "one character in single quotes is expected at column 20"),
        ("id LIKE 'x' ESCAPE 'ab'", "column 20"),
        ("id LIKE 'secret!' ESCAPE '!'", "ends with its escape character at column 9"),
        ("id LIKE ANY ('x')", "a literal is expected at column 9"),
        ("id SIMILAR TO 'x'", "column 4"),
        ("id REGEXP 'x'", "column 4"),
        ("'x' <> ANY(metadata.tags)", "literals stand on the right, or before = ANY"),
        ("'x' = ALL(metadata.tags)", "a field is expected at column 1"),
        ("NULL = ANY(metadata.tags)", "use IS NULL"),
        ("'x' = ANY('y')", "a field is expected at column 11"),
        ("id IS TRUE", "NULL or NOT NULL is expected at column 7"),
        ("id NOT NULL", "column 8"),
        ("id NOTNULL", "column 4"),
        ("NOT", "a field is expected at the end"),
        ("NOT id", "an operator is expected at the end"),
        ("true", "a field is expected at column 1"),
        ("id = 'x' AND true", "a field is expected at column 14"),
        ("id = 'a\0b'", "column 6"),
        ("metadata.\"a\0b\" = 1", "column 10"),
        ("*", "column 1"),
        ("id = '\u{1F600}' AND #", "column 14"),
    ] {
        let error = Filter::parse(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}: {error}");
        assert!(error.message().contains(part), "{text}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{text}: {error:?}");
    }
}

#[test]
fn limits_hold_at_the_limit_and_one_over() {
    let too_large = Some(ErrorKind::TooLarge);
    let sized = |bytes: usize| format!("id = '{}'", "x".repeat(bytes - 7));
    let nots = |count: usize| format!("{}id = 'x'", "NOT ".repeat(count));
    let parentheses = |count: usize| format!("{}id IN ('x'){}", "(".repeat(count), ")".repeat(count));
    let conditions = |count: usize| vec!["id = 'x'"; count].join(" AND ");
    let betweens = |count: usize| vec!["id BETWEEN 1 AND 2"; count].join(" AND ");
    let values = |count: usize| format!("id IN ({})", vec!["1"; count].join(","));
    for (at, over) in [
        (sized(MAX_FILTER_BYTES), sized(MAX_FILTER_BYTES + 1)),
        (nots(16), nots(17)),
        (parentheses(16), parentheses(17)),
        (conditions(256), conditions(257)),
        (betweens(128), betweens(129)),
        (values(1000), values(1001)),
    ] {
        assert_eq!(kind(&at), None, "{at}");
        assert_eq!(kind(&over), too_large, "{over}");
    }
    assert_eq!(kind(&format!("id LIKE '{}'", "_".repeat(1024))), None);
    assert_eq!(kind(&format!("id LIKE '{}'", "_".repeat(1025))), Some(ErrorKind::InvalidInput));
}

#[test]
fn limits_hold_for_built_trees() {
    let check = |filter: &Filter| filter.check(RecordSource::Ledger).err().map(|error| error.kind());
    let nested = |depth: usize| {
        (0..depth).fold(Field::Id.eq("x"), |filter, level| {
            if level % 2 == 0 { filter.and(Field::Id.eq(1)) } else { filter.or(Field::Id.eq(1)) }
        })
    };
    let sized = |bytes: usize| Field::metadata(["a"]).eq("x".repeat(bytes - 1));
    let wide = |count: usize| (1..count).fold(Field::Id.eq("x"), |filter, _| filter.or(Field::Id.eq("x")));
    for (at, over) in [
        (nested(16), nested(17)),
        (nested(16), nested(1_000)),
        (wide(256), wide(257)),
        (sized(MAX_FILTER_BYTES), sized(MAX_FILTER_BYTES + 1)),
        (Field::Id.one_of(vec![1; 1000]), Field::Id.one_of(vec![1; 1001])),
    ] {
        assert_eq!(check(&at), None);
        assert_eq!(check(&over), Some(ErrorKind::TooLarge));
    }
    assert_eq!(parse(&nested(16).to_string()), nested(16));
    let invalid = Some(ErrorKind::InvalidInput);
    assert_eq!(check(&Field::CreatedAt.lt(f64::NAN)), invalid);
    assert_eq!(check(&Field::CreatedAt.lt(Number::Int(i128::MAX))), invalid);
    assert_eq!(check(&Field::Id.eq("\0")), invalid);
    assert_eq!(check(&Field::metadata(["\0"]).is_null()), invalid);
    assert_eq!(check(&Field::metadata([""; 0]).is_null()), invalid);
    assert_eq!(check(&Field::metadata([""]).is_null()), None);
}

#[test]
fn each_source_has_its_fields() {
    for (text, ledger, documents) in [
        ("id = 'x' AND NOT status = 'failed'", None, Some("status")),
        ("id = 'x' OR content LIKE '%'", Some("content"), None),
        ("text LIKE '%' AND metadata.content = 1", None, None),
    ] {
        for (source, field) in [(RecordSource::Ledger, ledger), (RecordSource::Documents, documents)] {
            match (parse(text).check(source), field) {
                (Ok(()), None) => {}
                (Err(error), Some(field)) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    assert!(error.message().contains(field), "{error}");
                }
                (result, _) => panic!("{text} on {source:?}: {result:?}"),
            }
        }
    }
}

#[test]
fn builder_and_text_make_the_same_filter() {
    let field = |text: &str| Filter::field(text).expect("a field");
    for (built, text) in [
        (Field::Id.ne("x"), "NOT (id = 'x')"),
        (Field::Id.ne("x").negate(), "id = 'x'"),
        (field("metadata.a.\"b c\"").is_not_null(), "metadata.a.\"b c\" IS NOT NULL"),
        (Field::CreatedAt.between(1, 2), "createdAt >= 1 AND createdAt <= 2"),
        (Field::Status.one_of([Status::Pending, Status::Running]), "status IN ('pending', 'running')"),
        (Field::Text.like_escaped("1!%", '!').expect("valid"), "text LIKE '1!%' ESCAPE '!'"),
        (Field::Text.ilike_escaped("1!%", '!').expect("valid"), "text ILIKE '1!%' ESCAPE '!'"),
        (Field::Id.eq(1).and(Field::Id.eq(2).and(Field::Id.eq(3))), "id = 1 AND (id = 2 AND id = 3)"),
        (Field::Id.eq(1).or(Field::Id.eq(2)).or(Field::Id.eq(3).or(Field::Id.eq(4))), "id=1 OR id=2 OR id=3 OR id=4"),
        (Field::UpdatedAt.lt(Timestamp::MIN), "updatedAt < -8640000000000"),
    ] {
        assert_eq!(parse(text), built, "{text}");
    }
    assert!(Filter::field("id = 1").is_err());
    assert!(Filter::field("id id").is_err());
    assert!(Filter::field("nope").is_err());
    let different = ["id LIKE 'a'", "id ILIKE 'a'", "id LIKE 'a' ESCAPE '!'", "id = 'a'", "id = ANY(metadata.a)"];
    let texts = different.map(|text| Filter::parse(text).map_or(text.to_owned(), |filter| filter.to_string()));
    assert_eq!(texts, different);
}

/// Runs on a thread with a stack as small as those of a runtime.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(test).expect("a thread");
    thread.join().expect("no panic");
}

#[test]
fn pathological_texts_end_in_an_error() {
    on_a_small_stack(|| {
        // Each as long as a predicate may be, and much longer.
        for size in [MAX_FILTER_BYTES, 20 * MAX_FILTER_BYTES] {
            let repeat = |text: &str| text.repeat(size / text.len());
            for text in [
                repeat("NOT "),
                repeat("("),
                repeat("(NOT "),
                repeat("NOT ("),
                repeat("((id = 1) AND "),
                repeat("id = 1 AND "),
                repeat("id AND "),
                repeat("id OR NOT id AND "),
                repeat("id IN ("),
                repeat("id IN (NOT "),
                repeat("1 = ANY("),
                repeat("id = "),
                repeat("id = NOT "),
                repeat("id LIKE NOT "),
                repeat("id BETWEEN "),
                repeat("id BETWEEN 1 AND "),
                repeat("id IS NULL "),
                format!("id {}", repeat("IS NULL ")),
                format!("id {}", repeat("= 1 ")),
                format!("id {}", repeat("BETWEEN 1 AND 2 ")),
                format!("id = {}", repeat("- ")),
                format!("id IN ({}", repeat("1,")),
                format!("metadata{}", repeat(".a")),
                format!("metadata{} = ", repeat(".not")),
                repeat("a."),
                repeat("'"),
                repeat("'' "),
                repeat("\""),
                repeat("\"\"."),
                repeat("/*"),
                repeat("--"),
                repeat("IF("),
                repeat("CASE "),
                repeat("[ "),
                repeat("1"),
                repeat("\u{1F600}"),
            ] {
                assert!(Filter::parse(&text).is_err(), "{}", &text[..16]);
            }
        }
        assert_eq!(kind(&("NOT ".repeat(4_000) + "id = 1")), Some(ErrorKind::TooLarge));
        assert_eq!(kind(&("NOT ".repeat(40_000) + "id = 1")), Some(ErrorKind::TooLarge));
        // As deep and as wide as a filter gets: all that can be done with it stays on the stack.
        let level = "id = 1 OR NOT createdAt < 5 AND (";
        assert_eq!(kind(&format!("{}id = 1{}", level.repeat(16), ")".repeat(16))), Some(ErrorKind::TooLarge));
        let deep = parse(&format!("{}id = 1{}", level.repeat(7), ")".repeat(7)));
        assert_eq!(parse(&deep.to_string()), deep);
        assert!(deep.negate().matches(&Subject::from(&memory())));
        let wide = parse(&(vec!["id = 1"; 256].join(" AND ")));
        assert!(!wide.matches(&Subject::from(&memory())));
    });
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "topic", "n", "f", "flag", "tags", "obj", "a", "b c", "not", "é", "1", "", "\"", "."
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ]
}

fn any_field() -> impl Strategy<Value = Field> {
    prop_oneof![
        prop::sample::select(Field::PLAIN.map(|(_, field)| field).to_vec()),
        vec(key(), 1..4).prop_map(Field::metadata),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-50..50).prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        prop::num::f64::SUBNORMAL.prop_map(Value::from),
        prop::sample::select(vec!["rust", "news", "it's", "''", "--", "d1", "completed", ""]).prop_map(Value::from),
        "[^\\x00]{0,8}".prop_map(Value::from),
    ]
}

fn any_pattern() -> impl Strategy<Value = LikePattern> {
    let escape = prop::option::of(prop::sample::select(vec!['!', '\\', '\'', '%', 'é']));
    ("[%_a-zÉ'!\\\\ ]{0,8}", escape, any::<bool>()).prop_filter_map("ends with its escape", |(text, escape, folds)| {
        LikePattern::new(&text, escape, if folds { Case::IgnoreAscii } else { Case::Sensitive }).ok()
    })
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let condition = prop_oneof![
        (any_field(), any_value(), 0..6).prop_map(|(field, value, comparison)| match comparison {
            0 => field.eq(value),
            1 => field.ne(value),
            2 => field.lt(value),
            3 => field.le(value),
            4 => field.gt(value),
            _ => field.ge(value),
        }),
        (any_field(), vec(any_value(), 0..4)).prop_map(|(field, values)| field.one_of(values)),
        (any_field(), any_pattern()).prop_map(|(field, pattern)| Filter::Like { field, pattern }),
        (any_field(), any_value()).prop_map(|(field, value)| field.any(value)),
        any_field().prop_map(Field::is_null),
    ];
    condition.prop_recursive(5, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| left.and(right)),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| left.or(right)),
            inner.prop_map(Filter::negate),
        ]
    })
}

fn survives_as_text(filter: &Filter) -> TestCaseResult {
    let text = filter.to_string();
    let parsed = Filter::parse(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
    prop_assert_eq!(&parsed, filter);
    prop_assert_eq!(parsed.to_string(), text);
    let (memory, document) = (memory(), document());
    for subject in [Subject::from(&memory), Subject::from(&document)] {
        prop_assert_eq!(parsed.matches(&subject), filter.matches(&subject));
        prop_assert_eq!(parsed.matches(&subject), !filter.clone().negate().matches(&subject));
    }
    Ok(())
}

/// Pieces that look like SQL.
fn soup() -> impl Strategy<Value = String> {
    let pieces = vec![
        "id",
        "status",
        "text",
        "metadata",
        "metadata.a",
        "metadata.select",
        ".",
        "=",
        "<>",
        "!=",
        "<",
        "<=",
        ">=",
        "==",
        "(",
        ")",
        ",",
        "AND",
        "OR",
        "NOT",
        "IN",
        "IN (",
        "BETWEEN",
        "LIKE",
        "ILIKE",
        "ESCAPE",
        "IS",
        "NULL",
        "ANY",
        "= ANY(",
        "TRUE",
        "false",
        "'x'",
        "'it''s'",
        "'",
        "\"",
        "\"x\"",
        "``",
        "5",
        "-",
        "-5",
        "1e5",
        ".5",
        "5.",
        "1e999",
        "0x1F",
        "--",
        "/*",
        "*/",
        ";",
        "$1",
        "$$",
        "?",
        ":x",
        "::",
        "||",
        "->>",
        "CASE",
        "WHEN",
        "SELECT",
        "EXISTS",
        "CAST(",
        "COLLATE",
        "DATE '1'",
        "INTERVAL",
        "E'x'",
        "N'x'",
        "X'00'",
        "U&'x'",
        "[",
        "]",
        "{",
        "}",
        "@",
        "#",
        "\\",
        "é",
        "\u{1F600}",
        "\0",
        "*",
        "+",
        "/",
        "%",
        "~",
        "IF(",
        "ALL",
        "SOME",
        "DISTINCT FROM",
        "SIMILAR TO",
        "AT TIME ZONE",
        "\n",
    ];
    let piece = prop_oneof![9 => prop::sample::select(pieces).prop_map(str::to_owned), 1 => "\\PC{0,3}"];
    (vec(piece, 0..40), any::<bool>()).prop_map(|(pieces, spaced)| pieces.join(if spaced { " " } else { "" }))
}

#[test]
fn a_filter_of_what_lies_under_a_space_is_its_selector() {
    for path in ["a", "a-", "a-b", "a/", "a:", "é"] {
        let path = SpaceId::parse(path).expect("valid");
        let (filter, selector) = (Filter::under(&path), SpaceSelector::under(&path).expect("valid"));
        for space in ["a", "a-", "a-b", "a-b-c", "a/b", "a:b", "ab", "a.", "a0", "a;", "b", "A", "é", "é-x", "éx"] {
            let document = Document { space_id: SpaceId::parse(space).expect("valid"), ..document() };
            assert_eq!(filter.matches(&Subject::from(&document)), selector.matches(space), "{path} {space}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_filters_survive_as_text(filter in any_filter()) {
        prop_assume!(filter.check(RecordSource::Ledger).is_ok() || filter.check(RecordSource::Documents).is_ok());
        survives_as_text(&filter)?;
    }

    #[test]
    fn random_texts_never_panic(text in soup()) {
        if let Ok(filter) = Filter::parse(&text) {
            survives_as_text(&filter)?;
        }
    }
}
