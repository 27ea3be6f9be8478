//! A conversation with an agent in one room.

use memory_core::{Error, MemoryId, Result};

use super::{Agent, Answer, AnswerStream};
use crate::flow::Incoming;
use crate::flow::platform::Origin;
use crate::records::{Entity, EntityId, Message, NewMessage, Room};
use crate::state::State;

/// A conversation with an agent in one room; see [`Agent::room`].
#[derive(Debug, Clone)]
pub struct Conversation {
    agent: Agent,
    room: Room,
}

/// Whether a message addresses the agent.
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

    /// Like [`ask`](Self::ask), but streams the text; see [`Agent::ask_stream`].
    pub fn ask_stream(&self, user: impl AsRef<str>, text: impl Into<String>) -> AnswerStream {
        AnswerStream::of(&self.agent, self.received(user.as_ref(), text.into(), Spoken::ToTheAgent))
    }

    /// Passes on a message of a user to the room, without addressing the agent. Whether the agent answers is decided by its
    /// [rules](super::AgentBuilder::rules), for example since it follows the room, and otherwise by the small model. If it does not answer,
    /// the answer has no text and its end is [`End::Ignored`](super::End::Ignored).
    pub async fn tell(&self, user: impl AsRef<str>, text: impl Into<String>) -> Result<Answer> {
        let (origin, incoming) = self.received(user.as_ref(), text.into(), Spoken::InTheRoom)?;
        self.agent.receive(origin, incoming).await
    }

    /// Like [`tell`](Self::tell), but streams the text; see [`Agent::ask_stream`].
    pub fn tell_stream(&self, user: impl AsRef<str>, text: impl Into<String>) -> AnswerStream {
        AnswerStream::of(&self.agent, self.received(user.as_ref(), text.into(), Spoken::InTheRoom))
    }

    /// Composes the state for the first model call, as if a user asked this question now.
    ///
    /// Neither the question nor a new room or author is stored. Providers run as they do for an answer; the built-in ones call no model but
    /// the embedding model. Fails with `InvalidInput` and `TooLarge` as [`Agent::ask`] does.
    pub async fn compose(&self, user: impl AsRef<str>, text: impl Into<String>) -> Result<State> {
        let (_, incoming) = self.received(user.as_ref(), text.into(), Spoken::ToTheAgent)?;
        incoming.check()?;
        let NewMessage { content, created_at, .. } = incoming.message;
        let message = Message { id: MemoryId::generate(), created_at, content, is_undelivered: false };
        self.agent.service().preview(message).await
    }

    /// Cancels the answers in this room for which the model has not given its first answer yet; they end as superseded. Answers that are
    /// decided are still said and done.
    pub fn interrupt(&self) {
        self.agent.service().interrupt(&self.room.id);
    }

    /// The room of the conversation.
    pub fn room(&self) -> &Room {
        &self.room
    }

    fn received(&self, user: &str, text: String, spoken: Spoken) -> Result<(Origin, Incoming)> {
        let author = Entity::new(EntityId::parse(user)?, user);
        if author.id == self.agent.records().agent().entity() {
            return Err(Error::invalid("an agent can't ask itself"));
        }
        let origin = Origin { world: None, room: self.room.clone(), author };
        let message = NewMessage::new(origin.message(text), self.agent.clock().now());
        Ok((origin, Incoming { message, is_addressed: spoken == Spoken::ToTheAgent }))
    }
}
