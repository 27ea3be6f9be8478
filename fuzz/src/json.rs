use std::fmt;

use memory_core::{Context, Metadata, Trigger, words};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::accepted;

/// A JSON text: it is stored unchanged except for white space, its strings are those that a parser finds, and metadata
/// reads back equal.
pub fn json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(trigger) = accepted(Trigger::parse(text)) {
        let kept = trigger.as_str();
        assert!(kept.len() <= text.len());
        assert_eq!(Trigger::parse(kept).expect("what is kept").as_str(), kept);
        assert_eq!(Trigger::from_stored(kept).expect("what is kept").as_str(), kept);
        assert_eq!(serde_json::to_string(&trigger).expect("JSON"), kept);
        let context = Context::parse(kept).expect("a context may be larger");
        if let Ok(found) = strings(kept) {
            assert_eq!(words::text_of(&trigger, None), found.join("\n"));
            assert_eq!(words::text_of(&trigger, Some(&context)), [&found[..], &found[..]].concat().join("\n"));
        }
    } else if let Ok(value) = serde_json::from_str::<serde_json::Value>(text) {
        assert!(depth(&value) > 100, "a value that no trigger holds");
    }
    if let Some(metadata) = accepted(Metadata::parse(text)) {
        let kept = metadata.as_str();
        assert_eq!(Metadata::parse(kept).expect("what is kept").as_str(), kept);
        assert_eq!(Metadata::from_stored(kept).expect("what is kept").as_str(), kept);
        assert_eq!(Metadata::from_object(&metadata.to_object()).expect("its members"), metadata);
        // Merging into nothing gives the metadata without its nulls; merging again changes nothing.
        let merged = Metadata::default().merge(&metadata).expect("no larger");
        assert_eq!(merged.merge(&metadata).expect("no larger"), merged);
    }
}

/// All string values in reading order. An error for a number that no `f64` holds.
fn strings(text: &str) -> serde_json::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Strings(&mut found).deserialize(&mut deserializer)?;
    Ok(found)
}

struct Strings<'f>(&'f mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Strings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.push(text.to_owned());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Strings(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_key::<String>()?.is_some() {
            members.next_value_seed(Strings(self.0))?;
        }
        Ok(())
    }
}

fn depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        serde_json::Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
