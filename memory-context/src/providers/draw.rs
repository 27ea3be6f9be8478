//! Deterministic random selection: the same message selects the same items.

use memory_core::MemoryId;
use sha2::{Digest, Sha256};

/// Selects at most `count` items, in their order, by the id of the message.
pub(super) fn draw<'a, T>(message: MemoryId, what: &str, items: &'a [T], count: usize) -> Vec<&'a T> {
    let lot = |place: usize| {
        Sha256::new().chain_update(message.as_bytes()).chain_update(what).chain_update((place as u64).to_be_bytes())
    };
    let mut places: Vec<_> = (0..items.len()).collect();
    if items.len() > count {
        places.sort_by_key(|place| lot(*place).finalize());
        places.truncate(count);
        places.sort_unstable();
    }
    places.into_iter().map(|place| &items[place]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_message_draws_the_same_again_and_others_differ() {
        let items: Vec<_> = (0..10).collect();
        let of = |byte: u8, what| draw(MemoryId::from_bytes([byte; 16]), what, &items, 3);
        assert_eq!(of(1, "a"), of(1, "a"));
        assert_eq!(of(1, "a").len(), 3);
        let drawn: BTreeSet<_> = (0..50).map(|byte| of(byte, "a")).collect();
        assert!(drawn.len() > 25, "{} of 120", drawn.len());
        assert_ne!(of(1, "a"), of(1, "b"), "what is drawn counts as well");
        let every: BTreeSet<_> = (0..50).flat_map(|byte| of(byte, "a")).collect();
        assert_eq!(every.len(), 10);
    }

    #[test]
    fn what_is_not_more_than_that_comes_whole() {
        assert_eq!(draw(MemoryId::from_bytes([0; 16]), "", &[3, 1, 2], 3), [&3, &1, &2]);
        assert!(draw::<u8>(MemoryId::from_bytes([0; 16]), "", &[], 3).is_empty());
    }
}
