//! The threads that own the connections: one writes, with group commit, and a few read.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use memory_core::{Error, ErrorKind, Outcome, Result};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::config::{Location, SqliteConfig};
use crate::error::native;
use crate::migrate;
use crate::provider::Writing;
use crate::statements;

/// How many calls can wait for the writer before `write` itself waits.
const QUEUE: usize = 1_024;
/// How many calls travel in one transaction at most.
const GROUP: usize = 512;
/// How many statements each connection keeps prepared: more than there are.
const STATEMENTS: usize = 64;
/// After how many steps of its virtual machine SQLite looks whether anybody waits for the answer: well below a millisecond.
const STEPS: i32 = 10_000;
/// How much of the file each connection keeps in memory, in KiB: what a filtered recall of scattered rows looks at.
const CACHE_KIB: i64 = 8 << 10;
/// The bytes of a page of a new file: twice SQLite's own, of which four rows of 880 bytes leave a seventh empty, as small rows are not
/// divided among pages.
const PAGE_BYTES: i64 = 8 << 10;
/// After how many pages the log is put into the file: four times SQLite's own, so that an import in random order, which
/// writes the same pages of its indexes again and again, puts each there less often.
const LOG_PAGES: i64 = 4_000;
/// After how long without a call the writer merges what many writes have left of the path index.
const IDLE: Duration = Duration::from_secs(1);
/// How many pages of the path index are merged before the writer looks for calls again: some milliseconds.
const MERGED_PAGES: i64 = 64;
/// The part of the ledger that has to be new before all of the path index is merged into one: an eighth.
const GROWTH: i64 = 8;
/// How long to wait before trying again what SQLite refuses without asking its busy handler.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// An open database.
#[derive(Debug)]
pub(crate) struct Threads {
    writer: Sender<Waiting>,
    /// For calls that wait for the writer.
    places: Arc<Semaphore>,
    /// `None` for a database in memory, whose one connection does both.
    readers: Option<Sender<Read>>,
    /// The writer's comes first.
    threads: Vec<thread::JoinHandle<()>>,
}

/// What is asked of the writer's thread.
enum Command {
    Write(Box<dyn Write>),
    Read(Read),
}

/// A command, and its place in the queue.
type Waiting = (Command, OwnedSemaphorePermit);

/// Something to read on a connection.
type Read = Box<dyn FnOnce(&mut Connection) + Send>;

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Write(_) => "Write",
            Self::Read(_) => "Read",
        })
    }
}

/// A call that writes. It can be run again after its transaction was rolled back.
trait Write: Send {
    /// Runs the call and keeps its result. `Err` when it failed after it had written.
    fn run(&mut self, writing: &mut Writing<'_>) -> Result<()>;
    /// Answers the caller: with the kept result, or with why it was not committed.
    fn answer(self: Box<Self>, committed: Result<()>);
    /// Whether nobody waits for the answer any more.
    fn is_abandoned(&self) -> bool;
}

impl Threads {
    /// Opens and migrates the database, and starts its threads.
    pub(crate) async fn start(config: &SqliteConfig) -> Result<Self> {
        let (writer, commands) = crossbeam_channel::unbounded();
        let for_writer = config.clone();
        let open = move || open_to_write(&for_writer);
        let mut threads =
            vec![start("memory-sqlite-write", open, |connection| write_until_closed(connection, commands)).await?];
        let readers = match &config.location {
            Location::Memory => None,
            Location::File(path) => {
                let (readers, jobs) = crossbeam_channel::unbounded::<Read>();
                for _ in 0..config.readers.get() {
                    let (path, deadline, jobs) = (path.clone(), config.deadline, jobs.clone());
                    let open = move || open_to_read(&path, deadline);
                    let serve = move |mut connection| jobs.iter().for_each(|read| read(&mut connection));
                    threads.push(start("memory-sqlite-read", open, serve).await?);
                }
                Some(readers)
            }
        };
        Ok(Self { writer, places: Arc::new(Semaphore::new(QUEUE)), readers, threads })
    }

