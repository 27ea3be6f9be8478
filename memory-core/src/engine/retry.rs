//! Retries after temporary failures.

use std::time::{Duration, Instant};

use crate::{Error, Outcome, Result};

/// The first and the longest pause between attempts; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// When to stop retrying, and whether attempts with an unknown outcome are retried.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    until: Instant,
    is_repeatable: bool,
}

impl Retry {
    /// Retries until this time, but only after attempts that had no effect (W11).
    pub fn until(until: Instant) -> Self {
        Self { until, is_repeatable: false }
    }

    /// Also retries after an unknown outcome: the work is idempotent.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// Runs the work until it succeeds, fails permanently, or has no time left. `attempt` counts from 0. The error's
    /// outcome covers all attempts.
    pub async fn run<T, F: Future<Output = Result<T>>>(
        self,
        is_temporary: impl Fn(&Error) -> bool,
        work: impl Fn(usize) -> F,
    ) -> Result<T> {
        let (mut pause, mut earlier) = (FIRST_PAUSE, Outcome::NotDone);
        let mut attempt = 0;
        loop {
            // Boxed, because the futures of drivers are large and nest deeply.
            let error = match Box::pin(work(attempt)).await {
                Ok(done) => return Ok(done),
                Err(error) => error.after(earlier),
            };
            let may_repeat = self.is_repeatable || error.outcome() == Outcome::NotDone;
            if !may_repeat || !is_temporary(&error) || Instant::now() + pause >= self.until {
                return Err(error);
            }
            earlier = error.outcome();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            attempt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ErrorKind;

    async fn attempts(retry: Retry, outcome: Outcome) -> (usize, Outcome) {
        let count = AtomicUsize::new(0);
        let failure = || Error::new(ErrorKind::Unavailable, "down").with_outcome(outcome);
        let result: Result<()> = retry
            .run(
                |_| count.load(Ordering::Relaxed) < 3,
                |_| async {
                    count.fetch_add(1, Ordering::Relaxed);
                    Err(failure())
                },
            )
            .await;
        (count.into_inner(), result.expect_err("it never succeeds").outcome())
    }

    #[tokio::test]
    async fn only_repeatable_work_is_repeated_after_an_unknown_outcome() {
        let until = Instant::now() + Duration::from_secs(60);
        assert_eq!(attempts(Retry::until(until), Outcome::NotDone).await, (3, Outcome::NotDone));
        assert_eq!(attempts(Retry::until(until), Outcome::Unknown).await, (1, Outcome::Unknown));
        assert_eq!(attempts(Retry::until(until).repeatable(), Outcome::Unknown).await, (3, Outcome::Unknown));
        assert_eq!(attempts(Retry::until(Instant::now()), Outcome::NotDone).await, (1, Outcome::NotDone));
    }
}
