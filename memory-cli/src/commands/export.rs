//! `export`: writes the ledger and the documents as JSON lines.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use memory_core::{Collection, DocumentQuery, MAX_LIMIT, MemoryProvider, Order, Record, RecordId, Vector};
use tempfile::NamedTempFile;

use super::exit_code;
use crate::args::{self, LedgerArgs, SpaceArgs};
use crate::collections::is_copied;
use crate::input;
use crate::line;
use crate::output::{self, Output, OutputFailed};
use crate::progress::Progress;
use crate::tombstones;
use crate::vectors;
use crate::versions::Versions;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    spaces: SpaceArgs,
    #[command(flatten)]
    conditions: LedgerArgs,
    /// Export at most this many memories.
    #[arg(long, value_name = "N", help_heading = "Output")]
    limit: Option<u64>,
    /// Also the documents that the spaces and --where select.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["after", "before", "status", "exclude", "limit"])]
    documents: bool,
    /// Write the versions of each record instead of the record, oldest first, with the time and the actor of each. An import restores them.
    #[arg(long, help_heading = "Output")]
    history: bool,
    /// Leave out the vectors and their model; embed can make them again.
    #[arg(long, help_heading = "Output")]
    without_vectors: bool,
    /// Write to this file, atomically when the export is complete, instead of standard output (-).
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
}

impl ExportArgs {
    fn output_file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| path.as_os_str() != "-")
    }
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &ExportArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let Some(path) = args.output_file() else {
        let written = write(provider, args, output, |error| OutputFailed::new(error).into()).await?;
        return Ok(exit_code(written.has_unreadable));
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.exists() && !path.is_file() {
        bail!("{} is not a file; name one to write to", input::name(path));
    }
    // The system's message about a missing folder would quote its name.
    if !folder.is_dir() {
        bail!("can't write in {}: it is no folder", input::name(folder));
    }
    // The file gets its name when it is complete, so that a reader never sees half an export.
    let file = NamedTempFile::new_in(folder).with_context(|| format!("can't write in {}", input::name(folder)))?;
    let mut out = BufWriter::new(file);
    let failed = |error| anyhow::Error::new(error).context(format!("can't write {}", input::name(path)));
    let written = write(provider, args, &mut out, failed).await?;
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    output.value(
        &serde_json::json!({
            "memories": written.memories,
            "documents": written.documents,
            "tombstones": written.tombstones,
            "vectors": written.vectors,
        }),
        format!("exported {} memories and {} documents", written.memories, written.documents),
    )?;
    Ok(exit_code(written.has_unreadable))
}

#[derive(Debug, Default)]
struct Written {
    memories: u64,
    documents: u64,
    /// The number of tombstones of erased records.
    tombstones: u64,
    /// The number of vectors.
    vectors: u64,
    has_unreadable: bool,
}

async fn write(
    provider: &dyn MemoryProvider,
    args: &ExportArgs,
    out: &mut impl Write,
    failed: impl Fn(std::io::Error) -> anyhow::Error,
) -> anyhow::Result<Written> {
    let is_everything = args.spaces.is_empty() && args.conditions.is_empty() && args.limit.is_none();
    let mut written = Written::default();
    // A bar would mix with the lines if both go to the terminal.
    let progress = if args.output_file().is_some() { Progress::new(None, false) } else { Progress::Quiet };
    let model = if args.without_vectors { None } else { provider.vector_model().await? };
    if let Some(model) = &model {
        line::write_vector_model(out, model).map_err(&failed)?;
    }
    // Tombstones can be selected only by spaces.
    if args.conditions.is_empty() && args.limit.is_none() {
        let has_documents = is_everything || args.documents;
        tombstones::visit(provider, &args.spaces.spaces(), async |some, key| {
            for tombstone in some {
                if has_documents || matches!(tombstone.record, RecordId::Memory(_)) {
                    line::write_tombstone(out, &tombstone, key).map_err(&failed)?;
                    written.tombstones += 1;
                }
            }
            Ok(())
        })
        .await?;
    }
    let query = args.conditions.query(&args.spaces).order(Order::OldestFirst);
    let mut cursor = None;
    loop {
        let left = args.limit.map_or(u64::MAX, |limit| limit - written.memories);
        let page_limit = usize::try_from(left).unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
        let mut page_query = query.clone().limit(page_limit);
        if let Some(cursor) = &cursor {
            page_query = page_query.cursor(cursor);
        }
        let page = provider.query(&args::build(page_query)?).await?;
        written.memories += page.memories.len() as u64;
        let records = page.memories.into_iter().map(Record::Memory).collect();
        write_records(provider, args, records, model.is_some(), out, &failed, &mut written).await?;
        written.has_unreadable |= output::report_unreadable("memory", &page.unreadable);
        progress.done(written.memories, 0);
        cursor = page.next;
        if cursor.is_none() || args.limit.is_some_and(|limit| written.memories >= limit) {
            break;
        }
    }
    if is_everything || args.documents {
        for collection in provider.documents().collections().await?.into_iter().filter(is_copied) {
            write_documents(provider, args, collection, model.is_some(), out, &failed, &mut written).await?;
        }
    }
    progress.finish();
    out.flush().map_err(failed)?;
    Ok(written)
}

