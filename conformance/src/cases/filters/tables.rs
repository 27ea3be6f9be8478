//! The predicates of the golden table, alone and combined with the rest of a query.

use std::collections::BTreeSet;

use memory_core::{MemoryPatch, Order, Status};

use super::check_counts;
use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{at, context, ids, metadata, new_memory, walk};
use crate::golden;

chapter!("filters":
    predicates_follow_the_table ["F1", "F2", "F3", "F4", "F5"],
    predicates_confine_and_combine_as_other_conditions_do ["F5", "Q1", "Q3"],
    a_filter_sees_what_an_update_wrote ["F5", "W1"],
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

/// F5: each predicate of the table, together with a selector and a status, finds those of its rows that satisfy them, in small pages and
/// both orders.
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

/// F5: metadata, status, context and updatedAt are those after the last update (an index that kept the old ones).
async fn a_filter_sees_what_an_update_wrote(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1).with_metadata(metadata(r#"{"topic":"old","keep":1}"#))).await?;
    stage.namespace().clock.set(at(5_000));
    let patch = MemoryPatch::new().merge_metadata(metadata(r#"{"topic":"new"}"#)).set_context(context(r#""found""#));
    provider.update(id, patch.with_status(Status::Completed)).await?;
    let table = [
        ("metadata.topic = 'new'", 1),
        ("metadata.topic = 'old'", 0),
        ("metadata.keep = 1", 1),
        ("status = 'completed'", 1),
        ("status = 'pending'", 0),
        ("text LIKE '%found%'", 1),
        ("updatedAt = 5000", 1),
        ("updatedAt IS NULL", 0),
    ];
    check_counts(&*provider, &table).await?;
    provider.update(id, MemoryPatch::new().clear_context().replace_metadata(metadata("{}"))).await?;
    let table = [("metadata.topic IS NULL", 1), ("metadata.topic = 'new'", 0), ("text LIKE '%found%'", 0)];
    check_counts(&*provider, &table).await
}
