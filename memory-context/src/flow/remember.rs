//! Keeping what an answer says is to be kept.

use memory_core::{IdempotencyKey, Result};

use super::MessageService;
use super::answer::MessageAnswer;
use crate::prompt::MemoryLoadContext;
use crate::state::Turn;

impl MessageService {
    /// Changes the prompt memory as an answer says, once for each message, however often the answer to it is worked on. What can't be
    /// kept is logged, and the message is answered all the same.
    pub(super) async fn remember(&self, turn: &Turn, answer: &MessageAnswer) {
        if let Err(error) = self.try_remember(turn, answer).await {
            tracing::warn!(%error, "what an answer says is to be kept is not");
        }
    }

    async fn try_remember(&self, turn: &Turn, answer: &MessageAnswer) -> Result<()> {
        let services = self.composer.services();
        let Some(memory) = services.prompt_memory().filter(|_| !answer.memory.is_empty()) else { return Ok(()) };
        let context = MemoryLoadContext::of(services.records().agent(), &turn.message);
        let batch = IdempotencyKey::parse(turn.message.id.to_string())?;
        memory.sync(&context, &batch, &answer.memory).await.map(drop)
    }
}
