//! Executes a query: chooses the walks that can answer it, and races them.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::places::{Part, Places};
use super::session::Reader;
use super::walk::{Mark, Row, Visit, Walk};
use super::watch::Watch;
use crate::cursor::CursorKey;
use crate::page::{DocumentPage, Head, MemoryPage, PageBuilder, Selects, Verdict};
use crate::query::{DocumentQuery, Documents, Ledger, MemoryQuery, Query};
use crate::{
    Collection, Document, DocumentId, Error, ErrorKind, Memory, MemoryId, Result, Status, Timestamp, compare_heads,
};

/// Minimum number of candidates of a walk's first slice, and maximum of a later one. Each slice is twice the one
/// before.
const FIRST_SLICE: usize = 32;
const LARGEST_SLICE: usize = 2_048;
/// Minimum slice of each of several walks that are merged.
const LANE: usize = 64;
/// Once the kept records of merged walks have this many bytes, further candidates keep only their heads.
const KEPT_BYTES: usize = 16 << 20;
/// When such a head's turn comes, this many records of its walk are read at once, as long as all kept records have at
/// most twice those bytes.
const READ_AGAIN: usize = 16;

/// A query, with the key of its namespace.
pub(super) struct Asked<Q> {
    pub(super) query: Q,
    pub(super) key: CursorKey,
    pub(super) watch: Arc<Watch>,
    /// Whether documents are indexed by place.
    pub(super) has_places: bool,
}

/// Returns a page of memories.
pub(super) async fn memories(
    reader: &mut impl Reader,
    Asked { query, key, watch, .. }: &Asked<MemoryQuery>,
) -> Result<MemoryPage> {
    let page = PageBuilder::new(query, key)?;
    if query.finds_nothing() || is_never(query) {
        return page.finish();
    }
    let statuses: Vec<Status> = query.of.statuses.iter().copied().collect();
    let wants_open = !statuses.is_empty() && statuses.iter().all(|status| status.is_open());
    let mut walks = Vec::with_capacity(2);
    if wants_open {
        walks.push(Racer::new(PageBuilder::new(query, key)?, vec![Part::Open(statuses)]));
    }
    match Places::of(reader, None, query).await? {
        Places::Everywhere if wants_open => {}
        places => match places.parts(reader) {
            parts if parts.is_empty() => return page.finish(),
            parts => walks.push(Racer::new(page, parts)),
        },
    }
    race(reader, &Memories, walks, watch).await
}

/// Returns a page of documents.
pub(super) async fn documents(
    reader: &mut impl Reader,
    Asked { query, key, watch, has_places }: &Asked<DocumentQuery>,
) -> Result<DocumentPage> {
    let page = PageBuilder::new(query, key)?;
    if query.finds_nothing() {
        return page.finish();
    }
    let parts = document_parts(reader, query, *has_places).await?;
    if parts.is_empty() {
        return page.finish();
    }
    race(reader, &DocumentsOf(query.collection()), vec![Racer::new(page, parts)], watch).await
}

/// Returns the walks that together cover the documents of a query; none if no document can match.
pub(super) async fn document_parts<R: Reader>(
    reader: &mut R,
    query: &DocumentQuery,
    has_places: bool,
) -> Result<Vec<Part>> {
    let places = match has_places {
        true => Places::of(reader, Some(query.collection()), query).await?,
        false => Places::Everywhere,
    };
    Ok(places.parts(reader))
}

/// Returns whether no time lies between the bounds.
fn is_never(query: &MemoryQuery) -> bool {
    match (query.of.created_after, query.of.created_before) {
        (Some(after), Some(before)) => after >= before,
        _ => false,
    }
}

/// Offers a row to the page. Also stops, with the page unfinished, if the call is over or has examined enough.
fn offer<K: Selects>(page: &mut PageBuilder<'_, K>, watch: &Watch, row: &dyn Row<K>) -> Result<Verdict> {
    if !watch.goes_on() {
        return Ok(Verdict::Stop);
    }
    page.offer(row.head(), |head| row.read(head), || row.id())
}

/// One more than the page holds, so that the walk finds out whether it is the last.
fn first_slice<K>(query: &Query<K>) -> usize {
    (query.limit + 1).max(FIRST_SLICE)
}

/// A set of records that can be walked.
pub(super) trait Walkable<K: Selects>: Sync {
    fn walk<R: Reader>(
        &self,
        reader: &mut R,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, K>,
    ) -> impl Future<Output = Result<Option<Mark>>> + Send;