    /// Runs `work` in a transaction that it shares with the calls that wait at the same time, and answers when that is
    /// durable. `work` may be run again after a rollback; when it fails with an error that the contract knows, it must not
    /// have written anything, or everything around it is done again without it.
    pub(crate) async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnMut(&mut Writing<'_>) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let call = Call { work, result: None, reply };
        self.command(Command::Write(Box::new(call))).await?;
        answer.await.map_err(|_| gone().with_outcome(Outcome::Unknown))?
    }

    /// Runs `work` on a connection that reads, with one view of the database from beginning to end. It ends early when nobody
    /// waits for it any more.
    pub(crate) async fn read<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel::<Result<T>>();
        let waiting = Arc::new(());
        let waits = Arc::downgrade(&waiting);
        let read: Read = Box::new(move |connection| {
            let is_abandoned = move || waits.strong_count() == 0;
            // Nobody waits any more when the call was dropped.
            let _ = reply.send(in_one_view(connection, is_abandoned, work));
        });
        match &self.readers {
            Some(readers) => readers.send(read).map_err(|_| gone())?,
            None => self.command(Command::Read(read)).await?,
        }
        let result = answer.await.map_err(|_| gone())?;
        drop(waiting);
        result
    }

    /// Asks something of the writer's thread, as soon as there is a place in its queue.
    async fn command(&self, command: Command) -> Result<()> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| gone())?;
        self.writer.send((command, place)).map_err(|_| gone())
    }

    /// Ends the threads when they have done what they were asked.
    pub(crate) async fn stop(self) -> Result<()> {
        let Self { writer, readers, mut threads, .. } = self;
        let joined = tokio::task::spawn_blocking(move || {
            // Readers can't put the log into the file and remove it, so the connection that writes is the last to close.
            drop(readers);
            threads.drain(1..).try_for_each(thread::JoinHandle::join)?;
            drop(writer);
            threads.into_iter().try_for_each(thread::JoinHandle::join)
        });
        match joined.await {
            Ok(Ok(())) => Ok(()),
            _ => Err(gone()),
        }
    }
}

struct Call<T, W> {
    work: W,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, W> Write for Call<T, W>
where
    T: Send,
    W: FnMut(&mut Writing<'_>) -> Result<T> + Send,
{
    fn run(&mut self, writing: &mut Writing<'_>) -> Result<()> {
        let mark = writing.mark();
        let result = (self.work)(writing);
        let wrote = result.is_err() && writing.has_written_since(mark);
        self.result = Some(result);
        if wrote { Err(abandoned()) } else { Ok(()) }
    }

    fn answer(self: Box<Self>, committed: Result<()>) {
        let result = match (committed, self.result) {
            // What failed has written nothing, whatever became of the transaction.
            (_, Some(Err(error))) => Err(error),
            (Err(error), _) => Err(error),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(abandoned()),
        };
        let _ = self.reply.send(result);
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

/// The connection that writes, with the schema in place.
fn open_to_write(config: &SqliteConfig) -> Result<Connection> {
    let mut connection = connect(&config.location, config.deadline)?;
    migrate::run(&mut connection)?;
    if Writing::new(&connection)?.lacks_text_index(config.text_index) {
        let transaction = begin(&mut connection)?;
        Writing::new(&transaction)?.set_up_text_index(config.text_index)?;
        transaction.commit().map_err(native)?;
    }
    Ok(connection)
}

/// A connection that can write, with the settings that durability needs.
pub(crate) fn connect(location: &Location, deadline: Duration) -> Result<Connection> {
    let connection = match location {
        Location::Memory => Connection::open_in_memory().map_err(native)?,
        Location::File(path) => {
            check_path(path)?;
            make_folder_of(path)?;
            open_file(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?
        }
    };
    prepare(&connection, deadline)?;
    // A file that has pages already keeps their size.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(native)?;
    let until = Instant::now() + deadline;
    // Switching to WAL needs the file for a moment, and SQLite does not wait for it by itself.
    while let Err(error) = connection.pragma_update(None, "journal_mode", "wal").map_err(native) {
        if !error.is_retryable() || Instant::now() >= until {
            return Err(error);
        }
        thread::sleep(RETRY_PAUSE);
    }
    connection.pragma_update(None, "synchronous", "full").map_err(native)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES).map_err(native)?;
    Ok(connection)
}

fn open_to_read(path: &Path, deadline: Duration) -> Result<Connection> {
    let connection = open_file(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    prepare(&connection, deadline)?;
    Ok(connection)
}

/// A connection on a file, whatever its name: SQLite would read one that begins with `file:` as a URL with settings.
pub(crate) fn open_file(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let path = if path.is_relative() { &Path::new(".").join(path) } else { path };
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(native)
}

fn prepare(connection: &Connection, deadline: Duration) -> Result<()> {
    // A little less, so that the caller hears what it waited for.
    connection.busy_timeout(deadline.mul_f32(0.9)).map_err(native)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    rusqlite::vtab::array::load_module(connection).map_err(native)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(native)
}

/// Whether the path can be that of a database.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    // To SQLite both are databases that each connection has for itself.
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(Error::invalid("the path names no file; SqliteConfig::in_memory() and sqlite::memory: need none"));
    }
    if path.is_dir() { Err(Error::invalid("the path is a folder, not a database file")) } else { Ok(()) }
}

fn make_folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::fs::create_dir_all(folder).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the folder of the database can't be made").with_source(error)
        }),
        _ => Ok(()),
    }
}

