//! Storing and reading the messages of rooms.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::try_join;
use memory_core::filter::Field;
use memory_core::{
    Context, Cursor, Error, ErrorKind, Filter, IdempotencyKey, Json, MAX_LIMIT, Memory, MemoryId, MemoryPage,
    MemoryPatch, MemoryQuery, Metadata, NewMemory, Order, Outcome, Recall, RecallOptions, Result, SpaceSelector,
    Status, Timestamp, Trigger,
};
use memory_runtime::{Claim, TASK};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use super::entry::{Entry, EntryState};
use super::layout::{messages_space, rooms_space};
use super::question::about;
use super::table::metadata;
use super::{Attachment, Audience, Message, MessageContent, NewMessage, Records, RoomId};
use crate::hash;

/// The messages of an agent's rooms; see [`Records::messages`].
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a> {
    records: &'a Records,
}

/// The result of [`Messages::add_once`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The message; if it was known before, as it was stored then.
    pub message: Message,
    /// Whether the message was stored by this call, since it was not known before.
    pub is_new: bool,
}

/// The result of adding a message to be answered.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The message was stored with the claim.
    New(Box<Message>),
    /// The message was known before; its present memory.
    Known(Box<Memory>),
}

/// An open message, as read from the ledger.
#[derive(Debug)]
pub(crate) struct OpenMessage {
    pub(crate) message: Message,
    /// The run that answers the message.
    pub(crate) run: Option<MemoryId>,
    /// Whether the platform said that the message addresses the agent.
    pub(crate) is_addressed: bool,
    /// The journal of its run so far.
    pub(crate) journal: Vec<Entry>,
}

/// The label of a message that holds its author.
pub(super) const AUTHOR: &str = "author";
/// The label with the run that answers a message, or with the run that said it.
const RUN: &str = "run";
/// The label that is set if the platform says that the message addresses the agent.
const ADDRESSED: &str = "addressed";
/// The reason for answering a message. During the run it is a step in the journal; after the run it is a label of the message.
pub(crate) const WHY: &str = "why";
/// The label with a random value by which a writer recognises its own message.
const RECEIPT: &str = "receipt";
/// The pauses in ms before retries of an idempotent write.
const WRITE_AGAIN: [u64; 3] = [100, 400, 1_600];
/// The pauses in ms before retries of reading a message that was just stored.
const READ_AGAIN: [u64; 6] = [10, 40, 160, 640, 1_280, 2_560];
/// How long [`Messages::earlier`] waits for the vector of a message: half as long as a prompt waits for its result.
const EARLIER_PATIENCE: Duration = Duration::from_millis(500);
/// The most messages of one [`Messages::interactions`].
const MAX_INTERACTIONS: usize = 100;

/// The context of a message's memory, which is written after the message was stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct Described {
    pub(crate) attachments: Vec<Attachment>,
    /// The journal of its run so far; empty after the run is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) journal: Vec<Entry>,
}

impl Records {
    /// The messages in the agent's rooms.
    pub fn messages(&self) -> Messages<'_> {
        Messages { records: self }
    }
}

