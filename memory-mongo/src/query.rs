//! From a query of the contract to candidates in its order.

use std::collections::BTreeSet;

use memory_core::{
    BOUNDARIES, DocumentPage, DocumentQuery, Documents, Head, Ledger, MAX_EXAMINED, Memory, MemoryId, MemoryPage,
    MemoryQuery, Order, PageBuilder, Position, Query, Result, Selects, SpaceRange, Spaces, Status, Timestamp, Verdict,
    path_hash, words,
};
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::{Collection, Cursor};

use crate::error::native;
use crate::statements::{self, EVERYTHING, id_to_bson, impossible, number, open_path, text};

/// How many candidates the first slice of a walk has at least; each further one has twice as many, up to this.
const SLICE: (usize, usize) = (32, 2_048);
/// Up to this many siblings of a prefix are merged; above it, what their parent holds is walked.
const MAX_SIBLINGS: usize = 100;
/// How many lists the server merges in one search, where behind a cursor each is two; of more than 200 it would sort everything.
const MERGED: usize = 100;

/// The page of a query of the ledger.
pub(crate) async fn memories(on: &Collection<RawDocumentBuf>, query: &MemoryQuery) -> Result<MemoryPage> {
    if query.limit() == 0 {
        return Ok(PageBuilder::new(query).finish());
    }
    if let Some(wanted) = query.text() {
        return by_words(on, query, doc! {}, wanted).await;
    }
    let bounds = Bounds::of(query);
    let walk = |lists: Vec<Vec<Document>>| Walk {
        sources: lists.into_iter().map(|list| Source::new(on, list, "_id", &bounds, first_slice(query))).collect(),
        page: PageBuilder::new(query),
    };
    let wants_open = !query.statuses().is_empty() && query.statuses().iter().all(|status| status.is_open());
    let mut walks = Vec::new();
    if wants_open {
        let paths = query.statuses().iter().map(|status: &Status| open_path(*status));
        walks.push(walk(lists(paths.collect(), Vec::new())));
    }
    match lookup(on, query).await? {
        Lookup::All if wants_open => {}
        Lookup::All => walks.push(walk(lists(vec![*EVERYTHING], Vec::new()))),
        Lookup::Places { paths, spaces } if paths.is_empty() && spaces.is_empty() => {
            return Ok(PageBuilder::new(query).finish());
        }
        Lookup::Places { paths, spaces } => {
            let paths: BTreeSet<_> = paths.iter().map(|path| path_hash(path)).collect();
            walks.push(walk(lists(paths.into_iter().collect(), spaces.into_iter().collect())));
        }
    }
    race(walks, first_slice(query)).await
}

/// The page of a query of documents.
pub(crate) async fn documents(on: &Collection<RawDocumentBuf>, query: &DocumentQuery) -> Result<DocumentPage> {
    if query.limit() == 0 {
        return Ok(PageBuilder::new(query).finish());
    }
    let collection = doc! { "_id.collection": query.collection().as_str() };
    if let Some(wanted) = query.text() {
        return by_words(on, query, collection, wanted).await;
    }
    let bounds = Bounds::behind(query.order(), query.after(), |id| String::from_utf8_lossy(id).into_owned().into());
    let sources = vec![Source::new(on, vec![collection], "_id.id", &bounds, first_slice(query))];
    race(vec![Walk { sources, page: PageBuilder::new(query) }], first_slice(query)).await
}

