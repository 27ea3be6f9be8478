//! Chapter V: a valid value comes back unchanged, and an invalid one is refused before it is stored.

use std::collections::BTreeSet;

use memory_core::{
    Content, Context, DocumentId, ErrorKind, IdempotencyKey, MemoryId, MemoryPatch, Metadata, NewMemory, Order, Status,
    Timestamp, Trigger,
};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    at, collection, context, document_id, ids, key, kind, ledger, metadata, new_document, new_memory, space, the,
    trigger, walk,
};

chapter!("values":
    ids_have_one_spelling ["V1"],
    hostile_spaces_come_back_and_find_only_themselves ["V2", "S1", "S6"],
    every_printable_ascii_character_is_a_space ["V2", "S6"],
    space_of_512_bytes_and_32_boundaries_is_taken ["V2"],
    trigger_bytes_are_kept ["V3"],
    context_bytes_are_kept_by_store_and_update ["V3"],
    white_space_between_tokens_goes ["V3"],
    absent_null_and_empty_context_differ ["V3", "W7"],
    unicode_of_all_planes_is_kept ["V3", "V4", "V9"],
    trigger_of_4_mib_is_taken_and_one_byte_more_is_not ["V3"],
    context_of_8_mib_is_taken_and_one_byte_more_is_not ["V3"],
    json_of_100_levels_is_taken_and_one_more_is_not ["V3"],
    hostile_metadata_keys_come_back ["V4"],
    metadata_numbers_are_exact ["V4"],
    metadata_of_every_type_comes_back ["V4"],
    metadata_of_64_kib_is_taken_and_one_byte_more_is_not ["V4"],
    metadata_of_32_levels_is_taken_and_one_more_is_not ["V4"],
    times_between_the_limits_come_back_in_order ["V5", "Q4"],
    many_memories_may_share_a_time ["V5", "Q4"],
    every_status_is_stored_and_set ["V6"],
    revisions_start_at_one ["V7"],
    hostile_keys_are_told_apart ["V8"],
    idempotency_key_of_256_bytes_is_taken_and_one_more_is_not ["V8"],
    contents_come_back_byte_for_byte ["V9"],
    content_of_1_mib_is_taken_and_one_byte_more_is_not ["V9"],
);

/// Ids that engines fold, trim, split, quote or interpret, and that must stay apart.
#[rustfmt::skip]
const HOSTILE: [&str; 60] = [
    "a", "A", "a ", " a", " ", "  ", "a-b", "a/b", "a:b", "a-b:c", "a:b-c", "a-b-c", "a:b:c", "a--b", "a-", "-a", "-",
    "/", ":", "::", "a//b", "a%", "%", "a_b", "axb", "_", "a\\b", "\\", "a\\%", "a*", "*", "a?", "?", "[a]", "[", "]",
    "{a}", "{b}a", "a'b", "'; DROP TABLE memories; --", "\"a\"", "`a`", "$a", "$where", "a.b", "a,b", "a;b", "a|b",
    "a&b", "a=b", "a\u{a0}", "null", "0", "00", "caf\u{e9}", "cafe\u{301}", "\u{ff05}", "\u{fb01}", "fi",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
];

/// An id is read only in its form of 36 characters, and comes back in lower case.
async fn ids_have_one_spelling(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    let text = id.to_string();
    assert_eq!(provider.get(MemoryId::parse(&text)?).await?.map(|memory| memory.id), Some(id));
    assert_eq!(provider.get(MemoryId::parse(&text.to_uppercase())?).await?.map(|memory| memory.id), Some(id));
    for other in [text.replace('-', ""), format!("{{{text}}}"), format!("urn:uuid:{text}"), String::new()] {
        assert_eq!(kind(MemoryId::parse(&other)), Some(ErrorKind::InvalidInput), "{other}");
    }
    Ok(())
}

