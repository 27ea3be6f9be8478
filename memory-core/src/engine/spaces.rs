//! Lists the spaces below a path, with how many records each holds (S8 to S10).
//!
//! A level takes two steps. First, the names of the next spaces: from the path index, or from the places in `within` if
//! these lie deeper. Then each space is counted by a walk over the heads of its newest records, which also tells
//! whether it holds any record in `within`; if not, the space is left out. If one call can't find that out, the level
//! ends with a cursor inside the walk.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::pages::Walkable;
use super::places::{Places, can_hold_spaces};
use super::session::Reader;
use super::walk::{Mark, Place, Row, Source, Walk};
use super::watch::Watch;
use crate::cursor::CursorKey;
use crate::page::{MAX_EXAMINED, Selects, Verdict};
use crate::query::MAX_LIMIT;
use crate::spaces::{Count, MAX_SPACE_COUNT, SpaceLevel, SpaceQuery, SpaceSummary, space_below};
use crate::{BOUNDARIES, Collection, Error, ErrorKind, Position, Result, SpaceId, Timestamp};

/// Maximum number of places that one walk searches for paths that may have been skipped.
const PROBED: usize = 64;
/// Number of records between two checks of the time.
const PAUSE: usize = 64;

/// A query of spaces, with the key of its namespace.
pub(super) struct AskedSpaces {
    pub(super) query: SpaceQuery,
    pub(super) key: CursorKey,
    pub(super) watch: Arc<Watch>,
    /// The collection whose documents are counted; `None` for the ledger's memories.
    pub(super) of: Option<Collection>,
}

/// Returns the levels of the result, that of the query first.
pub(super) async fn levels<K: Selects, R: Reader>(
    reader: &mut R,
    on: &impl Walkable<K>,
    AskedSpaces { query, key, watch, of }: &AskedSpaces,
) -> Result<Vec<SpaceLevel>> {
    let scope = match &query.within {
        Some(within) => Places::of_spaces(reader, of.as_ref(), within).await?,
        None => Places::Everywhere,
    };
    let mut tree = Tree { reader, on, of: of.as_ref(), query, scope, watch, examined: 0 };
    let seal = |under: Option<&str>, last: &Reached| {
        let position = Position { created_at: Timestamp::MIN, id: last.to_bytes() };
        key.seal(&query.fingerprint(of.as_ref(), under), &position, 0)
    };
    let after = match &query.cursor {
        Some(cursor) => {
            let opened = key.open(cursor, &query.fingerprint(of.as_ref(), query.under()))?;
            let reached = Reached::from_bytes(opened.after.id);
            reached.ok_or_else(|| {
                Error::invalid("the cursor is not from a page of this query: leave it out to begin at the first page")
            })?
        }
        None => Reached::default(),
    };
    let (mut levels, mut left) = (Vec::new(), MAX_LIMIT);
    let mut waiting = VecDeque::from([(query.under.clone(), after, 1)]);
    while let Some((under, after, depth)) = waiting.pop_front() {
        let limit = query.limit.min(left);
        let found = if limit == 0 || depth > 1 && tree.is_spent() {
            // A deeper level without room starts in a later call.
            Level { spaces: Vec::new(), last: (depth > 1 && query.limit > 0).then_some(after) }
        } else {
            tree.level(under.as_deref(), after, limit).await?
        };
        left -= found.spaces.len();
        if depth < query.depth {
            let deeper = found.spaces.iter().filter(|space| space.goes_on).map(|space| space.summary.id.to_string());
            waiting.extend(deeper.map(|id| (Some(id.clone()), Reached::behind(id), depth + 1)));
        }
        let next = found.last.map(|last| seal(under.as_deref(), &last)).transpose()?;
        let spaces: Vec<_> = found.spaces.into_iter().map(|space| space.summary).collect();
        if depth == 1 || !spaces.is_empty() || next.is_some() {
            levels.push(SpaceLevel { under, spaces, next });
        }
    }
    Ok(levels)
}

