//! The documents: translation of the contract to MongoDB.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Clock, Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentSelection, DocumentStore,
    DocumentWrite, Error, ErrorKind, Outcome, RestoreReport, Result, Revision, record_rows,
};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::options::ReadConcern;

use crate::connection::Call;
use crate::error::{DUPLICATE_KEY, check, code, native, native_write};
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
            let remove = async move |call: Call| loop {
                // What has changed since it was found is looked at again.
                if let Some(removed) = call.retry(|| call.remove(&selection, max)).await? {
                    return Ok(removed);
                }
            };
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

    /// `None` when some of what was found has changed meanwhile; then nothing is removed.
    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Option<Vec<DocumentId>>> {
        let found = self.selected(selection).await?;
        if found.len() > max {
            return Err(Error::limit_exceeded(max));
        }
        let ids = found.iter().map(|(id, _)| id.clone()).collect();
        if found.is_empty() {
            return Ok(Some(ids));
        }
        let mut session = self.begin().await?;
        let mut removed = 0;
        for some in found.chunks(REMOVED) {
            let delete = |(id, revision): &(DocumentId, Revision)| {
                let key = document_key(selection.collection(), id);
                doc! { "q": { "_id": key, "revision": revision_to_bson(*revision) }, "limit": 1 }
            };
            let deletes: Vec<_> = some.iter().map(delete).collect();
            let command = doc! { "delete": self.on.primary.documents.name(), "deletes": deletes };
            let answer = self.on.database.run_command(command).session(&mut session).await;
            let answer = answer.map_err(native).and_then(|answer| check(&answer).map(|()| answer));
            match answer {
                Ok(answer) => removed += answer.get("n").and_then(count).unwrap_or_default(),
                Err(error) => {
                    self.roll_back(session).await;
                    return Err(error.with_outcome(Outcome::NotDone));
                }
            }
        }
        if removed == found.len() {
            return self.commit(session).await.map(|()| Some(ids));
        }
        self.roll_back(session).await;
        Ok(None)
    }

    /// The selected documents at their revisions, in the order of their ids. One that can't be read is not selected.
    async fn selected(&self, selection: &DocumentSelection) -> Result<Vec<(DocumentId, Revision)>> {
        let collection = selection.collection().as_str();
        let condition = match selection.candidate_ids() {
            Some(ids) => {
                let keys: Vec<_> = ids.iter().map(|id| document_key(selection.collection(), id)).collect();
                doc! { "_id": { "$in": keys } }
            }
            None => doc! { "_id.collection": collection },
        };
        let find = self.on.primary.documents.find(condition).read_concern(ReadConcern::majority());
        let mut rows = find.await.map_err(native)?;
        let mut found = Vec::new();
        while rows.advance().await.map_err(native)? {
            match statements::document(rows.current()) {
                Ok(document) if selection.matches(&document) => found.push((document.id, document.revision)),
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

fn count(number: &Bson) -> Option<usize> {
    let number = number.as_i32().map(i64::from).or(number.as_i64())?;
    usize::try_from(number).ok()
}
