//! The documents: translation of the contract to SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite,
    Error, ErrorKind, RestoreReport, Result, Timestamp, record_rows, words,
};
use rusqlite::{Connection, Row, params};

use crate::error::native;
use crate::provider::{Shared, Writing};
use crate::query;
use crate::statements::{self, column, execute, first, prepare};

/// The documents of a [`SqliteMemory`](crate::SqliteMemory).
#[derive(Debug)]
pub(crate) struct SqliteDocuments {
    shared: Arc<Shared>,
}

impl SqliteDocuments {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl DocumentStore for SqliteDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        // Asked here: a clock that panics must not end the thread that writes.
        let now = self.shared.config.clock.now();
        let id = write.id.clone().unwrap_or_else(DocumentId::generate);
        let work = async {
            let put = move |writing: &mut Writing<'_>| writing.put(&write, &id, now);
            self.shared.threads().await?.write(put).await
        };
        self.shared.gate.write("documents.put", work).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let (collection, id) = (collection.clone(), id.clone());
        let work = async {
            let read = move |connection: &Connection| {
                first(connection, statements::DOCUMENT_BY_ID, [collection.as_str(), id.as_str()], statements::document)
            };
            self.shared.threads().await?.read(read).await
        };
        self.shared.gate.read("documents.get", work).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let query = query.clone();
        let work = async {
            let page =
                self.shared.threads().await?.read(move |connection| query::documents(connection, &query)).await?;
            record_rows(page.documents.len());
            Ok(page)
        };
        self.shared.gate.read("documents.query", work).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let selection = selection.clone();
        let work = async {
            let removed = self.shared.threads().await?.write(move |writing| writing.remove(&selection, max)).await?;
            record_rows(removed.len());
            Ok(removed)
        };
        self.shared.gate.write("documents.remove", work).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        let work = async {
            let restore = move |writing: &mut Writing<'_>| writing.restore_documents(&documents);
            let report = self.shared.threads().await?.write(restore).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("documents.restore", work).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        let work = async {
            let read = |connection: &Connection| {
                let mut statement = prepare(connection, statements::COLLECTIONS)?;
                let mut rows = statement.query([]).map_err(native)?;
                let mut collections = Vec::new();
                while let Some(row) = rows.next().map_err(native)? {
                    collections.push(Collection::parse(statements::text(row, 0)?)?);
                }
                Ok(collections)
            };
            self.shared.threads().await?.read(read).await
        };
        self.shared.gate.read("documents.collections", work).await
    }
}

/// The column behind those of a document.
const SEQ: usize = 8;

impl Writing<'_> {
    fn put(&mut self, write: &DocumentWrite, id: &DocumentId, now: Timestamp) -> Result<Document> {
        let present = self.document(&write.collection, id)?;
        let document = write.apply(id, present.as_ref().map(|(_, document)| document), now)?;
        match present {
            Some((seq, before)) => {
                statements::update_document(self.connection, seq, &document)?;
                if before.content != document.content {
                    execute(self.connection, statements::DELETE_DOCUMENT_WORDS, [seq])?;
                    self.insert_document_words(seq, &document)?;
                }
            }
            None => self.insert_document(&document)?,
        }
        Ok(document)
    }

    fn remove(&mut self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        // In the transaction that removes them nothing can change what was found.
        let found = self.selected(selection, max)?;
        if found.len() > max {
            return Err(Error::limit_exceeded(max));
        }
        for (seq, _) in &found {
            execute(self.connection, statements::DELETE_DOCUMENT, [seq])?;
            execute(self.connection, statements::DELETE_DOCUMENT_WORDS, [seq])?;
        }
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }

    fn restore_documents(&mut self, documents: &[Document]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        for (place, document) in documents.iter().enumerate() {
            let id = [document.collection.as_str(), document.id.as_str()];
            // What is there and can't be read differs from what is given.
            match first(self.connection, statements::DOCUMENT_BY_ID, id, |row| Ok(statements::document(row).ok()))? {
                Some(Some(present)) if present == *document => report.equal += 1,
                Some(_) => report.conflicts.push(place),
                None => {
                    self.insert_document(document)?;
                    report.written += 1;
                }
            }
        }
        Ok(report)
    }

    fn document(&self, collection: &Collection, id: &DocumentId) -> Result<Option<(i64, Document)>> {
        first(self.connection, statements::DOCUMENT_BY_ID, [collection.as_str(), id.as_str()], with_seq)
    }

    /// The selected documents, in the order of their ids, or more than `max` of them. One that can't be read is not selected.
    fn selected(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<(i64, DocumentId)>> {
        let is_selected = |row: &Row<'_>| match with_seq(row) {
            Ok((seq, document)) => Ok(selection.matches(&document).then_some((seq, document.id))),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        };
        let mut found = Vec::new();
        match selection.candidate_ids() {
            Some(ids) => {
                for id in ids {
                    let key = [selection.collection().as_str(), id.as_str()];
                    found.extend(first(self.connection, statements::DOCUMENT_BY_ID, key, is_selected)?.flatten());
                }
            }
            None => {
                let mut statement = prepare(self.connection, statements::DOCUMENTS_OF_COLLECTION)?;
                let mut rows = statement.query([selection.collection().as_str()]).map_err(native)?;
                while let Some(row) = rows.next().map_err(native)?.filter(|_| found.len() <= max) {
                    found.extend(is_selected(row)?);
                }
            }
        }
        Ok(found)
    }

    fn insert_document(&self, document: &Document) -> Result<()> {
        statements::insert_document(self.connection, document)?;
        self.insert_document_words(self.connection.last_insert_rowid(), document)
    }

    fn insert_document_words(&self, seq: i64, document: &Document) -> Result<()> {
        let words: Vec<_> = words::of(document.content.as_str()).collect();
        execute(self.connection, statements::INSERT_DOCUMENT_WORDS, params![seq, words.join(" ")])
    }
}

fn with_seq(row: &Row<'_>) -> Result<(i64, Document)> {
    Ok((column(row, SEQ)?, statements::document(row)?))
}