/// The loop of the writer's thread. Ends when the provider is gone and the queue is empty.
fn write_until_closed(mut connection: Connection, commands: Receiver<Waiting>) {
    let mut group: Vec<Box<dyn Write>> = Vec::with_capacity(GROUP);
    let mut patience = IDLE;
    let mut rows_when_whole = last_row(&connection).unwrap_or_default();
    loop {
        let first = match commands.recv_timeout(patience) {
            Ok(first) => first,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let begun = Instant::now();
                // What could not be merged is tried again after the next call.
                let is_merged = merge_paths(&connection, &mut rows_when_whole).unwrap_or(true);
                // A rest as long as the work: SQLite keeps no queue of the processes that wait for the file.
                patience = if is_merged { Duration::MAX } else { begun.elapsed() };
                continue;
            }
        };
        patience = IDLE;
        let mut next = Some(first);
        while let Some((command, _)) = next.take() {
            match command {
                Command::Write(call) if !call.is_abandoned() => group.push(call),
                Command::Write(_) => {}
                Command::Read(read) => {
                    // A read sees what was asked before it.
                    write_group(&mut connection, &mut group);
                    read(&mut connection);
                }
            }
            if group.len() < GROUP {
                next = commands.try_recv().ok();
            }
        }
        write_group(&mut connection, &mut group);
    }
}

/// Merges some of the path index, whose parts a recall has to look into one by one; `true` when there is nothing left to merge.
///
/// Parts of about the same size become one. What that leaves becomes one once the ledger has grown enough, so that each row is merged
/// with all others a few times only.
fn merge_paths(connection: &Connection, rows_when_whole: &mut i64) -> Result<bool> {
    if merge_pages(connection, MERGED_PAGES)? {
        return Ok(false);
    }
    let rows = last_row(connection)?;
    if rows - *rows_when_whole <= rows / GROWTH {
        return Ok(true);
    }
    // A negative number puts all parts beside each other, and merges go on from there.
    let has_begun = merge_pages(connection, -MERGED_PAGES)?;
    *rows_when_whole = rows;
    Ok(!has_begun)
}

/// Whether there was anything to merge.
fn merge_pages(connection: &Connection, pages: i64) -> Result<bool> {
    let before = connection.total_changes();
    statements::execute(connection, statements::MERGE_PATHS, [pages])?;
    // The command itself counts as one.
    Ok(connection.total_changes() - before > 1)
}

/// The number of the row that was stored last; 0 when there is none.
fn last_row(connection: &Connection) -> Result<i64> {
    Ok(statements::first(connection, statements::LAST_SEQ, [], |row| statements::column(row, 0))?.unwrap_or_default())
}

