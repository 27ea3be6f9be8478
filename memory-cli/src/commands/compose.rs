//! `compose`: shows what an agent knows when it answers a message.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use memory_context::records::{AgentId, Audience, MessageContent, Records};
use memory_context::state::{Budget, ComposeOptions, Composer, ProviderOutcome, ProviderStatus, Services, State, Turn};
use memory_core::{Error, MemoryId, MemoryProvider};

use super::{character, exit_code};
use crate::args::values;
use crate::input::Input;
use crate::output::{self, Output};
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct ComposeArgs {
    /// The id of the message's memory.
    #[arg(long, value_name = "ID", value_parser = values::memory_id)]
    message: MemoryId,
    /// Add this provider, which may be dynamic or private. Repeat it or separate names by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "only")]
    include: Vec<String>,
    /// Run only this provider. Repeat it or separate names by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// The character of the agent, as JSON, @FILE, or - for standard input. By default it has only the name of the agent.
    #[arg(long, value_name = "JSON|@FILE|-")]
    character: Option<Input>,
    /// Cut the text to this many bytes.
    #[arg(long, value_name = "BYTES")]
    budget: Option<usize>,
    /// Put sections that rarely change first.
    #[arg(long)]
    stable_first: bool,
    /// Show the outcome of each provider below the text.
    #[arg(long)]
    explain: bool,
}

pub(crate) async fn run(
    provider: &Arc<dyn MemoryProvider>,
    args: &ComposeArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let memory = provider.get(args.message).await?.ok_or_else(Error::not_found)?;
    let no_message = || Usage("--message: the memory is not a message of an agent".into());
    let agent = AgentId::of_space(&memory.space_id).ok_or_else(no_message)?;
    let content: MessageContent = memory.trigger.to_value().map_err(|_| no_message())?;
    let records = Records::new(Arc::clone(provider), agent.clone());
    let audience = Audience::new(content.room, content.author);
    let message = records.messages().get(&audience, memory.id).await?.ok_or_else(no_message)?;
    let character = character(args.character.as_ref(), &agent)?;
    let composer = Composer::builder(Services::new(records, character)).built_in().build()?;
    let state = composer.compose_state(&Turn::new(message), &options(args)).await;
    if output.is_json() {
        output.json(&state)?;
    } else {
        output.line(output::printable(&state.text))?;
        if args.explain {
            explain(&state, output)?;
        }
    }
    Ok(exit_code(report(&state)))
}

fn options(args: &ComposeArgs) -> ComposeOptions {
    let mut options = match (args.only.is_empty(), args.include.is_empty()) {
        (false, _) => ComposeOptions::only(args.only.clone()),
        (_, false) => ComposeOptions::with(args.include.clone()),
        _ => ComposeOptions::default(),
    };
    if let Some(budget) = args.budget {
        options = options.budget(Budget::bytes(budget));
    }
    if args.stable_first { options.stable_first() } else { options }
}

fn explain(state: &State, output: &mut Output) -> anyhow::Result<()> {
    let mut table = output::table(&["provider", "outcome", "ms", "bytes", "bytes of text", "cut"]);
    for outcome in &state.outcomes {
        let ProviderOutcome { provider, status, duration, bytes, text_bytes, .. } = outcome;
        let cut = left_out(outcome);
        let millis = format!("{:.1}", duration.as_secs_f64() * 1e3);
        table.add_row([provider.clone(), status.to_string(), millis, bytes.to_string(), text_bytes.to_string(), cut]);
    }
    output.line(format!("\n{table}"))?;
    for collision in &state.collisions {
        output.line(format!("{} is that of {}, not of {}", collision.value, collision.kept, collision.lost))?;
    }
    Ok(())
}

/// Describes what the budget cut from the text of a provider; empty if nothing.
pub(crate) fn left_out(outcome: &ProviderOutcome) -> String {
    outcome.cut.map(|cut| format!("{} lines, {} bytes", cut.lines, cut.bytes)).unwrap_or_default()
}

/// Reports what is missing. Returns whether anything is.
fn report(state: &State) -> bool {
    for name in &state.unknown {
        output::note(&format!("error: no provider is called {}", output::printable(name)));
    }
    let missing = |outcome: &&ProviderOutcome| {
        matches!(outcome.status, ProviderStatus::Failed | ProviderStatus::TimedOut | ProviderStatus::Skipped)
    };
    let missing: Vec<_> = state.outcomes.iter().filter(missing).collect();
    for outcome in &missing {
        let why = outcome.error.as_ref().map(ToString::to_string).unwrap_or_default();
        output::note(&format!("error: {} {}: {}", outcome.provider, outcome.status, output::printable(&why)));
    }
    !(state.unknown.is_empty() && missing.is_empty())
}
