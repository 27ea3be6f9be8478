//! An engine whose server starts with the first case.

use std::fmt;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, MemoryId, MemoryProvider, Result};

use super::Missing;
#[cfg(feature = "faults")]
use crate::fault::Faults;
use crate::harness::Harness;
use crate::namespace::Namespace;

/// The harness of the engine, and the guard that ends its servers. The guard is dropped after the harness.
type Started = (Arc<dyn Harness>, Box<dyn fmt::Debug + Send + Sync>);
type Start = Box<dyn FnOnce() -> std::result::Result<Started, Missing> + Send>;

/// A harness whose servers start when the first of its cases runs, and never when tests are only listed. `start` returns the harness, and a
/// guard that ends the servers when it is dropped.
///
/// `start` runs on a thread of the suite's runtime, which it may block, so that pools and clients can belong to that runtime. If it returns
/// [`Missing`], each case fails where the engine is required, and is ignored otherwise.
pub fn on_demand<G: fmt::Debug + Send + Sync + 'static>(
    name: &'static str,
    start: impl FnOnce() -> std::result::Result<(Arc<dyn Harness>, G), Missing> + Send + 'static,
) -> Arc<dyn Harness> {
    let start = move || start().map(|(harness, guard)| (harness, Box::new(guard) as Box<_>));
    Arc::new(OnDemand { name, engine: LazyLock::new(Box::new(start)) })
}

struct OnDemand {
    name: &'static str,
    engine: LazyLock<std::result::Result<Started, Missing>, Start>,
}

impl OnDemand {
    fn engine(&self) -> Result<&dyn Harness> {
        match &*self.engine {
            Ok((harness, _)) => Ok(&**harness),
            Err(missing) => Err(Error::new(ErrorKind::Unavailable, missing.to_string())),
        }
    }
}

impl fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemand").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl Harness for OnDemand {
    fn name(&self) -> &str {
        self.name
    }

    fn missing(&self) -> Option<&Missing> {
        // The runner calls this method before every other one except `name`.
        tokio::task::block_in_place(|| LazyLock::force(&self.engine)).as_ref().err()
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        self.engine()?.open(namespace).await
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        self.engine()?.remove(namespace).await
    }

    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        self.engine()?.damage(namespace, id).await
    }

    fn can_damage(&self) -> bool {
        self.engine().is_ok_and(Harness::can_damage)
    }

    fn can_make_newer(&self) -> bool {
        self.engine().is_ok_and(Harness::can_make_newer)
    }

    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        self.engine()?.make_newer(namespace).await
    }

    fn can_erase(&self) -> bool {
        self.engine().is_ok_and(Harness::can_erase)
    }

    fn keeps_vectors(&self) -> bool {
        self.engine().is_ok_and(Harness::keeps_vectors)
    }

    fn can_watch(&self) -> bool {
        self.engine().is_ok_and(Harness::can_watch)
    }

    fn can_lose_changes(&self) -> bool {
        self.engine().is_ok_and(Harness::can_lose_changes)
    }

    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        self.engine()?.drop_changes(namespace).await
    }

    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        self.engine()?.back_up(namespace).await
    }

    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        self.engine()?.go_back(namespace).await
    }

    #[cfg(feature = "faults")]
    fn faults(&self) -> Option<&dyn Faults> {
        self.engine().ok()?.faults()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::case::Settings;
    use crate::reference::Reference;
    use crate::runner::{Outcome, run_case};

    #[tokio::test(flavor = "multi_thread")]
    async fn it_starts_once_with_the_first_case() {
        let starts = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&starts);
        let start = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok((Arc::new(Reference::default()) as Arc<dyn Harness>, counter))
        };
        let harness = on_demand("late", start);
        assert_eq!((harness.name(), starts.load(Ordering::Relaxed)), ("late", 0));
        for case in crate::cases::all().into_iter().take(3) {
            assert_eq!(run_case(Arc::clone(&harness), case, Settings::default()).await, Outcome::Pass, "{case:?}");
        }
        assert_eq!(starts.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_case_of_a_missing_engine_is_reported() {
        let missing = Missing::new("postgres", "not installed");
        let is_required = missing.is_required();
        let harness = on_demand::<()>("postgres", || Err(missing));
        for case in crate::cases::all() {
            let outcome = run_case(Arc::clone(&harness), case, Settings::default()).await;
            assert_eq!(outcome.is_failure(), is_required, "{outcome:?}");
            assert!(outcome.reason().is_some_and(|reason| reason.contains("not installed")), "{outcome:?}");
        }
    }
}
