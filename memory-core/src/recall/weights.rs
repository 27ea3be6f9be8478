//! The weights of the ranking.

use crate::{Error, Result};

/// How much each property of a record counts in its score (R4).
///
/// The defaults were tuned on one half of LoCoMo, a set of conversations with questions and known answers, and checked
/// on the other half. BM25 with a window of neighbouring turns contributes most, then the similarity of vectors; the
/// container and the speaker's name contribute less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// How much repetitions of a term add to the score; with a greater value, later ones add more (BM25's k1).
    pub saturation: f64,
    /// How much the length of a record counts, 0 to 1 (BM25's b).
    pub length: f64,
    /// The weight of the neighbours, relative to the record's own words.
    pub neighbours: f64,
    /// The weight of the container, relative to words and neighbours.
    pub container: f64,
    /// The weight of the meaning, relative to all words.
    pub meaning: f64,
    /// The deduction for a record that ends with a question mark, since a question seldom answers a question.
    pub question: f64,
    /// The fraction that is added to a record's score if its speaker is the only one that the question names.
    pub speaker: f64,
    /// How many records on each side in the container are neighbours; at most [`Weights::MAX_WINDOW`].
    pub window: usize,
    /// How many records that hold terms are scored, each with its neighbours, and how many of the nearest by meaning.
    /// For a question without a term, the query's limit replaces the second number. 1 to [`Weights::MAX_CANDIDATES`].
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
    /// Maximum number of neighbours on each side.
    pub const MAX_WINDOW: usize = 10;
    /// Maximum number of candidates.
    pub const MAX_CANDIDATES: usize = 2_000;

    /// Checks the ranges: weights are 0 to 1,000, `length` at most 1, counts within their limits; else `InvalidInput`.
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
