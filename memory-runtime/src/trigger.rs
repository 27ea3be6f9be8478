//! Triggers: where tasks come from.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{MemoryId, Result};

use crate::intake::Intake;
use crate::{NewTask, TaskHandle};

/// Something outside that starts tasks: a chat, a timer, an HTTP route.
#[async_trait]
pub trait TriggerSource: std::fmt::Debug + Send + Sync + 'static {
    /// What tells it from the other sources of a runtime.
    fn name(&self) -> &str;

    /// Listens, and submits a task for each event, until [`TaskSender::stopped`] ends; then it takes in nothing more,
    /// and returns when all that it has taken in is submitted. The runtime waits for that, up to its limit, before it
    /// drains the tasks.
    async fn run(&self, tasks: TaskSender) -> Result<()>;
}

/// How a trigger reaches its runtime.
#[derive(Debug, Clone)]
pub struct TaskSender {
    intake: Arc<Intake>,
}

impl TaskSender {
    pub(crate) fn new(intake: Arc<Intake>) -> Self {
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

    /// Ends when the runtime shuts down.
    pub async fn stopped(&self) {
        self.intake.stopped().await;
    }
}
