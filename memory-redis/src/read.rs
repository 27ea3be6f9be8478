//! What a session reads.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory_core::engine::{
    DocumentsFound, Mark, MemoriesFound, Place, Reader, Row, Search, Source, Visit, Walk, corrupt,
};
use memory_core::{
    Collection, Document, DocumentId, Documents, Error, Head, Ledger, MAX_EXAMINED, Memory, MemoryId, Order, Outcome,
    Result, Verdict,
};
use redis::{Pipeline, Value, from_redis_value};
use tokio::sync::OwnedSemaphorePermit;

use crate::connection::{Connections, array, bytes, command, unexpected_answer};
use crate::rows::{self, Version};
use crate::statements::{Call, Lua, Set, Slice, mark_of, read_rows, words_of};

/// How many rows are read by one command when their ids are known.
const ROWS: usize = 8;
/// How many records are read at once by their ids.
const AT_ONCE: usize = 64;
/// How many candidates a slice of a walk has at most.
const MAX_SLICE: usize = 1_024;
/// How many entries of each word are read at once.
const ENTRIES: usize = 1_000;
/// How many rows are taken into the index of words at once.
const INDEXED: usize = 64;

/// A session on the connections of a provider.
#[derive(Debug)]
pub struct RedisSession {
    pub(crate) on: Arc<Connections>,
    /// Held from the first walk or search on.
    turn: Option<OwnedSemaphorePermit>,
}

impl Reader for RedisSession {
    type Version = Version;

    /// What one script merges.
    const PLACES: usize = 64;

    async fn memories(&mut self, ids: &[MemoryId]) -> Result<MemoriesFound<Version>> {
        let mut found = HashMap::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            let keys: Vec<_> = some.iter().map(|id| id.as_bytes().as_slice()).collect();
            let rows = self.rows(&self.on.keys.memories(), &keys, ROWS).await?;
            for (id, row) in some.iter().zip(rows) {
                let memory = |row: Vec<u8>| rows::found(rows::memory(id.as_bytes(), &row), &row);
                found.extend(row.map(|row| (*id, memory(row))));
            }
        }
        Ok(found)
    }

    async fn walk_memories(&mut self, walk: &Walk<'_>, visit: &mut Visit<'_, Ledger>) -> Result<Option<Mark>> {
        let keys = &self.on.keys;
        let sets = match walk.source {
            Source::Everything => [keys.unindexed(), keys.indexed()].map(Set::of_ids).into(),
            Source::Open(statuses) => statuses.iter().map(|status| Set::of_ids(keys.open(*status))).collect(),
            Source::Places(places) => places.iter().flat_map(|place| Set::of_place(keys, place)).collect(),
        };
        let slice = Slice::of(walk, sets, keys.memories(), MAX_SLICE);
        self.walk(slice, |mark, row| visit(&MemoryRow { id: &mark.id, row })).await
    }

    async fn search_memories(&mut self, search: &Search<'_>, visit: &mut Visit<'_, Ledger>) -> Result<()> {
        self.take_turn().await;
        // What it writes does not count: a search that fails has done nothing.
        self.index_words().await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        let keys = &self.on.keys;
        let sets = search.words.iter().map(|word| keys.word(word)).collect();
        let prefix = keys.memories();
        self.search(sets, &prefix, search, |mark, row| visit(&MemoryRow { id: &mark.id, row })).await
    }

    async fn siblings(&mut self, prefix: &str, most: usize) -> Result<Option<Vec<Place>>> {
        // A sibling takes a step for itself and one for each boundary.
        let steps = 4 * most as i64 + 1;
        let call = Call::new(Lua::Siblings).keys([self.on.keys.spaces()]).arg(prefix).number(steps);
        let items = match self.on.read_one(&call.into_pipeline()).await? {
            Value::Nil => return Ok(None),
            answer => array(answer)?,
        };
        let text = |value: &Value| match value {
            Value::BulkString(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            _ => Err(unexpected_answer()),
        };
        let sibling = |pair: &[Value]| match text(&pair[0])?.is_empty() {
            true => text(&pair[1]).map(Place::Space),
            false => text(&pair[1]).map(Place::Below),
        };
        let siblings = items.chunks_exact(2).map(sibling).collect::<Result<Vec<_>>>()?;
        let distinct = siblings.iter().map(Place::path).collect::<BTreeSet<_>>().len();
        Ok((distinct <= most).then_some(siblings))
    }

    async fn documents(&mut self, collection: &Collection, ids: &[DocumentId]) -> Result<DocumentsFound<Version>> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            let keys: Vec<_> = some.iter().map(|id| id.as_str().as_bytes()).collect();
            let rows = self.rows(&self.on.keys.documents(collection), &keys, ROWS).await?;
            let document = |(id, row): (&&[u8], Vec<u8>)| rows::found(rows::document(collection, id, &row), &row);
            let rows = keys.iter().zip(rows).filter_map(|(id, row)| Some((id, row?)));
            found.extend(rows.map(document));
        }
        Ok(found)
    }

    async fn walk_documents(
        &mut self,
        collection: &Collection,
        walk: &Walk<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<Option<Mark>> {
        let keys = &self.on.keys;
        let sets = vec![Set::of_ids(keys.collection(collection))];
        let slice = Slice::of(walk, sets, keys.documents(collection), MAX_SLICE);
        self.walk(slice, |mark, row| DocumentRow { collection, id: &mark.id, row }.offer(mark.millis, visit)).await
    }

    async fn search_documents(
        &mut self,
        collection: &Collection,
        search: &Search<'_>,
        visit: &mut Visit<'_, Documents>,
    ) -> Result<()> {
        let keys = &self.on.keys;
        let sets = search.words.iter().map(|word| keys.document_word(collection, word)).collect();
        let prefix = keys.documents(collection);
        let offer = |mark: &Mark, row: &[u8]| DocumentRow { collection, id: &mark.id, row }.offer(mark.millis, visit);
        self.search(sets, &prefix, search, offer).await
    }

    async fn collections(&mut self) -> Result<Vec<Collection>> {
        let (mut found, mut from) = (Vec::<Collection>::new(), b"-".to_vec());
        loop {
            let slice = command("ZRANGEBYLEX", &[&self.on.keys.collections(), &from, b"+", b"LIMIT", b"0", b"1000"]);
            let before = found.len();
            for name in array(self.on.read_one(&slice).await?)? {
                found.push(Collection::parse(String::from_utf8_lossy(&bytes(name)?)).map_err(corrupt)?);
            }
            match found.last() {
                Some(last) if found.len() > before => from = format!("({last}").into_bytes(),
                _ => return Ok(found),
            }
        }
    }
}

