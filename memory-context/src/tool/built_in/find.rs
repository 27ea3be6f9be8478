//! `FIND_FACTS`: searches facts by words and meaning.

use memory_core::{Error, Outcome, Result};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::deadline::late;
use crate::records::FactQuery;
use crate::state::PROVIDER_DEADLINE;
use crate::tool::{Tool, ToolContext, ToolOutput};

const NAME: &str = "FIND_FACTS";
/// The most facts in a result.
const COUNT: usize = 12;
/// The most calls per message, since each call reads all facts that may be shown in the room, with their vectors.
const CALLS: usize = 4;

/// Finds known facts by their meaning and by their words, where those in the prompt do not answer
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    /// what is looked for, as a question or in any words
    question: String,
}

/// The tool finds facts that may be shown in the room of the message. It waits for the embedder as long as a prompt does, and searches by
/// words alone if the embedder fails. It is offered only if there is an embedder.
pub(super) fn tool() -> Tool {
    let tool =
        Tool::new(NAME, find).repeatable().when(|_, services| async move { Ok(services.records().has_embedder()) });
    ["RECALL_FACTS", "SEARCH_FACTS"].into_iter().fold(tool, Tool::with_simile)
}

async fn find(Search { question }: Search, context: ToolContext) -> Result<ToolOutput> {
    if context.actions().results.iter().filter(|result| result.tool == NAME).count() >= CALLS {
        return Err(Error::invalid(format!("{NAME} is called at most {CALLS} times about one message")));
    }
    let (records, query) = (context.records(), FactQuery::new(question).limit(COUNT));
    let (facts, audience) = (records.facts(), context.audience());
    let recalled = timeout(PROVIDER_DEADLINE, facts.recall_soon(&audience, &query)).await;
    let recalled = recalled.unwrap_or_else(|_| Err(late(PROVIDER_DEADLINE, Outcome::NotDone)))?;
    let facts = recalled.facts.into_iter().map(|found| {
        let (similarity, fact) = (found.shown_similarity(), found.fact);
        json!({ "fact": fact.text, "kind": fact.kind, "about": fact.subject, "knownSince": fact.created_at, "similarity": similarity })
    });
    // Private, since facts of other rooms are among them, and other people may join this room later.
    Ok(ToolOutput::from(facts.collect::<Value>()).private())
}
