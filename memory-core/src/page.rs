//! Pages: what a query answers, and the one piece of code that decides what is on them.

use std::cmp::Ordering;

use crate::cursor::{Cursor, CursorKey, Position};
use crate::document::Document;
use crate::filter::Subject;
use crate::query::{DEFAULT_LIMIT, Documents, Kind, Ledger, Query};
use crate::{Error, ErrorKind, Memory, MemoryId, Metadata, Order, Result, Status, Timestamp, words};

/// A page ends before it grows beyond this, in bytes of its records' texts; one record always fits (Q5).
pub const MAX_PAGE_BYTES: usize = 16 << 20;
/// A page ends after this many examined candidates (Q5).
pub const MAX_EXAMINED: usize = 100_000;
/// A full page looks at this many further records of its spaces, times and statuses at most for one that its filter and its text have
/// (Q5).
pub const MAX_LOOK_AHEAD: usize = 1_000;

/// Memories that a query found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryPage {
    /// In the order of the query.
    pub memories: Vec<Memory>,
    /// Rows that match as far as can be told, and can't be read (Q8).
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins. A page may be short or empty and still have one; only a page without is the end.
    pub next: Option<Cursor>,
}

/// Documents that a query found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DocumentPage {
    /// In the order of the query.
    pub documents: Vec<Document>,
    /// Documents that match as far as can be told, and can't be read (Q8).
    pub unreadable: Vec<Unreadable>,
    /// Where the next page begins. A page may be short or empty and still have one; only a page without is the end.
    pub next: Option<Cursor>,
}

/// A row that the engine holds and that is no valid record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The id, as far as it can be read.
    pub id: String,
    /// What is wrong, without the payload.
    pub reason: String,
}

/// What an engine knows of a candidate before it reads the payload.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The bytes of its id.
    pub id: &'a [u8],
    /// Its space.
    pub space: &'a str,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed, if it was.
    pub updated_at: Option<Timestamp>,
    /// Its status; `None` when it has none, as documents, or when it can't be read. No condition on the status has such a
    /// candidate.
    pub status: Option<Status>,
    /// When it expires, as it says itself.
    pub expires_at: Option<Timestamp>,
    /// Whether its time is over, so that no call shows it (X1). An engine gives `false`, and [`Provider`](crate::engine::Provider) decides.
    pub is_over: bool,
}

/// What to do with a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is not on the page: go on with the next.
    Skip,
    /// Read it and push it.
    Take,
    /// The page is complete.
    Stop,
}

/// Makes a page out of candidates. An engine offers a superset of what matches, in the order of the query; this decides
/// what is on the page, when it ends, and where the next begins. For engines.
#[derive(Debug)]
pub struct PageBuilder<'q, K: Selects> {
    query: &'q Query<K>,
    key: &'q CursorKey,
    /// Where the page before it ended.
    after: Option<Position>,
    records: Vec<K::Record>,
    unreadable: Vec<Unreadable>,
    bytes: usize,
    examined: usize,
    /// How many candidates were wanted and not taken since the page was full.
    ahead: usize,
    skip: usize,
    last: Option<Position>,
    /// Whether there is a next page, behind the last.
    goes_on: bool,
}

impl<'q, K: Selects> PageBuilder<'q, K> {
    /// An empty page of this query, in a namespace with this key. `InvalidInput` when the query has a cursor that is not its own (Q6).
    pub fn new(query: &'q Query<K>, key: &'q CursorKey) -> Result<Self> {
        let (after, skip) = match &query.cursor {
            Some(cursor) => key.open(cursor, &query.fingerprint).map(|(after, skip)| (Some(after), skip))?,
            None => (None, query.offset),
        };
        Ok(Self {
            query,
            key,
            records: Vec::with_capacity(query.limit.min(DEFAULT_LIMIT)),
            unreadable: Vec::new(),
            bytes: 0,
            examined: 0,
            ahead: 0,
            skip,
            last: after.clone(),
            after,
            goes_on: false,
        })
    }

