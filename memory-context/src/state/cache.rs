//! The cache of provider results.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_core::MemoryId;
use moka::Expiry;
use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;

use super::{ProviderResult, StateData};

/// The provider results of the messages that were composed last; see [`Composer::cache`](super::Composer::cache) and
/// [`Agent::cache`](crate::agent::Agent::cache). It holds at most 64 MiB of results, measured as JSON.
///
/// A removal affects compositions that begin later. A composition in progress keeps the results that it has read.
#[derive(Debug)]
pub struct StateCache {
    messages: moka::sync::Cache<MemoryId, Arc<Slots>>,
    /// Orders provider runs and compositions by their start.
    stamps: AtomicU64,
}

/// The most bytes of all results together, measured as JSON.
const MAX_BYTES: u64 = 64 << 20;

/// The time to live of a message's results, counted from the first of them.
struct Lifetime(Duration);

/// The results of one message, one slot per provider.
#[derive(Debug)]
pub(super) struct Slots {
    /// The generation of the registration that made the results.
    generation: u64,
    of_providers: Mutex<HashMap<String, Arc<Slot>>>,
}

/// The result of one provider for one message.
#[derive(Debug, Default)]
pub(super) struct Slot {
    kept: Mutex<Option<Kept>>,
    /// Locked while the provider runs, so that concurrent compositions wait for the same run.
    pub(super) running: tokio::sync::Mutex<()>,
}

/// A cached result, with the results of other providers that it depends on.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) result: Arc<ProviderResult>,
    /// The size of the result as JSON.
    pub(super) bytes: usize,
    /// The start of its run.
    pub(super) stamp: Stamp,
    /// The results of lower positions that its provider saw; `None` if it did not read them.
    pub(super) seen: Option<Arc<Seen>>,
}

/// The providers in a snapshot, each with the run that gave its result.
pub(super) type Seen = Vec<(String, Stamp)>;

/// The place of a start in the order of all starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

impl StateCache {
    pub(super) fn new(messages: u64, time_to_live: Duration) -> Self {
        // Each message weighs at least its share of the bytes, so that the bound on the bytes also bounds the number of messages.
        let least = MAX_BYTES.checked_div(messages).unwrap_or(MAX_BYTES + 1);
        let weigh = move |_: &MemoryId, slots: &Arc<Slots>| slots.bytes().max(least).try_into().unwrap_or(u32::MAX);
        let builder = moka::sync::Cache::builder().max_capacity(MAX_BYTES).weigher(weigh);
        let builder = builder.expire_after(Lifetime(time_to_live)).eviction_policy(EvictionPolicy::lru());
        Self { messages: builder.build(), stamps: AtomicU64::new(0) }
    }

    /// Returns the cached results of a message by the names of their providers; `None` if nothing is cached for it.
    pub fn get(&self, message: MemoryId) -> Option<StateData> {
        let slots = self.messages.get(&message)?;
        let of_providers = lock(&slots.of_providers);
        let results = of_providers.iter().filter_map(|(name, slot)| Some((name.clone(), slot.peek()?)));
        Some(StateData { providers: results.collect() })
    }

    /// The messages with cached results, in no order.
    pub fn messages(&self) -> Vec<MemoryId> {
        self.messages.run_pending_tasks();
        self.messages.iter().map(|(id, _)| *id).collect()
    }

    /// Removes the results of a message.
    pub fn remove(&self, message: MemoryId) {
        self.messages.invalidate(&message);
    }

    /// Removes the results of a provider, for all messages.
    pub fn remove_provider(&self, name: &str) {
        for (_, slots) in &self.messages {
            lock(&slots.of_providers).remove(name);
        }
    }

    /// Removes all results.
    pub fn clear(&self) {
        self.messages.invalidate_all();
    }

    /// Returns a stamp later than all earlier ones.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the slots of a message for this generation. Slots of an earlier generation are dropped; those of a later one are not used.
    pub(super) fn slots(&self, id: MemoryId, generation: u64) -> Arc<Slots> {
        let new = || Arc::new(Slots { generation, of_providers: Mutex::default() });
        let entry = self.messages.entry(id).or_insert_with_if(new, |slots| slots.generation < generation);
        let slots = entry.into_value();
        if slots.generation == generation { slots } else { new() }
    }

    /// Stores a result in a slot of a message, and updates the weight of the message.
    pub(super) fn keep(&self, message: MemoryId, slots: &Arc<Slots>, slot: &Slot, kept: Kept) {
        slot.keep(kept);
        self.messages.entry(message).and_compute_with(|entry| match entry {
            Some(entry) if Arc::ptr_eq(entry.value(), slots) => Op::Put(entry.into_value()),
            // The slots were removed meanwhile.
            _ => Op::Nop,
        });
    }
}

impl Expiry<MemoryId, Arc<Slots>> for Lifetime {
    fn expire_after_create(&self, _: &MemoryId, _: &Arc<Slots>, _: Instant) -> Option<Duration> {
        Some(self.0)
    }
}

impl Slots {
    pub(super) fn slot(&self, provider: &str) -> Arc<Slot> {
        let mut slots = lock(&self.of_providers);
        if let Some(slot) = slots.get(provider) {
            return Arc::clone(slot);
        }
        Arc::clone(slots.entry(provider.to_owned()).or_default())
    }

    /// The size of all results in bytes.
    fn bytes(&self) -> u64 {
        let slots = lock(&self.of_providers);
        slots.values().map(|slot| lock(&slot.kept).as_ref().map_or(0, |kept| kept.bytes as u64)).sum()
    }
}

impl Slot {
    fn peek(&self) -> Option<Arc<ProviderResult>> {
        lock(&self.kept).as_ref().map(|kept| Arc::clone(&kept.result))
    }

    /// Returns the result if the provider would see the same now and, if `since` is given, its run began after that.
    pub(super) fn get(&self, since: Option<Stamp>, seen: &Seen) -> Option<Kept> {
        let kept = lock(&self.kept).clone()?;
        let holds = kept.seen.as_deref().is_none_or(|before| before == seen);
        (holds && since.is_none_or(|since| kept.stamp > since)).then_some(kept)
    }

    fn keep(&self, kept: Kept) {
        *lock(&self.kept) = Some(kept);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under the lock can panic in the middle of a change, so a poisoned value is consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
