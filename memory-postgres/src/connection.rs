//! Pools that follow the primary, and the sessions on their connections.

use std::future::poll_fn;
use std::iter;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use memory_core::engine::{Access, Work};
use memory_core::{Error, ErrorKind, Outcome, Result};
use sqlx::postgres::{PgArguments, PgConnection, PgListener, PgRow, Postgres};
use sqlx::{AssertSqlSafe, Row, SqlSafeStr};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, oneshot};
use tokio::task::yield_now;

use crate::config::{PostgresConfig, Server};
use crate::error::{is_read_only, is_starting, native, native_write, of_driver};
use crate::pool::{BACKEND, Backend, Connector, Pool, Pooled, demoted, millis, recover, settings, statement_timeout};
use crate::statements::Statements;

/// How long to wait for the host that was the primary before asking the others.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause before the hosts are asked again while none is the primary.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the first transaction waits for a server that is starting up before its hosts are asked for the cause.
const STARTING: Duration = Duration::from_secs(2);
/// The isolation level at which a transaction sees what others commit while it waits, whatever the database's default.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Parsing and matching more bytes than this would block a worker of the executor, which serves other calls.
const LIGHT: usize = 128 << 10;
/// Limits heavy work to one thread per processor, so that its threads don't starve the workers.
static TURNS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, NonZeroUsize::get)));

/// The connections of an open engine.
#[derive(Debug)]
pub(crate) struct Connections {
    primary: Hosts,
    replica: Option<Hosts>,
    namespace: Arc<Namespace>,
}

/// State shared by all sessions.
#[derive(Debug)]
struct Namespace {
    name: String,
    statements: Statements,
    /// Whether every session is one transaction, because a pooler gives the connection to others between two
    /// transactions.
    is_pooled: bool,
    /// The settings that follow in each transaction behind a pooler.
    settings: String,
    /// After how long the server aborts a statement.
    statement_timeout: Duration,
}

impl Namespace {
    /// Returns the command that begins a session as a transaction, for a call with this deadline. Behind a pooler it
    /// also sets the statement timeout, and asks for the backend, so that the session can be cancelled.
    fn begin(&self, until: Option<Instant>) -> String {
        if !self.is_pooled {
            return BEGIN.to_owned();
        }
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let timeout = millis(self.statement_timeout.min(left));
        format!("{BEGIN}; SET LOCAL statement_timeout = {timeout}{}; SELECT {BACKEND}", self.settings)
    }
}

impl Connections {
    /// Makes the pools; connects to nothing yet.
    pub(crate) fn new(config: &PostgresConfig) -> Result<Self> {
        let set = |(name, value)| format!("; SET LOCAL {name} = {value}");
        Ok(Self {
            primary: Hosts::new(&config.server, config, true),
            replica: config.read_server.as_ref().map(|server| Hosts::new(server, config, false)),
            namespace: Arc::new(Namespace {
                name: config.namespace.clone(),
                statements: Statements::new(&config.namespace)?,
                is_pooled: config.pooler,
                settings: settings().map(set).concat(),
                statement_timeout: statement_timeout(config),
            }),
        })
    }

    /// Opens a session in which each statement is a transaction; behind a pooler the whole session is one. `until` is
    /// the deadline of its call, if any.
    pub(crate) async fn session(&self, access: Access, until: Option<Instant>) -> Result<Session> {
        let replica = self.replica.as_ref().filter(|_| access == Access::Read);
        let is_transaction = self.namespace.is_pooled;
        replica.unwrap_or(&self.primary).session(access, &self.namespace, is_transaction, until).await
    }