    pub(crate) fn query(&self) -> &'q Query<K> {
        self.query
    }

    /// Whether it has examined as many candidates as it may.
    pub(crate) fn is_spent(&self) -> bool {
        self.examined == MAX_EXAMINED
    }

    /// After which record the page begins.
    pub fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    /// Offers a stored row: its head, how to read the record if that is wanted, and its id, as far as that can be read, for when it
    /// is damaged. A damaged row is reported and hides no other (Q8); every other error is the query's own.
    pub fn offer(
        &mut self,
        head: Result<Head<'_>>,
        read: impl FnOnce(&Head<'_>) -> Result<K::Record>,
        id: impl FnOnce() -> String,
    ) -> Result<Verdict> {
        let head = match head {
            Ok(head) => head,
            Err(error) => return self.report(None, error, id),
        };
        match self.examine(&head) {
            Verdict::Take => match read(&head) {
                Ok(record) => Ok(self.push(record)),
                Err(error) => self.report(Some(&head), error, id),
            },
            other => Ok(other),
        }
    }

    /// Looks at the next candidate.
    pub fn examine(&mut self, head: &Head<'_>) -> Verdict {
        if self.query.limit == 0 {
            return Verdict::Stop;
        }
        if self.examined == MAX_EXAMINED || self.ahead == MAX_LOOK_AHEAD {
            return self.stop();
        }
        // What earlier pages have passed neither counts nor moves the next cursor back.
        if !self.is_behind_cursor(head) {
            return Verdict::Skip;
        }
        self.examined += 1;
        if self.admits(head) {
            // A full page looks for one more record, which tells whether there is a next page.
            return if self.is_full() && !self.query.has_conditions() { self.stop() } else { Verdict::Take };
        }
        self.pass(head.created_at, head.id);
        Verdict::Skip
    }

    /// Puts a candidate on the page that [`PageBuilder::examine`] wanted, if filter and text have it; `Skip` if not, `Stop` if
    /// the page is complete without it.
    pub fn push(&mut self, record: K::Record) -> Verdict {
        let (created_at, size) = (K::created_at(&record), K::size(&record));
        let wanted = self.query.has_content::<K>(&record);
        if wanted && self.skip == 0 {
            if self.is_full() || !self.records.is_empty() && self.bytes + size > self.query.page_bytes {
                return self.stop();
            }
            self.bytes += size;
            self.pass(created_at, K::id_bytes(&record));
            self.records.push(record);
            return Verdict::Take;
        }
        if wanted {
            self.skip -= 1;
        }
        self.ahead += usize::from(self.is_full());
        self.pass(created_at, K::id_bytes(&record));
        Verdict::Skip
    }

    /// The page, when a verdict was to stop or when there are no more candidates.
    pub fn finish(self) -> Result<K::Page> {
        let Self { query, key, last, skip, .. } = self;
        let last = last.filter(|_| self.goes_on);
        let next = last.map(|last| key.seal(&query.fingerprint, &last, skip)).transpose()?;
        Ok(K::page(self.records, self.unreadable, next))
    }

    /// Reports a row that can't be read; with its head if that was readable and [`PageBuilder::examine`] wanted it.
    fn report(&mut self, head: Option<&Head<'_>>, error: Error, id: impl FnOnce() -> String) -> Result<Verdict> {
        if error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        if self.is_full() {
            return Ok(self.stop());
        }
        if let Some(head) = head {
            self.pass(head.created_at, head.id);
        }
        self.unreadable.push(Unreadable { id: id(), reason: error.message().to_owned() });
        Ok(Verdict::Skip)
    }

    fn is_behind_cursor(&self, head: &Head<'_>) -> bool {
        self.after.as_ref().is_none_or(|after| {
            let after = (after.created_at, after.id.as_slice());
            compare(after, (head.created_at, head.id), self.query.order) == Ordering::Less
        })
    }

    /// Whether the query wants what the head tells.
    pub(crate) fn admits(&self, head: &Head<'_>) -> bool {
        !head.is_over && self.query.of.admits(head) && self.query.covers(head.space)
    }

    fn pass(&mut self, created_at: Timestamp, id: &[u8]) {
        match &mut self.last {
            Some(last) => {
                last.created_at = created_at;
                last.id.clear();
                last.id.extend_from_slice(id);
            }
            None => self.last = Some(Position { created_at, id: id.to_vec() }),
        }
    }

    fn is_full(&self) -> bool {
        self.records.len() == self.query.limit
    }

    fn stop(&mut self) -> Verdict {
        self.goes_on = true;
        Verdict::Stop
    }
}

