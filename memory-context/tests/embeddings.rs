//! The embedder behind an endpoint, against a local HTTP server, and facts that are found by what it answers.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use memory_context::embedding::{Embedder, OpenAiEmbedder};
use memory_context::records::{AgentId, EntityId, FactQuery, NewFact, Records, RoomId, Scope};
use memory_core::{ErrorKind, InMemory, MemoryProvider, Timestamp};
use memory_runtime::openai::OpenAiConfig;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What was asked: the key, and the body.
type Request = (Option<String>, Value);

/// An endpoint that answers from a list, and remembers what it was asked.
#[derive(Debug, Clone, Default)]
struct Endpoint {
    answers: Arc<Mutex<Vec<(StatusCode, Value)>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Endpoint {
    /// Starts it, and tells its URL.
    async fn start(answers: impl IntoIterator<Item = (StatusCode, Value)>) -> (Self, String) {
        let endpoint = Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() };
        let routes = Router::new().route("/v1/embeddings", post(answer)).with_state(endpoint.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (endpoint, url)
    }
}

async fn answer(State(endpoint): State<Endpoint>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let key = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    endpoint.requests.lock().expect("no panic").push((key, serde_json::from_slice(&body).expect("JSON")));
    let (status, body) = endpoint.answers.lock().expect("no panic").remove(0);
    (status, body.to_string())
}

/// An answer with these vectors, each under its place.
fn vectors(of: &[(usize, &[f32])]) -> (StatusCode, Value) {
    let one = |(index, embedding): &(usize, &[f32])| json!({ "index": index, "embedding": embedding });
    (StatusCode::OK, json!({ "object": "list", "data": of.iter().map(one).collect::<Vec<_>>(), "model": "e" }))
}

fn embedder(url: &str) -> OpenAiEmbedder {
    OpenAiEmbedder::new(OpenAiConfig::new(url, "e"), 2).expect("an embedder")
}

#[tokio::test]
async fn vectors_are_asked_for_and_put_in_order() {
    let (endpoint, url) = Endpoint::start([vectors(&[(1, &[0.0, 1.0]), (0, &[0.5, -1e-7])])]).await;
    let mut config = OpenAiConfig::new(format!("{url}/"), "e");
    config.key = Some("xyzzy".into());
    let embedder = OpenAiEmbedder::new(config, 2).expect("an embedder");
    let made = embedder.embed(&["tea".into(), "cat".into()]).await.expect("two vectors");
    assert_eq!(made, [[0.5, -1e-7], [0.0, 1.0]]);
    assert_eq!((embedder.model(), embedder.width()), ("e", 2));
    let (key, body) = endpoint.requests.lock().expect("no panic").remove(0);
    assert_eq!(key.as_deref(), Some("Bearer xyzzy"));
    assert_eq!(body, json!({ "model": "e", "input": ["tea", "cat"], "encoding_format": "float" }));
    assert!(!format!("{embedder:?}").contains("xyzzy") && !format!("{embedder:?}").contains(&url));
}

#[tokio::test]
async fn an_answer_that_is_not_one_vector_for_each_text_is_refused() {
    let short: &[f32] = &[0.0, 1.0];
    let answers = [
        vectors(&[]),
        vectors(&[(0, short)]),
        vectors(&[(0, short), (0, short)]),
        vectors(&[(0, short), (2, short)]),
        vectors(&[(0, short), (1, short), (2, short)]),
        (StatusCode::OK, json!({ "data": [{ "index": 0, "embedding": "AACAPw==" }] })),
        (StatusCode::OK, json!("xyzzy")),
    ];
    let count = answers.len();
    let (_, url) = Endpoint::start(answers).await;
    for _ in 0..count {
        let error = embedder(&url).embed(&["xyzzy".into(), "cat".into()]).await.expect_err("no vectors");
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    }
    assert_eq!(
        OpenAiEmbedder::new(OpenAiConfig::new("localhost", "e"), 2).expect_err("no URL").kind(),
        ErrorKind::InvalidInput
    );
}

#[tokio::test]
async fn facts_are_found_by_what_the_endpoint_answers() {
    let (_, url) = Endpoint::start([
        vectors(&[(0, &[1.0, 0.0])]),
        vectors(&[(0, &[0.9, 0.1])]),
        (StatusCode::TOO_MANY_REQUESTS, Value::Null),
        vectors(&[(0, &[1.0, 0.0, 0.0])]),
    ])
    .await;
    let provider = Arc::new(InMemory::new());
    provider.init().await.expect("a provider");
    let records = Records::new(provider, AgentId::parse("a").expect("valid")).with_embedder(Arc::new(embedder(&url)));
    let (room, ana) = (RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
    let fact = NewFact::new(room.clone(), ana.clone(), ana.clone(), "Ana likes tea", Timestamp::MIN);
    records.facts().remember(fact).await.expect("a fact");
    assert_eq!(records.facts().embed_pending(10).await.expect("a vector"), 1);
    let scope = Scope::new(room, ana);
    // The vector of a question is kept, so each is another one.
    let query = |text| FactQuery::new(text).threshold(0.9);
    let found = records.facts().recall(&scope, &query("beverages")).await.expect("an answer");
    assert_eq!(found.facts.len(), 1);
    let error = records.facts().recall(&scope, &query("drinks")).await.expect_err("too many requests");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
    let error = records.facts().recall(&scope, &query("cups")).await.expect_err("another width");
    assert_eq!(error.kind(), ErrorKind::Unexpected);
}
