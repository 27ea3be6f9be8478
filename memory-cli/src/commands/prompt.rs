//! `prompt`: shows and changes the prompt memory of an agent.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use memory_context::prompt::{
    Action, HistoryEntry, MemoryLoadContext, MemoryScope, MemoryStore, MemoryUpdate, PromptMemory, UpdateReport,
};
use memory_core::{Error, ErrorKind, IdempotencyKey, MemoryProvider};

use crate::args::values;
use crate::input::Input;
use crate::output::{self, Output};
use crate::usage::Usage;

#[derive(Debug, Subcommand)]
pub(crate) enum PromptCommand {
    /// Show the text for the system prompt, or one of the stored texts.
    Show(ShowArgs),
    /// Append a text.
    Add(ChangeArgs),
    /// Replace the stored text.
    Replace(ChangeArgs),
    /// Remove every line that holds a text.
    Remove(ChangeArgs),
    /// Show the last changes, newest first.
    History(StoreArgs),
    /// Undo the newest change; if repeated, the one before.
    Undo(StoreArgs),
}

/// The options for the session, the user, the agent and the personality.
#[derive(Debug, Args)]
#[command(next_help_heading = "Context")]
struct ContextArgs {
    /// The key of the session.
    #[arg(long, value_name = "KEY")]
    session: String,
    /// The user, whose profile all sessions share; without one, the profile belongs to the session.
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// The agent, which has its own profile of each user.
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// The personality with which the agent speaks.
    #[arg(long, value_name = "ID")]
    personality: Option<String>,
    /// Whether all personalities share the memory of the session, or each has its own.
    #[arg(long, default_value = "global")]
    scope: ScopeArg,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    context: ContextArgs,
    /// Show only this text, complete and as it is stored.
    #[arg(long)]
    store: Option<StoreArg>,
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    context: ContextArgs,
    /// The project's memory, or the user's profile.
    #[arg(long, default_value = "memory")]
    store: StoreArg,
    /// An idempotency key: repeating the change under the same key does nothing.
    #[arg(long, value_name = "KEY", value_parser = values::idempotency_key)]
    batch_key: Option<IdempotencyKey>,
    /// The text itself, @FILE, or - for standard input.
    #[arg(value_name = "TEXT|@FILE|-", allow_hyphen_values = true)]
    text: Input,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    context: ContextArgs,
    /// The project's memory, or the user's profile.
    #[arg(long, default_value = "memory")]
    store: StoreArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    Global,
    PerPersonality,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StoreArg {
    Memory,
    User,
}

impl From<&ContextArgs> for MemoryLoadContext {
    fn from(args: &ContextArgs) -> Self {
        let mut context = Self::new(args.session.clone(), args.session.clone(), "cli");
        context.user_id = args.user.clone();
        context.agent_id = args.agent.clone();
        context.personality_id = args.personality.clone();
        context.memory_scope = match args.scope {
            ScopeArg::Global => MemoryScope::Global,
            ScopeArg::PerPersonality => MemoryScope::PerPersonality,
        };
        context
    }
}

impl From<StoreArg> for MemoryStore {
    fn from(store: StoreArg) -> Self {
        match store {
            StoreArg::Memory => Self::Memory,
            StoreArg::User => Self::User,
        }
    }
}

pub(crate) async fn run(
    provider: &dyn MemoryProvider,
    command: &PromptCommand,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let memory = PromptMemory::new(provider.documents());
    match command {
        PromptCommand::Show(args) => show(&memory, args, output).await?,
        PromptCommand::Add(args) => change(&memory, Action::Add, args, output).await?,
        PromptCommand::Replace(args) => change(&memory, Action::Replace, args, output).await?,
        PromptCommand::Remove(args) => change(&memory, Action::Remove, args, output).await?,
        PromptCommand::History(args) => history(&memory, args, output).await?,
        PromptCommand::Undo(args) => undo(&memory, args, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(memory: &PromptMemory, args: &ShowArgs, output: &mut Output) -> anyhow::Result<()> {
    let context = (&args.context).into();
    if let Some(store) = args.store {
        let text = memory.read(&context, store.into()).await.map_err(refused)?;
        let shown = text.as_deref().map_or("nothing is kept".to_owned(), output::printable);
        output.value(&serde_json::json!({ "text": text }), shown)?;
        return Ok(());
    }
    let shown = memory.prefetch(&context).await.map_err(refused)?;
    let content = shown.as_ref().map_or("nothing goes into the prompt".to_owned(), |it| output::printable(&it.content));
    output.value(&shown, content)?;
    Ok(())
}

async fn change(memory: &PromptMemory, action: Action, args: &ChangeArgs, output: &mut Output) -> anyhow::Result<()> {
    let (context, store) = ((&args.context).into(), args.store.into());
    let text = args.text.read("TEXT", |text| Ok(text.to_owned()))?;
    let update = match action {
        Action::Add => MemoryUpdate::add(store, text),
        Action::Replace => MemoryUpdate::replace(store, text),
        // A file ends with a line break, which no line holds.
        Action::Remove => MemoryUpdate::remove(store, text.trim_end_matches(['\r', '\n'])),
    };
    let report = match &args.batch_key {
        Some(key) => memory.sync_once(&context, key, &[update]).await,
        None => memory.sync(&context, &[update]).await,
    };
    for update in report.map_err(refused)?.updates {
        output.value(&update, describe(&update, action))?;
        let unseen = update.flags.invisible + update.flags.bidi;
        if unseen > 0 {
            output::note(&format!("note: the text holds {unseen} characters that a reader does not see"));
        }
    }
    Ok(())
}

fn describe(update: &UpdateReport, action: Action) -> String {
    let revision = update.revision.map(|revision| format!("revision {revision}")).unwrap_or_default();
    match action {
        _ if update.repeated => format!("applied before: {revision}"),
        _ if !update.changed => "nothing changed".to_owned(),
        Action::Remove => format!("{revision}: lines removed: {}", update.matched_lines),
        _ => revision,
    }
}

async fn history(memory: &PromptMemory, args: &StoreArgs, output: &mut Output) -> anyhow::Result<()> {
    let changes = memory.history(&(&args.context).into(), args.store.into()).await.map_err(refused)?;
    if changes.is_empty() && !output.is_json() {
        output.line("nothing was ever kept")?;
    }
    for change in &changes {
        output.value(change, for_people(change))?;
    }
    Ok(())
}

/// Describes a change: what, when and where, with its lines.
fn for_people(change: &HistoryEntry) -> String {
    let mut text = format!(
        "revision {}, {}, session {} on {}",
        change.revision,
        output::date(change.at),
        change.session_id,
        change.platform
    );
    text.extend(change.batch.as_ref().map(|key| format!(", batch {key}")));
    text.extend(change.undoes.map(|revision| format!(", undoes revision {revision}")));
    match &change.diff {
        Some(diff) => {
            text.extend(diff.removed.iter().map(|line| format!("\n- {line}")));
            text.extend(diff.added.iter().map(|line| format!("\n+ {line}")));
        }
        None => text.push_str("\nwhat it changed is not kept any more"),
    }
    output::printable(&text)
}

async fn undo(memory: &PromptMemory, args: &StoreArgs, output: &mut Output) -> anyhow::Result<()> {
    let Some(undone) = memory.undo(&(&args.context).into(), args.store.into()).await.map_err(refused)? else {
        bail!("there is no change that can be undone");
    };
    output.value(&undone, format!("revision {}: revision {} is undone", undone.revision, undone.undid))?;
    Ok(())
}

/// Reports a refusal of the prompt memory as a mistake in the arguments.
fn refused(error: Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::TooLarge => Usage::from(error).into(),
        _ => error.into(),
    }
}
