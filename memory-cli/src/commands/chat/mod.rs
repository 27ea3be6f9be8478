//! `chat`: a conversation with an agent, at the terminal.

mod always;
mod conversation;
mod remember;
mod shown;
mod terminal;
mod typed;

use std::env;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use memory_context::flow::{Events, Limits, MessageService, ReflectionEvaluator};
use memory_context::records::{AgentId, Entity, Records};
use memory_context::state::{Character, Composer, Services};
use memory_core::{MemoryProvider, SystemClock};
use memory_runtime::Model;
use memory_runtime::openai::{OpenAiConfig, OpenAiModel};
use tracing::level_filters::LevelFilter;

use self::always::Always;
use self::conversation::Conversation;
use self::remember::remember;
use self::shown::Shown;
use self::terminal::{Place, Terminal};
use super::{character, exit_code};
use crate::args::values;
use crate::input::Input;
use crate::output::{self, Output};
use crate::telemetry::Telemetry;
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Where the model is: the base of the URLs of anything that speaks OpenAI's chat completions, such as
    /// http://localhost:8080/v1. A key, if it takes one, is the AGENT_MEMORY_MODEL_KEY of the environment.
    #[arg(long, value_name = "URL", env = "AGENT_MEMORY_MODEL_URL", hide_env_values = true)]
    endpoint: String,
    /// The name of the model.
    #[arg(long, value_name = "NAME", env = "AGENT_MEMORY_MODEL")]
    model: String,
    /// Whose memory it is.
    #[arg(long, value_name = "NAME", default_value = "agent", value_parser = values::agent_id)]
    agent: AgentId,
    /// Who talks to it.
    #[arg(long, value_name = "NAME", default_value = "user")]
    user: String,
    /// Which conversation it is; by default one of the user's own.
    #[arg(long, value_name = "NAME")]
    room: Option<String>,
    /// Others are in the room too: the agent answers only what it thinks is meant for it.
    #[arg(long)]
    group: bool,
    /// Who the agent is: the JSON of a character, or @FILE. By default one that is called like the agent.
    #[arg(long, value_name = "JSON|@FILE")]
    character: Option<Input>,
    /// A line that comes before the one before it is answered takes its place, as it does at a terminal. Else it waits.
    #[arg(long)]
    interrupt: bool,
    /// How long the model may think about one answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// How much to log on standard error: off, error, warn, info, debug or trace. What happens in each run is told at info.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: LevelFilter,
}

/// The key is in the environment alone: other users of the machine can see the command line.
const KEY: &str = "AGENT_MEMORY_MODEL_KEY";
/// How many events are kept for the log.
const EVENTS: usize = 1_000;

/// Talks until the input ends or a signal comes, and until all that was said by then is answered.
pub(crate) async fn run(
    provider: &Arc<dyn MemoryProvider>,
    args: &ChatArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let character = character(args.character.as_ref(), &args.agent)?;
    let place = Place { user: &args.user, room: args.room.as_deref().unwrap_or(&args.user), is_group: args.group };
    let origin = place.origin().map_err(|error| Usage(format!("--user, --room: {}", error.message())))?;
    let model = model(args)?;
    let telemetry = Telemetry::start(args.log, false)?;

    let records = Records::new(Arc::clone(provider), args.agent.clone());
    origin.ensure(&records).await?;
    records.entities().ensure(&Entity::new(args.agent.entity(), character.name.clone())).await?;
    let name = character.name.clone();
    let (terminal, said) = Terminal::new();
    let service = service(records, character, model, terminal, Duration::from_secs(args.timeout))?;
    let is_terminal = io::stdin().is_terminal();
    if is_terminal {
        output::note(&format!("You talk to {}. Ctrl-D ends it.", output::printable(&name)));
    }
    let conversation = Conversation { service: Arc::new(service), origin, interrupts: args.interrupt || is_terminal };
    let held = conversation.hold(said, &mut Shown::new(output, name)).await;
    telemetry.end().await;
    Ok(exit_code(held?))
}

fn service(
    records: Records,
    character: Character,
    model: Arc<dyn Model>,
    terminal: Terminal,
    patience: Duration,
) -> memory_core::Result<MessageService> {
    let reflection = ReflectionEvaluator::new(Arc::clone(&model), patience);
    let services = Services::new(records, character).with_tool(remember()).with_evaluator(Arc::new(reflection));
    let composer = Composer::builder(services).built_in().build()?.wrapped(|provider| Always::of("FACTS", provider))?;
    let limits = Limits { model: patience, evaluators: patience * 4, ..Limits::default() };
    let events = Events::new(EVENTS, Arc::new(SystemClock));
    Ok(MessageService::new(composer, model, Arc::new(terminal), events).with_limits(limits))
}

fn model(args: &ChatArgs) -> anyhow::Result<Arc<dyn Model>> {
    let mut config = OpenAiConfig::new(&args.endpoint, &args.model);
    config.key = match env::var(KEY) {
        Ok(key) => Some(key.trim().to_owned()).filter(|key| !key.is_empty()),
        Err(env::VarError::NotPresent) => None,
        Err(env::VarError::NotUnicode(_)) => return Err(Usage(format!("{KEY}: must be text")).into()),
    };
    // The flow gives up a call that takes too long, in words that say so; this is for a call that it forgot.
    config.deadline_ms = (args.timeout + 1) * 1_000;
    let model = OpenAiModel::new(config).map_err(|error| Usage(format!("--endpoint: {}", error.message())))?;
    Ok(Arc::new(model))
}
