//! Chapter V: a valid value comes back unchanged. The types of memory-core refuse invalid values; its own tests check that.

use std::collections::BTreeSet;

use memory_core::{Context, MemoryPatch, Metadata, NewMemory, Order, Status, Timestamp, Trigger};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    at, collection, context, document_id, ids, key, ledger, metadata, new_document, new_memory, space, the, trigger,
    walk,
};

chapter!("values":
    trigger_and_context_bytes_are_kept ["V3"],
    absent_null_and_empty_context_differ ["V3", "W7"],
    unicode_of_all_planes_is_kept ["V3", "V4", "V9"],
    the_largest_values_come_back ["V3", "V4", "V8"],
    hostile_metadata_keys_come_back ["V4"],
    metadata_numbers_are_exact ["V4"],
    metadata_of_every_type_comes_back ["V4", "W7"],
    times_between_the_limits_come_back_in_order ["V5", "Q4"],
    every_status_is_stored_and_set ["V6"],
    hostile_keys_are_told_apart ["V8"],
    contents_come_back_byte_for_byte ["V9"],
);

/// Texts that engines fold, trim, split, quote or interpret, and that must stay apart.
#[rustfmt::skip]
const HOSTILE: [&str; 60] = [
    "a", "A", "a ", " a", " ", "  ", "a-b", "a/b", "a:b", "a-b:c", "a:b-c", "a-b-c", "a:b:c", "a--b", "a-", "-a", "-",
    "/", ":", "::", "a//b", "a%", "%", "a_b", "axb", "_", "a\\b", "\\", "a\\%", "a*", "*", "a?", "?", "[a]", "[", "]",
    "{a}", "{b}a", "a'b", "'; DROP TABLE memories; --", "\"a\"", "`a`", "$a", "$where", "a.b", "a,b", "a;b", "a|b",
    "a&b", "a=b", "a\u{a0}", "null", "0", "00", "caf\u{e9}", "cafe\u{301}", "\u{ff05}", "\u{fb01}", "fi",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
];

/// JSON that parsers change, and that must not be changed.
#[rustfmt::skip]
const VERBATIM: [&str; 24] = [
    "1.50", "1E+2", "1e400", "-0", "-0.0", "0.1000000000000000000000001", "123456789012345678901234567890", "null",
    "true", "\"\"", "\"\\u0000\"", "\"\\u00e9\"", "\"\u{e9}\"", "\"\\/\"", "\"\\ud83d\\ude00\"",
    "\"C:\\\\new\\\\table\"", "{}", "[]", r#"{"b":1,"a":2,"B":3}"#, r#"{"a":1,"a":2}"#,
    r#"{"":"","$set":{"a.b":null}}"#, r#"{"id":"x","_id":1,"_class":[]}"#, r#"["  two  blanks  ","\t\n"]"#,
    "\"'; DROP TABLE memories; --\"",
];

/// A trigger and a context, stored or set, are kept as they were written: numbers, order, duplicates, escapes (langgraph#1878: U+0000 was
/// refused).
async fn trigger_and_context_bytes_are_kept(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let updated = provider.store(new_memory("a", 1)).await?;
    for text in VERBATIM {
        let new = NewMemory::new(space("a"), trigger(text), at(1)).with_context(context(text));
        let stored = provider.store(new).await?;
        provider.update(updated, MemoryPatch::new().set_context(context(text))).await?;
        assert_eq!(the(&*provider, stored).await?.trigger.as_str(), text);
        for id in [stored, updated] {
            let memory = the(&*provider, id).await?;
            assert_eq!(memory.context.as_ref().map(Context::as_str), Some(text));
        }
    }
    let found = ledger(&*provider).await?;
    assert_eq!(found.iter().skip(1).map(|memory| memory.trigger.as_str()).collect::<Vec<_>>(), VERBATIM);
    Ok(())
}

/// An absent context, null and an empty text are three different memories (kukuri#465).
async fn absent_null_and_empty_context_differ(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut expected = Vec::new();
    for text in [None, Some("null"), Some("\"\""), Some("{}"), Some("[]"), Some("false"), Some("0")] {
        let mut memory = new_memory("a", 1);
        memory.context = text.map(context);
        expected.push(memory.clone().into_memory(provider.store(memory).await?));
    }
    assert_eq!(ledger(&*provider).await?, expected);
    provider.shutdown().await?;
    let provider = stage.open().await?;
    assert_eq!(ledger(&*provider).await?, expected, "after a restart");
    for memory in expected {
        provider.update(memory.id, MemoryPatch::new().with_status(Status::Failed)).await?;
        assert_eq!(the(&*provider, memory.id).await?.context, memory.context, "after an update of another field");
    }
    Ok(())
}

