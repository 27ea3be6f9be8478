//! Executes a recall: gathers the digests of the scope, ranks them, and reads the hits.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::pages::{Asked, DocumentsOf, Memories, Walkable, document_parts};
use super::places::{Part, Places};
use super::session::Reader;
use super::walk::{Mark, Row, Walk};
use super::watch::Watch;
use crate::page::{Head, MAX_EXAMINED, Selects, Verdict};
use crate::query::MAX_PAGE_BYTES;
use crate::query::{Documents, Ledger, Query};
use crate::recall::{Digest, Digester, Meaning, Ranking, rank};
use crate::{DocumentQuery, ErrorKind, Hit, MemoryQuery, Order, Recall, RecallOptions, Recalled, Result, Vector};

/// Maximum number of records that a recall examines; the newest of the scope are taken (R5).
pub const MAX_RECALLED: usize = 100_000;
/// Maximum bytes of their texts; the first record always fits (R5).
pub const MAX_RECALLED_BYTES: usize = 64 << 20;
/// Maximum number of the question's terms that they hold in all (R5). A digest keeps 8 bytes for each.
pub const MAX_RECALLED_TERMS: usize = 4_000_000;
/// Maximum number of vector dimensions that they have in all (R5). A digest keeps 1 or 4 bytes for each.
pub const MAX_RECALLED_NUMBERS: usize = 64 << 20;
/// A recall that has read more bytes than this takes a permit (L8).
const LIGHT_BYTES: usize = 1 << 20;
/// Number of candidates that a walk asks for at once.
const SLICE: usize = 1_024;
/// The same for a recall with a permit that reads only heads and vectors.
const LARGE_SLICE: usize = 4_096;
/// The minimum for each of several walks.
const MIN_SLICE: usize = 64;
/// Number of records that are read at once by id: at first and at most; and the approximate maximum of their bytes.
const FIRST_READ: usize = 16;
const READ: usize = 64;
const READ_BYTES: usize = 4 << 20;

/// Answers a question whose vector is given, or that has none.
pub(super) async fn answer<K: Recallable, R: Reader>(
    reader: &mut R,
    Asked { query: recall, watch, .. }: &Asked<Recall<K>>,
) -> Result<Recalled<K::Record>>
where
    K::Record: Clone,
{
    let vector = match &recall.meaning {
        Some(Meaning::Given(vector)) => Some(vector),
        _ => None,
    };
    let gathered = gather_in(reader, recall, watch).await?;
    let ranked = gathered.ranked(recall, vector);
    watch.check()?;
    ranked.answer_in(reader, recall, watch).await
}

/// Gathers the scope of a question whose vector is not made yet.
pub(super) async fn gather<K: Recallable, R: Reader>(
    reader: &mut R,
    Asked { query: recall, watch, .. }: &Asked<Recall<K>>,
) -> Result<Gathered> {
    gather_in(reader, recall, watch).await
}

/// Reads the hits of a question that was ranked after [`gather`].
pub(super) async fn answer_ranked<K: Recallable, R: Reader>(
    reader: &mut R,
    Asked { query: (recall, ranked), watch, .. }: &Asked<(Recall<K>, Arc<Ranked>)>,
) -> Result<Recalled<K::Record>>
where
    K::Record: Clone,
{
    ranked.answer_in(reader, recall, watch).await
}

/// A kind of record that a recall can search.
pub(super) trait Recallable: Selects + Clone + Send + Sync + 'static {
    /// What the engine walks.
    type On<'q>: Walkable<Self> + Send;

    fn on(query: &Query<Self>) -> Self::On<'_>;

    /// Returns the walks that cover the scope of a query.
    fn parts<R: Reader>(reader: &mut R, query: &Query<Self>) -> impl Future<Output = Result<Vec<Part>>> + Send;
}

impl Recallable for Ledger {
    type On<'q> = Memories;

    fn on(_: &MemoryQuery) -> Memories {
        Memories
    }