impl Messages<'_> {
    /// Appends a message to its room. If the room has a message with the same source and external id, that one is returned; the call fails
    /// with `Conflict` if its content differs or it was erased.
    pub async fn add(&self, new: NewMessage) -> Result<Message> {
        self.add_once(new).await.map(|added| added.message)
    }

    /// Like [`add`](Self::add), but says whether the message is new. Of concurrent calls with the same external id, only one is told that
    /// it is new.
    pub async fn add_once(&self, new: NewMessage) -> Result<Added> {
        Ok(match self.store(new, &Metadata::default()).await? {
            Taken::New(message) => Added { message: *message, is_new: true },
            Taken::Known(memory) => Added { message: read(&memory)?, is_new: false },
        })
    }

    /// Appends a message to be answered, under a claim, unless it is known. It is open work until its run is over.
    pub(crate) async fn add_task(&self, mut new: NewMessage, is_addressed: bool, claim: &Claim) -> Result<Taken> {
        new.status = Status::Pending;
        let labels = metadata(is_addressed.then_some((ADDRESSED, "true")))?;
        self.store(new, &labels.merge(&claim.to_metadata()?)?).await
    }

    /// Appends the message of a step of a run. Its idempotency key is made of the answered message and the step, so a repetition returns
    /// the same message, and the write can be retried after errors that may pass.
    pub(crate) async fn add_keyed(&self, new: NewMessage, about: MemoryId, step: &str) -> Result<Message> {
        let space = messages_space(self.records.agent(), &new.content.room)?;
        let key = hash::of_parts([space.as_str(), "run", &about.to_string(), step]);
        let memory = self.memory(&new, &Metadata::default())?.with_idempotency_key(IdempotencyKey::parse(key)?);
        let id = repeated(|| self.records.provider().store(memory.clone())).await;
        // The error is not `Conflict`, which would mean that the run has lost the message that it answers.
        Ok(message(id.map_err(|error| without_erasure(error, gone))?, new))
    }

    async fn store(&self, new: NewMessage, labels: &Metadata) -> Result<Taken> {
        let mut memory = self.memory(&new, labels)?;
        let Some(external_id) = &new.external_id else {
            let id = self.records.provider().store(memory).await?;
            return Ok(Taken::New(Box::new(message(id, new))));
        };
        let receipt = MemoryId::generate().to_string();
        memory.metadata = memory.metadata.merge(&metadata([(RECEIPT, receipt.as_str())])?)?;
        let key = hash::of_parts([memory.space_id.as_str(), &new.content.source, external_id]);
        let stored = self.records.provider().store(memory.with_idempotency_key(IdempotencyKey::parse(key)?)).await;
        let id = stored.map_err(|error| without_erasure(error, taken))?;
        let stored = self.stored(id).await.map_err(|error| error.with_outcome(Outcome::Unknown))?;
        // A message that another call stored has another receipt.
        if stored.metadata.to_object().get(RECEIPT) == Some(&Json::String(receipt)) {
            Ok(Taken::New(Box::new(message(id, new))))
        } else {
            Ok(Taken::Known(Box::new(stored)))
        }
    }

    /// Reads a message that was just stored, with retries, since a replica may not have it yet. Fails with `Unavailable` if it does not
    /// appear soon, and with `Conflict` if it was erased meanwhile.
    async fn stored(&self, id: MemoryId) -> Result<Memory> {
        for wait in READ_AGAIN {
            let stored = self.records.provider().get(id).await;
            if let Some(stored) = stored.map_err(|error| without_erasure(error, taken))? {
                return Ok(stored);
            }
            sleep(Duration::from_millis(wait)).await;
        }
        Err(Error::new(ErrorKind::Unavailable, "a message that was stored can't be read yet").retryable())
    }

    fn memory(&self, new: &NewMessage, labels: &Metadata) -> Result<NewMemory> {
        let space = messages_space(self.records.agent(), &new.content.room)?;
        let run = new.run.map(|run| run.to_string());
        let mut own = vec![(AUTHOR, new.content.author.as_str())];
        own.extend(run.as_deref().map(|run| (RUN, run)));
        let memory = NewMemory::new(space, Trigger::from_value(&new.content)?, new.created_at);
        Ok(memory.with_metadata(metadata(own)?.merge(labels)?).with_status(new.status))
    }

    /// Returns one page of the open messages that nobody holds ([`Leases::free`](memory_runtime::Leases::free)), of one room or of all,
    /// oldest first. The cost grows with the open messages, not with the ledger (Q9).
    pub(crate) async fn free(
        &self,
        room: Option<&RoomId>,
        free: &Filter,
        cursor: Option<&Cursor>,
    ) -> Result<MemoryPage> {
        let place = match room {
            Some(room) => SpaceSelector::exact(messages_space(self.records.agent(), room)?)?,
            None => SpaceSelector::under(rooms_space(self.records.agent())?)?,
        };
        // Tasks of a runtime have a container; messages have none.
        let is_message = Field::metadata([TASK, "container"]).is_null();
        let query = MemoryQuery::builder().selector(place).status(Status::Pending).status(Status::Running);
        let query = query.filter(is_message.and(free.clone())).order(Order::OldestFirst);
        let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor));
        self.records.provider().query(&query.build()?).await
    }

    /// Reads an open message from its memory. Fails with `Corrupt` if it is not a message of this agent.
    pub(crate) fn open(&self, memory: &Memory) -> Result<OpenMessage> {
        let message = read(memory)?;
        if messages_space(self.records.agent(), &message.content.room)? != memory.space_id {
            return Err(Error::corrupt(format!("the memory {} is no message of its room", memory.id)));
        }
        let labels = memory.metadata.to_object();
        let run = match labels.get(RUN) {
            Some(Json::String(run)) => run.parse().ok(),
            _ => None,
        };
        let journal = memory.context.as_ref().map(|context| context.to_value::<Described>()).transpose();
        let journal = journal.map_err(|error| Error::corrupt("a journal can't be read").with_source(error))?;
        let journal = journal.map(|described| described.journal).unwrap_or_default();
        Ok(OpenMessage { message, run, is_addressed: labels.contains_key(ADDRESSED), journal })
    }

    /// Whether a later message of the room was already answered, among the last 1,000 messages. Only answers for reasons that `counts`
    /// accepts count; an unknown reason is `None`.
    pub(crate) async fn is_overtaken(&self, message: &Message, counts: impl Fn(Option<&str>) -> bool) -> Result<bool> {
        let space = messages_space(self.records.agent(), &message.content.room)?;
        let query = MemoryQuery::builder().exact(space).limit(MAX_LIMIT);
        let query = match Timestamp::from_millis(message.created_at.as_millis() - 1) {
            Ok(before) => query.created_after(before),
            Err(_) => query,
        };
        let with_reason = |memory: &Memory| readable(memory).map(|message| (message, reason(memory)));
        let since = self.records.find(query, with_reason).await?;
        let agent = self.records.agent().entity();
        let (answers, asked): (Vec<_>, Vec<_>) = since.iter().partition(|(one, _)| one.content.author == agent);
        let newer = asked.into_iter().filter(|(one, _)| (one.created_at, one.id) > (message.created_at, message.id));
        let newer: BTreeSet<_> = newer.filter(|(_, why)| counts(why.as_deref())).map(|(one, _)| one.id).collect();
        Ok(answers.iter().filter_map(|(one, _)| one.content.in_reply_to).any(|question| newer.contains(&question)))
    }

    /// Returns the message with this id, if it is in the audience's room.
    pub async fn get(&self, audience: &Audience, id: MemoryId) -> Result<Option<Message>> {
        let memory = self.in_room(audience, id).await?;
        memory.as_ref().map(read).transpose()
    }

    /// Returns the memory with this id, if it is in the audience's room; `None` for one that was erased.
    async fn in_room(&self, audience: &Audience, id: MemoryId) -> Result<Option<Memory>> {
        let space = messages_space(self.records.agent(), &audience.room)?;
        match self.records.provider().get(id).await {
            Err(error) if error.kind() == ErrorKind::Erased => Ok(None),
            memory => Ok(memory?.filter(|memory| memory.space_id == space)),
        }
    }

    /// Returns the newest messages of the audience's room, newest first; at most 1,000. It is one query of one space, so the cost grows
    /// with the result, not with the ledger.
    pub async fn recent(&self, audience: &Audience, limit: usize) -> Result<Vec<Message>> {
        let space = messages_space(self.records.agent(), &audience.room)?;
        self.records.find(MemoryQuery::builder().exact(space).limit(limit.min(MAX_LIMIT)), readable).await
    }

    /// Returns the conversation up to a message, newest first; at most 1,000 messages. It has the message, the earlier messages of its
    /// room, and the answers that the agent has given to these since. Later messages and the answers to them are left out.
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

    /// Recalls the messages of the same room from before a time that are related to a message, by words (R4) and, with an embedder, by
    /// meaning (M3); oldest first. They are recalled by words alone if the embedder makes no vector within 500 ms.
    ///
    /// The cost grows with the room, up to [`MAX_RECALLED`](memory_core::engine::MAX_RECALLED) messages.
    pub async fn earlier(&self, message: &Message, before: Timestamp, limit: usize) -> Result<Vec<Message>> {
        let space = messages_space(self.records.agent(), &message.content.room)?;
        let query = MemoryQuery::builder().exact(space).created_before(before).limit(limit.min(MAX_LIMIT)).build()?;
        // The space above the messages is the room, which is their container.
        let options = RecallOptions { speaker: AUTHOR.to_owned(), ..RecallOptions::default() };
        let recall = about(&message.content.text, &query, &options)?;
        let recall = self.records.asking(EARLIER_PATIENCE).into_iter().fold(recall, Recall::by_meaning_or_words);
        let recalled = self.records.provider().recall(&recall).await?;
        let mut messages: Vec<_> = recalled.hits.iter().filter_map(|hit| readable(&hit.record)).collect();
        messages.sort_by_key(|message| (message.created_at, message.id));
        Ok(messages)
    }

    /// Returns the newest messages, up to a time, of the audience's entity and the agent in the other rooms that the audience may see,
    /// newest first; at most 100. It looks only at the last messages of those rooms, ten times as many as `limit`.
    pub async fn interactions(&self, audience: &Audience, until: Timestamp, limit: usize) -> Result<Vec<Message>> {
        let mut rooms = self.records.rooms().readable(audience).await?;
        rooms.retain(|room| *room != audience.room);
        // A query without selectors is an error, so no rooms means no messages.
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
        messages.retain(|message| [&agent, &audience.entity].contains(&&message.content.author));
        messages.truncate(limit);
        Ok(messages)
    }

    /// Replaces the attachments of a message in the audience's room, with their descriptions. Fails with `NotFound` if the message does not
    /// exist, and with `Conflict` while it waits for an answer or a run works on it.
    pub async fn describe(&self, audience: &Audience, id: MemoryId, attachments: Vec<Attachment>) -> Result<()> {
        let memory = self.in_room(audience, id).await?.ok_or_else(Error::not_found)?;
        if memory.status.is_open() && Claim::read(&memory).is_ok() {
            return Err(Error::conflict("a run works on the message"));
        }
        let described = Described { attachments, journal: Vec::new() };
        let patch = MemoryPatch::new().set_context(Context::from_value(&described)?);
        self.update(id, patch).await
    }

    /// Marks a message of the audience's room as undelivered. Fails with `NotFound` if it does not exist.
    pub async fn mark_undelivered(&self, audience: &Audience, id: MemoryId) -> Result<()> {
        if self.get(audience, id).await?.is_none() {
            return Err(Error::not_found());
        }
        self.update(id, MemoryPatch::new().with_status(Status::Failed)).await
    }

    /// Changes a message. Fails with `NotFound` if it was erased meanwhile.
    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<()> {
        let updated = self.records.provider().update(id, patch).await;
        updated.map(drop).map_err(|error| without_erasure(error, Error::not_found))
    }
}

