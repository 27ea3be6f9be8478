//! F1 to F5: what predicates and built filters find.

mod fields;
mod hostile;
mod tables;
mod values;

use std::collections::BTreeSet;

use memory_core::{Memory, MemoryProvider, Result};

use crate::case::{Case, CaseResult, Stage};
use crate::fixture::{metadata, new_memory, walk};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [tables::cases(), values::cases(), fields::cases(), hostile::cases()].concat()
}

/// Keys that mean something in JSON paths, SQL, Redis or MongoDB.
#[rustfmt::skip]
const ODD_KEYS: [&str; 34] = [
    "", " ", "a b", "a.b", "a-b", "$set", "$where", "$.x", "a[0]", "a'b", "a\"b", "a\\b", "a\nb", "a/b", "~1", "*",
    "?", "%", "_", "select", "NULL", "and", "metadata", "0", "-1", "__proto__", "état", "日本", "😀", "' OR 1=1 --",
    "\"] = 1 OR [\"", "x') --", "topic' = 'rust' OR 'a", "@a:{b}",
];

/// Stores one row for each value, under the key `v` of its metadata.
async fn store_values(provider: &dyn MemoryProvider, values: &[&str]) -> Result<Vec<memory_core::MemoryId>> {
    let row = |(time, value)| new_memory("a", time).with_metadata(metadata(&format!(r#"{{"v":{value}}}"#)));
    provider.store_many((1..).zip(values).map(row).collect()).await
}

async fn count_of(provider: &dyn MemoryProvider, predicate: &str) -> Result<usize> {
    Ok(walk(provider, |query| query.all().filter_text(predicate)).await?.len())
}

/// Checks how many rows each predicate finds.
async fn check_counts(provider: &dyn MemoryProvider, table: &[(&str, usize)]) -> CaseResult {
    for (predicate, count) in table {
        assert_eq!(count_of(provider, predicate).await?, *count, "{predicate}");
    }
    Ok(())
}

/// Stores one row for each value, and one without any, and checks how many of them each predicate finds.
async fn check_values(stage: &Stage, values: &[&str], table: &[(&str, usize)]) -> CaseResult {
    let provider = stage.open().await?;
    store_values(&*provider, values).await?;
    provider.store(new_memory("a", 100)).await?;
    check_counts(&*provider, table).await
}

async fn matches_of(provider: &dyn MemoryProvider, predicate: &str) -> Result<BTreeSet<memory_core::MemoryId>> {
    let found: Vec<Memory> = walk(provider, |query| query.all().filter_text(predicate)).await?;
    Ok(found.iter().map(|memory| memory.id).collect())
}
