//! The suite as a test program: each case is a named test.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use crate::case::{Case, Settings};
use crate::harness::Harness;
use crate::runner::run_case;

/// Runs the whole suite on these engines, as `main` of a test with `harness = false`.
///
/// Each case is a test of its own, named `engine::chapter.case`. A case that an engine can't be put to is ignored, with the
/// reason in its name.
pub fn run(harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let (runtime, settings) = match (runtime, Settings::from_env()) {
        (Ok(runtime), Ok(settings)) => (Arc::new(runtime), settings),
        (Err(error), _) => return failure(&format!("no runtime to test on: {error}")),
        (_, Err(error)) => return failure(&error),
    };
    let trials = harnesses.iter().flat_map(|harness| trials(&runtime, harness, settings)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
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
    if let Some(missing) = harness.missing() {
        return missing.trial(&name);
    }
    if let Some(reason) = case.needs.lacking_in(&**harness) {
        return Trial::test(format!("{name} ({reason})"), || Ok(())).with_ignored_flag(true);
    }
    let (runtime, harness) = (Arc::clone(runtime), Arc::clone(harness));
    Trial::test(name, move || {
        let outcome = runtime.block_on(run_case(harness, case, settings));
        match outcome.reason() {
            Some(reason) => Err(Failed::from(format!("rules {}: {}: {reason}", case.rules.join(", "), outcome.name()))),
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Missing;

    #[test]
    fn every_case_of_a_missing_engine_is_reported() {
        let runtime = Arc::new(Runtime::new().expect("a runtime"));
        let missing = Missing::new("postgres", "not installed");
        let trials = trials(&runtime, &missing.harness("postgres"), Settings::default());
        assert_eq!(trials.len(), crate::cases::all().len());
        assert!(trials.iter().all(|trial| trial.has_ignored_flag() != missing.is_required()));
    }
}
