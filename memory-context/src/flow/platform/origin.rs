//! The origin of a message: its author, room and world.

use memory_core::Result;

use crate::records::{AgentId, Audience, Entity, EntityId, MessageContent, Records, Room, World};

/// The author, the room and the world of a message, as the records to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The world of the room.
    pub world: Option<World>,
    /// The room of the message.
    pub room: Room,
    /// The author of the message.
    pub author: Entity,
}

impl Origin {
    /// Sets the agent as the author if the message is from the agent's own account on the platform, so that its echo is recognised.
    #[must_use]
    pub fn seen_by(mut self, agent: &AgentId, account: &EntityId) -> Self {
        if self.author.id == *account {
            self.author.id = agent.entity();
        }
        self
    }

    /// Stores world, room and author unless they exist, and adds author and agent to the room. It is idempotent and changes no existing
    /// record.
    pub async fn ensure(&self, records: &Records) -> Result<()> {
        self.ensure_room(records).await?;
        records.participants().join(&self.room.id, &self.author.id).await?;
        records.entities().ensure(&self.author).await.map(drop)
    }

    /// Stores world and room unless they exist, and adds the agent to the room.
    pub(crate) async fn ensure_room(&self, records: &Records) -> Result<()> {
        if let Some(world) = &self.world {
            records.worlds().ensure(world).await?;
        }
        records.rooms().ensure(&self.room).await?;
        records.participants().join(&self.room.id, &records.agent().entity()).await
    }

    /// Whether the room exists.
    pub(crate) async fn is_room_known(&self, records: &Records) -> Result<bool> {
        let audience = Audience::new(self.room.id.clone(), self.author.id.clone());
        Ok(records.rooms().get(&audience).await?.is_some())
    }

    /// Makes the content of a message with this origin.
    pub fn message(&self, text: impl Into<String>) -> MessageContent {
        let Room { id, channel_type, source, world, .. } = &self.room;
        let mut content = MessageContent::new(id.clone(), self.author.id.clone(), text);
        content.channel_type = *channel_type;
        content.source = source.clone();
        content.world = world.clone();
        content
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_core::{InMemory, MemoryProvider};

    use super::super::bus::BusMessage;
    use super::*;
    use crate::flow::is_own;
    use crate::records::ChannelType;

    fn origin(publisher: &str) -> Origin {
        let message = BusMessage { namespace: "shop".into(), topic: "orders".into(), publisher: publisher.into() };
        Origin::try_from(&message).expect("valid")
    }

    #[tokio::test]
    async fn an_origin_is_kept_once() {
        let provider: Arc<dyn MemoryProvider> = Arc::new(InMemory::new());
        provider.init().await.expect("ready");
        let records = Records::new(provider, AgentId::parse("agent").expect("valid"));
        let origin = origin("ana");
        for _ in 0..2 {
            origin.ensure(&records).await.expect("kept");
        }
        let audience = Audience::new(origin.room.id.clone(), origin.author.id.clone());
        assert_eq!(records.rooms().get(&audience).await.expect("read"), Some(origin.room.clone()));
        assert_eq!(records.worlds().get(&audience).await.expect("read"), origin.world);
        let entity = records.entities().get(&audience, &origin.author.id).await.expect("read");
        assert_eq!(entity, Some(origin.author.clone()));
        let present = records.participants().of_room(&audience).await.expect("read");
        let present: Vec<_> = present.into_iter().map(|participant| participant.entity).collect();
        assert_eq!(present, [records.agent().entity(), origin.author.id.clone()]);
    }

    #[test]
    fn the_agent_knows_its_own_account() {
        let agent = AgentId::parse("agent").expect("valid");
        let account = EntityId::of_bus("shop", "bot").expect("valid");
        for (publisher, own) in [("bot", true), ("ana", false)] {
            let content = origin(publisher).seen_by(&agent, &account).message("hello");
            assert_eq!(is_own(&agent, &content), own, "{publisher}");
        }
    }

    #[test]
    fn a_message_tells_where_it_was_said() {
        let origin = origin("ana");
        let content = origin.message("hello");
        assert_eq!((content.room, content.author), (origin.room.id, origin.author.id));
        assert_eq!((content.world, content.channel_type), (origin.room.world, ChannelType::Group));
        assert_eq!((content.source.as_str(), content.text.as_str()), ("bus", "hello"));
    }
}
