//! The text of a record, and the words of a text (F1, T1).

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// All string values of a JSON text in reading order, without keys.
pub(super) fn strings(json: &str) -> Vec<String> {
    serde_json::from_str::<Strings>(json).expect("a payload is JSON").0
}

/// The words of a text in reading order.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for char in text.chars().flat_map(char::to_lowercase) {
        match char {
            _ if stands_alone(char) => words.extend([char.to_string(), String::new()]),
            // The generator uses no combining marks but these.
            '\u{300}'..='\u{36f}' => words.last_mut().expect("at least one").push(char),
            _ if char.is_alphanumeric() => words.last_mut().expect("at least one").push(char),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a character is an ideograph or a kana, which is a word by itself.
fn stands_alone(char: char) -> bool {
    matches!(char, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

struct Strings(Vec<String>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StringsVisitor)
    }
}

struct StringsVisitor;

impl<'de> Visitor<'de> for StringsVisitor {
    type Value = Strings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Strings, E> {
        Ok(Strings(vec![text.to_owned()]))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Strings, E> {
        Ok(Strings(vec![]))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Strings, E> {
        Ok(Strings(vec![]))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Strings, E> {
        Ok(Strings(vec![]))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Strings, E> {
        Ok(Strings(vec![]))
    }

    fn visit_unit<E>(self) -> Result<Strings, E> {
        Ok(Strings(vec![]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Strings, A::Error> {
        let mut strings = vec![];
        while let Some(Strings(more)) = items.next_element()? {
            strings.extend(more);
        }
        Ok(Strings(strings))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Strings, A::Error> {
        let mut strings = vec![];
        while let Some((IgnoredAny, Strings(more))) = members.next_entry()? {
            strings.extend(more);
        }
        Ok(Strings(strings))
    }
}
