//! From a query of the contract to candidates in its order.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::{
    BOUNDARIES, Document, DocumentPage, DocumentQuery, Head, Memory, MemoryPage, MemoryQuery, Order, PageBuilder,
    Position, Query, Result, Selects, SpaceRange, Spaces, Verdict, path_hash, words,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::connection::Session;
use crate::error::native;
use crate::statements::{self, Statements, column};

/// How many candidates the first slice of a walk has at least; each further one has twice as many, up to this.
const SLICE: (usize, usize) = (32, 2_048);
/// A slice ends early when its payload has passed this, in bytes; the statements say so too.
const SLICE_BYTES: usize = 16 << 20;
/// Up to this many siblings of a prefix are merged; above it, what their parent holds is walked.
const MAX_SIBLINGS: usize = 100;
/// A sibling takes a step for itself and one for each boundary.
const MAX_STEPS: usize = 4 * MAX_SIBLINGS + 1;

/// The page of a query of the ledger.
pub(crate) async fn memories(session: &mut Session, on: &Statements, query: &MemoryQuery) -> Result<MemoryPage> {
    if let Some(text) = query.text() {
        let found = words::distinct(text).into_iter().collect::<Vec<_>>();
        let ranked = session.statement(&on.memories_by_words).bind(found).bind(memory_core::MAX_EXAMINED as i64);
        let rows = ranked.fetch_all(&mut **session).await.map_err(native)?;
        let ids = rows.iter().map(|row| column::<Uuid>(row, 0)).collect::<Result<Vec<_>>>()?;
        let mut page = PageBuilder::new(query);
        for ids in ids.chunks(first_slice(query)) {
            let rows = session.statement(&on.memories_in_order).bind(ids.to_vec()).fetch_all(&mut **session).await;
            if offer_all(&mut page, &rows.map_err(native)?)? == Verdict::Stop {
                break;
            }
        }
        return Ok(page.finish());
    }
    let bounds = Bounds::of(query);
    let walk = |by| Walk { by, bounds, slice: first_slice(query), page: PageBuilder::new(query) };
    let wants_open = !query.statuses().is_empty() && query.statuses().iter().all(|status| status.is_open());
    let mut walks = Vec::new();
    if query.limit() == 0 {
        return Ok(PageBuilder::new(query).finish());
    }
    if wants_open {
        let statuses: Vec<_> = query.statuses().iter().map(|status| status.as_str()).collect();
        walks.push(walk(match statuses.as_slice() {
            [status] => By::Status(status),
            _ => By::Statuses(statuses),
        }));
    }
    match lookup(session, on, query).await? {
        Lookup::All if wants_open => {}
        Lookup::All => walks.push(walk(By::Time)),
        Lookup::Places { paths, spaces } if paths.is_empty() && spaces.is_empty() => {
            return Ok(PageBuilder::new(query).finish());
        }
        Lookup::Places { paths, spaces } => {
            let paths: Vec<_> = paths.iter().map(|path| path_hash(path)).collect();
            let spaces: Vec<_> = spaces.into_iter().collect();
            walks.push(walk(match (paths.as_slice(), spaces.as_slice()) {
                ([], [space]) => By::Space(space.clone()),
                _ => By::Places { paths, spaces },
            }));
        }
    }
    race(session, on, walks).await
}

