//! Servers that end without notice, and primaries that are replaced, under load.
//!
//! `MEMORY_TEST_ROUNDS` sets how often each test kills; a few times by default.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use conformance::server::redis::{LocalRedis, LocalSentinel};
use conformance::server::redis_cluster::RedisCluster;
use conformance::server::trial;
use futures::{StreamExt, stream};
use libtest_mimic::Arguments;
use memory_core::{
    ChangeKind, Durability, ErrorKind, IdempotencyKey, MemoryId, MemoryProvider, MemoryQuery, Record, Result, Watch,
    WatchFrom, Watched,
};
use memory_redis::{RedisConfig, RedisMemory};
use tokio::task::{JoinHandle, block_in_place};

mod common;
use common::{Case, event, open, run};

/// The number of tasks that store concurrently.
const TASKS: usize = 8;
/// The space of the memory that is stored last.
const END: &str = "end";
/// How many stores are acknowledged before the next blow.
const STORES: usize = 200;

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::acknowledged_stores_survive_kills", || run(acknowledged_stores_survive_kills())),
        trial("redis::calls_work_again_after_a_restart", || run(calls_work_again_after_a_restart())),
        trial("redis-cluster::acknowledged_stores_survive_failovers", || run(acknowledged_stores_survive_failovers())),
        trial("redis-sentinel::the_next_primary_is_found", || run(the_next_primary_is_found())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn acknowledged_stores_survive_kills() -> Case {
    let mut server = LocalRedis::start_with(&[("appendonly", "yes"), ("appendfsync", "always")])?;
    let provider = Arc::new(open(RedisConfig::from_url(&server.url())?).await?);
    assert_eq!(provider.check_health().await?.durability, Durability::Durable);
    let load = Load::start(&provider);
    for _ in 0..rounds(5) {
        load.more().await;
        block_in_place(|| server.restart())?;
    }
    load.more().await;
    load.check(&provider).await
}

/// While no server listens, calls say so, and the same provider works when the server is back.
async fn calls_work_again_after_a_restart() -> Case {
    let mut server = LocalRedis::start_with(&[("appendonly", "yes"), ("appendfsync", "always")])?;
    let mut config = RedisConfig::from_url(&server.url())?;
    config.connect_timeout = Duration::from_millis(200);
    let provider = open(config).await?;
    let id = provider.store(event("a-b", 1)).await?;
    block_in_place(|| server.kill())?;
    for error in [
        provider.check_health().await.expect_err("the server is down"),
        provider.get(id).await.expect_err("the server is down"),
        provider.store(event("a-b", 2)).await.expect_err("the server is down"),
    ] {
        assert_eq!(error.kind(), memory_core::ErrorKind::Unavailable, "{error:?}");
    }
    block_in_place(|| server.restart())?;
    provider.check_health().await?;
    assert_eq!(provider.get(id).await?.map(|memory| memory.id), Some(id));
    // A connection that has ended with the server doesn't make an update fail.
    block_in_place(|| server.restart())?;
    let patch = memory_core::MemoryPatch::new().with_status(memory_core::Status::Completed);
    assert_eq!(provider.update(id, patch).await?.revision.get(), 2);
    Ok(())
}

async fn acknowledged_stores_survive_failovers() -> Case {
    let settings = [("cluster-node-timeout", "1000"), ("appendonly", "yes"), ("appendfsync", "always")];
    let mut cluster = RedisCluster::start_with(&settings)?;
    let mut config = RedisConfig::from_url(&format!("{}?wait_replicas=1", cluster.url()))?;
    config.namespace = "failover".to_owned();
    let provider = Arc::new(open(config).await?);
    assert_eq!(provider.check_health().await?.durability, Durability::Durable);
    let begun = provider.watch(&memories()).await?.next().await.ok_or("the watch has ended")??;
    let following = tokio::spawn(follow(Arc::clone(&provider), begun.token.into()));
    let load = Load::start(&provider);
    for _ in 0..rounds(2) {
        load.more().await;
        let port = block_in_place(|| cluster.primary_of("{failover}"))?;
        block_in_place(|| cluster.kill(port))?;
        // Its replica takes over, and has no replica itself until the other server comes back.
        while block_in_place(|| cluster.primary_of("{failover}"))? == port {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        block_in_place(|| cluster.restart(port))?;
    }
    load.more().await;
    load.check(&provider).await?;
    while let Err(error) = provider.store(event(END, 0)).await {
        assert!(error.is_retryable(), "{error:?}");
    }
    let told = following.await??;
    assert!(found(&provider).await?.is_subset(&told), "the feed has a gap, and did not say so");
    Ok(())
}

fn memories() -> Watch {
    Watch::new(Watched::Memories, MemoryQuery::builder().all()).expect("a valid watch")
}

/// Watches until a memory in [`END`] comes, and returns the spaces and ids of all changes. Continues from the last
/// token if no server is there, and starts again if the new primary lacks changes that the old one had delivered.
async fn follow(provider: Arc<RedisMemory>, mut from: WatchFrom) -> Result<HashSet<(String, MemoryId)>> {
    let (mut told, mut resets) = (HashSet::new(), 0);
    loop {
        let begun = provider.watch(&memories().from(from.clone())).await;
        let mut changes = begun.unwrap_or_else(|error| stream::iter([Err(error)]).boxed());
        while let Some(change) = changes.next().await {
            match change {
                Ok(change) => {
                    from = change.token.into();
                    if let ChangeKind::Stored(Record::Memory(memory)) = change.kind {
                        let is_last = memory.space_id.as_str() == END;
                        told.insert((memory.space_id.to_string(), memory.id));
                        if is_last {
                            println!("the feed was reset {resets} times");
                            return Ok(told);
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::FeedReset => {
                    (from, resets) = (WatchFrom::Beginning, resets + 1);
                }
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

async fn the_next_primary_is_found() -> Case {
    let mut primary = LocalRedis::start_with(&[("repl-diskless-sync-delay", "0")])?;
    let replica = LocalRedis::start_replica(&primary)?;
    let sentinel = LocalSentinel::start(&primary)?;
    while !replica.command(&["INFO", "replication"])?.contains("master_link_status:up") || sentinel.replicas()? == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let with_replica = open(RedisConfig::from_url(&format!("{}?wait_replicas=1", sentinel.url()))?).await?;
    let alone = open(RedisConfig::from_url(&sentinel.url())?).await?;
    let first = with_replica.store(event("a-b", 1)).await?;
    assert_eq!(with_replica.check_health().await?.durability.to_string(), "at risk: appendonly is off");
    block_in_place(|| primary.kill())?;
    // There is no replica left to wait for.
    let second = loop {
        match alone.store(event("a-b", 2)).await {
            Ok(id) => break id,
            Err(error) => assert_eq!(error.kind(), memory_core::ErrorKind::Unavailable, "{error:?}"),
        }
    };
    assert_eq!(ids(&with_replica).await?, [first, second].into());
    Ok(())
}

/// How often a test kills.
fn rounds(default: usize) -> usize {
    std::env::var("MEMORY_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(default)
}

/// Tasks that store, with and without keys, until they are told to stop.
struct Load {
    tasks: Vec<JoinHandle<Result<Stored>>>,
    acknowledged: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

/// How often a task tried to store, and the spaces and ids of acknowledged stores.
#[derive(Default)]
struct Stored {
    attempts: usize,
    acknowledged: Vec<(String, MemoryId)>,
}

impl Load {
    fn start(provider: &Arc<RedisMemory>) -> Self {
        let (acknowledged, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let task = |task: usize| {
            let (provider, acknowledged, is_over) =
                (Arc::clone(provider), Arc::clone(&acknowledged), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut stored = Stored::default();
                for number in 0..i64::MAX {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let space = format!("load-{task}-{number}");
                    let mut memory = event(&space, number);
                    if number % 2 == 0 {
                        memory = memory.with_idempotency_key(IdempotencyKey::parse(&space)?);
                    }
                    stored.attempts += 1;
                    // A store that is not acknowledged may exist or not.
                    if let Ok(id) = provider.store(memory).await {
                        stored.acknowledged.push((space, id));
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(stored)
            })
        };
        Self { tasks: (0..TASKS).map(task).collect(), acknowledged, is_over }
    }

    /// Waits until more has been acknowledged.
    async fn more(&self) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + STORES;
        while self.acknowledged.load(Ordering::Relaxed) < goal {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends the load. Every acknowledged memory exists, none exists twice, and there are no others.
    async fn check(self, provider: &RedisMemory) -> Case {
        self.is_over.store(true, Ordering::Relaxed);
        let (mut attempts, mut acknowledged) = (0, HashSet::new());
        for task in self.tasks {
            let stored = task.await??;
            attempts += stored.attempts;
            acknowledged.extend(stored.acknowledged);
        }
        let found = found(provider).await?;
        let spaces: HashSet<_> = found.iter().map(|(space, _)| space).collect();
        assert_eq!(spaces.len(), found.len(), "a store was done twice");
        assert!(spaces.len() <= attempts, "there is more than was stored");
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "acknowledged stores are lost: {lost:?}");
        let acknowledged = acknowledged.len();
        println!("{attempts} attempts, {acknowledged} acknowledged, none lost, none doubled");
        Ok(())
    }
}

/// All memories of the load, by space and id.
async fn found(provider: &RedisMemory) -> Result<HashSet<(String, MemoryId)>> {
    let query = || MemoryQuery::builder().under("load").limit(1_000);
    let (mut found, mut page) = (HashSet::new(), provider.query(&query().build()?).await?);
    loop {
        found.extend(page.memories.iter().map(|memory| (memory.space_id.as_str().to_owned(), memory.id)));
        let Some(cursor) = page.next else { return Ok(found) };
        page = provider.query(&query().cursor(cursor).build()?).await?;
    }
}

/// The ids of the whole ledger.
async fn ids(provider: &RedisMemory) -> Result<HashSet<MemoryId>> {
    let page = provider.query(&MemoryQuery::builder().all().build()?).await?;
    Ok(page.memories.iter().map(|memory| memory.id).collect())
}
