//! `memory:query`: P4 and P5.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::plugin::{MAX_ANSWER_BYTES, Plugin, Scope};
use memory_core::{ErrorKind, NewMemory, Result};
use serde_json::{Value, json};

use super::{NOTES, QUERY, World, call, call_raw, ids, scope};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, kind, metadata, new_document, new_memory, space, trigger};

chapter!("plugin":
    query_finds_by_text_and_condition ["P4"],
    query_answers_a_question ["P4", "P2", "R1"],
    query_reads_the_ledger ["P4", "P3"],
    text_finds_in_the_ledger ["P4", "P2", "T3"],
    query_walks_in_both_orders ["P4", "Q6"],
    stored_json_comes_byte_for_byte ["P5", "V3"],
    answers_end_at_their_bytes_and_say_so ["P5"],
    damaged_records_are_left_out_and_mentioned ["P5", "Q8"] needs Damage,
);

/// Text and condition find, each alone and both together.
async fn query_finds_by_text_and_condition(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    for (arguments, expected) in [
        (json!({}), &["mine-3", "mine-2", "mine-1"][..]),
        (json!({"order": "oldest"}), &["mine-1", "mine-2", "mine-3"]),
        (json!({"order": "newest", "limit": 1}), &["mine-3"]),
        (json!({"text": "Banana?"}), &["mine-2"]),
        (json!({"text": "cake pie", "where": "id <> 'mine-1'"}), &["mine-3"]),
        (json!({"text": "apple pie, banana"}), &["mine-2", "mine-1"]),
        (json!({"text": "apple banana", "order": "oldest", "limit": 2}), &["mine-1", "mine-2"]),
        (json!({"where": "metadata.topic = 'fruit' AND content LIKE '%p%'", "order": "oldest"}), &["mine-1", "mine-2"]),
        (json!({"source": "documents", "space": "mine-b"}), &["mine-2"]),
        (json!({"collection": NOTES, "space": "mine-a"}), &["mine-1"]),
        (json!({"text": "nothing like it"}), &[]),
    ] {
        let answer = call(&*world.plugin, &scope(), QUERY, arguments.clone()).await?;
        assert_eq!(ids(&answer), expected, "{arguments}");
        assert_eq!(answer.get("cut"), None, "nothing was left out of {arguments}");
        let is_over = arguments.get("limit") != Some(&json!(1));
        assert_eq!(answer.get("cursor").is_none(), is_over, "{arguments}");
    }
    let answer = call(&*world.plugin, &scope(), QUERY, json!({"text": "apple"})).await?;
    let record = json!({"id": "mine-1", "collection": NOTES, "spaceId": "mine-a", "content": "apple pie", "createdAt": 1_000,
                        "revision": 1, "metadata": {"topic": "fruit"}});
    assert_eq!(answer, json!({ "records": [record] }));
    Ok(())
}

/// A question is answered best first, and only from the scope.
async fn query_answers_a_question(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    for (arguments, expected) in [
        (json!({"question": "Which apples were there?", "limit": 1}), &["mine-1"][..]),
        (json!({"question": "bananas", "where": "metadata.topic = 'fruit'", "limit": 1}), &["mine-2"]),
        (json!({"question": "apples", "space": "mine-b"}), &[]),
        (json!({"question": "what was the"}), &[]),
    ] {
        let answer = call(&*world.plugin, &scope(), QUERY, arguments.clone()).await?;
        assert_eq!(ids(&answer), expected, "{arguments}");
    }
    let event = json!({"source": "ledger", "question": "Were there any events?", "limit": 1});
    assert_eq!(ids(&call(&*world.plugin, &scope(), QUERY, event).await?), ["00000000-0000-7000-8000-000000000001"]);
    for refused in [
        json!({"question": "pies", "text": "pies"}),
        json!({"question": "pies", "order": "oldest"}),
        json!({"question": "pies", "cursor": "x"}),
    ] {
        let error = call(&*world.plugin, &scope(), QUERY, refused.clone()).await.expect_err("they don't go together");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{refused}");
    }
    world.check_and_mend(&[]).await?;
    Ok(())
}

/// The ledger is read by the same arguments, and its records show what happened.
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

/// Text finds in the ledger as it does among documents: records in the scope, newest first unless the call says
/// otherwise.
async fn text_finds_in_the_ledger(stage: Stage) -> CaseResult {
    let world = World::new(stage.open().await?).await?;
    let mine = "00000000-0000-7000-8000-000000000001";
    let later = world.provider.store(new_memory("mine-b", 5_000)).await?.to_string();
    let later = later.as_str();
    for (arguments, expected) in [
        (json!({"text": "event"}), vec![mine]),
        (json!({"text": "Hello, event!"}), vec![later, mine]),
        (json!({"text": "hello event", "order": "oldest"}), vec![mine, later]),
        (json!({"text": "hello event", "where": "status = 'completed'"}), vec![mine]),
        (json!({"text": "hello event", "space": "mine-b"}), vec![later]),
        (json!({"text": "xyzzy text even"}), vec![]),
        (json!({"text": "?"}), vec![]),
    ] {
        let mut asked = arguments.clone();
        asked["source"] = json!("ledger");
        assert_eq!(ids(&call(&*world.plugin, &scope(), QUERY, asked).await?), expected, "{arguments}");
    }
    Ok(())
}

/// Walking by the cursor shows every document that has a word once, in both orders.
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

/// An answer ends before its limit of bytes, says how many records it leaves out, and its cursor continues after the
/// last one.
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