impl RedisSession {
    pub(crate) fn new(on: &Arc<Connections>) -> Self {
        Self { on: Arc::clone(on), turn: None }
    }

    /// Takes the words of all memories into the index that were stored by providers that don't keep it.
    pub(crate) async fn index_words(&self) -> Result<()> {
        let keys = &self.on.keys;
        loop {
            let slice = Slice { prefix: keys.memories(), ..Slice::of_ids(keys.unindexed(), [None; 2], INDEXED) };
            let (entries, _) = self.merge(&slice).await?;
            if entries.is_empty() {
                return Ok(());
            }
            let mut pipeline = Pipeline::with_capacity(entries.len());
            for Entry { mark: Mark { millis, id }, row } in entries {
                let row = row.unwrap_or_default();
                // A row that can't be read has no words.
                let words = rows::memory(&id, &row).map(|memory| words_of(&memory)).unwrap_or_default();
                let call = Call::new(Lua::Index)
                    .keys([[keys.memories().as_slice(), &id].concat(), keys.unindexed(), keys.indexed()])
                    .keys(words.iter().map(|word| keys.word(word)))
                    .arg(rows::head(&row))
                    .number(millis)
                    .arg(id);
                pipeline.add_command(call.into_cmd());
            }
            self.on.write(pipeline).await?;
        }
    }

