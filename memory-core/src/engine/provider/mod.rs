//! The provider: the whole contract on top of an engine.

mod bury;
mod by_id;
mod documents;
mod erase;
mod expire;
mod following;
mod found_records;
mod held;
mod history;
mod living;
mod look;
mod open;
mod pending;
mod progress;
mod remove;
mod restore;
mod rules;
mod running;
mod store;
mod tail;
mod tell;
#[cfg(test)]
mod tests;
mod update;
mod vectors;
mod versions;
mod watcher;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::{OnceCell, Semaphore};

use super::batch::Batch;
use super::gate::{Gate, HEALTH_DEADLINE, record_rows};
use super::heavy::heavy_calls;
use super::load::COUNTERS;
use super::pages::Memories;
use super::retry::Retry;
use super::settings::Config;
use super::spaces;
use super::{Access, Engine};
use crate::cursor::CursorKey;
use crate::keeper::mark::remove_marks;
use crate::provider::check_batch;
use crate::{
    Backfill, Blocks, Changes, DocumentStore, Embedding, ErasedSlice, Erasure, Error, ErrorKind, HashKey, Health,
    History, HistoryPage, Memory, MemoryId, MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall,
    NewMemory, Outcome, Recalled, Record, RecordId, RestoreReport, Result, Retention, SpaceLevel, SpaceQuery, Sweep,
    Swept, Timestamp, Tombstone, TombstonePage, Updated, VectorModel, Version, Watch,
};
use by_id::get;
use documents::ProviderDocuments;
use living::LivingWork;
use open::{Open, Shared, after};
pub use pending::SHORT_BACKFILL;
use restore::Present;
use rules::KnownRules;
pub use watcher::HEARTBEAT;
use watcher::Watcher;

/// Agent memory on an engine: implements [`MemoryProvider`] and [`DocumentStore`] in the same way for every engine.
///
/// Open it, call [`init`](MemoryProvider::init), and hold it as `Arc<dyn MemoryProvider>`. Clones share the
/// connections.
#[derive(Debug)]
pub struct Provider<E: Engine> {
    shared: Arc<Shared<E>>,
}

impl<E: Engine> Provider<E> {
    /// Makes a provider from a configuration, or from something that converts to one, such as a URL or a path. Opens
    /// nothing before [`init`](MemoryProvider::init).
    ///
    /// `InvalidInput` if the configuration is not valid.
    pub fn open<C>(config: C) -> Result<Self>
    where
        C: TryInto<E::Config>,
        Error: From<C::Error>,
    {
        let config = config.try_into()?;
        config.check()?;
        Ok(Self::with_config(config))
    }

    /// Makes a provider from a configuration that is known to be valid.
    pub(crate) fn with_config(config: E::Config) -> Self {
        let settings = config.settings();
        let gate = Gate::new(E::NAME, settings.deadline);
        let (open, tail, is_model_down) = Default::default();
        let waiting_for_models = Semaphore::new(heavy_calls());
        Self { shared: Arc::new(Shared { config, settings, gate, open, tail, waiting_for_models, is_model_down }) }
    }

    /// Returns the engine's configuration.
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
                    // The first error is the more informative one.
                    let _ = engine.close().await;
                    return Err(error);
                }
            };
            let (most, most_bytes) = E::BATCH.unwrap_or_default();
            let (batch, blocked) = (Batch::new(most, most_bytes), Mutex::new(vec![Blocks::Everything]));
            let (since, hash_key, no_places) = (OnceCell::new(), OnceCell::new(), Mutex::default());
            let (rules, model) = (KnownRules::default(), Mutex::default());
            let open = Open { engine, settings, key, hash_key, since, batch, blocked, no_places, rules, model };
            // A program without write access can't decide; a temporary failure is left to the first call that needs the
            // answer.
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
            // The gate has already waited for the calls in flight.
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
        self.shared.gate.write("update", self.shared.update(id, patch)).await
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
        let work = async { self.shared.ready().await?.restore(memories, Present::Stays).await };
        self.shared.gate.write("restore", work).await
    }

    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let work = async { self.shared.ready().await?.restore(memories, Present::GivesWay).await };
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
        // Vectors of another model may have replaced those that a keeper of this model made before. A stored model that
        // can't be read counts as another one. Each step is a call of its own: keepers that start over change no data.
        let replaces = match self.vector_model().await {
            Ok(before) => before.is_some_and(|before| !before.is_same(model)),
            Err(error) if error.kind() == ErrorKind::Corrupt => true,
            Err(error) => return Err(error),
        };
        if replaces {
            remove_marks(&*self.documents()).await?;
        }
        let work = async { self.shared.ready().await?.set_vector_model(model).await };
        self.shared.gate.write("set_vector_model", work).await?;
        match replaces {
            // A keeper of the other model may have stored its mark again meanwhile.
            true => remove_marks(&*self.documents()).await.map_err(|error| error.after(Outcome::Unknown)),
            false => Ok(()),
        }
    }

    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>> {
        let work = async {
            let kept = self.shared.ready().await?.embed(model, embeddings).await?;
            record_rows(kept.iter().filter(|kept| **kept).count());
            Ok(kept)
        };
        let done = self.shared.gate.write("embed", work).await;
        if done.as_ref().is_err_and(|error| error.outcome() == Outcome::NotDone) {
            return done;
        }
        let unknown = |error: Error| error.after(Outcome::Unknown);
        // A model that was set meanwhile may have lost vectors to these, and no keeper would notice.
        if self.vector_model().await.map_err(unknown)?.is_some_and(|present| !present.is_same(model)) {
            remove_marks(&*self.documents()).await.map_err(unknown)?;
            return Err(model.is_another().with_outcome(Outcome::Unknown));
        }
        done
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
