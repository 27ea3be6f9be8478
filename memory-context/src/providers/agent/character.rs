//! `CHARACTER`: the character of the agent.

use async_trait::async_trait;
use memory_core::Result;
use serde_json::Value;

use crate::providers::draw::draw;
use crate::providers::format::{conversations, json, paragraphs, people, section};
use crate::records::ChannelType;
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};

/// Contributes personality, style and examples. The instructions are sent separately, as the system message. From long lists a few entries
/// are selected, in their order, by the id of the message.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Character;

static INFO: ProviderInfo =
    ProviderInfo::new("CHARACTER", "The personality of the agent, its style and its examples").priority(100);

/// The most entries of each list.
const BIO: usize = 10;
const TOPICS: usize = 5;
const POSTS: usize = 50;
const CONVERSATIONS: usize = 5;

#[async_trait]
impl ContextProvider for Character {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (character, message) = (cx.services().character(), cx.message());
        let name = &character.name;
        let one = |what: &str, items: &[String]| {
            draw(message.id, what, items, 1).first().map_or_else(String::new, |item| (*item).clone())
        };
        let bio = strings(draw(message.id, "bio", &character.bio, BIO)).join(" ");
        let adjective = one("adjective", &character.adjectives);
        let topic = one("topic", &character.topics);
        let others: Vec<_> = character.topics.iter().filter(|other| **other != topic).cloned().collect();
        let topics = strings(draw(message.id, "topics", &others, TOPICS)).join(", ");
        let directions = |style: &[String], place: &str| {
            let lines: Vec<_> = character.style.all.iter().chain(style).map(|line| format!("- {line}")).collect();
            section(&format!("{place} Directions for {name}"), &lines.join("\n"))
        };
        let message_directions = directions(&character.style.chat, "Message");
        let post_directions = directions(&character.style.post, "Post");
        let posts = strings(draw(message.id, "posts", &character.post_examples, POSTS)).join("\n");
        let posts = section(&format!("Example Posts for {name}"), &people(&posts));
        let drawn = draw(message.id, "conversations", &character.message_examples, CONVERSATIONS);
        let messages = section(&format!("Example Conversations for {name}"), &conversations(drawn));
        // In feeds and threads the agent writes posts.
        let (directions, examples) = match message.content.channel_type {
            ChannelType::Feed | ChannelType::Thread => (&post_directions, &posts),
            _ => (&message_directions, &messages),
        };
        let sentence =
            |text: &str, what: &str| if text.is_empty() { String::new() } else { format!("{name} {what} {text}.") };
        let text = paragraphs([
            section(&format!("About {name}"), &bio).as_str(),
            &sentence(&adjective, "is"),
            &sentence(&topic, "is currently interested in"),
            &sentence(&topics, "is also interested in"),
            directions,
            examples,
        ]);
        let values = [
            ("agentName", name.as_str()),
            ("bio", &bio),
            ("system", &character.system),
            ("topic", &topic),
            ("topics", &topics),
            ("adjective", &adjective),
            ("messageDirections", &message_directions),
            ("postDirections", &post_directions),
            ("directions", directions),
            ("examples", examples),
            ("characterPostExamples", &posts),
            ("characterMessageExamples", &messages),
        ];
        let data = ["bio", "adjective", "topic", "topics", "directions", "examples", "system"];
        let mut result = ProviderResult::text(text);
        for (key, value) in values {
            result.values.insert(key.to_owned(), Value::from(value));
            if data.contains(&key) {
                result.data.insert(key.to_owned(), Value::from(value));
            }
        }
        Ok(result.with_data("character", json(character)?))
    }
}

fn strings(items: Vec<&String>) -> Vec<String> {
    items.into_iter().cloned().collect()
}
