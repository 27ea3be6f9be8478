//! From a query of the contract to candidates in its order.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use memory_core::{
    BOUNDARIES, Collection, DocumentId, DocumentPage, DocumentQuery, Documents, Error, Ledger, MAX_EXAMINED,
    MemoryPage, MemoryQuery, PageBuilder, Query, Result, Selects, SpaceRange, Spaces, Status, Verdict, words,
};
use redis::Value;

use crate::connection::{Connections, unexpected_answer};
use crate::rows;
use crate::statements::Call;
use crate::walk::{Candidate, Range, Source, Walk, fetch, fill};

/// Up to this many siblings of a prefix are merged; above it, what their parent holds is walked.
const MAX_SIBLINGS: usize = 100;
/// A sibling takes a step for itself and one for each boundary.
const MAX_STEPS: usize = 4 * MAX_SIBLINGS + 1;
/// How many entries of each word are read at once.
const ENTRIES: usize = 1_000;

/// The page of a query of the ledger.
pub(crate) async fn memories(on: &Connections, query: &MemoryQuery) -> Result<MemoryPage> {
    let mut page = PageBuilder::new(query);
    if query.limit() == 0 {
        return Ok(page.finish());
    }
    let range = Range::of(query, on.keys.memories(), query.created_after(), query.created_before());
    if let Some(text) = query.text() {
        on.index_words().await?;
        let sets = words::distinct(text).iter().map(|word| on.keys.word(word)).collect();
        by_words(on, &range, sets, query, |candidate| offer_memory(&mut page, candidate)).await?;
        return Ok(page.finish());
    }
    let slice = first_slice(query);
    let mut walks = Vec::with_capacity(2);
    let wants_open = !query.statuses().is_empty() && query.statuses().iter().all(|status| status.is_open());
    if wants_open {
        let sets = query.statuses().iter().map(|status: &Status| Source::Ids(on.keys.open(*status)));
        walks.push((Walk::new(sets.collect(), range.clone(), slice), PageBuilder::new(query)));
    }
    let sources = match lookup(on, query).await? {
        Lookup::All if wants_open => BTreeSet::new(),
        Lookup::All => [on.keys.unindexed(), on.keys.indexed()].map(Source::Ids).into(),
        Lookup::Places(sources) if sources.is_empty() => return Ok(page.finish()),
        Lookup::Places(sources) => sources,
    };
    if !sources.is_empty() {
        walks.push((Walk::new(sources, range, slice), page));
    }
    // Each walk alone gives the whole answer, so the cost is that of the shortest: a query for open memories of a space looks
    // through the open ones and through the space, and costs what the smaller of the two does (Q9).
    loop {
        for place in 0..walks.len() {
            let (walk, page) = &mut walks[place];
            if walk.step(on, |candidate| offer_memory(page, candidate)).await? == Verdict::Stop {
                return Ok(walks.swap_remove(place).1.finish());
            }
        }
    }
}

/// The page of a query of documents.
pub(crate) async fn documents(on: &Connections, query: &DocumentQuery) -> Result<DocumentPage> {
    let collection = query.collection();
    let mut page = PageBuilder::new(query);
    if query.limit() == 0 {
        return Ok(page.finish());
    }
    let range = Range::of(query, on.keys.documents(collection), None, None);
    if let Some(text) = query.text() {
        let sets = words::distinct(text).iter().map(|word| on.keys.document_word(collection, word)).collect();
        by_words(on, &range, sets, query, |candidate| offer_document(&mut page, collection, candidate)).await?;
        return Ok(page.finish());
    }
    let mut walk = Walk::new([Source::Ids(on.keys.collection(collection))].into(), range, first_slice(query));
    while walk.step(on, |candidate| offer_document(&mut page, collection, candidate)).await? != Verdict::Stop {}
    Ok(page.finish())
}

/// The id of a document in an index.
pub(crate) fn document_id(id: &[u8]) -> Result<DocumentId> {
    let text = std::str::from_utf8(id).map_err(|_| Error::corrupt("a stored id is not UTF-8"))?;
    DocumentId::parse(text).map_err(|error| Error::corrupt("a stored id breaks a rule").with_source(error))
}

fn offer_memory(page: &mut PageBuilder<'_, Ledger>, Candidate { id, row, .. }: &Candidate) -> Result<Verdict> {
    // An entry of an index whose row is gone.
    let Some(row) = row else { return Ok(Verdict::Skip) };
    let as_text = || rows::memory_id(id).map_or_else(|_| "unknown".to_owned(), |id| id.to_string());
    page.offer(rows::read_head(id, row), |_| rows::memory(rows::memory_id(id)?, row), as_text)
}

fn offer_document(
    page: &mut PageBuilder<'_, Documents>,
    collection: &Collection,
    Candidate { id, time, row }: &Candidate,
) -> Result<Verdict> {
    let Some(row) = row else { return Ok(Verdict::Skip) };
    let head = rows::read_head(id, row);
    // Another document under the same id has its own place in the order.
    if head.as_ref().is_ok_and(|head| head.created_at.as_millis() != *time) {
        return Ok(Verdict::Skip);
    }
    let as_text = || String::from_utf8_lossy(id).into_owned();
    page.offer(head, |_| rows::document(collection, document_id(id)?, row), as_text)
}

