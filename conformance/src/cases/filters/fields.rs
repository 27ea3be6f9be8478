//! The fields of a filter.

use memory_core::filter::Field;
use memory_core::{MemoryPatch, Status};

use super::{ODD_KEYS, check_counts};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, metadata, new_memory, trigger, walk};

chapter!("filters":
    odd_keys_are_found ["F1"],
    dots_in_a_key_and_paths_are_different ["F1"],
    text_is_what_trigger_and_context_say ["F1"],
    every_field_can_be_named ["F1"],
);

/// F1: any key can be named in double quotes, including those that have a meaning in engines.
async fn odd_keys_are_found(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut stored = Vec::new();
    for key in ODD_KEYS {
        let json = format!("{{{}:\"here\"}}", serde_json::to_string(key)?);
        stored.push(provider.store(new_memory("a", 1).with_metadata(metadata(&json))).await?);
    }
    let mut failures = Vec::new();
    for (key, id) in ODD_KEYS.iter().zip(stored) {
        let predicate = format!("metadata.\"{}\" = 'here'", key.replace('"', "\"\""));
        let written = ids(&walk(&*provider, |query| query.all().filter_text(&predicate)).await?);
        let filter = Field::metadata([*key]).like("he%")?;
        let built = ids(&walk(&*provider, |query| query.all().filter(filter.clone())).await?);
        if written != [id] || built != [id] {
            failures.push(key);
        }
    }
    assert!(failures.is_empty(), "keys that are not found, or found as another: {failures:?}");
    Ok(())
}

/// F1: `metadata.a.b` is a path, `metadata."a.b"` a key.
async fn dots_in_a_key_and_paths_are_different(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows =
        [r#"{"a.b":"key"}"#, r#"{"a":{"b":"path"}}"#, r#"{"a.b":"both","a":{"b":"both"}}"#, r#"{"a":{"b.c":"path"}}"#];
    provider.store_many(rows.map(|json| new_memory("a", 1).with_metadata(metadata(json))).to_vec()).await?;
    let table = [
        ("metadata.\"a.b\" IS NOT NULL", 2),
        ("metadata.a.b IS NOT NULL", 2),
        ("metadata.\"a\".\"b\" = 'path'", 1),
        ("metadata.a.\"b.c\" = 'path'", 1),
        ("metadata.\"a.b\" = 'path'", 0),
        ("metadata.a.b.c IS NOT NULL", 0),
    ];
    check_counts(&*provider, &table).await
}

/// F1: `text` has the string values of trigger and context, unescaped and however deep, and no keys.
async fn text_is_what_trigger_and_context_say(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let row = |json: &str| memory_core::NewMemory::new(crate::fixture::space("a"), trigger(json), at(1));
    let rows = [
        row(r#"{"user":"Ada","parts":[{"say":"good morning"},"caf\u00e9"],"n":42}"#),
        row(r#""only a string""#).with_context(context(r#"{"steps":[{"result":"The Birthday Cake"}]}"#)),
        row("{\"morning\":1,\"quote\":\"she said \\\"hi\\\"\"}").with_context(context("null")),
        row("7"),
    ];
    provider.store_many(rows.to_vec()).await?;
    let table = [
        ("text LIKE '%good morning%'", 1),
        ("text LIKE '%morning%'", 1),
        ("text ILIKE '%birthday cake%'", 1),
        ("text LIKE '%birthday%'", 0),
        ("text LIKE '%café%'", 1),
        ("text LIKE '%\"hi\"%'", 1),
        ("text LIKE '%42%'", 0),
        ("text LIKE '%Ada%' OR text LIKE '%only%'", 2),
        ("text NOT LIKE '%a%'", 1),
    ];
    check_counts(&*provider, &table).await
}

/// F1: id, spaceId, createdAt, updatedAt, status, text and metadata are fields of the ledger.
async fn every_field_can_be_named(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = [new_memory("a-b", 5), new_memory("a-c", 6).with_status(Status::Failed)];
    let stored = provider.store_many(rows.to_vec()).await?;
    provider.update(stored[1], MemoryPatch::new().merge_metadata(metadata(r#"{"x":1}"#))).await?;
    for predicate in [
        &format!("id = '{}'", stored[1]),
        "spaceId = 'a-c'",
        "spaceId LIKE '%c'",
        "createdAt = 6",
        "createdAt > 5 AND createdAt <= 6",
        "updatedAt = 1000000",
        "updatedAt IS NOT NULL",
        "status = 'failed'",
        "status NOT IN ('pending', 'running')",
        "text = 'hello' AND metadata.x = 1",
        "text LIKE 'hel%' AND status <> 'pending'",
    ] {
        let found = walk(&*provider, |query| query.under("a").filter_text(predicate)).await?;
        assert_eq!(ids(&found), [stored[1]], "{predicate}");
    }
    Ok(())
}
