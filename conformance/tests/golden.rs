//! The golden tables on memory-core itself, without an engine.

use conformance::golden::{self, SelectorLine};
use memory_core::filter::Subject;
use memory_core::{CursorKey, Filter, MemoryQuery, PageBuilder, SpaceId, Verdict};

fn check(failures: Vec<String>) {
    assert!(failures.is_empty(), "{} lines fail:\n{}", failures.len(), failures.join("\n"));
}

fn check_selectors(table: Vec<SelectorLine>) {
    let fails = |line: &SelectorLine| match line.selector() {
        Ok(selector) => {
            SpaceId::parse(&line.space).expect("a valid space");
            (selector.matches(&line.space) != line.matches).then(|| format!("{line:?}"))
        }
        Err(error) => Some(format!("{}: {error}", line.id)),
    };
    check(table.iter().filter_map(fails).collect());
}

#[test]
fn patterns_match_what_the_table_says() {
    check_selectors(golden::patterns());
}

#[test]
fn prefixes_and_paths_match_what_the_table_says() {
    check_selectors(golden::prefixes());
}

#[test]
fn time_bounds_are_exclusive_as_the_table_says() {
    let (mut failures, key) = (Vec::new(), CursorKey::generate().expect("a key"));
    for line in golden::time_bounds() {
        let time = |millis: i64| millis.try_into().expect("a valid time");
        let mut query = MemoryQuery::builder().all();
        if let Some(after) = line.after {
            query = query.created_after(time(after));
        }
        if let Some(before) = line.before {
            query = query.created_before(time(before));
        }
        let query = query.build().expect("a valid query");
        let (updated_at, status, expires_at) = (None, None, None);
        let created_at = time(line.created_at);
        let head =
            memory_core::Head { id: &[0; 16], space: "a", created_at, updated_at, status, expires_at, is_over: false };
        let verdict = PageBuilder::new(&query, &key).expect("no cursor").examine(&head);
        if (verdict == Verdict::Take) != line.matches {
            failures.push(format!("{line:?}"));
        }
    }
    check(failures);
}

#[test]
fn predicates_find_what_the_table_says() {
    let table = golden::predicates();
    let mut failures = Vec::new();
    for line in &table.matches {
        match Filter::parse(&line.predicate) {
            Ok(filter) => {
                let found = table.rows.iter().filter(|row| filter.matches(&Subject::from(&row.memory)));
                let found: Vec<_> = found.map(|row| row.name.as_str()).collect();
                if found != line.finds {
                    failures.push(format!("{}: {} finds {found:?}, not {:?}", line.id, line.predicate, line.finds));
                }
            }
            Err(error) => failures.push(format!("{}: {}: {error}", line.id, line.predicate)),
        }
    }
    check(failures);
}

#[test]
fn what_is_no_predicate_is_refused() {
    let mut failures = Vec::new();
    for line in golden::predicates().refused {
        let refused = MemoryQuery::builder().all().filter_text(&line.predicate).build();
        match refused.map_err(|error| format!("{:?}", error.kind())) {
            Err(kind) if kind == line.error => {}
            other => failures.push(format!("{}: {}: {:?}", line.id, line.predicate, other.map(|_| "accepted"))),
        }
    }
    check(failures);
}
