//! `FACTS`: the facts that are related to the message.

use async_trait::async_trait;
use futures::future::try_join;
use memory_core::Result;
use serde_json::{Value, json};

use crate::providers::format::{indented, json, one_line, section, written};
use crate::records::{Fact, FactQuery, FoundFact, Message};
use crate::state::{ContextProvider, Cx, ProviderInfo, ProviderResult};

/// Contributes the facts that fit the message best, by meaning and by words, and after them those that fit the messages right before it,
/// since a message such as "yes" says nothing by itself. If the embedder fails, facts are found by words alone.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::providers) struct Facts;

static INFO: ProviderInfo =
    ProviderInfo::new("FACTS", "What the agent knows that has to do with the message").dynamic().priority(75);

/// How many earlier messages go into the second question.
const MESSAGES: usize = 5;
/// The most facts for each question.
const COUNT: usize = 6;

#[async_trait]
impl ContextProvider for Facts {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn get(&self, cx: &Cx<'_>) -> Result<ProviderResult> {
        let (records, audience, received) = (cx.services().records(), cx.audience(), cx.message());
        let recent = records.messages().until(received, MESSAGES).await?;
        let [question, before] = [received.content.text.clone(), texts(received, &recent)].map(FactQuery::new);
        let (question, before) = (question.limit(COUNT), before.limit(COUNT));
        let facts = records.facts();
        let (answers, others) =
            try_join(facts.recall_soon(&audience, &question), facts.recall_soon(&audience, &before)).await?;
        let unembedded = answers.unembedded;
        let mut found = answers.facts;
        for other in others.facts {
            if !found.iter().any(|known| known.fact.id == other.fact.id) {
                found.push(other);
            }
        }
        if found.is_empty() {
            return Ok(ProviderResult::default());
        }
        let lines = found.iter().map(line).collect::<Vec<_>>().join("\n");
        let heading = format!("Key facts that {} knows", cx.services().character().name);
        let data = found.iter().map(describe).collect::<Result<Vec<_>>>()?;
        Ok(ProviderResult::text(section(&heading, &lines))
            .with_value("facts", lines)
            .with_data("facts", data)
            .with_data("unembedded", unembedded))
    }
}

/// Joins the texts of the messages right before the received one.
fn texts(received: &Message, recent: &[Message]) -> String {
    let is_said = |message: &&Message| message.id != received.id && message.content.action_result.is_none();
    recent.iter().filter(is_said).map(|message| message.content.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Formats a fact with the day on which it became known, since "yesterday" means nothing without it, and with its kind, unless that is
/// `fact`.
fn line(found: &FoundFact) -> String {
    let Fact { created_at, kind, text, .. } = &found.fact;
    let kind = if kind.is_empty() || kind == "fact" { String::new() } else { format!(", {}", one_line(kind)) };
    format!("- [{}{kind}] {}", written(*created_at, "%Y-%m-%d"), indented(text))
}

fn describe(found: &FoundFact) -> Result<Value> {
    Ok(json!({ "fact": json(&found.fact)?, "similarity": found.shown_similarity(), "score": found.score }))
}
