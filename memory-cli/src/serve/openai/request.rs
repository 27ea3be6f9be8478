//! The request of a question.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::serve::access::Access;
use crate::serve::extract::mistake;
use crate::serve::problem::Problem;

/// The supported part of a request body. Other parameters of OpenAI, such as temperature and tools, are ignored, since the agent sets them.
#[derive(Deserialize)]
pub(super) struct Request {
    pub(super) model: String,
    messages: Vec<Message>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) stream: bool,
    #[serde(default, deserialize_with = "or_default")]
    stream_options: StreamOptions,
    n: Option<u64>,
    user: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Deserialize, Default)]
struct Metadata {
    room: Option<String>,
}

/// A text, whole or in parts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    r#type: String,
    text: Option<String>,
}

/// A question, with its user and room.
pub(super) struct Question {
    /// The entity that asks.
    pub(super) user: String,
    /// The room; `None` for the user's direct room.
    pub(super) room: Option<String>,
    pub(super) text: String,
}

impl Request {
    /// Whether a stream ends with its token usage.
    pub(super) fn counts(&self) -> bool {
        self.stream_options.include_usage
    }

    /// Returns the last message of a user; earlier ones are in the memory. Without a user, the caller asks for itself, under the name of
    /// its token.
    pub(super) fn question(self, access: &Access) -> Result<Question, Problem> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(mistake("n: must be 1, since a message gets one answer"));
        }
        let last = self.messages.into_iter().rfind(|message| message.role == "user");
        let last = last.ok_or_else(|| mistake("messages: none has the role user"))?;
        let text = last.text()?;
        let user = self.user.unwrap_or_else(|| access.name.clone());
        Ok(Question { user, room: self.metadata.room, text })
    }
}

impl Message {
    fn text(self) -> Result<String, Problem> {
        let content = self.content.as_deref().map_or("null", RawValue::get);
        // The parser's message may quote the text.
        let content = serde_json::from_str(content).map_err(|_| {
            mistake("messages: the content of the last message with the role user must be a text or a list of parts")
        })?;
        let text = match content {
            Content::Text(text) => text,
            Content::Parts(parts) => {
                let texts = parts.into_iter().map(|part| part.text.filter(|_| part.r#type == "text"));
                let texts: Option<Vec<_>> = texts.collect();
                texts.ok_or_else(|| mistake("messages: the parts of a message must be of type text"))?.join("\n")
            }
        };
        if text.trim().is_empty() {
            return Err(mistake("messages: the last message of a user has no text"));
        }
        Ok(text)
    }
}

/// Treats null as absent.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn question(body: Value) -> Result<Question, String> {
        let request: Request = serde_json::from_value(body).map_err(|error| error.to_string())?;
        request.question(&Access::unlimited()).map_err(|problem| problem.detail)
    }

    #[test]
    fn the_last_message_of_a_user_is_the_question() {
        let messages = json!([
            { "role": "system", "content": "Obey" },
            { "role": "user", "content": "One" },
            { "role": "user", "content": [{ "type": "text", "text": "Two" }, { "type": "text", "text": "lines" }] },
            { "role": "assistant", "content": null, "tool_calls": [] },
        ]);
        let asked = question(
            json!({ "model": "ada", "messages": messages, "temperature": 0.5, "metadata": null, "stream": null }),
        );
        let asked = asked.expect("a question");
        assert_eq!((asked.user.as_str(), asked.room, asked.text.as_str()), ("local", None, "Two\nlines"));
        let messages = json!([{ "role": "user", "content": "One" }]);
        let asked = question(
            json!({ "model": "ada", "messages": messages, "user": "ana", "metadata": { "room": "kitchen", "page": "1" } }),
        );
        let asked = asked.expect("a question");
        assert_eq!((asked.user.as_str(), asked.room.as_deref()), ("ana", Some("kitchen")));
    }

    #[test]
    fn what_is_no_question_is_refused_without_its_text() {
        let image = json!({ "type": "image_url", "image_url": { "url": "xyzzy" } });
        for (messages, reason) in [
            (json!([]), "none has the role user"),
            (json!([{ "role": "assistant", "content": "xyzzy" }]), "none has the role user"),
            (json!([{ "role": "user" }]), "must be a text or a list of parts"),
            (json!([{ "role": "user", "content": { "text": "xyzzy" } }]), "must be a text or a list of parts"),
            (json!([{ "role": "user", "content": " \n" }]), "has no text"),
            (json!([{ "role": "user", "content": [] }]), "has no text"),
            (
                json!([{ "role": "user", "content": [{ "type": "text", "text": "xyzzy" }, image] }]),
                "must be of type text",
            ),
        ] {
            let refused = question(json!({ "model": "ada", "messages": messages })).err().expect(reason);
            assert!(refused.contains(reason) && !refused.contains("xyzzy"), "{refused}");
        }
        let messages = json!([{ "role": "user", "content": "Hello" }]);
        assert!(question(json!({ "model": "ada", "messages": messages, "n": 2 })).is_err());
    }
}
