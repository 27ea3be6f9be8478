//! The reference provider with one bug.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use memory_core::plugin::Plugin;
use memory_core::{
    Backfill, Blocks, Changes, Clock, Context, ContextPatch, DocumentStore, Embedding, ErasedSlice, Erasure, Error,
    ErrorKind, HashKey, Health, History, HistoryPage, InMemory, IntoDynProvider, Json, JsonObject, Memory, MemoryId,
    MemoryPage, MemoryPatch, MemoryProvider, MemoryQuery, MemoryRecall, Metadata, MetadataPatch, NewMemory, Recalled,
    Record, RecordId, RestoreReport, Result, Retention, Revision, SpaceId, SpaceLevel, SpaceQuery, SpaceQueryBuilder,
    Sweep, Swept, SystemClock, Timestamp, Tombstone, TombstonePage, Trigger, Updated, VectorModel, Version, Watch,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::documents::BrokenDocuments;
use crate::erasure::Erased;
use crate::expiry::Expiring;
use crate::flaw::Flaw;
use crate::harness::Shared;
use crate::meaning::Meaning;
use crate::naive::Naive;
use crate::plugin::BrokenPlugin;
use crate::watch::{self, Given};
use crate::{history, recall, restore, values};

/// A provider that delegates every call, apart from its flaw.
#[derive(Debug)]
pub(crate) struct Broken {
    naive: Naive,
    documents: Arc<BrokenDocuments>,
    flaw: Flaw,
    is_shut_down: AtomicBool,
    /// Writes that the next query does not see yet, for [`Flaw::ReadsLagBehind`].
    fresh: Mutex<Option<MemoryId>>,
    shared: Arc<Shared>,
    /// Whether a later program has used the namespace before it was opened.
    is_newer: bool,
    /// Whether a call holds the single resource.
    is_held: AtomicBool,
    /// The lock that calls wait for with [`Flaw::LightCallsWaitForHeavyOnes`].
    turns: Semaphore,
    /// The tokens of this handle, for [`Flaw::WatchTokensEndWithTheirHandle`].
    tokens: Given,
    /// The memories that it has erased.
    erased: Erased,
    /// The records that it has stored with an expiry.
    expiring: Arc<Expiring>,
    /// The state of its flaws that concern vectors.
    meaning: Meaning,
}

impl Broken {
    pub(crate) fn new(inner: InMemory, flaw: Flaw, shared: Arc<Shared>, is_newer: bool, clock: Arc<dyn Clock>) -> Self {
        let expiring = Arc::new(Expiring::new(clock));
        let documents = Arc::new(BrokenDocuments::new(inner.clone(), flaw, Arc::clone(&expiring)));
        Self {
            naive: Naive::new(inner, flaw, Arc::clone(&shared)),
            documents,
            flaw,
            is_shut_down: AtomicBool::new(false),
            fresh: Mutex::default(),
            shared,
            is_newer,
            is_held: AtomicBool::new(false),
            turns: Semaphore::new(2),
            tokens: Given::default(),
            erased: Erased::default(),
            expiring,
            meaning: Meaning::default(),
        }
    }

    fn inner(&self) -> &InMemory {
        self.naive.inner()
    }

    fn fresh(&self) -> std::sync::MutexGuard<'_, Option<MemoryId>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until earlier calls had their turn.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        match self.flaw {
            Flaw::LightCallsWaitForHeavyOnes => self.turns.acquire().await.ok(),
            _ => None,
        }
    }

    /// Writes in two steps where one atomic step is required.
    async fn update_in_two_steps(&self, id: MemoryId, patch: MemoryPatch) -> Result<Updated> {
        let memory = self.inner().get(id).await?.ok_or_else(Error::not_found)?;
        let Some(patched) = patch.apply(&memory, SystemClock.now())? else { return Ok(Updated::from(&memory)) };
        tokio::task::yield_now().await;
        self.inner().update(id, MemoryPatch::new().replace_metadata(patched.metadata)).await
    }

    /// Writes the contexts of memories a moment after the rest.
    async fn write_contexts(&self, ids: &[MemoryId]) {
        self.shared.half().extend(ids);
        tokio::task::yield_now().await;
        self.shared.half().retain(|id| !ids.contains(id));
    }

    /// Takes the single resource, and returns it unless the call is dropped.
    async fn holding<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        if self.is_held.swap(true, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "somebody has it"));
        }
        let result = work.await;
        tokio::task::yield_now().await;
        self.is_held.store(false, Ordering::Relaxed);
        result
    }

    /// The memory as this provider returns it to its callers.
    fn shown(&self, mut memory: Memory) -> Memory {
        memory.context = memory.context.filter(|_| !self.shared.half().contains(&memory.id));
        values::shown(self.flaw, memory)
    }
}

