//! `copy`: copies memories and documents from one engine to another, and verifies the copy.

mod batch;
mod claim;
mod copied;
mod follow;
mod mark;
mod rules;
mod strays;
mod transfer;
mod verify;
mod walk;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use memory_core::{DocumentQuery, Documents, Ledger, MemoryProvider};

use super::exit_code;
use crate::args::{self, LedgerArgs, SpaceArgs};
use crate::collections::is_copied;
use crate::engine;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::signal;
use crate::tombstones;
use crate::usage::Usage;
use crate::vectors::{self, VectorWriter};
use copied::Copied;
use follow::{Follower, erased_there};
use mark::{Mark, SAME_PLACE};
use transfer::{Carrier, transfer};
use verify::verify;

#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// The URL of the target, in the form of --url. Optional with --unfence.
    #[arg(
        long,
        value_name = "URL",
        env = "AGENT_MEMORY_TO",
        hide_env_values = true,
        required_unless_present = "unfence"
    )]
    to: Option<String>,
    #[command(flatten)]
    spaces: SpaceArgs,
    #[command(flatten)]
    conditions: LedgerArgs,
    /// Also the documents that the spaces and --where select.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["after", "before", "status", "exclude"])]
    documents: bool,
    /// Also copy the versions of each record, with their times and actors.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["follow", "finish", "unfence"])]
    history: bool,
    /// Print "done: N" on standard error when the first N records are written, and "verified: N" when N are compared, instead of a bar.
    #[arg(long, help_heading = "Output")]
    progress: bool,
    /// Apply each change of the source to the target until Ctrl-C, or with --finish until the target replaces the source. If you repeat the
    /// command, it continues where it was.
    #[arg(long, help_heading = "Moving")]
    follow: bool,
    /// Replace the source with the target: apply all changes, make the source read-only, apply the rest, and compare. If they differ, the
    /// source takes writes again.
    #[arg(long, help_heading = "Moving")]
    finish: bool,
    /// Let the source of --finish take writes again, and then make the target of --to forget that it followed.
    #[arg(long, help_heading = "Moving", conflicts_with_all = ["follow", "finish"])]
    unfence: bool,
}

impl CopyArgs {
    /// Whether the command follows, finishes, or unfences.
    fn is_move(&self) -> bool {
        self.follow || self.finish || self.unfence
    }

    /// Whether everything is copied.
    fn is_everything(&self) -> bool {
        self.spaces.is_empty() && self.conditions.is_empty()
    }
}

pub(crate) async fn run(
    source: &dyn MemoryProvider,
    url: &str,
    args: &CopyArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    if args.is_move() && (args.documents || !args.is_everything()) {
        let message = "--follow, --finish and --unfence apply to everything: leave out --documents and the \
                       options that select spaces or memories";
        return Err(Usage(message.to_owned()).into());
    }
    if args.unfence {
        return unfence(source, args.to.as_deref(), output).await;
    }
    // clap requires it here.
    let to = args.to.as_deref().unwrap_or_default();
    if to == url {
        return Err(Usage(SAME_PLACE.to_owned()).into());
    }
    if args.is_move() && [url, to].into_iter().any(reads_from_replica) {
        let message = "--url and --to: a move reads what was just written, which a replica may lack: leave out read_url and \
                       readPreference";
        return Err(Usage(message.to_owned()).into());
    }
    let target = open_target(to).await?;
    let progress = Progress::new(None, args.progress);
    let result = match args.is_move() {
        true => move_over(source, target.as_ref(), args, &progress, output).await,
        false => copy_once(source, target.as_ref(), args, &progress, output).await,
    };
    progress.finish();
    let closed = target.shutdown().await;
    let code = result?;
    closed?;
    Ok(code)
}

async fn open_target(to: &str) -> anyhow::Result<Arc<dyn MemoryProvider>> {
    engine::open(to).await.map_err(|error| match error.downcast::<Usage>() {
        Ok(Usage(reason)) => Usage(reason.replacen("--url", "--to", 1)).into(),
        Err(error) => error,
    })
}

