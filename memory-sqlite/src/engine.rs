//! The engine: one thread that writes, with group commit, and several that read.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use futures::FutureExt;
use memory_core::engine::{Access, Config, Engine, FeedPosition, Provider, Steps, Work, corrupt};
use memory_core::{Backfill, Durability, Error, ErrorKind, Health, MemoryProvider, Outcome, Result, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::config::{Location, SqliteConfig};
use crate::connection::{KEPT_IN_MEMORY, Log, Session};
use crate::error::native;
use crate::feed::{self, Feed};
use crate::statements::{self, NO_HISTORY, column, execute, first};
use crate::{paths, schema};

/// Agent memory in one SQLite file.
///
/// Open it by a path or with a [`SqliteConfig`], call [`init`](memory_core::MemoryProvider::init), and hold it as
/// `Arc<dyn MemoryProvider>`. Clones share the connections.
pub type SqliteMemory = Provider<SqliteEngine>;

/// Opens a [`SqliteMemory`] as a [`MemoryProvider`] object, for a program that chooses its engine at run time. The
/// generic provider is compiled in this crate, so the program need not compile it.
///
/// `InvalidInput` if the configuration is not valid.
pub fn open(config: SqliteConfig) -> Result<Arc<dyn MemoryProvider>> {
    Ok(Arc::new(SqliteMemory::open(config)?))
}

/// Maximum number of calls queued for the writer, and for the readers. A call that is dropped while it waits for a
/// place leaves nothing behind.
const QUEUE: usize = 1_024;
/// Maximum number of calls in one transaction.
const GROUP: usize = 512;
/// A transaction takes no further call once it has written this many bytes of records, or has taken this long.
const GROUP_BYTES: usize = 8 << 20;
const GROUP_TIME: Duration = Duration::from_millis(50);
/// Interval at which the feed is checked for commits of other programs while a watch is open.
const LOOK: Duration = Duration::from_millis(50);
/// After this time without a call the writer merges parts of the path index, and trims the feed.
const IDLE: Duration = Duration::from_secs(1);

/// The engine of [`SqliteMemory`].
#[derive(Debug)]
pub struct SqliteEngine {
    writer: Queue,
    /// `None` for a database in memory, whose only connection does everything.
    readers: Option<Readers>,
    /// The deadline of a call.
    deadline: Duration,
    /// Notifies watches of each commit that has a feed entry.
    commits: watch::Sender<()>,
    /// The writer's thread comes first.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The queues of the threads that read.
#[derive(Debug)]
struct Readers {
    calls: Queue,
    /// A separate thread answers health checks, however busy the others are.
    health: Queue,
}

/// The queue of one thread, or of several equal ones.
#[derive(Debug)]
struct Queue {
    commands: Sender<Waiting>,
    places: Arc<Semaphore>,
}

/// A command for a thread.
enum Command {
    /// Executed by the writer's thread only.
    Write(Box<dyn Write>),
    Read(Read),
    Close,
}

/// A command with its place in the queue.
type Waiting = (Command, OwnedSemaphorePermit);

/// A read that needs no argument.
type Look<T> = fn(&Session) -> Result<T>;

/// Work in a session, outside of the transactions of calls.
type Read = Box<dyn FnOnce(&mut Session) + Send>;

impl Engine for SqliteEngine {
    const NAME: &'static str = "sqlite";
    const BATCH: Option<(usize, usize)> = None;
    // A step of a restore is one transaction.
    const RESTORE: (usize, usize) = (10_000, 64 << 20);
    const OWN_THREADS: bool = true;
    const HISTORY: bool = true;
    const ERASES: bool = true;
    const VECTORS: bool = true;

    type Config = SqliteConfig;
    type Session = Session;

    async fn open(config: &SqliteConfig) -> Result<Self> {
        let (writer, commands) = Queue::new();
        let (for_writer, commits) = (config.clone(), watch::Sender::default());
        let feed = Feed::telling(commits.clone(), config.kept_changes);
        let open = move || {
            let (connection, _) = schema::open(&for_writer)?;
            // From here on `Session::begin` waits for locks, for each call until its own deadline.
            connection.busy_timeout(Duration::ZERO).map_err(native)?;
            // Set only after the migration, which may sort many rows.
            connection.execute_batch(KEPT_IN_MEMORY).map_err(native)?;
            Ok(Session::to_write(connection, feed))
        };
        let (location, log_waits) = (config.location.clone(), Arc::new(AtomicBool::new(false)));
        let waits = Arc::clone(&log_waits);
        let serve = move |session| match location {
            Location::Memory => write_until_closed(session, None, commands),
            Location::File(path) => write_until_closed(session, Some(Log::of(&path, waits)), commands),
        };
        let mut threads = vec![start("memory-sqlite-write", open, serve).await?];
        let readers = match &config.location {
            Location::Memory => None,
            Location::File(path) => {
                let (calls, of_calls) = Queue::new();
                let (health, of_health) = Queue::new();
                for commands in std::iter::repeat_n(of_calls, config.readers.get()).chain([of_health]) {
                    let (path, config, waits) = (path.clone(), config.clone(), Arc::clone(&log_waits));
                    let open = move || Session::to_read(&path, &config, waits);
                    let serve = move |session| read_until_closed(session, &commands);
                    threads.push(start("memory-sqlite-read", open, serve).await?);
                }
                Some(Readers { calls, health })
            }
        };
        let (deadline, threads) = (config.settings().deadline, Mutex::new(threads));
        Ok(Self { writer, readers, deadline, commits, threads })
    }

    async fn pending(&self) -> Result<Vec<Backfill>> {
        self.look(|session| schema::pending(&session.connection)).await
    }

    async fn backfill(&self) -> Result<()> {
        let work: Work<Session, (), _> = |session, ()| Box::pin(ready(schema::backfill(&session.connection)));
        self.run(Access::Write, self.until(), Arc::new(()), work).await
    }

    async fn secret(&self, proposed: &str) -> Result<String> {
        self.agree(statements::SECRET, proposed.to_owned()).await
    }

    async fn set_read_only(&self, is_read_only: bool) -> Result<()> {
        let (until, (reply, answer)) = (self.until(), oneshot::channel());
        // On the writer's connection, after all earlier commands.
        let set: Read = Box::new(move |session| drop(reply.send(session.set_read_only(is_read_only, until))));
        self.writer.send(Command::Read(set)).await?;
        answer.await.map_err(|_| gone().with_outcome(Outcome::Unknown))?
    }

    async fn is_read_only(&self) -> Result<bool> {
        self.look(|session| session.is_read_only()).await
    }

    async fn history_since(&self, proposed: Option<Timestamp>) -> Result<Option<Timestamp>> {
        let proposed = proposed.map_or_else(|| NO_HISTORY.to_owned(), |time| time.as_millis().to_string());
        let millis = match &*self.agree(statements::HISTORY_SINCE, proposed).await? {
            NO_HISTORY => return Ok(None),
            millis => millis.parse().map_err(|_| Error::corrupt("the beginning of the history is no time"))?,
        };
        Timestamp::from_millis(millis).map(Some).map_err(corrupt)
    }

    async fn hash_key(&self, proposed: &str) -> Result<String> {
        self.agree(statements::HASH_KEY, proposed.to_owned()).await
    }

    async fn retention(&self) -> Result<Option<String>> {
        self.look(|session| first(&session.connection, statements::RETENTION, [], |row| column(row, 0))).await
    }

    async fn set_retention(&self, rules: &str) -> Result<()> {
        let work: Work<Session, String, ()> = |session, rules| {
            let kept = execute(&session.connection, statements::SET_RETENTION, [rules]);
            Box::pin(ready(kept.map(drop)))
        };
        self.run(Access::Write, self.until(), Arc::new(rules.to_owned()), work).await
    }

    async fn vector_model(&self) -> Result<Option<String>> {
        self.look(|session| {
            first(&session.connection, statements::AGREEMENT, [statements::VECTOR_MODEL], |row| column(row, 0))
        })
        .await
    }

    async fn set_vector_model(&self, model: &str) -> Result<()> {
        let work: Work<Session, String, ()> = |session, model| {
            let entry = [statements::VECTOR_MODEL, model.as_str()];
            let kept = execute(&session.connection, statements::SET_AGREEMENT, entry);
            Box::pin(ready(kept.map(drop)))
        };
        self.run(Access::Write, self.until(), Arc::new(model.to_owned()), work).await
    }

    async fn close(&self) -> Result<()> {
        let mut threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // Readers can't checkpoint and remove the log, so the writing connection must close last.
        let reading = threads.split_off(threads.len().min(1));
        if let Some(readers) = &self.readers {
            readers.health.send(Command::Close).await?;
            for _ in 1..reading.len() {
                readers.calls.send(Command::Close).await?;
            }
        }
        join(reading).await?;
        self.writer.send(Command::Close).await?;
        join(threads).await
    }

    async fn health(&self) -> Result<Health> {
        let start = Instant::now();
        let work: Work<Session, (), Option<u32>> = |session, ()| {
            Box::pin(ready(first(&session.connection, statements::SCHEMA_VERSION, [], |row| column(row, 0))))
        };
        let queue = self.readers.as_ref().map_or(&self.writer, |readers| &readers.health);
        let schema_version = queue.read(self.until(), Arc::new(()), work).await?.unwrap_or_default();
        let durability = match self.readers {
            Some(_) => Durability::Durable,
            None => Durability::AtRisk { reason: "the database is in memory".into(), bound: None },
        };
        Ok(Health::new(Self::NAME, rusqlite::version(), schema_version, start.elapsed(), durability))
    }

    async fn run<A, T>(&self, access: Access, until: Instant, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        if access != Access::Write {
            let queue = self.readers.as_ref().map_or(&self.writer, |readers| &readers.calls);
            return queue.read(until, argument, work).await;
        }
        // A little less, so that the caller learns what it waited for.
        let until = until - until.saturating_duration_since(Instant::now()) / 10;
        let (waits, caller) = Caller::waiting(until);
        let (reply, answer) = oneshot::channel::<Result<T>>();
        let call = Call { argument, work, caller, result: None, has_erased: false, reply };
        self.writer.send(Command::Write(Box::new(call))).await?;
        let result = answer.await.map_err(|_| gone().with_outcome(Outcome::Unknown))?;
        drop(waits);
        result
    }

    async fn changed(&self, after: &FeedPosition, until: Instant) -> Result<()> {
        let (mut commits, after) = (self.commits.subscribe(), Arc::new(after.clone()));
        let is_new: Work<Session, FeedPosition, bool> = |session, after| {
            let newest = feed::newest(&session.connection);
            Box::pin(ready(newest.map(|newest| newest != *after)))
        };
        while Instant::now() < until {
            if self.run(Access::Read, self.until(), Arc::clone(&after), is_new).await? {
                break;
            }
            // Only this provider writes to a database in memory. After the pause the feed is checked in any case.
            let left = until.saturating_duration_since(Instant::now());
            let pause = if self.readers.is_some() { LOOK.min(left) } else { left };
            let _ = tokio::time::timeout(pause, commits.changed()).await;
        }
        Ok(())
    }
}

impl SqliteEngine {
    /// Reads what needs no argument.
    async fn look<T: Send + 'static>(&self, read: Look<T>) -> Result<T> {
        let work: Work<Session, Look<T>, T> = |session, read| Box::pin(ready(read(session)));
        self.run(Access::ReadLatest, self.until(), Arc::new(read), work).await
    }

    /// Stores a text under a name unless there is one, and returns the stored one. Writes nothing if there is one.
    async fn agree(&self, name: &'static str, proposed: String) -> Result<String> {
        let read: Work<Session, (&'static str, String), Option<String>> = |session, (name, _)| {
            Box::pin(ready(first(&session.connection, statements::AGREEMENT, [name], |row| column(row, 0))))
        };
        let keep: Work<Session, (&'static str, String), Option<String>> = |session, (name, proposed)| {
            let kept = first(&session.connection, statements::AGREE, [*name, proposed.as_str()], |row| column(row, 0));
            Box::pin(ready(kept))
        };
        let (until, argument) = (self.until(), Arc::new((name, proposed)));
        let kept = match self.run(Access::Read, until, Arc::clone(&argument), read).await? {
            None => self.run(Access::Write, until, argument, keep).await?,
            kept => kept,
        };
        kept.ok_or_else(|| Error::corrupt("what was agreed on is gone"))
    }

    /// Returns the deadline of a call that begins now.
    fn until(&self) -> Instant {
        Instant::now() + self.deadline
    }
}

impl Queue {
    fn new() -> (Self, Receiver<Waiting>) {
        let (sender, commands) = crossbeam_channel::unbounded();
        (Self { commands: sender, places: Arc::new(Semaphore::new(QUEUE)) }, commands)
    }

    /// Sends a command once there is a place in the queue.
    async fn send(&self, command: Command) -> Result<()> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| gone())?;
        self.commands.send((command, place)).map_err(|_| gone())
    }

    /// Runs work that reads.
    async fn read<A, T>(&self, until: Instant, argument: Arc<A>, work: Work<Session, A, T>) -> Result<T>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (waits, caller) = Caller::waiting(until);
        let (reply, answer) = oneshot::channel::<Result<T>>();
        let read: Read = Box::new(move |session| {
            let result = if caller.has_gone() {
                Err(late())
            } else {
                session.in_one_view(move || caller.has_gone(), |session| finish(work(session, &argument)))
            };
            // Fails if the call was dropped.
            let _ = reply.send(result);
        });
        self.send(Command::Read(read)).await?;
        let result = answer.await.map_err(|_| gone())?;
        drop(waits);
        result
    }
}

