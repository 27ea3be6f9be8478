//! `FIND_FACTS`: facts that have to do with a question, by their meaning too.

use memory_core::Result;
use serde_json::{Value, json};

use crate::records::FactQuery;
use crate::tool::{Tool, ToolContext};

/// How many facts it gives at most.
const COUNT: usize = 12;

/// Finds known facts by their meaning and by their words, where those in the prompt do not answer
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    /// what is looked for, as a question or in any words
    question: String,
}

/// Finds facts that may be shown in the room of the message, by words alone while the embedder fails. Offered where there is one.
pub(super) fn tool() -> Tool {
    let tool = Tool::new("FIND_FACTS", find)
        .repeatable()
        .when(|_, services| async move { Ok(services.records().embedder().is_some()) });
    ["RECALL_FACTS", "SEARCH_FACTS"].into_iter().fold(tool, Tool::with_simile)
}

async fn find(Search { question }: Search, context: ToolContext) -> Result<Value> {
    let (records, query) = (context.records(), FactQuery::new(question).limit(COUNT));
    let recalled = records.facts().recall_or_by_words(&context.audience(), &query).await?;
    let facts = recalled.facts.into_iter().map(|found| {
        let fact = found.fact;
        json!({ "fact": fact.text, "kind": fact.kind, "about": fact.subject, "knownSince": fact.created_at, "similarity": found.similarity })
    });
    Ok(facts.collect())
}
