//! The reading part of a session: records by id, and candidates in order, slice by slice.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use memory_core::engine::{
    DocumentsFound, FeedEnd, FeedPage, FeedPosition, Found, HistoryRow, Mark, MemoriesFound, Place, Reader, Row,
    Source, Visit, Walk, corrupt,
};
use memory_core::{
    BOUNDARIES, Collection, DocumentId, Documents, Ledger, MemoryId, Order, RecordId, Result, Selects, Timestamp,
    Tombstone, Verdict, path_hash,
};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::connection::{Session, Statement};
use crate::erasure;
use crate::expiry;
use crate::feed;
use crate::history;
use crate::row::{Fetched, bytes, column, document_of, has_payload, memory_id, memory_of};
use crate::slices::Slice;
use crate::statements::id_to_sql;
use crate::vectors;

/// Maximum number of candidates in a slice. Payloads over 64 KiB are left out, so a slice has at most 16 MiB of
/// payloads.
const LARGEST_SLICE: usize = 256;
/// Maximum number of candidates in a slice of heads.
const MOST_HEADS: usize = 2_048;
/// Maximum number of candidates in a slice of heads with vectors, which have at most about 16 KiB each.
const MOST_VECTORS: usize = 1_024;
/// Payloads are read and processed in groups of this many bytes, with at least one payload.
const GROUP: usize = 4 << 20;
/// Sort before and after every position (createdAt, id): times are within about 10^13 ms.
const BEGINNING: (i64, Uuid) = (i64::MIN, Uuid::nil());
const END: (i64, Uuid) = (i64::MAX, Uuid::nil());

impl Reader for Session {
    /// Of a memory its revision, of a document the transaction that wrote it.
    type Version = i64;

    const PLACES: usize = usize::MAX;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<i64>> {
        let ids: Vec<_> = ids.iter().copied().map(id_to_sql).collect();
        let mut found = HashMap::new();
        for row in self.rows(self.statement(|on| &on.memories_by_ids).bind(ids)).await? {
            let memory = memory_of(&row);
            let memory = memory.map(|record| Found { version: i64::from(record.revision), record });
            found.insert(memory_id(&row)?, memory);
        }
        Ok(found)
    }

    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        let slice = self.slice(walk);
        self.offer_slice(walk, slice, memories_by_ids, visit).await
    }

    async fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<Place>>> {
        let after = after.unwrap_or_default();
        let mut from = if after.is_empty() { prefix.to_owned() } else { Place::behind_space(after) };
        if let Some(collection) = of {
            return self.document_siblings(collection, prefix, &from, most).await.map(Some);
        }
        // A sibling takes one step for itself, and one for each boundary.
        let steps = 4 * most + 1;
        let (mut siblings, mut paths) = (Vec::new(), BTreeSet::new());
        loop {
            let rows = self
                .rows(self.statement(|on| &on.siblings).bind(prefix).bind(steps as i32).bind(from.as_str()))
                .await?;
            let mut last = String::new();
            for row in &rows {
                let (path, is_space, space) = (column::<String>(row, 0)?, column(row, 1)?, column::<String>(row, 2)?);
                last = last.max(space);
                paths.extend((path.as_str() > after).then(|| path.clone()));
                siblings.push(if is_space { Place::Space(path) } else { Place::Below(path) });
            }
            if rows.len() < steps || paths.len() >= most {
                return Ok(Some(siblings));
            }
            from = Place::behind_sibling(prefix, &last);
        }
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<i64>> {
        let ids: Vec<_> = ids.iter().map(DocumentId::as_str).collect();
        let statement = self.statement(|on| &on.documents_by_ids).bind(collection.as_str()).bind(ids);
        let found = |row: &PgRow| Ok(Found { record: document_of(row)?, version: column(row, 9)? });
        Ok(self.rows(statement).await?.iter().map(found).collect())
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        let id = walk.behind.map_or_else(Default::default, |behind| String::from_utf8_lossy(&behind.id));
        let millis = walk.behind.map_or(walk.order.choose(i64::MAX, i64::MIN), |behind| behind.millis);
        let on = self.on();
        let sql = match (walk.source, is_of_heads(walk)) {
            (Source::Places(_), true) => &on.document_heads_in,
            (Source::Places(_), false) => walk.order.choose(&on.newest_documents_in, &on.oldest_documents_in),
            (_, true) => &on.document_heads,
            (_, false) => walk.order.choose(&on.newest_documents, &on.oldest_documents),
        };
        let slice = match walk.has_vectors {
            true => self.prepare(&on.with_document_vectors(sql)),
            false => self.prepare(sql),
        };
        let slice = slice.bind(collection.as_str()).bind(millis).bind(id).bind(count_of(walk) as i64);
        let slice = match walk.source {
            Source::Places(places) => {
                let (levels, paths): (Vec<_>, Vec<_>) =
                    places.iter().map(|place| (level_of(place), place.path())).unzip();
                slice.bind(levels).bind(paths)
            }
            _ => slice,
        };
        self.offer_slice(walk, slice, documents_by_ids, visit).await
    }

    async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
        let behind = behind.map_or("", Collection::as_str);
        let rows = self.rows(self.statement(|on| &on.collections).bind(behind).bind(most as i64)).await?;
        rows.iter().map(|row| Collection::parse(column::<&str>(row, 0)?).map_err(corrupt)).collect()
    }

    async fn newest_change(&mut self) -> Result<FeedEnd> {
        feed::newest(self).await
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
        let rows = self.rows(self.statement(|on| &on.stored_at).bind(id_to_sql(id))).await?;
        let millis = rows.first().map_or(Ok(None), |row| column::<Option<i64>>(row, 0))?;
        millis.map(Timestamp::from_millis).transpose().map_err(corrupt)
    }
}

