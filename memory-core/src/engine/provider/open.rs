//! The state of a provider, and of the engine that it has opened.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{OnceCell, Semaphore};

use super::rules::KnownRules;
use super::tail::Tail;
use crate::cursor::CursorKey;
use crate::engine::Engine;
use crate::engine::batch::Batch;
use crate::engine::gate::Gate;
use crate::engine::retry::Retry;
use crate::engine::settings::EngineSettings;
use crate::{Blocks, Error, ErrorKind, HashKey, Result, Timestamp, VectorModel};

/// Number of collections that are listed at once.
pub(super) const NAMES: usize = 1_000;

/// State shared by the ledger and the documents of one provider.
#[derive(Debug)]
pub(super) struct Shared<E: Engine> {
    pub(super) config: E::Config,
    pub(super) settings: EngineSettings,
    pub(super) gate: Gate,
    /// Set by `init`, removed by `shutdown`.
    pub(super) open: RwLock<Option<Arc<Open<E>>>>,
    /// The end of the feed, shared by all watches.
    pub(super) tail: Tail,
    /// Limits how many heavy recalls wait for a model at once, to the number of heavy calls, because each keeps the
    /// digests of its scope.
    pub(super) waiting_for_models: Semaphore,
    /// Whether the last question to a model got no answer.
    pub(super) is_model_down: AtomicBool,
}

/// An open engine, with the state that its calls share.
#[derive(Debug)]
pub(super) struct Open<E: Engine> {
    pub(super) engine: E,
    pub(super) settings: EngineSettings,
    /// Seals the namespace's cursors.
    pub(super) key: CursorKey,
    /// Hashes for tombstones; empty until the first use, and on an engine that can't erase.
    pub(super) hash_key: OnceCell<HashKey>,
    pub(super) batch: Batch,
    /// The beginning of the namespace's history, `None` if it keeps none; empty until that is decided.
    pub(super) since: OnceCell<Option<Timestamp>>,
    /// What the pending backfills block, as far as known; [`Blocks::Everything`] until the first check.
    pub(super) blocked: Mutex<Vec<Blocks>>,
    /// When documents were last found not to be indexed by place.
    pub(super) no_places: Mutex<Option<Instant>>,
    /// The retention rules, cached.
    pub(super) rules: KnownRules,
    /// The vector model that a recall saw last.
    pub(super) model: Mutex<Option<VectorModel>>,
}

impl<E: Engine> Shared<E> {
    /// Returns the open engine; call it only behind the gate.
    pub(super) fn open(&self) -> Result<Arc<Open<E>>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| Error::new(ErrorKind::Closed, "the provider has no connection"))
    }

    /// Returns the open engine once no backfill blocks all calls.
    pub(super) async fn ready(&self) -> Result<Arc<Open<E>>> {
        let open = self.open()?;
        open.check_backfill(Blocks::Everything).await?;
        Ok(open)
    }

    pub(super) fn set_open(&self, open: Option<Arc<Open<E>>>) -> Option<Arc<Open<E>>> {
        std::mem::replace(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner), open)
    }
}

impl<E: Engine> Open<E> {
    /// Returns the deadline of a call that begins now.
    pub(super) fn until(&self) -> Instant {
        after(self.settings.deadline)
    }

    pub(super) fn retry(&self) -> Retry {
        Retry::until(after(self.settings.patience.min(self.settings.deadline)))
    }
}

/// Returns the time after a duration; a year from now if the clock can't represent it.
pub(super) fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 60 * 60))
}
