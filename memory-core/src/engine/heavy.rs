//! Limits how many heavy calls run at once, and how much of the machine they use.

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::load::{COUNTERS, Counted};

/// While other calls run, heavy work uses at most one part in this many of the cores.
const SHARE: u32 = 3;
/// Maximum time that a permit rests.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// Returns how many heavy calls of a provider run at once (L8): the number of cores, at least two. An engine with more
/// connections than that always has one left for a light call.
pub fn heavy_calls() -> usize {
    (*CORES).max(2) as usize
}

/// The permits for heavy work (L8), [`heavy_calls`] in all.
#[derive(Debug)]
pub struct HeavyWork(Arc<Semaphore>);

/// A permit for heavy work. If other calls run when it is dropped, it rests before it is returned, so long that all
/// heavy work of the process together uses about a third of the cores.
#[derive(Debug)]
pub struct Permit {
    place: Option<OwnedSemaphorePermit>,
    /// Set until the work has ended.
    working: Option<Counted>,
    /// Set until the call has ended.
    running: Option<Counted>,
    executor: Handle,
    begun: Instant,
    worked: Option<Duration>,
    longest_rest: Duration,
}

impl Default for HeavyWork {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(heavy_calls())))
    }
}

impl HeavyWork {
    /// Waits for a permit, first come, first served; `None` if none is free within `patience`.
    pub async fn permit(&self, patience: Duration) -> Option<Permit> {
        let place = tokio::time::timeout(patience, Arc::clone(&self.0).acquire_owned()).await;
        // The semaphore is never closed.
        let place = Some(place.ok()?.ok()?);
        let (working, running) = (Some(COUNTERS.heavy_work.count()), None);
        let (executor, begun) = (Handle::current(), Instant::now());
        // Short enough that a waiting call gets one in time even if all permits rest.
        let longest_rest = LONGEST_REST.min(patience / 4);
        Some(Permit { place, working, running, executor, begun, worked: None, longest_rest })
    }
}

impl Permit {
    /// Marks the end of the work. From here on the permit is held only for its result.
    pub fn end_work(&mut self) {
        self.worked.get_or_insert_with(|| self.begun.elapsed());
        self.working = None;
    }

    /// Counts the permit as a heavy call until it is dropped.
    pub(super) fn of_call(mut self) -> Self {
        self.running = Some(COUNTERS.heavy.count());
        self
    }

    /// Returns how long to rest, so that heavy calls that all rest like this keep to their share.
    fn rest(&self) -> Duration {
        // Its own call is counted as a call and as a heavy one.
        if !COUNTERS.has_light_calls() {
            return Duration::ZERO;
        }
        let (worked, at_work) = (self.worked.unwrap_or_default(), COUNTERS.heavy_work.get());
        let share = SHARE.saturating_mul(u32::try_from(at_work).unwrap_or(u32::MAX));
        (worked.saturating_mul(share) / *CORES).saturating_sub(worked).min(self.longest_rest)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end_work();
        // A resting permit counts among those that share.
        let resting = COUNTERS.heavy_work.count();
        let (rest, place) = (self.rest(), self.place.take());
        if !rest.is_zero() {
            self.executor.spawn(async move {
                tokio::time::sleep(rest).await;
                drop((place, resting));
            });
        }
    }
}

static CORES: LazyLock<u32> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)));

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_permit_rests_while_light_calls_go_on() {
        let heavy = HeavyWork::default();
        let work = async || {
            let permit = heavy.permit(Duration::from_secs(30)).await.expect("a free one");
            thread::sleep(Duration::from_millis(5));
            drop(permit);
            heavy.0.available_permits()
        };
        // All that there are, so that all of them have to be shared with.
        let others: Vec<_> = (1..heavy_calls()).map(|_| COUNTERS.heavy_work.count()).collect();
        // More than the heavy ones that other tests of the process have.
        let light: Vec<_> = (0..100).map(|_| COUNTERS.calls.count()).collect();
        assert_eq!(work().await, heavy_calls() - 1, "it rests");
        drop((light, others));
        while heavy.0.available_permits() < heavy_calls() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