    async fn parts<R: Reader>(reader: &mut R, query: &MemoryQuery) -> Result<Vec<Part>> {
        Ok(Places::of(reader, None, query).await?.parts(reader))
    }
}

impl Recallable for Documents {
    type On<'q> = DocumentsOf<'q>;

    fn on(query: &DocumentQuery) -> DocumentsOf<'_> {
        DocumentsOf(query.collection())
    }

    async fn parts<R: Reader>(reader: &mut R, query: &DocumentQuery) -> Result<Vec<Part>> {
        document_parts(reader, query, true).await
    }
}

/// The digests of a scope.
#[derive(Debug)]
pub(super) struct Gathered {
    digests: Vec<Digest>,
    /// The question's terms that name speakers in the scope.
    pub(super) names: BTreeSet<u16>,
    is_whole: bool,
}

/// The ranked hits of a scope.
#[derive(Debug)]
pub(super) struct Ranked {
    ranking: Ranking,
    is_whole: bool,
    unembedded: Option<usize>,
}

impl Gathered {
    /// Returns whether a record of the scope has a vector.
    pub(super) fn has_vectors(&self) -> bool {
        self.digests.iter().any(|digest| digest.vector.is_some())
    }

    /// Ranks the records; by words alone if `vector` is `None`.
    pub(super) fn ranked<K>(self, recall: &Recall<K>, vector: Option<&Vector>) -> Ranked {
        let without = self.digests.iter().filter(|digest| digest.vector.is_none()).count();
        let is_by_meaning = recall.meaning.is_some() && (vector.is_some() || !self.has_vectors());
        let unembedded = is_by_meaning.then_some(without);
        Ranked { ranking: rank(self.digests, recall, vector), is_whole: self.is_whole, unembedded }
    }
}

impl Ranked {
    async fn answer_in<K: Recallable, R: Reader>(
        &self,
        reader: &mut R,
        recall: &Recall<K>,
        watch: &Watch,
    ) -> Result<Recalled<K::Record>>
    where
        Recall<K>: Sync,
        K::Record: Clone,
    {
        let Self { ranking, is_whole, unembedded } = self;
        let (hits, are_all) = hits(reader, &K::on(&recall.query), ranking, recall, watch).await?;
        let explained = recall.options.explain.then_some(ranking.explained);
        let (examined, complete) = (ranking.digests.len(), *is_whole && are_all);
        Ok(Recalled { hits, examined, complete, unembedded: *unembedded, explained })
    }
}

async fn gather_in<K: Recallable, R: Reader>(reader: &mut R, recall: &Recall<K>, watch: &Watch) -> Result<Gathered> {
    if recall.query.limit == 0 || recall.terms.is_empty() && recall.meaning.is_none() {
        return Ok(Gathered { digests: Vec::new(), names: BTreeSet::new(), is_whole: true });
    }
    let parts = K::parts(reader, &recall.query).await?;
    let gathered = newest(reader, &K::on(&recall.query), &parts, recall, watch).await?;
    if !gathered.is_whole {
        watch.cut();
    }
    Ok(gathered)
}

