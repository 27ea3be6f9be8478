//! Sweeps expired records, and reads the retention rules (X3, X4).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::erase::Slice;
use super::found_records::Steps;
use super::living::View;
use super::open::{Open, Shared};
use super::rules::Cached;
use crate::engine::session::{Reader, Writer, no_erasure};
use crate::engine::{Access, Engine};
use crate::expiry::{KEPT_TOMBSTONES, Lifetimes, Ruled, Rules, Stage};
use crate::{
    Collection, DocumentQuery, Error, ErrorKind, MAX_ERASED, MemoryQuery, Order, Outcome, RecordId, Result, Retention,
    Sweep, Swept, Timestamp, Tombstone,
};

/// Number of records that a slice of a sweep examines.
const SLICE: usize = 100;
/// How long a call waits for the retention rules if it knows earlier ones.
const PATIENCE: Duration = Duration::from_secs(2);

/// A future that erases records and returns those that it erased.
pub(super) type Expiring<'e> = Pin<Box<dyn Future<Output = Result<Vec<RecordId>>> + Send + 'e>>;

impl<E: Engine> Open<E> {
    /// Returns what decides which records have expired now.
    pub(super) async fn lifetimes(&self) -> Result<Lifetimes> {
        // Read here, because a clock that panics must not end a thread of the engine.
        Ok(Lifetimes { now: self.settings.clock.now(), rules: self.rules().await? })
    }

    /// Returns the rules of the namespace, at most a moment old; if the server can't be asked, the last known ones.
    pub(super) async fn rules(&self) -> Result<Arc<Rules>> {
        if !E::ERASES {
            return Ok(Arc::default());
        }
        let Cached { rules, is_due, generation } = self.rules.get();
        match rules {
            Some(rules) if !is_due => Ok(rules),
            // A replica answers even if the server that stores the rules does not.
            Some(rules) => match timeout(PATIENCE.min(self.settings.deadline / 3), self.read_rules(generation)).await {
                Ok(Err(error)) if !error.is_retryable() => Err(error),
                Ok(Err(_)) | Err(_) => Ok(rules),
                Ok(read) => read,
            },
            None => self.read_rules(generation).await,
        }
    }

    /// Reads the current rules.
    async fn rules_now(&self) -> Result<Arc<Rules>> {
        self.read_rules(self.rules.get().generation).await
    }

    async fn read_rules(&self, generation: u64) -> Result<Arc<Rules>> {
        // Reading the rules is not part of the call's own effect.
        let kept = self.engine.retention().await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        let rules = Arc::new(Rules::parse(kept.as_deref())?);
        self.rules.learn(&rules, generation);
        Ok(rules)
    }

    /// Fails with `InvalidInput` for an expiresAt that is not in the future, and with `Unsupported` if the engine can't
    /// erase (X1).
    pub(super) fn check_expiry(&self, times: impl IntoIterator<Item = Option<Timestamp>>) -> Result<()> {
        let Some(first) = times.into_iter().flatten().min() else { return Ok(()) };
        self.check_erases([Some(first)])?;
        match first > self.settings.clock.now() {
            true => Ok(()),
            false => Err(Error::invalid("expiresAt must lie in the future, in milliseconds since 1970 UTC")),
        }
    }

