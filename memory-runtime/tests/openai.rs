//! The model behind an endpoint, against a local HTTP server, and a runtime that plans by it.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use memory_core::{ErrorKind, InMemory, Status};
use memory_runtime::model::{Message, Model, Prompt, structured};
use memory_runtime::openai::{OpenAiConfig, OpenAiModel, SchemaHint};
use memory_runtime::{ContextKind, Runtime, Schema};
use serde_json::{Value, json};
use tokio::net::TcpListener;

mod common;
use common::{Log, TestPlugin, task};

/// What was asked: the key, and the body.
type Request = (Option<String>, Value);

/// An endpoint that answers from a list, and remembers what it was asked.
#[derive(Debug, Clone, Default)]
struct Endpoint {
    answers: Arc<Mutex<Vec<(StatusCode, String)>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Endpoint {
    /// Starts it, and tells its URL.
    async fn start(answers: impl IntoIterator<Item = (StatusCode, String)>) -> (Self, String) {
        let endpoint = Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() };
        let routes = Router::new().route("/v1/chat/completions", post(answer)).with_state(endpoint.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (endpoint, url)
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }
}

async fn answer(State(endpoint): State<Endpoint>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let key = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    endpoint.requests.lock().expect("no panic").push((key, serde_json::from_slice(&body).expect("JSON")));
    endpoint.answers.lock().expect("no panic").remove(0)
}

/// The answer of an endpoint that says this.
fn says(content: impl ToString) -> (StatusCode, String) {
    let message = json!({ "role": "assistant", "content": content.to_string() });
    (StatusCode::OK, json!({ "id": "x", "choices": [{ "index": 0, "message": message }] }).to_string())
}

fn prompt() -> Prompt {
    Prompt { messages: vec![Message::user("Hello?")], schema: None }
}

#[tokio::test]
async fn a_text_is_asked_for_and_read() {
    let (endpoint, url) = Endpoint::start([says("Hello!"), says("Again!")]).await;
    let mut config = OpenAiConfig::new(format!("{url}/"), "small");
    let model = OpenAiModel::new(config.clone()).expect("a model");
    assert_eq!(model.complete(&prompt()).await.expect("an answer"), "Hello!");
    config.key = Some("xyzzy".into());
    let model = OpenAiModel::new(config).expect("a model");
    assert_eq!(model.complete(&prompt()).await.expect("an answer"), "Again!");
    let [(none, body), (key, _)] = &endpoint.requests()[..] else { panic!("two requests") };
    assert_eq!((none.as_deref(), key.as_deref()), (None, Some("Bearer xyzzy")));
    assert_eq!(*body, json!({ "model": "small", "messages": [{ "role": "user", "content": "Hello?" }] }));
    assert!(!format!("{model:?}").contains("xyzzy"));
}

#[tokio::test]
async fn a_schema_is_sent_and_a_mistake_repaired() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let schema = Arc::new(Schema::new("number", schema).expect("a schema"));
    for hint in [SchemaHint::JsonSchema, SchemaHint::Prompt] {
        let (endpoint, url) = Endpoint::start([says(r#"{"n":"x"}"#), says(r#"{"n":2}"#)]).await;
        let mut config = OpenAiConfig::new(url, "small");
        config.schema_hint = hint;
        let model = OpenAiModel::new(config).expect("a model");
        let answer: Value =
            structured(&model, prompt().messages, &schema, |_| Ok(())).await.expect("the second is valid");
        assert_eq!(answer, json!({ "n": 2 }));
        let [(_, first), (_, second)] = &endpoint.requests()[..] else { panic!("two requests") };
        let format = match hint {
            SchemaHint::JsonSchema => &json!({
                "type": "json_schema",
                "json_schema": { "name": "number", "schema": schema.as_value(), "strict": false }
            }),
            SchemaHint::Prompt => &Value::Null,
        };
        assert_eq!(&first["response_format"], format);
        let messages = second["messages"].as_array().expect("messages");
        assert_eq!(messages[messages.len() - 2], json!({ "role": "assistant", "content": r#"{"n":"x"}"# }));
        let mistake = messages[messages.len() - 1]["content"].as_str().expect("text");
        assert!(mistake.contains(r#"/n: value is not of type "integer""#), "{mistake}");
    }
}

#[tokio::test]
async fn failures_have_their_kinds_and_tell_no_secret() {
    let answers = [
        (StatusCode::UNAUTHORIZED, ErrorKind::Unauthorized, false),
        (StatusCode::TOO_MANY_REQUESTS, ErrorKind::Unavailable, true),
        (StatusCode::BAD_GATEWAY, ErrorKind::Unavailable, true),
        (StatusCode::PAYLOAD_TOO_LARGE, ErrorKind::TooLarge, false),
        (StatusCode::NOT_FOUND, ErrorKind::Unexpected, false),
        (StatusCode::OK, ErrorKind::Unexpected, false),
    ];
    let (_, url) = Endpoint::start(answers.map(|(status, ..)| (status, r#"{"error":"xyzzy"}"#.to_owned()))).await;
    let mut config = OpenAiConfig::new(url.replace("http://", "http://xyzzy:xyzzy@"), "small");
    config.key = Some("xyzzy".into());
    let model = OpenAiModel::new(config.clone()).expect("a model");
    for (status, kind, is_retryable) in answers {
        let error = model.complete(&prompt()).await.expect_err("a failure");
        assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{status}");
        assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    }
    // Nobody listens on port 1.
    config.url = "http://xyzzy:xyzzy@127.0.0.1:1/v1".into();
    let error = OpenAiModel::new(config.clone()).expect("a model").complete(&prompt()).await.expect_err("nobody");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
    assert!(!format!("{error:?}{config:?}").contains("xyzzy"), "{error:?}");
    for url in ["", "localhost/v1", "ftp://localhost"] {
        config.url = url.into();
        assert_eq!(OpenAiModel::new(config.clone()).expect_err(url).kind(), ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn an_endpoint_that_hangs_is_left_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut config = OpenAiConfig::new(format!("http://{}/v1", listener.local_addr().expect("an address")), "small");
    config.deadline_ms = 50;
    let error = OpenAiModel::new(config).expect("a model").complete(&prompt()).await.expect_err("no answer");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Timeout, true));
}

#[tokio::test]
async fn a_model_plans_and_changes_its_plan() {
    let say = |text: &str| json!({ "pluginId": "test", "action": "say", "arguments": { "text": text } });
    let fail = json!({ "pluginId": "test", "action": "fail", "arguments": {} });
    let unknown = json!({ "pluginId": "test", "action": "sing", "arguments": {} });
    let (endpoint, url) = Endpoint::start([
        says(json!({ "steps": [unknown] })),
        says(json!({ "steps": [fail, say("never")] })),
        says(json!({ "shouldModify": true, "explanation": "it failed", "steps": [say("instead"), say("last")] })),
        says(json!({ "shouldModify": false })),
        says(json!({ "shouldModify": false })),
    ])
    .await;
    let log = Log::new();
    let plugin = TestPlugin::new("test", &log).saying();
    let plugin = plugin.on("fail", |_| async { Err(memory_core::Error::invalid("the door is locked")) });
    let model = OpenAiModel::new(OpenAiConfig::new(url, "small")).expect("a model");
    let runtime = Runtime::builder().memory(Arc::new(InMemory::new())).plugin(plugin.build()).model(Arc::new(model));
    let runtime = runtime.build().await.expect("starts");
    let finished = runtime.submit(task("chat", "chat-1", 1)).await.expect("submitted").wait().await.expect("ended");
    assert_eq!(finished.status, Status::Completed);
    assert_eq!(log.plugins(), ["test init", "instead", "last"]);
    let kinds: Vec<_> = finished.chain.iter().map(|item| item.kind).collect();
    use ContextKind::{Error, Plan, Related, Result};
    assert_eq!(kinds, [Related, Plan, Error, Plan, Result, Result]);
    let last = |request: &Request| {
        let messages = request.1["messages"].as_array().expect("messages");
        messages.iter().map(|message| message["content"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    let requests = endpoint.requests();
    assert!(last(&requests[0])[0].contains(r#""action":"memory:query""#), "the model learns of the actions");
    assert!(last(&requests[0])[1].contains(r#""event":{"text":"chat-1"}"#), "and of the event");
    let repair = last(&requests[1]).pop().expect("messages");
    assert!(repair.contains("/steps/0: no such action"), "{repair}");
    assert!(last(&requests[2])[1].contains("the door is locked"), "the model learns of the failure");
    runtime.shutdown().await.expect("ends");
}
