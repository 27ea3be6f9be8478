//! A store over REST at many connections, compared with the library in process with as many tasks, on the same
//! PostgreSQL.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Instant;

use conformance::server::TestServer;
use conformance::workload::Ledger;
use memory_core::{MemoryProvider, NewMemory};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader as AsyncBufReader};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::{agent_memory, most_resident, rows};

/// How many connections, and how many tasks, store at the same time.
const CONNECTIONS: usize = 64;
/// How often either side has its turn.
const ROUNDS: usize = 7;

pub(crate) fn run() {
    let postgres = TestServer::postgres().unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let sign = if postgres.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{sign}namespace=bench_rest", postgres.url());
    let (runtime, per_round) = (Runtime::new().expect("a runtime"), rows(CONNECTIONS * 200) / CONNECTIONS);
    let provider = memory_runtime::open(&url).expect("a URL");
    runtime.block_on(provider.init()).expect("a schema");
    let server = Server::start(&url);
    let mut places = (0..).step_by(per_round);
    let ledger = Ledger::new(10_000_000);
    let mut shares = || -> Vec<Vec<NewMemory>> {
        let share = |first: usize| (first..first + per_round).map(|place| ledger.row(place)).collect();
        places.by_ref().take(CONNECTIONS).map(share).collect()
    };
    let (mut within, mut over) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        within.push(rate(&runtime, shares(), |rows| in_process(Arc::clone(&provider), rows)));
        over.push(rate(&runtime, shares(), |rows| over_http(server.address.clone(), rows)));
    }
    within.sort_unstable();
    over.sort_unstable();
    let (a, b) = (within[ROUNDS / 2], over[ROUNDS / 2]);
    println!(
        "\nOne store after the other on each of {CONNECTIONS} connections, PostgreSQL, the median of {ROUNDS} rounds of {}.\n",
        per_round * CONNECTIONS
    );
    println!("| in process | over REST | ratio |\n|---|---|---|");
    println!("| {a} /s | {b} /s | {:.2} |", b as f64 / a as f64);
    drop(server);
    runtime.block_on(provider.shutdown()).expect("closes");
}

/// Stores each share in a task of its own, and returns the number of stores per second.
fn rate<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    shares: Vec<Vec<NewMemory>>,
    store: impl Fn(Vec<NewMemory>) -> F,
) -> usize {
    let count: usize = shares.iter().map(Vec::len).sum();
    let start = Instant::now();
    let tasks: Vec<_> = shares.into_iter().map(|share| runtime.spawn(store(share))).collect();
    for task in tasks {
        runtime.block_on(task).expect("a task that stores");
    }
    (count as f64 / start.elapsed().as_secs_f64()) as usize
}

async fn in_process(provider: Arc<dyn MemoryProvider>, rows: Vec<NewMemory>) {
    for row in rows {
        provider.store(row).await.expect("stores");
    }
}

pub(crate) async fn over_http(address: String, rows: Vec<NewMemory>) {
    let mut stream = AsyncBufReader::new(TcpStream::connect(&address).await.expect("the server listens"));
    for row in rows {
        stream.write_all(store(&address, &row).as_bytes()).await.expect("the server reads");
        read(&mut stream).await;
    }
}

/// The request that stores a row.
pub(crate) fn store(address: &str, row: &NewMemory) -> String {
    let (space, trigger, metadata) = (row.space_id.as_str(), row.trigger.as_str(), row.metadata.as_str());
    let body = format!(
        r#"{{"spaceId":"{space}","trigger":{trigger},"createdAt":{},"metadata":{metadata},"status":"{}"}}"#,
        row.created_at, row.status
    );
    let head = format!(
        "POST /v1/memories HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    head + &body
}

/// Reads an answer, which must be that of a store.
async fn read(stream: &mut AsyncBufReader<TcpStream>) {
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).await.expect("the server answers");
    assert!(line.starts_with("HTTP/1.1 201"), "{line}");
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.expect("the server answers");
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().expect("a length");
        }
    }
    stream.read_exact(&mut vec![0; length]).await.expect("a body");
}

/// The server, until it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(url: &str) -> Self {
        let mut command = agent_memory(url);
        let mut child =
            command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut line = String::new();
        // It logs nothing more unless something fails.
        BufReader::new(child.stderr.take().expect("it is piped")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://").expect("an address").to_owned();
        Self { child, address }
    }

    /// The most resident memory that it ever had, in megabytes.
    pub(crate) fn most_resident(&self) -> f64 {
        most_resident(&self.child) as f64 / 1e6
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
