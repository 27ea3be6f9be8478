//! The connection pool of one host.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::{Manager, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult, WeakPool};
use memory_core::Host;
use memory_core::engine::Access;
use migrations::WRITER;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::config::{PostgresConfig, Server, TlsMode};
use crate::error::is_starting;

/// Number of prepared statements that each connection caches: more than are usual. Each depth of a path has statements
/// of its own, and so has each set of depths in a query; the least recently used are evicted.
const STATEMENTS: usize = 128;
/// Minimum interval between two searches for unused connections.
const REAPING: Duration = Duration::from_millis(100);
/// A connection that was unused for this long is tested before use.
const UNTESTED: Duration = Duration::from_secs(30);
/// Timeout of a test of a connection, and of closing it.
const TEST: Duration = Duration::from_secs(1);
/// Minimum interval between two rounds of closing all idle connections because the server accepts no writes.
const BETWEEN_DEMOTIONS: Duration = Duration::from_secs(1);
/// TCP keepalives of the server: idle seconds before the first, seconds between two, and number before it gives up.
const KEEPALIVES: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "60"), ("tcp_keepalives_interval", "10"), ("tcp_keepalives_count", "6")];
/// Each statement sees what was committed before it got its locks, whatever the database's default: so a store that has
/// waited for an erasure finds the tombstones. Transactions set the level themselves.
const ISOLATION: [(&str, &str); 1] = [("default_transaction_isolation", "read committed")];
/// Pause before another attempt while the server is starting or has no connection left.
const PAUSE: Duration = Duration::from_millis(20);
/// First pause before a server that refuses connections is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest such pause; each is twice the one before.
const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// How long an abandoned statement may take to end by itself before it is cancelled.
const PROMPT: Duration = Duration::from_millis(100);
/// How long a commit may take before it is looked at again.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// How long a connection may take to recover from an abandoned session before it is closed.
const RECOVERY: Duration = Duration::from_secs(3);
/// The channel on which programs announce changes, with the name of the namespace as payload.
const CHANGES: &str = "agent_memory_changes";
/// The columns of a [`Backend`].
pub(crate) const BACKEND: &str = "pg_backend_pid(), (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

/// The connections to one host.
///
/// This does not use sqlx's pool, which tests the connection on each release, in a task of its own: two round trips for
/// each recall.
#[derive(Debug)]
pub(crate) struct Pool {
    connections: deadpool::managed::Pool<Connector>,
    /// The turns of writes. One of each four connections has none, so that reads go on while all commits wait for a
    /// standby; a pool of fewer keeps none for reads.
    writes: Arc<Semaphore>,
    acquire_timeout: Duration,
}

