//! Documents: mutable texts that an agent saves, in collections, apart from the ledger.

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

/// One document. Its JSON has camelCase names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Document {
    /// Unique in its collection.
    pub id: DocumentId,
    /// The set it belongs to.
    pub collection: Collection,
    /// The space it is about. An update may change it.
    pub space_id: SpaceId,
    /// The text.
    pub content: Content,
    /// What filters can look into.
    #[serde(default)]
    pub metadata: Metadata,
    /// When it was first put, as that caller says. Later puts leave it alone (D1).
    pub created_at: Timestamp,
    /// When it was last changed, by the provider's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// How often it was put.
    #[serde(default)]
    pub revision: Revision,
    /// From when on no call shows it (X1); never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Document {
    /// About how much the document weighs in a page: the bytes of its texts.
    pub fn size(&self) -> usize {
        self.space_id.as_str().len() + self.content.as_str().len() + self.metadata.as_str().len()
    }

    /// Whether it has the same text as another version of it, and so the same vector (M2).
    pub fn has_texts_of(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

/// The text of a document: at most 1 MiB, without U+0000.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Content(Arc<str>);

impl Content {
    /// The longest text, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Checks a text; `InvalidInput` with U+0000, `TooLarge` over 1 MiB.
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

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Content {
    /// Payloads stay out of logs: only the size shows.
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

/// What a put finds in place, or else `Conflict` (D1).
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

/// A document to put.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DocumentWrite {
    /// The collection it goes to.
    pub collection: Collection,
    /// Its id; made by the provider when absent.
    pub id: Option<DocumentId>,
    /// The space it is about.
    pub space_id: SpaceId,
    /// The text.
    pub content: Content,
    /// What filters can look into; empty by default.
    pub metadata: Metadata,
    /// When it is made; of no consequence when it exists already.
    pub created_at: Timestamp,
    /// What must be in place; anything by default.
    pub expect: Expect,
    /// Who puts it, for the history (H1).
    pub actor: Option<Actor>,
    /// From when on no call shows it (X1), whatever was in place; never by default.
    pub expires_at: Option<Timestamp>,
    within: Option<SpaceSelector>,
    outside: Option<SpaceSelector>,
}

impl DocumentWrite {
    /// A put without metadata, under an id that the provider makes.
    pub fn new(collection: Collection, space_id: SpaceId, content: Content, created_at: Timestamp) -> Self {
        let (metadata, expect, actor) = (Metadata::default(), Expect::Any, None);
        let (expires_at, within, outside) = (None, None, None);
        let id = None;
        Self { collection, id, space_id, content, metadata, created_at, expect, actor, expires_at, within, outside }
    }

    /// Under this id.
    #[must_use]
    pub fn with_id(mut self, id: DocumentId) -> Self {
        self.id = Some(id);
        self
    }

    /// About how much the document weighs in a batch: the bytes of its texts.
    pub fn size(&self) -> usize {
        self.space_id.as_str().len() + self.content.as_str().len() + self.metadata.as_str().len()
    }

    /// With metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Says who puts it.
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// That expires then (X1).
    #[must_use]
    pub fn expires_at(mut self, time: Timestamp) -> Self {
        self.expires_at = Some(time);
        self
    }

    /// Only when this is in place.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Confines the put to the spaces where its caller may write: neither the document nor what it replaces lies elsewhere.
    ///
    /// `Unauthorized` when it would lie outside of them. When a document elsewhere has its id, the put is `Conflict`, and nothing else is
    /// told of that one.
    pub fn within(mut self, spaces: SpaceSelector) -> Result<Self> {
        if !spaces.matches(self.space_id.as_str()) {
            return Err(Error::new(ErrorKind::Unauthorized, "this space may not be written"));
        }
        self.within = Some(spaces);
        Ok(self)
    }

    /// Keeps the put out of spaces that its caller may not write: neither the document nor what it replaces lies there.
    ///
    /// It fails as [`within`](Self::within) does.
    pub fn outside(mut self, spaces: SpaceSelector) -> Result<Self> {
        if spaces.matches(self.space_id.as_str()) {
            return Err(Error::new(ErrorKind::Unauthorized, "this space may not be written"));
        }
        self.outside = Some(spaces);
        Ok(self)
    }

    /// The document that this leaves behind, given what is in place under its id. For engines: this is what a put means.
    ///
    /// `id` is the write's own, or the one that the provider made. `Conflict` when the expectation does not hold, or when the document in
    /// place lies where the write may not go.
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

/// Which documents a removal takes: those that satisfy everything it names.
///
/// It has to name ids, a filter, a text or spaces: neither an empty selection nor `all` alone removes anything (D4).
#[derive(Debug, Clone)]
pub struct DocumentSelection {
    ids: Option<Vec<DocumentId>>,
    query: DocumentQuery,
    actor: Option<Actor>,
}

/// The most ids that one selection names.
const MAX_IDS: usize = 1_000;
/// The most documents that one removal takes, whatever else it is asked for (D4).
pub const MAX_REMOVED: usize = 10_000;
/// The most bytes of texts that they have together (D4).
pub const MAX_REMOVED_BYTES: usize = 64 << 20;

impl DocumentSelection {
    /// The documents with these ids; at most 1,000, else `TooLarge`.
    pub fn ids(collection: Collection, ids: impl IntoIterator<Item = DocumentId>) -> Result<Self> {
        Self::ids_where(ids, DocumentQuery::builder(collection).all())
    }

    /// The documents among those with these ids that a query finds; its order, limit and offset mean nothing here.
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

    /// The documents that a query finds; its order, limit and offset mean nothing here.
    ///
    /// `InvalidInput` when the query takes all spaces and names neither a filter nor a text.
    pub fn matching(query: QueryBuilder<Documents>) -> Result<Self> {
        let query = query.build()?;
        if query.spaces == Spaces::All && query.filter.is_none() && query.text.is_none() {
            return Err(Error::invalid("a removal of everything is refused: name ids, spaces, a filter or a text"));
        }
        Ok(Self { ids: None, query, actor: None })
    }

    /// Says who removes them, for the history (H1).
    #[must_use]
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Who removes them, if that was said.
    pub fn actor(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// The collection.
    pub fn collection(&self) -> &Collection {
        self.query.collection()
    }

    /// The ids that come into question; all when `None`. Sorted, each once.
    pub fn candidate_ids(&self) -> Option<&[DocumentId]> {
        self.ids.as_deref()
    }

    /// Where to look for candidates when no ids are named.
    pub fn query(&self) -> &DocumentQuery {
        &self.query
    }

    /// What [`DocumentStore::remove`] would take, in the same order and within the same limit (D4). Removes nothing. `Timeout` after
    /// 30 seconds.
    pub async fn preview(&self, documents: &dyn DocumentStore, max: usize) -> Result<Vec<DocumentId>> {
        let (selection, mut selected) = (Arc::new(self.clone()), Selected::new(max));
        // It is many calls, with a deadline each.
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

    /// Whether a document of the collection is selected. For engines: this has the last word.
    pub fn matches(&self, document: &Document) -> bool {
        let query = &self.query;
        document.collection == query.of.collection
            && self.ids.as_ref().is_none_or(|ids| ids.binary_search(&document.id).is_ok())
            && self.covers(document.space_id.as_str())
            && query.has_content::<Documents>(document)
    }

    /// Whether the removal looks for documents, or into those that it names, so that it takes a permit (L8).
    pub(crate) fn is_heavy(&self) -> bool {
        let reads_payload = self.query.filter.as_ref().is_some_and(Filter::reads_payload);
        self.ids.is_none() || self.query.text.is_some() || reads_payload
    }

    /// Whether documents of this space come into question.
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
                // What can't be read is not selected.
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                document => self.select(document?.into_iter().collect(), selected).await?,
            }
        }
        Ok(())
    }

    /// Adds those that are selected. To look into texts takes a while: that is done on a thread of its own, and for few at once (L8).
    async fn select(self: &Arc<Self>, mut documents: Vec<Document>, selected: &mut Selected) -> Result<()> {
        static PLACES: Semaphore = Semaphore::const_new(2);
        if self.is_heavy() {
            let selection = Arc::clone(self);
            // Nobody closes the semaphore. While a place is held, no other is waited for.
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

    /// Goes over what a removal does.
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

/// What a removal takes, as far as it was found.
pub(crate) struct Selected {
    max: usize,
    ids: BTreeSet<DocumentId>,
    bytes: usize,
}

impl Selected {
    pub(crate) fn new(max: usize) -> Self {
        Self { max: max.min(MAX_REMOVED), ids: BTreeSet::new(), bytes: 0 }
    }

    /// `LimitExceeded` for one too many, by their number or by their bytes (D4). One that is put again meanwhile is met twice.
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

    /// How many bytes the documents have together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// In ascending order.
    pub(crate) fn into_ids(self) -> Vec<DocumentId> {
        self.ids.into_iter().collect()
    }
}
