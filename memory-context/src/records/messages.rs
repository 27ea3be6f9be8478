//! The messages of rooms, in the ledger.

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

/// What became of a message to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Added {
    /// The message; where it was known before, as it was stored then.
    pub message: Message,
    /// Whether it was not known before.
    pub is_new: bool,
}

/// What became of a message to be worked on.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is stored, with the claim.
    New(Box<Message>),
    /// It was known; how it lies in the ledger now.
    Known(Box<Memory>),
}

/// A message that is worked on, as the ledger has it.
#[derive(Debug)]
pub(crate) struct OpenMessage {
    pub(crate) message: Message,
    /// The run that it came in.
    pub(crate) run: Option<MemoryId>,
    /// Whether the platform said that the agent is spoken to.
    pub(crate) is_addressed: bool,
    /// What its run has done so far.
    pub(crate) journal: Vec<Entry>,
}

/// Who said it, among the labels of a message.
pub(super) const AUTHOR: &str = "author";
/// The run that a message came in, or that said it.
const RUN: &str = "run";
/// There where the platform says that the agent is spoken to.
const ADDRESSED: &str = "addressed";
/// What decided that a message is answered, among its labels when its run is over, and before that as a step of its run.
pub(crate) const WHY: &str = "why";
/// What tells one who added a message from another.
const RECEIPT: &str = "receipt";
/// The pauses, in ms, before a message with a key is stored again.
const STORE_AGAIN: [u64; 3] = [100, 400, 1_600];
/// The pauses, in ms, before a stored message that can't be read yet is read again.
const READ_AGAIN: [u64; 6] = [10, 40, 160, 640, 1_280, 2_560];
/// How long [`Messages::earlier`] waits for the vector of a message: half as long as a prompt waits for what it gives.
const EARLIER_PATIENCE: Duration = Duration::from_millis(500);
/// The most messages of one [`Messages::interactions`].
const MAX_INTERACTIONS: usize = 100;

/// What came of a message after it was stored: the context of its memory.
#[derive(Serialize, Deserialize)]
pub(crate) struct Described {
    pub(crate) attachments: Vec<Attachment>,
    /// What its run has done so far; nothing when it is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) journal: Vec<Entry>,
}

impl Records {
    /// What was said.
    pub fn messages(&self) -> Messages<'_> {
        Messages { records: self }
    }
}