/// Replaces the error `Erased`, since only operators may learn of an erasure.
fn without_erasure(error: Error, told: fn() -> Error) -> Error {
    if error.kind() == ErrorKind::Erased { told().with_outcome(error.outcome()) } else { error }
}

/// The error for an external id that another message has, worded as the ledger's own conflict.
fn taken() -> Error {
    Error::conflict("the idempotency key belongs to a memory with another trigger or space")
}

/// The error for a step whose message was erased.
fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "what this step has said no longer exists")
}

/// Whether an idempotent write may succeed if it is retried.
pub(crate) fn may_be_repeated(error: &Error) -> bool {
    error.is_retryable() || error.outcome() == Outcome::Unknown
}

/// Makes an idempotent write, with retries after errors that may pass.
pub(crate) async fn repeated<T, W: Future<Output = Result<T>>>(write: impl Fn() -> W) -> Result<T> {
    let (mut waits, mut outcome) = (WRITE_AGAIN.into_iter(), Outcome::NotDone);
    loop {
        let error = match write().await {
            Ok(written) => return Ok(written),
            Err(error) => error.after(outcome),
        };
        outcome = error.outcome();
        let wait = waits.next().filter(|_| may_be_repeated(&error)).ok_or(error)?;
        sleep(Duration::from_millis(wait)).await;
    }
}

