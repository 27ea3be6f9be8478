//! What one run of a program holds of the open work in the ledger.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::filter::Field;
use memory_core::{
    Actor, Clock, Error, ErrorKind, Filter, Memory, MemoryId, MemoryPatch, MemoryProvider, Result, Revision, Timestamp,
};
use uuid::Uuid;

use crate::claim::{Claim, TASK};
use crate::lease::Lease;

/// Takes open work of the ledger for one run of a program, so that nobody else works on it: tasks of a runtime, messages of an agent.
///
/// A memory is open work while its status is `pending` or `running`. Who works on it, and until when, stands in its metadata under
/// [`TASK`]; it is compared and set with the revision of the memory, so of several that take it one does.
pub struct Leases {
    pub(crate) provider: Arc<dyn MemoryProvider>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) length: Duration,
    instance: Arc<str>,
    holder: Arc<str>,
    /// When a lease ends that began when this run of the program did. Those of its instance that end later were taken or renewed since,
    /// by one that is alive.
    began_until: Timestamp,
    /// What is held at this moment, which must not be taken again, however long the process was away.
    held: Mutex<HashSet<MemoryId>>,
}

/// The longest name of an instance, in bytes.
const MAX_INSTANCE: usize = 128;

impl Leases {
    /// Leases of this length under the name of an instance; without one under a new name.
    ///
    /// Whoever has the name again after a restart takes the work of the one before at once, without waiting for its leases: what that held
    /// when this call was made. If the one before still runs, it loses this work and nothing else: what it takes or renews from then on
    /// is its own, and it takes nothing of the later one's. Clocks of programs on one engine must differ by much less than a lease.
    pub fn new(
        provider: Arc<dyn MemoryProvider>,
        clock: Arc<dyn Clock>,
        instance: Option<&str>,
        length: Duration,
    ) -> Arc<Self> {
        let instance = instance.map_or_else(unique_name, Arc::from);
        let began_until = end(clock.as_ref(), length);
        let (holder, held) = (unique_name(), Mutex::default());
        Arc::new(Self { provider, clock, length, instance, holder, began_until, held })
    }

    /// Checks the name of an instance: `InvalidInput` unless it has 1 to 128 bytes without control characters.
    pub fn check_instance(name: &str) -> Result<()> {
        if name.is_empty() || name.len() > MAX_INSTANCE || name.contains(char::is_control) {
            let message = format!("the name of an instance has 1 to {MAX_INSTANCE} bytes without control characters");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Who it is in the history of what it changes: the instance.
    pub(crate) fn actor(&self) -> Option<Actor> {
        Actor::parse(&*self.instance).ok()
    }

    /// The claim of this run of the program from now on, on work that was begun so often.
    pub fn claim(&self, runs: u32) -> Claim {
        Claim { instance: Arc::clone(&self.instance), holder: Arc::clone(&self.holder), until: self.end(), runs }
    }

    /// Holds a memory that was just stored with the metadata of a claim.
    pub fn hold(self: &Arc<Self>, id: MemoryId, claim: Claim) -> Arc<Lease> {
        Lease::new(self, id, Revision::FIRST, claim)
    }

    /// Takes work that nobody holds; `None` when somebody else was faster, it is there no more, or this run of the program holds it
    /// itself.
    pub async fn take(self: &Arc<Self>, memory: &Memory, claim: Claim) -> Result<Option<Arc<Lease>>> {
        if self.holds(memory.id) {
            return Ok(None);
        }
        let mut patch = MemoryPatch::new().merge_metadata(claim.to_metadata()?).if_revision(memory.revision);
        patch.actor = self.actor();
        match self.provider.update(memory.id, patch).await {
            Ok(updated) => Ok(Some(Lease::new(self, memory.id, updated.revision, claim))),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Erased) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What work satisfies that nobody holds now, or that an earlier run of this instance held when this one began. It names the present
    /// time, so all pages of one search are asked for with the same value.
    pub fn free(&self) -> Filter {
        let member = |name| Field::metadata([TASK, name]);
        let given_back = member("holder").is_not_null().and(member("leaseUntil").is_null());
        let own = member("instance").eq(&*self.instance).and(member("holder").ne(&*self.holder));
        let own = own.and(member("leaseUntil").le(self.began_until.as_millis()));
        member("leaseUntil").le(self.clock.now().as_millis()).or(given_back).or(own)
    }

    /// Whether a memory is open work that nobody holds now, as [`Leases::free`] finds it.
    pub fn is_free(&self, memory: &Memory) -> bool {
        let is_over =
            |claim: Claim| claim.until <= self.clock.now() || (self.is_twin(&claim) && claim.until <= self.began_until);
        memory.status.is_open() && !self.holds(memory.id) && Claim::read(memory).is_ok_and(is_over)
    }

    /// Whether a claim is another run's of this instance.
    pub(crate) fn is_twin(&self, claim: &Claim) -> bool {
        claim.instance == self.instance && claim.holder != self.holder
    }

    /// Whether this run of the program works on it.
    pub(crate) fn holds(&self, id: MemoryId) -> bool {
        self.held().contains(&id)
    }

    /// When a lease ends that begins now.
    pub(crate) fn end(&self) -> Timestamp {
        end(self.clock.as_ref(), self.length)
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashSet<MemoryId>> {
        // No code that holds the lock can panic half way through a change.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("instance", &self.instance).field("length", &self.length).finish_non_exhaustive()
    }
}

/// When a lease of this length ends that begins now.
fn end(clock: &dyn Clock, length: Duration) -> Timestamp {
    let length = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(clock.now().as_millis().saturating_add(length)).unwrap_or(Timestamp::MAX)
}

/// A name that nobody else has.
fn unique_name() -> Arc<str> {
    Uuid::now_v7().to_string().into()
}
