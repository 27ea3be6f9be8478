//! `erase`: erases records for good, and certifies it.

mod certificate;
mod engine_rest;
mod eraser;
mod preview;
mod selection;
mod verify;

use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use memory_context::records::{AgentId, EntityId};
use memory_core::{Actor, Clock as _, Collection, DocumentId, MemoryId, MemoryProvider, Reason, RecordId, SystemClock};

use self::certificate::{Certificate, Certified};
use self::eraser::{End, Eraser};
use self::selection::Selection;
use self::verify::Verdict;
use super::copy::reads_from_replica;
use super::exit_code;
use crate::args::{LedgerArgs, SpaceArgs, values};
use crate::collections::is_copied;
use crate::output::{self, Output, printable};
use crate::progress::Progress;
use crate::signal;
use crate::usage::Usage;

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("selection")
        .args([
            "ids", "document", "exact", "under", "prefix", "glob", "regex", "all", "after", "before", "status",
            "filter", "text", "person",
        ])
        .required(true)
        .multiple(true)
))]
pub(crate) struct EraseArgs {
    /// Erase only the memories with these ids.
    #[arg(value_name = "ID", value_parser = values::memory_id, conflicts_with_all = CONDITIONS)]
    ids: Vec<MemoryId>,
    /// Erase this document, or the history of one that was removed. May be repeated, and combined with ids of memories.
    #[arg(
        long,
        value_name = "COLLECTION/ID",
        value_parser = document_name,
        conflicts_with = "person",
        conflicts_with_all = CONDITIONS
    )]
    document: Vec<(Collection, DocumentId)>,
    #[command(flatten)]
    spaces: SpaceArgs,
    #[command(flatten)]
    conditions: LedgerArgs,
    /// Only records that hold at least one word of this text.
    #[arg(long, allow_hyphen_values = true, help_heading = "Conditions")]
    text: Option<String>,
    /// Also erase the documents that the spaces, --where and --text select, of all collections.
    #[arg(
        long,
        help_heading = "Conditions",
        conflicts_with_all = ["ids", "document", "person", "after", "before", "status", "exclude"]
    )]
    documents: bool,
    /// Of the documents, erase only those of this collection. Repeat it to accept several.
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Conditions",
        value_parser = copied_collection,
        requires = "documents"
    )]
    collection: Vec<Collection>,
    /// Erase what an agent knows of this entity: its messages, the facts about it and by it, its profile, and its other records. What
    /// others wrote about it stays.
    #[arg(
        long,
        value_name = "ENTITY",
        help_heading = "A person",
        value_parser = values::entity_id,
        requires = "agent",
        conflicts_with = "ids",
        conflicts_with_all = CONDITIONS
    )]
    person: Option<EntityId>,
    /// The agent that knows the entity.
    #[arg(long, value_name = "AGENT", help_heading = "A person", value_parser = values::agent_id, requires = "person")]
    agent: Option<AgentId>,
    /// The reason, in one line. It stays in the tombstone of each erased record, so do not name the person who is to be forgotten.
    #[arg(long, value_name = "TEXT", help_heading = ERASURE, required_unless_present = "dry_run")]
    reason: Option<String>,
    /// The actor who erases, which stays in the tombstones, too.
    #[arg(long, value_name = "ACTOR", help_heading = ERASURE, value_parser = values::actor)]
    by: Option<Actor>,
    /// Show what would be erased, and erase nothing.
    #[arg(long, help_heading = ERASURE)]
    dry_run: bool,
    /// Stop after this many records.
    #[arg(
        long,
        value_name = "N",
        help_heading = ERASURE,
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "dry_run"
    )]
    at_most: Option<u64>,
    /// Write the erased records and the result of the verification to this file as JSON. Repeating the erasure with the same file adds to
    /// it.
    #[arg(long, value_name = "FILE", help_heading = ERASURE, conflicts_with = "dry_run")]
    certificate: Option<PathBuf>,
    /// Print "done: N" on standard error when N records are erased, and "verified: N" when N are verified, instead of a bar.
    #[arg(long, help_heading = ERASURE)]
    progress: bool,
}

const ERASURE: &str = "Erasure";
/// The options that can't be combined with ids or a person.
const CONDITIONS: [&str; 12] =
    ["exact", "under", "prefix", "glob", "regex", "all", "after", "before", "status", "filter", "exclude", "text"];

/// Parses a collection. The collection of the mark of a copy is refused, since its target needs it to continue.
fn copied_collection(text: &str) -> Result<Collection, String> {
    let collection = values::collection(text)?;
    if !is_copied(&collection) {
        return Err("it holds how far a move is: copy --unfence takes that away".to_owned());
    }
    Ok(collection)
}

/// Parses the name of a document; names of collections have no slash.
fn document_name(text: &str) -> Result<(Collection, DocumentId), String> {
    let (collection, id) = text.split_once('/').ok_or("a document is named by its collection, a slash and its id")?;
    Ok((copied_collection(collection)?, values::document_id(id)?))
}

