//! The cache of the retention rules (X3).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::expiry::Rules;

/// How long a handle uses the retention rules before it reads them again.
const KNOWN: Duration = Duration::from_millis(500);

/// The retention rules of the namespace, cached by a handle.
#[derive(Debug, Default)]
pub(super) struct KnownRules(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// When they were last read, and the rules; `None` before the first read.
    rules: Option<(Instant, Arc<Rules>)>,
    /// How often this handle has set them.
    generation: u64,
}

/// The rules that a call found in the cache.
pub(super) struct Cached {
    /// `None` before the first read.
    pub(super) rules: Option<Arc<Rules>>,
    /// Whether the call must read them again.
    pub(super) is_due: bool,
    /// How often the handle had set rules by then.
    pub(super) generation: u64,
}

impl KnownRules {
    /// Returns the cached rules. If they are due, this call reads them again, and other calls use them meanwhile.
    pub(super) fn get(&self) -> Cached {
        let mut known = self.lock();
        let generation = known.generation;
        let Some((asked, rules)) = &mut known.rules else { return Cached { rules: None, is_due: true, generation } };
        let is_due = asked.elapsed() >= KNOWN;
        if is_due {
            *asked = Instant::now();
        }
        Cached { rules: Some(Arc::clone(rules)), is_due, generation }
    }

    /// Caches rules that were read, unless this handle has set others since.
    pub(super) fn learn(&self, rules: &Arc<Rules>, generation: u64) {
        let mut known = self.lock();
        if known.generation == generation {
            known.rules = Some((Instant::now(), Arc::clone(rules)));
        }
    }

    pub(super) fn set(&self, rules: Arc<Rules>) {
        let mut known = self.lock();
        known.generation += 1;
        known.rules = Some((Instant::now(), rules));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
