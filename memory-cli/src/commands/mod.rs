//! The commands, one file per group.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use memory_context::records::AgentId;
use memory_context::state::Character;
use memory_core::{Error, MemoryProvider};

use crate::args::Cli;
use crate::engine;
use crate::input::{self, Input};
use crate::output::Output;

mod bench;
mod chat;
mod compose;
mod conformance;
mod copy;
mod doctor;
mod document;
mod export;
mod health;
mod import;
mod migrate;
mod prompt;
mod query;
mod quickstart;
mod run;
mod serve;
mod store;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Append a memory to the ledger and print its id.
    Store(store::StoreArgs),
    /// Change the context, the metadata or the status of a memory.
    Update(store::UpdateArgs),
    /// Show one memory.
    Get(store::GetArgs),
    /// Recall memories from the spaces that you name.
    ///
    /// When there are more, the option that asks for the next page goes to standard error: "next: --cursor ...". With --json,
    /// each memory is one line on standard output, as import reads it. --text needs a text index, which the URL asks for:
    /// sqlite://data/memory.db?text_index=all.
    Query(query::QueryArgs),
    /// Keep and search documents, the texts that an agent itself saves.
    #[command(subcommand)]
    Document(document::DocumentCommand),
    /// Keep what goes into the system prompt of an agent: its memory of the project, and the profile of its user.
    #[command(subcommand)]
    Prompt(prompt::PromptCommand),
    /// Talk to an agent at the terminal: a model behind an endpoint answers, and what is said is kept.
    ///
    /// Each line of standard input is a message, and each answer comes on standard output. The messages, what the agent thought and did,
    /// and the facts that it learned stay in the memory, and the next conversation goes on from there. The end of the input, or
    /// Ctrl-C, ends it when what was said is answered, and a second Ctrl-C at once. With --json, each answer is a line
    /// {"kind":"answer",...}, and what became of each line of the input is one {"kind":"end",...}. A message that can't be answered
    /// is reported, makes the exit code 1 in the end, and the conversation goes on.
    Chat(chat::ChatArgs),
    /// Show what an agent would know when it answers a message: its conversation, its character, what it can do.
    ///
    /// By default all providers but the dynamic and the private ones contribute. The exit code is 1 when one that was asked for
    /// is missing or has failed; the text of the others is shown all the same.
    Compose(compose::ComposeArgs),
    /// Do the steps of a pipeline for one task, and show what came of it.
    ///
    /// The task is persisted before the first step, and after each of them. Steps call the executors of the memory plugin
    /// (memory:query, memory:add_document, memory:remove_document) within the container of the task, which is the parent of
    /// its space unless it names another. Where an argument is {"$task":"/trigger/text"}, it stands for that part of the task:
    /// /trigger, /results/0, /metadata or /space. Exit code 1 when a step failed.
    Run(run::RunArgs),
    /// Read memories and documents from JSON lines; repeating an import changes nothing.
    ///
    /// A line is a memory, or a document if it says "kind":"document", as export writes them. With an id it is restored as
    /// it is; without, it is stored under a key (a document under an id) made from its content. Lines go in batches: one that
    /// can't be read stops the import, and nothing of its batch stays behind. One that differs from what has its id or key is
    /// reported and left out, and makes the exit code 1.
    Import(import::ImportArgs),
    /// Write memories and documents as JSON lines, oldest first.
    ///
    /// Without options, everything: all memories, then the documents of all collections. With spaces or conditions, only the
    /// memories that they select; with --documents also the documents in those spaces.
    Export(export::ExportArgs),
    /// Copy memories and documents to another engine, and verify what is there then.
    ///
    /// Without options, everything; else what the selectors of query find, with --documents also documents. Ids, revisions and
    /// keys are kept. What is there already stays as it is, so that a copy that was interrupted is repeated to go on; a record
    /// that differs is reported, and makes the exit code 1.
    Copy(copy::CopyArgs),
    /// Try what an operator would try, one after the other, and say what is wrong.
    ///
    /// Connection, schema, indexes, the clock, versions, durability, recall, and a probe that writes and reads in a place of its
    /// own, which is removed. The exit code is 1 when something is bad.
    Doctor(doctor::DoctorArgs),
    /// Show whether the engine works, and what an acknowledged write survives.
    Health,
    /// Bring the schema up to date, as every other command does on its own.
    Migrate(migrate::MigrateArgs),
    /// Run the suite that proves an engine, in a place of its own that is removed afterwards.
    ///
    /// With several --url, the table has one column for each engine, and the cases on which they differ come first; memory: is
    /// the reference. What the URLs themselves name stays untouched. The exit code is 0 when every case that ran has passed,
    /// and 1 when one failed, none ran, or a signal ended the run; then no further case begins.
    Conformance(conformance::ConformanceArgs),
    /// Measure an engine at a size of your choice, in a place of its own that is removed afterwards.
    ///
    /// Loads a ledger, recalls from it, walks through it, and writes to it; tells how often in a second that goes and how long it
    /// takes, as a table in Markdown or as JSON. memory: is the reference. What the URL itself names stays untouched. Mind the
    /// space on the disk: ten million memories of 600 bytes take about 10 GB.
    Bench(bench::BenchArgs),
    /// Load a small sample and show how recall works: start here.
    Quickstart,
    /// Serve the memory to other programs: REST at /v1, and MCP at /mcp or over standard input and output.
    Serve(serve::ServeArgs),
}

