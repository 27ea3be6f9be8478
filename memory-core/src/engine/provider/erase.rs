//! Erases records: finds them first, then erases them in one step (E1).

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::time::timeout_at;

use super::by_id::tombstone;
use super::found_records::{Earlier, FoundRecord, Steps, find, tombstones};
use super::living::View;
use super::open::{Open, Shared, after};
use crate::engine::session::{Erasing, ErasingRecord, Reader, Writer, no_erasure};
use crate::engine::{Access, Engine};
use crate::erasure::Erased;
use crate::expiry::Lifetimes;
use crate::{
    Cursor, Document, DocumentQuery, ErasedSlice, Erasure, Error, ErrorKind, HashKey, MAX_ERASED, Memory, MemoryQuery,
    Outcome, RecordId, Result, Timestamp, Tombstone, TombstonePage,
};

/// One slice of an erasure or of a sweep.
pub(super) struct Slice {
    why: Why,
    records: Vec<RecordId>,
    earlier: Arc<Earlier>,
    hash_key: HashKey,
}

/// Why the records are erased.
enum Why {
    /// An operator asked for it, at this time.
    Asked(Arc<Erasure>, Timestamp),
    /// The records have expired.
    Over(Lifetimes),
}

impl<E: Engine> Shared<E> {
    pub(super) async fn erase(self: &Arc<Self>, erasure: &Erasure) -> Result<ErasedSlice> {
        let open = self.ready().await?;
        // A step that begins later might finish without the caller learning of it. A call that waits for a permit gives
        // up earlier (L8).
        let (until, looking) = (open.until(), after(self.settings.deadline * 2 / 3));
        let hash_key = open.hash_key(None).await?.ok_or_else(no_erasure)?;
        let erasure = Arc::new(erasure.clone());
        let mut cursor = None;
        loop {
            let found = timeout_at(looking.into(), self.found(&erasure, cursor)).await;
            let (mut records, next) = found.map_err(|_| too_slow())??;
            // Records that an earlier call has erased come last, so that repeated calls don't read their histories
            // first.
            let known = self.with_tombstones(&records).await?;
            records.sort_by_key(|record| known.contains(record));
            let (count, earlier) = open.earlier(&records, looking).await?;
            let slice = open.erase_slice(&erasure, &records[..count], earlier, &hash_key, until);
            let erased = slice.await?;
            let is_complete = erased.is_complete && count == records.len() && next.is_none();
            // If all records are gone or no longer match, the slice would be empty, so the search goes on.
            if erased.records.is_empty() && count < records.len() {
                return Err(too_slow());
            }
            if !erased.records.is_empty() || next.is_none() {
                return Ok(ErasedSlice { is_complete, ..erased });
            }
            cursor = next;
        }
    }

    /// Returns the next candidates, and the cursor after them, if there are more.
    async fn found(
        self: &Arc<Self>,
        erasure: &Erasure,
        cursor: Option<String>,
    ) -> Result<(Vec<RecordId>, Option<String>)> {
        let next = |next: Option<Cursor>| next.map(|next| next.to_string());
        match (&erasure.of, &erasure.among) {
            (Erased::Records(records), _) | (_, Some(records)) => Ok((records.clone(), None)),
            (Erased::Memories(query), None) => {
                let query = MemoryQuery { limit: erasure.limit, offset: 0, cursor, ..query.clone() };
                let page = self.memories(View::of_all(Access::ReadConfirmed), &query).await?;
                Ok((page.memories.into_iter().map(|memory| memory.id.into()).collect(), next(page.next)))
            }
            (Erased::Documents(query), None) => {
                let query = DocumentQuery { limit: erasure.limit, offset: 0, cursor, ..query.clone() };
                let page = self.documents(View::of_all(Access::ReadConfirmed), &query).await?;
                let records = page.documents.into_iter().map(|document| (document.collection, document.id).into());
                Ok((records.collect(), next(page.next)))
            }
        }
    }

    /// Returns the key of the tombstones' hashes, if it was read already.
    pub(super) fn known_hash_key(&self) -> Option<HashKey> {
        self.open().ok()?.hash_key.get().cloned()
    }

    pub(super) async fn hash_key(&self) -> Result<Option<HashKey>> {
        self.ready().await?.hash_key(None).await
    }

