//! Documents: mutable texts in collections, apart from the ledger.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::query::Documents;
use crate::{
    Actor, Collection, DEFAULT_DEADLINE, DocumentId, DocumentQuery, DocumentStore, Error, ErrorKind, Filter, MAX_LIMIT,
    Metadata, QueryBuilder, Result, Revision, SpaceId, SpaceSelector, Spaces, Timestamp,
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
    /// The time of the last change, by the provider's clock; `None` before the first one.
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
            return Err(Error::too_large(format!("a content of {size} bytes; at most {limit} are allowed")));
        }
        if text.contains('\0') {
            return Err(Error::invalid("a content must not hold U+0000"));
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

/// Which documents a removal takes: those that satisfy all of its conditions.
///
/// It must name ids, a filter, a text or spaces; an empty selection, or `all` alone, is refused (D4).
#[derive(Debug, Clone)]
pub struct DocumentSelection {
    ids: Option<Vec<DocumentId>>,
    query: DocumentQuery,
    actor: Option<Actor>,
}

/// Maximum number of ids that one selection names.
const MAX_IDS: usize = 1_000;
/// Maximum number of documents that one removal takes, whatever `max` it is given (D4).
pub const MAX_REMOVED: usize = 10_000;
/// Maximum bytes of the documents that one removal takes (D4).
pub const MAX_REMOVED_BYTES: usize = 64 << 20;

impl DocumentSelection {
    /// Selects the documents with these ids; at most 1,000, else `TooLarge`.
    pub fn ids(collection: Collection, ids: impl IntoIterator<Item = DocumentId>) -> Result<Self> {
        Self::ids_where(ids, DocumentQuery::builder(collection).all())
    }

    /// Selects those of these ids that match a query, whose order, limit and offset are ignored.
    pub fn ids_where(ids: impl IntoIterator<Item = DocumentId>, query: QueryBuilder<Documents>) -> Result<Self> {
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Err(Error::invalid("a removal must name what it removes"));
        }
        if ids.len() > MAX_IDS {
            return Err(Error::too_large(format!("{} ids; at most {MAX_IDS} are allowed", ids.len())));
        }
        Ok(Self { ids: Some(ids), query: query.build()?, actor: None })
    }

    /// Selects the documents that match a query, whose order, limit and offset are ignored.
    ///
    /// `InvalidInput` if the query selects all spaces and has neither a filter nor a text.
    pub fn matching(query: QueryBuilder<Documents>) -> Result<Self> {
        let query = query.build()?;
        if query.spaces == Spaces::All && query.filter.is_none() && query.text.is_none() {
            return Err(Error::invalid("a removal of everything is refused: name ids, spaces, a filter or a text"));
        }
        Ok(Self { ids: None, query, actor: None })
    }

    /// Names the actor who removes them, for the history (H1).
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Returns the actor who removes them, if one is named.
    pub fn actor(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// Returns the collection that it removes from.
    pub fn collection(&self) -> &Collection {
        self.query.collection()
    }

    /// Returns the ids that are candidates, sorted and without duplicates; `None` if the query alone decides.
    pub fn candidate_ids(&self) -> Option<&[DocumentId]> {
        self.ids.as_deref()
    }

    /// Returns the query that finds the candidates if no ids are named.
    pub fn query(&self) -> &DocumentQuery {
        &self.query
    }

    /// Dry run: returns the ids that [`DocumentStore::remove`] would take, in the same order and with the same limits
    /// (D4). Fails with `Timeout` after 30 seconds.
    pub async fn preview(&self, documents: &dyn DocumentStore, max: usize) -> Result<Vec<DocumentId>> {
        let (selection, mut selected) = (Arc::new(self.clone()), Selected::new(max));
        // It makes many calls, each with a deadline of its own.
        let look = tokio::time::timeout(DEFAULT_DEADLINE, async {
            match &self.ids {
                Some(ids) => selection.preview_ids(documents, ids, &mut selected).await,
                None => selection.preview_query(documents, &mut selected).await,
            }
        });
        let late = || Error::new(ErrorKind::Timeout, "the documents were not all looked at in time").retryable();
        look.await.unwrap_or_else(|_| Err(late()))?;
        Ok(selected.into_ids())
    }

    /// Returns whether a document is selected. For engines: this decides.
    pub fn matches(&self, document: &Document) -> bool {
        let query = &self.query;
        document.collection == query.of.collection
            && self.ids.as_ref().is_none_or(|ids| ids.binary_search(&document.id).is_ok())
            && self.covers(document.space_id.as_str())
            && query.has_content::<Documents>(document)
    }

    /// Returns whether the removal searches for documents, or reads the payload of those that it names, so that it
    /// takes a permit (L8).
    pub(crate) fn is_heavy(&self) -> bool {
        let reads_payload = self.query.filter.as_ref().is_some_and(Filter::reads_payload);
        self.ids.is_none() || self.query.text.is_some() || reads_payload
    }

    /// Returns whether documents in this space are candidates.
    pub(crate) fn covers(&self, space: &str) -> bool {
        self.query.covers(space)
    }

    async fn preview_ids(
        self: &Arc<Self>,
        documents: &dyn DocumentStore,
        ids: &[DocumentId],
        selected: &mut Selected,
    ) -> Result<()> {
        for id in ids {
            match documents.get(self.collection(), id).await {
                // A document that can't be read is not selected.
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                document => self.select(document?.into_iter().collect(), selected).await?,
            }
        }
        Ok(())
    }

    /// Adds the documents that are selected. Reading texts takes long, so it runs on a blocking thread, two at a time
    /// (L8).
    async fn select(self: &Arc<Self>, mut documents: Vec<Document>, selected: &mut Selected) -> Result<()> {
        static PLACES: Semaphore = Semaphore::const_new(2);
        if self.is_heavy() {
            let selection = Arc::clone(self);
            // The semaphore is never closed. Nothing else is awaited while a permit is held.
            let place = PLACES.acquire().await;
            let look = spawn_blocking(move || {
                let _place = place;
                documents.retain(|document| selection.matches(document));
                documents
            });
            let gone =
                |error| Error::new(ErrorKind::Unexpected, "the documents could not be looked at").with_source(error);
            documents = look.await.map_err(gone)?;
        } else {
            documents.retain(|document| self.matches(document));
        }
        documents.iter().try_for_each(|document| selected.add(document))
    }

    /// Walks the documents that a removal would walk.
    async fn preview_query(self: &Arc<Self>, documents: &dyn DocumentStore, selected: &mut Selected) -> Result<()> {
        let mut query = DocumentQuery { limit: MAX_LIMIT, offset: 0, cursor: None, ..self.query.clone() };
        loop {
            let page = documents.query(&query).await?;
            page.documents.iter().try_for_each(|document| selected.add(document))?;
            match page.next {
                Some(cursor) => query.cursor = Some(cursor.to_string()),
                None => return Ok(()),
            }
        }
    }
}

/// The documents that a removal has selected so far.
pub(crate) struct Selected {
    max: usize,
    ids: BTreeSet<DocumentId>,
    bytes: usize,
}

impl Selected {
    pub(crate) fn new(max: usize) -> Self {
        Self { max: max.min(MAX_REMOVED), ids: BTreeSet::new(), bytes: 0 }
    }

    /// Adds a document; `LimitExceeded` if there are too many documents or bytes (D4). A document that is put again
    /// meanwhile is met twice.
    pub(crate) fn add(&mut self, document: &Document) -> Result<()> {
        if self.ids.insert(document.id.clone()) {
            self.bytes += document.size();
        }
        match self.ids.len() > self.max {
            true => Err(Error::limit_exceeded(self.max)),
            false if self.bytes > MAX_REMOVED_BYTES => {
                let message =
                    format!("documents of more than {MAX_REMOVED_BYTES} bytes are selected, so none is removed");
                Err(Error::new(ErrorKind::LimitExceeded, message))
            }
            false => Ok(()),
        }
    }

    /// Returns the total bytes of the documents.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the ids in ascending order.
    pub(crate) fn into_ids(self) -> Vec<DocumentId> {
        self.ids.into_iter().collect()
    }
}