/// Characters of all planes are kept as they are, in every field that takes a text.
async fn unicode_of_all_planes_is_kept(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    // Every 61st character of all there are: about 18,000, with every plane among them.
    let text: String = (1..=0x10_ffff).step_by(61).filter_map(char::from_u32).collect();
    let quoted = serde_json::to_string(&text)?;
    let tag: String = text.chars().step_by(8).collect();
    let new = NewMemory::new(space("a"), trigger(&quoted), at(1))
        .with_context(context(&quoted))
        .with_metadata(metadata(&format!("{{{0}:{0}}}", serde_json::to_string(&tag)?)));
    let id = provider.store(new.clone()).await?;
    assert_eq!(the(&*provider, id).await?, new.into_memory(id));
    let write = new_document("notes", "d", "a", &text);
    provider.documents().put(write).await?;
    let document = provider.documents().get(&collection("notes"), &document_id("d")).await?;
    assert_eq!(document.map(|document| document.content.as_str() == text), Some(true), "a content was changed");
    Ok(())
}

/// The largest values fit, in one record, whatever the engine's limit for a value or a row (mcrit#175: an opaque error at 16 MiB). So do
/// the deepest ones, and metadata with many members.
async fn the_largest_values_come_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let text = |bytes: usize| format!("\"{}\"", "\u{e9}".repeat((bytes - 2) / 2));
    let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let members: Vec<_> = (0..5_000).map(|number| format!(r#""k{number:04}":{}"#, number % 10)).collect();
    let largest = format!(r#"{{"a":{}}}"#, text(Metadata::MAX_BYTES - 6));
    for (number, [given, noted, tags]) in [
        [text(Trigger::MAX_BYTES), text(Context::MAX_BYTES), largest],
        [nested(100), nested(100), nested(32)],
        ["1".to_owned(), "1".to_owned(), format!("{{{}}}", members.join(","))],
    ]
    .into_iter()
    .enumerate()
    {
        let (noted, tags) = (context(&noted), metadata(&tags));
        let new = |end: &str| {
            let key = key(&format!("{}{number}{end}", "x".repeat(254)));
            NewMemory::new(space("a"), trigger(&given), at(1)).with_idempotency_key(key)
        };
        let stored = provider.store(new("a").with_context(noted.clone()).with_metadata(tags.clone())).await?;
        let updated = provider.store(new("b")).await?;
        provider.update(updated, MemoryPatch::new().set_context(noted.clone()).replace_metadata(tags.clone())).await?;
        for id in [stored, updated] {
            let found = the(&*provider, id).await?;
            let kept =
                [found.trigger.as_str() == given, found.context.as_ref() == Some(&noted), found.metadata == tags];
            assert_eq!(kept, [true; 3], "whether trigger, context and metadata of record {number} are kept");
        }
        assert_eq!(provider.store(new("b")).await?, updated, "the longest key");
    }
    Ok(())
}

/// Every string is a key (agentscope-java#2698: `.` and `$` were refused or misread), at every level.
async fn hostile_metadata_keys_come_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let odd =
        ["", "$", "$set", "$where", ".", "a.b", "a..b", "\"", "'", "\\", "`", "[0]", "a b", "*", "%", "_id", "\u{1}"];
    for name in HOSTILE.into_iter().chain(odd) {
        let name = serde_json::to_string(name)?;
        let given = metadata(&format!(r#"{{{name}:{{{name}:[{name}]}},"z":1}}"#));
        let id = provider.store(new_memory("a", 1).with_metadata(given.clone())).await?;
        assert_eq!(the(&*provider, id).await?.metadata.as_str(), given.as_str());
        provider.update(id, MemoryPatch::new().merge_metadata(metadata(&format!(r#"{{{name}:null}}"#)))).await?;
        assert_eq!(the(&*provider, id).await?.metadata.as_str(), r#"{"z":1}"#, "the key {name} is not removed");
    }
    let all: String = odd.iter().map(|name| format!("{}:1,", serde_json::to_string(name).expect("a string"))).collect();
    let given = metadata(&format!("{{{}}}", all.trim_end_matches(',')));
    let id = provider.store(new_memory("a", 1).with_metadata(given.clone())).await?;
    assert_eq!(the(&*provider, id).await?.metadata.as_str(), given.as_str(), "all together");
    Ok(())
}

/// Numbers come back with their value (pgstream#686 lost large integers, jupyter-naas/abi#1258 spelled 1e100 out).
async fn metadata_numbers_are_exact(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for (given, kept) in [
        ("0", "0"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775807", "9223372036854775807"),
        ("18446744073709551615", "18446744073709551615"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551616", "1.8446744073709552e19"),
        ("-0.0", "-0.0"),
        ("1.0", "1.0"),
        ("1e2", "100.0"),
        ("1e-7", "1e-7"),
        ("1E100", "1e100"),
        ("0.1", "0.1"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("5e-324", "5e-324"),
        ("2.2250738585072014e-308", "2.2250738585072014e-308"),
        ("1.7976931348623157e308", "1.7976931348623157e308"),
        ("1e-400", "0.0"),
        ("0.1000000000000000055511151231257827", "0.1"),
    ] {
        let id = provider.store(new_memory("a", 1).with_metadata(metadata(&format!(r#"{{"n":{given}}}"#)))).await?;
        // memory-core chooses how a float is written, so it also writes the expected value; only the values must be equal.
        let kept = metadata(&format!(r#"{{"n":{kept}}}"#));
        assert_eq!(the(&*provider, id).await?.metadata.as_str(), kept.as_str(), "given as {given}");
    }
    Ok(())
}

/// Values of different JSON types stay different, even those that look alike, and metadata that replace others leave nothing of them.
async fn metadata_of_every_type_comes_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let updated = provider.store(new_memory("a", 1)).await?;
    for text in [
        "{}",
        r#"{"a":null}"#,
        r#"{"a":true,"b":false}"#,
        r#"{"a":"","b":"null","c":"1","d":"true","e":"{}"}"#,
        r#"{"a":[],"b":{},"c":[[]],"d":[{}],"e":[null]}"#,
        r#"{"a":[1,1.0,"1",true,null,[1],{"1":1}]}"#,
        r#"{"A":1,"a":2,"á":3}"#,
        r#"{"createdAt":1,"id":"x","revision":9,"spaceId":"y"}"#,
        r#"{"a":null,"b":{"d":null}}"#,
        r#"{"":{"$set":1,"a.b":[null]}}"#,
    ] {
        let stored = provider.store(new_memory("a", 1).with_metadata(metadata(text))).await?;
        provider.update(updated, MemoryPatch::new().replace_metadata(metadata(text))).await?;
        for id in [stored, updated] {
            assert_eq!(the(&*provider, id).await?.metadata.as_str(), text);
        }
    }
    Ok(())
}

/// Times of all signs and sizes come back, and sort by value (ai-memory-mcp#3279: they were compared as text).
async fn times_between_the_limits_come_back_in_order(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let (least, most) = (Timestamp::MIN.as_millis(), Timestamp::MAX.as_millis());
    let ends = [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1, -62_135_596_800, 1_700_000_000_123];
    let digits = [9, 10, -10, -9, 99, 100, -100, 999_999_999_999, 1_000_000_000_000, 1_000_000_000_001];
    let mut times = [&[0, most, -1, least, 1, -1_000_000_000_000][..], &ends, &digits].concat();
    let stored = provider.store_many(times.iter().map(|time| new_memory("a-b", *time)).collect()).await?;
    for (id, time) in stored.into_iter().zip(&times) {
        assert_eq!(the(&*provider, id).await?.created_at, at(*time));
    }
    times.sort_unstable();
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let found = walk(&*provider, |query| query.under("a").order(order).limit(2)).await?;
        assert_eq!(found.iter().map(|memory| memory.created_at.as_millis()).collect::<Vec<_>>(), times, "{order:?}");
        times.reverse();
    }
    Ok(())
}

/// Every status can be stored, set and queried, and a memory is pending by default.
async fn every_status_is_stored_and_set(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    assert_eq!(new_memory("a", 1).status, Status::Pending);
    let updated = provider.store(new_memory("updated", 1)).await?;
    for status in Status::ALL {
        let stored = provider.store(new_memory("stored", 1).with_status(status)).await?;
        provider.update(updated, MemoryPatch::new().with_status(status)).await?;
        for id in [stored, updated] {
            assert_eq!(the(&*provider, id).await?.status, status);
        }
        let found = ids(&walk(&*provider, |query| query.all().status(status)).await?);
        assert_eq!(BTreeSet::from_iter(found), BTreeSet::from([stored, updated]), "{status}");
    }
    Ok(())
}

/// Keys are compared as bytes: none is folded, trimmed or cut, so each identifies its own memory.
async fn hostile_keys_are_told_apart(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let long = |last: char| format!("{}{last}", "x".repeat(255));
    let mut keys: Vec<_> = HOSTILE.map(str::to_owned).to_vec();
    keys.extend([long('a'), long('b'), "\u{e9}".repeat(128)]);
    let memory = |name: &str| new_memory("a", 1).with_idempotency_key(key(name));
    let mut stored = Vec::new();
    for name in &keys {
        stored.push(provider.store(memory(name)).await?);
    }
    assert_eq!(BTreeSet::from_iter(&stored).len(), keys.len(), "two keys were taken for one");
    for (name, id) in keys.iter().zip(stored) {
        assert_eq!(provider.store(memory(name)).await?, id, "the key {name:?} does not find its memory");
        assert_eq!(the(&*provider, id).await?.idempotency_key, Some(key(name)));
    }
    Ok(())
}

/// The content of a document is kept with its spaces, line breaks and backslashes (graphiti#1173).
async fn contents_come_back_byte_for_byte(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    #[rustfmt::skip]
    let contents = [
        "", " ", "\r\n a \n\n", "null", "{}", "line\r\nline\n\ttab\u{1}\u{7f}\u{feff}", r"C:\new\users\table\%TEMP%\x",
        "caf\u{e9} cafe\u{301} \u{ff05} \u{fb01}", "日本語 \u{1F600}\u{200D}\u{1F4BB} \u{10FFFF}",
        r#"'; DROP TABLE documents; -- " $x$ {{a}} \u0000"#,
    ];
    for text in contents {
        let put = documents.put(new_document("notes", "d", "a", text)).await?;
        let got = documents.get(&collection("notes"), &document_id("d")).await?;
        assert_eq!(put.content.as_str(), text);
        assert_eq!(got, Some(put), "what was put is what is there");
    }
    Ok(())
}
