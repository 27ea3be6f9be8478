//! Rooms, in which conversations take place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures::{StreamExt, TryStreamExt, future, stream};
use memory_core::{DocumentId, Error, Metadata, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{document_id, room_space};
use super::table::{AT_ONCE, Record, absent};
use super::{AgentId, Audience, ChannelType, EntityId, Records, RoomId, WorldId, link};

/// The prefix of the id of the direct room of a user and the agent. The user's name follows it.
pub(crate) const DIRECT: &str = "dm:";

/// A place of conversation: a channel, a chat, a thread. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// The id, unique among the rooms of the agent.
    pub id: RoomId,
    /// The name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The type of the room.
    pub channel_type: ChannelType,
    /// The platform, as in `discord`; empty by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The world to which the room belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<WorldId>,
    /// The platform's own id of the room. A topic of Telegram has the id of its chat here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<String>,
    /// Other properties, for the host.
    #[serde(default)]
    pub metadata: Metadata,
}

impl Room {
    /// Makes a room without a name, a platform and a world.
    pub fn new(id: RoomId, channel_type: ChannelType) -> Self {
        let source = String::new();
        Self { id, name: None, channel_type, source, world: None, channel_id: None, metadata: Metadata::default() }
    }
}

impl fmt::Debug for Room {
    /// Leaves out the name and the metadata, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Room({:?}, {}, {:?})", self.id, self.channel_type, self.world)
    }
}

impl Record for Room {
    const COLLECTION: &'static str = "_rooms";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        room_document(agent, &self.id)
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        room_space(agent, &self.id)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        let mut labels = BTreeMap::from([("room", self.id.as_str())]);
        labels.extend(self.world.as_ref().map(|world| ("world", world.as_str())));
        labels
    }
}

fn room_document(agent: &AgentId, id: &RoomId) -> Result<DocumentId> {
    document_id(agent, [id.as_str()])
}

/// The rooms of an agent; see [`Records::rooms`].
#[derive(Debug, Clone, Copy)]
pub struct Rooms<'a> {
    records: &'a Records,
}

/// The most rooms, beside the audience's own, whose records are shown: those that the audience's entity joined last.
const MAX_OTHERS: usize = 100;
impl Records {
    /// The rooms of the agent.
    pub fn rooms(&self) -> Rooms<'_> {
        Rooms { records: self }
    }
}

