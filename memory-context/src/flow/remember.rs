//! Keeping what an answer says is to be kept.

use memory_core::{Error, IdempotencyKey, Result};

use super::MessageService;
use crate::hash;
use crate::prompt::{MemoryLoadContext, MemoryUpdate};
use crate::records::Message;

impl MessageService {
    /// Changes the prompt memory as an answer to a message says. The same updates count once for the message, however often the work
    /// on it is repeated.
    pub(super) async fn remember(&self, message: &Message, updates: &[MemoryUpdate]) -> Result<()> {
        let services = self.composer.services();
        let Some(memory) = services.prompt_memory() else { return Ok(()) };
        let context = MemoryLoadContext::of(services.records().agent(), message);
        let json = serde_json::to_string(updates).map_err(|error| Error::invalid("no JSON form").with_source(error))?;
        // By what they say, and not by their number: a batch that failed takes no key from the next one.
        let batch = IdempotencyKey::parse(hash::of_parts([message.id.to_string().as_str(), &json]))?;
        memory.sync(&context, &batch, updates).await.map(drop)
    }
}
