//! Runs one case. There is one way to do that, whoever asks for it and however the result is told.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinError;

use crate::case::{Case, Settings, Stage};
use crate::harness::Harness;

/// How long a case may take. Well above what any takes; it ends a case that hangs.
const TIME_LIMIT: Duration = Duration::from_secs(180);
/// How long it may take for each random sequence that was asked for, and for each 500 calls that it may have, if that is more.
const SEQUENCE_TIME: Duration = Duration::from_secs(5);

/// What became of a case on an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "reason", rename_all = "lowercase")]
pub enum Outcome {
    /// The engine keeps the rules of the case.
    Pass,
    /// An answer is wrong.
    Fail(String),
    /// A call failed that must not, or the namespace could not be removed.
    Error(String),
    /// The case was not over in time.
    Timeout(String),
    /// The harness says that the engine can't be put to the case, or that there is no engine to test here, and why.
    Unsupported(String),
    /// Whoever started the run left the case out, and said why, or ended the run before it.
    Skipped(String),
}

impl Outcome {
    /// Whether the case ran to some end.
    pub fn ran(&self) -> bool {
        matches!(self, Self::Pass) || self.is_failure()
    }

    /// Whether the engine does not keep the contract, as far as can be told.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Fail(_) | Self::Error(_) | Self::Timeout(_))
    }

    /// What there is to say beyond the outcome itself.
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

    /// The outcome in a word.
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

/// Runs one case in a namespace of its own, which is removed in any case.
///
/// Must be called on a multi-threaded tokio runtime with its timers and its I/O.
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
    let pieces = settings.calls.map_or(1, |calls| calls.div_ceil(500));
    let limit = TIME_LIMIT.max(SEQUENCE_TIME * settings.sequences.saturating_mul(pieces));
    // A task of its own, so that a panic ends the case only.
    let played = tokio::spawn(tokio::time::timeout(limit, (case.run)(stage.clone()))).await;
    let removed = stage.remove().await;
    match played {
        Ok(Ok(Ok(()))) => match removed {
            Ok(()) => Outcome::Pass,
            Err(error) => Outcome::Error(format!("the namespace could not be removed: {error:?}")),
        },
        Ok(Ok(Err(error))) => Outcome::Error(format!("{error:?}")),
        Ok(Err(_)) => Outcome::Timeout(format!("not over after {} s", limit.as_secs())),
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
