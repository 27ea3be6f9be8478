//! A room in which people talk to an agent.

use memory_core::{Error, MemoryId, Result};

use super::{Agent, Answer, AnswerStream};
use crate::flow::Incoming;
use crate::flow::platform::Origin;
use crate::records::{Entity, EntityId, Message, NewMessage, Room};
use crate::state::State;

/// A room in which people talk to an agent; see [`Agent::room`].
#[derive(Debug, Clone)]
pub struct Conversation {
    agent: Agent,
    room: Room,
}

/// Whether the agent is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    ToTheAgent,
    InTheRoom,
}

impl Conversation {
    pub(super) fn new(agent: Agent, room: Room) -> Self {
        Self { agent, room }
    }

    /// Asks the agent on behalf of a user; see [`Agent::ask`].
    pub async fn ask(&self, user: impl AsRef<str>, text: impl Into<String>) -> Result<Answer> {
        let (origin, incoming) = self.received(user.as_ref(), text.into(), Spoken::ToTheAgent)?;
        self.agent.receive(origin, incoming).await
    }

    /// The same with the text as it comes; see [`Agent::ask_stream`].
    pub fn ask_stream(&self, user: impl AsRef<str>, text: impl Into<String>) -> AnswerStream {
        AnswerStream::of(&self.agent, self.received(user.as_ref(), text.into(), Spoken::ToTheAgent))
    }

    /// Lets the agent hear what a user says to the room. It answers where it is called by its name, follows the room, or thinks that it is
    /// meant; else the answer has no text and ends as ignored.
    pub async fn tell(&self, user: impl AsRef<str>, text: impl Into<String>) -> Result<Answer> {
        let (origin, incoming) = self.received(user.as_ref(), text.into(), Spoken::InTheRoom)?;
        self.agent.receive(origin, incoming).await
    }

    /// The same with the text as it comes; see [`Agent::ask_stream`].
    pub fn tell_stream(&self, user: impl AsRef<str>, text: impl Into<String>) -> AnswerStream {
        AnswerStream::of(&self.agent, self.received(user.as_ref(), text.into(), Spoken::InTheRoom))
    }

    /// What the agent would know if a user asked this now: the state over which its model would be asked first.
    ///
    /// The question is not stored, and neither are its room and its author where they are not known yet. Providers run as they do for an
    /// answer, and the built-in ones ask no model but that of the vectors. `InvalidInput` and `TooLarge` as in [`Agent::ask`].
    pub async fn compose(&self, user: impl AsRef<str>, text: impl Into<String>) -> Result<State> {
        let (_, incoming) = self.received(user.as_ref(), text.into(), Spoken::ToTheAgent)?;
        incoming.check()?;
        let NewMessage { content, created_at, .. } = incoming.message;
        let message = Message { id: MemoryId::generate(), created_at, content, is_undelivered: false };
        self.agent.service().preview(message).await
    }

    /// Gives up the answers in this room that are still thought about: they end as superseded. What the agent has decided on is said and
    /// done all the same.
    pub fn interrupt(&self) {
        self.agent.service().interrupt(&self.room.id);
    }

    /// Where it takes place.
    pub fn room(&self) -> &Room {
        &self.room
    }

    fn received(&self, user: &str, text: String, spoken: Spoken) -> Result<(Origin, Incoming)> {
        let author = Entity::new(EntityId::parse(user)?, user);
        if author.id == self.agent.records().agent().entity() {
            return Err(Error::invalid("an agent is not asked by itself"));
        }
        let origin = Origin { world: None, room: self.room.clone(), author };
        let message = NewMessage::new(origin.message(text), self.agent.clock().now());
        Ok((origin, Incoming { message, is_addressed: spoken == Spoken::ToTheAgent }))
    }
}