impl<K> Query<K> {
    /// Whether a space is among those of the query and of its host.
    pub(crate) fn covers(&self, space: &str) -> bool {
        self.spaces.matches(space) && self.within.as_ref().is_none_or(|within| within.matches(space))
    }

    /// Whether filter and text have a record of any kind, which only its whole content tells.
    pub(crate) fn has_content<R: Selects>(&self, record: &R::Record) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(&R::subject(record))) && self.has_a_word::<R>(record)
    }

    /// Whether the record holds one of the words, if the query has a text (T2).
    fn has_a_word<R: Selects>(&self, record: &R::Record) -> bool {
        if self.text.is_none() {
            return true;
        }
        let (mut has_one, mut lower) = (false, String::new());
        let mut is_wanted = |word: words::Word<'_>| {
            word.lower_into(&mut lower);
            self.words.contains(lower.as_str())
        };
        R::each_text(record, &mut |text| has_one = has_one || words::found(text).any(&mut is_wanted));
        has_one
    }
}

impl<K: Selects> Query<K> {
    /// Whether it is a record that the query wants of its scope.
    pub(crate) fn wants(&self, record: &K::Record) -> bool {
        self.of.admits(&K::head(record)) && self.has_content::<K>(record)
    }
}

/// How records of the ledger and documents get onto pages. Implemented here only.
pub trait Selects: Kind {
    /// What the query finds.
    type Record: std::fmt::Debug + Send + Sync;
    /// What the query answers.
    type Page;

    /// Whether the candidate satisfies what only this kind of query asks.
    fn admits(&self, head: &Head<'_>) -> bool;
    /// What can be told of the record before its payload is read.
    fn head(record: &Self::Record) -> Head<'_>;
    /// When the record was created.
    fn created_at(record: &Self::Record) -> Timestamp;
    /// The bytes of its id.
    fn id_bytes(record: &Self::Record) -> &[u8];
    /// An id for people, as far as its bytes are one.
    fn shown_id(id: &[u8]) -> String;
    /// About how many bytes it has.
    fn size(record: &Self::Record) -> usize;
    /// What a filter sees of it.
    fn subject(record: &Self::Record) -> Subject<'_>;
    /// Calls `see` with each text that can be searched, in reading order.
    fn each_text(record: &Self::Record, see: &mut dyn FnMut(&str));
    /// The metadata, which may name container and speaker.
    fn metadata(record: &Self::Record) -> &Metadata;
    /// Puts a page together.
    fn page(records: Vec<Self::Record>, unreadable: Vec<Unreadable>, next: Option<Cursor>) -> Self::Page;
}

impl Selects for Ledger {
    type Record = Memory;
    type Page = MemoryPage;

    fn admits(&self, head: &Head<'_>) -> bool {
        let excluded = || {
            let id = <[u8; 16]>::try_from(head.id).map(MemoryId::from_bytes);
            id.is_ok_and(|id| self.exclude.contains(&id))
        };
        self.created_after.is_none_or(|after| head.created_at > after)
            && self.created_before.is_none_or(|before| head.created_at < before)
            && (self.statuses.is_empty() || head.status.is_some_and(|status| self.statuses.contains(&status)))
            && (self.exclude.is_empty() || !excluded())
    }

    fn head(memory: &Memory) -> Head<'_> {
        memory.head()
    }

    fn created_at(memory: &Memory) -> Timestamp {
        memory.created_at
    }

    fn id_bytes(memory: &Memory) -> &[u8] {
        memory.id.as_bytes()
    }

