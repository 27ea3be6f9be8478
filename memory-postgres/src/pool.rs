//! The connections to one host.

use std::fmt;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult};
use memory_core::Host;
use migrations::WRITER;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Row};

use crate::config::{PostgresConfig, Server, TlsMode};
use crate::error::is_starting;

/// How many statements each connection keeps prepared: more than are usual. Each depth of a path has some of its own, and each set of
/// depths that a query asks for; what was used last stays.
const STATEMENTS: usize = 128;
/// How long a connection may be out of use. Firewalls forget one that is idle for longer, and tell nobody.
const MAX_IDLE: Duration = Duration::from_secs(600);
/// How long to wait before a server that is starting up is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections to one host, as many as there may be.
///
/// Not the pool of sqlx, which asks the server on each release whether the connection works, in a task of its own: two round trips
/// for each recall.
#[derive(Debug)]
pub(crate) struct Pool {
    connections: deadpool::managed::Pool<Connector>,
    acquire_timeout: Duration,
}

impl Pool {
    /// Connects to nothing yet.
    pub(crate) fn new(connector: Connector, config: &PostgresConfig) -> Self {
        let size = config.pool_size.get() as usize;
        // The connection that was used last, whose server process has the most in its caches.
        let builder = deadpool::managed::Pool::builder(connector).max_size(size).queue_mode(QueueMode::Lifo);
        // It fails where there are time limits without a runtime.
        let connections = builder.build().expect("a pool without time limits");
        Self { connections, acquire_timeout: config.acquire_timeout }
    }

    /// A connection that nobody uses. A server that is starting up is waited for.
    pub(crate) async fn get(&self) -> sqlx::Result<Pooled> {
        match tokio::time::timeout(self.acquire_timeout, self.connections.get()).await {
            Ok(Ok(mut connection)) => {
                connection.is_clean = false;
                Ok(connection)
            }
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(PoolError::Closed)) => Err(sqlx::Error::PoolClosed),
            Ok(Err(_)) | Err(_) => Err(sqlx::Error::PoolTimedOut),
        }
    }

    /// Connects once, beside the pool.
    pub(crate) async fn probe(&self) -> sqlx::Result<()> {
        self.connections.manager().connect().await?.close().await
    }

    /// Closes the connections that nobody uses now, and the others as soon as nobody does.
    pub(crate) async fn close(&self) {
        let idle = self.connections.retain(|_, _| false).removed;
        self.connections.close();
        for Link { connection, .. } in idle {
            // What matters is that it is closed, not what the server says to it.
            let _ = connection.close().await;
        }
    }
}

/// A connection that goes back to its pool when it is dropped. One that is not clean then is closed.
pub(crate) type Pooled = Object<Connector>;

/// What a pool holds.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: PgConnection,
    /// Whether nothing is under way on it, so that others can use it.
    pub(crate) is_clean: bool,
}

/// How to connect to a host.
pub(crate) struct Connector {
    options: PgConnectOptions,
    must_be_primary: bool,
}

impl Connector {
    pub(crate) fn new(server: &Server, host: &Host, config: &PostgresConfig, must_be_primary: bool) -> Self {
        let Server { user, password, database, tls, .. } = server;
        let options = PgConnectOptions::new_without_pgpass()
            .host(&host.name)
            .port(host.port)
            .application_name(&config.application_name)
            .extra_float_digits(None)
            // The driver would never encrypt with `Allow`; to try that first costs nothing where it works.
            .ssl_mode(if let TlsMode::Allow = tls.mode { TlsMode::Prefer } else { tls.mode });
        let options = user.iter().fold(options, |options, user| options.username(user));
        let options = password.iter().fold(options, |options, password| options.password(&password.0));
        let options = database.iter().fold(options, |options, database| options.database(database));
        let options = tls.root_certificate.iter().fold(options, PgConnectOptions::ssl_root_cert);
        let options = tls.certificate.iter().fold(options, PgConnectOptions::ssl_client_cert);
        let options = tls.key.iter().fold(options, PgConnectOptions::ssl_client_key);
        let options = match config.pooler {
            true => options.statement_cache_capacity(0),
            false => options.statement_cache_capacity(STATEMENTS).options(settings(config)),
        };
        Self { options, must_be_primary }
    }

    async fn connect(&self) -> sqlx::Result<PgConnection> {
        let mut connection = self.options.connect().await?;
        if self.must_be_primary {
            // Without a prepared statement, which a pooler would not keep.
            let row = sqlx::raw_sql("SELECT pg_is_in_recovery()").fetch_one(&mut connection).await?;
            if row.try_get(0)? {
                return Err(sqlx::Error::Protocol("the host is not the primary".to_owned()));
            }
        }
        Ok(connection)
    }
}

/// What a session needs: by a setting of it where it is ours alone, else in each transaction.
pub(crate) fn settings(config: &PostgresConfig) -> [(&'static str, String); 5] {
    let timeout = config.statement_timeout.unwrap_or(config.deadline).as_millis().clamp(1, i32::MAX as u128);
    [
        ("statement_timeout", timeout.to_string()),
        // The server refuses writes of a program that is too old.
        ("agent_memory.writer", WRITER.to_string()),
        // Plans outlive the moment they are made in, when a table may have been empty; and to make one takes longer than to recall.
        ("plan_cache_mode", "force_generic_plan".to_owned()),
        ("enable_seqscan", "off".to_owned()),
        ("jit", "off".to_owned()),
    ]
}

impl fmt::Debug for Connector {
    /// Without the options, which hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("must_be_primary", &self.must_be_primary).finish_non_exhaustive()
    }
}

impl Manager for Connector {
    type Type = Link;
    type Error = sqlx::Error;

    async fn create(&self) -> sqlx::Result<Link> {
        loop {
            // Boxed, since futures of the driver nest too deep for the compiler.
            match Box::pin(self.connect()).await {
                Ok(connection) => return Ok(Link { connection, is_clean: true }),
                Err(error) if is_starting(&error) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn recycle(&self, link: &mut Link, metrics: &Metrics) -> RecycleResult<sqlx::Error> {
        match link.is_clean && metrics.last_used() < MAX_IDLE {
            true => Ok(()),
            false => Err(RecycleError::message("it is in the middle of something, or may be lost")),
        }
    }
}
