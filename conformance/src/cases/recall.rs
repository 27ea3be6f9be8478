//! Recall: R1 to R6.

mod answers;
mod corpus;
mod oracle;
mod scope;

use memory_core::{
    DocumentQuery, DocumentRecall, Documents, Ledger, Memory, MemoryProvider, MemoryQuery, MemoryRecall, NewMemory,
    QueryBuilder, Recall, RecallOptions, Recalled, Result,
};

use crate::case::Case;
use crate::fixture::{NOTES, at, collection, metadata, space, trigger};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [answers::cases(), scope::cases(), corpus::cases()].concat()
}

/// 2023-05-08T00:00Z.
pub(super) const DAY: i64 = 1_683_504_000_000;

/// A memory of a text, with the createdAt [`DAY`] plus `millis`.
pub(super) fn said(space_id: &str, millis: i64, text: &str) -> NewMemory {
    NewMemory::new(space(space_id), trigger(&serde_json::json!({ "text": text }).to_string()), at(DAY + millis))
}

/// A memory of a text with a speaker, with the createdAt [`DAY`] plus `millis`.
pub(super) fn said_by(speaker: &str, space_id: &str, millis: i64, text: &str) -> NewMemory {
    said(space_id, millis, text).with_metadata(metadata(&serde_json::json!({ "speaker": speaker }).to_string()))
}

/// A question to the ledger, with default options.
pub(super) fn asked(question: &str, build: impl FnOnce(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>) -> MemoryRecall {
    asked_with(question, RecallOptions::default(), build)
}

/// A question to the ledger, with other options.
pub(super) fn asked_with(
    question: &str,
    options: RecallOptions,
    build: impl FnOnce(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>,
) -> MemoryRecall {
    let query = build(MemoryQuery::builder()).build().expect("a valid query");
    Recall::with(question, query, options).expect("a valid question")
}

/// A question to the documents, with default options.
pub(super) fn asked_notes(
    question: &str,
    build: impl FnOnce(QueryBuilder<Documents>) -> QueryBuilder<Documents>,
) -> DocumentRecall {
    asked_notes_with(question, RecallOptions::default(), build)
}

/// A question to the documents, with other options.
pub(super) fn asked_notes_with(
    question: &str,
    options: RecallOptions,
    build: impl FnOnce(QueryBuilder<Documents>) -> QueryBuilder<Documents>,
) -> DocumentRecall {
    let query = build(DocumentQuery::builder(collection(NOTES))).build().expect("a valid query");
    Recall::with(question, query, options).expect("a valid question")
}

/// The texts of the hits, best first.
pub(super) async fn texts(provider: &dyn MemoryProvider, recall: &MemoryRecall) -> Result<Vec<String>> {
    Ok(provider.recall(recall).await?.hits.iter().map(|hit| text_of(&hit.record)).collect())
}

/// The text of a memory that [`said`] has made.
pub(super) fn text_of(memory: &Memory) -> String {
    let trigger: serde_json::Value = memory.trigger.to_value().expect("an object");
    trigger["text"].as_str().expect("a text").to_owned()
}

/// The record and the parts of each hit, with the bits of its score.
pub(super) fn shown<T: std::fmt::Debug>(recalled: &Recalled<T>) -> Vec<(String, u64)> {
    recalled.hits.iter().map(|hit| (format!("{:?} {:?}", hit.record, hit.parts), hit.score.to_bits())).collect()
}
