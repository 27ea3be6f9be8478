//! The messages of rooms, in the ledger.

use memory_core::{
    Context, Error, IdempotencyKey, Ledger, MAX_LIMIT, Memory, MemoryId, MemoryPatch, MemoryQuery, NewMemory,
    QueryBuilder, Result, Trigger,
};
use serde::{Deserialize, Serialize};

use super::layout::messages_space;
use super::table::metadata;
use super::{Attachment, Message, MessageContent, NewMessage, Records, Scope};
use crate::hash;

/// The messages of an agent's rooms; see [`Records::messages`].
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a> {
    records: &'a Records,
}

/// The most messages of one [`Messages::interactions`].
const MAX_INTERACTIONS: usize = 100;

/// What came of a message after it was stored.
#[derive(Serialize, Deserialize)]
struct Described {
    attachments: Vec<Attachment>,
}

impl<'a> Messages<'a> {
    pub(super) fn new(records: &'a Records) -> Self {
        Self { records }
    }

    /// Appends a message to its room. One whose external id is known in the room gives the message that is there, or
    /// `Conflict` where that says something else.
    pub async fn add(&self, new: NewMessage) -> Result<Message> {
        let space = messages_space(self.records.agent(), &new.content.room)?;
        let labels = metadata([("author", new.content.author.as_str())])?;
        let mut memory = NewMemory::new(space.clone(), Trigger::from_value(&new.content)?, new.created_at);
        memory = memory.with_metadata(labels).with_status(new.status);
        if let Some(id) = &new.external_id {
            let key = hash::of_parts([space.as_str(), &new.content.source, id]);
            memory = memory.with_idempotency_key(IdempotencyKey::parse(key)?);
        }
        let id = self.records.provider().store(memory).await?;
        if new.external_id.is_some() {
            // It may be the one that was there before.
            if let Some(stored) = self.records.provider().get(id).await? {
                return read(&stored);
            }
        }
        Ok(Message { id, created_at: new.created_at, content: new.content })
    }

    /// The message with this id, if it is one of the scope's room.
    pub async fn get(&self, scope: &Scope, id: MemoryId) -> Result<Option<Message>> {
        let space = messages_space(self.records.agent(), &scope.room)?;
        let memory = self.records.provider().get(id).await?;
        memory.filter(|memory| memory.space_id == space).as_ref().map(read).transpose()
    }

    /// The newest messages of the scope's room, newest first; at most 1,000. One recall of one space, so it costs what it
    /// returns.
    pub async fn recent(&self, scope: &Scope, limit: usize) -> Result<Vec<Message>> {
        let space = messages_space(self.records.agent(), &scope.room)?;
        self.find(MemoryQuery::builder().exact(space).limit(limit)).await
    }

    /// The newest messages of the scope's entity and of the agent in other rooms of which something may be shown in the
    /// scope's room, newest first: up to 100, of the last that were said there, ten times as many as are asked for.
    pub async fn interactions(&self, scope: &Scope, limit: usize) -> Result<Vec<Message>> {
        let mut rooms = self.records.rooms().readable(scope).await?;
        rooms.retain(|room| *room != scope.room);
        // No selector would be a mistake, and no room is none.
        if rooms.is_empty() {
            return Ok(Vec::new());
        }
        let limit = limit.min(MAX_INTERACTIONS);
        let window = MemoryQuery::builder().limit(limit * MAX_LIMIT / MAX_INTERACTIONS);
        let window = rooms
            .iter()
            .try_fold(window, |query, room| Ok::<_, Error>(query.exact(messages_space(self.records.agent(), room)?)));
        let mut messages = self.find(window?).await?;
        let agent = self.records.agent().entity();
        messages.retain(|message| [&agent, &scope.entity].contains(&&message.content.author));
        messages.truncate(limit);
        Ok(messages)
    }

    /// Keeps what is known of the attachments of a message of the scope's room now, instead of what was known before.
    /// `NotFound` when it is not there.
    pub async fn describe(&self, scope: &Scope, id: MemoryId, attachments: Vec<Attachment>) -> Result<()> {
        if self.get(scope, id).await?.is_none() {
            return Err(Error::not_found());
        }
        let patch = MemoryPatch::new().set_context(Context::from_value(&Described { attachments })?);
        self.records.provider().update(id, patch).await.map(drop)
    }

    /// Up to the limit of the query. A page may be short: only one without a cursor ends.
    async fn find(&self, query: QueryBuilder<Ledger>) -> Result<Vec<Message>> {
        let limit = query.clone().build()?.limit();
        let (mut found, mut cursor) = (Vec::new(), None);
        while found.len() < limit {
            let page = query.clone().limit((limit - found.len()).min(MAX_LIMIT));
            let page = cursor.iter().fold(page, |page, cursor| page.cursor(cursor));
            let page = self.records.provider().query(&page.build()?).await?;
            for row in page.unreadable {
                tracing::warn!(id = row.id, reason = row.reason, "a message can't be read");
            }
            for memory in &page.memories {
                match read(memory) {
                    Ok(message) => found.push(message),
                    // One row that somebody else wrote does not hide the others.
                    Err(error) => tracing::warn!(id = %memory.id, %error, "a message can't be read"),
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// `Corrupt` when the memory is no message.
fn read(memory: &Memory) -> Result<Message> {
    let corrupt = |_| Error::corrupt(format!("the memory {} is no message", memory.id));
    let mut content: MessageContent = memory.trigger.to_value().map_err(corrupt)?;
    if let Some(context) = &memory.context {
        content.attachments = context.to_value::<Described>().map_err(corrupt)?.attachments;
    }
    Ok(Message { id: memory.id, created_at: memory.created_at, content })
}
