//! The data that an older program has left in a ledger is removed while another program stores; the removing programs
//! are killed.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Cli, older};
use memory_core::{
    Clock as _, Context, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, SpaceId, SystemClock, Trigger,
};

mod common;

/// The number of memories in the ledger, with an index of their words: 20,000 unless the environment sets more.
const MEMORIES: &str = "MEMORY_TEST_MEMORIES";
const KILLS: usize = 3;
/// The number of memories that are searched by their words.
const SAMPLE: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn goes_on_where_it_was_killed_beside_a_program_that_stores() {
    let cli = Cli::new();
    let count = std::env::var(MEMORIES).map_or(20_000, |count| count.parse::<i64>().expect("a number"));
    drop(older::ledger(&cli.path("memory.db"), count, Some(count)));
    let planned = cli.ok(&["migrate", "--dry-run"]);
    assert!(planned.contains("would apply version 3, no_words"), "{planned}");

    let provider = memory_runtime::open(&format!("sqlite://{}", cli.path("memory.db").display())).expect("a URL");
    provider.init().await.expect("opens");
    let some = MemoryQuery::builder().all().limit(1_000).build().expect("a query");
    let old: Vec<_> = provider.query(&some).await.expect("a page").memories.iter().map(|memory| memory.id).collect();
    let has_ended = Arc::new(AtomicBool::new(false));
    let storing = tokio::spawn(store_until(Arc::clone(&has_ended), Arc::clone(&provider), old.clone()));

    let (mut kills, mut reached) = (0, 0);
    while kills < KILLS {
        let mut migration = cli.command();
        migration.arg("migrate").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = migration.spawn().expect("the binary runs");
        let mut told = String::new();
        let progress = child.stderr.take().expect("it is piped");
        BufReader::new(progress).read_line(&mut told).expect("its progress");
        child.kill().expect("killed in a slice or between two");
        child.wait().expect("ended");
        if told.is_empty() {
            // Nothing was left: on a busy machine a slice or two run between the report and the kill.
            break;
        }
        let (done, total) = progress_of(&told);
        assert!(reached < done && done < total, "{told} after {reached}");
        (kills, reached) = (kills + 1, done);
    }
    assert!(kills > 1, "none was cut before the end: ask for more with {MEMORIES}");
    cli.ok(&["migrate"]);
    has_ended.store(true, Ordering::Relaxed);
    let (new, updated) = storing.await.expect("no call fails");
    assert!(!new.is_empty() && !updated.is_empty(), "another program stored meanwhile");

    assert_eq!(provider.backfill().await.expect("a state"), None, "nothing is left to do");
    let file = cli.database("memory.db");
    let number = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number");
    assert_eq!(number("SELECT count(*) FROM sqlite_schema WHERE name LIKE '%words%'"), 0);
    assert_eq!(number("SELECT count(*) FROM schema_migrations WHERE NOT complete"), 0);
    assert_eq!(number("SELECT count(*) FROM memories"), count + new.len() as i64);
    for number in (0..SAMPLE).map(|place| 1 + place as i64 * (count - 1) / (SAMPLE as i64 - 1)) {
        let found = found(&*provider, &format!("event{number}")).await;
        assert_eq!(found.len(), 1, "event{number}");
    }
    for (number, id) in new.iter().enumerate().rev().take(SAMPLE) {
        assert_eq!(found(&*provider, &format!("new{number}")).await, [*id], "new{number}");
    }
    for (number, id) in updated.iter().enumerate().take(SAMPLE) {
        assert_eq!(found(&*provider, &format!("updated{number}")).await, [*id], "updated{number}");
    }
    provider.shutdown().await.expect("closes");
}

/// How many records are done, and of how many.
fn progress_of(told: &str) -> (u64, u64) {
    let numbers = told.strip_prefix("the removal of the index of words: ").and_then(|rest| rest.split_once(" of "));
    let (done, rest) = numbers.unwrap_or_else(|| panic!("no progress: {told}"));
    let total = rest.split(' ').next().expect("a word");
    (done.parse().expect("a number"), total.parse().expect("a number"))
}

/// Stores and updates until it is told to end. Returns the new memories and the updated ones.
async fn store_until(
    has_ended: Arc<AtomicBool>,
    provider: Arc<dyn MemoryProvider>,
    old: Vec<MemoryId>,
) -> (Vec<MemoryId>, Vec<MemoryId>) {
    let (mut new, mut updated) = (Vec::new(), Vec::new());
    while !has_ended.load(Ordering::Relaxed) {
        new.push(provider.store(event(new.len())).await.expect("a store"));
        if updated.len() < old.len() {
            let context = Context::parse(&format!(r#"{{"word":"updated{}"}}"#, updated.len())).expect("valid");
            let id = old[updated.len()];
            provider.update(id, MemoryPatch::new().set_context(context)).await.expect("an update");
            updated.push(id);
        }
        // So that the program that is killed gets its turn, too.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (new, updated)
}

async fn found(provider: &dyn MemoryProvider, word: &str) -> Vec<MemoryId> {
    let query = MemoryQuery::builder().all().text(word).build().expect("a query");
    provider.query(&query).await.expect("a page").memories.iter().map(|memory| memory.id).collect()
}

fn event(number: usize) -> NewMemory {
    let space = SpaceId::parse(format!("plugin-chat-{}", number % 50)).expect("valid");
    let trigger = Trigger::parse(&format!(r#"{{"text":"an event with the word new{number}"}}"#)).expect("valid");
    NewMemory::new(space, trigger, SystemClock.now())
}
