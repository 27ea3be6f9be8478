//! Strays: documents of a target that are not a version of a document of its source.

use std::cmp::Ordering;

use memory_core::{
    Collection, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, Documents, Order, Result,
    Selects as _, compare_heads,
};

use super::walk::Walk;
use crate::collections::is_copied;

/// Finds the documents of the target that the source does not have, or that were removed there and put again since. A document that only
/// lacks a later version is not a stray.
pub(super) async fn strays(
    source: &dyn DocumentStore,
    target: &dyn DocumentStore,
) -> anyhow::Result<Vec<(Collection, DocumentId)>> {
    let mut strays = Vec::new();
    for collection in target.collections().await?.into_iter().filter(is_copied) {
        let query = DocumentQuery::builder(collection.clone()).all();
        let (mut from, mut to) = (Walk::new(&query), Walk::new(&query));
        while let Some(document) = to.next(&target).await? {
            let is_version = loop {
                let Some(other) = from.peek(&source).await? else { break false };
                match compare_heads(&Documents::head(other), &Documents::head(&document), Order::OldestFirst) {
                    Ordering::Less => drop(from.next(&source).await?),
                    Ordering::Equal => break is_version(&document, other),
                    Ordering::Greater => break false,
                }
            };
            // Read page by page, so the document may have changed since.
            if !is_version && !is_version_of_present(source, &document).await? {
                strays.push((collection.clone(), document.id));
            }
        }
    }
    Ok(strays)
}

/// Removes strays from the target, and puts the source's documents in their place.
pub(super) async fn replace(
    source: &dyn DocumentStore,
    target: &dyn DocumentStore,
    collection: Collection,
    id: DocumentId,
) -> Result<()> {
    target.remove(&DocumentSelection::ids(collection.clone(), [id.clone()])?, 1).await?;
    if let Some(document) = source.get(&collection, &id).await? {
        target.restore_newer(vec![document]).await?;
    }
    Ok(())
}

async fn is_version_of_present(source: &dyn DocumentStore, document: &Document) -> Result<bool> {
    let present = source.get(&document.collection, &document.id).await?;
    Ok(present.is_some_and(|present| is_version(document, &present)))
}

/// Whether a document is the other one, or an earlier version of it.
fn is_version(document: &Document, present: &Document) -> bool {
    document == present || document.revision < present.revision && document.created_at == present.created_at
}
