//! Relationships between entities.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use memory_core::{DocumentId, MemoryId, Metadata, Result, SpaceId, Timestamp};
use serde::{Deserialize, Serialize};

use super::layout::{agent_space, document_id};
use super::link::Kind;
use super::table::Record;
use super::{AgentId, Audience, EntityId, Records};

/// A relationship between two entities, in one direction. Its JSON has camelCase names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Relationship {
    /// The entity that the relationship starts from.
    pub source: EntityId,
    /// The entity that the relationship leads to.
    pub target: EntityId,
    /// Tags that describe the relationship.
    pub tags: BTreeSet<String>,
    /// The number of interactions.
    pub interactions: u64,
    /// The time of the last interaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_interaction_at: Option<Timestamp>,
    /// Other properties, for the host.
    #[serde(default)]
    pub metadata: Metadata,
    /// The last messages that were counted as interactions, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counted: Vec<MemoryId>,
}

/// How many counted messages are remembered, so that they are not counted twice.
const COUNTED: usize = 16;

impl fmt::Debug for Relationship {
    /// Leaves out tags and metadata, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, target, tags) = (&self.source, &self.target, self.tags.len());
        write!(f, "Relationship({source:?} to {target:?}, {tags} tags, {} interactions)", self.interactions)
    }
}

impl Record for Relationship {
    const COLLECTION: &'static str = "_relationships";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        document_id(agent, [self.source.as_str(), self.target.as_str()])
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        agent_space(agent)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([("source", self.source.as_str()), ("target", self.target.as_str())])
    }
}

/// The relationships that an agent knows; see [`Records::relationships`].
#[derive(Debug, Clone, Copy)]
pub struct Relationships<'a> {
    records: &'a Records,
}

impl Records {
    /// The relationships between entities.
    pub fn relationships(&self) -> Relationships<'_> {
        Relationships { records: self }
    }
}

impl Relationships<'_> {
    /// Counts one interaction and adds tags; creates the relationship if there is none. Concurrent calls lose nothing.
    pub async fn interact(
        &self,
        source: &EntityId,
        target: &EntityId,
        tags: impl IntoIterator<Item = String>,
        at: Timestamp,
    ) -> Result<Relationship> {
        let tags: BTreeSet<_> = tags.into_iter().collect();
        self.change(source, target, |relationship| {
            relationship.interactions += 1;
            relationship.last_interaction_at = relationship.last_interaction_at.max(Some(at));
            relationship.tags.extend(tags.iter().cloned());
        })
        .await
    }

    /// Counts a message as one interaction, unless it is one of the last 16 counted messages, since the work on a message may be repeated.
    pub(crate) async fn interact_by(
        &self,
        source: &EntityId,
        target: &EntityId,
        message: MemoryId,
        at: Timestamp,
    ) -> Result<Relationship> {
        self.change(source, target, |relationship| {
            if relationship.counted.contains(&message) {
                return;
            }
            relationship.interactions += 1;
            relationship.last_interaction_at = relationship.last_interaction_at.max(Some(at));
            relationship.counted.push(message);
            let old = relationship.counted.len().saturating_sub(COUNTED);
            relationship.counted.drain(..old);
        })
        .await
    }

    /// Changes a relationship by compare-and-set; `change` is called again after a lost race. A new relationship starts without
    /// interactions. The two entities stay.
    pub async fn change(
        &self,
        source: &EntityId,
        target: &EntityId,
        change: impl Fn(&mut Relationship),
    ) -> Result<Relationship> {
        self.records.link(Kind::Acquaintances, source.as_str(), target.as_str()).await?;
        self.records.link(Kind::Acquaintances, target.as_str(), source.as_str()).await?;
        let new = Relationship {
            source: source.clone(),
            target: target.clone(),
            tags: BTreeSet::new(),
            interactions: 0,
            last_interaction_at: None,
            metadata: Metadata::default(),
            counted: Vec::new(),
        };
        let change = |relationship: Option<Relationship>| {
            let mut relationship = relationship.unwrap_or_else(|| new.clone());
            change(&mut relationship);
            Ok(Relationship { source: source.clone(), target: target.clone(), ..relationship })
        };
        self.records.table().change(&new.id(self.records.agent())?, self.records.now(), change).await
    }

    /// Returns the relationships of the audience's entity in both directions, those with the most interactions first.
    pub async fn of(&self, audience: &Audience) -> Result<Vec<Relationship>> {
        let linked = self.records.linked(Kind::Acquaintances, audience.entity.as_str()).await?;
        let others: Vec<_> = linked.iter().map(EntityId::parse).collect::<Result<_>>()?;
        let mut found = self.between(&audience.entity, &others).await?;
        found.sort_by(|one, other| {
            let key =
                |one: &Relationship| (std::cmp::Reverse(one.interactions), one.source.clone(), one.target.clone());
            key(one).cmp(&key(other))
        });
        Ok(found)
    }

    /// Returns those of these entities with which an entity has a relationship, in either direction.
    pub(super) async fn among(&self, entity: &EntityId, others: &[EntityId]) -> Result<BTreeSet<EntityId>> {
        let found = self.between(entity, others).await?;
        Ok(found.into_iter().flat_map(|relationship| [relationship.source, relationship.target]).collect())
    }

    /// Returns the relationships of an entity with these entities, in both directions.
    async fn between(&self, entity: &EntityId, others: &[EntityId]) -> Result<Vec<Relationship>> {
        let pairs = others.iter().flat_map(|other| {
            // A relationship of an entity with itself is the same in both directions.
            let back = (other != entity).then_some([other, entity]);
            [Some([entity, other]), back].into_iter().flatten()
        });
        let ids = pairs.map(|pair| document_id(self.records.agent(), pair.map(EntityId::as_str)));
        self.records.table().get_many(ids.collect::<Result<Vec<_>>>()?).await
    }
}
