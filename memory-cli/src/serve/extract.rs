//! Extractors of request parts, which answer mistakes with problem details.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use memory_core::{Error, ErrorKind, IdempotencyKey, Revision};
use serde::de::DeserializeOwned;
use utoipa::IntoParams;
use utoipa::openapi::path::Parameter;

use super::problem::Problem;
use super::unquoted::unquoted;
use crate::telemetry::PAYLOADS;

/// A JSON object as the body. Its values keep their bytes.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            let detail = "the body must be JSON, with the header Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let bytes = whole(request, state).await?;
        // Serde would accept an array for an object, field by field.
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "the body must be a JSON object"));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| wrong_body(&error))
    }
}

/// The fields of a form as the body.
#[derive(Debug)]
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Form<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = whole(request, state).await?;
        let wrong = |error: serde_html_form::de::Error| {
            Problem::new(StatusCode::BAD_REQUEST, reason("the form", &error.to_string()))
        };
        serde_html_form::from_bytes(&bytes).map(Self).map_err(wrong)
    }
}

/// The whole body, within its limit.
async fn whole<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    let bytes = Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Error::too_large("the body is too large").into(),
        status => Problem::new(status, "the body is incomplete"),
    })?;
    tracing::info!(target: PAYLOADS, body = %String::from_utf8_lossy(&bytes), "asked");
    Ok(bytes)
}

/// The problem of a refused body, with the kind of the value's own error. Serde passes that on only as a text that begins with the kind.
fn wrong_body(error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let kinds = [ErrorKind::InvalidInput, ErrorKind::TooLarge];
    let of_value = |kind: &ErrorKind| Some((*kind, message.strip_prefix(&format!("{kind:?}: "))?));
    match kinds.iter().find_map(of_value) {
        Some((kind, message)) => Error::new(kind, format!("the body is not valid: {message}")).into(),
        None if error.is_data() => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, reason("the body", &message)),
        None => Problem::new(StatusCode::BAD_REQUEST, reason("the body", &message)),
    }
}

/// The query parameters, which may be repeated. Each part takes the names that it knows.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

macro_rules! parameters_in_parts {
    ($($part:ident),+) => {
        impl<$($part: DeserializeOwned + IntoParams,)+ S: Send + Sync> FromRequestParts<S> for Parameters<($($part,)+)> {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
                let query = parts.uri.query().unwrap_or_default();
                tracing::info!(target: PAYLOADS, query, "asked");
                check_names(query, &[$($part::into_params(|| None)),+].concat())?;
                Ok(Self(($(part::<$part>(query)?,)+)))
            }
        }
    };
}

parameters_in_parts!(A);
parameters_in_parts!(A, B);
parameters_in_parts!(A, B, C);
parameters_in_parts!(A, B, C, D);

/// Refuses a name that no part knows.
fn check_names(query: &str, known: &[Parameter]) -> Result<(), Problem> {
    if form_urlencoded::parse(query.as_bytes()).all(|(name, _)| known.iter().any(|parameter| parameter.name == name)) {
        return Ok(());
    }
    let names: Vec<_> = known.iter().map(|parameter| parameter.name.as_str()).collect();
    let detail = format!("a parameter has an unknown name: the parameters are {}", names.join(", "));
    Err(Problem::new(StatusCode::BAD_REQUEST, detail))
}

fn part<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    serde_html_form::from_str(query)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, reason("a parameter", &error.to_string())))
}

/// The values in the path, validated by the core.
#[derive(Debug)]
pub(crate) struct InPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let values = Path::from_request_parts(parts, state).await;
        // The rejection may quote what it could not read.
        let wrong = |_| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the path names no valid collection or id");
        values.map(|Path(values)| Self(values)).map_err(wrong)
    }
}

/// Returns the revision in `If-Match`; `None` if the header is absent.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<Revision>, Problem> {
    let Some(tag) = single(headers, &header::IF_MATCH)? else { return Ok(None) };
    let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.parse().ok());
    let revision = number.and_then(|number| Revision::new(number).ok());
    // A tag that this server never returns belongs to no state of the record.
    let failed =
        || Problem::new(StatusCode::PRECONDITION_FAILED, "If-Match: must be a revision in quotes, as in \"3\"");
    revision.map(Some).ok_or_else(failed)
}

/// Whether `If-None-Match: *` requires that the record does not exist yet.
pub(crate) fn if_none_match(headers: &HeaderMap) -> Result<bool, Problem> {
    match single(headers, &header::IF_NONE_MATCH)? {
        None => Ok(false),
        Some("*") => Ok(true),
        Some(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "If-None-Match: must be *")),
    }
}

/// Returns the key in `Idempotency-Key`.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(key) = single(headers, &HeaderName::from_static("idempotency-key"))? else { return Ok(None) };
    // As a structured field the key is a string in quotes; most clients send it without.
    let bare = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    Ok(Some(IdempotencyKey::parse(bare)?))
}

/// Returns the id of the last event that a client has received, to continue a stream; `None` for a new one.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let id = single(headers, &HeaderName::from_static("last-event-id"))?;
    Ok(id.filter(|id| !id.is_empty()))
}

/// The entity tag of a revision.
pub(crate) fn entity_tag(revision: Revision) -> (HeaderName, String) {
    (header::ETAG, format!("\"{revision}\""))
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str());
    match (value, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value.trim())),
        _ => Err(Problem::new(StatusCode::BAD_REQUEST, format!("{name}: must be one value of visible characters"))),
    }
}

/// The message for serde's error in a part of the request.
fn reason(part: &str, message: &str) -> String {
    format!("{part} is not valid: {}", unquoted(message))
}

/// The problem of parameters that do not go together.
pub(crate) fn mistake(message: &str) -> Problem {
    Problem::from(Error::invalid(message))
}
