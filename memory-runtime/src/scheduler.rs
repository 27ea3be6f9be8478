//! When a task may run: in the order of its container, and with a bounded number of others.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::FutureExt;
use memory_core::{Error, ErrorKind, Result, SpaceId};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::coop::unconstrained;

/// Bounds how many tasks are held and how many of them run, and keeps those of one container in line.
#[derive(Debug)]
pub(crate) struct Scheduler {
    places: Arc<Semaphore>,
    /// How many places there are.
    capacity: u32,
    running: Arc<Semaphore>,
    /// A semaphore of one permit for each container that has a task, since semaphores are fair.
    lines: Mutex<HashMap<SpaceId, Weak<Semaphore>>>,
}

/// A place among the tasks that are held. Dropping it makes room.
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

    /// Waits for a place, first come, first served. `Closed` after [`Scheduler::drain`].
    pub(crate) async fn place(&self) -> Result<Place> {
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())
    }

    /// Goes to the end of the line of a container.
    pub(crate) fn line_up(self: &Arc<Self>, container: SpaceId) -> Turn {
        let mut lines = self.lines();
        let entry = lines.entry(container.clone()).or_default();
        let line = entry.upgrade().unwrap_or_else(|| Arc::new(Semaphore::new(1)));
        *entry = Arc::downgrade(&line);
        let mut next: Pin<Box<Waiting>> = Box::pin(unconstrained(line.acquire_owned()));
        // To be in line is to have been polled.
        let state = match next.as_mut().now_or_never() {
            Some(permit) => State::Next { _permit: permit },
            None => State::Waiting(next),
        };
        Turn { scheduler: Arc::clone(self), container, state }
    }

    /// Waits until no place is taken, and gives none any more.
    pub(crate) async fn drain(&self) {
        // An error says that it has been drained before.
        let all = self.places.acquire_many(self.capacity).await;
        self.places.close();
        drop(all);
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<SpaceId, Weak<Semaphore>>> {
        // No code that holds the lock can panic half way through a change.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the runtime was shut down")
}

/// A task in the line of its container. Dropping it lets the next one go on.
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
    /// Waits until no task of the container is before this one, and fewer tasks run than may. The permit is held while
    /// it runs.
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
