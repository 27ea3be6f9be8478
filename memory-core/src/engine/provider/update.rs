//! Updates a memory (W6 to W10).

use std::sync::Arc;

use super::by_id::{check_erased, get};
use super::open::Shared;
use crate::engine::history::VersionEntry;
use crate::engine::session::{Reader, Writer};
use crate::engine::{Access, Engine};
use crate::{Error, Memory, MemoryId, MemoryPatch, Result, Timestamp, TransientKeys, Updated};

impl<E: Engine> Shared<E> {
    pub(super) async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let (open, patch) = (self.ready().await?, Arc::new(patch));
        open.check_expiry([patch.expires_at.time()])?;
        loop {
            // Read here, because a clock that panics must not end a thread of the engine.
            let (patch, now) = (Arc::clone(&patch), open.settings.clock.now());
            let is_empty = patch.is_empty();
            let transient = match is_empty || open.history_since().await?.is_none() {
                true => None,
                false => Some(open.settings.history.transient.clone()),
            };
            let change = Change { id, patch, now, transient };
            let updated = match is_empty {
                true => open.run(Access::ReadLatest, change, |reader, change| Box::pin(told(reader, change))).await?,
                false => open.run(Access::Write, change, |writer, change| Box::pin(update(writer, change))).await?,
            };
            // If another writer won the race, try again, until the deadline.
            if let Some(updated) = updated {
                return Ok(updated);
            }
        }
    }
}

/// An update to execute.
struct Change {
    id: MemoryId,
    patch: Arc<MemoryPatch>,
    now: Timestamp,
    /// The keys that may change without a version; `None` if no history is kept.
    transient: Option<TransientKeys>,
}

/// Returns the result of a patch that changes nothing.
async fn told(reader: &mut impl Reader, change: &Change) -> Result<Option<Updated>> {
    let memory = get(reader, change.id).await?.ok_or_else(Error::not_found)?;
    change.patch.apply(&memory, change.now)?;
    Ok(Some(Updated::from(&memory)))
}

/// Returns `None` if the memory was changed meanwhile.
async fn update(writer: &mut impl Writer, change: &Change) -> Result<Option<Updated>> {
    let Some(found) = writer.memories(&[change.id]).await?.remove(&change.id).transpose()? else {
        check_erased(writer, change.id).await?;
        return Err(Error::not_found());
    };
    let Some(patched) = change.patch.apply(&found.record, change.now)? else {
        return Ok(Some(Updated::from(&found.record)));
    };
    let entry = match &change.transient {
        Some(transient) if makes_version(&found.record, &patched, transient)? => {
            Some(VersionEntry::of_update(&found.record, &patched, change.now, change.patch.actor.clone()))
        }
        _ => None,
    };
    Ok(writer.replace(&found, &patched, entry.as_ref()).await?.then(|| Updated::from(&patched)))
}

/// Returns whether an update changes more than transient keys. An update that sets equal values is a version too (W7).
fn makes_version(before: &Memory, after: &Memory, transient: &TransientKeys) -> Result<bool> {
    Ok(before.status != after.status
        || before.context != after.context
        || before.expires_at != after.expires_at
        || before.metadata == after.metadata
        || transient.strip(&before.metadata)? != transient.strip(&after.metadata)?)
}
