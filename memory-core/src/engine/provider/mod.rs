//! The whole contract over an engine.

mod bury;
mod documents;
mod erase;
mod expire;
mod found_records;
mod held;
mod history;
mod living;
mod progress;
mod remove;
mod restore;
mod store;
mod tail;
mod tell;
#[cfg(test)]
mod tests;
mod vectors;
mod versions;
mod watcher;

use std::panic::resume_unwind;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, Semaphore, oneshot};
use tokio::task::{JoinError, spawn_blocking};
use tracing::{Instrument, Span};

use super::batch::Batch;
use super::gate::{Gate, HEALTH_DEADLINE, record_rows};
use super::heavy::{Permit, heavy_calls};
use super::history::VersionEntry;
use super::load::COUNTERS;
use super::pages::{self, Asked, Memories};
use super::retry::Retry;
use super::session::{Reader, Writer};
use super::settings::{Config, EngineSettings};
use super::spaces::{self, AskedSpaces};
use super::watch::Watching;
use super::{Access, Engine};
use crate::cursor::CursorKey;
use crate::provider::check_batch;
use crate::{
    Backfill, Blocks, Changes, Collection, DocumentPage, DocumentQuery, DocumentStore, Embedding, ErasedSlice, Erasure,
    Error, ErrorKind, HashKey, Health, History, HistoryPage, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider,
    MemoryQuery, MemoryRecall, NewMemory, Outcome, Recalled, Record, RecordId, RestoreReport, Result, Retention,
    SpaceLevel, SpaceQuery, Sweep, Swept, Timestamp, Tombstone, TombstonePage, TransientKeys, Updated, VectorModel,
    Version, Watch,
};
use documents::ProviderDocuments;
use expire::KnownRules;
use living::{LivingWork, View};
use restore::Present;
use tail::Tail;
pub use watcher::HEARTBEAT;
use watcher::Watcher;

/// A backfill that has at most so many records left to go over is completed by the call that needs it (L7). An engine that estimates how
/// many are left counts up to here.
pub const SHORT_BACKFILL: u64 = 2_000;
/// How many records a call examines at most before it takes a permit (L8).
const MAX_LIGHT_EXAMINED: u64 = 1_000;
/// How many collections are listed at once.
const NAMES: usize = 1_000;
/// How long it is not tried again to look for documents by place, where that can't be.
const NO_PLACES: Duration = Duration::from_secs(1);

/// Agent memory on an engine: the contract of [`MemoryProvider`] and [`DocumentStore`], the same for all.
///
/// Open it, call [`init`](MemoryProvider::init), and hold it as `Arc<dyn MemoryProvider>`. Clones share the connections.
#[derive(Debug)]
pub struct Provider<E: Engine> {
    shared: Arc<Shared<E>>,
}

/// What the ledger and the documents of one provider share.
#[derive(Debug)]
struct Shared<E: Engine> {
    config: E::Config,
    settings: EngineSettings,
    gate: Gate,
    /// Set by `init`, taken by `shutdown`.
    open: RwLock<Option<Arc<Open<E>>>>,
    /// The end of the feed, while anybody watches.
    tail: Tail,
    /// Taken by heavy recalls that wait for a model, since they keep what they know of their scope meanwhile: as many at once as heavy calls.
    waiting_for_models: Semaphore,
    /// Whether the last question that was asked of a model had no answer.
    is_model_down: AtomicBool,
}

/// An engine that is open, with what its calls share.
#[derive(Debug)]
struct Open<E: Engine> {
    engine: E,
    settings: EngineSettings,
    /// Seals the cursors of the namespace.
    key: CursorKey,
    /// Makes the hashes of tombstones, if the engine can erase; empty until one is needed.
    hash_key: OnceCell<HashKey>,
    batch: Batch,
    /// Since when the namespace keeps a history, if it does; empty until that is decided.
    since: OnceCell<Option<Timestamp>>,
    /// What has to wait for the backfills that are pending, as far as is known; everything, before that was asked.
    blocked: Mutex<Vec<Blocks>>,
    /// Since when documents can't be looked for by place, if that was found.
    no_places: Mutex<Option<Instant>>,
    /// How long records are kept.
    rules: KnownRules,
    /// The embedding model, as a recall learned it last.
    model: Mutex<Option<VectorModel>>,
}

