//! `REMEMBER`: keeps what somebody asks to remember, before any reflection comes to it.

use async_trait::async_trait;
use memory_context::records::NewFact;
use memory_context::state::{Action, ActionCall, ActionInfo, ActionResult, Cx};
use memory_core::Result;
use serde_json::Value;

/// Keeps a fact about who said the message.
#[derive(Debug)]
pub(super) struct Remember {
    info: ActionInfo,
}

const NAME: &str = "REMEMBER";
const FACT: &str = "fact";

impl Default for Remember {
    fn default() -> Self {
        let mut info =
            ActionInfo::new(NAME, "Keeps a fact about who said the message, when they ask to remember something");
        let meaning = "the fact, in a sentence that can be understood by itself; the message as it is by default";
        info.parameters = vec![(FACT.to_owned(), meaning.to_owned())];
        Self { info }
    }
}

#[async_trait]
impl Action for Remember {
    fn info(&self) -> &ActionInfo {
        &self.info
    }

    async fn validate(&self, _cx: &Cx<'_>) -> Result<bool> {
        Ok(true)
    }

    async fn run(&self, call: &ActionCall<'_>) -> Result<ActionResult> {
        let (services, message) = (call.cx.services(), call.cx.message());
        let (said, agent) = (&message.content, services.records().agent().entity());
        let told = call.parameters.get(FACT).and_then(Value::as_str).filter(|fact| !fact.trim().is_empty());
        // What the agent makes of it is its own word.
        let (text, author) = told.map_or((said.text.as_str(), said.author.clone()), |fact| (fact, agent));
        let (subject, at) = (said.author.clone(), services.clock().now());
        let fact = NewFact::new(said.room.clone(), subject, author, text, at).with_source(message.id);
        let remembered = services.records().facts().remember(fact).await?;
        Ok(ActionResult::done(NAME, if remembered.is_new { "The fact is kept." } else { "It was kept before." }))
    }
}
