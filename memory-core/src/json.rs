//! JSON that is stored as it was written: the trigger and the context of a memory.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Error, Result};

/// The event that started a task, as JSON of at most 4 MiB.
pub type Trigger = JsonText<{ 4 << 20 }>;

/// The result of a task, as JSON of at most 8 MiB.
pub type Context = JsonText<{ 8 << 20 }>;

/// Maximum nesting of arrays and objects.
const MAX_DEPTH: usize = 100;

/// A JSON value of at most `MAX` bytes. White space between its tokens is removed; everything else stays byte for byte:
/// numbers, the order of keys and escapes (V3).
///
/// It nests at most 100 levels, and holds no escape of half a surrogate pair.
///
/// ```
/// let trigger: memory_core::Trigger = r#"{ "text": "caf\u00e9", "price": 1.50 }"#.parse()?;
/// assert_eq!(trigger.as_str(), r#"{"text":"caf\u00e9","price":1.50}"#);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText<const MAX: usize>(Arc<str>);

impl<const MAX: usize> JsonText<MAX> {
    /// Maximum length in bytes, without the white space between tokens.
    pub const MAX_BYTES: usize = MAX;

    /// Checks an untrusted text: `InvalidInput` if it isn't JSON or escapes half of a surrogate pair, `TooLarge` over
    /// the limits.
    pub fn parse(text: &str) -> Result<Self> {
        let _: &RawValue = serde_json::from_str(text).map_err(|error| not_json(&error))?;
        let compact = compact(text)?;
        if compact.len() > MAX {
            return Err(Error::too_large(format!("JSON of {} bytes; at most {MAX} are allowed", compact.len())));
        }
        Ok(Self(compact.into()))
    }

    /// Serializes a value. `InvalidInput` if it has no JSON form, `TooLarge` over the limits.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let text = serde_json::to_string(value)
            .map_err(|error| Error::invalid("the value has no JSON form").with_source(error))?;
        Self::parse(&text)
    }

    /// Accepts a text that [`JsonText::as_str`] returned and an engine stored; `Corrupt` if it is no longer JSON.
    pub fn from_stored(text: &str) -> Result<Self> {
        let _: &RawValue = serde_json::from_str(text)
            .map_err(|error| Error::corrupt("a stored text is not JSON").with_source(error))?;
        Ok(Self(text.into()))
    }

    /// Returns the text, without white space between its tokens.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Deserializes the value; `InvalidInput` if it has another shape.
    pub fn to_value<'de, T: Deserialize<'de>>(&'de self) -> Result<T> {
        // The parser's error may quote the text, which is payload; line and column are enough.
        let shape = |error: serde_json::Error| {
            Error::invalid(format!(
                "the JSON does not have the expected shape at line {} column {}",
                error.line(),
                error.column()
            ))
        };
        serde_json::from_str(&self.0).map_err(shape)
    }

    /// Returns how deep arrays and objects nest.
    pub(crate) fn depth(&self) -> usize {
        let bytes = self.0.as_bytes();
        let (mut at, mut depth, mut deepest) = (0, 0_usize, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    at = string_end(bytes, at);
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            deepest = deepest.max(depth);
            at += 1;
        }
        deepest
    }

    /// Iterates over all string values in reading order, without keys.
    pub(crate) fn strings(&self) -> impl Iterator<Item = String> {
        let bytes = self.0.as_bytes();
        let mut at = 0;
        std::iter::from_fn(move || {
            loop {
                let start = at + bytes.get(at..)?.iter().position(|byte| *byte == b'"')?;
                at = string_end(bytes, start);
                // There is no white space, so a colon right after a string marks it as a key.
                let is_value = bytes.get(at) != Some(&b':');
                let text = is_value.then(|| serde_json::from_str(&self.0[start..at]).ok()).flatten();
                if text.is_some() {
                    return text;
                }
            }
        })
    }
}

impl<const MAX: usize> std::str::FromStr for JsonText<MAX> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl<const MAX: usize> fmt::Debug for JsonText<MAX> {
    /// Shows only the size, because payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

impl<const MAX: usize> Serialize for JsonText<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for JsonText<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(D::Error::custom)
    }
}

