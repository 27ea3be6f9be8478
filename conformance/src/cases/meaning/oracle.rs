//! A second implementation of the meaning of M3, by brute force on the stored vectors.

/// The data of a record that the oracle uses.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) id: Vec<u8>,
    pub(super) millis: i64,
    pub(super) container: String,
    /// The numbers of its vector; `None` if it has none.
    pub(super) vector: Option<Vec<f64>>,
    pub(super) is_wanted: bool,
}

/// For each record that has a vector, the cosine of the question and the sum of its vector and those of up to `window` neighbours on each
/// side, halved for each step.
pub(super) fn cosines(records: &[Told], question: &[f64], window: usize) -> Vec<Option<f64>> {
    let cosine = |place: usize| {
        records[place].vector.as_ref()?;
        let mut sum = vec![0.0; question.len()];
        for (other, steps) in near(records, place, window) {
            for (number, added) in sum.iter_mut().zip(records[other].vector.iter().flatten()) {
                *number += added / f64::powi(2.0, steps);
            }
        }
        Some(dot(&sum, question) / (dot(&sum, &sum).sqrt() * dot(question, question).sqrt()))
    };
    (0..records.len()).map(cosine).collect()
}

/// The indexes of a record and of its neighbours in the container, each with its distance in steps.
fn near(records: &[Told], place: usize, window: usize) -> Vec<(usize, i32)> {
    let mut beside: Vec<usize> =
        (0..records.len()).filter(|other| records[*other].container == records[place].container).collect();
    beside.sort_by_key(|other| (records[*other].millis, records[*other].id.clone()));
    let at = beside.iter().position(|other| *other == place).expect("it is in its own container");
    let steps = |(number, other): (usize, usize)| (other, at.abs_diff(number) as i32);
    beside.into_iter().enumerate().map(steps).filter(|(_, steps)| *steps <= window as i32).collect()
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}