#[async_trait]
impl MemoryProvider for Broken {
    async fn init(&self) -> Result<()> {
        if self.is_newer {
            return Err(Error::new(ErrorKind::SchemaMismatch, r#"it has version 99 "future", which is later"#));
        }
        match self.flaw {
            Flaw::DroppedInitKeepsItsLock => self.holding(self.inner().init()).await,
            Flaw::InitExpectsNothing if self.is_held.swap(true, Ordering::Relaxed) => {
                Err(Error::new(ErrorKind::Unexpected, "the table is there already"))
            }
            _ => self.inner().init().await,
        }
    }

    async fn check_health(&self) -> Result<Health> {
        if self.flaw == Flaw::HealthWrites {
            let probe = NewMemory::new(SpaceId::parse("probe")?, Trigger::parse("1")?, SystemClock.now());
            self.inner().store(probe).await?;
        }
        self.inner().check_health().await
    }

    async fn shutdown(&self) -> Result<()> {
        match self.flaw {
            Flaw::ClosedStillAnswers => Ok(()),
            Flaw::SecondShutdownFails if self.is_shut_down.swap(true, Ordering::Relaxed) => {
                Err(Error::new(ErrorKind::Closed, "there is no pool any more"))
            }
            _ => self.inner().shutdown().await,
        }
    }

    async fn backfill(&self) -> Result<Option<Backfill>> {
        match self.flaw {
            Flaw::BackfillNeverEnds => Ok(Some(Backfill::new("words", 0, 1, Blocks::Nothing))),
            _ => self.inner().backfill().await,
        }
    }

    async fn store(&self, memory: NewMemory) -> Result<MemoryId> {
        if self.flaw == Flaw::ReadOnlyForItsHandleAlone && self.is_held.load(Ordering::Relaxed) {
            return Err(Error::read_only());
        }
        let memory = values::stored(self.flaw, memory)?;
        match self.flaw {
            Flaw::IdsAreNotOfVersion7 => {
                let memory = memory.into_memory(values::descending_id());
                let id = memory.id;
                return self.inner().restore(vec![memory]).await.map(|_| id);
            }
            Flaw::EqualStoresAreOne => {
                let all = self.naive.everything().await?;
                let is_equal = |one: &&Memory| one.space_id == memory.space_id && one.trigger == memory.trigger;
                if let Some(equal) = all.iter().find(is_equal) {
                    return Ok(equal.id);
                }
            }
            _ => {}
        }
        let (key, expires_at, mut without_key) = (memory.idempotency_key.clone(), memory.expires_at, memory.clone());
        without_key.idempotency_key = None;
        match self.inner().store(memory).await {
            Err(error)
                if error.kind() == ErrorKind::Erased
                    && matches!(self.flaw, Flaw::ErasedKeyIsStored | Flaw::ExpiredKeyIsStored) =>
            {
                self.inner().store(without_key).await
            }
            Err(error)
                if error.kind() == ErrorKind::Conflict && self.flaw == Flaw::KeyReturnsFirstWhateverTheTrigger =>
            {
                let all = self.naive.everything().await?;
                all.iter().find(|memory| memory.idempotency_key == key).map(|memory| memory.id).ok_or(error)
            }
            result => {
                *self.fresh() = result.as_ref().ok().copied();
                if let Ok(id) = &result {
                    self.expiring.stored(self.inner(), expires_at, *id).await?;
                }
                result
            }
        }
    }

    async fn store_many(&self, memories: Vec<NewMemory>) -> Result<Vec<MemoryId>> {
        let memories =
            memories.into_iter().map(|memory| values::stored(self.flaw, memory)).collect::<Result<Vec<_>>>()?;
        match self.flaw {
            Flaw::BatchHasACap if memories.len() > 999 => Err(Error::too_large("too many parameters")),
            Flaw::EqualStoresAreOne => {
                let mut ids = Vec::new();
                for memory in memories {
                    ids.push(self.store(memory).await?);
                }
                Ok(ids)
            }
            Flaw::BatchIsPartlyApplied | Flaw::DroppedBatchIsHalf => {
                let mut ids = Vec::new();
                for memory in memories {
                    ids.push(self.inner().store(memory).await?);
                    tokio::task::yield_now().await;
                }
                Ok(ids)
            }
            _ => self.inner().store_many(memories).await,
        }
    }

    async fn update(&self, id: MemoryId, mut patch: MemoryPatch) -> Result<Updated> {
        match (self.flaw, &patch.context, &patch.metadata) {
            (Flaw::UpdateLosesRaces, ..) => return self.update_in_two_steps(id, patch).await,
            (Flaw::UpdateOfMetadataAloneIsDropped, ContextPatch::Keep, _) if patch.status.is_none() => {
                patch.metadata = MetadataPatch::Keep;
            }
            (Flaw::IfRevisionIgnored, ..) => patch.if_revision = None,
            (Flaw::MergeReplaces, _, MetadataPatch::Merge(metadata)) => {
                patch.metadata = MetadataPatch::Replace(metadata.clone());
            }
            (Flaw::MergeKeepsWhatIsNull, _, MetadataPatch::Merge(metadata)) => {
                let mut members = metadata.to_object();
                members.retain(|_, value| *value != Json::Null);
                patch.metadata = MetadataPatch::Merge(Metadata::from_object(&members)?);
            }
            (Flaw::ActorsAreInTheRecord, _, MetadataPatch::Keep) => {
                if let Some(actor) = &patch.actor {
                    let by = JsonObject::from([("by".to_owned(), Json::String(actor.to_string()))]);
                    patch.metadata = MetadataPatch::Merge(Metadata::from_object(&by)?);
                }
            }
            (Flaw::ClearKeepsNull, ContextPatch::Clear, _) => {
                patch.context = ContextPatch::Set(Context::parse("null")?);
            }
            _ => {}
        }
        let vectors = Meaning::before(&self.naive, self.flaw).await?;
        match self.inner().update(id, patch).await {
            Err(error) if error.kind() == ErrorKind::NotFound && self.flaw == Flaw::UpdateOfUnknownSucceeds => {
                Ok(Updated { revision: Revision::FIRST, updated_at: None })
            }
            Err(error) if error.kind() == ErrorKind::TooLarge && self.flaw == Flaw::LastRevisionStays => {
                Ok(Updated { revision: Revision::MAX, updated_at: None })
            }
            result => {
                if let Ok(updated) = &result {
                    Meaning::updated(&self.naive, self.flaw, id, vectors, updated).await?;
                }
                if self.flaw == Flaw::DroppedUpdateIsHalf {
                    self.write_contexts(&[id]).await;
                }
                result
            }
        }
    }

    async fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        let _turn = self.turn().await;
        if self.shared.is_damaged(id) {
            return if self.flaw == Flaw::DamageIsNotFound { Ok(None) } else { Err(Error::corrupt("it was damaged")) };
        }
        match self.inner().get(id).await {
            Err(error) if error.kind() == ErrorKind::Erased && self.flaw == Flaw::ErasedIsForgotten => Ok(None),
            found => Ok(found?.map(|memory| self.shown(memory))),
        }
    }

    async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let _turn = self.turn().await;
        let mut page = match self.flaw {
            Flaw::DroppedReadKeepsItsConnection => self.holding(self.naive.query(query)).await?,
            _ => self.naive.query(query).await?,
        };
        if self.flaw == Flaw::DamageFailsTheQuery && !page.unreadable.is_empty() {
            return Err(Error::corrupt("a row was damaged"));
        }
        if self.flaw == Flaw::ReadsLagBehind {
            let hidden = self.fresh().take();
            page.memories.retain(|memory| Some(memory.id) != hidden);
        }
        page.memories.extend(self.erased.found(self.flaw, query));
        page.memories.extend(self.expiring.found(self.flaw, query));
        page.memories = page.memories.into_iter().map(|memory| self.shown(memory)).collect();
        Ok(page)
    }

