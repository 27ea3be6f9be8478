//! The reads of a session.

use std::collections::BTreeSet;

use memory_core::engine::{
    DocumentsFound, FeedEnd, FeedPage, FeedPosition, HistoryRow, Mark, MemoriesFound, Place, Reader, Source, Visit,
    Walk, corrupt,
};
use memory_core::{
    Collection, DocumentId, Documents, Ledger, MemoryId, RecordId, Result, Timestamp, Tombstone, Verdict,
};
use migrations::PATHS;
use mongodb::Cursor;
use mongodb::action::Find;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::Hint;
use tokio::sync::mpsc::channel;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::{MongoSession, Rows, ended_early};
use crate::error::native;
use crate::find::each;
use crate::row::{Stored, StoredRow, VECTOR, found, is_erased, mark, memory_id, number, optional, text, uuid};
use crate::statements::{document_key, documents_of, lists, rest, sort, within};
use crate::{erasure, expiry, feed, history, vectors};

/// The most rows that one search returns.
const MOST: usize = 4_096;
/// How many rows with vectors the server returns at once. Up to three such batches are read ahead of the one being
/// visited.
const AHEAD: usize = 512;

impl Reader for MongoSession {
    /// The place of a document's newest history entry; 0 if its row has none, because it was written before there was a
    /// history. Together with the record's revision and times it identifies a version; for a memory the revision alone
    /// does.
    type Version = i64;

    /// After a mark each place becomes two lists; with more than 200 lists the server would sort everything instead of
    /// merging.
    const PLACES: usize = 100;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<i64>> {
        let ids = ids.iter().map(|id| uuid(id.as_bytes()).into()).collect();
        let read = |row: &RawDocument| match is_erased(row) {
            true => Ok(None),
            false => Ok(Some((memory_id(row, "_id")?, found::<Ledger>(row)))),
        };
        Ok(each(self, &self.reads().memories, ids, read).await?.into_iter().flatten().collect())
    }

    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        offer_next(self, &self.reads().memories, &lists(&walk.source), None, walk, visit).await
    }

    async fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<Place>>> {
        let after = after.unwrap_or_default();
        let (rows, within) = match of {
            None => (&self.reads().memories, doc! {}),
            Some(collection) => (&self.reads().documents, within(collection)),
        };
        let (mut siblings, mut paths) = (BTreeSet::new(), BTreeSet::new());
        let mut from = if after.is_empty() { prefix.to_owned() } else { Place::behind_space(after) };
        // Many spaces at once, since each may be a sibling by itself.
        let mut slice = most;
        loop {
            let known = siblings.len();
            let mut condition = within.clone();
            condition.insert("spaceId", doc! { "$gte": &from });
            let find = rows.find(condition).sort(doc! { "spaceId": 1 });
            let find = find.limit(slice as i64).projection(doc! { "_id": 0, "spaceId": 1 });
            let mut found = find.max_time(self.left()?).await.map_err(native)?;
            let mut count = 0;
            while found.advance().await.map_err(native)? {
                let space = text(found.current(), "spaceId")?;
                let Some(sibling) = Place::sibling(prefix, space) else {
                    return Ok(Some(siblings.into_iter().collect()));
                };
                paths.extend((sibling.path() > after).then(|| sibling.path().to_owned()));
                siblings.insert(sibling);
                if paths.len() == most {
                    return Ok(Some(siblings.into_iter().collect()));
                }
                (count, from) = (count + 1, Place::behind_sibling(prefix, space));
            }
            if count < slice {
                return Ok(Some(siblings.into_iter().collect()));
            }
            // After a sibling that fills a slice, the next one probably does too; two spaces show if it does not.
            slice = if siblings.len() == known + 1 { 2 } else { most };
        }
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<i64>> {
        let keys = ids.iter().map(|id| document_key(collection, id).into()).collect();
        each(self, &self.reads().documents, keys, |row| Ok(found::<Documents>(row))).await
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        // With the index by time, the server might look at all documents to find those of a few places.
        let index = matches!(walk.source, Source::Places(_)).then(|| Hint::Name(PATHS.to_owned()));
        offer_next(self, &self.reads().documents, &[documents_of(collection, &walk.source)], index, walk, visit).await
    }

    async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
        // Sorted first, so that the server skips from name to name in the index.
        let pipeline = [
            doc! { "$match": { "_id.collection": { "$gt": behind.map_or("", Collection::as_str) } } },
            doc! { "$sort": { "_id.collection": 1 } },
            doc! { "$group": { "_id": "$_id.collection" } },
            doc! { "$sort": { "_id": 1 } },
            doc! { "$limit": most as i64 },
        ];
        let names = self.reads().documents.aggregate(pipeline).max_time(self.left()?);
        let (mut names, mut collections) = (names.await.map_err(native)?, Vec::new());
        while names.advance().await.map_err(native)? {
            collections.push(Collection::parse(text(names.current(), "_id")?).map_err(corrupt)?);
        }
        Ok(collections)
    }

    async fn newest_change(&mut self) -> Result<FeedEnd> {
        feed::newest(self).await.map(FeedEnd::from)
    }

    async fn changes(&mut self, after: &FeedPosition, most: usize) -> Result<FeedPage> {
        feed::changes(self, after, most).await
    }

    async fn history(&mut self, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
        history::rows(self, of, below, most).await
    }

    async fn tombstones(&mut self, of: &[RecordId]) -> Result<Vec<Tombstone>> {
        erasure::tombstones(self, of).await
    }

    async fn tombstones_behind(
        &mut self,
        behind: Option<&[u8]>,
        most: usize,
    ) -> Result<(Vec<Tombstone>, Option<Vec<u8>>)> {
        erasure::tombstones_behind(self, behind, most).await
    }

    async fn expired(
        &mut self,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> Result<Vec<(Timestamp, RecordId)>> {
        expiry::expired(self, by, behind, most).await
    }

    async fn vectors(&mut self, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
        vectors::vectors(self, of).await
    }

    async fn stored_at(&mut self, id: MemoryId) -> Result<Option<Timestamp>> {
        let find = self.reads().memories.find_one(doc! { "_id": uuid(id.as_bytes()) });
        let row = find.projection(doc! { "storedAt": 1 }).max_time(self.left()?).await.map_err(native)?;
        let millis = row.as_deref().map(|row| optional(row, "storedAt", number)).transpose()?.flatten();
        millis.map(Timestamp::from_millis).transpose().map_err(corrupt)
    }
}

