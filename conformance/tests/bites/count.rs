//! The broken providers are many, and cover every rule.

use std::collections::{BTreeMap, BTreeSet};

use conformance::{all_cases, rules};
use libtest_mimic::Failed;

use crate::table::{BITES, Bite};

/// The number of bugs, by the chapter of the case that must find them. A smaller number means that some were lost.
const CHAPTERS: &[(&str, usize)] = &[
    ("documents", 18),
    ("dropped", 9),
    ("erasure", 12),
    ("expiry", 8),
    ("faults", 12),
    ("filters", 10),
    ("history", 11),
    ("lifecycle", 8),
    ("meaning", 12),
    ("plugin", 9),
    ("read_only", 2),
    ("reading", 17),
    ("recall", 9),
    ("restore", 7),
    ("spaces", 14),
    ("store", 8),
    ("text", 8),
    ("update", 7),
    ("values", 7),
    ("watch", 16),
];
/// The minimum number of bugs, over all chapters.
const FEWEST: usize = 150;

/// Each rule of the contract is broken by some provider, and a case of that rule finds it.
pub(crate) fn every_rule_is_broken_by_some_provider() -> Result<(), Failed> {
    let broken: BTreeSet<_> = BITES.iter().map(|bite| bite.rule).collect();
    let whole: Vec<_> = rules().filter(|rule| !broken.contains(rule)).collect();
    assert!(whole.is_empty(), "no provider breaks {whole:?}");
    Ok(())
}

/// The case that finds a bug names the rule that the bug breaks.
pub(crate) fn each_bug_breaks_a_rule_of_its_case() -> Result<(), Failed> {
    let cases: BTreeMap<_, _> = all_cases().iter().map(|case| (case.id, case.rules)).collect();
    for Bite { flaw, rule, case } in BITES {
        let checked = cases.get(case).ok_or_else(|| format!("the suite has no case {case}"))?;
        assert!(checked.contains(rule), "{flaw:?} breaks {rule}, but {case} checks {checked:?}");
    }
    Ok(())
}

/// No chapter has fewer bugs than before, and no bug is listed twice.
pub(crate) fn no_bug_got_lost() -> Result<(), Failed> {
    let mut seen = BTreeSet::new();
    let mut chapters = BTreeMap::<&str, usize>::new();
    for Bite { flaw, case, .. } in BITES {
        assert!(seen.insert((format!("{flaw:?}"), *case)), "{flaw:?} in {case} is listed twice");
        let (chapter, _) = case.split_once('.').ok_or("a case has a chapter")?;
        *chapters.entry(chapter).or_default() += 1;
    }
    assert_eq!(chapters, CHAPTERS.iter().copied().collect());
    assert!(seen.len() >= FEWEST, "{} bugs are too few", seen.len());
    Ok(())
}
