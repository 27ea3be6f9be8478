//! One vector.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Finite numbers.
#[derive(Clone, PartialEq)]
pub(crate) struct Vector(Vec<f32>);

impl Vector {
    /// `None` when a number is not finite.
    pub(crate) fn new(numbers: Vec<f32>) -> Option<Self> {
        numbers.iter().all(|number| number.is_finite()).then_some(Self(numbers))
    }

    /// How many numbers it has.
    pub(crate) fn width(&self) -> usize {
        self.0.len()
    }

    /// As text: base64 of the numbers as little-endian `f32`.
    pub(crate) fn encode(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|number| number.to_le_bytes()).collect();
        STANDARD.encode(bytes)
    }

    /// From such a text; `None` when it is none.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        rest.is_empty().then(|| Self::new(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))?
    }

    /// The cosine of the angle between two vectors of the same width, from -1 to 1; 0 where one has no direction.
    pub(crate) fn cosine(&self, other: &Self) -> f32 {
        let dot = |one: &Self, other: &Self| -> f64 {
            one.0.iter().zip(&other.0).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
        };
        let length = (dot(self, self) * dot(other, other)).sqrt();
        if length > 0.0 { (dot(self, other) / length).clamp(-1.0, 1.0) as f32 } else { 0.0 }
    }
}

impl fmt::Debug for Vector {
    /// A vector tells much of its text, and payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vector({} numbers)", self.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(numbers: &[f32]) -> Vector {
        Vector::new(numbers.to_vec()).expect("finite")
    }

    #[test]
    fn a_vector_comes_back_bit_by_bit() {
        let numbers = [0.0, -0.0, 1.5, f32::MIN_POSITIVE / 2.0, f32::MAX, -1e-7];
        let text = vector(&numbers).encode();
        let back = Vector::decode(&text).expect("a vector");
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back.0), bits(&numbers));
        assert_eq!(vector(&[1.0]).encode(), "AACAPw==");
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        assert!(Vector::new(vec![f32::NAN]).is_none() && Vector::new(vec![1.0, f32::INFINITY]).is_none());
        // A base64 that is none, five bytes, and a number that is not finite.
        for text in ["AACAPw", "AAAAAAA=", "AACAfw=="] {
            assert!(Vector::decode(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_cosine_is_that_of_the_angle() {
        let east = vector(&[2.0, 0.0]);
        for (other, cosine) in
            [([1.0, 0.0], 1.0), ([0.0, 3.0], 0.0), ([-5.0, 0.0], -1.0), ([1.0, 1.0], 0.5_f32.sqrt()), ([0.0, 0.0], 0.0)]
        {
            assert!((east.cosine(&vector(&other)) - cosine).abs() < 1e-6, "{other:?}");
        }
        let huge = vector(&[f32::MAX, f32::MAX]);
        assert!((huge.cosine(&huge) - 1.0).abs() < 1e-6, "no overflow");
    }
}