/// Returns the digests of the scope's newest records.
///
/// Several walks take turns. The one whose next record is the newest always advances, so that none goes further back
/// than needed.
async fn newest<K: Recallable, R: Reader>(
    reader: &mut R,
    on: &impl Walkable<K>,
    parts: &[Part],
    recall: &Recall<K>,
    watch: &Watch,
) -> Result<Gathered> {
    let goes_on = || watch.check().is_ok();
    let mut digester = Digester::new(recall, &goes_on);
    let (mut newest, mut in_vain, mut bytes) = (Newest::new(), 0, 0);
    // A walk that has not begun sorts before all others.
    let mut walks: Vec<(&Part, Option<Mark>)> = parts.iter().map(|part| (part, None)).collect();
    let is_shared = parts.len() > 1;
    let (has_vectors, is_for_heads) = (recall.model.is_some(), !recall.looks_into_records());
    let slice = if is_for_heads && watch.is_heavy() { LARGE_SLICE } else { SLICE };
    let count = (slice / parts.len().max(1)).max(MIN_SLICE);
    loop {
        let ahead = walks.iter().enumerate().max_by_key(|(_, (_, behind))| (behind.is_none(), behind.as_ref()));
        let Some(at) = ahead.map(|(at, _)| at) else { break };
        let (part, behind) = &walks[at];
        let walk = Walk {
            source: part.source(),
            order: Order::NewestFirst,
            behind: behind.as_ref(),
            count,
            is_shared,
            is_for_heads,
            has_vectors,
            ..Walk::EVERYTHING
        };
        let mut is_over = false;
        let mut visit = |row: &dyn Row<K>| {
            is_over = !watch.goes_on() || newest.gives_up(in_vain);
            if is_over {
                return Ok(Verdict::Stop);
            }
            let digest = row.head().and_then(|head| {
                is_over = newest.has_passed(&head);
                let is_looked_at = !is_over && !head.is_over && recall.query.covers(head.space);
                in_vain += usize::from(!is_looked_at);
                if !is_looked_at {
                    return Ok(None);
                }
                let vector = row.vector()?;
                let record = if is_for_heads { None } else { Some(row.read(&head)?) };
                bytes += record.as_ref().map_or(0, K::size) + vector.map_or(0, <[u8]>::len);
                // A record that no caller waits for is not digested.
                let is_wanted = bytes <= LIGHT_BYTES || watch.is_heavy();
                Ok(is_wanted.then(|| digester.digest(&head, record.as_ref(), vector)))
            });
            match digest {
                Ok(_) if bytes > LIGHT_BYTES && !watch.is_heavy() => {
                    is_over = true;
                    watch.spend();
                }
                Ok(Some(digest)) => newest.add(digest),
                // A record that can't be read has no words.
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                Err(_) => in_vain += 1,
                Ok(None) => {}
            }
            Ok(if is_over { Verdict::Stop } else { Verdict::Skip })
        };
        let behind = on.walk(reader, &walk, &mut visit).await?;
        watch.check()?;
        if is_over || behind.is_none() {
            walks.swap_remove(at);
        } else {
            walks[at].1 = behind;
        }
    }
    newest.trim();
    let names = digester.names_in(&newest.digests);
    Ok(Gathered { digests: newest.digests, names, is_whole: newest.is_whole })
}

/// Returns the hits with their neighbours, and whether these are all ranked records.
async fn hits<K: Selects, R: Reader>(
    reader: &mut R,
    on: &impl Walkable<K>,
    ranking: &Ranking,
    recall: &Recall<K>,
    watch: &Watch,
) -> Result<(Vec<Hit<K::Record>>, bool)>
where
    K::Record: Clone,
{
    let RecallOptions { neighbours, explain, .. } = recall.options;
    let digests = &ranking.digests;
    let (mut room, mut are_all, mut hits) = (MAX_PAGE_BYTES, true, Vec::new());
    let (mut rest, mut count, mut read) = (ranking.ranked.as_slice(), FIRST_READ, 0);
    while !rest.is_empty() {
        let (ranked, others) = rest.split_at((count / (2 * neighbours + 1)).clamp(1, rest.len()));
        rest = others;
        let around: Vec<_> = ranked.iter().map(|ranked| ranking.around(ranked.place, neighbours)).collect();
        let places: BTreeSet<usize> = around.iter().flat_map(Clone::clone).collect();
        let records = records(reader, on, digests, places, recall).await?;
        watch.check()?;
        let bytes: usize = records.values().map(K::size).sum();
        count = (records.len() * READ_BYTES / bytes.max(1)).clamp(1, READ);
        read += bytes;
        // If only heads were read before, the size of the records was unknown until now.
        if read > LIGHT_BYTES && !watch.is_heavy() {
            watch.spend();
            return Ok((hits, false));
        }
        let size_of = |place: usize| records.get(&place).map_or(0, K::size);
        for (ranked, mut around) in ranked.iter().zip(around) {
            let Some(record) = records.get(&ranked.place).filter(|record| recall.query.wants(record)) else { continue };
            let own = K::size(record);
            if own > room && !hits.is_empty() {
                return Ok((hits, false));
            }
            room = room.saturating_sub(own);
            let beside = around.clone().map(size_of).sum::<usize>() - own;
            if beside > room {
                are_all = false;
                around = ranked.place..ranked.place + 1;
            } else {
                room -= beside;
            }
            let of = |places: Range<usize>| places.filter_map(|place| records.get(&place)).cloned().collect();
            let (before, after) = (of(around.start..ranked.place), of(ranked.place + 1..around.end));
            let terms = explain.then(|| ranking.terms_of(ranked.place, &recall.terms));
            let (score, parts, record) = (ranked.parts.sum(), ranked.parts, record.clone());
            hits.push(Hit { score, parts, record, before, after, terms });
        }
    }
    Ok((hits, are_all))
}

