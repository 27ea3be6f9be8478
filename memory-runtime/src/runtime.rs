//! The runtime: what it holds, and its life from start to shutdown.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::plugin::Scope;
use memory_core::{Error, ErrorKind, Memory, MemoryId, Metadata, Result, Revision};
use tokio::sync::{RwLock, RwLockReadGuard, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::builder::{Settings, unique_name};
use crate::claim::{self, Claim, Lease, TASK};
use crate::memory_manager::MemoryManager;
use crate::scheduler::{Scheduler, closed};
use crate::worker::Worker;
use crate::{
    Actions, Context, Model, NewTask, Planner, RuntimeBuilder, ScopedMemory, Task, TaskHandle, TaskSender,
    TriggerSource,
};

/// Works on tasks, one provider behind it.
///
/// Call [`Runtime::shutdown`] in the end: what is dropped without it stops taking events in, and goes on with its tasks
/// only as long as the executor does. The rules that it keeps are in the README of the crate.
#[derive(Debug)]
pub struct Runtime {
    inner: Arc<Inner>,
    closing: tokio::sync::Mutex<Closing>,
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
    /// Starts the description of a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// Persists the trigger of a task, waits for a place in the queue, and has the task worked on.
    ///
    /// When the trigger is persisted, it is not lost any more: a task that this runtime does not come to is found by
    /// [`Runtime::recover`]. `InvalidInput` for metadata with a member `task`, `TooLarge` over the limits of a memory
    /// (the metadata have to leave 1 KiB free for the runtime), `Closed` after a shutdown; otherwise what the provider
    /// answers.
    pub async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        self.inner.submit(task).await
    }

    /// Persists an event that is seen and not answered, under the status `observed`.
    pub async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        self.inner.observe(event).await
    }

    /// Takes the open tasks that nobody works on any more, oldest first: those whose lease has run out, and those that
    /// an earlier runtime of the same instance held. Costs what is open, not what the ledger holds.
    ///
    /// A task goes on behind the last step whose outcome its chain has. Of several runtimes on one engine one gets it.
    /// Waits for places in the queue as [`Runtime::submit`] does; call it after the start, and from time to time.
    pub async fn recover(&self) -> Result<Vec<TaskHandle>> {
        self.inner.recover().await
    }

    /// The memory within a scope, for parts of a host that are no plugins.
    pub fn memory(&self, scope: Scope) -> ScopedMemory {
        ScopedMemory::new(Arc::clone(&self.inner.manager), scope)
    }

    /// The language model, if there is one.
    pub fn model(&self) -> Option<&Arc<dyn Model>> {
        self.inner.model.as_ref()
    }

    /// The plugins, and what their executors may be called with.
    pub fn actions(&self) -> &Actions {
        &self.inner.actions
    }

    /// Stops the triggers, waits for the end of all tasks, shuts down the plugins, the last one first, and then the
    /// provider; each once, however often it is called. It goes on after a failure and tells the first.
    pub async fn shutdown(&self) -> Result<()> {
        let mut closing = self.closing.lock().await;
        let mut result = Ok(());
        self.inner.stop_triggers();
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
        *self.inner.is_open.write().await = false;
        self.inner.scheduler.drain().await;
        while closing.plugins > 0 {
            closing.plugins -= 1;
            result = result.and(self.inner.actions.plugins()[closing.plugins].shutdown().await);
        }
        if std::mem::take(&mut closing.is_provider_open) {
            result = result.and(self.inner.manager.shutdown().await);
        }
        result
    }

    pub(crate) fn start(inner: Inner, triggers: Vec<Arc<dyn TriggerSource>>) -> Self {
        let inner = Arc::new(inner);
        let listen = |trigger: Arc<dyn TriggerSource>| {
            let (name, tasks) = (trigger.name().to_owned(), TaskSender::new(Arc::clone(&inner)));
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
        let plugins = inner.actions.plugins().len();
        Self { inner, closing: tokio::sync::Mutex::new(Closing { triggers, plugins, is_provider_open: true }) }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.inner.stop_triggers();
    }
}

pub(crate) fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::Unexpected, format!("{what} panicked"))
}

/// What tasks and triggers share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) manager: Arc<MemoryManager>,
    pub(crate) actions: Actions,
    pub(crate) planner: Arc<dyn Planner>,
    model: Option<Arc<dyn Model>>,
    pub(crate) settings: Settings,
    scheduler: Arc<Scheduler>,
    instance: Arc<str>,
    holder: Arc<str>,
    /// The tasks that are held at this moment, which no recovery may take.
    held: Mutex<HashSet<MemoryId>>,
    /// Held for reading while a task is taken in, so that a shutdown comes before or after.
    is_open: RwLock<bool>,
    is_stopped: watch::Sender<bool>,
}

impl Inner {
    pub(crate) fn new(
        manager: Arc<MemoryManager>,
        actions: Actions,
        planner: Arc<dyn Planner>,
        model: Option<Arc<dyn Model>>,
        instance: Option<String>,
        settings: Settings,
    ) -> Self {
        Self {
            manager,
            actions,
            planner,
            model,
            scheduler: Scheduler::new(settings.queue, settings.concurrency),
            settings,
            instance: instance.map_or_else(unique_name, Arc::from),
            holder: unique_name(),
            held: Mutex::default(),
            is_open: RwLock::new(true),
            is_stopped: watch::Sender::new(false),
        }
    }

