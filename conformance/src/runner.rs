//! Runs one case. All front ends, the test program and the reports, run cases through this module.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinError;

use crate::case::{Case, Settings, Stage};
use crate::harness::Harness;
use crate::model::play::time_limit;

/// The time limit of a case, to which that of a random sequence is added: well above what any case takes, so it ends only a case that
/// hangs.
const TIME_LIMIT: Duration = Duration::from_secs(180);
/// The time limit for each random sequence of the settings, and each 500 calls that it may have, where that adds up to more.
const SEQUENCE_TIME: Duration = Duration::from_secs(5);

/// How a case ended on an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "reason", rename_all = "lowercase")]
pub enum Outcome {
    /// The engine keeps the rules that the case checks.
    Pass,
    /// An assertion of the case failed: the engine gave a wrong answer. Holds the message of the panic.
    Fail(String),
    /// A call failed that must succeed, or the namespace could not be removed. Holds the error.
    Error(String),
    /// The case did not end within its time limit.
    Timeout(String),
    /// The engine or its harness can't run the case, or there is no engine to test on. Holds the reason.
    Unsupported(String),
    /// The case was excluded from the run, or the run was interrupted before the case began. Holds the reason.
    Skipped(String),
}

impl Outcome {
    /// Whether the case ran: it passed, failed, returned an error or timed out.
    pub fn ran(&self) -> bool {
        matches!(self, Self::Pass) || self.is_failure()
    }

    /// Whether the case ran and did not pass.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Fail(_) | Self::Error(_) | Self::Timeout(_))
    }

    /// The reason or message that the outcome holds; `None` for [`Outcome::Pass`].
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pass => None,
            Self::Fail(reason)
            | Self::Error(reason)
            | Self::Timeout(reason)
            | Self::Unsupported(reason)
            | Self::Skipped(reason) => Some(reason),
        }
    }

    /// The name of the outcome in lower case, as in reports: `pass`, `fail`, `error`, `timeout`, `unsupported` or `skipped`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Error(_) => "error",
            Self::Timeout(_) => "timeout",
            Self::Unsupported(_) => "unsupported",
            Self::Skipped(_) => "skipped",
        }
    }
}

/// Runs one case in a new namespace, and removes the namespace whatever the outcome.
///
/// Must be called on a multi-threaded tokio runtime with timers and I/O enabled.
pub async fn run_case(harness: Arc<dyn Harness>, case: Case, settings: Settings) -> Outcome {
    match harness.missing() {
        Some(missing) if missing.is_required() => return Outcome::Error(format!("{missing}, and it is required")),
        Some(missing) => return Outcome::Unsupported(missing.to_string()),
        None => {}
    }
    if let Some(reason) = case.needs.lacking_in(&*harness) {
        return Outcome::Unsupported(reason.to_owned());
    }
    let stage = Stage::new(harness, settings);
    let calls = settings.calls.unwrap_or(500);
    // A sequence that hangs ends before the case, and is reported with its seed.
    let limit = TIME_LIMIT + time_limit(calls);
    let limit = limit.max(SEQUENCE_TIME * settings.sequences.saturating_mul(calls.div_ceil(500)));
    // A separate task, so that a panic ends only this case.
    let played = tokio::spawn(tokio::time::timeout(limit, (case.run)(stage.clone()))).await;
    let removed = stage.remove().await;
    match played {
        Ok(Ok(Ok(()))) => match removed {
            Ok(()) => Outcome::Pass,
            Err(error) => Outcome::Error(format!("the namespace could not be removed: {error:?}")),
        },
        Ok(Ok(Err(error))) => Outcome::Error(format!("{error:?}")),
        Ok(Err(_)) => Outcome::Timeout(format!("did not end within {} s", limit.as_secs())),
        Err(panic) => Outcome::Fail(message_of(panic)),
    }
}

fn message_of(panic: JoinError) -> String {
    match panic.try_into_panic() {
        Ok(payload) => match (payload.downcast_ref::<String>(), payload.downcast_ref::<&str>()) {
            (Some(message), _) => message.clone(),
            (_, Some(message)) => (*message).to_owned(),
            _ => "a panic without a message".to_owned(),
        },
        Err(error) => error.to_string(),
    }
}