/// A call that writes. It can be rerun after its transaction was rolled back.
trait Write: Send {
    /// Runs the call and keeps its result. `Err` if it failed after it had written.
    fn run(&mut self, session: &mut Session) -> Result<()>;
    /// Replies to the caller: with the kept result, or with the reason why it was not committed.
    fn answer(self: Box<Self>, committed: Result<()>);
    /// Returns whether the call erased anything in its last run.
    fn has_erased(&self) -> bool;
    /// Returns the caller that waits.
    fn caller(&self) -> &Caller;
}

/// A caller that waits for a reply, and its deadline.
#[derive(Debug, Clone)]
struct Caller {
    until: Instant,
    waits: Weak<()>,
}

impl Caller {
    /// Makes a caller that counts as waiting as long as the first value is kept.
    fn waiting(until: Instant) -> (Arc<()>, Self) {
        let waits = Arc::new(());
        let caller = Self { until, waits: Arc::downgrade(&waits) };
        (waits, caller)
    }

    /// Returns whether the caller no longer waits.
    fn has_gone(&self) -> bool {
        self.waits.strong_count() == 0 || Instant::now() >= self.until
    }
}

struct Call<A, T> {
    argument: Arc<A>,
    work: Work<Session, A, T>,
    caller: Caller,
    result: Option<Result<T>>,
    has_erased: bool,
    reply: oneshot::Sender<Result<T>>,
}

