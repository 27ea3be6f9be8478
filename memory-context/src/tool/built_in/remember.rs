//! `REMEMBER`: changes the prompt memory.

use memory_core::{Error, IdempotencyKey, Result};

use crate::hash;
use crate::prompt::{MemoryLoadContext, MemoryUpdate, Unclear};
use crate::tool::{Tool, ToolContext};

/// Keeps something for all later turns, or changes what is kept
#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
struct Change {
    /// user for who the user is, memory for what the work is about; memory by default
    store: String,
    /// add puts the text behind what is kept, replace puts it in the place of all, remove takes lines away; add by default
    change: String,
    /// what to keep, in a sentence that can be understood by itself; nothing where lines are removed
    text: String,
    /// for remove: a part of each line to take away, letter by letter
    r#match: String,
}

/// The tool changes one of the two texts of the prompt memory. The same change is applied once per turn.
pub(super) fn tool() -> Tool {
    let tool = Tool::new("REMEMBER", remember).repeatable();
    let tool = tool.when(|_, services| async move { Ok(services.prompt_memory().is_some()) });
    ["KEEP", "NOTE", "MEMORIZE"].into_iter().fold(tool, Tool::with_simile)
}

async fn remember(change: Change, context: ToolContext) -> Result<&'static str> {
    let (services, message) = (context.services(), context.message());
    let memory = services.prompt_memory().ok_or_else(|| Error::invalid("there is no prompt memory"))?;
    let [store, change, text, matched] =
        [&change.store, &change.change, &change.text, &change.r#match].map(|told| told.trim());
    let update = MemoryUpdate::of_words(store, change, text, matched)
        .map_err(|Unclear { field, expected }| Error::invalid(format!("{field} must be {expected}")))?;
    let json = serde_json::to_string(&update).map_err(|error| Error::invalid("no JSON form").with_source(error))?;
    // The key is derived from the turn and the change, so a process that repeats the turn does not apply it twice.
    let batch = IdempotencyKey::parse(hash::of_parts([message.id.to_string().as_str(), &json]))?;
    let of = MemoryLoadContext::of(services.records().agent(), message);
    let report = memory.sync(&of, &batch, &[update]).await?;
    let is_changed = report.updates.iter().any(|update| update.changed || update.repeated);
    Ok(if is_changed { "It is kept." } else { "Nothing had to be changed." })
}
