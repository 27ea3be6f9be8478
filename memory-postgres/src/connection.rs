//! Connections: pools that follow the primary, sessions, and what is tried again.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use memory_core::{Error, Host, Outcome, Result};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgSslMode, Postgres};
use sqlx::{AssertSqlSafe, Connection, Transaction};

use crate::config::{PostgresConfig, Server, TlsMode};
use crate::error::{is_passing, is_starting, native, native_write};
use crate::group::Group;
use crate::statements::Statements;

/// How many statements each connection keeps prepared: more than there are.
const STATEMENTS: usize = 64;
/// How long to wait for a connection to the host that was the primary, before asking the others.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long to wait for a server that is starting up, before it is said to be down.
const STARTING: Duration = Duration::from_secs(2);
/// How long to wait before the next attempt; twice as long each time, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// The connections of an open provider.
#[derive(Debug)]
pub(crate) struct Connections {
    primary: Hosts,
    replica: Option<Hosts>,
    pub(crate) statements: Statements,
    /// Whether the words of the ledger are indexed, as far as this provider has heard. Never goes back.
    pub(crate) has_ledger_text: AtomicBool,
    pub(crate) group: Group,
    begin: Begin,
}

/// How transactions begin.
#[derive(Debug)]
struct Begin {
    /// Whether every call is one, which then can't rely on settings of its session.
    is_pooled: bool,
    reading: Arc<str>,
    writing: Arc<str>,
}

impl Connections {
    /// Connects to nothing yet.
    pub(crate) fn new(config: &PostgresConfig) -> Result<Self> {
        let settings = settings(config);
        let begin = |how: &str| {
            let set = |(name, value): &(&str, String)| format!("; SET LOCAL {name} = {value}");
            let local = if config.pooler { settings.iter().map(set).collect() } else { String::new() };
            Arc::from(format!("BEGIN{how}{local}"))
        };
        let hosts = |server: &Server, is_primary| Hosts::new(server, config, &settings, is_primary);
        Ok(Self {
            primary: hosts(&config.server, true),
            replica: config.read_server.as_ref().map(|server| hosts(server, false)),
            statements: Statements::new(&config.namespace)?,
            has_ledger_text: AtomicBool::new(false),
            group: Group::new(config.deadline),
            begin: Begin { is_pooled: config.pooler, reading: begin(" READ ONLY"), writing: begin("") },
        })
    }

    /// A session that only reads, on the replica if there is one.
    pub(crate) async fn read(&self) -> Result<Session> {
        let hosts = self.replica.as_ref().unwrap_or(&self.primary);
        if self.begin.is_pooled { self.begin(hosts, &self.begin.reading).await } else { self.session(hosts).await }
    }

    /// A session on the primary, in which each statement is a transaction; behind a pooler, all of them are one.
    pub(crate) async fn write(&self) -> Result<Session> {
        if self.begin.is_pooled { self.transaction().await } else { self.session(&self.primary).await }
    }

    /// A session on the primary in a transaction.
    pub(crate) async fn transaction(&self) -> Result<Session> {
        self.begin(&self.primary, &self.begin.writing).await
    }

    /// The first transaction. A server that is starting up is waited for a little; one that can't be reached is `Unavailable`, with
    /// the cause, which the pool does not tell.
    pub(crate) async fn first_transaction(&self) -> Result<Session> {
        match tokio::time::timeout(STARTING, self.transaction()).await {
            Ok(Ok(session)) => Ok(session),
            _ => {
                self.primary.find_primary().await.map_err(native)?;
                self.transaction().await
            }
        }
    }

    /// Waits until all sessions have ended, and closes their connections.
    pub(crate) async fn close(&self) {
        for hosts in [Some(&self.primary), self.replica.as_ref()].into_iter().flatten() {
            for pool in &hosts.pools {
                pool.close().await;
            }
        }
    }

    async fn session(&self, hosts: &Hosts) -> Result<Session> {
        let connection = hosts.open(|pool| async move { pool.acquire().await }).await?;
        Ok(Session { link: Link::Connection(connection), keeps_statements: !self.begin.is_pooled })
    }

