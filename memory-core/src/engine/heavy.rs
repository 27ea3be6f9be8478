//! How many heavy calls go at once, and how much of the machine they take.

use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::load::{COUNTERS, Counted};

/// While other calls go on, heavy work takes one of so many parts of the cores.
const SHARE: u32 = 3;
/// How long a permit rests at most.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// How many heavy calls of a provider go at once (L8): as many as there are cores, and at least two. An engine that has as many
/// connections, and some more, has one for every call that does not wait.
pub fn heavy_calls() -> usize {
    (*CORES).max(2) as usize
}

/// The permits of heavy work (L8), [`heavy_calls`] in all.
#[derive(Debug)]
pub struct HeavyWork(Arc<Semaphore>);

/// What heavy work holds. When it is dropped, it rests before it is given back, so long that all heavy work of the process together takes a
/// third of the cores. Where no other calls go on, it does not rest.
#[derive(Debug)]
pub struct Permit {
    place: Option<(OwnedSemaphorePermit, Counted)>,
    running: Option<Counted>,
    executor: Handle,
    begun: Instant,
    worked: OnceLock<Duration>,
}

impl Default for HeavyWork {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(heavy_calls())))
    }
}

impl HeavyWork {
    /// A permit, after those who came before; `None` when none comes free in that time.
    pub async fn permit(&self, patience: Duration) -> Option<Permit> {
        let place = tokio::time::timeout(patience, Arc::clone(&self.0).acquire_owned()).await;
        // Nobody closes the semaphore.
        let place = Some((place.ok()?.ok()?, COUNTERS.permits.count()));
        let (begun, worked) = (Instant::now(), OnceLock::new());
        Some(Permit { place, running: None, executor: Handle::current(), begun, worked })
    }
}

impl Permit {
    /// From here on it is kept for what the work has made, and no longer for the work.
    pub fn end_work(&self) {
        let _ = self.worked.set(self.begun.elapsed());
    }

    /// Counts as a heavy call until it is dropped.
    pub(super) fn of_call(mut self) -> Self {
        self.running = Some(COUNTERS.heavy.count());
        self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end_work();
        drop(self.running.take());
        let rest = rest(self.worked.get().copied().unwrap_or_default());
        if let Some(place) = self.place.take()
            && !rest.is_zero()
        {
            self.executor.spawn(async move {
                tokio::time::sleep(rest).await;
                drop(place);
            });
        }
    }
}

static CORES: LazyLock<u32> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)));

/// How long a permit rests after so much work: of those who work in turn with such rests, all together keep to the share.
fn rest(worked: Duration) -> Duration {
    if !COUNTERS.has_light_calls() {
        return Duration::ZERO;
    }
    let permits = u32::try_from(COUNTERS.permits.get()).unwrap_or(u32::MAX);
    let whole = worked.saturating_mul(permits.saturating_mul(SHARE)) / *CORES;
    whole.saturating_sub(worked).min(LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_permit_rests_while_light_calls_go_on() {
        let heavy = HeavyWork::default();
        let work = async || {
            let permit = heavy.permit(Duration::ZERO).await.expect("a free one");
            thread::sleep(Duration::from_millis(5));
            drop(permit);
            heavy.0.available_permits()
        };
        // A light call of another test of the process would do as well.
        let light = COUNTERS.calls.count();
        // All that there are, so that all of them have to be shared with.
        let others: Vec<_> = (1..heavy_calls()).map(|_| COUNTERS.permits.count()).collect();
        assert_eq!(work().await, heavy_calls() - 1, "it rests");
        drop((light, others));
        while heavy.0.available_permits() < heavy_calls() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
