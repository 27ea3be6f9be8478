//! Entities, the participants of conversations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use memory_core::{DocumentId, Metadata, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{agent_space, document_id};
use super::table::{Record, absent};
use super::{AgentId, Audience, EntityId, Records};

/// A participant of conversations, as the agent knows it: a person, a program or the agent itself. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// The id, unique among the entities of the agent.
    pub id: EntityId,
    /// The names, the usual one first.
    pub names: Vec<String>,
    /// Other properties, for the host.
    #[serde(default)]
    pub metadata: Metadata,
}

impl Entity {
    /// Makes an entity with one name.
    pub fn new(id: EntityId, name: impl Into<String>) -> Self {
        Self { id, names: vec![name.into()], metadata: Metadata::default() }
    }
}

impl fmt::Debug for Entity {
    /// Leaves out the names, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entity({:?}, {} names, {:?})", self.id, self.names.len(), self.metadata)
    }
}

impl Record for Entity {
    const COLLECTION: &'static str = "_entities";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        entity_document(agent, &self.id)
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        agent_space(agent)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([("entity", self.id.as_str())])
    }
}

fn entity_document(agent: &AgentId, id: &EntityId) -> Result<DocumentId> {
    document_id(agent, [id.as_str()])
}

/// The entities that an agent knows; see [`Records::entities`].
#[derive(Debug, Clone, Copy)]
pub struct Entities<'a> {
    records: &'a Records,
}

impl Records {
    /// The entities that the agent knows.
    pub fn entities(&self) -> Entities<'_> {
        Entities { records: self }
    }
}

impl Entities<'_> {
    /// Stores an entity unless it exists. Returns whether it was stored.
    pub async fn ensure(&self, entity: &Entity) -> Result<bool> {
        // The authors of most messages are known, and a read costs less than a write that is refused.
        if self.is_known(&entity.id).await? {
            return Ok(false);
        }
        self.records.table().ensure(entity, self.records.now()).await
    }

    /// Whether the entity exists.
    pub(crate) async fn is_known(&self, id: &EntityId) -> Result<bool> {
        let known: Option<Entity> = self.records.table().get(&entity_document(self.records.agent(), id)?).await?;
        Ok(known.is_some())
    }

    /// Changes an entity by compare-and-set; `change` is called again after a lost race. The id stays. Fails with `NotFound` if the entity
    /// does not exist.
    pub async fn update(&self, id: &EntityId, change: impl Fn(&mut Entity)) -> Result<Entity> {
        let document = entity_document(self.records.agent(), id)?;
        let change = |entity: Option<Entity>| {
            let mut entity = entity.ok_or_else(|| absent("entity"))?;
            change(&mut entity);
            entity.id = id.clone();
            Ok(entity)
        };
        self.records.table().change(&document, self.records.now(), change).await
    }

    /// Returns the entity with this id, if the audience may see it by the rule of [`named`](Self::named).
    pub async fn get(&self, audience: &Audience, id: &EntityId) -> Result<Option<Entity>> {
        Ok(self.named(audience, [id.clone()]).await?.remove(id))
    }

    /// Returns those of these entities that exist and that the audience may see: the agent, the audience's entity, the participants of the
    /// audience's room, and those with which the audience's entity has a relationship.
    pub async fn named(
        &self,
        audience: &Audience,
        ids: impl IntoIterator<Item = EntityId>,
    ) -> Result<BTreeMap<EntityId, Entity>> {
        let (agent, table) = (self.records.agent(), self.records.table());
        let shown = self.shown(audience, ids).await?;
        let documents: Vec<_> = shown.iter().map(|id| entity_document(agent, id)).collect::<Result<_>>()?;
        let found: Vec<Entity> = table.get_many(documents).await?;
        Ok(found.into_iter().map(|entity| (entity.id.clone(), entity)).collect())
    }

    /// Whether the audience may see an entity by the rule of [`named`](Self::named), even if the entity does not exist.
    pub(super) async fn is_shown(&self, audience: &Audience, id: &EntityId) -> Result<bool> {
        Ok(!self.shown(audience, [id.clone()]).await?.is_empty())
    }

    async fn shown(&self, audience: &Audience, ids: impl IntoIterator<Item = EntityId>) -> Result<Vec<EntityId>> {
        let agent = self.records.agent();
        let present = self.records.participants().of_room(audience).await?;
        let present: BTreeSet<_> = present.into_iter().map(|participant| participant.entity).collect();
        let (mut shown, mut others) = (Vec::new(), Vec::new());
        for id in BTreeSet::from_iter(ids) {
            let is_shown = id == audience.entity || id == agent.entity() || present.contains(&id);
            if is_shown { shown.push(id) } else { others.push(id) }
        }
        let related = self.records.relationships().among(&audience.entity, &others).await?;
        shown.extend(others.into_iter().filter(|id| related.contains(id)));
        Ok(shown)
    }

    /// Returns the participants of the audience's room that exist as entities, in the order in which they joined.
    pub async fn in_room(&self, audience: &Audience) -> Result<Vec<Entity>> {
        let participants = self.records.participants().of_room(audience).await?;
        let document = |id| entity_document(self.records.agent(), id);
        let documents: Vec<_> = participants.iter().map(|one| document(&one.entity)).collect::<Result<_>>()?;
        self.records.table().get_many(documents).await
    }
}
