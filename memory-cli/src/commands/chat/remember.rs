//! `REMEMBER`: keeps what somebody asks to remember, before any reflection comes to it.

use memory_context::records::NewFact;
use memory_context::tool::{Tool, ToolContext};
use memory_core::Result;

/// Keeps a fact about who said the message, when they ask to remember something.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Fact {
    /// The fact, in a sentence that can be understood by itself; the message as it is by default.
    fact: Option<String>,
}

pub(super) fn remember() -> Tool {
    Tool::new("REMEMBER", keep).repeatable()
}

async fn keep(Fact { fact }: Fact, context: ToolContext) -> Result<&'static str> {
    let (records, message) = (context.records(), context.message());
    let (said, agent) = (&message.content, records.agent().entity());
    // What the agent makes of it is its own word.
    let told = fact.filter(|fact| !fact.trim().is_empty()).map(|fact| (fact, agent));
    let (text, author) = told.unwrap_or_else(|| (said.text.clone(), said.author.clone()));
    let (subject, at) = (said.author.clone(), context.services().clock().now());
    let fact = NewFact::new(said.room.clone(), subject, author, text, at).with_source(message.id);
    let remembered = records.facts().remember(fact).await?;
    Ok(if remembered.is_new { "The fact is kept." } else { "It was kept before." })
}
