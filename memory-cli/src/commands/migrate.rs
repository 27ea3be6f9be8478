//! `migrate`: brings the schema up to date and runs the backfills, without any other work.

use std::process::ExitCode;

use clap::Args;
use migrations::Report;

use crate::output::{self, Output};
use crate::{backfill, engine};

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Show the steps and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(url: &str, args: &MigrateArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let report = if args.dry_run { engine::plan(url).await? } else { engine::migrate(url).await? };
    tell(&report, args.dry_run, output)?;
    if !args.dry_run {
        let provider = engine::open(url).await?;
        let completed = backfill::complete(&*provider, |progress| output::note(&progress)).await;
        let closed = provider.shutdown().await;
        completed?;
        closed?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(report: &Report, is_dry_run: bool, output: &mut Output) -> anyhow::Result<()> {
    let step = |(version, name): &(u32, &str)| serde_json::json!({ "version": version, "name": name });
    if output.is_json() {
        return Ok(output.json(&serde_json::json!({
            "dryRun": is_dry_run,
            "before": report.before,
            "applied": report.applied.iter().map(step).collect::<Vec<_>>(),
            "now": report.now,
        }))?);
    }
    let verb = if is_dry_run { "would apply" } else { "applied" };
    for (version, name) in &report.applied {
        output.line(format!("{verb} version {version}, {name}"))?;
    }
    match (report.before, report.now) {
        _ if report.applied.is_empty() => output.line(format!("the schema is up to date at version {}", report.now))?,
        (before, now) if before == now => output.line(format!("the schema stays at version {now}"))?,
        (before, now) => output.line(format!("the schema goes from version {before} to {now}"))?,
    }
    Ok(())
}
