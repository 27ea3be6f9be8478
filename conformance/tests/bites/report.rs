//! The report on a correct engine beside a broken one.

use std::future::pending;
use std::sync::Arc;

use conformance::{Harness, Outcome, Plan, Reference, Report, Verdict};
use libtest_mimic::Failed;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::flaw::Flaw;
use crate::harness::BrokenHarness;

/// A case that finds the bug of the broken engine, and one that does not.
const CASES: [&str; 2] = ["store.repeated_key_returns_the_first_id", "update.unknown_id_is_not_found"];

/// One bug is one difference, and makes the report red.
pub(crate) fn is_red(runtime: &Runtime) -> Result<(), Failed> {
    let plan = Plan { only: CASES.map(str::to_owned).to_vec(), ..Plan::default() };
    let report = runtime.block_on(Report::make(&engines(), &plan, pending(), |_, _, _| {}));
    assert_eq!(report.verdict, Verdict::Red);
    let differences: Vec<_> = report.differences().collect();
    assert_eq!(differences.iter().map(|case| case.id).collect::<Vec<_>>(), CASES[..1]);
    let [sound, broken] = differences[0].results.as_slice() else { return Err("a result for each engine".into()) };
    assert_eq!(sound.outcome, Outcome::Pass);
    assert!(matches!(broken.outcome, Outcome::Fail(_)), "{:?}", broken.outcome);
    assert_eq!(report.slowest.len(), 4, "both cases on both engines");
    assert!(report.slowest.is_sorted_by(|one, next| one.seconds >= next.seconds), "{:?}", report.slowest);
    Ok(())
}

/// Once the run is ended, no case begins, finished cases are reported, and a run without failures is not green.
pub(crate) fn tells_that_it_was_interrupted(runtime: &Runtime) -> Result<(), Failed> {
    let (sound, first): ([Arc<dyn Harness>; 1], _) = ([Arc::new(Reference::default())], Notify::new());
    let plan = Plan::default();
    let made = Report::make(&sound, &plan, first.notified(), |_, _, _| first.notify_one());
    let report = runtime.block_on(made);
    assert!(report.interrupted);
    assert_eq!(report.verdict, Verdict::Invalid);
    let outcomes: Vec<_> = report.cases.iter().map(|case| &case.results[0].outcome).collect();
    assert_eq!(outcomes.len(), Plan::default().count());
    let last = outcomes.last().ok_or("no case")?;
    assert_eq!(**last, Outcome::Skipped("the run was interrupted".to_owned()));
    assert!(outcomes.contains(&&Outcome::Pass), "what ran is told");
    Ok(())
}

fn engines() -> [Arc<dyn Harness>; 2] {
    [Arc::new(Reference::default()), BrokenHarness::new(Flaw::KeyIgnored)]
}
