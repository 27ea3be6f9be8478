//! `spaces`: lists spaces and the number of records in them.

use std::process::ExitCode;

use clap::Args;
use memory_core::{Collection, Count, MemoryProvider, SpaceQuery, SpaceQueryBuilder};

use crate::args::{self, values};
use crate::output::{self, Output};
use crate::serve::rest::spaces::SpaceBody;
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct SpacesArgs {
    /// List the spaces directly below this one; the top-level ones by default.
    #[arg(long, value_name = "SPACE")]
    under: Option<String>,
    /// List the spaces of the documents in this collection instead of those of the ledger.
    #[arg(long, value_parser = values::collection)]
    collection: Option<Collection>,
    /// The number of levels, up to 8.
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// The most spaces of each level, up to 1,000.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = values::limit)]
    limit: usize,
    /// Continue after a page of the same level.
    #[arg(long, allow_hyphen_values = true)]
    cursor: Option<String>,
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    args: &SpacesArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let query = SpaceQuery::builder().depth(args.depth).limit(args.limit);
    let query = args.under.iter().fold(query, SpaceQueryBuilder::under);
    let query = args.cursor.iter().fold(query, SpaceQueryBuilder::cursor);
    let query = query.build().map_err(Usage::from)?;
    let levels = match &args.collection {
        Some(collection) => provider.documents().spaces(collection, &query).await,
        None => provider.spaces(&query).await,
    };
    let levels = levels.map_err(args::refused)?;
    let mut table = output::table(&["space", "records", "newest"]);
    for space in levels.iter().flat_map(|level| &level.spaces) {
        let count = match space.count {
            Count::Exactly(count) => count.to_string(),
            Count::MoreThan(count) => format!("more than {count}"),
        };
        if output.is_json() {
            output.json(&SpaceBody::from(space.clone()))?;
        } else {
            table.add_row([space.id.to_string(), count, output::date(space.newest)]);
        }
    }
    if !output.is_json() {
        output.table_or(&table, "no spaces found")?;
    }
    output.flush()?;
    for level in &levels {
        if let Some(cursor) = &level.next {
            let under = level.under.as_ref().map(|under| format!("--under {under} ")).unwrap_or_default();
            output::note(&format!("next: {under}--cursor {cursor}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