    fn shown_id(id: &[u8]) -> String {
        match <[u8; 16]>::try_from(id) {
            Ok(id) => MemoryId::from_bytes(id).to_string(),
            Err(_) => format!("{id:02x?}"),
        }
    }

    fn size(memory: &Memory) -> usize {
        memory.size()
    }

    fn subject(memory: &Memory) -> Subject<'_> {
        Subject::from(memory)
    }

    fn each_text(memory: &Memory, see: &mut dyn FnMut(&str)) {
        words::texts_of(&memory.trigger, memory.context.as_ref()).for_each(|text| see(&text));
    }

    fn metadata(memory: &Memory) -> &Metadata {
        &memory.metadata
    }

    fn page(memories: Vec<Memory>, unreadable: Vec<Unreadable>, next: Option<Cursor>) -> MemoryPage {
        MemoryPage { memories, unreadable, next }
    }
}

impl Selects for Documents {
    type Record = Document;
    type Page = DocumentPage;

    fn admits(&self, _: &Head<'_>) -> bool {
        true
    }

    fn head(document: &Document) -> Head<'_> {
        document.head()
    }

    fn created_at(document: &Document) -> Timestamp {
        document.created_at
    }

    fn id_bytes(document: &Document) -> &[u8] {
        document.id.as_str().as_bytes()
    }

    fn shown_id(id: &[u8]) -> String {
        String::from_utf8_lossy(id).into_owned()
    }

    fn size(document: &Document) -> usize {
        document.size()
    }

    fn subject(document: &Document) -> Subject<'_> {
        Subject::from(document)
    }

    fn each_text(document: &Document, see: &mut dyn FnMut(&str)) {
        see(document.content.as_str());
    }

    fn metadata(document: &Document) -> &Metadata {
        &document.metadata
    }

    fn page(documents: Vec<Document>, unreadable: Vec<Unreadable>, next: Option<Cursor>) -> DocumentPage {
        DocumentPage { documents, unreadable, next }
    }
}

impl Memory {
    /// What can be told of this memory before its payload is read. For engines.
    pub fn head(&self) -> Head<'_> {
        Head {
            id: self.id.as_bytes(),
            space: self.space_id.as_str(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            status: Some(self.status),
            expires_at: self.expires_at,
            is_over: false,
        }
    }
}

impl Document {
    /// What can be told of this document before its content is read. For engines.
    pub fn head(&self) -> Head<'_> {
        Head {
            id: self.id.as_str().as_bytes(),
            space: self.space_id.as_str(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            status: None,
            expires_at: self.expires_at,
            is_over: false,
        }
    }
}

/// The order of two records (Q4). For engines that have to sort.
pub fn compare_heads(left: &Head<'_>, right: &Head<'_>, order: Order) -> Ordering {
    compare((left.created_at, left.id), (right.created_at, right.id), order)
}

/// The one definition of the order: by createdAt, and then by the bytes of the id.
fn compare(left: (Timestamp, &[u8]), right: (Timestamp, &[u8]), order: Order) -> Ordering {
    let ascending = left.cmp(&right);
    match order {
        Order::OldestFirst => ascending,
        Order::NewestFirst => ascending.reverse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryQuery;

    #[test]
    fn a_status_that_cannot_be_read_satisfies_no_condition() {
        let head = Head {
            id: &[0; 16],
            space: "a",
            created_at: Timestamp::MIN,
            updated_at: None,
            status: None,
            expires_at: None,
            is_over: false,
        };
        let key = CursorKey::generate().expect("a key");
        let any = MemoryQuery::builder().all().build().expect("valid");
        assert_eq!(PageBuilder::new(&any, &key).expect("no cursor").examine(&head), Verdict::Take);
        let builder = Status::ALL.into_iter().fold(MemoryQuery::builder().all(), |query, status| query.status(status));
        let every = builder.build().expect("valid");
        assert_eq!(PageBuilder::new(&every, &key).expect("no cursor").examine(&head), Verdict::Skip);
    }
}
