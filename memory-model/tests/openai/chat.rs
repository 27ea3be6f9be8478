//! Chat completions.

use std::sync::Arc;

use axum::http::StatusCode;
use memory_core::ErrorKind;
use memory_model::openai::{OpenAiConfig, OpenAiModel, SchemaHint};
use memory_model::{ChatMessage, Model, Prompt, Retries, Schema, structured};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::endpoint::Endpoint;

/// The answer of an endpoint with this content.
fn says(content: impl ToString) -> (StatusCode, String) {
    let message = json!({ "role": "assistant", "content": content.to_string() });
    (StatusCode::OK, json!({ "id": "x", "choices": [{ "index": 0, "message": message }] }).to_string())
}

fn prompt() -> Prompt {
    Prompt { messages: vec![ChatMessage::user("Hello?")], ..Prompt::default() }
}

#[tokio::test]
async fn a_text_is_asked_for_and_read() {
    let (endpoint, url) = Endpoint::start([says("Hello!"), says("Again!")]).await;
    let mut config = OpenAiConfig::new(format!("{url}/"), "small");
    let model = OpenAiModel::new(config.clone()).expect("a model");
    assert_eq!(model.complete(&prompt()).await.expect("an answer"), "Hello!".into());
    config.key = Some("xyzzy".into());
    let model = OpenAiModel::new(config).expect("a model");
    assert_eq!(model.complete(&prompt()).await.expect("an answer"), "Again!".into());
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
        let asked = structured::<Value>(&model, prompt().messages, &schema, |_| Ok(())).await;
        assert_eq!(asked.expect("the second is valid").value, json!({ "n": 2 }));
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
        (StatusCode::OK, ErrorKind::Unavailable, true),
    ];
    let (_, url) = Endpoint::start(answers.map(|(status, ..)| (status, r#"{"error":"xyzzy"}"#.to_owned()))).await;
    let mut config = OpenAiConfig::new(url.replace("http://", "http://xyzzy:xyzzy@"), "small");
    config.key = Some("xyzzy".into());
    config.retries = Retries::NONE;
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
    config.retries = Retries::NONE;
    let error = OpenAiModel::new(config).expect("a model").complete(&prompt()).await.expect_err("no answer");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Timeout, true));
}