    /// Offers the entries of a slice that have a row. Returns where to go on.
    async fn walk(
        &mut self,
        slice: Slice,
        mut offer: impl FnMut(&Mark, &[u8]) -> Result<Verdict> + Send,
    ) -> Result<Option<Mark>> {
        self.take_turn().await;
        let (mut entries, goes_on) = match self.begin(&slice).await? {
            Some(found) => found,
            None => self.merge(&slice).await?,
        };
        for entry in &entries {
            // An entry whose row is gone is none.
            if let Some(row) = &entry.row
                && offer(&entry.mark, row)? == Verdict::Stop
            {
                return Ok(None);
            }
        }
        Ok(entries.pop().filter(|_| goes_on).map(|last| last.mark))
    }

    /// Offers what is in at least one of the sets of words, that in most of them first, and then the newest. Of more than can be
    /// examined, the newest are looked at.
    async fn search(
        &mut self,
        sets: Vec<Vec<u8>>,
        prefix: &[u8],
        search: &Search<'_>,
        mut offer: impl FnMut(&Mark, &[u8]) -> Result<Verdict> + Send,
    ) -> Result<()> {
        self.take_turn().await;
        let mut slices: Vec<_> = sets
            .into_iter()
            .map(|set| Slice::of_ids(set, [search.created_after, search.created_before], ENTRIES))
            .collect();
        let mut hits = HashMap::<(i64, Vec<u8>), usize>::new();
        while hits.len() < MAX_EXAMINED && !slices.is_empty() {
            let mut calls = Pipeline::with_capacity(slices.len());
            for slice in &slices {
                calls.add_command(slice.merge().into_cmd());
            }
            let mut rest = Vec::with_capacity(slices.len());
            for (slice, answer) in slices.into_iter().zip(self.on.read(&calls).await?) {
                let (entries, goes_on) = merged(answer)?;
                let behind = entries.last().filter(|_| goes_on).map(|last| last.mark.clone());
                rest.extend(behind.map(|behind| Slice { behind: Some(behind), ..slice }));
                for Entry { mark: Mark { millis, id }, .. } in entries {
                    *hits.entry((millis, id)).or_default() += 1;
                }
            }
            slices = rest;
        }
        let mut ranked: Vec<_> = hits.into_iter().map(|((millis, id), hits)| (hits, Mark { millis, id })).collect();
        ranked.sort_unstable_by(|left, right| right.cmp(left));
        for some in ranked.chunks(search.count.max(1)) {
            let ids: Vec<_> = some.iter().map(|(_, mark)| mark.id.as_slice()).collect();
            for ((_, mark), row) in some.iter().zip(self.rows(prefix, &ids, ROWS).await?) {
                if let Some(row) = row
                    && offer(mark, &row)? == Verdict::Stop
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn take_turn(&mut self) {
        if self.turn.is_none() {
            // Nobody closes the semaphore, so this only waits.
            self.turn = Arc::clone(&self.on.recalls).acquire_owned().await.ok();
        }
    }

    /// Reads the first slice of a walk by plain commands, if they can, and tells whether there is more. They cost the server a sixth of
    /// what the script does, which copies all rows into Lua and out again, and a round trip more. Nothing is read where rows may be
    /// long: the script ends a slice at a number of bytes.
    async fn begin(&self, slice: &Slice) -> Result<Option<(Vec<Entry>, bool)>> {
        let has_long_rows = &self.on.has_long_rows;
        if !slice.is_plain() || has_long_rows.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut answers = array(self.on.read_one(&slice.begin(&self.on.keys)).await?)?;
        if answers.pop() != Some(Value::Int(0)) {
            has_long_rows.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let (mut found, mut goes_on) = (Vec::new(), false);
        for (set, answer) in slice.sets.iter().zip(answers) {
            let entries = marks_of(set, answer)?;
            goes_on |= entries.len() >= slice.count;
            found.extend(entries);
        }
        match slice.order {
            Order::OldestFirst => found.sort_unstable(),
            Order::NewestFirst => found.sort_unstable_by(|left, right| right.cmp(left)),
        }
        found.dedup();
        goes_on |= found.len() > slice.count;
        found.truncate(slice.count);
        let ids: Vec<_> = found.iter().map(|mark| mark.id.as_slice()).collect();
        let rows = self.rows(&slice.prefix, &ids, slice.count).await?;
        let entries = found.into_iter().zip(rows).map(|(mark, row)| Entry { mark, row });
        Ok(Some((entries.collect(), goes_on)))
    }

    /// Reads a slice by the script, and tells whether there is more.
    async fn merge(&self, slice: &Slice) -> Result<(Vec<Entry>, bool)> {
        merged(self.on.read_one(&slice.merge().into_pipeline()).await?)
    }

    /// The rows with these ids behind a prefix, so many by one command, in the order of the ids.
    async fn rows(&self, prefix: &[u8], ids: &[&[u8]], by_one: usize) -> Result<Vec<Option<Vec<u8>>>> {
        let mut commands = Pipeline::with_capacity(ids.len().div_ceil(by_one));
        for some in ids.chunks(by_one) {
            commands.add_command(read_rows(prefix, some));
        }
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = Vec::with_capacity(ids.len());
        for answer in self.on.read(&commands).await? {
            rows.extend(array(answer)?.into_iter().map(row));
        }
        Ok(rows)
    }
}

/// An entry of an index, with its row if that was asked for and is there.
struct Entry {
    mark: Mark,
    row: Option<Vec<u8>>,
}

/// The row of a memory.
struct MemoryRow<'r> {
    id: &'r [u8],
    row: &'r [u8],
}

impl Row<Ledger> for MemoryRow<'_> {
    fn head(&self) -> Result<Head<'_>> {
        rows::read_head(self.id, self.row)
    }

    fn read(&self, _: &Head<'_>) -> Result<Memory> {
        rows::memory(self.id, self.row)
    }

    fn id(&self) -> String {
        rows::memory_id(self.id).map_or_else(|_| "unknown".to_owned(), |id| id.to_string())
    }
}

/// The row of a document.
struct DocumentRow<'r> {
    collection: &'r Collection,
    id: &'r [u8],
    row: &'r [u8],
}

