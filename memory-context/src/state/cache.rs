//! What earlier compositions of a message got.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::MemoryId;
use moka::policy::EvictionPolicy;

use super::ProviderResult;

/// The results of the messages that were composed last, a slot for each provider.
#[derive(Debug)]
pub(super) struct Cache {
    messages: moka::sync::Cache<MemoryId, Arc<Slots>>,
    /// Orders runs and compositions by their beginning.
    stamps: AtomicU64,
}

/// The slots of one message.
#[derive(Debug, Default)]
pub(super) struct Slots(Mutex<HashMap<String, Arc<Slot>>>);

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

impl Cache {
    pub(super) fn new(messages: u64, time_to_live: Duration) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(messages).time_to_live(time_to_live);
        Self { messages: builder.eviction_policy(EvictionPolicy::lru()).build(), stamps: AtomicU64::new(0) }
    }

    /// Later than all stamps before.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::Relaxed))
    }

    /// The slots of a message.
    pub(super) fn slots(&self, id: MemoryId) -> Arc<Slots> {
        self.messages.get_with(id, Arc::default)
    }

    /// How many messages it knows.
    pub(super) fn len(&self) -> u64 {
        self.messages.run_pending_tasks();
        self.messages.entry_count()
    }
}

impl Slots {
    pub(super) fn slot(&self, provider: &str) -> Arc<Slot> {
        let mut slots = lock(&self.0);
        if let Some(slot) = slots.get(provider) {
            return Arc::clone(slot);
        }
        Arc::clone(slots.entry(provider.to_owned()).or_default())
    }
}

impl Slot {
    /// The result, if it holds for what the provider would see now, and its run began after `since` where that is asked for.
    pub(super) fn get(&self, since: Option<Stamp>, seen: &Seen) -> Option<Kept> {
        let kept = lock(&self.kept).clone()?;
        let holds = kept.seen.as_deref().is_none_or(|before| before == seen);
        (holds && since.is_none_or(|since| kept.stamp > since)).then_some(kept)
    }

    pub(super) fn keep(&self, kept: Kept) {
        *lock(&self.kept) = Some(kept);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds the lock can panic half way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
