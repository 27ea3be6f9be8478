//! The configuration of a Redis provider.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_core::engine::{Config, EngineSettings, KeptChanges, parameter};
use memory_core::{
    Address, Clock, DEFAULT_DEADLINE, Error, HistorySettings, Host, Language, Password, Result, SystemClock,
};

/// The location of Redis, and the settings of its provider.
///
/// ```
/// use memory_redis::{RedisConfig, Topology};
///
/// let config = RedisConfig::from_url("rediss://app:secret@cache.example:6380/2?namespace=tenant_7&wait_replicas=1")?;
/// assert!(matches!(config.topology, Topology::Server(_)));
/// assert_eq!((config.database, config.namespace.as_str()), (2, "tenant_7"));
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RedisConfig {
    /// Where Redis is, and how it is found again after a failover.
    pub topology: Topology,
    /// The user and the password; none by default.
    pub login: Login,
    /// The encryption of connections; none by default.
    pub tls: Option<Tls>,
    /// The number of the database; 0 by default, and always 0 in a cluster.
    pub database: u16,
    /// The hash tag that all keys share; `agent_memory` by default. 1 to 64 bytes.
    pub namespace: String,
    /// How many replicas must have a write before it is acknowledged; none by default.
    pub wait: Option<Wait>,
    /// Number of entries that the feed keeps, each with up to 8 changes of one write; 100,000 by default and at least.
    pub kept_changes: KeptChanges,
    /// How long a call tries to reach a server that accepts it, across restarts and failovers; 10 s by default.
    pub connect_timeout: Duration,
    /// The language of questions and records, unless a question names its own; English by default.
    pub language: Language,
    /// The history settings; by default the namespace's own decision.
    pub history: HistorySettings,
    /// The deadline of a call; 30 s by default.
    pub deadline: Duration,
    /// The source of `updatedAt` and of commit times; the clock of the machine by default.
    pub clock: Arc<dyn Clock>,
}

/// The kind of deployment, and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server, at port 6379 by default.
    Server(Host),
    /// The primary that these sentinels know by a name.
    Sentinel {
        /// Some of the sentinels, at port 26379 by default.
        sentinels: Vec<Host>,
        /// The name of the primary.
        primary: String,
        /// The login for the sentinels themselves.
        login: Login,
    },
    /// A cluster, in which the namespace lives on one primary.
    Cluster(
        /// Some of the nodes.
        Vec<Host>,
    ),
}

/// The user and password of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The ACL user; the default user of the server when absent.
    pub user: Option<String>,
    /// The password, if the server needs one.
    pub password: Option<Password>,
}

/// The encryption of a connection. The server's certificate and name are always verified.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// The PEM file with the trusted certificates; those of the system by default.
    pub root_certificate: Option<PathBuf>,
    /// The PEM files with the client certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// What a write must reach, besides the primary, before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The number of replicas.
    pub replicas: NonZeroU32,
    /// How long to wait for them. After that the call fails with `Unavailable` and an unknown outcome.
    pub timeout: Duration,
}

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;
const DEFAULT_WAIT: Wait = Wait { replicas: NonZeroU32::MIN, timeout: Duration::from_secs(1) };