    async fn recall(&self, recall: &MemoryRecall) -> Result<Recalled<Memory>> {
        let recalled = recall::recall(self.inner(), self.flaw, recall).await?;
        Meaning::answered(&self.naive, self.flaw, recall, recalled).await
    }

    async fn spaces(&self, query: &SpaceQuery) -> Result<Vec<SpaceLevel>> {
        let mut asked = SpaceQuery::builder().depth(query.depth()).limit(query.limit());
        asked = query.under().into_iter().fold(asked, SpaceQueryBuilder::under);
        let mut levels = match (self.flaw, query.within()) {
            // It counts all of the spaces that may be seen.
            (Flaw::SpacesCountOthers, Some(_)) => {
                let mut levels = self.inner().spaces(query).await?;
                let all = self.inner().spaces(&asked.limit(1_000).build()?).await?;
                let counted: HashMap<_, _> =
                    all.into_iter().flat_map(|level| level.spaces).map(|space| (space.id, space.count)).collect();
                for space in levels.iter_mut().flat_map(|level| &mut level.spaces) {
                    space.count = counted.get(&space.id).copied().unwrap_or(space.count);
                }
                levels
            }
            _ => self.inner().spaces(query).await?,
        };
        if self.flaw == Flaw::ExpiredIsCounted {
            self.expiring.count(&mut levels)?;
        }
        for level in &mut levels {
            match self.flaw {
                Flaw::SpacesEndAtTheirFirstBoundary => level.spaces.retain(|space| !space.id.as_str().contains("--")),
                Flaw::ListingEndsAtItsFirstPage => level.next = None,
                _ => {}
            }
        }
        Ok(levels)
    }

