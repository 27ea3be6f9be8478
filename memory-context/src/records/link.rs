//! Links: sets of ids, each in one document, so that the cost of a look-up grows only with its result.
//!
//! A link only helps to find a record, and the record decides whether the link holds. Most links are written before their record, so that a
//! crash in between leaves a dangling link, which readers skip, and not a record that nobody finds. Links are removed only by an erasure. A
//! link to a room that its entity has left is marked, since a dangling one looks the same.

use std::collections::BTreeMap;

use memory_core::{Collection, DocumentId, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{agent_space, document_id};
use super::table::Record;
use super::{AgentId, Records};

/// The kind of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// From an entity to the rooms that it takes part in.
    EntityRooms,
    /// From a world to its rooms.
    WorldRooms,
    /// From an entity to the worlds that it owns.
    OwnedWorlds,
    /// From an entity to those with which it has a relationship in either direction.
    Acquaintances,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::EntityRooms => "entityRooms",
            Self::WorldRooms => "worldRooms",
            Self::OwnedWorlds => "ownedWorlds",
            Self::Acquaintances => "acquaintances",
        }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Link {
    kind: Kind,
    from: String,
    /// The linked ids, in the order in which they were added.
    to: Vec<String>,
    /// Those of them that were left and not added again since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

impl Link {
    fn new(kind: Kind, from: &str) -> Self {
        Self { kind, from: from.to_owned(), to: Vec::new(), left: Vec::new() }
    }
}

impl Record for Link {
    const COLLECTION: &'static str = "_links";

    fn id(&self, agent: &AgentId) -> Result<DocumentId> {
        link_document(agent, self.kind, &self.from)
    }

    fn space(&self, agent: &AgentId) -> Result<SpaceId> {
        agent_space(agent)
    }

    fn labels(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([("kind", self.kind.as_str()), ("from", self.from.as_str())])
    }
}

fn link_document(agent: &AgentId, kind: Kind, from: &str) -> Result<DocumentId> {
    document_id(agent, [kind.as_str(), from])
}

impl Records {
    /// The ids that are linked from this one, in the order in which they were added. Each was validated when it was added.
    pub(super) async fn linked(&self, kind: Kind, from: &str) -> Result<Vec<String>> {
        let link: Option<Link> = self.table().get(&link_document(self.agent(), kind, from)?).await?;
        Ok(link.map(|link| link.to).unwrap_or_default())
    }

    /// Whether a link is marked as left.
    pub(super) async fn is_left(&self, kind: Kind, from: &str, to: &str) -> Result<bool> {
        let link: Option<Link> = self.table().get(&link_document(self.agent(), kind, from)?).await?;
        Ok(link.is_some_and(|link| link.left.iter().any(|left| left == to)))
    }

    /// Adds a link unless it exists, and removes its mark as left. Fails with `TooLarge` if the document of links is full, at 1 MiB.
    pub(super) async fn link(&self, kind: Kind, from: &str, to: &str) -> Result<()> {
        let document = link_document(self.agent(), kind, from)?;
        let change = |link: Option<Link>| {
            let mut link = link.unwrap_or_else(|| Link::new(kind, from));
            link.left.retain(|left| left != to);
            if !link.to.iter().any(|known| known == to) {
                link.to.push(to.to_owned());
            }
            Ok(link)
        };
        self.table().change(&document, self.now(), change).await.map(drop)
    }

    /// Marks a link as left, if it exists. Fails with `TooLarge` if the document of links is full, at 1 MiB.
    pub(super) async fn mark_left(&self, kind: Kind, from: &str, to: &str) -> Result<()> {
        if !self.linked(kind, from).await?.iter().any(|known| known == to) {
            return Ok(());
        }
        let document = link_document(self.agent(), kind, from)?;
        let change = |link: Option<Link>| {
            let mut link = link.unwrap_or_else(|| Link::new(kind, from));
            if !link.left.iter().any(|left| left == to) {
                link.left.push(to.to_owned());
            }
            Ok(link)
        };
        self.table().change(&document, self.now(), change).await.map(drop)
    }

    /// Removes a link, if it exists.
    pub(super) async fn unlink(&self, kind: Kind, from: &str, to: &str) -> Result<()> {
        if !self.linked(kind, from).await?.iter().any(|known| known == to) {
            return Ok(());
        }
        let document = link_document(self.agent(), kind, from)?;
        let change = |link: Option<Link>| {
            let mut link = link.unwrap_or_else(|| Link::new(kind, from));
            link.to.retain(|known| known != to);
            link.left.retain(|left| left != to);
            Ok(link)
        };
        self.table().change(&document, self.now(), change).await.map(drop)
    }

    /// The collection and the id of the document that holds these links.
    pub(super) fn link_record(&self, kind: Kind, from: &str) -> Result<(Collection, DocumentId)> {
        Ok((Collection::parse(Link::COLLECTION)?, link_document(self.agent(), kind, from)?))
    }
}
