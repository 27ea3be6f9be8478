//! `FORGET`: removes or corrects a fact.

use memory_core::{Error, ErrorKind, Result};

use crate::records::NewFact;
use crate::tool::{Tool, ToolContext};

/// Forgets a known fact that is wrong or unwanted, or corrects it
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Correction {
    /// the text of the fact, as it stands among the known facts
    fact: String,
    /// what is right instead, in a sentence that can be understood by itself; empty to forget the fact
    #[serde(default)]
    correction: String,
}

/// The tool removes or replaces a fact that became known in the room of the message.
pub(super) fn tool() -> Tool {
    ["FORGET_FACT", "CORRECT_FACT"].into_iter().fold(Tool::new("FORGET", forget), Tool::with_simile)
}

async fn forget(Correction { fact, correction }: Correction, context: ToolContext) -> Result<&'static str> {
    let (records, message) = (context.records(), context.message());
    let facts = records.facts();
    let known = facts.find(&context.audience(), fact.trim()).await?;
    let known = known.ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            "no such fact was learned in this conversation; other facts can be changed where they were learned",
        )
    })?;
    let correction = correction.trim();
    if correction.is_empty() {
        facts.remove(&known).await?;
        return Ok("The fact is forgotten.");
    }
    let (agent, now) = (records.agent().entity(), context.services().clock().now());
    let new = NewFact::new(message.content.room.clone(), known.subject.clone(), agent, correction, now);
    facts.replace(&known, new.with_kind(&known.kind).with_source(message.id)).await?;
    Ok("The fact is corrected.")
}
