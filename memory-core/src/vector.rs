//! Vectors: the meaning of texts as an embedding model encodes it (M1).

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::{Document, Error, ErrorKind, Memory, NewMemory, Record, RecordId, Result, Revision, words};

/// Maximum number of dimensions of a vector.
pub const MAX_WIDTH: usize = 4_096;
/// Maximum number of vectors that one call stores or returns.
pub const MAX_VECTORS: usize = 1_000;
/// Maximum length of a model's name, in bytes.
const MAX_NAME: usize = 256;
/// The largest absolute value of a number in a compact vector.
const LARGEST: f32 = 127.0;
/// Accepted lengths of an exact vector, and of a compact one, whose rounding moves each of up to 4,096 numbers by at
/// most half the scale. A longer vector would outweigh its neighbours in a sum.
const EXACT_LENGTHS: RangeInclusive<f64> = 0.99..=1.01;
const COMPACT_LENGTHS: RangeInclusive<f64> = 0.8..=1.2;

/// A unit vector: numbers whose squares add up to 1.
///
/// Its JSON is the base64 of its bytes; an array of numbers is accepted too.
#[derive(Clone, PartialEq)]
pub struct Vector(Numbers);

/// The numbers in one of the two precisions.
#[derive(Clone, PartialEq)]
pub(crate) enum Numbers {
    /// Unrounded.
    Exact(Box<[f32]>),
    /// Multiples of `scale` from -127 to 127: a fourth of the bytes.
    Compact { scale: f32, numbers: Box<[i8]> },
}

/// The precision in which a namespace stores its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Precision {
    /// One byte a number, with a common scale.
    #[default]
    Compact,
    /// Four bytes a number (`f32`).
    Exact,
}

/// The embedding model of a namespace's vectors (M1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorModel {
    name: String,
    width: usize,
    precision: Precision,
}

/// A record's vector, with the revision and the texts that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// The memory or document that the vector belongs to.
    pub record: RecordId,
    /// The record's revision when its texts were embedded.
    pub revision: Revision,
    /// The hash of the texts that were embedded; `None` if unknown. A document that is removed and put again starts at the first revision, so
    /// this tells the two apart; [`vectors`](crate::MemoryProvider::vectors) always gives it.
    pub texts: Option<TextHash>,
    /// The vector of these texts.
    pub vector: Vector,
}

/// The first 16 bytes of the SHA-256 of what is embedded: the strings of a memory's trigger and context, one on each line, or a document's
/// content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextHash([u8; 16]);

