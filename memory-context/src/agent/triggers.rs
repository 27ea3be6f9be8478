//! The triggers of an agent that run.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::handle::WeakAgent;
use super::{MessageTrigger, TriggerContext};

/// How long a trigger that is to stop may go on.
const GRACE: Duration = Duration::from_secs(10);

/// The triggers of an agent that run. When this is dropped, they are told to stop.
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

/// A trigger that runs.
#[derive(Debug)]
struct Running {
    trigger: Arc<dyn MessageTrigger>,
    work: JoinHandle<()>,
    /// Tells it to stop when it is dropped.
    stop: DropGuard,
}

impl Triggers {
    /// None yet. They will run on the runtime that this is called on.
    pub(super) fn new() -> Self {
        Self { runtime: Handle::current(), present: Mutex::default() }
    }

    /// Starts those of the registered ones that don't run, and stops those that run and are not registered; the handle waits for the
    /// end of these.
    pub(super) fn follow(
        &self,
        agent: &WeakAgent,
        registered: impl FnOnce() -> Vec<Arc<dyn MessageTrigger>>,
    ) -> JoinHandle<()> {
        let mut present = self.present();
        // Under the lock, so that of two changes at once the later one counts.
        let registered = registered();
        let is_registered = |running: &mut Running| registered.iter().any(|one| Arc::ptr_eq(one, &running.trigger));
        let ended: Vec<_> = present.running.extract_if(.., |running| !is_registered(running)).collect();
        if !present.is_closed {
            for trigger in registered {
                if !present.running.iter().any(|running| Arc::ptr_eq(&running.trigger, &trigger)) {
                    present.running.push(self.start(agent.clone(), trigger));
                }
            }
        }
        drop(present);
        self.runtime.spawn(async { drop(join_all(ended.into_iter().map(Running::end)).await) })
    }

    /// Stops all and starts no more. Blocks until they have ended, for the grace at most.
    pub(super) async fn close(&self) {
        let running = {
            let mut present = self.present();
            present.is_closed = true;
            std::mem::take(&mut present.running)
        };
        join_all(running.into_iter().map(Running::end)).await;
    }

    fn start(&self, agent: WeakAgent, trigger: Arc<dyn MessageTrigger>) -> Running {
        let stop = CancellationToken::new();
        let (context, runs) = (TriggerContext::new(agent, stop.clone()), Arc::clone(&trigger));
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
        // No code that holds the lock can panic half way through a change.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Tells it to stop, and ends it by force where it goes on.
    async fn end(self) {
        let Self { trigger, mut work, stop } = self;
        drop(stop);
        if timeout(GRACE, &mut work).await.is_err() {
            work.abort();
            tracing::warn!(trigger = trigger.name(), "a trigger was stopped by force");
        }
    }
}
