//! Many watches over REST: the memory of the server, and how long a change takes to reach each of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::workload::Ledger;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::rest::{Server, over_http};
use crate::{millis, quantile, rows};

/// How many stores there are while they watch, and how long after one the next is begun.
const STORES: usize = 100;
const BETWEEN: Duration = Duration::from_millis(100);
/// The number of watches that start at once: a server refuses requests over its limit.
const BEGINNING: usize = 16;
/// The most that the server may take, in megabytes.
const MOST: f64 = 150.0;

pub(crate) fn run() {
    let (watchers, runtime) = (rows(1_000), Runtime::new().expect("a runtime"));
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = || format!("sqlite://{}", folder.path().join("memory.db").display());
    let url = std::env::var("MEMORY_BENCH_URL").unwrap_or_else(|_| in_folder());
    let server = Server::start(&url);
    let alone = server.most_resident();
    let (silent, times) = runtime.block_on(async {
        // The watching clients, and the storing one.
        let begun = Arc::new(Barrier::new(watchers + 1));
        let turns = Arc::new(Semaphore::new(BEGINNING));
        let mut watching = JoinSet::new();
        for _ in 0..watchers {
            watching.spawn(watch(server.address.clone(), Arc::clone(&turns), Arc::clone(&begun)));
        }
        begun.wait().await;
        let silent = server.most_resident();
        let stored = stores(&server.address).await;
        let mut times = Vec::new();
        for told in watching.join_all().await {
            // One connection stores one after the other, and the changes come in that order.
            times.extend(told.iter().zip(&stored).map(|(told, stored)| told.saturating_duration_since(*stored)));
        }
        times.sort_unstable();
        (silent, times)
    });
    let most = server.most_resident();
    println!("\n{watchers} who watch everything over REST, and {STORES} stores.\n");
    println!("| | memory of the server |\n|---|---|\n| alone | {alone:.0} MB |\n| watched | {silent:.0} MB |");
    println!("| behind the stores | {most:.0} MB |\n\n| a change reaches them | within |\n|---|---|");
    for (name, part) in [("half", 0.5), ("95 %", 0.95), ("all", 1.0)] {
        println!("| {name} | {} |", millis(quantile(&times, part)));
    }
    assert!(most < MOST, "the server takes {most:.0} MB, and may take {MOST:.0}");
}

/// When each store was begun.
async fn stores(address: &str) -> Vec<Instant> {
    let (ledger, mut clock, mut stored) = (Ledger::new(STORES), interval(BETWEEN), Vec::new());
    for place in 0..STORES {
        clock.tick().await;
        stored.push(Instant::now());
        over_http(address.to_owned(), vec![ledger.row(place)]).await;
    }
    stored
}

/// Watches from now on; reports when each stored memory came.
async fn watch(address: String, turns: Arc<Semaphore>, begun: Arc<Barrier>) -> Vec<Instant> {
    let mut turn = Some(turns.acquire().await.expect("it is never closed"));
    let mut stream = BufReader::new(TcpStream::connect(&address).await.expect("the server listens"));
    let request = format!("GET /v1/watch?all=true HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let (mut line, mut told) = (String::new(), Vec::new());
    stream.read_line(&mut line).await.expect("the server answers");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    while told.len() < STORES {
        line.clear();
        assert_ne!(stream.read_line(&mut line).await.expect("the server tells"), 0, "the stream has ended");
        match line.strip_prefix("event:").map(str::trim) {
            // It comes again after a while without another event.
            Some("reached") if turn.is_some() => {
                turn = None;
                begun.wait().await;
            }
            Some("stored") => told.push(Instant::now()),
            Some("error") => panic!("the watch has failed"),
            _ => {}
        }
    }
    told
}