    /// Fails with `Unsupported` for an expiresAt if the engine can't erase (X1).
    pub(super) fn check_erases(&self, times: impl IntoIterator<Item = Option<Timestamp>>) -> Result<()> {
        match E::ERASES || times.into_iter().flatten().next().is_none() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Unsupported, "this engine can't erase, so records can't expire")),
        }
    }

    /// Erases those of these records that have expired, and returns them. Boxed, because work in a session may call it
    /// recursively.
    pub(super) fn expire(&self, records: Vec<RecordId>, until: Instant) -> Expiring<'_> {
        Box::pin(self.expire_now(records, until))
    }

    async fn expire_now(&self, records: Vec<RecordId>, until: Instant) -> Result<Vec<RecordId>> {
        let hash_key = self.hash_key(None).await?.ok_or_else(no_erasure)?;
        let (mut expired, mut first) = (Vec::new(), 0);
        let done = |expired: &[RecordId]| Outcome::unknown_if(!expired.is_empty());
        while first < records.len() {
            // A put may be blocked by many.
            let slice = &records[first..records.len().min(first + SLICE)];
            let (count, earlier) = self.earlier(slice, until).await.map_err(|error| error.after(done(&expired)))?;
            if count == 0 {
                return Err(too_slow().after(done(&expired)));
            }
            let (some, earlier) = (&records[first..first + count], Arc::new(earlier));
            let mut steps = Steps::of(count);
            while let Some(range) = steps.next() {
                // Rules are read again, because a rule that was removed must not erase anything.
                let rules = self.rules_now().await.map_err(|error| error.after(done(&expired)))?;
                let lifetimes = Lifetimes { now: self.settings.clock.now(), rules };
                let slice = Slice::of_expired(some[range].to_vec(), Arc::clone(&earlier), lifetimes, hash_key.clone());
                match self.erase_step(slice, until).await.map_err(|error| error.after(done(&expired)))? {
                    Some((erased, looked_at)) => {
                        steps.took(looked_at);
                        expired.extend(erased);
                    }
                    None => steps.lost(),
                }
            }
            first += count;
        }
        expired.sort_unstable();
        Ok(expired)
    }
}

fn too_slow() -> Error {
    Error::new(ErrorKind::Timeout, "looking up the expired documents took the whole deadline").retryable()
}

impl<E: Engine> Shared<E> {
    pub(super) async fn retention(&self) -> Result<Vec<Retention>> {
        let open = self.ready().await?;
        if !E::ERASES {
            return Ok(Vec::new());
        }
        let read = |_| open.rules_now();
        Ok(open.retry().run(|error| open.engine.is_temporary(error), read).await?.to_vec())
    }

    pub(super) async fn set_retention(&self, rules: Vec<Retention>) -> Result<()> {
        let rules = Arc::new(Rules::new(rules)?);
        let open = self.ready().await?;
        if !E::ERASES {
            return Err(no_erasure());
        }
        let text = rules.to_text();
        let set = |_| open.engine.set_retention(&text);
        open.retry().repeatable().run(|error| open.engine.is_temporary(error), set).await?;
        open.rules.set(rules);
        Ok(())
    }

    pub(super) async fn sweep(self: &Arc<Self>, from: &Sweep) -> Result<Swept> {
        let open = self.ready().await?;
        if !E::ERASES {
            return Err(no_erasure());
        }
        let until = open.until();
        let (records, stage) = match &from.stage {
            Stage::Scheduled(behind) => self.scheduled(behind.clone()).await?,
            Stage::Ruled(rules, place) => match rules.first() {
                Some(rule) => {
                    let (records, next) = self.ruled(rule, place).await?;
                    let next = match next {
                        Some(place) => Stage::Ruled(Arc::clone(rules), place),
                        None => Stage::Ruled(rules[1..].into(), Ruled::Beginning),
                    };
                    (records, next)
                }
                None => (Vec::new(), Stage::Tombstones(None)),
            },
            Stage::Tombstones(behind) => {
                let (tombstones, stage) = self.forget(behind.clone()).await?;
                let next = stage.map(|stage| Sweep { stage, ..from.clone() });
                return Ok(Swept { tombstones, next, ..Swept::default() });
            }
        };
        let records = if records.is_empty() { records } else { open.expire(records, until).await? };
        let is_over = from.is_due && !matches!(stage, Stage::Scheduled(_));
        Ok(Swept { records, tombstones: 0, next: (!is_over).then(|| Sweep { stage, ..from.clone() }) })
    }

    /// Returns the next records whose own expiry time has passed.
    async fn scheduled(&self, place: Option<(Timestamp, (Timestamp, RecordId))>) -> Result<(Vec<RecordId>, Stage)> {
        let open = self.ready().await?;
        let (by, behind) = place.map_or_else(|| (open.settings.clock.now(), None), |(by, behind)| (by, Some(behind)));
        let asked = (by, behind);
        let work = open.run(View::of_all(Access::ReadLatest), asked, |reader, (by, behind)| {
            Box::pin(async move { reader.expired(*by, behind.as_ref(), SLICE).await })
        });
        let found = work.await?;
        let next = match found.last().filter(|_| found.len() == SLICE) {
            Some(last) => Stage::Scheduled(Some((by, last.clone()))),
            None => Stage::Ruled(open.rules().await?.to_vec().into(), Ruled::Beginning),
        };
        Ok((found.into_iter().map(|(_, record)| record).collect(), next))
    }