/// Where the rows of some spaces are to be looked for.
#[derive(Debug)]
enum Lookup {
    /// In these sets; nowhere when there are none.
    Places(BTreeSet<Source>),
    /// Everywhere.
    All,
}

/// Where to look for the spaces of a query: where it says, or where its host confines it to if that is narrower.
async fn lookup(on: &Connections, query: &MemoryQuery) -> Result<Lookup> {
    match (lookup_of(on, query.spaces()).await?, query.within()) {
        (Lookup::All, Some(within)) => lookup_of(on, within).await,
        (lookup, _) => Ok(lookup),
    }
}

async fn lookup_of(on: &Connections, wanted: &Spaces) -> Result<Lookup> {
    let Spaces::Any(selectors) = wanted else { return Ok(Lookup::All) };
    let exact = |space: &str| Source::space(&on.keys, space);
    let below = |path: &str| Source::below(&on.keys, path);
    let mut sources = BTreeSet::new();
    for selector in selectors {
        match selector.range() {
            SpaceRange::Nowhere => {}
            SpaceRange::Everywhere => return Ok(Lookup::All),
            // No space holds a control character.
            SpaceRange::Exact(path) | SpaceRange::Below(path) | SpaceRange::Under(path) | SpaceRange::Prefix(path)
                if path.contains(char::is_control) => {}
            SpaceRange::Exact(path) => drop(sources.insert(exact(path))),
            SpaceRange::Below(path) => drop(sources.insert(below(path))),
            SpaceRange::Under(path) => sources.extend([exact(path), below(path)]),
            SpaceRange::Prefix(prefix) => match (siblings(on, prefix).await?, prefix.rfind(BOUNDARIES)) {
                (Some(siblings), _) => sources.extend(siblings.iter().map(|(sibling, is_space)| match is_space {
                    true => exact(sibling),
                    false => below(sibling),
                })),
                (None, Some(parent)) => drop(sources.insert(below(&prefix[..parent]))),
                (None, None) => return Ok(Lookup::All),
            },
        }
    }
    Ok(Lookup::Places(sources))
}

/// All paths that start with `prefix` and have no further boundary, each as a space or as an ancestor of some, or `None` when
/// there are too many.
async fn siblings(on: &Connections, prefix: &str) -> Result<Option<Vec<(String, bool)>>> {
    let call = Call::new(&on.scripts.siblings).key(on.keys.spaces()).arg(prefix).number(MAX_STEPS as i64);
    let answers = on.read(&call.into_pipeline()).await?;
    let items = match answers.first() {
        Some(Value::Array(items)) => items,
        Some(Value::Nil) => return Ok(None),
        _ => return Err(unexpected_answer()),
    };
    let text = |value: &Value| match value {
        Value::BulkString(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => Err(unexpected_answer()),
    };
    let sibling = |pair: &[Value]| Ok((text(&pair[1])?, text(&pair[0])?.is_empty()));
    let siblings = items.chunks_exact(2).map(sibling).collect::<Result<Vec<_>>>()?;
    let distinct = siblings.iter().map(|(sibling, _)| sibling).collect::<BTreeSet<_>>().len();
    Ok((distinct <= MAX_SIBLINGS).then_some(siblings))
}

/// Offers what holds at least one of the words, that with the most of them first, and then the newest. Of more than can be
/// examined, the newest are looked at.
async fn by_words<K: Selects>(
    on: &Connections,
    range: &Range,
    sets: Vec<Vec<u8>>,
    query: &Query<K>,
    mut offer: impl FnMut(&Candidate) -> Result<Verdict>,
) -> Result<()> {
    let entries = range.without_rows();
    let mut lanes: Vec<_> = sets.into_iter().map(|set| Walk::lane(vec![Source::Ids(set)], &entries)).collect();
    let mut hits = HashMap::<Vec<u8>, (usize, i64)>::new();
    while hits.len() < MAX_EXAMINED && lanes.iter().any(|lane| !lane.is_last) {
        fill(on, &entries, &mut lanes, ENTRIES).await?;
        for Candidate { id, time, .. } in lanes.iter_mut().flat_map(|lane| lane.found.drain(..)) {
            hits.entry(id).or_insert((0, time)).0 += 1;
        }
    }
    let mut ranked: Vec<_> = hits.into_iter().map(|(id, (hits, time))| Reverse((hits, time, id))).collect();
    ranked.sort_unstable();
    for some in ranked.chunks(first_slice(query)) {
        let ids: Vec<_> = some.iter().map(|Reverse((_, time, id))| (*time, id.as_slice())).collect();
        for candidate in fetch(on, range, &ids).await? {
            if offer(&candidate)? == Verdict::Stop {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// How many candidates the first slice of a walk has: one more than the page, so that it learns whether it is the last.
fn first_slice<K>(query: &Query<K>) -> usize {
    (query.limit() + 1).max(32)
}
