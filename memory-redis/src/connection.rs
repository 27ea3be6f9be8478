//! Calls to the server: what is sent, what the answers mean, what is tried again.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memory_core::{Durability, Error, ErrorKind, Group, Health, Outcome, Result, TextIndex};
use redis::{Arg, Cmd, Pipeline, RedisError, Value};
use tokio::sync::Semaphore;

use crate::config::{RedisConfig, Topology, Wait};
use crate::error::{is_passing, is_read_only, native};
use crate::ledger::GROUP;
use crate::link::Link;
use crate::statements::{Keys, Scripts};

/// How long to wait before the next attempt; twice as long each time, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// How many recalls read from the server at the same time.
const RECALLS: usize = 32;

/// Rows of so many bytes are long: a page of them is not read at once.
const LONG: usize = 1 << 20;

/// The connections of an open provider.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) keys: Keys,
    pub(crate) scripts: Scripts,
    pub(crate) text_index: TextIndex,
    /// Stores without an idempotency key.
    pub(crate) group: Group,
    /// Who recalls at the moment. The server answers one after the other anyway, and what waits for its turn to be read takes memory.
    pub(crate) recalls: Semaphore,
    /// The paths that were found to be full.
    pub(crate) full: Mutex<BTreeSet<String>>,
    /// Whether a memory was met whose words are indexed. Never goes back.
    pub(crate) has_ledger_text: AtomicBool,
    /// Whether it is known that rows may be long. Never goes back.
    pub(crate) has_long_rows: AtomicBool,
    link: Arc<Link>,
    /// The same, unless writes wait for replicas: then nothing else has to wait behind them.
    writes: Arc<Link>,
    wait: Option<Wait>,
    patience: Duration,
    /// Whether another server can become the primary.
    fails_over: bool,
}

impl Connections {
    /// Connects to nothing yet.
    pub(crate) fn new(config: &RedisConfig) -> Result<Self> {
        let keys = Keys::new(&config.namespace);
        let link = Arc::new(Link::new(config, keys.any())?);
        let writes = match config.wait {
            Some(_) => Arc::new(Link::new(config, keys.any())?),
            None => Arc::clone(&link),
        };
        Ok(Self {
            keys,
            scripts: Scripts::new(),
            text_index: config.text_index,
            group: Group::new(GROUP.0, GROUP.1),
            recalls: Semaphore::new(RECALLS),
            full: Mutex::default(),
            has_ledger_text: AtomicBool::new(config.text_index == TextIndex::All),
            has_long_rows: AtomicBool::new(false),
            link,
            writes,
            wait: config.wait,
            patience: config.connect_timeout,
            fails_over: !matches!(config.topology, Topology::Server(_)),
        })
    }

    /// Sends commands that only read, in one piece, and gives the answer to each.
    pub(crate) async fn read(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let answers = self.send(&self.link, commands).await;
        // What reads has done nothing, whatever has become of it.
        answers.map_err(|error| error.with_outcome(Outcome::NotDone))
    }

    /// Sends commands that write, in one piece, gives the answer to each, and waits for the replicas.
    pub(crate) async fn write(&self, mut commands: Pipeline) -> Result<Vec<Value>> {
        if has_long_row(&commands) {
            let mut tell = Pipeline::with_capacity(1);
            tell.cmd("SET").arg(self.keys.long()).arg(1);
            self.write_unawaited(&tell).await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        }
        if let Some(Wait { replicas, timeout }) = self.wait {
            // A timeout of 0 would be none.
            commands.cmd("WAIT").arg(replicas.get()).arg(timeout.as_millis().max(1) as u64);
        }
        let mut answers = self.write_unawaited(&commands).await?;
        match self.wait.map(|wait| (wait.replicas.get(), answers.pop())) {
            Some((wanted, Some(Value::Int(reached)))) if reached >= i64::from(wanted) => Ok(answers),
            Some((wanted, _)) => {
                let message = format!("fewer than {wanted} replicas had the write in time");
                Err(Error::new(ErrorKind::Unavailable, message).with_outcome(Outcome::Unknown).retryable())
            }
            None => Ok(answers),
        }
    }

    /// The same without waiting for the replicas.
    pub(crate) async fn write_unawaited(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        self.send(&self.writes, commands).await
    }

