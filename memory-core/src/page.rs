//! Pages of query results, and the one implementation that decides what is on them.

use std::cmp::Ordering;

use crate::cursor::{Cursor, CursorKey, Opened, Position};
use crate::document::Document;
use crate::filter::Subject;
use crate::query::{DEFAULT_LIMIT, Documents, Kind, Ledger, Query};
use crate::{Error, ErrorKind, Memory, MemoryId, Metadata, Order, Result, Status, Timestamp, words};

/// Maximum number of candidates that a page examines (Q5).
pub const MAX_EXAMINED: usize = 100_000;
/// Maximum number of further candidates that a full page reads to find out whether another one matches its filter and
/// text (Q5).
pub const MAX_LOOK_AHEAD: usize = 1_000;

/// A page of the memories that match a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryPage {
    /// The memories, in the order of the query.
    pub memories: Vec<Memory>,
    /// Rows that can't be read, and that match as far as can be told (Q8).
    pub unreadable: Vec<Unreadable>,
    /// The cursor of the next page. A page may be short or empty and still have one; only a page without a cursor is
    /// the last.
    pub next: Option<Cursor>,
}

/// A page of the documents that match a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DocumentPage {
    /// The documents, in the order of the query.
    pub documents: Vec<Document>,
    /// Documents that can't be read, and that match as far as can be told (Q8).
    pub unreadable: Vec<Unreadable>,
    /// The cursor of the next page. A page may be short or empty and still have one; only a page without a cursor is
    /// the last.
    pub next: Option<Cursor>,
}

/// A stored row that is not a valid record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The id, as far as it can be read.
    pub id: String,
    /// What is wrong with the row; never quotes its payload.
    pub reason: String,
}

/// The fields of a candidate that an engine knows before it reads the payload.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The bytes of the id.
    pub id: &'a [u8],
    /// The space that the record lies in.
    pub space: &'a str,
    /// The creation time, as the caller gave it.
    pub created_at: Timestamp,
    /// The time of the last change; `None` if there was none.
    pub updated_at: Option<Timestamp>,
    /// The status; `None` for documents and for a status that can't be read. Such a candidate matches no status
    /// condition.
    pub status: Option<Status>,
    /// The record's own expiry time; retention rules are not part of it.
    pub expires_at: Option<Timestamp>,
    /// Whether the record has expired, so that no call shows it (X1). An engine sets `false`;
    /// [`Provider`](crate::engine::Provider) decides.
    pub is_over: bool,
}

/// What an engine does next with a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate is not on the page: continue with the next one.
    Skip,
    /// Read the record and push it.
    Take,
    /// The page is complete: read no more candidates.
    Stop,
}

/// Builds a page out of candidates. An engine offers a superset of the matches in the order of the query; the builder
/// decides what is on the page, where the page ends and where the next one begins. For engines.
#[derive(Debug)]
pub struct PageBuilder<'q, K: Selects> {
    query: &'q Query<K>,
    key: &'q CursorKey,
    /// Where the previous page ended.
    after: Option<Position>,
    records: Vec<K::Record>,
    unreadable: Vec<Unreadable>,
    bytes: usize,
    examined: usize,
    /// Number of candidates that were read and not taken since the page was full.
    ahead: usize,
    skip: usize,
    last: Option<Position>,
    /// Whether another page follows, from `last` on.
    goes_on: bool,
}

