//! A model behind an endpoint that speaks OpenAI's chat completions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Result};
use reqwest::{Client, Response, StatusCode, Url};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{Model, Prompt};

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
    client: Client,
    completions: Url,
}

/// The largest answer of an endpoint that is read.
const MAX_ANSWER_BYTES: usize = 16 << 20;

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
        let completions = format!("{}/chat/completions", config.url.trim_end_matches('/'));
        let completions = Url::parse(&completions).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let completions = completions.ok_or_else(|| Error::invalid("url: must begin with http:// or https://"))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .timeout(Duration::from_millis(config.deadline_ms))
            .build()
            .map_err(|error| unexpected("no HTTP client").with_source(error))?;
        Ok(Self { config, client, completions })
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
        let mut request = self.client.post(self.completions.clone()).header("content-type", "application/json");
        if let Some(key) = &self.config.key {
            request = request.bearer_auth(key);
        }
        let response = request.body(self.body(prompt).to_string()).send().await.map_err(not_sent)?;
        check_status(response.status())?;
        let body = read(response).await?;
        let completion: Completion =
            serde_json::from_slice(&body).map_err(|_| unexpected("the endpoint's answer is no chat completion"))?;
        let content = completion.choices.into_iter().next().and_then(|choice| choice.message.content);
        content.ok_or_else(|| unexpected("the endpoint's answer holds no text"))
    }
}

/// TLS that trusts what the machine trusts.
fn tls() -> Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| unexpected("no TLS on this machine").with_source(error))?;
    Ok(config.with_no_client_auth())
}

async fn read(mut response: Response) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(not_sent)? {
        if body.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(unexpected("the endpoint's answer is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Why there is no answer. The error is told without its URL, which may hold a key.
fn not_sent(error: reqwest::Error) -> Error {
    let (kind, message) = match error.is_timeout() {
        true => (ErrorKind::Timeout, "the endpoint did not answer in time"),
        false => (ErrorKind::Unavailable, "the endpoint can't be reached"),
    };
    Error::new(kind, message).with_source(error.without_url()).retryable()
}

fn check_status(status: StatusCode) -> Result<()> {
    let message = format!("the endpoint answered {}", status.as_u16());
    Err(match status.as_u16() {
        200..=299 => return Ok(()),
        401 | 403 => Error::new(ErrorKind::Unauthorized, message),
        413 => Error::too_large(message),
        408 | 429 | 500..=599 => Error::new(ErrorKind::Unavailable, message).retryable(),
        _ => unexpected(&message),
    })
}

fn unexpected(message: &str) -> Error {
    Error::new(ErrorKind::Unexpected, message)
}
