//! Why an engine can't be tested on this machine.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};
use tokio::runtime::Runtime;

use crate::case::CaseResult;

/// The reason why there is no server of an engine to test on.
#[derive(Debug, Clone)]
pub struct Missing {
    engine: &'static str,
    reason: String,
}

impl Missing {
    /// No server of this engine, for this reason.
    pub fn new(engine: &'static str, reason: impl Into<String>) -> Self {
        Self { engine, reason: reason.into() }
    }

    /// What was tried, and how it failed.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether the missing engine is a failure: `MEMORY_TEST_REQUIRE` lists it, or is unset while `CI` is `true`.
    pub fn is_required(&self) -> bool {
        let list = std::env::var("MEMORY_TEST_REQUIRE").ok();
        is_required(self.engine, list.as_deref(), super::variable("CI").as_deref())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} to test: {}", self.engine, self.reason)
    }
}

impl Error for Missing {}

fn is_required(engine: &str, list: Option<&str>, ci: Option<&str>) -> bool {
    match list {
        Some(list) => list.split(',').any(|required| required.trim() == engine),
        None => ci == Some("true"),
    }
}

/// A test outside of the suite that starts the servers it needs. If `test` returns [`Missing`], the test fails where the engine is
/// required, and is ignored with the reason otherwise.
pub fn trial(name: impl Into<String>, test: impl FnOnce() -> CaseResult + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || match test() {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => match error.downcast_ref::<Missing>() {
            Some(missing) if !missing.is_required() => Ok(Completion::ignored_with(missing)),
            Some(missing) => Err(format!("{missing}, and it is required").into()),
            None => Err(format!("{error:?}").into()),
        },
    })
}

/// Like [`trial`], for an asynchronous test. It runs on a tokio runtime of its own.
pub fn async_trial<F: Future<Output = CaseResult>>(
    name: impl Into<String>,
    test: impl FnOnce() -> F + Send + 'static,
) -> Trial {
    trial(name, || Runtime::new()?.block_on(test()))
}

/// Runs tests that mostly wait for servers, as the `main` of a program with `harness = false`: this many at once, unless `--test-threads`
/// names another number.
pub fn run_waiting(at_once: usize, trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(at_once);
    libtest_mimic::run(&arguments, trials).exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_required_when_listed_or_in_ci_without_a_list() {
        assert!(is_required("postgres", Some("redis, postgres"), None));
        assert!(is_required("postgres", None, Some("true")));
        assert!(!is_required("postgres", Some("redis"), Some("true")));
        assert!(!is_required("postgres", Some(""), Some("true")));
        assert!(!is_required("postgres", None, Some("false")));
        assert!(!is_required("postgres", None, None));
    }
}
