//! The shared workloads on Redis, compared with bare commands that do the same reads and writes.
//!
//! `cargo bench -p agent-memory-redis` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million. The server
//! is that of this machine and keeps nothing on disk, so that no flush hides the cost of the commands.

mod bare;
mod stall;

use std::sync::Arc;

use async_trait::async_trait;
use conformance::bench::{Bare, Engine};
use conformance::server::redis::LocalRedis;
use memory_core::{HistorySettings, MemoryProvider};
use memory_redis::{RedisConfig, RedisMemory};

use crate::bare::BareRedis;

fn main() {
    let server = LocalRedis::start().expect("a server");
    let redis = Redis { url: server.url() };
    conformance::bench::run(&redis);
    stall::run(&redis);
}

struct Redis {
    url: String,
}

impl Redis {
    fn config(&self, namespace: &str) -> RedisConfig {
        let mut config = RedisConfig::from_url(&self.url).expect("the URL of a test server");
        config.namespace = namespace.to_owned();
        config
    }
}

#[async_trait]
impl Engine for Redis {
    async fn open(&self, namespace: &str, history: HistorySettings) -> (Arc<dyn MemoryProvider>, Arc<dyn Bare>) {
        let mut config = self.config(namespace);
        config.history = history;
        let provider = RedisMemory::open(config).expect("a configuration");
        provider.init().await.expect("opens");
        (Arc::new(provider), Arc::new(BareRedis::open(&self.url, namespace).await))
    }

    async fn size(&self, namespace: &str) -> u64 {
        memory_redis::inspect(&self.config(namespace)).await.expect("answers").bytes.expect("a size")
    }

    async fn remove(&self, namespace: &str) {
        memory_redis::remove(&self.config(namespace)).await.expect("removes");
        let bare = BareRedis::open(&self.url, namespace).await;
        while bare.is_freeing().await {}
    }
}
