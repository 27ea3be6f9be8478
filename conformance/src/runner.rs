//! Runs cases as named tests.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

use crate::case::{Case, Needs, Stage};
use crate::harness::Harness;

/// How long a case may take. Well above what any takes; it ends a case that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// Runs the whole suite on these engines, as `main` of a test with `harness = false`.
///
/// Each case is a test of its own, named `engine::chapter.case`. A case that an engine can't be put to is ignored, with the
/// reason in its name.
pub fn run(harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            eprintln!("no runtime to test on: {error}");
            return ExitCode::FAILURE;
        }
    };
    let trials = harnesses.iter().flat_map(|harness| trials(&runtime, harness)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Runs one case in a namespace of its own; `Err` says how it failed.
pub async fn run_case(harness: Arc<dyn Harness>, case: Case) -> Result<(), String> {
    let stage = Stage::new(harness);
    // A task of its own, so that a panic ends the case only.
    let played = tokio::spawn(tokio::time::timeout(TIME_LIMIT, (case.run)(stage.clone()))).await;
    let removed = stage.remove().await;
    match played {
        Ok(Ok(Ok(()))) => removed.map_err(|error| format!("the namespace could not be removed: {error:?}")),
        Ok(Ok(Err(error))) => Err(format!("{error:?}")),
        Ok(Err(_)) => Err(format!("not over after {} s", TIME_LIMIT.as_secs())),
        Err(panic) => Err(message_of(panic)),
    }
}

fn trials(runtime: &Arc<Runtime>, harness: &Arc<dyn Harness>) -> Vec<Trial> {
    let mut trials: Vec<_> = crate::cases::all().into_iter().map(|case| trial(runtime, harness, case)).collect();
    trials.push(crate::model::trial(runtime, harness));
    trials
}

fn trial(runtime: &Arc<Runtime>, harness: &Arc<dyn Harness>, case: Case) -> Trial {
    if let Some(missing) = harness.missing() {
        return missing.trial(&format!("{}::{}", harness.name(), case.id));
    }
    let cannot = (case.needs == Needs::Damage && !harness.can_damage()).then_some(" (the harness can't damage rows)");
    let name = format!("{}::{}{}", harness.name(), case.id, cannot.unwrap_or_default());
    let (runtime, harness) = (Arc::clone(runtime), Arc::clone(harness));
    Trial::test(name, move || {
        let rules = case.rules.join(", ");
        runtime.block_on(run_case(harness, case)).map_err(|error| Failed::from(format!("rules {rules}: {error}")))
    })
    .with_ignored_flag(cannot.is_some())
}

fn message_of(panic: tokio::task::JoinError) -> String {
    match panic.try_into_panic() {
        Ok(payload) => match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
            (Some(message), _) => message.clone(),
            (_, Some(message)) => (*message).to_owned(),
            _ => "a panic without a message".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Missing;

    #[test]
    fn every_case_of_a_missing_engine_is_reported() {
        let runtime = Arc::new(Runtime::new().expect("a runtime"));
        let missing = Missing::new("postgres", "not installed");
        let trials = trials(&runtime, &missing.harness("postgres"));
        assert_eq!(trials.len(), crate::cases::all().len() + 1);
        assert!(trials.iter().all(|trial| trial.has_ignored_flag() != missing.is_required()));
    }
}
