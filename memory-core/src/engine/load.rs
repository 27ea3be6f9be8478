//! Counters of all providers in this process, for operators.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Current activity of all providers in this process, and totals since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Load {
    /// Calls in progress.
    pub calls: u64,
    /// Sessions in use: connections of a pool, or threads of an embedded engine. Further calls wait for one.
    pub sessions: u64,
    /// Heavy calls that hold a permit (L8).
    pub heavy: u64,
    /// Heavy calls that wait for a permit.
    pub heavy_waiting: u64,
    /// Total number of permits granted.
    pub heavy_admitted: u64,
    /// Total number of heavy calls refused because no permit was free in time.
    pub heavy_refused: u64,
    /// Total time that heavy calls have waited for permits.
    pub heavy_waited: Duration,
    /// Total number of calls that ended at their deadline (L6).
    pub late: u64,
    /// Total number of records and versions that queries, recalls, listings, histories and removals have examined.
    pub examined: u64,
    /// Total number of results cut short by a limit, such as a page that has examined as many candidates as it may
    /// (Q5).
    pub cut: u64,
}

/// Reads the counters.
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

/// The counters behind [`Load`].
pub(super) struct Counters {
    pub(super) calls: Counter,
    /// Calls among `calls` that heavy work need not make way for.
    pub(super) background: Counter,
    pub(super) sessions: Counter,
    /// Heavy work that runs or rests, also outside a call.
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

    /// Returns whether light calls are in progress.
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
