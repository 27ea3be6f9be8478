//! Planners: which steps a task takes.

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;

use crate::{Actions, Pipeline, Step, Task};

/// Decides on the steps of a task. An error ends the task as failed.
#[async_trait]
pub trait Planner: Send + Sync + 'static {
    /// The steps of a task that has not begun.
    async fn plan(&self, task: &Task, actions: &Actions) -> Result<Vec<Step>>;

    /// After a step, whose outcome is the last item of the chain: the steps to do instead of those that remain, or
    /// `None` to leave it at them. After a step that failed, `None` ends the task as failed.
    ///
    /// It is asked again about the same step when the process died before the next one was over.
    async fn revise(&self, task: &Task, remaining: &[Step], actions: &Actions) -> Result<Option<Vec<Step>>>;
}

impl fmt::Debug for dyn Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Planner")
    }
}

/// The same steps for every task.
#[derive(Debug, Clone)]
pub struct FixedPlanner {
    pipeline: Pipeline,
}

impl FixedPlanner {
    /// A planner that always answers with this pipeline.
    pub fn new(pipeline: Pipeline) -> Self {
        Self { pipeline }
    }
}

#[async_trait]
impl Planner for FixedPlanner {
    async fn plan(&self, _: &Task, actions: &Actions) -> Result<Vec<Step>> {
        // Before the first step has an effect.
        self.pipeline.steps.iter().try_for_each(|step| actions.check_name(step))?;
        Ok(self.pipeline.steps.clone())
    }

    async fn revise(&self, _: &Task, _: &[Step], _: &Actions) -> Result<Option<Vec<Step>>> {
        Ok(None)
    }
}
