//! `document`: the texts that an agent itself saves.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use clap::{ArgGroup, Args, Subcommand};
use memory_core::{
    Clock, Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentStore, DocumentWrite, Expect,
    Filter, History, MAX_BATCH, MAX_BATCH_BYTES, MemoryProvider, Metadata, Record, RecordId, Revision, SpaceId,
    SystemClock, Timestamp,
};

use super::exit_code;
use super::history::{self, VersionArgs};
use crate::args::{self, ExpiryArgs, PageArgs, SpaceArgs, values};
use crate::input::{self, Input};
use crate::line_reader::{Line, LineReader, MAX_LINE};
use crate::output::{self, Output};
use crate::serve::rest::PutBody;
use crate::serve::unquoted::unquoted;
use crate::usage::Usage;

#[derive(Debug, Subcommand)]
pub(crate) enum DocumentCommand {
    /// Create or replace a document and print its id.
    Put(PutArgs),
    /// Create or replace many documents, all or none, and print their ids.
    PutMany(PutManyArgs),
    /// Show one document, as it is now or as it was at a time.
    Get(GetArgs),
    /// Show the versions of a document, newest first: when each was committed, by whom, and its content.
    History(HistoryArgs),
    /// Find documents in the spaces that you name.
    ///
    /// If there are more, the option for the next page is printed on standard error: "next: --cursor ...". With --json,
    /// each document is one line on standard output.
    Query(QueryArgs),
    /// Remove documents by id, space, condition or text; they must satisfy everything that you give.
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// The collection that it belongs to.
    #[arg(long, value_parser = values::collection)]
    collection: Collection,
    /// The id of the document; a new one is made if absent.
    #[arg(long, value_parser = values::document_id)]
    id: Option<DocumentId>,
    /// The space of the document.
    #[arg(long, value_parser = values::space_id)]
    space: SpaceId,
    /// The text itself, @FILE, or - for standard input.
    #[arg(long, value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    content: Input,
    /// A JSON object that conditions can look into.
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<Input>,
    /// The time of creation, in milliseconds since 1970 UTC; now by default. A replacement keeps the time of the first put.
    #[arg(long, value_name = "MS", value_parser = values::timestamp, allow_negative_numbers = true)]
    created_at: Option<Timestamp>,
    #[command(flatten)]
    expiry: ExpiryArgs,
    /// Only if there is no document with this id.
    #[arg(long, conflicts_with = "if_revision")]
    if_absent: bool,
    /// Only if the document is at this revision.
    #[arg(long, value_name = "N", value_parser = values::revision)]
    if_revision: Option<Revision>,
}

#[derive(Debug, Args)]
pub(crate) struct PutManyArgs {
    /// JSON lines, or - for standard input: each a document with collection, spaceId and content, and if you like id, metadata,
    /// createdAt, expiresAt and expect, which is "any", "absent" or {"revision":N}. At most 10,000 lines and 64 MiB of text.
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The collection that it belongs to.
    #[arg(long, value_parser = values::collection)]
    collection: Collection,
    /// Its id.
    #[arg(long, value_parser = values::document_id)]
    id: DocumentId,
    /// As it was at this time, in milliseconds since 1970 UTC.
    #[arg(long, value_name = "MS", value_parser = values::timestamp, allow_negative_numbers = true)]
    as_of: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The collection that it belongs to.
    #[arg(long, value_parser = values::collection)]
    collection: Collection,
    /// Its id.
    #[arg(long, value_parser = values::document_id)]
    id: DocumentId,
    /// Show removals too, and what was there before them.
    #[arg(long)]
    removed: bool,
    #[command(flatten)]
    page: VersionArgs,
}

#[derive(Debug, Args)]
#[command(group(SpaceArgs::required()))]
pub(crate) struct QueryArgs {
    /// The collection to search.
    #[arg(long, value_parser = values::collection)]
    collection: Collection,
    #[command(flatten)]
    spaces: SpaceArgs,
    /// Only documents that satisfy a condition, such as "metadata.topic = 'rust' AND content ILIKE '%borrow%'".
    #[arg(long = "where", help_heading = "Conditions", value_name = "PREDICATE", value_parser = values::filter)]
    filter: Option<Filter>,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("selection")
        .args(["id", "exact", "under", "prefix", "glob", "regex", "filter", "text"])
        .required(true)
        .multiple(true)
))]
pub(crate) struct RemoveArgs {
    /// The collection to remove from.
    #[arg(long, value_parser = values::collection)]
    collection: Collection,
    /// Remove the document with this id. Repeat it to remove several.
    #[arg(long, value_parser = values::document_id)]
    id: Vec<DocumentId>,
    #[command(flatten)]
    spaces: SpaceArgs,
    /// Only documents that satisfy a condition.
    #[arg(long = "where", help_heading = "Conditions", value_name = "PREDICATE", value_parser = values::filter)]
    filter: Option<Filter>,
    /// Only documents that hold at least one word of this text.
    #[arg(long, help_heading = "Conditions", allow_hyphen_values = true)]
    text: Option<String>,
    /// Remove nothing if more than this many are found.
    #[arg(long, help_heading = "Safety", value_name = "N", default_value_t = 10)]
    max: usize,
    /// Show the ids and remove nothing.
    #[arg(long, help_heading = "Safety")]
    dry_run: bool,
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    command: &DocumentCommand,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let documents = provider.documents();
    match command {
        DocumentCommand::Put(args) => put(&*documents, args, output).await,
        DocumentCommand::PutMany(args) => put_many(&*documents, args, output).await,
        DocumentCommand::Get(args) => get(provider, args, output).await,
        DocumentCommand::History(args) => {
            let history = History::of((args.collection.clone(), args.id.clone()));
            let history = if args.removed { history.with_removed() } else { history };
            history::show(provider, history, &args.page, output).await
        }
        DocumentCommand::Query(args) => query(&*documents, args, output).await,
        DocumentCommand::Remove(args) => remove(&*documents, args, output).await,
    }
}

