//! How a server is reached, and the settings of the provider.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_core::engine::{Config, Settings, parameter};
use memory_core::{Address, Clock, DEFAULT_DEADLINE, Error, Host, Password, Result, SystemClock, TextIndex};

use crate::statements::Statements;

/// Which server, and the settings of the provider.
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
    /// Where all writes go, and all reads unless [`PostgresConfig::read_server`] is set.
    pub server: Server,
    /// A replica for reads; none by default, since what was just written may not be there yet (W1).
    pub read_server: Option<Server>,
    /// The schema that holds everything; `agent_memory` by default.
    pub namespace: String,
    /// What the server shows of its connections; `agent-memory` by default.
    pub application_name: String,
    /// How many connections are open at most, to each server; 16 by default.
    pub pool_size: NonZeroU32,
    /// How long a call waits for a connection; 20 s by default.
    pub acquire_timeout: Duration,
    /// After how long the server gives up on a statement; the deadline by default.
    pub statement_timeout: Option<Duration>,
    /// Whether a pooler in transaction mode is in between: then each call is a transaction, and no session keeps a state.
    pub pooler: bool,
    /// What text search covers; only documents by default. Once switched on for a namespace, every program that writes to
    /// it keeps the index.
    pub text_index: TextIndex,
    /// How long a call may take; 30 s by default.
    pub deadline: Duration,
    /// Where `updatedAt` comes from; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

/// One database, on one server or on several of which one is the primary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Server {
    /// Where it may be, at the port 5432 by default; of several, the one that takes writes is used.
    pub hosts: Vec<Host>,
    /// The role; that of the operating system by default.
    pub user: Option<String>,
    /// Its password, if it needs one.
    pub password: Option<Password>,
    /// The database; the name of the role by default.
    pub database: Option<String>,
    /// How the connection is encrypted.
    pub tls: Tls,
}

/// How a connection is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// Whether, and what is checked.
    pub mode: TlsMode,
    /// The file with the certificates to trust; the public ones by default.
    pub root_certificate: Option<PathBuf>,
    /// The file with the certificate of this client.
    pub certificate: Option<PathBuf>,
    /// The file with its key.
    pub key: Option<PathBuf>,
}

/// As libpq's `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server can; `allow` too is taken for it.
    #[default]
    Prefer,
    /// Encrypted, whoever the server is.
    Require,
    /// Encrypted, with a certificate of a known authority.
    VerifyCa,
    /// Encrypted, with a certificate of a known authority for this host.
    VerifyFull,
}

const DEFAULT_PORT: u16 = 5432;
/// Shorter than most calls may take, so that a server that is not there is told as such; longer than a busy one lets wait.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(20);

