//! Planners, which decide on the steps of tasks.

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;

use crate::{Actions, Pipeline, Step, Task};

/// Decides on the steps of tasks. If a method returns an error, the task fails.
#[async_trait]
pub trait Planner: Send + Sync + 'static {
    /// Returns the steps of a task that has no plan yet.
    async fn plan(&self, task: &Task, actions: &Actions) -> Result<Vec<Step>>;

    /// Called after each step, whose outcome is the last item of the chain. Returns the steps that replace the remaining ones, or `None`
    /// to keep those. After a failed step, `None` ends the task as failed.
    ///
    /// It may be called again for the same step, if the process died before the next step ended.
    async fn revise(&self, task: &Task, remaining: &[Step], actions: &Actions) -> Result<Option<Vec<Step>>>;
}

impl fmt::Debug for dyn Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Planner")
    }
}

/// A planner with the same steps for every task.
#[derive(Debug, Clone)]
pub struct FixedPlanner {
    pipeline: Pipeline,
}

impl FixedPlanner {
    /// Makes a planner that always returns the steps of this pipeline.
    pub fn new(pipeline: Pipeline) -> Self {
        Self { pipeline }
    }
}

#[async_trait]
impl Planner for FixedPlanner {
    async fn plan(&self, _: &Task, actions: &Actions) -> Result<Vec<Step>> {
        // Checked here, so that a wrong name fails before the first step has an effect.
        self.pipeline.steps.iter().try_for_each(|step| actions.check_name(step))?;
        Ok(self.pipeline.steps.clone())
    }

    async fn revise(&self, _: &Task, _: &[Step], _: &Actions) -> Result<Option<Vec<Step>>> {
        Ok(None)
    }
}
