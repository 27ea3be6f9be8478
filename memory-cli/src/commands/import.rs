//! `import`: JSON lines into the ledger and the documents, in batches.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use memory_core::{Document, DocumentStore, ErrorKind, Memory, MemoryId, MemoryProvider, NewMemory};

use super::exit_code;
use crate::input;
use crate::line::{self, Record};
use crate::line_reader::{Line, LineReader, MAX_LINE};
use crate::maiar;
use crate::output::{self, Output};
use crate::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file, or - for standard input; with --from maiar-postgres the URL of the database.
    #[arg(env = "AGENT_MEMORY_FROM", hide_env_values = true)]
    file: PathBuf,
    /// Read the tables of another program instead of JSON lines.
    #[arg(long, value_enum, value_name = "PROGRAM")]
    from: Option<Foreign>,
    /// Print "done: N" on standard error whenever the first N lines are safely stored, instead of a bar.
    #[arg(long)]
    progress: bool,
}

/// What else an import can read.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Foreign {
    /// The SQLite file of MAIAR
    MaiarSqlite,
    /// The PostgreSQL database of MAIAR
    MaiarPostgres,
}

/// How much goes into one batch.
const MAX_LINES: usize = 1_000;
const MAX_BYTES: usize = 8 << 20;

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &ImportArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let file = match args.from {
        Some(foreign) => Some(foreign.lines(&args.file).await?),
        None if args.file.as_os_str() == "-" => None,
        None => Some(input::open(&args.file)?),
    };
    let size = file.as_ref().map(|file| file.metadata()).transpose()?.map(|metadata| metadata.len());
    let source: Box<dyn BufRead> = match file {
        Some(file) => Box::new(BufReader::new(file)),
        None => Box::new(BufReader::new(io::stdin())),
    };
    let progress = Progress::new(size, args.progress);
    let result = load(provider, source, &progress).await;
    progress.finish();
    let summary = result?;
    output.value(
        &serde_json::json!({
            "lines": summary.lines,
            "written": summary.written,
            "unchanged": summary.unchanged(),
            "conflicts": summary.conflicts,
        }),
        format!(
            "imported {} lines: {} new, {} there already, {} in conflict",
            summary.lines,
            summary.written,
            summary.unchanged(),
            summary.conflicts
        ),
    )?;
    Ok(exit_code(summary.conflicts > 0))
}

impl Foreign {
    /// What the program holds, as JSON lines in a file without a name.
    async fn lines(self, place: &Path) -> anyhow::Result<File> {
        let mut file = tempfile::tempfile()?;
        let mut out = BufWriter::new(&file);
        match self {
            Self::MaiarSqlite => maiar::write_sqlite(place, &mut out)?,
            Self::MaiarPostgres => maiar::write_postgres(&place.to_string_lossy(), &mut out).await?,
        }
        out.flush()?;
        drop(out);
        file.rewind()?;
        Ok(file)
    }
}

/// What an import did.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Lines that hold something.
    pub(crate) lines: u64,
    /// Lines that were not there before.
    pub(crate) written: u64,
    /// Lines that differ from what is there.
    pub(crate) conflicts: u64,
}

impl Summary {
    /// Lines that were there already.
    fn unchanged(&self) -> u64 {
        self.lines - self.written - self.conflicts
    }
}

/// Imports all lines of a source.
pub(crate) async fn load(
    provider: &dyn MemoryProvider,
    source: impl BufRead,
    progress: &Progress,
) -> anyhow::Result<Summary> {
    let documents = provider.documents();
    let mut lines = LineReader::new(source);
    let mut summary = Summary::default();
    let mut read_bytes = 0;
    loop {
        let mut batch = Batch::default();
        while batch.lines < MAX_LINES && batch.bytes < MAX_BYTES {
            let next = lines.next().with_context(|| stopped(&summary, "the input can't be read"))?;
            let Some((number, line)) = next else { break };
            let record = match line {
                Line::Text(text) => {
                    batch.bytes += text.len() + 1;
                    line::parse(text)
                }
                Line::TooLong => Err(format!("longer than {MAX_LINE} bytes")),
            };
            match record {
                Ok(record) => batch.push(number, record),
                Err(reason) => bail!(stopped(&summary, &format!("line {number}: {reason}"))),
            }
        }
        if batch.lines == 0 {
            return Ok(summary);
        }
        read_bytes += batch.bytes as u64;
        let (size, first) = (batch.lines as u64, batch.first);
        let (written, conflicts) = batch
            .write(provider, &*documents, progress)
            .await
            .with_context(|| stopped(&summary, &format!("the batch that begins at line {first} failed")))?;
        summary.lines += size;
        summary.written += written;
        summary.conflicts += conflicts;
        progress.done(summary.lines, read_bytes);
    }
}