    async fn watch(&self, watch: &Watch) -> Result<Changes> {
        watch::watch(self.inner(), self.flaw, &self.tokens, watch).await
    }

    async fn history(&self, history: &History) -> Result<HistoryPage> {
        match self.erased.versions(history.record()) {
            Some(versions) => Ok(HistoryPage { versions, next: None }),
            None => history::history(self.inner(), self.flaw, history).await,
        }
    }

    async fn get_as_of(&self, id: &RecordId, time: Timestamp) -> Result<Option<Record>> {
        match self.erased.versions(id) {
            Some(versions) => Ok(versions.into_iter().find_map(|version| version.record)),
            None => history::get_as_of(self.inner(), self.flaw, id, time).await,
        }
    }

    async fn restore(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        let ids: Vec<_> = memories.iter().map(|memory| memory.id).collect();
        let report = restore::restore(self.inner(), self.flaw, memories).await?;
        if self.flaw == Flaw::DroppedRestoreIsHalf {
            self.write_contexts(&ids).await;
        }
        Ok(report)
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        match self.flaw {
            Flaw::ReadOnlyForItsHandleAlone => {
                self.is_held.store(is_read_only, Ordering::Relaxed);
                Ok(())
            }
            Flaw::ReadOnlyComesLate => {
                let inner = self.inner().clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    inner.set_read_only(is_read_only).await
                });
                Ok(())
            }
            _ => self.inner().set_read_only(is_read_only).await,
        }
    }

    async fn is_read_only(&self) -> Result<bool> {
        self.inner().is_read_only().await
    }

    async fn restore_newer(&self, memories: Vec<Memory>) -> Result<RestoreReport> {
        restore::restore_newer(self.inner(), self.flaw, memories).await
    }

    async fn restore_versions(&self, versions: Vec<Version>) -> Result<RestoreReport> {
        history::restore_versions(self.inner(), self.flaw, versions).await
    }

    async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice> {
        let vectors = Meaning::before(&self.naive, self.flaw).await?;
        let slice = self.erased.erase(&self.naive, self.flaw, erasure).await?;
        self.meaning.erased(self.flaw, vectors, &slice.records);
        Ok(slice)
    }

    async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        let tombstone = self.inner().tombstone(record).await?;
        tombstone.map(|tombstone| self.erased.shown(self.flaw, tombstone)).transpose()
    }

    async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage> {
        let TombstonePage { tombstones, next } = self.inner().tombstones(behind).await?;
        let shown = tombstones.into_iter().map(|tombstone| self.erased.shown(self.flaw, tombstone));
        Ok(TombstonePage { tombstones: shown.collect::<Result<_>>()?, next })
    }

    async fn hash_key(&self) -> Result<Option<HashKey>> {
        self.inner().hash_key().await
    }

    async fn restore_tombstones(&self, mut tombstones: Vec<Tombstone>, key: &HashKey) -> Result<RestoreReport> {
        if self.flaw == Flaw::TombstonesEraseNothing {
            let there = self.naive.everything().await?;
            let there: BTreeSet<_> = there.iter().map(|memory| RecordId::Memory(memory.id)).collect();
            tombstones.retain(|tombstone| !there.contains(&tombstone.record));
        }
        self.inner().restore_tombstones(tombstones, key).await
    }

    async fn sweep(&self, from: &Sweep) -> Result<Swept> {
        self.expiring.sweep(self.inner(), self.flaw, from).await
    }

    async fn retention(&self) -> Result<Vec<Retention>> {
        match self.flaw {
            Flaw::RulesBelongToTheirHandle => Ok(self.expiring.rules()),
            _ => self.inner().retention().await,
        }
    }

    async fn set_retention(&self, rules: Vec<Retention>) -> Result<()> {
        match self.flaw {
            Flaw::RulesBelongToTheirHandle => {
                self.expiring.set_rules(rules);
                Ok(())
            }
            _ => self.inner().set_retention(rules).await,
        }
    }

    async fn vector_model(&self) -> Result<Option<VectorModel>> {
        self.inner().vector_model().await
    }

    async fn set_vector_model(&self, model: &VectorModel) -> Result<()> {
        self.meaning.set_model(&self.naive, self.flaw, model).await
    }

    async fn embed(&self, model: &VectorModel, embeddings: Vec<Embedding>) -> Result<Vec<bool>> {
        self.meaning.embed(&self.naive, self.flaw, model, embeddings).await
    }

    async fn vectors(&self, of: &[RecordId]) -> Result<Vec<Option<Embedding>>> {
        self.meaning.vectors(&self.naive, of).await
    }

    fn documents(&self) -> Arc<dyn DocumentStore> {
        Arc::clone(&self.documents) as Arc<dyn DocumentStore>
    }

    fn plugin(self: Arc<Self>) -> Arc<dyn Plugin> {
        let flaw = self.flaw;
        Arc::new(BrokenPlugin::new(self.into_dyn(), flaw))
    }
}
