//! The reading part of a session. Each command touches one key, or rows only, so that it works while the slot moves.
//! One transaction touches several keys: the one that reads several places of documents, which the server refuses
//! until all of them are on one node.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use memory_core::engine::{
    DocumentsFound, FeedEnd, FeedPage, FeedPosition, Found, HistoryRow, Mark, MemoriesFound, Place, Reader, Row,
    Source, Timeline, Visit, Walk, corrupt,
};
use memory_core::{
    Collection, DocumentId, Documents, Head, Ledger, MAX_WIDTH, MemoryId, Order, RecordId, Result, Timestamp,
    Tombstone, Verdict,
};
use redis::{Pipeline, Value};

use crate::connection::{RedisSession, command, timeline};
use crate::erasure;
use crate::expiry;
use crate::feed;
use crate::history;
use crate::rows::{self, LONGEST_HEAD, ROWS, Stored, Version};
use crate::statements::{COLLECTIONS, INDEXED, Keys, LONG_ROWS, Range, STEPS, decoded, parted};
use crate::vectors;

/// Number of rows that are held at once if none is long: each is below 64 KiB.
const HELD: usize = 256;
/// Maximum number of candidates in a slice of a walk.
const MAX_SLICE: usize = 1_024;
/// Minimum number of entries that are read from each of many sets.
const MIN_ENTRIES: usize = 8;
/// Number of entries that are read at once to find the paths that share a prefix.
const SIBLINGS: usize = 128;
/// Maximum bytes of rows and vectors that are held at once if rows are measured first, or if only heads are read; a row
/// that is larger by itself is held alone.
const MAX_BYTES: i64 = 4 << 20;
/// More bytes than any vector has.
const LONGEST_VECTOR: usize = 4 * MAX_WIDTH + 16;

impl Reader for RedisSession {
    type Version = Version;