/// The tree of spaces that a caller may see.
struct Tree<'t, R, W> {
    reader: &'t mut R,
    on: &'t W,
    of: Option<&'t Collection>,
    query: &'t SpaceQuery,
    /// The places where the counted records can lie.
    scope: Places,
    watch: &'t Watch,
    /// Number of examined records.
    examined: usize,
}

/// A page of the spaces below a path.
struct Level {
    spaces: Vec<Found>,
    /// Where the next page begins; `None` on the last page.
    last: Option<Reached>,
}

/// The position that a listing has reached.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Reached {
    /// The last space that was examined; empty before the first.
    name: String,
    /// The position inside that space, as long as none of its records was found in the scope.
    within: Option<Within>,
}

/// A position in the walks over a space's records.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Within {
    /// The index of the walk.
    walk: u32,
    /// The last examined record of this walk; `None` at its beginning.
    behind: Option<Mark>,
}

impl Reached {
    fn behind(name: String) -> Self {
        Self { name, within: None }
    }

    /// Encodes the name, which holds no control character; a zero byte and the position inside the space follow, if
    /// there is one.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.name.clone().into_bytes();
        if let Some(Within { walk, behind }) = &self.within {
            bytes.push(0);
            bytes.extend(walk.to_be_bytes());
            if let Some(Mark { millis, id }) = behind {
                bytes.extend(millis.to_be_bytes());
                bytes.extend(id);
            }
        }
        bytes
    }

    fn from_bytes(mut bytes: Vec<u8>) -> Option<Self> {
        let within = match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => Some(Within::from_bytes(&bytes.split_off(end)[1..])?),
            None => None,
        };
        Some(Self { name: String::from_utf8(bytes).ok()?, within })
    }
}

impl Within {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (walk, mark) = bytes.split_first_chunk()?;
        let mark = mark.split_first_chunk();
        let behind = mark.map(|(millis, id)| Mark { millis: i64::from_be_bytes(*millis), id: id.to_vec() });
        Some(Self { walk: u32::from_be_bytes(*walk), behind })
    }
}

/// A space that holds records of the scope.
struct Found {
    summary: SpaceSummary,
    /// Whether there may be spaces below it.
    goes_on: bool,
}

/// The result of examining a space.
enum Look {
    /// The space holds records of the scope.
    Found(Found),
    /// The space holds no record of the scope.
    Nothing,
    /// The space holds none up to this position; the rest was not examined.
    Unfinished(Within),
}

/// Names of spaces, in ascending order.
struct Names {
    names: BTreeSet<String>,
    /// Whether more names follow.
    goes_on: bool,
}

