//! Calls to the server: connections and sessions, which send commands and interpret answers.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memory_core::engine::{Retry, Timeline, heavy_calls};
use memory_core::{Error, ErrorKind, Host, Outcome, RecordId, Result, Tombstone};
use redis::{Arg, Cmd, FromRedisValue, InfoDict, Pipeline, RedisError, Value};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::config::{RedisConfig, Topology, Wait};
use crate::error::{
    has_code, has_moved, is_moving, is_of_server, is_passing, is_read_only, may_have_written, named_node, native,
    replaced,
};
use crate::link::Link;
use crate::statements::{Call, Keys, LONG_ROWS, WAITED, decoded, is_write, load_scripts, name_of};

/// Number of sessions that walk at the same time, besides the heavy ones.
const RECALLS: usize = 32;

/// Limit of the time to reach a server, so that no clock overflows.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Pause before scripts are loaded once more, so that a server that does not keep them is not asked without end at full
/// speed.
const BEFORE_LOADING_AGAIN: Duration = Duration::from_millis(5);

/// From this many bytes on a row counts as long: a page with such rows is not read at once.
pub(crate) const LONG: usize = 1 << 16;

/// The number that a script returns if it has written what it was asked to.
pub(crate) const DONE: i64 = 1;

/// The connections of an open provider.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) keys: Keys,
    /// Limits the walks in progress: the server answers them one after the other anyway, and unread answers take
    /// memory.
    recalls: Arc<Semaphore>,
    /// Whether rows may be long, as far as known. Never reset.
    pub(crate) has_long_rows: AtomicBool,
    link: Arc<Link>,
    /// The same link, unless writes wait for replicas: then reads must not wait behind them.
    writes: Arc<Link>,
    /// The nodes that were asked while the slot moved.
    nodes: Mutex<Vec<(Host, Arc<Link>)>>,
    pub(crate) config: RedisConfig,
    /// Held by a call that erases: the copy of the feed, from its beginning until it is used or dropped.
    pub(crate) feed_copy: tokio::sync::Mutex<Option<FeedCopy>>,
    /// Notifies calls that wait for the feed that this provider has written.
    pub(crate) grown: Notify,
}

/// A copy of the feed without descriptions of some records, as far as it is complete.
#[derive(Debug)]
pub(crate) struct FeedCopy {
    pub(crate) key: Vec<u8>,
    /// The names of the records.
    pub(crate) names: BTreeSet<Vec<u8>>,
    /// The number of erasures before the copy began.
    pub(crate) erasures: u64,
}

/// A session on the connections of a provider.
#[derive(Debug)]
pub struct RedisSession {
    pub(crate) on: Arc<Connections>,
    /// The deadline of its call.
    pub(crate) until: Instant,
    /// The timeline when it began, if the replicas must have what it reads by the time it ends.
    begun_on: Option<Timeline>,
    /// Held from the first walk on.
    turn: Option<OwnedSemaphorePermit>,
    /// Whether it has read something that the replicas may lack.
    is_ahead: AtomicBool,
    /// Whether its last write was executed on the timeline on which it began.
    is_same_timeline: AtomicBool,
    /// Whether it may have written.
    has_written: AtomicBool,
    /// The tombstones as last read, by which the script of an erasure detects later ones.
    pub(crate) tombstones: HashMap<RecordId, Tombstone>,
}

impl Connections {
    /// Makes the links; connects to nothing yet.
    pub(crate) fn new(config: &RedisConfig) -> Result<Self> {
        let keys = Keys::new(&config.namespace, config.kept_changes);
        let losses = Arc::default();
        let link = Arc::new(Link::new(config, keys.any(), &losses)?);
        let writes = match config.wait {
            Some(_) => Arc::new(Link::new(config, keys.any(), &losses)?),
            None => Arc::clone(&link),
        };
        Ok(Self {
            keys,
            recalls: Arc::new(Semaphore::new(RECALLS + heavy_calls())),
            has_long_rows: AtomicBool::new(false),
            link,
            writes,
            nodes: Mutex::default(),
            config: config.clone(),
            feed_copy: tokio::sync::Mutex::default(),
            grown: Notify::new(),
        })
    }

