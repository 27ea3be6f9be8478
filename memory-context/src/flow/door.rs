//! The gate that lets runs start and a shutdown wait for them.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use memory_core::{Error, ErrorKind, Result};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

use super::End;

/// Lets runs start while the service is open, and lets a shutdown wait until all runs have ended.
#[derive(Debug)]
pub(super) struct Door {
    stopping: watch::Sender<Stopping>,
    /// Locked for reading by each run, so that a shutdown waits for it.
    is_open: Arc<RwLock<bool>>,
}

/// A guard of a run: a shutdown waits until it is dropped.
pub(super) type Entered = OwnedRwLockReadGuard<bool>;

/// Which messages a shutdown gives back, so that another process can continue them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stopping {
    Nothing,
    /// The messages whose answer is not decided yet.
    Undecided,
    /// All messages.
    Everything,
}

impl Door {
    pub(super) fn open() -> Self {
        Self { stopping: watch::Sender::new(Stopping::Nothing), is_open: Arc::new(RwLock::new(true)) }
    }

    /// Closes the service and waits until all runs have ended. The work that `stopping` covers is dropped.
    pub(super) async fn close(&self, stopping: Stopping) {
        self.stopping.send_if_modified(|now| std::mem::replace(now, stopping.max(*now)) != *now);
        *self.is_open.write().await = false;
    }

    /// Returns a guard that a shutdown waits for. Fails with `Closed` once a shutdown has begun.
    pub(super) fn enter(&self) -> Result<Entered> {
        let is_open = Arc::clone(&self.is_open).try_read_owned().ok();
        let is_open = is_open.filter(|is_open| **is_open && *self.stopping.borrow() == Stopping::Nothing);
        is_open.ok_or_else(|| Error::new(ErrorKind::Closed, "the service was shut down"))
    }

    /// Runs `work`, and drops it when a shutdown gives back messages in the stage `at`.
    pub(super) async fn unless<T>(&self, at: Stopping, work: impl Future<Output = T>) -> Result<T, End> {
        let mut stopping = self.stopping.subscribe();
        let stopped = stopping.wait_for(|stopping| *stopping >= at);
        match select(pin!(work), pin!(stopped)).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(End::Left { reason: "the service was shut down".to_owned() }),
        }
    }
}
