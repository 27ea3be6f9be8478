//! `REMEMBER`: changes what is kept for the prompt.

use async_trait::async_trait;
use memory_core::{Error, IdempotencyKey, Result};

use super::told;
use crate::hash;
use crate::prompt::{MemoryLoadContext, MemoryUpdate, Unclear};
use crate::state::{Action, ActionCall, ActionInfo, ActionResult, Cx, Values};

/// Adds to, replaces or shortens one of the two texts of the prompt memory. The same change is made once in a turn.
#[derive(Debug)]
pub struct Remember {
    info: ActionInfo,
}

const NAME: &str = "REMEMBER";
const PARAMETERS: [(&str, &str); 4] = [
    ("store", "user for who the user is, memory for what the work is about; memory by default"),
    (
        "change",
        "add puts the text behind what is kept, replace puts it in the place of all, remove takes lines away; add by default",
    ),
    ("text", "what to keep, in a sentence that can be understood by itself; nothing where lines are removed"),
    ("match", "for remove: a part of each line to take away, letter by letter"),
];

impl Default for Remember {
    fn default() -> Self {
        let mut info = ActionInfo::new(NAME, "Keeps something for all later turns, or changes what is kept");
        info.similes = ["KEEP", "NOTE", "MEMORIZE"].map(str::to_owned).into();
        info.parameters = PARAMETERS.map(|(name, meaning)| (name.to_owned(), meaning.to_owned())).into();
        Self { info }
    }
}

#[async_trait]
impl Action for Remember {
    fn info(&self) -> &ActionInfo {
        &self.info
    }

    async fn validate(&self, cx: &Cx<'_>) -> Result<bool> {
        Ok(cx.services().prompt_memory().is_some())
    }

    async fn run(&self, call: &ActionCall<'_>) -> Result<ActionResult> {
        let (services, message) = (call.cx.services(), call.cx.message());
        let memory = services.prompt_memory().ok_or_else(|| Error::invalid("there is no prompt memory"))?;
        let update = update(call.parameters)?;
        let json = serde_json::to_string(&update).map_err(|error| Error::invalid("no JSON form").with_source(error))?;
        // Another process that does the same action of the same turn again doubles nothing.
        let batch = IdempotencyKey::parse(hash::of_parts([message.id.to_string().as_str(), &json]))?;
        let context = MemoryLoadContext::of(services.records().agent(), message);
        let report = memory.sync(&context, &batch, &[update]).await?;
        let is_changed = report.updates.iter().any(|update| update.changed || update.repeated);
        Ok(ActionResult::done(NAME, if is_changed { "It is kept." } else { "Nothing had to be changed." }))
    }
}

/// What the model wants. `InvalidInput` where that is not to be understood.
fn update(parameters: &Values) -> Result<MemoryUpdate> {
    let [store, change, text, matched] = PARAMETERS.map(|(name, _)| told(parameters, name));
    let update = MemoryUpdate::of_words(store, change, text, matched);
    update.map_err(|Unclear { field, expected }| Error::invalid(format!("{field} must be {expected}")))
}
