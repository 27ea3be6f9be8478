//! Errors as problem details (RFC 9457).

use std::collections::BTreeMap;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use memory_core::{Error, ErrorKind, Outcome};
use serde::Serialize;
use utoipa::openapi::{self, Content, Ref, RefOr};
use utoipa::{IntoResponses, ToSchema};

/// Why a request failed. It quotes no payload.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: the status says what kind of problem it is.
    #[serde(rename = "type")]
    pub(crate) kind_uri: &'static str,
    /// What the status stands for.
    pub(crate) title: &'static str,
    /// The status of the response.
    pub(crate) status: u16,
    /// A sentence that says what is wrong.
    pub(crate) detail: String,
    /// The kind of the error in the contract, if it has one, such as `InvalidInput`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// `unknown` if the request may have taken effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<&'static str>,
    /// Whether the same request can succeed later.
    pub(crate) retryable: bool,
}

const MEDIA_TYPE: &str = "application/problem+json";

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind_uri: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            error: None,
            outcome: None,
            retryable: false,
        }
    }

    /// The problem of a failed change. If its request had a precondition header, a conflict is a failed precondition (412).
    pub(crate) fn of_change(error: Error, has_precondition: bool) -> Self {
        let is_precondition = has_precondition && error.kind() == ErrorKind::Conflict;
        let problem = Self::from(error);
        if !is_precondition {
            return problem;
        }
        let Self { status, title, .. } = Self::new(StatusCode::PRECONDITION_FAILED, "");
        Self { status, title, ..problem }
    }

    /// The problem of a failed call about vectors. Another model than that of the database is a conflict, not a failure of the server.
    pub(crate) fn of_vectors(error: Error) -> Self {
        if error.kind() != ErrorKind::SchemaMismatch {
            return Self::from(error);
        }
        Self {
            error: Some(format!("{:?}", error.kind())),
            outcome: (error.outcome() == Outcome::Unknown).then_some("unknown"),
            ..Self::new(StatusCode::CONFLICT, error.message())
        }
    }

    /// The problem of a request over a concurrency limit, of this caller or of the server.
    pub(crate) fn too_many(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, detail);
        Self { error: Some(format!("{:?}", ErrorKind::LimitExceeded)), retryable: true, ..problem }
    }

    /// The problem of a request for which there is no place or no engine now. The same request can succeed later.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// The status of the response.
    pub(crate) fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self { error: Some("NotFound".into()), ..Self::new(StatusCode::NOT_FOUND, format!("no {what} has this id")) }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict | ErrorKind::LimitExceeded => StatusCode::CONFLICT,
            ErrorKind::Erased | ErrorKind::FeedReset => StatusCode::GONE,
            // An error with a backend is the engine refusing the server's credentials; without one, this server refuses the caller.
            ErrorKind::Unauthorized if error.backend().is_none() => StatusCode::FORBIDDEN,
            ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            ErrorKind::Unavailable | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::error!(error = ?error, "a request failed");
        }
        Self {
            error: Some(format!("{:?}", error.kind())),
            outcome: (error.outcome() == Outcome::Unknown).then_some("unknown"),
            retryable: error.is_retryable(),
            ..Self::new(status, error.message())
        }
    }
}

/// What any call may answer besides its own answer.
impl IntoResponses for Problem {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let response = |description| {
            let content = Content::new(Some(Ref::from_schema_name(Self::name())));
            openapi::ResponseBuilder::new().description(description).content(MEDIA_TYPE, content).build().into()
        };
        BTreeMap::from([
            ("4XX".to_owned(), response("The request is refused")),
            ("5XX".to_owned(), response("The request failed")),
        ])
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status_code();
        let mut response = (status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        // Kept for middleware that writes the problem in another format.
        response.extensions_mut().insert(self);
        response
    }
}
