//! Streamed answers.

use axum::http::StatusCode;
use futures::StreamExt;
use memory_core::{Error, ErrorKind};
use memory_model::openai::{OpenAiConfig, OpenAiModel};
use memory_model::{ChatMessage, Completion, Delta, Finish, Model, Prompt, Retries, ToolCall, Usage};
use serde_json::{Value, json};

use crate::endpoint::{End, Endpoint, Reply};

/// The event with this choice.
fn event(delta: Value, finish: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    format!("data: {}\n\n", json!({ "id": "x", "object": "chat.completion.chunk", "choices": [choice] }))
}

/// The event with a piece of text.
fn text(text: &str) -> String {
    event(json!({ "content": text }), None)
}

/// The event with a fragment of a tool call.
fn call(fragment: Value) -> String {
    event(json!({ "tool_calls": [fragment] }), None)
}

/// The event that ends an answer.
fn finish(reason: &str) -> String {
    event(json!({}), Some(reason))
}

const USAGE: &str = r#"data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;
const DONE: &str = "data: [DONE]\n\n";

/// The texts of a stream, and how it ends.
async fn streamed(replies: impl IntoIterator<Item = Reply>) -> (Vec<String>, Result<Completion, Error>) {
    let (endpoint, url) = Endpoint::start(replies).await;
    let mut config = OpenAiConfig::new(url, "small");
    config.retries = Retries { pause_ms: 0, ..Retries::default() };
    let model = OpenAiModel::new(config).expect("a model");
    let prompt = Prompt { messages: vec![ChatMessage::user("Hello?")], ..Prompt::default() };
    let mut items = model.stream(&prompt);
    let mut texts = Vec::new();
    let end = loop {
        match items.next().await.expect("a stream has an end") {
            Ok(Delta::Text(text)) => texts.push(text),
            Ok(Delta::Done(completion)) => break Ok(completion),
            Err(error) => break Err(error),
        }
    };
    assert!(items.next().await.is_none(), "the end is the end");
    let (_, body) = endpoint.requests().remove(0);
    assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({ "include_usage": true })));
    if let Ok(completion) = &end {
        assert_eq!(completion.text, texts.concat());
    }
    (texts, end)
}

