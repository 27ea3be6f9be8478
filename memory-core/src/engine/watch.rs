//! What a heavy call and the work that it has begun know of each other.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tracing::Span;

use super::load::COUNTERS;
use crate::{Error, ErrorKind, Result};

/// How far the work of a call is, and whether anybody still waits for it.
#[derive(Debug)]
pub(super) struct Watch {
    until: Instant,
    /// When half of the time is over.
    half: Instant,
    /// How many records are examined at most, unless it is a heavy call.
    most: Option<u64>,
    is_given_up: AtomicBool,
    is_spent: AtomicBool,
    examined: AtomicU64,
    is_cut: AtomicBool,
}

/// Held by whoever waits for the work. When it is dropped, the work ends.
#[derive(Debug)]
pub(super) struct Watching(Arc<Watch>);

impl Watching {
    /// A call for which somebody waits until then, and which examines so many records at most. A heavy call examines as many as it has to.
    pub(super) fn new(until: Instant, most: Option<u64>) -> Self {
        let now = Instant::now();
        Self::with_half(now + until.saturating_duration_since(now) / 2, until, most)
    }

    fn with_half(half: Instant, until: Instant, most: Option<u64>) -> Self {
        let (is_given_up, is_spent, examined, is_cut) = Default::default();
        Self(Arc::new(Watch { until, half, most, is_given_up, is_spent, examined, is_cut }))
    }

    /// A call of which half of the time is over.
    #[cfg(test)]
    pub(super) fn half_over(until: Instant) -> Self {
        Self::with_half(Instant::now(), until, None)
    }

    /// What the work looks at, to learn whether it goes on.
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
    /// Until when somebody waits at most.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether half of the time is over, so that a call that can go on later ends with what it has.
    pub(super) fn is_half_over(&self) -> bool {
        Instant::now() >= self.half
    }

    /// Counts one more record that was named by its id.
    pub(super) fn count(&self) {
        self.examined.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one more record of a walk, and tells whether it is to be examined.
    pub(super) fn goes_on(&self) -> bool {
        let examined = self.examined.fetch_add(1, Ordering::Relaxed);
        if self.most.is_some_and(|most| examined >= most) {
            self.spend();
        }
        self.is_waited_for()
    }

    /// Counts one more path that an index gave; fails as [`Self::check`] does when the work is to end.
    pub(super) fn count_path(&self) -> Result<()> {
        self.goes_on();
        self.check()
    }

    /// Whether it is a heavy call.
    pub(super) fn is_heavy(&self) -> bool {
        self.most.is_none()
    }

    /// The call is heavy after all.
    pub(super) fn spend(&self) {
        self.is_spent.store(true, Ordering::Relaxed);
    }

    /// The page ended because it had examined as many records as a page may.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// `Timeout` when nobody waits any more, or not for this attempt: what was found so far is not all.
    pub(super) fn check(&self) -> Result<()> {
        let late = || Error::new(ErrorKind::Timeout, "nobody waits for the answer any more").retryable();
        if self.is_waited_for() { Ok(()) } else { Err(late()) }
    }

    fn is_waited_for(&self) -> bool {
        !self.is_given_up.load(Ordering::Relaxed) && !self.is_spent() && Instant::now() < self.until
    }

    /// Whether the work ended because it is heavy after all, so that what it gave is no answer.
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
