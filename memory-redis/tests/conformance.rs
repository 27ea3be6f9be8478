//! The suite on Redis: one server, and a cluster whose slots move while the cases run.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use async_trait::async_trait;
use conformance::fault::{Faults, Server};
use conformance::server::redis::{LocalRedis, RedisServer};
use conformance::server::redis_cluster::RedisCluster;
use conformance::{Harness, Namespace};
use memory_core::{Error, ErrorKind, ManualClock, MemoryId, MemoryProvider, Result};
use memory_redis::{RedisConfig, RedisMemory, Topology};

mod common;
use common::Admin;

/// One hash tag for each namespace.
#[derive(Debug)]
struct Redis {
    name: &'static str,
    /// Where the providers connect to.
    url: String,
    config: RedisConfig,
    /// To damage.
    admin: Admin,
}

impl Redis {
    fn harness(name: &'static str, url: &str) -> Arc<dyn Harness> {
        let config = RedisConfig::from_url(url).expect("the URL of a test server");
        Arc::new(Self { name, url: url.to_owned(), config, admin: Admin::of(url) })
    }
}

#[async_trait]
impl Harness for Redis {
    fn name(&self) -> &str {
        self.name
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        open(self.config.clone(), namespace)
    }

    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        memory_redis::remove(&with_settings_of(self.config.clone(), namespace)).await
    }

    fn faults(&self) -> Option<&dyn Faults> {
        // The nodes of a cluster tell each other's addresses, which lead around a proxy.
        matches!(self.config.topology, Topology::Server(_)).then_some(self)
    }

    fn can_damage(&self) -> bool {
        true
    }

    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        self.admin.cut_last_byte(&namespace.name, id).await.map_err(unexpected)
    }
}

#[async_trait]
impl Faults for Redis {
    fn url(&self) -> &str {
        &self.url
    }

    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        open(RedisConfig::from_url(url)?, namespace)
    }

    fn can_start(&self) -> bool {
        LocalRedis::is_installed()
    }

    fn start(&self) -> io::Result<Box<dyn Server>> {
        let settings = [("appendonly", "yes"), ("appendfsync", "always")];
        Ok(Box::new(LocalRedis::start_with(&settings).map_err(io::Error::other)?))
    }
}

fn open(config: RedisConfig, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
    Ok(Arc::new(RedisMemory::open(with_settings_of(config, namespace))?))
}

fn with_settings_of(mut config: RedisConfig, namespace: &Namespace) -> RedisConfig {
    config.namespace = namespace.name.clone();
    config.clock = Arc::<ManualClock>::clone(&namespace.clock);
    config.text_index = namespace.text_index;
    config.deadline = namespace.deadline;
    config
}

fn unexpected(error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Unexpected, "the server refused to prepare a case").with_source(error)
}

fn main() -> ExitCode {
    let server = RedisServer::start();
    let cluster = RedisCluster::start_with(&[]);
    let harnesses = vec![
        match &server {
            Ok(server) => Redis::harness("redis", server.url()),
            Err(missing) => missing.harness("redis"),
        },
        match &cluster {
            Ok(cluster) => Redis::harness("redis-cluster", &cluster.url()),
            Err(missing) => missing.harness("redis-cluster"),
        },
    ];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mover = cluster.as_ref().ok().map(|cluster| scope.spawn(|| move_slots(cluster, &is_over)));
        let exit = {
            let _over = Over(&is_over);
            conformance::run(harnesses)
        };
        match mover.map(|mover| mover.join().unwrap_or(0)) {
            Some(0) => {
                eprintln!("no slots were moved while the cases ran");
                ExitCode::FAILURE
            }
            _ => exit,
        }
    })
}

/// Tells the mover that it is over, also when what runs beside it panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves slots from primary to primary until it is over, at least once, and tells how often.
fn move_slots(cluster: &RedisCluster, is_over: &AtomicBool) -> usize {
    let mut moves = 0;
    for turn in 0.. {
        match cluster.move_slots(turn % 3, (turn + 1) % 3, 1_000) {
            Ok(()) => moves += 1,
            Err(error) => eprintln!("slots could not be moved: {error}"),
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    moves
}
