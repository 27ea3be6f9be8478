//! A random sequence of calls: how it is generated and shrunk.

use std::time::{Duration, Instant};

use proptest::prelude::{Strategy, prop_oneof};
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, Reason, RngSeed, TestRunner};

use super::op::{Call, call};

/// How long a failing sequence is shrunk before it is reported as it is.
const SHRINK_TIME: Duration = Duration::from_secs(60);

/// The transient members of a namespace (H8): none in most of them.
const TRANSIENT: &[&[&str]] = &[&[], &[], &["n", "o.p"]];

/// The calls that are played in one namespace.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// How many handles are open at the same time.
    pub(crate) handles: usize,
    /// The transient members of metadata, each by its path (H8). No version has them.
    pub(crate) transient: &'static [&'static str],
    pub(crate) calls: Vec<Call>,
}

type CallTree = Box<dyn ValueTree<Value = Call>>;

/// A sequence that can be shrunk.
pub(crate) struct Shrinkable {
    sequence: Sequence,
    /// One tree for each call of the sequence.
    trees: Vec<CallTree>,
}

impl Shrinkable {
    /// Generates the sequence of a seed, with any number of calls up to `most`. If that is `None`, most sequences are short, so that many are
    /// played, and one in 25 has up to 500 calls.
    pub(crate) fn generate(seed: u64, most: Option<u32>) -> Result<Self, Reason> {
        let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new(config);
        let length = match most {
            Some(most) => (1..=most.max(1) as usize).boxed(),
            None => prop_oneof![24 => 1..40_usize, 1 => 100..=500_usize].boxed(),
        };
        let (handles, length, transient) = (1..=3_usize, length, select(TRANSIENT)).new_tree(&mut runner)?.current();
        let call = call();
        let trees = (0..length).map(|_| call.new_tree(&mut runner)).collect::<Result<Vec<CallTree>, _>>()?;
        let calls = trees.iter().map(ValueTree::current).collect();
        Ok(Self { sequence: Sequence { handles, transient, calls }, trees })
    }

    pub(crate) fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// The smallest failing sequence that is found within [`SHRINK_TIME`], and how it fails. `failure` is how this one fails.
    pub(crate) fn shrink(
        mut self,
        mut failure: String,
        mut play: impl FnMut(&Sequence) -> Result<(), String>,
    ) -> (Sequence, String) {
        let end = Instant::now() + SHRINK_TIME;
        let mut fails = |smaller: &Sequence| {
            if Instant::now() > end {
                return false;
            }
            play(smaller).map_err(|reason| failure = reason).is_err()
        };
        self.drop_calls(&mut fails);
        self.simplify_calls(&mut fails);
        self.simplify_handles(&mut fails);
        (self.sequence, failure)
    }

    /// Drops calls: half of them at a time, then ever fewer, and finally each one alone.
    fn drop_calls(&mut self, fails: &mut impl FnMut(&Sequence) -> bool) {
        let mut run = self.trees.len().div_ceil(2);
        while run > 0 {
            let mut start = 0;
            while start < self.trees.len() {
                let dropped = start..(start + run).min(self.trees.len());
                let mut smaller = self.sequence.clone();
                smaller.calls.drain(dropped.clone());
                if fails(&smaller) {
                    self.sequence = smaller;
                    self.trees.drain(dropped);
                } else {
                    start += run;
                }
            }
            run /= 2;
        }
    }

    /// Simplifies each call as far as possible.
    fn simplify_calls(&mut self, fails: &mut impl FnMut(&Sequence) -> bool) {
        for (place, tree) in self.trees.iter_mut().enumerate() {
            let mut changed = tree.simplify();
            while changed {
                let mut smaller = self.sequence.clone();
                smaller.calls[place] = tree.current();
                changed = if fails(&smaller) {
                    self.sequence = smaller;
                    tree.simplify()
                } else {
                    tree.complicate()
                };
            }
        }
    }

    /// Tries a single handle instead of several.
    fn simplify_handles(&mut self, fails: &mut impl FnMut(&Sequence) -> bool) {
        let smaller = Sequence { handles: 1, ..self.sequence.clone() };
        if fails(&smaller) {
            self.sequence = smaller;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Settings;
    use crate::model::op::Op;

    #[test]
    fn a_run_has_a_few_long_sequences_among_short_ones() {
        let Settings { seed, sequences, .. } = Settings::default();
        let lengths: Vec<_> = (0..u64::from(sequences))
            .map(|number| Shrinkable::generate(seed + number, None).expect("a sequence").sequence.calls.len())
            .collect();
        assert!((1..=6).contains(&lengths.iter().filter(|length| **length >= 100).count()), "{lengths:?}");
    }

    #[test]
    fn sequences_have_any_length_up_to_the_most() {
        let lengths: Vec<_> = (1..=20)
            .map(|seed| Shrinkable::generate(seed, Some(200)).expect("a sequence").sequence.calls.len())
            .collect();
        assert!(lengths.iter().all(|length| (1..=200).contains(length)), "{lengths:?}");
        assert!(
            lengths.iter().any(|length| *length > 100) && lengths.iter().any(|length| *length <= 100),
            "{lengths:?}"
        );
    }

    #[test]
    fn a_failure_is_told_without_what_it_does_not_need() {
        let has = |sequence: &Sequence, wanted: fn(&Op) -> bool| sequence.calls.iter().any(|call| wanted(&call.op));
        let play = |sequence: &Sequence| {
            let fails = has(sequence, |op| matches!(op, Op::Reopen)) && has(sequence, |op| matches!(op, Op::Put(_)));
            if fails { Err(format!("{} calls", sequence.calls.len())) } else { Ok(()) }
        };
        let made = (0..).filter_map(|seed| Shrinkable::generate(seed, None).ok());
        let mut failures = made.filter_map(|made| play(&made.sequence).err().map(|failure| (made, failure)));
        let (made, failure) = failures.find(|(made, _)| made.trees.len() >= 100).expect("a long one with both calls");
        let (smallest, failure) = made.shrink(failure, play);
        assert_eq!((smallest.calls.len(), smallest.handles), (2, 1));
        assert_eq!(failure, "2 calls");
    }
}
