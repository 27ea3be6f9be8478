//! Documents: mutable texts in collections, apart from the ledger.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Actor, Collection, DocumentId, Error, ErrorKind, Metadata, Result, Revision, SpaceId, SpaceSelector, Timestamp,
};

/// A document. Its JSON has camelCase names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Document {
    /// The id, unique in its collection.
    pub id: DocumentId,
    /// The collection that it belongs to.
    pub collection: Collection,
    /// The space that it lies in. A later put may change it.
    pub space_id: SpaceId,
    /// The text, at most 1 MiB.
    pub content: Content,
    /// A JSON object that filters can search.
    #[serde(default)]
    pub metadata: Metadata,
    /// When it was first put, as that caller says. Later puts don't change it (D1).
    pub created_at: Timestamp,
    /// The time of the last change, by the provider's clock; `None` before the first one. Under a retention rule the
    /// first put sets it too (X3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// 1 for a new document; each later put adds 1.
    #[serde(default)]
    pub revision: Revision,
    /// From this time on no call shows it (X1); `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Document {
    /// Returns about how much the document weighs in a page: the bytes of its space, content and metadata.
    pub fn size(&self) -> usize {
        self.space_id.as_str().len() + self.content.as_str().len() + self.metadata.as_str().len()
    }

    /// Returns whether the content equals that of another version, so that the vector stays valid (M2).
    pub fn has_texts_of(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

/// The text of a document: at most 1 MiB, without U+0000.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Content(Arc<str>);

impl Content {
    /// Maximum length, in bytes: 1 MiB.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Checks a text: `InvalidInput` if it holds U+0000, `TooLarge` over 1 MiB.
    pub fn parse(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.len() > Self::MAX_BYTES {
            let (size, limit) = (text.len(), Self::MAX_BYTES);
            return Err(Error::too_large(format!("content of {size} bytes; at most {limit} are allowed")));
        }
        if text.contains('\0') {
            return Err(Error::invalid("content must not hold U+0000"));
        }
        Ok(Self(text.into()))
    }

    /// Returns the text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Content {
    /// Shows only the size, because payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.0.len())
    }
}

impl std::str::FromStr for Content {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Content {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(text)
    }
}

impl From<Content> for String {
    fn from(content: Content) -> Self {
        content.0.as_ref().to_owned()
    }
}

/// The stored document that a put expects; otherwise the put is `Conflict` (D1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expect {
    /// Anything or nothing.
    #[default]
    Any,
    /// No document with this id.
    Absent,
    /// A document at this revision.
    Revision(Revision),
}

/// The input of a put.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DocumentWrite {
    /// The collection to write to.
    pub collection: Collection,
    /// The id; the provider makes one if it is absent.
    pub id: Option<DocumentId>,
    /// The space that the document lies in.
    pub space_id: SpaceId,
    /// The text, at most 1 MiB.
    pub content: Content,
    /// A JSON object that filters can search; empty by default.
    pub metadata: Metadata,
    /// The creation time; ignored if the document already exists.
    pub created_at: Timestamp,
    /// What must be stored; anything by default.
    pub expect: Expect,
    /// The actor who puts it, for the history (H1).
    pub actor: Option<Actor>,
    /// From this time on no call shows it (X1), whatever was stored before; never by default.
    pub expires_at: Option<Timestamp>,
    within: Option<SpaceSelector>,
    outside: Option<SpaceSelector>,
}

impl DocumentWrite {
    /// Makes a put without metadata, under an id that the provider makes.
    pub fn new(collection: Collection, space_id: SpaceId, content: Content, created_at: Timestamp) -> Self {
        let (metadata, expect, actor) = (Metadata::default(), Expect::Any, None);
        let (expires_at, within, outside) = (None, None, None);
        let id = None;
        Self { collection, id, space_id, content, metadata, created_at, expect, actor, expires_at, within, outside }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: DocumentId) -> Self {
        self.id = Some(id);
        self
    }

    /// Returns about how much the document weighs in a batch: the bytes of its space, content and metadata.
    pub fn size(&self) -> usize {
        self.space_id.as_str().len() + self.content.as_str().len() + self.metadata.as_str().len()
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Names the actor who puts it.
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Sets the time at which it expires (X1).
    #[must_use]
    pub fn expires_at(mut self, time: Timestamp) -> Self {
        self.expires_at = Some(time);
        self
    }

    /// Requires that this is stored, else the put is `Conflict` (D1).
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Confines the put to the spaces where its caller may write: neither the document nor the one that it replaces
    /// lies elsewhere.
    ///
    /// `Unauthorized` if the document would lie outside these spaces. If a document elsewhere has its id, the put is
    /// `Conflict` and reveals nothing more about it.
    pub fn within(mut self, spaces: SpaceSelector) -> Result<Self> {
        if !spaces.matches(self.space_id.as_str()) {
            return Err(Error::new(ErrorKind::Unauthorized, "this space may not be written"));
        }
        self.within = Some(spaces);
        Ok(self)
    }

    /// Keeps the put out of spaces where its caller may not write: neither the document nor the one that it replaces
    /// lies there.
    ///
    /// Fails as [`within`](Self::within) does.
    pub fn outside(mut self, spaces: SpaceSelector) -> Result<Self> {
        if spaces.matches(self.space_id.as_str()) {
            return Err(Error::new(ErrorKind::Unauthorized, "this space may not be written"));
        }
        self.outside = Some(spaces);
        Ok(self)
    }

    /// Returns the document after this put, given the one that is stored under its id. For engines: this defines a put.
    /// A provider then sets updatedAt under a retention rule (X3), and moves a createdAt that an erasure blocks (E3).
    ///
    /// `id` is the write's own, or the one that the provider made. `Conflict` if the expectation does not hold, or if
    /// the stored document lies where the put may not write.
    pub fn apply(&self, id: &DocumentId, current: Option<&Document>, now: Timestamp) -> Result<Document> {
        if let Some(document) = current {
            let is_in = |spaces: &SpaceSelector| spaces.matches(document.space_id.as_str());
            if !self.within.as_ref().is_none_or(is_in) || self.outside.as_ref().is_some_and(is_in) {
                return Err(Error::conflict("another document has this id"));
            }
        }
        match (self.expect, current) {
            (Expect::Any, _) | (Expect::Absent, None) => {}
            (Expect::Absent, Some(_)) => return Err(Error::conflict("the document exists already")),
            (Expect::Revision(wanted), Some(document)) if document.revision == wanted => {}
            (Expect::Revision(wanted), Some(document)) => {
                return Err(Error::conflict(format!("the revision is {}, not {wanted}", document.revision)));
            }
            (Expect::Revision(_), None) => return Err(Error::conflict("the document does not exist")),
        }
        Ok(Document {
            id: id.clone(),
            collection: self.collection.clone(),
            space_id: self.space_id.clone(),
            content: self.content.clone(),
            metadata: self.metadata.clone(),
            created_at: current.map_or(self.created_at, |document| document.created_at),
            updated_at: current.map(|_| now),
            revision: current.map_or(Ok(Revision::FIRST), |document| document.revision.next())?,
            expires_at: self.expires_at,
        })
    }
}
