//! Discord: channels are rooms, servers worlds, users entities. The types hold the parts of its JSON that identify these.

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Origin;
use crate::records::{ChannelType, Entity, EntityId, Room, RoomId, World, WorldId};

/// The value of [`Room::source`].
const SOURCE: &str = "discord";

/// A server, which the API calls a guild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guild {
    /// The snowflake of the server.
    pub id: String,
    /// The name of the server.
    pub name: String,
    /// The snowflake of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
}

/// A channel, a thread or a direct conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// The snowflake of the channel.
    pub id: String,
    /// The type of the channel, by the numbers of the API.
    #[serde(rename = "type")]
    pub kind: u8,
    /// The name of the channel; a direct conversation has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The server of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guild_id: Option<String>,
}

/// A user: the fields of Discord's user object from which an entity is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscordUser {
    /// The snowflake of the user.
    pub id: String,
    /// The user name, unique on the platform.
    pub username: String,
    /// The display name, which becomes the first name of the entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_name: Option<String>,
}

impl EntityId {
    /// Returns the entity id of a Discord user. Fails with `InvalidInput` if the id is not a snowflake.
    pub fn of_discord(user: &str) -> Result<Self> {
        Self::parse(id(user)?)
    }
}

impl RoomId {
    /// Returns the room id of a Discord channel. Fails with `InvalidInput` if the id is not a snowflake.
    pub fn of_discord(channel: &str) -> Result<Self> {
        Self::parse(id(channel)?)
    }
}

impl WorldId {
    /// Returns the world id of a Discord server. Fails with `InvalidInput` if the id is not a snowflake.
    pub fn of_discord(guild: &str) -> Result<Self> {
        Self::parse(id(guild)?)
    }
}

/// Returns the room type of a channel type. Fails with `InvalidInput` for channels without messages, such as categories. The numbers are
/// those of <https://discord.com/developers/docs/resources/channel#channel-object-channel-types>.
pub fn channel_type(kind: u8) -> Result<ChannelType> {
    match kind {
        0 | 3 => Ok(ChannelType::Group),
        1 => Ok(ChannelType::Dm),
        2 | 13 => Ok(ChannelType::VoiceGroup),
        5 => Ok(ChannelType::Feed),
        10..=12 => Ok(ChannelType::Thread),
        15 | 16 => Ok(ChannelType::Forum),
        _ => Err(Error::invalid(format!("nothing is said in a Discord channel of type {kind}"))),
    }
}

impl TryFrom<&Guild> for World {
    type Error = Error;

    fn try_from(guild: &Guild) -> Result<Self> {
        let mut world = Self::new(WorldId::of_discord(&guild.id)?);
        world.name = Some(guild.name.clone());
        world.owner = guild.owner_id.as_deref().map(EntityId::of_discord).transpose()?;
        Ok(world)
    }
}

impl TryFrom<&Channel> for Room {
    type Error = Error;

    fn try_from(channel: &Channel) -> Result<Self> {
        let mut room = Self::new(RoomId::of_discord(&channel.id)?, channel_type(channel.kind)?);
        room.name = channel.name.clone();
        room.source = SOURCE.to_owned();
        room.world = channel.guild_id.as_deref().map(WorldId::of_discord).transpose()?;
        room.channel_id = Some(channel.id.clone());
        Ok(room)
    }
}

impl TryFrom<&DiscordUser> for Entity {
    type Error = Error;

    fn try_from(user: &DiscordUser) -> Result<Self> {
        let mut names = vec![user.username.clone()];
        if let Some(name) = user.global_name.clone().filter(|name| *name != user.username) {
            names.insert(0, name);
        }
        Ok(Self { names, ..Self::new(EntityId::of_discord(&user.id)?, "") })
    }
}

impl Origin {
    /// Returns the origin of a message. Fails with `InvalidInput` if an id or a type is invalid, or if the channel belongs to another
    /// server.
    pub fn of_discord(guild: Option<&Guild>, channel: &Channel, author: &DiscordUser) -> Result<Self> {
        if guild.map(|guild| &guild.id) != channel.guild_id.as_ref() {
            return Err(Error::invalid("the Discord channel does not belong to this server"));
        }
        let world = guild.map(World::try_from).transpose()?;
        Ok(Self { world, room: channel.try_into()?, author: author.try_into()? })
    }
}

fn id(snowflake: &str) -> Result<String> {
    let number: u64 = snowflake.parse().map_err(|_| Error::invalid("the id of Discord is no snowflake"))?;
    Ok(format!("{SOURCE}:{number}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn guild() -> Guild {
        from_value(json!({ "id": "1", "name": "Shop", "owner_id": "30", "roles": [] })).expect("as the API has it")
    }

    fn user() -> DiscordUser {
        let user = json!({ "id": "30", "username": "ana", "global_name": "Ana", "discriminator": "0" });
        from_value(user).expect("as the API has it")
    }

    #[test]
    fn channels_are_rooms_of_their_server() {
        let channel = json!({ "id": "20", "type": 0, "name": "general", "guild_id": "1", "position": 3 });
        let channel: Channel = from_value(channel).expect("as the API has it");
        let origin = Origin::of_discord(Some(&guild()), &channel, &user()).expect("valid");
        let world = origin.world.expect("a server");
        assert_eq!((world.id.as_str(), world.name.as_deref()), ("discord:1", Some("Shop")));
        assert_eq!(world.owner, Some(origin.author.id.clone()));
        let room = origin.room;
        assert_eq!((room.id.as_str(), room.name.as_deref()), ("discord:20", Some("general")));
        assert_eq!((room.world, room.channel_type), (Some(world.id), ChannelType::Group));
        assert_eq!((room.source.as_str(), room.channel_id.as_deref()), ("discord", Some("20")));
        assert_eq!(
            (origin.author.id.as_str(), &origin.author.names[..]),
            ("discord:30", &["Ana", "ana"].map(Into::into)[..])
        );
        assert!(Origin::of_discord(None, &channel, &user()).is_err(), "without its server");
    }

    #[test]
    fn a_direct_conversation_belongs_to_nothing() {
        let channel: Channel = from_value(json!({ "id": "21", "type": 1 })).expect("as the API has it");
        let origin = Origin::of_discord(None, &channel, &user()).expect("valid");
        assert_eq!((origin.world, origin.room.channel_type), (None, ChannelType::Dm));
        assert!(Origin::of_discord(Some(&guild()), &channel, &user()).is_err());
    }

    #[test]
    fn channel_types_are_those_of_the_api() {
        use ChannelType::{Dm, Feed, Forum, Group, Thread, VoiceGroup};
        for (kind, channel_type) in [
            (0, Some(Group)),
            (1, Some(Dm)),
            (2, Some(VoiceGroup)),
            (3, Some(Group)),
            (4, None),
            (5, Some(Feed)),
            (10, Some(Thread)),
            (11, Some(Thread)),
            (12, Some(Thread)),
            (13, Some(VoiceGroup)),
            (14, None),
            (15, Some(Forum)),
            (16, Some(Forum)),
            (99, None),
        ] {
            assert_eq!(super::channel_type(kind).ok(), channel_type, "{kind}");
        }
    }

    #[test]
    fn ids_are_snowflakes() {
        for id in ["", "x", "-1", "1:2", "99999999999999999999"] {
            assert!(RoomId::of_discord(id).is_err(), "{id}");
        }
    }
}
