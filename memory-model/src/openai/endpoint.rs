//! The HTTP client of one URL of an endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use memory_core::{Error, ErrorKind, Result};
use reqwest::header::RETRY_AFTER;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::Value;

use super::config::OpenAiConfig;
use crate::retry::RetryAfter;

/// A URL that takes JSON by POST and answers with JSON.
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    key: Option<String>,
}

/// The body of a response, read chunk by chunk.
pub(super) struct Body {
    response: Response,
    /// How many more bytes may be read.
    left: usize,
}

/// The largest response that is read whole, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The largest stream that is read, in bytes. It is larger, since each token comes in an event of its own.
const MAX_STREAM_BYTES: usize = 4 * MAX_ANSWER_BYTES;

impl Endpoint {
    /// Makes a client for this path below the base URL, without connecting. Fails with `InvalidInput` if the URL is not an HTTP URL.
    pub(super) fn new(config: &OpenAiConfig, path: &str) -> Result<Self> {
        let url = format!("{}/{path}", config.url.trim_end_matches('/'));
        let url = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| Error::invalid("url: must begin with http:// or https://"))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .timeout(Duration::from_millis(config.deadline_ms))
            // A redirect would send the whole prompt to an address that nobody configured.
            .redirect(Policy::none())
            .build()
            .map_err(|error| unexpected("the HTTP client can't be set up").with_source(error))?;
        Ok(Self { client, url, key: config.key.clone() })
    }

    /// Posts a body and returns the response, of at most 16 MiB.
    ///
    /// Fails with a retryable `Unavailable` or `Timeout` if the same call may succeed later, and with `Unauthorized` if the key is refused.
    pub(super) async fn post(&self, body: &Value) -> Result<Vec<u8>> {
        self.open(body).await?.rest(Vec::new()).await
    }

    /// Posts a body and returns the response as soon as its headers are there; fails as [`Endpoint::post`] does.
    pub(super) async fn open(&self, body: &Value) -> Result<Body> {
        let mut request = self.client.post(self.url.clone()).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let response = request.body(body.to_string()).send().await.map_err(not_sent)?;
        match response.status().as_u16() {
            200..=299 => Ok(Body { response, left: MAX_STREAM_BYTES }),
            status => Err(match retry_after(&response) {
                Some(after) => refused(status).with_source(after),
                None => refused(status),
            }),
        }
    }
}

impl Body {
    /// Returns the next bytes, or `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(chunk) = self.response.chunk().await.map_err(broken_off)? else { return Ok(None) };
        self.left = self.left.checked_sub(chunk.len()).ok_or_else(too_large)?;
        Ok(Some(chunk.into()))
    }

    /// Reads the rest and returns it appended to `read`; together at most 16 MiB.
    pub(super) async fn rest(mut self, mut read: Vec<u8>) -> Result<Vec<u8>> {
        while let Some(chunk) = self.chunk().await? {
            if read.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(too_large());
            }
            read.extend_from_slice(&chunk);
        }
        Ok(read)
    }
}

impl fmt::Debug for Endpoint {
    /// Leaves out the key, and the URL, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// TLS settings that trust the certificate authorities of the operating system.
fn tls() -> Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| unexpected("TLS can't be set up on this machine").with_source(error))?;
    Ok(config.with_no_client_auth())
}

/// Maps a request that failed before its response. The URL is removed from the source, since it may hold a key.
fn not_sent(error: reqwest::Error) -> Error {
    let (kind, message) = match error.is_timeout() {
        true => (ErrorKind::Timeout, "the endpoint did not answer in time"),
        false => (ErrorKind::Unavailable, "the endpoint can't be reached"),
    };
    Error::new(kind, message).with_source(error.without_url()).retryable()
}

/// Maps a response that failed before its end.
fn broken_off(error: reqwest::Error) -> Error {
    let (kind, message) = match error.is_timeout() {
        true => (ErrorKind::Timeout, "the endpoint's answer did not end in time"),
        false => (ErrorKind::Unavailable, "the endpoint's answer ended in the middle"),
    };
    Error::new(kind, message).with_source(error.without_url()).retryable()
}

/// Maps an HTTP status code to an error.
pub(super) fn refused(status: u16) -> Error {
    let message = format!("the endpoint answered {status}");
    match status {
        401 | 403 => Error::new(ErrorKind::Unauthorized, message),
        413 => Error::too_large(message),
        408 | 429 | 500..=599 => Error::new(ErrorKind::Unavailable, message).retryable(),
        _ => unexpected(&message),
    }
}

/// Parses the header `Retry-After`: seconds or a date. A number of seconds that overflows becomes the longest pause.
fn retry_after(response: &Response) -> Option<RetryAfter> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let pause = match is_number {
        true => value.parse().map_or(Duration::MAX, Duration::from_secs),
        // A date in the past means no pause.
        false => httpdate::parse_http_date(value).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    Some(RetryAfter { pause })
}

pub(super) fn too_large() -> Error {
    unexpected("the endpoint's answer is too large")
}

pub(super) fn unexpected(message: &str) -> Error {
    Error::new(ErrorKind::Unexpected, message)
}
