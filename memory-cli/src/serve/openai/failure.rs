//! Errors in OpenAI's format.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Value, json};

use super::wire::{COMPLETIONS, MODELS};
use crate::serve::problem::Problem;

/// The header that tells OpenAI's clients whether to retry a request by themselves.
const MAY_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Converts problems on the paths of the agent to OpenAI's format, whatever their source.
pub(crate) async fn in_openai_form(request: Request, next: Next) -> Response {
    let is_openai = [COMPLETIONS, MODELS].contains(&request.uri().path());
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>().filter(|_| is_openai) else { return response };
    *response.body_mut() = body(&problem).to_string().into();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // A retry of a question that was accepted would ask it twice.
    let may_retry = problem.retryable && problem.outcome.is_none();
    headers.insert(MAY_RETRY, HeaderValue::from_static(if may_retry { "true" } else { "false" }));
    response
}

/// The error body: the message, with the kind of the error as the code.
pub(super) fn body(problem: &Problem) -> Value {
    let kind = match StatusCode::from_u16(problem.status) {
        Ok(StatusCode::UNAUTHORIZED) => "authentication_error",
        Ok(StatusCode::FORBIDDEN) => "permission_error",
        Ok(status) if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    };
    json!({ "error": { "message": problem.detail, "type": kind, "param": null, "code": problem.error } })
}