/// No two spaces meet in one key (langgraphjs#2803: `a`,`b:c` and `a:b`,`c`), and none is folded (open-webui#29186).
async fn hostile_spaces_come_back_and_find_only_themselves(stage: Stage) -> CaseResult {
    assert_spaces_are_apart(&stage, &HOSTILE.map(str::to_owned)).await
}

/// Every character that a keyboard has is an ordinary one (graphiti#1269: escaping missed some).
async fn every_printable_ascii_character_is_a_space(stage: Stage) -> CaseResult {
    let spaces: Vec<_> = (' '..='~').map(|character| format!("x{character}y")).collect();
    assert_spaces_are_apart(&stage, &spaces).await
}

/// The longest id with the most boundaries is stored, and found by each of its ancestors (payload#8787: too large to index).
async fn space_of_512_bytes_and_32_boundaries_is_taken(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let longest = "\u{1f600}".repeat(128);
    let deepest = format!("{}{}", "part-name-/part:".repeat(8), "x".repeat(512 - 128));
    assert_eq!((longest.len(), deepest.len(), deepest.matches(memory_core::BOUNDARIES).count()), (512, 512, 32));
    for name in [longest, deepest] {
        let id = provider.store(new_memory(&name, 1)).await?;
        assert_eq!(the(&*provider, id).await?.space_id.as_str(), name);
        assert_eq!(ids(&walk(&*provider, |query| query.exact(&name)).await?), [id]);
        assert_eq!(ids(&walk(&*provider, |query| query.prefix(&name)).await?), [id]);
        for ancestor in space(&name).ancestors() {
            assert_eq!(ids(&walk(&*provider, |query| query.under(ancestor)).await?), [id], "under {ancestor:?}");
        }
    }
    Ok(())
}

/// JSON that parsers change, and that must not be changed.
#[rustfmt::skip]
const VERBATIM: [&str; 24] = [
    "1.50", "1E+2", "1e400", "-0", "-0.0", "0.1000000000000000000000001", "123456789012345678901234567890", "null",
    "true", "\"\"", "\"\\u0000\"", "\"\\u00e9\"", "\"\u{e9}\"", "\"\\/\"", "\"\\ud83d\\ude00\"",
    "\"C:\\\\new\\\\table\"", "{}", "[]", r#"{"b":1,"a":2,"B":3}"#, r#"{"a":1,"a":2}"#,
    r#"{"":"","$set":{"a.b":null}}"#, r#"{"id":"x","_id":1,"_class":[]}"#, r#"["  two  blanks  ","\t\n"]"#,
    "\"'; DROP TABLE memories; --\"",
];

/// A trigger is kept as it was written: numbers, order, duplicates, escapes (langgraph#1878: U+0000 was refused).
async fn trigger_bytes_are_kept(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for text in VERBATIM {
        let id = provider.store(NewMemory::new(space("a"), trigger(text), at(1))).await?;
        assert_eq!(the(&*provider, id).await?.trigger.as_str(), text);
    }
    let found: Vec<_> = ledger(&*provider).await?;
    assert_eq!(found.iter().map(|memory| memory.trigger.as_str()).collect::<Vec<_>>(), VERBATIM);
    Ok(())
}

/// A context is kept as it was written, both by a store and by an update.
async fn context_bytes_are_kept_by_store_and_update(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let updated = provider.store(new_memory("a", 1)).await?;
    for text in VERBATIM {
        let stored = provider.store(new_memory("a", 1).with_context(context(text))).await?;
        provider.update(updated, MemoryPatch::new().set_context(context(text))).await?;
        for id in [stored, updated] {
            let memory = the(&*provider, id).await?;
            assert_eq!(memory.context.as_ref().map(Context::as_str), Some(text));
        }
    }
    Ok(())
}

