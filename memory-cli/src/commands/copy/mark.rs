//! How far a target has come that follows a source: a document of the target itself.

use memory_core::{
    Clock as _, Collection, Content, DocumentId, DocumentSelection, DocumentStore, DocumentWrite, ErrorKind, Expect,
    Result, SpaceId, SystemClock, WatchFrom,
};
use serde::{Deserialize, Serialize};

/// The collection that no copy takes along, since what is in it belongs to its target.
const COLLECTION: &str = "_follow";
const ID: &str = "source";

/// How far the target has come. Written behind what it tells of, so that whoever goes on from it repeats some of that at most.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mark {
    /// What the feed goes on behind; the beginning without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// Whether the target may hold documents whose removal was missed.
    #[serde(default)]
    pub(super) has_gap: bool,
    /// Whether the target has taken over.
    #[serde(default)]
    pub(super) is_finished: bool,
}

impl Mark {
    /// What the target has; `None` when it follows nobody yet.
    pub(super) async fn read(target: &dyn DocumentStore) -> Result<Option<Self>> {
        let Some(document) = target.get(&Self::collection()?, &DocumentId::parse(ID)?).await? else { return Ok(None) };
        let unreadable =
            |error| memory_core::Error::corrupt("what the target has noted can't be read").with_source(error);
        serde_json::from_str(document.content.as_str()).map(Some).map_err(unreadable)
    }

    /// Keeps it in the target.
    pub(super) async fn write(&self, target: &dyn DocumentStore) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|error| {
            memory_core::Error::new(ErrorKind::Unexpected, "a mark can't be written").with_source(error)
        })?;
        let (space, content) = (SpaceId::parse("follow")?, Content::parse(text)?);
        let write = DocumentWrite::new(Self::collection()?, space, content, SystemClock.now());
        target.put(write.with_id(DocumentId::parse(ID)?).expect(Expect::Any)).await.map(drop)
    }

    /// Lets the target forget that it has followed.
    pub(super) async fn remove(target: &dyn DocumentStore) -> Result<()> {
        let mark = DocumentSelection::ids(Self::collection()?, [DocumentId::parse(ID)?])?;
        target.remove(&mark, 1).await.map(drop)
    }

    /// Whether documents of a collection are the source's own, and not marks.
    pub(super) fn is_copied(collection: &Collection) -> bool {
        collection.as_str() != COLLECTION
    }

    /// From where on the target goes on to follow.
    pub(super) fn from(&self) -> WatchFrom {
        self.token.clone().map_or(WatchFrom::Beginning, WatchFrom::Token)
    }

    fn collection() -> Result<Collection> {
        Collection::parse(COLLECTION)
    }
}