    /// Runs a statement without parameters on a connection that no call uses; returns its row.
    pub(crate) async fn ask<'a>(&'a self, choose: impl FnOnce(&Statements) -> &Arc<str>) -> Result<PgRow> {
        let sql = choose(&self.namespace.statements);
        let ask = |pool: &'a Pool| async move {
            // The connection outside the pool may have to be opened first, which takes longer than most calls, or may
            // exceed the role's limit.
            let link = tokio::select! {
                biased;
                link = pool.get(Access::Read) => link?,
                Ok(row) = pool.ask(sql), if pool.asks_aside() => return Ok(row),
            };
            let mut session = Session::new(link, &self.namespace);
            let row = sqlx::raw_sql(AssertSqlSafe(Arc::clone(sql))).fetch_one(session.connection()).await?;
            session.put_back();
            Ok(row)
        };
        self.primary.on_primary(ask).await.map_err(native)
    }

    /// Returns whether every session is a transaction behind a pooler.
    pub(crate) fn is_pooled(&self) -> bool {
        self.namespace.is_pooled
    }

    /// Returns whether an announcement of a change concerns this namespace.
    pub(crate) fn is_of_namespace(&self, told: &str) -> bool {
        self.namespace.name == told
    }

    /// Listens, on a connection of its own, for changes that programs announce.
    pub(crate) async fn listen(&self) -> Result<PgListener> {
        self.primary.on_primary(Pool::listen).await.map_err(native)
    }

    /// Tells other programs that this one listens, which counts for 15 seconds.
    pub(crate) async fn says_that_it_listens(&self, listener: &mut PgListener) -> Result<()> {
        let sql = Arc::clone(&self.namespace.statements.listen_to_changes);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(listener).await.map(drop).map_err(native)
    }

    /// Opens the first transaction. Waits briefly for a server that is starting up; if it can't be reached, fails with
    /// `Unavailable` and the cause, which the pool does not report.
    pub(crate) async fn first_transaction(&self) -> Result<Session> {
        let transaction = || self.primary.session(Access::Write, &self.namespace, true, None);
        if let Ok(Ok(session)) = tokio::time::timeout(STARTING, transaction()).await {
            return Ok(session);
        }
        self.primary.find_primary().await.map_err(native)?;
        transaction().await
    }

    /// Closes all connections. Those in use close when their sessions end.
    pub(crate) async fn close(&self) {
        for pool in iter::once(&self.primary).chain(&self.replica).flat_map(|hosts| &hosts.pools) {
            pool.close().await;
        }
    }
}

/// The hosts of one server, each with its pool.
#[derive(Debug)]
struct Hosts {
    pools: Vec<Pool>,
    /// The index of the current primary, as far as known.
    current: AtomicUsize,
    /// How often a primary was found.
    found: AtomicUsize,
    /// Held by the call that searches for the primary.
    search: Mutex<()>,
    acquire_timeout: Duration,
}

impl Hosts {
    fn new(server: &Server, config: &PostgresConfig, is_primary: bool) -> Self {
        let must_be_primary = is_primary && server.hosts.len() > 1;
        let pool = |host| Pool::new(Connector::new(server, host, config, must_be_primary), config);
        let pools = server.hosts.iter().map(pool).collect();
        let (current, found, search) = Default::default();
        Self { pools, current, found, search, acquire_timeout: config.acquire_timeout }
    }

    /// Returns the pool of the current primary, as far as known.
    fn current(&self) -> &Pool {
        &self.pools[self.current.load(Ordering::Relaxed)]
    }

    /// Opens a session on the primary, as a transaction or not.
    async fn session(
        &self,
        access: Access,
        namespace: &Arc<Namespace>,
        is_transaction: bool,
        until: Option<Instant>,
    ) -> Result<Session> {
        self.on_primary(|pool| Session::open(pool, access, namespace, is_transaction, until)).await.map_err(native)
    }

