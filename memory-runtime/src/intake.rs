//! How tasks come in, and into whose hands.

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

/// Takes tasks in and has them worked on: what a runtime and its triggers share.
#[derive(Debug)]
pub(crate) struct Intake {
    equipment: Equipment,
    scheduler: Arc<Scheduler>,
    leases: Arc<Leases>,
    /// Held for reading while a task is taken in, so that a shutdown comes before or after.
    is_open: RwLock<bool>,
    is_stopped: watch::Sender<bool>,
}

impl Intake {
    /// An intake under the name of an instance; without one under a new name.
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

    /// What tasks are worked on with.
    pub(crate) fn equipment(&self) -> &Equipment {
        &self.equipment
    }

    /// Keeps a shutdown waiting until it is dropped; `Closed` once one has begun to wait.
    fn enter(&self) -> Result<RwLockReadGuard<'_, bool>> {
        // Only a shutdown writes, so a lock that can't be had is a shutdown.
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
                // A shutdown waits for this.
                if *self.is_stopped.borrow() {
                    return Ok(handles);
                }
                let id = memory.id;
                match task_of(&memory) {
                    Err(error) => tracing::error!(%id, %error, "a task can't be read, and stays as it is"),
                    Ok((before, task)) => match self.take(&memory, before, task).await {
                        Ok(handle) => handles.extend(handle),
                        // One that somebody else has filled up, or has taken or erased while it waited for its place, does not keep
                        // the others from being recovered.
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

    /// Takes a free task over; `None` when somebody else was faster.
    async fn take(self: &Arc<Self>, memory: &Memory, before: Claim, task: Task) -> Result<Option<TaskHandle>> {
        match self.leases.take(memory, self.leases.claim(before.runs())).await? {
            Some(lease) => Ok(Some(self.hold(lease, task).await?)),
            None => Ok(None),
        }
    }

    pub(crate) async fn stopped(&self) {
        // The sender lives as long as this does, so only the value ends it.
        let _ = self.is_stopped.subscribe().wait_for(|is_stopped| *is_stopped).await;
    }

    pub(crate) fn stop_triggers(&self) {
        self.is_stopped.send_replace(true);
    }

    /// Takes nothing in any more, and waits for the end of all tasks.
    pub(crate) async fn drain(&self) {
        *self.is_open.write().await = false;
        self.scheduler.drain().await;
    }

    /// Waits for a place, and has the task worked on in its turn.
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
            // Nobody may be waiting.
            let _ = sender.send(result);
            // Last, so that a shutdown waits for all of this.
            drop(place);
        };
        tokio::spawn(work.instrument(span));
        Ok(TaskHandle { id, end })
    }
}

/// Whether what went wrong says nothing of other tasks.
fn is_of_one_task(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::TooLarge)
}

/// A task and its claim from its memory.
fn task_of(memory: &Memory) -> Result<(Claim, Task)> {
    let (claim, space) = (Claim::read(memory)?, place::read(memory)?);
    let trigger: ContextItem = memory.trigger.to_value()?;
    let chain = memory.context.as_ref().map(|context| context.to_value()).transpose()?.unwrap_or_default();
    let mut metadata = memory.metadata.to_object();
    metadata.remove(TASK);
    let metadata = Metadata::from_object(&metadata)?;
    Ok((claim, Task { id: memory.id, space, trigger, chain, related: Vec::new(), metadata }))
}
