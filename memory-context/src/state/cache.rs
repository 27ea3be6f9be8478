//! What earlier compositions of a message got.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_core::MemoryId;
use moka::Expiry;
use moka::ops::compute::Op;
use moka::policy::EvictionPolicy;

use super::{ProviderResult, StateData};

/// What providers gave for the messages that were composed last; see [`Composer::cache`](super::Composer::cache) and
/// [`Agent::cache`](crate::agent::Agent::cache). It holds 64 MiB of results at most, as they are in JSON.
///
/// What is taken away is gone for the compositions that begin later; one that is under way goes on with what it got.
#[derive(Debug)]
pub struct StateCache {
    messages: moka::sync::Cache<MemoryId, Arc<Slots>>,
    /// Orders runs and compositions by their beginning.
    stamps: AtomicU64,
}

/// The most bytes of all results together.
const MAX_BYTES: u64 = 64 << 20;

/// For how long results count from the first of a message on.
struct Lifetime(Duration);

/// The slots of one message.
#[derive(Debug)]
pub(super) struct Slots {
    /// The registration that the results are of.
    generation: u64,
    of_providers: Mutex<HashMap<String, Arc<Slot>>>,
}

/// The result of one provider for one message.
#[derive(Debug, Default)]
pub(super) struct Slot {
    kept: Mutex<Option<Kept>>,
    /// Held while the provider runs, so that whoever wants the same waits for it.
    pub(super) running: tokio::sync::Mutex<()>,
}

/// A result, and what it came of.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) result: Arc<ProviderResult>,
    /// Of the result as JSON.
    pub(super) bytes: usize,
    /// When its run began.
    pub(super) stamp: Stamp,
    /// What its provider saw of lower positions, if it looked.
    pub(super) seen: Option<Arc<Seen>>,
}

/// The names of the providers in a snapshot, and which of their runs it holds.
pub(super) type Seen = Vec<(String, Stamp)>;

/// A point in the order of all beginnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

impl StateCache {
    pub(super) fn new(messages: u64, time_to_live: Duration) -> Self {
        // Each message weighs at least its part of the number, so that both bounds hold.
        let least = MAX_BYTES.checked_div(messages).unwrap_or(MAX_BYTES + 1);
        let weigh = move |_: &MemoryId, slots: &Arc<Slots>| slots.bytes().max(least).try_into().unwrap_or(u32::MAX);
        let builder = moka::sync::Cache::builder().max_capacity(MAX_BYTES).weigher(weigh);
        let builder = builder.expire_after(Lifetime(time_to_live)).eviction_policy(EvictionPolicy::lru());
        Self { messages: builder.build(), stamps: AtomicU64::new(0) }
    }

    /// What is kept for a message: the results by the names of their providers. `None` when it is not known.
    pub fn get(&self, message: MemoryId) -> Option<StateData> {
        let slots = self.messages.get(&message)?;
        let of_providers = lock(&slots.of_providers);
        let results = of_providers.iter().filter_map(|(name, slot)| Some((name.clone(), slot.peek()?)));
        Some(StateData { providers: results.collect() })
    }

    /// The messages that it knows, in no order.
    pub fn messages(&self) -> Vec<MemoryId> {
        self.messages.run_pending_tasks();
        self.messages.iter().map(|(id, _)| *id).collect()
    }

    /// Takes away what is kept for a message.
    pub fn remove(&self, message: MemoryId) {
        self.messages.invalidate(&message);
    }

    /// Takes away what a provider gave, for all messages.
    pub fn remove_provider(&self, name: &str) {
        for (_, slots) in &self.messages {
            lock(&slots.of_providers).remove(name);
        }
    }

    /// Takes everything away.
    pub fn clear(&self) {
        self.messages.invalidate_all();
    }

    /// Later than all stamps before.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::Relaxed))
    }

    /// The slots of a message for this registration. Those of an earlier one are dropped; those of a later one are not looked at.
    pub(super) fn slots(&self, id: MemoryId, generation: u64) -> Arc<Slots> {
        let new = || Arc::new(Slots { generation, of_providers: Mutex::default() });
        let entry = self.messages.entry(id).or_insert_with_if(new, |slots| slots.generation < generation);
        let slots = entry.into_value();
        if slots.generation == generation { slots } else { new() }
    }

    /// Keeps a result in one of the slots of a message, and weighs the message anew.
    pub(super) fn keep(&self, message: MemoryId, slots: &Arc<Slots>, slot: &Slot, kept: Kept) {
        slot.keep(kept);
        self.messages.entry(message).and_compute_with(|entry| match entry {
            Some(entry) if Arc::ptr_eq(entry.value(), slots) => Op::Put(entry.into_value()),
            // They were taken away meanwhile.
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

    /// How many bytes the results have together.
    fn bytes(&self) -> u64 {
        let slots = lock(&self.of_providers);
        slots.values().map(|slot| lock(&slot.kept).as_ref().map_or(0, |kept| kept.bytes as u64)).sum()
    }
}

impl Slot {
    fn peek(&self) -> Option<Arc<ProviderResult>> {
        lock(&self.kept).as_ref().map(|kept| Arc::clone(&kept.result))
    }

    /// The result, if it holds for what the provider would see now, and its run began after `since` where that is asked for.
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
    // No code that holds the lock can panic half way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
