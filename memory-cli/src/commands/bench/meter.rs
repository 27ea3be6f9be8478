//! Measures throughput and latency.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use memory_core::Result;
use serde::Serialize;
use tokio::task::JoinSet;

/// The longest latency that is recorded, in nanoseconds: ten minutes.
const LONGEST: u64 = 600_000_000_000;
/// The precision of latencies, in significant digits.
const DIGITS: u8 = 3;

/// The limits of a workload; it ends at the first that it reaches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) operations: u64,
    pub(super) time: Duration,
}

/// A histogram of latencies.
#[derive(Debug)]
pub(super) struct Latencies(Histogram<u64>);

/// The result of a workload. Times are in microseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) clients: usize,
    /// The number of operations; in a batch, each memory counts as one.
    pub(super) operations: u64,
    pub(super) per_second: f64,
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
}

impl Latencies {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new_with_max(LONGEST, DIGITS)?))
    }

    pub(super) fn add(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The number of latencies.
    fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns the result for `operations` that took `taken` in total.
    pub(super) fn measured(&self, name: &str, clients: usize, operations: u64, taken: Duration) -> Measured {
        let micros = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        Measured {
            name: name.to_owned(),
            clients,
            operations,
            per_second: operations as f64 / taken.as_secs_f64(),
            p50: micros(0.5),
            p95: micros(0.95),
            p99: micros(0.99),
        }
    }
}

/// Runs `operation` from `clients` tasks and records latencies; each call works on `memories` memories.
///
/// An operation gets its number, counted from 0. The time before it returns its future isn't measured.
pub(super) async fn measure<O, F>(
    name: &str,
    clients: usize,
    limits: Limits,
    memories: u64,
    operation: O,
) -> anyhow::Result<Measured>
where
    O: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    // One histogram for all clients, since it takes some hundred kilobytes.
    let latencies = Arc::new(Mutex::new(Latencies::new()?));
    let (operation, turns) = (Arc::new(operation), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (operation, turns, latencies) = (Arc::clone(&operation), Arc::clone(&turns), Arc::clone(&latencies));
        tasks.spawn(async move {
            while start.elapsed() < limits.time {
                let turn = turns.fetch_add(1, Ordering::Relaxed);
                if turn >= limits.operations {
                    break;
                }
                let work = operation(turn);
                let begun = Instant::now();
                work.await?;
                latencies.lock().unwrap_or_else(PoisonError::into_inner).add(begun.elapsed());
            }
            Result::<()>::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let taken = start.elapsed();
    let latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(latencies.measured(name, clients, latencies.len() * memories, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut latencies = Latencies::new().expect("valid bounds");
        (1..=100).for_each(|millis| latencies.add(Duration::from_millis(millis)));
        latencies.add(Duration::from_secs(3_600));
        let measured = latencies.measured("x", 1, 202, Duration::from_secs(2));
        assert_eq!(measured.per_second, 101.0);
        for (time, expected) in [(measured.p50, 51e3), (measured.p95, 96e3), (measured.p99, 100e3)] {
            assert!((time / expected - 1.0).abs() < 0.002, "{time} is not about {expected}");
        }
    }
}
