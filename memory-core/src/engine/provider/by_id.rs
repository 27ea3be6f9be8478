//! Reads one record by its id, with its tombstone.

use crate::engine::session::Reader;
use crate::{Error, Memory, MemoryId, RecordId, Result, Tombstone};

/// Returns the memory; fails with `Erased` if it was erased (E2).
pub(super) async fn get(reader: &mut impl Reader, id: MemoryId) -> Result<Option<Memory>> {
    match reader.memories(&[id]).await?.remove(&id).transpose()? {
        Some(found) => Ok(Some(found.record)),
        None => check_erased(reader, id).await.map(|()| None),
    }
}

/// Fails with `Erased` if a tombstone has the id (E2).
pub(super) async fn check_erased(reader: &mut impl Reader, id: MemoryId) -> Result<()> {
    match tombstone(reader, &id.into()).await? {
        Some(_) => Err(Error::erased()),
        None => Ok(()),
    }
}

/// Returns the tombstone of a record, if it has one.
pub(super) async fn tombstone(reader: &mut impl Reader, record: &RecordId) -> Result<Option<Tombstone>> {
    Ok(reader.tombstones(std::slice::from_ref(record)).await?.pop())
}