/// The page of the rows that hold a word, those with the most distinct ones first, then those with few others, then the
/// newest.
async fn by_words<K: Stored>(
    on: &Collection<RawDocumentBuf>,
    query: &Query<K>,
    within: Document,
    wanted: &str,
) -> Result<K::Page> {
    let wanted: Vec<_> = words::distinct(wanted).into_iter().collect();
    let mut matching = within;
    matching.insert("words", doc! { "$in": &wanted });
    let pipeline = vec![
        doc! { "$match": matching },
        doc! { "$project": {
            "createdAt": 1,
            "hits": { "$size": { "$setIntersection": ["$words", { "$literal": wanted }] } },
            "words": { "$size": "$words" },
        } },
        doc! { "$sort": { "hits": -1, "words": 1, "createdAt": -1, "_id": -1 } },
        doc! { "$limit": MAX_EXAMINED as i64 },
        doc! { "$project": { "_id": 1 } },
    ];
    let mut ranked =
        on.aggregate(pipeline).batch_size(SLICE.1 as u32).with_type::<RawDocumentBuf>().await.map_err(native)?;
    let mut page = PageBuilder::new(query);
    let mut slice = first_slice(query);
    loop {
        let mut ids = Vec::with_capacity(slice);
        while ids.len() < slice && ranked.advance().await.map_err(native)? {
            ids.push(owned(ranked.current(), "_id")?);
        }
        if ids.is_empty() {
            return Ok(page.finish());
        }
        let mut rows = on.find(doc! { "_id": { "$in": &ids } }).await.map_err(native)?;
        let mut found = Vec::with_capacity(ids.len());
        while rows.advance().await.map_err(native)? {
            found.push((owned(rows.current(), "_id")?, rows.current().to_owned()));
        }
        for id in ids {
            // A row that is gone was removed meanwhile.
            let row = found.iter().find(|(found, _)| *found == id);
            if let Some((_, row)) = row
                && K::offer(&mut page, row)? == Verdict::Stop
            {
                return Ok(page.finish());
            }
        }
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
async fn lookup(on: &Collection<RawDocumentBuf>, query: &MemoryQuery) -> Result<Lookup> {
    match (lookup_of(on, query.spaces()).await?, query.within()) {
        (Lookup::All, Some(within)) => lookup_of(on, within).await,
        (lookup, _) => Ok(lookup),
    }
}

async fn lookup_of(on: &Collection<RawDocumentBuf>, wanted: &Spaces) -> Result<Lookup> {
    let Spaces::Any(selectors) = wanted else { return Ok(Lookup::All) };
    let (mut paths, mut spaces) = (BTreeSet::new(), BTreeSet::new());
    for selector in selectors {
        match selector.range() {
            SpaceRange::Nowhere => {}
            SpaceRange::Everywhere => return Ok(Lookup::All),
            SpaceRange::Exact(path) => drop(spaces.insert(path.to_owned())),
            SpaceRange::Below(path) => drop(paths.insert(path.to_owned())),
            SpaceRange::Under(path) => {
                spaces.insert(path.to_owned());
                paths.insert(path.to_owned());
            }
            SpaceRange::Prefix(prefix) => match (siblings(on, prefix).await?, prefix.rfind(BOUNDARIES)) {
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
async fn siblings(on: &Collection<RawDocumentBuf>, prefix: &str) -> Result<Option<BTreeSet<(String, bool)>>> {
    let mut siblings = BTreeSet::new();
    let mut from = doc! { "$gte": prefix };
    // Many spaces at once, since each may be a sibling by itself.
    let mut slice = MAX_SIBLINGS;
    loop {
        let known = siblings.len();
        let find = on.find(doc! { "spaceId": from }).sort(doc! { "spaceId": 1 }).limit(slice as i64);
        let mut rows = find.projection(doc! { "_id": 0, "spaceId": 1 }).await.map_err(native)?;
        let (mut count, mut next) = (0, None);
        while rows.advance().await.map_err(native)? {
            let space = text(rows.current(), "spaceId")?;
            let Some(rest) = space.strip_prefix(prefix) else { return Ok(Some(siblings)) };
            let end = rest.find(BOUNDARIES).map(|end| prefix.len() + end);
            siblings.insert((space[..end.unwrap_or(space.len())].to_owned(), end.is_none()));
            if siblings.len() > MAX_SIBLINGS {
                return Ok(None);
            }
            count += 1;
            next = Some(match end {
                // Behind all that belongs to the same sibling by the same boundary.
                Some(end) => doc! { "$gte": format!("{}{}", &space[..end], after_boundary(space.as_bytes()[end])) },
                None => doc! { "$gt": space },
            });
        }
        match next {
            Some(next) if count == slice => from = next,
            _ => return Ok(Some(siblings)),
        }
        // After a sibling that fills a slice, the next probably does, too; two spaces tell when it does not.
        slice = if siblings.len() == known + 1 { 2 } else { MAX_SIBLINGS };
    }
}

/// The character that follows a boundary in the order of bytes.
fn after_boundary(boundary: u8) -> char {
    char::from(boundary + 1)
}

/// The conditions of the lists that are looked through, of which the server merges those of one group.
fn lists(paths: Vec<i64>, spaces: Vec<String>) -> Vec<Vec<Document>> {
    let paths = paths.into_iter().map(|path| ("paths", Bson::from(path)));
    let places: Vec<_> = paths.chain(spaces.into_iter().map(|space| ("spaceId", Bson::from(space)))).collect();
    let group = |places: &[(&'static str, Bson)]| {
        let kinds = places.chunk_by(|(first, _), (second, _)| first == second);
        let list = |kind: &[(&'static str, Bson)]| {
            let values: Vec<_> = kind.iter().map(|(_, value)| value.clone()).collect();
            doc! { kind[0].0: { "$in": values } }
        };
        kinds.map(list).collect()
    };
    places.chunks(MERGED).map(group).collect()
}

/// Where a search begins and ends, in time.
#[derive(Debug, Clone)]
struct Bounds {
    order: Order,
    /// The first and the last millisecond.
    from: i64,
    to: i64,
    /// The place behind which the search begins, if that is within a millisecond.
    behind: Option<(i64, Bson)>,
}

impl Bounds {
    fn of(query: &MemoryQuery) -> Self {
        let binary = |id: &[u8]| match <[u8; 16]>::try_from(id) {
            Ok(id) => id_to_bson(MemoryId::from_bytes(id)).into(),
            Err(_) => Bson::Null,
        };
        let mut bounds = Self::behind(query.order(), query.after(), binary);
        // Those of a query are exclusive.
        bounds.from = query.created_after().map_or(bounds.from, |after| after.as_millis() + 1);
        bounds.to = query.created_before().map_or(bounds.to, |before| before.as_millis() - 1);
        bounds
    }

    fn behind(order: Order, place: Option<&Position>, id: impl Fn(&[u8]) -> Bson) -> Self {
        let behind = place.map(|place| (place.created_at.as_millis(), id(&place.id)));
        Self { order, from: Timestamp::MIN.as_millis(), to: Timestamp::MAX.as_millis(), behind }
    }

    /// The ranges that together hold what is left; none when nothing is.
    fn ranges(&self, id: &str) -> Vec<Document> {
        let (mut from, mut to) = (self.from, self.to);
        let mut ranges = Vec::with_capacity(2);
        if let Some((millis, place)) = &self.behind {
            let operator = match self.order {
                Order::NewestFirst => {
                    to = millis - 1;
                    "$lt"
                }
                Order::OldestFirst => {
                    from = millis + 1;
                    "$gt"
                }
            };
            // One millisecond as a range: after a single value the server would sort the lists instead of merging them.
            ranges.push(doc! { "createdAt": { "$gt": millis - 1, "$lt": millis + 1 }, id: { operator: place } });
        }
        if from <= to {
            ranges.push(doc! { "createdAt": { "$gte": from, "$lte": to } });
        }
        ranges
    }

    /// What the server sorts by.
    fn sort(&self, id: &str) -> Document {
        let direction = match self.order {
            Order::NewestFirst => -1,
            Order::OldestFirst => 1,
        };
        doc! { "createdAt": direction, id: direction }
    }
}

/// The rows of a group of lists in the order of a query, slice by slice.
struct Source<'c> {
    on: &'c Collection<RawDocumentBuf>,
    lists: Vec<Document>,
    /// The field that orders the rows of one millisecond.
    id: &'static str,
    bounds: Bounds,
    /// How many rows a search gives at most, and how many the one that is under way has given.
    slice: usize,
    given: usize,
    cursor: Option<Cursor<RawDocumentBuf>>,
    state: State,
}

/// What is known of the row that the cursor is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It was offered already.
    Behind,
    /// It is the next one of its source.
    Ready,
    /// There is none any more.
    Over,
}

impl<'c> Source<'c> {
    fn new(
        on: &'c Collection<RawDocumentBuf>,
        lists: Vec<Document>,
        id: &'static str,
        bounds: &Bounds,
        slice: usize,
    ) -> Self {
        Self { on, lists, id, bounds: bounds.clone(), slice, given: 0, cursor: None, state: State::Behind }
    }

    /// Goes to the next row, which is the cursor's then; `false` when there are no more.
    async fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(cursor) = &mut self.cursor {
                if cursor.advance().await.map_err(native)? {
                    self.given += 1;
                    if self.given == self.slice {
                        let row = cursor.current();
                        self.bounds.behind = Some((number(row, "createdAt")?, owned(row, self.id)?));
                    }
                    return Ok(true);
                }
                self.cursor = None;
                if self.given < self.slice {
                    return Ok(false);
                }
                self.slice = next_slice(self.slice);
            }
            let Some(condition) = self.condition() else { return Ok(false) };
            self.given = 0;
            let limit = self.slice;
            let find = self.on.find(condition).sort(self.bounds.sort(self.id));
            self.cursor = Some(find.limit(limit as i64).batch_size(limit as u32).await.map_err(native)?);
        }
    }

    /// What the rows that are left have, unless there are none.
    fn condition(&self) -> Option<Document> {
        let ranges = self.bounds.ranges(self.id);
        let mut searched: Vec<Document> = Vec::with_capacity(self.lists.len() * ranges.len());
        for list in &self.lists {
            searched.extend(ranges.iter().map(|range| list.clone().into_iter().chain(range.clone()).collect()));
        }
        match searched.len() {
            0 | 1 => searched.pop(),
            _ => Some(doc! { "$or": searched }),
        }
    }

    /// The row that the cursor is at, unless it was offered already.
    fn row(&self) -> Option<&RawDocument> {
        self.cursor.as_ref().filter(|_| self.state == State::Ready).map(Cursor::current)
    }
}

/// Candidates in the order of a query, from some sources, and the page that they make.
struct Walk<'c, 'q, K: Stored> {
    sources: Vec<Source<'c>>,
    page: PageBuilder<'q, K>,
}

impl<K: Stored> Walk<'_, '_, K> {
    /// Offers the next candidates to the page. `Stop` when the page is complete or there are no more.
    async fn step(&mut self, candidates: usize) -> Result<Verdict> {
        for _ in 0..candidates {
            let Some(source) = self.next_source().await? else { return Ok(Verdict::Stop) };
            let Some(row) = self.sources[source].row() else { return Ok(Verdict::Stop) };
            if K::offer(&mut self.page, row)? == Verdict::Stop {
                return Ok(Verdict::Stop);
            }
            self.pass(source)?;
        }
        Ok(Verdict::Skip)
    }

    /// The source whose row comes first.
    async fn next_source(&mut self) -> Result<Option<usize>> {
        for source in &mut self.sources {
            if source.state == State::Behind {
                source.state = if source.advance().await? { State::Ready } else { State::Over };
            }
        }
        if self.sources.len() == 1 {
            return Ok(Some(0));
        }
        let mut first: Option<(usize, (i64, &[u8]))> = None;
        for (number, source) in self.sources.iter().enumerate() {
            let Some(row) = source.row() else { continue };
            let place = statements::place(row)?;
            let is_earlier = |other: (i64, &[u8])| match source.bounds.order {
                Order::NewestFirst => place > other,
                Order::OldestFirst => place < other,
            };
            if first.is_none_or(|(_, first)| is_earlier(first)) {
                first = Some((number, place));
            }
        }
        Ok(first.map(|(number, _)| number))
    }

    /// Leaves a row behind, also where another source has it too.
    fn pass(&mut self, source: usize) -> Result<()> {
        if let (true, Some(row)) = (self.sources.len() > 1, self.sources[source].row()) {
            let place = statements::place(row)?;
            let mut same = Vec::new();
            for (number, source) in self.sources.iter().enumerate() {
                if let Some(row) = source.row()
                    && statements::place(row)? == place
                {
                    same.push(number);
                }
            }
            same.into_iter().for_each(|number| self.sources[number].state = State::Behind);
        }
        self.sources[source].state = State::Behind;
        Ok(())
    }
}

/// Goes along all walks in turns until the first has the page.
///
/// Each walk alone gives the whole answer, so the cost is that of the shortest: a query for open memories of a space looks
/// through the open ones and through the space, and costs what the smaller of the two does (Q9).
async fn race<K: Stored>(mut walks: Vec<Walk<'_, '_, K>>, mut turn: usize) -> Result<K::Page> {
    loop {
        for place in 0..walks.len() {
            if walks[place].step(turn).await? == Verdict::Stop {
                return Ok(walks.swap_remove(place).page.finish());
            }
        }
        turn = next_slice(turn);
    }
}

/// One more than the page has, so that it learns whether it is the last.
fn first_slice<K>(query: &Query<K>) -> usize {
    (query.limit() + 1).max(SLICE.0)
}

fn next_slice(slice: usize) -> usize {
    (slice * 2).min(SLICE.1)
}

/// What a page is made of: memories or documents.
trait Stored: Selects {
    fn read_head(row: &RawDocument) -> Result<Head<'_>>;
    fn read(row: &RawDocument) -> Result<Self::Record>;
    /// The id of a row that can't be read, as far as it can.
    fn id_as_text(row: &RawDocument) -> String;

    fn offer(page: &mut PageBuilder<'_, Self>, row: &RawDocument) -> Result<Verdict>
    where
        Self: Sized,
    {
        page.offer(Self::read_head(row), |_| Self::read(row), || Self::id_as_text(row))
    }
}

impl Stored for Ledger {
    fn read_head(row: &RawDocument) -> Result<Head<'_>> {
        statements::memory_head(row)
    }

    fn read(row: &RawDocument) -> Result<Memory> {
        statements::memory(row)
    }

    fn id_as_text(row: &RawDocument) -> String {
        statements::memory_id(row).map_or_else(|_| "unknown".to_owned(), |id| id.to_string())
    }
}

impl Stored for Documents {
    fn read_head(row: &RawDocument) -> Result<Head<'_>> {
        statements::document_head(row)
    }

    fn read(row: &RawDocument) -> Result<memory_core::Document> {
        statements::document(row)
    }

    fn id_as_text(row: &RawDocument) -> String {
        let id = row.get_document("_id").ok().and_then(|key| key.get_str("id").ok());
        id.unwrap_or("unknown").to_owned()
    }
}

/// A value of a row by its path, which has a dot where it leads into the `_id`.
fn owned(row: &RawDocument, path: &str) -> Result<Bson> {
    let (row, name) = match path.split_once('.') {
        Some((outer, name)) => (row.get_document(outer).map_err(|_| impossible(outer))?, name),
        None => (row, path),
    };
    let value = row.get(name).ok().flatten().and_then(|value| Bson::try_from(value).ok());
    value.ok_or_else(|| impossible(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_merged_by_the_server_up_to_a_hundred() {
        assert_eq!(lists(vec![1, 2], Vec::new()), [[doc! { "paths": { "$in": [1_i64, 2_i64] } }]]);
        let both = lists(vec![1], vec!["$ne".to_owned()]);
        assert_eq!(both, [[doc! { "paths": { "$in": [1_i64] } }, doc! { "spaceId": { "$in": ["$ne"] } }]]);
        let many = lists((0..150).collect(), (0..100).map(|number| number.to_string()).collect());
        assert_eq!(many.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1]);
    }

    #[test]
    fn behind_a_place_comes_the_rest_of_its_millisecond() {
        let ranges = |order, behind| Bounds { order, from: 10, to: 20, behind }.ranges("_id");
        let rest = |from: i64, to: i64| doc! { "createdAt": { "$gte": from, "$lte": to } };
        assert_eq!(ranges(Order::NewestFirst, None), [rest(10, 20)]);
        let place = || Some((15, Bson::from("x")));
        let same = |operator: &str| doc! { "createdAt": { "$gt": 14_i64, "$lt": 16_i64 }, "_id": { operator: "x" } };
        assert_eq!(ranges(Order::NewestFirst, place()), [same("$lt"), rest(10, 14)]);
        assert_eq!(ranges(Order::OldestFirst, place()), [same("$gt"), rest(16, 20)]);
        let first = Some((10, Bson::from("x")));
        assert_eq!(ranges(Order::NewestFirst, first).len(), 1, "nothing is earlier");
    }
}
