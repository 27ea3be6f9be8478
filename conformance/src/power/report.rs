//! What came of the images.

use std::fmt;

use super::disk::Loss;

/// What was tried, and what of it failed.
#[derive(Debug, Default)]
pub struct Report {
    /// Where random numbers begin: the calls, the crash points and what is torn.
    pub seed: u64,
    /// How many calls were made that write.
    pub calls: usize,
    /// How many writes, syncs and other changes were recorded, with the acknowledgements.
    pub records: usize,
    /// Behind how many of these the power failed.
    pub points: usize,
    /// How many images were made.
    pub images: usize,
    /// How many of them differ, and were opened.
    pub distinct: usize,
    /// How many torn ones are neither what was kept nor what was dropped.
    pub torn: usize,
    /// How many different data the engine had when it had come up, of which each was compared as a whole.
    pub compared: usize,
    /// Images that are not what they should be.
    pub failures: Vec<Failure>,
}

/// An image that is not what it should be.
#[derive(Debug)]
pub struct Failure {
    /// Behind which record the power failed.
    pub point: usize,
    /// What that record was.
    pub event: String,
    /// What became of the writes that no sync had followed.
    pub loss: Loss,
    /// How many steps of the workload had been acknowledged.
    pub acknowledged: usize,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// How an image is not what it should be.
#[derive(Debug)]
pub enum Wrong {
    /// The engine does not come up on it.
    DoesNotStart(String),
    /// It has what an earlier step of the workload has left, though later ones were acknowledged.
    Lost {
        /// That step; 0 where it has nothing at all.
        step: usize,
    },
    /// It is what no step has left that it may be.
    Differs(String),
}

/// How much of a reason is shown.
const SHOWN: usize = 2_000;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, calls, records, points, images, distinct, torn, compared, failures } = self;
        write!(
            f,
            "seed {seed}: {calls} writing calls left {records} records; the power failed behind {points} of them: {images} images, \
             {distinct} of them different, {torn} of them torn, with {compared} different data; {} failures",
            failures.len()
        )?;
        failures.iter().take(3).try_for_each(|failure| write!(f, "\n{failure}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { point, event, loss, acknowledged, wrong } = self;
        write!(f, "behind record {point} ({event}), {loss:?}, {acknowledged} steps acknowledged: {wrong}")
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| text.chars().take(SHOWN).collect::<String>();
        match self {
            Self::DoesNotStart(reason) => write!(f, "the engine does not start: {}", shown(reason)),
            Self::Lost { step } => write!(f, "it has what step {step} has left, and nothing of the later ones"),
            Self::Differs(difference) => f.write_str(&shown(difference)),
        }
    }
}