impl Vector {
    /// Normalizes these numbers to length 1. `InvalidInput` unless there are 1 to [`MAX_WIDTH`], all finite and not all
    /// zero.
    pub fn new(numbers: &[f32]) -> Result<Self> {
        check_width(numbers.len())?;
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(Error::invalid("a vector with a number that is not finite"));
        }
        let length = numbers.iter().map(|number| f64::from(*number) * f64::from(*number)).sum::<f64>().sqrt();
        if length == 0.0 {
            return Err(Error::invalid("a vector of zeros has no direction"));
        }
        let numbers = numbers.iter().map(|number| (f64::from(*number) / length) as f32);
        Ok(Self(Numbers::Exact(numbers.collect())))
    }

    /// Returns the number of dimensions.
    pub fn width(&self) -> usize {
        match &self.0 {
            Numbers::Exact(numbers) => numbers.len(),
            Numbers::Compact { numbers, .. } => numbers.len(),
        }
    }

    /// Returns the numbers. Those of a compact vector are rounded, so its length is only about 1.
    pub fn numbers(&self) -> Vec<f32> {
        match &self.0 {
            Numbers::Exact(numbers) => numbers.to_vec(),
            Numbers::Compact { scale, numbers } => numbers.iter().map(|number| f32::from(*number) * scale).collect(),
        }
    }

    /// Converts to a precision. A compact vector stays compact, because rounding can't be undone.
    #[must_use]
    pub fn kept(&self, precision: Precision) -> Self {
        let Numbers::Exact(numbers) = &self.0 else { return self.clone() };
        if precision == Precision::Exact {
            return self.clone();
        }
        let scale = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs())) / LARGEST;
        let numbers = numbers.iter().map(|number| (number / scale).round().clamp(-LARGEST, LARGEST) as i8);
        Self(Numbers::Compact { scale, numbers: numbers.collect() })
    }

    /// Encodes the vector. Compact: the byte 1, the scale as `f32`, then a signed byte for each number, in units of the
    /// scale. Exact: the byte 2, then each number as `f32`. All little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.0 {
            Numbers::Compact { scale, numbers } => {
                let numbers = numbers.iter().map(|number| number.cast_unsigned());
                [COMPACT].into_iter().chain(scale.to_le_bytes()).chain(numbers).collect()
            }
            Numbers::Exact(numbers) => {
                [EXACT].into_iter().chain(numbers.iter().flat_map(|number| number.to_le_bytes())).collect()
            }
        }
    }

    /// Decodes [`to_bytes`](Self::to_bytes). `InvalidInput` for any other bytes, and for a length outside 0.99 to 1.01
    /// (exact) or 0.8 to 1.2 (compact).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bad = || Error::invalid("not the bytes of a vector");
        match bytes.split_first().ok_or_else(bad)? {
            (&COMPACT, rest) => {
                let (scale, numbers) = rest.split_first_chunk().ok_or_else(bad)?;
                let scale = f32::from_le_bytes(*scale);
                check_width(numbers.len())?;
                let numbers: Box<[_]> = numbers.iter().map(|number| number.cast_signed()).collect();
                // No overflow: at most 4,096 squares of at most 2^14.
                let squares =
                    f64::from(numbers.iter().map(|number| i32::from(*number) * i32::from(*number)).sum::<i32>());
                let is_valid = scale > 0.0 && COMPACT_LENGTHS.contains(&(f64::from(scale) * squares.sqrt()));
                if is_valid { Ok(Self(Numbers::Compact { scale, numbers })) } else { Err(bad()) }
            }
            (&EXACT, rest) => {
                let (numbers, rest) = rest.as_chunks();
                check_width(numbers.len())?;
                let numbers: Box<[_]> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                let squares: f64 = numbers.iter().map(|number| f64::from(*number).powi(2)).sum();
                let is_valid = rest.is_empty() && EXACT_LENGTHS.contains(&squares.sqrt());
                if is_valid { Ok(Self(Numbers::Exact(numbers))) } else { Err(bad()) }
            }
            _ => Err(bad()),
        }
    }

    pub(crate) fn parts(&self) -> &Numbers {
        &self.0
    }
}

const COMPACT: u8 = 1;
const EXACT: u8 = 2;

fn check_width(width: usize) -> Result<()> {
    match (1..=MAX_WIDTH).contains(&width) {
        true => Ok(()),
        false => Err(Error::invalid(format!("a vector of {width} numbers; 1 to {MAX_WIDTH} are allowed"))),
    }
}

impl fmt::Debug for Vector {
    /// Shows only the width, because a vector reveals much of its text and payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vector({} numbers)", self.width())
    }
}

impl fmt::Display for Vector {
    /// Writes the base64 of its bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.to_bytes()))
    }
}

impl FromStr for Vector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes =
            STANDARD.decode(text).map_err(|_| Error::invalid("a vector must be an array of numbers, or base64"))?;
        Self::from_bytes(&bytes)
    }
}

impl Serialize for Vector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfVector)
    }
}

/// Deserializes a vector, and stops an array after [`MAX_WIDTH`] numbers: the input may be of any length.
struct OfVector;

