//! What stays of records that were erased, which goes with a copy and an export.

use memory_core::{HashKey, MemoryProvider, RecordId, Spaces, Tombstone};

use crate::commands::copy::is_copied;

/// Visits the tombstones of records that surely lay in these spaces, page by page, with what makes their hashes.
pub(crate) async fn visit(
    source: &dyn MemoryProvider,
    spaces: &Spaces,
    mut visit: impl AsyncFnMut(Vec<Tombstone>, &HashKey) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // An engine that can't erase has none.
    let Some(key) = source.hash_key().await? else { return Ok(()) };
    let goes_along = |tombstone: &Tombstone| {
        let is_own = match &tombstone.record {
            RecordId::Memory(_) => true,
            RecordId::Document { collection, .. } => is_copied(collection),
        };
        is_own && key.finds(&tombstone.places, spaces) == Some(true)
    };
    let mut behind = None;
    loop {
        let page = source.tombstones(behind.as_deref()).await?;
        visit(page.tombstones.into_iter().filter(goes_along).collect(), &key).await?;
        behind = page.next;
        if behind.is_none() {
            return Ok(());
        }
    }
}

/// Brings them to a target, which takes their key first if it has none, and tells how many were not there.
pub(crate) async fn carry(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    spaces: &Spaces,
) -> anyhow::Result<u64> {
    let mut written = 0;
    visit(source, spaces, async |tombstones, key| {
        written += target.restore_tombstones(tombstones, key).await?.written as u64;
        Ok(())
    })
    .await?;
    Ok(written)
}
