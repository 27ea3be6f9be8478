//! A local HTTP server in place of an endpoint.

use std::future;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::stream::{self, StreamExt};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task;

/// A request: its key, and its body.
pub(crate) type Request = (Option<String>, Value);

/// How the endpoint answers a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// At once.
    Whole { status: StatusCode, retry_after: Option<String>, body: String },
    /// These bytes, each piece written by itself, and this end.
    Pieces(Vec<Vec<u8>>, End),
    /// Not at all.
    Never,
}

/// How an answer in pieces ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    /// The connection breaks.
    Broken,
    /// The connection stays open, and nothing more comes.
    Hanging,
}

/// An endpoint that gives the answers of a list, and records its requests.
#[derive(Debug)]
pub(crate) struct Endpoint {
    replies: Mutex<Vec<Reply>>,
    requests: Mutex<Vec<Request>>,
    /// A permit for each answer that hangs.
    hanging: Semaphore,
    /// A permit for each request that its client has abandoned.
    given_up: Semaphore,
}

impl From<(StatusCode, String)> for Reply {
    fn from((status, body): (StatusCode, String)) -> Self {
        Self::Whole { status, retry_after: None, body }
    }
}

impl Endpoint {
    /// Starts it, and returns its URL.
    pub(crate) async fn start(replies: impl IntoIterator<Item = impl Into<Reply>>) -> (Arc<Self>, String) {
        let replies = Mutex::new(replies.into_iter().map(Into::into).collect());
        let endpoint = Arc::new(Self {
            replies,
            requests: Mutex::default(),
            hanging: Semaphore::new(0),
            given_up: Semaphore::new(0),
        });
        let routes = Router::new().route("/v1/chat/completions", post(answer)).route("/v1/embeddings", post(answer));
        let routes = routes.with_state(Arc::clone(&endpoint));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (endpoint, url)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Waits until a client waits for an answer that hangs.
    pub(crate) async fn hanging(&self) -> SemaphorePermit<'_> {
        self.hanging.acquire().await.expect("it is not closed")
    }

    /// Waits until a client has given up an answer that hangs.
    pub(crate) async fn given_up(&self) -> SemaphorePermit<'_> {
        self.given_up.acquire().await.expect("it is not closed")
    }
}

/// Tells when it is dropped.
struct Hanging(Arc<Endpoint>);

impl Hanging {
    fn new(endpoint: Arc<Endpoint>) -> Self {
        endpoint.hanging.add_permits(1);
        Self(endpoint)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.given_up.add_permits(1);
    }
}

async fn answer(State(endpoint): State<Arc<Endpoint>>, headers: HeaderMap, body: Bytes) -> Response {
    let key = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    endpoint.requests.lock().expect("no panic").push((key, serde_json::from_slice(&body).expect("JSON")));
    let reply = endpoint.replies.lock().expect("no panic").remove(0);
    match reply {
        Reply::Whole { status, retry_after, body } => {
            let mut response = (status, body).into_response();
            if let Some(value) = retry_after {
                response.headers_mut().insert("retry-after", value.parse().expect("a header"));
            }
            response
        }
        Reply::Pieces(pieces, end) => {
            let pieces = stream::iter(pieces.into_iter().map(|piece| Ok(Bytes::from(piece))));
            let body = match end {
                End::Whole => Body::from_stream(pieces),
                End::Broken => {
                    let broken = stream::once(async {
                        // Lets the server send its earlier pieces.
                        task::yield_now().await;
                        Err(io::Error::other("broken"))
                    });
                    Body::from_stream(pieces.chain(broken))
                }
                End::Hanging => {
                    let hanging = Hanging::new(endpoint);
                    let hang = stream::once(async move {
                        let _hanging = hanging;
                        future::pending().await
                    });
                    Body::from_stream(pieces.chain(hang))
                }
            };
            ([("content-type", "text/event-stream")], body).into_response()
        }
        Reply::Never => {
            let _hanging = Hanging::new(endpoint);
            future::pending().await
        }
    }
}
