//! The reading part of a session: records by id, and candidates in the order of a walk.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory_core::engine::{
    self, DocumentsFound, FeedEnd, FeedPage, FeedPosition, HistoryRow, Mark, MemoriesFound, Place, Reader, Source,
    Visit, Walk, corrupt,
};
use memory_core::{
    Collection, DocumentId, Documents, Error, Ledger, MemoryId, Order, RecordId, Result, Selects, Status, Timestamp,
    Tombstone, Verdict,
};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Params, Row, Rows, params};

use crate::connection::Session;
use crate::error::native;
use crate::expiry;
use crate::feed;
use crate::history;
use crate::paths;
use crate::slots::{Slots, Windows};
use crate::statements::{self, InOrder, SLOT_BITS, Stored, column, first, prepare};
use crate::tombstones;
use crate::vectors;

/// Maximum number of slots whose rows are read at once, and of documents of one place.
pub(crate) const STRIDE: usize = 64;
/// Approximate maximum number of documents that are read ahead, for all places together.
const MARKS: usize = 4_096;

impl Reader for Session {
    /// The seq, which identifies a version together with the record as it was read.
    type Version = i64;

    const PLACES: usize = usize::MAX;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<i64>> {
        let mut memories = HashMap::with_capacity(ids.len());
        for id in ids {
            let key = [id.as_bytes().as_slice()];
            let read = |row: &Row<'_>| Ok(Stored(row).found::<Ledger>());
            let memory = first(&self.connection, statements::MEMORY_BY_ID, key, read)?;
            memories.extend(memory.map(|memory| (*id, memory)));
        }
        Ok(memories)
    }

    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        if walk.behind.is_some() {
            self.renew_view()?;
        }
        let bounds = Bounds::of(&self.connection, walk)?;
        match walk.source {
            Source::Everything => {
                let parameters = params![bounds.far, bounds.near, bounds.id];
                walk_rows(self, &statements::MEMORIES, parameters, walk, visit)
            }
            Source::Open(statuses) => {
                let wants = |status| statuses.contains(&status);
                let (pending, running) = (wants(Status::Pending), wants(Status::Running));
                let parameters = params![bounds.far, bounds.near, bounds.id, pending, running];
                walk_rows(self, &statements::OPEN_MEMORIES, parameters, walk, visit)
            }
            Source::Places(places) => walk_places(self, places, &bounds, walk, visit),
        }
    }

    async fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<Place>>> {
        let siblings = match of {
            None => paths::siblings(&self.connection, prefix, after, most),
            Some(collection) => {
                paths::document_siblings(&self.connection, collection, prefix, after.unwrap_or_default(), most)
            }
        };
        siblings.map(Some)
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<i64>> {
        self.renew_view()?;
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            let key = [collection.as_str(), id.as_str()];
            let read = |row: &Row<'_>| Ok(Stored(row).found::<Documents>());
            documents.extend(first(&self.connection, statements::DOCUMENT_BY_ID.whole(), key, read)?);
        }
        Ok(documents)
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        if walk.behind.is_some() {
            self.renew_view()?;
        }
        if let Source::Places(places) = walk.source {
            return walk_documents_in(self, collection, places, walk, visit);
        }
        let (millis, id) = behind(walk.order, walk.behind);
        let parameters = params![collection.as_str(), millis, id];
        walk_rows(self, &statements::DOCUMENTS, parameters, walk, visit)
    }

    async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
        let mut statement = prepare(&self.connection, statements::COLLECTIONS)?;
        let behind = behind.map_or("", Collection::as_str);
        let mut rows = statement.query((behind, most as i64)).map_err(native)?;
        let mut collections = Vec::new();
        while let Some(row) = rows.next().map_err(native)? {
            collections.push(Collection::parse(statements::text(row, 0)?)?);
        }
        Ok(collections)
    }

    async fn history(&mut self, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
        history::rows(&self.connection, of, below, most)
    }

    async fn stored_at(&mut self, id: MemoryId) -> Result<Option<Timestamp>> {
        let key = [id.as_bytes().as_slice()];
        let millis = first(&self.connection, statements::STORED_AT, key, |row| column::<Option<i64>>(row, 0))?;
        millis.flatten().map(Timestamp::from_millis).transpose().map_err(corrupt)
    }

    async fn tombstones(&mut self, of: &[RecordId]) -> Result<Vec<Tombstone>> {
        tombstones::find(&self.connection, of)
    }

    async fn tombstones_behind(
        &mut self,
        behind: Option<&[u8]>,
        most: usize,
    ) -> Result<(Vec<Tombstone>, Option<Vec<u8>>)> {
        let found = tombstones::behind(&self.connection, behind.unwrap_or_default(), most)?;
        let next = found.last().filter(|_| found.len() == most).map(|last| last.record.to_key());
        Ok((found, next))
    }

    async fn expired(
        &mut self,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> Result<Vec<(Timestamp, RecordId)>> {
        expiry::behind(&self.connection, by, behind, most)
    }

    async fn vectors(&mut self, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
        vectors::find(&self.connection, of)
    }

    async fn newest_change(&mut self) -> Result<FeedEnd> {
        feed::newest(&self.connection).map(FeedEnd::from)
    }

    async fn changes(&mut self, after: &FeedPosition, most: usize) -> Result<FeedPage> {
        feed::changes(&self.connection, after, most)
    }
}

