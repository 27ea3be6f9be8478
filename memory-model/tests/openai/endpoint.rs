//! A local HTTP server in place of an endpoint.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;

/// What was asked: the key, and the body.
pub(crate) type Request = (Option<String>, Value);

/// An endpoint that answers from a list, and remembers what it was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Endpoint {
    answers: Arc<Mutex<Vec<(StatusCode, String)>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Endpoint {
    /// Starts it, and tells its URL.
    pub(crate) async fn start(answers: impl IntoIterator<Item = (StatusCode, String)>) -> (Self, String) {
        let endpoint = Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() };
        let routes = Router::new().route("/v1/chat/completions", post(answer)).route("/v1/embeddings", post(answer));
        let routes = routes.with_state(endpoint.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (endpoint, url)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }
}

async fn answer(State(endpoint): State<Endpoint>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let key = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    endpoint.requests.lock().expect("no panic").push((key, serde_json::from_slice(&body).expect("JSON")));
    endpoint.answers.lock().expect("no panic").remove(0)
}