impl<E: Engine> Provider<E> {
    /// A provider with this configuration, or what one is made of, such as a URL or a path. Touches nothing before
    /// [`init`](MemoryProvider::init).
    ///
    /// `InvalidInput` when the configuration is not valid.
    pub fn open<C>(config: C) -> Result<Self>
    where
        C: TryInto<E::Config>,
        Error: From<C::Error>,
    {
        let config = config.try_into()?;
        config.check()?;
        Ok(Self::with_config(config))
    }

    /// A provider with a configuration that is known to be valid.
    pub(crate) fn with_config(config: E::Config) -> Self {
        let settings = config.settings();
        let gate = Gate::new(E::NAME, settings.deadline);
        let (open, tail, is_model_down) = Default::default();
        let waiting_for_models = Semaphore::new(heavy_calls());
        Self { shared: Arc::new(Shared { config, settings, gate, open, tail, waiting_for_models, is_model_down }) }
    }

    /// How it was configured.
    pub fn config(&self) -> &E::Config {
        &self.shared.config
    }
}

impl<E: Engine> Clone for Provider<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[async_trait]
impl<E: Engine> MemoryProvider for Provider<E> {
    async fn init(&self) -> Result<()> {
        let work = async {
            let proposed = CursorKey::generate()?.to_text();
            let (engine, settings) = (E::open(&self.shared.config).await?, self.shared.settings.clone());
            let retry = Retry::until(after(settings.patience.min(settings.deadline))).repeatable();
            let kept = retry.run(|error| engine.is_temporary(error), |_| engine.secret(&proposed)).await;
            let key = match kept.and_then(|kept| CursorKey::parse(&kept)) {
                Ok(key) => key,
                Err(error) => {
                    // The first error tells more.
                    let _ = engine.close().await;
                    return Err(error);
                }
            };
            let (most, most_bytes) = E::BATCH.unwrap_or_default();
            let (batch, blocked) = (Batch::new(most, most_bytes), Mutex::new(vec![Blocks::Everything]));
            let (since, hash_key, no_places) = (OnceCell::new(), OnceCell::new(), Mutex::default());
            let (rules, model) = (KnownRules::default(), Mutex::default());
            let open = Open { engine, settings, key, hash_key, since, batch, blocked, no_places, rules, model };
            // Who may only read decides nothing, and a failure that passes is one of the first call that needs the answer.
            if let Err(error) = open.history_since().await
                && error.kind() == ErrorKind::SchemaMismatch
            {
                let _ = open.engine.close().await;
                return Err(error);
            }
            self.shared.set_open(Some(Arc::new(open)));
            Ok(())
        };
        self.shared.gate.init(work).await
    }

    async fn check_health(&self) -> Result<Health> {
        let work = async {
            let open = self.shared.open()?;
            let retry = Retry::until(Instant::now() + open.settings.patience.min(HEALTH_DEADLINE));
            retry.run(|error| open.engine.is_temporary(error), |_| open.engine.health()).await
        };
        self.shared.gate.health(work).await
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        let _background = COUNTERS.background.count();
        let work = async {
            let open = self.shared.open()?;
            if open.pending().await?.is_empty() {
                return Ok(None);
            }
            let done = open.backfill().await;
            let left = done.and(open.pending().await).map_err(|error| error.after(Outcome::Unknown))?;
            Ok(left.into_iter().next())
        };
        self.shared.gate.write("backfill", work).await
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        let work = async {
            let open = self.shared.open()?;
            let set = |_| open.engine.set_read_only(is_read_only);
            open.retry().repeatable().run(|error| open.engine.is_temporary(error), set).await
        };
        self.shared.gate.write("set_read_only", work).await
    }