    /// Returns the next records that expired by a rule, and where to continue, if there are more.
    async fn ruled(self: &Arc<Self>, rule: &Retention, place: &Ruled) -> Result<(Vec<RecordId>, Option<Ruled>)> {
        let (before, cursor) = match place {
            Ruled::Beginning => {
                // Also finds a memory whose createdAt is later than its store, once that time is long enough ago.
                let now = self.open()?.settings.clock.now().as_millis();
                match Timestamp::from_millis(now.saturating_sub(rule.keep_millis()).saturating_add(1)) {
                    Ok(before) => (before, None),
                    Err(_) => return Ok((Vec::new(), Some(Ruled::Documents(None, None)))),
                }
            }
            Ruled::Memories(before, cursor) => (*before, Some(cursor.clone())),
            Ruled::Documents(collection, cursor) => {
                return self.ruled_documents(rule, collection.clone(), cursor.clone()).await;
            }
        };
        let query = MemoryQuery::builder().under(rule.under()).created_before(before).order(Order::OldestFirst);
        let query = MemoryQuery { cursor, ..query.limit(SLICE).build()? };
        let page = self.memories(View::of_all(Access::ReadLatest), &query).await?;
        let lifetimes = self.open()?.lifetimes().await?;
        let over = page.memories.iter().filter(|memory| lifetimes.end_of_memory(memory).is_some());
        let over = over.map(|memory| memory.id.into()).collect();
        let next = page.next.map(|next| Ruled::Memories(before, next.to_string()));
        Ok((over, Some(next.unwrap_or(Ruled::Documents(None, None)))))
    }

    async fn ruled_documents(
        self: &Arc<Self>,
        rule: &Retention,
        collection: Option<Collection>,
        cursor: Option<String>,
    ) -> Result<(Vec<RecordId>, Option<Ruled>)> {
        let collection = match (collection, &cursor) {
            (Some(collection), Some(_)) => Some(collection),
            (behind, _) => self.collection_behind(behind).await?,
        };
        let Some(collection) = collection else { return Ok((Vec::new(), None)) };
        let query = DocumentQuery::builder(collection.clone()).under(rule.under()).order(Order::OldestFirst);
        let query = DocumentQuery { cursor, ..query.limit(SLICE).build()? };
        let page = self.documents(View::of_all(Access::ReadLatest), &query).await?;
        let lifetimes = self.open()?.lifetimes().await?;
        let over = page.documents.iter().filter(|document| lifetimes.end_of_document(document).is_some());
        let over = over.map(RecordId::from).collect();
        Ok((over, Some(Ruled::Documents(Some(collection), page.next.map(|next| next.to_string())))))
    }

    async fn collection_behind(&self, behind: Option<Collection>) -> Result<Option<Collection>> {
        let open = self.ready().await?;
        let work = open.run(View::of_all(Access::ReadLatest), behind, |reader, behind| {
            Box::pin(async move { reader.collections(behind.as_ref(), 1).await })
        });
        Ok(work.await?.pop())
    }

    /// Removes those of the next tombstones that are due.
    async fn forget(&self, behind: Option<String>) -> Result<(usize, Option<Stage>)> {
        let page = self.tombstones(behind.as_deref()).await?;
        let open = self.ready().await?;
        let now = open.settings.clock.now().as_millis();
        let is_over = |tombstone: &Tombstone| {
            tombstone.is_of_expiry() && tombstone.at.as_millis().saturating_add(KEPT_TOMBSTONES) <= now
        };
        let over: Vec<_> = page.tombstones.into_iter().filter(is_over).collect();
        // A page may have more tombstones than one call takes.
        for some in over.chunks(MAX_ERASED) {
            let work = open.run(View::of_all(Access::Write), some.to_vec(), |writer, tombstones| {
                Box::pin(async move { writer.forget(tombstones).await })
            });
            work.await?;
        }
        Ok((over.len(), page.next.map(|next| Stage::Tombstones(Some(next)))))
    }
}
