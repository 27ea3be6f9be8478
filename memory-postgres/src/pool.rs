//! The connections to one host.

use std::fmt;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::{Manager, Metrics, Object, PoolError, QueueMode, RecycleError, RecycleResult, WeakPool};
use memory_core::Host;
use migrations::WRITER;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::config::{PostgresConfig, Server, TlsMode};
use crate::error::is_starting;

/// How many statements each connection keeps prepared: more than are usual. Each depth of a path has some of its own, and each set of
/// depths that a query asks for; what was used last stays.
const STATEMENTS: usize = 128;
/// How often at most it is looked for connections that nobody uses.
const REAPING: Duration = Duration::from_millis(100);
/// From when on a connection that nobody has used is tested before it is.
const UNTESTED: Duration = Duration::from_secs(30);
/// How long a test of a connection, or its end, may take.
const TEST: Duration = Duration::from_secs(1);
/// How long to wait at least before all idle connections are closed again because the server takes no writes.
const BETWEEN_DEMOTIONS: Duration = Duration::from_secs(1);
/// After how many seconds of silence the server asks, how often, and how many times.
const KEEPALIVES: [(&str, &str); 3] =
    [("tcp_keepalives_idle", "60"), ("tcp_keepalives_interval", "10"), ("tcp_keepalives_count", "6")];
