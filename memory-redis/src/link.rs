//! The connection to the primary that holds the namespace: a server, the primary that sentinels name, or a cluster
//! node.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, Host, Outcome, Password, Result};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, ErrorKind as Kind,
    IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, TlsMode, Value,
};
use tokio::sync::{Mutex, oneshot};

use crate::cluster::Cluster;
use crate::config::{Login, RedisConfig, Tls, Topology, Wait};
use crate::error::{has_code, native, native_write};

/// A connection that all calls share. The first call opens it, and it is reopened after it was lost.
pub(crate) struct Link {
    source: Source,
    /// Held by the call that connects, so that one call does it for all.
    opened: Mutex<Opened>,
    /// Counts how often a link to the same primary has lost it. Each connection that was opened before is replaced:
    /// after a planned failover the old primary still answers reads, as a replica.
    losses: Arc<AtomicU64>,
    /// Timeout of connecting.
    patience: Duration,
    /// Held while a batch with a `WAIT` is sent.
    turn: Mutex<()>,
    /// The writes that go with the next `WAIT`.
    queue: StdMutex<Vec<Queued>>,
}

/// Write commands, and the channel for their answers.
struct Queued {
    commands: Pipeline,
    reply: oneshot::Sender<Result<Vec<Value>>>,
}

enum Source {
    Server(Client),
    Sentinel(Mutex<SentinelClient>),
    Cluster(Cluster),
}

/// The connection, and the last failure to open it, with the time at which that attempt began.
#[derive(Default)]
struct Opened {
    current: Option<Arc<Current>>,
    failed: Option<(Instant, Error)>,
}

struct Current {
    connection: MultiplexedConnection,
    /// Number of answers that it has given.
    answers: AtomicU64,
    /// Whether it may be silently dead.
    is_silent: AtomicBool,
    /// [`Link::losses`] before it was opened.
    losses: u64,
}

impl Link {
    /// Makes a link; connects to nothing yet. In a cluster the key selects the slot.
    pub(crate) fn new(config: &RedisConfig, key: &str, losses: &Arc<AtomicU64>) -> Result<Self> {
        let certificates = config.tls.as_ref().map(certificates).transpose()?;
        let invalid =
            |error: RedisError| Error::invalid("the settings of the connection are not valid").with_source(error);
        let source = Source::new(config, key, certificates).map_err(invalid)?;
        let (opened, turn, queue) = Default::default();
        Ok(Self { source, opened, losses: Arc::clone(losses), patience: config.connect_timeout, turn, queue })
    }