    async fn is_read_only(&self) -> Result<bool> {
        let work = async {
            let open = self.shared.open()?;
            open.retry().run(|error| open.engine.is_temporary(error), |_| open.engine.is_read_only()).await
        };
        self.shared.gate.read("is_read_only", work).await
    }

    async fn shutdown(&self) -> Result<()> {
        let work = async {
            self.shared.tail.close();
            // The gate let the calls in flight finish.
            match self.shared.set_open(None) {
                Some(open) => open.engine.close().await,
                None => Ok(()),
            }
        };
        self.shared.gate.shutdown(work).await
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        let memory = memory.into_memory(MemoryId::generate());
        let work = async {
            let open = self.shared.ready().await?;
            open.check_expiry([memory.expires_at])?;
            open.store(memory).await
        };
        self.shared.gate.write("store", work).await
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let work = async {
            let memories = check_batch(memories)?;
            record_rows(memories.len());
            let open = self.shared.ready().await?;
            open.check_expiry(memories.iter().map(|memory| memory.expires_at))?;
            open.store_all(memories.into_iter().map(Arc::new).collect(), Outcome::NotDone).await
        };
        self.shared.gate.write("store_many", work).await
    }

    async fn update(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let work = async {
            let (open, patch) = (self.shared.ready().await?, Arc::new(patch));
            open.check_expiry([patch.expires_at.time()])?;
            loop {
                // Asked here, since a clock that panics must not end a thread of the engine.
                let (patch, now) = (Arc::clone(&patch), open.settings.clock.now());
                let is_empty = patch.is_empty();
                let transient = match is_empty || open.history_since().await?.is_none() {
                    true => None,
                    false => Some(open.settings.history.transient.clone()),
                };
                let change = Change { id, patch, now, transient };
                let updated = match is_empty {
                    true => {
                        open.run(Access::ReadLatest, change, |reader, change| Box::pin(told(reader, change))).await?
                    }
                    false => open.run(Access::Write, change, |writer, change| Box::pin(update(writer, change))).await?,
                };
                // A race that was lost is run again, until the deadline.
                if let Some(updated) = updated {
                    return Ok(updated);
                }
            }
        };
        self.shared.gate.write("update", work).await
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let work = async {
            let open = self.shared.ready().await?;
            open.run(Access::Read, id, |reader, id| Box::pin(get(reader, *id))).await
        };
        self.shared.gate.read("get", work).await
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let work = async {
            let page = self.shared.memories(Access::Read, query).await?;
            record_rows(page.memories.len());
            Ok(page)
        };
        self.shared.gate.read("query", work).await
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        let work = async {
            let recalled = self.shared.recall(&self.shared.ready().await?, recall).await?;
            record_rows(recalled.hits.len());
            Ok(recalled)
        };
        self.shared.gate.read("recall", work).await
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        let work = async {
            let open = self.shared.ready().await?;
            let work: LivingWork<E::Session, _, _> =
                |reader, asked| Box::pin(async move { spaces::levels(reader, &Memories, asked).await });
            self.shared.list(&open, None, query, work).await
        };
        self.shared.gate.read("spaces", work).await
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        let begun = self.shared.gate.bound("watch", Watcher::begin(&self.shared, watch)).await?;
        Ok(begun.into_changes())
    }

    async fn history(&self, history: &History) -> Result<HistoryPage> {
        let work = async {
            let page = self.shared.history(history).await?;
            record_rows(page.versions.len());
            Ok(page)
        };
        self.shared.gate.read("history", work).await
    }