    /// Sends commands that only read, in one batch; returns the answer to each.
    pub(crate) async fn read(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let answers = match self.send(&self.link, None, commands).await {
            Err(error) if is_moving(&error) && self.is_in_cluster() => self.read_apart(commands).await,
            answers => answers,
        };
        // A read has no effect, whatever happened to it.
        answers.map_err(|error| error.with_outcome(Outcome::NotDone))
    }

    /// The same, without looking for keys on the node that the slot moves to: the server refuses a key that it may lack.
    pub(crate) async fn read_here(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let answers = self.send(&self.link, None, commands).await;
        answers.map_err(|error| error.with_outcome(Outcome::NotDone))
    }

    /// Like [`read`](Self::read), with answers decoded to a tuple or a list.
    pub(crate) async fn read_as<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T> {
        decoded(Value::Array(self.read(commands).await?))
    }

    /// The same, for the answer to a single command.
    pub(crate) async fn read_one<T: FromRedisValue>(&self, command: &Pipeline) -> Result<T> {
        Ok(self.read_as::<(T,)>(command).await?.0)
    }

    /// Sends scripts or commands that write, in one batch; returns the answer to each, and waits for the replicas.
    ///
    /// While the slot moves, refused batches are resent: a script recognises what it has already done. Once the slot
    /// has moved, only a batch that was refused as a whole is resent, because others may have written in between; none if
    /// it waits for replicas, because those of the new node may lack what the call has read.
    pub(crate) async fn write(&self, commands: Pipeline, until: Instant) -> Result<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let (retry, wait) = (Retry::until(until).repeatable(), self.config.wait);
        if has_long_row(&commands) {
            let tell = command("SET", &[&self.keys.of(LONG_ROWS), b"1"]);
            let told = retry.run(is_moving, |_| self.send(&self.link, None, &tell)).await;
            told.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        }
        let is_resent = |error: &Error| wait.is_none() && error.outcome() == Outcome::NotDone;
        let goes_on = |error: &Error| is_moving(error) && (!has_moved(error) || is_resent(error));
        let mut answers = retry.run(goes_on, |_| self.send(&self.writes, wait, &commands)).await?;
        let Some(Wait { replicas, .. }) = wait else { return Ok(answers) };
        match answers.pop() {
            Some(Value::Int(reached)) if reached >= i64::from(replicas.get()) => Ok(answers),
            _ => {
                let message = format!("fewer than {replicas} replicas caught up in time");
                Err(Error::new(ErrorKind::Unavailable, message).with_outcome(Outcome::Unknown).retryable())
            }
        }
    }

    /// Returns whether another server can become the primary.
    pub(crate) fn fails_over(&self) -> bool {
        !matches!(self.config.topology, Topology::Server(_))
    }

    /// Returns whether the configuration names a cluster. A single server that refuses the slot is an error.
    fn is_in_cluster(&self) -> bool {
        matches!(self.config.topology, Topology::Cluster(_))
    }

    /// Closes the connections.
    pub(crate) async fn close(&self) {
        self.link.close().await;
        self.writes.close().await;
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Retries idempotent work until the time to reach a server is over, but no longer than a call may take.
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        let RedisConfig { deadline, connect_timeout, .. } = self.config;
        let patience = connect_timeout.min(deadline).min(LONGEST);
        let retry = Retry::until(Instant::now() + patience).repeatable();
        let tries = retry.run(|error| self.is_temporary(error), |_| work());
        tokio::time::timeout(deadline, tries).await.unwrap_or_else(|_| {
            let message = format!("no answer within {} ms", deadline.as_millis());
            Err(Error::new(ErrorKind::Timeout, message).with_outcome(Outcome::Unknown).retryable())
        })
    }

    /// Returns whether the same call can succeed soon.
    pub(crate) fn is_temporary(&self, error: &Error) -> bool {
        // Without failover, a read-only server stays read-only.
        is_passing(error) && (self.fails_over() || !is_read_only(error))
    }

    /// Reads each key where it is while the slot moves: then some keys are on one node, and some on the other.
    async fn read_apart(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let (mut answers, mut piece, mut is_transaction) = (Vec::with_capacity(commands.len()), Pipeline::new(), false);
        for command in commands.cmd_iter() {
            if name_of(command) == b"MGET" {
                let mut rows = Vec::new();
                for key in command.args_iter().skip(1) {
                    let Arg::Simple(key) = key else { continue };
                    rows.extend(self.follow(&self::command("GET", &[key])).await?);
                }
                answers.push(Value::Array(rows));
                continue;
            }
            piece.add_command(command.clone());
            is_transaction = name_of(command) == b"MULTI" || is_transaction && name_of(command) != b"EXEC";
            if !is_transaction {
                answers.extend(self.follow(&std::mem::take(&mut piece)).await?);
            }
        }
        Ok(answers)
    }

    /// Reads one key, on the node that has the slot or on the one it moves to.
    async fn follow(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let answers = self.link.send(commands).await.and_then(|answers| checked(commands, answers));
        let error = match answers {
            Err(error) => error,
            answers => return answers,
        };
        let Some((name, port)) = named_node(&error) else { return Err(error) };
        let mut asking = Pipeline::with_capacity(commands.len() + 1);
        asking.cmd("ASKING");
        for command in commands.cmd_iter() {
            asking.add_command(command.clone());
        }
        let answers = self.link_to(Host { name, port })?.send(&asking).await?;
        checked(commands, answers.into_iter().skip(1).collect())
    }

    /// Returns the link to the cluster node that receives the slot.
    fn link_to(&self, node: Host) -> Result<Arc<Link>> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, link)) = nodes.iter().find(|(host, _)| *host == node) {
            return Ok(Arc::clone(link));
        }
        let config = RedisConfig { topology: Topology::Server(node.clone()), ..self.config.clone() };
        let link = Arc::new(Link::new(&config, self.keys.any(), &Arc::default())?);
        nodes.push((node, Arc::clone(&link)));
        Ok(link)
    }

    async fn send(&self, link: &Arc<Link>, wait: Option<Wait>, commands: &Pipeline) -> Result<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let send = async || match wait {
            Some(wait) => link.send_and_wait(commands, wait).await,
            None => link.send(commands).await,
        };
        let (mut earlier, mut is_loaded) = (Outcome::NotDone, false);
        // A new, flushed or promoted server does not know the scripts yet, and another one may take over while they are
        // loaded. Scripts that have been executed meanwhile recognise what they have done.
        loop {
            let answers = send().await.map_err(|error| error.after(earlier))?;
            if !has_code(&answers, &["NOSCRIPT"]) {
                return checked(commands, answers).map_err(|error| error.after(earlier));
            }
            if has_written(commands, &answers) {
                earlier = Outcome::Unknown;
            }
            if is_loaded {
                tokio::time::sleep(BEFORE_LOADING_AGAIN).await;
            }
            is_loaded = true;
            let load = load_scripts();
            let loaded = async { checked(&load, link.send(&load).await?) };
            loaded.await.map_err(|error| error.after(earlier))?;
        }
    }
}

