//! The shared workloads on PostgreSQL, beside sqlx alone doing the same work on the same tables and as many connections.
//!
//! `cargo bench -p memory-postgres` recalls from 10,000 rows; with `MEMORY_BENCH_ROWS=1000000` from a million.

mod bare;

use std::sync::Arc;

use async_trait::async_trait;
use conformance::bench::{Bare, Engine};
use conformance::server::TestServer;
use memory_core::MemoryProvider;
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::bare::BareSqlx;

fn main() {
    let server = TestServer::postgres().expect("a server");
    conformance::bench::run(&Postgres { url: server.url().to_owned() });
}

struct Postgres {
    url: String,
}

#[async_trait]
impl Engine for Postgres {
    async fn open(&self, namespace: &str) -> (Arc<dyn MemoryProvider>, Arc<dyn Bare>) {
        self.remove(namespace).await;
        let mut config = PostgresConfig::from_url(&self.url).expect("the URL of a test server");
        config.namespace = namespace.to_owned();
        let bare = BareSqlx::connect(&self.url, &config);
        let provider = PostgresMemory::open(config).expect("a configuration");
        provider.init().await.expect("opens");
        (Arc::new(provider), Arc::new(bare))
    }

    async fn remove(&self, namespace: &str) {
        let mut connection = sqlx::PgConnection::connect(&self.url).await.expect("a connection");
        let sql = format!("DROP SCHEMA IF EXISTS {namespace} CASCADE");
        connection.execute(AssertSqlSafe(sql)).await.expect("removes");
    }
}