    pub(super) async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        let open = self.ready().await?;
        let work = open.run(Access::Read, record.clone(), |reader, record| {
            Box::pin(async move {
                // An expired record that was not swept yet has a tombstone too (X2); reading the record first makes the
                // session return it.
                match record {
                    RecordId::Memory(id) => drop(reader.memories(&[*id]).await?),
                    RecordId::Document { collection, id } => {
                        drop(reader.documents(collection, std::slice::from_ref(id)).await?);
                    }
                }
                tombstone(reader, record).await
            })
        });
        work.await
    }

    pub(super) async fn tombstones(&self, behind: Option<&str>) -> Result<TombstonePage> {
        let open = self.ready().await?;
        let behind = behind.map(|place| URL_SAFE_NO_PAD.decode(place).map_err(|_| no_page())).transpose()?;
        let work = open.run(Access::ReadLatest, behind, |reader, behind| {
            Box::pin(async move { reader.tombstones_behind(behind.as_deref(), MAX_ERASED).await })
        });
        let (tombstones, next) = work.await?;
        Ok(TombstonePage { tombstones, next: next.map(|next| URL_SAFE_NO_PAD.encode(next)) })
    }
}

fn too_slow() -> Error {
    let message = "the search for the records took two thirds of the deadline, and nothing was erased: name a \
                   smaller part, such as a span of time";
    Error::new(ErrorKind::Timeout, message).retryable()
}

fn no_page() -> Error {
    Error::invalid("the cursor is not from a page of tombstones")
}

impl<E: Engine> Open<E> {
    /// Returns the key of the tombstones' hashes: the stored one, else this one, else a new one. `None` if the engine
    /// can't erase.
    pub(super) async fn hash_key(&self, proposed: Option<&HashKey>) -> Result<Option<HashKey>> {
        if !E::ERASES {
            return Ok(None);
        }
        let agree = || async {
            let proposed = match proposed {
                Some(key) => key.to_text(),
                None => HashKey::generate()?.to_text(),
            };
            let keep = |_| self.engine.hash_key(&proposed);
            let kept = self.retry().repeatable().run(|error| self.engine.is_temporary(error), keep).await;
            // Storing a key is not part of the call's own effect.
            HashKey::parse(&kept.map_err(|error| error.with_outcome(Outcome::NotDone))?)
        };
        self.hash_key.get_or_try_init(agree).await.cloned().map(Some)
    }

    /// Returns [`Open::hash_key`] if one of these memories has an idempotency key; otherwise none is needed.
    pub(super) async fn hash_key_of(&self, memories: &[impl Borrow<Memory>]) -> Result<Option<HashKey>> {
        match memories.iter().any(|memory| memory.borrow().idempotency_key.is_some()) {
            true => self.hash_key(None).await,
            false => Ok(None),
        }
    }

    /// Erases the first of these records that exist and are selected, as many as fit in one step.
    async fn erase_slice(
        &self,
        erasure: &Arc<Erasure>,
        records: &[RecordId],
        earlier: Earlier,
        hash_key: &HashKey,
        until: Instant,
    ) -> Result<ErasedSlice> {
        let (mut steps, earlier) = (Steps::of(records.len()), Arc::new(earlier));
        while let Some(range) = steps.next() {
            let (records, erasure, earlier) = (records[range].to_vec(), Arc::clone(erasure), Arc::clone(&earlier));
            // Asked here, since a clock that panics must not end a thread of the engine.
            let why = Why::Asked(erasure, self.settings.clock.now());
            match self.erase_step(Slice { why, records, earlier, hash_key: hash_key.clone() }, until).await? {
                Some((erased, count)) => {
                    steps.took(count);
                    if !erased.is_empty() {
                        return Ok(ErasedSlice { records: erased, is_complete: steps.next().is_none() });
                    }
                }
                None => steps.lost(),
            }
        }
        Ok(ErasedSlice { records: Vec::new(), is_complete: true })
    }

    /// Finds and erases the records of a slice in one step. Returns the erased ones, and how many were examined;
    /// `None`, with nothing erased, if some have changed meanwhile.
    pub(super) async fn erase_step(&self, slice: Slice, until: Instant) -> Result<Option<(Vec<RecordId>, usize)>> {
        let view = View::of_all(Access::Write);
        self.run_until(until, view, slice, |writer, slice| Box::pin(erase(writer, slice))).await
    }
}