    async fn get_as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>> {
        self.shared.gate.read("get_as_of", self.shared.as_of(id, time)).await
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.ready().await?.restore(memories, Present::Stays).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore", work).await
    }

    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.ready().await?.restore(memories, Present::GivesWay).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore_newer", work).await
    }

    async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport> {
        let work = async {
            let report = self.shared.ready().await?.restore_versions(versions).await?;
            record_rows(report.written);
            Ok(report)
        };
        self.shared.gate.write("restore_versions", work).await
    }

    async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice> {
        let work = async {
            let erased = self.shared.erase(erasure).await?;
            record_rows(erased.records.len());
            Ok(erased)
        };
        self.shared.gate.write("erase", work).await
    }

    async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        self.shared.gate.read("tombstone", self.shared.tombstone(record)).await
    }

    async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage> {
        let work = async {
            let page = self.shared.tombstones(behind).await?;
            record_rows(page.tombstones.len());
            Ok(page)
        };
        self.shared.gate.read("tombstones", work).await
    }

    async fn hash_key(&self) -> Result<Option<HashKey>> {
        self.shared.gate.read("hash_key", self.shared.hash_key()).await
    }

    async fn restore_tombstones(&self, tombstones: Vec<Tombstone>, key: &HashKey) -> Result<RestoreReport> {
        let work = async {
            record_rows(tombstones.len());
            self.shared.restore_tombstones(tombstones, key).await
        };
        self.shared.gate.write("restore_tombstones", work).await
    }

    async fn sweep(&self, from: &Sweep) -> Result<Swept> {
        let _background = COUNTERS.background.count();
        let work = async {
            let swept = self.shared.sweep(from).await?;
            record_rows(swept.records.len());
            Ok(swept)
        };
        self.shared.gate.write("sweep", work).await
    }

    async fn retention(&self) -> Result<Vec<Retention>> {
        self.shared.gate.read("retention", self.shared.retention()).await
    }

    async fn set_retention(&self, rules: Vec<Retention>) -> Result<()> {
        self.shared.gate.write("set_retention", self.shared.set_retention(rules)).await
    }

    async fn vector_model(&self) -> Result<Option<VectorModel>> {
        let work = async { self.shared.ready().await?.vector_model().await };
        self.shared.gate.read("vector_model", work).await
    }

    async fn set_vector_model(&self, model: &VectorModel) -> Result<()> {
        let work = async { self.shared.ready().await?.set_vector_model(model).await };
        self.shared.gate.write("set_vector_model", work).await
    }

    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>> {
        let work = async {
            let kept = self.shared.ready().await?.embed(model, embeddings).await?;
            record_rows(kept.iter().filter(|kept| **kept).count());
            Ok(kept)
        };
        self.shared.gate.write("embed", work).await
    }

    async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        let work = async {
            let vectors = self.shared.ready().await?.vectors(of).await?;
            record_rows(vectors.iter().flatten().count());
            Ok(vectors)
        };
        self.shared.gate.read("vectors", work).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::new(ProviderDocuments::new(Arc::clone(&self.shared)))
    }
}