impl<'q, K: Selects> PageBuilder<'q, K> {
    /// Makes an empty page of this query in the namespace with this key. `InvalidInput` if the query's cursor belongs
    /// to another query or namespace (Q6).
    pub fn new(query: &'q Query<K>, key: &'q CursorKey) -> Result<Self> {
        let (after, skip) = match &query.cursor {
            Some(cursor) => {
                let Opened { after, skip } = key.open(cursor, &query.fingerprint)?;
                (Some(after), skip)
            }
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

    /// Returns whether it has examined [`MAX_EXAMINED`] candidates.
    pub(crate) fn is_spent(&self) -> bool {
        self.examined == MAX_EXAMINED
    }

    /// Returns the position of the record after which the page begins; `None` for the first page.
    pub fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    /// Offers a stored row: its head, a function that reads the record if it is needed, and one that gives the id, as
    /// far as it is readable, of a damaged row. A damaged row is reported and hides no other (Q8); any other error
    /// fails the query.
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

    /// Examines the next candidate by its head.
    pub fn examine(&mut self, head: &Head<'_>) -> Verdict {
        if self.query.limit == 0 {
            return Verdict::Stop;
        }
        if self.examined == MAX_EXAMINED || self.ahead == MAX_LOOK_AHEAD {
            return self.stop();
        }
        // Candidates of earlier pages don't count and don't move the next cursor back.
        if !self.is_behind_cursor(head) {
            return Verdict::Skip;
        }
        self.examined += 1;
        if self.admits(head) {
            // A full page looks for one more match, which tells whether another page follows.
            return if self.is_full() && !self.query.has_conditions() { self.stop() } else { Verdict::Take };
        }
        self.pass(head.created_at, head.id);
        Verdict::Skip
    }

    /// Adds a record that [`PageBuilder::examine`] wanted, if it matches filter and text: `Skip` if it does not, `Stop`
    /// if the page is complete without it.
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

    /// Returns the page, after a `Stop` or after the last candidate.
    pub fn finish(self) -> Result<K::Page> {
        let Self { query, key, last, skip, .. } = self;
        let last = last.filter(|_| self.goes_on);
        let next = last.map(|last| key.seal(&query.fingerprint, &last, skip)).transpose()?;
        Ok(K::page(self.records, self.unreadable, next))
    }

    /// Reports a row that can't be read. It comes with its head if that was readable and [`PageBuilder::examine`]
    /// wanted it.
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

    /// Returns whether the query admits a candidate, as far as its head tells.
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
    /// Returns whether a space is among those of the query and within those of its host.
    pub(crate) fn covers(&self, space: &str) -> bool {
        self.spaces.matches(space) && self.within.as_ref().is_none_or(|within| within.matches(space))
    }

    /// Returns whether a record of any kind matches filter and text, which need the whole record.
    pub(crate) fn has_content<R: Selects>(&self, record: &R::Record) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(&R::subject(record))) && self.has_a_word::<R>(record)
    }

    /// Returns whether the record holds one of the query's words, or the query has no text (T2).
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
    /// Returns whether a record in the query's spaces matches all its other conditions.
    pub(crate) fn wants(&self, record: &K::Record) -> bool {
        self.of.admits(&K::head(record)) && self.has_content::<K>(record)
    }
}

/// How a query handles the records of its kind. Sealed.
pub trait Selects: Kind {
    /// The type of a matching record.
    type Record: std::fmt::Debug + Send + Sync;
    /// The type of a page.
    type Page;

    /// Returns whether a candidate satisfies the conditions that only this kind of query has.
    fn admits(&self, head: &Head<'_>) -> bool;
    /// Returns the head of a record.
    fn head(record: &Self::Record) -> Head<'_>;
    /// Returns the creation time of a record.
    fn created_at(record: &Self::Record) -> Timestamp;
    /// Returns the bytes of a record's id.
    fn id_bytes(record: &Self::Record) -> &[u8];
    /// Formats the bytes of an id for people, also if they are no valid id.
    fn shown_id(id: &[u8]) -> String;
    /// Returns about how many bytes a record has.
    fn size(record: &Self::Record) -> usize;
    /// Returns the view of a record that filters use.
    fn subject(record: &Self::Record) -> Subject<'_>;
    /// Calls `see` with each searchable text, in reading order.
    fn each_text(record: &Self::Record, see: &mut dyn FnMut(&str));
    /// Returns a record's metadata, which may name its container and speaker.
    fn metadata(record: &Self::Record) -> &Metadata;
    /// Assembles a page.
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
    /// Returns the fields that are known before the payload is read. For engines.
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
    /// Returns the fields that are known before the content is read. For engines.
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

/// Compares two records in the order of a query (Q4). For engines that sort.
pub fn compare_heads(left: &Head<'_>, right: &Head<'_>, order: Order) -> Ordering {
    compare((left.created_at, left.id), (right.created_at, right.id), order)
}

/// The one definition of the order: createdAt, then the bytes of the id.
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
