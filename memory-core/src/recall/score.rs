//! The ranking: selects candidates by the terms that they hold, then scores them and their neighbours exactly (R4).

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::Recall;
use super::answer::{Explained, Parts, Term};
use super::digest::{Digest, window};
use super::meaning::Meanings;
use super::weights::Weights;
use crate::Vector;

/// The records of a scope, the hits among them, and how they were scored.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// Ordered by container, then by time.
    pub(crate) digests: Vec<Digest>,
    /// The hits, best first.
    pub(crate) ranked: Vec<Ranked>,
    pub(crate) explained: Explained,
    /// The inverse document frequency of each term.
    idf: Vec<f64>,
}

/// A hit, by its index in the digests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranked {
    pub(crate) place: usize,
    pub(crate) parts: Parts,
}

/// Ranks the records of a scope.
pub(crate) fn rank<K>(mut digests: Vec<Digest>, recall: &Recall<K>, vector: Option<&Vector>) -> Ranking {
    let mut named = digests.iter().filter_map(|digest| digest.named);
    let first = named.next();
    let names_one = first.is_some() && named.all(|other| Some(other) == first);
    let (terms, weights) = (recall.terms.len(), &recall.options.weights);
    digests.sort_unstable_by(|left, right| (left.container, &left.mark).cmp(&(right.container, &right.mark)));
    let mut scope = Scope::new(digests, terms, weights);
    let meaning = vector.map(|vector| Meanings::of(&scope.digests, vector, weights.window)).unwrap_or_default();
    // Vectors are many times as large as the rest of a digest, so they are dropped early.
    scope.digests.iter_mut().for_each(|digest| digest.vector = None);
    let candidates = scope.candidates();
    // Ordered, so that floating-point sums are the same in every run.
    let mut scored: BTreeSet<usize> =
        candidates.iter().flat_map(|place| scope.window(*place, weights.window)).collect();
    // Without a term, the nearest vectors are the only source of hits.
    let most = if terms == 0 { recall.query.limit } else { weights.candidates };
    let nearest = scope.nearest(&meaning, most);
    scored.extend(&nearest);
    let containers = scope.best_by_container(candidates.iter().chain(&nearest));
    let none = vec![0.0; terms];
    let sums: Vec<_> = scored
        .iter()
        .map(|place| {
            let own = scope.own(*place);
            let mut window = own.clone();
            for neighbour in scope.window(*place, weights.window) {
                raise(&mut window, &scope.own(neighbour));
            }
            let container = containers.get(&scope.digests[*place].container).unwrap_or(&none);
            [sum(&own), sum(&window), sum(container)]
        })
        .collect();
    let [words, neighbours, container] = [0, 1, 2].map(|part| best(sums.iter().map(|sums| sums[part])));
    let together =
        best(sums.iter().map(|[own, window, _]| share(*own, words) + weights.neighbours * share(*window, neighbours)));
    let shares = |[own, window, all]: &[f64; 3]| {
        let of_both =
            [share(share(*own, words), together), share(weights.neighbours * share(*window, neighbours), together)];
        [of_both[0], of_both[1], weights.container * share(*all, container)]
    };
    let total = best(sums.iter().map(|sums| shares(sums).iter().sum()));
    let meant = |place: usize| weights.meaning * meaning.share(place);
    let in_words = |sums: &[f64; 3]| shares(sums).map(|part| share(part, total));
    let both = scored.iter().zip(&sums).map(|(place, sums)| in_words(sums).iter().sum::<f64>() + meant(*place));
    // If no vector is compared, the highest score by words is 1 already.
    let all = if meaning.is_empty() { 1.0 } else { best(both) };
    let mut ranked: Vec<_> = scored
        .iter()
        .zip(&sums)
        .filter(|(place, _)| scope.digests[**place].is_wanted)
        .map(|(place, sums)| {
            let [words, neighbours, container] = in_words(sums).map(|part| share(part, all));
            let meaning = share(meant(*place), all);
            let digest = &scope.digests[*place];
            let question = if digest.asks { -weights.question } else { 0.0 };
            let plain = Parts { words, neighbours, container, meaning, question, speaker: 0.0 };
            let speaker =
                if names_one && digest.named.is_some() { weights.speaker * plain.sum().max(0.0) } else { 0.0 };
            Ranked { place: *place, parts: Parts { speaker, ..plain } }
        })
        .collect();
    ranked.sort_by(|left, right| {
        let by_score = right.parts.sum().total_cmp(&left.parts.sum());
        by_score.then_with(|| scope.digests[right.place].mark.cmp(&scope.digests[left.place].mark))
    });
    ranked.truncate(recall.query.limit);
    let (records, average_length) = (scope.digests.len(), scope.average_length);
    let (least_cosine, greatest_cosine) = meaning.extent();
    let explained = Explained {
        records,
        average_length,
        words,
        neighbours,
        together,
        container,
        total,
        least_cosine,
        greatest_cosine,
        together_with_meaning: all,
    };
    Ranking { idf: scope.idf, digests: scope.digests, ranked, explained }
}