impl Session {
    /// Lists the siblings in a collection, from the index in byte order.
    async fn document_siblings(
        &mut self,
        collection: &Collection,
        prefix: &str,
        from: &str,
        most: usize,
    ) -> Result<Vec<Place>> {
        let (mut siblings, mut end) = (Vec::new(), None);
        for place in [Place::Space, Place::Below] {
            let level = level_of(&place(prefix.to_owned()));
            let paths = self.statement(|on| &on.document_siblings).bind(collection.as_str()).bind(level).bind(prefix);
            let paths = self.rows(paths.bind(most as i32).bind(from)).await?;
            let paths = paths.iter().map(|path| column::<String>(path, 0)).collect::<Result<Vec<_>>>()?;
            let last = paths.iter().max().filter(|_| paths.len() >= most).cloned();
            end = end.into_iter().chain(last).min();
            siblings.extend(paths.into_iter().map(place));
        }
        // The other kind may have more paths beyond the end.
        siblings.retain(|place| end.as_deref().is_none_or(|end| place.path() <= end));
        Ok(siblings)
    }

    /// Returns the statement that reads the next rows of a walk along the ledger.
    fn slice(&self, walk: &Walk<'_>) -> Statement {
        let slices = match is_of_heads(walk) {
            true => &self.on().heads,
            false => walk.order.choose(&self.on().newest, &self.on().oldest),
        };
        let (low, high) = bounds(walk);
        let first = |sql: &Arc<str>| {
            let slice = match walk.has_vectors {
                true => self.prepare(&slices.with_vectors(sql)),
                false => self.prepare(sql),
            };
            slice.bind(count_of(walk) as i64)
        };
        let next = |slice: &Slice| match (low, high) {
            (BEGINNING, END) => first(&slice.all),
            _ => first(&slice.between).bind(low.0).bind(low.1).bind(high.0).bind(high.1),
        };
        match walk.source {
            Source::Everything => next(&slices.by_time),
            Source::Open([status]) => next(&slices.of_status).bind(status.as_str()),
            Source::Open(statuses) => {
                let statuses: Vec<_> = statuses.iter().map(|status| status.as_str()).collect();
                next(&slices.by_status).bind(statuses)
            }
            Source::Places([Place::Space(space)]) => next(&slices.of_space).bind(space),
            Source::Places([Place::Below(path)]) => next(&slices.below[depth_of(path) - 1]).bind(path_hash(path)),
            // The places of an *under* selector.
            Source::Places([Place::Space(space), Place::Below(path)]) if space == path => {
                next(&slices.under[depth_of(path) - 1]).bind(path_hash(path)).bind(space)
            }
            Source::Places(places) => {
                let (mut depths, mut hashes, mut spaces) = (Vec::new(), Vec::new(), Vec::new());
                for place in places {
                    match place {
                        Place::Space(space) => spaces.push(space.as_str()),
                        Place::Below(path) => {
                            depths.push(depth_of(path) as i32);
                            hashes.push(path_hash(path));
                        }
                    }
                }
                next(&slices.by_place(&depths, spaces.len())).bind(depths).bind(hashes).bind(spaces)
            }
        }
    }

    /// Offers the next rows of a walk: heads only if no payload is needed. Returns where to continue, unless it was
    /// stopped or there are no more rows.
    async fn offer_slice<K: Selects>(
        &mut self,
        walk: &Walk<'_>,
        slice: Statement,
        by_ids: ByIds,
        visit: &mut Visit<'_, K>,
    ) -> Result<Option<Mark>>
    where
        for<'r> Fetched<'r>: Row<K>,
    {
        let rows = self.rows(slice).await?;
        let mark = match rows.last() {
            Some(row) if rows.len() == count_of(walk) => {
                Some(Mark { millis: column(row, 1)?, id: bytes(row, 0)?.to_vec() })
            }
            _ => None,
        };
        let verdict = match is_of_heads(walk) {
            true => offer_heads(&rows, walk.has_vectors, visit)?,
            false => self.offer(rows, walk.has_vectors, by_ids, visit).await?,
        };
        Ok(mark.filter(|_| verdict != Verdict::Stop))
    }

