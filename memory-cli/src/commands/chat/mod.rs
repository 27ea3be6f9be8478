//! `chat`: a conversation with an agent, at the terminal.

mod session;
mod shown;
mod typed;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use memory_context::agent::{Agent, DIRECT, Limits};
use memory_context::flow::RespondRules;
use memory_context::records::{AgentId, ChannelType, EntityId, Room, RoomId};
use memory_context::state::Character;
use memory_core::{Error, ErrorKind, MemoryProvider};
use tracing::level_filters::LevelFilter;

use self::session::{Asking, Session};
use self::shown::Shown;
use super::{character, exit_code};
use crate::args::values;
use crate::input::Input;
use crate::model_key;
use crate::output::{self, Output};
use crate::telemetry::Telemetry;
use crate::usage::Usage;

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The base URL of the endpoint of the model, which speaks OpenAI's chat completions, such as http://localhost:8080/v1. If it
    /// needs a key, set AGENT_MEMORY_MODEL_KEY in the environment.
    #[arg(long, value_name = "URL", env = "AGENT_MEMORY_MODEL_URL", hide_env_values = true)]
    endpoint: String,
    /// The name of the model.
    #[arg(long, value_name = "NAME", env = "AGENT_MEMORY_MODEL")]
    model: String,
    /// The name of the agent, to which the memory belongs.
    #[arg(long, value_name = "NAME", default_value = "agent", value_parser = values::agent_id)]
    agent: AgentId,
    /// The name of the user who talks to it.
    #[arg(long, value_name = "NAME", default_value = "user")]
    user: String,
    /// The conversation; by default the direct conversation of the user and the agent.
    #[arg(long, value_name = "NAME")]
    room: Option<String>,
    /// The room is a group: the agent answers only messages that it thinks are meant for it, unless SHOULD_RESPOND_BYPASS_TYPES in the
    /// environment names GROUP.
    #[arg(long, requires = "room")]
    group: bool,
    /// The character of the agent, as JSON or @FILE. By default it has only the name of the agent.
    #[arg(long, value_name = "JSON|@FILE")]
    character: Option<Input>,
    /// Do not use tool calls of the endpoint, which may refuse them: the model answers in a form that names
    /// actions, and an answer is shown when it is complete.
    #[arg(long)]
    without_tool_calls: bool,
    /// Also show the tool calls of the agent and their results.
    #[arg(long)]
    verbose: bool,
    /// The deadline of one model call, with all its attempts, in seconds. An answer with tool calls needs several.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// The log level on standard error: off, error, warn, info, debug or trace. The events of each run are logged at info.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: LevelFilter,
}

/// Holds the conversation until the input or a signal ends it, and then waits until the agent has learned from it.
pub(crate) async fn run(
    provider: &Arc<dyn MemoryProvider>,
    args: &ChatArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let character = character(args.character.as_ref(), &args.agent)?;
    let room = room(args).map_err(|error| Usage(format!("--user, --room: {}", error.message())))?;
    let key = model_key::read()?;
    let rules = RespondRules::default().with_environment();
    let rules = rules.map_err(|error| Usage(error.message().to_owned()))?;
    let telemetry = Telemetry::start(args.log, false)?;
    let name = character.name.clone();
    let agent = agent(provider, args, character, rules, key).await?;
    let is_terminal = io::stdin().is_terminal();
    if is_terminal {
        output::note(&format!(
            "You talk to {}. Ctrl-C ends an answer, Ctrl-D the conversation.",
            output::printable(&name)
        ));
    }
    let asking = Asking { agent: &agent, room: agent.room(room), user: &args.user, is_group: args.group, is_terminal };
    let shown = Shown::new(output, name);
    let shown = if args.verbose { shown.with_results() } else { shown };
    let held = Session::start(asking, shown)?.hold().await;
    telemetry.end().await;
    Ok(exit_code(held?))
}

/// The room of the conversation. Fails with `InvalidInput` or `TooLarge` if a name is not a valid id.
fn room(args: &ChatArgs) -> memory_core::Result<Room> {
    if EntityId::parse(&args.user)? == args.agent.entity() {
        return Err(Error::invalid("the user has another name than the agent"));
    }
    let id = match &args.room {
        Some(name) => RoomId::parse(name)?,
        None => RoomId::parse(format!("{DIRECT}{}", args.user))?,
    };
    Ok(Room::new(id, if args.group { ChannelType::Group } else { ChannelType::Dm }))
}

async fn agent(
    provider: &Arc<dyn MemoryProvider>,
    args: &ChatArgs,
    character: Character,
    rules: RespondRules,
    key: Option<String>,
) -> anyhow::Result<Agent> {
    let patience = Duration::from_secs(args.timeout);
    let limits = Limits { model: patience, evaluators: patience * 4, ..Limits::default() };
    let mut builder = Agent::builder(args.agent.as_str())
        .memory(Arc::clone(provider))
        .model(&args.endpoint, &args.model)
        .character(character)
        .rules(rules)
        .limits(limits)
        .grace(limits.evaluators);
    if args.without_tool_calls {
        builder = builder.without_tool_calls();
    }
    let agent = key.into_iter().fold(builder, |builder, key| builder.model_key(key)).build().await;
    agent.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Usage(format!("--endpoint, --character: {}", error.message())).into(),
        _ => error.into(),
    })
}
