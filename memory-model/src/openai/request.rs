//! Translates a prompt to the JSON of chat completions.

use serde_json::{Value, json};

use super::config::{OpenAiConfig, SchemaHint};
use crate::attachment::PromptAttachment;
use crate::message::{ChatMessage, Role};
use crate::model::Prompt;
use crate::tool::{ToolCall, ToolSpec};

/// The body of a request for an answer that is not streamed.
pub(super) fn body(config: &OpenAiConfig, prompt: &Prompt) -> Value {
    let messages: Vec<_> = prompt.messages.iter().map(message).collect();
    let mut body = json!({ "model": config.model, "messages": messages });
    if let (Some(schema), SchemaHint::JsonSchema) = (&prompt.schema, config.schema_hint) {
        body["response_format"] = json!({
            "type": "json_schema",
            // Not strict, since strict mode supports only a part of JSON Schema.
            "json_schema": { "name": schema.name(), "schema": schema.as_value(), "strict": false }
        });
    }
    // Endpoints refuse an empty list.
    if !prompt.tools.is_empty() {
        body["tools"] = prompt.tools.iter().map(tool).collect();
    }
    body
}

/// The body of a request for a streamed answer.
pub(super) fn streamed(config: &OpenAiConfig, prompt: &Prompt) -> Value {
    let mut body = body(config, prompt);
    body["stream"] = Value::Bool(true);
    body["stream_options"] = json!({ "include_usage": true });
    body
}

fn message(message: &ChatMessage) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut said = json!({ "role": role, "content": content(message) });
    if !message.tool_calls.is_empty() {
        said["tool_calls"] = message.tool_calls.iter().map(tool_call).collect();
    }
    if let Some(id) = &message.tool_call_id {
        said["tool_call_id"] = json!(id);
    }
    said
}

/// A plain string if there are no attachments, since every endpoint takes that; otherwise a list of parts.
fn content(message: &ChatMessage) -> Value {
    let text = &message.content;
    if message.attachments.is_empty() {
        return if text.is_empty() && !message.tool_calls.is_empty() { Value::Null } else { json!(text) };
    }
    let text = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
    text.into_iter().chain(message.attachments.iter().map(attachment)).collect()
}

fn attachment(attachment: &PromptAttachment) -> Value {
    match attachment {
        PromptAttachment::Image { url } => json!({ "type": "image_url", "image_url": { "url": url } }),
        PromptAttachment::Document { name, url } => {
            json!({ "type": "file", "file": { "filename": name, "file_data": url } })
        }
    }
}

fn tool(tool: &ToolSpec) -> Value {
    let parameters = tool.parameters.as_value();
    let function = json!({ "name": tool.name, "description": tool.description, "parameters": parameters });
    json!({ "type": "function", "function": function })
}

fn tool_call(call: &ToolCall) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "id": call.id, "type": "function", "function": function })
}