/// Runs the calls in one transaction; if that fails, each in one of its own.
fn write_group(connection: &mut Connection, group: &mut Vec<Box<dyn Write>>) {
    if group.is_empty() {
        return;
    }
    let written = begin(connection).map(|transaction| write_in(transaction, group));
    match written {
        Ok(Ok(())) => group.drain(..).for_each(|call| call.answer(Ok(()))),
        Ok(Err(error)) if group.len() > 1 && error.outcome() == Outcome::NotDone => {
            for call in std::mem::take(group) {
                write_group(connection, &mut vec![call]);
            }
        }
        Ok(Err(error)) | Err(error) => group.drain(..).for_each(|call| call.answer(Err(error.clone()))),
    }
}

fn write_in(transaction: Transaction<'_>, calls: &mut [Box<dyn Write>]) -> Result<()> {
    let mut writing = Writing::new(&transaction)?;
    for call in calls {
        call.run(&mut writing)?;
    }
    writing.finish()?;
    transaction.commit().map_err(native).map_err(|error| match error.kind() {
        // A commit that could not be flushed may be on the disk all the same; every other failure rolls back.
        ErrorKind::Unavailable if !error.is_retryable() => error.with_outcome(Outcome::Unknown),
        _ => error,
    })
}

/// Begins with the right to write, so that no later statement can find the database locked.
fn begin(connection: &mut Connection) -> Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(native)
}

fn in_one_view<T>(
    connection: &mut Connection,
    is_abandoned: impl FnMut() -> bool + Send + 'static,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    connection.progress_handler(STEPS, Some(is_abandoned)).map_err(native)?;
    let result = connection.transaction().map_err(native).and_then(|view| {
        let result = work(&view);
        // Nothing was written; ending the view can't lose anything.
        let _ = view.finish();
        result
    });
    connection.progress_handler(0, None::<fn() -> bool>).map_err(native)?;
    result
}

/// Starts a thread that opens a connection and then serves it, and waits until it is open.
async fn start(
    name: &str,
    open: impl FnOnce() -> Result<Connection> + Send + 'static,
    serve: impl FnOnce(Connection) + Send + 'static,
) -> Result<thread::JoinHandle<()>> {
    let (ready, is_ready) = oneshot::channel();
    let work = move || match open() {
        // When nobody waits any more, the queue is closed and there is nothing to serve.
        Ok(connection) => ready.send(Ok(())).map_or((), |()| serve(connection)),
        Err(error) => drop(ready.send(Err(error))),
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        Error::new(ErrorKind::Unavailable, "a thread for the database can't be started").with_source(error)
    })?;
    is_ready.await.map_err(|_| gone())??;
    Ok(started)
}

fn abandoned() -> Error {
    Error::new(ErrorKind::Unexpected, "the call was given up")
}

fn gone() -> Error {
    Error::new(ErrorKind::Unexpected, "a thread of the database has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_merged_only_after_the_ledger_has_grown() {
        let mut connection = Connection::open_in_memory().expect("a database");
        migrate::run(&mut connection).expect("a schema");
        let store = |rows: std::ops::Range<i64>| {
            connection.execute_batch("BEGIN").expect("a transaction");
            for row in rows {
                let memory = "INSERT INTO memories (id, slot, space_id, status, trigger, metadata, revision)
                    VALUES (CAST(?1 AS BLOB), ?1, 'a', 'completed', '1', '{}', 1)";
                connection.execute(memory, [row]).expect("a row");
                connection.execute(statements::INSERT_PATHS, (row, "e0a")).expect("its path");
            }
            connection.execute_batch("COMMIT").expect("a commit");
        };
        let parts = || {
            let count = "SELECT count(DISTINCT segid) FROM memory_paths_idx";
            connection.query_row(count, [], |row| row.get::<_, i64>(0)).expect("a number")
        };
        let mut rows_when_whole = 0;
        let mut merge = || while !merge_paths(&connection, &mut rows_when_whole).expect("merges") {};
        store(0..5_000);
        store(5_000..10_000);
        merge();
        assert_eq!(parts(), 1);
        store(10_000..10_100);
        merge();
        assert_eq!(parts(), 2, "a hundredth is not worth it");
        store(10_100..11_000);
        merge();
        store(11_000..12_000);
        merge();
        assert_eq!(parts(), 1);
    }
}
