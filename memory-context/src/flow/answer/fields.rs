//! Reads the fields of an answer, from XML or JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Mistake;

/// The fields of an answer or of an item in it, and the required ones that are missing.
pub(super) struct Fields<'a> {
    values: &'a Map<String, Value>,
    /// The path before a name, as in `facts[0].`.
    path: String,
    missing: Vec<String>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(values: &'a Map<String, Value>) -> Self {
        Self { values, path: String::new(), missing: Vec::new() }
    }

    /// Reads a required text; a blank one counts as missing.
    pub(super) fn required(&mut self, name: &'static str) -> Result<String, Mistake> {
        let text = self.text(name)?;
        if text.is_empty() {
            self.missing.push(self.full(name));
        }
        Ok(text)
    }

    /// Reads a text, trimmed; empty by default.
    pub(super) fn text(&self, name: &'static str) -> Result<String, Mistake> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.trim().to_owned()),
            Some(_) => Err(self.invalid(name, "one text")),
        }
    }

    /// Reads required names, as items or separated by commas; counts as missing if there are none.
    pub(super) fn required_names(&mut self, name: &'static str, item: &str) -> Result<Vec<String>, Mistake> {
        let names = self.names(name, item)?;
        if names.is_empty() {
            self.missing.push(self.full(name));
        }
        Ok(names)
    }

    /// Reads names, as items or separated by commas; none by default.
    pub(super) fn names(&self, name: &'static str, item: &str) -> Result<Vec<String>, Mistake> {
        let invalid = || self.invalid(name, "a list of names");
        let mut names = Vec::new();
        for value in self.list(name, item) {
            let text = value.as_str().ok_or_else(invalid)?;
            names.extend(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned));
        }
        Ok(names)
    }

    /// Reads a flag; `false` by default.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, Mistake> {
        match self.values.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" => Ok(true),
                "false" | "no" | "" => Ok(false),
                _ => Err(self.invalid(name, "true or false")),
            },
            Some(_) => Err(self.invalid(name, "true or false")),
        }
    }

    /// Reads objects by name, as JSON or as text with JSON; none by default.
    pub(super) fn objects(&self, name: &'static str) -> Result<BTreeMap<String, Map<String, Value>>, Mistake> {
        let invalid = || self.invalid(name, "a JSON object of objects");
        let objects = match self.values.get(name) {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(BTreeMap::new()),
            Some(Value::String(text)) => serde_json::from_str(text),
            Some(value) => serde_json::from_value(value.clone()),
        };
        objects.map_err(|_| invalid())
    }

    /// Reads each item of a list; none by default.
    pub(super) fn items<T>(
        &mut self,
        name: &'static str,
        item: &str,
        read: impl Fn(&mut Fields<'_>) -> Result<T, Mistake>,
    ) -> Result<Vec<T>, Mistake> {
        let mut items = Vec::new();
        for (at, value) in self.list(name, item).into_iter().enumerate() {
            let values = value.as_object().ok_or_else(|| self.invalid(name, "a list of elements"))?;
            let path = format!("{}[{at}].", self.full(name));
            let mut fields = Fields { values, path, missing: Vec::new() };
            items.push(read(&mut fields)?);
            self.missing.append(&mut fields.missing);
        }
        Ok(items)
    }

    pub(super) fn invalid(&self, name: &str, expected: &'static str) -> Mistake {
        Mistake::Invalid { field: self.full(name), expected }
    }

    /// Fails if a required field is missing.
    pub(super) fn finish(self) -> Result<(), Mistake> {
        if self.missing.is_empty() { Ok(()) } else { Err(Mistake::Missing { fields: self.missing }) }
    }

    /// The items of a list: an array in JSON, elements with the name of an item in XML.
    fn list(&self, name: &str, item: &str) -> Vec<&'a Value> {
        let value = match self.values.get(name) {
            Some(Value::Object(object)) if object.contains_key(item) => &object[item],
            Some(value) => value,
            None => return Vec::new(),
        };
        match value {
            Value::Array(values) => values.iter().collect(),
            Value::Null => Vec::new(),
            Value::String(text) if text.trim().is_empty() => Vec::new(),
            one => vec![one],
        }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }
}