impl<A: Send + Sync, T: Send> Write for Call<A, T> {
    fn run(&mut self, session: &mut Session) -> Result<()> {
        let (before, begun, caller) = (session.connection.total_changes(), Instant::now(), self.caller.clone());
        // A short call runs to its end, because interrupting it would roll back the whole group.
        let is_over = move || begun.elapsed() >= GROUP_TIME && caller.has_gone();
        let have_others_erased = std::mem::take(&mut session.has_erased);
        let result = session.unless_over(is_over, |session| finish((self.work)(session, &self.argument)));
        self.has_erased = session.has_erased;
        session.has_erased |= have_others_erased;
        let has_written = result.is_err() && session.has_written_since(before);
        self.result = Some(result);
        if has_written { Err(given_up()) } else { Ok(()) }
    }

    fn answer(self: Box<Self>, committed: Result<()>) {
        let result = match (committed, self.result) {
            // A failed call has written nothing, or its writes were rolled back.
            (_, Some(Err(error))) => Err(error.with_outcome(Outcome::NotDone)),
            (Err(error), _) => Err(error),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(given_up()),
        };
        let _ = self.reply.send(result);
    }

    fn has_erased(&self) -> bool {
        self.has_erased
    }

    fn caller(&self) -> &Caller {
        &self.caller
    }
}

