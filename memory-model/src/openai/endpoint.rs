//! One of the URLs of an endpoint, and how to post to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Result};
use reqwest::{Client, Response, StatusCode, Url};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::Value;

use super::config::OpenAiConfig;

/// A URL that takes JSON by POST and answers with JSON.
pub struct Endpoint {
    client: Client,
    url: Url,
    key: Option<String>,
}

/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 16 << 20;

impl Endpoint {
    /// Makes a client of this path below the base of the configuration; asks nobody yet. `InvalidInput` for a URL that is none.
    pub fn new(config: &OpenAiConfig, path: &str) -> Result<Self> {
        let url = format!("{}/{path}", config.url.trim_end_matches('/'));
        let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| Error::invalid("url: must begin with http:// or https://"))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .timeout(Duration::from_millis(config.deadline_ms))
            .build()
            .map_err(|error| unexpected("no HTTP client").with_source(error))?;
        Ok(Self { client, url, key: config.key.clone() })
    }

    /// What it answers to a body; at most 16 MiB.
    ///
    /// `Unavailable` and `Timeout` say that the same call may succeed later; `Unauthorized` that the key is refused.
    pub async fn post(&self, body: &Value) -> Result<Vec<u8>> {
        let mut request = self.client.post(self.url.clone()).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let response = request.body(body.to_string()).send().await.map_err(not_sent)?;
        check_status(response.status())?;
        read(response).await
    }
}

impl fmt::Debug for Endpoint {
    /// Without the key, and without the URL, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
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

pub(super) fn unexpected(message: &str) -> Error {
    Error::new(ErrorKind::Unexpected, message)
}
