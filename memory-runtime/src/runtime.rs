//! The runtime and its shutdown.

use std::sync::Arc;
use std::time::Duration;

use memory_core::plugin::Scope;
use memory_core::{MemoryId, Result};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::intake::Intake;
use crate::trigger::{TaskSender, TriggerSource};
use crate::worker::panicked;
use crate::{Actions, Model, NewTask, ScopedMemory, TaskHandle};

/// Runs tasks and keeps them in the ledger of one memory provider.
///
/// Call [`Runtime::shutdown`] at the end. A runtime that is dropped without it stops its triggers; its tasks go on only as long as the
/// tokio runtime does. The README of the crate lists its guarantees (R1 to R19).
#[derive(Debug)]
pub struct Runtime {
    intake: Arc<Intake>,
    model: Option<Arc<dyn Model>>,
    closing: Mutex<Closing>,
}

/// The parts that are not shut down yet.
#[derive(Debug)]
struct Closing {
    triggers: Vec<(String, JoinHandle<Result<()>>)>,
    plugins: usize,
    is_provider_open: bool,
}

/// How long a shutdown waits for the triggers to stop.
const TRIGGER_GRACE: Duration = Duration::from_secs(10);

impl Runtime {
    /// Persists the trigger of a task, waits for a place in the queue, and starts the task.
    ///
    /// From the moment that the trigger is persisted, no crash loses the task: [`Runtime::recover`] finds it.
    ///
    /// # Errors
    /// `InvalidInput` if the metadata have a member `task`; `TooLarge` over the limits of a memory (the metadata must leave 1 KiB free
    /// for the runtime); `Closed` after a shutdown; `Erased` if an operator erased the task while it waited for its place; otherwise the
    /// error of the provider.
    pub async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        self.intake.submit(task).await
    }

    /// Persists an event that is not worked on, with the status `observed`.
    pub async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        self.intake.observe(event).await
    }

    /// Takes the open tasks that nobody works on, oldest first: those whose lease has expired, and those that an earlier runtime with the
    /// same instance name held when this one was built (R15). The cost grows with the open tasks, not with the ledger (Q9).
    ///
    /// A task continues after the last step whose outcome its chain has (R16). If several runtimes on one engine recover, only one gets a
    /// task. Call it after the start, and from time to time. It waits for places in the queue as [`Runtime::submit`] does, and takes no
    /// more tasks once a shutdown has begun.
    pub async fn recover(&self) -> Result<Vec<TaskHandle>> {
        self.intake.recover().await
    }

    /// Returns access to the memory within a scope, for parts of a host that are not plugins.
    pub fn memory(&self, scope: Scope) -> ScopedMemory {
        ScopedMemory::new(Arc::clone(&self.intake.equipment().manager), scope)
    }

    /// The language model, if one was set.
    pub fn model(&self) -> Option<&Arc<dyn Model>> {
        self.model.as_ref()
    }

    /// The registered plugins and the argument schemas of their executors.
    pub fn actions(&self) -> &Actions {
        &self.intake.equipment().actions
    }

    /// Stops the triggers (waiting up to 10 s for each), waits for the end of all tasks, shuts down the plugins, the last one first, and
    /// then the provider (R4). Each is shut down once, even if this is called again. It goes on after an error and returns the first one.
    pub async fn shutdown(&self) -> Result<()> {
        let mut closing = self.closing.lock().await;
        let mut result = Ok(());
        self.intake.stop_triggers();
        while let Some((name, trigger)) = closing.triggers.last_mut() {
            let ended = tokio::time::timeout(TRIGGER_GRACE, &mut *trigger).await;
            let ended = ended.unwrap_or_else(|_| {
                trigger.abort();
                tracing::warn!(name, "a trigger was stopped by force");
                Ok(Ok(()))
            });
            closing.triggers.pop();
            result = result.and(ended.unwrap_or_else(|_| Err(panicked("a trigger"))));
        }
        self.intake.drain().await;
        while closing.plugins > 0 {
            closing.plugins -= 1;
            result = result.and(self.actions().plugins()[closing.plugins].shutdown().await);
        }
        if std::mem::take(&mut closing.is_provider_open) {
            result = result.and(self.intake.equipment().manager.shutdown().await);
        }
        result
    }

    pub(crate) fn start(intake: Intake, model: Option<Arc<dyn Model>>, triggers: Vec<Arc<dyn TriggerSource>>) -> Self {
        let intake = Arc::new(intake);
        let listen = |trigger: Arc<dyn TriggerSource>| {
            let (name, tasks) = (trigger.name().to_owned(), TaskSender::new(Arc::new(Arc::clone(&intake))));
            let running = tokio::spawn(async move {
                let result = trigger.run(tasks).await;
                if let Err(error) = &result {
                    tracing::error!(trigger = trigger.name(), %error, "a trigger has ended");
                }
                result
            });
            (name, running)
        };
        let triggers = triggers.into_iter().map(listen).collect();
        let plugins = intake.equipment().actions.plugins().len();
        Self { intake, model, closing: Mutex::new(Closing { triggers, plugins, is_provider_open: true }) }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.intake.stop_triggers();
    }
}