/// The page of a query of documents.
pub(crate) async fn documents(session: &mut Session, on: &Statements, query: &DocumentQuery) -> Result<DocumentPage> {
    let collection = query.collection().as_str();
    let mut page = PageBuilder::new(query);
    if let Some(text) = query.text() {
        let found = words::distinct(text).into_iter().collect::<Vec<_>>();
        let ranked = session.statement(&on.documents_by_words);
        let ranked = ranked.bind(found).bind(memory_core::MAX_EXAMINED as i64).bind(collection.to_owned());
        let rows = ranked.fetch_all(&mut **session).await.map_err(native)?;
        let ids = rows.iter().map(|row| column::<String>(row, 0)).collect::<Result<Vec<_>>>()?;
        for ids in ids.chunks(first_slice(query)) {
            let slice = session.statement(&on.documents_in_order).bind(ids.to_vec()).bind(collection.to_owned());
            if offer_all(&mut page, &slice.fetch_all(&mut **session).await.map_err(native)?)? == Verdict::Stop {
                break;
            }
        }
        return Ok(page.finish());
    }
    let (sql, edge) = match query.order() {
        Order::OldestFirst => (&on.oldest_documents, i64::MIN),
        Order::NewestFirst => (&on.newest_documents, i64::MAX),
    };
    let mut place = match query.after() {
        Some(Position { created_at, id }) => (created_at.as_millis(), String::from_utf8_lossy(id).into_owned()),
        None => (edge, String::new()),
    };
    let mut slice = first_slice(query);
    loop {
        let rows = session.statement(sql).bind(collection.to_owned()).bind(place.0).bind(place.1).bind(slice as i64);
        let rows = rows.fetch_all(&mut **session).await.map_err(native)?;
        let verdict = offer_all(&mut page, &rows)?;
        let Some(last) = rows.last().filter(|_| verdict != Verdict::Stop && is_full(&rows, slice, 8)) else {
            return Ok(page.finish());
        };
        place = (column(last, 1)?, column(last, 0)?);
        slice = next_slice(slice);
    }
}

/// Where the rows of some spaces are to be looked for.
#[derive(Debug, PartialEq, Eq)]
enum Lookup {
    /// Under these ancestors and in these spaces; nowhere when there are none.
    Places { paths: BTreeSet<String>, spaces: BTreeSet<String> },
    /// Everywhere.
    All,
}

/// Where to look for the spaces of a query: where it says, or where its host confines it to if that is narrower.
async fn lookup(session: &mut Session, on: &Statements, query: &MemoryQuery) -> Result<Lookup> {
    match (lookup_of(session, on, query.spaces()).await?, query.within()) {
        (Lookup::All, Some(within)) => lookup_of(session, on, within).await,
        (lookup, _) => Ok(lookup),
    }
}

async fn lookup_of(session: &mut Session, on: &Statements, wanted: &Spaces) -> Result<Lookup> {
    let Spaces::Any(selectors) = wanted else { return Ok(Lookup::All) };
    let (mut paths, mut spaces) = (BTreeSet::new(), BTreeSet::new());
    for selector in selectors {
        match selector.range() {
            SpaceRange::Nowhere => {}
            SpaceRange::Everywhere => return Ok(Lookup::All),
            // No space holds a control character, and the server takes no text with U+0000.
            SpaceRange::Exact(path) | SpaceRange::Below(path) | SpaceRange::Under(path) | SpaceRange::Prefix(path)
                if path.contains('\0') => {}
            SpaceRange::Exact(path) => drop(spaces.insert(path.to_owned())),
            SpaceRange::Below(path) => drop(paths.insert(path.to_owned())),
            SpaceRange::Under(path) => {
                spaces.insert(path.to_owned());
                paths.insert(path.to_owned());
            }
            SpaceRange::Prefix(prefix) => match (siblings(session, on, prefix).await?, prefix.rfind(BOUNDARIES)) {
                (Some(siblings), _) => {
                    for (sibling, is_space) in siblings {
                        if is_space { &mut spaces } else { &mut paths }.insert(sibling);
                    }
                }
                (None, Some(parent)) => drop(paths.insert(prefix[..parent].to_owned())),
                (None, None) => return Ok(Lookup::All),
            },
        }
    }
    Ok(Lookup::Places { paths, spaces })
}

