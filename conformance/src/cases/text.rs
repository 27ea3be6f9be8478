//! Text: T1 to T3.

mod ledger;
mod words;

use std::collections::BTreeSet;

use memory_core::{DocumentStore, Result};

use crate::case::Case;
use crate::fixture::{NOTES, new_document, walk_documents};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [words::cases(), ledger::cases()].concat()
}

/// Puts documents whose ids are their indexes in the list.
async fn put_all(documents: &dyn DocumentStore, contents: &[&str]) -> Result<()> {
    for (place, content) in contents.iter().enumerate() {
        documents.put(new_document(NOTES, &place.to_string(), "x", content)).await?;
    }
    Ok(())
}

/// The ids of the documents that a text finds, sorted.
async fn found(documents: &dyn DocumentStore, text: &str) -> Result<BTreeSet<String>> {
    let page = walk_documents(documents, NOTES, |query| query.all().text(text).limit(1_000)).await?;
    Ok(page.iter().map(|document| document.id.as_str().to_owned()).collect())
}

/// The ids of documents of [`put_all`], by their indexes.
fn places(places: &[usize]) -> BTreeSet<String> {
    places.iter().map(usize::to_string).collect()
}
