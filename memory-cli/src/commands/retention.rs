//! `retention`: shows and changes the retention rules.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::{ArgGroup, Args};
use memory_core::{MemoryProvider, Retention};
use serde_json::json;

use crate::args::values;
use crate::output::{self, Output};
use crate::usage::Usage;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(["keep", "remove"])))]
pub(crate) struct RetentionArgs {
    /// The space in and below which the rule holds.
    #[arg(long, value_name = "SPACE", value_parser = values::path, requires = "change")]
    under: Option<String>,
    /// Keep memories for this time after they were stored, and documents after they were last put: a number with ms,
    /// s, m, h, d or w, as in 30d.
    #[arg(long, value_name = "TIME", value_parser = values::duration, requires = "under")]
    keep: Option<Duration>,
    /// Remove the rule of this space.
    #[arg(long, requires = "under")]
    remove: bool,
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &RetentionArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let rules = provider.retention().await?;
    match (&args.under, args.keep) {
        (Some(under), Some(keep)) => set(provider, rules, under, keep, output).await?,
        (Some(under), None) if args.remove => remove(provider, rules, under, output).await?,
        _ => list(&rules, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(rules: &[Retention], output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        rules.iter().try_for_each(|rule| output.json(rule))?;
        return Ok(());
    }
    let mut table = output::table(&["under", "keep"]);
    for rule in rules {
        table.add_row([rule.under().to_owned(), kept(rule)]);
    }
    output.table_or(&table, "no rules found")?;
    Ok(())
}

async fn set(
    provider: &dyn MemoryProvider,
    mut rules: Vec<Retention>,
    under: &str,
    keep: Duration,
    output: &mut Output,
) -> anyhow::Result<()> {
    let rule = Retention::new(under, keep).map_err(|error| Usage(format!("--keep: {}", error.message())))?;
    rules.retain(|other| other.under() != under);
    rules.push(rule.clone());
    provider.set_retention(rules).await?;
    output.value(&rule, format!("what lies under {under} is kept for {}", kept(&rule)))?;
    Ok(())
}

async fn remove(
    provider: &dyn MemoryProvider,
    mut rules: Vec<Retention>,
    under: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let count = rules.len();
    rules.retain(|rule| rule.under() != under);
    if rules.len() == count {
        bail!("the space {under} has no rule");
    }
    provider.set_retention(rules).await?;
    output.value(&json!({ "under": under, "removed": true }), format!("removed the rule for {under}"))?;
    Ok(())
}

/// The time of a rule, for people.
fn kept(rule: &Retention) -> String {
    // The time of a rule is at least 1 ms, so it is never negative.
    values::duration_text(u64::try_from(rule.keep_millis()).unwrap_or_default())
}
