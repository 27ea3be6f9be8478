//! What rooms belong to.

use std::collections::BTreeMap;
use std::fmt;

use memory_core::{DocumentId, Metadata, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{agent_space, document_id};
use super::link::Kind;
use super::table::{Record, absent};
use super::{AgentId, Audience, EntityId, Records, WorldId};

/// A server, a group or a namespace of a platform. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    /// Unique among the worlds of the agent.
    pub id: WorldId,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EntityId>,
    /// What entities may do in it; those that are not named have no role.
    #[serde(default)]
    pub roles: BTreeMap<EntityId, WorldRole>,
    /// What else is known.
    #[serde(default)]
    pub metadata: Metadata,
}

/// What an entity may do in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WorldRole {
    /// Everything.
    Owner,
    /// To manage it.
    Admin,
    /// To take part.
    Member,
}

impl World {
    /// A world without owner and roles.
    pub fn new(id: WorldId) -> Self {
        Self { id, name: None, owner: None, roles: BTreeMap::new(), metadata: Metadata::default() }
    }
}

impl fmt::Debug for World {
    /// Payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({:?}, owner {:?}, {} roles)", self.id, self.owner, self.roles.len())
    }
}

impl Record for World {
    const COLLECTION: &'static str = "_worlds";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        world_document(agent, &self.id)
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        agent_space(agent)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        let mut labels = BTreeMap::from([("world", self.id.as_str())]);
        labels.extend(self.owner.as_ref().map(|owner| ("owner", owner.as_str())));
        labels
    }
}

fn world_document(agent: &AgentId, id: &WorldId) -> Result<DocumentId> {
    document_id(agent, [id.as_str()])
}

/// The worlds of an agent; see [`Records::worlds`].
#[derive(Debug, Clone, Copy)]
pub struct Worlds<'a> {
    records: &'a Records,
}

impl Records {
    /// What rooms belong to.
    pub fn worlds(&self) -> Worlds<'_> {
        Worlds { records: self }
    }
}

impl Worlds<'_> {
    /// Keeps a world that is not known yet; tells whether it was not.
    pub async fn ensure(&self, world: &World) -> Result<bool> {
        self.link(world).await?;
        self.records.table().ensure(world, self.records.now()).await
    }

    /// Changes a world, and changes it again when somebody else was first; `NotFound` when it is not known. The id stays.
    pub async fn update(&self, id: &WorldId, change: impl Fn(&mut World)) -> Result<World> {
        let document = world_document(self.records.agent(), id)?;
        let change = |world: Option<World>| {
            let mut world = world.ok_or_else(|| absent("world"))?;
            change(&mut world);
            world.id = id.clone();
            Ok(world)
        };
        let world = self.records.table().change(&document, self.records.now(), change).await?;
        self.link(&world).await?;
        Ok(world)
    }

    /// The world to which the audience's room belongs, if both are known.
    pub async fn get(&self, audience: &Audience) -> Result<Option<World>> {
        let room = self.records.rooms().get(audience).await?;
        let Some(world) = room.and_then(|room| room.world) else { return Ok(None) };
        self.records.table().get(&world_document(self.records.agent(), &world)?).await
    }

    /// The worlds that the audience's entity owns, in the order in which they became its own.
    pub async fn owned(&self, audience: &Audience) -> Result<Vec<World>> {
        let linked = self.records.linked(Kind::OwnedWorlds, audience.entity.as_str()).await?;
        let document = |world: &String| document_id(self.records.agent(), [world.as_str()]);
        let documents: Vec<_> = linked.iter().map(document).collect::<Result<_>>()?;
        let mut worlds: Vec<World> = self.records.table().get_many(documents).await?;
        worlds.retain(|world| world.owner.as_ref() == Some(&audience.entity));
        Ok(worlds)
    }

    /// Whether the settings of a world may be shown: it is that of the audience's room, or its owner asks.
    pub(super) async fn is_visible(&self, audience: &Audience, id: &WorldId) -> Result<bool> {
        let room = self.records.rooms().get(audience).await?;
        Ok(room.and_then(|room| room.world).as_ref() == Some(id) || self.is_owner(audience, id).await?)
    }

    /// Whether the audience's entity owns a world.
    pub(super) async fn is_owner(&self, audience: &Audience, id: &WorldId) -> Result<bool> {
        let document = world_document(self.records.agent(), id)?;
        let world: Option<World> = self.records.table().get(&document).await?;
        Ok(world.is_some_and(|world| world.owner.as_ref() == Some(&audience.entity)))
    }

    async fn link(&self, world: &World) -> Result<()> {
        match &world.owner {
            Some(owner) => self.records.link(Kind::OwnedWorlds, owner.as_str(), world.id.as_str()).await,
            None => Ok(()),
        }
    }
}