    /// Offers rows until it is stopped.
    async fn offer<K: Selects>(
        &mut self,
        rows: Vec<PgRow>,
        has_vectors: bool,
        by_ids: ByIds,
        visit: &mut Visit<'_, K>,
    ) -> Result<Verdict>
    where
        for<'r> Fetched<'r>: Row<K>,
    {
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let (group, size) = first_group(rest, has_vectors)?;
            rest = &rest[group.len()..];
            let without: Vec<_> = group.iter().filter(|row| !has_payload(row)).collect();
            let mut large = HashMap::new();
            if !without.is_empty() {
                for row in self.rows(by_ids(self, &without)?).await? {
                    large.insert(bytes(&row, 0)?.to_vec(), row);
                }
            }
            let _turn = self.turn(size).await;
            for row in group {
                // A row that was deleted meanwhile is left out.
                let whole = if has_payload(row) { Some(row) } else { large.get(bytes(row, 0)?) };
                if let Some(whole) = whole
                    && visit(&Fetched { row: whole, vector: has_vectors.then_some(row) })? == Verdict::Stop
                {
                    return Ok(Verdict::Stop);
                }
            }
        }
        Ok(Verdict::Skip)
    }
}

/// Returns whether a walk reads heads only; such walks begin with the newest record.
fn is_of_heads(walk: &Walk<'_>) -> bool {
    walk.is_for_heads && walk.order == Order::NewestFirst
}

/// Returns the maximum number of candidates in the next slice of a walk.
fn count_of(walk: &Walk<'_>) -> usize {
    let most = match (is_of_heads(walk), walk.has_vectors) {
        (true, false) => MOST_HEADS,
        (true, true) => MOST_VECTORS,
        (false, _) => LARGEST_SLICE,
    };
    walk.count.min(most)
}

/// Offers rows without payloads until it is stopped.
fn offer_heads<K: Selects>(rows: &[PgRow], has_vectors: bool, visit: &mut Visit<'_, K>) -> Result<Verdict>
where
    for<'r> Fetched<'r>: Row<K>,
{
    for row in rows {
        if visit(&Fetched { row, vector: has_vectors.then_some(row) })? == Verdict::Stop {
            return Ok(Verdict::Stop);
        }
    }
    Ok(Verdict::Skip)
}

/// Makes the statement that reads the payloads of some rows.
type ByIds = fn(&Session, &[&PgRow]) -> Result<Statement>;

/// Returns the first rows whose payloads are read together, and their bytes.
fn first_group(rows: &[PgRow], has_vectors: bool) -> Result<(&[PgRow], usize)> {
    let mut bytes = 0;
    for (place, row) in rows.iter().enumerate() {
        let size = column::<i32>(row, row.len() - 1 - usize::from(has_vectors))?;
        let size = usize::try_from(size).unwrap_or_default();
        if place > 0 && bytes + size > GROUP {
            return Ok((&rows[..place], bytes));
        }
        bytes += size;
    }
    Ok((rows, bytes))
}

/// Makes the statement that reads the whole memories of these rows.
fn memories_by_ids(session: &Session, rows: &[&PgRow]) -> Result<Statement> {
    let ids = rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<Uuid>>>()?;
    Ok(session.statement(|on| &on.memories_by_ids).bind(ids))
}

/// Makes the statement that reads the whole documents of these rows, all in one collection.
fn documents_by_ids(session: &Session, rows: &[&PgRow]) -> Result<Statement> {
    let ids = rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<&str>>>()?;
    let collection: &str = rows.first().map_or(Ok(""), |row| column(row, 3))?;
    Ok(session.statement(|on| &on.documents_by_ids).bind(collection).bind(ids))
}

/// Returns the exclusive bounds of a walk, as positions (createdAt, id).
fn bounds(walk: &Walk<'_>) -> ((i64, Uuid), (i64, Uuid)) {
    let low = walk.created_after.map_or(BEGINNING, |after| (after.as_millis(), Uuid::max()));
    let high = walk.created_before.map_or(END, |before| (before.as_millis(), Uuid::nil()));
    let behind = walk.behind.and_then(|behind| Some((behind.millis, Uuid::from_slice(&behind.id).ok()?)));
    behind.map_or((low, high), |place| walk.order.choose((low, high.min(place)), (low.max(place), high)))
}

/// Returns the position of a path among the ancestors of what lies below it, from 1.
fn depth_of(path: &str) -> usize {
    path.matches(BOUNDARIES).count() + 1
}

/// Returns the level of a place of documents: twice the number of boundaries in its path, plus 1 for an ancestor.
fn level_of(place: &Place) -> i32 {
    2 * place.path().matches(BOUNDARIES).count() as i32 + i32::from(matches!(place, Place::Below(_)))
}
