//! The runtime: what it holds, and its life from start to shutdown.

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

/// Works on tasks, one provider behind it.
///
/// Call [`Runtime::shutdown`] in the end: what is dropped without it stops taking events in, and goes on with its tasks
/// only as long as the executor does. The rules that it keeps are in the README of the crate.
#[derive(Debug)]
pub struct Runtime {
    intake: Arc<Intake>,
    model: Option<Arc<dyn Model>>,
    closing: Mutex<Closing>,
}

/// What is left to shut down.
#[derive(Debug)]
struct Closing {
    triggers: Vec<(String, JoinHandle<Result<()>>)>,
    plugins: usize,
    is_provider_open: bool,
}

/// How long a shutdown waits for the triggers to stop.
const TRIGGER_GRACE: Duration = Duration::from_secs(10);

impl Runtime {
    /// Persists the trigger of a task, waits for a place in the queue, and has the task worked on.
    ///
    /// When the trigger is persisted, it is not lost any more: a task that this runtime does not come to is found by
    /// [`Runtime::recover`]. `InvalidInput` for metadata with a member `task`, `TooLarge` over the limits of a memory
    /// (the metadata have to leave 1 KiB free for the runtime), `Closed` after a shutdown, `Erased` when an operator has erased it while
    /// it waited for its place; otherwise what the provider answers.
    pub async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        self.intake.submit(task).await
    }

    /// Persists an event that is seen and not answered, under the status `observed`.
    pub async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        self.intake.observe(event).await
    }

    /// Takes the open tasks that nobody works on any more, oldest first: those whose lease has run out, and those that
    /// an earlier runtime of the same instance held. Costs what is open, not what the ledger holds.
    ///
    /// A task goes on behind the last step whose outcome its chain has. Of several runtimes on one engine one gets it.
    /// Waits for places in the queue as [`Runtime::submit`] does; call it after the start, and from time to time. Once a shutdown
    /// has begun it takes no more.
    pub async fn recover(&self) -> Result<Vec<TaskHandle>> {
        self.intake.recover().await
    }

    /// The memory within a scope, for parts of a host that are no plugins.
    pub fn memory(&self, scope: Scope) -> ScopedMemory {
        ScopedMemory::new(Arc::clone(&self.intake.equipment().manager), scope)
    }

    /// The language model, if there is one.
    pub fn model(&self) -> Option<&Arc<dyn Model>> {
        self.model.as_ref()
    }

    /// The plugins, and what their executors may be called with.
    pub fn actions(&self) -> &Actions {
        &self.intake.equipment().actions
    }

    /// Stops the triggers, waits for the end of all tasks, shuts down the plugins, the last one first, and then the
    /// provider; each once, however often it is called. It goes on after a failure and tells the first.
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
