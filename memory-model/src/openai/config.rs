//! The address of an endpoint and the settings of its calls.

use std::fmt;

use serde::Deserialize;

use crate::modalities::Modalities;
use crate::retry::Retries;

/// An endpoint and the model to ask there.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiConfig {
    /// The base URL, as in `https://api.openai.com/v1` or `http://localhost:11434/v1`.
    pub url: String,
    /// The name of the model.
    pub model: String,
    /// The bearer token; none by default.
    #[serde(default)]
    pub key: Option<String>,
    /// The deadline of one attempt in milliseconds, from the connection to the last byte, also of a stream; 60 s by default.
    #[serde(default = "default_deadline_ms")]
    pub deadline_ms: u64,
    /// How the schema of an answer is sent; [`SchemaHint::JsonSchema`] by default.
    #[serde(default)]
    pub schema_hint: SchemaHint,
    /// The kinds of attachments that the model takes; none by default.
    #[serde(default)]
    pub modalities: Modalities,
    /// Whether the model calls tools, so that an agent offers it some; `true` by default. Set it to `false` for a model that does not:
    /// endpoints refuse requests that offer tools to such a model.
    #[serde(default = "default_tool_calls")]
    pub tool_calls: bool,
    /// How calls are retried. Retryable are failed connections, attempts over the deadline, the status codes 408, 429
    /// and 5xx, and an error object without a status code in place of an answer.
    #[serde(default)]
    pub retries: Retries,
}

/// How the schema of an answer is sent to an endpoint. In both cases [`structured`](crate::structured) also writes the
/// schema into the prompt, and checks the answer against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SchemaHint {
    /// In `response_format`.
    #[default]
    JsonSchema,
    /// In the prompt only, for endpoints that refuse `response_format`.
    Prompt,
}

impl OpenAiConfig {
    /// Returns a configuration without a key, with the defaults.
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
    /// Leaves out the key, and the URL, which may hold one.
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
