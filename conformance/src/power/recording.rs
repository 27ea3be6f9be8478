//! A recorded workload, and the check of the data after a loss of power.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::disk::{Disk, Loss};
use super::event::Event;
use super::image::Image;
use super::machine::{Booted, Machine};
use super::points::Points;
use super::report::{Failure, Report, Wrong};
use crate::case::{Settings, Stage};
use crate::harness::Harness;
use crate::model::play::State;
use crate::namespace::Namespace;
use crate::random::mix;

/// The log of a workload, and the state of the model after each of its steps.
#[derive(Debug)]
pub struct Recording {
    pub(super) seed: u64,
    pub(super) calls: usize,
    pub(super) namespace: Namespace,
    pub(super) states: Vec<State>,
    pub(super) events: Vec<Event>,
}

/// Results that later images reuse: as long as the step that was matched is allowed, an equal image is not opened
/// again, and equal data is not compared again.
#[derive(Default)]
struct Known {
    /// The digest of the data of an image, by the digest of its files.
    images: HashMap<u64, u64>,
    /// The step after which the model has the same data, by the digest of the data.
    data: HashMap<u64, usize>,
}

impl Recording {
    /// Simulates a loss of power after each chosen record, once for each kind of [`Loss`]. Must be called on a multi-threaded runtime.
    pub async fn check(&self, machine: &dyn Machine, points: Points) -> Result<Report, String> {
        let (mut disk, mut known) = (Disk::default(), Known::default());
        let chosen = points.choose(self.events.len(), self.seed);
        let mut report = Report { seed: self.seed, calls: self.calls, records: self.events.len(), ..Report::default() };
        // Nothing can be lost before the engine was opened for the first time.
        let mut due = 0..=0;
        for (point, event) in self.events.iter().enumerate() {
            disk.apply(event)?;
            if let Event::Acknowledged { calls } = event {
                due = *calls..=(calls + 1).min(self.states.len() - 1);
            }
            if !chosen.contains(&point) {
                continue;
            }
            report.points += 1;
            let losses = [Loss::Kept, Loss::Dropped, Loss::Torn(mix(self.seed ^ point as u64))];
            let images = losses.map(|loss| disk.image(loss));
            report.torn += usize::from(!images[..2].contains(&images[2]));
            for (loss, image) in losses.into_iter().zip(images) {
                report.images += 1;
                if let Err(wrong) = self.check_image(&mut known, machine, &image, due.clone()).await {
                    let (event, acknowledged) = (event.to_string(), *due.start());
                    report.failures.push(Failure { point, event, loss, acknowledged, wrong });
                }
            }
        }
        (report.distinct, report.compared) = (known.images.len(), known.data.len());
        Ok(report)
    }

    /// Checks that an image has what the model has after one of these steps.
    async fn check_image(
        &self,
        known: &mut Known,
        machine: &dyn Machine,
        image: &Image,
        due: RangeInclusive<usize>,
    ) -> Result<(), Wrong> {
        let files = image.digest();
        if let Some(data) = known.images.get(&files)
            && known.is_due(*data, &due)
        {
            return Ok(());
        }
        let Booted { digest, harness } =
            machine.boot(image).await.map_err(|error| Wrong::DoesNotStart(error.to_string()))?;
        known.images.insert(files, digest);
        if known.is_due(digest, &due) {
            return Ok(());
        }
        let mut differences = Vec::new();
        for step in due {
            match self.compare(&harness, step).await {
                Ok(()) => {
                    known.data.insert(digest, step);
                    return Ok(());
                }
                Err(difference) => differences.push(format!("not the state after step {step}: {difference}")),
            }
        }
        if let Some(step) = known.data.get(&digest) {
            return Err(Wrong::Lost { step: *step });
        }
        match self.compare(&harness, 0).await {
            Ok(()) => Err(Wrong::Lost { step: 0 }),
            Err(_) => Err(Wrong::Differs(differences.join("\n"))),
        }
    }

    async fn compare(&self, harness: &Arc<dyn Harness>, step: usize) -> Result<(), String> {
        let state = self.states[step].clone();
        let settings = Settings { seed: self.seed, ..Settings::default() };
        let stage = Stage::of(Arc::clone(harness), settings, state.namespace(&self.namespace));
        // A separate task, since a check of an index panics if an entry is missing.
        tokio::spawn(state.compare(stage)).await.unwrap_or_else(|panic| Err(panic.to_string()))
    }
}

impl Known {
    fn is_due(&self, data: u64, due: &RangeInclusive<usize>) -> bool {
        self.data.get(&data).is_some_and(|step| due.contains(step))
    }
}