/// Runs all steps of a piece of work; none of them waits in this engine.
fn finish<T>(steps: Steps<'_, T>) -> Result<T> {
    let waits = || Error::new(ErrorKind::Unexpected, "a step waits on a thread of the database");
    steps.now_or_never().unwrap_or_else(|| Err(waits()))
}

/// The loop of a reading thread. Ends at `Close`, or once the engine is gone and the queue is empty.
fn read_until_closed(mut session: Session, commands: &Receiver<Waiting>) {
    while let Ok((Command::Read(read), _place)) = commands.recv() {
        read(&mut session);
    }
}

/// The loop of the writer's thread. Ends at `Close`, or once the engine is gone and the queue is empty.
fn write_until_closed(mut session: Session, mut log: Option<Log>, commands: Receiver<Waiting>) {
    let mut group = VecDeque::with_capacity(GROUP);
    let mut patience = IDLE;
    if let Some(log) = &mut log {
        // Before any call, so that a repeated erasure is complete when it returns. What can't be done now is tried
        // again later.
        let _ = log.go_on(&session.connection);
    }
    let mut rows_when_whole = paths::last_row(&session.connection).unwrap_or_default();
    loop {
        let first = match commands.recv_timeout(patience) {
            Ok(first) => first,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let begun = Instant::now();
                patience = match tidy(&mut session, &mut log, &mut rows_when_whole) {
                    // Rests as long as the work took: SQLite has no queue for the processes that wait for the file.
                    Ok(false) => begun.elapsed(),
                    // Another program writes, or erased data can't be removed from the file yet.
                    Err(error) if error.is_retryable() => IDLE,
                    // Failed work is tried again after the next call.
                    Ok(true) | Err(_) => Duration::MAX,
                };
                continue;
            }
        };
        patience = IDLE;
        let mut next = Some(first);
        while let Some((command, _)) = next.take() {
            match command {
                Command::Write(call) => group.push_back(call),
                Command::Read(read) => {
                    // A read sees all writes that were queued before it.
                    write_group(&mut session, &mut log, &mut group);
                    read(&mut session);
                }
                Command::Close => return write_group(&mut session, &mut log, &mut group),
            }
            if group.len() < GROUP {
                next = commands.try_recv().ok();
            }
        }
        write_group(&mut session, &mut log, &mut group);
        if let Some(log) = &mut log {
            log.keep_short(&session.connection);
        }
    }
}

