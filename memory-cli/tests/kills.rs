//! A server is killed again and again under clients that repeat their stores with their keys until they get an answer.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::server::{Server, try_post};
use common::servers::Servers;
use common::{Cli, PATIENCE, Random, eventually};
use memory_core::{Cursor, MemoryQuery};
use serde_json::{Value, json};

mod common;

const CLIENTS: usize = 12;
const KILLS: usize = 15;
/// The number of memories in a batch. Every second call is a batch.
const BATCH: usize = 3;
/// How long a client waits before it repeats a call, in milliseconds.
const PAUSE: u64 = 10;

/// The ids that clients received, and the content of each memory.
type Ledger = BTreeMap<String, String>;

#[test]
fn on_sqlite() {
    let cli = Cli::new();
    let url = format!("sqlite://{}", cli.path("memory.db").display());
    check(&cli, &url);
}

#[test]
fn on_servers() {
    let servers = Servers::start();
    for url in servers.urls(&format!("kills_{}", std::process::id())) {
        check(&Cli::new(), &url);
    }
}

fn check(cli: &Cli, url: &str) {
    let engine = url.split(':').next().unwrap_or_default();
    let mut random = Random::new();
    println!("{engine}: {random:?}");
    let start = || {
        let mut command = cli.command();
        command.env("AGENT_MEMORY_URL", url);
        Server::start_as(command, &[])
    };
    let mut server = start();
    let address = RwLock::new(server.address.clone());
    let (served, has_ended) = ([const { AtomicUsize::new(0) }; CLIENTS], AtomicBool::new(false));
    // Since each client has a call under way when the server dies, and one more may have been answered.
    let all_are_served = || {
        let before = served.each_ref().map(|calls| calls.load(Ordering::Relaxed));
        eventually("all clients are served", || {
            thread::sleep(Duration::from_millis(1));
            served.iter().zip(before).all(|(calls, before)| calls.load(Ordering::Relaxed) > before + 1)
        });
    };
    let mut longest = Duration::ZERO;
    let told = thread::scope(|scope| {
        // Also if something fails meanwhile, since the test waits for the clients.
        let ends = Ends(&has_ended);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| (client, &address, &served[client], &has_ended))
            .map(|(client, address, served, has_ended)| {
                scope.spawn(move || store_until(has_ended, client, address, served))
            })
            .collect();
        all_are_served();
        for _ in 0..KILLS {
            // At any moment of their calls.
            thread::sleep(Duration::from_millis(random.below(300) as u64));
            let killed = Instant::now();
            drop(server);
            server = start();
            *address.write().expect("no panic") = server.address.clone();
            all_are_served();
            longest = longest.max(killed.elapsed());
        }
        drop(ends);
        clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect::<Ledger>()
    });
    println!(
        "{engine}: {} stored, killed {KILLS} times; all were served again after at most {longest:.1?}",
        told.len()
    );
    assert_eq!(found(url), told, "nothing is lost, and nothing is there twice");
}

/// Ends the clients when it is dropped.
struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Stores until it is told to end, and then until its last call is answered.
fn store_until(has_ended: &AtomicBool, client: usize, address: &RwLock<String>, served: &AtomicUsize) -> Ledger {
    let mut told = Ledger::new();
    for call in 0.. {
        let memory = |part: usize| {
            let what = format!("{client}-{call}-{part}");
            json!({"spaceId": format!("chat-{client}"), "trigger": what, "idempotencyKey": what})
        };
        let is_batch = call % 2 == 1;
        let (path, body, parts) = if is_batch {
            let memories: Vec<_> = (0..BATCH).map(memory).collect();
            ("/v1/memories/batch", json!({"memories": memories}), BATCH)
        } else {
            ("/v1/memories", memory(0), 1)
        };
        let answer = repeat(address, path, &body.to_string());
        let ids = answer["ids"].as_array().cloned().unwrap_or_else(|| vec![answer["id"].clone()]);
        assert_eq!(ids.len(), parts, "{answer}");
        let texts = (0..parts).map(|part| format!("\"{client}-{call}-{part}\""));
        told.extend(ids.iter().map(|id| id.as_str().expect("an id").to_owned()).zip(texts));
        served.fetch_add(1, Ordering::Relaxed);
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
    }
    told
}

/// Sends the same until it is answered that it is stored.
fn repeat(address: &RwLock<String>, path: &str, body: &str) -> Value {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let address = address.read().expect("no panic").clone();
        // A truncated answer does not count.
        let answer = try_post(&address, path, body);
        match answer.and_then(|answer| Some((answer.status, serde_json::from_str::<Value>(&answer.body).ok()?))) {
            Some((201, stored)) => return stored,
            Some((status, problem)) => assert!(status >= 500 && problem["retryable"] == true, "{status}: {problem}"),
            None => {}
        }
        thread::sleep(Duration::from_millis(PAUSE));
    }
    panic!("nobody has stored it");
}

/// The content of the ledger.
#[tokio::main]
async fn found(url: &str) -> Ledger {
    let provider = memory_runtime::open(url).expect("a URL");
    provider.init().await.expect("opens");
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let query = MemoryQuery::builder().all().limit(1_000);
        let query = cursor.iter().fold(query, |query, cursor: &Cursor| query.cursor(cursor));
        let page = provider.query(&query.build().expect("a query")).await.expect("a page");
        found.extend(
            page.memories.into_iter().map(|memory| (memory.id.to_string(), memory.trigger.as_str().to_owned())),
        );
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let count = found.len();
    let found: Ledger = found.into_iter().collect();
    assert_eq!(found.len(), count, "each page goes on where the last one ended");
    found
}