/// The slots of a walk, in the direction of its order.
struct Bounds<'w> {
    /// The slot where the walk begins.
    near: i64,
    /// The walk begins after this id in that slot.
    id: &'w [u8],
    /// The last slot of the walk.
    far: i64,
}

impl<'w> Bounds<'w> {
    fn of(connection: &Connection, walk: &Walk<'w>) -> Result<Self> {
        let start_of = |millis: i64| millis << SLOT_BITS;
        let after = walk.created_after.unwrap_or(Timestamp::MIN).as_millis();
        let before = walk.created_before.unwrap_or(Timestamp::MAX).as_millis();
        // The bounds are exclusive; without one, the first or last millisecond is included.
        let low = start_of(after + i64::from(walk.created_after.is_some()));
        let high = start_of(before + i64::from(walk.created_before.is_none())) - 1;
        let (near, far) = walk.order.choose((high, low), (low, high));
        let mut bounds = Self { near, id: before_all(walk), far };
        let Some(Mark { millis, id }) = walk.behind else { return Ok(bounds) };
        let slot = first(connection, statements::SLOT_OF_ID, [id.as_slice()], |row| column::<i64>(row, 0))?;
        let (begin, id) = match slot.filter(|slot| slot >> SLOT_BITS == *millis) {
            Some(slot) => (slot, id.as_slice()),
            // The row of the mark is gone: walk its whole millisecond again.
            None => (walk.order.choose(start_of(millis + 1) - 1, start_of(*millis)), bounds.id),
        };
        if walk.order.choose(begin <= near, begin >= near) {
            (bounds.near, bounds.id) = (begin, id);
        }
        Ok(bounds)
    }
}

