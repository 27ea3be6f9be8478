//! The erasures of the reference with one bug.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{
    ErasedSlice, Erasure, History, KeyedHash, MAX_LIMIT, Memory, MemoryProvider, MemoryQuery, Reason, RecordId, Result,
    Spaces, Tombstone, Version, words,
};

use crate::flaw::Flaw;
use crate::naive::Naive;

/// The memories that a broken handle has kept although it has erased them.
#[derive(Debug, Default)]
pub(crate) struct Erased {
    memories: Mutex<Vec<Memory>>,
    versions: Mutex<HashMap<RecordId, Vec<Version>>>,
}

impl Erased {
    /// Erases, and remembers the records that its flaw shows afterwards.
    pub(crate) async fn erase(&self, naive: &Naive, flaw: Flaw, erasure: &Erasure) -> Result<ErasedSlice> {
        let mut memories = if keeps_memories(flaw) { naive.everything().await? } else { Vec::new() };
        let mut versions = HashMap::<RecordId, Vec<Version>>::new();
        if flaw == Flaw::ErasedHistoryStays {
            for memory in &memories {
                let history = History::of(memory.id).limit(MAX_LIMIT)?;
                versions.insert(memory.id.into(), naive.inner().history(&history).await?.versions);
            }
        }
        let mut slice = naive.inner().erase(erasure).await?;
        memories.retain(|memory| slice.records.contains(&RecordId::Memory(memory.id)));
        versions.retain(|record, _| slice.records.contains(record));
        locked(&self.memories).extend(memories);
        locked(&self.versions).extend(versions);
        slice.is_complete |= flaw == Flaw::ErasureEndsTooSoon;
        Ok(slice)
    }

    /// The erased memories that a query finds all the same.
    pub(crate) fn found(&self, flaw: Flaw, query: &MemoryQuery) -> Vec<Memory> {
        let is_found = |memory: &&Memory| match (flaw, query.text(), query.spaces()) {
            (Flaw::ErasedTextIsFound, Some(text), _) => {
                let held = words::text_of(&memory.trigger, memory.context.as_ref());
                !words::distinct(text).is_disjoint(&words::distinct(&held))
            }
            (Flaw::ErasedPlaceIsFound, _, Spaces::Any(_)) => query.spaces().matches(memory.space_id.as_str()),
            _ => false,
        };
        locked(&self.memories).iter().filter(is_found).cloned().collect()
    }

    /// The versions that it still shows of a record.
    pub(crate) fn versions(&self, of: &RecordId) -> Option<Vec<Version>> {
        locked(&self.versions).get(of).cloned()
    }

    /// A tombstone as this provider shows it.
    pub(crate) fn shown(&self, flaw: Flaw, tombstone: Tombstone) -> Result<Tombstone> {
        let memories = locked(&self.memories);
        let memory = memories.iter().find(|memory| tombstone.record == RecordId::Memory(memory.id));
        Ok(match (flaw, memory) {
            (Flaw::TombstoneQuotesItsRecord, Some(memory)) => {
                Tombstone { reason: Reason::parse(memory.trigger.as_str())?, ..tombstone }
            }
            (Flaw::TombstoneShowsItsKey, Some(memory)) => {
                let key = memory.idempotency_key.as_ref().map(|key| openly(key.as_str()));
                Tombstone { key, ..tombstone }
            }
            _ => tombstone,
        })
    }
}

/// Whether the flaw needs the memories that were erased.
fn keeps_memories(flaw: Flaw) -> bool {
    matches!(
        flaw,
        Flaw::ErasedTextIsFound
            | Flaw::ErasedPlaceIsFound
            | Flaw::ErasedHistoryStays
            | Flaw::TombstoneQuotesItsRecord
            | Flaw::TombstoneShowsItsKey
    )
}

/// The first bytes of a name as they are.
fn openly(name: &str) -> KeyedHash {
    let mut bytes = [0; KeyedHash::BYTES];
    bytes.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    KeyedHash(bytes)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
