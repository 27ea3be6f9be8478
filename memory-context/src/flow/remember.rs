//! Applies the prompt memory updates of an answer.

use memory_core::{Error, IdempotencyKey, Result};

use super::MessageService;
use crate::hash;
use crate::prompt::{MemoryLoadContext, MemoryUpdate};
use crate::records::Message;

impl MessageService {
    /// Applies the prompt memory updates of an answer. For one message the same updates are applied once, even if the run is repeated.
    pub(super) async fn remember(&self, message: &Message, updates: &[MemoryUpdate]) -> Result<()> {
        let services = self.composer.services();
        let Some(memory) = services.prompt_memory() else { return Ok(()) };
        let context = MemoryLoadContext::of(services.records().agent(), message);
        let json = serde_json::to_string(updates).map_err(|error| Error::invalid("no JSON form").with_source(error))?;
        // The key is derived from the content, not from a number, so that a failed batch does not take the key of the next one.
        let batch = IdempotencyKey::parse(hash::of_parts([message.id.to_string().as_str(), &json]))?;
        memory.sync(&context, &batch, updates).await.map(drop)
    }
}