impl Messages<'_> {
    /// Appends a message to its room. One whose external id is known in the room gives the message that is there, or
    /// `Conflict` where that says something else, or was erased.
    pub async fn add(&self, new: NewMessage) -> Result<Message> {
        self.add_once(new).await.map(|added| added.message)
    }

    /// The same, and tells whether it is new: of those that bring the same external id at once, one is.
    pub async fn add_once(&self, new: NewMessage) -> Result<Added> {
        Ok(match self.store(new, &Metadata::default()).await? {
            Taken::New(message) => Added { message: *message, is_new: true },
            Taken::Known(memory) => Added { message: read(&memory)?, is_new: false },
        })
    }

    /// Appends a message that is to be worked on under a claim, unless it is known. It is `pending` until its run is over.
    pub(crate) async fn add_task(&self, mut new: NewMessage, is_addressed: bool, claim: &Claim) -> Result<Taken> {
        new.status = Status::Pending;
        let labels = metadata(is_addressed.then_some((ADDRESSED, "true")))?;
        self.store(new, &labels.merge(&claim.to_metadata()?)?).await
    }

    /// Appends what a run says or did under a key of its own: again, it is the message that is there. So it is tried again where the
    /// engine may answer otherwise.
    pub(crate) async fn add_keyed(&self, new: NewMessage, about: MemoryId, step: &str) -> Result<Message> {
        let space = messages_space(self.records.agent(), &new.content.room)?;
        let key = hash::of_parts([space.as_str(), "run", &about.to_string(), step]);
        let memory = self.memory(&new, &Metadata::default())?.with_idempotency_key(IdempotencyKey::parse(key)?);
        let mut waits = STORE_AGAIN.into_iter();
        loop {
            let error = match self.records.provider().store(memory.clone()).await {
                Ok(id) => return Ok(message(id, new)),
                // No conflict, by which a run knows that it has lost its own message.
                Err(error) => without_erasure(error, gone),
            };
            let wait = waits.next().filter(|_| may_be_repeated(&error)).ok_or(error)?;
            sleep(Duration::from_millis(wait)).await;
        }
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
        // It may be the one that was there before, whose receipt is another.
        if stored.metadata.to_object().get(RECEIPT) == Some(&Json::String(receipt)) {
            Ok(Taken::New(Box::new(message(id, new))))
        } else {
            Ok(Taken::Known(Box::new(stored)))
        }
    }

    /// What was stored. A replica that is read may not have it yet; `Unavailable` where it does not come soon, and `Conflict` where it was
    /// erased meanwhile.
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

    /// One page of the messages that are to be worked on and that nobody holds, by [`Leases::free`](memory_runtime::Leases::free), oldest
    /// first: those of a room, or of all. Costs what is open, not what the ledger holds (Q9).
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
        // The tasks of a runtime in the room have a container.
        let is_message = Field::metadata([TASK, "container"]).is_null();
        let query = MemoryQuery::builder().selector(place).status(Status::Pending).status(Status::Running);
        let query = query.filter(is_message.and(free.clone())).order(Order::OldestFirst);
        let query = cursor.into_iter().fold(query, |query, cursor| query.cursor(cursor));
        self.records.provider().query(&query.build()?).await
    }

    /// A message that is worked on from its memory; `Corrupt` when it is none of this agent.
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

    /// Whether a message that came in after this one in its room was answered, as far as the last 1,000 messages tell. `counts` says for which
    /// reasons; `None` is one that is not known.
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

    /// The message with this id, if it is one of the audience's room.
    pub async fn get(&self, audience: &Audience, id: MemoryId) -> Result<Option<Message>> {
        let memory = self.in_room(audience, id).await?;
        memory.as_ref().map(read).transpose()
    }

    /// The memory with this id, if it is one of the audience's room. One that was erased is not there.
    async fn in_room(&self, audience: &Audience, id: MemoryId) -> Result<Option<Memory>> {
        let space = messages_space(self.records.agent(), &audience.room)?;
        match self.records.provider().get(id).await {
            Err(error) if error.kind() == ErrorKind::Erased => Ok(None),
            memory => Ok(memory?.filter(|memory| memory.space_id == space)),
        }
    }

    /// The newest messages of the audience's room, newest first; at most 1,000. One recall of one space, so it costs what it
    /// returns.
    pub async fn recent(&self, audience: &Audience, limit: usize) -> Result<Vec<Message>> {
        let space = messages_space(self.records.agent(), &audience.room)?;
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

    /// What was said before a time in the room of a message and has to do with it, as far as its words tell (R4), and with an embedder its meaning
    /// (M3), oldest first. By words alone where the embedder makes no vector of it soon.
    ///
    /// Costs what the room holds: [`MAX_RECALLED`](memory_core::engine::MAX_RECALLED) messages at most.
    pub async fn earlier(&self, message: &Message, before: Timestamp, limit: usize) -> Result<Vec<Message>> {
        let space = messages_space(self.records.agent(), &message.content.room)?;
        let query = MemoryQuery::builder().exact(space).created_before(before).limit(limit.min(MAX_LIMIT)).build()?;
        // The space above that of the messages is the room, and holds them together.
        let options = RecallOptions { speaker: AUTHOR.to_owned(), ..RecallOptions::default() };
        let recall = about(&message.content.text, &query, &options)?;
        let recall = self.records.asking(EARLIER_PATIENCE).into_iter().fold(recall, Recall::by_meaning_or_words);
        let recalled = self.records.provider().recall(&recall).await?;
        let mut messages: Vec<_> = recalled.hits.iter().filter_map(|hit| readable(&hit.record)).collect();
        messages.sort_by_key(|message| (message.created_at, message.id));
        Ok(messages)
    }

    /// The newest messages up to a time of the audience's entity and of the agent in other rooms of which something may be shown in
    /// the audience's room, newest first: up to 100, of the last that were said there, ten times as many as are asked for.
    pub async fn interactions(&self, audience: &Audience, until: Timestamp, limit: usize) -> Result<Vec<Message>> {
        let mut rooms = self.records.rooms().readable(audience).await?;
        rooms.retain(|room| *room != audience.room);
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
        messages.retain(|message| [&agent, &audience.entity].contains(&&message.content.author));
        messages.truncate(limit);
        Ok(messages)
    }

    /// Keeps what is known of the attachments of a message of the audience's room now, instead of what was known before.
    /// `NotFound` when it is not there, `Conflict` while a run works on it.
    pub async fn describe(&self, audience: &Audience, id: MemoryId, attachments: Vec<Attachment>) -> Result<()> {
        let memory = self.in_room(audience, id).await?.ok_or_else(Error::not_found)?;
        if memory.status.is_open() && Claim::read(&memory).is_ok() {
            return Err(Error::conflict("a run works on the message"));
        }
        let described = Described { attachments, journal: Vec::new() };
        let patch = MemoryPatch::new().set_context(Context::from_value(&described)?);
        self.update(id, patch).await
    }

    /// Marks a message of the audience's room that could not be said after it was stored. `NotFound` when it is not there.
    pub async fn mark_undelivered(&self, audience: &Audience, id: MemoryId) -> Result<()> {
        if self.get(audience, id).await?.is_none() {
            return Err(Error::not_found());
        }
        self.update(id, MemoryPatch::new().with_status(Status::Failed)).await
    }

    /// Changes a message that was there; `NotFound` where it was erased meanwhile.
    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<()> {
        let updated = self.records.provider().update(id, patch).await;
        updated.map(drop).map_err(|error| without_erasure(error, Error::not_found))
    }
}

