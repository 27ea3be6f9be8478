//! The endpoints of an agent, and the requests to each.

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use memory_context::Result;
use memory_context::agent::{Agent, AgentBuilder, Answer, Incoming};
use memory_context::core::{Clock, SystemClock};
use memory_context::flow::platform::Origin;
use memory_context::model::Modalities;
use memory_context::records::{Attachment, Audience, ChannelType, Entity, EntityId, NewMessage, Room, RoomId};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::model::{Model, Question, within};
use crate::stage::{Stage, answer};

const IMAGES: Modalities = Modalities { images: true, documents: false };
const EVERYTHING: Modalities = Modalities { images: true, documents: true };

/// An endpoint of embeddings, which reports the keys that it receives.
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
    // The test may have ended.
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

const IMAGE: &str = "data:image/png;base64,iVBORw0KGgo=";
const NOTES: &str = "data:text/plain;base64,YnV5IG1pbGs=";
const LINK: &str = "https://host.example/roof.jpg";

/// Ana sends two images, a document and a sound.
fn shows(agent: &Agent) -> JoinHandle<Result<Answer>> {
    let room = Room::new(RoomId::parse("dm:ana").expect("valid"), ChannelType::Dm);
    let author = Entity::new(EntityId::parse("ana").expect("valid"), "Ana");
    let origin = Origin { world: None, room, author };
    let mut message = NewMessage::new(origin.message("Look"), SystemClock.now());
    for (id, url, content_type) in [
        ("cat", IMAGE, "image/png"),
        ("notes", NOTES, "text/plain"),
        ("roof", LINK, "image/jpeg"),
        ("song", "https://host/song.ogg", "audio/ogg"),
    ] {
        let (id, url) = (id.to_owned(), url.to_owned());
        let attachment = Attachment { id, url, content_type: Some(content_type.to_owned()), ..Attachment::default() };
        message.content.attachments.push(attachment);
    }
    let agent = agent.clone();
    tokio::spawn(async move { agent.receive(origin, Incoming { message, is_addressed: false }).await })
}

/// The parts of a request's last message after its text; empty if it is only text.
fn parts(body: &Value) -> Vec<Value> {
    let message = body["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
    message["content"].as_array().into_iter().flatten().skip(1).cloned().collect()
}

fn image(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

/// Describes the images of the next requests.
async fn describes(model: &mut Model, descriptions: usize) {
    for _ in 0..descriptions {
        let asked = model.asked().await;
        assert!(asked.prompt.starts_with("Describe this image"), "{}", asked.prompt);
        let [shown] = &parts(&asked.body)[..] else { panic!("one image") };
        let text = if *shown == image(IMAGE) { "A cat" } else { "A roof" };
        asked.writes(text);
    }
}

async fn descriptions(agent: &Agent) -> Vec<String> {
    let audience = Audience::new(RoomId::parse("dm:ana").expect("valid"), EntityId::parse("ana").expect("valid"));
    let messages = agent.records().messages().recent(&audience, 100).await.expect("read");
    let attachments = messages.last().expect("the first message").content.attachments.iter();
    attachments.map(|one| one.description.clone().or_else(|| one.text.clone()).unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_model_that_takes_them_is_shown_what_came_with_a_message() {
    let mut stage = Stage::with(|builder| builder.model_modalities(EVERYTHING)).await;
    let question = shows(&stage.agent);
    describes(&mut stage.model, 2).await;
    let asked = stage.model.asked().await;
    let document = json!({ "type": "file", "file": { "filename": "notes", "file_data": NOTES } });
    assert_eq!(parts(&asked.body), [image(IMAGE), document, image(LINK)]);
    assert!(asked.prompt.contains("A cat") && asked.prompt.contains("A roof") && !asked.prompt.contains("iVBOR"));
    asked.says("Nice");
    assert_eq!(answer(question).await.text, "Nice");
    assert_eq!(descriptions(&stage.agent).await, ["A cat", "buy milk", "A roof", ""]);

    // From then on only words are left of them.
    let question = stage.asks("ana", "What did I show you?");
    let asked = stage.model.asked().await;
    assert!(parts(&asked.body).is_empty() && asked.prompt.contains("A cat"), "{}", asked.prompt);
    asked.says("A cat");
    assert_eq!(answer(question).await.text, "A cat");
    stage.ends().await;
}

#[tokio::test]
async fn a_model_that_takes_none_is_told_in_words() {
    let mut small = Model::start().await;
    let mut stage = Stage::with(|builder| builder.small_model(&small.url, "tiny").small_model_modalities(IMAGES)).await;
    let question = shows(&stage.agent);
    describes(&mut small, 2).await;
    let asked = stage.model.asked().await;
    assert!(parts(&asked.body).is_empty() && asked.prompt.contains("A cat"), "{}", asked.prompt);
    assert!(!asked.prompt.contains("iVBOR"), "{}", asked.prompt);
    asked.says("Nice");
    assert_eq!(answer(question).await.text, "Nice");
    stage.ends().await;

    // If no model sees images, the conversation says that they came.
    let mut stage = Stage::with(|builder| builder).await;
    let question = shows(&stage.agent);
    let asked = stage.model.asked().await;
    assert!(parts(&asked.body).is_empty() && asked.prompt.contains("[cat] data:image/png (34 bytes)"));
    asked.says("What is it?");
    answer(question).await;
    assert_eq!(descriptions(&stage.agent).await, ["", "buy milk", "", ""]);
    stage.ends().await;
}

#[tokio::test]
async fn what_the_model_refuses_to_be_shown_loses_no_answer() {
    let mut stage = Stage::with(|builder| builder.model_modalities(IMAGES)).await;
    let question = shows(&stage.agent);
    for _ in 0..2 {
        let asked = stage.model.asked().await;
        assert!(asked.prompt.starts_with("Describe this image"));
        asked.fails(StatusCode::BAD_REQUEST);
    }
    let asked = stage.model.asked().await;
    assert_eq!(parts(&asked.body), [image(IMAGE), image(LINK)]);
    asked.fails(StatusCode::BAD_REQUEST);
    let asked = stage.model.asked().await;
    assert!(parts(&asked.body).is_empty() && asked.prompt.contains("[cat]"), "{}", asked.prompt);
    asked.says("I can't see it");
    assert_eq!(answer(question).await.text, "I can't see it");
    stage.ends().await;
}
