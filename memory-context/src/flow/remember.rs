//! Keeping what an answer says is to be kept.

use memory_core::{IdempotencyKey, Result};

use super::MessageService;
use crate::prompt::{MemoryLoadContext, MemoryUpdate};
use crate::records::Message;

impl MessageService {
    /// Changes the prompt memory as an answer to a message says. `before` is how many answers to it have said something before: each of
    /// them counts once for the message, however often the work on it is repeated.
    pub(super) async fn remember(&self, message: &Message, before: usize, updates: &[MemoryUpdate]) -> Result<()> {
        let services = self.composer.services();
        let Some(memory) = services.prompt_memory() else { return Ok(()) };
        let context = MemoryLoadContext::of(services.records().agent(), message);
        let batch = match before {
            0 => IdempotencyKey::parse(message.id.to_string())?,
            _ => IdempotencyKey::parse(format!("{}/{before}", message.id))?,
        };
        memory.sync(&context, &batch, updates).await.map(drop)
    }
}
