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
    is_given_up: AtomicBool,
    examined: AtomicU64,
    is_cut: AtomicBool,
}

/// Held by whoever waits for the work. When it is dropped, the work ends.
#[derive(Debug)]
pub(super) struct Watching(Arc<Watch>);

impl Watching {
    /// The watch of a call that begins now and has so much time.
    pub(super) fn new(until: Instant) -> Self {
        let (is_given_up, examined, is_cut) = Default::default();
        Self(Arc::new(Watch { until, is_given_up, examined, is_cut }))
    }

    /// For the work.
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

    /// Counts one more record, unless nobody waits any more.
    pub(super) fn goes_on(&self) -> bool {
        self.examined.fetch_add(1, Ordering::Relaxed);
        self.is_waited_for()
    }

    /// The page ended because it had examined as many records as a page may.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// `Timeout` when nobody waits any more: what was found so far is not all.
    pub(super) fn check(&self) -> Result<()> {
        let late = || Error::new(ErrorKind::Timeout, "nobody waits for the answer any more").retryable();
        if self.is_waited_for() { Ok(()) } else { Err(late()) }
    }

    fn is_waited_for(&self) -> bool {
        !self.is_given_up.load(Ordering::Relaxed) && Instant::now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_ends_when_nobody_waits_or_time_is_over() {
        let in_time = || Watching::new(Instant::now() + Duration::from_secs(3_600));
        let (waiting, gone) = (in_time(), in_time().watch());
        assert!(waiting.goes_on() && waiting.check().is_ok());
        assert!(!gone.goes_on());
        let late = Watching::new(Instant::now());
        assert!(!late.goes_on());
        assert_eq!(late.check().expect_err("late").kind(), ErrorKind::Timeout);
    }
}