/// Returns the records at these places that still exist and are still in the scope.
async fn records<K: Selects, R: Reader>(
    reader: &mut R,
    on: &impl Walkable<K>,
    digests: &[Digest],
    places: BTreeSet<usize>,
    recall: &Recall<K>,
) -> Result<HashMap<usize, K::Record>> {
    let ids: Vec<_> = places.iter().map(|place| digests[*place].mark.id.clone()).collect();
    let mut found = HashMap::with_capacity(ids.len());
    for record in on.read(reader, &ids).await? {
        match record {
            Ok(record) => drop(found.insert(K::head(&record).id.to_vec(), record)),
            Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
            // The record was damaged since.
            Err(_) => {}
        }
    }
    // The record may have changed, be gone, or be another one under the same id.
    let in_scope = |place: usize| {
        let Mark { id, millis } = &digests[place].mark;
        let is_it = |head: Head<'_>| head.created_at.as_millis() == *millis && recall.query.covers(head.space);
        let record = if is_it(K::head(found.get(id)?)) { found.remove(id) } else { None };
        Some((place, record?))
    };
    Ok(places.into_iter().filter_map(in_scope).collect())
}

/// The digests of the newest records, within the limits (R5).
struct Newest {
    digests: Vec<Digest>,
    size: Size,
    /// The newest record that was left out; all older ones are left out too.
    left_out: Option<Mark>,
    is_whole: bool,
}

impl Newest {
    fn new() -> Self {
        Self { digests: Vec::new(), size: Size::default(), left_out: None, is_whole: true }
    }

    /// Returns whether too many records were examined in vain, so that the search ends.
    fn gives_up(&mut self, in_vain: usize) -> bool {
        let gives_up = in_vain == MAX_EXAMINED;
        self.is_whole &= !gives_up;
        gives_up
    }

    fn has_passed(&self, head: &Head<'_>) -> bool {
        let position = (head.created_at.as_millis(), head.id);
        self.left_out.as_ref().is_some_and(|left_out| position <= (left_out.millis, left_out.id.as_slice()))
    }

    fn add(&mut self, digest: Digest) {
        self.size.add(&digest);
        self.digests.push(digest);
        // Slack, so that not every further digest causes a trim.
        let slack = if self.left_out.is_none() { 0 } else { 8 };
        if self.size.is_over(slack) {
            self.trim();
        }
    }

