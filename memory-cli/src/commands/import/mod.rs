//! `import`: imports JSON lines, or the records of another program, in batches.

mod batch;
mod source;

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use memory_core::MemoryProvider;

use self::batch::{Batch, Written};
use self::source::Item;
pub(crate) use self::source::Source;
use super::exit_code;
use crate::input;
use crate::line::Record;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::vectors::{self, VectorWriter};

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file, or - for standard input; with --from maiar the URL of its database.
    #[arg(env = "AGENT_MEMORY_FROM", hide_env_values = true)]
    file: PathBuf,
    /// Read the database of another program instead of JSON lines.
    #[arg(long, value_enum, value_name = "PROGRAM")]
    from: Option<Foreign>,
    /// Print "done: N" on standard error when the first N lines are stored, instead of a bar.
    #[arg(long)]
    progress: bool,
}

/// Another program whose database an import can read.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Foreign {
    /// The database of MAIAR, by its URL
    Maiar,
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &ImportArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let (source, size) = match args.from {
        Some(Foreign::Maiar) => (Source::maiar(&args.file.to_string_lossy())?, None),
        None if args.file.as_os_str() == "-" => (Source::lines(BufReader::new(io::stdin())), None),
        None => {
            let file = input::open(&args.file)?;
            let size = file.metadata()?.len();
            (Source::lines(BufReader::new(file)), Some(size))
        }
    };
    let progress = Progress::new(size, args.progress);
    let result = load(provider, source, &progress).await;
    progress.finish();
    let summary = result?;
    let left_out = match summary.erased {
        0 => String::new(),
        count => format!(", {count} left out, which were erased"),
    };
    let tombstones = match summary.tombstones {
        0 => String::new(),
        count => format!(", {count} tombstones"),
    };
    let vectors = vectors::told(summary.vectors, summary.vectors_left_out);
    output.value(
        &serde_json::json!({
            "lines": summary.lines,
            "written": summary.written,
            "unchanged": summary.unchanged(),
            "conflicts": summary.conflicts,
            "erased": summary.erased,
            "tombstones": summary.tombstones,
            "vectors": summary.vectors,
            "vectorsLeftOut": summary.vectors_left_out,
        }),
        format!(
            "imported {} lines: {} new, {} there already, {} in conflict{tombstones}{left_out}{vectors}",
            summary.lines,
            summary.written,
            summary.unchanged(),
            summary.conflicts
        ),
    )?;
    Ok(exit_code(summary.conflicts > 0))
}

/// The result of an import.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Lines that are not blank.
    pub(crate) lines: u64,
    /// Lines of new records.
    pub(crate) written: u64,
    /// Lines of records that differ from existing ones.
    pub(crate) conflicts: u64,
    /// Lines of records that were erased before or have expired, and are left out.
    pub(crate) erased: u64,
    /// Lines of new tombstones.
    pub(crate) tombstones: u64,
    /// Vectors that were stored.
    pub(crate) vectors: u64,
    /// Vectors that were left out, since the database has another model or does not support vectors.
    pub(crate) vectors_left_out: u64,
}

impl Summary {
    /// Lines of records that existed already, unchanged.
    fn unchanged(&self) -> u64 {
        self.lines - self.written - self.conflicts - self.erased - self.tombstones
    }
}

/// Imports all records of a source.
pub(crate) async fn load(
    provider: &dyn MemoryProvider,
    mut source: Source<'_>,
    progress: &Progress,
) -> anyhow::Result<Summary> {
    let documents = provider.documents();
    let (mut summary, mut vectors) = (Summary::default(), VectorWriter::default());
    let (mut read_bytes, mut last) = (0, None);
    loop {
        let mut batch = Batch::behind(last.take());
        while !batch.is_full() {
            match source.next().await {
                // Not counted as a record: the line describes the vectors of the following lines.
                Ok(Some(Item { number, record: Record::VectorModel(model), .. })) => {
                    if vectors.model().is_some_and(|present| *present != model) {
                        bail!(stopped(&summary, &format!("line {number}: the earlier vectors are of another model")));
                    }
                    vectors.begin(provider, model, false).await?;
                }
                Ok(Some(Item { number, vector: Some(_), .. })) if vectors.model().is_none() => {
                    let reason = format!("line {number}: no earlier line names the model of the vector");
                    bail!(stopped(&summary, &reason));
                }
                Ok(Some(Item { number, bytes, record, vector })) => batch.push(number, bytes, record, vector),
                Ok(None) => break,
                Err(error) => bail!(stopped(&summary, &output::describe(&error))),
            }
        }
        if batch.lines == 0 {
            return Ok(summary);
        }
        read_bytes += batch.bytes as u64;
        let (size, first) = (batch.lines as u64, batch.first);
        last = batch.last_version();
        let Written { written, conflicts, erased, tombstones } = batch
            .write(provider, &*documents, &mut vectors, progress)
            .await
            .with_context(|| stopped(&summary, &format!("the batch that begins at line {first} failed")))?;
        summary.lines += size;
        summary.written += written;
        summary.conflicts += conflicts;
        summary.erased += erased;
        summary.tombstones += tombstones;
        (summary.vectors, summary.vectors_left_out) = (vectors.written, vectors.left_out);
        progress.done(summary.lines, read_bytes);
    }
}

fn stopped(summary: &Summary, reason: &str) -> String {
    format!("{reason} ({} lines were imported before)", summary.lines)
}
