//! The messages of rooms, in the ledger.

use std::collections::BTreeSet;

use futures::future::try_join;
use memory_core::{
    Context, Error, IdempotencyKey, Json, MAX_LIMIT, Memory, MemoryId, MemoryPatch, MemoryQuery, NewMemory, Order,
    RecallOptions, Result, Status, Timestamp, Trigger,
};
use serde::{Deserialize, Serialize};

use super::layout::messages_space;
use super::table::metadata;
use super::{Attachment, Message, MessageContent, NewMessage, Records, Scope};
use crate::hash;
use crate::question::about;

/// The messages of an agent's rooms; see [`Records::messages`].
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a> {
    records: &'a Records,
}

/// What became of a message to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The message; where it was known before, as it was stored then.
    pub message: Message,
    /// Whether it was not known before.
    pub is_new: bool,
}

/// Who said it, among the labels of a message.
const AUTHOR: &str = "author";
/// What tells one who added a message from another.
const RECEIPT: &str = "receipt";
/// The most messages of one [`Messages::interactions`].
const MAX_INTERACTIONS: usize = 100;

/// What came of a message after it was stored.
#[derive(Serialize, Deserialize)]
struct Described {
    attachments: Vec<Attachment>,
}

impl Records {
    /// What was said.
    pub fn messages(&self) -> Messages<'_> {
        Messages { records: self }
    }
}