/// White space between tokens is removed; within strings it is kept.
async fn white_space_between_tokens_goes(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let given = "\r\n{ \"a b\" :\t[ 1 ,\n 2.0 ] , \"c\" : \" d \" } ";
    let id = provider.store(NewMemory::new(space("a"), trigger(given), at(1)).with_context(context(given))).await?;
    let memory = the(&*provider, id).await?;
    let kept = r#"{"a b":[1,2.0],"c":" d "}"#;
    assert_eq!((memory.trigger.as_str(), memory.context.as_ref().map(Context::as_str)), (kept, Some(kept)));
    Ok(())
}

/// An absent context, null and an empty text are three different memories (kukuri#465).
async fn absent_null_and_empty_context_differ(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut expected = Vec::new();
    for (text, time) in [(None, 1), (Some("null"), 2), (Some("\"\""), 3), (Some("[]"), 4)] {
        let mut memory = new_memory("a", time);
        memory.context = text.map(context);
        expected.push(memory.clone().into_memory(provider.store(memory).await?));
    }
    assert_eq!(ledger(&*provider).await?, expected);
    provider.shutdown().await?;
    assert_eq!(ledger(&*stage.open().await?).await?, expected, "after a restart");
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

/// The largest trigger fits, whatever the engine's limit for a value (mcrit#175: an opaque error at 16 MiB).
async fn trigger_of_4_mib_is_taken_and_one_byte_more_is_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert_eq!(kind(Trigger::parse(&text(Trigger::MAX_BYTES + 1))), Some(ErrorKind::TooLarge));
    assert_eq!(Trigger::MAX_BYTES, 4 << 20);
    let largest = trigger(&text(Trigger::MAX_BYTES));
    let id = provider.store(NewMemory::new(space("a"), largest.clone(), at(1))).await?;
    assert!(the(&*provider, id).await?.trigger == largest, "a large trigger was changed");
    Ok(())
}

/// The largest context fits, beside the largest trigger, stored or set.
async fn context_of_8_mib_is_taken_and_one_byte_more_is_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let text = |bytes: usize| format!("\"{}\"", "\u{e9}".repeat((bytes - 2) / 2));
    assert_eq!(kind(Context::parse(&format!("{} ", text(Context::MAX_BYTES + 2)))), Some(ErrorKind::TooLarge));
    assert_eq!(Context::MAX_BYTES, 8 << 20);
    let (large_trigger, largest) = (trigger(&text(Trigger::MAX_BYTES)), context(&text(Context::MAX_BYTES)));
    let new = NewMemory::new(space("a"), large_trigger, at(1));
    let stored = provider.store(new.clone().with_context(largest.clone())).await?;
    let updated = provider.store(new).await?;
    provider.update(updated, MemoryPatch::new().set_context(largest.clone())).await?;
    for id in [stored, updated] {
        assert!(the(&*provider, id).await?.context.as_ref() == Some(&largest), "a large context was changed");
    }
    Ok(())
}

