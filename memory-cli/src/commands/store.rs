//! `store`, `update` and `get`: one memory at a time.

use std::process::ExitCode;

use anyhow::bail;
use clap::{ArgGroup, Args};
use memory_core::{
    Clock, Context, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, Metadata, NewMemory, Record, Revision,
    SpaceId, Status, SystemClock, Timestamp, Trigger,
};

use crate::args::{self, ExpiryArgs, values};
use crate::input::Input;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The space of the memory, from broad to narrow: plugin-discord-guild1-general-ana-m1.
    #[arg(long, value_parser = values::space_id)]
    space: SpaceId,
    /// The trigger, what happened, as JSON: the text itself, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    trigger: Input,
    /// The context, the outcome of the trigger, as JSON.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    context: Option<Input>,
    /// A JSON object that conditions can look into.
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<Input>,
    /// The time of the event, in milliseconds since 1970 UTC; now by default.
    #[arg(long, value_name = "MS", value_parser = values::timestamp, allow_negative_numbers = true)]
    created_at: Option<Timestamp>,
    /// The status: pending, running, completed, failed or observed.
    #[arg(long, default_value_t, value_parser = values::status)]
    status: Status,
    /// An idempotency key. A second store with the same key, trigger and space stores nothing and prints the first id; another trigger or
    /// space is refused.
    #[arg(long, value_name = "KEY", value_parser = values::idempotency_key)]
    idempotency_key: Option<IdempotencyKey>,
    #[command(flatten)]
    expiry: ExpiryArgs,
}

#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("change")
        .args([
            "context", "clear_context", "merge_metadata", "replace_metadata", "status", "expires_in", "expires_at",
            "never_expires",
        ])
        .required(true)
        .multiple(true)
))]
pub(crate) struct UpdateArgs {
    /// The id that store printed.
    #[arg(value_parser = values::memory_id)]
    id: MemoryId,
    /// Replace the context with this JSON.
    #[arg(long, value_name = "JSON|@FILE|-", allow_negative_numbers = true, conflicts_with = "clear_context")]
    context: Option<Input>,
    /// Remove the context.
    #[arg(long)]
    clear_context: bool,
    /// Merge this object into the metadata; null removes a member (RFC 7396).
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with = "replace_metadata")]
    merge_metadata: Option<Input>,
    /// Replace the metadata with this object.
    #[arg(long, value_name = "JSON|@FILE|-")]
    replace_metadata: Option<Input>,
    /// The status: pending, running, completed, failed or observed.
    #[arg(long, value_parser = values::status)]
    status: Option<Status>,
    #[command(flatten)]
    expiry: ExpiryArgs,
    /// Clear the expiry.
    #[arg(long, conflicts_with_all = ["expires_in", "expires_at"])]
    never_expires: bool,
    /// Only if the memory is at this revision.
    #[arg(long, value_name = "N", value_parser = values::revision)]
    if_revision: Option<Revision>,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The id that store printed.
    #[arg(value_parser = values::memory_id)]
    id: MemoryId,
    /// As it was at this time, in milliseconds since 1970 UTC.
    #[arg(long, value_name = "MS", value_parser = values::timestamp, allow_negative_numbers = true)]
    as_of: Option<Timestamp>,
}

pub(crate) async fn store(
    provider: &dyn MemoryProvider,
    args: &StoreArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let trigger = args.trigger.read("--trigger", Trigger::parse)?;
    let created_at = args.created_at.unwrap_or_else(|| SystemClock.now());
    let mut memory = NewMemory::new(args.space.clone(), trigger, created_at).with_status(args.status);
    if let Some(context) = &args.context {
        memory = memory.with_context(context.read("--context", Context::parse)?);
    }
    if let Some(metadata) = &args.metadata {
        memory = memory.with_metadata(metadata.read("--metadata", Metadata::parse)?);
    }
    memory.idempotency_key = args.idempotency_key.clone();
    memory.expires_at = args.expiry.time()?;
    let id = provider.store(memory).await?;
    output.value(&serde_json::json!({ "id": id }), id)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn update(
    provider: &dyn MemoryProvider,
    args: &UpdateArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let mut patch = MemoryPatch::new();
    if let Some(context) = &args.context {
        patch = patch.set_context(context.read("--context", Context::parse)?);
    }
    if args.clear_context {
        patch = patch.clear_context();
    }
    if let Some(metadata) = &args.merge_metadata {
        patch = patch.merge_metadata(metadata.read("--merge-metadata", Metadata::parse)?);
    }
    if let Some(metadata) = &args.replace_metadata {
        patch = patch.replace_metadata(metadata.read("--replace-metadata", Metadata::parse)?);
    }
    patch.status = args.status;
    if let Some(time) = args.expiry.time()? {
        patch = patch.set_expiry(time);
    }
    if args.never_expires {
        patch = patch.clear_expiry();
    }
    patch.if_revision = args.if_revision;
    let updated = provider.update(args.id, patch).await?;
    output.value(&updated, format!("revision {}", updated.revision))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn get(
    provider: &dyn MemoryProvider,
    args: &GetArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let memory = match args.as_of {
        None => provider.get(args.id).await?,
        Some(time) => match provider.get_as_of(&args.id.into(), time).await.map_err(args::refused)? {
            Some(Record::Memory(memory)) => Some(memory),
            Some(Record::Document(_)) | None => None,
        },
    };
    let Some(memory) = memory else {
        let then = if args.as_of.is_some() { " then" } else { "" };
        bail!("no memory has the id {}{then}", args.id);
    };
    output.memory(&memory)?;
    Ok(ExitCode::SUCCESS)
}