impl RedisSession {
    pub(crate) fn new(on: &Arc<Connections>, until: Instant) -> Self {
        let (begun_on, turn, is_ahead, is_same_timeline, has_written, tombstones) = Default::default();
        Self { on: Arc::clone(on), until, begun_on, turn, is_ahead, is_same_timeline, has_written, tombstones }
    }

    /// Begins a session that can tell whether the replicas have what it has read.
    pub(crate) async fn confirmed(on: &Arc<Connections>, until: Instant) -> Result<Self> {
        let begun_on = Some(timeline(on).await?);
        Ok(Self { begun_on, ..Self::new(on, until) })
    }

    /// Waits for its turn to walk, and holds it from then on.
    pub(crate) async fn take_turn(&mut self) {
        if self.turn.is_none() {
            // The semaphore is never closed, so this only waits.
            self.turn = Arc::clone(&self.on.recalls).acquire_owned().await.ok();
        }
    }

    /// The connections to read from.
    pub(crate) fn reads(&self) -> &Connections {
        self.is_ahead.store(true, Ordering::Relaxed);
        &self.on
    }

    /// Sends commands that write, and waits for the replicas.
    pub(crate) async fn write(&self, mut commands: Pipeline) -> Result<Vec<Value>> {
        let Some(begun_on) = &self.begun_on else { return self.on.write(commands, self.until).await };
        commands.cmd("INFO").arg("replication");
        let mut answers = self.on.write(commands, self.until).await?;
        let info = decoded(answers.pop().unwrap_or(Value::Nil));
        let on = timeline_of(&info.map_err(|error| error.with_outcome(Outcome::Unknown))?);
        self.is_same_timeline.store(on == *begun_on, Ordering::Relaxed);
        Ok(answers)
    }

