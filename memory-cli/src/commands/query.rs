//! `query`: recalls memories by spaces and conditions.

use std::process::ExitCode;

use clap::Args;
use memory_core::MemoryProvider;

use super::exit_code;
use crate::args::{self, LedgerArgs, PageArgs, SpaceArgs};
use crate::output::{self, Output};

#[derive(Debug, Args)]
#[command(group(SpaceArgs::required()))]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    spaces: SpaceArgs,
    #[command(flatten)]
    conditions: LedgerArgs,
    #[command(flatten)]
    page: PageArgs,
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &QueryArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let query = args::build(args.page.apply(args.conditions.query(&args.spaces)))?;
    let page = provider.query(&query).await.map_err(args::refused)?;
    output.memories(&page.memories)?;
    output.flush()?;
    if let Some(cursor) = page.next {
        output::note(&format!("next: --cursor {cursor}"));
    }
    Ok(exit_code(output::report_unreadable("memory", &page.unreadable)))
}
