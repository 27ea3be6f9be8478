//! A soak test: random sequences from several clients at once, for any length of time.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{FutureExt as _, join_all};
use tokio::runtime::Handle;

use super::play_one;
use crate::case::Settings;
use crate::harness::Harness;

/// The length and the load of a soak test.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// How long clients start further sequences.
    pub time: Duration,
    /// How many clients run concurrently. Each uses a new namespace for each of its sequences.
    pub clients: usize,
    /// The seed of the first sequence; each further sequence has the next number.
    pub seed: u64,
}

/// The progress of a soak test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoakState {
    /// The time since the soak test began.
    pub time: Duration,
    /// How many sequences have begun.
    pub sequences: u64,
    /// How many calls the sequences that have begun consist of.
    pub calls: u64,
    /// How many sequences got an answer other than the model's.
    pub differences: u64,
    /// Whether the soak test was ended before its time.
    pub interrupted: bool,
}

/// Plays random sequences on an engine until the time is over, or until `end` completes. Sequences that have begun are played to their end,
/// and their namespaces are removed. Calls `tell` with the progress once a second. Returns the last progress, and the report of each
/// difference, which says how to play it again.
///
/// Must be called on a multi-threaded tokio runtime with timers and I/O enabled.
pub async fn soak(
    harness: &Arc<dyn Harness>,
    soak: Soak,
    end: impl Future<Output = ()>,
    mut tell: impl FnMut(SoakState),
) -> (SoakState, Vec<String>) {
    let shared = Arc::new(Shared::new());
    let client = || {
        let (handle, harness, shared) = (Handle::current(), Arc::clone(harness), Arc::clone(&shared));
        // Generating sequences is synchronous code.
        tokio::task::spawn_blocking(move || shared.play(&handle, &harness, soak))
    };
    let mut clients = join_all((0..soak.clients).map(|_| client()));
    let mut end = pin!(end.fuse());
    let ended = loop {
        tokio::select! {
            ended = &mut clients => break ended,
            () = &mut end => shared.interrupted.store(true, Ordering::Relaxed),
            () = tokio::time::sleep(Duration::from_secs(1)) => tell(shared.state()),
        }
    };
    let mut reports = std::mem::take(&mut *shared.reports());
    reports.extend(ended.into_iter().filter_map(Result::err).map(|panic| format!("a client ended: {panic}")));
    (SoakState { differences: reports.len() as u64, ..shared.state() }, reports)
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    sequences: AtomicU64,
    calls: AtomicU64,
    interrupted: AtomicBool,
    reports: Mutex<Vec<String>>,
}

impl Shared {
    fn new() -> Self {
        let (sequences, calls, interrupted, reports) = Default::default();
        Self { start: Instant::now(), sequences, calls, interrupted, reports }
    }

    /// The work of one client.
    fn play(&self, handle: &Handle, harness: &Arc<dyn Harness>, soak: Soak) {
        let settings = Settings { seed: soak.seed, ..Settings::default() };
        while self.start.elapsed() < soak.time && !self.is_interrupted() {
            let number = self.sequences.fetch_add(1, Ordering::Relaxed);
            if let Err(report) = play_one(handle, harness, settings, number, &self.calls) {
                self.reports().push(report);
            }
        }
    }

    fn state(&self) -> SoakState {
        SoakState {
            time: self.start.elapsed(),
            sequences: self.sequences.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            differences: self.reports().len() as u64,
            interrupted: self.is_interrupted(),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn reports(&self) -> MutexGuard<'_, Vec<String>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