    /// Runs a script that returns a number.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<i64> {
        let answer = self.write(call.into_pipeline()).await?.pop().unwrap_or(Value::Nil);
        self.on.grown.notify_waiters();
        // The script may have written.
        let number = decoded(answer).map_err(|error| error.with_outcome(Outcome::Unknown))?;
        if number == DONE {
            self.wrote();
        }
        Ok(number)
    }

    /// Notes that the last write has written something. The replicas that it has waited for also have all that was read
    /// before it, unless another timeline has begun.
    pub(crate) fn wrote(&self) {
        self.has_written.store(true, Ordering::Relaxed);
        if self.is_same_timeline.load(Ordering::Relaxed) {
            self.is_ahead.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the result of a call, once the replicas have what the result was decided from: it must not be about a
    /// write that a failover takes back. An error of the server is about no record, and neither is one that leaves open
    /// what was done, so these are returned at once.
    pub(crate) async fn settled<T>(&self, result: Result<T>) -> Result<T> {
        let is_about_none = |error: &Error| is_of_server(error) || error.outcome() == Outcome::Unknown;
        if !self.is_ahead.load(Ordering::Relaxed) || result.as_ref().is_err_and(is_about_none) {
            return result;
        }
        let outcome = match &result {
            Err(error) => error.outcome(),
            Ok(_) => Outcome::unknown_if(self.has_written.load(Ordering::Relaxed)),
        };
        self.settle().await.map_err(|error| error.with_outcome(outcome))?;
        result
    }

    /// Waits until the replicas have all that was read. Fails if that is not known.
    async fn settle(&self) -> Result<()> {
        // WAIT waits for writes of its own connection only, so this makes one.
        self.write(command("SET", &[&self.on.keys.of(WAITED), b""])).await?;
        if self.is_same_timeline.load(Ordering::Relaxed) { Ok(()) } else { Err(replaced()) }
    }
}

/// Returns the server's replication id: a server gets another one when it starts, when it takes over, and when it
/// follows another server. Watches need this beside the entries of the feed: an entry shows only that the server still
/// has what came before it, and a watch reads the record later.
pub(crate) async fn timeline(on: &Connections) -> Result<Timeline> {
    on.read_one(&command("INFO", &[b"replication"])).await.map(|info| timeline_of(&info))
}

fn timeline_of(info: &InfoDict) -> Timeline {
    // Another program that speaks the protocol may not have one.
    Timeline::new(info.get::<String>("master_replid").unwrap_or_default())
}

/// Makes a pipeline of one command with these arguments.
pub(crate) fn command(name: &str, arguments: &[&[u8]]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd(name).arg(arguments);
    pipeline
}

/// Returns whether one of the commands may write a row of [`LONG`] bytes.
fn has_long_row(commands: &Pipeline) -> bool {
    let mut arguments = commands.cmd_iter().flat_map(Cmd::args_iter);
    arguments.any(|argument| matches!(argument, Arg::Simple(bytes) if bytes.len() >= LONG))
}

/// Returns whether one of the commands may have written.
fn has_written(commands: &Pipeline, answers: &[Value]) -> bool {
    let mut answers = commands.cmd_iter().zip(answers);
    answers.any(|(command, answer)| is_write(command) && may_have_written(answer))
}

/// Returns the answers, or the first error among them. An error concerns only its own command; others of the pipeline
/// may have written.
fn checked(commands: &Pipeline, answers: Vec<Value>) -> Result<Vec<Value>> {
    let Some(error) = refusal(&answers) else { return Ok(answers) };
    Err(native(error).with_outcome(Outcome::unknown_if(has_written(commands, &answers))))
}

/// Returns the first error among answers.
fn refusal(answers: &[Value]) -> Option<RedisError> {
    answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(RedisError::from(error.clone())),
        // The answers of a transaction.
        Value::Array(answers) => refusal(answers),
        _ => None,
    })
}
