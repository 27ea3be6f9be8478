//! The running triggers of an agent.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{MessageTrigger, TriggerContext};

/// How long a trigger may take to stop.
const GRACE: Duration = Duration::from_secs(10);

/// The running triggers of an agent. Dropping this value tells them to stop.
#[derive(Debug)]
pub(super) struct Triggers {
    runtime: Handle,
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    running: Vec<Running>,
    is_closed: bool,
}

/// A running trigger.
#[derive(Debug)]
struct Running {
    trigger: Arc<dyn MessageTrigger>,
    work: JoinHandle<()>,
    /// Tells the trigger to stop when dropped.
    stop: DropGuard,
}

impl Triggers {
    /// Makes an empty set, whose triggers will run on the current tokio runtime.
    pub(super) fn new() -> Self {
        Self { runtime: Handle::current(), present: Mutex::default() }
    }

    /// Starts the registered triggers that don't run, each with a context that can stop it, and stops the running ones that are not
    /// registered. The handle waits for the end of the stopped ones.
    pub(super) fn follow(
        &self,
        context: impl Fn(CancellationToken) -> TriggerContext,
        registered: impl FnOnce() -> Vec<Arc<dyn MessageTrigger>>,
    ) -> JoinHandle<()> {
        let mut present = self.present();
        // Read under the lock, so that of two concurrent changes the later one wins.
        let registered = registered();
        let is_registered = |running: &mut Running| registered.iter().any(|one| Arc::ptr_eq(one, &running.trigger));
        let ended: Vec<_> = present.running.extract_if(.., |running| !is_registered(running)).collect();
        if !present.is_closed {
            for trigger in registered {
                if !present.running.iter().any(|running| Arc::ptr_eq(&running.trigger, &trigger)) {
                    present.running.push(self.start(&context, trigger));
                }
            }
        }
        drop(present);
        self.runtime.spawn(async { drop(join_all(ended.into_iter().map(Running::end)).await) })
    }

    /// Stops all triggers and starts no more. Waits until they have ended, at most for the grace period.
    pub(super) async fn close(&self) {
        let running = {
            let mut present = self.present();
            present.is_closed = true;
            std::mem::take(&mut present.running)
        };
        join_all(running.into_iter().map(Running::end)).await;
    }

    fn start(
        &self,
        context: impl Fn(CancellationToken) -> TriggerContext,
        trigger: Arc<dyn MessageTrigger>,
    ) -> Running {
        let stop = CancellationToken::new();
        let (context, runs) = (context(stop.clone()), Arc::clone(&trigger));
        let work = self.runtime.spawn(async move {
            let ended = AssertUnwindSafe(async { runs.run(context).await }).catch_unwind().await;
            match ended {
                Ok(Ok(())) => tracing::debug!(trigger = runs.name(), "a trigger has ended"),
                Ok(Err(error)) => tracing::error!(trigger = runs.name(), %error, "a trigger has failed"),
                Err(_) => tracing::error!(trigger = runs.name(), "a trigger panicked"),
            }
        });
        Running { trigger, work, stop: stop.drop_guard() }
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        // No code under the lock can panic in the middle of a change, so a poisoned value is consistent.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Tells the trigger to stop, and aborts it after the grace period.
    async fn end(self) {
        let Self { trigger, mut work, stop } = self;
        drop(stop);
        if timeout(GRACE, &mut work).await.is_err() {
            work.abort();
            tracing::warn!(trigger = trigger.name(), "a trigger was stopped by force");
        }
    }
}