/// Whether a URL allows reads from a replica.
pub(crate) fn reads_from_replica(url: &str) -> bool {
    let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
    form_urlencoded::parse(parameters.as_bytes()).any(|(name, value)| {
        name == "read_url" || name.eq_ignore_ascii_case("readPreference") && !value.eq_ignore_ascii_case("primary")
    })
}

/// Lets the source take writes again, whatever the state of the target; then makes the target forget that it followed.
async fn unfence(source: &dyn MemoryProvider, to: Option<&str>, output: &mut Output) -> anyhow::Result<ExitCode> {
    source.set_read_only(false).await?;
    output.value(&serde_json::json!({ "readOnly": false }), "the source takes writes")?;
    let forgotten = match to {
        Some(to) => forget(to).await,
        None => Ok(()),
    };
    if let Err(error) = &forgotten {
        output::note(&format!("error: the target does not forget that it followed: {}", output::describe(error)));
    }
    Ok(exit_code(forgotten.is_err()))
}

async fn forget(to: &str) -> anyhow::Result<()> {
    let target = open_target(to).await?;
    let removed = Mark::remove(&*target.documents()).await;
    let closed = target.shutdown().await;
    removed?;
    Ok(closed?)
}

/// Follows, and finishes if requested.
async fn move_over(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    args: &CopyArgs,
    progress: &Progress,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let finished = Mark::read(&*target.documents()).await?.filter(|mark| args.finish && mark.is_finished);
    if let Some(mark) = finished
        && source.is_read_only().await?
    {
        // This is known only of the source that it followed. Later writes to the target are its own.
        mark.check(source).await?;
        follow::ensure_held(source, &mark).await?;
        output.value(&serde_json::json!({ "taken": 0, "verified": true }), "the target has taken over already")?;
        return Ok(ExitCode::SUCCESS);
    }
    // From here on a signal leaves nothing half done.
    let asked = signal::asked_to_end()?;
    let mut follower = Follower::new(source, target, progress).await?;
    let moved = match args.finish {
        true => follower.finish(asked).await?,
        false => follower.follow(asked).await.map(|()| None)?,
    };
    let (taken, carried) = (follower.taken, follower.vectors.written);
    let conflicts = moved.as_ref().map_or(follower.conflicts.len() as u64, |copied| copied.conflicts);
    let unreadable = moved.as_ref().map_or(follower.unreadable.len() as u64, |copied| copied.unreadable);
    let is_verified = moved.as_ref().is_some_and(Copied::is_verified);
    if let Some(name) = moved.as_ref().and_then(|copied| copied.differs.as_ref()) {
        progress.note(&format!("error: {name} is the first record that the target lacks or holds differently"));
    }
    let erased = moved.as_ref().map_or(follower.erased.len() as u64, |copied| copied.erased);
    let verdict = match &moved {
        None => "to continue, repeat the command".to_owned(),
        Some(_) if is_verified => {
            "the target has the same hash, and the source takes no more writes: give all programs the URL of the target"
                .to_owned()
        }
        Some(_) if erased > 0 => {
            format!(
                "the target differs: {}, and repeat the command, which compares everything first",
                erased_there(erased)
            )
        }
        Some(_) => "the target differs: repeat the command, which compares everything first".to_owned(),
    };
    progress.finish();
    output.value(
        &serde_json::json!({
            "taken": taken,
            "memories": moved.as_ref().map(|copied| copied.memories),
            "documents": moved.as_ref().map(|copied| copied.documents),
            "conflicts": conflicts,
            "unreadable": unreadable,
            "erased": erased,
            "vectors": carried,
            "verified": is_verified,
            "sha256": moved.as_ref().map(|copied| copied.source.text()),
        }),
        format!(
            "took over {taken} records: {conflicts} in conflict, {unreadable} can't be read{}; {verdict}",
            vectors::told(carried, 0)
        ),
    )?;
    let has_failures = if args.finish { !is_verified } else { conflicts > 0 || unreadable > 0 };
    Ok(exit_code(has_failures))
}

