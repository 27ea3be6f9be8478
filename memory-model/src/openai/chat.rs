//! A model behind an endpoint that speaks OpenAI's chat completions.

use async_trait::async_trait;
use memory_core::Result;
use serde::Deserialize;
use serde_json::{Value, json};

use super::config::{OpenAiConfig, SchemaHint};
use super::endpoint::{Endpoint, unexpected};
use crate::model::{Model, Prompt};

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