impl Pool {
    /// Makes an empty pool; connects to nothing yet.
    pub(crate) fn new(connector: Connector, config: &PostgresConfig) -> Self {
        let size = config.pool_size.get() as usize;
        // LIFO: the server process of the connection that was used last has the warmest caches.
        let builder = deadpool::managed::Pool::builder(connector).max_size(size).queue_mode(QueueMode::Lifo);
        // Building fails only if there are timeouts without a runtime.
        let connections = builder.build().expect("a pool without time limits");
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(reap(connections.weak(), config.idle_timeout));
        }
        let writes = Arc::new(Semaphore::new(size - size / 4));
        Self { connections, writes, acquire_timeout: config.acquire_timeout }
    }

    /// Takes a free connection; a write first waits for its turn. Waits while the server is starting up or has no
    /// connection left, until it accepts one or another call returns its own.
    pub(crate) async fn get(&self, access: Access) -> sqlx::Result<Pooled> {
        let search = async {
            let turn = match access {
                // The semaphore is never closed.
                Access::Write => Arc::clone(&self.writes).acquire_owned().await.ok(),
                _ => None,
            };
            loop {
                match self.connections.get().await {
                    Ok(mut connection) => {
                        (connection.is_clean, connection.turn) = (false, turn);
                        return Ok(connection);
                    }
                    Err(PoolError::Backend(error)) if is_starting(&error) => tokio::time::sleep(PAUSE).await,
                    Err(PoolError::Backend(error)) => return Err(error),
                    Err(PoolError::Closed) => return Err(sqlx::Error::PoolClosed),
                    Err(_) => return Err(sqlx::Error::PoolTimedOut),
                }
            }
        };
        timeout(self.acquire_timeout, search).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// Opens and closes one connection outside the pool.
    pub(crate) async fn probe(&self) -> sqlx::Result<()> {
        self.connections.manager().connect().await?.connection.close().await
    }

    /// Opens a connection outside the pool that listens for changes.
    pub(crate) async fn listen(&self) -> sqlx::Result<PgListener> {
        let only = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let options = self.connections.manager().options.clone();
        let only = only.acquire_timeout(self.acquire_timeout).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&only).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANGES).await?;
        Ok(listener)
    }

    /// Returns whether to also try the connection outside the pool: if it exists, or if calls use all connections of
    /// the pool, so that it is worth opening.
    pub(crate) fn asks_aside(&self) -> bool {
        let status = self.connections.status();
        let is_busy = status.available == 0 && status.size == status.max_size;
        // If it is in use, it exists.
        is_busy || self.connections.manager().aside.try_lock().map_or(true, |aside| aside.is_some())
    }

    /// Runs a statement without parameters on the connection outside the pool; returns its row.
    pub(crate) async fn ask(&self, sql: &str) -> sqlx::Result<PgRow> {
        self.connections.manager().ask(sql).await
    }

    /// Closes the idle connections now, and the others when they are returned.
    pub(crate) async fn close(&self) {
        let idle = self.connections.retain(|_, _| false).removed;
        self.connections.close();
        let aside = self.connections.manager().aside.lock().await.take();
        close(idle.into_iter().chain(aside)).await;
    }
}

/// A connection that returns to its pool on drop, or is closed if it is not clean then.
pub(crate) type Pooled = Object<Connector>;

/// A pooled connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: PgConnection,
    opened: Instant,
    /// Whether nothing is in progress on it, so that it can be reused.
    pub(crate) is_clean: bool,
    /// When the server last answered on it.
    pub(crate) answered: Instant,
    /// The server process that serves it, if known: behind a pooler, only during a transaction.
    pub(crate) backend: Option<Backend>,
    /// The turn of the write that uses it, until [`recover`] takes it over.
    turn: Option<OwnedSemaphorePermit>,
}

impl Link {
    /// Marks it as reusable, because the server has answered.
    pub(crate) fn clear(&mut self) {
        (self.is_clean, self.answered, self.turn) = (true, Instant::now(), None);
    }

    /// Makes it ready for another session; `false` if its commit is still in progress after `patience`.
    async fn recover(&mut self, connector: &Connector, patience: Duration, is_transaction: bool) -> sqlx::Result<bool> {
        match timeout(patience, until_ready(&mut self.connection)).await {
            Ok(ready) => ready?,
            Err(_) => {
                // Behind a pooler another client gets the backend once the transaction ends, so it must not end before
                // the cancel request has arrived.
                if !connector.cancel(self.backend.ok_or(sqlx::Error::WorkerCrashed)?).await? {
                    return Ok(false);
                }
                until_ready(&mut self.connection).await?;
            }
        }
        if is_transaction {
            sqlx::raw_sql("ROLLBACK").execute(&mut self.connection).await?;
        }
        Ok(true)
    }
}

/// A server process, with the start time of its server in microseconds since 1970: one address may lead to several
/// servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backend {
    process: i32,
    server_start: i64,
}

impl Backend {
    /// Reads the columns of [`BACKEND`], which come first in the row.
    pub(crate) fn of(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { process: row.try_get(0)?, server_start: row.try_get(1)? })
    }
}

