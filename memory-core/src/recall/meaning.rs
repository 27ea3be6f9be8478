//! The meaning of records for a question: the cosine of its vector with theirs, combined with their neighbours' (M3).

use pulp::{Arch, NullaryFnOnce};

use super::digest::{Digest, window};
use crate::Vector;
use crate::vector::Numbers;

/// The weight of a neighbour is this to the power of its distance.
const FADING: f64 = 0.5;

/// The cosines of the records of a scope, in the order of the digests.
#[derive(Debug, Default)]
pub(super) struct Meanings {
    /// `None` for a record without a vector.
    cosines: Vec<Option<f64>>,
    least: f64,
    greatest: f64,
}

impl Meanings {
    /// Computes the cosines. `digests` are ordered by container and time; `count` records on each side are neighbours.
    pub(super) fn of(digests: &[Digest], question: &Vector, count: usize) -> Self {
        let (question, reach) = (Asked::of(question), 2 * count + 1);
        let vectors: Vec<_> = digests.iter().map(|digest| digest.vector.as_ref()).collect();
        let ends: Vec<_> = (0..digests.len()).map(|place| window(digests, place, reach - 1).end).collect();
        // Dispatched to wider instructions if the processor has them.
        let products = Arch::new().dispatch(Multiply { question: &question, vectors: &vectors, ends: &ends, reach });
        let Products { alone, products } = products;
        let cosine = |place: usize| {
            vectors[place]?;
            let near = window(digests, place, count);
            let weight = |other: usize| FADING.powi(other.abs_diff(place) as i32);
            let along: f64 = near.clone().map(|other| weight(other) * alone[other]).sum();
            let square = |one: usize| {
                let twice = |other: usize| if other == one { 1.0 } else { 2.0 };
                let with = |other: usize| twice(other) * weight(other) * products[one * reach + other - one];
                weight(one) * (one..near.end).map(with).sum::<f64>()
            };
            let length = near.clone().map(square).sum::<f64>().max(0.0).sqrt();
            Some(if length > 0.0 { (along / length).clamp(-1.0, 1.0) } else { 0.0 })
        };
        let cosines: Vec<_> = (0..digests.len()).map(cosine).collect();
        let present = || cosines.iter().flatten().copied();
        let (least, greatest) = (present().fold(f64::INFINITY, f64::min), present().fold(f64::NEG_INFINITY, f64::max));
        let (least, greatest) = if least <= greatest { (least, greatest) } else { (0.0, 0.0) };
        Self { cosines, least, greatest }
    }

    /// Returns whether no record has a vector.
    pub(super) fn is_empty(&self) -> bool {
        self.cosines.iter().all(Option::is_none)
    }

    pub(super) fn cosine(&self, place: usize) -> Option<f64> {
        self.cosines.get(place).copied().flatten()
    }

    /// Returns the cosine scaled to the scope: 0 for the lowest, 1 for the highest; 0 without a vector.
    pub(super) fn share(&self, place: usize) -> f64 {
        let Some(cosine) = self.cosine(place) else { return 0.0 };
        let extent = self.greatest - self.least;
        if extent > 0.0 { (cosine - self.least) / extent } else { 1.0 }
    }

    /// Returns the lowest and the highest cosine.
    pub(super) fn extent(&self) -> (f64, f64) {
        (self.least, self.greatest)
    }
}

/// The dot products to compute, with the widest instructions that the processor has.
struct Multiply<'v> {
    question: &'v Asked,
    /// `None` for a record without a vector.
    vectors: &'v [Option<&'v Vector>],
    /// For each vector, the end of the range of vectors that it is multiplied with.
    ends: &'v [usize],
    /// The maximum length of that range, including the vector itself.
    reach: usize,
}

/// Dot products; 0 if one of the two records has no vector.
struct Products {
    /// The question with each record.
    alone: Vec<f64>,
    /// Each record with itself and the `reach - 1` after it, row by row.
    products: Vec<f64>,
}

impl NullaryFnOnce for Multiply<'_> {
    type Output = Products;

    #[inline(always)]
    fn call(self) -> Products {
        let Self { question, vectors, ends, reach } = self;
        let mut alone = vec![0.0; vectors.len()];
        let mut products = vec![0.0; vectors.len() * reach];
        for place in 0..vectors.len() {
            let Some(vector) = vectors[place] else { continue };
            alone[place] = question.dot(vector);
            for other in place..ends[place] {
                if let Some(other_vector) = vectors[other] {
                    products[place * reach + other - place] = dot(vector, other_vector);
                }
            }
        }
        Products { alone, products }
    }
}

/// The question's vector, prepared for many comparisons.
struct Asked {
    exact: Vec<f32>,
    scale: f64,
    /// The numbers in units of `scale`. Products with a compact vector are then integers, whose sum is the same on
    /// every machine.
    whole: Vec<i16>,
}

impl Asked {
    fn of(vector: &Vector) -> Self {
        // A stored vector is rounded, so it is normalized again.
        let (numbers, square) = (vector.numbers(), |number: &f32| f64::from(*number) * f64::from(*number));
        let length = numbers.iter().map(square).sum::<f64>().sqrt();
        let exact: Vec<_> = numbers.iter().map(|number| (f64::from(*number) / length) as f32).collect();
        let scale = exact.iter().fold(0.0_f32, |most, number| most.max(number.abs())) / f32::from(i16::MAX);
        let whole = exact.iter().map(|number| (number / scale).round() as i16).collect();
        Self { exact, scale: f64::from(scale), whole }
    }

