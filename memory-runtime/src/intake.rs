//! The intake: persists tasks and schedules them.

use std::sync::Arc;

use memory_core::{Error, ErrorKind, Memory, MemoryId, Metadata, Result};
use tokio::sync::{RwLock, RwLockReadGuard, oneshot, watch};
use tracing::Instrument;

use crate::claim::{Claim, TASK};
use crate::lease::Lease;
use crate::leases::Leases;
use crate::scheduler::{Scheduler, closed};
use crate::worker::{Equipment, Worker};
use crate::{ContextItem, NewTask, Task, TaskHandle, place};

/// Persists tasks, queues them and runs them. A runtime and its triggers share it.
#[derive(Debug)]
pub(crate) struct Intake {
    equipment: Equipment,
    scheduler: Arc<Scheduler>,
    leases: Arc<Leases>,
    /// Locked for reading while a task is accepted, so that a shutdown happens before or after that, never in between.
    is_open: RwLock<bool>,
    is_stopped: watch::Sender<bool>,
}

impl Intake {
    /// Makes an intake with an instance name, or with a new unique one.
    pub(crate) fn new(equipment: Equipment, instance: Option<&str>) -> Self {
        let settings = &equipment.settings;
        Self {
            scheduler: Scheduler::new(settings.queue, settings.concurrency),
            leases: equipment.manager.leases(instance, settings.lease),
            equipment,
            is_open: RwLock::new(true),
            is_stopped: watch::Sender::new(false),
        }
    }

    /// The parts that workers share.
    pub(crate) fn equipment(&self) -> &Equipment {
        &self.equipment
    }

    /// Returns a guard that holds back a shutdown. Fails with `Closed` once a shutdown waits or has happened.
    fn enter(&self) -> Result<RwLockReadGuard<'_, bool>> {
        // Only a shutdown locks for writing, so a lock that is not free means a shutdown.
        self.is_open.try_read().ok().filter(|is_open| **is_open).ok_or_else(closed)
    }

    pub(crate) async fn submit(self: &Arc<Self>, task: NewTask) -> Result<TaskHandle> {
        let _open = self.enter()?;
        place::check_metadata(&task)?;
        let claim = self.leases.claim(0);
        let id = self.equipment.manager.store_task(&task, &claim).await?;
        let lease = self.leases.hold(id, claim);
        let NewTask { space, trigger, metadata } = task;
        self.hold(lease, Task { id, space, trigger, chain: Vec::new(), related: Vec::new(), metadata }).await
    }

    pub(crate) async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        let _open = self.enter()?;
        place::check_metadata(&event)?;
        self.equipment.manager.observe(&event).await
    }

    pub(crate) async fn recover(self: &Arc<Self>) -> Result<Vec<TaskHandle>> {
        let _open = self.enter()?;
        let (mut handles, mut cursor, free) = (Vec::new(), None, self.leases.free());
        loop {
            let page = self.equipment.manager.free_tasks(&free, cursor.as_ref()).await?;
            for memory in page.memories {
                // A shutdown waits for this loop, so it must end soon.
                if *self.is_stopped.borrow() {
                    return Ok(handles);
                }
                let id = memory.id;
                match task_of(&memory) {
                    Err(error) => tracing::error!(%id, %error, "a task can't be read, and stays as it is"),
                    Ok((before, task)) => match self.take(&memory, before, task).await {
                        Ok(handle) => handles.extend(handle),
                        // A task that has no room left, or that somebody else took or erased while it waited for a place, must not keep the
                        // others from being recovered.
                        Err(error) if error.kind() == ErrorKind::Erased => tracing::info!(%id, "a task was erased"),
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

    /// Claims a free task and queues it. Returns `None` if another runtime was faster.
    async fn take(self: &Arc<Self>, memory: &Memory, before: Claim, task: Task) -> Result<Option<TaskHandle>> {
        match self.leases.take(memory, self.leases.claim(before.runs())).await? {
            Some(lease) => Ok(Some(self.hold(lease, task).await?)),
            None => Ok(None),
        }
    }

    pub(crate) async fn stopped(&self) {
        // The sender lives as long as `self`, so only the value ends the wait.
        let _ = self.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    pub(crate) fn stop_triggers(&self) {
        self.is_stopped.send_replace(true);
    }

    /// Accepts no more tasks, and waits for the end of all that are held.
    pub(crate) async fn drain(&self) {
        *self.is_open.write().await = false;
        self.scheduler.drain().await;
    }

    /// Waits for a place in the queue, then runs the task in its turn on a new tokio task.
    async fn hold(self: &Arc<Self>, lease: Arc<Lease>, task: Task) -> Result<TaskHandle> {
        let id = task.id;
        let place = lease.while_held(self.scheduler.place()).await?;
        let mut turn = self.scheduler.line_up(task.space.container().clone());
        let (sender, end) = oneshot::channel();
        let intake = Arc::clone(self);
        let span = tracing::info_span!("task", %id);
        let work = async move {
            let work = async {
                let _running = turn.comes().await?;
                Worker::new(&intake.equipment, &lease, task).run().await
            };
            let result = lease.while_held(work).await;
            match &result {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Erased => tracing::info!("the task was erased before its end"),
                Err(error) => tracing::error!(%error, "the task was left open"),
            }
            drop((turn, lease));
            // Fails if nobody waits for the result.
            let _ = sender.send(result);
            // Dropped last, so that a shutdown waits for all of the above.
            drop(place);
        };
        tokio::spawn(work.instrument(span));
        Ok(TaskHandle { id, end })
    }
}

/// Whether an error concerns only the task at hand, not the provider.
fn is_of_one_task(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::TooLarge)
}

/// Reads a task and its claim from its memory.
fn task_of(memory: &Memory) -> Result<(Claim, Task)> {
    let (claim, space) = (Claim::read(memory)?, place::read(memory)?);
    let trigger: ContextItem = memory.trigger.to_value()?;
    let chain = memory.context.as_ref().map(|context| context.to_value()).transpose()?.unwrap_or_default();
    let mut metadata = memory.metadata.to_object();
    metadata.remove(TASK);
    let metadata = Metadata::from_object(&metadata)?;
    Ok((claim, Task { id: memory.id, space, trigger, chain, related: Vec::new(), metadata }))
}