    /// Whether writes wait for replicas.
    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some()
    }

    /// Closes the connections.
    pub(crate) fn close(&self) {
        self.link.close();
        self.writes.close();
    }

    /// What the server tells of itself.
    pub(crate) async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        let mut commands = Pipeline::new();
        commands.cmd("HLEN").arg(self.keys.schema()).cmd("INFO");
        let answers = self.read(&commands).await?;
        let latency = start.elapsed();
        let schema_version = match answers.first() {
            Some(Value::Int(version)) => u32::try_from(*version).unwrap_or_default(),
            _ => 0,
        };
        let info = facts(answers.get(1));
        // Often denied, which is no failure. One by one, as servers before 7.0 want it, and no more than is needed: there are
        // passwords among the settings.
        let mut commands = Pipeline::new();
        for setting in ["appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory", "maxmemory-policy"] {
            commands.cmd("CONFIG").arg("GET").arg(setting);
        }
        let config = self.read(&commands).await.ok().map(|answers| answers.iter().flat_map(pairs).collect());
        let version = info.get("valkey_version").or(info.get("redis_version")).cloned().unwrap_or_default();
        let durability = self.durability(&info, config.as_ref());
        Ok(Health::new("redis", version, schema_version, latency, durability))
    }

    fn durability(&self, info: &HashMap<String, String>, config: Option<&HashMap<String, String>>) -> Durability {
        let at_risk = |reason: &str, bound| Durability::AtRisk { reason: reason.to_owned(), bound };
        let Some(config) = config else {
            return Durability::Unknown { reason: "the server does not tell its configuration".to_owned() };
        };
        let is = |name: &str, value: &str| config.get(name).is_some_and(|found| found == value);
        let can_evict = config.get("maxmemory-policy").is_some_and(|policy| policy.starts_with("allkeys"));
        let replicas = info.get("connected_slaves").and_then(|count| count.parse::<u32>().ok()).unwrap_or_default();
        let waited_for = self.wait.map_or(0, |wait| wait.replicas.get());
        if can_evict && !is("maxmemory", "0") {
            return at_risk("maxmemory-policy lets the server drop keys", None);
        }
        if !is("appendonly", "yes") {
            return at_risk("appendonly is off", None);
        }
        if self.fails_over && waited_for < replicas {
            return at_risk(
                "a failover loses what its replica has not got yet: set wait_replicas to all of them",
                None,
            );
        }
        match config.get("appendfsync").map(String::as_str) {
            Some("always") if is("no-appendfsync-on-rewrite", "yes") => {
                at_risk("no-appendfsync-on-rewrite leaves the log unflushed while it is rewritten", None)
            }
            Some("always") => Durability::Durable,
            Some("everysec") => at_risk("appendfsync is everysec", Some(Duration::from_secs(1))),
            _ => at_risk("appendfsync leaves flushing to the system", None),
        }
    }

    /// Does the work again while what prevented it is passing and nothing of it can have been done (W11). Ends when the time to
    /// reach a server is over.
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        self.repeat(work, |error| error.outcome() == Outcome::NotDone).await
    }

    /// As [`Connections::retry`], for work that can be done twice and has its effect once.
    pub(crate) async fn retry_repeatable<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        self.repeat(work, |_| true).await
    }

    async fn repeat<T, F: Future<Output = Result<T>>>(
        &self,
        work: impl Fn() -> F,
        is_repeatable: impl Fn(&Error) -> bool,
    ) -> Result<T> {
        let end = Instant::now() + self.patience;
        let (mut pause, mut earlier) = (PAUSE.0, Outcome::NotDone);
        loop {
            match work().await.map_err(|error| error.after(earlier)) {
                Err(error) if self.is_passing(&error) && is_repeatable(&error) && Instant::now() + pause < end => {
                    earlier = error.outcome();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
                result => return result,
            }
        }
    }

    pub(crate) fn is_passing(&self, error: &Error) -> bool {
        // Where nothing fails over, a read-only server stays one.
        is_passing(error) && (self.fails_over || !is_read_only(error))
    }

    async fn send(&self, link: &Link, commands: &Pipeline) -> Result<Vec<Value>> {
        let answers = link.send(commands).await?;
        match refusal(&answers) {
            // A server that is new, was flushed or has taken over does not know the scripts yet.
            Some(error) if error.code() == Some("NOSCRIPT") => {
                checked(link.send(&self.scripts.load()).await?)?;
                checked(link.send(commands).await?)
            }
            _ => checked(answers),
        }
    }
}

/// Whether one of the commands may write a row of [`LONG`] bytes.
fn has_long_row(commands: &Pipeline) -> bool {
    let mut arguments = commands.cmd_iter().flat_map(Cmd::args_iter);
    arguments.any(|argument| matches!(argument, Arg::Simple(bytes) if bytes.len() >= LONG))
}

/// A pipeline of one command with these arguments.
pub(crate) fn command(name: &str, arguments: &[&[u8]]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd(name).arg(arguments);
    pipeline
}

/// What the answer of a script of this crate never is.
pub(crate) fn unexpected_answer() -> Error {
    Error::new(ErrorKind::Unexpected, "the server gave an answer of another form than asked for")
}

fn checked(answers: Vec<Value>) -> Result<Vec<Value>> {
    if let Some(error) = refusal(&answers) {
        return Err(native(error));
    }
    // A transaction whose commands were all taken is carried out as a whole, but for those that meet a value of another type.
    let transactions =
        answers.iter().filter_map(|answer| if let Value::Array(answers) = answer { Some(answers) } else { None });
    match transactions.into_iter().find_map(|answers| refusal(answers)) {
        Some(error) => Err(native(error).with_outcome(Outcome::Unknown)),
        None => Ok(answers),
    }
}

/// The first error among the answers.
fn refusal(answers: &[Value]) -> Option<RedisError> {
    answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(RedisError::from(error.clone())),
        _ => None,
    })
}

/// The lines of `INFO`.
pub(crate) fn facts(answer: Option<&Value>) -> HashMap<String, String> {
    let text = match answer {
        Some(Value::BulkString(text)) => String::from_utf8_lossy(text).into_owned(),
        Some(Value::VerbatimString { text, .. }) => text.clone(),
        _ => String::new(),
    };
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.into())).collect()
}

/// The names and values of `CONFIG GET`.
fn pairs(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    match answer {
        Value::Array(items) => items.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        _ => Vec::new(),
    }
}
