//! Documents: D1 to D7, and the rules of other chapters that hold for documents.

mod put;
mod put_many;
mod query;
mod remove;
mod upkeep;

use std::collections::BTreeSet;

use memory_core::{
    Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite, Documents,
    QueryBuilder, Result,
};

use crate::case::Case;
use crate::fixture::{NOTES, at, collection, document_id, new_document, space, walk_documents};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [put::cases(), put_many::cases(), query::cases(), remove::cases(), upkeep::cases()].concat()
}

/// A put of a document of [`NOTES`].
fn note(id: &str, space_id: &str, content: &str) -> DocumentWrite {
    new_document(NOTES, id, space_id, content)
}

/// A put of a note with this createdAt.
fn note_at(id: &str, millis: i64) -> DocumentWrite {
    let content = Content::parse("dated").expect("a valid content");
    DocumentWrite::new(collection(NOTES), space("dated-1"), content, at(millis)).with_id(document_id(id))
}

/// The note with this id, if it exists.
async fn get(documents: &dyn DocumentStore, id: &str) -> Result<Option<Document>> {
    documents.get(&collection(NOTES), &document_id(id)).await
}

/// The ids of these documents, in their order.
fn ids(documents: &[Document]) -> Vec<&str> {
    documents.iter().map(|document| document.id.as_str()).collect()
}

/// The ids of all notes, in ascending order.
async fn all_notes(documents: &dyn DocumentStore) -> Result<BTreeSet<String>> {
    let found = walk_documents(documents, NOTES, |query| query.all()).await?;
    Ok(found.iter().map(|document| document.id.as_str().to_owned()).collect())
}

/// A selection of notes by their ids.
fn with_ids(ids: &[&str]) -> DocumentSelection {
    DocumentSelection::ids(collection(NOTES), ids.iter().map(|id| document_id(id))).expect("a valid selection")
}

/// The ids that a removal reported.
fn removed(ids: &[DocumentId]) -> Vec<&str> {
    ids.iter().map(DocumentId::as_str).collect()
}

/// A query of notes.
fn notes() -> QueryBuilder<Documents> {
    DocumentQuery::builder(collection(NOTES))
}
