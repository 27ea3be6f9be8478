//! `watch`: prints changes as they happen.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use futures::StreamExt as _;
use memory_core::{
    Change, ChangeKind, Collection, Collections, Error, ErrorKind, MemoryProvider, Record, RecordId, Unreadable, Watch,
};
use serde::Serialize;

use crate::args::{self, LedgerArgs, SpaceArgs, values};
use crate::line_writer::{LineWriter, reader_left};
use crate::output::{self, Output, date, preview, printable};
use crate::serve::rest::changes::ChangeBody;
use crate::serve::watching::{WatchedName, begins};
use crate::signal;
use crate::usage::Usage;

#[derive(Debug, Args)]
#[command(group(SpaceArgs::required()))]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    spaces: SpaceArgs,
    #[command(flatten)]
    conditions: LedgerArgs,
    /// Only records that hold at least one word of this text.
    #[arg(long, allow_hyphen_values = true, help_heading = "Conditions")]
    text: Option<String>,
    /// The kinds of records to watch.
    #[arg(long, value_enum, default_value_t, help_heading = WATCH)]
    of: WatchedName,
    /// Only documents of this collection. Repeat it to accept several; by default all collections are watched.
    #[arg(long, value_name = "NAME", value_parser = values::collection, help_heading = WATCH)]
    collection: Vec<Collection>,
    /// Where to begin: now; start, to print all existing records before the changes; or the token of a change of the same watch, to
    /// continue after it.
    #[arg(long, value_name = "FROM", default_value = "now", allow_hyphen_values = true, help_heading = WATCH)]
    from: String,
}

const WATCH: &str = "Watch";

/// The JSON of a change.
#[derive(Serialize)]
struct Line<'a> {
    token: &'a str,
    #[serde(flatten)]
    change: ChangeBody,
}

impl WatchArgs {
    fn watch(&self) -> Result<Watch, Usage> {
        let names: BTreeSet<_> = self.collection.iter().cloned().collect();
        if self.of == WatchedName::Memories && !names.is_empty() {
            return Err(Usage(
                "--collection: collections hold documents, so it needs --of documents or --of both".into(),
            ));
        }
        let collections = if names.is_empty() { Collections::All } else { Collections::Named(names) };
        let mut query = self.conditions.query(&self.spaces);
        if let Some(text) = &self.text {
            query = query.text(text);
        }
        Ok(Watch::new(self.of.of(collections), query)?.from(begins(&self.from)))
    }
}

/// Prints changes until a signal comes or the reader of standard output leaves.
pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &WatchArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let (watch, is_json) = (args.watch()?, output.is_json());
    let signal = signal::asked_to_end()?;
    let lines = LineWriter::new().context("can't write to standard output")?;
    let written = lines.written();
    let telling = async {
        let told = tokio::select! {
            told = tell(provider, &watch, &lines, is_json) => told,
            () = reader_left() => Ok(()),
        };
        lines.finish().await?;
        told
    };
    tokio::select! {
        told = telling => told.map(|()| ExitCode::SUCCESS),
        () = signal => {
            // With --json, each line has the token already.
            let last = written.borrow().clone().filter(|_| !is_json);
            if let Some(token) = last {
                output::note(&format!("next: --from {token}"));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn tell(provider: &dyn MemoryProvider, watch: &Watch, lines: &LineWriter, is_json: bool) -> anyhow::Result<()> {
    let mut changes = provider.watch(watch).await.map_err(refused)?;
    while let Some(change) = changes.next().await {
        let Change { token, kind } = change.map_err(refused)?;
        let line = if is_json {
            let change = ChangeBody::new(kind, true);
            Some(serde_json::to_string(&Line { token: token.as_str(), change })?)
        } else {
            shown(kind)
        };
        if !lines.write(line, token.to_string()).await {
            break;
        }
    }
    Ok(())
}

/// The text of a change for people; `None` if it only reports the progress of the watch.
fn shown(kind: ChangeKind) -> Option<String> {
    Some(match kind {
        ChangeKind::Stored(record) => format!("stored     {}", of_record(&record)),
        ChangeKind::Updated(record) => format!("updated    {}", of_record(&record)),
        ChangeKind::Removed(id) => format!("removed    {}", of_id(&id)),
        ChangeKind::Erased(id) => format!("erased     {}", of_id(&id)),
        ChangeKind::Left(id) => format!("left       {}", of_id(&id)),
        ChangeKind::Unreadable(Unreadable { id, reason }) => format!("unreadable {}: {reason}", printable(&id)),
        _ => return None,
    })
}

fn of_record(record: &Record) -> String {
    let mut text = of_id(&record.id());
    let (created, space, rest) = match record {
        Record::Memory(memory) => {
            (memory.created_at, &memory.space_id, format!("{} {}", memory.status, preview(memory.trigger.as_str())))
        }
        Record::Document(document) => (document.created_at, &document.space_id, preview(document.content.as_str())),
    };
    // Writing into a String can't fail.
    let _ = write!(text, " {} {space} {rest}", date(created));
    text
}

fn of_id(id: &RecordId) -> String {
    match id {
        RecordId::Memory(id) => id.to_string(),
        RecordId::Document { collection, id } => format!("{collection}/{}", printable(id.as_str())),
    }
}

/// The error of a watch, with what to do if the feed has lost the changes after the token.
fn refused(error: Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::FeedReset => {
            error.with_message("the feed has lost the changes after this token: begin again with --from start").into()
        }
        _ => args::refused(error),
    }
}