impl<'de> Visitor<'de> for OfVector {
    type Value = Vector;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers, or base64")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vector, E> {
        text.parse().map_err(|error: Error| E::custom(error.message()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vector, A::Error> {
        let mut numbers = Vec::new();
        // Parsed as `f64`; a number too large for `f32` becomes infinite and is refused as not finite.
        while let Some(number) = sequence.next_element::<f64>()? {
            if numbers.len() == MAX_WIDTH {
                return Err(de::Error::custom(format!("a vector has at most {MAX_WIDTH} numbers")));
            }
            numbers.push(number as f32);
        }
        Vector::new(&numbers).map_err(|error| de::Error::custom(error.message()))
    }
}

impl From<&NewMemory> for TextHash {
    fn from(memory: &NewMemory) -> Self {
        Self::of(&words::text_of(&memory.trigger, memory.context.as_ref()))
    }
}

impl From<&Memory> for TextHash {
    fn from(memory: &Memory) -> Self {
        Self::of(&words::text_of(&memory.trigger, memory.context.as_ref()))
    }
}

impl From<&Document> for TextHash {
    fn from(document: &Document) -> Self {
        Self::of(document.content.as_str())
    }
}

impl From<&Record> for TextHash {
    fn from(record: &Record) -> Self {
        match record {
            Record::Memory(memory) => memory.into(),
            Record::Document(document) => document.into(),
        }
    }
}

impl TextHash {
    fn of(text: &str) -> Self {
        let hash = Sha256::digest(text);
        Self(std::array::from_fn(|place| hash[place]))
    }
}

impl VectorModel {
    /// Makes a model with this name and number of dimensions. `InvalidInput` for a name that is blank, longer than 256
    /// bytes or has a control character, and for a width outside 1 to [`MAX_WIDTH`].
    pub fn new(name: impl Into<String>, width: usize, precision: Precision) -> Result<Self> {
        let name = name.into();
        check_width(width)?;
        if name.trim().is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the name of a model must have 1 to {MAX_NAME} bytes, and no control characters"
            )));
        }
        Ok(Self { name, width, precision })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of dimensions of its vectors.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the precision in which its vectors are stored.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns whether name and width are equal; the precision may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.name, self.width) == (&other.name, other.width)
    }

    /// Checks the width of a vector; `InvalidInput` for any other.
    pub fn check(&self, vector: &Vector) -> Result<()> {
        let (width, wanted) = (vector.width(), self.width);
        match width == wanted {
            true => Ok(()),
            false => {
                Err(Error::invalid(format!("a vector of {width} numbers; the model of the namespace has {wanted}")))
            }
        }
    }

    /// Makes the error for a namespace that has another model.
    pub(crate) fn is_another(&self) -> Error {
        let Self { name, width, .. } = self;
        let message = format!(
            "the namespace has another embedding model than {name} with {width} numbers: take over with this one first"
        );
        Error::new(ErrorKind::SchemaMismatch, message)
    }

    /// Returns the converter between this model's vectors and the bytes that an engine stores.
    pub(crate) fn sealing(&self) -> Seal {
        let mut hash = Sha256::new();
        hash.update((self.width as u64).to_le_bytes());
        hash.update(&self.name);
        let hash = hash.finalize();
        Seal { tag: std::array::from_fn(|place| hash[place]), width: self.width, precision: self.precision }
    }

    /// Returns the model as a text to store.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// Parses a stored model; `Corrupt` for any other text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let corrupt = || Error::corrupt("the embedding model can't be read");
        let read: Self = serde_json::from_str(text).map_err(|error| corrupt().with_source(error))?;
        Self::new(read.name, read.width, read.precision).map_err(|error| corrupt().with_source(error))
    }
}

/// Converts between vectors and the bytes that an engine stores: a tag of the model, then the vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seal {
    tag: [u8; TAG],
    width: usize,
    precision: Precision,
}

impl Seal {
    /// Encodes a vector for storage.
    pub(crate) fn close(&self, vector: &Vector) -> Vec<u8> {
        [self.tag.as_slice(), &vector.kept(self.precision).to_bytes()].concat()
    }

    /// Decodes a stored vector; `None` if it belongs to another model or can't be read. Such a record is embedded
    /// again.
    pub(crate) fn open(&self, bytes: &[u8]) -> Option<Vector> {
        let (tag, bytes) = bytes.split_first_chunk()?;
        if *tag != self.tag {
            return None;
        }
        Vector::from_bytes(bytes).ok().filter(|vector| vector.width() == self.width)
    }
}

