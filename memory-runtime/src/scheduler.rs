//! The scheduler: runs the tasks of each container in order, and a bounded number of tasks at a time.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::FutureExt;
use memory_core::{Error, ErrorKind, Result, SpaceId};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::coop::unconstrained;

/// Bounds the queue and the number of running tasks, and runs the tasks of one container one after the other.
#[derive(Debug)]
pub(crate) struct Scheduler {
    places: Arc<Semaphore>,
    /// The number of places in the queue.
    capacity: u32,
    running: Arc<Semaphore>,
    /// For each container with tasks a semaphore with one permit. Tokio's semaphores are fair, so they keep the order.
    lines: Mutex<HashMap<SpaceId, Weak<Semaphore>>>,
}

/// A place in the queue. Dropping it frees the place.
pub(crate) type Place = OwnedSemaphorePermit;

impl Scheduler {
    pub(crate) fn new(capacity: u32, concurrency: u32) -> Arc<Self> {
        Arc::new(Self {
            places: Arc::new(Semaphore::new(capacity as usize)),
            capacity,
            running: Arc::new(Semaphore::new(concurrency as usize)),
            lines: Mutex::default(),
        })
    }

    /// Waits for a place, first come, first served. Fails with `Closed` after [`Scheduler::drain`].
    pub(crate) async fn place(&self) -> Result<Place> {
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())
    }

    /// Enters the line of a container at its end.
    pub(crate) fn line_up(self: &Arc<Self>, container: SpaceId) -> Turn {
        let mut lines = self.lines();
        let entry = lines.entry(container.clone()).or_default();
        let line = entry.upgrade().unwrap_or_else(|| Arc::new(Semaphore::new(1)));
        *entry = Arc::downgrade(&line);
        let mut next: Pin<Box<Waiting>> = Box::pin(unconstrained(line.acquire_owned()));
        // The first poll enters the queue of the semaphore.
        let state = match next.as_mut().now_or_never() {
            Some(permit) => State::Next { _permit: permit },
            None => State::Waiting(next),
        };
        Turn { scheduler: Arc::clone(self), container, state }
    }

    /// Waits until no place is taken, and then gives out no more places.
    pub(crate) async fn drain(&self) {
        // An error means that the scheduler was drained before.
        let all = self.places.acquire_many(self.capacity).await;
        self.places.close();
        drop(all);
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<SpaceId, Weak<Semaphore>>> {
        // No code under the lock can panic in the middle of a change, so a poisoned map is consistent.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the runtime was shut down")
}

/// The position of a task in the line of its container. Dropping it lets the next task run.
pub(crate) struct Turn {
    scheduler: Arc<Scheduler>,
    container: SpaceId,
    state: State,
}

type Permit = Result<OwnedSemaphorePermit, AcquireError>;
type Waiting = dyn Future<Output = Permit> + Send;

enum State {
    Waiting(Pin<Box<Waiting>>),
    Next { _permit: Permit },
    Left,
}

impl Turn {
    /// Waits until all earlier tasks of the container have ended and the number of running tasks is below the limit. Hold the returned
    /// permit while the task runs.
    pub(crate) async fn comes(&mut self) -> Result<OwnedSemaphorePermit> {
        if let State::Waiting(next) = &mut self.state {
            self.state = State::Next { _permit: next.await };
        }
        Arc::clone(&self.scheduler.running).acquire_owned().await.map_err(|_| closed())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.scheduler.lines();
        self.state = State::Left;
        if lines.get(&self.container).is_some_and(|line| line.strong_count() == 0) {
            lines.remove(&self.container);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(id: &str) -> SpaceId {
        SpaceId::parse(id).expect("valid")
    }

    #[tokio::test]
    async fn a_line_keeps_its_order_also_when_one_leaves_it() {
        let scheduler = Scheduler::new(9, 9);
        let [mut first, mut second, mut third] = [(); 3].map(|()| scheduler.line_up(container("a")));
        // Polled in another order than they came.
        assert!(third.comes().now_or_never().is_none());
        assert!(first.comes().now_or_never().is_some());
        drop(second.comes().now_or_never());
        drop(second);
        assert!(third.comes().now_or_never().is_none(), "the first one is not over");
        assert!(scheduler.line_up(container("b")).comes().now_or_never().is_some(), "another container");
        drop(first);
        assert!(third.comes().now_or_never().is_some());
        drop(third);
        assert!(scheduler.lines().is_empty());
    }

    #[tokio::test]
    async fn places_and_running_tasks_are_bounded() {
        let scheduler = Scheduler::new(2, 1);
        let [mut a, mut b] = ["a", "b"].map(|id| scheduler.line_up(container(id)));
        let running = a.comes().now_or_never().expect("at once").expect("open");
        assert!(b.comes().now_or_never().is_none());
        drop(running);
        assert!(b.comes().now_or_never().is_some());
        let places = [scheduler.place().await.expect("open"), scheduler.place().await.expect("open")];
        assert!(scheduler.place().now_or_never().is_none());
        assert!(scheduler.drain().now_or_never().is_none());
        drop(places);
        scheduler.drain().await;
        assert_eq!(scheduler.place().await.expect_err("drained").kind(), ErrorKind::Closed);
        scheduler.drain().await;
    }
}
