//! The configuration of a server's provider.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_core::engine::{Config, EngineSettings, KeptChanges, parameter};
use memory_core::{
    Address, Clock, DEFAULT_DEADLINE, Error, HistorySettings, Host, Language, Password, Result, SystemClock,
};
pub use sqlx::postgres::PgSslMode as TlsMode;

use crate::statements::quote;

/// The location of a server, and the settings of its provider.
///
/// ```
/// use memory_postgres::PostgresConfig;
///
/// let config = PostgresConfig::from_url("postgres://app:secret@db1,db2:5433/agents?namespace=tenant_7&pool_size=8")?;
/// assert_eq!((config.server.hosts.len(), config.namespace.as_str()), (2, "tenant_7"));
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// The server for all writes, and for all reads unless [`PostgresConfig::read_server`] is set.
    pub server: Server,
    /// A replica for reads; none by default, because a replica may not have the latest writes yet (W1).
    pub read_server: Option<Server>,
    /// The schema that holds everything; `agent_memory` by default. 1 to 63 bytes.
    pub namespace: String,
    /// The name under which the server lists the connections; `agent-memory` by default.
    pub application_name: String,
    /// Maximum number of connections for calls, to each server; 16 by default. Writes leave one of each four unused. In
    /// addition, one connection serves health checks and cancelling, one listens while a watch is open, and commits
    /// that outlast their calls take up to as many as writes may use.
    pub pool_size: NonZeroU32,
    /// How long a call waits for a connection; 20 s by default.
    pub acquire_timeout: Duration,
    /// How long an unused connection stays open; 4 minutes by default, before the first firewalls drop it.
    pub idle_timeout: Duration,
    /// After how long the server aborts a statement; the deadline by default and at most.
    pub statement_timeout: Option<Duration>,
    /// Whether a pooler in transaction mode is in between. Then each call is one transaction, and no state is kept in a
    /// server session.
    pub pooler: bool,
    /// Number of changes that the feed keeps; 100,000 by default and at least.
    pub kept_changes: KeptChanges,
    /// The language of questions and records, unless a question names its own; English by default.
    pub language: Language,
    /// The history settings; by default the namespace's own decision.
    pub history: HistorySettings,
    /// The deadline of a call; 30 s by default.
    pub deadline: Duration,
    /// The source of `updatedAt` and of commit times; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

/// One database, on one server or on several of which one is the primary.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Server {
    /// The hosts, at port 5432 by default. Of several, the one that accepts writes is used.
    pub hosts: Vec<Host>,
    /// The role; by default the environment variable `PGUSER`, else the name of the operating system's user.
    pub user: Option<String>,
    /// The password of the role, if it needs one; by default the environment variable `PGPASSWORD`.
    pub password: Option<Password>,
    /// The database; by default the environment variable `PGDATABASE`, else the name of the role.
    pub database: Option<String>,
    /// The encryption of the connection.
    pub tls: Tls,
}

/// The encryption of a connection.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Tls {
    /// Whether to encrypt, and what to verify, as in libpq's `sslmode`; `Prefer` by default. `Allow` is treated as
    /// `Prefer`.
    pub mode: TlsMode,
    /// The file with the trusted root certificates; by default that of the environment variable `PGSSLROOTCERT`, else
    /// the public certificates are trusted.
    pub root_certificate: Option<PathBuf>,
    /// The file with the client certificate; by default that of the environment variable `PGSSLCERT`.
    pub certificate: Option<PathBuf>,
    /// The file with the client certificate's key; by default that of the environment variable `PGSSLKEY`.
    pub key: Option<PathBuf>,
}

const DEFAULT_PORT: u16 = 5432;

