//! A message bus: topics are rooms, namespaces worlds, publishers entities.

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Origin;
use crate::hash;
use crate::records::{ChannelType, Entity, EntityId, Room, RoomId, World, WorldId};

/// The value of [`Room::source`].
const SOURCE: &str = "bus";

/// The origin of a message on a bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusMessage {
    /// The namespace of the topic.
    pub namespace: String,
    /// The topic in which the message was published.
    pub topic: String,
    /// The publisher of the message.
    pub publisher: String,
}

impl RoomId {
    /// Returns the room of a topic. Fails with `InvalidInput` if a name is empty. The names are hashed, so they may
    /// have any length.
    pub fn of_bus(namespace: &str, topic: &str) -> Result<Self> {
        Self::parse(id("topic", &[namespace, topic])?)
    }
}

impl WorldId {
    /// Returns the world of a namespace. Fails with `InvalidInput` if its name is empty.
    pub fn of_bus(namespace: &str) -> Result<Self> {
        Self::parse(id("namespace", &[namespace])?)
    }
}

impl EntityId {
    /// Returns the entity of a publisher. Fails with `InvalidInput` if a name is empty. The same name in two namespaces makes two entities.
    pub fn of_bus(namespace: &str, publisher: &str) -> Result<Self> {
        Self::parse(id("publisher", &[namespace, publisher])?)
    }
}

impl TryFrom<&BusMessage> for Origin {
    type Error = Error;

    fn try_from(message: &BusMessage) -> Result<Self> {
        let BusMessage { namespace, topic, publisher } = message;
        let mut world = World::new(WorldId::of_bus(namespace)?);
        world.name = Some(namespace.clone());
        let mut room = Room::new(RoomId::of_bus(namespace, topic)?, ChannelType::Group);
        room.name = Some(topic.clone());
        room.source = SOURCE.to_owned();
        room.world = Some(world.id.clone());
        room.channel_id = Some(topic.clone());
        let author = Entity::new(EntityId::of_bus(namespace, publisher)?, publisher);
        Ok(Self { world: Some(world), room, author })
    }
}

fn id(kind: &str, names: &[&str]) -> Result<String> {
    if names.contains(&"") {
        return Err(Error::invalid(format!("the name of a {kind} or of its namespace is empty")));
    }
    let parts = [&[kind], names].concat();
    Ok(format!("{SOURCE}:{}", hash::of_parts(parts)))
}

#[cfg(test)]
mod tests {
    use memory_core::ErrorKind;

    use super::*;

    #[test]
    fn topics_are_rooms_of_their_namespace() {
        let message = BusMessage { namespace: "shop".into(), topic: "orders".into(), publisher: "ana".into() };
        let origin = Origin::try_from(&message).expect("valid");
        let world = origin.world.expect("a namespace");
        assert_eq!((world.name.as_deref(), origin.room.name.as_deref()), (Some("shop"), Some("orders")));
        assert_eq!(origin.room.world, Some(world.id));
        assert_eq!(origin.author.names, ["ana"]);
        assert_eq!(origin.room.id, RoomId::of_bus("shop", "orders").expect("valid"));
    }

    #[test]
    fn no_two_names_share_an_id() {
        let rooms = [("a/b", "c"), ("a", "b/c"), ("a", "b"), ("ab", "c"), ("b", "a")];
        for (at, (namespace, topic)) in rooms.iter().enumerate() {
            let id = RoomId::of_bus(namespace, topic).expect("valid");
            assert!(
                rooms[..at].iter().all(|(namespace, topic)| RoomId::of_bus(namespace, topic).expect("valid") != id)
            );
        }
        assert_ne!(
            RoomId::of_bus("a", "b").expect("valid").as_str(),
            EntityId::of_bus("a", "b").expect("valid").as_str()
        );
        assert_ne!(EntityId::of_bus("a", "bot").expect("valid"), EntityId::of_bus("b", "bot").expect("valid"));
    }

    #[test]
    fn long_and_odd_names_are_names_and_empty_ones_are_not() {
        assert!(RoomId::of_bus(&"x".repeat(1_000), "a\nb").is_ok());
        for refused in
            [RoomId::of_bus("", "a").map(drop), RoomId::of_bus("a", "").map(drop), WorldId::of_bus("").map(drop)]
        {
            assert_eq!(refused.expect_err("empty").kind(), ErrorKind::InvalidInput);
        }
    }
}
