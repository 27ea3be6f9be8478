//! Telegram: chats are rooms, groups worlds, users entities. The types hold the parts of its JSON that identify these.

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Origin;
use crate::records::{ChannelType, Entity, EntityId, Room, RoomId, World, WorldId};

/// The value of [`Room::source`].
const SOURCE: &str = "telegram";

/// A chat: the fields of Telegram's `Chat` from which a room and a world are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// The id, unique on the platform.
    pub id: i64,
    /// The type of the chat.
    #[serde(rename = "type")]
    pub kind: ChatKind,
    /// The title; a chat with one person has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The type of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatKind {
    /// A chat with one person.
    Private,
    /// A small group.
    Group,
    /// A large group.
    Supergroup,
    /// A channel of posts.
    Channel,
}

/// A user: the fields of Telegram's `User` from which an entity is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelegramUser {
    /// The id, unique on the platform.
    pub id: i64,
    /// The first name; with the last name it is the usual name of the entity.
    pub first_name: String,
    /// The last name, if the user has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_name: Option<String>,
    /// The user name, unique on the platform, if the user has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
}

impl EntityId {
    /// Returns the entity id of a Telegram user.
    pub fn of_telegram(user: i64) -> Result<Self> {
        Self::parse(format!("{SOURCE}:{user}"))
    }
}

impl RoomId {
    /// Returns the room id of a Telegram chat, or of a topic in it.
    pub fn of_telegram(chat: i64, topic: Option<i64>) -> Result<Self> {
        match topic {
            Some(topic) => Self::parse(format!("{SOURCE}:{chat}:{topic}")),
            None => Self::parse(format!("{SOURCE}:{chat}")),
        }
    }
}

impl WorldId {
    /// Returns the world id of a Telegram group or channel.
    pub fn of_telegram(chat: i64) -> Result<Self> {
        Self::parse(format!("{SOURCE}:{chat}"))
    }
}

impl ChatKind {
    /// The room type of the chat.
    pub const fn channel_type(self) -> ChannelType {
        match self {
            Self::Private => ChannelType::Dm,
            Self::Group | Self::Supergroup => ChannelType::Group,
            Self::Channel => ChannelType::Feed,
        }
    }
}

impl TryFrom<&TelegramUser> for Entity {
    type Error = Error;

    fn try_from(user: &TelegramUser) -> Result<Self> {
        let name = match &user.last_name {
            Some(last) => format!("{} {last}", user.first_name),
            None => user.first_name.clone(),
        };
        let mut entity = Self::new(EntityId::of_telegram(user.id)?, name);
        entity.names.extend(user.username.clone().filter(|name| *name != entity.names[0]));
        Ok(entity)
    }
}

impl Origin {
    /// Returns the origin of a message in a chat, or in a topic, which is a thread. A group or channel is both a world and a room in it; a
    /// private chat has no world.
    pub fn of_telegram(chat: &Chat, topic: Option<i64>, author: &TelegramUser) -> Result<Self> {
        let world = match chat.kind {
            ChatKind::Private => None,
            ChatKind::Group | ChatKind::Supergroup | ChatKind::Channel => {
                let mut world = World::new(WorldId::of_telegram(chat.id)?);
                world.name = chat.title.clone();
                Some(world)
            }
        };
        let channel_type = if topic.is_some() { ChannelType::Thread } else { chat.kind.channel_type() };
        let mut room = Room::new(RoomId::of_telegram(chat.id, topic)?, channel_type);
        room.name = chat.title.clone();
        room.source = SOURCE.to_owned();
        room.world = world.as_ref().map(|world| world.id.clone());
        room.channel_id = Some(chat.id.to_string());
        Ok(Self { world, room, author: author.try_into()? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn user() -> TelegramUser {
        let user = json!({ "id": 7, "is_bot": false, "first_name": "Ana", "last_name": "Li", "username": "ana" });
        from_value(user).expect("as the API has it")
    }

    #[test]
    fn chats_are_rooms_and_groups_worlds() {
        use ChannelType::{Dm, Feed, Group, Thread};
        for (kind, topic, room, world, channel_type) in [
            ("private", None, "telegram:-5", None, Dm),
            ("group", None, "telegram:-5", Some("telegram:-5"), Group),
            ("supergroup", None, "telegram:-5", Some("telegram:-5"), Group),
            ("supergroup", Some(3), "telegram:-5:3", Some("telegram:-5"), Thread),
            ("channel", None, "telegram:-5", Some("telegram:-5"), Feed),
        ] {
            let chat = json!({ "id": -5, "type": kind, "title": "Shop", "is_forum": true });
            let chat: Chat = from_value(chat).expect("as the API has it");
            let origin = Origin::of_telegram(&chat, topic, &user()).expect("valid");
            assert_eq!((origin.room.id.as_str(), origin.room.channel_type), (room, channel_type), "{kind}");
            assert_eq!(origin.world.as_ref().map(|world| world.id.as_str()), world, "{kind}");
            assert_eq!(origin.room.world, origin.world.map(|world| world.id), "{kind}");
            assert_eq!((origin.room.source.as_str(), origin.room.channel_id.as_deref()), ("telegram", Some("-5")));
        }
    }

    #[test]
    fn users_are_entities() {
        let entity = Entity::try_from(&user()).expect("valid");
        assert_eq!((entity.id.as_str(), &entity.names[..]), ("telegram:7", &["Ana Li", "ana"].map(Into::into)[..]));
        let bare = TelegramUser { last_name: None, username: Some("Ana".into()), ..user() };
        assert_eq!(Entity::try_from(&bare).expect("valid").names, ["Ana"]);
    }
}
