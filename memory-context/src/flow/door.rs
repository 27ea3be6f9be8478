//! Whether a service takes messages in, and what a shutdown gives up.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use memory_core::{Error, ErrorKind, Result};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

use super::End;

/// The door of a service: each run goes through it, and a shutdown closes it behind the last.
#[derive(Debug)]
pub(super) struct Door {
    stopping: watch::Sender<Stopping>,
    /// Held for reading by each run, so that a shutdown waits for it.
    is_open: Arc<RwLock<bool>>,
}

/// Somebody who is in: a shutdown waits until it is dropped.
pub(super) type Entered = OwnedRwLockReadGuard<bool>;

/// What a shutdown gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stopping {
    Nothing,
    /// The messages whose answer is not decided on.
    Undecided,
    /// All messages.
    Everything,
}

impl Door {
    pub(super) fn open() -> Self {
        Self { stopping: watch::Sender::new(Stopping::Nothing), is_open: Arc::new(RwLock::new(true)) }
    }

    /// Lets nobody in any more, and waits until all that are in have gone; those that are as far as what is given up are dropped.
    pub(super) async fn close(&self, stopping: Stopping) {
        self.stopping.send_if_modified(|now| std::mem::replace(now, stopping.max(*now)) != *now);
        *self.is_open.write().await = false;
    }

    /// Keeps a shutdown waiting until it is dropped; `Closed` once one has begun.
    pub(super) fn enter(&self) -> Result<Entered> {
        let is_open = Arc::clone(&self.is_open).try_read_owned().ok();
        let is_open = is_open.filter(|is_open| **is_open && *self.stopping.borrow() == Stopping::Nothing);
        is_open.ok_or_else(|| Error::new(ErrorKind::Closed, "the service was shut down"))
    }

    /// Does some work, unless a shutdown gives up what is as far as that: then it is dropped.
    pub(super) async fn unless<T>(&self, at: Stopping, work: impl Future<Output = T>) -> Result<T, End> {
        let mut stopping = self.stopping.subscribe();
        let stopped = stopping.wait_for(|stopping| *stopping >= at);
        match select(pin!(work), pin!(stopped)).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(End::Left { reason: "the service was shut down".to_owned() }),
        }
    }
}
