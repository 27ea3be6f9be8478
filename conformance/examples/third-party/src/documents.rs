//! The documents.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Collection, Document, DocumentId, DocumentPage, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite,
    Error, ErrorKind, PageBuilder, RestoreReport, Result, Verdict, compare_heads, words,
};
use redb::{Database, ReadableDatabase, ReadableTable};

use crate::Shared;
use crate::error::native;
use crate::tables::{self, DOCUMENTS};

/// The documents of a [`RedbMemory`](crate::RedbMemory).
#[derive(Debug)]
pub(crate) struct RedbDocuments {
    pub(crate) shared: Arc<Shared>,
}

#[async_trait]
impl DocumentStore for RedbDocuments {
    async fn put(&self, write: DocumentWrite) -> Result<Document> {
        let now = self.shared.config.clock.now();
        self.shared.write("documents.put", move |database| put(database, &write, now)).await
    }

    async fn get(&self, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
        let (collection, id) = (collection.clone(), id.clone());
        self.shared.read("documents.get", move |database| get(database, &collection, &id)).await
    }

    async fn query(&self, query: &DocumentQuery) -> Result<DocumentPage> {
        let query = query.clone();
        self.shared.read("documents.query", move |database| find(database, &query)).await
    }

    async fn remove(&self, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
        let selection = selection.clone();
        self.shared.write("documents.remove", move |database| remove(database, &selection, max)).await
    }

    async fn restore(&self, documents: Vec<Document>) -> Result<RestoreReport> {
        self.shared.write("documents.restore", move |database| restore(database, &documents)).await
    }

    async fn collections(&self) -> Result<Vec<Collection>> {
        self.shared.read("documents.collections", collections).await
    }
}

fn put(database: &Database, write: &DocumentWrite, now: memory_core::Timestamp) -> Result<Document> {
    let id = write.id.clone().unwrap_or_else(DocumentId::generate);
    let key = (write.collection.as_str(), id.as_str());
    let transaction = database.begin_write().map_err(native)?;
    let document = {
        let mut table = transaction.open_table(DOCUMENTS).map_err(native)?;
        let current = table.get(key).map_err(native)?.map(|json| tables::document(json.value())).transpose()?;
        let document = write.apply(&id, current.as_ref(), now)?;
        table.insert(key, tables::json(&document)?.as_str()).map_err(native)?;
        document
    };
    transaction.commit().map_err(native)?;
    Ok(document)
}

fn get(database: &Database, collection: &Collection, id: &DocumentId) -> Result<Option<Document>> {
    let read = database.begin_read().map_err(native)?;
    let table = read.open_table(DOCUMENTS).map_err(native)?;
    let json = table.get((collection.as_str(), id.as_str())).map_err(native)?;
    json.map(|json| tables::document(json.value())).transpose()
}

fn find(database: &Database, query: &DocumentQuery) -> Result<DocumentPage> {
    let read = database.begin_read().map_err(native)?;
    let table = read.open_table(DOCUMENTS).map_err(native)?;
    let mut page = PageBuilder::new(query);
    let mut found = Vec::new();
    for (id, document) in tables::documents(&table, query.collection())? {
        match document {
            Ok(document) => found.push(document),
            Err(error) => drop(page.offer(Err(error), |_| Err(Error::corrupt("not read")), || id.to_string())?),
        }
    }
    found.sort_by(|left, right| compare_heads(&left.head(), &right.head(), query.order()));
    if let Some(text) = query.text() {
        // Best first; what has none of the words is no answer (T2).
        let wanted = words::distinct(text);
        let rank = |document: &Document| words::distinct(document.content.as_str()).intersection(&wanted).count();
        found.retain(|document| rank(document) > 0);
        found.sort_by_key(|document| Reverse(rank(document)));
    }
    for document in found {
        if page.offer(Ok(document.head()), |_| Ok(document.clone()), || document.id.to_string())? == Verdict::Stop {
            break;
        }
    }
    Ok(page.finish())
}

fn remove(database: &Database, selection: &DocumentSelection, max: usize) -> Result<Vec<DocumentId>> {
    let transaction = database.begin_write().map_err(native)?;
    let ids = {
        let mut table = transaction.open_table(DOCUMENTS).map_err(native)?;
        let found = tables::documents(&table, selection.collection())?.into_iter();
        let ids: Vec<_> = found
            .filter(|(_, document)| document.as_ref().is_ok_and(|document| selection.matches(document)))
            .map(|(id, _)| id)
            .collect();
        if ids.len() > max {
            return Err(Error::limit_exceeded(max));
        }
        for id in &ids {
            table.remove((selection.collection().as_str(), id.as_str())).map_err(native)?;
        }
        ids
    };
    transaction.commit().map_err(native)?;
    Ok(ids)
}

fn restore(database: &Database, documents: &[Document]) -> Result<RestoreReport> {
    let transaction = database.begin_write().map_err(native)?;
    let mut report = RestoreReport::default();
    {
        let mut table = transaction.open_table(DOCUMENTS).map_err(native)?;
        for (place, document) in documents.iter().enumerate() {
            let key = (document.collection.as_str(), document.id.as_str());
            let present = table.get(key).map_err(native)?.map(|json| tables::document(json.value())).transpose()?;
            match present {
                Some(present) if present == *document => report.equal += 1,
                Some(_) => report.conflicts.push(place),
                None => {
                    table.insert(key, tables::json(document)?.as_str()).map_err(native)?;
                    report.written += 1;
                }
            }
        }
    }
    transaction.commit().map_err(native)?;
    Ok(report)
}

fn collections(database: &Database) -> Result<Vec<Collection>> {
    let read = database.begin_read().map_err(native)?;
    let table = read.open_table(DOCUMENTS).map_err(native)?;
    let mut names = Vec::new();
    for entry in table.iter().map_err(native)? {
        let (key, _) = entry.map_err(native)?;
        let name = Collection::parse(key.value().0)
            .map_err(|error| Error::new(ErrorKind::Corrupt, "a collection has no name").with_source(error))?;
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    Ok(names)
}