    /// Reads the records with these ids, in any order; records that are gone are left out.
    fn read<R: Reader>(
        &self,
        reader: &mut R,
        ids: &[Vec<u8>],
    ) -> impl Future<Output = Result<Vec<Result<K::Record>>>> + Send;

    /// Returns the query's exclusive bounds of createdAt.
    fn bounds(query: &Query<K>) -> (Option<Timestamp>, Option<Timestamp>);
}

pub(super) struct Memories;

impl Walkable<Ledger> for Memories {
    async fn walk<R: Reader>(
        &self,
        reader: &mut R,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Ledger>,
    ) -> Result<Option<Mark>> {
        reader.walk_memories(walk, visit).await
    }

    async fn read<R: Reader>(&self, reader: &mut R, ids: &[Vec<u8>]) -> Result<Vec<Result<Memory>>> {
        let ids = ids.iter().filter_map(|id| Some(MemoryId::from_bytes(id.as_slice().try_into().ok()?)));
        let found = reader.memories(&ids.collect::<Vec<_>>()).await?.into_values();
        Ok(found.map(|found| found.map(|found| found.record)).collect())
    }

    fn bounds(query: &MemoryQuery) -> (Option<Timestamp>, Option<Timestamp>) {
        (query.of.created_after, query.of.created_before)
    }
}

pub(super) struct DocumentsOf<'c>(pub(super) &'c Collection);

impl Walkable<Documents> for DocumentsOf<'_> {
    async fn walk<R: Reader>(
        &self,
        reader: &mut R,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        reader.walk_documents(self.0, walk, visit).await
    }

    async fn read<R: Reader>(&self, reader: &mut R, ids: &[Vec<u8>]) -> Result<Vec<Result<Document>>> {
        let ids = ids.iter().filter_map(|id| DocumentId::parse(str::from_utf8(id).ok()?).ok());
        let found = reader.documents(self.0, &ids.collect::<Vec<_>>()).await?.into_iter();
        Ok(found.map(|found| found.map(|found| found.record)).collect())
    }

    fn bounds(_: &DocumentQuery) -> (Option<Timestamp>, Option<Timestamp>) {
        (None, None)
    }
}

/// Advances all walks in turns until one has completed the page.
///
/// Each walk alone yields the whole page, so the cost is that of the shortest one: a query for open memories of a space
/// walks the open memories and the space, and costs as much as the smaller of the two (Q9).
async fn race<K: Selects>(
    reader: &mut impl Reader,
    on: &impl Walkable<K>,
    mut walks: Vec<Racer<'_, K>>,
    watch: &Watch,
) -> Result<K::Page>
where
    Query<K>: Sync,
{
    let is_shared = walks.len() > 1;
    loop {
        for place in 0..walks.len() {
            let verdict = walks[place].advance(reader, on, is_shared, watch).await?;
            watch.check()?;
            if verdict == Verdict::Stop {
                let page = walks.swap_remove(place).page;
                if page.is_spent() {
                    watch.cut();
                }
                return page.finish();
            }
        }
    }
}

/// One way to answer a query: lanes whose candidates are merged in order, and the page that they fill.
struct Racer<'q, K: Selects> {
    query: &'q Query<K>,
    page: PageBuilder<'q, K>,
    lanes: Vec<Lane<K>>,
    slice: usize,
    /// The last candidate of a merge.
    last: Option<(Timestamp, Vec<u8>)>,
    /// Bytes of the records that the lanes keep.
    kept: usize,
}

