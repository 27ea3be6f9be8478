//! An engine that can't be tested here.

use std::error::Error;
use std::fmt;

use libtest_mimic::{Completion, Trial};
use tokio::runtime::Runtime;

use crate::case::CaseResult;

/// Why there is no server of an engine to test on.
#[derive(Debug, Clone)]
pub struct Missing {
    engine: &'static str,
    reason: String,
}

impl Missing {
    /// There is none of this engine, for this reason.
    pub fn new(engine: &'static str, reason: impl Into<String>) -> Self {
        Self { engine, reason: reason.into() }
    }

    /// What was tried, and how it failed.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether that is a failure: `MEMORY_TEST_REQUIRE` lists the engine, or is unset while `CI` is `true`.
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

/// A test of its own, outside of the suite, that starts what it needs: where that is [`Missing`] it fails if the engine is
/// required, and is ignored otherwise, with the reason.
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

/// The same, for a test that runs on a runtime of its own.
pub fn async_trial<F: Future<Output = CaseResult>>(
    name: impl Into<String>,
    test: impl FnOnce() -> F + Send + 'static,
) -> Trial {
    trial(name, || Runtime::new()?.block_on(test()))
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
