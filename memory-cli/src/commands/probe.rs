//! `probe`: checks whether a server is ready.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use clap::Args;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// The address on which the server listens.
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1:7700")]
    address: SocketAddr,
}

/// The deadline, which is longer than the server waits for its engine.
const TIME: Duration = Duration::from_secs(10);

/// Fails unless the server at the address is ready.
pub(crate) async fn run(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let status = tokio::time::timeout(TIME, ask(args.address)).await;
    let status = status.context("the server did not answer in time")?.context("the server can't be asked")?;
    if status != StatusCode::OK {
        bail!("the server is not ready: it answered {status}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(address: SocketAddr) -> anyhow::Result<StatusCode> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/readyz").header(header::HOST, address.to_string()).body(Body::empty())?;
    // The connection future drives the exchange, and must not end before it.
    tokio::select! {
        response = sender.send_request(request) => Ok(response?.status()),
        ended = connection => bail!("the server closed the connection: {ended:?}"),
    }
}
