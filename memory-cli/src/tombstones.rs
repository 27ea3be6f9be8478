//! Carries the tombstones of erased records along with a copy, an export and an import.

use memory_core::{ErrorKind, HashKey, MAX_ERASED, MemoryProvider, RecordId, Spaces, Tombstone};

use crate::collections::is_copied;

/// Visits the tombstones of records that certainly lay in these spaces, page by page, with the key of their hashes.
pub(crate) async fn visit(
    source: &dyn MemoryProvider,
    spaces: &Spaces,
    mut visit: impl AsyncFnMut(Vec<Tombstone>, &HashKey) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut page = source.tombstones(None).await?;
    let key = match source.hash_key().await {
        Ok(Some(key)) => key,
        // An engine that can't erase has no tombstones.
        Ok(None) => return Ok(()),
        // A read-only user can't create the key, and needs none.
        Err(error) if error.kind() == ErrorKind::Unauthorized && page.tombstones.is_empty() && page.next.is_none() => {
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let goes_along = |tombstone: &Tombstone| {
        let is_own = match &tombstone.record {
            RecordId::Memory(_) => true,
            RecordId::Document { collection, .. } => is_copied(collection),
        };
        is_own && key.finds(&tombstone.places, spaces) == Some(true)
    };
    loop {
        visit(page.tombstones.into_iter().filter(goes_along).collect(), &key).await?;
        let Some(behind) = page.next else { return Ok(()) };
        page = source.tombstones(Some(&behind)).await?;
    }
}

/// The result of carrying tombstones to a target.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// How many were new in the target.
    pub(crate) written: u64,
    /// How many were not carried, since the record in the target can't be read.
    pub(crate) conflicts: u64,
}

/// Carries tombstones to a target, which takes over their hash key if it has none.
pub(crate) async fn carry(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    spaces: &Spaces,
) -> anyhow::Result<Carried> {
    let mut carried = Carried::default();
    visit(source, spaces, async |tombstones, key| {
        // A page may have more than one call takes; a call without tombstones still carries the key.
        let mut some = tombstones.as_slice();
        loop {
            let (first, rest) = some.split_at(some.len().min(MAX_ERASED));
            let report = target.restore_tombstones(first.to_vec(), key).await?;
            carried.written += report.written as u64;
            carried.conflicts += report.conflicts.len() as u64;
            some = rest;
            if some.is_empty() {
                return Ok(());
            }
        }
    })
    .await?;
    Ok(carried)
}

/// The message for records that should be erased but can't be read.
pub(crate) fn unreadable(count: u64) -> String {
    format!("error: {count} records that were erased at the source can't be read here, so they stay")
}
