//! Compiled JSON Schemas.

use std::fmt;

use jsonschema::Validator;
use memory_core::{Error, Result};
use serde_json::Value;

/// A compiled JSON Schema with a name. The draft is 2020-12 unless the schema names another. References (`$ref`) can point only
/// into the schema itself.
pub struct Schema {
    name: String,
    schema: Value,
    validator: Validator,
}

/// The most faults that an error message lists.
const MAX_FAULTS: usize = 5;

impl Schema {
    /// Compiles a schema. Fails with `InvalidInput` if the value is not a valid JSON Schema.
    pub fn new(name: impl Into<String>, schema: Value) -> Result<Self> {
        let name = name.into();
        let validator = jsonschema::validator_for(&schema)
            .map_err(|error| Error::invalid(format!("{name} is no valid JSON Schema: {}", error.masked())))?;
        Ok(Self { name, schema, validator })
    }

    /// The name, which endpoints and error messages show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema as JSON.
    pub fn as_value(&self) -> &Value {
        &self.schema
    }

    /// Checks a value against the schema. Fails with `InvalidInput`, which lists the first faults with their JSON Pointers and quotes
    /// no value.
    pub fn check(&self, value: &Value) -> Result<()> {
        let faults = self.validator.iter_errors(value).take(MAX_FAULTS);
        let faults: Vec<_> = faults
            .map(|error| match error.instance_path().as_str() {
                "" => error.masked().to_string(),
                path => format!("{path}: {}", error.masked()),
            })
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(Error::invalid(faults.join("; "))) }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_name_their_places_and_quote_no_value() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["b"] });
        let schema = Schema::new("test", schema).expect("a schema");
        schema.check(&json!({ "a": 1, "b": "x" })).expect("valid");
        let error = schema.check(&json!({ "a": "xyzzy" })).expect_err("two faults");
        assert!(error.message().contains("/a: ") && error.message().contains("\"b\""), "{error}");
        assert!(!error.message().contains("xyzzy"), "{error}");
        assert!(Schema::new("broken", json!({ "type": 7 })).is_err());
        assert!(Schema::new("remote", json!({ "$ref": "https://example.org/schema.json" })).is_err());
    }
}
