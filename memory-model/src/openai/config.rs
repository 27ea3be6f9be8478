//! Where an endpoint is, and how to speak to it.

use std::fmt;

use serde::Deserialize;

use crate::modalities::Modalities;
use crate::retry::Retries;

/// An endpoint and the model to ask there.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiConfig {
    /// The base of its URLs, as in `https://api.openai.com/v1` or `http://localhost:11434/v1`.
    pub url: String,
    /// The name of the model.
    pub model: String,
    /// What it takes for a bearer token; none by default.
    #[serde(default)]
    pub key: Option<String>,
    /// How long one attempt may take from the connection to the last byte, also of a stream, in milliseconds; 60 s by
    /// default.
    #[serde(default = "default_deadline_ms")]
    pub deadline_ms: u64,
    /// How the endpoint is told of a schema; [`SchemaHint::JsonSchema`] by default.
    #[serde(default)]
    pub schema_hint: SchemaHint,
    /// What the model takes beside text; nothing by default.
    #[serde(default)]
    pub modalities: Modalities,
    /// Whether the model calls tools, so that an agent offers it some; `true` by default. Endpoints refuse tools for a model that does not.
    #[serde(default = "default_tool_calls")]
    pub tool_calls: bool,
    /// When a call is tried again: after a connection that failed, an attempt that took too long, and the answers 408, 429 and
    /// 5xx.
    #[serde(default)]
    pub retries: Retries,
}

/// How an endpoint is told that the answer has a schema. The prompt holds the schema in any case, and the answer is
/// checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SchemaHint {
    /// By `response_format` with the schema.
    #[default]
    JsonSchema,
    /// By the prompt alone, for endpoints that refuse a `response_format`.
    Prompt,
}

impl OpenAiConfig {
    /// A model at an endpoint without a key, and with the defaults.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        let (url, model) = (url.into(), model.into());
        Self {
            url,
            model,
            key: None,
            deadline_ms: default_deadline_ms(),
            schema_hint: SchemaHint::default(),
            modalities: Modalities::default(),
            tool_calls: default_tool_calls(),
            retries: Retries::default(),
        }
    }
}

impl fmt::Debug for OpenAiConfig {
    /// Without the key, and without the URL, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiConfig")
            .field("model", &self.model)
            .field("deadline_ms", &self.deadline_ms)
            .field("schema_hint", &self.schema_hint)
            .field("modalities", &self.modalities)
            .field("tool_calls", &self.tool_calls)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

fn default_deadline_ms() -> u64 {
    60_000
}

fn default_tool_calls() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let read = |json: &str| serde_json::from_str::<OpenAiConfig>(json);
        let config = read(r#"{ "url": "http://localhost/v1", "model": "m" }"#).expect("a configuration");
        assert_eq!(config, OpenAiConfig::new("http://localhost/v1", "m"));
        let config = read(r#"{ "url": "u", "model": "m", "schemaHint": "prompt", "retries": { "maxPauseMs": 7 } }"#);
        let config = config.expect("a configuration");
        assert_eq!(config.schema_hint, SchemaHint::Prompt);
        assert_eq!(config.retries, Retries { max_pause_ms: 7, ..Retries::default() });
        let config = read(r#"{ "url": "u", "model": "m", "modalities": { "images": true } }"#);
        let config = config.expect("a configuration");
        assert_eq!(config.modalities, Modalities { images: true, documents: false });
        let config = read(r#"{ "url": "u", "model": "m", "toolCalls": false }"#).expect("a configuration");
        assert_eq!(config, OpenAiConfig { tool_calls: false, ..OpenAiConfig::new("u", "m") });
        assert!(read(r#"{ "url": "u", "model": "m", "retries": { "tries": 7 } }"#).is_err());
    }
}
