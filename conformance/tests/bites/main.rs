//! Proves that the suite bites: each provider that is broken on purpose must fail the case that is named for its bug, and
//! the same wrapper without a bug must pass them all.

mod broken;
mod count;
mod documents;
mod erasure;
mod expiry;
mod filters;
mod flaw;
mod harness;
mod history;
mod meaning;
mod naive;
mod plugin;
mod recall;
mod report;
mod restore;
mod table;
mod values;
mod watch;
mod wired;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use conformance::{Case, Harness, Needs, Outcome, Settings, play_random_sequences, run_case};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use flaw::Flaw;
use harness::BrokenHarness;
use table::{BITES, Bite, RANDOM_BITES};
use wired::WiredHarness;

const SETTINGS: Settings = Settings { seed: 20_260_101, sequences: 400, calls: None };

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Cases fail by panics, and most of them do here; the message of a case that must pass comes with its result.
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("no runtime to test on: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for Bite { flaw, rule, case } in BITES {
        let shared = Arc::clone(&runtime);
        trials.push(Trial::test(format!("bites::{rule}::{flaw:?}::{case}"), move || bites(&shared, *flaw, case)));
    }
    for case in BITES.iter().map(|bite| bite.case).collect::<BTreeSet<_>>() {
        let shared = Arc::clone(&runtime);
        trials.push(Trial::test(format!("passes::{case}"), move || passes(&shared, case)));
    }
    for flaw in RANDOM_BITES {
        let shared = Arc::clone(&runtime);
        trials.push(Trial::test(format!("random_sequences::{flaw:?}"), move || random_sequences_bite(&shared, *flaw)));
    }
    trials.extend([
        Trial::test("count::every_rule_is_broken_by_some_provider", count::every_rule_is_broken_by_some_provider),
        Trial::test("count::each_bug_breaks_a_rule_of_its_case", count::each_bug_breaks_a_rule_of_its_case),
        Trial::test("count::no_bug_got_lost", count::no_bug_got_lost),
    ]);
    let shared = Arc::clone(&runtime);
    trials.push(Trial::test("random_sequences::pass", move || random_sequences_pass(&shared)));
    let shared = Arc::clone(&runtime);
    trials.push(Trial::test("report::is_red", move || report::is_red(&shared)));
    let shared = Arc::clone(&runtime);
    let interrupted = move || report::tells_that_it_was_interrupted(&shared);
    trials.push(Trial::test("report::tells_that_it_was_interrupted", interrupted));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The broken provider must fail the case.
fn bites(runtime: &Runtime, flaw: Flaw, case: &str) -> Result<(), Failed> {
    let outcome = outcome(runtime, flaw, case)?;
    match outcome.is_failure() {
        true => Ok(()),
        false => Err(format!("{case} ends with {} on a provider with the bug {flaw:?}", outcome.name()).into()),
    }
}

/// The same wrapper without the bug must pass it.
fn passes(runtime: &Runtime, case: &str) -> Result<(), Failed> {
    match outcome(runtime, Flaw::None, case)? {
        Outcome::Pass => Ok(()),
        outcome => Err(format!("{outcome:?}").into()),
    }
}

fn outcome(runtime: &Runtime, flaw: Flaw, case: &str) -> Result<Outcome, Failed> {
    let case = find(case)?;
    runtime.block_on(async {
        let harness: Arc<dyn Harness> = match case.needs {
            Needs::Server => WiredHarness::new(flaw).await?,
            _ => BrokenHarness::new(flaw),
        };
        Ok(run_case(harness, case, Settings::default()).await)
    })
}

fn random_sequences_pass(runtime: &Runtime) -> Result<(), Failed> {
    let sound: Arc<dyn Harness> = BrokenHarness::new(Flaw::None);
    Ok(play_random_sequences(runtime.handle(), &sound, SETTINGS)?)
}

fn random_sequences_bite(runtime: &Runtime, flaw: Flaw) -> Result<(), Failed> {
    let broken: Arc<dyn Harness> = BrokenHarness::new(flaw);
    let Err(report) = play_random_sequences(runtime.handle(), &broken, SETTINGS) else {
        return Err(format!("the random sequences do not find {flaw:?}").into());
    };
    // The reported sequence is small enough to read, and can be played again.
    let calls = report.lines().filter(|line| line.contains(": on handle ")).count();
    if calls > 5 {
        return Err(format!("{calls} calls are too many to show {flaw:?}: {report}").into());
    }
    let seed = report.rsplit_once("MEMORY_TEST_SEED=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let seed = seed.ok_or_else(|| format!("the report does not tell its seed: {report}"))?;
    match play_random_sequences(runtime.handle(), &broken, Settings { seed, sequences: 1, calls: None }) {
        Ok(()) => Err(format!("the sequence of seed {seed} does not find it again").into()),
        Err(_) => Ok(()),
    }
}

fn find(id: &str) -> Result<Case, Failed> {
    let found = conformance::all_cases().into_iter().find(|case| case.id == id);
    found.ok_or_else(|| format!("the suite has no case {id}").into())
}
