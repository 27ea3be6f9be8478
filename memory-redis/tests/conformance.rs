//! The suite on Redis: one server, and a cluster whose slots move while the cases run.

use std::collections::HashMap;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use conformance::fault::{Faults, Server};
use conformance::server::redis::LocalRedis;
use conformance::server::redis_cluster::RedisCluster;
use conformance::server::{TestServer, on_demand};
use conformance::{Harness, Namespace};
use memory_core::{Error, ErrorKind, ManualClock, MemoryId, MemoryProvider, Result};
use memory_redis::{RedisConfig, RedisMemory, Topology};
use redis::cmd;

mod common;
use common::Admin;

/// One hash tag for each namespace.
#[derive(Debug)]
struct Redis {
    name: &'static str,
    /// The URL that the providers connect to.
    url: String,
    config: RedisConfig,
    /// For damaging.
    admin: Admin,
    backups: Mutex<HashMap<String, Vec<Dump>>>,
}

/// A key, and the server's dump of its value.
type Dump = (Vec<u8>, Vec<u8>);

impl Redis {
    fn harness(name: &'static str, url: &str) -> Arc<dyn Harness> {
        let config = RedisConfig::from_url(url).expect("the URL of a test server");
        Arc::new(Self { name, url: url.to_owned(), config, admin: Admin::of(url), backups: Mutex::default() })
    }
}

#[async_trait]
impl Harness for Redis {
    fn can_erase(&self) -> bool {
        true
    }

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
        // The nodes of a cluster announce each other's addresses, which bypass a proxy.
        matches!(self.config.topology, Topology::Server(_)).then_some(self)
    }

    fn can_damage(&self) -> bool {
        true
    }

    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        self.admin.cut_last_byte(&namespace.name, id).await.map_err(unexpected)
    }

    fn can_make_newer(&self) -> bool {
        true
    }

    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        let key = format!("{{{}}}:schema", namespace.name);
        self.admin.query::<()>(cmd("HSET").arg(key).arg(99).arg("unknown future")).await.map_err(unexpected)
    }

    fn can_lose_changes(&self) -> bool {
        // A scan of all keys goes to one server.
        matches!(self.config.topology, Topology::Server(_))
    }

    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        let key = format!("{{{}}}:feed", namespace.name);
        self.admin.query::<()>(cmd("XTRIM").arg(key).arg("MAXLEN").arg(1)).await.map_err(unexpected)
    }

    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let mut dumps = Vec::new();
        for key in self.keys(namespace).await? {
            let dump = self.admin.query(cmd("DUMP").arg(&key)).await.map_err(unexpected)?;
            dumps.push((key, dump));
        }
        self.backups.lock().expect("sound").insert(namespace.name.clone(), dumps);
        Ok(())
    }

    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        for key in self.keys(namespace).await? {
            self.admin.query::<()>(cmd("DEL").arg(key)).await.map_err(unexpected)?;
        }
        let dumps = self.backups.lock().expect("sound").remove(&namespace.name);
        for (key, dump) in dumps.into_iter().flatten() {
            self.admin.query::<()>(cmd("RESTORE").arg(key).arg(0).arg(dump)).await.map_err(unexpected)?;
        }
        Ok(())
    }
}

impl Redis {
    async fn keys(&self, namespace: &Namespace) -> Result<Vec<Vec<u8>>> {
        self.admin.query(cmd("KEYS").arg(format!("{{{}}}:*", namespace.name))).await.map_err(unexpected)
    }
}

#[async_trait]
impl Faults for Redis {
    fn url(&self) -> &str {
        &self.url
    }

    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut config = RedisConfig::from_url(url)?;
        // A call must notice within its deadline that the server is gone.
        config.connect_timeout = Duration::from_secs(1);
        open(config, namespace)
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
    config.deadline = namespace.deadline;
    config.history = namespace.history.clone();
    config
}

fn unexpected(error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Unexpected, "the server refused to prepare a case").with_source(error)
}

fn main() -> ExitCode {
    let moves = Arc::new(AtomicUsize::new(usize::MAX));
    let counter = Arc::clone(&moves);
    let exit = conformance::run(vec![
        on_demand("redis", || {
            let server = TestServer::redis()?;
            Ok((Redis::harness("redis", server.url()), server))
        }),
        on_demand("redis-cluster", || {
            let cluster = RedisCluster::start_with(&[])?;
            Ok((Redis::harness("redis-cluster", &cluster.url()), Mover::start(cluster, counter)))
        }),
    ]);
    if moves.load(Ordering::Relaxed) == 0 {
        eprintln!("no slots were moved while the cases ran");
        return ExitCode::FAILURE;
    }
    exit
}

/// Moves slots of a cluster between primaries while it exists, at least once.
#[derive(Debug)]
struct Mover {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Mover {
    /// Counts the moves from 0.
    fn start(cluster: RedisCluster, moves: Arc<AtomicUsize>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        moves.store(0, Ordering::Relaxed);
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            for turn in 0.. {
                match cluster.move_slots(turn % 3, (turn + 1) % 3, 1_000) {
                    Ok(()) => drop(moves.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => eprintln!("slots could not be moved: {error}"),
                }
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        Self { thread: Some(thread), is_over }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("the thread that moves slots has panicked");
        }
    }
}
