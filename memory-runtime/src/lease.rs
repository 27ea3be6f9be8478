//! A lease on one piece of open work, its renewal, and the writes under it.

use std::sync::Arc;

use memory_core::{
    Actor, Error, ErrorKind, Memory, MemoryId, MemoryPatch, MetadataPatch, Outcome, Result, Revision, Timestamp,
};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::claim::{Claim, TASK, metadata};
use crate::leases::Leases;

/// The exclusive right of this run of the program to work on a memory; [`Leases`] makes it.
///
/// # Behavior
/// - Each write names the expected revision (R13). After the lease is lost, a write changes nothing and fails with `Conflict`, or with
///   `Erased` if the memory was erased.
/// - [`Lease::while_held`] renews the lease while its work runs.
/// - [`Lease::end`] and [`Lease::give_back`] make the last write. Later writes fail with `Conflict`.
/// - If the lease is dropped without a last write, the claim stays in the memory until it expires.
#[derive(Debug)]
pub struct Lease {
    leases: Arc<Leases>,
    id: MemoryId,
    claim: Claim,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    revision: Revision,
    until: Timestamp,
    is_over: bool,
}

/// Whether a write is the last one of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IsLast {
    Yes,
    No,
}

/// The most attempts of a write while others write the same memory.
const MAX_TRIES: usize = 5;
/// A lease is renewed each time 1/`RENEWALS` of its length has passed.
const RENEWALS: u32 = 3;

impl Lease {
    pub(crate) fn new(leases: &Arc<Leases>, id: MemoryId, revision: Revision, claim: Claim) -> Arc<Self> {
        leases.held().insert(id);
        let state = Mutex::new(State { revision, until: claim.until, is_over: false });
        Arc::new(Self { leases: Arc::clone(leases), id, claim, state })
    }

    /// The id of the leased memory.
    pub fn id(&self) -> MemoryId {
        self.id
    }

    /// How often work had been started when the lease was taken, as the claim says.
    pub fn runs(&self) -> u32 {
        self.claim.runs
    }

    /// Writes a patch while the lease is held. Fails with `Conflict` if the lease is lost, and with `Erased` if the memory was erased.
    ///
    /// A patch is idempotent, so it is retried, up to five attempts, after a conflict with a writer that left the claim alone and after an
    /// error whose outcome is unknown. The write goes on even if the future is dropped, so that the revision stays known.
    pub async fn write(self: &Arc<Self>, patch: MemoryPatch) -> Result<()> {
        self.spawn(patch, IsLast::No).await
    }

    /// Writes the last patch, which also ends the lease.
    pub async fn end(self: &Arc<Self>, patch: MemoryPatch) -> Result<()> {
        let mut merged = match &patch.metadata {
            MetadataPatch::Merge(merged) => serde_json::from_str(merged.as_str()).unwrap_or_default(),
            MetadataPatch::Keep | MetadataPatch::Replace(_) => json!({}),
        };
        merged[TASK]["leaseUntil"] = serde_json::Value::Null;
        self.spawn(patch.merge_metadata(metadata(&merged)?), IsLast::Yes).await
    }

    /// Releases the work, so that others can take it at once; `runs` says how often it counts as started.
    pub async fn give_back(self: &Arc<Self>, runs: u32) -> Result<()> {
        self.end(MemoryPatch::new().merge_metadata(metadata(&json!({ TASK: { "runs": runs } }))?)).await
    }

