//! Runs a workload on an engine that is recorded.

use std::path::Path;
use std::sync::Arc;

use super::disk::{Disk, Loss};
use super::image::Image;
use super::recorder::Recorder;
use super::recording::Recording;
use super::workload::tasks;
use crate::case::{CaseResult, Settings, Stage};
use crate::harness::Harness;
use crate::model::play::{Sides, State};
use crate::namespace::Namespace;

/// A workload that has ended. Its engine may still run.
#[derive(Debug)]
pub struct Play {
    seed: u64,
    calls: usize,
    namespace: Namespace,
    /// The state of the model before the first step and after each. The first step begins to watch.
    states: Vec<State>,
}

impl Play {
    /// Makes `calls` random writing calls, one after the other, on the engine that is recorded, and notes in the log when each has
    /// returned. Each answer must be that of the model. In the middle it also runs `halfway`.
    pub async fn run(
        recorder: &Recorder,
        harness: Arc<dyn Harness>,
        seed: u64,
        calls: usize,
        halfway: impl FnOnce() -> CaseResult,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let (tasks, mut halfway) = (tasks(seed, calls)?, Some(halfway));
        let stage = Stage::new(harness, Settings { seed, ..Settings::default() });
        let namespace = stage.namespace().clone();
        let mut sides = Sides::open(stage, 1, &[]).await?;
        let mut states = vec![sides.state()];
        sides.watch_everything().await?;
        states.push(sides.state());
        recorder.acknowledge(1)?;
        for (number, task) in tasks.iter().enumerate() {
            if number == tasks.len() / 2 {
                halfway.take().map_or(Ok(()), |halfway| halfway())?;
            }
            sides.step(&task.call).await.map_err(|difference| format!("seed {seed}, call {number}: {difference}"))?;
            states.push(sides.state());
            recorder.acknowledge(states.len() - 1)?;
        }
        sides.close().await?;
        Ok(Self { seed, calls, namespace, states })
    }

    /// Reads the log, once nothing writes any more. Replaying the log must yield the actual files; otherwise the recorder has missed
    /// something.
    pub fn finish(self, recorder: &Recorder) -> Result<Recording, Box<dyn std::error::Error + Send + Sync>> {
        let Self { seed, calls, namespace, states } = self;
        let (events, mut disk) = (recorder.events()?, Disk::default());
        for event in &events {
            disk.apply(event)?;
        }
        let (made, found) = (disk.image(Loss::Kept), Image::read(recorder.folder())?);
        for name in made.names().chain(found.names()).filter(|name| !is_shared_memory(name)) {
            if made.file(name) != found.file(name) {
                return Err(format!("the recorder missed a change of {}", name.display()).into());
            }
        }
        Ok(Recording { seed, calls, namespace, states, events })
    }
}

/// The shared-memory index of a file of SQLite, which SQLite rebuilds after a crash.
fn is_shared_memory(name: &Path) -> bool {
    name.to_string_lossy().ends_with("-shm")
}
