//! The suite on PostgreSQL.

use std::io;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use conformance::fault::{Faults, Server};
use conformance::server::postgres::{LocalPostgres, PgBouncer};
use conformance::server::{TestServer, on_demand};
use conformance::{Harness, Namespace};
use memory_core::{Error, ErrorKind, MemoryId, MemoryProvider, Result};
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{AssertSqlSafe, Executor};

/// One schema for each namespace.
#[derive(Debug)]
struct Postgres {
    name: &'static str,
    /// The URL that the providers connect to.
    url: String,
    config: PostgresConfig,
    /// For removing and damaging.
    pool: PgPool,
}

impl Postgres {
    /// Namespaces on the server at `url`; `direct` bypasses the pooler, if there is one.
    fn harness(name: &'static str, direct: &str, url: &str, is_pooled: bool) -> Arc<dyn Harness> {
        let mut config = PostgresConfig::from_url(url).expect("the URL of a test server");
        config.pooler = is_pooled;
        // Many cases run at the same time, each with several providers.
        config.pool_size = const { NonZeroU32::new(8).unwrap() };
        let options: PgConnectOptions = direct.parse().expect("the URL of a test server");
        let pool = PgPool::connect_lazy_with(options.options([("agent_memory.writer", "9")]));
        Arc::new(Self { name, url: url.to_owned(), config, pool })
    }

    fn open_with(mut config: PostgresConfig, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        config.namespace = namespace.name.clone();
        config.clock = Arc::<memory_core::ManualClock>::clone(&namespace.clock);
        config.deadline = namespace.deadline;
        config.history = namespace.history.clone();
        Ok(Arc::new(PostgresMemory::open(config)?))
    }
}

impl Postgres {
    /// Runs statements on a schema.
    async fn execute(&self, statements: &str, namespace: &Namespace) -> Result<()> {
        let sql = statements.replace("{schema}", &format!(r#""{}""#, namespace.name));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await.map(drop).map_err(unexpected)
    }
}

#[async_trait]
impl Harness for Postgres {
    fn name(&self) -> &str {
        self.name
    }

    async fn open(&self, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        Self::open_with(self.config.clone(), namespace)
    }

    /// The server may find a deadlock with a dropped watch that still reads its last page, which is a transaction
    /// behind a pooler.
    async fn remove(&self, namespace: &Namespace) -> Result<()> {
        loop {
            match self.execute("DROP SCHEMA IF EXISTS {schema} CASCADE", namespace).await {
                Err(error) if is_deadlock(&error) => {}
                removed => return removed,
            }
        }
    }

    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }

    fn can_make_newer(&self) -> bool {
        true
    }

    async fn make_newer(&self, namespace: &Namespace) -> Result<()> {
        let later = "INSERT INTO {schema}.schema_migrations VALUES (99, 'future', 'unknown', TRUE)";
        self.execute(later, namespace).await
    }

    fn can_lose_changes(&self) -> bool {
        true
    }

    async fn drop_changes(&self, namespace: &Namespace) -> Result<()> {
        let older = "DELETE FROM {schema}.changes
            WHERE (xid, seq) < (SELECT xid, seq FROM {schema}.changes ORDER BY xid DESC, seq DESC LIMIT 1)";
        self.execute(older, namespace).await
    }

    /// A dump of the tables that the cases write to.
    async fn back_up(&self, namespace: &Namespace) -> Result<()> {
        let dump = "CREATE TABLE {schema}.memories_backup AS TABLE {schema}.memories;
            CREATE TABLE {schema}.changes_backup AS TABLE {schema}.changes";
        self.execute(dump, namespace).await
    }

    async fn go_back(&self, namespace: &Namespace) -> Result<()> {
        let restore = "TRUNCATE {schema}.memories, {schema}.changes;
            INSERT INTO {schema}.memories SELECT * FROM {schema}.memories_backup;
            INSERT INTO {schema}.changes SELECT * FROM {schema}.changes_backup;
            SELECT setval('{schema}.changes_seq_seq', (SELECT max(seq) FROM {schema}.changes))";
        self.execute(restore, namespace).await
    }

    fn can_damage(&self) -> bool {
        true
    }

    async fn damage(&self, namespace: &Namespace, id: MemoryId) -> Result<bool> {
        let sql = format!(r#"UPDATE "{}".memories SET trigger = '{{"cut' WHERE id = '{id}'"#, namespace.name);
        Ok(self.pool.execute(AssertSqlSafe(sql)).await.map_err(unexpected)?.rows_affected() == 1)
    }
}

#[async_trait]
impl Faults for Postgres {
    fn url(&self) -> &str {
        &self.url
    }

    async fn open(&self, url: &str, namespace: &Namespace) -> Result<Arc<dyn MemoryProvider>> {
        let mut config = self.config.clone();
        config.server = PostgresConfig::from_url(url)?.server;
        // A call must notice within its deadline that the server is gone.
        config.acquire_timeout = Duration::from_secs(1);
        Self::open_with(config, namespace)
    }

    fn can_start(&self) -> bool {
        !self.config.pooler && LocalPostgres::is_installed()
    }

    fn start(&self) -> io::Result<Box<dyn Server>> {
        Ok(Box::new(LocalPostgres::start().map_err(io::Error::other)?))
    }
}

fn is_deadlock(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<sqlx::Error>());
    let code = cause.and_then(sqlx::Error::as_database_error).and_then(|error| error.code());
    code.as_deref() == Some("40P01")
}

fn unexpected(error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Unexpected, "the server refused to prepare a case").with_source(error)
}

fn main() -> ExitCode {
    let server = Arc::new(LazyLock::new(TestServer::postgres_without_fsync));
    let pooled = Arc::clone(&server);
    conformance::run(vec![
        on_demand("postgres", move || {
            let server = (**server).clone()?;
            Ok((Postgres::harness("postgres", server.url(), server.url(), false), server))
        }),
        on_demand("postgres-pooler", move || {
            let server = (**pooled).clone()?;
            let pooler = PgBouncer::start(server.url())?;
            Ok((Postgres::harness("postgres-pooler", server.url(), pooler.url(), true), (pooler, server)))
        }),
    ])
}
