//! `migrate`: the schema, apart from any other work, with what its backfills make of the ledger.

use std::process::ExitCode;

use clap::Args;

use crate::output::{self, Output};
use crate::{backfill, engine};

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Show what would be done and do nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(url: &str, args: &MigrateArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let report = if args.dry_run { engine::plan(url).await? } else { engine::migrate(url).await? };
    if !args.dry_run {
        let provider = engine::open(url).await?;
        let completed = backfill::complete(&*provider, |backfill| output::note(&backfill.to_string())).await;
        let closed = provider.shutdown().await;
        completed?;
        closed?;
    }
    let verb = if args.dry_run { "would apply" } else { "applied" };
    if output.is_json() {
        output.json(&serde_json::json!({
            "dryRun": args.dry_run,
            "before": report.before,
            "applied": report.applied.iter().map(|(version, name)| serde_json::json!({ "version": version, "name": name })).collect::<Vec<_>>(),
            "now": report.now,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (version, name) in &report.applied {
        output.line(format!("{verb} version {version}, {name}"))?;
    }
    match report.applied.is_empty() {
        true => output.line(format!("the schema is up to date at version {}", report.now))?,
        false => output.line(format!("the schema goes from version {} to {}", report.before, report.now))?,
    }
    Ok(ExitCode::SUCCESS)
}