fn stopped(summary: &Summary, reason: &str) -> String {
    format!("{reason} ({} lines were imported before)", summary.lines)
}

/// Lines that are written together, by what becomes of them.
#[derive(Debug, Default)]
struct Batch {
    lines: usize,
    bytes: usize,
    first: u64,
    new: Numbered<NewMemory>,
    memories: Numbered<Memory>,
    documents: Numbered<Document>,
}

/// Records beside the numbers of their lines.
#[derive(Debug)]
struct Numbered<T> {
    numbers: Vec<u64>,
    records: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: Vec::new(), records: Vec::new() }
    }
}

impl<T> Numbered<T> {
    fn push(&mut self, number: u64, record: T) {
        self.numbers.push(number);
        self.records.push(record);
    }
}

impl Batch {
    fn push(&mut self, number: u64, record: Record) {
        if self.lines == 0 {
            self.first = number;
        }
        self.lines += 1;
        match record {
            Record::New(memory) => self.new.push(number, memory),
            Record::Memory(memory) => self.memories.push(number, memory),
            Record::Document(document) => self.documents.push(number, document),
        }
    }

    /// Writes the batch; tells how many lines were new and how many in conflict.
    async fn write(
        self,
        provider: &dyn MemoryProvider,
        documents: &dyn DocumentStore,
        progress: &Progress,
    ) -> memory_core::Result<(u64, u64)> {
        let (mut written, mut conflicts) = (0, 0);
        if !self.new.records.is_empty() {
            let (new, refused) = store(provider, self.new, progress).await?;
            written += new;
            conflicts += refused;
        }
        if !self.memories.records.is_empty() {
            let Numbered { numbers, records } = self.memories;
            let ids: Vec<_> = records.iter().map(|memory| memory.id).collect();
            let report = provider.restore(records).await?;
            written += report.written as u64;
            conflicts += report.conflicts.len() as u64;
            for place in report.conflicts {
                progress.note(&conflict(numbers[place], &format!("the memory {}", ids[place])));
            }
        }
        if !self.documents.records.is_empty() {
            let Numbered { numbers, records } = self.documents;
            let ids: Vec<_> = records.iter().map(|document| document.id.clone()).collect();
            let report = documents.restore(records).await?;
            written += report.written as u64;
            conflicts += report.conflicts.len() as u64;
            for place in report.conflicts {
                progress.note(&conflict(
                    numbers[place],
                    &format!("the document {}", output::printable(ids[place].as_str())),
                ));
            }
        }
        Ok((written, conflicts))
    }
}

/// Stores new memories at once; one by one when a key is taken, so that only its line stays out.
async fn store(
    provider: &dyn MemoryProvider,
    memories: Numbered<NewMemory>,
    progress: &Progress,
) -> memory_core::Result<(u64, u64)> {
    // Ids of this process ascend, so those above this one are new. Only the count relies on it: an import of the same lines
    // that runs at the same time may count a line too.
    let before = MemoryId::generate();
    let count = |mut ids: Vec<MemoryId>| {
        ids.sort_unstable();
        ids.dedup();
        ids.iter().filter(|id| **id > before).count() as u64
    };
    let Numbered { numbers, records } = memories;
    match provider.store_many(records.clone()).await {
        Ok(ids) => return Ok((count(ids), 0)),
        Err(error) if error.kind() == ErrorKind::Conflict => {}
        Err(error) => return Err(error),
    }
    let (mut ids, mut conflicts) = (Vec::new(), 0);
    for (number, memory) in numbers.into_iter().zip(records) {
        match provider.store(memory).await {
            Ok(id) => ids.push(id),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                conflicts += 1;
                progress.note(&format!("error: line {number}: {}", error.message()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((count(ids), conflicts))
}

fn conflict(number: u64, record: &str) -> String {
    format!("error: line {number}: {record} is there and differs, or another has its key; it stays as it is")
}