impl Messages<'_> {
    /// Appends a message to its room. One whose external id is known in the room gives the message that is there, or
    /// `Conflict` where that says something else.
    pub async fn add(&self, new: NewMessage) -> Result<Message> {
        self.add_once(new).await.map(|added| added.message)
    }

    /// The same, and tells whether it is new: of those that bring the same external id at once, one is.
    pub async fn add_once(&self, new: NewMessage) -> Result<Added> {
        let space = messages_space(self.records.agent(), &new.content.room)?;
        let receipt = MemoryId::generate().to_string();
        let run = new.run.map(|run| run.to_string());
        let mut labels = vec![(AUTHOR, new.content.author.as_str())];
        labels.extend(run.as_deref().map(|run| ("run", run)));
        labels.extend(new.external_id.as_ref().map(|_| (RECEIPT, receipt.as_str())));
        let mut memory = NewMemory::new(space.clone(), Trigger::from_value(&new.content)?, new.created_at);
        memory = memory.with_metadata(metadata(labels)?).with_status(new.status);
        if let Some(id) = &new.external_id {
            let key = hash::of_parts([space.as_str(), &new.content.source, id]);
            memory = memory.with_idempotency_key(IdempotencyKey::parse(key)?);
        }
        let id = self.records.provider().store(memory).await?;
        if new.external_id.is_some() {
            // It may be the one that was there before, whose receipt is another.
            if let Some(stored) = self.records.provider().get(id).await? {
                let is_new = stored.metadata.to_object().get(RECEIPT) == Some(&Json::String(receipt));
                return Ok(Added { message: read(&stored)?, is_new });
            }
        }
        let is_undelivered = new.status == Status::Failed;
        let message = Message { id, created_at: new.created_at, content: new.content, is_undelivered };
        Ok(Added { message, is_new: true })
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
        self.records.find(MemoryQuery::builder().exact(space).limit(limit.min(MAX_LIMIT)), readable).await
    }

    /// The conversation as far as a message reaches, newest first: the message and what was said before it in its room, and what
    /// the agent said since in answer to these; at most 1,000. What came in after the message is no part of it, and neither is the
    /// answer to that.
    pub async fn until(&self, message: &Message, limit: usize) -> Result<Vec<Message>> {
        let (space, at) = (messages_space(self.records.agent(), &message.content.room)?, message.created_at);
        let limit = limit.min(MAX_LIMIT);
        let is_before = |one: &Message| (one.created_at, one.id) <= (at, message.id);
        let query = MemoryQuery::builder().exact(space).limit(limit);
        let newest = self.records.find(query.clone(), readable).await?;
        if newest.iter().all(is_before) {
            return Ok(newest);
        }
        let before = match Timestamp::from_millis(at.as_millis() + 1) {
            Ok(end) => query.clone().created_before(end),
            Err(_) => query.clone(),
        };
        let after = query.created_after(at).order(Order::OldestFirst);
        let (before, mut after) =
            try_join(self.records.find(before, readable), self.records.find(after, readable)).await?;
        let (mut conversation, mut since): (Vec<_>, Vec<_>) = before.into_iter().partition(is_before);
        after.reverse();
        after.append(&mut since);
        let agent = self.records.agent().entity();
        let newer: BTreeSet<_> = after.iter().map(|one| one.id).collect();
        after.retain(|one| {
            one.content.author == agent && one.content.in_reply_to.is_some_and(|question| !newer.contains(&question))
        });
        after.append(&mut conversation);
        after.truncate(limit);
        Ok(after)
    }

    /// What was said before a time in the room of a message and has to do with it, as far as its words tell (R4), oldest first.
    ///
    /// Costs what the room holds: [`MAX_RECALLED`](memory_core::engine::MAX_RECALLED) messages at most.
    pub async fn earlier(&self, message: &Message, before: Timestamp, limit: usize) -> Result<Vec<Message>> {
        let space = messages_space(self.records.agent(), &message.content.room)?;
        let query = MemoryQuery::builder().exact(space).created_before(before).limit(limit.min(MAX_LIMIT)).build()?;
        // The space above that of the messages is the room, and holds them together.
        let options = RecallOptions { speaker: AUTHOR.to_owned(), ..RecallOptions::default() };
        let recalled = self.records.provider().recall(&about(&message.content.text, &query, &options)?).await?;
        let mut messages: Vec<_> = recalled.hits.iter().filter_map(|hit| readable(&hit.record)).collect();
        messages.sort_by_key(|message| (message.created_at, message.id));
        Ok(messages)
    }

    /// The newest messages up to a time of the scope's entity and of the agent in other rooms of which something may be shown in
    /// the scope's room, newest first: up to 100, of the last that were said there, ten times as many as are asked for.
    pub async fn interactions(&self, scope: &Scope, until: Timestamp, limit: usize) -> Result<Vec<Message>> {
        let mut rooms = self.records.rooms().readable(scope).await?;
        rooms.retain(|room| *room != scope.room);
        // No selector would be a mistake, and no room is none.
        if rooms.is_empty() {
            return Ok(Vec::new());
        }
        let limit = limit.min(MAX_INTERACTIONS);
        let window = MemoryQuery::builder().limit(limit * MAX_LIMIT / MAX_INTERACTIONS);
        let window = match Timestamp::from_millis(until.as_millis() + 1) {
            Ok(end) => window.created_before(end),
            Err(_) => window,
        };
        let window = rooms
            .iter()
            .try_fold(window, |query, room| Ok::<_, Error>(query.exact(messages_space(self.records.agent(), room)?)));
        let mut messages = self.records.find(window?, readable).await?;
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

    /// Keeps in the metadata of a message how its run ended, and why: for those who look into it later.
    pub(crate) async fn conclude(&self, id: MemoryId, labels: &[(&str, &str)]) -> Result<()> {
        let patch = MemoryPatch::new().merge_metadata(metadata(labels.iter().copied())?);
        self.records.provider().update(id, patch).await.map(drop)
    }

    /// Marks a message of the scope's room that could not be said after it was stored. `NotFound` when it is not there.
    pub async fn mark_undelivered(&self, scope: &Scope, id: MemoryId) -> Result<()> {
        if self.get(scope, id).await?.is_none() {
            return Err(Error::not_found());
        }
        self.records.provider().update(id, MemoryPatch::new().with_status(Status::Failed)).await.map(drop)
    }
}

/// `None` when the memory is no message: one row that somebody else wrote does not hide the others.
fn readable(memory: &Memory) -> Option<Message> {
    read(memory).inspect_err(|error| tracing::warn!(id = %memory.id, %error, "a message can't be read")).ok()
}

/// `Corrupt` when the memory is no message.
fn read(memory: &Memory) -> Result<Message> {
    let corrupt = |_| Error::corrupt(format!("the memory {} is no message", memory.id));
    let mut content: MessageContent = memory.trigger.to_value().map_err(corrupt)?;
    if let Some(context) = &memory.context {
        content.attachments = context.to_value::<Described>().map_err(corrupt)?.attachments;
    }
    let is_undelivered = memory.status == Status::Failed;
    Ok(Message { id: memory.id, created_at: memory.created_at, content, is_undelivered })
}