/// Does a slice of the work for idle times; returns `true` if nothing is left.
fn tidy(session: &mut Session, log: &mut Option<Log>, rows_when_whole: &mut i64) -> Result<bool> {
    let kept = session.feed.kept();
    let is_tidy = paths::merge(&session.connection, rows_when_whole)
        .and_then(|is_merged| Ok(is_merged && feed::trim(session, kept)?));
    if let Ok(false) = is_tidy {
        return is_tidy;
    }
    // Erased data is cleaned up even if the rest fails.
    match log.as_mut().map_or(Ok(true), |log| log.go_on(&session.connection)) {
        Ok(true) => is_tidy,
        left => left,
    }
}

/// Runs calls in their order, as many in each transaction as its limits allow. If one fails, each half of the group
/// gets a transaction of its own, so that a call that fails or is given up costs the others few flushes.
fn write_group(session: &mut Session, log: &mut Option<Log>, calls: &mut VecDeque<Box<dyn Write>>) {
    while let Some(until) = calls.iter().map(|call| call.caller().until).min() {
        if let Err(error) = session.begin(until) {
            // Calls that have time left go on waiting for the file.
            let is_locked = error.kind() == ErrorKind::Timeout;
            let (refused, left) =
                std::mem::take(calls).into_iter().partition(|call| !is_locked || call.caller().has_gone());
            *calls = left;
            answer(refused, &Err(error));
            continue;
        }
        let mut group: VecDeque<Box<dyn Write>> = VecDeque::new();
        let begun = Instant::now();
        let written = session.in_transaction(|session| {
            // The first call runs even if beginning the transaction took long.
            while group.is_empty() || session.bytes < GROUP_BYTES && begun.elapsed() < GROUP_TIME {
                match calls.pop_front() {
                    // A call that nobody waits for any more never begins, even if it is already in the group.
                    Some(call) if call.caller().has_gone() => call.answer(Err(late())),
                    Some(mut call) => {
                        let result = call.run(session);
                        group.push_back(call);
                        result?;
                    }
                    None => break,
                }
            }
            Ok(())
        });
        if session.has_erased
            && written.is_ok()
            && let Some(log) = log
        {
            // Erased data is cleaned up before any caller of an erasure is answered. The other callers need not wait
            // for that.
            let (erasing, others): (VecDeque<_>, VecDeque<_>) = group.into_iter().partition(|call| call.has_erased());
            answer(others, &written);
            log.forget(&session.connection);
            group = erasing;
        }
        match &written {
            Err(error) if group.len() > 1 && error.outcome() == Outcome::NotDone => {
                let mut rest = group.split_off(group.len() / 2);
                write_group(session, log, &mut group);
                write_group(session, log, &mut rest);
            }
            // If no call has run, all calls have failed.
            Err(_) if group.is_empty() => answer(std::mem::take(calls), &written),
            _ => answer(group, &written),
        }
        session.give_way();
    }
}

