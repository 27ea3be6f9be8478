//! The expiry of the reference with one bug.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::{
    Clock, Collection, Count, Document, DocumentId, DocumentWrite, Erasure, InMemory, Memory, MemoryId, MemoryProvider,
    MemoryQuery, RecordId, Result, Retention, SpaceLevel, SpaceSelector, Sweep, Swept, Timestamp,
};

use crate::flaw::Flaw;

/// The records with an expiry that a broken handle remembers.
#[derive(Debug)]
pub(crate) struct Expiring {
    clock: Arc<dyn Clock>,
    /// Memories that were stored with an expiresAt, and not swept since.
    memories: Mutex<Vec<Memory>>,
    /// Documents that were put with one, and not put again since.
    documents: Mutex<Vec<Document>>,
    /// Those that were set by this handle, for [`Flaw::RulesBelongToTheirHandle`].
    rules: Mutex<Vec<Retention>>,
}

impl Expiring {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let (memories, documents, rules) = Default::default();
        Self { clock, memories, documents, rules }
    }

    /// The rules that this handle has set.
    pub(crate) fn rules(&self) -> Vec<Retention> {
        locked(&self.rules).clone()
    }

    pub(crate) fn set_rules(&self, mut rules: Vec<Retention>) {
        rules.sort_by(|one, other| one.under().cmp(other.under()));
        *locked(&self.rules) = rules;
    }

    /// Remembers a memory that expires, as it was stored.
    pub(crate) async fn stored(&self, inner: &InMemory, expires_at: Option<Timestamp>, id: MemoryId) -> Result<()> {
        if expires_at.is_some() {
            let memory = inner.get(id).await?;
            locked(&self.memories).extend(memory);
        }
        Ok(())
    }

    /// The expired memories that were not swept, which a query finds all the same.
    pub(crate) fn found(&self, flaw: Flaw, query: &MemoryQuery) -> Vec<Memory> {
        if flaw != Flaw::ExpiredIsShownUntilSwept || query.cursor().is_some() || query.filter().is_some() {
            return Vec::new();
        }
        let is_found = |memory: &Memory| query.text().is_none() && query.spaces().matches(memory.space_id.as_str());
        self.over().into_iter().filter(is_found).collect()
    }

    /// Counts the expired memories that were not swept.
    pub(crate) fn count(&self, levels: &mut [SpaceLevel]) -> Result<()> {
        let over = self.over();
        for space in levels.iter_mut().flat_map(|level| &mut level.spaces) {
            let under = SpaceSelector::under(space.id.as_str())?;
            let more = over.iter().filter(|memory| under.matches(memory.space_id.as_str())).count();
            if let Count::Exactly(count) = space.count {
                space.count = Count::Exactly(count + more);
            }
        }
        Ok(())
    }

    /// Sweeps, apart from the flaw.
    pub(crate) async fn sweep(&self, inner: &InMemory, flaw: Flaw, from: &Sweep) -> Result<Swept> {
        let mut swept = match flaw {
            // That of tombstones is the last part of the other round.
            Flaw::TombstonesOfExpiryStay => inner.sweep(&Sweep::due()).await?,
            _ => inner.sweep(from).await?,
        };
        let over = self.over();
        if flaw == Flaw::SweepTakesWhatWasExtended && !over.is_empty() {
            let records = over.iter().map(|memory| RecordId::Memory(memory.id));
            let erased = inner.erase(&Erasure::records(records, "it was to expire")?).await?;
            let all: BTreeSet<_> = swept.records.into_iter().chain(erased.records).collect();
            swept.records = all.into_iter().collect();
        }
        locked(&self.memories).retain(|memory| !over.iter().any(|gone| gone.id == memory.id));
        Ok(swept)
    }

    /// Remembers a document that was put.
    pub(crate) fn put(&self, document: &Document) {
        let mut documents = locked(&self.documents);
        documents.retain(|other| (&other.collection, &other.id) != (&document.collection, &document.id));
        documents.extend(document.expires_at.map(|_| document.clone()));
    }

    /// Whether the document that was last put under the id of a write has expired.
    pub(crate) fn blocks(&self, write: &DocumentWrite) -> bool {
        let (collection, id): (&Collection, Option<&DocumentId>) = (&write.collection, write.id.as_ref());
        let now = self.clock.now();
        let is_in_place = |document: &&Document| document.collection == *collection && Some(&document.id) == id;
        let in_place = locked(&self.documents).iter().find(is_in_place).and_then(|document| document.expires_at);
        in_place.is_some_and(|end| end <= now)
    }

    /// The memories that, by their expiry at the store, have expired by now.
    fn over(&self) -> Vec<Memory> {
        let now = self.clock.now();
        let is_over = |memory: &&Memory| memory.expires_at.is_some_and(|end| end <= now);
        locked(&self.memories).iter().filter(is_over).cloned().collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
