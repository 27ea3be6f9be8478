//! Which values are equal, and how values compare.

use super::{check_counts, check_values, matches_of, store_values};
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{ids, new_memory, walk};

chapter!("filters":
    nine_is_less_than_ten ["F3"],
    large_numbers_compare_exactly ["F3"],
    a_missing_field_is_no_error ["F2"],
    not_equal_is_the_opposite_of_equal ["F2"],
    null_and_missing_are_the_same ["F2"],
    types_are_never_mixed ["F2", "F3"],
    like_minds_case_and_ilike_folds_ascii ["F4"],
    the_wildcards_of_like_can_be_escaped ["F4"],
    any_looks_into_arrays ["F2"],
);

/// F3: numbers compare as numbers (9 that was greater than 10, as text).
async fn nine_is_less_than_ten(stage: Stage) -> CaseResult {
    let table = [
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
    ];
    check_values(&stage, &["9", "10", "9.5", "-1", "-10", "100", "1e1", "0.5", "\"9\"", "\"10\""], &table).await
}

/// F3: integers of 64 bits are exact, and so are comparisons with floats beside them.
async fn large_numbers_compare_exactly(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    #[rustfmt::skip]
    let values = [
        "9007199254740992", "9007199254740993", "9007199254740994", "9223372036854775806", "9223372036854775807",
        "9223372036854775808", "18446744073709551614", "18446744073709551615", "-9223372036854775808",
        "-9223372036854775807", "1e19", "1e300", "-1e300", "1e-7", "-0.0",
    ];
    let stored = store_values(&*provider, &values).await?;
    for (value, id) in values.iter().zip(&stored) {
        let found = walk(&*provider, |query| query.all().filter_text(&format!("metadata.v = {value}"))).await?;
        assert_eq!(ids(&found), [*id], "metadata.v = {value}");
    }
    let table = [
        ("metadata.v > 9007199254740992 AND metadata.v < 9007199254740994", 1),
        ("metadata.v > 9223372036854775807", 5),
        ("metadata.v >= 18446744073709551615", 2),
        ("metadata.v < -9223372036854775807", 2),
        ("metadata.v = 0", 1),
        ("metadata.v > 0 AND metadata.v < 1", 1),
    ];
    check_counts(&*provider, &table).await
}

/// F2: rows without the field, and with other things in its place, are no error (one row that crashed the search).
async fn a_missing_field_is_no_error(stage: Stage) -> CaseResult {
    let table = [
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
    ];
    check_values(&stage, &["5", "null", "\"x\"", "[5]", "{\"w\":5}", "true", "{}", "[]"], &table).await
}

/// F2: each row satisfies either a comparison or its negation (rows without the field satisfied neither).
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

/// F2: missing and JSON null are both `IS NULL`; empty values are not.
async fn null_and_missing_are_the_same(stage: Stage) -> CaseResult {
    let values = ["null", "\"\"", "0", "false", "[]", "{}", "\"null\"", "[null]"];
    let table = [
        ("metadata.v IS NULL", 2),
        ("metadata.v IS NOT NULL", 7),
        ("metadata.v.deeper IS NULL", 9),
        ("metadata.v = 'null'", 1),
    ];
    check_values(&stage, &values, &table).await
}

/// F2, F3: a string is no number, a number is no boolean, and an array equals nothing (an array that matched its
/// element).
async fn types_are_never_mixed(stage: Stage) -> CaseResult {
    let table = [
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
    ];
    let values = ["1", "\"1\"", "true", "\"true\"", "[1]", "[\"1\"]", "[true]", "{\"1\":1}", "1.0"];
    check_values(&stage, &values, &table).await
}

/// F4: `LIKE` minds case, `ILIKE` folds A to Z and no other letter.
async fn like_minds_case_and_ilike_folds_ascii(stage: Stage) -> CaseResult {
    let values =
        ["\"Rust\"", "\"rust\"", "\"RUST\"", "\"Äpfel\"", "\"äpfel\"", "\"\u{212a}\"", "\"k\"", "\"\u{131}\"", "\"I\""];
    let table = [
        ("metadata.v LIKE 'rust'", 1),
        ("metadata.v LIKE 'R%'", 2),
        ("metadata.v ILIKE 'rUsT'", 3),
        ("metadata.v ILIKE 'ä%'", 1),
        ("metadata.v ILIKE 'Ä%'", 1),
        ("metadata.v ILIKE 'K'", 1),
        ("metadata.v ILIKE 'i'", 1),
        ("metadata.v ILIKE '%'", 9),
        ("metadata.v = 'RUST'", 1),
    ];
    check_values(&stage, &values, &table).await
}

/// F4: without `ESCAPE` there is no escape character; with one, the next character means itself.
async fn the_wildcards_of_like_can_be_escaped(stage: Stage) -> CaseResult {
    let values =
        ["\"100%\"", "\"1000\"", "\"a_b\"", "\"axb\"", "\"c:\\\\d\"", "\"a*b\"", "\"x\\ny\"", "\"[a]\"", "\"a\""];
    let table = [
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
    ];
    check_values(&stage, &values, &table).await
}

/// F2: `ANY` compares the elements of an array, by value and type, and nothing else.
async fn any_looks_into_arrays(stage: Stage) -> CaseResult {
    let values =
        ["[\"a\",\"b\"]", "[\"A\"]", "\"a\"", "{\"a\":\"a\"}", "[[\"a\"]]", "[1, 2.0, null, true]", "[]", "[\"ab\"]"];
    let table = [
        ("'a' = ANY(metadata.v)", 1),
        ("'A' = ANY(metadata.v)", 1),
        ("'ab' = ANY(metadata.v)", 1),
        ("2 = ANY(metadata.v)", 1),
        ("'1' = ANY(metadata.v)", 0),
        ("true = ANY(metadata.v)", 1),
        ("'a' = ANY(metadata.v) AND 'b' = ANY(metadata.v)", 1),
        ("'a' = ANY(metadata.v) OR 'A' = ANY(metadata.v)", 2),
        ("'a' = ANY(metadata.v.a)", 0),
    ];
    check_values(&stage, &values, &table).await
}
