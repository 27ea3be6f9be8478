//! The table of other systems' bugs is correct: it lists each bug once, and everything that it names as preventing a bug exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conformance::all_cases;

const TABLE: &str = include_str!("../BUGS.md");
const BUGS: usize = 89;

/// The cells of each row, from the number on.
fn rows() -> Vec<Vec<&'static str>> {
    let is_row = |line: &&str| line.starts_with("| ") && line.as_bytes().get(2).is_some_and(u8::is_ascii_digit);
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    TABLE.lines().filter(is_row).map(cells).collect()
}

#[test]
fn every_bug_is_listed_once_and_says_where_it_was_seen() {
    let numbers: Vec<_> = rows().iter().map(|row| row[0].parse().ok()).collect();
    assert_eq!(numbers, (1..=BUGS).map(Some).collect::<Vec<_>>());
    for row in rows() {
        assert_eq!(row.len(), 4, "{row:?}");
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
}

#[test]
fn what_keeps_a_bug_out_exists() {
    let cases: BTreeSet<_> = all_cases().iter().map(|case| case.id).collect();
    for row in rows() {
        for part in row[3].split(';').map(str::trim) {
            if ["types: ", "not applicable: "].iter().any(|reason| part.starts_with(reason)) {
                continue;
            }
            for name in part.split(", ") {
                let name = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
                let name = name.unwrap_or_else(|| panic!("{}: neither a case nor a reason: {part}", row[0]));
                match name.split_once("::") {
                    Some((file, test)) => assert!(has_test(file, test), "{}: {file} has no test {test}", row[0]),
                    None => assert!(cases.contains(name), "{}: the suite has no case {name}", row[0]),
                }
            }
        }
    }
}

/// Whether some file of the workspace has a function of this name.
fn has_test(file: &str, test: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    fs::read_to_string(path).is_ok_and(|code| code.contains(&format!("fn {test}(")))
}
