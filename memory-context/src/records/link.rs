//! Links: sets of ids, each in one document, so that the cost of a look-up grows only with its result.
//!
//! A link only helps to find a record, and the record decides whether the link holds. Most links are written before their record, so that a
//! crash in between leaves a dangling link, which readers skip, and not a record that nobody finds. Links are removed only by an erasure. A
//! link to a room is marked until its entity has joined, since a dangling one looks like that of an entity that has left.

use std::collections::BTreeMap;

use memory_core::{Collection, DocumentId, ErrorKind, Result, SpaceId};
use serde::{Deserialize, Serialize};

use super::layout::{agent_space, document_id};
use super::table::{Record, absent};
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
    /// Those of them whose record may not be written yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    begun: Vec<String>,
}

impl Link {
    fn new(kind: Kind, from: &str) -> Self {
        Self { kind, from: from.to_owned(), to: Vec::new(), begun: Vec::new() }
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

    /// Whether a link exists, and what it leads to was written after it.
    pub(super) async fn is_linked(&self, kind: Kind, from: &str, to: &str) -> Result<bool> {
        let link: Option<Link> = self.table().get(&link_document(self.agent(), kind, from)?).await?;
        let has = |ids: &[String]| ids.iter().any(|id| id == to);
        Ok(link.is_some_and(|link| has(&link.to) && !has(&link.begun)))
    }

    /// Adds a link unless it exists. Fails with `TooLarge` if the document of links is full, at 1 MiB.
    pub(super) async fn link(&self, kind: Kind, from: &str, to: &str) -> Result<()> {
        self.add_link(kind, from, |link| add(&mut link.to, to)).await
    }

    /// Like [`link`](Self::link), and marks the link until [`end_link`](Self::end_link) says that what it leads to was
    /// written.
    pub(super) async fn begin_link(&self, kind: Kind, from: &str, to: &str) -> Result<()> {
        self.add_link(kind, from, |link| {
            add(&mut link.to, to);
            add(&mut link.begun, to);
        })
        .await
    }

    /// Removes the mark of a link, if it has one.
    pub(super) async fn end_link(&self, kind: Kind, from: &str, to: &str) -> Result<()> {
        self.change_known_link(kind, from, |link| link.begun.retain(|begun| begun != to)).await
    }

    /// Removes a link, if it exists.
    pub(super) async fn unlink(&self, kind: Kind, from: &str, to: &str) -> Result<()> {
        self.change_known_link(kind, from, |link| {
            link.to.retain(|known| known != to);
            link.begun.retain(|begun| begun != to);
        })
        .await
    }

    /// Changes a document of links, or a new one if there is none.
    async fn add_link(&self, kind: Kind, from: &str, change: impl Fn(&mut Link)) -> Result<()> {
        self.change_link(kind, from, |link| {
            let mut link = link.unwrap_or_else(|| Link::new(kind, from));
            change(&mut link);
            Ok(link)
        })
        .await
    }

    /// Changes a document of links. If there is none, as after an erasure, none is stored.
    async fn change_known_link(&self, kind: Kind, from: &str, change: impl Fn(&mut Link)) -> Result<()> {
        let changed = self.change_link(kind, from, |link| {
            let mut link = link.ok_or_else(|| absent("link"))?;
            change(&mut link);
            Ok(link)
        });
        match changed.await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            changed => changed,
        }
    }

    async fn change_link(&self, kind: Kind, from: &str, change: impl Fn(Option<Link>) -> Result<Link>) -> Result<()> {
        let document = link_document(self.agent(), kind, from)?;
        self.table().change(&document, self.now(), change).await.map(drop)
    }

    /// The collection and the id of the document that holds these links.
    pub(super) fn link_record(&self, kind: Kind, from: &str) -> Result<(Collection, DocumentId)> {
        Ok((Collection::parse(Link::COLLECTION)?, link_document(self.agent(), kind, from)?))
    }
}

fn add(ids: &mut Vec<String>, id: &str) {
    if !ids.iter().any(|known| known == id) {
        ids.push(id.to_owned());
    }
}