/// Each statement sees what was committed before it had its locks, whatever the default of the database is: so a store that has waited for an
/// erasure finds the tombstones. Transactions say that themselves.
const ISOLATION: [(&str, &str); 1] = [("default_transaction_isolation", "read committed")];
/// How long to wait before it is looked again for a connection that others no longer use.
const PAUSE: Duration = Duration::from_millis(20);
/// How long to wait at first before a server that refuses connections is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How long to wait at most; each pause is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_millis(800);
/// How long a statement that was given up may take to end by itself, before it is cancelled.
const PROMPT: Duration = Duration::from_millis(100);
/// How long a connection may take to recover from a session that was given up, before it is closed.
const RECOVERY: Duration = Duration::from_secs(3);
/// What programs tell each other of changes on, each with the name of its namespace.
const CHANGES: &str = "agent_memory_changes";
/// What a [`Backend`] is made of.
pub(crate) const BACKEND: &str = "pg_backend_pid(), (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";

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
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(reap(connections.weak(), config.idle_timeout));
        }
        Self { connections, acquire_timeout: config.acquire_timeout }
    }

    /// A connection that nobody uses. Where a server refuses more of them, or is starting up, it is waited for until it takes one, or
    /// others are done with theirs.
    pub(crate) async fn get(&self) -> sqlx::Result<Pooled> {
        let search = async {
            loop {
                match self.connections.get().await {
                    Ok(mut connection) => {
                        connection.is_clean = false;
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

    /// Connects once, beside the pool.
    pub(crate) async fn probe(&self) -> sqlx::Result<()> {
        self.connections.manager().connect().await?.connection.close().await
    }

    /// Listens on a connection beside the pool, until that ends.
    pub(crate) async fn listen(&self) -> sqlx::Result<PgListener> {
        let only = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let options = self.connections.manager().options.clone();
        let only = only.acquire_timeout(self.acquire_timeout).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&only).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANGES).await?;
        Ok(listener)
    }

    /// Whether to ask on the connection beside the pool as well: where it is there, or where calls use all the connections that there may
    /// be, so that it has to be made.
    pub(crate) fn asks_aside(&self) -> bool {
        let status = self.connections.status();
        let is_busy = status.available == 0 && status.size == status.max_size;
        // While somebody uses it, it is there.
        is_busy || self.connections.manager().aside.try_lock().map_or(true, |aside| aside.is_some())
    }

    /// The row that a statement without values gives on the connection beside the pool.
    pub(crate) async fn ask(&self, sql: &str) -> sqlx::Result<PgRow> {
        self.connections.manager().ask(sql).await
    }

    /// Closes the connections that nobody uses now, and the others as soon as nobody does.
    pub(crate) async fn close(&self) {
        let idle = self.connections.retain(|_, _| false).removed;
        self.connections.close();
        let aside = self.connections.manager().aside.lock().await.take();
        close(idle.into_iter().chain(aside)).await;
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
    /// When the server was last known to answer.
    pub(crate) answered: Instant,
    /// Who works on it at the server, as far as is known: behind a pooler, during a transaction.
    pub(crate) backend: Option<Backend>,
}

impl Link {
    /// Makes it one that others can use, since the server has answered.
    pub(crate) fn clear(&mut self) {
        (self.is_clean, self.answered) = (true, Instant::now());
    }
}

/// A process of a server, and when that server was started, in microseconds since 1970: behind one address there may be several.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backend {
    process: i32,
    server_start: i64,
}

impl Backend {
    /// From the columns of [`BACKEND`], which begin a row.
    pub(crate) fn of(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { process: row.try_get(0)?, server_start: row.try_get(1)? })
    }
}

/// Gives back a connection whose user has given up, perhaps in the middle of a statement, which is cancelled, or of a transaction,
/// which is rolled back. One that does not answer to that is closed. If the user has had no answer, the server may have fallen silent.
pub(crate) fn recover(mut link: Pooled, is_transaction: bool, is_silent: bool) {
    // Without a pool nobody needs it.
    let (Some(pool), Ok(runtime)) = (Object::pool(&link), Handle::try_current()) else { return };
    let start = Instant::now();
    if is_silent {
        pool.manager().silence().suspected = start;
    }
    runtime.spawn(async move {
        let recovered = async {
            match timeout(PROMPT, until_ready(&mut link.connection)).await {
                Ok(ready) => ready?,
                Err(_) => {
                    // Behind a pooler somebody else has the backend once the transaction has ended, so that does not end before the cancel has
                    // arrived.
                    pool.manager().cancel(link.backend.ok_or(sqlx::Error::WorkerCrashed)?).await?;
                    until_ready(&mut link.connection).await?;
                }
            }
            if is_transaction {
                sqlx::raw_sql("ROLLBACK").execute(&mut link.connection).await?;
            }
            Ok::<_, sqlx::Error>(())
        };
        let recovered = timeout(RECOVERY, recovered).await;
        if recovered.is_err() {
            pool.manager().silence().lost = start;
        }
        match recovered {
            Ok(Ok(())) => link.clear(),
            _ => drop(Object::take(link)),
        }
    });
}

/// Closes connections that nobody uses, until the pool is closed.
async fn reap(pool: WeakPool<Connector>, idle_timeout: Duration) {
    loop {
        tokio::time::sleep((idle_timeout / 2).max(REAPING)).await;
        let Some(pool) = pool.upgrade().filter(|pool| !pool.is_closed()) else { return };
        let is_used = |link: &Link| link.answered.elapsed() < idle_timeout;
        let mut idle = pool.retain(|link, _| is_used(link)).removed;
        // While somebody uses it, it is not idle.
        if let Ok(mut aside) = pool.manager().aside.try_lock() {
            idle.extend(aside.take_if(|link| !is_used(link)));
        }
        close(idle).await;
    }
}

async fn close(links: impl IntoIterator<Item = Link>) {
    for Link { connection, .. } in links {
        // What matters is that it is closed, not what the server says to it.
        let _ = timeout(TEST, connection.close()).await;
    }
}

/// Closes a connection to a server that is not the primary any more, and with it the idle ones: these once a second at most, since a
/// server may take no writes at all.
pub(crate) fn demoted(link: Pooled) {
    if let Some(pool) = Object::pool(&link) {
        let (now, mut silence) = (Instant::now(), pool.manager().silence());
        if silence.demoted.is_none_or(|before| now.duration_since(before) >= BETWEEN_DEMOTIONS) {
            (silence.lost, silence.demoted) = (now, Some(now));
        }
    }
    drop(Object::take(link));
}

/// Waits for the end of all that is under way on a connection, with or without success.
async fn until_ready(connection: &mut PgConnection) -> sqlx::Result<()> {
    loop {
        match connection.ping().await {
            Err(sqlx::Error::Database(_)) => {}
            ready => return ready,
        }
    }
}

/// How to connect to a host.
pub(crate) struct Connector {
    options: PgConnectOptions,
    must_be_primary: bool,
    is_pooled: bool,
    idle_timeout: Duration,
    refusal: std::sync::Mutex<Option<Refusal>>,
    silence: std::sync::Mutex<Silence>,
    /// A connection beside the pool, for what must not wait for its calls. Whoever uses it takes it out, so that one that fails, or
    /// is given up, is not used again.
    aside: Mutex<Option<Link>>,
}

/// That a server refuses connections, and when it is asked again.
#[derive(Debug)]
struct Refusal {
    until: Instant,
    pause: Duration,
}

impl Refusal {
    fn new() -> Self {
        Self { until: Instant::now() + FIRST_PAUSE, pause: FIRST_PAUSE }
    }

    /// Whether it is time to ask the server again: for one call, and later for the next.
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

/// When the server may have fallen silent. A primary that falls silent must not cost one deadline for each of them.
#[derive(Debug)]
struct Silence {
    /// A connection without an answer since then is tested before it is used.
    suspected: Instant,
    /// A connection without an answer since then is closed.
    lost: Instant,
    /// When idle connections were last closed because the server takes no writes.
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
            false => {
                let timeout = [("statement_timeout", millis(statement_timeout(config)))];
                // The server asks whether this side is there, which also keeps firewalls in between from forgetting the connection. The
                // driver can't ask.
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
            // Without a prepared statement, which a pooler would not keep.
            let sql = format!("SELECT {BACKEND}, pg_is_in_recovery()");
            let row = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(&mut connection).await?;
            if self.must_be_primary && row.try_get(2)? {
                return Err(sqlx::Error::Protocol("the host is not the primary".to_owned()));
            }
            backend = (!self.is_pooled).then(|| Backend::of(&row)).transpose()?;
        }
        Ok(Link { connection, is_clean: true, answered: Instant::now(), backend })
    }

    // Nothing panics while one of these is held.
    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what a backend is doing. It has heard of that when this returns.
    async fn cancel(&self, backend: Backend) -> sqlx::Result<()> {
        let Backend { process, server_start } = backend;
        let sql = format!(
            "SELECT pg_cancel_backend({process}) FROM (SELECT {BACKEND}) AS own (process, server_start)
            WHERE server_start = {server_start}"
        );
        // The connection may have ended while nobody used it.
        match self.ask(&sql).await {
            Ok(_) => Ok(()),
            Err(_) => self.ask(&sql).await.map(drop),
        }
    }

    /// The row that a statement without values gives on the connection beside the pool.
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

/// What a session needs, beside the time after which the server gives up on a statement: by a setting of it where it is ours alone,
/// else in each transaction.
pub(crate) fn settings() -> [(&'static str, String); 4] {
    [
        // The server refuses writes of a program that is too old.
        ("agent_memory.writer", WRITER.to_string()),
        // Plans outlive the moment they are made in, when a table may have been empty; and to make one takes longer than to recall.
        ("plan_cache_mode", "force_generic_plan".to_owned()),
        ("enable_seqscan", "off".to_owned()),
        ("jit", "off".to_owned()),
    ]
}

/// After how long the server gives up on a statement, however long its call may take.
pub(crate) fn statement_timeout(config: &PostgresConfig) -> Duration {
    config.statement_timeout.unwrap_or(config.deadline).min(config.deadline)
}

/// A time as a setting has it, where 0 would be none.
pub(crate) fn millis(time: Duration) -> String {
    time.as_millis().clamp(1, i32::MAX as u128).to_string()
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
        // While a server refuses, one call asks for all.
        if !self.refusal().as_mut().is_none_or(Refusal::is_over) {
            return Err(sqlx::Error::PoolTimedOut);
        }
        // Boxed, since futures of the driver nest too deep for the compiler.
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
        let Silence { suspected, lost, .. } = *self.silence();
        let idle = link.answered.elapsed();
        if !link.is_clean || idle >= self.idle_timeout || link.answered < lost {
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