/// Deep JSON is stored unchanged; deeper than the limit, it is refused before a parser could overflow.
async fn json_of_100_levels_is_taken_and_one_more_is_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let nested =
        |depth: usize| format!("{}{}", r#"[{"a":"#.repeat(depth / 2), "}]".repeat(depth / 2)).replace(r#":}"#, ":1}");
    let id = provider.store(new_memory("a", 1).with_context(context(&nested(100)))).await?;
    let memory = the(&*provider, id).await?;
    assert_eq!(memory.context.as_ref().map(Context::as_str), Some(&*nested(100)));
    for depth in [102, 1_000, 100_000] {
        assert_eq!(kind(Context::parse(&nested(depth))), Some(ErrorKind::TooLarge), "{depth} levels");
        assert_eq!(kind(Trigger::parse(&nested(depth))), Some(ErrorKind::TooLarge), "{depth} levels");
    }
    assert_eq!(kind(Trigger::parse(&format!("[{}]", nested(100)))), Some(ErrorKind::TooLarge), "101 levels");
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
        // The spelling of a float is memory-core's own; its value is not.
        let kept = metadata(&format!(r#"{{"n":{kept}}}"#));
        assert_eq!(the(&*provider, id).await?.metadata.as_str(), kept.as_str(), "given as {given}");
    }
    Ok(())
}

/// Values of different JSON types stay different, even those that look alike.
async fn metadata_of_every_type_comes_back(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for text in [
        "{}",
        r#"{"a":null}"#,
        r#"{"a":true,"b":false}"#,
        r#"{"a":"","b":"null","c":"1","d":"true","e":"{}"}"#,
        r#"{"a":[],"b":{},"c":[[]],"d":[{}],"e":[null]}"#,
        r#"{"a":[1,1.0,"1",true,null,[1],{"1":1}]}"#,
        r#"{"A":1,"a":2,"á":3}"#,
        r#"{"createdAt":1,"id":"x","revision":9,"spaceId":"y"}"#,
    ] {
        let stored = provider.store(new_memory("a", 1).with_metadata(metadata(text))).await?;
        let updated = provider.store(new_memory("a", 1)).await?;
        provider.update(updated, MemoryPatch::new().replace_metadata(metadata(text))).await?;
        for id in [stored, updated] {
            assert_eq!(the(&*provider, id).await?.metadata.as_str(), text);
        }
    }
    Ok(())
}

/// The largest metadata fit, as one value and as many.
async fn metadata_of_64_kib_is_taken_and_one_byte_more_is_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let one = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
    assert_eq!(kind(Metadata::parse(&one((64 << 10) + 1))), Some(ErrorKind::TooLarge));
    let many: Vec<_> = (0..5_000).map(|number| format!(r#""k{number:04}":{}"#, number % 10)).collect();
    for text in [one(64 << 10), format!("{{{}}}", many.join(","))] {
        let id = provider.store(new_memory("a", 1).with_metadata(metadata(&text))).await?;
        assert!(the(&*provider, id).await?.metadata.as_str() == text, "large metadata were changed");
    }
    Ok(())
}

/// The deepest metadata fit.
async fn metadata_of_32_levels_is_taken_and_one_more_is_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let arrays = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
    for text in [objects(32), arrays(32)] {
        let id = provider.store(new_memory("a", 1).with_metadata(metadata(&text))).await?;
        assert_eq!(the(&*provider, id).await?.metadata.as_str(), text);
    }
    for text in [objects(33), arrays(33), objects(50_000)] {
        assert_eq!(kind(Metadata::parse(&text)), Some(ErrorKind::TooLarge));
    }
    Ok(())
}

/// Times of all signs and sizes come back, and sort by value (ai-memory-mcp#3279: they were compared as text).
async fn times_between_the_limits_come_back_in_order(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let times = [
        0,
        Timestamp::MAX.as_millis(),
        -1,
        999_999_999_999,
        1_000_000_000_000,
        1_000_000_000_001,
        9,
        10,
        Timestamp::MIN.as_millis(),
        -10,
        -9,
        -1_000_000_000_000,
        1,
        i64::from(i32::MAX) + 1,
        i64::from(i32::MIN) - 1,
    ];
    provider.store_many(times.map(|time| new_memory("a", time)).to_vec()).await?;
    let mut expected = times;
    expected.sort_unstable();
    for _ in 0..2 {
        let times = |memories: Vec<memory_core::Memory>| -> Vec<_> {
            memories.iter().map(|memory| memory.created_at.as_millis()).collect()
        };
        assert_eq!(times(ledger(&*provider).await?), expected);
        let mut newest = times(walk(&*provider, |query| query.exact("a").order(Order::NewestFirst)).await?);
        newest.reverse();
        assert_eq!(newest, expected);
    }
    Ok(())
}

/// 500 memories of one millisecond come in the order in which they were stored (openai-agents-python#1900).
async fn many_memories_may_share_a_time(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut stored = provider.store_many(vec![new_memory("a", 7); 480]).await?;
    for _ in 0..20 {
        stored.push(provider.store(new_memory("a", 7)).await?);
    }
    assert_eq!(ids(&ledger(&*provider).await?), stored);
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
    for name in ["", "Pending", "done", "pending "] {
        assert_eq!(kind(Status::parse(name)), Some(ErrorKind::InvalidInput), "{name:?}");
    }
    Ok(())
}

/// A new record has revision 1, and each record counts for itself.
async fn revisions_start_at_one(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(vec![new_memory("a", 1), new_memory("b", 2)]).await?;
    for expected in 2..5 {
        let updated = provider.update(stored[0], MemoryPatch::new().clear_context()).await?;
        assert_eq!(updated.revision.get(), expected);
    }
    assert_eq!(the(&*provider, stored[1]).await?.revision.get(), 1);
    let document = provider.documents().put(new_document("notes", "d", "a", "text")).await?;
    assert_eq!(document.revision.get(), 1);
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

/// The longest key is valid.
async fn idempotency_key_of_256_bytes_is_taken_and_one_more_is_not(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let memory = new_memory("a", 1).with_idempotency_key(key(&"x".repeat(256)));
    let id = provider.store(memory.clone()).await?;
    assert_eq!(provider.store(memory).await?, id);
    for (text, error) in [
        ("x".repeat(257), ErrorKind::TooLarge),
        (String::new(), ErrorKind::InvalidInput),
        ("a\0".to_owned(), ErrorKind::InvalidInput),
        ("a\nb".to_owned(), ErrorKind::InvalidInput),
    ] {
        assert_eq!(kind(IdempotencyKey::parse(&text)), Some(error), "{text:?}");
        assert_eq!(kind(DocumentId::parse(&text)), Some(error), "{text:?}");
    }
    Ok(())
}

/// The content of a document is kept with its spaces, line breaks and backslashes (graphiti#1173).
async fn contents_come_back_byte_for_byte(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    for text in
        ["", " ", "\r\n a \n\n", "C:\\Users\\new\\table", "\u{1}\u{7f}\u{feff}", "cafe\u{301} \u{ff05}", "null", "{}"]
    {
        let put = documents.put(new_document("notes", "d", "a", text)).await?;
        let got = documents.get(&collection("notes"), &document_id("d")).await?;
        assert_eq!(put.content.as_str(), text);
        assert_eq!(got, Some(put), "what was put is what is there");
    }
    Ok(())
}

/// The largest document fits.
async fn content_of_1_mib_is_taken_and_one_byte_more_is_not(stage: Stage) -> CaseResult {
    let documents = stage.open().await?.documents();
    let largest = "word ".repeat(1 << 18).split_off((5 << 18) - (1 << 20));
    assert_eq!(kind(Content::parse(format!("{largest}x"))), Some(ErrorKind::TooLarge));
    assert_eq!(kind(Content::parse("a\0b")), Some(ErrorKind::InvalidInput));
    documents.put(new_document("notes", "d", "a", &largest)).await?;
    let got = documents.get(&collection("notes"), &document_id("d")).await?;
    assert_eq!(got.map(|document| document.content.as_str() == largest), Some(true), "a large content was changed");
    Ok(())
}

/// Stores a memory in each space, and checks that each space finds only its own.
async fn assert_spaces_are_apart(stage: &Stage, spaces: &[String]) -> CaseResult {
    let provider = stage.open().await?;
    let stored = provider.store_many(spaces.iter().map(|name| new_memory(name, 1)).collect()).await?;
    for (name, id) in spaces.iter().zip(stored) {
        assert_eq!(the(&*provider, id).await?.space_id.as_str(), name);
        let found = walk(&*provider, |query| query.exact(name)).await?;
        assert_eq!(ids(&found), [id], "the space {name:?} does not find itself alone");
    }
    Ok(())
}
