//! The results of the check of all images.

use std::fmt;

use super::disk::Loss;

/// How many images were checked, and those that failed.
#[derive(Debug, Default)]
pub struct Report {
    /// The seed of the calls, of the crash points and of what is torn.
    pub seed: u64,
    /// How many writing calls the workload made.
    pub calls: usize,
    /// How many records the log has: writes, syncs, other changes and acknowledgements.
    pub records: usize,
    /// After how many of these records the power failed.
    pub points: usize,
    /// How many images were built.
    pub images: usize,
    /// How many different images there were, each of which was opened at least once.
    pub distinct: usize,
    /// How many torn images equal neither the kept nor the dropped image of their record.
    pub torn: usize,
    /// How many different states of the data engines had after their start, each of which was compared as a whole.
    pub compared: usize,
    /// The images with wrong data.
    pub failures: Vec<Failure>,
}

/// An image with wrong data.
#[derive(Debug)]
pub struct Failure {
    /// The index of the record after which the power failed.
    pub point: usize,
    /// A description of that record.
    pub event: String,
    /// What happened to the writes that no sync had followed.
    pub loss: Loss,
    /// How many steps of the workload had been acknowledged.
    pub acknowledged: usize,
    /// The failure of the image.
    pub wrong: Wrong,
}

/// A failure of an image.
#[derive(Debug)]
pub enum Wrong {
    /// The engine does not start on it. Holds the error.
    DoesNotStart(String),
    /// Acknowledged steps are lost: the engine has the data of an earlier step.
    Lost {
        /// That step; 0 if the engine has no data at all.
        step: usize,
    },
    /// The data is that of none of the allowed steps. Holds the difference.
    Differs(String),
}

/// The length limit of a quoted reason, in characters.
const SHOWN: usize = 2_000;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, calls, records, points, images, distinct, torn, compared, failures } = self;
        write!(
            f,
            "seed {seed}: {calls} writing calls made {records} records; the power failed after {points} of them: \
             {images} images ({distinct} different, {torn} torn) with {compared} different data; {} failures",
            failures.len()
        )?;
        failures.iter().take(3).try_for_each(|failure| write!(f, "\n{failure}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { point, event, loss, acknowledged, wrong } = self;
        write!(f, "after record {point} ({event}), {loss:?}, {acknowledged} steps acknowledged: {wrong}")
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| text.chars().take(SHOWN).collect::<String>();
        match self {
            Self::DoesNotStart(reason) => write!(f, "the engine does not start: {}", shown(reason)),
            Self::Lost { step } => write!(f, "it has the state after step {step}, and nothing of later steps"),
            Self::Differs(difference) => f.write_str(&shown(difference)),
        }
    }
}
