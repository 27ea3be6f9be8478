//! Runs one task from its start to its end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use memory_core::plugin::{AnswerJson, Scope};
use memory_core::{
    Context as ChainText, Error, ErrorKind, MemoryId, MemoryPatch, MemoryQuery, Outcome, Result, SpaceSelector, Status,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::claim::{TASK, metadata};
use crate::lease::Lease;
use crate::memory_manager::MemoryManager;
use crate::settings::Settings;
use crate::{Actions, ContextItem, ContextKind, Finished, Pipeline, Planner, Step, Task, pipeline};

/// The parts of a runtime that workers share.
#[derive(Debug)]
pub(crate) struct Equipment {
    pub(crate) manager: Arc<MemoryManager>,
    pub(crate) actions: Actions,
    pub(crate) planner: Arc<dyn Planner>,
    pub(crate) settings: Settings,
}

/// Runs a task that is leased and whose turn has come.
///
/// [`run`](Self::run) returns an error only if the ledger can't be read or written, or if the lease is lost; then it
/// leaves the task as it is (R13, R17). Every other failure becomes an item of the chain.
pub(crate) struct Worker<'a> {
    equipment: &'a Equipment,
    lease: &'a Arc<Lease>,
    task: Task,
}

/// The bytes that a chain leaves free for the errors at its end.
const RESERVE: usize = 64 << 10;

/// The content of a [`ContextKind::Related`].
#[derive(Serialize, Deserialize)]
struct Related {
    ids: Vec<MemoryId>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(equipment: &'a Equipment, lease: &'a Arc<Lease>, task: Task) -> Self {
        Self { equipment, lease, task }
    }

    pub(crate) async fn run(mut self) -> Result<Finished> {
        let begun = self.lease.runs();
        let status = if begun >= self.equipment.settings.max_runs {
            let message = format!("the task was begun {begun} times and never ended");
            self.fail(&Error::new(ErrorKind::LimitExceeded, message))?
        } else {
            let runs = metadata(&json!({ TASK: { "runs": begun.saturating_add(1) } }))?;
            self.lease.write(MemoryPatch::new().with_status(Status::Running).merge_metadata(runs)).await?;
            self.recall().await?;
            self.work().await?
        };
        self.lease.end(MemoryPatch::new().set_context(self.chain()?).with_status(status)).await?;
        Ok(Finished { id: self.task.id, status, chain: self.task.chain })
    }

    /// Recalls the related memories (R8). Their ids are stored in the chain, so that a recovered task gets the same ones.
    async fn recall(&mut self) -> Result<()> {
        let known = self.task.chain.iter().find(|item| item.kind == ContextKind::Related);
        if let Some(item) = known {
            for id in item.content.to_value::<Related>()?.ids {
                // Whoever can write the chain is not trusted with more: only related memories are read.
                let memory = self.equipment.manager.get(id).await?.filter(|memory| self.task.space.is_related(memory));
                self.task.related.extend(memory);
            }
            return Ok(());
        }
        // No selector means that nothing is related, not everything.
        if self.task.space.related().is_empty() || self.equipment.settings.window == 0 {
            return Ok(());
        }
        let query = MemoryQuery::builder().exclude(self.lease.id()).limit(self.equipment.settings.window);
        let query = self.task.space.related().iter().cloned().fold(query, |query, selector| query.selector(selector));
        let page = self.equipment.manager.query(query).await?;
        for row in page.unreadable {
            tracing::warn!(id = row.id, reason = row.reason, "a related memory can't be read");
        }
        let ids = page.memories.iter().map(|memory| memory.id).collect();
        self.task.chain.push(self.item(ContextKind::Related, &Related { ids })?);
        self.task.related = page.memories;
        Ok(())
    }

    /// Plans and runs the steps.
    async fn work(&mut self) -> Result<Status> {
        let planned = match pipeline::remaining(&self.task.chain) {
            Ok(Some(steps)) => Ok(steps),
            Ok(None) => self.plan().await,
            Err(error) => Err(error),
        };
        let mut remaining = match planned {
            Ok(steps) => steps,
            Err(error) => return self.fail(&error),
        };
        loop {
            if let Some(last) = self.task.chain.last().filter(|item| item.is_step()) {
                let has_failed = last.kind == ContextKind::Error;
                match self.revise(&remaining).await {
                    Ok(Some(steps)) => remaining = steps,
                    Ok(None) if has_failed => return Ok(Status::Failed),
                    Ok(None) => {}
                    Err(error) => return self.fail(&error),
                }
            }
            if remaining.is_empty() {
                return Ok(Status::Completed);
            }
            let limit = self.equipment.settings.max_steps;
            if self.task.chain.iter().filter(|item| item.is_step()).count() >= limit {
                let message = format!("the task wants more than {limit} steps");
                return self.fail(&Error::new(ErrorKind::LimitExceeded, message));
            }
            let step = remaining.remove(0);
            let outcome = self.call(&step).await;
            self.add_outcome(&step, outcome)?;
            self.lease.write(MemoryPatch::new().set_context(self.chain()?)).await?;
        }
    }

