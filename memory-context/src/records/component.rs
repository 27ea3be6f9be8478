//! Components: typed parts of entities.

use std::collections::BTreeMap;

use memory_core::{DocumentId, Error, Result, SpaceId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layout::{agent_space, document_id};
use super::table::Record;
use super::{AgentId, Audience, EntityId, Records};

/// A component of an entity, such as its preferences.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Component {
    entity: EntityId,
    kind: String,
    data: Value,
}

impl Record for Component {
    const COLLECTION: &'static str = "_components";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        component_document(agent, &self.entity, &self.kind)
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        agent_space(agent)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([("entity", self.entity.as_str()), ("type", self.kind.as_str())])
    }
}

fn component_document(agent: &AgentId, entity: &EntityId, kind: &str) -> Result<DocumentId> {
    document_id(agent, [entity.as_str(), kind])
}

/// The longest name of a component type, in bytes.
const MAX_KIND: usize = 64;

/// The components of entities; see [`Records::components`].
///
/// ```
/// # use memory_context::records::{AgentId, Audience, Entity, EntityId, Records, RoomId};
/// # use memory_core::{InMemory, MemoryProvider};
/// # use std::sync::Arc;
/// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
/// struct Preferences { language: String }
///
/// # #[tokio::main] async fn main() -> memory_core::Result<()> {
/// # let provider = Arc::new(InMemory::new());
/// # provider.init().await?;
/// let records = Records::new(provider, AgentId::parse("ada")?);
/// let (room, ana) = (RoomId::parse("telegram:42")?, EntityId::parse("ana")?);
/// let spanish = Preferences { language: "es".into() };
/// records.components().put(&ana, "preferences", &spanish).await?;
///
/// let audience = Audience::new(room, ana.clone());
/// let known = records.components().get(&audience, &ana, "preferences").await?;
/// assert_eq!(known, Some(spanish));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Components<'a> {
    records: &'a Records,
}

impl Records {
    /// The components of entities: typed parts, such as preferences.
    pub fn components(&self) -> Components<'_> {
        Components { records: self }
    }
}

impl Components<'_> {
    /// Returns the component of this type, if the audience may see the entity by the rule of [`Entities::named`](super::Entities::named).
    /// Fails with `Corrupt` if the component is not a `T`.
    pub async fn get<T: DeserializeOwned>(
        &self,
        audience: &Audience,
        entity: &EntityId,
        kind: &str,
    ) -> Result<Option<T>> {
        if !self.records.entities().is_shown(audience, entity).await? {
            return Ok(None);
        }
        let document = component_document(self.records.agent(), entity, kind)?;
        let component: Option<Component> = self.records.table().get(&document).await?;
        let data = component.map(|component| serde_json::from_value(component.data));
        data.transpose().map_err(|_| Error::corrupt(format!("the component {document} holds something else")))
    }

    /// Stores a component, in place of the one of this type that the entity has. Fails with `InvalidInput` if the type's name is empty or
    /// the component has no JSON form, and with `TooLarge` if the name has more than 64 bytes or the JSON more than 1 MiB.
    pub async fn put<T: Serialize + Sync>(&self, entity: &EntityId, kind: &str, part: &T) -> Result<()> {
        if kind.is_empty() {
            return Err(Error::invalid("the type of a component must not be empty"));
        }
        if kind.len() > MAX_KIND {
            return Err(Error::too_large(format!("a type of {} bytes; at most {MAX_KIND} are allowed", kind.len())));
        }
        let data = serde_json::to_value(part)
            .map_err(|error| Error::invalid("the component has no JSON form").with_source(error))?;
        let component = Component { entity: entity.clone(), kind: kind.to_owned(), data };
        let document = component.id(self.records.agent())?;
        self.records.table().change(&document, self.records.now(), |_| Ok(component.clone())).await.map(drop)
    }

    /// Removes the component of this type. Returns whether the entity had it.
    pub async fn remove(&self, entity: &EntityId, kind: &str) -> Result<bool> {
        let document = component_document(self.records.agent(), entity, kind)?;
        self.records.table().remove::<Component>(document).await
    }
}
