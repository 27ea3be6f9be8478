//! The endpoints of an agent, and what each is sent.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use memory_context::agent::AgentBuilder;
use memory_context::records::{ChannelType, Room, RoomId};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::model::{Model, Question, within};
use crate::stage::{Stage, answer};

/// An endpoint of embeddings, which tells the keys that it is sent.
struct Embeddings {
    url: String,
    keys: mpsc::UnboundedReceiver<Option<String>>,
}

impl Embeddings {
    async fn start() -> Self {
        let (sender, keys) = mpsc::unbounded_channel();
        let routes = Router::new().route("/v1/embeddings", post(embed)).with_state(sender);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, keys }
    }
}

async fn embed(
    State(keys): State<mpsc::UnboundedSender<Option<String>>>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Json<Value> {
    let key = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    // A test that is over listens no more.
    let _ = keys.send(key);
    let count = body["input"].as_array().expect("texts").len();
    let data: Vec<_> = (0..count).map(|index| json!({ "index": index, "embedding": [1.0, 0.0] })).collect();
    Json(json!({ "data": data }))
}

#[tokio::test]
async fn each_endpoint_gets_its_own_key_and_no_other() {
    type Keys = fn(AgentBuilder) -> AgentBuilder;
    let all: Keys = |builder| builder.model_key("large").small_model_key("small").embedding_key("vectors");
    let one: Keys = |builder| builder.model_key("large");
    for (keys, large_key, small_key, embedding_key) in [
        (all, Some("Bearer large"), Some("Bearer small"), Some("Bearer vectors")),
        (one, Some("Bearer large"), None, None),
    ] {
        let (mut small, mut embeddings) = (Model::start().await, Embeddings::start().await);
        let mut stage = Stage::with(|builder| {
            let builder = builder.small_model(&small.url, "tiny").embedding_model(&embeddings.url, "vectors", 2);
            keys(builder)
        })
        .await;
        let room = stage.agent.room(Room::new(RoomId::parse("group").expect("valid"), ChannelType::Group));
        let told = tokio::spawn(async move { room.tell("ana", "Who comes?").await });
        let asked = small.asked_to(Question::Respond).await;
        assert_eq!(asked.authorization.as_deref(), small_key);
        asked.decides("RESPOND");
        let asked = stage.model.asked_to(Question::Answer).await;
        assert_eq!(asked.authorization.as_deref(), large_key);
        assert_eq!(within(embeddings.keys.recv()).await.expect("asked").as_deref(), embedding_key);
        asked.says("I do");
        assert_eq!(answer(told).await.text, "I do");
        stage.ends().await;
    }
}