async fn put(documents: &dyn DocumentStore, args: &PutArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let content = args.content.read("--content", |text| Content::parse(text))?;
    let created_at = args.created_at.unwrap_or_else(|| SystemClock.now());
    let mut write = DocumentWrite::new(args.collection.clone(), args.space.clone(), content, created_at);
    write.id = args.id.clone();
    write.expires_at = args.expiry.time()?;
    if let Some(metadata) = &args.metadata {
        write = write.with_metadata(metadata.read("--metadata", Metadata::parse)?);
    }
    write = write.expect(match (args.if_absent, args.if_revision) {
        (true, _) => Expect::Absent,
        (false, Some(revision)) => Expect::Revision(revision),
        (false, None) => Expect::Any,
    });
    let document = documents.put(write).await?;
    output.value(&document, &document.id)?;
    Ok(ExitCode::SUCCESS)
}

async fn put_many(documents: &dyn DocumentStore, args: &PutManyArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let writes = match args.file.as_os_str() == "-" {
        true => read_writes(io::stdin().lock())?,
        false => read_writes(BufReader::new(input::open(&args.file)?))?,
    };
    for document in documents.put_many(writes).await? {
        output.value(&document, &document.id)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the documents of JSON lines; stops after one more than allowed. An error names the line and shows no value of it.
fn read_writes(source: impl BufRead) -> anyhow::Result<Vec<DocumentWrite>> {
    let (mut lines, mut writes, mut bytes) = (LineReader::new(source), Vec::new(), 0);
    while writes.len() <= MAX_BATCH
        && bytes <= MAX_BATCH_BYTES
        && let Some((number, line)) = lines.next().context("the input can't be read")?
    {
        let text = match line {
            // Serde would also accept an array of the fields in their order.
            Line::Text(text) if text.trim_ascii_start().starts_with(b"{") => text,
            Line::Text(_) => bail!("line {number}: not a JSON object"),
            Line::TooLong => bail!("line {number}: longer than {MAX_LINE} bytes"),
        };
        let put: PutBody =
            serde_json::from_slice(text).map_err(|error| anyhow!("line {number}: {}", unquoted(&error.to_string())))?;
        if put.vector.is_some() {
            bail!("line {number}: vector: import takes lines with one");
        }
        let write = put.into_write();
        bytes += write.size();
        writes.push(write);
    }
    Ok(writes)
}

async fn get(provider: &dyn MemoryProvider, args: &GetArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let document = match args.as_of {
        None => provider.documents().get(&args.collection, &args.id).await?,
        Some(time) => {
            let id = RecordId::from((args.collection.clone(), args.id.clone()));
            match provider.get_as_of(&id, time).await.map_err(args::refused)? {
                Some(Record::Document(document)) => Some(document),
                Some(Record::Memory(_)) | None => None,
            }
        }
    };
    let Some(document) = document else {
        let then = if args.as_of.is_some() { " then" } else { "" };
        bail!("no document of the collection {} has the id {}{then}", args.collection, args.id);
    };
    output.document(&document)?;
    Ok(ExitCode::SUCCESS)
}

async fn query(documents: &dyn DocumentStore, args: &QueryArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let query = args.spaces.apply(DocumentQuery::builder(args.collection.clone()));
    let query = args::build(args.page.apply(args::with_filter(query, args.filter.as_ref())))?;
    let page = documents.query(&query).await.map_err(args::refused)?;
    output.documents(&page.documents)?;
    output.flush()?;
    if let Some(cursor) = page.next {
        output::note(&format!("next: --cursor {cursor}"));
    }
    Ok(exit_code(output::report_unreadable("document", &page.unreadable)))
}

async fn remove(documents: &dyn DocumentStore, args: &RemoveArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let mut query = args.spaces.apply(DocumentQuery::builder(args.collection.clone()));
    query = args::with_filter(query, args.filter.as_ref());
    if let Some(text) = &args.text {
        query = query.text(text);
    }
    let selection = if args.id.is_empty() {
        DocumentSelection::matching(query).map_err(Usage::from)?
    } else {
        DocumentSelection::ids_where(args.id.iter().cloned(), query).map_err(Usage::from)?
    };
    let (ids, verb) = if args.dry_run {
        (selection.preview(documents, args.max).await?, "would remove")
    } else {
        (documents.remove(&selection, args.max).await?, "removed")
    };
    if ids.is_empty() && !output.is_json() {
        output.line("no documents found")?;
    }
    for id in &ids {
        output.value(&serde_json::json!({ "id": id, "dryRun": args.dry_run }), format!("{verb} {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
