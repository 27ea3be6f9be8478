//! The documents: translation of the contract to PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite,
    Error, ErrorKind, RestoreReport, Result, Revision, Timestamp, record_rows, words,
};

use sqlx::postgres::PgRow;

use crate::connection::{Connections, Session, retry};
use crate::error::{native, native_write};
use crate::provider::Shared;
use crate::query;
use crate::statements::{self, column, revision_to_sql};

/// Where the rows that are selected tell what wrote them.
const WRITER: usize = 8;

/// The documents of a [`PostgresMemory`](crate::PostgresMemory).
#[derive(Debug)]
pub(crate) struct PostgresDocuments {
    shared: Arc<Shared>,
}

impl PostgresDocuments {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl DocumentStore for PostgresDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        let id = write.id.clone().unwrap_or_else(DocumentId::generate);
        let work = async {
            let connections = self.shared.connections().await?;
            loop {
                // Only a race that was lost is run again, until the deadline.
                let attempt = retry(|| connections.put(&write, &id, self.shared.config.clock.now())).await?;
                if let Some(document) = attempt {
                    return Ok(document);
                }
            }
        };
        self.shared.gate.write("documents.put", work).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let work = async {
            let connections = self.shared.connections().await?;
            let read = || async {
                let mut session = connections.read().await?;
                let document = connections.document(&mut session, collection, id).await?;
                session.commit().await.map(|()| document)
            };
            retry(read).await
        };
        self.shared.gate.read("documents.get", work).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let work = async {
            let connections = self.shared.connections().await?;
            let read = || async {
                let mut session = connections.read().await?;
                let page = query::documents(&mut session, &connections.statements, query).await?;
                session.commit().await.map(|()| page)
            };
            let page = retry(read).await?;
            record_rows(page.documents.len());
            Ok(page)
        };
        self.shared.gate.read("documents.query", work).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let work = async {
            let connections = self.shared.connections().await?;
            loop {
                // What has changed since it was found is looked at again.
                if let Some(removed) = retry(|| connections.remove(selection, max)).await? {
                    record_rows(removed.len());
                    return Ok(removed);
                }
            }
        };
        self.shared.gate.write("documents.remove", work).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.connections().await?.restore_documents(&documents).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("documents.restore", work).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let work = async {
            let connections = self.shared.connections().await?;
            let read = || async {
                let mut session = connections.read().await?;
                let rows = session.statement(&connections.statements.collections);
                let rows = rows.fetch_all(&mut *session).await.map_err(native)?;
                session.commit().await?;
                rows.iter().map(|row| Collection::parse(column::<&str>(row, 0)?)).collect()
            };
            retry(read).await
        };
        self.shared.gate.read("documents.collections", work).await
    }
}

impl Connections {
    /// `None` when the document was changed meanwhile.
    async fn put(&self, write: &DocumentWrite, id: &DocumentId, now: Timestamp) -> Result<Option<Document>> {
        let mut session = self.write().await?;
        let present = self.document(&mut session, &write.collection, id).await?;
        let document = write.apply(id, present.as_ref(), now)?;
        let is_written = match present {
            Some(present) => self.update_document(&mut session, &document, present.revision).await?,
            None => self.insert_document(&mut session, &document).await?,
        };
        session.commit().await?;
        Ok(is_written.then_some(document))
    }

    /// `None` when some of what was found has changed meanwhile; then nothing is removed.
    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Option<Vec<DocumentId>>> {
        let mut session = self.write().await?;
        let found = self.selected(&mut session, selection).await?;
        if found.len() > max {
            return Err(Error::limit_exceeded(max));
        }
        if found.is_empty() {
            return session.commit().await.map(|()| Some(Vec::new()));
        }
        let (ids, writers): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let delete = session.statement(&self.statements.delete_documents);
        let delete = delete
            .bind(selection.collection().as_str().to_owned())
            .bind(ids.iter().map(|id: &DocumentId| id.as_str().to_owned()).collect::<Vec<_>>())
            .bind(writers);
        let deleted = delete.execute(&mut *session).await.map_err(native_write)?.rows_affected();
        session.commit().await?;
        Ok((deleted == ids.len() as u64).then_some(ids))
    }