    async fn begin(&self, hosts: &Hosts, how: &Arc<str>) -> Result<Session> {
        // In a task of its own: a call that is dropped while its transaction begins would leave it open on a connection that the
        // next call gets, and what that one stored would never be committed.
        let begin = |pool: PgPool| {
            let how = AssertSqlSafe(Arc::clone(how));
            async move {
                let began = tokio::spawn(async move { pool.begin_with(how).await }).await;
                began.unwrap_or_else(|panic| Err(sqlx::Error::Io(std::io::Error::other(panic))))
            }
        };
        let transaction = hosts.open(begin).await?;
        Ok(Session { link: Link::Transaction(transaction), keeps_statements: !self.begin.is_pooled })
    }
}

/// What a session needs: by a setting of it where it is ours alone, else in each transaction.
fn settings(config: &PostgresConfig) -> Vec<(&'static str, String)> {
    let timeout = config.statement_timeout.unwrap_or(config.deadline).as_millis().clamp(1, i32::MAX as u128);
    // Plans outlive the moment they are made in, when a table may have been empty; and to make one takes longer than to recall.
    let fixed = [("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off"), ("jit", "off")];
    let fixed = fixed.map(|(name, value)| (name, value.to_owned()));
    [("statement_timeout", timeout.to_string())].into_iter().chain(fixed).collect()
}

/// The hosts of one server, each with its pool.
#[derive(Debug)]
struct Hosts {
    pools: Vec<PgPool>,
    /// Which of them is the primary, as far as is known.
    current: AtomicUsize,
    acquire_timeout: Duration,
}