    async fn spawn(self: &Arc<Self>, patch: MemoryPatch, is_last: IsLast) -> Result<()> {
        let this = Arc::clone(self);
        let written = tokio::spawn(async move { this.write_now(patch, is_last).await }).await;
        written.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Unexpected, "a write of a task was cut off").with_outcome(Outcome::Unknown))
        })
    }

    /// The actor that the history names for these writes.
    pub(crate) fn actor(&self) -> Option<Actor> {
        self.leases.actor()
    }

    async fn write_now(&self, mut patch: MemoryPatch, is_last: IsLast) -> Result<()> {
        patch.actor = self.actor();
        let mut state = self.state.lock().await;
        if state.is_over {
            return Err(Error::conflict("the work is over, or was given back"));
        }
        let mut tries = 1;
        loop {
            let error = match self.leases.provider.update(self.id, patch.clone().if_revision(state.revision)).await {
                Ok(updated) => {
                    state.revision = updated.revision;
                    state.is_over = is_last == IsLast::Yes;
                    return Ok(());
                }
                Err(error) => error,
            };
            let is_unclear = error.kind() == ErrorKind::Conflict || error.outcome() == Outcome::Unknown;
            if !is_unclear || tries == MAX_TRIES {
                return Err(error);
            }
            let memory = self.leases.provider.get(self.id).await.map_err(|late| late.after(error.outcome()))?;
            let memory = memory.ok_or_else(Error::not_found)?;
            let claim = Claim::read(&memory);
            let is_ours = claim.as_ref().is_ok_and(|claim| claim.holder == self.claim.holder);
            let is_open = memory.status.is_open();
            // If the task has ended, only a patch with a status can have been the one that ended it.
            if is_ours && (is_open || patch.status.is_some()) && is_written(&patch, &memory) {
                state.revision = memory.revision;
                state.is_over = is_last == IsLast::Yes;
                return Ok(());
            }
            if claim.is_ok_and(|claim| self.leases.is_twin(&claim)) {
                return Err(Error::conflict("a later process has the name of this instance, and has taken the task"));
            }
            if !is_ours || !is_open {
                return Err(Error::conflict("somebody else has taken the task, or has ended it"));
            }
            state.revision = memory.revision;
            tries += 1;
        }
    }

    /// Runs `work` and renews the lease meanwhile. If the lease is lost, the work is dropped and the reason is returned as the error.
    pub async fn while_held<T>(self: &Arc<Self>, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            result = work => result,
            lost = self.keep() => Err(lost),
        }
    }

    /// Renews the lease until it is lost, and returns the reason.
    async fn keep(self: &Arc<Self>) -> Error {
        let (length, mut renewed_at) = (self.leases.length, Instant::now());
        loop {
            tokio::time::sleep(length / RENEWALS).await;
            let now = Instant::now();
            // A renewal that hangs must not outlive the lease. One that starts late, as after a pause of the process, still gets a
            // third of the length.
            let left = length.saturating_sub(now - renewed_at).max(length / RENEWALS);
            let Ok(renewed) = timeout(left, self.renew()).await else {
                let late = Error::new(ErrorKind::Timeout, "the lease has run out while it was renewed");
                return late.with_outcome(Outcome::Unknown);
            };
            if renewed.is_ok() {
                renewed_at = now;
            }
            if let Err(error) = renewed {
                let state = self.state.lock().await;
                let (is_done, is_late) = (state.is_over, state.until <= self.leases.clock.now());
                drop(state);
                if is_done {
                    // The work has made its last write and is about to end.
                    return std::future::pending().await;
                }
                let is_gone = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Erased);
                if is_late || is_gone || matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Closed) {
                    return error;
                }
                tracing::warn!(id = %self.id, %error, "a lease was not renewed");
            }
        }
    }

    async fn renew(self: &Arc<Self>) -> Result<()> {
        let until = self.leases.end();
        let patch = metadata(&json!({ TASK: { "leaseUntil": until } }))?;
        self.write(MemoryPatch::new().merge_metadata(patch)).await?;
        self.state.lock().await.until = until;
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.held().remove(&self.id);
    }
}

/// Whether a memory already has the values of a patch, so that writing it again would change nothing.
fn is_written(patch: &MemoryPatch, memory: &Memory) -> bool {
    let Memory { revision, updated_at, .. } = *memory;
    let is_same = |patched| Memory { revision, updated_at, ..patched } == *memory;
    patch.apply(memory, Timestamp::MIN).is_ok_and(|patched| patched.is_none_or(is_same))
}