/// Returns an id that sorts before all others in the order: longer than the greatest one, or empty.
fn before_all(walk: &Walk<'_>) -> &'static [u8] {
    walk.order.choose(&[u8::MAX; 17], &[])
}

/// Offers the rows of a statement in the order of the walk.
fn walk_rows<K: Selects>(
    session: &Session,
    sql: &InOrder,
    parameters: impl Params,
    walk: &Walk<'_>,
    visit: &mut Visit<'_, K>,
) -> Result<Option<Mark>>
where
    for<'r> Stored<'r>: engine::Row<K>,
{
    let mut statement = prepare(&session.connection, sql.of_walk(walk))?;
    let mut rows = statement.query(parameters).map_err(native)?;
    Ok(offer(&mut rows, &mut Left::of(session, walk), visit)?.break_value().flatten())
}

/// Offers the rows of places.
fn walk_places(
    session: &Session,
    places: &[Place],
    bounds: &Bounds<'_>,
    walk: &Walk<'_>,
    visit: &mut Visit<'_, Ledger>,
) -> Result<Option<Mark>> {
    let connection = &session.connection;
    let (low, high) = walk.order.choose((bounds.far, bounds.near), (bounds.near, bounds.far));
    let expression = paths::match_places(places);
    let begins_at_end = walk.behind.is_none() && walk.created_before.is_none();
    let mut statement;
    let mut slots = if walk.order == Order::OldestFirst || begins_at_end {
        statement = prepare(connection, statements::SLOTS.of(walk.order))?;
        Slots::Along(statement.query(params![expression, low, high]).map_err(native)?)
    } else {
        // Upper bound: if the ledger has so many slots since this one, the places have at most as many.
        let back = (high, Windows::most(walk.count) as i64);
        let reach = first(connection, statements::SLOT_FURTHER_BACK, back, |row| column(row, 0))?.unwrap_or(low);
        statement = prepare(connection, statements::SLOTS.of(Order::OldestFirst))?;
        Slots::Back(Windows::new(&mut statement, expression, (low, high), walk.count, reach))
    };
    let mut memories = prepare(connection, statements::MEMORIES_IN_SLOTS.of_walk(walk))?;
    let (wanted, mut left) = (walk.count.min(STRIDE), Left::of(session, walk));
    loop {
        let mut some = Vec::with_capacity(wanted);
        let mut behind = before_all(walk);
        while some.len() < wanted
            && let Some(slot) = slots.next()?
        {
            some.push(Value::Integer(slot));
            // Read alone, because only this slot has a bound on ids.
            if slot == bounds.near {
                behind = bounds.id;
                break;
            }
        }
        if some.is_empty() {
            return Ok(None);
        }
        let some = Rc::new(some);
        let rows = memories.query(params![some, behind]).map_err(native);
        let offered = rows.and_then(|mut rows| offer(&mut rows, &mut left, visit));
        // The statement must not be the last owner of a list: rusqlite 0.39 then leaks its contents.
        memories.clear_bindings();
        if let ControlFlow::Break(mark) = offered? {
            return Ok(mark);
        }
    }
}

/// Offers the documents of places, by merging their lists.
fn walk_documents_in(
    session: &Session,
    collection: &Collection,
    places: &[Place],
    walk: &Walk<'_>,
    visit: &mut Visit<'_, Documents>,
) -> Result<Option<Mark>> {
    let connection = &session.connection;
    let mut list = prepare(connection, statements::DOCUMENTS_IN_PLACE.of(walk.order))?;
    let mut by_id = prepare(connection, statements::DOCUMENT_BY_ID.of(walk))?;
    let stride = (MARKS / places.len()).clamp(1, STRIDE);
    let mut read = |place: &Place, mark: Option<&Mark>| {
        let (millis, id) = behind(walk.order, mark);
        let parameters = params![collection.as_str(), paths::level_of(place), place.path(), millis, id, stride as i64];
        let mut rows = list.query(parameters).map_err(native)?;
        let mut marks = VecDeque::with_capacity(stride);
        while let Some(row) = rows.next().map_err(native)? {
            marks.push_back(Mark { millis: column(row, 0)?, id: statements::bytes(row, 1)?.to_vec() });
        }
        Ok::<_, Error>(marks)
    };
    let mut lists = places.iter().map(|place| read(place, walk.behind)).collect::<Result<Vec<_>>>()?;
    let heads = lists.iter_mut().enumerate().filter_map(|(number, list)| Some((list.pop_front()?, number)));
    let (mut heads, mut left) = (heads.collect::<BTreeSet<_>>(), Left::of(session, walk));
    let next = |heads: &mut BTreeSet<_>| match walk.order {
        Order::NewestFirst => heads.pop_last(),
        Order::OldestFirst => heads.pop_first(),
    };
    while let Some((mark, number)) = next(&mut heads) {
        let id = ToSqlOutput::Borrowed(ValueRef::Text(&mark.id));
        let mut rows = by_id.query(params![collection.as_str(), id]).map_err(native)?;
        if let ControlFlow::Break(mark) = offer(&mut rows, &mut left, visit)? {
            return Ok(mark);
        }
        if lists[number].is_empty() {
            lists[number] = read(&places[number], Some(&mark))?;
        }
        heads.extend(lists[number].pop_front().map(|mark| (mark, number)));
    }
    Ok(None)
}

/// Returns the time and id after which a list of documents continues.
fn behind(order: Order, mark: Option<&Mark>) -> (i64, ToSqlOutput<'_>) {
    let (millis, id) = mark.map_or((order.choose(i64::MAX, i64::MIN), &[][..]), |mark| (mark.millis, &mark.id));
    (millis, ToSqlOutput::Borrowed(ValueRef::Text(id)))
}

/// The number of candidates that a walk may still offer.
struct Left<'s> {
    count: usize,
    log_waits: Option<&'s AtomicBool>,
}

impl<'s> Left<'s> {
    /// SQLite reads ahead for free, so the count matters only for a shared walk. The walk also pauses if the writer
    /// waits for its snapshot to end.
    fn of(session: &'s Session, walk: &Walk<'_>) -> Self {
        let count = if walk.is_shared { walk.count } else { usize::MAX };
        Self { count, log_waits: session.log_waits.as_deref() }
    }

    fn is_over(&self) -> bool {
        self.count == 0 || self.log_waits.is_some_and(|waits| waits.load(Ordering::Relaxed))
    }
}

/// Offers rows as long as some are `left`. Breaks with the mark of the last row if none is left, and with `None` if the
/// visitor has stopped.
fn offer<K: Selects>(
    rows: &mut Rows<'_>,
    left: &mut Left<'_>,
    visit: &mut Visit<'_, K>,
) -> Result<ControlFlow<Option<Mark>>>
where
    for<'r> Stored<'r>: engine::Row<K>,
{
    while let Some(row) = rows.next().map_err(native)? {
        if visit(&Stored(row))? == Verdict::Stop {
            return Ok(ControlFlow::Break(None));
        }
        left.count -= 1;
        if left.is_over() {
            return Ok(ControlFlow::Break(Some(Stored(row).mark()?)));
        }
    }
    Ok(ControlFlow::Continue(()))
}
