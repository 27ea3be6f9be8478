//! How a session reads.

use std::ops::Bound;

use memory_core::engine::{
    DocumentsFound, Found, Mark, MemoriesFound, Reader, Scanned, Source, Visit, Walk, offer_in_order,
};
use memory_core::{Collection, Document, DocumentId, Documents, Ledger, MemoryId, Order, Result, Verdict};
use redb::ReadableTable;
use serde::de::DeserializeOwned;

use crate::error::native;
use crate::tables::{self, BY_TIME, DOCUMENTS, MEMORIES, OPEN, Position, Session, number};

impl Reader for Session {
    /// The stored row: two versions of a record are equal if their bytes are.
    type Version = String;

    const PLACES: usize = usize::MAX;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<String>> {
        let table = self.table(MEMORIES)?;
        let found = |id: &MemoryId| Ok(table.get(number(*id)).map_err(native)?.map(|row| (*id, found_in(row.value()))));
        ids.iter().filter_map(|id| found(id).transpose()).collect()
    }

    /// Walks the ledger in the order of time, since there is no index by place.
    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        let memories = self.table(MEMORIES)?;
        let index = self.table(if matches!(walk.source, Source::Open(_)) { OPEN } else { BY_TIME })?;
        let (low, high) = bounds(walk);
        if low >= high {
            return Ok(None);
        }
        let mut range = index.range((Bound::Excluded(low), Bound::Excluded(high))).map_err(native)?;
        let mut next = || if walk.order == Order::OldestFirst { range.next() } else { range.next_back() };
        for count in 1.. {
            let Some(position) = next() else { break };
            let (millis, id) = position.map_err(native)?.0.value();
            let Some(row) = memories.get(id).map_err(native)? else { continue };
            let mark = Mark { millis, id: id.to_be_bytes().to_vec() };
            let scanned = Scanned { mark, record: tables::record(row.value()), vector: None };
            let is_wanted = scanned.record.as_ref().map_or(true, |memory| walk.wants(memory));
            if is_wanted && visit(&scanned)? == Verdict::Stop {
                break;
            }
            if walk.is_shared && count >= walk.count {
                return Ok(Some(scanned.mark));
            }
        }
        Ok(None)
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<String>> {
        let table = self.table(DOCUMENTS)?;
        let row = |id: &DocumentId| table.get((collection.as_str(), id.as_str())).map_err(native);
        let found = |id| Ok(row(id)?.map(|row| found_in(row.value())));
        ids.iter().filter_map(|id| found(id).transpose()).collect()
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        let table = self.table(DOCUMENTS)?;
        let mut found = Vec::new();
        for entry in table.range((collection.as_str(), "")..).map_err(native)? {
            let (key, row) = entry.map_err(native)?;
            if key.value().0 != collection.as_str() {
                break;
            }
            found.push(Scanned::new(tables::record::<Document>(row.value())?));
        }
        offer_in_order(found, walk, visit)
    }

    async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
        let mut names = Vec::new();
        for entry in self.table(DOCUMENTS)?.iter().map_err(native)? {
            names.push(Collection::parse(entry.map_err(native)?.0.value().0)?);
            names.dedup();
        }
        Ok(names.into_iter().filter(|name| Some(name) > behind).take(most).collect())
    }
}

fn found_in<T: DeserializeOwned>(row: &str) -> Result<Found<T, String>> {
    Ok(Found { record: tables::record(row)?, version: row.to_owned() })
}

/// The range of positions in which a walk can find something.
fn bounds(walk: &Walk<'_>) -> (Position, Position) {
    let mut low = walk.created_after.map_or((i64::MIN, 0), |time| (time.as_millis(), u128::MAX));
    let mut high = walk.created_before.map_or((i64::MAX, u128::MAX), |time| (time.as_millis(), 0));
    if let Some(Mark { millis, id }) = walk.behind {
        let position = (*millis, <[u8; 16]>::try_from(id.as_slice()).map_or(0, u128::from_be_bytes));
        (low, high) = walk.order.choose((low, high.min(position)), (low.max(position), high));
    }
    (low, high)
}
