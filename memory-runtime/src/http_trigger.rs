//! A trigger that is an HTTP route.

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

/// What makes a task of the JSON that was posted.
type Read<T> = dyn Fn(ContextContent) -> Result<T> + Send + Sync;

/// A route that takes JSON by POST and makes a task of it: a [`NewTask`] for a runtime, or what another host takes in by
/// [`serve`](Self::serve).
///
/// In a runtime it answers `202` with the id of the memory as soon as the trigger is persisted and has its place, and does not wait
/// for the task. A body that is no JSON, or that no task can be made of, is `400`, one that does not say
/// `Content-Type: application/json` is `415`; what is over a limit `413`; what an operator has erased before it had its place `409`; a
/// runtime that shuts down or a memory that can't be reached `503`. It asks for no credentials: which program may reach the
/// listener may start tasks. Web pages may not: what a browser sends for one (it has an `Origin`) is `403`, also from a page that
/// calls itself by the name of the listener.
pub struct HttpTrigger<T = NewTask> {
    name: String,
    path: String,
    /// Taken by the first run.
    listener: Mutex<Option<TcpListener>>,
    read: Arc<Read<T>>,
}

/// What a client of an [`HttpTrigger`] is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum HttpReply {
    /// `202` with this JSON: it was taken in.
    Accepted(Value),
    /// `200` with this JSON: it is done.
    Done(Value),
}

impl<T: Send + 'static> HttpTrigger<T> {
    /// The route `path`, such as `/events`, on a listener; `read` makes a task of what was posted.
    pub fn new(
        name: impl Into<String>,
        listener: TcpListener,
        path: impl Into<String>,
        read: impl Fn(ContextContent) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        let path = path.into();
        // What axum would panic on, or take for a pattern.
        if !path.starts_with('/') || path.contains(['{', '}']) {
            return Err(Error::invalid("the path of a route begins with / and holds no braces"));
        }
        Ok(Self { name: name.into(), path, listener: Mutex::new(Some(listener)), read: Arc::new(read) })
    }

    /// What tells it from other triggers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Serves the route until `stopped` ends and the requests that have come are answered; what is posted goes to `submit`. A client that
    /// goes away does not end that. `InvalidInput` when it is called again.
    pub async fn serve<F, R>(&self, stopped: impl Future<Output = ()> + Send + 'static, submit: F) -> Result<()>
    where
        F: Fn(T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<HttpReply>> + Send + 'static,
    {
        let taken = self.listener.lock().await.take();
        let listener = taken.ok_or_else(|| Error::invalid("an HTTP trigger runs once"))?;
        let (read, submit) = (Arc::clone(&self.read), Arc::new(submit));
        let take = move |headers: HeaderMap, body: Bytes| {
            let (read, submit) = (Arc::clone(&read), Arc::clone(&submit));
            async move {
                let task = match posted(&headers, &body, read.as_ref()) {
                    Ok(task) => task,
                    Err(refused) => return refused.into_response(),
                };
                // Of its own, so that a client that goes away leaves no task without its place.
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

/// [`TaskSender::stopped`] that owns its sender, as the server does.
async fn stopped(tasks: TaskSender) {
    tasks.stopped().await;
}

/// Why a client gets no task.
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
            // That it was erased is for operators. A client that tries again later would bring it back.
            ErrorKind::Erased => Self::new(StatusCode::CONFLICT, "the task was given up, since it is there no more"),
            kind => Self::new(status(kind), error.message()),
        }
    }
}

/// What was posted.
fn posted<T>(headers: &HeaderMap, body: &[u8], read: &Read<T>) -> std::result::Result<T, Refused> {
    // The listener serves no page, so there is none whose own it is.
    if headers.contains_key(header::ORIGIN) {
        return Err(Refused::new(StatusCode::FORBIDDEN, "no web page may start tasks"));
    }
    if !is_json(headers) {
        let reason = "the body must be JSON, with the header Content-Type: application/json";
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    let text = std::str::from_utf8(body).map_err(|_| Error::invalid("the body is not UTF-8"));
    text.and_then(ContextContent::parse).and_then(read).map_err(|error| Refused::from(&error))
}

/// What a form or a page without leave can't say.
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