impl<E: Engine> Shared<E> {
    /// The engine, behind a gate that is open.
    fn open(&self) -> Result<Arc<Open<E>>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| Error::new(ErrorKind::Closed, "the provider has no connection"))
    }

    /// The same, for a call that needs what every call does.
    async fn ready(&self) -> Result<Arc<Open<E>>> {
        let open = self.open()?;
        open.check_backfill(Blocks::Everything).await?;
        Ok(open)
    }

    /// The permit of a call that needs one (L8).
    async fn permit(&self, is_heavy: bool) -> Result<Option<Arc<Permit>>> {
        if is_heavy { self.gate.permit().await.map(|permit| Some(Arc::new(permit))) } else { Ok(None) }
    }

    /// The page of a query of the ledger.
    async fn memories(&self, view: impl Into<View>, query: &MemoryQuery) -> Result<MemoryPage> {
        let open = self.ready().await?;
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(pages::memories(reader, asked));
        self.look(&open, view.into(), query, query.is_heavy(), true, work).await
    }

    /// The page of a query of documents.
    async fn documents(&self, view: impl Into<View>, query: &DocumentQuery) -> Result<DocumentPage> {
        let open = self.ready().await?;
        let has_places = open.has_document_places().await;
        let work: LivingWork<E::Session, _, _> = |reader, asked| Box::pin(pages::documents(reader, asked));
        self.look(&open, view.into(), query, query.is_heavy(), has_places, work).await
    }

    /// The levels of a query of spaces. One that seemed light and has examined many records begins anew, with a permit (L8).
    async fn list(
        &self,
        open: &Arc<Open<E>>,
        of: Option<&Collection>,
        query: &SpaceQuery,
        work: LivingWork<E::Session, AskedSpaces, Vec<SpaceLevel>>,
    ) -> Result<Vec<SpaceLevel>> {
        let (until, mut is_heavy) = (open.until(), query.is_heavy());
        loop {
            let permit = self.permit(is_heavy).await?;
            let watching = Watching::new(until, (!is_heavy).then_some(MAX_LIGHT_EXAMINED));
            let asked =
                AskedSpaces { query: query.clone(), key: open.key.clone(), watch: watching.watch(), of: of.cloned() };
            let levels = open.run_watched(permit, &watching, Access::Read.into(), asked, work).await;
            if !watching.is_spent() {
                record_rows(levels.iter().flatten().map(|level| level.spaces.len()).sum());
                return levels;
            }
            is_heavy = true;
        }
    }

    /// What is found for a question. One that seemed light and has examined many records begins anew, with a permit (L8).
    async fn look<Q, T>(
        &self,
        open: &Arc<Open<E>>,
        view: View,
        question: &Q,
        is_heavy: bool,
        has_places: bool,
        work: LivingWork<E::Session, Asked<Q>, T>,
    ) -> Result<T>
    where
        Q: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.look_until(open, open.until(), view, question, is_heavy, has_places, work).await
    }

    /// The same, until then.
    #[allow(clippy::too_many_arguments)]
    async fn look_until<Q, T>(
        &self,
        open: &Arc<Open<E>>,
        until: Instant,
        view: View,
        question: &Q,
        mut is_heavy: bool,
        has_places: bool,
        work: LivingWork<E::Session, Asked<Q>, T>,
    ) -> Result<T>
    where
        Q: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        loop {
            let watching = Watching::new(until, (!is_heavy).then_some(MAX_LIGHT_EXAMINED));
            let found = self.look_once(open, view, question, &watching, has_places, work).await;
            if !watching.is_spent() {
                return found;
            }
            is_heavy = true;
        }
    }

    /// The same, as a light or a heavy call. What it gives where it was spent is no answer.
    async fn look_once<Q, T>(
        &self,
        open: &Arc<Open<E>>,
        view: View,
        question: &Q,
        watching: &Watching,
        has_places: bool,
        work: LivingWork<E::Session, Asked<Q>, T>,
    ) -> Result<T>
    where
        Q: Clone + Send + Sync + 'static,
        T: Send + 'static,
    {
        let permit = self.permit(watching.is_heavy()).await?;
        let asked = Asked { query: question.clone(), key: open.key.clone(), watch: watching.watch(), has_places };
        open.run_watched(permit, watching, view, asked, work).await
    }

    fn set_open(&self, open: Option<Arc<Open<E>>>) -> Option<Arc<Open<E>>> {
        std::mem::replace(&mut *self.open.write().unwrap_or_else(PoisonError::into_inner), open)
    }
}

impl<E: Engine> Open<E> {
    /// Runs work. What writes is repeated only while it has written nothing.
    async fn run<A, T>(&self, view: impl Into<View>, argument: A, work: LivingWork<E::Session, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.run_until(self.until(), view, argument, work).await
    }

    async fn run_until<A, T>(
        &self,
        until: Instant,
        view: impl Into<View>,
        argument: A,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (view, argument) = (view.into(), Arc::new(argument));
        let attempt = |_| self.in_session(view, until, Arc::clone(&argument), work);
        self.retry().run(|error| self.engine.is_temporary(error), attempt).await
    }

