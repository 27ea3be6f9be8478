//! `run`: runs the steps of a pipeline for one task.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use memory_core::{Clock, Collection, Error, MemoryId, Metadata, Result, Status, SystemClock, Timestamp};
use memory_runtime::{
    ContextContent, ContextItem, ContextKind, Finished, FixedPlanner, NewTask, Pipeline, Runtime, Space,
};
use serde::{Deserialize, Serialize};

use crate::args::values;
use crate::engine;
use crate::input::Input;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The steps: {"steps":[{"pluginId":"memory","action":"memory:query","arguments":{…}}]}.
    #[arg(long, value_name = "FILE")]
    pipeline: std::path::PathBuf,
    /// The task, with its space and trigger: {"space":{"id":"…","container":"…"},"trigger":…}.
    #[arg(long, value_name = "JSON|@FILE|-")]
    task: Input,
    /// A collection of documents that the steps may use; a step that names none uses the first.
    #[arg(long, value_name = "NAME", default_value = "notes", value_parser = values::collection)]
    collection: Vec<Collection>,
}

/// The JSON of a task.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    space: Space,
    trigger: ContextContent,
    #[serde(default)]
    metadata: Metadata,
    created_at: Option<Timestamp>,
}

/// The outcome of the task, with the chain as it is stored.
#[derive(Serialize)]
struct Shown<'a> {
    id: MemoryId,
    status: Status,
    chain: &'a [ContextItem],
}

pub(crate) async fn run(url: &str, args: &RunArgs, output: &mut Output) -> anyhow::Result<ExitCode> {
    let pipeline = Input::File(args.pipeline.clone()).read("--pipeline", parse::<Pipeline>)?;
    let task = args.task.read("--task", parse::<Written>)?;
    let address = engine::parse(url)?;
    let runtime = Runtime::builder()
        .memory(engine::provider(url)?)
        .planner(Arc::new(FixedPlanner::new(pipeline)))
        .collections(args.collection.iter().cloned())
        .build()
        .await
        .with_context(|| address.location())?;
    let trigger = ContextItem::trigger("cli", task.trigger, task.created_at.unwrap_or_else(|| SystemClock.now()));
    let result = work(&runtime, NewTask::new(task.space, trigger).with_metadata(task.metadata)).await;
    let closed = runtime.shutdown().await;
    let finished = result?;
    closed?;
    show(&finished, output)?;
    Ok(super::exit_code(finished.status == Status::Failed))
}

async fn work(runtime: &Runtime, task: NewTask) -> Result<Finished> {
    runtime.submit(task).await?.wait().await
}

fn show(finished: &Finished, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.json(&Shown { id: finished.id, status: finished.status, chain: &finished.chain })?);
    }
    let mut rows = vec![("id", finished.id.to_string()), ("status", finished.status.to_string())];
    for item in &finished.chain {
        let content = item.content.as_str();
        match (item.kind, &item.action) {
            (ContextKind::Result, Some(action)) => rows.push(("result", format!("{action}: {content}"))),
            (ContextKind::Error, Some(action)) => rows.push(("error", format!("{action}: {content}"))),
            (ContextKind::Error, None) => rows.push(("error", content.to_owned())),
            _ => {}
        }
    }
    Ok(output.details(rows)?)
}

/// Parses JSON. The error quotes no value.
fn parse<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Error::invalid(format!(
            "does not have the right shape at line {} column {}; see --help",
            error.line(),
            error.column()
        )),
        _ => Error::invalid(format!("not valid JSON at line {} column {}", error.line(), error.column())),
    })
}
