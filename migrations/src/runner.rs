//! Brings a database up to the schema of the program.

use memory_core::{Error, Result};

use crate::pending::pending;
use crate::{Applied, Step, Target};

/// The result of a run, or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The version of the schema before the run; 0 if there was none.
    pub before: u32,
    /// Version and name of each step that was applied, in order. A step with a backfill is listed once it has begun. In
    /// a dry run: the steps that would be applied.
    pub applied: Vec<(u32, &'static str)>,
    /// The version of the schema after the run; in a dry run, the version that the steps would lead to.
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

/// Applies the missing ones of `steps`, which must be in ascending order of the version, under the engine's lock (L1).
/// A step with a backfill is only begun.
///
/// # Errors
/// `SchemaMismatch` if the database does not fit the program, for example because it is newer (L4); then nothing was
/// written. The error of a failed step keeps its kind and names the step; the steps before it stay applied.
pub async fn migrate(target: &mut dyn Target, steps: &[Step]) -> Result<Report> {
    target.lock().await?;
    let report = apply_pending(target, steps).await;
    let unlocked = target.unlock().await;
    // If both fail, the error of the step is the more informative one.
    report.and_then(|report| unlocked.map(|()| report))
}

/// Dry run of [`migrate`]: takes no lock and changes nothing.
///
/// # Errors
/// Like [`migrate`], except that no step can fail.
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
