//! The restores of the reference with one bug.

use memory_core::{InMemory, Memory, MemoryId, MemoryProvider, RestoreReport, Result};

use crate::flaw::Flaw;

/// Restores memories, apart from the flaw.
pub(crate) async fn restore(inner: &InMemory, flaw: Flaw, mut memories: Vec<Memory>) -> Result<RestoreReport> {
    match flaw {
        Flaw::RestoreMakesNewIds => memories.iter_mut().for_each(|memory| memory.id = MemoryId::generate()),
        Flaw::RestoreForgetsKeys => memories.iter_mut().for_each(|memory| memory.idempotency_key = None),
        Flaw::RestoreEndsAtAConflict => return until_a_conflict(inner, memories).await,
        Flaw::ErasedComesBackUnderAnotherId => return without_erased_keys(inner, memories).await,
        _ => {}
    }
    let mut report = inner.restore(memories).await?;
    if flaw == Flaw::RestoreCountsConflictsAsEqual {
        report.equal += std::mem::take(&mut report.conflicts).len();
    }
    Ok(report)
}

/// Restores later versions, apart from the flaw.
pub(crate) async fn restore_newer(inner: &InMemory, flaw: Flaw, mut memories: Vec<Memory>) -> Result<RestoreReport> {
    match flaw {
        Flaw::NewerIsAConflict => return inner.restore(memories).await,
        Flaw::NewerCountsByItself => {
            for memory in &mut memories {
                if let Some(present) = inner.get(memory.id).await? {
                    memory.revision = memory.revision.max(present.revision.next()?);
                }
            }
        }
        _ => {}
    }
    inner.restore_newer(memories).await
}

/// Leaves out everything after the first conflict.
async fn until_a_conflict(inner: &InMemory, memories: Vec<Memory>) -> Result<RestoreReport> {
    let mut whole = RestoreReport::default();
    for (place, memory) in memories.into_iter().enumerate() {
        let report = inner.restore(vec![memory]).await?;
        if !report.conflicts.is_empty() {
            whole.conflicts.push(place);
            break;
        }
        whole.written += report.written;
        whole.equal += report.equal;
    }
    Ok(whole)
}

/// Restores memories that an erased key keeps out, without that key.
async fn without_erased_keys(inner: &InMemory, memories: Vec<Memory>) -> Result<RestoreReport> {
    let mut report = inner.restore(memories.clone()).await?;
    for place in std::mem::take(&mut report.erased) {
        let without_key = Memory { idempotency_key: None, ..memories[place].clone() };
        let again = inner.restore(vec![without_key]).await?;
        report.written += again.written;
        report.erased.extend(again.erased.iter().map(|_| place));
    }
    Ok(report)
}
