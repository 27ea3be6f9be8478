//! Reflections: the agent's own assessments of its conversations.

use std::fmt;

use memory_core::{
    ErrorKind, IdempotencyKey, MAX_LIMIT, Memory, MemoryId, MemoryQuery, NewMemory, Result, Status, Timestamp, Trigger,
};
use serde::{Deserialize, Serialize};

use super::layout::reflections_space;
use super::{Audience, Message, Records};
use crate::hash;

/// The agent's assessment of how it did in a conversation. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reflection {
    /// The id of the reflection's memory.
    pub id: MemoryId,
    /// The time of the reflection.
    pub created_at: Timestamp,
    /// The message after which the agent reflected.
    pub source: MemoryId,
    /// The assessment.
    pub text: String,
}

/// The JSON in the ledger.
#[derive(Serialize, Deserialize)]
struct Thought {
    source: MemoryId,
    text: String,
}

/// The most bytes of a reflection; the rest is cut.
const MAX_BYTES: usize = 4 << 10;

/// The reflections of an agent; see [`Records::reflections`].
#[derive(Debug, Clone, Copy)]
pub struct Reflections<'a> {
    records: &'a Records,
}

impl Records {
    /// The agent's reflections on its conversations.
    pub fn reflections(&self) -> Reflections<'_> {
        Reflections { records: self }
    }
}

impl Reflections<'_> {
    /// Appends a reflection after a message, cut to 4 KiB. A message has at most one reflection: later ones are ignored, even if the
    /// first was erased.
    pub async fn add(&self, message: &Message, text: &str, at: Timestamp) -> Result<()> {
        let space = reflections_space(self.records.agent(), &message.content.room)?;
        let source = message.id;
        let thought = Thought { source, text: text[..text.floor_char_boundary(MAX_BYTES)].to_owned() };
        let key = hash::of_parts([space.as_str(), &source.to_string()]);
        let memory = NewMemory::new(space, Trigger::from_value(&thought)?, at).with_status(Status::Observed);
        match self.records.provider().store(memory.with_idempotency_key(IdempotencyKey::parse(key)?)).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Erased) => Ok(()),
            stored => stored.map(drop),
        }
    }

    /// Returns the newest reflections on the audience's room, newest first; at most 1,000.
    pub async fn newest(&self, audience: &Audience, limit: usize) -> Result<Vec<Reflection>> {
        let space = reflections_space(self.records.agent(), &audience.room)?;
        self.records.find(MemoryQuery::builder().exact(space).limit(limit.min(MAX_LIMIT)), read).await
    }
}

/// Reads a reflection; `None` if the memory is not one.
fn read(memory: &Memory) -> Option<Reflection> {
    let Thought { source, text } = memory.trigger.to_value().ok()?;
    Some(Reflection { id: memory.id, created_at: memory.created_at, source, text })
}

impl fmt::Debug for Reflection {
    /// Shows only the size, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reflection({}, {} bytes)", self.id, self.text.len())
    }
}
