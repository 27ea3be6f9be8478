//! What the agent thinks of how it did.

use std::fmt;

use memory_core::{
    ErrorKind, IdempotencyKey, MAX_LIMIT, Memory, MemoryId, MemoryQuery, NewMemory, Result, Status, Timestamp, Trigger,
};
use serde::{Deserialize, Serialize};

use super::layout::reflections_space;
use super::{Audience, Message, Records};
use crate::hash;

/// What the agent thought of how it did in a conversation. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reflection {
    /// Its id in the ledger.
    pub id: MemoryId,
    /// When it was thought.
    pub created_at: Timestamp,
    /// The message after which it was thought.
    pub source: MemoryId,
    /// What was thought.
    pub text: String,
}

/// What lies in the ledger.
#[derive(Serialize, Deserialize)]
struct Thought {
    source: MemoryId,
    text: String,
}

/// The most bytes of a reflection; what is behind them is left out.
const MAX_BYTES: usize = 4 << 10;

/// The reflections of an agent; see [`Records::reflections`].
#[derive(Debug, Clone, Copy)]
pub struct Reflections<'a> {
    records: &'a Records,
}

impl Records {
    /// What the agent thinks of how it did.
    pub fn reflections(&self) -> Reflections<'_> {
        Reflections { records: self }
    }
}

impl Reflections<'_> {
    /// Appends what was thought after a message, at most 4 KiB of it. A message has one reflection: the first stays, and where that was erased,
    /// none comes in its place.
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

    /// The newest reflections on the audience's room, newest first; at most 1,000.
    pub async fn newest(&self, audience: &Audience, limit: usize) -> Result<Vec<Reflection>> {
        let space = reflections_space(self.records.agent(), &audience.room)?;
        self.records.find(MemoryQuery::builder().exact(space).limit(limit.min(MAX_LIMIT)), read).await
    }
}

/// `None` when the memory is no reflection.
fn read(memory: &Memory) -> Option<Reflection> {
    let Thought { source, text } = memory.trigger.to_value().ok()?;
    Some(Reflection { id: memory.id, created_at: memory.created_at, source, text })
}

impl fmt::Debug for Reflection {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reflection({}, {} bytes)", self.id, self.text.len())
    }
}
