//! Deadlines for retry loops and other work that might never end.

use std::time::Duration;

use memory_core::{DEFAULT_DEADLINE, Error, ErrorKind, Outcome, Result};
use tokio::time::{Instant, timeout};

/// Runs a compare-and-set loop with the default deadline. The error at the deadline has an unknown outcome, since the last write may take
/// effect.
pub(crate) async fn within_deadline<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(DEFAULT_DEADLINE, work).await.unwrap_or_else(|_| Err(late(DEFAULT_DEADLINE, Outcome::Unknown)))
}

/// The error at a deadline.
pub(crate) fn late(deadline: Duration, outcome: Outcome) -> Error {
    let message = format!("no answer within {} ms", deadline.as_millis());
    Error::new(ErrorKind::Timeout, message).with_outcome(outcome).retryable()
}

/// The error of a model that gave no answer within the limit.
pub(crate) fn no_answer(limit: Duration) -> Error {
    let message = format!("the model gave no answer within {} ms", limit.as_millis());
    Error::new(ErrorKind::Timeout, message).retryable()
}

/// The deadline of work that begins now and may take `limit`. A limit that overflows becomes one year.
pub(crate) fn ends_after(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + Duration::from_secs(365 * 86_400))
}