    /// Sends all commands in one batch; returns the answer to each.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let current = self.connection().await?;
        let before = current.answers.load(Ordering::Relaxed);
        let waiting = Waiting { current, since: Instant::now(), before };
        let mut connection = waiting.current.connection.clone();
        let answers = connection.req_packed_commands(commands, 0, commands.len()).await;
        waiting.current.answers.fetch_add(1, Ordering::Relaxed);
        let is_stale = match &answers {
            // From a server that is no longer the primary.
            Ok(answers) => {
                has_code(answers, &["READONLY", "MASTERDOWN", "UNBLOCKED"])
                    || matches!(self.source, Source::Cluster(_)) && has_code(answers, &["MOVED", "CLUSTERDOWN"])
            }
            Err(error) => error.is_unrecoverable_error() || error.is_connection_dropped(),
        };
        if is_stale {
            // Other calls may have noticed the same loss.
            let losses = waiting.current.losses;
            let _ = self.losses.compare_exchange(losses, losses + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        answers.map_err(|error| native_write(error, commands))
    }

    /// Sends all commands in one batch, followed by a `WAIT`; returns the answer to each, and that of the `WAIT` last.
    ///
    /// While a server waits, it reads nothing from the connection. So writes that come meanwhile share the next batch,
    /// and one `WAIT`.
    pub(crate) async fn send_and_wait(self: &Arc<Self>, commands: &Pipeline, wait: Wait) -> Result<Vec<Value>> {
        let (reply, answers) = oneshot::channel();
        self.queue().push(Queued { commands: commands.clone(), reply });
        // A task of its own: other calls depend on it, and this call may be dropped. Each call has a task, so each is
        // sent.
        tokio::spawn(Arc::clone(self).send_queue(wait));
        // If there is no answer, the task ended early.
        let ended = || Error::new(ErrorKind::Unexpected, "a write was given up").with_outcome(Outcome::Unknown);
        answers.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Sends the queued writes when its turn comes. Gives up when no caller waits for them any more.
    async fn send_queue(self: Arc<Self>, wait: Wait) {
        let _turn = self.turn.lock().await;
        let queued = std::mem::take(&mut *self.queue()).into_iter().filter(|queued| !queued.reply.is_closed());
        let (group, mut replies): (Vec<_>, Vec<_>) = queued.map(|queued| (queued.commands, queued.reply)).unzip();
        if group.is_empty() {
            return;
        }
        let mut all = Pipeline::new();
        for command in group.iter().flat_map(Pipeline::cmd_iter) {
            all.add_command(command.clone());
        }
        // A timeout of 0 would mean none.
        let millis = wait.timeout.as_millis().clamp(1, u32::MAX.into());
        all.cmd("WAIT").arg(wait.replicas.get()).arg(millis as u64);
        let nobody_waits = async {
            for reply in &mut replies {
                reply.closed().await;
            }
        };
        let answers = tokio::select! {
            biased;
            () = nobody_waits => return,
            answers = self.send(&all) => answers,
        };
        let mut answers = answers.map(|mut answers| (answers.pop(), answers.into_iter()));
        for (commands, reply) in group.iter().zip(replies) {
            let own = match &mut answers {
                Ok((waited, answers)) => Ok(answers.by_ref().take(commands.len()).chain(waited.clone()).collect()),
                Err(error) => Err(error.clone()),
            };
            // The caller may be gone.
            let _ = reply.send(own);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Queued>> {
        // No code panics while it holds the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection.
    pub(crate) async fn close(&self) {
        self.opened.lock().await.current.take();
    }

    async fn connection(&self) -> Result<Arc<Current>> {
        let called = Instant::now();
        let mut opened = self.opened.lock().await;
        let losses = self.losses.load(Ordering::Relaxed);
        let is_good = |current: &&Arc<Current>| current.losses == losses && !current.is_silent.load(Ordering::Relaxed);
        if let Some(current) = opened.current.as_ref().filter(is_good) {
            return Ok(Arc::clone(current));
        }
        // An attempt that began after this call has failed for it, too: a thousand calls don't connect one after another.
        if let Some((_, error)) = opened.failed.as_ref().filter(|(began, _)| *began > called) {
            return Err(error.clone());
        }
        let began = Instant::now();
        // Boxed, so that calls that find a connection don't carry the size of opening one.
        match Box::pin(self.source.connect(self.patience)).await.map_err(native) {
            Ok(connection) => {
                let (answers, is_silent) = Default::default();
                let current = Arc::new(Current { connection, answers, is_silent, losses });
                Ok(Arc::clone(opened.current.insert(current)))
            }
            Err(error) => {
                opened.failed = Some((began, error.clone()));
                Err(error)
            }
        }
    }
}

/// A call in flight. If it is dropped, and no call got an answer meanwhile, the connection may be silently dead, and
/// the next call opens another one.
struct Waiting {
    current: Arc<Current>,
    since: Instant,
    before: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.since.elapsed() > SUSPICIOUS && self.current.answers.load(Ordering::Relaxed) == self.before {
            self.current.is_silent.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Source {
    fn new(config: &RedisConfig, key: &str, certificates: Option<TlsCertificates>) -> RedisResult<Self> {
        match &config.topology {
            Topology::Server(host) => client(host, config, certificates.as_ref()).map(Self::Server),
            Topology::Sentinel { sentinels, primary, login } => {
                let sentinels = sentinels.iter().map(|host| address(host, config.tls.is_some()));
                let mut builder = SentinelClientBuilder::new(sentinels, primary, SentinelServerType::Master)?
                    .set_client_to_redis_db(config.database.into())
                    .set_client_to_redis_tcp_settings(tcp())
                    .set_client_to_sentinel_tcp_settings(tcp());
                if let Some(certificates) = certificates {
                    builder = builder
                        .set_client_to_redis_tls_mode(TlsMode::Secure)
                        .set_client_to_sentinel_tls_mode(TlsMode::Secure)
                        .set_client_to_redis_certificates(certificates.clone())
                        .set_client_to_sentinel_certificates(certificates);
                }
                if let Some(user) = &config.login.user {
                    builder = builder.set_client_to_redis_username(user);
                }
                if let Some(Password(password)) = &config.login.password {
                    builder = builder.set_client_to_redis_password(password);
                }
                if let Some(user) = &login.user {
                    builder = builder.set_client_to_sentinel_username(user);
                }
                if let Some(Password(password)) = &login.password {
                    builder = builder.set_client_to_sentinel_password(password);
                }
                builder.build().map(|client| Self::Sentinel(Mutex::new(client)))
            }
            Topology::Cluster(hosts) => Cluster::new(config, hosts, key, certificates).map(Self::Cluster),
        }
    }

    /// Connects to the primary. A whole search for it has this time, and each attempt to connect at most [`CONNECT`].
    async fn connect(&self, whole: Duration) -> RedisResult<MultiplexedConnection> {
        let patience = CONNECT.min(whole);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(patience))
            // Calls have deadlines of their own.
            .set_response_timeout(None);
        match self {
            Self::Server(client) => client.get_multiplexed_async_connection_with_config(&config).await,
            Self::Sentinel(client) => client.lock().await.get_async_connection_with_config(&config).await,
            Self::Cluster(cluster) => {
                let found = tokio::time::timeout(whole, cluster.connect(&config, patience)).await;
                found.unwrap_or_else(|_| Err((Kind::Io, "no node of the cluster led to the primary in time").into()))
            }
        }
    }
}

/// Timeout of one attempt to connect.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a working connection may leave all calls without an answer.
const SUSPICIOUS: Duration = Duration::from_millis(200);
/// After how long without a sign of life from the peer a connection is given up.
const SILENCE: Duration = Duration::from_secs(20);

/// Makes a client of one server; connects to nothing yet.
pub(crate) fn client(host: &Host, config: &RedisConfig, certificates: Option<&TlsCertificates>) -> RedisResult<Client> {
    let info = connection_info(host, config)?;
    match certificates {
        Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        None => Client::open(info),
    }
}

fn connection_info(host: &Host, config: &RedisConfig) -> RedisResult<ConnectionInfo> {
    let mut settings = RedisConnectionInfo::default().set_db(config.database.into());
    let Login { user, password } = &config.login;
    if let Some(user) = user {
        settings = settings.set_username(user);
    }
    if let Some(Password(password)) = password {
        settings = settings.set_password(password);
    }
    let info = address(host, config.tls.is_some()).into_connection_info()?;
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp()))
}

fn address(host: &Host, is_encrypted: bool) -> ConnectionAddr {
    let (host, port) = (host.name.clone(), host.port);
    match is_encrypted {
        true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host, port),
    }
}

fn tcp() -> TcpSettings {
    let keepalive = redis::io::tcp::socket2::TcpKeepalive::new().with_time(SILENCE / 2).with_interval(SILENCE / 8);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(SILENCE);
    settings
}

fn certificates(tls: &Tls) -> Result<TlsCertificates> {
    // A program may contain the drivers of several engines, and rustls needs one crypto provider for all; an error
    // means that one was already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let read = |file: &Path| {
        let content = fs::read(file);
        content.map_err(|error| Error::new(ErrorKind::InvalidInput, "a certificate can't be read").with_source(error))
    };
    let client_tls = match &tls.client {
        Some((certificate, key)) => Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? }),
        None => None,
    };
    let root_cert = tls.root_certificate.as_deref().map(read).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}
