//! `memory:query`: P4 and P5.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::plugin::{MAX_ANSWER_BYTES, Plugin, Scope};
use memory_core::{ErrorKind, NewMemory, Result};
use serde_json::{Value, json};

use super::{QUERY, World, call, call_raw, ids, scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{NOTES, at, context, kind, metadata, new_document, new_memory, space, trigger};

chapter!("plugin":
    query_reads_the_ledger ["P4", "P3"],
    query_walks_in_both_orders ["P4", "Q6"],
    stored_json_comes_byte_for_byte ["P5", "V3"],
    answers_end_at_their_bytes_and_say_so ["P5"],
    damaged_records_are_left_out_and_mentioned ["P5", "Q8"] needs Damage,
);

/// With the source `ledger` the verb returns memories, each with its status, trigger and metadata, and none from outside of the scope.
async fn query_reads_the_ledger(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let arguments = json!({"source": "ledger", "where": "status = 'completed'"});
    let answer = call(&*world.plugin, &scope(), QUERY, arguments).await?;
    let record = json!({"id": "00000000-0000-7000-8000-000000000001", "spaceId": "mine-a", "status": "completed",
                        "createdAt": 1_000, "trigger": {"text": "my event"}, "metadata": {}});
    assert_eq!(answer, json!({ "records": [record] }));
    world.check_and_mend(&[]).await?;
    Ok(())
}

/// A walk by cursor returns each document with a matching word exactly once, in both orders.
async fn query_walks_in_both_orders(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for place in 0..45 {
        let mut write = new_document(NOTES, &format!("{place:02}"), "mine-a", "apple");
        write.created_at = at(place / 10);
        provider.documents().put(write).await?;
    }
    for place in 45..60 {
        let mut write = new_document(NOTES, &place.to_string(), "mine-a", "pear");
        write.created_at = at(place % 5);
        provider.documents().put(write).await?;
    }
    let plugin = provider.plugin();
    for arguments in [json!({}), json!({"text": "apple"})] {
        let first = call(&*plugin, &scope(), QUERY, arguments).await?;
        assert_eq!(ids(&first).len(), 20, "the default limit");
    }
    let all: Vec<_> = (0..45).map(|place| format!("{place:02}")).collect();
    for (order, limit) in [("oldest", 7), ("newest", 7), ("newest", 100)] {
        let arguments = json!({"order": order, "limit": limit, "text": "an apple"});
        let mut walked = walk(&*plugin, &scope(), arguments).await?;
        if order == "newest" {
            walked.reverse();
        }
        assert_eq!(walked, all, "{order}, {limit} at a time");
    }
    Ok(())
}

/// Numbers, keys and escapes of a trigger stay as they were written; a context of `null` is not an absent one.
async fn stored_json_comes_byte_for_byte(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let odd = r#"{"b":1.50,"a":"\u00e9\/","a":12345678901234567890123,"e":1E400}"#;
    let memory = NewMemory::new(space("mine-a"), trigger(odd), at(5)).with_context(context("null"));
    let id = provider.store(memory.with_metadata(metadata(r#"{"n":1e2}"#))).await?;
    let answer = call_raw(&*provider.plugin(), &scope(), QUERY, r#"{"source":"ledger"}"#).await?;
    let record = format!(
        r#"{{"records":[{{"id":"{id}","spaceId":"mine-a","status":"pending","createdAt":5,"trigger":{odd},"context":null,"metadata":{{"n":100.0}}}}]}}"#
    );
    assert_eq!(answer, record);
    Ok(())
}

/// An answer ends at about its limit of bytes, and says how many records it leaves out. Its cursor continues after the last one that it
/// has; the answer to a question has no cursor.
async fn answers_end_at_their_bytes_and_say_so(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    for place in 0..30 {
        let content = format!("apple {}", "é".repeat(3_000));
        provider.documents().put(new_document(NOTES, &format!("{place:02}"), "mine-a", &content)).await?;
        provider.store(new_memory("mine-a", 7).with_context(context(&format!("\"{}\"", "x".repeat(9_000))))).await?;
    }
    let plugin = provider.plugin();
    for arguments in [
        json!({"limit": 30}),
        json!({"limit": 30, "text": "apple"}),
        json!({"limit": 30, "source": "ledger"}),
        json!({"limit": 30, "source": "ledger", "text": "hello", "order": "oldest"}),
        json!({"limit": 30, "question": "apple"}),
    ] {
        let answer = call_raw(&*plugin, &scope(), QUERY, &arguments.to_string()).await?;
        assert!((MAX_ANSWER_BYTES / 2..MAX_ANSWER_BYTES + 1_000).contains(&answer.len()), "{} bytes", answer.len());
        let answer: Value = serde_json::from_str(&answer)?;
        let less_well = if arguments.get("question").is_some() { " that answer less well" } else { "" };
        let left_out = format!("{} records{less_well} did not fit", 30 - ids(&answer).len());
        assert!(answer["cut"][0].as_str().is_some_and(|cut| cut.starts_with(&left_out)), "{}", answer["cut"]);
        let has_cursor = arguments.get("question").is_none();
        assert_eq!(answer.get("cursor").is_some(), has_cursor, "{arguments}");
        if has_cursor {
            let walked: BTreeSet<_> = walk(&*plugin, &scope(), arguments).await?.into_iter().collect();
            assert_eq!(walked.len(), 30);
        }
    }
    Ok(())
}

/// A record that can't be read hides no other, and is mentioned without its id, which can't be trusted.
async fn damaged_records_are_left_out_and_mentioned(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut stored = Vec::new();
    for place in 0..3 {
        stored.push(provider.store(new_memory("mine-a", place)).await?);
    }
    assert!(stage.harness().damage(stage.namespace(), stored[1]).await?);
    let plugin = Arc::clone(&provider).plugin();
    let answer = call(&*plugin, &scope(), QUERY, json!({"source": "ledger"})).await?;
    assert_eq!(ids(&answer), [stored[2].to_string(), stored[0].to_string()]);
    assert_eq!(answer["cut"], json!(["some records are damaged and left out"]));
    assert_eq!(kind(provider.get(stored[1]).await), Some(ErrorKind::Corrupt));
    Ok(())
}

/// The ids of all pages.
async fn walk(plugin: &dyn Plugin, scope: &Scope, mut arguments: Value) -> Result<Vec<String>> {
    let mut walked = Vec::new();
    loop {
        let answer = call(plugin, scope, QUERY, arguments.clone()).await?;
        walked.extend(ids(&answer).into_iter().map(str::to_owned));
        match answer.get("cursor") {
            Some(cursor) => arguments["cursor"] = cursor.clone(),
            None => return Ok(walked),
        }
    }
}