fn whole(pieces: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Reply {
    Reply::Pieces(pieces.into_iter().map(Into::into).collect(), End::Whole)
}

#[tokio::test]
async fn texts_come_in_pieces_and_the_usage_at_the_end() {
    let events = [text("Hé"), text(""), text("llo 🍵"), finish("stop"), format!("{USAGE}\n\n"), DONE.to_owned()];
    let (texts, end) = streamed([whole(events)]).await;
    assert_eq!(texts, ["Hé", "llo 🍵"]);
    let usage = Usage { input_tokens: 7, output_tokens: 3 };
    assert_eq!(end.expect("an answer"), Completion { usage, ..Completion::from("Héllo 🍵") });
}

#[tokio::test]
async fn events_may_be_split_anywhere_and_written_in_any_way() {
    let events =
        [": hello\n\n".to_owned(), text("Hé"), text("llo 🍵"), "event: x\nid: 7\n".to_owned(), finish("length")];
    let events = (events.concat() + USAGE).replace('\n', "\r\n");
    let pieces: Vec<_> = events.as_bytes().chunks(1).map(<[u8]>::to_vec).collect();
    // No [DONE], and no line after the usage.
    let (texts, end) = streamed([whole(pieces)]).await;
    assert_eq!(texts, ["Hé", "llo 🍵"]);
    let end = end.expect("an answer");
    assert_eq!((end.finish, end.usage.output_tokens), (Finish::Length, 3));
    // Nothing is missed either if the connection breaks after the end.
    let pieces = [text("Hello"), finish("content_filter")].map(String::into_bytes).to_vec();
    let (_, end) = streamed([Reply::Pieces(pieces, End::Broken)]).await;
    assert_eq!(end.expect("an answer").finish, Finish::Filtered);
    // Nor if the endpoint gives no reason.
    let (_, end) = streamed([whole([text("Hello"), DONE.to_owned()])]).await;
    assert_eq!(end.expect("an answer"), "Hello".into());
}

#[tokio::test]
async fn tool_calls_are_put_together_by_their_indexes() {
    let fragments = [
        call(json!({ "index": 0, "id": "a", "type": "function", "function": { "name": "weather", "arguments": "" } })),
        call(json!({ "index": 0, "function": { "arguments": "{\"place\":" } })),
        call(json!({ "index": 1, "id": "b", "function": { "name": "time", "arguments": "{" } })),
        call(json!({ "index": 0, "function": { "arguments": "\"Lima\"}" } })),
        call(json!({ "index": 1, "id": "b", "function": { "name": "time", "arguments": "}" } })),
        finish("tool_calls"),
        DONE.to_owned(),
    ];
    let (texts, end) = streamed([whole(fragments)]).await;
    assert!(texts.is_empty());
    let end = end.expect("an answer");
    let calls = [("a", "weather", r#"{"place":"Lima"}"#), ("b", "time", "{}")];
    let calls = calls.map(|(id, name, arguments)| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    });
    assert_eq!((end.tool_calls, end.finish), (calls.to_vec(), Finish::ToolCalls));
}

#[tokio::test]
async fn tool_calls_are_told_apart_by_their_ids() {
    // Some endpoints send each call whole: one index for all calls or none, and ids that are missing or equal.
    let one = |name: &str| json!({ "name": name, "arguments": "{}" });
    let fragments = [
        call(json!({ "index": 0, "id": "a", "function": one("w") })),
        call(json!({ "index": 0, "id": "b", "function": { "name": "x", "arguments": { "n": 1 } } })),
        call(json!({ "id": "c", "function": one("y") })),
        call(json!({ "index": 9, "id": "a", "function": one("z") })),
        call(json!({ "index": 10, "function": { "name": "v" } })),
        finish("stop"),
    ];
    let (_, end) = streamed([whole(fragments)]).await;
    let end = end.expect("an answer");
    let calls: Vec<_> = end.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("w", "{}"), ("x", r#"{"n":1}"#), ("y", "{}"), ("z", "{}"), ("v", "{}")]);
    let mut ids: Vec<_> = end.tool_calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids[..3], ["a", "b", "c"]);
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() == 5 && !ids[0].is_empty(), "each has its own: {ids:?}");
    assert_eq!(end.finish, Finish::ToolCalls, "whatever the endpoint says");
}

#[tokio::test]
async fn what_ends_in_the_middle_is_an_error() {
    for end in [End::Whole, End::Broken] {
        let pieces = [text("Hel"), text("lo")[..20].to_owned()].map(String::into_bytes).to_vec();
        let again = whole([text("never asked"), DONE.to_owned()]);
        let (texts, end) = streamed([Reply::Pieces(pieces, end), again]).await;
        assert_eq!(texts, ["Hel"], "what was streamed is not taken back");
        let error = end.expect_err("cut");
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
    }
    let (texts, end) = streamed([whole([text("Hel"), "data: {\"error\":{\"message\":\"xyzzy\"}}\n\n".into()])]).await;
    assert_eq!(texts, ["Hel"]);
    let error = end.expect_err("an error");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
    assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
}

#[tokio::test]
async fn what_breaks_before_the_first_text_is_asked_for_again() {
    let cut = Reply::Pieces(vec![call(json!({ "index": 0, "id": "a" })).into_bytes()], End::Broken);
    let busy = "data: {\"choices\":null,\"error\":{\"code\":503}}\n\n".to_owned();
    let refused = "data: {\"error\":{\"code\":401}}\n\n".to_owned();
    let good = [text("Hello"), finish("stop")];
    let (texts, end) = streamed([cut, whole([busy]), whole(good.clone())]).await;
    assert_eq!((texts, end.expect("the third")), (vec!["Hello".to_owned()], "Hello".into()));
    let (_, end) = streamed([whole([refused]), whole(good)]).await;
    assert_eq!(end.expect_err("refused").kind(), ErrorKind::Unauthorized);
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_answers_at_once() {
    let message = json!({ "role": "assistant", "content": "Hello" });
    let body = json!({ "choices": [{ "message": message }], "usage": { "prompt_tokens": 1 } });
    let body = format!("\n {body:#}\n");
    let (texts, end) = streamed([(StatusCode::OK, body.clone()).into()]).await;
    let usage = Usage { input_tokens: 1, output_tokens: 0 };
    assert_eq!((texts.len(), end.expect("an answer")), (1, Completion { usage, ..Completion::from("Hello") }));
    let pieces: Vec<_> = body.as_bytes().chunks(1).map(<[u8]>::to_vec).collect();
    let (texts, _) = streamed([whole(pieces)]).await;
    assert_eq!(texts, ["Hello"]);
    let (_, end) = streamed([(StatusCode::OK, "<html>xyzzy</html>".to_owned()).into()]).await;
    let error = end.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Unexpected);
    assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_refused() {
    let mib = "x".repeat(1 << 20);
    // Texts, one line, and arguments.
    let texts: Vec<_> = (0..17).map(|_| text(&mib)).collect();
    let line: Vec<_> = (0..65).map(|_| format!("data: {mib}")).map(|piece| piece.replace('\n', "")).collect();
    let arguments: Vec<_> =
        (0..2).map(|_| call(json!({ "index": 0, "id": "a", "function": { "arguments": mib } }))).collect();
    let calls: Vec<_> = (0..129).map(|index| call(json!({ "index": index, "id": index.to_string() }))).collect();
    for (pieces, message) in [
        (texts, "the endpoint's answer is too large"),
        (line, "the endpoint's answer is too large"),
        (arguments, "a tool call in the endpoint's answer is too large"),
        (calls, "the endpoint's answer has too many tool calls"),
    ] {
        let pieces = pieces.into_iter().map(String::into_bytes).collect();
        let (_, end) = streamed([Reply::Pieces(pieces, End::Hanging)]).await;
        let error = end.expect_err("refused");
        assert_eq!((error.kind(), error.message()), (ErrorKind::Unexpected, message));
    }
}

#[tokio::test]
async fn a_stream_that_stops_to_come_is_left_at_the_deadline() {
    // A machine that is busy may need several attempts for the text.
    let hanging = || Reply::Pieces(vec![text("Hel").into_bytes()], End::Hanging);
    let (endpoint, url) = Endpoint::start((0..4).map(|_| hanging())).await;
    let mut config = OpenAiConfig::new(url, "small");
    config.deadline_ms = 500;
    let model = OpenAiModel::new(config).expect("a model");
    let prompt = Prompt::default();
    let mut items = model.stream(&prompt);
    assert_eq!(items.next().await.expect("a piece").expect("a text"), Delta::Text("Hel".into()));
    let error = items.next().await.expect("an end").expect_err("late");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Timeout, true));
    assert!(items.next().await.is_none());
    endpoint.given_up().await.forget();
}

#[tokio::test]
async fn a_stream_that_is_dropped_ends_the_request() {
    let (endpoint, url) = Endpoint::start([Reply::Pieces(vec![text("Hel").into_bytes()], End::Hanging)]).await;
    let model = OpenAiModel::new(OpenAiConfig::new(url, "small")).expect("a model");
    let prompt = Prompt::default();
    let mut items = model.stream(&prompt);
    assert_eq!(items.next().await.expect("a piece").expect("a text"), Delta::Text("Hel".into()));
    drop(items);
    endpoint.given_up().await.forget();
}
