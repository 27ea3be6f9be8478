//! A trigger that is an HTTP route.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use memory_core::{Error, ErrorKind, Result, Trigger};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::{ContextContent, NewTask, TaskSender, TriggerSource};

/// What makes a task of the JSON that was posted.
type Read = dyn Fn(ContextContent) -> Result<NewTask> + Send + Sync;

/// A route that takes JSON by POST and makes a task of it.
///
/// It answers `202` with the id of the memory as soon as the trigger is persisted and has its place, and does not wait
/// for the task. A body that is no JSON, or that no task can be made of, is `400`, one that does not say
/// `Content-Type: application/json` is `415`; what is over a limit `413`; a runtime that shuts down or a memory that can't
/// be reached `503`. It asks for no credentials: which program may reach the listener may start tasks. Web pages may not:
/// what a browser sends for one (it has an `Origin`) is `403`, also from a page that calls itself by the name of the
/// listener.
pub struct HttpTrigger {
    name: String,
    path: String,
    /// Taken by the first run.
    listener: Mutex<Option<TcpListener>>,
    read: Arc<Read>,
}

impl HttpTrigger {
    /// The route `path`, such as `/events`, on a listener; `read` makes a task of what was posted.
    pub fn new(
        name: impl Into<String>,
        listener: TcpListener,
        path: impl Into<String>,
        read: impl Fn(ContextContent) -> Result<NewTask> + Send + Sync + 'static,
    ) -> Result<Self> {
        let path = path.into();
        // What axum would panic on, or take for a pattern.
        if !path.starts_with('/') || path.contains(['{', '}']) {
            return Err(Error::invalid("the path of a route begins with / and holds no braces"));
        }
        Ok(Self { name: name.into(), path, listener: Mutex::new(Some(listener)), read: Arc::new(read) })
    }
}

impl fmt::Debug for HttpTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpTrigger({} {})", self.name, self.path)
    }
}

#[async_trait]
impl TriggerSource for HttpTrigger {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&self, tasks: TaskSender) -> Result<()> {
        let taken = self.listener.lock().await.take();
        let listener = taken.ok_or_else(|| Error::invalid("an HTTP trigger runs once"))?;
        let stopped = stopped(tasks.clone());
        let routes = Router::new()
            .route(&self.path, post(take))
            .layer(DefaultBodyLimit::max(Trigger::MAX_BYTES))
            .with_state(Posted { tasks, read: Arc::clone(&self.read) });
        axum::serve(listener, routes)
            .with_graceful_shutdown(stopped)
            .await
            .map_err(|error| Error::new(ErrorKind::Unavailable, "the listener failed").with_source(error))
    }
}

/// [`TaskSender::stopped`] that owns its sender, as the server does.
async fn stopped(tasks: TaskSender) {
    tasks.stopped().await;
}

#[derive(Clone)]
struct Posted {
    tasks: TaskSender,
    read: Arc<Read>,
}

async fn take(State(posted): State<Posted>, headers: HeaderMap, body: Bytes) -> Response {
    // The listener serves no page, so there is none whose own it is.
    if headers.contains_key(header::ORIGIN) {
        return answer(StatusCode::FORBIDDEN, &json!({ "error": "no web page may start tasks" }));
    }
    if !is_json(&headers) {
        let error = "the body must be JSON, with the header Content-Type: application/json";
        return answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, &json!({ "error": error }));
    }
    let task = match std::str::from_utf8(&body) {
        Ok(text) => ContextContent::parse(text).and_then(|content| (posted.read)(content)),
        Err(_) => Err(Error::invalid("the body is not UTF-8")),
    };
    let submitted = match task {
        // Of its own, so that a client that goes away leaves no task without its place.
        Ok(task) => match tokio::spawn(async move { posted.tasks.submit(task).await }).await {
            Ok(submitted) => submitted,
            Err(_) => Err(Error::new(ErrorKind::Unexpected, "the task was not submitted")),
        },
        Err(error) => Err(error),
    };
    match submitted {
        Ok(task) => answer(StatusCode::ACCEPTED, &json!({ "id": task.id() })),
        Err(error) => answer(status(error.kind()), &json!({ "error": error.message() })),
    }
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
