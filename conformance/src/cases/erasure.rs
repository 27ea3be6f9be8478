//! Erasures: E1 to E5.

mod kept_out;
mod records;
mod slices;
mod told;
mod tombstones;

use memory_core::{DocumentSelection, DocumentWrite, Erasure, MemoryProvider, RecordId, Result};

use crate::case::Case;
use crate::fixture::{collection, document_id};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [records::cases(), slices::cases(), kept_out::cases(), told::cases(), tombstones::cases()].concat()
}

/// The collection that these cases use.
const NOTES: &str = "notes";
const REASON: &str = "somebody asked for it";

fn note(id: &str) -> RecordId {
    RecordId::Document { collection: collection(NOTES), id: document_id(id) }
}

async fn erase(provider: &dyn MemoryProvider, records: impl IntoIterator<Item = RecordId>) -> Result<Vec<RecordId>> {
    let erased = provider.erase(&Erasure::records(records, REASON)?).await?;
    assert!(erased.is_complete);
    Ok(erased.records)
}

async fn put(provider: &dyn MemoryProvider, write: DocumentWrite) -> Result<memory_core::Document> {
    provider.documents().put(write).await
}

async fn remove(provider: &dyn MemoryProvider, id: &str) -> Result<()> {
    let one = DocumentSelection::ids(collection(NOTES), [document_id(id)])?;
    provider.documents().remove(&one, 1).await.map(drop)
}
