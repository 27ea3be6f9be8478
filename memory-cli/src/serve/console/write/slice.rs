//! The records that one step takes of a selection.

use maud::Markup;
use memory_core::{
    Cursor, DocumentId, Documents, Ledger, MAX_ERASED, MAX_REMOVED_BYTES, MemoryId, Order, QueryBuilder,
};
use sha2::{Digest as _, Sha256};

use super::seen::{digest, hex};
use crate::serve::console::entry::{Entry, line};
use crate::serve::console::visitor::Visitor;
use crate::serve::problem::Problem;

/// The most records of a step.
pub(super) const STEP: usize = MAX_ERASED;
/// How many pages a step reads at most, since a page may be short where it looks at much.
const MAX_PAGES: usize = 10;
/// How many of the records are shown.
const SHOWN: usize = 10;

/// The oldest records of a selection.
#[derive(Debug)]
pub(super) struct Slice<I> {
    pub(super) ids: Vec<I>,
    /// The first of them, each on a line.
    pub(super) shown: Vec<Markup>,
    /// Whether the selection may have more.
    pub(super) goes_on: bool,
    /// How many bytes the records have, with the first that it does not take.
    bytes: usize,
    /// What tells these records, as they are, from all others.
    hash: Sha256,
    /// How many records were met that can't be read.
    pub(super) unreadable: usize,
}

impl Slice<MemoryId> {
    pub(super) async fn of_memories(visitor: &Visitor, query: QueryBuilder<Ledger>) -> Result<Self, Problem> {
        let mut slice = Self::empty();
        let mut query = query.order(Order::OldestFirst).limit(STEP);
        for _ in 0..MAX_PAGES {
            let page = visitor.server.provider.query(&query.clone().build()?).await?;
            let seen = page.memories.iter().map(|memory| {
                let named = format!("{} {}", memory.id, memory.revision);
                (memory.id, memory.size(), named, memory)
            });
            slice.add(seen, page.unreadable.len());
            match slice.next(page.next) {
                Some(next) => query = query.cursor(next.as_str()),
                None => return Ok(slice),
            }
        }
        Ok(Self { goes_on: true, ..slice })
    }
}

impl Slice<DocumentId> {
    pub(super) async fn of_documents(visitor: &Visitor, query: QueryBuilder<Documents>) -> Result<Self, Problem> {
        let mut slice = Self::empty();
        let mut query = query.order(Order::OldestFirst).limit(STEP);
        for _ in 0..MAX_PAGES {
            let page = visitor.server.documents.query(&query.clone().build()?).await?;
            let seen = page.documents.iter().map(|document| {
                let named = format!("{} {} {}", document.id, document.revision, digest(document));
                (document.id.clone(), document.size(), named, document)
            });
            slice.add(seen, page.unreadable.len());
            match slice.next(page.next) {
                Some(next) => query = query.cursor(next.as_str()),
                None => return Ok(slice),
            }
        }
        Ok(Self { goes_on: true, ..slice })
    }
}

impl<I> Slice<I> {
    fn empty() -> Self {
        Self { ids: Vec::new(), shown: Vec::new(), goes_on: false, bytes: 0, hash: Sha256::new(), unreadable: 0 }
    }

    /// The text by which a form confirms these records: their number, and a hash of their names and states.
    pub(super) fn name(&self) -> String {
        let rest = if self.goes_on { "more" } else { "all" };
        format!("{}-{rest}-{}", self.ids.len(), hex(self.hash.clone()))
    }

    /// Adds what a page has found, each with its bytes and what tells it as it is from others, as far as one step takes it.
    fn add<'r, T: Entry + 'r>(&mut self, records: impl Iterator<Item = (I, usize, String, &'r T)>, unreadable: usize) {
        self.unreadable += unreadable;
        for (id, bytes, named, record) in records {
            self.bytes += bytes;
            if self.ids.len() == STEP || self.bytes > MAX_REMOVED_BYTES {
                self.goes_on = true;
                return;
            }
            if self.shown.len() < SHOWN {
                self.shown.push(line(record));
            }
            // No id has a line break.
            self.hash.update(named + "\n");
            self.ids.push(id);
        }
    }

    /// Where the search goes on, if it has to.
    fn next(&mut self, next: Option<Cursor>) -> Option<Cursor> {
        let next = next?;
        if self.ids.len() < STEP && !self.goes_on {
            return Some(next);
        }
        self.goes_on = true;
        None
    }
}
