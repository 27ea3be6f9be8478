//! Samples the load of the server at regular intervals.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::metrics::Totals;
use super::samples::Sample;
use super::state::Server;

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
    fn a_rate_is_of_the_time_between() {
        let (before, totals) = (Totals { requests: 4.0, stores: 1.0 }, Totals { requests: 24.0, stores: 2.0 });
        let sample = rates(before, totals, Duration::from_secs(10), None);
        assert_eq!(sample, Sample { requests: 2.0, stores: 0.1, latency: None });
        assert_eq!(rates(before, totals, Duration::ZERO, None).requests, 0.0);
    }
}