    /// Runs work that may look at many records.
    ///
    /// With a permit it has a thread for itself, since all that it does with one record after the other would keep the calls of others off
    /// a thread of the executor. It ends soon after its caller is gone, and keeps the permit until then.
    async fn run_watched<A, T>(
        self: &Arc<Self>,
        permit: Option<Arc<Permit>>,
        watch: &super::watch::Watch,
        view: View,
        argument: A,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let is_heavy = permit.is_some();
        let (until, watched) = (watch.until(), Watched { argument, work, _permit: permit });
        let work: LivingWork<E::Session, Watched<E::Session, A, T>, T> =
            |session, watched| (watched.work)(session, &watched.argument);
        match is_heavy {
            true => self.run_apart(until, view, watched, work).await,
            false => self.run_until(until, view, watched, work).await,
        }
    }

    /// Runs work that has a thread for itself, unless the engine has its own, since it would keep the calls of others off a thread of the
    /// executor. It ends soon after its caller is gone.
    async fn run_apart<A, T>(
        self: &Arc<Self>,
        until: Instant,
        view: impl Into<View>,
        argument: A,
        work: LivingWork<E::Session, A, T>,
    ) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let view = view.into();
        if E::OWN_THREADS {
            return self.run_until(until, view, argument, work).await;
        }
        let (open, executor) = (Arc::clone(self), Handle::current());
        // Closed when this future is dropped.
        let (_caller, given_up) = oneshot::channel::<()>();
        let run = async move {
            tokio::select! {
                biased;
                _ = given_up => Err(Error::new(ErrorKind::Timeout, "nobody waits for the answer any more")),
                done = open.run_until(until, view, argument, work) => done,
            }
        };
        let run = run.instrument(Span::current());
        ended(spawn_blocking(move || executor.block_on(run)).await)
    }

    /// The backfills that are pending.
    async fn pending(&self) -> Result<Vec<Backfill>> {
        let pending = self.retry().run(|error| self.engine.is_temporary(error), |_| self.engine.pending()).await?;
        *self.blocked() = pending.iter().map(|backfill| backfill.blocks).collect();
        Ok(pending)
    }

    /// Takes the next slice of the first of them.
    async fn backfill(&self) -> Result<()> {
        *self.no_places() = None;
        self.retry().run(|error| self.engine.is_temporary(error), |_| self.engine.backfill()).await
    }

    /// Completes a short backfill that this waits for. `Unavailable`, with its progress, while another one is pending (L7).
    async fn check_backfill(&self, wanted: Blocks) -> Result<()> {
        // Whatever became of a slice, the call that waits for it has done nothing.
        let left = self.complete(wanted).await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        let Some(backfill) = left else { return Ok(()) };
        let message = format!("not yet: {backfill}; agent-memory migrate does the rest");
        Err(Error::new(ErrorKind::Unavailable, message).retryable())
    }

    /// Whether documents can be looked for by place. Completes a short backfill of their places; while a longer one is pending, or where
    /// this fails, as with a program that may only read, the caller does without, and for a while it is not tried again.
    async fn has_document_places(&self) -> bool {
        if !self.is_blocked(Blocks::DocumentPlaces) {
            return true;
        }
        if self.no_places().is_some_and(|since| since.elapsed() < NO_PLACES) {
            return false;
        }
        let has_places = matches!(self.complete(Blocks::DocumentPlaces).await, Ok(None));
        *self.no_places() = (!has_places).then(Instant::now);
        has_places
    }

    /// Completes the backfill that this waits for if it is short together with those that come before it. Otherwise gives it.
    async fn complete(&self, wanted: Blocks) -> Result<Option<Backfill>> {
        while self.is_blocked(wanted) {
            let mut pending = self.pending().await?;
            let Some(last) = pending.iter().rposition(|backfill| backfill.blocks.stops(wanted)) else { break };
            pending.truncate(last + 1);
            // What blocks nothing may take long, however little of it is left.
            let is_short = pending.iter().all(|backfill| backfill.blocks != Blocks::Nothing)
                && pending.iter().map(Backfill::left).sum::<u64>() <= SHORT_BACKFILL;
            if !is_short {
                return Ok(pending.pop());
            }
            self.backfill().await?;
        }
        Ok(None)
    }

    fn is_blocked(&self, wanted: Blocks) -> bool {
        self.blocked().iter().any(|blocks| blocks.stops(wanted))
    }

    fn no_places(&self) -> MutexGuard<'_, Option<Instant>> {
        self.no_places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocked(&self) -> MutexGuard<'_, Vec<Blocks>> {
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the deadline of a call is that begins now.
    fn until(&self) -> Instant {
        after(self.settings.deadline)
    }

    fn retry(&self) -> Retry {
        Retry::until(after(self.settings.patience.min(self.settings.deadline)))
    }
}

