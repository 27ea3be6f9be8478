//! Bringing a database up to the schema of the program.

use memory_core::{Error, Result};

use crate::pending::pending;
use crate::{Applied, Step, Target};

/// What a run did, or what a dry run would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The version of the schema before the run; 0 when there was none.
    pub before: u32,
    /// Version and name of each step that was applied, in order; one that a backfill completes, when it was begun. Of a dry run, of each
    /// step that would be.
    pub applied: Vec<(u32, &'static str)>,
    /// The version of the schema after the run. Of a dry run, the one that the steps would lead to.
    pub now: u32,
}

impl Report {
    fn new(before: &[Applied], steps: &[Step]) -> Self {
        let before = before.iter().map(|step| step.version).max().unwrap_or(0);
        Self {
            before,
            applied: steps.iter().map(|step| (step.version, step.name)).collect(),
            now: steps.last().map_or(before, |step| before.max(step.version)),
        }
    }
}

/// Applies what is missing of `steps`, which are in ascending order of the version, under the lock of the engine (L1). What a
/// backfill completes is begun only.
///
/// # Errors
/// `SchemaMismatch` when the database does not fit the program, newer ones included (L4): nothing was written then. An
/// engine's failure in a step keeps its kind and names the step; the steps before it stay.
pub async fn migrate(target: &mut dyn Target, steps: &[Step]) -> Result<Report> {
    target.lock().await?;
    let report = apply_pending(target, steps).await;
    let unlocked = target.unlock().await;
    // Of two failures, the one of a step tells more.
    report.and_then(|report| unlocked.map(|()| report))
}

/// The dry run of [`migrate`]: takes no lock and changes nothing.
///
/// # Errors
/// As [`migrate`], except that no step can fail.
pub async fn plan(target: &mut dyn Target, steps: &[Step]) -> Result<Report> {
    let applied = target.applied().await?;
    Ok(Report::new(&applied, &pending(&applied, steps)?))
}

async fn apply_pending(target: &mut dyn Target, steps: &[Step]) -> Result<Report> {
    let applied = target.applied().await?;
    let steps = pending(&applied, steps)?;
    for step in &steps {
        target.apply(step).await.map_err(|error| name_step(step, error))?;
    }
    Ok(Report::new(&applied, &steps))
}

fn name_step(step: &Step, error: Error) -> Error {
    let message = format!("{step} could not be applied: {}", error.message());
    error.with_message(message)
}