impl Hosts {
    fn new(server: &Server, config: &PostgresConfig, settings: &[(&'static str, String)], is_primary: bool) -> Self {
        let follows = is_primary && server.hosts.len() > 1;
        let acquire_timeout = config.acquire_timeout;
        let pool = |host: &Host| {
            let options = PgPoolOptions::new()
                .max_connections(config.pool_size.get())
                .acquire_timeout(acquire_timeout)
                // A test would cost every call a round trip; what fails on a connection that was lost is tried again.
                .test_before_acquire(false);
            let options = match follows {
                true => options.after_connect(|connection, _| Box::pin(check_primary(connection))),
                false => options,
            };
            options.connect_lazy_with(connect_options(server, host, config, settings))
        };
        Self { pools: server.hosts.iter().map(pool).collect(), current: AtomicUsize::new(0), acquire_timeout }
    }

    /// Opens something on a connection to the primary.
    async fn open<T, F>(&self, how: impl Fn(PgPool) -> F) -> Result<T>
    where
        F: Future<Output = sqlx::Result<T>>,
    {
        match self.pools.as_slice() {
            [only] => how(only.clone()).await,
            _ => {
                let search = tokio::time::timeout(self.acquire_timeout, self.open_on_primary(how));
                search.await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
            }
        }
        .map_err(native)
    }

    /// Goes from host to host until one lets it be opened.
    async fn open_on_primary<T, F>(&self, how: impl Fn(PgPool) -> F) -> sqlx::Result<T>
    where
        F: Future<Output = sqlx::Result<T>>,
    {
        loop {
            let pool = self.pools[self.current.load(Ordering::Relaxed)].clone();
            match tokio::time::timeout(PATIENCE, how(pool)).await {
                Ok(Ok(opened)) => return Ok(opened),
                Ok(Err(sqlx::Error::PoolClosed)) => return Err(sqlx::Error::PoolClosed),
                // Also when all its connections are busy; then the search ends where it began.
                _ => match self.find_primary().await {
                    Ok(()) => {}
                    Err(error) if !is_starting(&error) => return Err(error),
                    Err(_) => tokio::time::sleep(PAUSE.1).await,
                },
            }
        }
    }

    /// Makes the first host that takes writes the current one, or tells why none does. The only host is taken as it is.
    async fn find_primary(&self) -> sqlx::Result<()> {
        let is_only = self.pools.len() == 1;
        let patience = if is_only { self.acquire_timeout } else { PATIENCE };
        let current = self.current.load(Ordering::Relaxed);
        let mut refusal = sqlx::Error::PoolTimedOut;
        for place in (current..self.pools.len()).chain(0..current) {
            let probe = async {
                let mut connection = PgConnection::connect_with(&self.pools[place].connect_options()).await?;
                let answer = if is_only { Ok(()) } else { check_primary(&mut connection).await };
                let _ = connection.close().await;
                answer
            };
            match tokio::time::timeout(patience, probe).await {
                Ok(Ok(())) => {
                    self.current.store(place, Ordering::Relaxed);
                    return Ok(());
                }
                // What a server says tells more than that there is none.
                Ok(Err(error)) if !matches!(refusal, sqlx::Error::Database(_)) => refusal = error,
                _ => {}
            }
        }
        Err(refusal)
    }
}

async fn check_primary(connection: &mut PgConnection) -> sqlx::Result<()> {
    // Without a prepared statement, which a pooler would not keep.
    let row = sqlx::raw_sql("SELECT NOT pg_is_in_recovery()").fetch_one(connection).await?;
    match sqlx::Row::try_get(&row, 0)? {
        true => Ok(()),
        false => Err(sqlx::Error::Protocol("the host is not the primary".to_owned())),
    }
}

fn connect_options(
    server: &Server,
    host: &Host,
    config: &PostgresConfig,
    settings: &[(&'static str, String)],
) -> PgConnectOptions {
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(&host.name)
        .port(host.port)
        .application_name(&config.application_name)
        .extra_float_digits(None)
        .ssl_mode(match server.tls.mode {
            TlsMode::Disable => PgSslMode::Disable,
            TlsMode::Prefer => PgSslMode::Prefer,
            TlsMode::Require => PgSslMode::Require,
            TlsMode::VerifyCa => PgSslMode::VerifyCa,
            TlsMode::VerifyFull => PgSslMode::VerifyFull,
        });
    if host.name.starts_with('/') {
        options = options.socket(&host.name);
    }
    if let Some(user) = &server.user {
        options = options.username(user);
    }
    if let Some(password) = &server.password {
        options = options.password(&password.0);
    }
    if let Some(database) = &server.database {
        options = options.database(database);
    }
    if let Some(file) = &server.tls.root_certificate {
        options = options.ssl_root_cert(file);
    }
    if let Some(file) = &server.tls.certificate {
        options = options.ssl_client_cert(file);
    }
    if let Some(file) = &server.tls.key {
        options = options.ssl_client_key(file);
    }
    match config.pooler {
        true => options.statement_cache_capacity(0),
        false => {
            options.statement_cache_capacity(STATEMENTS).options(settings.iter().map(|(name, value)| (name, value)))
        }
    }
}

/// A connection for a while, in a transaction or not. A transaction that is given up is rolled back.
#[derive(Debug)]
pub(crate) struct Session {
    link: Link,
    keeps_statements: bool,
}

#[derive(Debug)]
enum Link {
    Connection(PoolConnection<Postgres>),
    Transaction(Transaction<'static, Postgres>),
}

/// A statement to which values are bound.
pub(crate) type Statement = sqlx::query::Query<'static, Postgres, PgArguments>;

impl Session {
    /// A statement, prepared once for each connection where it has sessions of its own.
    pub(crate) fn statement(&self, sql: &Arc<str>) -> Statement {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(self.keeps_statements)
    }

    /// Ends the session, with all that it wrote.
    pub(crate) async fn commit(self) -> Result<()> {
        match self.link {
            Link::Connection(_) => Ok(()),
            Link::Transaction(transaction) => transaction.commit().await.map_err(native_write),
        }
    }

    /// Ends the session, without what its transaction wrote.
    pub(crate) async fn roll_back(self) -> Result<()> {
        match self.link {
            Link::Connection(_) => Ok(()),
            Link::Transaction(transaction) => transaction.rollback().await.map_err(native),
        }
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match &self.link {
            Link::Connection(connection) => connection,
            Link::Transaction(transaction) => transaction,
        }
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match &mut self.link {
            Link::Connection(connection) => connection,
            Link::Transaction(transaction) => transaction,
        }
    }
}

/// Does the work again while what prevented it is passing and nothing of it can have been done (W11). Ends with the deadline
/// of the call.
pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(work: impl Fn() -> F) -> Result<T> {
    repeat(work, |error| error.outcome() == Outcome::NotDone && is_passing(error)).await
}

/// As [`retry`], for work that can be done twice and has its effect once.
pub(crate) async fn retry_repeatable<T, F: Future<Output = Result<T>>>(work: impl Fn() -> F) -> Result<T> {
    repeat(work, is_passing).await
}

async fn repeat<T, F: Future<Output = Result<T>>>(
    work: impl Fn() -> F,
    is_worth_it: impl Fn(&Error) -> bool,
) -> Result<T> {
    let (mut pause, mut earlier) = (PAUSE.0, Outcome::NotDone);
    loop {
        // Boxed, since futures of the driver nest too deep for the compiler.
        match Box::pin(work()).await.map_err(|error| error.after(earlier)) {
            Err(error) if is_worth_it(&error) => {
                earlier = error.outcome();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
            result => return result,
        }
    }
}
