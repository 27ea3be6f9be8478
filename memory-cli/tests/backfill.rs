//! The index of the ledger's words is switched on while another program stores, and the program that does it is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::servers::{Servers, with_parameter};
use common::{Cli, Random};
use memory_core::{
    Clock as _, Context, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, SpaceId, SystemClock, Trigger,
};

mod common;

/// How many memories there are when the index is switched on: 6,000 unless the environment says more.
const MEMORIES: &str = "MEMORY_TEST_MEMORIES";
const KILLS: usize = 3;
/// How many of the memories are looked for by their words.
const SAMPLE: usize = 500;

#[test]
fn on_sqlite() {
    let cli = Cli::new();
    let url = format!("sqlite://{}", cli.path("memory.db").display());
    check(&cli, &url);
}

#[test]
fn on_servers() {
    let servers = Servers::start();
    for url in servers.urls(&format!("backfill_{}", std::process::id())) {
        check(&Cli::new(), &url);
    }
}

#[tokio::main]
async fn check(cli: &Cli, url: &str) {
    let count = std::env::var(MEMORIES).map_or(6_000, |count| count.parse::<usize>().expect("a number"));
    let engine = url.split(':').next().unwrap_or_default();
    let mut random = Random::new();
    println!("{engine}: {count} memories, {random:?}");

    let provider = memory_runtime::open(url).expect("a URL");
    provider.init().await.expect("opens");
    let mut stored = Vec::new();
    for first in (0..count).step_by(1_000) {
        let some = (first..count.min(first + 1_000)).map(|number| event("old", number));
        stored.extend(provider.store_many(some.collect()).await.expect("a batch"));
    }
    let has_ended = Arc::new(AtomicBool::new(false));
    let storing = tokio::spawn(store_until(Arc::clone(&has_ended), Arc::clone(&provider), stored.clone()));

    let url_of_all = with_parameter(url, "text_index=all");
    let begun = Instant::now();
    for _ in 0..KILLS {
        let mut migration = cli.command();
        migration.args(["--url", &url_of_all, "migrate"]).stderr(std::process::Stdio::null());
        let mut child = migration.stdout(std::process::Stdio::null()).spawn().expect("the binary runs");
        // At any moment: before the step, in it, in a slice, or when it is complete.
        tokio::time::sleep(Duration::from_millis(20 + random.below(count / 25) as u64)).await;
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
    let killed = begun.elapsed();
    cli.ok(&["--url", &url_of_all, "migrate"]);
    println!("{engine}: killed {KILLS} times in {killed:.1?}, complete after {:.1?}", begun.elapsed());
    has_ended.store(true, Ordering::Relaxed);
    let (new, updated) = storing.await.expect("no store fails");
    println!("{engine}: {} stored and {} updated meanwhile", new.len(), updated.len());
    assert!(!new.is_empty() && !updated.is_empty(), "another program stored meanwhile");

    let all = memory_runtime::open(&url_of_all).expect("a URL");
    all.init().await.expect("opens");
    assert_eq!(all.backfill().await.expect("a state"), None, "nothing is left to do");
    let sample = (0..SAMPLE).map(|_| random.below(count)).chain([0, count - 1]);
    for number in sample {
        find(&*all, &format!("old{number}"), stored[number]).await;
    }
    for (number, id) in new.iter().enumerate() {
        find(&*all, &format!("new{number}"), *id).await;
    }
    for (number, id) in updated.iter().enumerate() {
        find(&*all, &format!("updated{number}"), *id).await;
    }
}

/// Stores and updates, as a program does that knows nothing of the index, until it is told to end.
async fn store_until(
    has_ended: Arc<AtomicBool>,
    provider: Arc<dyn MemoryProvider>,
    old: Vec<MemoryId>,
) -> (Vec<MemoryId>, Vec<MemoryId>) {
    let (mut new, mut updated) = (Vec::new(), Vec::new());
    while !has_ended.load(Ordering::Relaxed) {
        new.push(provider.store(event("new", new.len())).await.expect("a store"));
        if new.len() % 10 == 0 && updated.len() < old.len() {
            let id = old[old.len() - 1 - updated.len()];
            let context = Context::parse(&format!(r#"{{"word":"updated{}"}}"#, updated.len())).expect("valid");
            provider.update(id, MemoryPatch::new().set_context(context)).await.expect("an update");
            updated.push(id);
        }
        // So that the one that is killed comes to its turn, too.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (new, updated)
}

async fn find(provider: &dyn MemoryProvider, word: &str, id: MemoryId) {
    let query = MemoryQuery::builder().all().text(word).limit(2).build().expect("a query");
    let page = provider.query(&query).await.expect("a page");
    let found: Vec<_> = page.memories.iter().map(|memory| memory.id).collect();
    assert_eq!(found, [id], "{word}");
}

fn event(word: &str, number: usize) -> NewMemory {
    let space = SpaceId::parse(format!("plugin-chat-{}", number % 50)).expect("valid");
    let trigger = Trigger::parse(&format!(r#"{{"text":"an event with the word {word}{number}"}}"#)).expect("valid");
    NewMemory::new(space, trigger, SystemClock.now())
}