    /// Keeps the longest run of newest records that the limits allow. An engine that indexes places by hash may offer a
    /// record twice.
    fn trim(&mut self) {
        self.digests.sort_unstable_by(|left, right| right.mark.cmp(&left.mark));
        self.digests.dedup_by(|left, right| left.mark == right.mark);
        let mut size = Size::default();
        let fits = |digest: &&Digest| {
            size.add(digest);
            size.records == 1 || !size.is_over(0)
        };
        let fitting = self.digests.iter().take_while(fits).count();
        if fitting < self.digests.len() {
            self.left_out = Some(self.digests.swap_remove(fitting).mark);
            self.digests.truncate(fitting);
            self.is_whole = false;
        }
        self.size = Size::default();
        for digest in &self.digests {
            self.size.add(digest);
        }
    }
}

/// The size of a set of records.
#[derive(Default)]
struct Size {
    records: usize,
    bytes: usize,
    /// Number of pairs of a record and a term of the question that it holds.
    terms: usize,
    /// Number of vector dimensions in all.
    numbers: usize,
}

impl Size {
    fn add(&mut self, digest: &Digest) {
        self.records += 1;
        self.bytes += digest.bytes;
        self.terms += digest.counts.len();
        self.numbers += digest.vector.as_ref().map_or(0, Vector::width);
    }

    /// Returns whether a limit is exceeded by more than 1/`slack` of it; 0 allows no excess.
    fn is_over(&self, slack: usize) -> bool {
        let limits = [
            (self.records, MAX_RECALLED),
            (self.bytes, MAX_RECALLED_BYTES),
            (self.terms, MAX_RECALLED_TERMS),
            (self.numbers, MAX_RECALLED_NUMBERS),
        ];
        limits.iter().any(|(size, most)| *size > most + most.checked_div(slack).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places in time of the newest records of some, which come in this order and hold so many terms each.
    fn kept(records: &[(i64, usize)], terms: usize) -> (Vec<i64>, bool) {
        let mut newest = Newest::new();
        for (millis, bytes) in records {
            let mark = Mark { millis: *millis, id: vec![0] };
            let created_at = crate::Timestamp::from_millis(*millis).expect("valid");
            let (updated_at, status, expires_at) = (None, None, None);
            let head = Head { id: &mark.id, space: "a", created_at, updated_at, status, expires_at, is_over: false };
            if !newest.has_passed(&head) {
                let (container, length, asks, named) = (0, 0, false, None);
                let counts = vec![(0, 1); terms].into();
                let vector = None;
                newest.add(Digest {
                    mark,
                    bytes: *bytes,
                    container,
                    length,
                    counts,
                    asks,
                    named,
                    is_wanted: true,
                    vector,
                });
            }
        }
        newest.trim();
        (newest.digests.iter().map(|digest| digest.mark.millis).collect(), newest.is_whole)
    }

    #[test]
    fn what_is_kept_does_not_depend_on_the_order_in_which_it_came() {
        const MIB: usize = 1 << 20;
        let mut records = [(5, 60 * MIB), (3, 8 * MIB), (4, 1), (2, 1), (1, 90 * MIB)];
        for turn in 0..records.len() {
            records.rotate_left(1);
            assert_eq!(kept(&records, 0), (vec![5, 4], false), "turn {turn}");
        }
        assert_eq!(kept(&[(1, 90 * MIB)], 0), (vec![1], true), "one always fits");
        assert_eq!(kept(&[(1, 1), (2, 90 * MIB)], 0), (vec![2], false));
        let many = |count: usize| (0..count).map(|millis| (millis as i64, 1)).collect::<Vec<_>>();
        assert!(kept(&many(MAX_RECALLED), 1).1);
        let (newest, is_whole) = kept(&many(3 * MAX_RECALLED), 0);
        assert_eq!((newest.len(), newest[0], is_whole), (MAX_RECALLED, 3 * MAX_RECALLED as i64 - 1, false));
        let most = MAX_RECALLED_TERMS / 256;
        assert!(kept(&many(most), 256).1);
        let (newest, is_whole) = kept(&many(3 * most), 256);
        assert_eq!((newest.len(), newest[0], is_whole), (most, 3 * most as i64 - 1, false));
    }
}
