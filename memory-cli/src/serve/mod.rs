//! The server: REST, MCP, a console and an agent over HTTP, or MCP over standard input and output.

mod access;
mod callers;
mod configuration;
mod console;
mod doctor;
mod extract;
mod guard;
mod limits;
mod mcp;
mod metrics;
mod openai;
mod probes;
mod problem;
mod records;
mod request;
pub(crate) mod rest;
mod samples;
mod sampling;
mod scope;
mod settings;
mod stall;
mod state;
pub(crate) mod tools;
pub(crate) mod unquoted;
pub(crate) mod watching;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, Uri, header};
use axum::routing::get;
use axum::{Router, middleware};
use memory_context::agent::Agent;
use memory_core::MemoryProvider;
use rmcp::ServiceExt as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::{signal, usage};

pub(crate) use access::{Access, LedgerAccess, Writable};
use limits::{Limits, PATIENCE};
use mcp::Mcp;
use metrics::Metrics;
use problem::Problem;
use samples::Samples;
use stall::StallListener;
use state::{Server, ServerState};

pub(crate) use callers::Callers;
pub(crate) use callers::door::Door;
pub(crate) use callers::key::ConsoleKey;
pub(crate) use callers::tokens::{Secret, Tokens};
pub(crate) use doctor::Doctor;
pub(crate) use openai::AgentFile;
pub(crate) use settings::Settings;

/// Serves over HTTP until a signal ends it. Passes the address to `listening`.
pub(crate) async fn over_http(
    provider: &Arc<dyn MemoryProvider>,
    mut settings: Settings,
    address: SocketAddr,
    listening: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let (max_body, patience, builder) = (settings.max_body, settings.stall, settings.agent.take());
    let (has_console, sampling) = (settings.console, settings.sampling);
    let sessions = CancellationToken::new();
    let listener = TcpListener::bind(address).await.with_context(|| format!("can't listen on {address}"))?;
    let agent = match builder {
        Some(builder) => Some(builder.build().await.map_err(|error| usage::refused("--agent", error))?),
        None => None,
    };
    if let Some(agent) = &agent {
        settings.callers.reserve(&agent.records().agent().space()?)?;
    }
    let server = server(provider, settings, agent.clone())?;
    let app = app(&server, agent.as_ref(), has_console, max_body, &sessions)?;
    let signal = signal::asked_to_end()?;
    let _sampling =
        has_console.then(|| AbortOnDropHandle::new(tokio::spawn(sampling::keep(Arc::clone(&server), sampling))));
    listening(listener.local_addr()?);

    let listener = StallListener { listener, patience };
    let accepting = axum::serve(listener, app).with_graceful_shutdown(server.stopping.clone().cancelled_owned());
    let mut accepting = tokio::spawn(accepting.into_future());
    tokio::select! {
        ended = &mut accepting => return Ok(ended??),
        () = signal => tracing::info!("shutting down"),
    }
    server.stopping.cancel();
    let end_of_agent = async {
        match &agent {
            Some(agent) => agent.shutdown().await,
            None => Ok(()),
        }
    };
    let ((), ended) = tokio::join!(server.limits.drain(PATIENCE), end_of_agent);
    // Streams that only wait for events would keep their connections open forever.
    sessions.cancel();
    if tokio::time::timeout(PATIENCE, accepting).await.is_err() {
        tracing::warn!("connections were still open when the server ended");
    }
    Ok(ended?)
}

async fn not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not support the method")
}

/// Serves MCP over standard input and output until the client closes them, or a signal comes.
pub(crate) async fn over_stdio(provider: &Arc<dyn MemoryProvider>, settings: Settings) -> anyhow::Result<()> {
    let server = server(provider, settings, None)?;
    let signal = signal::asked_to_end()?;
    let serving = async {
        let client = Mcp::over_stdio(Arc::clone(&server)).serve(rmcp::transport::stdio()).await;
        // The library's message may quote what the client sent.
        let client =
            client.map_err(|_| anyhow::anyhow!("the client has left, or sent something else, before the handshake"))?;
        client.waiting().await?;
        anyhow::Ok(())
    };
    tokio::select! {
        ended = serving => ended?,
        () = signal => tracing::info!("shutting down"),
    }
    server.limits.drain(PATIENCE).await;
    Ok(())
}

/// The routes of a server without an agent, for a caller that has no listener. Needs a runtime only to answer.
pub(crate) fn router(provider: &Arc<dyn MemoryProvider>, settings: Settings) -> anyhow::Result<Router> {
    let (max_body, has_console) = (settings.max_body, settings.console);
    app(&server(provider, settings, None)?, None, has_console, max_body, &CancellationToken::new())
}

fn server(provider: &Arc<dyn MemoryProvider>, settings: Settings, agent: Option<Agent>) -> anyhow::Result<Server> {
    let limits = Limits::new(&settings);
    let (embedder, made) = settings.embedding.unzip();
    Ok(Arc::new(ServerState {
        provider: Arc::clone(provider),
        documents: provider.documents(),
        tools: tools::tools(provider, embedder.as_ref()),
        agent,
        embedder,
        metrics: Metrics::new(made.as_ref())?,
        samples: Samples::default(),
        doctor: settings.doctor,
        callers: settings.callers,
        console_write: settings.console_write,
        limits,
        stopping: CancellationToken::new(),
    }))
}

fn app(
    server: &Server,
    agent: Option<&Agent>,
    has_console: bool,
    max_body: usize,
    sessions: &CancellationToken,
) -> anyhow::Result<Router> {
    let (rest, mut api) = rest::routes(!matches!(server.callers.door, Door::Open));
    let (probes, api_of_probes) = probes::routes(&server.provider);
    api.merge(api_of_probes);
    // As shared bytes, since each connection clones the state of the routes.
    let api = Bytes::from(serde_json::to_vec(&api)?);
    let api = move || async { ([(header::CONTENT_TYPE, "application/json")], api) };
    // The guard has checked host and origin already.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(max_body)
        .with_cancellation_token(sessions.clone());
    let client = Arc::clone(server);
    let mcp = StreamableHttpService::new(
        move || Ok(Mcp::over_http(Arc::clone(&client))),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let pages = if has_console { console::routes(server.console_write) } else { Router::new() };
    let app = rest
        .merge(pages)
        .route("/v1/openapi.json", get(api))
        .fallback(async |_: Uri| Problem::new(StatusCode::NOT_FOUND, "nothing is served at this path"))
        .method_not_allowed_fallback(not_allowed)
        .with_state(Arc::clone(server))
        .layer(middleware::map_response(rest::log_answer))
        .route_service("/mcp", mcp);
    let app = match agent {
        Some(agent) => {
            app.merge(openai::routes(server, agent.clone(), max_body).method_not_allowed_fallback(not_allowed))
        }
        None => app,
    };
    let app = app
        .layer(DefaultBodyLimit::max(max_body))
        .layer(middleware::from_fn_with_state(Arc::clone(server), guard::guard))
        .merge(probes.method_not_allowed_fallback(not_allowed));
    let app = if has_console { app.layer(middleware::from_fn(console::in_pages)) } else { app };
    Ok(if agent.is_some() { app.layer(middleware::from_fn(openai::in_openai_form)) } else { app })
}
