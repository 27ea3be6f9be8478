//! `serve`: serves the memory to other programs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use memory_core::{Collection, MemoryProvider, SpaceId, SpaceSelector, Spaces};

use crate::args::{EmbedderArgs, values};
use crate::keeper::{self, MadeVectors};
use crate::serve::{
    self, Access, AgentFile, Callers, ConsoleKey, Doctor, Door, LedgerAccess, Secret, Settings, Tokens, Writable,
};
use crate::sweeper::Sweeper;
use crate::telemetry::Telemetry;
use crate::usage::Usage;
use crate::{backfill, output};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Speak MCP over standard input and output, for a client that starts this program itself.
    #[arg(long, conflicts_with_all = ["listen", "tokens", "agent"])]
    stdio: bool,
    /// The address to listen on. An address that other machines can reach requires --tokens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// A TOML file that maps tokens to the rights of their callers.
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// A TOML file that describes an agent, which is then served at /v1/chat/completions in OpenAI's format.
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Do not serve the console, the pages for people at /.
    #[arg(long)]
    no_console: bool,
    /// Let the console change what its visitor may write, and remove and erase it after a confirmation. By default
    /// it only reads.
    #[arg(long, conflicts_with_all = ["no_console", "stdio"])]
    console_write: bool,
    /// A host name under which clients reach the server, besides IP addresses and localhost.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// The origin of web pages that may call, such as `https://app.example`, besides the server's own.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Without tokens: the space that an MCP client may read, with all below it; everything by default.
    #[arg(long, value_name = "SPACE", value_parser = values::under, help_heading = MCP)]
    read: Vec<SpaceSelector>,
    /// Without tokens: the space for the documents of an MCP client. With --agent, only the agent writes in and below its own space, unless
    /// this is that space or lies below it.
    #[arg(long, value_name = "SPACE", value_parser = values::space_id, default_value = "agent", help_heading = MCP)]
    write: SpaceId,
    /// Without tokens: the collections that an MCP client may use; a call that names none uses the first.
    #[arg(long, value_name = "NAME", value_parser = values::collection, default_value = "notes", help_heading = MCP)]
    collection: Vec<Collection>,
    /// Without tokens: whether an MCP client may only recall from the ledger, or also store and update.
    #[arg(long, value_enum, default_value_t, help_heading = MCP)]
    ledger: LedgerAccess,
    /// The deadline of a request, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// The most concurrent requests, and the most concurrent tool calls; more are refused.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,
    /// The largest body of a request, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 80 << 20)]
    max_body: usize,
    /// After how many milliseconds without a change a watch sends a comment; for tests.
    #[arg(long, hide = true, value_name = "MS", default_value_t = 10_000)]
    heartbeat_ms: u64,
    /// How many milliseconds there are between two measurements for the console; for tests.
    #[arg(long, hide = true, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    sample_ms: u64,
    /// How many milliseconds a client takes nothing until its connection ends; for tests.
    #[arg(long, hide = true, value_name = "MS", default_value_t = 120_000)]
    stall_ms: u64,
    /// How much to log on standard error: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: tracing::level_filters::LevelFilter,
    /// Also log what requests and answers hold, which may be private.
    #[arg(long)]
    log_payloads: bool,
}

const MCP: &str = "MCP clients without a token of a file";
/// Names the secret of a server that one program has for itself, such as a client that has started it.
const TOKEN: &str = "AGENT_MEMORY_TOKEN";

/// Serves until a signal, or the client at the other end of the streams, ends it.
pub(crate) async fn run(
    provider: &Arc<dyn MemoryProvider>,
    url: &str,
    args: &ServeArgs,
    embedder: &EmbedderArgs,
) -> anyhow::Result<ExitCode> {
    let tokens = args.tokens.as_deref().map(Tokens::read).transpose();
    let tokens = tokens.map_err(|error| Usage(format!("--tokens: {error:#}")))?;
    // One that is empty or can't be read is a mistake, and no reason to let everybody in.
    let secret = std::env::var_os(TOKEN).filter(|_| !args.stdio);
    let secret = secret.map(|token| Secret::new(token.to_str().unwrap_or_default())).transpose();
    let secret = secret.map_err(|error| Usage(format!("{TOKEN}: {error:#}")))?;
    if !args.stdio && tokens.is_none() && !args.listen.ip().is_loopback() {
        return Err(Usage("--listen: other machines reach this address, so it needs --tokens".to_owned()).into());
    }
    let door = match (tokens, secret) {
        (None, None) => Door::Open,
        (None, Some(secret)) => Door::Secret(secret),
        (Some(tokens), None) => Door::Tokens(tokens),
        (Some(_), Some(_)) => {
            return Err(
                Usage(format!("--tokens: can't be combined with {TOKEN} in the environment: leave one out")).into()
            );
        }
    };
    let time = Duration::from_secs(args.timeout);
    let agent = args.agent.as_deref().map(|file| AgentFile::read(file)?.builder(provider, time)).transpose();
    let agent = agent.map_err(|error| Usage(format!("--agent: {error:#}")))?;
    let embedding = match embedder.open().await? {
        Some(embedder) => Some((embedder, MadeVectors::new()?)),
        None => None,
    };
    let telemetry = Telemetry::start(args.log, args.log_payloads)?;
    let mcp = Access {
        name: "local".to_owned(),
        readable: if args.read.is_empty() { Spaces::All } else { Spaces::Any(args.read.clone()) },
        writable: Writable::Under(args.write.clone()),
        reserved: None,
        collections: Some(args.collection.clone()),
        ledger: args.ledger,
        erases: false,
    };
    let settings = Settings {
        callers: Callers {
            key: ConsoleKey::of(&door),
            door,
            rest: Access::unlimited(),
            mcp,
            hosts: args.allow_host.clone(),
            origins: args.allow_origin.clone(),
        },
        time,
        heartbeat: Duration::from_millis(args.heartbeat_ms),
        stall: Duration::from_millis(args.stall_ms),
        concurrency: args.concurrency,
        max_body: args.max_body,
        console: !args.no_console,
        console_write: args.console_write,
        sampling: Duration::from_millis(args.sample_ms),
        doctor: Doctor::of(url),
        agent,
        embedding: embedding.clone(),
    };
    let backfill = tokio::spawn(backfill::complete_behind(Arc::clone(provider)));
    let sweeping = tokio::spawn(Sweeper::new(Arc::clone(provider)).run());
    let keeping = embedding.map(|(embedder, made)| tokio::spawn(keeper::keep(Arc::clone(provider), embedder, made)));
    let served = if args.stdio {
        serve::over_stdio(provider, settings).await
    } else {
        let listening = |address| output::note(&format!("listening on http://{address}"));
        serve::over_http(provider, settings, args.listen, listening).await
    };
    // Between two slices or in one, which has its whole effect or none.
    backfill.abort();
    sweeping.abort();
    if let Some(keeping) = keeping {
        keeping.abort();
    }
    telemetry.end().await;
    served.map(|()| ExitCode::SUCCESS)
}
