//! The command line: its global options, and the command.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use memory_core::MemoryProvider;

use crate::args::EmbedderArgs;
use crate::args::heading::GLOBAL;
use crate::command::{Command, MemoryCommand};
#[cfg(feature = "bench")]
use crate::commands::bench;
#[cfg(feature = "suite")]
use crate::commands::conformance;
use crate::commands::{
    chat, compose, copy, doctor, document, embed, erase, eval, export, health, history, import, migrate, probe, prompt,
    query, quickstart, recall, retention, run, serve, spaces, store, sweep, watch,
};
use crate::engine::{self, DEFAULT_URL};
use crate::output::Output;
use crate::usage::Usage;

/// Store, recall, import and export what an agent remembers.
#[derive(Debug, Parser)]
#[command(name = "agent-memory", version, propagate_version = true)]
pub(crate) struct Cli {
    /// The database that holds the memory: sqlite://data/memory.db, postgres://USER:PASSWORD@HOST/DATABASE,
    /// redis://USER:PASSWORD@HOST/DATABASE or mongodb://USER:PASSWORD@HOST/DATABASE.
    #[arg(
        long = "url",
        global = true,
        help_heading = GLOBAL,
        env = "AGENT_MEMORY_URL",
        hide_env_values = true,
        default_value = DEFAULT_URL,
        value_name = "URL"
    )]
    urls: Vec<String>,
    /// Print one JSON value per line on standard output, and nothing else there.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    #[command(flatten)]
    embedder: EmbedderArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The URL, for commands that take exactly one.
    pub(crate) fn url(&self) -> Result<&str, Usage> {
        match self.urls.as_slice() {
            [url] => Ok(url),
            _ => Err(Usage("--url: this command takes only one".into())),
        }
    }

    /// Runs the command, on the provider of the URL unless it opens one itself.
    pub(crate) async fn run(&self, output: &mut Output) -> anyhow::Result<ExitCode> {
        match &self.command {
            // These commands open no provider (opening would migrate the schema), open several, or let the runtime open it.
            Command::Migrate(args) => migrate::run(self.url()?, args, output).await,
            Command::Run(args) => run::run(self.url()?, args, output).await,
            Command::Probe(args) => probe::run(args).await,
            Command::Doctor(args) => doctor::run(self.url()?, args, output).await,
            Command::Eval(args) => eval::run(self.url()?, args, &self.embedder, output).await,
            #[cfg(feature = "bench")]
            Command::Bench(args) => bench::run(self.url()?, args, output).await,
            #[cfg(feature = "suite")]
            Command::Conformance(args) => conformance::run(&self.urls, args, output).await,
            Command::OnMemory(command) => {
                let url = self.url()?;
                let provider = engine::open(url).await?;
                let result = run_on(&provider, url, command, &self.embedder, output).await;
                let closed = provider.shutdown().await;
                let code = result?;
                closed?;
                Ok(code)
            }
        }
    }
}

async fn run_on(
    shared: &Arc<dyn MemoryProvider>,
    url: &str,
    command: &MemoryCommand,
    embedder: &EmbedderArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let provider = shared.as_ref();
    match command {
        MemoryCommand::Store(args) => store::store(provider, args, output).await,
        MemoryCommand::Update(args) => store::update(provider, args, output).await,
        MemoryCommand::Get(args) => store::get(provider, args, output).await,
        MemoryCommand::History(args) => history::run(provider, args, output).await,
        MemoryCommand::Query(args) => query::run(provider, args, output).await,
        MemoryCommand::Recall(args) => recall::run(provider, args, embedder, output).await,
        MemoryCommand::Embed(args) => embed::run(shared, args, embedder, output).await,
        MemoryCommand::Watch(args) => watch::run(provider, args, output).await,
        MemoryCommand::Spaces(args) => spaces::run(provider, args, output).await,
        MemoryCommand::Document(command) => document::run(provider, command, output).await,
        MemoryCommand::Prompt(command) => prompt::run(provider, command, output).await,
        MemoryCommand::Chat(args) => chat::run(shared, args, output).await,
        MemoryCommand::Compose(args) => compose::run(shared, args, output).await,
        MemoryCommand::Import(args) => import::run(provider, args, output).await,
        MemoryCommand::Export(args) => export::run(provider, args, output).await,
        MemoryCommand::Copy(args) => copy::run(provider, url, args, output).await,
        MemoryCommand::Erase(args) => erase::run(shared, url, args, output).await,
        MemoryCommand::Sweep => sweep::run(provider, output).await,
        MemoryCommand::Retention(args) => retention::run(provider, args, output).await,
        MemoryCommand::Health => health::run(provider, output).await,
        MemoryCommand::Quickstart => quickstart::run(provider, url, output).await,
        MemoryCommand::Serve(args) => serve::run(shared, url, args, embedder).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
