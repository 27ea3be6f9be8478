//! Reads members of a request that serde alone would take too freely.

use std::fmt;
use std::marker::PhantomData;

use memory_core::{Revision, Timestamp};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a value that is there, `null` included, as `Some`.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Objects; serde alone would take an array for one, field by field.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

/// An object, or none.
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}

struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfObject(PhantomData)).map(Self)
    }
}

struct OfObject<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for OfObject<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// A time; JSON Schema takes 1.0 for an integer.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let millis = whole(deserializer)?.map(|number| Timestamp::from_millis(number as i64));
    millis.transpose().map_err(D::Error::custom)
}

/// A time that is there.
pub(crate) fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    time(deserializer)?.ok_or_else(|| D::Error::custom("a time must be a number"))
}

/// A revision; 1.0 as well.
pub(crate) fn revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Revision>, D::Error> {
    let revision = whole(deserializer)?.map(|number| Revision::new(number as u64));
    revision.transpose().map_err(D::Error::custom)
}

/// A revision that is there.
pub(crate) fn some_revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Revision, D::Error> {
    revision(deserializer)?.ok_or_else(|| D::Error::custom("a revision must be a number"))
}

/// How many; 1.0 as well.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    // What is less than none becomes none, which is refused too.
    Ok(whole(deserializer)?.map(|number| number as usize))
}

/// A whole number that a float holds exactly, as all times and revisions are.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    match number {
        Some(number) if number.fract() != 0.0 => Err(D::Error::custom("a number must be whole")),
        number => Ok(number),
    }
}
