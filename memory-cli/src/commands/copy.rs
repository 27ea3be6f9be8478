//! `copy`: memories and documents from one engine to another, verified afterwards.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use async_trait::async_trait;
use clap::Args;
use memory_core::{
    Cursor, Document, DocumentQuery, DocumentStore, Documents, Ledger, MAX_LIMIT, Memory, MemoryProvider, Order, Query,
    QueryBuilder, RestoreReport, Result, Selects, Unreadable, compare_heads,
};
use sha2::{Digest, Sha256};

use super::exit_code;
use crate::args::{self, LedgerArgs, SpaceArgs};
use crate::engine;
use crate::line;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Where to: a URL as --url takes it.
    #[arg(long, value_name = "URL", env = "AGENT_MEMORY_TO", hide_env_values = true)]
    to: String,
    #[command(flatten)]
    spaces: SpaceArgs,
    #[command(flatten)]
    conditions: LedgerArgs,
    /// Also the documents that the spaces and --where select.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["after", "before", "status", "exclude"])]
    documents: bool,
    /// Print "done: N" on standard error whenever the first N records are safely there, instead of a bar.
    #[arg(long, help_heading = "Output")]
    progress: bool,
}

/// What became of the records.
#[derive(Debug, Default)]
struct Copied {
    memories: u64,
    documents: u64,
    /// How many were not there before.
    written: u64,
    /// How many the target has otherwise.
    conflicts: u64,
    /// How many can't be read in the source, and so are not in the target.
    unreadable: u64,
    /// The hashes of what the source has and of what the target has of it, as the lines of an export.
    source: Hash,
    target: Hash,
}

/// The hash of what is written to it.
#[derive(Debug, Default)]
struct Hash(Sha256);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Copied {
    fn records(&self) -> u64 {
        self.memories + self.documents
    }
}

pub(crate) async fn run(
    source: &dyn MemoryProvider,
    url: &str,
    args: &CopyArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    if args.to == url {
        return Err(Usage("--to: this is where the memories are already; see --url".to_owned()).into());
    }
    let target = engine::open(&args.to).await.map_err(|error| match error.downcast::<Usage>() {
        Ok(Usage(reason)) => Usage(reason.replacen("--url", "--to", 1)).into(),
        Err(error) => error,
    })?;
    let progress = Progress::new(None, args.progress);
    let result = copy(source, target.as_ref(), args, &progress).await;
    progress.finish();
    let closed = target.shutdown().await;
    let copied = result?;
    closed?;
    let (source, target) = (hex(copied.source), hex(copied.target));
    let is_equal = source == target;
    let verdict = match (is_equal, copied.unreadable) {
        (true, 0) => "the target has the same hash",
        (true, _) => "the target has the same hash without those",
        (false, _) => "the target differs: copy again",
    };
    output.value(
        &serde_json::json!({
            "memories": copied.memories,
            "documents": copied.documents,
            "written": copied.written,
            "conflicts": copied.conflicts,
            "unreadable": copied.unreadable,
            "verified": is_equal && copied.unreadable == 0,
            "sha256": source,
        }),
        format!(
            "copied {} memories and {} documents: {} new, {} in conflict, {} can't be read; {verdict}",
            copied.memories, copied.documents, copied.written, copied.conflicts, copied.unreadable
        ),
    )?;
    Ok(exit_code(!is_equal || copied.conflicts > 0 || copied.unreadable > 0))
}

async fn copy(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    args: &CopyArgs,
    progress: &Progress,
) -> anyhow::Result<Copied> {
    let mut copied = Copied::default();
    let query = args.conditions.query(&args.spaces);
    copied.memories = transfer::<Ledger, _>(&source, &target, &query, progress, &mut copied).await?;
    verify::<Ledger, _>(&source, &target, &query, progress, &mut copied).await?;
    let is_everything = args.spaces.is_empty() && args.conditions.is_empty();
    if is_everything || args.documents {
        let (source, target) = (source.documents(), target.documents());
        let (source, target) = (&*source, &*target);
        for collection in source.collections().await? {
            let query = args.spaces.apply(DocumentQuery::builder(collection));
            let query = args::with_filter(query, args.conditions.filter());
            copied.documents += transfer::<Documents, _>(&source, &target, &query, progress, &mut copied).await?;
            verify::<Documents, _>(&source, &target, &query, progress, &mut copied).await?;
        }
    }
    Ok(copied)
}

/// One of the engines, as the home of one kind of records.
#[async_trait]
trait Home<K: Selects>: Sync {
    async fn page(&self, query: &Query<K>) -> Result<(Vec<K::Record>, Vec<Unreadable>, Option<Cursor>)>;
    async fn restore(&self, records: Vec<K::Record>) -> Result<RestoreReport>;
    /// What a record is called in a sentence.
    fn name(record: &K::Record) -> String;
    /// Writes a record as export does.
    fn write(record: &K::Record, out: &mut dyn Write) -> io::Result<()>;
}

