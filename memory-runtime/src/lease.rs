//! What a runtime holds of a task, and how it stays true.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Memory, MemoryId, MemoryPatch, Metadata, Outcome, Result, Revision, Timestamp};
use serde_json::json;
use tokio::sync::Mutex;

use crate::claim::{Claim, TASK, metadata};
use crate::memory_manager::MemoryManager;

/// A task that this runtime holds. Every change of its memory goes through here, and none happens after the task was
/// lost.
#[derive(Debug)]
pub(crate) struct Lease {
    manager: Arc<MemoryManager>,
    id: MemoryId,
    length: Duration,
    claim: Claim,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    revision: Revision,
    until: Timestamp,
}

/// How often a write is tried while others write the same memory.
const MAX_TRIES: usize = 5;
/// A lease is renewed when this part of it has passed.
const RENEWALS: u32 = 3;

impl Lease {
    /// The lease of a memory that has just been stored or taken over under this claim.
    pub(crate) fn new(
        manager: Arc<MemoryManager>,
        id: MemoryId,
        revision: Revision,
        claim: Claim,
        length: Duration,
    ) -> Arc<Self> {
        let state = Mutex::new(State { revision, until: claim.until });
        Arc::new(Self { manager, id, length, claim, state })
    }

    /// Takes a free task over; `None` when somebody else was faster.
    pub(crate) async fn take(
        manager: &Arc<MemoryManager>,
        memory: &Memory,
        claim: Claim,
        length: Duration,
    ) -> Result<Option<Arc<Self>>> {
        let patch = MemoryPatch::new().merge_metadata(claim.to_patch()?).if_revision(memory.revision);
        match manager.update(memory.id, patch).await {
            Ok(updated) => Ok(Some(Self::new(Arc::clone(manager), memory.id, updated.revision, claim, length))),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// When a lease ends that begins at a time.
    pub(crate) fn end(now: Timestamp, length: Duration) -> Timestamp {
        let length = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(now.as_millis().saturating_add(length)).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn id(&self) -> MemoryId {
        self.id
    }

    /// How often somebody had begun to work on the task when this runtime took it.
    pub(crate) fn runs(&self) -> u32 {
        self.claim.runs
    }

    /// Writes a patch if the task is still held; `Conflict` when it is not.
    ///
    /// A patch sets values and adds nothing, so it is repeated when somebody else has changed the memory, or when
    /// nobody knows whether it was written. Dropping the future leaves the write to its end, so that the revision stays
    /// known.
    pub(crate) async fn write(self: &Arc<Self>, patch: MemoryPatch) -> Result<()> {
        let this = Arc::clone(self);
        let written = tokio::spawn(async move { this.write_now(patch).await }).await;
        written.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unexpected, "a write of a task was cut off")))
    }

    async fn write_now(&self, patch: MemoryPatch) -> Result<()> {
        let mut state = self.state.lock().await;
        let mut tries = 1;
        loop {
            let error = match self.manager.update(self.id, patch.clone().if_revision(state.revision)).await {
                Ok(updated) => {
                    state.revision = updated.revision;
                    return Ok(());
                }
                Err(error) => error,
            };
            let is_unclear = error.kind() == ErrorKind::Conflict || error.outcome() == Outcome::Unknown;
            if !is_unclear || tries == MAX_TRIES {
                return Err(error);
            }
            let memory = self.manager.get(self.id).await?.ok_or_else(Error::not_found)?;
            let holder = Claim::read(&memory).map(|(claim, _)| claim.holder);
            let is_ours = holder.is_ok_and(|holder| holder == self.claim.holder);
            let is_open = memory.status.is_open();
            // A task that is over is written only if this patch has ended it.
            if is_ours && (is_open || patch.status.is_some()) && is_written(&patch, &memory) {
                state.revision = memory.revision;
                return Ok(());
            }
            if !is_ours || !is_open {
                return Err(Error::conflict("another runtime has taken the task, or somebody has ended it"));
            }
            state.revision = memory.revision;
            tries += 1;
        }
    }

    /// Does some work while the lease is renewed. When the lease is lost, the work is dropped and the reason returned.
    pub(crate) async fn while_held<T>(self: &Arc<Self>, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            result = work => result,
            lost = self.keep() => Err(lost),
        }
    }

    /// Renews the lease until it is lost, and tells how.
    async fn keep(self: &Arc<Self>) -> Error {
        loop {
            tokio::time::sleep(self.length / RENEWALS).await;
            if let Err(error) = self.renew().await {
                let is_over = self.state.lock().await.until <= self.manager.now();
                if is_over || matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Closed) {
                    return error;
                }
                tracing::warn!(id = %self.id, %error, "a lease was not renewed");
            }
        }
    }

    async fn renew(self: &Arc<Self>) -> Result<()> {
        let until = Self::end(self.manager.now(), self.length);
        let patch = metadata(&json!({ TASK: { "leaseUntil": until } }))?;
        self.write(MemoryPatch::new().merge_metadata(patch)).await?;
        self.state.lock().await.until = until;
        Ok(())
    }

    /// What marks the task as begun, for the patch that makes it `running`.
    pub(crate) fn begin(&self) -> Result<Metadata> {
        metadata(&json!({ TASK: { "runs": self.claim.runs.saturating_add(1) } }))
    }

    /// What gives the task up, for the patch that ends it.
    pub(crate) fn release() -> Result<Metadata> {
        metadata(&json!({ TASK: { "leaseUntil": null } }))
    }
}

/// Whether a memory has all that a patch sets, so that writing it again would change nothing.
fn is_written(patch: &MemoryPatch, memory: &Memory) -> bool {
    let Memory { revision, updated_at, .. } = *memory;
    let is_same = |patched| Memory { revision, updated_at, ..patched } == *memory;
    patch.apply(memory, Timestamp::MIN).is_ok_and(|patched| patched.is_none_or(is_same))
}
