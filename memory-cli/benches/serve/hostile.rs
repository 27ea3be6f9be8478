//! Stores over REST, alone and beside many callers whose expensive queries find nothing, and the memory of the server.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use conformance::workload::Ledger;
use memory_core::{Collection, Content, Document, DocumentId, MAX_REMOVED, Metadata, Revision, SpaceId, Timestamp};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::rest::{Server, store};
use crate::{millis, quantile, rows};

/// How many hostile callers there are.
const HOSTILE: usize = 200;
/// How many connections store.
const STORING: usize = 8;
/// How long clients store alone, and then beside the others.
const TIME: Duration = Duration::from_secs(20);
/// How often the server is asked how it is.
const HEALTH: Duration = Duration::from_millis(200);

pub(crate) fn run() {
    let (rows, runtime) = (rows(200_000), Runtime::new().expect("a runtime"));
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = || format!("sqlite://{}", folder.path().join("memory.db").display());
    let url = std::env::var("MEMORY_BENCH_URL").unwrap_or_else(|_| in_folder());
    let ledger = Ledger { payload: 200, ..Ledger::new(rows) };
    runtime.block_on(fill(&url, ledger));
    let server = Server::start(&url);
    // Twice, so that the server's warm-up does not count.
    let mut first = rows;
    let mut quiet = Vec::new();
    for _ in 0..2 {
        quiet = runtime.block_on(stores(&server.address, ledger, &mut first));
    }
    let before = server.most_resident();
    let ends = Arc::new(AtomicBool::new(false));
    let (beside, health, (answers, longest)) = runtime.block_on(async {
        let hostile = tokio::spawn(attack(server.address.clone(), Arc::clone(&ends)));
        let health = tokio::spawn(health(server.address.clone(), Arc::clone(&ends)));
        let beside = stores(&server.address, ledger, &mut first).await;
        ends.store(true, Ordering::Relaxed);
        (beside, health.await.expect("health"), hostile.await.expect("an attack"))
    });
    let rate = |times: &[Duration]| times.len() as f64 / TIME.as_secs_f64();
    println!(
        "\n{STORING} connections that store, in a ledger of {rows} memories, for {} s: alone, and beside {HOSTILE} hostile callers.\n",
        TIME.as_secs()
    );
    println!("| | alone | beside | ratio |\n|---|---|---|---|");
    println!("| stores | {:.0} /s | {:.0} /s | {:.2} |", rate(&quiet), rate(&beside), rate(&beside) / rate(&quiet));
    for (name, part) in [("half of them within", 0.5), ("99 % of them within", 0.99), ("all of them within", 1.0)] {
        println!("| {name} | {} | {} | |", millis(quantile(&quiet, part)), millis(quantile(&beside, part)));
    }
    println!("| memory of the server at most | {before:.0} MB | {:.0} MB | |", server.most_resident());
    println!("\nHealth: {} answers, the slowest in {}.", health.len(), millis(quantile(&health, 1.0)));
    println!("Hostile calls, by kind and status: {answers:?}; the longest took {}.", millis(longest));
}

async fn fill(url: &str, ledger: Ledger) {
    let provider = memory_runtime::open(url).expect("a URL");
    provider.init().await.expect("an empty database");
    for batch in ledger.batches() {
        provider.store_many(batch).await.expect("stores");
    }
    // More than a removal may take.
    let places: Vec<_> = (0..MAX_REMOVED * 2).collect();
    for some in places.chunks(1_000) {
        let documents = some.iter().map(|place| document(ledger, *place)).collect();
        provider.documents().restore(documents).await.expect("restores");
    }
    provider.shutdown().await.expect("closes");
}

fn document(ledger: Ledger, place: usize) -> Document {
    let row = ledger.row(place);
    Document {
        id: DocumentId::parse(format!("d{place}")).expect("valid"),
        collection: Collection::parse("notes").expect("valid"),
        space_id: SpaceId::parse(format!("guild{}-m{place}", place % 10)).expect("valid"),
        content: Content::parse(row.trigger.as_str()).expect("valid"),
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(place as i64).expect("valid"),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    }
}

