//! Tells whether something of a record is stored.

use memory_core::{ErrorKind, History, MemoryProvider, RecordId};

use crate::output;

/// The number of these records that neither exist nor were erased, so that their names may be wrong.
pub(super) async fn count_absent(provider: &dyn MemoryProvider, named: &[RecordId]) -> memory_core::Result<usize> {
    let mut absent = 0;
    for record in named {
        absent += usize::from(provider.tombstone(record).await?.is_none() && !is_kept(provider, record).await?);
    }
    Ok(absent)
}

/// Whether something of a record is stored: the record, or the history of a removed document.
pub(super) async fn is_kept(provider: &dyn MemoryProvider, record: &RecordId) -> memory_core::Result<bool> {
    if is_there(provider, record).await? {
        return Ok(true);
    }
    if let RecordId::Memory(_) = record {
        return Ok(false);
    }
    let history = History::of(record.clone()).with_removed().limit(1)?;
    let found = provider.history(&history).await.map(|page| !page.versions.is_empty());
    found.or_else(|error| match error.kind() {
        ErrorKind::Erased | ErrorKind::Unsupported => Ok(false),
        ErrorKind::Corrupt => Ok(true),
        _ => Err(error),
    })
}

/// Whether a record exists, even if it can't be read.
pub(super) async fn is_there(provider: &dyn MemoryProvider, record: &RecordId) -> memory_core::Result<bool> {
    let found = match record {
        RecordId::Memory(id) => provider.get(*id).await.map(|found| found.is_some()),
        RecordId::Document { collection, id } => {
            provider.documents().get(collection, id).await.map(|found| found.is_some())
        }
    };
    found.or_else(|error| match error.kind() {
        ErrorKind::Erased => Ok(false),
        ErrorKind::Corrupt => Ok(true),
        _ => Err(error),
    })
}

/// Reports named records that do not exist.
pub(super) fn note_absent(count: usize) {
    if count > 0 {
        output::note(&format!("{count} of the named records do not exist, and were not erased: check their ids"));
    }
}
