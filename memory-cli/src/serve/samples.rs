//! Samples of the load in the last minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How many samples are kept: 15 minutes at the default interval.
pub(crate) const MAX_SAMPLES: usize = 90;

/// The measurements of the interval since the previous sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Answered requests per second.
    pub(crate) requests: f64,
    /// Requests per second that have stored something.
    pub(crate) stores: f64,
    /// The latency of a health check; `None` if it failed.
    pub(crate) latency: Option<Duration>,
}

/// The samples of the last minutes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<VecDeque<Sample>>);

impl Samples {
    /// Returns all samples that are kept.
    pub(crate) fn all(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    pub(super) fn add(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sample_makes_room() {
        let samples = Samples::default();
        let sample = |number: usize| Sample { requests: number as f64, stores: 0.0, latency: None };
        (0..=MAX_SAMPLES).for_each(|number| samples.add(sample(number)));
        let all = samples.all();
        assert_eq!((all.len(), all[0], all[MAX_SAMPLES - 1]), (MAX_SAMPLES, sample(1), sample(MAX_SAMPLES)));
    }
}
