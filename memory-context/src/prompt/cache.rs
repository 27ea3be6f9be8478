//! What this process knows of stores without asking.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use memory_core::{DocumentId, Revision};
use tokio::time::Instant;

/// How many stores are remembered.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// The texts that were read last. What was read while this process wrote is not kept: it may be older than what was written.
#[derive(Debug)]
pub(super) struct Cache(Mutex<State>);

#[derive(Debug)]
struct State {
    texts: LruCache<DocumentId, (Instant, Known)>,
    /// How many writes of this process have ended.
    writes: u64,
}

/// A text at its revision; the default is that of a store that was never written.
#[derive(Clone, Default)]
pub(super) struct Known {
    pub(super) text: Arc<str>,
    pub(super) revision: Option<Revision>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { texts: LruCache::new(CAPACITY), writes: 0 }))
    }

    /// What was known of a store last, if that is not older than `max_age`.
    pub(super) fn get(&self, id: &DocumentId, max_age: Duration) -> Option<Known> {
        let mut state = self.state();
        let (since, known) = state.texts.get(id)?;
        (since.elapsed() < max_age).then(|| known.clone())
    }

    /// To be asked before a read, for [`Cache::keep`].
    pub(super) fn writes(&self) -> u64 {
        self.state().writes
    }

    /// Remembers what a read found, unless a write has ended since it began.
    pub(super) fn keep(&self, id: &DocumentId, known: Known, writes_before: u64) {
        let mut state = self.state();
        if state.writes == writes_before {
            state.texts.put(id.clone(), (Instant::now(), known));
        }
    }

    /// A write has ended: what it left behind, or `None` where that is not known.
    pub(super) fn wrote(&self, id: &DocumentId, known: Option<Known>) {
        let mut state = self.state();
        state.writes += 1;
        let newest = state.texts.peek(id).and_then(|(_, known)| known.revision);
        match known {
            // Of two writes that end in another order than they were made, the earlier revision must not stay.
            Some(known) if known.revision > newest => drop(state.texts.put(id.clone(), (Instant::now(), known))),
            _ => drop(state.texts.pop(id)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Known {
    /// Payloads stay out of logs: only the size shows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({} bytes, {:?})", self.text.len(), self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    fn id() -> DocumentId {
        DocumentId::parse("a").expect("valid")
    }

    fn known(revision: u64) -> Option<Known> {
        let revision = Revision::new(revision).expect("valid");
        Some(Known { text: revision.to_string().into(), revision: Some(revision) })
    }

    fn text(cache: &Cache) -> Option<String> {
        cache.get(&id(), LONG).map(|known| known.text.to_string())
    }

    #[test]
    fn what_was_read_before_a_write_ended_is_not_kept() {
        let cache = Cache::new();
        let writes = cache.writes();
        cache.wrote(&id(), known(2));
        cache.keep(&id(), known(1).expect("known"), writes);
        assert_eq!(text(&cache).as_deref(), Some("2"));
        let writes = cache.writes();
        cache.wrote(&id(), None);
        cache.keep(&id(), known(2).expect("known"), writes);
        assert_eq!(text(&cache), None);
    }

    #[test]
    fn of_two_writes_the_later_revision_stays() {
        let cache = Cache::new();
        cache.wrote(&id(), known(3));
        cache.wrote(&id(), known(2));
        assert_eq!(text(&cache), None, "to be read again");
        cache.wrote(&id(), known(4));
        assert_eq!(text(&cache).as_deref(), Some("4"));
        assert!(cache.get(&id(), Duration::ZERO).is_none());
    }
}
