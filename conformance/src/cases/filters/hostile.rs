//! Predicates that try to be more than data, and those that are too large.

use memory_core::filter::Field;
use memory_core::{ErrorKind, Filter, MemoryQuery};

use super::{ODD_KEYS, count_of, store_values};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, metadata, new_memory, walk};

chapter!("filters":
    injections_are_data_or_refused ["F5"],
    hostile_keys_are_data ["F1", "F5"],
    an_equality_that_an_engine_can_narrow_by_is_exact ["F5", "F3"],
    the_largest_filters_work ["F5"],
);

/// F5: a hostile text, quoted, is a value and finds nothing. Pasted unchanged, it is refused or is an ordinary filter. The ledger stays
/// unchanged (SQL written by a model).
async fn injections_are_data_or_refused(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let rows =
        [r#"{"topic":"rust"}"#, r#"{"topic":"secret"}"#].map(|json| new_memory("a", 1).with_metadata(metadata(json)));
    provider.store_many(rows.to_vec()).await?;
    let before = walk(&*provider, |query| query.all()).await?;
    #[rustfmt::skip]
    let all = [
        "' OR '1'='1", "'; DROP TABLE memories; --", "x' UNION SELECT * FROM memories --", "' || (SELECT 1) || '",
        "\\'; --", "%", "_", "\\", "\\\\", "${1}", "$1", "?1", ":a", "@a", "{{x}}", "*", "[", "\u{2019} OR 1=1", "'",
        "''", "\"", "`", "a\nb", "x'); DELETE FROM memories; --", "$ne", "{\"$gt\": \"\"}", "\"] OR [\"", "FLUSHALL",
        "EVAL 'x' 0", "@topic:{rust}", "}{", "metadata.topic", "NULL", "rust' --", "rust'/*",
        "rust'\u{a0}OR\u{a0}'a'='a",
    ];
    for hostile in all {
        // Correctly quoted as a value, it is text.
        let quoted = hostile.replace('\'', "''");
        for predicate in
            [format!("metadata.topic = '{quoted}'"), format!("metadata.topic IN ('{quoted}', '{quoted}x')")]
        {
            assert_eq!(count_of(&*provider, &predicate).await?, 0, "{predicate}");
        }
        // Pasted unchanged, it is refused or is text; it never escapes from the filter.
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

/// F1, F5: a filter by a hostile key finds nothing, since no record has the key, and changes nothing (SQL through the key of
/// a filter, CVE-2025-8709).
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

/// F5: if an engine narrows by equal strings, its equality is ours: no folding, trimming, number or prefix.
async fn an_equality_that_an_engine_can_narrow_by_is_exact(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    #[rustfmt::skip]
    let values = [
        "x", "X", "x ", " x", "x\u{301}", "\u{e9}", "e\u{301}", "1", "1.0", "01", "true", "null", "", " ", "\\",
        "\\\\", "\"", "'", "a\nb", "a\tb", "\u{1f600}", "\u{ff05}", "%", "[]", "{}",
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

/// F5: 16 KiB, 14 of 16 levels, 256 conditions and 1,000 values work; levels and values both written and built. No engine
/// sees a filter over a limit.
async fn the_largest_filters_work(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.store(new_memory("a", 1).with_metadata(metadata(r#"{"v":1}"#))).await?;
    let condition = || Field::metadata(["v"]).eq(1);
    let deep = (0..14).fold(condition(), |filter, level| match level % 2 {
        0 => filter.and(condition()),
        _ => filter.or(condition()),
    });
    let text = format!("metadata.v = '{}'", "x".repeat((16 << 10) - 15));
    for (filter, found) in [
        (Filter::parse(&text)?, 0),
        (Filter::parse(&vec!["metadata.v = 1"; 256].join(" OR "))?, 1),
        (Filter::parse(&format!("metadata.v IN ({})", vec!["1"; 1_000].join(",")))?, 1),
        (Filter::parse(&format!("{}metadata.v = 1{}", "(".repeat(14), ")".repeat(14)))?, 1),
        (Field::metadata(["v"]).one_of(vec![1; 1_000]), 1),
        (deep, 1),
    ] {
        let found_by = walk(&*provider, |query| query.all().filter(filter.clone())).await?;
        assert_eq!(found_by.len(), found, "{:.40}", filter.to_string());
    }
    Ok(())
}
