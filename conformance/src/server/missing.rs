//! An engine that can't be tested here.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use libtest_mimic::Trial;
use memory_core::{Error, ErrorKind, MemoryProvider, Result};

use crate::harness::{Harness, Namespace};

/// Why there is no server of an engine to test on.
#[derive(Debug, Clone)]
pub struct Missing {
    engine: &'static str,
    reason: String,
}

impl Missing {
    pub(crate) fn new(engine: &'static str, reason: impl Into<String>) -> Self {
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

    /// What stands for a test that needs the server: ignored with the reason in its name, or failing where the engine is
    /// required.
    pub fn trial(&self, name: &str) -> Trial {
        if self.is_required() {
            let message = format!("{self}, and it is required");
            Trial::test(name, move || Err(message.into()))
        } else {
            Trial::test(format!("{name} ({self})"), || Ok(())).with_ignored_flag(true)
        }
    }

    /// What stands for the engine in [`run`](crate::run): each case of the suite is a [`Missing::trial`].
    pub fn harness(&self, name: &str) -> Arc<dyn Harness> {
        Arc::new(Absent { name: name.to_owned(), missing: self.clone() })
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} to test: {}", self.engine, self.reason)
    }
}

impl std::error::Error for Missing {}

fn is_required(engine: &str, list: Option<&str>, ci: Option<&str>) -> bool {
    match list {
        Some(list) => list.split(',').any(|required| required.trim() == engine),
        None => ci == Some("true"),
    }
}

#[derive(Debug)]
struct Absent {
    name: String,
    missing: Missing,
}

#[async_trait]
impl Harness for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn missing(&self) -> Option<&Missing> {
        Some(&self.missing)
    }

    async fn open(&self, _: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        Err(Error::new(ErrorKind::Unavailable, self.missing.to_string()))
    }

    async fn remove(&self, _: &Namespace) -> Result<()> {
        Ok(())
    }
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

    #[test]
    fn a_test_without_its_server_is_named_with_the_reason_or_keeps_its_name() {
        let missing = Missing::new("postgres", "not installed");
        let trial = missing.trial("postgres::a.case");
        assert_eq!(trial.has_ignored_flag(), !missing.is_required());
        assert!(trial.name().starts_with("postgres::a.case"));
    }
}