/// Recovers a connection whose session was abandoned: cancels a running statement, unless it commits, and rolls back an
/// open transaction. Closes it if it does not answer. If the session got no answer (`is_silent`), the server may have fallen silent.
pub(crate) fn recover(mut link: Pooled, is_transaction: bool, is_silent: bool) {
    // Until the connection is ready, its commit has ended, or it is given up: as long as a synchronous standby is away,
    // there must not be ever more commits that go on after their calls.
    let turn = link.turn.take();
    // Without a pool the connection is not needed any more.
    let (Some(pool), Ok(runtime)) = (Object::pool(&link), Handle::try_current()) else { return };
    let start = Instant::now();
    if is_silent {
        pool.manager().silence().suspected = start;
    }
    runtime.spawn(async move {
        match timeout(RECOVERY, link.recover(pool.manager(), PROMPT, is_transaction)).await {
            Ok(Ok(true)) => return link.clear(),
            Ok(Ok(false)) => return until_committed(&pool, Object::take(link), turn).await,
            Ok(Err(_)) => {}
            Err(_) => {
                let mut silence = pool.manager().silence();
                silence.lost = silence.lost.max(start);
            }
        }
        drop(Object::take(link));
    });
}

/// Keeps a connection, outside the pool, and its turn until its commit has ended or the pool is closed.
async fn until_committed(
    pool: &deadpool::managed::Pool<Connector>,
    mut link: Link,
    _turn: Option<OwnedSemaphorePermit>,
) {
    let mut is_committing = true;
    while is_committing && !pool.is_closed() {
        let looked = timeout(RECOVERY, link.recover(pool.manager(), BETWEEN_LOOKS, false)).await;
        is_committing = matches!(looked, Ok(Ok(false)));
    }
}

/// Closes unused connections, until the pool is closed.
async fn reap(pool: WeakPool<Connector>, idle_timeout: Duration) {
    loop {
        tokio::time::sleep((idle_timeout / 2).max(REAPING)).await;
        let Some(pool) = pool.upgrade().filter(|pool| !pool.is_closed()) else { return };
        let is_used = |link: &Link| link.answered.elapsed() < idle_timeout;
        let mut idle = pool.retain(|link, _| is_used(link)).removed;
        // If it is in use, it is not idle.
        if let Ok(mut aside) = pool.manager().aside.try_lock() {
            idle.extend(aside.take_if(|link| !is_used(link)));
        }
        close(idle).await;
    }
}

async fn close(links: impl IntoIterator<Item = Link>) {
    for Link { connection, .. } in links {
        // The connection is closed whatever the server answers.
        let _ = timeout(TEST, connection.close()).await;
    }
}

/// Closes a connection to a server that is no longer the primary, and the others before their next use: these at most
/// once a second, because a server may accept no writes at all.
pub(crate) fn demoted(link: Pooled) {
    if let Some(pool) = Object::pool(&link) {
        let (now, mut silence) = (Instant::now(), pool.manager().silence());
        if silence.demoted.is_none_or(|before| now.duration_since(before) >= BETWEEN_DEMOTIONS) {
            silence.demoted = Some(now);
        }
    }
    drop(Object::take(link));
}

/// Waits for the end of everything in progress on a connection, whether it succeeds or not.
async fn until_ready(connection: &mut PgConnection) -> sqlx::Result<()> {
    loop {
        match connection.ping().await {
            Err(sqlx::Error::Database(_)) => {}
            ready => return ready,
        }
    }
}

/// Opens the connections of a pool.
pub(crate) struct Connector {
    options: PgConnectOptions,
    must_be_primary: bool,
    is_pooled: bool,
    idle_timeout: Duration,
    refusal: std::sync::Mutex<Option<Refusal>>,
    silence: std::sync::Mutex<Silence>,
    /// A connection outside the pool, for work that must not wait for calls. Whoever uses it takes it out, so that it
    /// is not reused after a failure or an abandoned use.
    aside: Mutex<Option<Link>>,
}

