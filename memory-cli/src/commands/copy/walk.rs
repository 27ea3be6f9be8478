//! Walks the records of an engine.

use std::collections::VecDeque;
use std::io::{self, Write};

use async_trait::async_trait;
use memory_core::{
    Cursor, Document, DocumentPage, DocumentStore, Documents, Ledger, MAX_LIMIT, Memory, MemoryPage, MemoryProvider,
    Order, Query, QueryBuilder, Record, RecordId, RestoreReport, Result, Revision, Selects, Unreadable,
};

use crate::args;
use crate::line;
use crate::output;

/// A walk over the records of a query, the oldest first, with one page in memory.
pub(super) struct Walk<K: Selects> {
    query: QueryBuilder<K>,
    pub(super) records: VecDeque<K::Record>,
    cursor: Option<Cursor>,
    has_begun: bool,
    /// The number of records that can't be read so far.
    pub(super) unreadable: u64,
}

impl<K: Selects + Clone> Walk<K> {
    pub(super) fn new(query: &QueryBuilder<K>) -> Self {
        let query = query.clone().order(Order::OldestFirst).limit(MAX_LIMIT);
        Self { query, records: VecDeque::new(), cursor: None, has_begun: false, unreadable: 0 }
    }

    /// Reads the next page and returns its unreadable records; `None` at the end.
    pub(super) async fn next_page(&mut self, home: &impl Home<K>) -> anyhow::Result<Option<Vec<Unreadable>>> {
        let mut query = self.query.clone();
        match (&self.cursor, self.has_begun) {
            (Some(cursor), _) => query = query.cursor(cursor),
            (None, true) => return Ok(None),
            (None, false) => self.has_begun = true,
        }
        let Page { records, unreadable, next } = home.page(&args::build(query)?).await?;
        self.records.extend(records);
        self.unreadable += unreadable.len() as u64;
        self.cursor = next;
        Ok(Some(unreadable))
    }

    pub(super) async fn peek(&mut self, home: &impl Home<K>) -> anyhow::Result<Option<&K::Record>> {
        while self.records.is_empty() {
            if self.next_page(home).await?.is_none() {
                return Ok(None);
            }
        }
        Ok(self.records.front())
    }

    pub(super) async fn next(&mut self, home: &impl Home<K>) -> anyhow::Result<Option<K::Record>> {
        self.peek(home).await?;
        Ok(self.records.pop_front())
    }
}

/// A page of records of one kind.
pub(super) struct Page<R> {
    records: Vec<R>,
    unreadable: Vec<Unreadable>,
    next: Option<Cursor>,
}

/// An engine's store of one kind of records.
#[async_trait]
pub(super) trait Home<K: Selects>: Sync {
    async fn page(&self, query: &Query<K>) -> Result<Page<K::Record>>;
    async fn restore(&self, records: Vec<K::Record>) -> Result<RestoreReport>;
    /// Wraps the record as one of any kind.
    fn record(record: K::Record) -> Record;
    /// Returns the id and the revision of the record.
    fn version(record: &K::Record) -> (RecordId, Revision);
    /// The name of a record in a sentence.
    fn name(record: &K::Record) -> String;
    /// Writes a record as an export line.
    fn write(record: &K::Record, out: &mut dyn Write) -> io::Result<()>;
}

#[async_trait]
impl Home<Ledger> for &dyn MemoryProvider {
    async fn page(&self, query: &Query<Ledger>) -> Result<Page<Memory>> {
        let MemoryPage { memories: records, unreadable, next } = self.query(query).await?;
        Ok(Page { records, unreadable, next })
    }

    async fn restore(&self, records: Vec<Memory>) -> Result<RestoreReport> {
        MemoryProvider::restore(*self, records).await
    }

    fn record(memory: Memory) -> Record {
        Record::Memory(memory)
    }

    fn version(memory: &Memory) -> (RecordId, Revision) {
        (memory.id.into(), memory.revision)
    }

    fn name(memory: &Memory) -> String {
        format!("the memory {}", memory.id)
    }

    fn write(memory: &Memory, mut out: &mut dyn Write) -> io::Result<()> {
        line::write_memory(&mut out, memory)
    }
}

#[async_trait]
impl Home<Documents> for &dyn DocumentStore {
    async fn page(&self, query: &Query<Documents>) -> Result<Page<Document>> {
        let DocumentPage { documents: records, unreadable, next } = self.query(query).await?;
        Ok(Page { records, unreadable, next })
    }

    async fn restore(&self, records: Vec<Document>) -> Result<RestoreReport> {
        DocumentStore::restore(*self, records).await
    }

    fn record(document: Document) -> Record {
        Record::Document(document)
    }

    fn version(document: &Document) -> (RecordId, Revision) {
        (document.into(), document.revision)
    }

    fn name(document: &Document) -> String {
        format!("the document {}", output::printable(document.id.as_str()))
    }

    fn write(document: &Document, mut out: &mut dyn Write) -> io::Result<()> {
        line::write_document(&mut out, document)
    }
}
