//! Expiry: X1 to X4.

mod hiding;
mod looking;
mod rules;
mod sweeping;
mod tombstones;
mod values;
mod writing;

use std::time::Duration;

use memory_core::{
    Document, DocumentWrite, ErrorKind, MemoryId, MemoryProvider, NewMemory, RecordId, Result, Sweep, Swept,
};
use tokio::time::{Instant, sleep};

use crate::case::{Case, Stage};
use crate::fixture::{NOTES, at, collection, document_id, kind, new_document, new_memory};

/// The cases of this chapter.
pub(crate) fn cases() -> Vec<Case> {
    let chapters = [values::cases(), looking::cases(), hiding::cases(), writing::cases()];
    chapters.into_iter().chain([sweeping::cases(), tombstones::cases(), rules::cases()]).flatten().collect()
}

/// When the records of these cases expire, unless a case says otherwise. The clock of a namespace begins at half of it.
const END: i64 = 2_000_000;
const DAY: i64 = 24 * 60 * 60 * 1_000;
/// The time limit for other handles to learn of a change of the rules. Far above the second of the contract, so it ends only a case in
/// which the change never comes.
const PATIENCE: Duration = Duration::from_secs(20);
/// More slices than any round of these cases has.
const MANY_SLICES: usize = 1_000;

fn set_clock(stage: &Stage, millis: i64) {
    stage.namespace().clock.set(at(millis));
}

/// A memory that expires at [`END`].
fn expiring(space: &str, created_at: i64) -> NewMemory {
    new_memory(space, created_at).expires_at(at(END))
}

/// A note that expires at [`END`].
fn expiring_note(id: &str, space: &str, content: &str) -> DocumentWrite {
    new_document(NOTES, id, space, content).expires_at(at(END))
}

async fn get_note(provider: &dyn MemoryProvider, id: &str) -> Result<Option<Document>> {
    provider.documents().get(&collection(NOTES), &document_id(id)).await
}

/// Runs a whole round of sweeps: the records that it has erased, in ascending order, and how many tombstones it has removed.
async fn swept(provider: &dyn MemoryProvider, from: Sweep) -> Result<(Vec<RecordId>, usize)> {
    let (mut erased, mut taken, mut next) = (Vec::new(), 0, Some(from));
    for _ in 0..MANY_SLICES {
        let Some(from) = next else {
            erased.sort_unstable();
            return Ok((erased, taken));
        };
        let Swept { records, tombstones, next: behind } = provider.sweep(&from).await?;
        assert!(records.len() <= 100, "a slice of {} records", records.len());
        assert!(records.is_sorted_by(|one, next| one < next), "a slice out of order");
        erased.extend(records);
        taken += tombstones;
        next = behind;
    }
    panic!("a round does not end");
}

/// These records, in ascending order.
fn sorted(records: impl IntoIterator<Item = RecordId>) -> Vec<RecordId> {
    let mut records: Vec<_> = records.into_iter().collect();
    records.sort_unstable();
    records
}

/// Waits until `get` of a memory through this handle gives this error, or none. Other handles learn of rules within a second.
async fn until_seen(provider: &dyn MemoryProvider, id: MemoryId, expected: Option<ErrorKind>) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = kind(provider.get(id).await);
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "a handle still answers with {found:?} instead of {expected:?}");
        sleep(Duration::from_millis(20)).await;
    }
}
