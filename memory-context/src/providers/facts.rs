//! `FACTS`: what is known and has to do with the message.

use async_trait::async_trait;
use memory_core::Result;
use serde_json::{Value, json};

use super::format::{indented, json, section};
use crate::records::{FactQuery, FoundFact, Message};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};

/// The facts that answer the message and what was said right before it best, by meaning and by words.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts;

static INFO: ProviderInfo =
    ProviderInfo::new("FACTS", "What the agent knows that has to do with the message").dynamic().priority(75);

/// How many messages the question is made of, the newest.
const MESSAGES: usize = 5;
/// The most facts.
const COUNT: usize = 12;

#[async_trait]
impl ContextProvider for Facts {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (records, scope, received) = (cx.services().records(), cx.scope(), cx.message());
        let recent = records.messages().recent(&scope, MESSAGES).await?;
        let query = FactQuery::new(question(received, &recent)).limit(COUNT);
        let recalled = records.facts().recall(&scope, &query).await?;
        if recalled.facts.is_empty() {
            return Ok(ProviderResult::default());
        }
        let lines: Vec<_> = recalled.facts.iter().map(|found| format!("- {}", indented(&found.fact.text))).collect();
        let lines = lines.join("\n");
        let heading = format!("Key facts that {} knows", cx.services().character().name);
        let data = recalled.facts.iter().map(describe).collect::<Result<Vec<_>>>()?;
        Ok(ProviderResult::text(section(&heading, &lines))
            .with_value("facts", lines)
            .with_data("facts", data)
            .with_data("unembedded", recalled.unembedded))
    }
}

/// The message first, then those right before it.
fn question(received: &Message, recent: &[Message]) -> String {
    let before = recent.iter().filter(|message| message.id != received.id && message.content.action_result.is_none());
    let texts = std::iter::once(received).chain(before).take(MESSAGES).map(|message| message.content.text.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

fn describe(found: &FoundFact) -> Result<Value> {
    Ok(json!({ "fact": json(&found.fact)?, "similarity": found.similarity, "score": found.score }))
}