async fn copy_once(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    args: &CopyArgs,
    progress: &Progress,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let copied = copy(source, target, args, progress).await?;
    progress.finish();
    let is_equal = copied.source.text() == copied.target.text();
    let verdict = match (is_equal, copied.unreadable) {
        (true, 0) => "the target has the same hash",
        (true, _) => "the target has the same hash without those",
        (false, _) => "the target differs: copy again",
    };
    let left_out = match copied.erased {
        0 => String::new(),
        count => format!(", {count} left out, which were erased there"),
    };
    let vectors = vectors::told(copied.vectors, copied.vectors_left_out);
    output.value(
        &serde_json::json!({
            "memories": copied.memories,
            "documents": copied.documents,
            "written": copied.written,
            "conflicts": copied.conflicts,
            "unreadable": copied.unreadable,
            "erased": copied.erased,
            "tombstones": copied.tombstones,
            "vectors": copied.vectors,
            "vectorsLeftOut": copied.vectors_left_out,
            "verified": is_equal && copied.unreadable == 0,
            "sha256": copied.source.text(),
        }),
        format!(
            "copied {} memories and {} documents: {} new, {} in conflict, {} can't be read{left_out}{vectors}; {verdict}",
            copied.memories, copied.documents, copied.written, copied.conflicts, copied.unreadable
        ),
    )?;
    Ok(exit_code(!is_equal || copied.conflicts > 0 || copied.unreadable > 0))
}

/// Erases records in the target that were erased in the source.
async fn bury(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    args: &CopyArgs,
    progress: &Progress,
    copied: &mut Copied,
) -> anyhow::Result<()> {
    // Tombstones can be selected only by spaces.
    if args.conditions.is_empty() {
        let carried = tombstones::carry(source, target, &args.spaces.spaces()).await?;
        copied.tombstones += carried.written;
        copied.conflicts += carried.conflicts;
        if carried.conflicts > 0 {
            progress.note(&tombstones::unreadable(carried.conflicts));
        }
    }
    Ok(())
}

async fn copy(
    source: &dyn MemoryProvider,
    target: &dyn MemoryProvider,
    args: &CopyArgs,
    progress: &Progress,
) -> anyhow::Result<Copied> {
    let mut copied = Copied::default();
    bury(source, target, args, progress, &mut copied).await?;
    let query = args.conditions.query(&args.spaces);
    let mut carrier = Carrier { source, target, has_versions: args.history, vectors: VectorWriter::default() };
    if let Some(model) = source.vector_model().await? {
        carrier.vectors.begin(target, model, false).await?;
    }
    copied.memories = transfer::<Ledger, _>(&source, &target, &mut carrier, &query, progress, &mut copied).await?;
    verify::<Ledger, _>(&source, &target, &query, progress, &mut copied).await?;
    if args.is_everything() || args.documents {
        let (source, target) = (source.documents(), target.documents());
        let (source, target) = (&*source, &*target);
        for collection in source.collections().await?.into_iter().filter(is_copied) {
            let query = args.spaces.apply(DocumentQuery::builder(collection));
            let query = args::with_filter(query, args.conditions.filter());
            copied.documents +=
                transfer::<Documents, _>(&source, &target, &mut carrier, &query, progress, &mut copied).await?;
            verify::<Documents, _>(&source, &target, &query, progress, &mut copied).await?;
        }
    }
    (copied.vectors, copied.vectors_left_out) = (carrier.vectors.written, carrier.vectors.left_out);
    // Records that were erased after they were transferred.
    bury(source, target, args, progress, &mut copied).await?;
    if args.is_everything() {
        rules::carry(source, target, progress).await?;
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_read_from_a_replica_are_known() {
        for url in ["postgres://h/d?read_url=postgres%3A%2F%2Fr%2Fd", "mongodb://h/d?w=majority&readpreference=nearest"]
        {
            assert!(reads_from_replica(url), "{url}");
        }
        for url in ["sqlite://a.db", "postgres://h/d?namespace=read_url", "mongodb://h/d?readPreference=primary"] {
            assert!(!reads_from_replica(url), "{url}");
        }
    }
}
