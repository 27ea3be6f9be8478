//! From a query of the contract to candidates in its order.

use std::collections::BTreeSet;

use memory_core::{
    BOUNDARIES, Document, DocumentPage, DocumentQuery, Head, Memory, MemoryPage, MemoryQuery, Order, PageBuilder,
    Position, Query, Result, Selects, SpaceId, SpaceRange, Spaces, Verdict, path_hash, words,
};
use sqlx::postgres::PgRow;
use sqlx::{Row, ValueRef};
use uuid::Uuid;

use crate::connection::{Session, Statement};
use crate::error::native;
use crate::statements::{self, Statements, column};

/// How many candidates the first slice of a walk has at least; each further one has twice as many, up to this. Payloads of more
/// than 64 KiB don't come with them, so a slice has at most 16 MiB.
const SLICE: (usize, usize) = (32, 256);
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
            if offer_all(session, on, &mut page, &rows.map_err(native)?).await? == Verdict::Stop {
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
            walks.push(walk(By::places(paths, spaces)));
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
            let rows = slice.fetch_all(&mut **session).await.map_err(native)?;
            if offer_all(session, on, &mut page, &rows).await? == Verdict::Stop {
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
        let verdict = offer_all(session, on, &mut page, &rows).await?;
        let Some(last) = rows.last().filter(|_| verdict != Verdict::Stop && rows.len() == slice) else {
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
    // Below the others there can be no space.
    paths.retain(|path| depth_of(path) <= SpaceId::MAX_BOUNDARIES);
    // What is below another path would come twice.
    let is_apart = |path: &String| !path.match_indices(BOUNDARIES).any(|(at, _)| paths.contains(&path[..at]));
    spaces.retain(is_apart);
    let paths = paths.iter().filter(|path| is_apart(path)).cloned().collect();
    Ok(Lookup::Places { paths, spaces })
}

/// The place of a path among the ancestors of what is below it, from 1 on.
fn depth_of(path: &str) -> usize {
    path.matches(BOUNDARIES).count() + 1
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

/// Before and behind every place of (createdAt, id), whose times are some 10^13 ms at most.
const BEGINNING: (i64, Uuid) = (i64::MIN, Uuid::nil());
const END: (i64, Uuid) = (i64::MAX, Uuid::nil());

/// Between which places of (createdAt, id) a query can find something, both exclusive.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: (i64, Uuid),
    high: (i64, Uuid),
    order: Order,
}

impl Bounds {
    fn of(query: &MemoryQuery) -> Self {
        let low = query.created_after().map_or(BEGINNING, |after| (after.as_millis(), Uuid::max()));
        let high = query.created_before().map_or(END, |before| (before.as_millis(), Uuid::nil()));
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
    /// Below a path.
    Below {
        depth: usize,
        path: i64,
    },
    /// Below a path, and in the space that has it as its id.
    Under {
        depth: usize,
        path: i64,
        space: String,
    },
    Places {
        depths: Vec<i32>,
        paths: Vec<i64>,
        spaces: Vec<String>,
    },
}

impl By {
    fn places(paths: BTreeSet<String>, spaces: BTreeSet<String>) -> Self {
        match (paths.first(), spaces.first()) {
            (None, Some(space)) if spaces.len() == 1 => Self::Space(space.clone()),
            (Some(path), None) if paths.len() == 1 => Self::Below { depth: depth_of(path), path: path_hash(path) },
            // What `under` asks for.
            (Some(path), Some(space)) if paths.len() == 1 && spaces == paths => {
                Self::Under { depth: depth_of(path), path: path_hash(path), space: space.clone() }
            }
            _ => Self::Places {
                depths: paths.iter().map(|path| depth_of(path) as i32).collect(),
                paths: paths.iter().map(|path| path_hash(path)).collect(),
                spaces: spaces.into_iter().collect(),
            },
        }
    }
}

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
        let slices = match self.bounds.order {
            Order::NewestFirst => &on.newest,
            Order::OldestFirst => &on.oldest,
        };
        let by_place;
        let statement = match &self.by {
            By::Time => &slices.by_time,
            By::Status(_) => &slices.of_status,
            By::Statuses(_) => &slices.by_status,
            By::Space(_) => &slices.of_space,
            By::Below { depth, .. } => slices.below(*depth),
            By::Under { depth, .. } => slices.under(*depth),
            By::Places { depths, spaces, .. } => {
                by_place = slices.by_place(depths, spaces.len());
                &by_place
            }
        };
        let limit = self.slice as i64;
        let slice = match self.bounds {
            Bounds { low: BEGINNING, high: END, .. } => session.statement(&statement.all).bind(limit),
            Bounds { low, high, .. } => {
                let slice = session.statement(&statement.between).bind(limit);
                slice.bind(low.0).bind(low.1).bind(high.0).bind(high.1)
            }
        };
        let slice = match &self.by {
            By::Time => slice,
            By::Status(status) => slice.bind(*status),
            By::Statuses(statuses) => slice.bind(statuses.clone()),
            By::Space(space) => slice.bind(space.clone()),
            By::Below { path, .. } => slice.bind(*path),
            By::Under { path, space, .. } => slice.bind(*path).bind(space.clone()),
            By::Places { depths, paths, spaces } => slice.bind(depths.clone()).bind(paths.clone()).bind(spaces.clone()),
        };
        let rows = slice.fetch_all(&mut **session).await.map_err(native)?;
        let verdict = offer_all(session, on, &mut self.page, &rows).await?;
        let Some(last) = rows.last().filter(|_| verdict != Verdict::Stop && rows.len() == self.slice) else {
            return Ok(Verdict::Stop);
        };
        self.bounds = self.bounds.behind((column(last, 1)?, column(last, 0)?));
        self.slice = next_slice(self.slice);
        Ok(Verdict::Skip)
    }
}

/// One more than the page has, so that it learns whether it is the last.
fn first_slice<K>(query: &Query<K>) -> usize {
    (query.limit() + 1).clamp(SLICE.0, SLICE.1)
}

fn next_slice(slice: usize) -> usize {
    (slice * 2).min(SLICE.1)
}

/// What a page is made of: memories or documents.
trait Stored: Selects {
    fn read_head(row: &PgRow) -> Result<Head<'_>>;
    fn read(row: &PgRow, head: &Head<'_>) -> Result<Self::Record>;
    /// The id of a row that can't be read, as far as it can.
    fn id_as_text(row: &PgRow) -> String;
    /// Reads the same row by itself.
    fn by_id(session: &Session, on: &Statements, row: &PgRow) -> Result<Statement>;
}

impl Stored for memory_core::Ledger {
    fn read_head(row: &PgRow) -> Result<Head<'_>> {
        statements::memory_head(row)
    }

    fn read(row: &PgRow, head: &Head<'_>) -> Result<Memory> {
        statements::memory_of(row, head)
    }

    fn id_as_text(row: &PgRow) -> String {
        statements::memory_id(row, 0).map_or_else(|_| "unknown".to_owned(), |id| id.to_string())
    }

    fn by_id(session: &Session, on: &Statements, row: &PgRow) -> Result<Statement> {
        Ok(session.statement(&on.memory_by_id).bind(column::<Uuid>(row, 0)?))
    }
}

impl Stored for memory_core::Documents {
    fn read_head(row: &PgRow) -> Result<Head<'_>> {
        statements::document_head(row)
    }

    fn read(row: &PgRow, _: &Head<'_>) -> Result<Document> {
        statements::document(row)
    }

    fn id_as_text(row: &PgRow) -> String {
        column(row, 0).unwrap_or_else(|_| "unknown".to_owned())
    }

    fn by_id(session: &Session, on: &Statements, row: &PgRow) -> Result<Statement> {
        let by_id = session.statement(&on.document_by_id);
        Ok(by_id.bind(column::<String>(row, 3)?).bind(column::<String>(row, 0)?))
    }
}

/// The column of the payload in a slice.
const PAYLOAD: usize = 7;

/// Offers rows to the page, as far as it wants them.
async fn offer_all<K: Stored>(
    session: &mut Session,
    on: &Statements,
    page: &mut PageBuilder<'_, K>,
    rows: &[PgRow],
) -> Result<Verdict> {
    for row in rows {
        let is_too_large = row.try_get_raw(PAYLOAD).is_ok_and(|value| value.is_null());
        let verdict = match is_too_large {
            false => offer(page, row)?,
            // It has not come with the others.
            true => match K::by_id(session, on, row)?.fetch_optional(&mut **session).await.map_err(native)? {
                Some(row) => offer(page, &row)?,
                None => continue,
            },
        };
        if verdict == Verdict::Stop {
            return Ok(Verdict::Stop);
        }
    }
    Ok(Verdict::Skip)
}

fn offer<K: Stored>(page: &mut PageBuilder<'_, K>, row: &PgRow) -> Result<Verdict> {
    page.offer(K::read_head(row), |head| K::read(row, head), || K::id_as_text(row))
}