/// All paths that start with `prefix` and have no further boundary, each as a space or as an ancestor of some, or `None` when
/// there are too many.
async fn siblings(session: &mut Session, on: &Statements, prefix: &str) -> Result<Option<Vec<(String, bool)>>> {
    let steps = session.statement(&on.siblings).bind(prefix.to_owned()).bind(MAX_STEPS as i32);
    let rows = steps.fetch_all(&mut **session).await.map_err(native)?;
    let siblings = rows.iter().map(|row| Ok((column::<String>(row, 0)?, column::<bool>(row, 1)?)));
    let siblings = siblings.collect::<Result<Vec<_>>>()?;
    let distinct = siblings.iter().map(|(sibling, _)| sibling).collect::<BTreeSet<_>>().len();
    Ok((siblings.len() < MAX_STEPS && distinct <= MAX_SIBLINGS).then_some(siblings))
}

/// Between which places of (createdAt, id) a query can find something, both exclusive.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: (i64, Uuid),
    high: (i64, Uuid),
    order: Order,
}

impl Bounds {
    fn of(query: &MemoryQuery) -> Self {
        let low = query.created_after().map_or((i64::MIN, Uuid::nil()), |after| (after.as_millis(), Uuid::max()));
        let high = query.created_before().map_or((i64::MAX, Uuid::nil()), |before| (before.as_millis(), Uuid::nil()));
        let bounds = Self { low, high, order: query.order() };
        match query.after() {
            Some(Position { created_at, id }) => match Uuid::from_slice(id) {
                Ok(id) => bounds.behind((created_at.as_millis(), id)),
                Err(_) => bounds,
            },
            None => bounds,
        }
    }

    /// What is left behind a place.
    fn behind(mut self, place: (i64, Uuid)) -> Self {
        match self.order {
            Order::OldestFirst => self.low = self.low.max(place),
            Order::NewestFirst => self.high = self.high.min(place),
        }
        self
    }
}

/// Candidates in the order of a query, slice by slice, and the page that they make.
struct Walk<'q> {
    by: By,
    bounds: Bounds,
    slice: usize,
    page: PageBuilder<'q, memory_core::Ledger>,
}