impl PostgresConfig {
    /// The default settings for a server.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            read_server: None,
            namespace: "agent_memory".to_owned(),
            application_name: "agent-memory".to_owned(),
            pool_size: const { NonZeroU32::new(16).unwrap() },
            acquire_timeout: ACQUIRE_TIMEOUT,
            statement_timeout: None,
            pooler: false,
            text_index: TextIndex::default(),
            deadline: DEFAULT_DEADLINE,
            clock: Arc::new(SystemClock),
        }
    }

    /// Reads `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?PARAMETERS`, also with `postgresql:`.
    ///
    /// A host that is a folder is percent-encoded. The parameters are `sslmode`, `sslrootcert`, `sslcert`, `sslkey`,
    /// `application_name`, `namespace`, `pool_size`, `acquire_timeout_ms`, `statement_timeout_ms`, `deadline_ms`, `text_index`
    /// (`documents` or `all`), `pooler` (`none` or `transaction`), `target_session_attrs` (`read-write`, which is always
    /// so) and `read_url`. Any other is `InvalidInput` that names it.
    pub fn from_url(url: &str) -> Result<Self> {
        let (server, parameters) = Server::parse(url)?;
        let mut config = Self::new(server);
        for (name, value) in form_urlencoded::parse(parameters.as_bytes()) {
            if !config.server.tls.set(&name, &value)? {
                config.set(&name, &value)?;
            }
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let millis = || parameter(name, value).map(Duration::from_millis);
        match name {
            "application_name" => self.application_name = value.to_owned(),
            "namespace" => self.namespace = value.to_owned(),
            "pool_size" => self.pool_size = parameter(name, value)?,
            "acquire_timeout_ms" => self.acquire_timeout = millis()?,
            "statement_timeout_ms" => self.statement_timeout = Some(millis()?),
            "deadline_ms" => self.deadline = millis()?,
            "text_index" => self.text_index = parameter(name, value)?,
            "pooler" => self.pooler = choice(name, value, &[("none", false), ("transaction", true)])?,
            "target_session_attrs" => choice(name, value, &[("read-write", ())])?,
            "read_url" => {
                let (mut server, parameters) = Server::parse(value)?;
                for (name, value) in form_urlencoded::parse(parameters.as_bytes()) {
                    if !server.tls.set(&name, &value)? {
                        return Err(unknown(&name));
                    }
                }
                self.read_server = Some(server);
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

impl Config for PostgresConfig {
    fn settings(&self) -> Settings {
        let Self { deadline, text_index, .. } = *self;
        Settings { deadline, patience: deadline, text_index, clock: Arc::clone(&self.clock) }
    }

    fn check(&self) -> Result<()> {
        Statements::new(&self.namespace).map(drop)
    }
}

impl Server {
    /// A server at one host, with defaults for the rest.
    pub fn at(host: impl Into<String>, port: u16) -> Self {
        let hosts = vec![Host { name: host.into(), port }];
        Self { hosts, user: None, password: None, database: None, tls: Tls::default() }
    }

    /// What a URL says of the server, and its parameters. No error quotes the URL.
    fn parse(url: &str) -> Result<(Self, &str)> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| Error::invalid("a PostgreSQL URL begins with postgres:// or postgresql://"))?;
        let address = Address::parse(rest)?;
        let hosts = address.hosts(DEFAULT_PORT)?;
        let database = Some(Address::decode(address.path)?).filter(|database| !database.is_empty());
        let Address { user, password, parameters, .. } = address;
        Ok((Self { hosts, user, password, database, tls: Tls::default() }, parameters))
    }
}

impl Tls {
    /// Whether there is such a parameter.
    fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "sslmode" => {
                let modes = [
                    ("disable", TlsMode::Disable),
                    ("allow", TlsMode::Prefer),
                    ("prefer", TlsMode::Prefer),
                    ("require", TlsMode::Require),
                    ("verify-ca", TlsMode::VerifyCa),
                    ("verify-full", TlsMode::VerifyFull),
                ];
                self.mode = choice(name, value, &modes)?;
            }
            "sslrootcert" => self.root_certificate = Some(value.into()),
            "sslcert" => self.certificate = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl TryFrom<&str> for PostgresConfig {
    type Error = Error;

    fn try_from(url: &str) -> Result<Self> {
        Self::from_url(url)
    }
}

/// What a word of a parameter stands for.
fn choice<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T> {
    let found = words.iter().find(|(word, _)| *word == value);
    let wrong = || Error::invalid(format!("the value of the URL parameter {name} is not valid"));
    found.map(|(_, meaning)| *meaning).ok_or_else(wrong)
}

fn unknown(name: &str) -> Error {
    Error::invalid(format!("the PostgreSQL URL has an unknown parameter: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_servers() {
        let host = |name: &str, port| Host { name: name.to_owned(), port };
        for (url, hosts) in [
            ("postgres://", vec![host("localhost", 5432)]),
            ("postgresql://db", vec![host("db", 5432)]),
            ("postgres://u:p@db:99/x?sslmode=require", vec![host("db", 99)]),
            ("postgres://a:1,b,[::1]:2/x", vec![host("a", 1), host("b", 5432), host("::1", 2)]),
            ("postgres://u@%2Frun%2Fpg:7/x", vec![host("/run/pg", 7)]),
        ] {
            assert_eq!(PostgresConfig::from_url(url).expect(url).server.hosts, hosts, "{url}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let url = "postgres://us%40er:p%3A%2Fxyzzy@h/d%20b?read_url=postgres%3A%2F%2Fu%3Axyzzy%40r";
        let config = PostgresConfig::from_url(url).expect("valid");
        assert_eq!(config.server.user.as_deref(), Some("us@er"));
        assert_eq!(config.server.password, Some(Password("p:/xyzzy".to_owned())));
        assert_eq!(config.server.database.as_deref(), Some("d b"));
        assert_eq!(config.read_server.as_ref().map(|server| server.hosts[0].name.as_str()), Some("r"));
        assert!(!format!("{config:?}").contains("xyzzy"));
    }

    #[test]
    fn unknown_parameters_are_refused_by_name() {
        for (url, named) in [
            ("postgres://h/d?options=-c", "options"),
            ("postgres://h/d?password=xyzzy", "password"),
            ("postgres://h/d?pool_size=0", "pool_size"),
            ("postgres://h/d?sslmode=yes", "sslmode"),
            ("postgres://h/d?pooler=session", "pooler"),
            ("postgres://h/d?target_session_attrs=any", "target_session_attrs"),
            ("postgres://h/d?read_url=postgres://r/d?namespace=xyzzy", "namespace"),
            ("postgres://u:xyzzy@h:port/d", "port"),
            ("mysql://u:xyzzy@h", "postgres://"),
        ] {
            let error = PostgresConfig::from_url(url).expect_err(url);
            assert!(error.message().contains(named), "{error}");
            assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
        }
    }
}
