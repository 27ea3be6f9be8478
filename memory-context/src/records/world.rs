//! Worlds, to which rooms belong.

use std::collections::BTreeMap;
use std::fmt;

use memory_core::{DocumentId, Metadata, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{agent_space, document_id};
use super::link::Kind;
use super::table::{Record, absent};
use super::{AgentId, Audience, EntityId, Records, WorldId};

/// A group of rooms: a server, a group or a namespace of a platform. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    /// The id, unique among the worlds of the agent.
    pub id: WorldId,
    /// The name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The entity that owns the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EntityId>,
    /// The roles of entities; entities that are not listed have none.
    #[serde(default)]
    pub roles: BTreeMap<EntityId, WorldRole>,
    /// Other properties, for the host.
    #[serde(default)]
    pub metadata: Metadata,
}

/// The role of an entity in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WorldRole {
    /// May do everything.
    Owner,
    /// May manage the world.
    Admin,
    /// May take part.
    Member,
}

impl World {
    /// Makes a world without a name, an owner and roles.
    pub fn new(id: WorldId) -> Self {
        Self { id, name: None, owner: None, roles: BTreeMap::new(), metadata: Metadata::default() }
    }
}

impl fmt::Debug for World {
    /// Leaves out the name and the metadata, so that payloads stay out of logs.
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
    /// The worlds of the agent.
    pub fn worlds(&self) -> Worlds<'_> {
        Worlds { records: self }
    }
}

impl Worlds<'_> {
    /// Stores a world unless it exists. Returns whether it was stored.
    pub async fn ensure(&self, world: &World) -> Result<bool> {
        self.link(world).await?;
        self.records.table().ensure(world, self.records.now()).await
    }

    /// Changes a world by compare-and-set; `change` is called again after a lost race. The id stays. Fails with `NotFound` if the world
    /// does not exist.
    pub async fn update(&self, id: &WorldId, change: impl Fn(&mut World)) -> Result<World> {
        let document = world_document(self.records.agent(), id)?;
        let change = |world: Option<World>| {
            let mut world = world.ok_or_else(|| absent("world"))?;
            change(&mut world);
            world.id = id.clone();
            Ok(world)
        };
        // The link is written before the world. If a concurrent change gives the world another owner, this link is left dangling.
        self.link(&change(self.records.table().get(&document).await?)?).await?;
        let world = self.records.table().change(&document, self.records.now(), change).await?;
        self.link(&world).await?;
        Ok(world)
    }

    /// Returns the world of the audience's room, if both exist.
    pub async fn get(&self, audience: &Audience) -> Result<Option<World>> {
        let room = self.records.rooms().get(audience).await?;
        let Some(world) = room.and_then(|room| room.world) else { return Ok(None) };
        self.records.table().get(&world_document(self.records.agent(), &world)?).await
    }

    /// Returns the worlds that the audience's entity owns, in the order in which it became their owner.
    pub async fn owned(&self, audience: &Audience) -> Result<Vec<World>> {
        let linked = self.records.linked(Kind::OwnedWorlds, audience.entity.as_str()).await?;
        let document = |world: &String| document_id(self.records.agent(), [world.as_str()]);
        let documents: Vec<_> = linked.iter().map(document).collect::<Result<_>>()?;
        let mut worlds: Vec<World> = self.records.table().get_many(documents).await?;
        worlds.retain(|world| world.owner.as_ref() == Some(&audience.entity));
        Ok(worlds)
    }

    /// Whether the audience may see the settings of a world: it is the world of the audience's room, or the audience's entity owns it.
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
