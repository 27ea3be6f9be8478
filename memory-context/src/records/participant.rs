//! Who is in which room.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{DocumentId, Result, SpaceId};
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
    /// Who it is.
    pub entity: EntityId,
    /// How they follow the room; nothing by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RoomState>,
}

/// How an entity follows a room. That of the agent decides whether it answers there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RoomState {
    /// It attends to everything: a model is not asked first whether to answer.
    Followed,
    /// It answers only when it is called by name.
    Muted,
}

/// All that take part in a room, in one document: who is in it is one look.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Members {
    room: RoomId,
    /// In the order in which they came.
    participants: Vec<Participant>,
    /// Whether some who came first are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

/// The most bytes of the participants of a room as JSON: their document has a little more.
const MAX_BYTES: usize = 1_000_000;

impl Members {
    /// Leaves out those who came first until the others fit: not the agent, not who comes now, and nobody who follows the room in a way of
    /// their own.
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
/// Those of one room go into one document, of 1 MB: about 10,000. When more come, those who came first are left out, but for the agent and
/// who has a state. Who is left out comes back when they join again, and is shown nothing of the room elsewhere until then; an agent
/// has them join with what they say.
#[derive(Debug, Clone, Copy)]
pub struct Participants<'a> {
    records: &'a Records,
}

impl Records {
    /// Who is in which room.
    pub fn participants(&self) -> Participants<'_> {
        Participants { records: self }
    }
}

impl Participants<'_> {
    /// Puts an entity into a room, unless it is there.
    pub async fn join(&self, room: &RoomId, entity: &EntityId) -> Result<()> {
        // Who is there is linked, and the links of somebody who is in many rooms are not looked at for each message.
        if self.members(room).await?.iter().any(|participant| participant.entity == *entity) {
            return Ok(());
        }
        // The agent is in all of its rooms, which can be more than one document of links holds.
        if *entity != self.records.agent().entity() {
            self.records.link(Kind::EntityRooms, entity.as_str(), room.as_str()).await?;
        }
        let agent = self.records.agent().entity();
        self.change(room, |members| {
            if !members.participants.iter().any(|participant| participant.entity == *entity) {
                members.participants.push(Participant { entity: entity.clone(), state: None });
                members.make_room(&agent, entity);
            }
            Ok(())
        })
        .await
    }

    /// Takes an entity out of a room, if it is there.
    pub async fn leave(&self, room: &RoomId, entity: &EntityId) -> Result<()> {
        self.change(room, |members| {
            members.participants.retain(|participant| participant.entity != *entity);
            Ok(())
        })
        .await
    }

    /// Says how an entity follows a room; `NotFound` when it does not take part in it.
    pub async fn set_state(&self, room: &RoomId, entity: &EntityId, state: Option<RoomState>) -> Result<()> {
        self.change(room, |members| {
            let participant = members.participants.iter_mut().find(|participant| participant.entity == *entity);
            participant.ok_or_else(|| absent("participant"))?.state = state;
            Ok(())
        })
        .await
    }

    /// An entity in the audience's room; `None` when it does not take part in it.
    pub async fn get(&self, audience: &Audience, entity: &EntityId) -> Result<Option<Participant>> {
        Ok(self.of_room(audience).await?.into_iter().find(|participant| participant.entity == *entity))
    }

    /// Who takes part in the audience's room, in the order in which they came.
    pub async fn of_room(&self, audience: &Audience) -> Result<Vec<Participant>> {
        self.members(&audience.room).await
    }

    /// The same; `None` where some are left out.
    pub(super) async fn all_of_room(&self, audience: &Audience) -> Result<Option<Vec<Participant>>> {
        let members = self.document(&audience.room).await?;
        Ok(members.map_or(Some(Vec::new()), |members| (!members.is_cut).then_some(members.participants)))
    }

    /// The rooms that an entity other than the agent came to, those last to which it came last. It may have left some.
    pub(super) async fn rooms_of(&self, entity: &EntityId) -> Result<Vec<RoomId>> {
        let rooms = self.records.linked(Kind::EntityRooms, entity.as_str()).await?;
        rooms.iter().map(RoomId::parse).collect()
    }

    /// Whether all of these take part in a room.
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