/// Erases slice by slice, until nothing is left, a signal comes, or the limit is reached.
pub(crate) async fn run(
    shared: &Arc<dyn MemoryProvider>,
    url: &str,
    args: &EraseArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let selection = Selection::new(shared, args)?;
    if reads_from_replica(url) {
        let message = "--url: an erasure is verified by reads, and a replica may lack what was just written: leave out read_url \
                       and readPreference";
        return Err(Usage(message.to_owned()).into());
    }
    let Some(reason) = args.reason.as_deref().filter(|_| !args.dry_run) else {
        return preview::run(shared.as_ref(), &selection, output).await;
    };
    let reason = Reason::parse(reason).map_err(|error| Usage(format!("--reason: {}", error.message())))?;
    let (parts, rest) = (selection.find().await?.parts, engine_rest::of(url)?);
    let certificate = Certificate::new(&reason, args.by.as_ref(), selection.to_json(), SystemClock.now(), rest);
    // Opened before anything is erased, to make sure that it can be written.
    let mut certified = Certified::open(certificate, args.certificate.as_deref())?;
    // From here on, a signal ends the erasure only between two slices.
    let mut asked = pin!(signal::asked_to_end()?);
    let progress = Progress::new(None, args.progress);
    let mut eraser = Eraser::new(shared.as_ref(), &reason, args.by.as_ref(), args.at_most, &mut certified);
    let ended = async {
        let lists = selection.leave_lists().await?;
        if lists > 0 {
            progress.note(&format!("took the person out of {lists} lists of others"));
        }
        eraser.run(&parts, &progress, asked.as_mut()).await
    };
    let ended = ended.await;
    let count = eraser.count();
    let ended = match ended {
        Err(error) if count == 0 && !certified.certificate.has_unknown() => return Err(error),
        ended => ended,
    };
    // Saved before the verification, which may take long and does not change what was erased.
    if let Err(error) = certified.save() {
        progress.note(&format!("error: {}", output::describe(&error)));
    }
    let verified = match &ended {
        Ok(end) => {
            if *end == End::Asked {
                // The first signal has ended the erasure; the next one ends the verification.
                asked.set(signal::asked_to_end()?);
            }
            let certificate = &certified.certificate;
            let verification = verify::run(shared.as_ref(), &selection, &parts, certificate, *end, &progress);
            tokio::select! {
                biased;
                () = asked.as_mut() => Ok(Verdict::stopped()),
                verdict = verification => verdict,
            }
        }
        // The failure is reported below; the certificate has what was erased before it.
        Err(_) => Ok(Verdict::default()),
    };
    progress.finish();
    if let Ok(verdict) = &verified {
        certified.certificate.verified.clone_from(&verdict.held);
        certified.certificate.absent = verdict.absent;
    }
    let written = certified.save();
    tell(&certified.certificate, matches!(written, Ok(true)), output)?;
    output.flush()?;
    written?;
    let (end, verdict) = (ended?, verified?);
    note_absent(verdict.absent);
    let left = match end {
        End::Complete => None,
        End::Asked => Some("it was stopped, and more may be left: say it again to go on".to_owned()),
        End::Limit if verdict.is_done || verdict.is_stopped => None,
        End::Limit => Some(format!("{count} records are erased, and more are left: say it again to go on")),
    };
    let unverified =
        verdict.is_stopped.then(|| "it was stopped before it was verified: say it again to verify it".to_owned());
    let has_failures = left.is_some() || unverified.is_some() || !verdict.failed.is_empty();
    for failure in left.iter().chain(&unverified).chain(&verdict.failed) {
        output::note(&format!("error: {failure}"));
    }
    Ok(exit_code(has_failures))
}

/// Prints the result; programs get the certificate, unless a file has it.
fn tell(certificate: &Certificate, is_filed: bool, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        match is_filed {
            true => output.json(&certificate.counts)?,
            false => output.json(certificate)?,
        }
        return Ok(());
    }
    let certificate::Counts { memories, documents } = certificate.counts;
    output.line(format!("erased {memories} memories and {documents} documents"))?;
    for held in &certificate.verified {
        output.line(format!("verified: {held}"))?;
    }
    output.line(format!("the engine: {}", certificate.engine))?;
    Ok(())
}

/// Reports named records that do not exist.
fn note_absent(count: usize) {
    if count > 0 {
        output::note(&format!(
            "{count} of the records that were named are not there, and no erasure took them: see their ids"
        ));
    }
}

/// The name of a record, for people.
fn name(record: &RecordId) -> String {
    match record {
        RecordId::Memory(id) => id.to_string(),
        RecordId::Document { collection, id } => format!("{collection}/{}", printable(id.as_str())),
    }
}
