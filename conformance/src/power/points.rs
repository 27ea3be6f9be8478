//! The moments at which the power fails.

use std::collections::BTreeSet;
use std::env;

use crate::random::Random;

/// The records of a log after which the power fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// Every record of the log.
    All,
    /// This many records, chosen by the seed.
    Some(usize),
}

impl Points {
    /// The value of `MEMORY_TEST_CRASH_POINTS`, a number or `all`; this many if it is unset. `Err` if it is neither.
    pub fn from_env(default: usize) -> Result<Self, String> {
        match env::var("MEMORY_TEST_CRASH_POINTS").as_deref() {
            Err(_) => Ok(Self::Some(default)),
            Ok("all") => Ok(Self::All),
            Ok(number) => match number.parse() {
                Ok(number) => Ok(Self::Some(number)),
                Err(_) => Err("MEMORY_TEST_CRASH_POINTS must be a number or all".to_owned()),
            },
        }
    }

    /// The indexes of the chosen records. The last record is always among them.
    pub(super) fn choose(self, records: usize, seed: u64) -> BTreeSet<usize> {
        let wanted = match self {
            Self::Some(wanted) if wanted < records => wanted,
            _ => return (0..records).collect(),
        };
        let (mut random, mut chosen) = (Random::new(seed), BTreeSet::from([records - 1]));
        while chosen.len() < wanted {
            chosen.insert(random.below(records));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_chosen_as_there_are_or_are_wanted() {
        assert_eq!(Points::All.choose(5, 1).len(), 5);
        assert_eq!(Points::Some(9).choose(5, 1).len(), 5);
        let chosen = Points::Some(3).choose(1_000, 1);
        assert!(chosen.len() == 3 && chosen.contains(&999), "{chosen:?}");
        assert_ne!(chosen, Points::Some(3).choose(1_000, 2));
    }
}
