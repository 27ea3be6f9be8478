use memory_core::{SpaceRange, SpaceSelector};
use rusqlite::Connection;

use crate::accepted;

thread_local! {
    static SQLITE: Connection = Connection::open_in_memory().expect("a database in memory");
}

/// Limits SQLite's backtracking, so that it ends.
const MAX_STARS: usize = 4;

const OTHER: [char; 3] = ['\0', '\u{fffe}', '\u{ffff}'];

/// A pattern, a line feed and an id: a glob matches what SQLite's matches, an expression compiles, and both match only
/// within their range.
pub fn glob(data: &[u8]) {
    let Some((pattern, space)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\n')) else { return };
    if let Some(selector) = accepted(SpaceSelector::regex(pattern))
        && selector.matches(space)
    {
        assert!(is_in(selector.range(), space), "an expression matches outside of its range");
    }
    let Some(selector) = accepted(SpaceSelector::glob(pattern)) else { return };
    let matches = selector.matches(space);
    assert!(!matches || is_in(selector.range(), space), "a glob matches outside of its range");
    let written = serde_json::to_string(&selector).expect("JSON");
    assert_eq!(serde_json::from_str::<SpaceSelector>(&written).expect("a selector"), selector);
    // SQLite ends a text at U+0000, and reads U+FFFE and U+FFFF as U+FFFD.
    let has_other = pattern.contains(OTHER) || space.contains(OTHER);
    let is_for_sqlite = !has_other && pattern.matches('*').count() <= MAX_STARS && space.len() <= 256;
    if is_for_sqlite {
        assert_eq!(matches, sqlite(pattern, space), "SQLite says otherwise");
    }
}

fn is_in(range: SpaceRange<'_>, space: &str) -> bool {
    let is_below = |path| SpaceSelector::under(path).is_ok_and(|under| under.matches(space));
    match range {
        SpaceRange::Exact(id) => space == id,
        SpaceRange::Under(path) => is_below(path),
        SpaceRange::Below(ancestor) => space != ancestor && (ancestor.is_empty() || is_below(ancestor)),
        SpaceRange::Prefix(head) => space.starts_with(head),
        SpaceRange::Everywhere => true,
        SpaceRange::Nowhere => false,
    }
}

fn sqlite(pattern: &str, space: &str) -> bool {
    let ask = |sqlite: &Connection| sqlite.query_row("SELECT ?2 GLOB ?1", [pattern, space], |row| row.get(0));
    SQLITE.with(ask).expect("an answer")
}
