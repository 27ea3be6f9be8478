//! Triggers: where tasks come from.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{MemoryId, Result};

use crate::intake::Intake;
use crate::{NewTask, TaskHandle};

/// Something outside that starts tasks: a chat, a timer, an HTTP route. A runtime listens to it, or another host that is a [`TaskIntake`].
#[async_trait]
pub trait TriggerSource: Send + Sync + 'static {
    /// What tells it from the other sources of a runtime.
    fn name(&self) -> &str;

    /// Listens, and submits a task for each event, until [`TaskSender::stopped`] ends; then it takes in nothing more,
    /// and returns when all that it has taken in is submitted. Its host waits for that, up to its limit.
    async fn run(&self, tasks: TaskSender) -> Result<()>;
}

impl fmt::Debug for dyn TriggerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TriggerSource({})", self.name())
    }
}

/// What takes in what a [`TriggerSource`] brings, held as `Arc<dyn TaskIntake>`.
#[async_trait]
pub trait TaskIntake: Send + Sync + 'static {
    /// Takes a task in: once this has returned, no crash loses it.
    async fn submit(&self, task: NewTask) -> Result<TaskHandle>;

    /// Keeps an event that is seen and not worked on; gives the id of its memory.
    async fn observe(&self, event: NewTask) -> Result<MemoryId>;

    /// Ends when the source is to stop.
    async fn stopped(&self);
}

impl fmt::Debug for dyn TaskIntake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskIntake")
    }
}

/// How a trigger reaches its host.
#[derive(Debug, Clone)]
pub struct TaskSender {
    intake: Arc<dyn TaskIntake>,
}

impl TaskSender {
    /// A sender to this host.
    pub fn new(intake: Arc<dyn TaskIntake>) -> Self {
        Self { intake }
    }

    /// See [`Runtime::submit`](crate::Runtime::submit).
    pub async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        self.intake.submit(task).await
    }

    /// See [`Runtime::observe`](crate::Runtime::observe).
    pub async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        self.intake.observe(event).await
    }

    /// Ends when the host shuts down.
    pub async fn stopped(&self) {
        self.intake.stopped().await;
    }
}

#[async_trait]
impl TaskIntake for Arc<Intake> {
    async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        Intake::submit(self, task).await
    }

    async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        Intake::observe(self, event).await
    }

    async fn stopped(&self) {
        Intake::stopped(self).await;
    }
}