impl<R: Reader, W> Tree<'_, R, W> {
    fn is_spent(&self) -> bool {
        self.examined >= MAX_EXAMINED || self.watch.is_half_over()
    }

    /// Returns a page of the spaces below a path that hold records of the scope, at most `limit`. Each call advances by
    /// a space, or inside one.
    async fn level<K: Selects>(&mut self, under: Option<&str>, after: Reached, limit: usize) -> Result<Level>
    where
        W: Walkable<K>,
    {
        let (under, Reached { name: mut after, mut within }) = (under.unwrap_or_default(), after);
        let mut spaces = Vec::new();
        let mut found = Names { names: within.iter().map(|_| after.clone()).collect(), goes_on: true };
        loop {
            let count = found.names.len();
            for (number, name) in found.names.into_iter().enumerate() {
                match self.look(&name, within.take().unwrap_or_default()).await? {
                    Look::Found(space) => spaces.push(space),
                    Look::Nothing => {}
                    Look::Unfinished(within) => {
                        self.watch.cut();
                        return Ok(Level { spaces, last: Some(Reached { name, within: Some(within) }) });
                    }
                }
                after = name;
                let has_more = found.goes_on || number + 1 < count;
                if spaces.len() == limit || self.is_spent() {
                    if self.is_spent() && has_more {
                        self.watch.cut();
                    }
                    return Ok(Level { spaces, last: has_more.then_some(Reached::behind(after)) });
                }
            }
            if !found.goes_on {
                return Ok(Level { spaces, last: None });
            }
            found = self.names(under, &after, limit - spaces.len()).await?;
        }
    }

    /// Returns the next spaces after `after` below a path that may hold records: at least one if there is one, at most
    /// `most`.
    async fn names<K: Selects>(&mut self, under: &str, after: &str, most: usize) -> Result<Names>
    where
        W: Walkable<K>,
    {
        let mut names = BTreeSet::new();
        let mut goes_on = false;
        // The prefixes of all ids below the path, up to the segment that is listed.
        let mut heads: BTreeSet<String> = match under.is_empty() || under.ends_with(BOUNDARIES) {
            true => BTreeSet::from([under.to_owned()]),
            false => BOUNDARIES.iter().map(|boundary| format!("{under}{boundary}")).collect(),
        };
        while let Some(head) = heads.pop_first() {
            if names.len() > most && names.iter().nth(most).is_some_and(|name| *name < head) {
                goes_on = true;
                break;
            }
            if head.as_str() <= after && !after.starts_with(&head) {
                continue;
            }
            // One more than is wanted, plus the path itself, which is not listed.
            for place in self.siblings(&head, after, most + 2).await? {
                self.watch.count_path()?;
                match place {
                    Place::Below(path) if path == head => {
                        heads.extend(BOUNDARIES.iter().map(|boundary| format!("{head}{boundary}")));
                    }
                    place => {
                        let is_wanted = space_below(under, place.path()).is_some() && place.path() > after;
                        names.extend(is_wanted.then(|| place.path().to_owned()));
                    }
                }
            }
        }
        goes_on |= names.len() > most;
        while names.len() > most {
            names.pop_last();
        }
        Ok(Names { names, goes_on })
    }

    /// Returns the paths of the scope that start with `head`, have no further boundary and come after `after`: the
    /// first ones in byte order, at least `most` if there are as many; and whatever lies below `head` itself.
    async fn siblings<K: Selects>(&mut self, head: &str, after: &str, most: usize) -> Result<BTreeSet<Place>>
    where
        W: Walkable<K>,
    {
        if let Places::Only(places) = &self.scope {
            let is_covered = |place: &Place| matches!(place, Place::Below(_)) && place.holds(head);
            if !places.iter().any(is_covered) {
                let inside = places.iter().filter(|place| place.path().starts_with(head));
                return Ok(inside.map(|place| sibling(head, place)).collect());
            }
        }
        let after = if after.starts_with(head) { after } else { "" };
        let Some(found) = self.reader.siblings(self.of, head, Some(after), most + 1).await? else {
            return self.walked_siblings(head).await;
        };
        let mut found: BTreeSet<_> = found.into_iter().collect();
        let paths: BTreeSet<_> = found.iter().map(Place::path).filter(|path| *path > after).collect();
        // If there may be more, an ancestor of the last path may sort after it and not be included yet.
        let last = if paths.len() >= most { paths.last().copied().unwrap_or(head) } else { head };
        let mut passed: BTreeSet<_> = ancestors_behind(head, last).map(|path| Place::Below(path.to_owned())).collect();
        if !after.is_empty() || last != head {
            passed.insert(Place::Below(head.to_owned()));
        }
        passed.retain(|place| !found.contains(place) && (place.path() == head || place.path() > after));
        while !passed.is_empty() {
            match self.first_in(&passed).await? {
                Some(place) => {
                    passed.remove(&place);
                    found.insert(place);
                }
                None => break,
            }
        }
        Ok(found)
    }

    /// Returns one of these places that holds a record.
    async fn first_in<K: Selects>(&mut self, places: &BTreeSet<Place>) -> Result<Option<Place>>
    where
        W: Walkable<K>,
    {
        let places: Vec<_> = places.iter().cloned().collect();
        for some in places.chunks(PROBED.min(R::PLACES)) {
            let (mut holder, watch) = (None, self.watch);
            let mut visit = |row: &dyn Row<K>| {
                if !watch.goes_on() {
                    return Ok(Verdict::Stop);
                }
                let space = readable(row.head())?.map(|head| head.space.to_owned());
                holder = space.and_then(|space| some.iter().find(|place| place.holds(&space)).cloned());
                Ok(if holder.is_some() { Verdict::Stop } else { Verdict::Skip })
            };
            self.walk(Source::Places(some), None, 1, &mut visit).await?;
            if holder.is_some() {
                return Ok(holder);
            }
        }
        Ok(None)
    }

    /// Finds the siblings by scanning all records, on an engine without an index by place.
    async fn walked_siblings<K: Selects>(&mut self, head: &str) -> Result<BTreeSet<Place>>
    where
        W: Walkable<K>,
    {
        let (mut found, watch) = (BTreeSet::new(), self.watch);
        let mut visit = |row: &dyn Row<K>| {
            if !watch.goes_on() {
                return Ok(Verdict::Stop);
            }
            if let Some(record) = readable(row.head())?.filter(|record| record.space.starts_with(head)) {
                found.insert(sibling(head, &Place::Space(record.space.to_owned())));
            }
            Ok(Verdict::Skip)
        };
        self.walk(Source::Everything, None, usize::MAX, &mut visit).await?;
        Ok(found)
    }

    /// Examines a space from a position in its walks on.
    async fn look<K: Selects>(&mut self, name: &str, from: Within) -> Result<Look>
    where
        W: Walkable<K>,
    {
        // If the name ends with a boundary, ids below it are separate spaces (S8).
        let below = Some(Place::Below(name.to_owned())).filter(|_| !name.ends_with(BOUNDARIES)).filter(can_hold_spaces);
        let is_leaf = below.is_none();
        let places = BTreeSet::from_iter([Place::Space(name.to_owned())].into_iter().chain(below));
        let Places::Only(places) = Places::Only(places).and(self.scope.clone()) else { return Ok(Look::Nothing) };
        let places: Vec<_> = places.into_iter().collect();
        let share = (MAX_EXAMINED / places.len().div_ceil(R::PLACES).max(1)).max(1);
        let (watch, within) = (self.watch, self.query.within());
        let (mut count, mut newest, mut is_deeper, mut is_whole) = (0, None, false, true);
        for (walk, some) in (0..).zip(places.chunks(R::PLACES)).skip_while(|(walk, _)| *walk < from.walk) {
            let behind = from.behind.clone().filter(|_| walk == from.walk);
            let (mut looked, mut has_newest, mut reached) = (0, false, None);
            let wanted = if count > MAX_SPACE_COUNT { 1 } else { MAX_SPACE_COUNT + 1 };
            let mut visit = |row: &dyn Row<K>| {
                if !watch.goes_on() {
                    return Ok(Verdict::Stop);
                }
                looked += 1;
                let Some(head) = readable(row.head())? else { return Ok(Verdict::Skip) };
                let is_there = some.iter().any(|place| place.holds(head.space));
                if is_there && !head.is_over && within.is_none_or(|within| within.matches(head.space)) {
                    count += 1;
                    newest = newest.max(Some(head.created_at));
                    is_deeper |= head.space != name;
                    has_newest = true;
                }
                // The first record of each walk is its newest, so the space's newest is among these.
                if count > MAX_SPACE_COUNT && has_newest {
                    return Ok(Verdict::Stop);
                }
                if looked >= share || looked.is_multiple_of(PAUSE) && watch.is_half_over() {
                    reached = Some(Mark { millis: head.created_at.as_millis(), id: head.id.to_vec() });
                    return Ok(Verdict::Stop);
                }
                Ok(Verdict::Skip)
            };
            self.walk(Source::Places(some), behind, wanted, &mut visit).await?;
            self.examined += looked;
            is_whole &= reached.is_none();
            if reached.is_some() && count == 0 {
                return Ok(Look::Unfinished(Within { walk, behind: reached }));
            }
        }
        let Some(newest) = newest else { return Ok(Look::Nothing) };
        is_whole &= count <= MAX_SPACE_COUNT;
        let id = SpaceId::parse(name).map_err(super::corrupt)?;
        let count = if is_whole { Count::Exactly(count) } else { Count::MoreThan(MAX_SPACE_COUNT.min(count - 1)) };
        let goes_on = !is_leaf && (is_deeper || !is_whole);
        Ok(Look::Found(Found { summary: SpaceSummary { id, count, newest }, goes_on }))
    }

    /// Walks the heads of records after a position, newest first, until the visitor stops. `slice` is about the number
    /// of records that are wanted.
    async fn walk<K: Selects>(
        &mut self,
        source: Source<'_>,
        mut behind: Option<Mark>,
        slice: usize,
        visit: &mut super::Visit<'_, K>,
    ) -> Result<()>
    where
        W: Walkable<K>,
    {
        loop {
            let mut is_stopped = false;
            let mut visit = |row: &dyn Row<K>| {
                let verdict = visit(row)?;
                is_stopped = verdict == Verdict::Stop;
                Ok(verdict)
            };
            let walk = Walk { source, behind: behind.as_ref(), count: slice, is_for_heads: true, ..Walk::EVERYTHING };
            behind = self.on.walk(self.reader, &walk, &mut visit).await?;
            self.watch.check()?;
            if is_stopped || behind.is_none() {
                return Ok(());
            }
        }
    }
}

