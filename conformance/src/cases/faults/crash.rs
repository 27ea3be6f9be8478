//! A server that is killed and restarted.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use memory_core::ErrorKind;

use super::client::{Client, Load};
use super::{faults, works_again};
use crate::case::{CaseResult, Stage, chapter};

chapter!("faults":
    a_killed_server_keeps_what_it_acknowledged ["W1", "W2", "W11", "L3"] needs OwnServer,
);

/// How often the server is killed.
const ROUNDS: usize = 2;
/// How many calls are made before each kill.
const CALLS: usize = 60;

/// The server is killed under clients that write, and started again. Acknowledged writes are there, once, and the same provider works
/// again.
async fn a_killed_server_keeps_what_it_acknowledged(stage: Stage) -> CaseResult {
    let stage = stage.with_deadline(Duration::from_secs(5));
    let harness = Arc::clone(stage.harness());
    // Starting, killing and ending a server blocks.
    let start = move || harness.faults().expect("a harness with a server").start();
    let mut server = tokio::task::spawn_blocking(start).await??;
    let provider = faults(&stage).open(&server.url(), stage.namespace()).await?;
    provider.init().await?;
    let mut clients = try_join_all(["a", "b", "c", "d"].map(|name| Client::new(name, &*provider))).await?;
    for _ in 0..ROUNDS {
        let load = Load::start(clients, &provider);
        load.makes(CALLS).await;
        server = tokio::task::spawn_blocking(move || server.kill().map(|()| server)).await??;
        let health = provider.check_health().await;
        assert_eq!(
            health.map_err(|error| error.kind()).err(),
            Some(ErrorKind::Unavailable),
            "a dead server is healthy"
        );
        server = tokio::task::spawn_blocking(move || server.restart().map(|()| server)).await??;
        works_again(&*provider).await?;
        clients = load.stop().await?;
    }
    let mut mistakes = Vec::new();
    for client in &clients {
        mistakes.extend(client.mistakes(&*provider).await?);
        assert!(client.acknowledged() > 0);
    }
    assert_eq!(mistakes, [""; 0]);
    provider.shutdown().await?;
    tokio::task::spawn_blocking(move || drop(server)).await?;
    Ok(())
}