impl Rooms<'_> {
    /// Stores a room unless it exists. Returns whether it was stored.
    pub async fn ensure(&self, room: &Room) -> Result<bool> {
        // A room that exists has its link already, so the links of a large world need not be read for each message.
        let known: Option<Room> = self.records.table().get(&room_document(self.records.agent(), &room.id)?).await?;
        if known.is_some() {
            return Ok(false);
        }
        self.link(room).await?;
        self.records.table().ensure(room, self.records.now()).await
    }

    /// Changes a room by compare-and-set; `change` is called again after a lost race. The id stays. Fails with `NotFound` if the room does
    /// not exist.
    pub async fn update(&self, id: &RoomId, change: impl Fn(&mut Room)) -> Result<Room> {
        let document = room_document(self.records.agent(), id)?;
        let change = |room: Option<Room>| {
            let mut room = room.ok_or_else(|| absent("room"))?;
            change(&mut room);
            room.id = id.clone();
            Ok(room)
        };
        // The link is written before the room. If a concurrent change moves the room to another world, this link is left dangling.
        self.link(&change(self.records.table().get(&document).await?)?).await?;
        let room = self.records.table().change(&document, self.records.now(), change).await?;
        self.link(&room).await?;
        Ok(room)
    }

    /// Returns the audience's room, if it exists.
    pub async fn get(&self, audience: &Audience) -> Result<Option<Room>> {
        self.records.table().get(&room_document(self.records.agent(), &audience.room)?).await
    }

    /// Returns the rooms of the audience's world, in the order in which they became known: the audience's room, and those in which the
    /// audience's entity takes part. For the agent it returns all of them. It returns none if the room belongs to no world.
    pub async fn of_world(&self, audience: &Audience) -> Result<Vec<Room>> {
        let Some(world) = self.get(audience).await?.and_then(|room| room.world) else { return Ok(Vec::new()) };
        let mut linked = self.records.linked(link::Kind::WorldRooms, world.as_str()).await?;
        if audience.entity != self.records.agent().entity() {
            let own = self.common(&BTreeSet::from([audience.entity.clone()]), &audience.entity, usize::MAX).await?;
            let own: BTreeSet<_> = own.iter().chain([&audience.room]).map(RoomId::as_str).collect();
            linked.retain(|room| own.contains(room.as_str()));
        }
        let document = |room: &String| document_id(self.records.agent(), [room.as_str()]);
        let documents: Vec<_> = linked.iter().map(document).collect::<Result<_>>()?;
        let mut rooms: Vec<Room> = self.records.table().get_many(documents).await?;
        rooms.retain(|room| room.world.as_ref() == Some(&world));
        Ok(rooms)
    }

    /// Returns the rooms in which both the audience's entity and another take part. The rooms that the audience's entity joined last come
    /// first; if it is the agent, the rooms that the other entity joined last.
    pub async fn shared(&self, audience: &Audience, other: &EntityId) -> Result<Vec<RoomId>> {
        let both = BTreeSet::from([audience.entity.clone(), other.clone()]);
        self.common(&both, &audience.entity, usize::MAX).await
    }

    /// Returns the rooms whose records the audience may see: its own room first; then, if that is stored as a
    /// [direct](ChannelType::is_direct) room, up to 100 rooms in which all its participants take part, those first that the audience's
    /// entity joined last.
    ///
    /// The agent does not count as a participant, since it is in all of its rooms. If it is alone in its own room, it sees the rooms that
    /// became known last. If not all participants of the room are known, no other room is shown.
    pub async fn readable(&self, audience: &Audience) -> Result<Vec<RoomId>> {
        let mut rooms = vec![audience.room.clone()];
        let Some(room) = self.get(audience).await?.filter(|room| room.channel_type.is_direct()) else {
            return Ok(rooms);
        };
        // `None` if participants were dropped from the list: one of them may listen.
        let Some(present) = self.records.participants().all_of_room(audience).await? else { return Ok(rooms) };
        let mut listeners: BTreeSet<_> = present.into_iter().map(|participant| participant.entity).collect();
        listeners.insert(audience.entity.clone());
        listeners.remove(&self.records.agent().entity());
        if listeners.is_empty() && room.channel_type != ChannelType::Own {
            return Ok(rooms);
        }
        // One more, since the audience's own room may be among them.
        let mut others = self.common(&listeners, &audience.entity, MAX_OTHERS + 1).await?;
        others.retain(|room| *room != audience.room);
        others.truncate(MAX_OTHERS);
        rooms.extend(others);
        Ok(rooms)
    }

    /// Returns the rooms in which all of these entities take part; the rooms that `first` joined last come first. If the agent is the only
    /// entity, returns the rooms that became known last.
    async fn common(&self, entities: &BTreeSet<EntityId>, first: &EntityId, limit: usize) -> Result<Vec<RoomId>> {
        let (participants, agent) = (self.records.participants(), self.records.agent().entity());
        let others = entities.iter().filter(|entity| *entity != first);
        let mut linked = [first].into_iter().chain(others).filter(|entity| **entity != agent);
        let Some(first) = linked.next() else {
            let rooms: Vec<Room> = self.records.table().newest(limit).await?;
            return Ok(rooms.into_iter().map(|room| room.id).collect());
        };
        let mut rooms = participants.rooms_of(first).await?;
        rooms.reverse();
        // The links only narrow the candidates, often to a single room. The participants of the rooms decide.
        for entity in linked {
            if rooms.len() <= 1 {
                break;
            }
            let theirs: BTreeSet<_> = participants.rooms_of(entity).await?.into_iter().collect();
            rooms.retain(|room| theirs.contains(room));
        }
        let checked = stream::iter(rooms).map(|room| async move {
            let is_common = participants.are_in(&room, entities).await?;
            Ok::<_, Error>(is_common.then_some(room))
        });
        checked.buffered(AT_ONCE).try_filter_map(future::ok).take(limit).try_collect().await
    }

    async fn link(&self, room: &Room) -> Result<()> {
        match &room.world {
            Some(world) => self.records.link(link::Kind::WorldRooms, world.as_str(), room.id.as_str()).await,
            None => Ok(()),
        }
    }
}