fn answer(calls: VecDeque<Box<dyn Write>>, committed: &Result<()>) {
    calls.into_iter().for_each(|call| call.answer(committed.clone()));
}

/// Starts a thread that opens a session and serves it; returns once the session is open.
async fn start(
    name: &str,
    open: impl FnOnce() -> Result<Session> + Send + 'static,
    serve: impl FnOnce(Session) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let (ready, is_ready) = oneshot::channel();
    let work = move || match open() {
        // If nobody waits any more, the queue is closed and there is nothing to serve.
        Ok(session) => ready.send(Ok(())).map_or((), |()| serve(session)),
        Err(error) => drop(ready.send(Err(error))),
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        Error::new(ErrorKind::Unavailable, "a thread for the database can't be started").with_source(error)
    })?;
    is_ready.await.map_err(|_| gone())??;
    Ok(started)
}

/// Waits until the threads have ended.
async fn join(threads: Vec<JoinHandle<()>>) -> Result<()> {
    let joined = tokio::task::spawn_blocking(|| threads.into_iter().try_for_each(JoinHandle::join)).await;
    if let Ok(Ok(())) = joined { Ok(()) } else { Err(gone()) }
}

fn late() -> Error {
    Error::new(ErrorKind::Timeout, "the call was still waiting for its turn at its deadline").retryable()
}

fn given_up() -> Error {
    Error::new(ErrorKind::Unexpected, "the call was given up")
}

fn gone() -> Error {
    Error::new(ErrorKind::Unexpected, "a thread of the database has ended")
}
