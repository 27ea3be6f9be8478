//! Tools, attachments, and other parts of an answer beside its text.

use std::sync::Arc;

use axum::http::StatusCode;
use memory_core::ErrorKind;
use memory_model::openai::{OpenAiConfig, OpenAiModel};
use memory_model::{
    ChatMessage, Completion, Finish, Model, Prompt, PromptAttachment, Schema, ToolCall, ToolSpec, Usage,
};
use serde_json::{Value, json};

use crate::endpoint::Endpoint;

/// The completions that a model makes of these answers, and the first request to the endpoint.
async fn completed(prompt: &Prompt, answers: &[Value]) -> (Vec<memory_core::Result<Completion>>, Value) {
    let replies: Vec<_> = answers.iter().map(|answer| (StatusCode::OK, answer.to_string())).collect();
    let (endpoint, url) = Endpoint::start(replies).await;
    let model = OpenAiModel::new(OpenAiConfig::new(url, "small")).expect("a model");
    let mut completions = Vec::new();
    for _ in answers {
        completions.push(model.complete(prompt).await);
    }
    (completions, endpoint.requests().remove(0).1)
}

/// An answer with this message.
fn answer(message: Value, finish: Value) -> Value {
    json!({ "choices": [{ "index": 0, "message": message, "finish_reason": finish }] })
}

fn tool_call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

