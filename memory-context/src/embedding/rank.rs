//! Which candidates are best.

use std::collections::BTreeMap;

use super::Vector;

/// The candidates whose vectors lie closest to the query, best first, with their cosines: `limit` at most, and none below the
/// threshold. A threshold of zero is one, and leaves out what points away.
pub(crate) fn nearest<K: Ord + Clone>(
    query: &Vector,
    candidates: impl IntoIterator<Item = (K, Vector)>,
    threshold: Option<f32>,
    limit: usize,
) -> Vec<(K, f32)> {
    let mut found: Vec<_> = candidates
        .into_iter()
        .map(|(key, vector)| {
            let cosine = query.cosine(&vector);
            (key, cosine)
        })
        .filter(|(_, cosine)| threshold.is_none_or(|threshold| *cosine >= threshold))
        .collect();
    // Equal cosines stand in the order of their keys, so that the same question has the same answer.
    found.sort_by(|(one, near), (other, far)| far.total_cmp(near).then_with(|| one.cmp(other)));
    found.truncate(limit);
    found
}

/// How much the first places of a list count above the others: the constant of reciprocal rank fusion, as it was published.
const DAMPING: f64 = 60.0;

/// Fuses lists, each best first, by their reciprocal ranks: who stands high in several comes first. Best first, with the
/// scores.
pub(crate) fn fuse<K: Ord + Clone>(lists: &[Vec<K>]) -> Vec<(K, f64)> {
    let mut scores = BTreeMap::<K, f64>::new();
    for list in lists {
        for (place, key) in (1_u32..).zip(list) {
            *scores.entry(key.clone()).or_default() += 1.0 / (DAMPING + f64::from(place));
        }
    }
    let mut fused: Vec<_> = scores.into_iter().collect();
    // Stable: equal scores stay in the order of their keys.
    fused.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(numbers: [f32; 2]) -> Vector {
        Vector::new(numbers.to_vec()).expect("finite")
    }

    #[test]
    fn a_threshold_of_zero_is_a_threshold() {
        let candidates = [("away", [-1.0, 0.1]), ("across", [0.0, 1.0]), ("along", [1.0, 0.0])];
        let candidates = candidates.map(|(key, numbers)| (key, vector(numbers)));
        let keys = |threshold, limit| {
            let found = nearest(&vector([1.0, 0.0]), candidates.clone(), threshold, limit);
            found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(keys(None, 9), ["along", "across", "away"]);
        assert_eq!(keys(Some(0.0), 9), ["along", "across"]);
        assert_eq!(keys(Some(0.5), 9), ["along"]);
        assert_eq!(keys(None, 2), ["along", "across"]);
    }

    #[test]
    fn equal_ones_have_one_order() {
        let candidates = ["c", "a", "b"].map(|key| (key, vector([1.0, 1.0])));
        let keys: Vec<_> = nearest(&vector([1.0, 0.0]), candidates, None, 2).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "b"]);
    }

    #[test]
    fn who_stands_in_both_lists_comes_first() {
        let fused = fuse(&[vec!["a", "b", "c"], vec!["d", "b"]]);
        let keys: Vec<_> = fused.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["b", "a", "d", "c"]);
        assert!((fused[0].1 - 2.0 / 62.0).abs() < 1e-12);
        assert!(fuse::<&str>(&[]).is_empty());
    }
}