/// Length of the tag that identifies the model of a stored vector, in bytes.
const TAG: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, width: usize) -> VectorModel {
        VectorModel::new(name, width, Precision::Compact).expect("a model")
    }

    #[test]
    fn a_vector_has_the_length_one_and_comes_back_bit_by_bit() {
        let vector = Vector::new(&[3.0, -4.0, 0.0]).expect("a vector");
        assert_eq!(vector.numbers(), [0.6, -0.8, 0.0]);
        for kept in [vector.kept(Precision::Exact), vector.kept(Precision::Compact)] {
            assert_eq!(Vector::from_bytes(&kept.to_bytes()).expect("a vector"), kept);
            assert_eq!(kept.to_string().parse::<Vector>().expect("a vector"), kept);
            let json = serde_json::to_string(&kept).expect("JSON");
            assert_eq!(serde_json::from_str::<Vector>(&json).expect("a vector"), kept);
            // However often it is copied.
            assert_eq!(kept.kept(Precision::Compact), vector.kept(Precision::Compact));
        }
        assert_eq!(serde_json::from_str::<Vector>("[3, -4, 0]").expect("a vector"), vector);
        let compact = vector.kept(Precision::Compact).numbers();
        assert!(compact.iter().zip([0.6, -0.8, 0.0]).all(|(one, other): (&f32, f32)| (one - other).abs() < 0.004));
        // One large number among many small ones is rounded most.
        let mut widest = vec![1.51 * 0.9 / LARGEST; MAX_WIDTH];
        widest[0] = 0.9;
        let widest = Vector::new(&widest).expect("a vector").kept(Precision::Compact);
        assert_eq!(Vector::from_bytes(&widest.to_bytes()).expect("a vector"), widest);
        let huge = Vector::new(&[f32::MAX, f32::MAX]).expect("a vector");
        assert!((huge.numbers()[0] - 0.5_f32.sqrt()).abs() < 1e-6, "no overflow");
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        for numbers in [vec![], vec![0.0; 3], vec![f32::NAN], vec![1.0, f32::INFINITY], vec![1.0; MAX_WIDTH + 1]] {
            assert!(Vector::new(&numbers).is_err(), "{} numbers", numbers.len());
        }
        for bytes in
            [&[][..], &[1], &[1, 0, 0, 0, 0, 1], &[1, 0, 0, 128, 63], &[1, 0, 0, 128, 63, 0], &[2, 0, 0], &[3, 1]]
        {
            assert!(Vector::from_bytes(bytes).is_err(), "{bytes:?}");
        }
        // A length of 127, of twice 1, of almost nothing, and of no number.
        let exact = |number: f32| [[EXACT].as_slice(), &number.to_le_bytes()].concat();
        let compact = |scale: f32| [[COMPACT].as_slice(), &scale.to_le_bytes(), &[127]].concat();
        let scales = [1.0, 2.0 / LARGEST, f32::MIN_POSITIVE / 2.0, f32::MAX, f32::NAN, f32::INFINITY];
        for bytes in scales.map(compact).into_iter().chain([2.0, 1e-45, f32::MAX, f32::NAN].map(exact)) {
            assert!(Vector::from_bytes(&bytes).is_err(), "{bytes:?}");
        }
        for json in ["[]", "[null]", "\"AACAPw\"", "{}", "[1e999]"] {
            assert!(serde_json::from_str::<Vector>(json).is_err(), "{json}");
        }
        let endless = format!("[{}", "1,".repeat(MAX_WIDTH + 1));
        let error = serde_json::from_str::<Vector>(&endless).expect_err("too long").to_string();
        assert!(error.contains("at most 4096 numbers"), "not read to its end: {error}");
        assert_eq!(format!("{:?}", Vector::new(&[1.0]).expect("a vector")), "Vector(1 numbers)");
    }

    #[test]
    fn a_vector_is_of_one_model() {
        let vector = Vector::new(&[1.0, 2.0]).expect("a vector");
        let sealed = model("a", 2).sealing().close(&vector);
        assert_eq!(model("a", 2).sealing().open(&sealed), Some(vector.kept(Precision::Compact)));
        let exact = VectorModel::new("a", 2, Precision::Exact).expect("a model");
        assert_eq!(exact.sealing().open(&sealed), Some(vector.kept(Precision::Compact)), "however it is kept");
        assert_eq!(exact.sealing().open(&exact.sealing().close(&vector)), Some(vector));
        assert_eq!(model("b", 2).sealing().open(&sealed), None);
        assert_eq!(model("a", 2).sealing().open(&sealed[..9]), None);
        assert_eq!(VectorModel::parse(&exact.to_text()).expect("a model"), exact);
        assert!(
            VectorModel::parse("{}").is_err()
                && VectorModel::parse(r#"{"name":"","width":1,"precision":"exact"}"#).is_err()
        );
    }
}