/// The reason for answering a message, if it is stored.
fn reason(memory: &Memory) -> Option<String> {
    if let Some(Json::String(why)) = memory.metadata.to_object().get(WHY) {
        return Some(why.clone());
    }
    let journal = memory.context.as_ref()?.to_value::<Described>().ok()?.journal;
    let step = journal.into_iter().find(|entry| entry.step == WHY)?;
    if let EntryState::Done(Value::String(why)) = step.state { Some(why) } else { None }
}

/// Reads a message; `None` if the memory is not a message, so that one foreign memory does not make the others unreadable.
fn readable(memory: &Memory) -> Option<Message> {
    read(memory).inspect_err(|error| tracing::warn!(id = %memory.id, %error, "a message can't be read")).ok()
}

/// Reads a message. Fails with `Corrupt` if the memory is not a message.
fn read(memory: &Memory) -> Result<Message> {
    let corrupt = |_| Error::corrupt(format!("the memory {} is no message", memory.id));
    let mut content: MessageContent = memory.trigger.to_value().map_err(corrupt)?;
    if let Some(context) = &memory.context {
        content.attachments = context.to_value::<Described>().map_err(corrupt)?.attachments;
    }
    // The status of a received message is that of the work on it, so it says nothing about a delivery.
    let is_undelivered = memory.status == Status::Failed && !memory.metadata.to_object().contains_key(TASK);
    Ok(Message { id: memory.id, created_at: memory.created_at, content, is_undelivered })
}

/// The message that was just stored.
fn message(id: MemoryId, new: NewMessage) -> Message {
    let is_undelivered = new.status == Status::Failed;
    Message { id, created_at: new.created_at, content: new.content, is_undelivered }
}
