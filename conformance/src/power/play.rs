//! A workload on an engine that is recorded.

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

/// A workload that is over, while its engine may run still.
#[derive(Debug)]
pub struct Play {
    seed: u64,
    calls: usize,
    namespace: Namespace,
    /// What the model had before the first step and behind each. The first step begins to watch.
    states: Vec<State>,
}

impl Play {
    /// Makes so many random calls that write, one after the other, on the engine that is recorded, and tells the recorder of each that has
    /// returned. Each answer must be that of the model. In the middle it does what else is to happen.
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

    /// Reads what was recorded, once nothing writes any more. What the records make of the files must be what these are, or the recorder has
    /// missed something.
    pub fn finish(self, recorder: &Recorder) -> Result<Recording, Box<dyn std::error::Error + Send + Sync>> {
        let Self { seed, calls, namespace, states } = self;
        let (events, mut disk) = (recorder.events()?, Disk::default());
        for event in &events {
            disk.apply(event)?;
        }
        let (made, found) = (disk.image(Loss::Kept), Image::read(recorder.folder())?);
        for name in made.names().chain(found.names()).filter(|name| !is_shared_memory(name)) {
            if made.file(name) != found.file(name) {
                return Err(format!("the recorder has missed what became of {}", name.display()).into());
            }
        }
        Ok(Recording { seed, calls, namespace, states, events })
    }
}

/// The index that the processes on a file of SQLite share by a memory map, which it makes anew behind a crash.
fn is_shared_memory(name: &Path) -> bool {
    name.to_string_lossy().ends_with("-shm")
}
