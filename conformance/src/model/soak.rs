//! Random sequences from several clients at once, for as long as one likes.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{FutureExt as _, join_all};
use tokio::runtime::Handle;

use super::play_one;
use crate::case::Settings;
use crate::harness::Harness;

/// How long to soak, and with how much.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// When no client starts another sequence.
    pub time: Duration,
    /// How many clients there are, each with a namespace of its own for each sequence.
    pub clients: usize,
    /// The seed of the first sequence; each further one has the next number.
    pub seed: u64,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoakState {
    /// Since it began.
    pub time: Duration,
    /// Sequences that were begun.
    pub sequences: u64,
    /// Calls that were made, or are about to be in the sequences that were begun.
    pub calls: u64,
    /// Sequences that the engine answered in another way than the model.
    pub differences: u64,
    /// Whether it was asked to end before its time.
    pub interrupted: bool,
}

/// Plays random sequences on an engine until the time is over, or until `end`; those that were begun come to their end, and
/// what they made is removed. Tells how far it has come once a second. Gives the last state, and the report of each
/// difference, with what plays it again.
///
/// Must be called on a multi-threaded tokio runtime with its timers and its I/O.
pub async fn soak(
    harness: &Arc<dyn Harness>,
    soak: Soak,
    end: impl Future<Output = ()>,
    mut tell: impl FnMut(SoakState),
) -> (SoakState, Vec<String>) {
    let shared = Arc::new(Shared::new());
    let client = || {
        let (handle, harness, shared) = (Handle::current(), Arc::clone(harness), Arc::clone(&shared));
        // The generator of the sequences is no asynchronous code.
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

    /// What one client does.
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
