//! `embed`: makes missing vectors.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use clap::Args;
use memory_context::embedding::keeper;
use memory_core::{
    DocumentQuery, ErrorKind, MAX_VECTORS, MemoryProvider, MemoryQuery, Precision, RecordId, VectorModel,
};
use serde::Serialize;

use super::exit_code;
use crate::args::{self, EmbedderArgs};
use crate::observed::observed;
use crate::output::{self, Output};
use crate::precision::PrecisionName;
use crate::progress::Progress;
use crate::signal;

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// Replace the model of the database with that of --embedder. The old vectors are no longer used, and new ones are made one after the
    /// other; until then recall says how many are missing.
    #[arg(long, conflicts_with = "status")]
    take_over: bool,
    /// The format of stored vectors. It counts if this command sets the model: in a database without one, or with --take-over.
    #[arg(long, value_enum, default_value_t, conflicts_with = "status")]
    precision: PrecisionName,
    /// Print "done: N" on standard error whenever the model has made N vectors, instead of a bar.
    #[arg(long, conflicts_with = "status")]
    progress: bool,
    /// Embed nothing; show the model of the database, and how many memories and documents have no vector of it. This reads all of them.
    /// Facts of agents are not counted. Records without a text are counted, and never get a vector.
    #[arg(long)]
    status: bool,
}

/// The model of a database and the number of its records without vectors.
#[derive(Debug, Default, Serialize)]
struct Status {
    model: Option<VectorModel>,
    records: u64,
    unembedded: u64,
}

pub(crate) async fn run(
    provider: &Arc<dyn MemoryProvider>,
    args: &EmbedArgs,
    embedder: &EmbedderArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    if args.status {
        return show(&status(provider.as_ref()).await?, output);
    }
    let embedder = embedder.required().await?;
    let wanted = VectorModel::new(embedder.model(), embedder.width(), args.precision.into())?;
    let progress = Arc::new(Progress::new(None, args.progress));
    let (made, told) = (AtomicU64::new(0), Arc::clone(&progress));
    let embedder = observed(embedder, move |texts| {
        if let Some(texts) = texts {
            let before = made.fetch_add(texts as u64, Ordering::Relaxed);
            told.done(before + texts as u64, 0);
        }
    });
    let keeper = keeper(Arc::clone(provider), embedder).precision(args.precision.into());
    let keeper = if args.take_over { keeper.taking_over() } else { keeper };
    // Each vector is stored separately, so a signal leaves nothing half done.
    let asked = signal::asked_to_end()?;
    let kept = tokio::select! {
        kept = keeper.catch_up() => Some(kept),
        () = asked => None,
    };
    progress.finish();
    let Some(kept) = kept else {
        output::note("error: it was stopped, and records are left without a vector: repeat the command to continue");
        return Ok(exit_code(true));
    };
    let kept = match kept {
        Err(error) if error.kind() == ErrorKind::SchemaMismatch && !args.take_over => {
            // The schema may be too new instead, which --take-over does not change.
            let present = provider.vector_model().await.ok().flatten();
            return match present.is_some_and(|present| !present.is_same(&wanted)) {
                true => Err(error).context("the database has another embedding model: replace it with --take-over"),
                false => Err(error.into()),
            };
        }
        kept => kept?,
    };
    let (embedded, refused) = (kept.embedded, kept.refused);
    let left = match refused {
        0 => String::new(),
        count => format!(", {count} refused by the model"),
    };
    output.value(
        &serde_json::json!({ "embedded": embedded, "refused": refused }),
        format!("embedded {embedded} records{left}"),
    )?;
    Ok(exit_code(refused > 0))
}

fn show(status: &Status, output: &mut Output) -> anyhow::Result<ExitCode> {
    let Status { model, records, unembedded } = status;
    let model = match model {
        None => "no embedding model is set".to_owned(),
        Some(model) => {
            let precision = if model.precision() == Precision::Exact { "exact" } else { "compact" };
            format!("{}, {} numbers, {precision}", output::one_line(model.name()), model.width())
        }
    };
    output.value(status, format!("{model}; {unembedded} of {records} records have no vector"))?;
    Ok(ExitCode::SUCCESS)
}

/// Counts the records that have no vector, page by page.
async fn status(provider: &dyn MemoryProvider) -> anyhow::Result<Status> {
    let mut status = Status { model: provider.vector_model().await?, ..Status::default() };
    let query = MemoryQuery::builder().all().limit(MAX_VECTORS);
    let mut page_query = query.clone();
    loop {
        let page = provider.query(&args::build(page_query)?).await?;
        let ids: Vec<RecordId> = page.memories.iter().map(|memory| memory.id.into()).collect();
        status.count(provider, &ids).await?;
        match page.next {
            Some(cursor) => page_query = query.clone().cursor(cursor),
            None => break,
        }
    }
    let documents = provider.documents();
    for collection in documents.collections().await?.into_iter().filter(|one| !one.is_reserved()) {
        let query = DocumentQuery::builder(collection).all().limit(MAX_VECTORS);
        let mut page_query = query.clone();
        loop {
            let page = documents.query(&args::build(page_query)?).await?;
            let ids: Vec<RecordId> = page.documents.iter().map(RecordId::from).collect();
            status.count(provider, &ids).await?;
            match page.next {
                Some(cursor) => page_query = query.clone().cursor(cursor),
                None => break,
            }
        }
    }
    Ok(status)
}

impl Status {
    async fn count(&mut self, provider: &dyn MemoryProvider, ids: &[RecordId]) -> memory_core::Result<()> {
        let found = provider.vectors(ids).await?;
        self.records += ids.len() as u64;
        self.unembedded += found.iter().filter(|embedding| embedding.is_none()).count() as u64;
        Ok(())
    }
}
