//! Calls to the server: what is sent, and what the answers mean.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use memory_core::engine::Retry;
use memory_core::{Error, ErrorKind, Outcome, Result, TextIndex};
use redis::{Arg, Cmd, Pipeline, RedisError, Value};
use tokio::sync::Semaphore;

use crate::config::{RedisConfig, Topology, Wait};
use crate::error::{is_passing, is_read_only, native, native_reply};
use crate::link::Link;
use crate::statements::{Keys, is_write, load_scripts, name_of};

/// How many sessions walk or search at the same time.
const RECALLS: usize = 32;

/// A page of rows of at least this many bytes is not read at once.
const LONG: usize = 1 << 20;

/// The connections of an open provider.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) keys: Keys,
    pub(crate) text_index: TextIndex,
    /// Bounds the walks and searches under way: the server answers them one after the other anyway, and answers that wait to be
    /// read take memory.
    pub(crate) recalls: Arc<Semaphore>,
    /// Whether a memory was met whose words are indexed. Never goes back.
    pub(crate) has_ledger_text: AtomicBool,
    /// Whether it is known that rows may be long. Never goes back.
    pub(crate) has_long_rows: AtomicBool,
    /// What writes wait for.
    pub(crate) wait: Option<Wait>,
    /// Whether another server can become the primary.
    pub(crate) fails_over: bool,
    link: Arc<Link>,
    /// The same, unless writes wait for replicas: then nothing else has to wait behind them.
    writes: Arc<Link>,
    patience: Duration,
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
            text_index: config.text_index,
            recalls: Arc::new(Semaphore::new(RECALLS)),
            has_ledger_text: AtomicBool::new(config.text_index == TextIndex::All),
            has_long_rows: AtomicBool::new(false),
            wait: config.wait,
            fails_over: !matches!(config.topology, Topology::Server(_)),
            link,
            writes,
            patience: config.connect_timeout,
        })
    }

    /// Sends commands that only read, in one piece, and gives the answer to each.
    pub(crate) async fn read(&self, commands: &Pipeline) -> Result<Vec<Value>> {
        let answers = self.send(&self.link, commands).await;
        // What reads has done nothing, whatever has become of it.
        answers.map_err(|error| error.with_outcome(Outcome::NotDone))
    }

    /// The same for the answer to the last command, which is that of a transaction where one ends there.
    pub(crate) async fn read_one(&self, commands: &Pipeline) -> Result<Value> {
        self.read(commands).await?.pop().ok_or_else(unexpected_answer)
    }

    /// Sends commands that write, in one piece, gives the answer to each, and waits for the replicas.
    pub(crate) async fn write(&self, mut commands: Pipeline) -> Result<Vec<Value>> {
        if has_long_row(&commands) {
            let tell = command("SET", &[&self.keys.long(), b"1"]);
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

    /// Closes the connections.
    pub(crate) fn close(&self) {
        self.link.close();
        self.writes.close();
    }

    /// Tries work that can be done twice, until the time to reach a server is over.
    pub(crate) async fn retry<T, F: Future<Output = Result<T>>>(&self, work: impl Fn() -> F) -> Result<T> {
        let retry = Retry::until(Instant::now() + self.patience).repeatable();
        retry.run(|error| self.is_temporary(error), |_| work()).await
    }

    /// Whether the same call can succeed soon.
    pub(crate) fn is_temporary(&self, error: &Error) -> bool {
        // Where nothing fails over, a read-only server stays one.
        is_passing(error) && (self.fails_over || !is_read_only(error))
    }

    async fn send(&self, link: &Link, commands: &Pipeline) -> Result<Vec<Value>> {
        let mut answers = link.send(commands).await?;
        if answers.iter().any(is_unknown_script) {
            // A server that is new, was flushed or has taken over does not know the scripts yet. What it has carried out is not sent
            // again.
            let earlier = if has_written(commands, &answers) { Outcome::Unknown } else { Outcome::NotDone };
            let mut rest = Pipeline::new();
            let (mut places, load) = (Vec::new(), load_scripts());
            for (place, command) in commands.cmd_iter().enumerate() {
                if is_unknown_script(&answers[place]) || name_of(command) == b"WAIT" {
                    rest.add_command(command.clone());
                    places.push(place);
                }
            }
            let sent = async {
                checked(&load, link.send(&load).await?)?;
                link.send(&rest).await
            };
            for (place, answer) in places.into_iter().zip(sent.await.map_err(|error| error.after(earlier))?) {
                answers[place] = answer;
            }
        }
        checked(commands, answers)
    }
}

/// A pipeline of one command with these arguments.
pub(crate) fn command(name: &str, arguments: &[&[u8]]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd(name).arg(arguments);
    pipeline
}

/// What the answer of a command or script of this crate never is.
pub(crate) fn unexpected_answer() -> Error {
    Error::new(ErrorKind::Unexpected, "the server gave an answer of another form than asked for")
}

/// The answers in an answer.
pub(crate) fn array(answer: Value) -> Result<Vec<Value>> {
    if let Value::Array(answers) = answer { Ok(answers) } else { Err(unexpected_answer()) }
}

/// The bytes of an answer.
pub(crate) fn bytes(answer: Value) -> Result<Vec<u8>> {
    if let Value::BulkString(bytes) = answer { Ok(bytes) } else { Err(unexpected_answer()) }
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

/// Whether one of the commands may write a row of [`LONG`] bytes.
fn has_long_row(commands: &Pipeline) -> bool {
    let mut arguments = commands.cmd_iter().flat_map(Cmd::args_iter);
    arguments.any(|argument| matches!(argument, Arg::Simple(bytes) if bytes.len() >= LONG))
}

fn is_unknown_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// Whether one of the commands was carried out that write.
fn has_written(commands: &Pipeline, answers: &[Value]) -> bool {
    let mut answers = commands.cmd_iter().zip(answers);
    answers.any(|(command, answer)| is_write(command) && !matches!(answer, Value::ServerError(_)))
}

/// The answers, or the first error among them. It decides about its own command only, and others of the pipeline may have written.
fn checked(commands: &Pipeline, answers: Vec<Value>) -> Result<Vec<Value>> {
    if let Some(error) = refusal(&answers) {
        let outcome = if has_written(commands, &answers) { Outcome::Unknown } else { Outcome::NotDone };
        return Err(native_reply(error).after(outcome));
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