    const PLACES: usize = 64;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<Version>> {
        let keys = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let found = self.found::<Ledger>(None, keys).await?;
        Ok(ids.iter().zip(found).filter_map(|(id, found)| Some((*id, found?))).collect())
    }

    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        let keys = &self.on.keys;
        let ranges = match walk.source {
            // In this order: a memory moves from the first to the second.
            Source::Everything => [keys.of(INDEXED), keys.of(STEPS)].map(Range::of).into(),
            Source::Open(statuses) => statuses.iter().map(|status| Range::of_open(keys, *status)).collect(),
            Source::Places(places) => ranges_of(keys, None, places),
        };
        self.walk(None, &ranges, walk, visit).await
    }

    async fn siblings(
        &mut self,
        of: Option<&Collection>,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Option<Vec<Place>>> {
        let after = after.unwrap_or_default();
        let (above, last) = parted(prefix);
        let (node, above) = (self.on.keys.node(of, above), above.unwrap_or_default());
        // No path holds a control character, and no UTF-8 text has the final byte.
        let start = if after.is_empty() { last.to_owned() } else { format!("{}\u{1}", &after[above.len()..]) };
        let (mut from, end) = (["[", start.as_str()].concat().into_bytes(), [b"(", last.as_bytes(), &[0xff]].concat());
        let mut found = BTreeSet::new();
        loop {
            let count = SIBLINGS.to_string();
            let slice = command("ZRANGEBYLEX", &[&node, &from, &end, b"LIMIT", b"0", count.as_bytes()]);
            let entries: Vec<Vec<u8>> = self.reads().read_one(&slice).await?;
            let goes_on = entries.len() == SIBLINGS;
            for entry in entries {
                let path = |end: usize| [above, &String::from_utf8_lossy(&entry[..end])].concat();
                match entry.iter().position(|byte| *byte == 0) {
                    // Everything in the space sorts before this.
                    Some(end) => {
                        found.insert(Place::Space(path(end)));
                        from = [b"[", &entry[..end], &[1]].concat();
                    }
                    None => {
                        found.insert(Place::Below(path(entry.len().saturating_sub(1))));
                        from = [b"(", entry.as_slice()].concat();
                    }
                }
            }
            let paths = found.iter().map(Place::path).filter(|path| *path > after);
            if !goes_on || paths.collect::<BTreeSet<_>>().len() >= most {
                return Ok(Some(found.into_iter().collect()));
            }
        }
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<Version>> {
        let keys = ids.iter().map(|id| id.as_str().as_bytes()).collect();
        let found = self.found::<Documents>(Some(collection), keys).await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        let keys = &self.on.keys;
        let ranges = match walk.source {
            Source::Places(places) => ranges_of(keys, Some(collection), places),
            _ => vec![Range::of(keys.collection(collection))],
        };
        self.walk(Some(collection), &ranges, walk, visit).await
    }

    async fn collections(&mut self, behind: Option<&Collection>, most: usize) -> Result<Vec<Collection>> {
        let from = behind.map_or_else(|| "-".to_owned(), |behind| format!("({behind}"));
        let (set, most) = (self.on.keys.of(COLLECTIONS), most.to_string());
        let names = command("ZRANGEBYLEX", &[&set, from.as_bytes(), b"+", b"LIMIT", b"0", most.as_bytes()]);
        let names: Vec<String> = self.reads().read_one(&names).await?;
        names.into_iter().map(|name| Collection::parse(name).map_err(corrupt)).collect()
    }

    async fn newest_change(&mut self) -> Result<FeedEnd> {
        feed::newest(&self.on, self.until).await.map(FeedEnd::from)
    }

    async fn changes(&mut self, after: &FeedPosition, most: usize) -> Result<FeedPage> {
        feed::changes(&self.on, after, most).await
    }

    async fn timeline(&mut self) -> Result<Timeline> {
        timeline(&self.on).await
    }

    async fn history(&mut self, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
        history::rows_of(self.reads(), of, below, most).await
    }

    async fn tombstones(&mut self, of: &[RecordId]) -> Result<Vec<Tombstone>> {
        let found = erasure::tombstones(self.reads(), of).await?;
        of.iter().for_each(|record| drop(self.tombstones.remove(record)));
        self.tombstones.extend(found.iter().map(|tombstone| (tombstone.record.clone(), tombstone.clone())));
        Ok(found)
    }

    async fn tombstones_behind(
        &mut self,
        behind: Option<&[u8]>,
        most: usize,
    ) -> Result<(Vec<Tombstone>, Option<Vec<u8>>)> {
        erasure::tombstones_behind(self.reads(), behind, most).await
    }

    async fn expired(
        &mut self,
        by: Timestamp,
        behind: Option<&(Timestamp, RecordId)>,
        most: usize,
    ) -> Result<Vec<(Timestamp, RecordId)>> {
        expiry::expired(self.reads(), by, behind, most).await
    }

    async fn vectors(&mut self, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
        vectors::vectors(self.reads(), of).await
    }

    async fn stored_at(&mut self, id: MemoryId) -> Result<Option<Timestamp>> {
        let found = self.memories(&[id]).await?.remove(&id).transpose()?;
        Ok(found.and_then(|found| found.version.stored_at))
    }
}

impl RedisSession {
    /// Returns the records of the ledger or of a collection with these ids, in their order.
    async fn found<K: Stored>(
        &self,
        of: Option<&Collection>,
        ids: Vec<&[u8]>,
    ) -> Result<Vec<Option<Result<Found<K::Record, Version>>>>> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(ROWS) {
            let rows = some.iter().zip(self.rows(&self.on.keys.rows(of), some.to_vec()).await?);
            found.extend(rows.map(|(id, row)| row.map(|row| rows::found::<K>(of, id, &row))));
        }
        Ok(found)
    }

    /// Offers the next entries of some ranges that have a row. Returns where to continue.
    async fn walk<K: Stored>(
        &mut self,
        of: Option<&Collection>,
        ranges: &[Range],
        walk: &Walk<'_>,
        visit: &mut Visit<'_, K>,
    ) -> Result<Option<Mark>> {
        self.take_turn().await;
        // An update moves a memory between statuses, and a put moves a document between places.
        let is_moving = ranges.len() > 1 && (of.is_some() || matches!(walk.source, Source::Open(_)));
        let (mut marks, goes_on) = self.entries(ranges, walk, walk.count.clamp(1, MAX_SLICE), is_moving).await?;
        match self.offer_rows(of, &marks, walk, visit).await? {
            Verdict::Stop => Ok(None),
            _ => Ok(marks.pop().filter(|_| goes_on)),
        }
    }

    /// Returns the next entries of some ranges without duplicates: `count`, unless there are no more; and whether there
    /// are more.
    ///
    /// From many ranges some entries each are read, and merged up to the horizon: the nearest last entry of a range
    /// that has more. If records can move between the ranges, all are read in one transaction.
    async fn entries(
        &self,
        ranges: &[Range],
        walk: &Walk<'_>,
        count: usize,
        is_moving: bool,
    ) -> Result<(Vec<Mark>, bool)> {
        let mut each = if ranges.len() <= 2 { count } else { (2 * count / ranges.len()).max(MIN_ENTRIES) };
        let is_nearer = |left: &Mark, right: &Mark| match walk.order {
            Order::NewestFirst => right.cmp(left),
            Order::OldestFirst => left.cmp(right),
        };
        let mut found = Vec::new();
        loop {
            let walk = Walk { behind: found.last().or(walk.behind), ..*walk };
            let mut commands = Pipeline::with_capacity(ranges.len() + 3);
            if is_moving {
                commands.cmd("MULTI");
            }
            for range in ranges {
                commands.add_command(range.read(&walk, each));
            }
            if is_moving {
                commands.cmd("EXEC");
            }
            let mut answers = self.indexes(commands).await?;
            if is_moving {
                answers = decoded(answers.pop().unwrap_or(Value::Nil))?;
            }
            let (mut next, mut horizon) = (Vec::new(), None);
            for (range, answer) in ranges.iter().zip(answers) {
                let mut entries = range.marks(answer)?;
                let last = entries.last().filter(|_| entries.len() == each).cloned();
                next.append(&mut entries);
                horizon = last.into_iter().chain(horizon).min_by(is_nearer);
            }
            next.sort_unstable_by(is_nearer);
            next.dedup();
            if let Some(horizon) = &horizon {
                next.truncate(next.partition_point(|mark| is_nearer(mark, horizon).is_le()));
            }
            found.append(&mut next);
            if horizon.is_none() || found.len() >= count {
                let goes_on = horizon.is_some() || found.len() > count;
                found.truncate(count);
                return Ok((found, goes_on));
            }
            each *= 2;
        }
    }

    /// Reads indexes, and whether rows may be long.
    async fn indexes(&self, mut commands: Pipeline) -> Result<Vec<Value>> {
        commands.cmd("EXISTS").arg(self.on.keys.of(LONG_ROWS));
        let mut answers = self.reads().read(&commands).await?;
        if answers.pop() != Some(Value::Int(0)) {
            self.on.has_long_rows.store(true, Ordering::Relaxed);
        }
        Ok(answers)
    }

    /// Offers the entries that have a row, until it is stopped.
    async fn offer_rows<K: Stored>(
        &mut self,
        of: Option<&Collection>,
        mut marks: &[Mark],
        walk: &Walk<'_>,
        visit: &mut Visit<'_, K>,
    ) -> Result<Verdict> {
        let prefix = self.on.keys.rows(of);
        while !marks.is_empty() {
            let count = match walk.is_for_heads {
                true => (MAX_BYTES as usize / (LONGEST_HEAD + beside(walk))).min(marks.len()),
                false => self.readable(&prefix, marks, walk).await?,
            };
            let (some, others) = marks.split_at(count);
            marks = others;
            let ids: Vec<_> = some.iter().map(|mark| mark.id.as_slice()).collect();
            let (rows, vectors) = self.candidates(of, &ids, walk).await?;
            let mut vectors = vectors.into_iter();
            for (Mark { millis, id }, row) in some.iter().zip(rows) {
                let vector = vectors.next().flatten();
                // An entry without a row counts as none.
                let Some(row) = row else { continue };
                // Another document under the same id has its own position in the order.
                let is_another = rows::read_head(id, &row).is_ok_and(|head| head.created_at.as_millis() != *millis);
                if !is_another && visit(&StoredRow { of, id, row: &row, vector: vector.as_deref() })? == Verdict::Stop {
                    return Ok(Verdict::Stop);
                }
            }
        }
        Ok(Verdict::Skip)
    }

    /// Returns how many of these entries' rows can be held at once: a few hundred, unless rows may be long.
    async fn readable(&self, prefix: &[u8], marks: &[Mark], walk: &Walk<'_>) -> Result<usize> {
        match self.on.has_long_rows.load(Ordering::Relaxed) {
            true => self.measured(prefix, marks, beside(walk)).await,
            false => Ok(marks.len().min(HELD)),
        }
    }

    /// The same, by measuring the rows, with the bytes that each may have besides its row.
    pub(crate) async fn measured(&self, prefix: &[u8], marks: &[Mark], beside: usize) -> Result<usize> {
        let marks = &marks[..marks.len().min(ROWS)];
        let mut commands = Pipeline::with_capacity(marks.len());
        for mark in marks {
            commands.cmd("STRLEN").arg([prefix, &mark.id].concat());
        }
        let (mut held, lengths) = (0, self.reads().read_as::<Vec<i64>>(&commands).await?);
        let is_beyond = |length: &i64| {
            held += length + beside as i64;
            held > MAX_BYTES
        };
        Ok(lengths.iter().position(is_beyond).map_or(marks.len(), |place| place.max(1)))
    }

    /// Reads the rows with these ids, or only their beginnings if the walk reads heads, and their vectors if it reads
    /// vectors. All in one round trip, because there may be many.
    async fn candidates(&self, of: Option<&Collection>, ids: &[&[u8]], walk: &Walk<'_>) -> Result<(Values, Values)> {
        let (rows, vectors) = (self.on.keys.rows(of), self.on.keys.vectors(of));
        let mut commands = Pipeline::with_capacity(ids.len());
        match walk.is_for_heads {
            true => get_heads(&mut commands, &rows, ids),
            false => get_all(&mut commands, &rows, ids),
        }
        let of_rows = commands.len();
        // After the rows, so that no vector is of an earlier version than its row.
        if walk.has_vectors {
            get_all(&mut commands, &vectors, ids);
        }
        let mut answers = self.reads().read(&commands).await?;
        let vectors = all_of(answers.split_off(of_rows.min(answers.len())))?;
        let rows = match walk.is_for_heads {
            true => heads_of(answers)?,
            false => all_of(answers)?,
        };
        Ok((rows, vectors))
    }

    /// Returns the rows with these ids after a prefix, in their order.
    pub(crate) async fn rows(&self, prefix: &[u8], ids: Vec<&[u8]>) -> Result<Values> {
        let mut commands = Pipeline::with_capacity(ids.len().div_ceil(ROWS));
        get_all(&mut commands, prefix, &ids);
        all_of(self.reads().read(&commands).await?)
    }
}