    /// Keeps a shutdown waiting until it is dropped; `Closed` once one has begun to wait.
    fn enter(&self) -> Result<RwLockReadGuard<'_, bool>> {
        // Only a shutdown writes, so a lock that can't be had is a shutdown.
        self.is_open.try_read().ok().filter(|is_open| **is_open).ok_or_else(closed)
    }

    pub(crate) async fn submit(self: &Arc<Self>, task: NewTask) -> Result<TaskHandle> {
        let _open = self.enter()?;
        claim::check_metadata(&task)?;
        let claim = self.claim(0);
        let id = self.manager.store_task(&task, &claim).await?;
        let lease = Lease::new(Arc::clone(&self.manager), id, Revision::FIRST, claim, self.settings.lease);
        let NewTask { space, trigger, metadata } = task;
        self.hold(lease, Task { id, space, trigger, chain: Vec::new(), related: Vec::new(), metadata }).await
    }

    pub(crate) async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        let _open = self.enter()?;
        claim::check_metadata(&event)?;
        self.manager.observe(&event).await
    }

    async fn recover(self: &Arc<Self>) -> Result<Vec<TaskHandle>> {
        let _open = self.enter()?;
        let now = self.manager.now();
        let (mut handles, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.manager.free_tasks(&self.instance, &self.holder, now, cursor.as_ref()).await?;
            for memory in page.memories.into_iter().filter(|memory| !self.held().contains(&memory.id)) {
                let id = memory.id;
                match task_of(&memory) {
                    Err(error) => tracing::error!(%id, %error, "a task can't be read, and stays as it is"),
                    Ok((before, task)) => match self.take(&memory, before, task).await {
                        Ok(handle) => handles.extend(handle),
                        // One that somebody else has filled up, or has taken while it waited for its place, does not keep the
                        // others from being recovered.
                        Err(error) if is_of_one_task(&error) => {
                            tracing::error!(%id, %error, "a task can't be taken, and stays as it is");
                        }
                        Err(error) => return Err(error),
                    },
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(handles);
            }
        }
    }

    /// Takes a free task over; `None` when somebody else was faster.
    async fn take(self: &Arc<Self>, memory: &Memory, before: Claim, task: Task) -> Result<Option<TaskHandle>> {
        let claim = self.claim(before.runs);
        match Lease::take(&self.manager, memory, claim, self.settings.lease).await? {
            Some(lease) => Ok(Some(self.hold(lease, task).await?)),
            None => Ok(None),
        }
    }

    pub(crate) async fn stopped(&self) {
        // The sender lives as long as this does, so only the value ends it.
        let _ = self.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    fn stop_triggers(&self) {
        self.is_stopped.send_replace(true);
    }

    /// The claim of this runtime from now on.
    fn claim(&self, runs: u32) -> Claim {
        let until = Lease::end(self.manager.now(), self.settings.lease);
        Claim { instance: Arc::clone(&self.instance), holder: Arc::clone(&self.holder), until, runs }
    }

    /// Waits for a place, and has the task worked on in its turn.
    async fn hold(self: &Arc<Self>, lease: Arc<Lease>, task: Task) -> Result<TaskHandle> {
        let id = task.id;
        let held = Held::new(Arc::clone(self), id);
        let place = lease.while_held(self.scheduler.place()).await?;
        let mut turn = self.scheduler.line_up(task.space.container().clone());
        let (sender, end) = oneshot::channel();
        let inner = Arc::clone(self);
        let span = tracing::info_span!("task", %id);
        let work = async move {
            let work = async {
                let _running = turn.comes().await?;
                Worker::new(&inner, &lease, task).run().await
            };
            let result = lease.while_held(work).await;
            if let Err(error) = &result {
                tracing::error!(%error, "the task was left open");
            }
            drop((turn, held));
            // Nobody may be waiting.
            let _ = sender.send(result);
            // Last, so that a shutdown waits for all of this.
            drop(place);
        };
        tokio::spawn(work.instrument(span));
        Ok(TaskHandle { id, end })
    }

    fn held(&self) -> MutexGuard<'_, HashSet<MemoryId>> {
        // No code that holds the lock can panic half way through a change.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what went wrong says nothing of other tasks.
fn is_of_one_task(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::TooLarge)
}

/// A task and its claim from its memory.
fn task_of(memory: &Memory) -> Result<(Claim, Task)> {
    let (claim, space) = Claim::read(memory)?;
    let trigger: Context = memory.trigger.to_value()?;
    let chain = memory.context.as_ref().map(|context| context.to_value()).transpose()?.unwrap_or_default();
    let mut metadata = memory.metadata.to_object();
    metadata.remove(TASK);
    let metadata = Metadata::from_object(&metadata)?;
    Ok((claim, Task { id: memory.id, space, trigger, chain, related: Vec::new(), metadata }))
}

/// Marks a task as held until it is dropped.
struct Held {
    inner: Arc<Inner>,
    id: MemoryId,
}

impl Held {
    fn new(inner: Arc<Inner>, id: MemoryId) -> Self {
        inner.held().insert(id);
        Self { inner, id }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.inner.held().remove(&self.id);
    }
}