impl<'q, K: Selects> Racer<'q, K>
where
    Query<K>: Sync,
{
    fn new(page: PageBuilder<'q, K>, parts: Vec<Part>) -> Self {
        let query = page.query();
        let behind = page.after().map(|after| Mark { millis: after.created_at.as_millis(), id: after.id.clone() });
        let lane = |part| Lane { part, behind: behind.clone(), is_over: false, found: VecDeque::new() };
        let lanes = parts.into_iter().map(lane).collect();
        Self { query, page, lanes, slice: first_slice(query), last: None, kept: 0 }
    }

    /// Offers the next candidates to the page. Returns `Stop` if the page is complete or there are no more.
    async fn advance(
        &mut self,
        reader: &mut impl Reader,
        on: &impl Walkable<K>,
        is_shared: bool,
        watch: &Watch,
    ) -> Result<Verdict> {
        let slice = self.slice;
        self.slice = (slice * 2).min(LARGEST_SLICE);
        if let [lane] = self.lanes.as_mut_slice() {
            let page = &mut self.page;
            let mut verdict = Verdict::Skip;
            let mut visit = |row: &dyn Row<K>| {
                verdict = offer(page, watch, row)?;
                Ok(verdict)
            };
            lane.walk(reader, on, self.query, slice, is_shared, &mut visit).await?;
            return Ok(if lane.is_over { Verdict::Stop } else { verdict });
        }
        self.merge(reader, on, slice, watch).await
    }

    /// Merges the candidates of several lanes until one of them must be refilled.
    async fn merge(
        &mut self,
        reader: &mut impl Reader,
        on: &impl Walkable<K>,
        slice: usize,
        watch: &Watch,
    ) -> Result<Verdict> {
        // Together they keep about as many records as one walk offers, but no slice is so small that a lane must be
        // refilled often.
        let slice = slice.min((slice / self.lanes.len()).max(LANE));
        for lane in &mut self.lanes {
            while lane.found.is_empty() && !lane.is_over {
                lane.fill(reader, on, &self.page, slice, &mut self.kept, watch).await?;
                watch.check()?;
            }
        }
        loop {
            if self.lanes.iter().any(|lane| lane.found.is_empty() && !lane.is_over) {
                return Ok(Verdict::Skip);
            }
            let order = self.query.order;
            let ready = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.found.is_empty());
            let nearest = ready.min_by(|(_, left), (_, right)| match (left.found.front(), right.found.front()) {
                (Some(Kept::Candidate(left)), Some(Kept::Candidate(right))) => {
                    compare_heads(&left.head(), &right.head(), order)
                }
                // A damaged row has no position of its own; it comes right after the row before it.
                (Some(Kept::Damaged { .. }), _) => Ordering::Less,
                _ => Ordering::Greater,
            });
            let Some((place, _)) = nearest else { return Ok(Verdict::Stop) };
            let mut candidate = match self.lanes[place].found.pop_front() {
                Some(Kept::Candidate(candidate)) => candidate,
                Some(Kept::Damaged { error, id }) => {
                    let read = |_: &Head<'_>| Err(Error::corrupt("its head can't be read"));
                    if self.page.offer(Err(error), read, || id)? == Verdict::Stop {
                        return Ok(Verdict::Stop);
                    }
                    continue;
                }
                None => return Ok(Verdict::Stop),
            };
            self.kept -= candidate.bytes;
            // An engine that indexes places by hash may offer a record twice.
            let position = (candidate.created_at, candidate.id.clone());
            if self.last.as_ref() == Some(&position) {
                continue;
            }
            self.last = Some(position);
            if let Content::Left = candidate.content {
                match self.read_left(reader, on, place, &candidate).await? {
                    Some(read) => candidate.content = Content::Read(read),
                    // The record is gone, or has moved.
                    None => continue,
                }
            }
            if candidate.offer(&mut self.page)? == Verdict::Stop {
                return Ok(Verdict::Stop);
            }
        }
    }
}

impl<K: Selects> Racer<'_, K> {
    /// Reads the record of a candidate that kept only its head, together with the next such records of its lane.
    async fn read_left(
        &mut self,
        reader: &mut impl Reader,
        on: &impl Walkable<K>,
        place: usize,
        candidate: &Candidate<K>,
    ) -> Result<Option<Result<K::Record>>> {
        let lane = &mut self.lanes[place].found;
        let left = lane.iter_mut().filter_map(|kept| match kept {
            Kept::Candidate(next) if matches!(next.content, Content::Left) => Some(next),
            _ => None,
        });
        // Read-ahead may double the bytes; small records never use that up.
        let ahead = if self.kept < 2 * KEPT_BYTES { READ_AGAIN - 1 } else { 0 };
        let mut next: Vec<_> = left.take(ahead).collect();
        let ids: Vec<_> = std::iter::once(&candidate.id).chain(next.iter().map(|next| &next.id)).cloned().collect();
        let records = on.read(reader, &ids).await?.into_iter().flatten();
        let mut records: HashMap<_, _> = records.map(|record| (K::head(&record).id.to_vec(), record)).collect();
        let mut take = |candidate: &Candidate<K>| {
            let record = records.remove(&candidate.id)?;
            (self.page.admits(&K::head(&record)) && candidate.is_at(&record)).then_some(record)
        };
        let read = take(candidate);
        for next in &mut next {
            if let Some(record) = take(next) {
                next.bytes = K::size(&record);
                self.kept += next.bytes;
                next.content = Content::Read(Ok(record));
            }
        }
        match read {
            Some(record) => Ok(Some(Ok(record))),
            // Reading the record alone shows whether it is damaged.
            None => match on.read(reader, std::slice::from_ref(&candidate.id)).await?.pop() {
                Some(Err(error)) if error.kind() != ErrorKind::Corrupt => Err(error),
                read => Ok(read.filter(|read| read.is_err())),
            },
        }
    }
}

