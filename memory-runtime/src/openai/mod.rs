//! A model behind an endpoint that speaks OpenAI's chat completions.

mod endpoint;

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Model, Prompt};

pub use endpoint::Endpoint;
use endpoint::unexpected;

/// Where the endpoint is, and how to speak to it.
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
    /// How long a call may take, in milliseconds; 60 s by default.
    #[serde(default = "default_deadline_ms")]
    pub deadline_ms: u64,
    /// How the endpoint is told of a schema; [`SchemaHint::JsonSchema`] by default.
    #[serde(default)]
    pub schema_hint: SchemaHint,
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
        Self { url, model, key: None, deadline_ms: default_deadline_ms(), schema_hint: SchemaHint::default() }
    }
}

impl fmt::Debug for OpenAiConfig {
    /// Without the key, and without the URL, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiConfig")
            .field("model", &self.model)
            .field("deadline_ms", &self.deadline_ms)
            .field("schema_hint", &self.schema_hint)
            .finish_non_exhaustive()
    }
}

fn default_deadline_ms() -> u64 {
    60_000
}

/// A [`Model`] that asks the endpoint once for each prompt.
#[derive(Debug)]
pub struct OpenAiModel {
    config: OpenAiConfig,
    endpoint: Endpoint,
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Answer,
}

#[derive(Deserialize)]
struct Answer {
    content: Option<String>,
}

impl OpenAiModel {
    /// Makes a client; asks nobody yet. `InvalidInput` for a URL that is none.
    pub fn new(config: OpenAiConfig) -> Result<Self> {
        Ok(Self { endpoint: Endpoint::new(&config, "chat/completions")?, config })
    }

    fn body(&self, prompt: &Prompt) -> Value {
        let mut body = json!({ "model": self.config.model, "messages": prompt.messages });
        if let (Some(schema), SchemaHint::JsonSchema) = (&prompt.schema, self.config.schema_hint) {
            body["response_format"] = json!({
                "type": "json_schema",
                // Not strict: that takes a part of JSON Schema only.
                "json_schema": { "name": schema.name(), "schema": schema.as_value(), "strict": false }
            });
        }
        body
    }
}

#[async_trait]
impl Model for OpenAiModel {
    async fn complete(&self, prompt: &Prompt) -> Result<String> {
        let body = self.endpoint.post(&self.body(prompt)).await?;
        let completion: Completion =
            serde_json::from_slice(&body).map_err(|_| unexpected("the endpoint's answer is no chat completion"))?;
        let content = completion.choices.into_iter().next().and_then(|choice| choice.message.content);
        content.ok_or_else(|| unexpected("the endpoint's answer holds no text"))
    }
}
