//! The suite as a test program: each case is a named test.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Trial};
use tokio::runtime::Runtime;

use crate::case::{Case, Settings};
use crate::harness::Harness;
use crate::runner::{Outcome, run_case};

/// Runs the whole suite on these engines, as the `main` of a test with `harness = false`.
///
/// Each case is a test named `engine::chapter.case`. A case that an engine or its harness can't run is ignored, with the reason.
pub fn run(harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (runtime, settings) = match (runtime, Settings::from_env()) {
        (Ok(runtime), Ok(settings)) => (Arc::new(runtime), settings),
        (Err(error), _) => return failure(&format!("no runtime to test on: {error}")),
        (_, Err(error)) => return failure(&error),
    };
    let trials = harnesses.iter().flat_map(|harness| trials(&runtime, harness, settings)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Dropping the harnesses ends their servers: outside of the runtime's threads, and while the runtime still exists.
    drop(harnesses);
    conclusion.exit_code()
}

fn failure(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

fn trials(runtime: &Arc<Runtime>, harness: &Arc<dyn Harness>, settings: Settings) -> Vec<Trial> {
    crate::cases::all().into_iter().map(|case| trial(runtime, harness, case, settings)).collect()
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
