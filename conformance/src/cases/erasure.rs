//! Erasures: E1 to E5.

mod kept_out;
mod records;
mod slices;
mod told;
mod tombstones;

use memory_core::{Erasure, MemoryProvider, RecordId, Result};

use crate::case::Case;

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    [records::cases(), slices::cases(), kept_out::cases(), told::cases(), tombstones::cases()].concat()
}

const REASON: &str = "somebody asked for it";

async fn erase(provider: &dyn MemoryProvider, records: impl IntoIterator<Item = RecordId>) -> Result<Vec<RecordId>> {
    let erased = provider.erase(&Erasure::records(records, REASON)?).await?;
    assert!(erased.is_complete);
    Ok(erased.records)
}
