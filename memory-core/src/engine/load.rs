//! What the providers of this process do and have done, for an operator to watch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much all providers of this process do, and what they have done since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Load {
    /// How many calls have begun and not ended.
    pub calls: u64,
    /// How many sessions are at work: connections of a pool, or threads of an embedded engine. Calls beyond these wait for one.
    pub sessions: u64,
    /// How many heavy calls have a permit (L8).
    pub heavy: u64,
    /// How many wait for one.
    pub heavy_waiting: u64,
    /// How many have got one so far.
    pub heavy_admitted: u64,
    /// How many were refused, since none came free in time.
    pub heavy_refused: u64,
    /// How long all of them have waited together.
    pub heavy_waited: Duration,
    /// How many calls ended by their deadline (L6).
    pub late: u64,
    /// How many records queries and removals have examined.
    pub examined: u64,
    /// How many pages ended because they had examined as many records as a page may (Q5).
    pub cut: u64,
}

/// How much the providers of this process do now.
pub fn load() -> Load {
    let Counters {
        calls,
        sessions,
        heavy,
        heavy_waiting,
        heavy_admitted,
        heavy_refused,
        heavy_micros,
        late,
        examined,
        cut,
        ..
    } = &COUNTERS;
    Load {
        calls: calls.get(),
        sessions: sessions.get(),
        heavy: heavy.get(),
        heavy_waiting: heavy_waiting.get(),
        heavy_admitted: heavy_admitted.get(),
        heavy_refused: heavy_refused.get(),
        heavy_waited: Duration::from_micros(heavy_micros.get()),
        late: late.get(),
        examined: examined.get(),
        cut: cut.get(),
    }
}

pub(super) static COUNTERS: Counters = Counters::new();

/// The numbers of [`Load`].
pub(super) struct Counters {
    pub(super) calls: Counter,
    /// Of those, the ones for which nobody else has to give way.
    pub(super) background: Counter,
    pub(super) sessions: Counter,
    /// Heavy work that goes on or rests, also where it is no call.
    pub(super) heavy_work: Counter,
    pub(super) heavy: Counter,
    pub(super) heavy_waiting: Counter,
    pub(super) heavy_admitted: Counter,
    pub(super) heavy_refused: Counter,
    pub(super) heavy_micros: Counter,
    pub(super) late: Counter,
    pub(super) examined: Counter,
    pub(super) cut: Counter,
}

pub(super) struct Counter(AtomicU64);

/// Counts as one until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(&'static AtomicU64);

impl Counters {
    const fn new() -> Self {
        Self {
            calls: Counter::new(),
            background: Counter::new(),
            sessions: Counter::new(),
            heavy_work: Counter::new(),
            heavy: Counter::new(),
            heavy_waiting: Counter::new(),
            heavy_admitted: Counter::new(),
            heavy_refused: Counter::new(),
            heavy_micros: Counter::new(),
            late: Counter::new(),
            examined: Counter::new(),
            cut: Counter::new(),
        }
    }

    /// Whether callers wait for calls that are not heavy.
    pub(super) fn has_light_calls(&self) -> bool {
        self.calls.get() > self.background.get() + self.heavy.get() + self.heavy_waiting.get()
    }
}

impl Counter {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn count(&'static self) -> Counted {
        self.add(1);
        Counted(&self.0)
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
