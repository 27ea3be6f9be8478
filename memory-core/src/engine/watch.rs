//! Shared state of a call that examines records, light or heavy, and the work that it has started.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tracing::Span;

use super::load::COUNTERS;
use crate::{Error, ErrorKind, Result};

/// The progress of a call's work, and whether a caller still waits for it.
#[derive(Debug)]
pub(super) struct Watch {
    until: Instant,
    /// The time when half of the deadline has passed.
    half: Instant,
    /// Maximum number of examined records; `None` for a heavy call.
    most: Option<u64>,
    is_given_up: AtomicBool,
    is_spent: AtomicBool,
    examined: AtomicU64,
    is_cut: AtomicBool,
}

/// Held by the caller that waits for the work. Dropping it ends the work.
#[derive(Debug)]
pub(super) struct Watching(Arc<Watch>);

impl Watching {
    /// Starts a call with a deadline and a maximum number of examined records; `None` for a heavy call, which has no
    /// maximum.
    pub(super) fn new(until: Instant, most: Option<u64>) -> Self {
        let now = Instant::now();
        Self::with_half(now + until.saturating_duration_since(now) / 2, until, most)
    }

    fn with_half(half: Instant, until: Instant, most: Option<u64>) -> Self {
        let (is_given_up, is_spent, examined, is_cut) = Default::default();
        Self(Arc::new(Watch { until, half, most, is_given_up, is_spent, examined, is_cut }))
    }

    /// Starts a call whose time is half over.
    #[cfg(test)]
    pub(super) fn half_over(until: Instant) -> Self {
        Self::with_half(Instant::now(), until, None)
    }

    /// Returns the state that the work checks.
    pub(super) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.0)
    }
}

impl Deref for Watching {
    type Target = Watch;

    fn deref(&self) -> &Watch {
        &self.0
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
        let examined = self.0.examined.load(Ordering::Relaxed);
        COUNTERS.examined.add(examined);
        COUNTERS.cut.add(u64::from(self.0.is_cut.load(Ordering::Relaxed)));
        Span::current().record("examined", examined);
    }
}

impl Watch {
    /// Returns the deadline of the call.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Returns whether half of the time is over. A call that can be continued then ends with what it has.
    pub(super) fn is_half_over(&self) -> bool {
        Instant::now() >= self.half
    }

    /// Counts a record that was read by its id.
    pub(super) fn count(&self) {
        self.examined.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a record of a walk, and returns whether to examine it.
    pub(super) fn goes_on(&self) -> bool {
        let examined = self.examined.fetch_add(1, Ordering::Relaxed);
        if self.most.is_some_and(|most| examined >= most) {
            self.spend();
        }
        self.is_waited_for()
    }

    /// Counts a path from an index; fails as [`Self::check`] does if the work must end.
    pub(super) fn count_path(&self) -> Result<()> {
        self.goes_on();
        self.check()
    }

    /// Returns whether the call is heavy.
    pub(super) fn is_heavy(&self) -> bool {
        self.most.is_none()
    }

    /// Marks a light call as too expensive: it must run again as a heavy one.
    pub(super) fn spend(&self) {
        self.is_spent.store(true, Ordering::Relaxed);
    }

    /// Marks the result as cut short by a limit.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Fails with `Timeout` if no caller waits for this attempt any more: its result is incomplete.
    pub(super) fn check(&self) -> Result<()> {
        let late = || Error::new(ErrorKind::Timeout, "nobody waits for the answer any more").retryable();
        if self.is_waited_for() { Ok(()) } else { Err(late()) }
    }

    fn is_waited_for(&self) -> bool {
        !self.is_given_up.load(Ordering::Relaxed) && !self.is_spent() && Instant::now() < self.until
    }

    /// Returns whether a light call turned out to be heavy, so that its result must be discarded.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_ends_when_nobody_waits_or_time_is_over() {
        let in_time = || Watching::new(Instant::now() + Duration::from_secs(3_600), Some(1));
        let (waiting, gone) = (in_time(), in_time().watch());
        assert!(waiting.goes_on() && waiting.check().is_ok());
        assert!(!gone.goes_on());
        assert!(!waiting.goes_on() && waiting.is_spent(), "one was all that it might examine");
        let late = Watching::new(Instant::now(), None);
        assert!(!late.goes_on());
        assert_eq!(late.check().expect_err("late").kind(), ErrorKind::Timeout);
    }
}