async fn write_documents(
    provider: &dyn MemoryProvider,
    args: &ExportArgs,
    collection: Collection,
    has_vectors: bool,
    out: &mut impl Write,
    failed: impl Fn(std::io::Error) -> anyhow::Error,
    written: &mut Written,
) -> anyhow::Result<()> {
    let documents = provider.documents();
    let query = args.spaces.apply(DocumentQuery::builder(collection)).order(Order::OldestFirst).limit(MAX_LIMIT);
    let query = args::with_filter(query, args.conditions.filter());
    let mut page_query = query.clone();
    loop {
        let page = documents.query(&args::build(page_query)?).await?;
        written.documents += page.documents.len() as u64;
        let records = page.documents.into_iter().map(Record::Document).collect();
        write_records(provider, args, records, has_vectors, out, &failed, written).await?;
        written.has_unreadable |= output::report_unreadable("document", &page.unreadable);
        match page.next {
            Some(cursor) => page_query = query.clone().cursor(cursor),
            None => return Ok(()),
        }
    }
}

/// Writes the records of a page with their vectors.
async fn write_records(
    provider: &dyn MemoryProvider,
    args: &ExportArgs,
    records: Vec<Record>,
    has_vectors: bool,
    out: &mut impl Write,
    failed: impl Fn(std::io::Error) -> anyhow::Error,
    written: &mut Written,
) -> anyhow::Result<()> {
    let mut vectors = match has_vectors {
        true => vectors::of_records(provider, &records).await?,
        false => Vec::new(),
    }
    .into_iter();
    for record in records {
        let vector = vectors.next().flatten();
        written.vectors += u64::from(vector.is_some());
        if args.history {
            write_versions(provider, &record, vector, out, &failed).await?;
            continue;
        }
        let mut line = Vec::new();
        match &record {
            Record::Memory(memory) => line::write_memory(&mut line, memory),
            Record::Document(document) => line::write_document(&mut line, document),
        }
        .map_err(&failed)?;
        if let Some(vector) = &vector {
            line::add_vector(&mut line, vector).map_err(&failed)?;
        }
        out.write_all(&line).map_err(&failed)?;
    }
    Ok(())
}

/// Writes the versions of a record, the last one with its vector.
async fn write_versions(
    provider: &dyn MemoryProvider,
    record: &Record,
    vector: Option<Vector>,
    out: &mut impl Write,
    failed: impl Fn(std::io::Error) -> anyhow::Error,
) -> anyhow::Result<()> {
    let mut versions = Versions::read(provider, record).await?;
    while let Some(mut line) = versions.next()? {
        if let Some(vector) = vector.as_ref().filter(|_| versions.is_empty()) {
            line::add_vector(&mut line, vector).map_err(&failed)?;
        }
        out.write_all(&line).map_err(&failed)?;
    }
    Ok(())
}
