//! Samples of the load in the last minutes, taken at regular intervals.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::metrics::Totals;
use super::state::Server;

/// How many samples are kept: 15 minutes at the default interval.
pub(crate) const MAX_SAMPLES: usize = 90;

/// The measurements of the interval since the previous sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Answered requests per second.
    pub(crate) requests: f64,
    /// Requests per second that have stored something.
    pub(crate) stores: f64,
    /// The latency of a health check; `None` if it failed.
    pub(crate) latency: Option<Duration>,
}

/// The samples of the last minutes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<VecDeque<Sample>>);

impl Samples {
    /// Returns all samples that are kept.
    pub(crate) fn all(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    fn add(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }
}

/// Takes a sample after each pause, until the server ends.
///
/// The latency is that of a health check. The engine answers it beside all other calls and with a deadline, so one per interval is no load,
/// and it shows the state of the engine even if there are no requests.
pub(crate) async fn keep(server: Server, pause: Duration) {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick completes at once.
    ticks.tick().await;
    let (mut before, mut since) = (server.metrics.totals(), Instant::now());
    let sampling = async {
        loop {
            ticks.tick().await;
            let latency = server.provider.check_health().await.ok().map(|health| health.latency);
            let (totals, now) = (server.metrics.totals(), Instant::now());
            server.samples.add(rates(before, totals, now - since, latency));
            (before, since) = (totals, now);
        }
    };
    server.stopping.run_until_cancelled(sampling).await;
}

fn rates(before: Totals, totals: Totals, time: Duration, latency: Option<Duration>) -> Sample {
    let rate = |before: f64, now: f64| if time.is_zero() { 0.0 } else { (now - before).max(0.0) / time.as_secs_f64() };
    Sample { requests: rate(before.requests, totals.requests), stores: rate(before.stores, totals.stores), latency }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sample_makes_room() {
        let samples = Samples::default();
        let sample = |number: usize| Sample { requests: number as f64, stores: 0.0, latency: None };
        (0..=MAX_SAMPLES).for_each(|number| samples.add(sample(number)));
        let all = samples.all();
        assert_eq!((all.len(), all[0], all[MAX_SAMPLES - 1]), (MAX_SAMPLES, sample(1), sample(MAX_SAMPLES)));
    }

    #[test]
    fn a_rate_is_of_the_time_between() {
        let (before, totals) = (Totals { requests: 4.0, stores: 1.0 }, Totals { requests: 24.0, stores: 2.0 });
        let sample = rates(before, totals, Duration::from_secs(10), None);
        assert_eq!(sample, Sample { requests: 2.0, stores: 0.1, latency: None });
        assert_eq!(rates(before, totals, Duration::ZERO, None).requests, 0.0);
    }
}