/// Returns the maximum bytes that a record of a walk has besides its row. While another model takes over, vectors of
/// different lengths are mixed, so each counts as the longest possible.
fn beside(walk: &Walk<'_>) -> usize {
    if walk.has_vectors { LONGEST_VECTOR } else { 0 }
}

/// The values of some keys, in their order.
type Values = Vec<Option<Vec<u8>>>;

/// Adds the commands that read the keys made of a prefix and these ids.
fn get_all(commands: &mut Pipeline, prefix: &[u8], ids: &[&[u8]]) {
    let mut key = prefix.to_vec();
    for some in ids.chunks(ROWS) {
        commands.cmd("MGET");
        for id in some {
            key.truncate(prefix.len());
            key.extend(*id);
            commands.arg(&key);
        }
    }
}

/// Decodes the answers to [`get_all`].
fn all_of(answers: Vec<Value>) -> Result<Values> {
    Ok(decoded::<Vec<Values>>(Value::Array(answers))?.into_iter().flatten().collect())
}

/// Adds the commands that read as much of each row as its head needs.
fn get_heads(commands: &mut Pipeline, prefix: &[u8], ids: &[&[u8]]) {
    for id in ids {
        commands.cmd("GETRANGE").arg([prefix, id].concat()).arg(0).arg(LONGEST_HEAD - 1);
    }
}