impl RedisConfig {
    /// Makes the default settings.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            login: Login::default(),
            tls: None,
            database: 0,
            namespace: "agent_memory".to_owned(),
            wait: None,
            kept_changes: KeptChanges::default(),
            connect_timeout: Duration::from_secs(10),
            language: Language::default(),
            history: HistorySettings::default(),
            deadline: DEFAULT_DEADLINE,
            clock: Arc::new(SystemClock),
        }
    }

    /// Parses one of these URLs; `rediss` instead of `redis` encrypts:
    ///
    /// - `redis://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS`
    /// - `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/PRIMARY/DATABASE?PARAMETERS`
    /// - `redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT?PARAMETERS`
    ///
    /// The parameters are `namespace`, `wait_replicas`, `wait_timeout_ms`, `connect_timeout_ms`, `deadline_ms`,
    /// `language`, `history`, `transient`, `kept_changes`, `tls_ca_file`, `tls_cert_file`, `tls_key_file`,
    /// `sentinel_user` and `sentinel_password`. Any other is `InvalidInput`, and the message names it.
    pub fn from_url(url: &str) -> Result<Self> {
        let schemes = "a Redis URL must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://";
        let (scheme, rest) = url.split_once("://").ok_or_else(|| Error::invalid(schemes))?;
        let (transport, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = match transport {
            "redis" => None,
            "rediss" => Some(Tls::default()),
            _ => return Err(Error::invalid(schemes)),
        };
        let address = Address::parse(rest)?;
        let (topology, database) = match kind {
            "" => match <[Host; 1]>::try_from(address.hosts(DEFAULT_PORT)?) {
                Ok([host]) => (Topology::Server(host), address.path),
                Err(_) => return Err(Error::invalid("several hosts need redis+sentinel:// or redis+cluster://")),
            },
            "sentinel" => {
                let (primary, database) = address.path.split_once('/').unwrap_or((address.path, ""));
                let primary = Address::decode(primary)?;
                if primary.is_empty() {
                    return Err(Error::invalid("a redis+sentinel URL must name the primary: …@HOST,HOST/PRIMARY"));
                }
                let sentinels = address.hosts(DEFAULT_SENTINEL_PORT)?;
                (Topology::Sentinel { sentinels, primary, login: Login::default() }, database)
            }
            "cluster" => (Topology::Cluster(address.hosts(DEFAULT_PORT)?), address.path),
            _ => return Err(Error::invalid(schemes)),
        };
        let Address { user, password, parameters, .. } = address;
        let mut config = Self { login: Login { user, password }, tls, ..Self::new(topology) };
        if !database.is_empty() {
            config.database =
                database.parse().map_err(|_| Error::invalid("the database in the Redis URL must be a number"))?;
        }
        for (name, value) in form_urlencoded::parse(parameters.as_bytes()) {
            config.set(&name, &value)?;
        }
        if let Some(Tls { client: Some((certificate, key)), .. }) = &config.tls
            && (certificate.as_os_str().is_empty() || key.as_os_str().is_empty())
        {
            return Err(Error::invalid("tls_cert_file and tls_key_file must be given together"));
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let millis = || parameter(name, value).map(Duration::from_millis);
        match (name, &mut self.tls, &mut self.topology) {
            ("namespace", ..) => self.namespace = value.to_owned(),
            ("wait_replicas", ..) => self.wait.get_or_insert(DEFAULT_WAIT).replicas = parameter(name, value)?,
            ("wait_timeout_ms", ..) => self.wait.get_or_insert(DEFAULT_WAIT).timeout = millis()?,
            ("connect_timeout_ms", ..) => self.connect_timeout = millis()?,
            ("deadline_ms", ..) => self.deadline = millis()?,
            ("language", ..) => self.language = parameter(name, value)?,
            ("kept_changes", ..) => self.kept_changes = parameter(name, value)?,
            ("tls_ca_file", Some(tls), _) => tls.root_certificate = Some(value.into()),
            ("tls_cert_file", Some(tls), _) => tls.client.get_or_insert_default().0 = value.into(),
            ("tls_key_file", Some(tls), _) => tls.client.get_or_insert_default().1 = value.into(),
            ("tls_ca_file" | "tls_cert_file" | "tls_key_file", None, _) => {
                return Err(Error::invalid(format!("{name} needs a rediss URL")));
            }
            ("sentinel_user", _, Topology::Sentinel { login, .. }) => login.user = Some(value.to_owned()),
            ("sentinel_password", _, Topology::Sentinel { login, .. }) => {
                login.password = Some(Password(value.to_owned()));
            }
            _ if self.history.set(name, value)? => {}
            _ => return Err(Error::invalid(format!("the Redis URL has an unknown parameter: {name}"))),
        }
        Ok(())
    }
}

impl Config for RedisConfig {
    fn settings(&self) -> EngineSettings {
        let Self { deadline, connect_timeout: patience, language, history, clock, .. } = self.clone();
        EngineSettings { deadline, patience, language, history, clock }
    }

    /// Refuses settings that no server accepts, or that would let two namespaces collide.
    fn check(&self) -> Result<()> {
        let name = &self.namespace;
        // Braces would end the hash tag early, and the namespace's keys would not share a slot.
        if name.is_empty() || name.len() > 64 || name.contains(['{', '}']) || name.contains(char::is_control) {
            return Err(Error::invalid("a namespace must have 1 to 64 bytes without braces or control characters"));
        }
        match &self.topology {
            Topology::Cluster(_) if self.database != 0 => Err(Error::invalid("a cluster has the database 0 only")),
            Topology::Cluster(hosts) | Topology::Sentinel { sentinels: hosts, .. } if hosts.is_empty() => {
                Err(Error::invalid("the Redis URL must name a host"))
            }
            _ => Ok(()),
        }
    }
}

impl TryFrom<&str> for RedisConfig {
    type Error = Error;

    fn try_from(url: &str) -> Result<Self> {
        Self::from_url(url)
    }
}
