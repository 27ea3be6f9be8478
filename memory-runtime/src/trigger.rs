//! Triggers, the sources of tasks.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{MemoryId, Result};

use crate::intake::Intake;
use crate::{NewTask, TaskHandle};

/// An external source of tasks: a chat, a timer, an HTTP route. Its host is a runtime or another [`TaskIntake`].
#[async_trait]
pub trait TriggerSource: Send + Sync + 'static {
    /// The name, which is unique among the sources of a host.
    fn name(&self) -> &str;

    /// Listens and submits a task for each event until [`TaskSender::stopped`] completes. Then it accepts no more events, submits those
    /// that it has accepted, and returns. The host waits for that only for a limited time.
    async fn run(&self, tasks: TaskSender) -> Result<()>;
}

impl fmt::Debug for dyn TriggerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TriggerSource({})", self.name())
    }
}

/// The host of a [`TriggerSource`], which accepts its tasks. Held as `Arc<dyn TaskIntake>`.
#[async_trait]
pub trait TaskIntake: Send + Sync + 'static {
    /// Accepts a task. Once this has returned, no crash loses the task.
    async fn submit(&self, task: NewTask) -> Result<TaskHandle>;

    /// Stores an event that is not worked on, and returns the id of its memory.
    async fn observe(&self, event: NewTask) -> Result<MemoryId>;

    /// Completes when the source must stop.
    async fn stopped(&self);
}

impl fmt::Debug for dyn TaskIntake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskIntake")
    }
}

/// The handle with which a trigger submits tasks to its host.
#[derive(Debug, Clone)]
pub struct TaskSender {
    intake: Arc<dyn TaskIntake>,
}

impl TaskSender {
    /// Makes a sender to this host.
    pub fn new(intake: Arc<dyn TaskIntake>) -> Self {
        Self { intake }
    }

    /// Submits a task; see [`Runtime::submit`](crate::Runtime::submit).
    pub async fn submit(&self, task: NewTask) -> Result<TaskHandle> {
        self.intake.submit(task).await
    }

    /// Stores an event that is not worked on; see [`Runtime::observe`](crate::Runtime::observe).
    pub async fn observe(&self, event: NewTask) -> Result<MemoryId> {
        self.intake.observe(event).await
    }

    /// Completes when the host shuts down.
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