/// What is told instead of that a memory was erased, which only operators learn.
fn without_erasure(error: Error, told: fn() -> Error) -> Error {
    if error.kind() == ErrorKind::Erased { told().with_outcome(error.outcome()) } else { error }
}

/// What is told of a message whose external id stands for another one, in the words of the ledger.
fn taken() -> Error {
    Error::conflict("the idempotency key belongs to a memory with another trigger or space")
}

/// What is told of a step whose message is there no more.
fn gone() -> Error {
    Error::new(ErrorKind::NotFound, "what this step has said is there no more")
}

/// Whether a write that has a key, or that only sets values, may succeed when it is repeated.
pub(crate) fn may_be_repeated(error: &Error) -> bool {
    error.is_retryable() || error.outcome() == Outcome::Unknown
}

/// What decided that a message is answered, where that is kept.
fn reason(memory: &Memory) -> Option<String> {
    if let Some(Json::String(why)) = memory.metadata.to_object().get(WHY) {
        return Some(why.clone());
    }
    let journal = memory.context.as_ref()?.to_value::<Described>().ok()?.journal;
    let step = journal.into_iter().find(|entry| entry.step == WHY)?;
    if let EntryState::Done(Value::String(why)) = step.state { Some(why) } else { None }
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
    // Of what was received, the status says what became of the work on it.
    let is_undelivered = memory.status == Status::Failed && !memory.metadata.to_object().contains_key(TASK);
    Ok(Message { id: memory.id, created_at: memory.created_at, content, is_undelivered })
}

/// What was just stored.
fn message(id: MemoryId, new: NewMessage) -> Message {
    let is_undelivered = new.status == Status::Failed;
    Message { id, created_at: new.created_at, content: new.content, is_undelivered }
}
