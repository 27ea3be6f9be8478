//! Metadata: a small JSON object that filters can search.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Error, Result};

/// Maximum nesting, counting the metadata object itself.
const MAX_DEPTH: usize = 32;

/// A JSON object of at most 64 KiB and 32 levels, without duplicate keys and without U+0000.
///
/// Stored as canonical text: keys in byte order, numbers in their shortest form as `i64`, `u64` or finite `f64` (V4).
/// Two values are equal if their canonical texts are: 1 and 1.0 differ.
///
/// ```
/// let metadata: memory_core::Metadata = r#"{"b": 2, "a": 1e0}"#.parse()?;
/// assert_eq!(metadata.as_str(), r#"{"a":1.0,"b":2}"#);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Metadata(Arc<str>);

/// A JSON value whose numbers compare exactly.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(JsonObject),
}

/// The members of a JSON object, in the byte order of their keys.
pub type JsonObject = BTreeMap<String, Json>;

/// A JSON number: an integer of 64 bits, or else the nearest `f64`. Comparison is by exact value.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// An integer in the range of `i64` or `u64`.
    Int(i128),
    /// A finite number.
    Float(f64),
}

impl Metadata {
    /// Maximum length of the canonical text, in bytes.
    pub const MAX_BYTES: usize = 64 << 10;

    /// Checks an untrusted text: `InvalidInput` if it isn't such an object, `TooLarge` over the limits.
    pub fn parse(text: &str) -> Result<Self> {
        let mut refusal = None;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let parsed = JsonSeed { depth: 0, refusal: &mut refusal }
            .deserialize(&mut deserializer)
            .and_then(|json| deserializer.end().map(|()| json));
        match parsed {
            Ok(Json::Object(object)) => Self::from_object(&object),
            Ok(_) => Err(Error::invalid("metadata must be a JSON object")),
            Err(_) if refusal == Some(TOO_DEEP) => {
                Err(Error::too_large(format!("metadata nests more than {MAX_DEPTH} deep")))
            }
            Err(error) => {
                // The parser's message may quote the text, which is payload; line and column are enough.
                let place = format!("line {} column {}", error.line(), error.column());
                Err(Error::invalid(match refusal {
                    Some(reason) => format!("metadata must not hold {reason} at {place}"),
                    None => format!("metadata is not valid JSON, or holds a number out of range, at {place}"),
                }))
            }
        }
    }

    /// Makes metadata of these members: `InvalidInput` if they hold U+0000 or a number that JSON can't write,
    /// `TooLarge` over the limits.
    pub fn from_object(object: &JsonObject) -> Result<Self> {
        if !depth_is_at_most(object, MAX_DEPTH) {
            return Err(Error::too_large(format!("metadata nests more than {MAX_DEPTH} deep")));
        }
        let text = serde_json::to_string(object).map_err(|error| {
            let message = "metadata must not hold a number that is not finite, or an integer of more than 64 bits";
            Error::invalid(message).with_source(error)
        })?;
        if text.contains("\\u0000") && object.iter().any(|(key, value)| key.contains('\0') || holds_nul(value)) {
            return Err(Error::invalid("metadata must not hold U+0000"));
        }
        if text.len() > Self::MAX_BYTES {
            let (size, limit) = (text.len(), Self::MAX_BYTES);
            return Err(Error::too_large(format!("metadata of {size} bytes; at most {limit} are allowed")));
        }
        Ok(Self(text.into()))
    }

    /// Accepts a text that [`Metadata::as_str`] returned and an engine stored; `Corrupt` if it is no longer an object
    /// with unique keys in ascending order.
    pub fn from_stored(text: &str) -> Result<Self> {
        let valid = text.starts_with('{') && serde_json::from_str::<Ordered>(text).is_ok();
        if valid { Ok(Self(text.into())) } else { Err(Error::corrupt("stored metadata is not what was written")) }
    }

    /// Returns the canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the members; each call parses the text again.
    pub fn to_object(&self) -> JsonObject {
        let seed = JsonSeed { depth: 0, refusal: &mut None };
        match seed.deserialize(&mut serde_json::Deserializer::from_str(&self.0)) {
            Ok(Json::Object(object)) => object,
            // A stored text that is JSON but breaks this type's rules counts as empty.
            _ => JsonObject::new(),
        }
    }

    /// Applies a merge patch (RFC 7396): members replace members, `null` removes, objects merge recursively. `TooLarge`
    /// over the limits.
    pub fn merge(&self, patch: &Metadata) -> Result<Self> {
        let mut object = self.to_object();
        merge_into(&mut object, patch.to_object());
        Self::from_object(&object)
    }
}

impl Default for Metadata {
    /// Returns the empty object.
    fn default() -> Self {
        Self("{}".into())
    }
}

impl std::str::FromStr for Metadata {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Debug for Metadata {
    /// Shows only the size, because payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metadata({} bytes)", self.0.len())
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(D::Error::custom)
    }
}

