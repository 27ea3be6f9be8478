//! The cache of prompt memory texts in this process.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use memory_core::{DocumentId, Revision};
use tokio::time::Instant;

/// The most stores in the cache.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

/// The texts that were read last. If a write of this process ends during a read, the read is not cached, since it may be older than the
/// write.
#[derive(Debug)]
pub(super) struct Cache(Mutex<State>);

#[derive(Debug)]
struct State {
    texts: LruCache<DocumentId, Cached>,
    /// The number of writes of this process that have ended.
    writes: u64,
}

#[derive(Debug)]
struct Cached {
    since: Instant,
    /// `None` if it has to be read again.
    known: Option<Known>,
    /// The latest revision that a read or a write of this process has seen since then.
    newest: Option<Revision>,
}

/// A text with its revision; the default is a store that was never written.
#[derive(Clone, Default)]
pub(super) struct Known {
    pub(super) text: Arc<str>,
    pub(super) revision: Option<Revision>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { texts: LruCache::new(CAPACITY), writes: 0 }))
    }

    /// Returns the cached text of a store, if it is not older than `max_age`.
    pub(super) fn get(&self, id: &DocumentId, max_age: Duration) -> Option<Known> {
        let mut state = self.state();
        let Cached { since, known, .. } = state.texts.get(id)?;
        known.clone().filter(|_| since.elapsed() < max_age)
    }

    /// The number of writes so far; take it before a read, for [`Cache::keep`].
    pub(super) fn writes(&self) -> u64 {
        self.state().writes
    }

    /// Caches the result of a read, unless a write has ended since the read began.
    pub(super) fn keep(&self, id: &DocumentId, known: Known, writes_before: u64) {
        let mut state = self.state();
        if state.writes == writes_before {
            state.texts.put(id.clone(), Cached::of(known));
        }
    }

    /// Records the end of a write: the new text, or `None` if the outcome is unknown.
    pub(super) fn wrote(&self, id: &DocumentId, known: Option<Known>) {
        let mut state = self.state();
        state.writes += 1;
        let newest = state.texts.peek(id).and_then(|cached| cached.newest);
        let cached = match known {
            // If writes end in the wrong order, an earlier revision must not replace a later one. It may also be that of a store that was
            // removed and written again, so the text is read again in any case.
            Some(known) if known.revision > newest => Cached::of(known),
            _ => Cached { since: Instant::now(), known: None, newest },
        };
        state.texts.put(id.clone(), cached);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic in the middle of a change, so a poisoned value is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cached {
    fn of(known: Known) -> Self {
        Self { since: Instant::now(), newest: known.revision, known: Some(known) }
    }
}

impl fmt::Debug for Known {
    /// Shows only the size, so that payloads stay out of logs.
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
        cache.wrote(&id(), known(1));
        assert_eq!(text(&cache), None, "also when a third one ends");
        cache.wrote(&id(), known(4));
        assert_eq!(text(&cache).as_deref(), Some("4"));
        assert!(cache.get(&id(), Duration::ZERO).is_none());
    }
}