/// Work with the permit of its call, which is given back when the work has ended, also where its caller has gone before.
struct Watched<S, A, T> {
    argument: A,
    work: LivingWork<S, A, T>,
    _permit: Option<Arc<Permit>>,
}

/// What a task has done, or panics as it has.
fn ended<T>(task: std::result::Result<Result<T>, JoinError>) -> Result<T> {
    task.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "the executor is shutting down")),
    })
}

/// The time after a duration; a year from now where that is beyond what the clock has.
fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 60 * 60))
}

/// What an update does.
struct Change {
    id: MemoryId,
    patch: Arc<MemoryPatch>,
    now: Timestamp,
    /// What alone may change without a version; `None` where no history is kept.
    transient: Option<TransientKeys>,
}

async fn get(reader: &mut impl Reader, id: MemoryId) -> Result<Option<Memory>> {
    match reader.memories(&[id]).await?.remove(&id).transpose()? {
        Some(found) => Ok(Some(found.record)),
        None => check_erased(reader, id).await.map(|()| None),
    }
}

/// `Erased` where a tombstone has the id (E2).
async fn check_erased(reader: &mut impl Reader, id: MemoryId) -> Result<()> {
    match tombstone(reader, &id.into()).await? {
        Some(_) => Err(Error::erased()),
        None => Ok(()),
    }
}

async fn tombstone(reader: &mut impl Reader, record: &RecordId) -> Result<Option<Tombstone>> {
    Ok(reader.tombstones(std::slice::from_ref(record)).await?.pop())
}

/// What a patch that changes nothing tells.
async fn told(reader: &mut impl Reader, change: &Change) -> Result<Option<Updated>> {
    let memory = get(reader, change.id).await?.ok_or_else(Error::not_found)?;
    change.patch.apply(&memory, change.now)?;
    Ok(Some(Updated::from(&memory)))
}

/// `None` when the memory was changed meanwhile.
async fn update(writer: &mut impl Writer, change: &Change) -> Result<Option<Updated>> {
    let Some(found) = writer.memories(&[change.id]).await?.remove(&change.id).transpose()? else {
        check_erased(writer, change.id).await?;
        return Err(Error::not_found());
    };
    let Some(patched) = change.patch.apply(&found.record, change.now)? else {
        return Ok(Some(Updated::from(&found.record)));
    };
    let entry = match &change.transient {
        Some(transient) if makes_version(&found.record, &patched, transient)? => {
            Some(VersionEntry::of_update(&found.record, &patched, change.now, change.patch.actor.clone()))
        }
        _ => None,
    };
    Ok(writer.replace(&found, &patched, entry.as_ref()).await?.then(|| Updated::from(&patched)))
}

/// Whether an update is more than a change of transient keys: also one with values that are there already is a version (W7).
fn makes_version(before: &Memory, after: &Memory, transient: &TransientKeys) -> Result<bool> {
    Ok(before.status != after.status
        || before.context != after.context
        || before.expires_at != after.expires_at
        || before.metadata == after.metadata
        || transient.strip(&before.metadata)? != transient.strip(&after.metadata)?)
}
