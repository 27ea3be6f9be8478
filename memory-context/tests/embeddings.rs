//! Facts that are found by the vectors of an endpoint, which is a local HTTP server.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use memory_context::embedding::{OpenAiConfig, OpenAiEmbedder};
use memory_context::records::{AgentId, Audience, EntityId, FactQuery, NewFact, Records, RoomId};
use memory_core::{InMemory, MemoryProvider, Timestamp};
use memory_model::Retries;
use serde_json::{Value, json};
use tokio::net::TcpListener;

type Answers = Arc<Mutex<Vec<(StatusCode, Value)>>>;

/// The URL of an endpoint that answers from a list.
async fn started(answers: impl IntoIterator<Item = (StatusCode, Value)>) -> String {
    let answers: Answers = Arc::new(Mutex::new(answers.into_iter().collect()));
    let routes = Router::new().route("/v1/embeddings", post(answer)).with_state(answers);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}

async fn answer(State(answers): State<Answers>) -> (StatusCode, String) {
    let (status, body) = answers.lock().expect("no panic").remove(0);
    (status, body.to_string())
}

/// An answer with one vector.
fn vector(numbers: &[f32]) -> (StatusCode, Value) {
    let data = json!([{ "index": 0, "embedding": numbers }]);
    (StatusCode::OK, json!({ "object": "list", "data": data, "model": "e" }))
}

#[tokio::test]
async fn facts_are_found_by_what_the_endpoint_answers() {
    let url = started([
        vector(&[1.0, 0.0]),
        vector(&[0.9, 0.1]),
        (StatusCode::TOO_MANY_REQUESTS, Value::Null),
        vector(&[1.0, 0.0, 0.0]),
    ])
    .await;
    let mut config = OpenAiConfig::new(url, "e");
    config.retries = Retries::NONE;
    let embedder = OpenAiEmbedder::new(config, 2).expect("an embedder");
    let provider = Arc::new(InMemory::new());
    provider.init().await.expect("a provider");
    let records = Records::new(provider, AgentId::parse("a").expect("valid")).with_embedder(Arc::new(embedder));
    let (room, ana) = (RoomId::parse("r").expect("valid"), EntityId::parse("ana").expect("valid"));
    let fact = NewFact::new(room.clone(), ana.clone(), ana.clone(), "Ana likes tea", Timestamp::MIN);
    records.facts().remember(fact).await.expect("a fact");
    assert_eq!(records.upkeep().await.expect("a vector"), 1);
    let audience = Audience::new(room, ana);
    // The vector of a question is kept, so each is another one.
    let query = |text| FactQuery::new(text).threshold(0.9);
    let found = records.facts().recall(&audience, &query("beverages")).await.expect("an answer");
    assert_eq!((found.facts.len(), found.unembedded), (1, 0));
    for (text, count) in [("drinks", 0), ("tea", 1)] {
        let found = records.facts().recall(&audience, &query(text)).await.expect("by words alone");
        assert_eq!((found.facts.len(), found.unembedded), (count, 1), "too many requests, and another width");
    }
}