/// Returns the path right below a head that contains a place, which must start with the head.
fn sibling(head: &str, place: &Place) -> Place {
    match Place::sibling(head, place.path()) {
        Some(below @ Place::Below(_)) => below,
        _ => place.clone(),
    }
}

/// Returns the proper prefixes of a path, longer than a head, whose descendants may sort after the path: `a-1:x` comes
/// after `a-10`.
fn ancestors_behind<'p>(head: &str, path: &'p str) -> impl Iterator<Item = &'p str> {
    let is_behind = |next: char| BOUNDARIES.iter().any(|boundary| next < *boundary);
    let within = path.char_indices().filter(move |(at, next)| *at > 0 && is_behind(*next)).map(|(at, _)| &path[..at]);
    let least = head.len();
    within.filter(move |path| path.len() > least)
}

/// Turns a `Corrupt` error into `None`: damaged rows are skipped.
fn readable<T>(head: Result<T>) -> Result<Option<T>> {
    match head {
        Ok(head) => Ok(Some(head)),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::engine::pages::Memories;
    use crate::engine::watch::Watching;
    use crate::engine::{Append, Atomicity, DocumentsFound, MemoriesFound, Visit, Writer};
    use crate::in_memory::InMemorySession;
    use crate::query::{Documents, Ledger};
    use crate::{DocumentId, MemoryId, NewMemory, SpaceSelector, Trigger};

    /// A session that counts what it is asked, and may have no index by place.
    struct Counting {
        inner: InMemorySession,
        has_places: bool,
        asked: usize,
    }

    impl Reader for Counting {
        type Version = u64;

        const PLACES: usize = 2;

        async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<u64>> {
            self.asked += 1;
            self.inner.memories(ids).await
        }

        async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
            self.asked += 1;
            self.inner.walk_memories(walk, visit).await
        }

        async fn siblings(
            &mut self,
            of: Option<&Collection>,
            prefix: &str,
            after: Option<&str>,
            most: usize,
        ) -> Result<Option<Vec<Place>>> {
            self.asked += 1;
            if self.has_places { self.inner.siblings(of, prefix, after, most).await } else { Ok(None) }
        }

        async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<u64>> {
            self.inner.documents(collection, ids).await
        }

        async fn walk_documents(
            &mut self,
            collection: &Collection,
            walk: &Walk<'_>,
            visit: &mut Visit<'_, Documents>,
        ) -> Result<Option<Mark>> {
            self.inner.walk_documents(collection, walk, visit).await
        }

        async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
            self.inner.collections(behind, most).await
        }
    }

    /// 2,000 spaces of three memories each, of two tenants.
    async fn session(has_places: bool) -> Counting {
        let mut inner = InMemorySession::default();
        let memory = |number: usize| {
            let (tenant, space, record) = (number / 3_000, number / 3 % 1_000, number % 3);
            let space = SpaceId::parse(format!("t{tenant}-{space:03}:{record}")).expect("valid");
            let time = Timestamp::from_millis(number as i64).expect("valid");
            NewMemory::new(space, Trigger::parse("1").expect("valid"), time).into_memory(MemoryId::generate())
        };
        let memories: Vec<_> = (0..6_000).map(memory).collect();
        let memories: Vec<_> = memories.iter().collect();
        let append =
            Append { memories: &memories, atomicity: Atomicity::All, is_repeated: false, at: None, hash_key: None };
        inner.append(append).await.expect("nothing is in the way");
        Counting { inner, has_places, asked: 0 }
    }

    async fn listed(session: &mut Counting, query: SpaceQuery) -> Vec<SpaceLevel> {
        let watching = Watching::new(Instant::now() + Duration::from_secs(3_600), None);
        let key = CursorKey::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").expect("a key");
        let asked = AskedSpaces { query, key, watch: watching.watch(), of: None };
        levels(session, &Memories, &asked).await.expect("a listing")
    }

    fn names(level: &SpaceLevel) -> Vec<&str> {
        level.spaces.iter().map(|space| space.id.as_str()).collect()
    }

    #[tokio::test]
    async fn an_engine_is_asked_a_few_times_for_each_space_that_is_shown() {
        let mut session = session(true).await;
        let query = || SpaceQuery::builder().under("t0").limit(10);
        let first = listed(&mut session, query().build().expect("valid")).await.swap_remove(0);
        assert_eq!((first.spaces[0].count, first.spaces[0].newest.as_millis()), (Count::Exactly(3), 2));
        assert_eq!(names(&first).last(), Some(&"t0-009"));
        // The names behind each boundary, what may have been passed over, and a walk for each space.
        assert!(session.asked <= 3 + 2 + 10, "{} questions", session.asked);
        session.asked = 0;
        let cursor = first.next.expect("there are more");
        let second = listed(&mut session, query().cursor(&cursor).build().expect("valid")).await.swap_remove(0);
        assert_eq!((names(&second)[0], names(&second).len()), ("t0-010", 10));
        assert!(session.asked <= 3 + 2 + 10, "{} questions", session.asked);
        // Of a thousand spaces the caller sees one.
        session.asked = 0;
        let within = SpaceSelector::under("t1-777").expect("valid");
        let confined = SpaceQuery::builder().within(within).depth(3).build().expect("valid");
        let confined = listed(&mut session, confined).await;
        let told: Vec<_> = confined.iter().map(names).collect();
        assert_eq!(told, [vec!["t1"], vec!["t1-777"], vec!["t1-777:0", "t1-777:1", "t1-777:2"]]);
        assert!(session.asked < 20, "{} questions", session.asked);
    }

    /// Memories at these places and times.
    async fn session_of(memories: impl IntoIterator<Item = (&'static str, i64)>) -> Counting {
        let memory = |(space, time): (&'static str, i64)| {
            let (space, time) = (SpaceId::parse(space).expect("valid"), Timestamp::from_millis(time).expect("valid"));
            NewMemory::new(space, Trigger::parse("1").expect("valid"), time).into_memory(MemoryId::generate())
        };
        let (memories, mut inner) = (memories.into_iter().map(memory).collect::<Vec<_>>(), InMemorySession::default());
        let memories: Vec<_> = memories.iter().collect();
        let append =
            Append { memories: &memories, atomicity: Atomicity::All, is_repeated: false, at: None, hash_key: None };
        inner.append(append).await.expect("nothing is in the way");
        Counting { inner, has_places: true, asked: 0 }
    }

    /// More places than one walk goes along, of which the first ones hold more than is counted.
    #[tokio::test]
    async fn the_newest_record_is_told_whichever_walk_finds_it() {
        let many = (0..1_200).map(|time| ("t-a", time));
        let mut session = session_of(many.chain([("t-b", 1), ("t-c", 2), ("t-d", 5_000), ("t-e", 6_000)])).await;
        let within = ["t-a", "t-b", "t-c", "t-d"].map(|id| SpaceSelector::exact(id).expect("valid"));
        let query = SpaceQuery::builder().within(within.to_vec()).build().expect("valid");
        let level = listed(&mut session, query).await.swap_remove(0);
        let told: Vec<_> = level.spaces.iter().map(|space| (space.count, space.newest.as_millis())).collect();
        assert_eq!(told, [(Count::MoreThan(1_000), 5_000)]);
    }

    /// A call that has no time left tells where it stands, and the next one goes on there, also among the records of others.
    #[tokio::test]
    async fn records_of_others_hide_no_space() {
        let others = (0..500).map(|time| (if time % 2 == 0 { "t-others" } else { "s" }, 10 + time));
        let mut session = session_of(others.chain([("t-mine", 3), ("t-mine-x", 2), ("u", 1)])).await;
        let glob = || SpaceSelector::glob("t-mine*").expect("valid");
        let query = || SpaceQuery::builder().within(vec![glob(), SpaceSelector::glob("*u").expect("valid")]);
        let (mut found, mut next, mut calls) = (Vec::new(), None, 0);
        loop {
            let query = next.iter().fold(query(), |query, cursor| query.cursor(cursor)).build().expect("valid");
            let watching = Watching::half_over(Instant::now() + Duration::from_secs(3_600));
            let key = CursorKey::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").expect("a key");
            let asked = AskedSpaces { query, key, watch: watching.watch(), of: None };
            let mut level = levels(&mut session, &Memories, &asked).await.expect("a listing").swap_remove(0);
            found.append(&mut level.spaces);
            (next, calls) = (level.next, calls + 1);
            if next.is_none() {
                break;
            }
        }
        let told: Vec<_> =
            found.iter().map(|space| (space.id.as_str(), space.count, space.newest.as_millis())).collect();
        assert_eq!(told, [("t", Count::Exactly(2), 3), ("u", Count::Exactly(1), 1)]);
        assert!(calls > 250 / PAUSE, "each call ends soon: {calls}");
    }

    #[test]
    fn what_was_reached_comes_back_from_its_bytes() {
        let mark = |id: &[u8]| Mark { millis: -5, id: id.to_vec() };
        for within in [None, Some((0, None)), Some((7, Some(mark(&[0, 255])))), Some((1, Some(mark(b""))))] {
            let within = within.map(|(walk, behind)| Within { walk, behind });
            let reached = Reached { name: "a-\u{e9}".to_owned(), within };
            assert_eq!(Reached::from_bytes(reached.to_bytes()), Some(reached));
        }
        assert_eq!(Reached::from_bytes(b"a\0bc".to_vec()), None);
        assert_eq!(Reached::from_bytes(vec![255]), None);
    }

    #[tokio::test]
    async fn without_an_index_the_answer_is_the_same() {
        let (mut with, mut without) = (session(true).await, session(false).await);
        for under in [None, Some("t1"), Some("t1-999")] {
            let query = under.into_iter().fold(SpaceQuery::builder().limit(4), |query, under| query.under(under));
            let query = query.build().expect("valid");
            let (with, without) = (listed(&mut with, query.clone()).await, listed(&mut without, query).await);
            assert_eq!(names(&with[0]), names(&without[0]), "below {under:?}");
            assert_eq!(with[0].next.is_some(), without[0].next.is_some());
        }
    }
}