impl Ranking {
    /// Returns the range of the records around one in its container, at most `count` on each side.
    pub(crate) fn around(&self, place: usize, count: usize) -> Range<usize> {
        window(&self.digests, place, count)
    }

    /// Returns the terms of the question that a record holds.
    pub(crate) fn terms_of(&self, place: usize, terms: &[String]) -> Vec<Term> {
        let term = |(number, count): &(u16, u32)| Term {
            term: terms[usize::from(*number)].clone(),
            idf: self.idf[usize::from(*number)],
            count: *count,
        };
        self.digests[place].counts.iter().map(term).collect()
    }
}

/// The records of a scope, ordered by container and time, with statistics over all of them.
struct Scope<'w> {
    digests: Vec<Digest>,
    weights: &'w Weights,
    average_length: f64,
    idf: Vec<f64>,
}

impl<'w> Scope<'w> {
    fn new(digests: Vec<Digest>, terms: usize, weights: &'w Weights) -> Self {
        let mut holders = vec![0_u64; terms];
        let mut length = 0_u64;
        for digest in &digests {
            length += u64::from(digest.length);
            for (number, _) in &digest.counts {
                holders[usize::from(*number)] += 1;
            }
        }
        let count = digests.len() as f64;
        let idf = |holders: &u64| (1.0 + (count - *holders as f64 + 0.5) / (*holders as f64 + 0.5)).ln();
        let idf = holders.iter().map(idf).collect();
        Self { average_length: length as f64 / count.max(1.0), digests, weights, idf }
    }

    /// Returns the best records that hold a term and are wanted, or have a neighbour that is.
    fn candidates(&self) -> Vec<usize> {
        let found = (0..self.digests.len()).filter_map(|place| Some((self.presence(place)?, place)));
        self.best(found.collect(), self.weights.candidates, u64::cmp)
    }

    /// Returns the wanted records with the highest cosines, at most `most`.
    fn nearest(&self, meaning: &Meanings, most: usize) -> Vec<usize> {
        let wanted = (0..self.digests.len()).filter(|place| self.digests[*place].is_wanted);
        let found = wanted.filter_map(|place| Some((meaning.cosine(place)?, place)));
        self.best(found.collect(), most, f64::total_cmp)
    }

    /// Returns the places with the greatest values, at most `most`, in any order. Of equal values the newest records
    /// are taken.
    fn best<V>(&self, mut found: Vec<(V, usize)>, most: usize, compare: impl Fn(&V, &V) -> Ordering) -> Vec<usize> {
        let best_first = |(left, at): &(V, usize), (right, other): &(V, usize)| {
            let newest_first = || self.digests[*other].mark.cmp(&self.digests[*at].mark);
            compare(right, left).then_with(newest_first)
        };
        if found.len() > most {
            found.select_nth_unstable_by(most, best_first);
            found.truncate(most);
        }
        found.into_iter().map(|(_, place)| place).collect()
    }

    /// Returns the sum of the idf of a candidate's terms; `None` if it is no candidate. In fixed point, so that the sum
    /// does not depend on the order.
    fn presence(&self, place: usize) -> Option<u64> {
        let counts = &self.digests[place].counts;
        let is_wanted = || self.window(place, self.weights.window).any(|near| self.digests[near].is_wanted);
        let rarity = |(number, _): &(u16, u32)| (self.idf[usize::from(*number)] * 65_536.0).round() as u64;
        (!counts.is_empty() && is_wanted()).then(|| counts.iter().map(rarity).sum())
    }

    fn window(&self, place: usize, count: usize) -> Range<usize> {
        window(&self.digests, place, count)
    }

    /// Returns the BM25 weight of each term in a record.
    fn own(&self, place: usize) -> Vec<f64> {
        let Weights { saturation, length, .. } = self.weights;
        let digest = &self.digests[place];
        let norm = saturation * (1.0 - length + length * f64::from(digest.length) / self.average_length);
        let mut own = vec![0.0; self.idf.len()];
        for (number, count) in &digest.counts {
            let (number, count) = (usize::from(*number), f64::from(*count));
            own[number] = self.idf[number] * count * (saturation + 1.0) / (count + norm);
        }
        own
    }

    /// Returns, for each container, the highest weight of each term among its candidates.
    fn best_by_container<'c>(&self, candidates: impl Iterator<Item = &'c usize>) -> HashMap<u64, Vec<f64>> {
        let mut containers = HashMap::new();
        for place in candidates {
            let best = containers.entry(self.digests[*place].container).or_insert_with(|| vec![0.0; self.idf.len()]);
            raise(best, &self.own(*place));
        }
        containers
    }
}

/// Raises each number to the other one if that is greater.
fn raise(numbers: &mut [f64], others: &[f64]) {
    for (number, other) in numbers.iter_mut().zip(others) {
        *number = number.max(*other);
    }
}

fn sum(numbers: &[f64]) -> f64 {
    numbers.iter().sum()
}

fn best(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, f64::max)
}

/// Divides a number by the best one; 0 if the best is 0.
fn share(number: f64, best: f64) -> f64 {
    if best > 0.0 { number / best } else { 0.0 }
}