impl PostgresConfig {
    /// Makes the default settings for a server.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            read_server: None,
            namespace: "agent_memory".to_owned(),
            application_name: "agent-memory".to_owned(),
            pool_size: const { NonZeroU32::new(16).unwrap() },
            // Shorter than most deadlines, so that an absent server is reported as such; longer than the wait for a
            // busy one.
            acquire_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(4 * 60),
            statement_timeout: None,
            pooler: false,
            kept_changes: KeptChanges::default(),
            language: Language::default(),
            history: HistorySettings::default(),
            deadline: DEFAULT_DEADLINE,
            clock: Arc::new(SystemClock),
        }
    }

    /// Parses `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?PARAMETERS`, or the same with `postgresql:`.
    ///
    /// A host that is a folder is percent-encoded. An unknown parameter is `InvalidInput`, and the message names it;
    /// the README lists all parameters.
    pub fn from_url(url: &str) -> Result<Self> {
        let mut config = Self::new(Server::at("", DEFAULT_PORT));
        config.server = Server::parse(url, |name, value| config.set(name, value))?;
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let millis = || parameter(name, value).map(Duration::from_millis);
        match (name, value) {
            ("application_name", _) => self.application_name = value.to_owned(),
            ("namespace", _) => self.namespace = value.to_owned(),
            ("pool_size", _) => self.pool_size = parameter(name, value)?,
            ("acquire_timeout_ms", _) => self.acquire_timeout = millis()?,
            ("idle_timeout_ms", _) => self.idle_timeout = millis()?,
            ("statement_timeout_ms", _) => self.statement_timeout = Some(millis()?),
            ("deadline_ms", _) => self.deadline = millis()?,
            ("language", _) => self.language = parameter(name, value)?,
            ("kept_changes", _) => self.kept_changes = parameter(name, value)?,
            ("pooler", "none") => self.pooler = false,
            ("pooler", "transaction") => self.pooler = true,
            ("target_session_attrs", "read-write") => {}
            ("read_url", _) => self.read_server = Some(Server::parse(value, |name, _| Err(refusal(name)))?),
            _ if self.history.set(name, value)? => {}
            _ => return Err(refusal(name)),
        }
        Ok(())
    }
}

impl Config for PostgresConfig {
    fn settings(&self) -> EngineSettings {
        let Self { deadline, language, history, clock, .. } = self.clone();
        EngineSettings { deadline, patience: deadline, language, history, clock }
    }

    fn check(&self) -> Result<()> {
        quote(&self.namespace).map(drop)
    }
}

impl Server {
    /// Makes a server at one host, with defaults for the rest.
    pub fn at(host: impl Into<String>, port: u16) -> Self {
        let hosts = vec![Host { name: host.into(), port }];
        Self { hosts, user: None, password: None, database: None, tls: Tls::default() }
    }

    /// Parses the part of a URL that describes the server; passes other parameters to `set`. No error quotes the URL.
    fn parse(url: &str, mut set: impl FnMut(&str, &str) -> Result<()>) -> Result<Self> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest =
            rest.ok_or_else(|| Error::invalid("a PostgreSQL URL must begin with postgres:// or postgresql://"))?;
        let address = Address::parse(rest)?;
        let mut tls = Tls::default();
        for (name, value) in form_urlencoded::parse(address.parameters.as_bytes()) {
            match &*name {
                "sslmode" => tls.mode = parameter(&name, &value)?,
                "sslrootcert" => tls.root_certificate = Some(value.as_ref().into()),
                "sslcert" => tls.certificate = Some(value.as_ref().into()),
                "sslkey" => tls.key = Some(value.as_ref().into()),
                _ => set(&name, &value)?,
            }
        }
        let hosts = address.hosts(DEFAULT_PORT)?;
        let database = Some(Address::decode(address.path)?).filter(|database| !database.is_empty());
        Ok(Self { hosts, user: address.user, password: address.password, database, tls })
    }
}

impl TryFrom<&str> for PostgresConfig {
    type Error = Error;

    fn try_from(url: &str) -> Result<Self> {
        Self::from_url(url)
    }
}

fn refusal(name: &str) -> Error {
    Error::invalid(format!("the PostgreSQL URL has a parameter that is unknown, or whose value is not valid: {name}"))
}
