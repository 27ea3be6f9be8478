//! The paths of OpenAI's protocol, and the JSON of its answers.

use memory_context::agent::Answer;
use memory_context::model::Usage;
use memory_core::{Clock as _, MemoryId, SystemClock};
use serde_json::{Value, json};

/// The path for questions.
pub(super) const COMPLETIONS: &str = "/v1/chat/completions";
/// The path that lists the agent.
pub(super) const MODELS: &str = "/v1/models";

/// The fields that all parts of an answer share.
pub(super) struct Head {
    id: String,
    created: i64,
    model: String,
    pub(super) counts: bool,
}

impl Head {
    /// Makes the fields of an answer by a model with this name.
    pub(super) fn new(model: &str) -> Self {
        Self {
            id: format!("chatcmpl-{}", MemoryId::generate()),
            created: now(),
            model: model.to_owned(),
            counts: false,
        }
    }

    /// Adds the field for the token usage to the parts of a stream.
    pub(super) fn counting(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Makes the object of an answer that is not streamed.
    pub(super) fn completion(&self, answer: &Answer) -> Value {
        let message = json!({ "role": "assistant", "content": answer.text, "refusal": null });
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" }],
            "usage": usage(answer.usage),
        })
    }

    /// The first part of a stream.
    pub(super) fn begin(&self) -> Value {
        self.choice(&json!({ "role": "assistant", "content": "", "refusal": null }), Value::Null)
    }

    /// The next piece of the text.
    pub(super) fn text(&self, text: &str) -> Value {
        self.choice(&json!({ "content": text }), Value::Null)
    }

    /// The end of the text.
    pub(super) fn end(&self) -> Value {
        self.choice(&json!({}), json!("stop"))
    }

    /// The token usage, after the end.
    pub(super) fn usage(&self, used: Usage) -> Value {
        let mut chunk = self.chunk(json!([]));
        chunk["usage"] = usage(used);
        chunk
    }

    /// A part of a stream. If usage is requested, it is null in all parts but the last.
    fn choice(&self, delta: &Value, finish_reason: Value) -> Value {
        let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason });
        let mut chunk = self.chunk(json!([choice]));
        if self.counts {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn chunk(&self, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }
}

/// The list of the one agent.
pub(super) fn models(name: &str, since: i64) -> Value {
    let agent = json!({ "id": name, "object": "model", "created": since, "owned_by": "agent-memory" });
    json!({ "object": "list", "data": [agent] })
}

/// The present time in seconds since 1970, as OpenAI's objects have it.
pub(super) fn now() -> i64 {
    SystemClock.now().as_millis() / 1_000
}

/// The tokens of all model calls, as far as the models report them.
fn usage(Usage { input_tokens, output_tokens, .. }: Usage) -> Value {
    let total = input_tokens.saturating_add(output_tokens);
    json!({ "prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": total })
}