/// The state of a server that refuses connections: when to ask it again.
#[derive(Debug)]
struct Refusal {
    until: Instant,
    pause: Duration,
}

impl Refusal {
    fn new() -> Self {
        Self { until: Instant::now() + FIRST_PAUSE, pause: FIRST_PAUSE }
    }

    /// Returns whether to ask the server again: `true` for one call, then for the next one after a longer pause.
    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let is_over = now >= self.until;
        if is_over {
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            self.until = now + self.pause;
        }
        is_over
    }
}

/// When the server may have fallen silent. A silent primary must not cost one deadline for each connection.
#[derive(Debug)]
struct Silence {
    /// A connection without an answer since then is tested before use.
    suspected: Instant,
    /// A connection without an answer since then is closed.
    lost: Instant,
    /// When the server last refused a write, at most once a second. Each connection that was opened before is closed.
    demoted: Option<Instant>,
}

impl Connector {
    pub(crate) fn new(server: &Server, host: &Host, config: &PostgresConfig, must_be_primary: bool) -> Self {
        let Server { user, password, database, tls, .. } = server;
        let options = PgConnectOptions::new_without_pgpass()
            .host(&host.name)
            .port(host.port)
            .application_name(&config.application_name)
            .extra_float_digits(None)
            // The driver never encrypts with `Allow`; trying encryption first costs nothing if it works.
            .ssl_mode(if let TlsMode::Allow = tls.mode { TlsMode::Prefer } else { tls.mode });
        let options = user.iter().fold(options, |options, user| options.username(user));
        let options = password.iter().fold(options, |options, password| options.password(&password.0));
        let options = database.iter().fold(options, |options, database| options.database(database));
        let options = tls.root_certificate.iter().fold(options, PgConnectOptions::ssl_root_cert);
        let options = tls.certificate.iter().fold(options, PgConnectOptions::ssl_client_cert);
        let options = tls.key.iter().fold(options, PgConnectOptions::ssl_client_key);
        let options = match config.pooler {
            true => options.statement_cache_capacity(0),
            false => {
                let timeout = [("statement_timeout", millis(statement_timeout(config)))];
                // The server sends keepalives, because the driver can't; they also keep firewalls from dropping the
                // connection.
                let options = options.statement_cache_capacity(STATEMENTS).options(settings()).options(timeout);
                options.options(KEEPALIVES).options(ISOLATION)
            }
        };
        let now = Instant::now();
        Self {
            options,
            must_be_primary,
            is_pooled: config.pooler,
            idle_timeout: config.idle_timeout,
            refusal: std::sync::Mutex::default(),
            silence: std::sync::Mutex::new(Silence { suspected: now, lost: now, demoted: None }),
            aside: Mutex::default(),
        }
    }

