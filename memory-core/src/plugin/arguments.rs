//! Parses the arguments of a call one by one.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Arguments;
use crate::{Error, Result};

/// The arguments of a call by name, for executors. Each error is a sentence that names the argument and quotes no value
/// (P1).
#[derive(Debug)]
pub struct NamedArguments(BTreeMap<String, Box<RawValue>>);

impl NamedArguments {
    /// Splits the object into its members; `InvalidInput` for a name that is not in the schema, or occurs twice.
    pub fn read(arguments: &Arguments, schema: &Value) -> Result<Self> {
        let object: UniqueMembers = serde_json::from_str(arguments.as_str())
            .map_err(|_| Error::invalid("the arguments must be a JSON object in which each name stands once"))?;
        let known = |name: &str| schema["properties"].get(name).is_some();
        if object.0.keys().any(|name| !known(name)) {
            let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(Error::invalid(format!("an argument has an unknown name: the arguments are {names}")));
        }
        Ok(Self(object.0))
    }

    /// Takes a string; `InvalidInput` for a value of any other type, as in all methods here. `None` if it is absent.
    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        self.value(name, "a string")
    }

    /// Takes an array of strings; `None` if it is absent.
    pub fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        self.value(name, "an array of strings")
    }

    /// Takes a boolean; `false` if it is absent.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        Ok(self.value(name, "true or false")?.unwrap_or(false))
    }

    /// Takes an integer from 1 to `most`; `None` if it is absent.
    pub fn count(&mut self, name: &str, most: usize) -> Result<Option<usize>> {
        let what = format!("a whole number from 1 to {most}");
        // JSON Schema accepts 10.0 as an integer, and models write it.
        match self.value::<f64>(name, &what)? {
            Some(number) if number.fract() == 0.0 && (1.0..=most as f64).contains(&number) => Ok(Some(number as usize)),
            Some(_) => Err(expected(name, &what)),
            None => Ok(None),
        }
    }

    /// Takes an integer of 64 bits; `None` if it is absent.
    pub fn integer(&mut self, name: &str) -> Result<Option<i64>> {
        const WHAT: &str = "a whole number";
        let Some(value) = self.json(name) else { return Ok(None) };
        let float = || serde_json::from_str(value.get()).ok().filter(|number: &f64| number.fract() == 0.0);
        // Beyond 2^53 a float does not identify one integer; only plain digits do.
        let exact = |number: &f64| number.abs() < (1_u64 << 53) as f64;
        let number = serde_json::from_str(value.get()).ok().or_else(|| Some(float().filter(exact)? as i64));
        number.map(Some).ok_or_else(|| expected(name, WHAT))
    }

    /// Takes a value as it was written; `None` if it is absent or `null`.
    pub fn json(&mut self, name: &str) -> Option<Box<RawValue>> {
        // Models write null for an argument that they leave out.
        self.0.remove(name).filter(|value| value.get() != "null")
    }

    /// Puts the name of the argument before the message of an error about its value.
    pub fn about(name: &str, error: &Error) -> Error {
        Error::new(error.kind(), format!("{name}: {}", error.message()))
    }

    fn value<T: DeserializeOwned>(&mut self, name: &str, what: &str) -> Result<Option<T>> {
        let Some(value) = self.json(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map(Some).map_err(|_| expected(name, what))
    }
}

fn expected(name: &str, what: &str) -> Error {
    Error::invalid(format!("{name}: must be {what}"))
}

/// The members of an object with unique names.
struct UniqueMembers(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = BTreeMap<String, Box<RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a name stands twice"));
            }
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(text: &str) -> Result<NamedArguments> {
        let schema = json!({ "properties": { "limit": {}, "text": {}, "ids": {}, "dryRun": {} } });
        NamedArguments::read(&Arguments::parse(text)?, &schema)
    }

    #[test]
    fn what_is_no_object_of_known_names_is_refused() {
        for text in ["[]", "1", "null", r#""x""#, r#"{"Text":"x"}"#, r#"{"":1}"#, r#"{"text":"a","text":"b"}"#] {
            let error = named(text).expect_err(text);
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput, "{text}");
        }
    }

    #[test]
    fn values_have_their_types() {
        let mut arguments = named(r#"{"limit":10.0,"text":null,"ids":["a"],"dryRun":true}"#).expect("valid");
        assert_eq!(arguments.count("limit", 10).expect("a count"), Some(10));
        assert_eq!(arguments.text("text").expect("absent"), None);
        assert_eq!(arguments.texts("ids").expect("strings"), Some(vec!["a".to_owned()]));
        assert!(arguments.flag("dryRun").expect("a flag"));
        for (value, expected) in
            [("-5", Some(-5)), ("1e3", Some(1_000)), ("9007199254740993", Some(9_007_199_254_740_993))]
        {
            let mut arguments = named(&format!(r#"{{"limit":{value}}}"#)).expect("known");
            assert_eq!(arguments.integer("limit").expect("an integer"), expected);
        }
        for value in ["1.5", "1e300", r#""1""#, "9223372036854775808"] {
            let error = named(&format!(r#"{{"limit":{value}}}"#)).expect("known").integer("limit");
            assert_eq!(error.expect_err(value).message(), "limit: must be a whole number");
        }
        for value in ["0", "11", "-1", "1.5", "1e300", r#""1""#, "true", "[1]"] {
            let error = named(&format!(r#"{{"limit":{value}}}"#)).expect("known").count("limit", 10);
            assert_eq!(error.expect_err(value).message(), "limit: must be a whole number from 1 to 10");
        }
        let error = named(r#"{"text":{"secret":1}}"#).expect("known").text("text").expect_err("an object");
        assert_eq!(error.message(), "text: must be a string");
    }
}