impl DocumentRow<'_> {
    /// Offers it for an entry of this time. Another document under the same id has its own place in the order.
    fn offer(&self, time: i64, visit: &mut Visit<'_, Documents>) -> Result<Verdict> {
        match self.head() {
            Ok(head) if head.created_at.as_millis() != time => Ok(Verdict::Skip),
            _ => visit(self),
        }
    }
}

impl Row<Documents> for DocumentRow<'_> {
    fn head(&self) -> Result<Head<'_>> {
        rows::read_head(self.id, self.row)
    }

    fn read(&self, _: &Head<'_>) -> Result<Document> {
        rows::document(self.collection, self.id, self.row)
    }

    fn id(&self) -> String {
        String::from_utf8_lossy(self.id).into_owned()
    }
}

/// The places in what [`Slice::begin`] has read of a set.
fn marks_of(set: &Set, answer: Value) -> Result<Vec<Mark>> {
    let unexpected = |error| unexpected_answer().with_source(error);
    if set.has_times() {
        let entries = from_redis_value::<Vec<(Vec<u8>, f64)>>(answer).map_err(unexpected)?;
        // Times have at most 44 bits.
        return Ok(entries.into_iter().map(|(id, time)| Mark { millis: time as i64, id }).collect());
    }
    let steps = from_redis_value::<Vec<Vec<u8>>>(answer).map_err(unexpected)?;
    let corrupt = || Error::corrupt("a step of an index lacks a part");
    steps.into_iter().map(|step| mark_of(step).ok_or_else(corrupt)).collect()
}

/// The entries in the answer of the script that merges, and whether there are more.
fn merged(answer: Value) -> Result<(Vec<Entry>, bool)> {
    let mut items = array(answer)?.into_iter();
    let goes_on = items.next() == Some(Value::Int(1));
    let mut entries = Vec::with_capacity(items.len() / 3);
    while let (Some(id), Some(Value::Int(time)), Some(found)) = (items.next(), items.next(), items.next()) {
        entries.push(Entry { mark: Mark { millis: time, id: bytes(id)? }, row: row(found) });
    }
    Ok((entries, goes_on))
}

fn row(answer: Value) -> Option<Vec<u8>> {
    if let Value::BulkString(row) = answer { Some(row) } else { None }
}
