//! F1 to F5: what predicates and built filters find.

use std::collections::BTreeSet;

use memory_core::filter::Field;
use memory_core::{ErrorKind, Filter, Memory, MemoryPatch, MemoryProvider, MemoryQuery, Order, Result, Status};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, metadata, new_memory, trigger, walk};
use crate::golden;

chapter!("filters":
    predicates_follow_the_table ["F1", "F2", "F3", "F4", "F5"],
    predicates_confine_and_combine_as_other_conditions_do ["F5", "Q1", "Q3"],
    refused_predicates_change_nothing ["F1", "F2"],
    a_filter_goes_with_selector_order_and_limit ["F5", "Q3", "Q4"],
    a_filter_sees_what_an_update_wrote ["F5", "W1"],
    a_built_filter_finds_what_its_text_finds ["F5"],
    nine_is_less_than_ten ["F3"],
    large_numbers_compare_exactly ["F3"],
    a_missing_field_is_no_error ["F2"],
    not_equal_is_the_opposite_of_equal ["F2"],
    null_and_missing_are_the_same ["F2"],
    types_are_never_mixed ["F2", "F3"],
    like_minds_case_and_ilike_folds_ascii ["F4"],
    the_wildcards_of_like_can_be_escaped ["F4"],
    any_looks_into_arrays ["F2"],
    odd_keys_are_found ["F1"],
    dots_in_a_key_and_paths_are_different ["F1"],
    text_is_what_trigger_and_context_say ["F1"],
    every_field_can_be_named ["F1"],
    injections_are_data_or_refused ["F5"],
    hostile_keys_are_data ["F1", "F5"],
    an_equality_that_an_engine_can_narrow_by_is_exact ["F5", "F3"],
    limits_hold_at_the_limit_and_one_over ["F5"],
    built_trees_have_the_same_limits ["F5"],
);

/// F1 to F5: predicates find what `golden/predicates.json` says.
async fn predicates_follow_the_table(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let table = golden::predicates();
    provider.restore(table.rows.iter().map(|row| row.memory.clone()).collect()).await?;
    let mut failures = Vec::new();
    for line in &table.matches {
        let found = ids(&walk(&*provider, |query| query.all().filter_text(&line.predicate)).await?);
        let names: Vec<_> =
            table.rows.iter().filter(|row| found.contains(&row.memory.id)).map(|row| row.name.as_str()).collect();
        if names != line.finds || found.len() != names.len() {
            failures.push(format!("{} finds {names:?} and not {:?}", line.id, line.finds));
        }
    }
    assert!(failures.is_empty(), "lines of predicates.json that fail:\n{}", failures.join("\n"));
    Ok(())
}

/// F5: each predicate of the table gives the same rows with selectors, pages and both orders.
async fn predicates_confine_and_combine_as_other_conditions_do(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let table = golden::predicates();
    provider.restore(table.rows.iter().map(|row| row.memory.clone()).collect()).await?;
    let mut failures = Vec::new();
    for line in &table.matches {
        let expected: BTreeSet<_> = table
            .rows
            .iter()
            .filter(|row| line.finds.contains(&row.name) && row.memory.status == Status::Completed)
            .filter(|row| row.memory.space_id.as_str().starts_with("guild-"))
            .map(|row| row.memory.id)
            .collect();
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let found = walk(&*provider, |query| {
                query.under("guild").status(Status::Completed).filter_text(&line.predicate).order(order).limit(2)
            });
            let found = ids(&found.await?);
            if found.len() != expected.len() || BTreeSet::from_iter(found) != expected {
                failures.push(format!("{} {order:?}", line.id));
            }
        }
    }
    assert!(failures.is_empty(), "lines of predicates.json that fail: {failures:?}");
    Ok(())
}