/// A walk of the engine, with the candidates that it has found and not yet offered.
struct Lane<K: Selects> {
    part: Part,
    behind: Option<Mark>,
    is_over: bool,
    found: VecDeque<Kept<K>>,
}

/// A row that was read before its turn.
enum Kept<K: Selects> {
    Candidate(Candidate<K>),
    /// A row whose head can't be read.
    Damaged {
        error: Error,
        id: String,
    },
}

impl<K: Selects> Lane<K>
where
    Query<K>: Sync,
{
    async fn walk<W: Walkable<K>>(
        &mut self,
        reader: &mut impl Reader,
        on: &W,
        query: &Query<K>,
        count: usize,
        is_shared: bool,
        visit: &mut Visit<'_, K>,
    ) -> Result<()> {
        let (created_after, created_before) = W::bounds(query);
        let behind = self.behind.as_ref();
        let source = self.part.source();
        let order = query.order;
        let walk = Walk { source, order, created_after, created_before, behind, count, is_shared, ..Walk::EVERYTHING };
        self.behind = on.walk(reader, &walk, visit).await?;
        self.is_over = self.behind.is_none();
        Ok(())
    }

    /// Finds and keeps the next candidates, and counts the bytes of their records.
    async fn fill<W: Walkable<K>>(
        &mut self,
        reader: &mut impl Reader,
        on: &W,
        page: &PageBuilder<'_, K>,
        count: usize,
        kept: &mut usize,
        watch: &Watch,
    ) -> Result<()> {
        let mut found = VecDeque::new();
        let mut visit = |row: &dyn Row<K>| {
            if !watch.goes_on() {
                return Ok(Verdict::Stop);
            }
            found.push_back(match row.head() {
                Ok(head) => {
                    let content = match page.admits(&head) {
                        true if *kept < KEPT_BYTES => Content::Read(row.read(&head)),
                        true => Content::Left,
                        false => Content::Unwanted,
                    };
                    let candidate = Candidate::new(&head, content, row.id());
                    *kept += candidate.bytes;
                    Kept::Candidate(candidate)
                }
                Err(error) => Kept::Damaged { error, id: row.id() },
            });
            Ok(Verdict::Skip)
        };
        self.walk(reader, on, page.query(), count, true, &mut visit).await?;
        self.found = found;
        Ok(())
    }
}

/// A candidate with the fields of its head.
struct Candidate<K: Selects> {
    id: Vec<u8>,
    space: String,
    created_at: Timestamp,
    status: Option<Status>,
    is_over: bool,
    content: Content<K::Record>,
    /// Bytes of the record, if kept.
    bytes: usize,
    id_as_text: String,
}

/// The state of a candidate's record.
enum Content<R> {
    /// The head does not match the query.
    Unwanted,
    Read(Result<R>),
    /// Not kept, for lack of room.
    Left,
}

impl<K: Selects> Candidate<K> {
    fn new(head: &Head<'_>, content: Content<K::Record>, id_as_text: String) -> Self {
        let (id, space) = (head.id.to_vec(), head.space.to_owned());
        let bytes = if let Content::Read(Ok(record)) = &content { K::size(record) } else { 0 };
        let Head { created_at, status, is_over, .. } = *head;
        Self { id, space, created_at, status, is_over, content, bytes, id_as_text }
    }

    fn head(&self) -> Head<'_> {
        let (id, space, created_at) = (self.id.as_slice(), self.space.as_str(), self.created_at);
        // `is_over` was decided when the candidate was made.
        let (updated_at, expires_at) = (None, None);
        Head { id, space, created_at, updated_at, status: self.status, expires_at, is_over: self.is_over }
    }

    /// Returns whether the record has the candidate's createdAt.
    fn is_at(&self, record: &K::Record) -> bool {
        K::created_at(record) == self.created_at
    }

    fn offer(mut self, page: &mut PageBuilder<'_, K>) -> Result<Verdict> {
        let content = std::mem::replace(&mut self.content, Content::Left);
        // The page reads only records that it admits.
        let read = |_: &Head<'_>| match content {
            Content::Read(record) => record,
            Content::Unwanted | Content::Left => Err(Error::corrupt("the record was not read")),
        };
        page.offer(Ok(self.head()), read, || self.id_as_text.clone())
    }
}
