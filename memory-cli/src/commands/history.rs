//! `history`: shows the versions of a record, with times and actors.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use memory_core::{History, MemoryId, MemoryProvider, Record, RecordId, Version};

use crate::args::{self, values};
use crate::output::{self, Output};
use crate::serve::rest::history::VersionBody;
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The id that store printed.
    #[arg(value_parser = values::memory_id)]
    id: MemoryId,
    #[command(flatten)]
    page: VersionArgs,
}

/// The options for showing versions.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Show what each version changed, instead of its content.
    #[arg(long)]
    diff: bool,
    /// The most versions, up to 1,000.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::limit)]
    limit: usize,
    /// Continue after a page of the same history.
    #[arg(long, allow_hyphen_values = true)]
    cursor: Option<String>,
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &HistoryArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    show(provider, History::of(args.id), &args.page, output).await
}

/// Shows one page of a history.
pub(super) async fn show(
    provider: &dyn MemoryProvider,
    history: History,
    args: &VersionArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let history = args.cursor.iter().fold(history, History::cursor).limit(args.limit).map_err(Usage::from)?;
    let page = provider.history(&history).await.map_err(args::refused)?;
    if page.versions.is_empty() && args.cursor.is_none() && args.limit > 0 {
        match history.record() {
            RecordId::Memory(id) => bail!("no memory has the id {id}"),
            RecordId::Document { collection, id } => {
                bail!("no document of the collection {collection} has the id {id}")
            }
        }
    }
    if output.is_json() {
        for version in page.versions {
            output.json(&VersionBody::from(version))?;
        }
    } else if args.diff {
        let older = match &page.next {
            Some(next) => provider.history(&history.clone().cursor(next).limit(1)?).await?.versions,
            None => Vec::new(),
        };
        let before = page.versions.iter().chain(&older).skip(1).map(Some).chain([None]);
        for (version, before) in page.versions.iter().zip(before) {
            difference(version, before, output)?;
        }
    } else {
        let mut table = output::table(&["revision", "committed", "by", "space", "status", "content"]);
        for version in &page.versions {
            let (space, status, content) = match &version.record {
                Some(Record::Memory(memory)) => {
                    let context = memory.context.as_ref().map_or("", |context| context.as_str());
                    (memory.space_id.as_str(), memory.status.as_str(), context)
                }
                Some(Record::Document(document)) => (document.space_id.as_str(), "", document.content.as_str()),
                None => ("", "removed", ""),
            };
            table.add_row([
                version.revision.to_string(),
                version.committed_at.map(output::date).unwrap_or_default(),
                version.actor.as_ref().map(|actor| output::printable(actor.as_str())).unwrap_or_default(),
                space.to_owned(),
                status.to_owned(),
                output::preview(content),
            ]);
        }
        output.table_or(&table, "no versions found")?;
    }
    output.flush()?;
    if let Some(cursor) = page.next {
        output::note(&format!("next: --cursor {cursor}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what a version changed; all fields if there is no version before.
fn difference(version: &Version, before: Option<&Version>, output: &mut Output) -> anyhow::Result<()> {
    let mut head = match &version.record {
        Some(_) => format!("revision {}", version.revision),
        None => format!("removed at revision {}", version.revision),
    };
    head.extend(version.committed_at.map(|time| format!(", {}", output::date(time))));
    head.extend(version.actor.as_ref().map(|actor| format!(", by {actor}")));
    output.line(output::printable(&head))?;
    let (after, before) = (fields(version), before.map(fields).unwrap_or_default());
    let value_in = |fields: &[(&'static str, String)], name| {
        fields.iter().find(|(other, _)| *other == name).map(|(_, value)| value.clone())
    };
    for name in ["space", "status", "metadata", "trigger", "context", "content"] {
        let (was, is) = (value_in(&before, name), value_in(&after, name));
        if was == is {
            continue;
        }
        for (sign, value) in [('-', was), ('+', is)] {
            if let Some(value) = value {
                output.line(format!("{sign} {name}: {}", output::printable(&value)))?;
            }
        }
    }
    Ok(())
}

/// The fields of a version by name.
fn fields(version: &Version) -> Vec<(&'static str, String)> {
    match &version.record {
        Some(Record::Memory(memory)) => {
            let mut fields = vec![
                ("space", memory.space_id.to_string()),
                ("status", memory.status.to_string()),
                ("metadata", memory.metadata.as_str().to_owned()),
                ("trigger", memory.trigger.as_str().to_owned()),
            ];
            fields.extend(memory.context.as_ref().map(|context| ("context", context.as_str().to_owned())));
            fields
        }
        Some(Record::Document(document)) => vec![
            ("space", document.space_id.to_string()),
            ("metadata", document.metadata.as_str().to_owned()),
            ("content", document.content.as_str().to_owned()),
        ],
        None => Vec::new(),
    }
}
