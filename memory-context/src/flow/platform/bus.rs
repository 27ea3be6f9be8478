//! A message bus: topics are rooms, namespaces worlds, publishers entities.

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Origin;
use crate::hash;
use crate::records::{ChannelType, Entity, EntityId, Room, RoomId, World, WorldId};

/// What [`Room::source`] is.
pub const SOURCE: &str = "bus";

/// Where a message was published, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// What the topic belongs to.
    pub namespace: String,
    /// Where it was published.
    pub topic: String,
    /// Who published it.
    pub publisher: String,
}

/// A topic of a namespace; `InvalidInput` when either is empty. Names of any length go into an id by their hash.
pub fn room_id(namespace: &str, topic: &str) -> Result<RoomId> {
    RoomId::parse(id("topic", &[namespace, topic])?)
}

/// A namespace; `InvalidInput` when it is empty.
pub fn world_id(namespace: &str) -> Result<WorldId> {
    WorldId::parse(id("namespace", &[namespace])?)
}

/// A publisher of a namespace; `InvalidInput` when either is empty. Those of the same name in two namespaces are two.
pub fn entity_id(namespace: &str, publisher: &str) -> Result<EntityId> {
    EntityId::parse(id("publisher", &[namespace, publisher])?)
}

impl TryFrom<&Message> for Origin {
    type Error = Error;

    fn try_from(message: &Message) -> Result<Self> {
        let Message { namespace, topic, publisher } = message;
        let mut world = World::new(world_id(namespace)?);
        world.name = Some(namespace.clone());
        let mut room = Room::new(room_id(namespace, topic)?, ChannelType::Group);
        room.name = Some(topic.clone());
        room.source = SOURCE.to_owned();
        room.world = Some(world.id.clone());
        room.channel_id = Some(topic.clone());
        let author = Entity::new(entity_id(namespace, publisher)?, publisher);
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
        let message = Message { namespace: "shop".into(), topic: "orders".into(), publisher: "ana".into() };
        let origin = Origin::try_from(&message).expect("valid");
        let world = origin.world.expect("a namespace");
        assert_eq!((world.name.as_deref(), origin.room.name.as_deref()), (Some("shop"), Some("orders")));
        assert_eq!(origin.room.world, Some(world.id));
        assert_eq!(origin.author.names, ["ana"]);
        assert_eq!(origin.room.id, room_id("shop", "orders").expect("valid"));
    }

    #[test]
    fn no_two_names_share_an_id() {
        let rooms = [("a/b", "c"), ("a", "b/c"), ("a", "b"), ("ab", "c"), ("b", "a")];
        for (at, (namespace, topic)) in rooms.iter().enumerate() {
            let id = room_id(namespace, topic).expect("valid");
            assert!(rooms[..at].iter().all(|(namespace, topic)| room_id(namespace, topic).expect("valid") != id));
        }
        assert_ne!(room_id("a", "b").expect("valid").as_str(), entity_id("a", "b").expect("valid").as_str());
        assert_ne!(entity_id("a", "bot").expect("valid"), entity_id("b", "bot").expect("valid"));
    }

    #[test]
    fn long_and_odd_names_are_names_and_empty_ones_are_not() {
        assert!(room_id(&"x".repeat(1_000), "a\nb").is_ok());
        for refused in [room_id("", "a").map(drop), room_id("a", "").map(drop), world_id("").map(drop)] {
            assert_eq!(refused.expect_err("empty").kind(), ErrorKind::InvalidInput);
        }
    }
}
