//! The terminal as a platform: a place where an agent is spoken to, and where it answers.

use async_trait::async_trait;
use memory_context::flow::Platform;
use memory_context::flow::platform::Origin;
use memory_context::records::{ChannelType, Entity, EntityId, Message, Room, RoomId};
use memory_core::{Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};

/// What [`Room::source`] is.
const SOURCE: &str = "terminal";

/// Who sits at the terminal, and which conversation it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) user: &'a str,
    pub(super) room: &'a str,
    pub(super) is_group: bool,
}

/// Where answers go: to whoever writes them.
#[derive(Debug)]
pub(super) struct Terminal {
    answers: mpsc::Sender<Said>,
}

/// An answer to be written.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) message: Message,
    written: oneshot::Sender<()>,
}

impl Place<'_> {
    /// As the records have it; `InvalidInput` or `TooLarge` when the names make no ids.
    pub(super) fn origin(self) -> Result<Origin> {
        let channel_type = if self.is_group { ChannelType::Group } else { ChannelType::Dm };
        let mut room = Room::new(RoomId::parse(format!("{SOURCE}:{}", self.room))?, channel_type);
        room.name = Some(self.room.to_owned());
        room.source = SOURCE.to_owned();
        let author = Entity::new(EntityId::parse(format!("{SOURCE}:{}", self.user))?, self.user);
        Ok(Origin { world: None, room, author })
    }
}

impl Terminal {
    /// A terminal, and what is said there.
    pub(super) fn new() -> (Self, mpsc::Receiver<Said>) {
        let (answers, said) = mpsc::channel(1);
        (Self { answers }, said)
    }
}

#[async_trait]
impl Platform for Terminal {
    async fn say(&self, message: &Message) -> Result<()> {
        let gone = || Error::new(ErrorKind::Closed, "the terminal is closed");
        let (written, done) = oneshot::channel();
        let said = Said { message: message.clone(), written };
        self.answers.send(said).await.map_err(|_| gone())?;
        done.await.map_err(|_| gone())
    }
}

impl Said {
    /// Whether nobody wants it said any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.written.is_closed()
    }

    /// Tells who said it that it is written.
    pub(super) fn confirm(self) {
        // Who gave it up meanwhile does not want to know.
        let _ = self.written.send(());
    }
}