#[async_trait]
impl Home<Ledger> for &dyn MemoryProvider {
    async fn page(&self, query: &Query<Ledger>) -> Result<(Vec<Memory>, Vec<Unreadable>, Option<Cursor>)> {
        let page = self.query(query).await?;
        Ok((page.memories, page.unreadable, page.next))
    }

    async fn restore(&self, records: Vec<Memory>) -> Result<RestoreReport> {
        MemoryProvider::restore(*self, records).await
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
    async fn page(&self, query: &Query<Documents>) -> Result<(Vec<Document>, Vec<Unreadable>, Option<Cursor>)> {
        let page = self.query(query).await?;
        Ok((page.documents, page.unreadable, page.next))
    }

    async fn restore(&self, records: Vec<Document>) -> Result<RestoreReport> {
        DocumentStore::restore(*self, records).await
    }

    fn name(document: &Document) -> String {
        format!("the document {}", output::printable(document.id.as_str()))
    }

    fn write(document: &Document, mut out: &mut dyn Write) -> io::Result<()> {
        line::write_document(&mut out, document)
    }
}

/// Writes what a query finds into the target, page by page, and tells how many there are. What is there already stays, so that
/// a copy that was interrupted goes on when it is repeated.
async fn transfer<K, H>(
    source: &H,
    target: &H,
    query: &QueryBuilder<K>,
    progress: &Progress,
    copied: &mut Copied,
) -> anyhow::Result<u64>
where
    K: Selects + Clone,
    H: Home<K>,
{
    let before = copied.records();
    let (mut walk, mut done) = (Walk::new(query), 0);
    while let Some(unreadable) = walk.next_page(source).await? {
        output::report_unreadable("record", &unreadable);
        copied.unreadable += unreadable.len() as u64;
        let records = Vec::from(std::mem::take(&mut walk.records));
        let names: Vec<_> = records.iter().map(H::name).collect();
        let report = target.restore(records).await?;
        for place in &report.conflicts {
            progress.note(&format!("error: {} is there and differs; it stays as it is", names[*place]));
        }
        copied.written += report.written as u64;
        copied.conflicts += report.conflicts.len() as u64;
        done += names.len() as u64;
        progress.done(before + done, 0);
    }
    Ok(done)
}

/// Walks both engines side by side and hashes what the source has, on either side. What only the target has does not count.
async fn verify<K, H>(
    source: &H,
    target: &H,
    query: &QueryBuilder<K>,
    progress: &Progress,
    copied: &mut Copied,
) -> anyhow::Result<()>
where
    K: Selects + Clone,
    H: Home<K>,
{
    let (mut from, mut to, mut verified) = (Walk::new(query), Walk::new(query), 0);
    while let Some(record) = from.next(source).await? {
        H::write(&record, &mut copied.source)?;
        while let Some(other) = to.peek(target).await? {
            match compare_heads(&K::head(other), &K::head(&record), Order::OldestFirst) {
                Ordering::Less => drop(to.records.pop_front()),
                Ordering::Equal => {
                    H::write(other, &mut copied.target)?;
                    break;
                }
                Ordering::Greater => break,
            }
        }
        verified += 1;
        if verified % MAX_LIMIT as u64 == 0 {
            progress.verified(verified);
        }
    }
    Ok(())
}

/// What a query finds, the oldest first, one page in memory.
struct Walk<K: Selects> {
    query: QueryBuilder<K>,
    records: VecDeque<K::Record>,
    cursor: Option<Cursor>,
    has_begun: bool,
}

impl<K: Selects + Clone> Walk<K> {
    fn new(query: &QueryBuilder<K>) -> Self {
        let query = query.clone().order(Order::OldestFirst).limit(MAX_LIMIT);
        Self { query, records: VecDeque::new(), cursor: None, has_begun: false }
    }

    /// Reads the next page and tells what of it can't be read; `None` at the end.
    async fn next_page(&mut self, home: &impl Home<K>) -> anyhow::Result<Option<Vec<Unreadable>>> {
        let mut query = self.query.clone();
        match (&self.cursor, self.has_begun) {
            (Some(cursor), _) => query = query.cursor(cursor),
            (None, true) => return Ok(None),
            (None, false) => self.has_begun = true,
        }
        let (records, unreadable, next) = home.page(&args::build(query)?).await?;
        self.records.extend(records);
        self.cursor = next;
        Ok(Some(unreadable))
    }

    async fn peek(&mut self, home: &impl Home<K>) -> anyhow::Result<Option<&K::Record>> {
        while self.records.is_empty() {
            if self.next_page(home).await?.is_none() {
                return Ok(None);
            }
        }
        Ok(self.records.front())
    }

    async fn next(&mut self, home: &impl Home<K>) -> anyhow::Result<Option<K::Record>> {
        self.peek(home).await?;
        Ok(self.records.pop_front())
    }
}

fn hex(hash: Hash) -> String {
    hash.0.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing into a String can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
