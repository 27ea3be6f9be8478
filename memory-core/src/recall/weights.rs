//! The constants of the ranking.

use crate::{Error, Result};

/// What counts how much in the score of a record (R4).
///
/// The values by default were found on conversations with questions whose answers are known (LoCoMo, on one half, and looked at on the
/// other): BM25 with the window of a turn's neighbours brings most, then what vectors tell of their meaning; its container and the name of the
/// speaker bring some more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// How soon a term that comes again in a record stops to count (BM25's k1).
    pub saturation: f64,
    /// How much the length of a record counts, from 0 to 1 (BM25's b).
    pub length: f64,
    /// What the neighbours of a record weigh, to its own words.
    pub neighbours: f64,
    /// What the container of a record weighs, to its words and neighbours.
    pub container: f64,
    /// What the meaning of a record weighs, to all its words.
    pub meaning: f64,
    /// What a record that asks loses: a question seldom answers one.
    pub question: f64,
    /// The share that a record gains whose speaker is the only one whom the question names.
    pub speaker: f64,
    /// How many records on each side in the container are neighbours; at most [`Weights::MAX_WINDOW`].
    pub window: usize,
    /// How many records that hold terms are scored, each with its neighbours, and how many of the nearest by meaning, each by itself; where the
    /// question has no term, as many of the latter as the limit of the query. At most [`Weights::MAX_CANDIDATES`].
    pub candidates: usize,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            saturation: 1.2,
            length: 0.5,
            neighbours: 1.5,
            container: 0.3,
            meaning: 1.2,
            question: 0.1,
            speaker: 0.15,
            window: 2,
            candidates: 200,
        }
    }
}

impl Weights {
    /// How wide a window may be, on each side.
    pub const MAX_WINDOW: usize = 10;
    /// How many candidates may be ranked exactly.
    pub const MAX_CANDIDATES: usize = 2_000;

    /// `InvalidInput` when a number is negative, not finite, or over its limit.
    pub(super) fn check(&self) -> Result<()> {
        let Self { saturation, length, neighbours, container, meaning, question, speaker, .. } = *self;
        let numbers = [saturation, length, neighbours, container, meaning, question, speaker];
        let is_valid = numbers.into_iter().all(|number| (0.0..=1_000.0).contains(&number))
            && self.length <= 1.0
            && self.window <= Self::MAX_WINDOW
            && (1..=Self::MAX_CANDIDATES).contains(&self.candidates);
        if is_valid { Ok(()) } else { Err(Error::invalid("a weight of the recall is out of its range")) }
    }
}
