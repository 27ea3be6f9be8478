//! Selections: which documents a removal takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::query::Documents;
use crate::{
    Actor, Collection, DEFAULT_DEADLINE, Document, DocumentId, DocumentQuery, DocumentStore, Error, ErrorKind, Filter,
    MAX_LIMIT, QueryBuilder, Result, Spaces,
};

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
        let late =
            || Error::new(ErrorKind::Timeout, "the documents were not all examined in time: select fewer").retryable();
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
                |error| Error::new(ErrorKind::Unexpected, "the documents could not be examined").with_source(error);
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
