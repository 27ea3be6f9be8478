//! Connections: pools that follow the primary, sessions, and what is tried again.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use memory_core::{Error, Group, Outcome, Result};
use sqlx::postgres::{PgArguments, PgConnection, Postgres};
use sqlx::{AssertSqlSafe, Connection};
use tokio::runtime::Handle;

use crate::config::{PostgresConfig, Server};
use crate::error::{is_passing, is_starting, native, native_write};
use crate::pool::{Connector, Pool, Pooled};
use crate::statements::Statements;
use crate::writing::GROUP;

/// How long to wait for a connection to the host that was the primary, before asking the others.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a group may wait for a transaction that holds what it writes, before each of its stores is tried alone.
const GROUP_PATIENCE: Duration = Duration::from_millis(100);
/// How long to wait for a server that is starting up, before it is said to be down.
const STARTING: Duration = Duration::from_secs(2);
/// How long a connection may take to recover from a session that was given up, before it is closed.
const RECOVERY: Duration = Duration::from_secs(10);
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
    /// Stores that travel together.
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
    in_group: Arc<str>,
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
        let in_group = begin(&format!("; SET LOCAL lock_timeout = {}", GROUP_PATIENCE.as_millis()));
        let hosts = |server: &Server, is_primary| Hosts::new(server, config, &settings, is_primary);
        Ok(Self {
            primary: hosts(&config.server, true),
            replica: config.read_server.as_ref().map(|server| hosts(server, false)),
            statements: Statements::new(&config.namespace)?,
            has_ledger_text: AtomicBool::new(false),
            group: Group::new(GROUP.0, GROUP.1),
            begin: Begin { is_pooled: config.pooler, reading: begin(" READ ONLY"), writing: begin(""), in_group },
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

    /// A session on the primary in a transaction of a group, which does not wait long for others.
    pub(crate) async fn group_transaction(&self) -> Result<Session> {
        self.begin(&self.primary, &self.begin.in_group).await
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

    /// Closes all connections. Those of sessions that go on close when these end.
    pub(crate) async fn close(&self) {
        for hosts in [Some(&self.primary), self.replica.as_ref()].into_iter().flatten() {
            for pool in &hosts.pools {
                pool.close().await;
            }
        }
    }

    async fn session(&self, hosts: &Hosts) -> Result<Session> {
        let connection = hosts.open(async |pool: Pool| pool.get().await).await?;
        Ok(Session::new(connection, !self.begin.is_pooled))
    }

    async fn begin(&self, hosts: &Hosts, how: &Arc<str>) -> Result<Session> {
        let begin = async |pool: Pool| {
            let mut session = Session::new(pool.get().await?, !self.begin.is_pooled);
            session.begin(how).await.map(|()| session)
        };
        hosts.open(begin).await
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
    pools: Vec<Pool>,
    /// Which of them is the primary, as far as is known.
    current: AtomicUsize,
    acquire_timeout: Duration,
}

impl Hosts {
    fn new(server: &Server, config: &PostgresConfig, settings: &[(&'static str, String)], is_primary: bool) -> Self {
        let must_be_primary = is_primary && server.hosts.len() > 1;
        let connector = |host| Connector::new(server, host, config, settings, must_be_primary);
        let pools = server.hosts.iter().map(|host| Pool::new(connector(host), config)).collect();
        Self { pools, current: AtomicUsize::new(0), acquire_timeout: config.acquire_timeout }
    }

    /// Opens something on a connection to the primary.
    async fn open<T, F>(&self, how: impl Fn(Pool) -> F) -> Result<T>
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
    async fn open_on_primary<T, F>(&self, how: impl Fn(Pool) -> F) -> sqlx::Result<T>
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
            let probe = self.pools[place].probe();
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

/// A connection for a while, in a transaction or not. A transaction that is given up is rolled back.
#[derive(Debug)]
pub(crate) struct Session {
    /// `None` when the session has ended.
    connection: Option<Pooled>,
    is_transaction: bool,
    keeps_statements: bool,
}

/// A statement to which values are bound.
pub(crate) type Statement = sqlx::query::Query<'static, Postgres, PgArguments>;

impl Session {
    fn new(connection: Pooled, keeps_statements: bool) -> Self {
        Self { connection: Some(connection), is_transaction: false, keeps_statements }
    }

    async fn begin(&mut self, how: &Arc<str>) -> sqlx::Result<()> {
        // Also when it is given up before the server has answered.
        self.is_transaction = true;
        sqlx::raw_sql(AssertSqlSafe(Arc::clone(how))).execute(&mut **self).await.map(drop)
    }

    /// A statement, prepared once for each connection where it has sessions of its own.
    pub(crate) fn statement(&self, sql: &Arc<str>) -> Statement {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(self.keeps_statements)
    }

    /// Ends the session, with all that it wrote. Not after a failure, which its connection may not have outlived.
    pub(crate) async fn commit(mut self) -> Result<()> {
        if self.is_transaction {
            sqlx::raw_sql("COMMIT").execute(&mut *self).await.map_err(native_write)?;
        }
        if let Some(connection) = self.connection.take() {
            connection.put_back();
        }
        Ok(())
    }
}

impl Drop for Session {
    /// A session that was given up: its connection may have a statement under way, which is waited for.
    fn drop(&mut self) {
        let (Some(mut connection), Ok(runtime)) = (self.connection.take(), Handle::try_current()) else { return };
        let is_transaction = self.is_transaction;
        runtime.spawn(async move {
            let recovered = async {
                match is_transaction {
                    true => sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await.map(drop),
                    false => connection.ping().await,
                }
            };
            if let Ok(Ok(())) = tokio::time::timeout(RECOVERY, recovered).await {
                connection.put_back();
            }
        });
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect(HAS_CONNECTION)
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect(HAS_CONNECTION)
    }
}

/// Only the methods that consume a session take its connection.
const HAS_CONNECTION: &str = "a session has a connection until it ends";

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