/// Along which index.
enum By {
    Time,
    Status(&'static str),
    Statuses(Vec<&'static str>),
    Space(String),
    Places { paths: Vec<i64>, spaces: Vec<String> },
}

/// Behind the columns of a memory: the place of its candidate, and the payload of those before it.
const PLACE: (usize, usize) = (10, 11);
const BEFORE: usize = 12;

/// Goes along all walks in turns until the first has the page.
///
/// Each walk alone gives the whole answer, so the cost is that of the shortest: a query for open memories of a space looks
/// through the open ones and through the space, and costs what the smaller of the two does (Q9).
async fn race(session: &mut Session, on: &Statements, mut walks: Vec<Walk<'_>>) -> Result<MemoryPage> {
    loop {
        for place in 0..walks.len() {
            if walks[place].step(session, on).await? == Verdict::Stop {
                return Ok(walks.swap_remove(place).page.finish());
            }
        }
    }
}

impl Walk<'_> {
    /// Offers the next slice of candidates to the page. `Stop` when the page is complete or there are no more.
    async fn step(&mut self, session: &mut Session, on: &Statements) -> Result<Verdict> {
        let sql: &Arc<str> = match (&self.by, self.bounds.order) {
            (By::Time, Order::NewestFirst) => &on.newest_by_time,
            (By::Time, Order::OldestFirst) => &on.oldest_by_time,
            (By::Status(_), Order::NewestFirst) => &on.newest_of_status,
            (By::Status(_), Order::OldestFirst) => &on.oldest_of_status,
            (By::Statuses(_), Order::NewestFirst) => &on.newest_by_status,
            (By::Statuses(_), Order::OldestFirst) => &on.oldest_by_status,
            (By::Space(_), Order::NewestFirst) => &on.newest_of_space,
            (By::Space(_), Order::OldestFirst) => &on.oldest_of_space,
            (By::Places { .. }, Order::NewestFirst) => &on.newest_by_place,
            (By::Places { .. }, Order::OldestFirst) => &on.oldest_by_place,
        };
        let Bounds { low, high, .. } = self.bounds;
        let slice = session.statement(sql).bind(low.0).bind(low.1).bind(high.0).bind(high.1).bind(self.slice as i64);
        let slice = match &self.by {
            By::Time => slice,
            By::Status(status) => slice.bind(*status),
            By::Statuses(statuses) => slice.bind(statuses.clone()),
            By::Space(space) => slice.bind(space.clone()),
            By::Places { paths, spaces } => slice.bind(paths.clone()).bind(spaces.clone()),
        };
        let rows = slice.fetch_all(&mut **session).await.map_err(native)?;
        let verdict = offer_all(&mut self.page, &rows)?;
        let Some(last) = rows.last().filter(|_| verdict != Verdict::Stop && is_full(&rows, self.slice, BEFORE)) else {
            return Ok(Verdict::Stop);
        };
        self.bounds = self.bounds.behind((column(last, PLACE.0)?, column(last, PLACE.1)?));
        self.slice = next_slice(self.slice);
        Ok(Verdict::Skip)
    }
}

/// One more than the page has, so that it learns whether it is the last.
fn first_slice<K>(query: &Query<K>) -> usize {
    (query.limit() + 1).max(SLICE.0)
}

fn next_slice(slice: usize) -> usize {
    (slice * 2).min(SLICE.1)
}

/// Whether there can be more behind these rows: there are as many as were asked for, or their payload has ended them.
fn is_full(rows: &[PgRow], slice: usize, before: usize) -> bool {
    let payload = |row: &PgRow| column::<Option<i64>>(row, before).ok().flatten().unwrap_or_default();
    let last = rows.last().map_or(0, |row| row_bytes(row, before));
    rows.len() == slice || rows.last().map_or(0, payload) as usize + last > SLICE_BYTES
}

/// The payload of one row, as the statements count it.
fn row_bytes(row: &PgRow, columns: usize) -> usize {
    let texts = (7..columns.min(9)).filter_map(|index| row.try_get::<Option<&str>, _>(index).ok().flatten());
    texts.map(str::len).sum()
}

/// What a page is made of: memories or documents.
trait Stored: Selects {
    fn read_head(row: &PgRow) -> Result<Head<'_>>;
    fn read(row: &PgRow) -> Result<Self::Record>;
    /// The id of a row that can't be read, as far as it can.
    fn id_as_text(row: &PgRow) -> String;
}

impl Stored for memory_core::Ledger {
    fn read_head(row: &PgRow) -> Result<Head<'_>> {
        statements::memory_head(row)
    }

    fn read(row: &PgRow) -> Result<Memory> {
        statements::memory(row)
    }

    fn id_as_text(row: &PgRow) -> String {
        statements::memory_id(row, 0).map_or_else(|_| "unknown".to_owned(), |id| id.to_string())
    }
}

impl Stored for memory_core::Documents {
    fn read_head(row: &PgRow) -> Result<Head<'_>> {
        statements::document_head(row)
    }

    fn read(row: &PgRow) -> Result<Document> {
        statements::document(row)
    }

    fn id_as_text(row: &PgRow) -> String {
        column(row, 0).unwrap_or_else(|_| "unknown".to_owned())
    }
}

/// Offers rows to the page, as far as it wants them.
fn offer_all<K: Stored>(page: &mut PageBuilder<'_, K>, rows: &[PgRow]) -> Result<Verdict> {
    for row in rows {
        // An entry of the path index whose row is gone.
        if row.try_get_raw(0).is_ok_and(|id| sqlx::ValueRef::is_null(&id)) {
            continue;
        }
        if offer(page, row)? == Verdict::Stop {
            return Ok(Verdict::Stop);
        }
    }
    Ok(Verdict::Skip)
}

fn offer<K: Stored>(page: &mut PageBuilder<'_, K>, row: &PgRow) -> Result<Verdict> {
    page.offer(K::read_head(row), |_| K::read(row), || K::id_as_text(row))
}