/// F1, F2: what is no predicate is refused with the kind that the table says, and nothing happens to the rows.
async fn refused_predicates_change_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let table = golden::predicates();
    provider.restore(table.rows.iter().map(|row| row.memory.clone()).collect()).await?;
    let before = walk(&*provider, |query| query.all()).await?;
    let mut failures = Vec::new();
    for line in &table.refused {
        match MemoryQuery::builder().all().filter_text(&line.predicate).build() {
            Err(error) if format!("{:?}", error.kind()) == line.error => {}
            Err(error) => failures.push(format!("{}: {error}", line.id)),
            Ok(query) => {
                failures.push(format!("{} is accepted: {:?}", line.id, provider.query(&query).await.map(|_| ())));
            }
        }
    }
    assert!(failures.is_empty(), "lines of predicates.json that fail:\n{}", failures.join("\n"));
    assert_eq!(walk(&*provider, |query| query.all()).await?, before);
    Ok(())
}

/// F5: filter, spaces, order and limit apply together, over several pages.
async fn a_filter_goes_with_selector_order_and_limit(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows = (0..60).map(|number| {
        let metadata = metadata(&format!(r#"{{"topic":"t{}","score":{}}}"#, number % 3, number % 10));
        new_memory(["a-x", "a-y", "ab"][number as usize % 4 % 3], number).with_metadata(metadata)
    });
    let stored = provider.store_many(rows.collect()).await?;
    let expected: Vec<_> = (0..60).filter(|n| n % 4 % 3 != 2 && n % 3 == 0 && n % 10 >= 4).map(|n| stored[n]).collect();
    assert!(expected.len() > 5);
    for limit in [1, 2, 50] {
        let build = |query: memory_core::QueryBuilder<_>| {
            query.under("a").filter_text("metadata.topic = 't0' AND metadata.score >= 4").limit(limit)
        };
        let found = walk(&*provider, |query| build(query).order(Order::OldestFirst)).await?;
        assert_eq!(ids(&found), expected, "{limit} a page");
        let found = walk(&*provider, build).await?;
        assert_eq!(ids(&found), Vec::from_iter(expected.iter().rev().copied()), "{limit} a page");
    }
    Ok(())
}

/// F5: metadata, status, context and updatedAt are those after the last update (an index that kept the old ones).
async fn a_filter_sees_what_an_update_wrote(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1).with_metadata(metadata(r#"{"topic":"old","keep":1}"#))).await?;
    stage.namespace().clock.set(at(5_000));
    let patch = MemoryPatch::new().merge_metadata(metadata(r#"{"topic":"new"}"#)).set_context(context(r#""found""#));
    provider.update(id, patch.with_status(Status::Completed)).await?;
    for (predicate, count) in [
        ("metadata.topic = 'new'", 1),
        ("metadata.topic = 'old'", 0),
        ("metadata.keep = 1", 1),
        ("status = 'completed'", 1),
        ("status = 'pending'", 0),
        ("text LIKE '%found%'", 1),
        ("updatedAt = 5000", 1),
        ("updatedAt IS NULL", 0),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    provider.update(id, MemoryPatch::new().clear_context().replace_metadata(metadata("{}"))).await?;
    for (predicate, count) in [("metadata.topic IS NULL", 1), ("metadata.topic = 'new'", 0), ("text LIKE '%found%'", 0)]
    {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F5: a filter can be built in Rust or written; both are the same.
async fn a_built_filter_finds_what_its_text_finds(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let table = golden::predicates();
    provider.restore(table.rows.iter().map(|row| row.memory.clone()).collect()).await?;
    for (built, text, finds) in [
        (Field::metadata(["topic"]).eq("rust"), "metadata.topic = 'rust'", 1),
        (Field::metadata(["topic"]).ne("rust"), "metadata.topic <> 'rust'", 11),
        (Field::metadata(["score"]).between(9, 10), "metadata.score BETWEEN 9 AND 10", 3),
        (Field::metadata(["nested", "deep", "x"]).ge(1), "metadata.nested.deep.x >= 1", 1),
        (Field::metadata(["a.b"]).eq(1), "metadata.\"a.b\" = 1", 1),
        (Field::metadata(["topic"]).one_of(["rust", "go"]), "metadata.topic IN ('rust', 'go')", 2),
        (Field::metadata(["tags"]).any("b"), "'b' = ANY(metadata.tags)", 2),
        (Field::metadata(["topic"]).is_null().negate(), "metadata.topic IS NOT NULL", 8),
        (Field::metadata(["topic"]).ilike("RU%")?, "metadata.topic ILIKE 'RU%'", 2),
        (Field::Status.eq("pending").or(Field::Status.eq("running")), "status IN ('pending', 'running')", 2),
        (Field::CreatedAt.gt(1_000).and(Field::CreatedAt.lt(4_000)), "createdAt > 1000 AND createdAt < 4000", 2),
    ] {
        let by_tree = walk(&*provider, |query| query.all().filter(built.clone())).await?;
        let by_text = walk(&*provider, |query| query.all().filter_text(text)).await?;
        assert_eq!((ids(&by_tree), by_tree.len()), (ids(&by_text), finds), "{text}");
    }
    Ok(())
}

/// F3: numbers compare as numbers (9 that was greater than 10, as text).
async fn nine_is_less_than_ten(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_values(&*provider, &["9", "10", "9.5", "-1", "-10", "100", "1e1", "0.5", "\"9\"", "\"10\""]).await?;
    for (predicate, count) in [
        ("metadata.v < 10", 5),
        ("metadata.v > 9", 4),
        ("metadata.v >= 10", 3),
        ("metadata.v = 10", 2),
        ("metadata.v = 10.0", 2),
        ("metadata.v <= -1", 2),
        ("metadata.v BETWEEN 9 AND 10", 4),
        ("metadata.v < 1 AND metadata.v > 0", 1),
        ("metadata.v IN (9, 100)", 2),
        ("metadata.v = '9'", 1),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F3: integers of 64 bits are exact, and so are comparisons with floats beside them.
async fn large_numbers_compare_exactly(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let values = [
        "9007199254740992",
        "9007199254740993",
        "9007199254740994",
        "9223372036854775806",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551614",
        "18446744073709551615",
        "-9223372036854775808",
        "-9223372036854775807",
        "1e19",
        "1e300",
        "-1e300",
        "1e-7",
        "-0.0",
    ];
    let stored = store_values(&*provider, &values).await?;
    for (value, id) in values.iter().zip(&stored) {
        let found = walk(&*provider, |query| query.all().filter_text(&format!("metadata.v = {value}"))).await?;
        assert_eq!(ids(&found), [*id], "metadata.v = {value}");
    }
    for (predicate, count) in [
        ("metadata.v > 9007199254740992 AND metadata.v < 9007199254740994", 1),
        ("metadata.v > 9223372036854775807", 5),
        ("metadata.v >= 18446744073709551615", 2),
        ("metadata.v < -9223372036854775807", 2),
        ("metadata.v = 0", 1),
        ("metadata.v > 0 AND metadata.v < 1", 1),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F2: rows without the field, and with other things in its place, are no error (one row that crashed the search).
async fn a_missing_field_is_no_error(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_values(&*provider, &["5", "null", "\"x\"", "[5]", "{\"w\":5}", "true", "{}", "[]"]).await?;
    provider.store(new_memory("a", 100)).await?;
    for (predicate, count) in [
        ("metadata.v = 5", 1),
        ("metadata.v > 4", 1),
        ("metadata.v.w = 5", 1),
        ("metadata.v.w.x = 5", 0),
        ("metadata.v LIKE '%'", 1),
        ("metadata.v IN (5, 'x')", 2),
        ("metadata.v BETWEEN 1 AND 9", 1),
        ("5 = ANY(metadata.v)", 1),
        ("metadata.nowhere = 5", 0),
        ("metadata.nowhere.deeper > 'x'", 0),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F2: each row satisfies a comparison or its negation, never both and never neither (rows without the field that were in
/// neither).
async fn not_equal_is_the_opposite_of_equal(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_values(&*provider, &["5", "null", "\"x\"", "[5]", "{\"w\":5}", "true", "\"\"", "6"]).await?;
    provider.store(new_memory("a", 100)).await?;
    for (predicate, opposite) in [
        ("metadata.v = 5", "metadata.v <> 5"),
        ("metadata.v = 'x'", "metadata.v != 'x'"),
        ("metadata.v = true", "NOT metadata.v = true"),
        ("metadata.v < 6", "NOT (metadata.v < 6)"),
        ("metadata.v IN (5, 6)", "metadata.v NOT IN (5, 6)"),
        ("metadata.v BETWEEN 5 AND 6", "metadata.v NOT BETWEEN 5 AND 6"),
        ("metadata.v LIKE '%'", "metadata.v NOT LIKE '%'"),
        ("metadata.v IS NULL", "metadata.v IS NOT NULL"),
        ("5 = ANY(metadata.v)", "NOT 5 = ANY(metadata.v)"),
        ("metadata.v = 5 OR metadata.v = 6", "metadata.v <> 5 AND metadata.v <> 6"),
    ] {
        let (some, others) = (matches_of(&*provider, predicate).await?, matches_of(&*provider, opposite).await?);
        assert!(!some.is_empty() && some.is_disjoint(&others), "{predicate}");
        assert_eq!(some.len() + others.len(), 9, "{predicate} and {opposite} leave rows out");
    }
    Ok(())
}

/// F2: missing and JSON null are both `IS NULL`; empty values are not; `= NULL` is refused.
async fn null_and_missing_are_the_same(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_values(&*provider, &["null", "\"\"", "0", "false", "[]", "{}", "\"null\"", "[null]"]).await?;
    provider.store(new_memory("a", 100)).await?;
    assert_eq!(count_of(&*provider, "metadata.v IS NULL").await?, 2);
    assert_eq!(count_of(&*provider, "metadata.v IS NOT NULL").await?, 7);
    assert_eq!(count_of(&*provider, "metadata.v.deeper IS NULL").await?, 9);
    assert_eq!(count_of(&*provider, "metadata.v = 'null'").await?, 1);
    for predicate in ["metadata.v = NULL", "metadata.v <> NULL", "metadata.v IN (NULL)", "NULL = ANY(metadata.v)"] {
        assert_eq!(kind_of(predicate), Some(ErrorKind::InvalidInput), "{predicate}");
    }
    Ok(())
}

/// F2, F3: a string is no number, a number no boolean, and an array equals nothing (an array that matched its element).
async fn types_are_never_mixed(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    store_values(&*provider, &["1", "\"1\"", "true", "\"true\"", "[1]", "[\"1\"]", "[true]", "{\"1\":1}", "1.0"])
        .await?;
    for (predicate, count) in [
        ("metadata.v = 1", 2),
        ("metadata.v = '1'", 1),
        ("metadata.v = true", 1),
        ("metadata.v = 'true'", 1),
        ("metadata.v >= '0'", 2),
        ("metadata.v >= 0", 2),
        ("metadata.v IN (1, '1', true)", 4),
        ("1 = ANY(metadata.v)", 1),
        ("'1' = ANY(metadata.v)", 1),
        ("metadata.v = '[1]'", 0),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F4: `LIKE` minds case, `ILIKE` folds A to Z and no other letter.
async fn like_minds_case_and_ilike_folds_ascii(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let values =
        ["\"Rust\"", "\"rust\"", "\"RUST\"", "\"Äpfel\"", "\"äpfel\"", "\"\u{212a}\"", "\"k\"", "\"\u{131}\"", "\"I\""];
    store_values(&*provider, &values).await?;
    for (predicate, count) in [
        ("metadata.v LIKE 'rust'", 1),
        ("metadata.v LIKE 'R%'", 2),
        ("metadata.v ILIKE 'rUsT'", 3),
        ("metadata.v ILIKE 'ä%'", 1),
        ("metadata.v ILIKE 'Ä%'", 1),
        ("metadata.v ILIKE 'K'", 1),
        ("metadata.v ILIKE 'i'", 1),
        ("metadata.v ILIKE '%'", 9),
        ("metadata.v = 'RUST'", 1),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F4: without `ESCAPE` there is no escape character; with one, the next character means itself.
async fn the_wildcards_of_like_can_be_escaped(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let values =
        ["\"100%\"", "\"1000\"", "\"a_b\"", "\"axb\"", "\"c:\\\\d\"", "\"a*b\"", "\"x\\ny\"", "\"[a]\"", "\"a\""];
    store_values(&*provider, &values).await?;
    for (predicate, count) in [
        ("metadata.v LIKE '100%'", 2),
        ("metadata.v LIKE '100!%' ESCAPE '!'", 1),
        ("metadata.v LIKE '100\\%'", 0),
        ("metadata.v LIKE '100\\%' ESCAPE '\\'", 1),
        ("metadata.v LIKE 'a_b'", 3),
        ("metadata.v LIKE 'a!_b' ESCAPE '!'", 1),
        ("metadata.v LIKE 'c:\\d'", 1),
        ("metadata.v LIKE 'a*b'", 1),
        ("metadata.v LIKE 'x_y'", 1),
        ("metadata.v LIKE '[a]'", 1),
        ("metadata.v LIKE 'a'", 1),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F2: `ANY` looks at the elements of an array, by value and type, and at nothing else.
async fn any_looks_into_arrays(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let values =
        ["[\"a\",\"b\"]", "[\"A\"]", "\"a\"", "{\"a\":\"a\"}", "[[\"a\"]]", "[1, 2.0, null, true]", "[]", "[\"ab\"]"];
    store_values(&*provider, &values).await?;
    for (predicate, count) in [
        ("'a' = ANY(metadata.v)", 1),
        ("'A' = ANY(metadata.v)", 1),
        ("'ab' = ANY(metadata.v)", 1),
        ("2 = ANY(metadata.v)", 1),
        ("'1' = ANY(metadata.v)", 0),
        ("true = ANY(metadata.v)", 1),
        ("'a' = ANY(metadata.v) AND 'b' = ANY(metadata.v)", 1),
        ("'a' = ANY(metadata.v) OR 'A' = ANY(metadata.v)", 2),
        ("'a' = ANY(metadata.v.a)", 0),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F1: any key can be named in double quotes, also those that engines give a meaning to.
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
    for (predicate, count) in [
        ("metadata.\"a.b\" IS NOT NULL", 2),
        ("metadata.a.b IS NOT NULL", 2),
        ("metadata.\"a\".\"b\" = 'path'", 1),
        ("metadata.a.\"b.c\" = 'path'", 1),
        ("metadata.\"a.b\" = 'path'", 0),
        ("metadata.a.b.c IS NOT NULL", 0),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
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
    for (predicate, count) in [
        ("text LIKE '%good morning%'", 1),
        ("text LIKE '%morning%'", 1),
        ("text ILIKE '%birthday cake%'", 1),
        ("text LIKE '%birthday%'", 0),
        ("text LIKE '%café%'", 1),
        ("text LIKE '%\"hi\"%'", 1),
        ("text LIKE '%42%'", 0),
        ("text LIKE '%Ada%' OR text LIKE '%only%'", 2),
        ("text NOT LIKE '%a%'", 1),
    ] {
        assert_eq!(count_of(&*provider, predicate).await?, count, "{predicate}");
    }
    Ok(())
}

/// F1: id, spaceId, createdAt, updatedAt, status, text and metadata are fields of the ledger; `content` is not.
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
    assert_eq!(kind_of("content = 'x'"), Some(ErrorKind::InvalidInput));
    Ok(())
}

/// F5: hostile predicates are refused or find nothing, and the ledger is what it was (SQL written by a model).
async fn injections_are_data_or_refused(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows =
        [r#"{"topic":"rust"}"#, r#"{"topic":"secret"}"#].map(|json| new_memory("a", 1).with_metadata(metadata(json)));
    provider.store_many(rows.to_vec()).await?;
    let before = walk(&*provider, |query| query.all()).await?;
    for hostile in [
        "' OR '1'='1",
        "'; DROP TABLE memories; --",
        "x' UNION SELECT * FROM memories --",
        "' || (SELECT 1) || '",
        "\\'; --",
        "%",
        "_",
        "\\",
        "\\\\",
        "${1}",
        "$1",
        "?1",
        ":a",
        "@a",
        "{{x}}",
        "*",
        "[",
        "\u{2019} OR 1=1",
        "'",
        "''",
        "\"",
        "`",
        "a\nb",
        "x'); DELETE FROM memories; --",
        "$ne",
        "{\"$gt\": \"\"}",
        "\"] OR [\"",
        "FLUSHALL",
        "EVAL 'x' 0",
        "@topic:{rust}",
        "}{",
        "metadata.topic",
        "NULL",
        "rust' --",
        "rust'/*",
        "rust'\u{a0}OR\u{a0}'a'='a",
    ] {
        // As a value, rightly quoted, it is text.
        let quoted = hostile.replace('\'', "''");
        for predicate in
            [format!("metadata.topic = '{quoted}'"), format!("metadata.topic IN ('{quoted}', '{quoted}x')")]
        {
            assert_eq!(count_of(&*provider, &predicate).await?, 0, "{predicate}");
        }
        // Pasted as it is, it is refused or it is text; it never opens what the filter closes.
        for predicate in [
            format!("metadata.topic = '{hostile}'"),
            format!("metadata.topic = '{hostile}"),
            format!("metadata.topic = {hostile}"),
            format!("metadata.{hostile} = 'x'"),
            hostile.to_owned(),
        ] {
            match MemoryQuery::builder().exact("a").filter_text(&predicate).build() {
                Ok(query) => drop(provider.query(&query).await?),
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::TooLarge),
                    "{predicate} gives {error}"
                ),
            }
        }
    }
    assert_eq!(walk(&*provider, |query| query.all()).await?, before);
    Ok(())
}

/// F1, F5: a hostile key finds what stands under it, and nothing else happens (SQL through the key of a filter,
/// CVE-2025-8709).
async fn hostile_keys_are_data(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(new_memory("a", 1).with_metadata(metadata(r#"{"topic":"rust","x":{"y":1}}"#))).await?;
    let before = walk(&*provider, |query| query.all()).await?;
    for key in ODD_KEYS {
        for filter in [
            Field::metadata([key]).eq("rust"),
            Field::metadata([key, "y"]).eq(1),
            Field::metadata(["x", key]).eq(1),
            Field::metadata([key]).any("rust"),
            Field::metadata([key]).like("%")?,
        ] {
            let found = walk(&*provider, |query| query.all().filter(filter.clone())).await?;
            assert_eq!(found, [], "{key}");
        }
    }
    assert_eq!(walk(&*provider, |query| query.all()).await?, before);
    Ok(())
}

/// F5: where an engine narrows by equal strings, its idea of equal is ours: no folding, trimming, number or prefix.
async fn an_equality_that_an_engine_can_narrow_by_is_exact(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let values = [
        "x",
        "X",
        "x ",
        " x",
        "x\u{301}",
        "\u{e9}",
        "e\u{301}",
        "1",
        "1.0",
        "01",
        "true",
        "null",
        "",
        " ",
        "\\",
        "\\\\",
        "\"",
        "'",
        "a\nb",
        "a\tb",
        "\u{1f600}",
        "\u{ff05}",
        "%",
        "[]",
        "{}",
    ];
    let long = ["z".repeat(5_000), format!("{}y", "z".repeat(5_000))];
    let values: Vec<&str> = values.into_iter().chain(long.iter().map(String::as_str)).collect();
    let json = values.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>()?;
    let stored = store_values(&*provider, &json.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    for (value, id) in values.iter().zip(&stored) {
        for filter in [Field::metadata(["v"]).eq(*value), Field::metadata(["v"]).one_of([*value])] {
            let found = walk(&*provider, |query| query.all().filter(filter.clone())).await?;
            assert_eq!(ids(&found), [*id], "{value:.20?}");
        }
    }
    Ok(())
}

/// F5: 16 KiB, 16 levels, 256 conditions and 1,000 values work; one more is `TooLarge`.
async fn limits_hold_at_the_limit_and_one_over(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(new_memory("a", 1).with_metadata(metadata(r#"{"v":1}"#))).await?;
    let text = |bytes: usize| format!("metadata.v = '{}'", "x".repeat(bytes - 15));
    let conditions = |count: usize| vec!["metadata.v = 1"; count].join(" OR ");
    let values = |count: usize| format!("metadata.v IN ({})", vec!["1"; count].join(","));
    let depth = |levels: usize| format!("{}metadata.v = 1{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(text(16 << 10).len(), 16 << 10);
    for (within, found, over) in [
        (text(16 << 10), 0, text((16 << 10) + 1)),
        (conditions(256), 1, conditions(257)),
        (values(1_000), 1, values(1_001)),
        (depth(14), 1, depth(17)),
    ] {
        assert_eq!(count_of(&*provider, &within).await?, found, "{within:.40}");
        assert_eq!(kind_of(&over), Some(ErrorKind::TooLarge), "{over:.40}");
    }
    for bomb in ["NOT ".repeat(4_000), "(".repeat(16_000), "metadata.v = 1 AND ".repeat(800), "-".repeat(16_000)] {
        assert!(kind_of(&format!("{bomb}metadata.v = 1")).is_some(), "{bomb:.40}");
    }
    Ok(())
}

/// F5: a tree that is built in Rust has the limits of a text.
async fn built_trees_have_the_same_limits(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(new_memory("a", 1).with_metadata(metadata(r#"{"v":1}"#))).await?;
    let condition = || Field::metadata(["v"]).eq(1);
    let many = |count: usize| (1..count).fold(condition(), |filter, _| filter.or(condition()));
    let deep = |levels: usize| {
        (0..levels).fold(
            condition(),
            |filter, level| {
                if level % 2 == 0 { filter.and(condition()) } else { filter.or(condition()) }
            },
        )
    };
    let kind = |filter: Filter| MemoryQuery::builder().all().filter(filter).build().err().map(|error| error.kind());
    for within in [many(256), deep(14), Field::metadata(["v"]).one_of(vec![1; 1_000])] {
        assert_eq!(walk(&*provider, |query| query.all().filter(within.clone())).await?.len(), 1);
    }
    for over in [
        many(257),
        many(5_000),
        deep(40),
        Field::metadata(["v"]).one_of(vec![1; 1_001]),
        Field::metadata(["v"]).eq("x".repeat(17 << 10)),
    ] {
        assert_eq!(kind(over), Some(ErrorKind::TooLarge));
    }
    Ok(())
}

/// Keys with a meaning in JSON paths, SQL, Redis and MongoDB.
const ODD_KEYS: [&str; 34] = [
    "",
    " ",
    "a b",
    "a.b",
    "a-b",
    "$set",
    "$where",
    "$.x",
    "a[0]",
    "a'b",
    "a\"b",
    "a\\b",
    "a\nb",
    "a/b",
    "~1",
    "*",
    "?",
    "%",
    "_",
    "select",
    "NULL",
    "and",
    "metadata",
    "0",
    "-1",
    "__proto__",
    "état",
    "日本",
    "😀",
    "' OR 1=1 --",
    "\"] = 1 OR [\"",
    "x') --",
    "topic' = 'rust' OR 'a",
    "@a:{b}",
];

/// A row for each value, under the key `v` of its metadata.
async fn store_values(provider: &dyn MemoryProvider, values: &[&str]) -> Result<Vec<memory_core::MemoryId>> {
    let row = |(time, value)| new_memory("a", time).with_metadata(metadata(&format!(r#"{{"v":{value}}}"#)));
    provider.store_many((1..).zip(values).map(row).collect()).await
}

async fn count_of(provider: &dyn MemoryProvider, predicate: &str) -> Result<usize> {
    Ok(walk(provider, |query| query.all().filter_text(predicate)).await?.len())
}

async fn matches_of(provider: &dyn MemoryProvider, predicate: &str) -> Result<BTreeSet<memory_core::MemoryId>> {
    let found: Vec<Memory> = walk(provider, |query| query.all().filter_text(predicate)).await?;
    Ok(found.iter().map(|memory| memory.id).collect())
}

/// The kind of the error with which a predicate is refused.
fn kind_of(predicate: &str) -> Option<ErrorKind> {
    MemoryQuery::builder().all().filter_text(predicate).build().err().map(|error| error.kind())
}
