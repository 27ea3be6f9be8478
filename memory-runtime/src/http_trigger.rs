//! A trigger that listens on an HTTP route.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use memory_core::{Error, ErrorKind, Result, Trigger};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::{ContextContent, NewTask, TaskSender, TriggerSource};

/// A function that turns the posted JSON into a task.
type Read<T> = dyn Fn(ContextContent) -> Result<T> + Send + Sync;

/// An HTTP route that takes JSON by POST and turns it into a task: a [`NewTask`] for a runtime, or a type of another host that calls
/// [`serve`](Self::serve).
///
/// # Behavior
/// - In a runtime it answers `202` with the id of the memory as soon as the trigger is persisted and has a place in the queue. It does
///   not wait for the task.
/// - `400`: the body is not JSON, or no task can be made of it. `415`: the header `Content-Type: application/json` is missing. `413`:
///   the body is over a limit. `409`: an operator erased the task before it had a place. `503`: the runtime shuts down, or the memory
///   can't be reached.
/// - It asks for no credentials: every program that can reach the listener can start tasks.
/// - Web pages cannot: a request with an `Origin` header, which browsers send for pages, is `403`, even if the origin has the name of
///   the listener.
pub struct HttpTrigger<T = NewTask> {
    name: String,
    path: String,
    /// `None` after the first run, which takes it.
    listener: Mutex<Option<TcpListener>>,
    read: Arc<Read<T>>,
}

/// The answer to a client of an [`HttpTrigger`].
#[derive(Debug, Clone, PartialEq)]
pub enum HttpReply {
    /// `202` with this JSON: the task was accepted and runs later.
    Accepted(Value),
    /// `200` with this JSON: the task is done.
    Done(Value),
}

impl<T: Send + 'static> HttpTrigger<T> {
    /// Serves the route `path`, such as `/events`, on a listener; `read` turns the posted JSON into a task. Fails with `InvalidInput` if
    /// the path does not begin with `/` or holds braces.
    pub fn new(
        name: impl Into<String>,
        listener: TcpListener,
        path: impl Into<String>,
        read: impl Fn(ContextContent) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        let path = path.into();
        // axum would panic on such a path, or read it as a pattern.
        if !path.starts_with('/') || path.contains(['{', '}']) {
            return Err(Error::invalid("the path of a route must begin with / and hold no braces"));
        }
        Ok(Self { name: name.into(), path, listener: Mutex::new(Some(listener)), read: Arc::new(read) })
    }

    /// The name, which is unique among the triggers of a host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Serves the route until `stopped` completes and the requests in flight are answered. Each task is passed to `submit`, which completes
    /// even if the client disconnects. A second call fails with `InvalidInput`.
    pub async fn serve<F, R>(&self, stopped: impl Future<Output = ()> + Send + 'static, submit: F) -> Result<()>
    where
        F: Fn(T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HttpReply>> + Send + 'static,
    {
        let taken = self.listener.lock().await.take();
        let listener = taken.ok_or_else(|| Error::invalid("an HTTP trigger can run only once"))?;
        let (read, submit) = (Arc::clone(&self.read), Arc::new(submit));
        let take = move |headers: HeaderMap, body: Bytes| {
            let (read, submit) = (Arc::clone(&read), Arc::clone(&submit));
            async move {
                let task = match posted(&headers, &body, read.as_ref()) {
                    Ok(task) => task,
                    Err(refused) => return refused.into_response(),
                };
                // In a task of its own, so that a client that disconnects does not cancel it between the store and the place in the queue.
                match tokio::spawn(async move { submit(task).await }).await {
                    Ok(Ok(HttpReply::Accepted(body))) => answer(StatusCode::ACCEPTED, &body),
                    Ok(Ok(HttpReply::Done(body))) => answer(StatusCode::OK, &body),
                    Ok(Err(error)) => Refused::from(&error).into_response(),
                    Err(_) => {
                        let error = Error::new(ErrorKind::Unexpected, "the task was not submitted");
                        Refused::from(&error).into_response()
                    }
                }
            }
        };
        let routes = Router::new().route(&self.path, post(take)).layer(DefaultBodyLimit::max(Trigger::MAX_BYTES));
        axum::serve(listener, routes)
            .with_graceful_shutdown(stopped)
            .await
            .map_err(|error| Error::new(ErrorKind::Unavailable, "the listener failed").with_source(error))
    }
}

impl<T> fmt::Debug for HttpTrigger<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpTrigger({} {})", self.name, self.path)
    }
}

#[async_trait]
impl TriggerSource for HttpTrigger {
    fn name(&self) -> &str {
        self.name()
    }

    async fn run(&self, tasks: TaskSender) -> Result<()> {
        let stopped = stopped(tasks.clone());
        self.serve(stopped, move |task| {
            let tasks = tasks.clone();
            async move {
                let id = tasks.submit(task).await?.id();
                Ok(HttpReply::Accepted(json!({ "id": id })))
            }
        })
        .await
    }
}

/// [`TaskSender::stopped`] for a server that needs an owned future.
async fn stopped(tasks: TaskSender) {
    tasks.stopped().await;
}

/// A refused request: the status code and the reason for the client.
struct Refused {
    status: StatusCode,
    reason: String,
}

impl Refused {
    fn new(status: StatusCode, reason: &str) -> Self {
        Self { status, reason: reason.to_owned() }
    }

    fn into_response(self) -> Response {
        answer(self.status, &json!({ "error": self.reason }))
    }
}

impl From<&Error> for Refused {
    fn from(error: &Error) -> Self {
        match error.kind() {
            // The answer does not say that an operator erased the task. It is not 503 either, since a retry would bring the task back.
            ErrorKind::Erased => Self::new(StatusCode::CONFLICT, "the task was given up, since it no longer exists"),
            kind => Self::new(status(kind), error.message()),
        }
    }
}

/// Checks the headers of a request and turns its body into a task.
fn posted<T>(headers: &HeaderMap, body: &[u8], read: &Read<T>) -> std::result::Result<T, Refused> {
    // The listener serves no pages, so no page has the same origin.
    if headers.contains_key(header::ORIGIN) {
        return Err(Refused::new(StatusCode::FORBIDDEN, "web pages may not start tasks"));
    }
    if !is_json(headers) {
        let reason = "the body must be JSON, with the header Content-Type: application/json";
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    let text = std::str::from_utf8(body).map_err(|_| Error::invalid("the body is not UTF-8"));
    text.and_then(ContextContent::parse).and_then(read).map_err(|error| Refused::from(&error))
}

/// Whether the content type is JSON, which a form or a cross-origin page without CORS permission can't send.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Closed | ErrorKind::Unavailable | ErrorKind::Timeout => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