/// Offers the next rows of these lists from one search, with a hint if it must use a certain index.
async fn offer_next<K: Stored>(
    session: &MongoSession,
    on: &Rows,
    lists: &[Document],
    index: Option<Hint>,
    walk: &Walk<'_>,
    visit: &mut Visit<'_, K>,
) -> Result<Option<Mark>> {
    let Some(condition) = rest::<K>(lists, walk) else { return Ok(None) };
    let limit = walk.count.clamp(1, MOST);
    let is_ahead = walk.is_for_heads && walk.has_vectors && limit > AHEAD;
    let batch = if is_ahead { AHEAD } else { limit };
    let find = on.find(condition).sort(sort::<K>(walk.order)).limit(limit as i64).batch_size(batch as u32);
    let find = index.into_iter().fold(find, Find::hint);
    let find = projection(walk).into_iter().fold(find, Find::projection);
    let mut rows = find.max_time(session.left()?).await.map_err(native)?;
    if is_ahead {
        return offer_ahead(session, rows, limit, visit).await;
    }
    for _ in 1..limit {
        if !rows.advance().await.map_err(native)? || visit(&StoredRow(rows.current()))? == Verdict::Stop {
            return Ok(None);
        }
    }
    // More may follow the last one.
    let goes_on = rows.advance().await.map_err(native)? && visit(&StoredRow(rows.current()))? != Verdict::Stop;
    Ok(goes_on.then(|| mark::<K>(rows.current())))
}

/// Offers rows while the next ones are read, by another thread if there is one: with thousands of vectors both take
/// long.
async fn offer_ahead<K: Stored>(
    session: &MongoSession,
    mut rows: Cursor<RawDocumentBuf>,
    limit: usize,
    visit: &mut Visit<'_, K>,
) -> Result<Option<Mark>> {
    let (ahead, mut read) = channel(2);
    let reading = async move {
        loop {
            let mut some = Vec::with_capacity(AHEAD);
            while some.len() < AHEAD && rows.advance().await.map_err(native)? {
                some.push(rows.current().to_owned());
            }
            let is_last = some.len() < AHEAD;
            // Nobody receives them any more if the visitor has stopped.
            if ahead.send(some).await.is_err() || is_last {
                return Ok(());
            }
        }
    };
    // The reading stops when its call ends.
    let reading = AbortOnDropHandle::new(session.on.spawn(reading));
    let (mut count, mut mark) = (0, None);
    while let Some(rows) = read.recv().await {
        for row in &rows {
            if visit(&StoredRow(row))? == Verdict::Stop {
                return Ok(None);
            }
        }
        count += rows.len();
        mark = rows.last().map(|row| self::mark::<K>(row)).or(mark);
    }
    reading.await.unwrap_or_else(|panic| Err(ended_early(panic)))?;
    Ok(mark.filter(|_| count == limit))
}

/// The fields that a walk needs, unless it needs all.
fn projection(walk: &Walk<'_>) -> Option<Document> {
    let heads = doc! { "createdAt": 1, "updatedAt": 1, "spaceId": 1, "status": 1, "expiresAt": 1 };
    match (walk.is_for_heads, walk.has_vectors) {
        (true, true) => Some(heads.into_iter().chain(vectors::parts()).collect()),
        (true, false) => Some(heads),
        (false, true) => None,
        (false, false) => Some(doc! { VECTOR: 0 }),
    }
}
