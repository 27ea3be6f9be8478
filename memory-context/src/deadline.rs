//! The end of what may go on for ever.

use std::time::Duration;

use memory_core::{DEFAULT_DEADLINE, Error, ErrorKind, Outcome, Result};
use tokio::time::{Instant, timeout};

/// Ends a loop of lost races. What it wrote last is not known then.
pub(crate) async fn within_deadline<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(DEFAULT_DEADLINE, work).await.unwrap_or_else(|_| Err(late(DEFAULT_DEADLINE, Outcome::Unknown)))
}

/// What is answered at a deadline.
pub(crate) fn late(deadline: Duration, outcome: Outcome) -> Error {
    let message = format!("no answer within {} ms", deadline.as_millis());
    Error::new(ErrorKind::Timeout, message).with_outcome(outcome).retryable()
}

/// When something ends that begins now and may take so long. A limit that can't be told as a time ends in a year.
pub(crate) fn ends_after(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + Duration::from_secs(365 * 86_400))
}
