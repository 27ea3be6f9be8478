//! Meaning: M1 to M5.

mod asked;
mod corpus;
mod keeper;
mod kept;
mod model;
mod oracle;
mod scope;
mod staying;

use std::time::Duration;

use memory_core::{
    DocumentRecall, DocumentWrite, Embedding, Memory, MemoryProvider, MemoryRecall, Precision, RecordId, Result,
    Revision, Vector, VectorModel,
};

use super::recall::{asked, asked_notes, text_of};
use crate::case::Case;
use crate::embedder::WordModel;
use crate::fixture::{NOTES, the};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    let chapters = [model::cases(), kept::cases(), staying::cases(), scope::cases(), corpus::cases()];
    chapters.into_iter().chain([asked::cases(), keeper::cases()]).flatten().collect()
}

/// The time limit for a result that must come. Far above what any takes, so it ends only a case in which it never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A put of a note with this text.
fn written(id: &str, space: &str, text: &str) -> DocumentWrite {
    crate::fixture::new_document(NOTES, id, space, text)
}

/// A model that answers soundly, set as the vector model of the namespace.
async fn model_of(provider: &dyn MemoryProvider) -> Result<(WordModel, VectorModel)> {
    let words = WordModel::new("words");
    let kept = words.kept(Precision::Compact);
    provider.set_vector_model(&kept).await?;
    Ok((words, kept))
}

/// The revision of a record, which must exist.
async fn revision_of(provider: &dyn MemoryProvider, record: &RecordId) -> Result<Revision> {
    match record {
        RecordId::Memory(id) => Ok(the(provider, *id).await?.revision),
        RecordId::Document { collection, id } => {
            let document = provider.documents().get(collection, id).await?;
            Ok(document.expect("a document is found by its id").revision)
        }
    }
}

/// Stores a vector beside the present revision of a record.
async fn embed(provider: &dyn MemoryProvider, model: &VectorModel, record: &RecordId, vector: &Vector) -> Result<()> {
    let revision = revision_of(provider, record).await?;
    let embedding = Embedding { record: record.clone(), revision, vector: vector.clone(), texts: None };
    assert_eq!(provider.embed(model, vec![embedding]).await?, [true], "a vector of the present revision is kept");
    Ok(())
}

/// The vector of a record, and the revision that it belongs to.
async fn vector_of(provider: &dyn MemoryProvider, record: &RecordId) -> Result<Option<(Revision, Vector)>> {
    let mut found = provider.vectors(std::slice::from_ref(record)).await?;
    assert_eq!(found.len(), 1, "an answer for each record");
    Ok(found.pop().flatten().map(|Embedding { record: of, revision, vector, .. }| {
        assert_eq!(of, *record);
        (revision, vector)
    }))
}

/// For each record, whether it has a vector.
async fn have(provider: &dyn MemoryProvider, records: &[RecordId]) -> Result<Vec<bool>> {
    Ok(provider.vectors(records).await?.iter().map(Option::is_some).collect())
}

/// A recall by the vector of a text, over the whole ledger.
fn like(model: &WordModel, text: &str) -> MemoryRecall {
    asked("", |query| query.all()).by_vector(model.vector(text))
}

/// A recall by the vector of a text, over all notes.
fn notes_like(model: &WordModel, text: &str) -> DocumentRecall {
    asked_notes("", |query| query.all()).by_vector(model.vector(text))
}

/// The texts of the hits, best first, and how many records have no vector.
async fn answer(provider: &dyn MemoryProvider, recall: &MemoryRecall) -> Result<(Vec<String>, Option<usize>)> {
    let recalled = provider.recall(recall).await?;
    Ok((recalled.hits.iter().map(|hit| text_of(&hit.record)).collect(), recalled.unembedded))
}

/// The texts of memories that `said` has made.
fn texts_of(memories: &[Memory]) -> Vec<String> {
    memories.iter().map(text_of).collect()
}