fn merge_into(target: &mut JsonObject, patch: JsonObject) {
    for (key, value) in patch {
        match value {
            Json::Null => {
                target.remove(&key);
            }
            Json::Object(patch) => {
                let member = target.entry(key).or_insert(Json::Null);
                if !matches!(member, Json::Object(_)) {
                    *member = Json::Object(JsonObject::new());
                }
                if let Json::Object(object) = member {
                    merge_into(object, patch);
                }
            }
            other => {
                target.insert(key, other);
            }
        }
    }
}

/// Returns whether an object nests at most `limit` levels; recurses no deeper than that.
fn depth_is_at_most(object: &JsonObject, limit: usize) -> bool {
    fn value_fits(value: &Json, limit: usize) -> bool {
        match value {
            Json::Array(items) => limit > 0 && items.iter().all(|item| value_fits(item, limit - 1)),
            Json::Object(object) => depth_is_at_most(object, limit),
            _ => true,
        }
    }
    limit > 0 && object.values().all(|value| value_fits(value, limit - 1))
}

fn holds_nul(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains('\0'),
        Json::Array(items) => items.iter().any(holds_nul),
        Json::Object(object) => object.iter().any(|(key, value)| key.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

impl Number {
    /// Orders by value; integers and floats compare without rounding.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => left.cmp(&right),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
            (Self::Int(int), Self::Float(float)) => compare_int_float(int, float),
            (Self::Float(float), Self::Int(int)) => compare_int_float(int, float).reverse(),
        }
    }
}

fn compare_int_float(int: i128, float: f64) -> Ordering {
    let whole = float.trunc();
    // An f64 beyond ±2^126 is beyond every integer that a Number holds.
    if whole.abs() >= 2.0_f64.powi(126) {
        return if whole > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    int.cmp(&(whole as i128)).then(0.0.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(Number::Int(int)) => match (i64::try_from(*int), u64::try_from(*int)) {
                (Ok(int), _) => serializer.serialize_i64(int),
                (_, Ok(int)) => serializer.serialize_u64(int),
                _ => Err(S::Error::custom("an integer of more than 64 bits")),
            },
            // Formatted here, because the canonical text must not depend on the version of a library.
            Json::Number(Number::Float(float)) if float.is_finite() => {
                RawValue::from_string(format!("{float:?}")).map_err(S::Error::custom)?.serialize(serializer)
            }
            Json::Number(Number::Float(_)) => Err(S::Error::custom("a number that is not finite")),
            Json::String(text) => serializer.serialize_str(text),
            Json::Array(items) => serializer.collect_seq(items),
            Json::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (key, value) in object {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

/// Parses a [`Json`] and refuses what metadata must not hold.
struct JsonSeed<'a> {
    depth: usize,
    /// Why this type refused the text; `None` if the parser itself failed.
    refusal: &'a mut Option<&'static str>,
}

const TOO_DEEP: &str = "too many levels";
const DUPLICATE_KEY: &str = "a duplicate key";
const NUL: &str = "a U+0000";

impl JsonSeed<'_> {
    fn deeper<E: serde::de::Error>(&mut self) -> Result<JsonSeed<'_>, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.refuse(TOO_DEEP));
        }
        Ok(JsonSeed { depth: self.depth + 1, refusal: self.refusal })
    }

    fn refuse<E: serde::de::Error>(&mut self, reason: &'static str) -> E {
        *self.refusal = Some(reason);
        E::custom(reason)
    }
}

impl<'de> DeserializeSeed<'de> for JsonSeed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonSeed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(Number::Int(value.into())))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(Number::Int(value.into())))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(Number::Float(value)))
    }

    fn visit_str<E: serde::de::Error>(mut self, value: &str) -> Result<Json, E> {
        if value.contains('\0') { Err(self.refuse(NUL)) } else { Ok(Json::String(value.to_owned())) }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Json, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.deeper()?)? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Json, A::Error> {
        let mut object = JsonObject::new();
        self.deeper::<A::Error>()?;
        while let Some(key) = members.next_key::<String>()? {
            if key.contains('\0') {
                return Err(self.refuse(NUL));
            }
            let value = members.next_value_seed(self.deeper()?)?;
            match object.entry(key) {
                Entry::Vacant(entry) => entry.insert(value),
                Entry::Occupied(_) => return Err(self.refuse(DUPLICATE_KEY)),
            };
        }
        Ok(Json::Object(object))
    }
}

/// Checks that the keys of all objects are unique and in ascending order, as in canonical text. Keeps no value.
struct Ordered;

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Ordered {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut before: Option<Key<'de>> = None;
        while let Some((key, Self)) = members.next_entry::<Key<'de>, Self>()? {
            if before.is_some_and(|before| before.0 >= key.0) {
                return Err(A::Error::custom("a key that is not in its order"));
            }
            before = Some(key);
        }
        Ok(self)
    }
}

