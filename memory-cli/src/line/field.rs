//! Parses single fields of a line. The errors name the field and never show its value.

use memory_core::{KeyedHash, Revision, Timestamp};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub(super) fn required<T>(
    raw: Option<&RawValue>,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, String> {
    optional(raw, name, parse)?.ok_or_else(|| format!("{name} is missing"))
}

pub(super) fn optional<T>(
    raw: Option<&RawValue>,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    raw.map(|raw| parse(raw.get()).map_err(|reason| format!("{name}: {reason}"))).transpose()
}

pub(super) fn checked<T>(result: memory_core::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.message().to_owned())
}

pub(super) fn string(raw: &str) -> Result<String, String> {
    serde_json::from_str(raw).map_err(|_| "must be a string".into())
}

pub(super) fn timestamp(raw: &str) -> Result<Timestamp, String> {
    let millis = serde_json::from_str(raw).map_err(|_| "must be a whole number of milliseconds")?;
    checked(Timestamp::from_millis(millis))
}

pub(super) fn revision(raw: &str) -> Result<Revision, String> {
    let number = serde_json::from_str(raw).map_err(|_| "must be a whole number")?;
    checked(Revision::new(number))
}

pub(super) fn parse_hash(text: &str) -> Result<KeyedHash, String> {
    match text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => u128::from_str_radix(text, 16).map(|number| KeyedHash(number.to_be_bytes())).map_err(|_| not_a_hash()),
        false => Err(not_a_hash()),
    }
}

fn not_a_hash() -> String {
    "a hash has 32 hexadecimal digits".into()
}

/// Distinguishes `null` from an absent field.
pub(super) fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}