    /// The selected documents, in the order of their ids, and what wrote each. One that can't be read is not selected.
    async fn selected(&self, session: &mut Session, selection: &DocumentSelection) -> Result<Vec<(DocumentId, i64)>> {
        let collection = selection.collection().as_str();
        let mut found = Vec::new();
        let mut take = |row: &PgRow| match statements::document(row) {
            Ok(document) if selection.matches(&document) => {
                found.push((document.id, column(row, WRITER)?));
                Ok(())
            }
            Err(error) if error.kind() != ErrorKind::Corrupt => Err(error),
            _ => Ok(()),
        };
        if let Some(ids) = selection.candidate_ids() {
            let ids: Vec<_> = ids.iter().map(|id| id.as_str().to_owned()).collect();
            let rows = session.statement(&self.statements.documents_by_ids).bind(collection.to_owned()).bind(ids);
            rows.fetch_all(&mut **session).await.map_err(native)?.iter().try_for_each(take)?;
            return Ok(found);
        }
        let mut last = String::new();
        loop {
            let rows = session.statement(&self.statements.documents_from_id).bind(collection.to_owned()).bind(last);
            let rows = rows.fetch_all(&mut **session).await.map_err(native)?;
            rows.iter().try_for_each(&mut take)?;
            match rows.last() {
                Some(row) => last = column(row, 0)?,
                None => return Ok(found),
            }
        }
    }

    async fn restore_documents(&self, documents: &[Document]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let mut session = self.write().await?;
        for (place, document) in documents.iter().enumerate() {
            if self.insert_document(&mut session, document).await? {
                report.written += 1;
                continue;
            }
            // What is there and can't be read differs from what is given.
            match self.document(&mut session, &document.collection, &document.id).await {
                Ok(Some(present)) if present == *document => report.equal += 1,
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                _ => report.conflicts.push(place),
            }
        }
        session.commit().await?;
        Ok(report)
    }

    async fn document(
        &self,
        session: &mut Session,
        collection: &Collection,
        id: &DocumentId,
    ) -> Result<Option<Document>> {
        let row = session.statement(&self.statements.document_by_id);
        let row = row.bind(collection.as_str().to_owned()).bind(id.as_str().to_owned());
        let row = row.fetch_optional(&mut **session).await.map_err(native)?;
        row.as_ref().map(statements::document).transpose()
    }

    /// Whether there was none.
    async fn insert_document(&self, session: &mut Session, document: &Document) -> Result<bool> {
        let insert = session.statement(&self.statements.insert_document);
        let insert = insert
            .bind(document.collection.as_str().to_owned())
            .bind(document.id.as_str().to_owned())
            .bind(document.created_at.as_millis())
            .bind(document.updated_at.map(Timestamp::as_millis))
            .bind(revision_to_sql(document.revision))
            .bind(document.space_id.as_str().to_owned())
            .bind(document.metadata.as_str().to_owned())
            .bind(document.content.as_str().to_owned())
            .bind(words_of(document));
        Ok(insert.execute(&mut **session).await.map_err(native_write)?.rows_affected() == 1)
    }

    /// Whether it was still at this revision.
    async fn update_document(&self, session: &mut Session, document: &Document, revision: Revision) -> Result<bool> {
        let update = session.statement(&self.statements.update_document);
        let update = update
            .bind(document.collection.as_str().to_owned())
            .bind(document.id.as_str().to_owned())
            .bind(document.created_at.as_millis())
            .bind(document.updated_at.map(Timestamp::as_millis))
            .bind(revision_to_sql(document.revision))
            .bind(document.space_id.as_str().to_owned())
            .bind(document.metadata.as_str().to_owned())
            .bind(document.content.as_str().to_owned())
            .bind(words_of(document))
            .bind(revision_to_sql(revision));
        Ok(update.execute(&mut **session).await.map_err(native_write)?.rows_affected() == 1)
    }
}

/// The words of a document, each once.
fn words_of(document: &Document) -> Vec<String> {
    words::distinct(document.content.as_str()).into_iter().collect()
}