async fn erase<W: Writer>(writer: &mut W, slice: &Slice) -> Result<Option<(Vec<RecordId>, usize)>> {
    let found = find(writer, &slice.records).await?;
    let (records, count) = (&slice.records[..found.count], found.count);
    let is_named = matches!(&slice.why, Why::Asked(erasure, _) if matches!(erasure.of, Erased::Records(_)));
    let present = tombstones(writer, records).await?;
    let mut erasings = Vec::new();
    for record in records {
        let (earlier, hash_key) = (slice.earlier.get(record), &slice.hash_key);
        let (found, tombstone) = match found.get(record) {
            FoundRecord::Memory(found) => {
                let Some(tombstone) = slice.takes_memory(&found.record) else { continue };
                (ErasingRecord::Memory(found), tombstone.of_memory(&found.record, hash_key))
            }
            FoundRecord::Document(found) => {
                let Some(tombstone) = slice.takes_document(&found.record) else { continue };
                (ErasingRecord::Document(found), tombstone.of_document(&found.record, hash_key))
            }
            FoundRecord::Unreadable if is_named => return Err(unreadable(record)),
            // A removed document whose history remains, or an expired record whose tombstone remains.
            FoundRecord::Nothing
                if is_named && (earlier.is_some() || present.get(record).is_some_and(Tombstone::is_of_expiry)) =>
            {
                (ErasingRecord::Absent, slice.tombstone(record.clone(), None))
            }
            _ => continue,
        };
        let mut tombstone = present.get(record).into_iter().fold(tombstone, Tombstone::behind);
        if let Some(earlier) = earlier {
            // It keeps out every document that it erased, however far its clock is behind (E3).
            let created_at = earlier.created_at.filter(|_| !tombstone.is_of_expiry());
            tombstone.at = created_at.map_or(tombstone.at, |created_at| tombstone.at.max(created_at));
            tombstone = tombstone.with_spaces(&earlier.spaces, hash_key);
        }
        erasings.push(Erasing { found, tombstone });
    }
    let is_erased = erase_all(writer, &mut erasings).await?;
    let erased = || erasings.into_iter().map(|erasing| erasing.tombstone.record).collect();
    Ok(is_erased.then(|| (erased(), count)))
}

pub(super) async fn erase_all<W: Writer>(writer: &mut W, erasings: &mut [Erasing<'_, W::Version>]) -> Result<bool> {
    // Engines that lock records lock them in this order.
    erasings.sort_by(|one, other| one.tombstone.record.cmp(&other.tombstone.record));
    Ok(erasings.is_empty() || writer.erase(erasings).await?)
}

/// Makes the error of an erasure that names a record that can't be read.
fn unreadable(record: &RecordId) -> Error {
    let name = match record {
        RecordId::Memory(id) => format!("the memory {id}"),
        RecordId::Document { collection, id } => format!("the document {id} of {collection}"),
    };
    Error::corrupt(format!("{name} can't be read, and is not erased: leave it out to erase the others"))
}

impl Slice {
    /// Makes a slice that erases those of these records that have expired.
    pub(super) fn of_expired(
        records: Vec<RecordId>,
        earlier: Arc<Earlier>,
        lifetimes: Lifetimes,
        hash_key: HashKey,
    ) -> Self {
        Self { why: Why::Over(lifetimes), records, earlier, hash_key }
    }

    /// Returns the tombstone of a memory if it is to be erased.
    fn takes_memory(&self, memory: &Memory) -> Option<Tombstone> {
        let end = match &self.why {
            Why::Over(lifetimes) => Some(lifetimes.end_of_memory(memory)?),
            Why::Asked(erasure, _) => match &erasure.of {
                Erased::Records(_) => None,
                Erased::Memories(query) if query.covers(memory.space_id.as_str()) && query.wants(memory) => None,
                Erased::Memories(_) | Erased::Documents(_) => return None,
            },
        };
        Some(self.tombstone(memory.id.into(), end))
    }

    /// Returns the tombstone of a document if it is to be erased.
    fn takes_document(&self, document: &Document) -> Option<Tombstone> {
        let end = match &self.why {
            Why::Over(lifetimes) => Some(lifetimes.end_of_document(document)?),
            Why::Asked(erasure, _) => match &erasure.of {
                Erased::Records(_) => None,
                Erased::Documents(query)
                    if query.collection() == &document.collection
                        && query.covers(document.space_id.as_str())
                        && query.wants(document) =>
                {
                    None
                }
                Erased::Memories(_) | Erased::Documents(_) => return None,
            },
        };
        Some(self.tombstone(document.into(), end))
    }

    /// Makes a tombstone without hashes; `end` is when the record expired, if it did.
    fn tombstone(&self, record: RecordId, end: Option<Timestamp>) -> Tombstone {
        match &self.why {
            Why::Asked(erasure, at) => {
                let (reason, actor) = (erasure.reason.clone(), erasure.actor.clone());
                Tombstone { record, at: *at, reason, actor, key: None, places: Vec::new() }
            }
            Why::Over(lifetimes) => Tombstone::of_expiry(record, end.unwrap_or(lifetimes.now)),
        }
    }
}
