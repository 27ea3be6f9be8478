//! The participants of rooms.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{DocumentId, ErrorKind, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{document_id, room_space};
use super::link::Kind;
use super::table::{Record, absent};
use super::{AgentId, Audience, EntityId, Records, RoomId};

/// An entity in a room. Its JSON has camelCase names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Participant {
    /// The entity.
    pub entity: EntityId,
    /// Whether the entity follows or mutes the room; `None` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RoomState>,
}

/// Whether an entity follows or mutes a room. The agent's own state decides when it answers there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RoomState {
    /// The agent answers without asking a model whether to, as long as few of the newest messages are its own.
    Followed,
    /// The agent answers only if it is addressed or called by name.
    Muted,
}

/// All participants of a room, in one document, so that they take one read.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Members {
    room: RoomId,
    /// In the order in which they joined.
    participants: Vec<Participant>,
    /// Whether the earliest participants were dropped to make room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

/// The most bytes of a room's participants as JSON. The whole document is slightly larger.
const MAX_BYTES: usize = 1_000_000;

impl Members {
    /// Drops the participants that joined first until the others fit. The agent, the newcomer and participants with a state are never
    /// dropped.
    fn make_room(&mut self, agent: &EntityId, newcomer: &EntityId) {
        // An id always has a JSON form.
        let size = |one: &Participant| serde_json::to_string(one).map_or(0, |json| json.len() + 1);
        let mut over = self.participants.iter().map(size).sum::<usize>().saturating_sub(MAX_BYTES);
        let before = self.participants.len();
        self.participants.retain(|one| {
            let stays = over == 0 || one.state.is_some() || [agent, newcomer].contains(&&one.entity);
            over = if stays { over } else { over.saturating_sub(size(one)) };
            stays
        });
        self.is_cut |= self.participants.len() < before;
    }
}

impl Record for Members {
    const COLLECTION: &'static str = "_participants";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        document_id(agent, [self.room.as_str()])
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        room_space(agent, &self.room)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([("room", self.room.as_str())])
    }
}

/// The participants of an agent's rooms; see [`Records::participants`].
///
/// The participants of a room are one document of up to 1 MB, about 10,000 participants. When more join, those that joined first are
/// dropped, but never the agent and those with a state. A dropped participant joins again with its next message whose
/// run is not cut off. Until then, nothing of the room is shown to it in other rooms.
#[derive(Debug, Clone, Copy)]
pub struct Participants<'a> {
    records: &'a Records,
}

impl Records {
    /// The participants of the agent's rooms.
    pub fn participants(&self) -> Participants<'_> {
        Participants { records: self }
    }
}

impl Participants<'_> {
    /// Adds an entity to a room, unless it is in it.
    pub async fn join(&self, room: &RoomId, entity: &EntityId) -> Result<()> {
        // A participant has its link already, so the links of an entity in many rooms need not be read for each message.
        if self.members(room).await?.iter().any(|participant| participant.entity == *entity) {
            return Ok(());
        }
        // The agent has no links: it is in all of its rooms, which may be more than one document of links can hold.
        let agent = self.records.agent().entity();
        let has_link = *entity != agent;
        if has_link {
            self.records.begin_link(Kind::EntityRooms, entity.as_str(), room.as_str()).await?;
        }
        self.change(room, |members| {
            if !members.participants.iter().any(|participant| participant.entity == *entity) {
                members.participants.push(Participant { entity: entity.clone(), state: None });
                members.make_room(&agent, entity);
            }
            Ok(())
        })
        .await?;
        // It has joined; the mark of a link does no harm beside it.
        if has_link && let Err(error) = self.records.end_link(Kind::EntityRooms, entity.as_str(), room.as_str()).await {
            tracing::warn!(%error, "the link of a participant may be marked as begun");
        }
        Ok(())
    }

    /// Removes an entity from a room, if it is in it.
    pub async fn leave(&self, room: &RoomId, entity: &EntityId) -> Result<()> {
        // First, so that nothing completes a join that was cut off before.
        match self.records.end_link(Kind::EntityRooms, entity.as_str(), room.as_str()).await {
            // A damaged document of links completes nothing.
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            ended => ended?,
        }
        // A room without participants has no document, and needs none.
        if !self.members(room).await?.iter().any(|participant| participant.entity == *entity) {
            return Ok(());
        }
        self.change(room, |members| {
            members.participants.retain(|participant| participant.entity != *entity);
            Ok(())
        })
        .await
    }

    /// Sets whether an entity follows or mutes a room. Fails with `NotFound` if it is not in the room.
    pub async fn set_state(&self, room: &RoomId, entity: &EntityId, state: Option<RoomState>) -> Result<()> {
        self.change(room, |members| {
            let participant = members.participants.iter_mut().find(|participant| participant.entity == *entity);
            participant.ok_or_else(|| absent("participant"))?.state = state;
            Ok(())
        })
        .await
    }

    /// Returns a participant of the audience's room; `None` if the entity is not in it.
    pub async fn get(&self, audience: &Audience, entity: &EntityId) -> Result<Option<Participant>> {
        Ok(self.of_room(audience).await?.into_iter().find(|participant| participant.entity == *entity))
    }

    /// Returns the participants of the audience's room, in the order in which they joined.
    pub async fn of_room(&self, audience: &Audience) -> Result<Vec<Participant>> {
        self.members(&audience.room).await
    }

    /// Like [`of_room`](Self::of_room), but `None` if some were dropped.
    pub(super) async fn all_of_room(&self, audience: &Audience) -> Result<Option<Vec<Participant>>> {
        let members = self.document(&audience.room).await?;
        Ok(members.map_or(Some(Vec::new()), |members| (!members.is_cut).then_some(members.participants)))
    }

    /// The rooms that an entity other than the agent has joined, the latest last. It may have left some of them.
    pub(super) async fn rooms_of(&self, entity: &EntityId) -> Result<Vec<RoomId>> {
        let rooms = self.records.linked(Kind::EntityRooms, entity.as_str()).await?;
        rooms.iter().map(RoomId::parse).collect()
    }

    /// Whether an entity other than the agent has joined a room. It may have left it since.
    pub(crate) async fn has_joined(&self, room: &RoomId, entity: &EntityId) -> Result<bool> {
        self.records.is_linked(Kind::EntityRooms, entity.as_str(), room.as_str()).await
    }

    /// Whether all of these entities are in a room.
    pub(super) async fn are_in(&self, room: &RoomId, entities: &BTreeSet<EntityId>) -> Result<bool> {
        let present: BTreeSet<_> =
            self.members(room).await?.into_iter().map(|participant| participant.entity).collect();
        Ok(entities.is_subset(&present))
    }

    async fn members(&self, room: &RoomId) -> Result<Vec<Participant>> {
        Ok(self.document(room).await?.map(|members| members.participants).unwrap_or_default())
    }

    async fn document(&self, room: &RoomId) -> Result<Option<Members>> {
        self.records.table().get(&document_id(self.records.agent(), [room.as_str()])?).await
    }

    async fn change(&self, room: &RoomId, change: impl Fn(&mut Members) -> Result<()>) -> Result<()> {
        let document = document_id(self.records.agent(), [room.as_str()])?;
        let change = |members: Option<Members>| {
            let new = || Members { room: room.clone(), participants: Vec::new(), is_cut: false };
            let mut members = members.unwrap_or_else(new);
            change(&mut members)?;
            Ok(members)
        };
        self.records.table().change(&document, self.records.now(), change).await.map(drop)
    }
}
