//! The end of what may go on for ever.

use std::time::Duration;

use memory_core::{DEFAULT_DEADLINE, Error, ErrorKind, Outcome, Result};
use tokio::time::timeout;

/// Ends a loop of lost races. What it wrote last is not known then.
pub(crate) async fn within_deadline<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(DEFAULT_DEADLINE, work).await.unwrap_or_else(|_| Err(late(DEFAULT_DEADLINE, Outcome::Unknown)))
}

/// What is answered at a deadline.
pub(crate) fn late(deadline: Duration, outcome: Outcome) -> Error {
    let message = format!("no answer within {} ms", deadline.as_millis());
    Error::new(ErrorKind::Timeout, message).with_outcome(outcome).retryable()
}