    async fn plan(&mut self) -> Result<Vec<Step>> {
        let planned = self.equipment.planner.plan(&self.task, &self.equipment.actions);
        let steps = self.guard("the planner", planned).await?;
        self.add_plan(steps)
    }

    async fn revise(&mut self, remaining: &[Step]) -> Result<Option<Vec<Step>>> {
        let revised = self.equipment.planner.revise(&self.task, remaining, &self.equipment.actions);
        let steps = self.guard("the planner", revised).await?;
        steps.map(|steps| self.add_plan(steps)).transpose()
    }

    async fn call(&self, step: &Step) -> Result<AnswerJson> {
        let arguments = step.resolve(&self.task)?;
        let executor = self.equipment.actions.executor(step, &arguments)?;
        let scope = self.scope()?;
        self.guard("the action", executor.call(&scope, &arguments)).await
    }

    /// The scope of the steps (R10): they may write under the container, and also read the related spaces.
    fn scope(&self) -> Result<Scope> {
        let space = &self.task.space;
        let container = SpaceSelector::under(space.container())?;
        let mut readable = space.related().to_vec();
        if !readable.contains(&container) {
            readable.push(container);
        }
        let collections = self.equipment.settings.collections.iter().cloned();
        let scope = Scope::new(readable).with_writable(space.container().clone()).with_collections(collections);
        Ok(self.lease.actor().into_iter().fold(scope, Scope::with_actor))
    }

    /// Runs foreign code with a deadline, and turns a panic into an error.
    async fn guard<T>(&self, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let deadline = self.equipment.settings.step_deadline;
        match tokio::time::timeout(deadline, AssertUnwindSafe(work).catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(panicked(what)),
            Err(_) => {
                let message = format!("{what} did not end within {} ms", deadline.as_millis());
                Err(Error::new(ErrorKind::Timeout, message).with_outcome(Outcome::Unknown))
            }
        }
    }

    fn add_plan(&mut self, steps: Vec<Step>) -> Result<Vec<Step>> {
        let plan = Pipeline { steps };
        self.add(self.item(ContextKind::Plan, &plan)?)?;
        Ok(plan.steps)
    }

    /// Adds the outcome of a step. If the memory can't hold the answer, the step has failed (R11).
    fn add_outcome(&mut self, step: &Step, outcome: Result<AnswerJson>) -> Result<()> {
        let now = self.equipment.manager.now();
        let item = |outcome| ContextItem::outcome(&step.plugin_id, &step.action, outcome, now);
        let error = match outcome {
            Ok(answer) => match self.add(item(Ok(answer))?) {
                Err(error) if error.kind() == ErrorKind::TooLarge => error,
                result => return result,
            },
            Err(error) => error,
        };
        self.task.chain.push(item(Err(error))?);
        Ok(())
    }

    /// Ends the chain with an error.
    fn fail(&mut self, error: &Error) -> Result<Status> {
        self.task.chain.push(ContextItem::failure(error, self.equipment.manager.now())?);
        Ok(Status::Failed)
    }

    /// Appends an item. Fails with `TooLarge` if the chain would get too large.
    fn add(&mut self, item: ContextItem) -> Result<()> {
        self.task.chain.push(item);
        let fits = self.chain().and_then(|text| match text.as_str().len() {
            length if length > ChainText::MAX_BYTES - RESERVE => {
                Err(Error::too_large("the outcome does not fit into the context of the memory"))
            }
            _ => Ok(()),
        });
        if fits.is_err() {
            self.task.chain.pop();
        }
        fits
    }

    fn item(&self, kind: ContextKind, content: &impl Serialize) -> Result<ContextItem> {
        ContextItem::of_runtime(kind, content, self.equipment.manager.now())
    }

    fn chain(&self) -> Result<ChainText> {
        ChainText::from_value(&self.task.chain)
    }
}

/// The error for a panic in foreign code.
pub(crate) fn panicked(what: &str) -> Error {
    Error::new(ErrorKind::Unexpected, format!("{what} panicked"))
}
