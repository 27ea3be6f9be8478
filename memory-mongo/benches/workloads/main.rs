//! The shared workloads on MongoDB, compared with the driver doing the same work on the same collections.
//!
//! `cargo bench -p agent-memory-mongo` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million.

mod bare;

use std::sync::Arc;

use async_trait::async_trait;
use conformance::bench::{Bare, Engine};
use conformance::server::TestServer;
use memory_core::{HistorySettings, MemoryProvider};
use memory_mongo::{MongoConfig, MongoMemory};

use crate::bare::BareMongo;

fn main() {
    let server = TestServer::mongo().expect("a server");
    conformance::bench::run(&Mongo { url: server.url().to_owned() });
}

struct Mongo {
    url: String,
}

impl Mongo {
    fn config(&self, namespace: &str) -> MongoConfig {
        let mut config = MongoConfig::from_url(&self.url).expect("the URL of a test server");
        config.namespace = namespace.to_owned();
        config
    }
}

#[async_trait]
impl Engine for Mongo {
    async fn open(&self, namespace: &str, history: HistorySettings) -> (Arc<dyn MemoryProvider>, Arc<dyn Bare>) {
        self.remove(namespace).await;
        let mut config = self.config(namespace);
        config.history = history;
        let provider = MongoMemory::open(config).expect("a configuration");
        provider.init().await.expect("opens");
        (Arc::new(provider), Arc::new(BareMongo::open(&self.url, namespace).await))
    }

    async fn size(&self, namespace: &str) -> u64 {
        memory_mongo::inspect(&self.config(namespace)).await.expect("answers").bytes.expect("a size")
    }

    async fn remove(&self, namespace: &str) {
        memory_mongo::remove(&self.config(namespace)).await.expect("removes");
    }
}