/// A key; borrowed from the text if it has no escape.
#[derive(Deserialize)]
struct Key<'k>(#[serde(borrow)] Cow<'k, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn kind(text: &str) -> Option<ErrorKind> {
        Metadata::parse(text).err().map(|error| error.kind())
    }

    #[test]
    fn stored_metadata_that_nobody_wrote_are_corrupt() {
        for text in [r#"{"a":1,"b":{"":0,"a":[{}]},"c":"\"é\n"}"#, "{}"] {
            assert_eq!(Metadata::from_stored(text).expect(text).as_str(), text);
        }
        for text in
            ["", "[]", "{", r#"{"a":1,"a":2}"#, r#"{"b":1,"a":2}"#, r#"{"a":[{"b":1,"b":1}]}"#, r#"{"a":1} "x""#]
        {
            assert_eq!(Metadata::from_stored(text).expect_err(text).kind(), ErrorKind::Corrupt, "{text}");
        }
    }

    #[test]
    fn values_come_back_equal() {
        for (given, kept) in [
            (r#" {"b":1,"a":{"d":[],"c":null}} "#, r#"{"a":{"c":null,"d":[]},"b":1}"#),
            (r#"{"a.b":1,"$set":2,"":3}"#, r#"{"":3,"$set":2,"a.b":1}"#),
            (
                r#"{"n":[-9223372036854775808,18446744073709551615,-0.0,1e-7,1E100]}"#,
                r#"{"n":[-9223372036854775808,18446744073709551615,-0.0,1e-7,1e100]}"#,
            ),
            (r#"{"n":0.1000000000000000055511151231257827}"#, r#"{"n":0.1}"#),
            (r#"{"e":"\u00e9\ud83d\ude00\n"}"#, "{\"e\":\"é😀\\n\"}"),
        ] {
            let metadata = Metadata::parse(given).expect(given);
            assert_eq!(metadata.as_str(), kept);
            assert_eq!(Metadata::from_object(&metadata.to_object()).expect(kept), metadata);
        }
    }

    /// However they are made.
    #[test]
    fn they_nest_up_to_a_limit() {
        let nested = |depth: usize| {
            (1..depth).fold(JsonObject::new(), |inner, _| [("a".to_owned(), Json::Object(inner))].into_iter().collect())
        };
        let refused = |object| Metadata::from_object(&object).err().map(|error| error.kind());
        assert_eq!(refused(nested(MAX_DEPTH)), None);
        assert_eq!(refused(nested(MAX_DEPTH + 1)), Some(ErrorKind::TooLarge));
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        for text in [
            "",
            "[]",
            "1",
            "null",
            "{",
            "{}x",
            r#"{"a":1,"a":2}"#,
            r#"{"a":"\u0000"}"#,
            r#"{"\u0000":1}"#,
            r#"{"a":1e400}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":{"b":1,"b":1}}"#,
        ] {
            assert_eq!(kind(text), Some(ErrorKind::InvalidInput), "{text}");
        }
        let nested = |depth: usize| format!("{}{}", "{\"a\":".repeat(depth) + "1", "}".repeat(depth));
        assert_eq!(kind(&nested(32)), None);
        assert_eq!(kind(&nested(33)), Some(ErrorKind::TooLarge));
        assert_eq!(kind(&nested(100_000)), Some(ErrorKind::TooLarge));
        let sized = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8));
        assert_eq!(kind(&sized(Metadata::MAX_BYTES)), None);
        assert_eq!(kind(&sized(Metadata::MAX_BYTES + 1)), Some(ErrorKind::TooLarge));
    }

    #[test]
    fn merge_follows_rfc_7396() {
        // The appendix of the RFC, as far as both sides are objects.
        for (target, patch, merged) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let (target, patch) = (Metadata::parse(target).expect(target), Metadata::parse(patch).expect(patch));
            assert_eq!(target.merge(&patch).expect("small").as_str(), merged);
        }
        // Removed members make room for those that come.
        let sized = |key: char, bytes: usize| format!(r#""{key}":"{}""#, "x".repeat(bytes - 6));
        let full = Metadata::parse(&format!("{{{}}}", sized('x', Metadata::MAX_BYTES - 2))).expect("the largest");
        let swap = Metadata::parse(&format!(r#"{{"x":null,{}}}"#, sized('y', 60_000))).expect("smaller");
        assert_eq!(full.merge(&swap).expect("small").to_object().keys().collect::<Vec<_>>(), ["y"]);
        let more = Metadata::parse(&format!("{{{}}}", sized('y', 10))).expect("small");
        assert_eq!(full.merge(&more).map_err(|error| error.kind()), Err(ErrorKind::TooLarge));
    }

    #[test]
    fn numbers_compare_by_value() {
        let (int, float) = (Number::Int, Number::Float);
        assert_eq!(int(1), float(1.0));
        assert_eq!(int(0), float(-0.0));
        assert!(int(i128::from(u64::MAX)) != float(u64::MAX as f64));
        assert_eq!(int(i128::from(u64::MAX)).compare(int(i128::from(u64::MAX) - 1)), Ordering::Greater);
        assert_eq!(int(9_007_199_254_740_993).compare(float(9_007_199_254_740_992.0)), Ordering::Greater);
        assert_eq!(int(-3).compare(float(-2.5)), Ordering::Less);
        assert_eq!(int(-2).compare(float(-2.5)), Ordering::Greater);
        assert_eq!(int(1).compare(float(1e300)), Ordering::Less);
        assert_eq!(float(-1e300).compare(int(i128::from(i64::MIN))), Ordering::Less);
    }
}
