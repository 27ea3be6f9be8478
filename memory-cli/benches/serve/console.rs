//! The pages of the console, compared with the REST calls for the same data, on SQLite and on PostgreSQL.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use conformance::server::TestServer;
use conformance::workload::Ledger;
use memory_core::{Collection, Content, DocumentId, DocumentWrite, SpaceId, Timestamp};
use tokio::runtime::Runtime;

use crate::rest::Server;
use crate::{millis, quantile, rows};

/// How often each page, and each call, is asked for.
const ROUNDS: usize = 21;
/// The number of documents beside the ledger.
const DOCUMENTS: usize = 1_000;
/// Limit of a page's time, as a multiple of the time of its calls.
const MOST: f64 = 3.0;

pub(crate) fn run() {
    let (rows, runtime) = (rows(1_000_000), Runtime::new().expect("a runtime"));
    let folder = tempfile::tempdir().expect("a folder");
    let postgres = TestServer::postgres().unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let sign = if postgres.url().contains('?') { '&' } else { '?' };
    let urls = [
        ("SQLite", format!("sqlite://{}", folder.path().join("memory.db").display())),
        ("PostgreSQL", format!("{}{sign}namespace=bench_console", postgres.url())),
    ];
    let mut slowest = 0.0_f64;
    for (engine, url) in urls {
        let id = runtime.block_on(fill(&url, Ledger::new(rows)));
        let server = Server::start(&url);
        println!("\nThe console on a ledger of {rows} memories in {engine}: half of {ROUNDS} answers within.\n");
        println!("| page | takes | its calls take | ratio |\n|---|---|---|---|");
        for view in views(&id) {
            slowest = slowest.max(view.measure(&server.address));
        }
    }
    assert!(slowest <= MOST, "a page takes {slowest:.2} times as long as its calls, and may take {MOST}");
}

/// Stores a ledger and some documents, and returns the id of one of its memories.
async fn fill(url: &str, ledger: Ledger) -> String {
    let provider = memory_runtime::open(url).expect("a URL");
    provider.init().await.expect("a new database");
    let mut last = None;
    for batch in ledger.batches() {
        last = provider.store_many(batch).await.expect("stores").pop();
    }
    let document = |place: usize| {
        let collection = Collection::parse("notes").expect("a collection");
        let space = SpaceId::parse(format!("agent-{}", place % 10)).expect("a space");
        let content = Content::parse(format!("a note of rust and rain, number {place}")).expect("a content");
        let at = Timestamp::from_millis(place as i64).expect("a time");
        let id = DocumentId::parse(format!("note{place}")).expect("an id");
        DocumentWrite::new(collection, space, content, at).with_id(id)
    };
    provider.documents().put_many((0..DOCUMENTS).map(document).collect()).await.expect("puts");
    provider.shutdown().await.expect("closes");
    last.expect("a ledger has memories").to_string()
}

/// A page, and the calls that return its data.
struct View {
    page: String,
    calls: Vec<String>,
}

fn views(id: &str) -> Vec<View> {
    let view = |page: &str, calls: &[&str]| View {
        page: page.to_owned(),
        calls: calls.iter().map(|call| (*call).to_owned()).collect(),
    };
    let timeline = |question: &str| {
        let call = question.replace("filter=", "where=");
        let all = if call.contains("under=") { "" } else { "all=true&" };
        view(&format!("/console/memories?{question}"), &[&format!("/v1/memories?{all}{call}")])
    };
    let recall = |question: &str| {
        // Three more than the page calls hits.
        let call = format!("/v1/recall?{question}&limit=13&neighbours=1&explain=true");
        view(&format!("/console/recall?{question}"), &[&call])
    };
    vec![
        view("/", &["/v1/spaces"]),
        view("/?under=plugin-discord", &["/v1/spaces?under=plugin-discord"]),
        timeline(""),
        timeline("under=plugin-discord-dense"),
        timeline("under=plugin-discord-dense&filter=metadata.topic+%3D+%27rust%27"),
        timeline("under=plugin-discord-dense&text=rust"),
        timeline("status=pending"),
        view(
            &format!("/console/memory/{id}"),
            &[&format!("/v1/memories/{id}"), &format!("/v1/memories/{id}/history?limit=10")],
        ),
        view("/console/documents", &["/v1/collections"]),
        view("/console/documents?collection=notes", &["/v1/documents/notes?all=true"]),
        view(
            "/console/document?collection=notes&id=note7",
            &["/v1/documents/notes/note7", "/v1/documents/notes/note7/history?limit=10"],
        ),
        recall("text=rust+rain&under=plugin-discord-medium"),
        view("/console/engine", &["/v1/health", "/metrics"]),
    ]
}

impl View {
    /// Prints how long the page takes, and its calls one after the other, and returns the ratio.
    fn measure(&self, address: &str) -> f64 {
        let mut connection = Connection::open(address);
        let (mut pages, mut calls) = (Vec::new(), Vec::new());
        // One round first that does not count.
        for round in 0..=ROUNDS {
            let page = connection.time(&self.page);
            let together = self.calls.iter().map(|call| connection.time(call)).sum();
            if round > 0 {
                pages.push(page);
                calls.push(together);
            }
        }
        pages.sort_unstable();
        calls.sort_unstable();
        let (page, calls) = (quantile(&pages, 0.5), quantile(&calls, 0.5));
        let ratio = page.as_secs_f64() / calls.as_secs_f64();
        println!("| `{}` | {} | {} | {ratio:.2} |", self.page, millis(page), millis(calls));
        ratio
    }
}

/// One connection, which is kept.
struct Connection {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("an option of a socket");
        Self { address: address.to_owned(), stream: BufReader::new(stream) }
    }

    /// How long an answer takes, which must be a good one.
    fn time(&mut self, path: &str) -> Duration {
        let mut request = format!("GET {path} HTTP/1.1\r\n");
        write!(request, "host: {}\r\n\r\n", self.address).expect("a string takes all");
        let start = Instant::now();
        self.stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
        let (mut line, mut length) = (String::new(), 0);
        self.stream.read_line(&mut line).expect("the server answers");
        assert!(line.starts_with("HTTP/1.1 200"), "{path}: {line}");
        while line != "\r\n" {
            line.clear();
            self.stream.read_line(&mut line).expect("the server answers");
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().expect("a length");
            }
        }
        self.stream.read_exact(&mut vec![0; length]).expect("a body");
        start.elapsed()
    }
}