fn not_json(error: &serde_json::Error) -> Error {
    // The parser's message may quote the text, which is payload; line and column are enough.
    Error::invalid(format!("not valid JSON at line {} column {}", error.line(), error.column()))
}

/// Returns the offset after the closing quote of the string that starts at `start`. The text must be valid JSON.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Removes the white space between tokens of a valid JSON text, and checks the contract's additional rules.
fn compact(text: &str) -> Result<String> {
    let bytes = text.as_bytes();
    let mut compact = String::with_capacity(text.len());
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'"' => {
                at = string_end(bytes, at);
                if has_lone_surrogate(&bytes[start..at]) {
                    return Err(Error::invalid("a \\u escape stands for half of a surrogate pair"));
                }
            }
            byte => {
                at += 1;
                match byte {
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth -= 1,
                    // Part of a number or a literal; multi-byte characters occur in strings only.
                    _ => {}
                }
                if depth > MAX_DEPTH {
                    return Err(Error::too_large(format!("JSON nests more than {MAX_DEPTH} deep")));
                }
            }
        }
        compact.push_str(&text[start..at]);
    }
    Ok(compact)
}

fn has_lone_surrogate(string: &[u8]) -> bool {
    let escape_at = |at: usize| -> Option<u16> {
        let digits = string.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    while at < string.len() {
        if string[at] != b'\\' {
            at += 1;
            continue;
        }
        match escape_at(at) {
            Some(0xD800..=0xDBFF) => match escape_at(at + 6) {
                Some(0xDC00..=0xDFFF) => at += 12,
                _ => return true,
            },
            Some(0xDC00..=0xDFFF) => return true,
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::ErrorKind;

    type Small = JsonText<16>;

    #[test]
    fn everything_but_white_space_is_kept() {
        for (given, kept) in [
            (" {\"b\" : 1.0 ,\n\"a\":[ ] } ", r#"{"b":1.0,"a":[]}"#),
            (r#"" a  b ""#, r#"" a  b ""#),
            ("1E+2", "1E+2"),
            (r#"["\"", "\\" ]"#, r#"["\"","\\"]"#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
        ] {
            assert_eq!(Context::parse(given).expect(given).as_str(), kept);
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1}x",
            "nul",
            "'a'",
            "\"\u{1}\"",
            "01",
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\ud800""#,
            r#""\ud800x""#,
        ] {
            assert_eq!(Context::parse(text).map_err(|error| error.kind()), Err(ErrorKind::InvalidInput), "{text}");
        }
    }

    #[test]
    fn limits_hold_at_the_limit_and_one_over() {
        assert!(Small::parse(&format!("  \"{}\"  ", "x".repeat(14))).is_ok());
        assert_eq!(Small::parse(&format!("\"{}\"", "x".repeat(15))).map_err(|e| e.kind()), Err(ErrorKind::TooLarge));
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Context::parse(&nested(100)).is_ok());
        assert_eq!(Context::parse(&nested(101)).map_err(|e| e.kind()), Err(ErrorKind::TooLarge));
        assert_eq!(Context::parse(&nested(100_000)).map_err(|e| e.kind()), Err(ErrorKind::TooLarge));
    }

    #[test]
    fn strings_are_the_values_and_not_the_keys() {
        let text = Context::parse(r#"{"key": ["a", {"k2": "b\n\"c"}, 1e400, null], "empty": ""}"#).expect("valid");
        assert_eq!(text.strings().collect::<Vec<_>>(), ["a", "b\n\"c", ""]);
    }

    #[test]
    fn serde_keeps_every_byte() {
        let text = Context::parse(r#"{"n":1.50,"e":"\u00e9"}"#).expect("valid");
        let json = serde_json::to_string(&[&text]).expect("serializable");
        assert_eq!(json, r#"[{"n":1.50,"e":"\u00e9"}]"#);
        assert_eq!(serde_json::from_str::<Vec<Context>>(&json).expect("readable"), [text]);
    }

    #[test]
    fn debug_hides_the_payload() {
        let secret = Context::parse("\"secret\"").expect("valid");
        assert_eq!(format!("{secret:?}"), "JsonText(8 bytes)");
        let error = secret.to_value::<u64>().expect_err("a text is no number");
        assert!(!format!("{error:?}").contains("secret") && error.source().is_none(), "{error:?}");
    }
}
