//! Fusion of several rankings into one.

use std::collections::BTreeMap;

/// The constant k of reciprocal rank fusion, with its published value. The larger it is, the smaller is the advantage of the first ranks.
const DAMPING: f64 = 60.0;

/// Fuses rankings, each best first, by reciprocal rank fusion. Returns the keys with their scores, best first.
pub(crate) fn fuse<K: Ord + Clone>(lists: &[Vec<K>]) -> Vec<(K, f64)> {
    let mut scores = BTreeMap::<K, f64>::new();
    for list in lists {
        for (place, key) in (1_u32..).zip(list) {
            *scores.entry(key.clone()).or_default() += 1.0 / (DAMPING + f64::from(place));
        }
    }
    let mut fused: Vec<_> = scores.into_iter().collect();
    // A stable sort: equal scores stay in the order of their keys.
    fused.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stands_in_both_lists_comes_first() {
        let fused = fuse(&[vec!["a", "b", "c"], vec!["d", "b"]]);
        let keys: Vec<_> = fused.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["b", "a", "d", "c"]);
        assert!((fused[0].1 - 2.0 / 62.0).abs() < 1e-12);
        assert!(fuse::<&str>(&[]).is_empty());
    }
}
