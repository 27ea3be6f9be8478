//! Erasing records: found first, then erased in one step (E1).

use std::collections::HashMap;
use std::sync::Arc;

use super::{Open, Shared};
use crate::engine::session::{Erasing, ErasingRecord, Found, Writer, no_erasure};
use crate::engine::{Access, Engine};
use crate::erasure::Erased;
use crate::query::{Documents, Ledger};
use crate::{
    Collection, Document, DocumentId, DocumentQuery, ErasedSlice, Erasure, ErrorKind, HashKey, Memory, MemoryId,
    MemoryQuery, RecordId, Result, SpaceId, Timestamp, Tombstone,
};

/// One slice of an erasure.
struct Slice {
    erasure: Arc<Erasure>,
    records: Vec<RecordId>,
    at: Timestamp,
    hash_key: HashKey,
}

impl<E: Engine> Shared<E> {
    pub(super) async fn erase(&self, erasure: &Erasure) -> Result<ErasedSlice> {
        let open = self.ready().await?;
        let Some(hash_key) = &open.hash_key else { return Err(no_erasure()) };
        let erasure = Arc::new(erasure.clone());
        let (mut cursor, mut is_complete) = (None, true);
        loop {
            let records = match &erasure.of {
                Erased::Records(records) => records.clone(),
                Erased::Memories(query) => {
                    let query = MemoryQuery { limit: erasure.limit, offset: 0, cursor: cursor.take(), ..query.clone() };
                    let page = self.memories(Access::ReadLatest, &query).await?;
                    (cursor, is_complete) = (page.next.as_ref().map(ToString::to_string), page.next.is_none());
                    page.memories.into_iter().map(|memory| memory.id.into()).collect()
                }
                Erased::Documents(query) => {
                    let query =
                        DocumentQuery { limit: erasure.limit, offset: 0, cursor: cursor.take(), ..query.clone() };
                    let page = self.documents(Access::ReadLatest, &query).await?;
                    (cursor, is_complete) = (page.next.as_ref().map(ToString::to_string), page.next.is_none());
                    page.documents.into_iter().map(|document| (document.collection, document.id).into()).collect()
                }
            };
            let erased = open.erase_slice(&erasure, records, hash_key).await?;
            // What has gone meanwhile, or does not match any more, is no slice.
            if !erased.is_empty() || is_complete {
                return Ok(ErasedSlice { records: erased, is_complete });
            }
        }
    }

    pub(super) async fn tombstone(&self, record: &RecordId) -> Result<Option<Tombstone>> {
        let open = self.ready().await?;
        let work = open.run(Access::Read, record.clone(), |reader, record| {
            Box::pin(async move { super::tombstone(reader, record).await })
        });
        work.await
    }
}

impl<E: Engine> Open<E> {
    /// Erases those of these records that are there and selected; gives which.
    async fn erase_slice(
        &self,
        erasure: &Arc<Erasure>,
        records: Vec<RecordId>,
        hash_key: &HashKey,
    ) -> Result<Vec<RecordId>> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        loop {
            // Asked here, since a clock that panics must not end a thread of the engine.
            let at = self.settings.clock.now();
            let slice =
                Slice { erasure: Arc::clone(erasure), records: records.clone(), at, hash_key: hash_key.clone() };
            let erased = self.run(Access::Write, slice, |writer, slice| Box::pin(erase(writer, slice)));
            if let Some(erased) = erased.await? {
                return Ok(erased);
            }
        }
    }
}

/// Finds and erases them in one step. `None`, and nothing is erased, when some have changed meanwhile.
async fn erase<W: Writer>(writer: &mut W, slice: &Slice) -> Result<Option<Vec<RecordId>>> {
    let (memories, documents) = find(writer, slice).await?;
    let of_memory = |found: &Found<Memory, W::Version>| {
        let key = found.record.idempotency_key.as_ref().map(|key| slice.hash_key.of_key(key));
        Tombstone { key, ..slice.tombstone(found.record.id.into(), &found.record.space_id) }
    };
    let of_document = |found: &Found<Document, W::Version>| {
        let Document { collection, id, space_id, .. } = &found.record;
        slice.tombstone((collection.clone(), id.clone()).into(), space_id)
    };
    let memories =
        memories.iter().map(|found| Erasing { found: ErasingRecord::Memory(found), tombstone: of_memory(found) });
    let documents =
        documents.iter().map(|found| Erasing { found: ErasingRecord::Document(found), tombstone: of_document(found) });
    let mut erasings: Vec<_> = memories.chain(documents).collect();
    // Engines that lock records lock them in one order.
    erasings.sort_by(|one, other| one.tombstone.record.cmp(&other.tombstone.record));
    let is_erased = erasings.is_empty() || writer.erase(&erasings).await?;
    Ok(is_erased.then(|| erasings.into_iter().map(|erasing| erasing.tombstone.record).collect()))
}

type FoundRecords<V> = (Vec<Found<Memory, V>>, Vec<Found<Document, V>>);

/// The records of a slice that are there and selected. What can't be read is erased by nobody but who names it (E1).
async fn find<W: Writer>(writer: &mut W, slice: &Slice) -> Result<FoundRecords<W::Version>> {
    let (mut ids, mut by_collection) = (Vec::<MemoryId>::new(), HashMap::<&Collection, Vec<DocumentId>>::new());
    for record in &slice.records {
        match record {
            RecordId::Memory(id) => ids.push(*id),
            RecordId::Document { collection, id } => by_collection.entry(collection).or_default().push(id.clone()),
        }
    }
    let (mut memories, mut documents) = (Vec::new(), Vec::new());
    if !ids.is_empty() {
        for found in writer.memories(&ids).await?.into_values() {
            memories.extend(readable(found)?.filter(|found| slice.takes_memory(&found.record)));
        }
    }
    for (collection, ids) in by_collection {
        for found in writer.documents(collection, &ids).await? {
            documents.extend(readable(found)?.filter(|found| slice.takes_document(&found.record)));
        }
    }
    Ok((memories, documents))
}

fn readable<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        found => found.map(Some),
    }
}

impl Slice {
    fn takes_memory(&self, memory: &Memory) -> bool {
        match &self.erasure.of {
            Erased::Memories(query) => query.covers(memory.space_id.as_str()) && query.has_content::<Ledger>(memory),
            _ => true,
        }
    }

    fn takes_document(&self, document: &Document) -> bool {
        match &self.erasure.of {
            Erased::Documents(query) => {
                query.covers(document.space_id.as_str()) && query.has_content::<Documents>(document)
            }
            _ => true,
        }
    }

    fn tombstone(&self, record: RecordId, space: &SpaceId) -> Tombstone {
        let Erasure { reason, actor, .. } = &*self.erasure;
        let (reason, actor) = (reason.clone(), actor.clone());
        Tombstone { record, at: self.at, reason, actor, key: None, places: self.hash_key.of_space(space) }
    }
}
