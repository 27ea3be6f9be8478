//! `memory_query` over the standard streams, compared with the same verb in process on the same file.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::plugin::{Arguments, Executor, Scope};
use memory_core::{
    Collection, Content, Document, DocumentId, MemoryProvider, Metadata, Revision, SpaceId, Spaces, Timestamp,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{agent_memory, millis, quantile, rows};

/// How often each question is asked, on either side, unless that takes longer.
const TIMES: usize = 200;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run() {
    let (rows, runtime) = (rows(100_000), Runtime::new().expect("a runtime"));
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}", folder.path().join("memory.db").display());
    let library = runtime.block_on(Library::fill(&url, rows));
    let mut client = Client::start(&url);
    println!("\n{rows} documents in SQLite, each question asked up to {TIMES} times on either side, in turns.\n");
    println!(
        "| memory_query | in process | over stdio | more | in process, 99 % | over stdio, 99 % |\n|---|---|---|---|---|---|"
    );
    for (name, arguments) in [
        ("equality, 20 of the newest", json!({"where": "metadata.topic = 'rust'"})),
        ("equality, a rare value", json!({"where": "metadata.user = 'u42'"})),
        ("text, a rare word", json!({"text": "Which word42?"})),
    ] {
        let expected = runtime.block_on(library.ask(&arguments));
        assert_eq!(client.ask(&arguments), expected, "both find the same");
        let (mut within, mut over) = (Vec::new(), Vec::new());
        let start = Instant::now();
        while within.len() < TIMES && start.elapsed() < PATIENCE {
            within.push(timed(|| runtime.block_on(library.ask(&arguments))));
            over.push(timed(|| client.ask(&arguments)));
        }
        within.sort_unstable();
        over.sort_unstable();
        let [(a, b), (c, d)] = [0.5, 0.99].map(|part| (quantile(&within, part), quantile(&over, part)));
        let more = millis(b.saturating_sub(a));
        println!("| {name} | {} | {} | {more} | {} | {} |", millis(a), millis(b), millis(c), millis(d));
    }
    client.stop();
    runtime.block_on(library.provider.shutdown()).expect("closes");
}

fn timed(work: impl FnOnce() -> String) -> Duration {
    let start = Instant::now();
    assert!(!work().is_empty());
    start.elapsed()
}

struct Library {
    provider: Arc<dyn MemoryProvider>,
    query: Arc<dyn Executor>,
    scope: Scope,
}

impl Library {
    /// A database of documents, and the verb over it with the scope of `serve --stdio`.
    async fn fill(url: &str, rows: usize) -> Self {
        let provider = memory_runtime::open(url).expect("a URL");
        provider.init().await.expect("a new database");
        let places: Vec<usize> = (0..rows).collect();
        for batch in places.chunks(1_000) {
            let documents = batch.iter().map(|place| document(*place)).collect();
            provider.documents().restore(documents).await.expect("restores");
        }
        let query = Arc::clone(Arc::clone(&provider).plugin().executor("memory:query").expect("a verb"));
        let scope = Scope::new(Spaces::All)
            .with_writable(SpaceId::parse("agent").expect("valid"))
            .with_collections([Collection::parse("notes").expect("valid")]);
        Self { provider, query, scope }
    }

    async fn ask(&self, arguments: &Value) -> String {
        let arguments = Arguments::from_value(arguments).expect("valid");
        self.query.call(&self.scope, &arguments).await.expect("answers").as_str().to_owned()
    }
}

/// Text and metadata, some rare and some frequent.
fn document(place: usize) -> Document {
    const TOPICS: [&str; 8] = ["rust", "music", "travel", "cooking", "sport", "books", "weather", "work"];
    let (topic, user) = (TOPICS[place % TOPICS.len()], place / TOPICS.len() % 1_000);
    let words: Vec<String> = (0..80).map(|word| TOPICS[(place * 31 + word * 17) % TOPICS.len()].to_owned()).collect();
    Document {
        id: DocumentId::parse(format!("d{place}")).expect("valid"),
        collection: Collection::parse("notes").expect("valid"),
        space_id: SpaceId::parse(format!("agent-u{user}-m{place}")).expect("valid"),
        content: Content::parse(format!("{} word{user}", words.join(" "))).expect("valid"),
        metadata: Metadata::parse(&format!(r#"{{"topic":"{topic}","user":"u{user}"}}"#)).expect("valid"),
        created_at: Timestamp::from_millis(1_700_000_000_000 + place as i64 * 1_000).expect("valid"),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    }
}

/// A client of MCP with only what the protocol requires.
struct Client {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Client {
    fn start(url: &str) -> Self {
        let mut command = agent_memory(url);
        let mut child = command
            .args(["serve", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let requests = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut client = Self { child, requests, answers };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        client.receive();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// The text of an answer, which a model reads.
    fn ask(&mut self, arguments: &Value) -> String {
        let params = json!({"name": "memory_query", "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let answer = self.receive();
        answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.requests, "{message}").expect("the server reads");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the server answers");
        serde_json::from_str(&line).expect("JSON")
    }

    fn stop(self) {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        assert!(child.wait().expect("it ends").success());
    }
}
