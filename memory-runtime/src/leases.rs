//! The leases of one run of a program on open work in the ledger.

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

/// Leases open work in the ledger to one run of a program, so that nobody else works on it: tasks of a runtime, messages of an agent.
///
/// A memory is open work while its status is `pending` or `running`. The claim ([`Claim`]) is the member [`TASK`] of its metadata. It is
/// set by compare-and-set on the revision of the memory, so only one of several concurrent programs gets it.
pub struct Leases {
    pub(crate) provider: Arc<dyn MemoryProvider>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) length: Duration,
    instance: Arc<str>,
    holder: Arc<str>,
    /// The end of a lease that began when this value was made. A lease of the same instance that ends later was taken or renewed since
    /// then, by another run that is still alive.
    began_until: Timestamp,
    /// The memories that are leased at the moment. They must not be taken again, even if their leases expired during a pause.
    held: Mutex<HashSet<MemoryId>>,
}

/// The longest name of an instance, in bytes.
const MAX_INSTANCE: usize = 128;

impl Leases {
    /// Makes leases of this length with an instance name, or with a new unique name.
    ///
    /// After a restart with the same name, the work that the previous run held when this call was made is free at once, before its leases
    /// expire. If the previous run is still alive, it loses that work and nothing else: it keeps what it takes or renews later, and takes
    /// nothing from the new run. The clocks of programs on one engine must differ by much less than the length of a lease.
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

    /// Checks an instance name. Fails with `InvalidInput` unless it has 1 to 128 bytes and no control characters.
    pub fn check_instance(name: &str) -> Result<()> {
        if name.is_empty() || name.len() > MAX_INSTANCE || name.contains(char::is_control) {
            let message =
                format!("the name of an instance must have 1 to {MAX_INSTANCE} bytes without control characters");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// The actor that the history names for writes under these leases: the instance.
    pub(crate) fn actor(&self) -> Option<Actor> {
        Actor::parse(&*self.instance).ok()
    }

    /// Returns a claim of this run that begins now, for work that was started `runs` times.
    pub fn claim(&self, runs: u32) -> Claim {
        Claim { instance: Arc::clone(&self.instance), holder: Arc::clone(&self.holder), until: self.end(), runs }
    }

    /// Returns the lease on a memory that was just stored with this claim in its metadata.
    pub fn hold(self: &Arc<Self>, id: MemoryId, claim: Claim) -> Arc<Lease> {
        Lease::new(self, id, Revision::FIRST, claim)
    }

    /// Takes a free memory. Returns `None` if another program was faster, if the memory no longer exists, or if this run holds it already.
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

    /// Returns the filter for free work: nobody holds it now, or an earlier run of this instance held it when this value was made. The
    /// filter holds the present time, so use the same one for all pages of a query.
    pub fn free(&self) -> Filter {
        let member = |name| Field::metadata([TASK, name]);
        let given_back = member("holder").is_not_null().and(member("leaseUntil").is_null());
        let own = member("instance").eq(&*self.instance).and(member("holder").ne(&*self.holder));
        let own = own.and(member("leaseUntil").le(self.began_until.as_millis()));
        member("leaseUntil").le(self.clock.now().as_millis()).or(given_back).or(own)
    }

    /// Whether a memory is open work that is free, by the same rule as [`Leases::free`].
    pub fn is_free(&self, memory: &Memory) -> bool {
        let is_over =
            |claim: Claim| claim.until <= self.clock.now() || (self.is_twin(&claim) && claim.until <= self.began_until);
        memory.status.is_open() && !self.holds(memory.id) && Claim::read(memory).is_ok_and(is_over)
    }

    /// Whether a claim belongs to another run of this instance.
    pub(crate) fn is_twin(&self, claim: &Claim) -> bool {
        claim.instance == self.instance && claim.holder != self.holder
    }

    /// Whether this run holds a lease on the memory.
    pub(crate) fn holds(&self, id: MemoryId) -> bool {
        self.held().contains(&id)
    }

    /// The end of a lease that begins now.
    pub(crate) fn end(&self) -> Timestamp {
        end(self.clock.as_ref(), self.length)
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashSet<MemoryId>> {
        // No code under the lock can panic in the middle of a change, so a poisoned set is consistent.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("instance", &self.instance).field("length", &self.length).finish_non_exhaustive()
    }
}

/// The end of a lease of this length that begins now.
fn end(clock: &dyn Clock, length: Duration) -> Timestamp {
    let length = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(clock.now().as_millis().saturating_add(length)).unwrap_or(Timestamp::MAX)
}

/// Returns a unique name.
fn unique_name() -> Arc<str> {
    Uuid::now_v7().to_string().into()
}