/// How long each store took, in order of length.
async fn stores(address: &str, ledger: Ledger, first: &mut usize) -> Vec<Duration> {
    // More than any connection stores.
    const SHARE: usize = 1_000_000;
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..STORING {
        let (address, place) = (address.to_owned(), *first);
        *first += SHARE;
        tasks.spawn(async move {
            let (mut stream, mut times) = (connect(&address).await, Vec::new());
            while begun.elapsed() < TIME {
                let start = Instant::now();
                let status = ask(&mut stream, &store(&address, &ledger.row(place + times.len()))).await;
                assert_eq!(status.expect("the server answers"), 201, "after {:?}", start.elapsed());
                times.push(start.elapsed());
            }
            times
        });
    }
    let mut times = tasks.join_all().await.concat();
    times.sort_unstable();
    times
}

/// How long each health check took, in order of length.
async fn health(address: String, ends: Arc<AtomicBool>) -> Vec<Duration> {
    let (mut stream, mut times) = (connect(&address).await, Vec::new());
    let request = request(&address, "GET", "/v1/health");
    while !ends.load(Ordering::Relaxed) {
        let start = Instant::now();
        let status = ask(&mut stream, &request).await.expect("the server answers");
        assert_eq!(status, 200, "after {:?}", start.elapsed());
        times.push(start.elapsed());
        sleep(HEALTH).await;
    }
    times.sort_unstable();
    times
}

/// Calls again and again from many connections: how often each kind was answered by each status, and how long the slowest answer took.
async fn attack(address: String, ends: Arc<AtomicBool>) -> (BTreeMap<(&'static str, u16), u64>, Duration) {
    let kinds = kinds();
    let mut tasks = JoinSet::new();
    for caller in 0..HOSTILE {
        let (address, ends) = (address.clone(), Arc::clone(&ends));
        let (name, method, path) = kinds[caller % kinds.len()].clone();
        tasks.spawn(async move {
            let (mut stream, request) = (connect(&address).await, request(&address, method, &path));
            let (mut statuses, mut longest) = (BTreeMap::<_, u64>::new(), Duration::ZERO);
            while !ends.load(Ordering::Relaxed) {
                let start = Instant::now();
                let status = ask(&mut stream, &request).await.expect("the server answers");
                longest = longest.max(start.elapsed());
                *statuses.entry((name, status)).or_default() += 1;
            }
            (statuses, longest)
        });
    }
    let (mut statuses, mut longest) = (BTreeMap::<_, u64>::new(), Duration::ZERO);
    for (some, took) in tasks.join_all().await {
        some.into_iter().for_each(|(status, count)| *statuses.entry(status).or_default() += count);
        longest = longest.max(took);
    }
    (statuses, longest)
}

/// A name, a method and a path of each kind of hostile call.
fn kinds() -> [(&'static str, &'static str, String); 6] {
    let never = "where=text+LIKE+%27%25nowhere%25%27+AND+metadata.x+IS+NOT+NULL";
    let places: String = (0..960).map(|number| format!("under=plugin-discord-g{}-c{number}&", number % 100)).collect();
    let patterns = format!("regex={}$&", "%5B%5Cw%5D".repeat(30)).repeat(32);
    let memories = |query: &str| format!("/v1/memories?{query}");
    [
        ("a filter without a match", "GET", memories(&format!("all=true&{never}"))),
        ("a thousand places", "GET", memories(&format!("{places}{never}"))),
        ("many patterns", "GET", memories(&format!("{patterns}{never}"))),
        ("frequent words", "GET", "/v1/documents/notes?all=true&limit=1000&text=rust+music+travel+books".to_owned()),
        ("a question to everything", "GET", "/v1/recall?all=true&limit=1000&text=rust+music+travel+books".to_owned()),
        (
            "a removal of everything",
            "DELETE",
            format!("/v1/documents/notes?all=true&max={MAX_REMOVED}&where=id+IS+NOT+NULL"),
        ),
    ]
}

async fn connect(address: &str) -> BufReader<TcpStream> {
    BufReader::new(TcpStream::connect(address).await.expect("the server listens"))
}

fn request(address: &str, method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")
}

/// The status of the answer, whose body is read and left.
async fn ask(stream: &mut BufReader<TcpStream>, request: &str) -> io::Result<u16> {
    stream.write_all(request.as_bytes()).await?;
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).await?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("no status"))?;
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await?;
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    stream.read_exact(&mut vec![0; length]).await?;
    Ok(status)
}
