//! The suite as a test program: each case is a named test.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;

use libtest_mimic::{Arguments, Completion, Trial};
use tokio::runtime::Runtime;

use crate::case::{Case, Settings};
use crate::harness::Harness;
use crate::runner::{Outcome, run_case};

/// Runs the whole suite on these engines, as the `main` of a test with `harness = false`.
///
/// Each case is a test named `engine::chapter.case`. A case that an engine or its harness can't run is ignored, with the reason.
pub fn run(harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Some cases wait for a server in trouble, or for time to pass, and use no processor meanwhile.
    arguments.test_threads.get_or_insert_with(|| 2 * available_parallelism().map_or(1, usize::from));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (runtime, settings) = match (runtime, Settings::from_env()) {
        (Ok(runtime), Ok(settings)) => (Arc::new(runtime), settings),
        (Err(error), _) => return failure(&format!("no runtime to test on: {error}")),
        (_, Err(error)) => return failure(&error),
    };
    let mut cases: Vec<_> =
        harnesses.iter().flat_map(|harness| crate::cases::all().into_iter().map(move |case| (harness, case))).collect();
    // The longest waits begin first, beside the other cases.
    cases.sort_by_key(|(_, case)| !case.id.starts_with("faults."));
    let trials = cases.into_iter().map(|(harness, case)| trial(&runtime, harness, case, settings)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Dropping the harnesses ends their servers: outside of the runtime's threads, and while the runtime still exists.
    drop(harnesses);
    conclusion.exit_code()
}

fn failure(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

fn trial(runtime: &Arc<Runtime>, harness: &Arc<dyn Harness>, case: Case, settings: Settings) -> Trial {
    let name = format!("{}::{}", harness.name(), case.id);
    let (runtime, harness) = (Arc::clone(runtime), Arc::clone(harness));
    Trial::ignorable_test(name, move || {
        let outcome = runtime.block_on(run_case(harness, case, settings));
        let word = outcome.name();
        match outcome {
            Outcome::Pass => Ok(Completion::Completed),
            Outcome::Unsupported(reason) | Outcome::Skipped(reason) => Ok(Completion::ignored_with(reason)),
            Outcome::Fail(reason) | Outcome::Error(reason) | Outcome::Timeout(reason) => {
                Err(format!("rules {}, seed {}: {word}: {reason}", case.rules.join(", "), settings.seed).into())
            }
        }
    })
}