impl Command {
    /// Whether it does many things at once.
    pub(crate) fn is_parallel(&self) -> bool {
        matches!(self, Self::Bench(_) | Self::Conformance(_) | Self::Serve(_))
    }
}

/// Runs the command that the user named.
pub(crate) async fn run(cli: Cli, output: &mut Output) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Migrate(args) => return migrate::run(cli.url()?, args, output).await,
        // The runtime opens and closes its provider by itself.
        Command::Run(args) => return run::run(cli.url()?, args, output).await,
        Command::Doctor(args) => return doctor::run(cli.url()?, args, output).await,
        Command::Bench(args) => return bench::run(cli.url()?, args, output).await,
        Command::Conformance(args) => return conformance::run(cli.urls(), args, output).await,
        _ => {}
    }
    let provider = engine::open(cli.url()?).await?;
    let result = match &cli.command {
        Command::Serve(args) => serve::run(&provider, args).await,
        Command::Chat(args) => chat::run(&provider, args, output).await,
        Command::Compose(args) => compose::run(&provider, args, output).await,
        _ => run_on(provider.as_ref(), &cli, output).await,
    };
    let closed = provider.shutdown().await;
    let code = result?;
    closed?;
    Ok(code)
}

async fn run_on(provider: &dyn MemoryProvider, cli: &Cli, output: &mut Output) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Store(args) => store::store(provider, args, output).await,
        Command::Update(args) => store::update(provider, args, output).await,
        Command::Get(args) => store::get(provider, args, output).await,
        Command::Query(args) => query::run(provider, args, output).await,
        Command::Document(command) => document::run(provider, command, output).await,
        Command::Prompt(command) => prompt::run(provider, command, output).await,
        Command::Import(args) => import::run(provider, args, output).await,
        Command::Export(args) => export::run(provider, args, output).await,
        Command::Copy(args) => copy::run(provider, cli.url()?, args, output).await,
        Command::Health => health::run(provider, output).await,
        Command::Quickstart => quickstart::run(provider, cli.url()?, output).await,
        // Handled before: by providers that are not opened, which would migrate, or that are shared.
        Command::Migrate(_)
        | Command::Run(_)
        | Command::Doctor(_)
        | Command::Bench(_)
        | Command::Conformance(_)
        | Command::Serve(_)
        | Command::Chat(_)
        | Command::Compose(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Success, or 1 when something was reported on the way.
fn exit_code(has_failures: bool) -> ExitCode {
    if has_failures { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Writes a report to the file that an option names.
fn write_report(file: &Path, report: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(file, report).with_context(|| format!("{} can't be written", input::name(file)))
}

/// Who the agent is: what an option says, or one that is called like its memory.
fn character(option: Option<&Input>, agent: &AgentId) -> anyhow::Result<Character> {
    let parse = |json: &str| {
        serde_json::from_str(json).map_err(|error| Error::invalid("not the JSON of a character").with_source(error))
    };
    match option {
        Some(input) => input.read("--character", parse),
        None => Ok(Character::named(agent.as_str())),
    }
}
