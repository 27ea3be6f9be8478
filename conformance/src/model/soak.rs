//! Random sequences from several clients at once, for as long as one likes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::play_one;
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
    /// Sequences that the engine answered in another way than the reference.
    pub differences: u64,
}

/// Plays random sequences on an engine until the time is over; tells how far it has come once a second. Gives the last
/// state, and the report of each difference, with what plays it again.
///
/// Must be called on a multi-threaded tokio runtime with its timers and its I/O.
pub async fn soak(harness: &Arc<dyn Harness>, soak: Soak, mut tell: impl FnMut(SoakState)) -> (SoakState, Vec<String>) {
    let shared = Arc::new(Shared::new());
    let client = || {
        let (handle, harness, shared) = (Handle::current(), Arc::clone(harness), Arc::clone(&shared));
        // The generator of the sequences is no asynchronous code.
        tokio::task::spawn_blocking(move || shared.play(&handle, &harness, soak))
    };
    let mut clients = futures::future::join_all((0..soak.clients).map(|_| client()));
    let ended = loop {
        match tokio::time::timeout(Duration::from_secs(1), &mut clients).await {
            Ok(ended) => break ended,
            Err(_) => tell(shared.state()),
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
    reports: Mutex<Vec<String>>,
}

impl Shared {
    fn new() -> Self {
        let (sequences, calls) = Default::default();
        Self { start: Instant::now(), sequences, calls, reports: Mutex::default() }
    }

    /// What one client does.
    fn play(&self, handle: &Handle, harness: &Arc<dyn Harness>, soak: Soak) {
        while self.start.elapsed() < soak.time {
            let number = self.sequences.fetch_add(1, Ordering::Relaxed);
            if let Err(report) = play_one(handle, harness, soak.seed.wrapping_add(number), &self.calls) {
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
        }
    }

    fn reports(&self) -> MutexGuard<'_, Vec<String>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