/// Decodes the answers to [`get_heads`].
fn heads_of(answers: Vec<Value>) -> Result<Values> {
    let heads: Vec<Vec<u8>> = decoded(Value::Array(answers))?;
    // A missing row has no bytes.
    Ok(heads.into_iter().map(|head| Some(head).filter(|head| !head.is_empty())).collect())
}

/// Returns the ranges of places, of the ledger or of a collection.
fn ranges_of(keys: &Keys, of: Option<&Collection>, places: &[Place]) -> Vec<Range> {
    places.iter().map(|place| Range::of_place(keys, of, place)).collect()
}

/// A row of the ledger or of a collection.
struct StoredRow<'r> {
    of: Option<&'r Collection>,
    id: &'r [u8],
    row: &'r [u8],
    vector: Option<&'r [u8]>,
}

impl<K: Stored> Row<K> for StoredRow<'_> {
    fn head(&self) -> Result<Head<'_>> {
        rows::read_head(self.id, self.row)
    }

    fn read(&self, _: &Head<'_>) -> Result<K::Record> {
        K::read(self.of, self.id, self.row).map(|held| held.record)
    }

    fn id(&self) -> String {
        K::shown_id(self.id)
    }

    fn vector(&self) -> Result<Option<&[u8]>> {
        Ok(self.vector)
    }
}
