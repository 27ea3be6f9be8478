//! The documents: translation of the contract to MongoDB.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Clock, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentSelection, DocumentStore,
    DocumentWrite, Error, ErrorKind, Outcome, RestoreReport, Result, record_rows,
};
use mongodb::ClientSession;
use mongodb::bson::{RawDocumentBuf, doc};

use crate::connection::Call;
use crate::error::{DUPLICATE_KEY, code, native, native_write};
use crate::provider::Shared;
use crate::query;
use crate::statements::{self, document_key, document_row, revision_to_bson};

/// How many documents are removed by one command.
const REMOVED: usize = 1_000;

/// The documents of a [`MongoMemory`](crate::MongoMemory).
#[derive(Debug)]
pub(crate) struct MongoDocuments {
    shared: Arc<Shared>,
}

impl MongoDocuments {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl DocumentStore for MongoDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        let id = write.id.clone().unwrap_or_else(DocumentId::generate);
        let work = async {
            let clock = self.shared.clock();
            let put = async move |call: Call| loop {
                // Only a race that was lost is run again, until the deadline.
                if let Some(document) = call.retry(|| call.put(&write, &id, &*clock)).await? {
                    return Ok(document);
                }
            };
            self.shared.call().await?.run(put).await
        };
        self.shared.gate.write("documents.put", work).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let work = async {
            let key = document_key(collection, id);
            let get = async move |call: Call| {
                let find = async || call.on.reads.documents.find_one(doc! { "_id": &key }).await.map_err(native);
                call.retry(find).await?.as_deref().map(statements::document).transpose()
            };
            self.shared.call().await?.run(get).await
        };
        self.shared.gate.read("documents.get", work).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let work = async {
            let query = query.clone();
            let read = async move |call: Call| call.retry(|| query::documents(&call.on.reads.documents, &query)).await;
            let page = self.shared.call().await?.run(read).await?;
            record_rows(page.documents.len());
            Ok(page)
        };
        self.shared.gate.read("documents.query", work).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let work = async {
            let selection = selection.clone();
            // What has changed since it was found is looked at again.
            let remove = async move |call: Call| call.retry(|| call.remove(&selection, max)).await;
            let removed = self.shared.call().await?.run(remove).await?;
            record_rows(removed.len());
            Ok(removed)
        };
        self.shared.gate.write("documents.remove", work).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async {
            let report =
                self.shared.call().await?.run(async move |call| call.restore_documents(&documents).await).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("documents.restore", work).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let work = async {
            let list = async move |call: Call| {
                let names = async || call.on.reads.documents.distinct("_id.collection", doc! {}).await.map_err(native);
                let names = call.retry(names).await?;
                let mut collections = names
                    .iter()
                    .map(|name| Collection::parse(name.as_str().unwrap_or_default()))
                    .collect::<Result<Vec<_>>>()?;
                collections.sort_unstable();
                Ok(collections)
            };
            self.shared.call().await?.run(list).await
        };
        self.shared.gate.read("documents.collections", work).await
    }
}

impl Call {
    /// `None` when the document was changed meanwhile.
    async fn put(&self, write: &DocumentWrite, id: &DocumentId, clock: &dyn Clock) -> Result<Option<Document>> {
        let find = self.on.primary.documents.find_one(doc! { "_id": document_key(&write.collection, id) });
        let present = find.await.map_err(native)?.as_deref().map(statements::document).transpose()?;
        let document = write.apply(id, present.as_ref(), clock.now())?;
        let row = document_row(&document);
        let is_written = match present {
            Some(present) => {
                let unchanged = doc! {
                    "_id": document_key(&write.collection, id),
                    "revision": revision_to_bson(present.revision),
                    // A document that was removed and put again has a first revision, too.
                    "createdAt": present.created_at.as_millis(),
                };
                let replaced = self.on.primary.documents.replace_one(unchanged, row).await.map_err(native_write)?;
                replaced.matched_count == 1
            }
            None => self.insert_document(row).await?,
        };
        Ok(is_written.then_some(document))
    }

    /// Whether there was none.
    async fn insert_document(&self, row: RawDocumentBuf) -> Result<bool> {
        match self.on.primary.documents.insert_one(row).await.map_err(native_write) {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(DUPLICATE_KEY) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Finds and removes in one transaction, which gives way when somebody else changes what it found.
    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let mut session = self.begin().await?;
        match self.remove_in(&mut session, selection, max).await {
            Ok(removed) if !removed.is_empty() => self.commit(session).await.map(|()| removed),
            result => {
                self.roll_back(session).await;
                result.map_err(|error| error.with_outcome(Outcome::NotDone))
            }
        }
    }

    async fn remove_in(
        &self,
        session: &mut ClientSession,
        selection: &DocumentSelection,
        max: usize,
    ) -> Result<Vec<DocumentId>> {
        let found = self.selected(session, selection).await?;
        if found.len() > max {
            return Err(Error::limit_exceeded(max));
        }
        for some in found.chunks(REMOVED) {
            let keys: Vec<_> = some.iter().map(|id| document_key(selection.collection(), id)).collect();
            let delete = self.on.primary.documents.delete_many(doc! { "_id": { "$in": keys } });
            delete.session(&mut *session).await.map_err(native)?;
        }
        Ok(found)
    }

    /// The selected documents, in the order of their ids. One that can't be read is not selected.
    async fn selected(&self, session: &mut ClientSession, selection: &DocumentSelection) -> Result<Vec<DocumentId>> {
        let collection = selection.collection().as_str();
        let condition = match selection.candidate_ids() {
            Some(ids) => {
                let keys: Vec<_> = ids.iter().map(|id| document_key(selection.collection(), id)).collect();
                doc! { "_id": { "$in": keys } }
            }
            None => doc! { "_id.collection": collection },
        };
        let find = self.on.primary.documents.find(condition).session(&mut *session);
        let mut rows = find.await.map_err(native)?;
        let mut found = Vec::new();
        while rows.advance(session).await.map_err(native)? {
            match statements::document(rows.current()) {
                Ok(document) if selection.matches(&document) => found.push(document.id),
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                _ => {}
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    async fn restore_documents(&self, documents: &[Document]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        for (place, document) in documents.iter().enumerate() {
            let row = document_row(document);
            if self.retry(|| self.insert_document(row.clone())).await? {
                report.written += 1;
                continue;
            }
            let key = document_key(&document.collection, &document.id);
            let find = async || self.on.primary.documents.find_one(doc! { "_id": &key }).await.map_err(native);
            // What is there and can't be read differs from what is given.
            match self.retry(find).await?.as_deref().map(statements::document).transpose() {
                Ok(Some(present)) if present == *document => report.equal += 1,
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                _ => report.conflicts.push(place),
            }
        }
        Ok(report)
    }
}
