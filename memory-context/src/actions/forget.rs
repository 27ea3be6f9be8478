//! `FORGET`: takes a fact away, or puts what is right in its place.

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, Result};

use super::told;
use crate::records::NewFact;
use crate::state::{Action, ActionCall, ActionInfo, ActionResult, Cx};

/// Corrects or forgets a fact: one of the room of the message, or one about its author that may be shown there.
#[derive(Debug)]
pub struct Forget {
    info: ActionInfo,
}

const NAME: &str = "FORGET";
const FACT: &str = "fact";
const CORRECTION: &str = "correction";

impl Default for Forget {
    fn default() -> Self {
        let mut info = ActionInfo::new(NAME, "Forgets a known fact that is wrong or unwanted, or corrects it");
        info.similes = ["FORGET_FACT", "CORRECT_FACT"].map(str::to_owned).into();
        info.parameters = [
            (FACT, "the text of the fact, as it stands among the known facts"),
            (
                CORRECTION,
                "what is right instead, in a sentence that can be understood by itself; empty to forget the fact",
            ),
        ]
        .map(|(name, meaning)| (name.to_owned(), meaning.to_owned()))
        .into();
        Self { info }
    }
}

#[async_trait]
impl Action for Forget {
    fn info(&self) -> &ActionInfo {
        &self.info
    }

    async fn validate(&self, _: &Cx<'_>) -> Result<bool> {
        Ok(true)
    }

    async fn run(&self, call: &ActionCall<'_>) -> Result<ActionResult> {
        let (services, message) = (call.cx.services(), call.cx.message());
        let (text, correction) = (told(call.parameters, FACT), told(call.parameters, CORRECTION));
        let facts = services.records().facts();
        let known = facts.find(&call.cx.scope(), text).await?;
        let known = known.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such fact is known here"))?;
        if correction.is_empty() {
            facts.remove(&known).await?;
            return Ok(ActionResult::done(NAME, "The fact is forgotten."));
        }
        let (agent, now) = (services.records().agent().entity(), services.clock().now());
        let new = NewFact::new(message.content.room.clone(), known.subject.clone(), agent, correction, now);
        facts.replace(&known, new.with_kind(&known.kind).with_source(message.id)).await?;
        Ok(ActionResult::done(NAME, "The fact is corrected."))
    }
}