#[tokio::test]
async fn a_conversation_with_tools_and_attachments_is_written_as_the_endpoint_reads_it() {
    let parameters = json!({ "type": "object", "properties": { "place": { "type": "string" } } });
    let tool = ToolSpec {
        name: "weather".to_owned(),
        description: "Tells the weather.".to_owned(),
        parameters: Arc::new(Schema::new("weather", parameters.clone()).expect("a schema")),
    };
    let messages = vec![
        ChatMessage::system("You are terse."),
        ChatMessage::user("Where is this?")
            .with_attachment(PromptAttachment::image("data:image/png;base64,iVBORw0="))
            .with_attachment(PromptAttachment::document("map.pdf", "data:application/pdf;base64,JVBERi0=")),
        ChatMessage::user("").with_attachment(PromptAttachment::image("https://example.org/lima.jpg")),
        ChatMessage::assistant("").with_tool_calls(vec![tool_call("a", "weather", r#"{"place":"Lima"}"#)]),
        ChatMessage::tool("a", "It rains."),
        ChatMessage::assistant("In Lima.").with_tool_calls(vec![tool_call("b", "weather", "{}")]),
    ];
    let prompt = Prompt { messages, tools: vec![tool], schema: None };
    let (_, body) = completed(&prompt, &[answer(json!({ "content": "Rain" }), json!("stop"))]).await;
    let called = |id: &str, arguments: &str| json!([{ "id": id, "type": "function", "function": { "name": "weather", "arguments": arguments } }]);
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    let function = json!({ "name": "weather", "description": "Tells the weather.", "parameters": parameters });
    let expected = json!({
        "model": "small",
        "messages": [
            { "role": "system", "content": "You are terse." },
            { "role": "user", "content": [
                { "type": "text", "text": "Where is this?" },
                image("data:image/png;base64,iVBORw0="),
                { "type": "file", "file": { "filename": "map.pdf", "file_data": "data:application/pdf;base64,JVBERi0=" } }
            ] },
            { "role": "user", "content": [image("https://example.org/lima.jpg")] },
            { "role": "assistant", "content": null, "tool_calls": called("a", r#"{"place":"Lima"}"#) },
            { "role": "tool", "content": "It rains.", "tool_call_id": "a" },
            { "role": "assistant", "content": "In Lima.", "tool_calls": called("b", "{}") }
        ],
        "tools": [{ "type": "function", "function": function }]
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn tool_calls_and_usage_are_read() {
    let call = |id: &str, arguments: Value| json!({ "id": id, "type": "function", "function": { "name": "w", "arguments": arguments } });
    let calls = json!([call("a", json!("{\"n\": 1}")), call("b", json!("")), call("c", json!({ "n": 1 }))]);
    let mut called = answer(json!({ "content": null, "tool_calls": calls }), json!("tool_calls"));
    called["usage"] = json!({ "prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17 });
    let both = answer(json!({ "content": "Let me see", "tool_calls": [call("a", json!("{"))] }), Value::Null);
    let (completions, body) = completed(&Prompt::default(), &[called, both]).await;
    assert_eq!(body, json!({ "model": "small", "messages": [] }), "no tools are offered");
    let [called, both] = completions.try_into().expect("two");
    let expected = Completion {
        text: String::new(),
        tool_calls: vec![
            tool_call("a", "w", "{\"n\": 1}"),
            tool_call("b", "w", "{}"),
            tool_call("c", "w", r#"{"n":1}"#),
        ],
        finish: Finish::ToolCalls,
        usage: Usage { input_tokens: 12, output_tokens: 5 },
    };
    assert_eq!(called.expect("an answer"), expected);
    let both = both.expect("an answer");
    assert_eq!((both.text.as_str(), both.finish), ("Let me see", Finish::ToolCalls));
    assert_eq!(both.tool_calls, [tool_call("a", "w", "{")], "as the model wrote it");
    assert!(!format!("{both:?}").contains("Let me"), "{both:?}");
}

#[tokio::test]
async fn why_an_answer_ends_is_told() {
    let reasons = [
        (json!("stop"), Finish::Stop),
        (json!("length"), Finish::Length),
        (json!("content_filter"), Finish::Filtered),
        (json!("tool_calls"), Finish::Stop),
        (json!("xyzzy"), Finish::Other),
        (Value::Null, Finish::Stop),
    ];
    let answers: Vec<_> =
        reasons.iter().map(|(reason, _)| answer(json!({ "content": null }), reason.clone())).collect();
    let (completions, _) = completed(&Prompt::default(), &answers).await;
    for ((reason, finish), completion) in reasons.iter().zip(completions) {
        assert_eq!(completion.expect("an answer"), Completion { finish: *finish, ..Completion::default() }, "{reason}");
    }
    let refusal = answer(json!({ "content": null, "refusal": "I won't" }), json!("stop"));
    let (mut completions, _) = completed(&Prompt::default(), &[refusal]).await;
    let expected = Completion { finish: Finish::Filtered, ..Completion::from("I won't") };
    assert_eq!(completions.remove(0).expect("an answer"), expected);
}

#[tokio::test]
async fn an_answer_beyond_the_limits_is_refused() {
    let calls = |count: usize, bytes: usize| -> Value {
        let arguments = "x".repeat(bytes);
        let call = |id| json!({ "id": format!("{id}"), "function": { "name": "w", "arguments": arguments } });
        answer(json!({ "tool_calls": (0..count).map(call).collect::<Vec<_>>() }), json!("tool_calls"))
    };
    let answers = [
        answer(json!({ "content": "x".repeat(16 << 20) }), json!("stop")),
        calls(1, 1 << 20),
        calls(129, 1),
        json!({ "choices": [] }),
        json!({ "choices": [{ "message": { "content": ["xyzzy"] } }] }),
        json!(["xyzzy"]),
        calls(128, 1),
    ];
    let (mut completions, _) = completed(&Prompt::default(), &answers).await;
    assert_eq!(completions.pop().expect("the last").expect("within the limits").tool_calls.len(), 128);
    let messages: Vec<_> = completions.into_iter().map(|completion| completion.expect_err("refused")).collect();
    assert!(
        messages.iter().all(|error| error.kind() == ErrorKind::Unexpected && !format!("{error:?}").contains("xyzzy"))
    );
    let messages: Vec<_> = messages.iter().map(|error| error.message()).collect();
    assert_eq!(
        messages,
        [
            "the endpoint's answer is too large",
            "a tool call in the endpoint's answer is too large",
            "the endpoint's answer has too many tool calls",
            "the endpoint's answer is no chat completion",
            "the endpoint's answer is no chat completion",
            "the endpoint's answer is no chat completion",
        ]
    );
}
