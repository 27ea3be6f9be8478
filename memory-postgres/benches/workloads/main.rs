//! The shared workloads on PostgreSQL, compared with sqlx doing the same work on the same tables with as many
//! connections.
//!
//! `cargo bench -p agent-memory-postgres` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million.

mod bare;

use std::sync::Arc;

use async_trait::async_trait;
use conformance::bench::{Bare, Engine};
use conformance::server::TestServer;
use memory_core::{HistorySettings, MemoryProvider};
use memory_postgres::{PostgresConfig, PostgresMemory};

use crate::bare::BareSqlx;

fn main() {
    let server = TestServer::postgres().expect("a server");
    conformance::bench::run(&Postgres { url: server.url().to_owned() });
}

struct Postgres {
    url: String,
}

impl Postgres {
    fn config(&self, namespace: &str) -> PostgresConfig {
        let mut config = PostgresConfig::from_url(&self.url).expect("the URL of a test server");
        config.namespace = namespace.to_owned();
        config
    }
}

#[async_trait]
impl Engine for Postgres {
    async fn open(&self, namespace: &str, history: HistorySettings) -> (Arc<dyn MemoryProvider>, Arc<dyn Bare>) {
        self.remove(namespace).await;
        let mut config = self.config(namespace);
        config.history = history;
        let bare = BareSqlx::connect(&self.url, &config);
        let provider = PostgresMemory::open(config).expect("a configuration");
        provider.init().await.expect("opens");
        (Arc::new(provider), Arc::new(bare))
    }

    async fn size(&self, namespace: &str) -> u64 {
        memory_postgres::inspect(&self.config(namespace)).await.expect("answers").bytes.expect("a size")
    }

    async fn remove(&self, namespace: &str) {
        memory_postgres::remove(&self.config(namespace)).await.expect("removes");
    }
}
