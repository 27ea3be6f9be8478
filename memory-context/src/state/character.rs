//! The character of an agent.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::ExampleMessage;

/// The personality of an agent. Its JSON is that of elizaOS character files; unknown members are ignored.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Character {
    /// The name, which prompts show, and by which a muted agent is called.
    pub name: String,
    /// The instructions that are sent as the system message; may be empty.
    pub system: String,
    /// Sentences about the character.
    #[serde(deserialize_with = "one_or_many")]
    pub bio: Vec<String>,
    /// Topics that interest the character.
    pub topics: Vec<String>,
    /// Adjectives that describe the character.
    pub adjectives: Vec<String>,
    /// Directions for how the character writes.
    pub style: Style,
    /// Example conversations.
    #[serde(deserialize_with = "examples")]
    pub message_examples: Vec<Vec<ExampleMessage>>,
    /// Example posts.
    pub post_examples: Vec<String>,
    /// Prompt templates by name, which replace the default ones; see [`Templates::of`](crate::template::Templates::of).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, String>,
}

/// Directions for how an agent writes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Style {
    /// Directions for all texts.
    pub all: Vec<String>,
    /// Directions for conversations.
    pub chat: Vec<String>,
    /// Directions for posts.
    pub post: Vec<String>,
}

impl Character {
    /// Makes a character with a name and nothing else.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

impl fmt::Debug for Character {
    /// Shows only the name, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Character({:?})", self.name)
    }
}

/// Parses a list; a text becomes a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::One(text) => vec![text],
        Written::Many(texts) => texts,
    })
}

/// Parses examples, whose messages have the text and the actions in a member `content`.
fn examples<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<ExampleMessage>>, D::Error> {
    #[derive(Deserialize)]
    struct Written {
        name: String,
        content: Option<Content>,
        #[serde(flatten)]
        plain: Content,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Content {
        text: String,
        actions: Vec<String>,
    }
    let message = |Written { name, content, plain }| {
        let Content { text, actions } = content.unwrap_or(plain);
        ExampleMessage { name, text, actions }
    };
    let written: Vec<Vec<Written>> = Deserialize::deserialize(deserializer)?;
    Ok(written.into_iter().map(|messages| messages.into_iter().map(message).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_files_are_read() {
        let json = r#"{
            "name": "Alice", "username": "alice", "bio": "AI assistant", "topics": ["science"],
            "style": {"all": ["be kind"]}, "plugins": [],
            "messageExamples": [[
                {"name": "{{name1}}", "content": {"text": "Hello", "source": "cli"}},
                {"name": "Alice", "text": "Hi", "actions": ["REPLY"]}
            ]]
        }"#;
        let character: Character = serde_json::from_str(json).expect("a character");
        assert_eq!((character.name.as_str(), character.bio.as_slice()), ("Alice", &["AI assistant".to_owned()][..]));
        assert_eq!(character.style.all, ["be kind"]);
        let [hello, hi] = &character.message_examples[0][..] else { panic!("two messages") };
        assert_eq!((hello.name.as_str(), hello.text.as_str()), ("{{name1}}", "Hello"));
        assert_eq!((hi.text.as_str(), hi.actions.as_slice()), ("Hi", &["REPLY".to_owned()][..]));
        let written = serde_json::to_string(&character).expect("JSON");
        assert_eq!(serde_json::from_str::<Character>(&written).expect("the same"), character);
    }
}