    async fn connect(&self) -> sqlx::Result<Link> {
        let mut connection = self.options.connect().await?;
        let mut backend = None;
        if self.must_be_primary || !self.is_pooled {
            // Not a prepared statement, which a pooler would not keep.
            let sql = format!("SELECT {BACKEND}, pg_is_in_recovery()");
            let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection).await?;
            if self.must_be_primary && row.try_get(2)? {
                return Err(sqlx::Error::Protocol("the host is not the primary".to_owned()));
            }
            backend = (!self.is_pooled).then(|| Backend::of(&row)).transpose()?;
        }
        let now = Instant::now();
        Ok(Link { connection, opened: now, is_clean: true, answered: now, backend, turn: None })
    }

    // No code panics while it holds one of these locks.
    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels what a backend is doing. Returns `true` once the request has arrived, and `false` without a request if
    /// the backend commits, or writes the log as a commit does: a commit that no longer waits for its standby would
    /// become visible although the standby may never get it. The names of these waits differ between versions.
    async fn cancel(&self, backend: Backend) -> sqlx::Result<bool> {
        let Backend { process, server_start } = backend;
        let sql = format!(
            "SELECT CASE WHEN wait_event = 'SyncRep' OR wait_event ILIKE 'wal%' THEN FALSE
                ELSE pg_cancel_backend({process}) IS NOT NULL END
            FROM (SELECT {BACKEND}) AS own (process, server_start) LEFT JOIN pg_stat_activity ON pid = {process}
            WHERE server_start = {server_start}"
        );
        // The connection may have ended while it was idle.
        let row = match self.ask(&sql).await {
            Ok(row) => row,
            Err(_) => self.ask(&sql).await?,
        };
        row.try_get(0)
    }

    /// Runs a statement without parameters on the connection outside the pool; returns its row.
    async fn ask(&self, sql: &str) -> sqlx::Result<PgRow> {
        let mut aside = self.aside.lock().await;
        let mut known = aside.take();
        if let Some(link) = &mut known
            && self.recycle(link, &Metrics::default()).await.is_err()
        {
            known = None;
        }
        let mut link = match known {
            Some(link) => link,
            None => Box::pin(self.connect()).await?,
        };
        let row = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(&mut link.connection).await?.pop();
        link.clear();
        *aside = Some(link);
        row.ok_or(sqlx::Error::RowNotFound)
    }
}

/// The settings that a session needs besides the statement timeout. They are set once on a connection of our own, and
/// in each transaction behind a pooler.
pub(crate) fn settings() -> [(&'static str, String); 4] {
    [
        // By this the server refuses writes of a program that is too old.
        ("agent_memory.writer", WRITER.to_string()),
        // A plan outlives the moment it is made, when a table may have been empty; and planning takes longer than a
        // recall.
        ("plan_cache_mode", "force_generic_plan".to_owned()),
        ("enable_seqscan", "off".to_owned()),
        ("jit", "off".to_owned()),
    ]
}

/// Returns after how long the server aborts a statement, however much time its call has.
pub(crate) fn statement_timeout(config: &PostgresConfig) -> Duration {
    config.statement_timeout.unwrap_or(config.deadline).min(config.deadline)
}

/// Formats a timeout as a setting; at least 1, because 0 would mean none.
pub(crate) fn millis(time: Duration) -> String {
    time.as_millis().clamp(1, i32::MAX as u128).to_string()
}

impl fmt::Debug for Connector {
    /// Omits the options, which hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("must_be_primary", &self.must_be_primary).finish_non_exhaustive()
    }
}

impl Manager for Connector {
    type Type = Link;
    type Error = sqlx::Error;

    async fn create(&self) -> sqlx::Result<Link> {
        // While a server refuses connections, one call asks for all.
        if !self.refusal().as_mut().is_none_or(Refusal::is_over) {
            return Err(sqlx::Error::PoolTimedOut);
        }
        // Boxed, because the driver's futures nest too deeply for the compiler.
        let connected = Box::pin(self.connect()).await;
        let mut refusal = self.refusal();
        match &connected {
            Err(error) if is_starting(error) => {
                refusal.get_or_insert_with(Refusal::new);
            }
            _ => *refusal = None,
        }
        connected
    }

    async fn recycle(&self, link: &mut Link, _: &Metrics) -> RecycleResult<sqlx::Error> {
        let Silence { suspected, lost, demoted } = *self.silence();
        let idle = link.answered.elapsed();
        let is_lost = link.answered < lost || demoted.is_some_and(|demoted| link.opened < demoted);
        if !link.is_clean || idle >= self.idle_timeout || is_lost {
            return Err(RecycleError::message("it is in the middle of something, or may be lost"));
        }
        if idle >= UNTESTED || link.answered < suspected {
            let start = Instant::now();
            let Ok(answer) = timeout(TEST, link.connection.ping()).await else {
                self.silence().lost = start;
                return Err(RecycleError::message("the server does not answer"));
            };
            answer?;
            link.clear();
        }
        Ok(())
    }
}