    /// Does work on the primary.
    async fn on_primary<'h, T, F>(&'h self, work: impl Fn(&'h Pool) -> F) -> sqlx::Result<T>
    where
        F: Future<Output = sqlx::Result<T>>,
    {
        if let [only] = self.pools.as_slice() {
            return work(only).await;
        }
        tokio::time::timeout(self.acquire_timeout, self.search(work)).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// Goes from host to host until one has done the work.
    async fn search<'h, T, F>(&'h self, work: impl Fn(&'h Pool) -> F) -> sqlx::Result<T>
    where
        F: Future<Output = sqlx::Result<T>>,
    {
        loop {
            let pool = self.current();
            match tokio::time::timeout(PATIENCE, work(pool)).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(sqlx::Error::PoolClosed)) => return Err(sqlx::Error::PoolClosed),
                // Also if all its connections are busy; then the search finds the same host again.
                _ => match self.find_primary().await {
                    Ok(()) => {}
                    Err(error) if !is_starting(&error) => return Err(error),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        }
    }

    /// Finds the first host that accepts writes and makes it the current one, or returns why there is none. An only
    /// host is taken without a check. Concurrent calls search one after the other, until one has found it.
    async fn find_primary(&self) -> sqlx::Result<()> {
        let found = self.found.load(Ordering::Relaxed);
        let _search = self.search.lock().await;
        if self.found.load(Ordering::Relaxed) != found {
            return Ok(());
        }
        let patience = if self.pools.len() == 1 { self.acquire_timeout } else { PATIENCE };
        let current = self.current.load(Ordering::Relaxed);
        let mut refusal = sqlx::Error::PoolTimedOut;
        for place in (current..self.pools.len()).chain(0..current) {
            match tokio::time::timeout(patience, self.pools[place].probe()).await {
                Ok(Ok(())) => {
                    self.current.store(place, Ordering::Relaxed);
                    self.found.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                // A server's answer is more informative than no answer.
                Ok(Err(error)) if !matches!(refusal, sqlx::Error::Database(_)) => refusal = error,
                _ => {}
            }
        }
        Err(refusal)
    }
}

/// A leased connection, in a transaction or not. If it is dropped, its transaction is rolled back.
#[derive(Debug)]
pub struct Session {
    /// `None` once the session has ended.
    connection: Option<Pooled>,
    namespace: Arc<Namespace>,
    is_transaction: bool,
    /// The deadline of its call, if known.
    until: Option<Instant>,
    /// Whether its call should move to a thread of its own.
    is_heavy: Arc<AtomicBool>,
}

/// A statement with bound parameters.
pub(crate) type Statement = sqlx::query::Query<'static, Postgres, PgArguments>;

impl Session {
    fn new(mut link: Pooled, namespace: &Arc<Namespace>) -> Self {
        if namespace.is_pooled {
            link.backend = None;
        }
        Self {
            connection: Some(link),
            namespace: Arc::clone(namespace),
            is_transaction: false,
            until: None,
            is_heavy: Arc::default(),
        }
    }

    async fn open(
        pool: &Pool,
        access: Access,
        namespace: &Arc<Namespace>,
        is_transaction: bool,
        until: Option<Instant>,
    ) -> sqlx::Result<Self> {
        let mut session = Self::new(pool.get(access).await?, namespace);
        session.until = until;
        if is_transaction {
            let begin = session.namespace.begin(until);
            session.begin_with(begin).await?;
        }
        Ok(session)
    }

    /// Runs a call, and moves it to a blocking thread once it becomes heavy.
    pub(crate) async fn lend<T, F>(self, call: impl FnOnce(Self) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let is_heavy = Arc::clone(&self.is_heavy);
        let mut call = Box::pin(call(self));
        let light = poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Pending if is_heavy.load(Ordering::Relaxed) => Poll::Ready(None),
            done => done.map(Some),
        });
        if let Some(done) = light.await {
            return done;
        }
        // Dropped with this future, when no caller waits any more.
        let (_waits, dropped) = oneshot::channel::<()>();
        let runtime = Handle::current();
        let moved = tokio::task::spawn_blocking(move || {
            runtime.block_on(async move {
                tokio::select! {
                    biased;
                    _ = dropped => None,
                    done = call => Some(done),
                }
            })
        });
        match moved.await {
            Ok(Some(done)) => done,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            _ => Err(Error::new(ErrorKind::Unavailable, "the executor has ended").with_outcome(Outcome::Unknown)),
        }
    }

    /// Waits for a turn to process this many bytes: heavy work leaves the executor, and runs on one thread per
    /// processor.
    pub(crate) async fn turn(&self, bytes: usize) -> Option<SemaphorePermit<'static>> {
        if bytes <= LIGHT {
            return None;
        }
        if !self.is_heavy.swap(true, Ordering::Relaxed) {
            yield_now().await;
        }
        // The semaphore is never closed.
        TURNS.acquire().await.ok()
    }

    /// Runs work, and ends the session.
    pub(crate) async fn run<A, T>(mut self, argument: &A, work: Work<Self, A, T>) -> Result<T> {
        let done = work(&mut self, argument).await;
        match done.as_ref().err().map(of_driver) {
            None => self.end().await?,
            Some(None) if !self.is_transaction => self.put_back(),
            Some(Some(error)) if is_read_only(error) => self.connection.take().into_iter().for_each(demoted),
            // After a driver error the connection may be lost, or in the middle of a statement.
            Some(failure) => self.give_up(matches!(failure, Some(error) if error.as_database_error().is_none())),
        }
        done
    }

    /// Commits and ends the session. Must not be called after a failure, which may have broken the connection.
    pub(crate) async fn end(mut self) -> Result<()> {
        if self.is_transaction {
            if let Some(link) = self.connection.as_mut().filter(|_| self.namespace.is_pooled) {
                // Another client may get the backend as soon as the pooler receives this.
                link.backend = None;
            }
            self.command("COMMIT").await.map_err(native_write)?;
        }
        self.put_back();
        Ok(())
    }

    /// Begins a transaction; behind a pooler, where the session is one, a savepoint in it. The command `and` follows in
    /// the same message.
    pub(crate) async fn begin(&mut self, and: &str) -> Result<()> {
        let begin = if self.namespace.is_pooled { "SAVEPOINT step" } else { BEGIN };
        self.begin_with(format!("{begin}{and}")).await.map_err(native)
    }

    /// Commits what was begun. Behind a pooler it is durable only when the session has ended.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        if !self.namespace.is_pooled {
            self.command("COMMIT").await.map_err(native_write)?;
            self.is_transaction = false;
        }
        Ok(())
    }

    /// Rolls back what was begun.
    pub(crate) async fn rollback(&mut self) -> Result<()> {
        let is_pooled = self.namespace.is_pooled;
        self.command(if is_pooled { "ROLLBACK TO step" } else { "ROLLBACK" }).await.map_err(native)?;
        self.is_transaction = is_pooled;
        Ok(())
    }

    /// Returns whether more than this time is left until the call's deadline.
    pub(crate) fn has_left(&self, time: Duration) -> bool {
        self.until.is_none_or(|until| until.saturating_duration_since(Instant::now()) > time)
    }

    /// Returns the statements of the namespace.
    pub(crate) fn on(&self) -> &Statements {
        &self.namespace.statements
    }

    /// Prepares a statement of the namespace.
    pub(crate) fn statement(&self, choose: impl FnOnce(&Statements) -> &Arc<str>) -> Statement {
        self.prepare(choose(self.on()))
    }

    /// Makes a statement; it is prepared once per connection unless a pooler is in between.
    pub(crate) fn prepare(&self, sql: &Arc<str>) -> Statement {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(!self.namespace.is_pooled)
    }

    /// Returns the rows of a statement that reads.
    pub(crate) async fn rows(&mut self, statement: Statement) -> Result<Vec<PgRow>> {
        statement.fetch_all(self.connection()).await.map_err(native)
    }

    /// Returns the only row of a statement that reads.
    pub(crate) async fn row(&mut self, statement: Statement) -> Result<PgRow> {
        statement.fetch_one(self.connection()).await.map_err(native)
    }

    /// Returns the boolean result of a statement that reads.
    pub(crate) async fn holds(&mut self, statement: Statement) -> Result<bool> {
        self.row(statement).await?.try_get(0).map_err(native)
    }

    /// Returns the rows of a statement that writes.
    pub(crate) async fn written_rows(&mut self, statement: Statement) -> Result<Vec<PgRow>> {
        statement.fetch_all(self.connection()).await.map_err(native_write)
    }

    /// Executes a statement that writes; returns the number of rows.
    pub(crate) async fn write(&mut self, statement: Statement) -> Result<u64> {
        Ok(statement.execute(self.connection()).await.map_err(native_write)?.rows_affected())
    }

    /// Runs statements without parameters, unprepared.
    pub(crate) async fn command(&mut self, sql: impl SqlSafeStr) -> sqlx::Result<()> {
        sqlx::raw_sql(sql).execute(self.connection()).await.map(drop)
    }

    async fn begin_with(&mut self, sql: String) -> sqlx::Result<()> {
        // Set first, in case the call is dropped before the server has answered.
        self.is_transaction = true;
        let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(self.connection()).await?;
        if let (Some(link), Some(row)) = (&mut self.connection, rows.first()) {
            link.backend = Some(Backend::of(row)?);
        }
        Ok(())
    }

    fn connection(&mut self) -> &mut PgConnection {
        // Only methods that consume the session take the connection.
        &mut self.connection.as_mut().expect("a session has a connection until it ends").connection
    }

    fn give_up(&mut self, is_silent: bool) {
        if let Some(link) = self.connection.take() {
            recover(link, self.is_transaction, is_silent);
        }
    }

    fn put_back(mut self) {
        if let Some(mut link) = self.connection.take() {
            link.clear();
        }
    }
}

impl Drop for Session {
    /// An abandoned session: ends its work at the server too.
    fn drop(&mut self) {
        self.give_up(true);
    }
}
