//! The contract and the cases match: every rule has a case, and every case has rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use conformance::{all_cases, rules};

/// The rules that the model of the random sequences decides by itself.
const CORES_OWN: [&str; 12] = [
    "InMemory",
    "PageBuilder",
    "DocumentSelection",
    "Filter",
    "SpaceSelector",
    "Spaces",
    "Provider",
    "check_repetition",
    "compare_heads",
    "memory_core::words",
    "into_memory",
    ".apply(",
];

/// How many cases each chapter has.
const CASES: [(&str, usize); 21] = [
    ("documents", 49),
    ("dropped", 11),
    ("erasure", 26),
    ("expiry", 50),
    ("faults", 9),
    ("filters", 20),
    ("history", 48),
    ("lifecycle", 22),
    ("meaning", 61),
    ("model", 1),
    ("plugin", 11),
    ("read_only", 6),
    ("reading", 47),
    ("recall", 30),
    ("restore", 17),
    ("spaces", 29),
    ("store", 17),
    ("text", 18),
    ("update", 17),
    ("values", 11),
    ("watch", 27),
];

#[test]
fn the_contract_numbers_its_rules_without_gaps() {
    let mut chapters = BTreeMap::<&str, usize>::new();
    for rule in rules() {
        let (chapter, number) = rule.split_at(1);
        let last = chapters.entry(chapter).or_default();
        *last += 1;
        assert_eq!(number.parse().ok(), Some(*last), "{rule} is out of order");
    }
    let counts = [
        ("C", 7),
        ("D", 7),
        ("E", 5),
        ("F", 5),
        ("H", 9),
        ("L", 9),
        ("M", 5),
        ("P", 8),
        ("Q", 9),
        ("R", 6),
        ("S", 10),
        ("T", 3),
        ("V", 9),
        ("W", 13),
        ("X", 4),
    ];
    assert_eq!(chapters, BTreeMap::from(counts), "a rule keeps its number, so none goes away");
}

#[test]
fn every_rule_has_a_case() {
    let checked: BTreeSet<_> = all_cases().iter().flat_map(|case| case.rules).copied().collect();
    let missing: Vec<_> = rules().filter(|rule| !checked.contains(rule)).collect();
    assert!(missing.is_empty(), "rules without a case: {missing:?}");
}

#[test]
fn every_case_names_rules_of_the_contract() {
    let known: BTreeSet<_> = rules().collect();
    for case in all_cases() {
        assert!(!case.rules.is_empty(), "{} names no rule", case.id);
        for rule in case.rules {
            assert!(known.contains(rule), "{} names {rule}, which the contract does not have", case.id);
        }
    }
}

#[test]
fn case_ids_are_unique() {
    let mut seen = BTreeSet::new();
    for case in all_cases() {
        assert!(seen.insert(case.id), "two cases are called {}", case.id);
    }
}

#[test]
fn no_case_got_lost() {
    let mut chapters = BTreeMap::<&str, usize>::new();
    for case in all_cases() {
        let (chapter, _) = case.id.split_once('.').expect("a chapter and a situation");
        *chapters.entry(chapter).or_default() += 1;
    }
    assert_eq!(chapters, BTreeMap::from(CASES), "a case that comes or goes is counted here");
}

#[test]
fn the_model_leaves_no_decision_to_the_core() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/model/naive");
    let files: Vec<_> = fs::read_dir(folder).expect("the folder of the model").collect();
    assert!(!files.is_empty());
    for file in files {
        let file = file.expect("a file of the model").path();
        let code = fs::read_to_string(&file).expect("code");
        let borrowed = CORES_OWN.iter().find(|name| code.contains(**name));
        assert_eq!(borrowed, None, "{}", file.display());
    }
}