    #[inline(always)]
    fn dot(&self, vector: &Vector) -> f64 {
        match vector.parts() {
            Numbers::Compact { scale, numbers } => {
                self.scale * f64::from(*scale) * whole_dot(&self.whole, numbers) as f64
            }
            Numbers::Exact(numbers) => exact_dot(&self.exact, numbers),
        }
    }
}

/// The dot product of two stored vectors.
#[inline(always)]
fn dot(one: &Vector, other: &Vector) -> f64 {
    match (one.parts(), other.parts()) {
        (Numbers::Compact { scale: left, numbers: one }, Numbers::Compact { scale: right, numbers: other }) => {
            f64::from(*left) * f64::from(*right) * f64::from(compact_dot(one, other))
        }
        (Numbers::Exact(one), Numbers::Exact(other)) => exact_dot(one, other),
        _ => exact_dot(&one.numbers(), &other.numbers()),
    }
}

/// Number of sums that run in parallel.
const LANES: usize = 32;

/// The dot product of two compact vectors. No overflow: at most 4,096 products of at most 2^14.
#[inline(always)]
fn compact_dot(one: &[i8], other: &[i8]) -> i32 {
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (other, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0_i32; LANES];
    for (one, other) in one.iter().zip(other) {
        for lane in 0..LANES {
            sums[lane] += i32::from(i16::from(one[lane]) * i16::from(other[lane]));
        }
    }
    for (lane, (one, other)) in one_rest.iter().zip(other_rest).enumerate() {
        sums[lane] += i32::from(*one) * i32::from(*other);
    }
    sums.iter().sum()
}

/// The dot product with a compact vector. No overflow: a lane adds at most 128 products of at most 2^22.
#[inline(always)]
fn whole_dot(one: &[i16], other: &[i8]) -> i64 {
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (other, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0_i32; LANES];
    for (one, other) in one.iter().zip(other) {
        for lane in 0..LANES {
            sums[lane] += i32::from(one[lane]) * i32::from(other[lane]);
        }
    }
    for (lane, (one, other)) in one_rest.iter().zip(other_rest).enumerate() {
        sums[lane] += i32::from(*one) * i32::from(*other);
    }
    sums.iter().map(|sum| i64::from(*sum)).sum()
}

/// The dot product of exact vectors. Always eight partial sums, so that the result does not depend on the instructions.
#[inline(always)]
fn exact_dot(one: &[f32], other: &[f32]) -> f64 {
    const LANES: usize = 8;
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (other, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    for (one, other) in one.iter().zip(other) {
        for lane in 0..LANES {
            sums[lane] += f64::from(one[lane]) * f64::from(other[lane]);
        }
    }
    for (lane, (one, other)) in one_rest.iter().zip(other_rest).enumerate() {
        sums[lane] += f64::from(*one) * f64::from(*other);
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;
    use crate::engine::Mark;

    const WIDTH: usize = 300;

    /// Vectors that differ from each other.
    fn vector(seed: u64) -> Vector {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        Vector::new(&std::iter::repeat_with(&mut next).take(WIDTH).collect::<Vec<_>>()).expect("a vector")
    }

    fn digest(container: u64, place: i64, vector: Option<Vector>) -> Digest {
        let (length, counts, asks, named, is_wanted, bytes) = (0, Box::default(), false, None, true, 1);
        let mark = Mark { millis: place, id: vec![0] };
        Digest { mark, container, length, counts, asks, named, is_wanted, bytes, vector }
    }

    #[test]
    fn a_cosine_is_that_of_the_sum_of_a_record_and_its_neighbours() {
        for precision in [Precision::Compact, Precision::Exact] {
            // Two containers, and one record without a vector.
            let digests: Vec<_> = (0..9)
                .map(|place| {
                    digest(u64::from(place > 4), place, (place != 2).then(|| vector(place as u64).kept(precision)))
                })
                .collect();
            let question = vector(99);
            for count in [0, 1, 2, 10] {
                let meanings = Meanings::of(&digests, &question, count);
                for place in 0..9_usize {
                    let mut sum = vec![0.0_f64; WIDTH];
                    let near = (0..9).filter(|other| digests[*other].container == digests[place].container);
                    for other in near.filter(|other| other.abs_diff(place) <= count) {
                        let weight = 0.5_f64.powi(other.abs_diff(place) as i32);
                        for (sum, number) in sum.iter_mut().zip(digests[other].vector.iter().flat_map(Vector::numbers))
                        {
                            *sum += weight * f64::from(number);
                        }
                    }
                    let dot: f64 = sum.iter().zip(question.numbers()).map(|(one, other)| one * f64::from(other)).sum();
                    let expected = dot / sum.iter().map(|number| number * number).sum::<f64>().sqrt();
                    match meanings.cosine(place) {
                        Some(cosine) => assert!((cosine - expected).abs() < 1e-4, "{place}: {cosine}, {expected}"),
                        None => assert_eq!(place, 2),
                    }
                }
                let (least, greatest) = meanings.extent();
                let shares: Vec<_> = (0..9).map(|place| meanings.share(place)).collect();
                assert!(
                    least < greatest
                        && shares.contains(&1.0)
                        && shares.iter().filter(|share| **share == 0.0).count() >= 2
                );
            }
        }
    }

    #[test]
    fn products_of_the_widest_vectors_fit() {
        let widest = Vector::new(&[1.0; 4_096]).expect("a vector");
        let compact = widest.kept(Precision::Compact);
        let asked = Asked::of(&widest);
        assert!((asked.dot(&compact) - 1.0).abs() < 1e-3 && (dot(&compact, &compact) - 1.0).abs() < 1e-6);
        assert!((asked.dot(&widest) - 1.0).abs() < 1e-6 && (dot(&compact, &widest) - 1.0).abs() < 1e-3);
    }
}
