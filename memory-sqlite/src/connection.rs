//! Sessions: connections with their settings, and the transactions that calls share.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memory_core::engine::Config;
use memory_core::{Error, ErrorKind, Outcome, Result, Timestamp};
use migrations::{READ_ONLY, WRITER};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::config::{Location, SqliteConfig};
use crate::error::native;
use crate::feed::Feed;
use crate::marks::{self, UNCLEAN, UNCLEAN_PATHS};
use crate::paths::{self, PathEntry};
use crate::statements::{self, column, execute, first};

/// Number of prepared statements that each connection caches: more than there are.
const STATEMENTS: usize = 160;
/// Number of steps of SQLite's virtual machine between two checks whether the caller still waits: about thirty rows,
/// which may be large.
const STEPS: i32 = 1_000;
/// Page cache of each connection, in KiB: enough for a filtered recall of scattered rows.
const CACHE_KIB: i64 = 8 << 10;
/// Page size of a new file, in bytes: twice SQLite's default, at which four rows of 880 bytes leave a seventh of a page
/// empty, because small rows are not split across pages.
const PAGE_BYTES: i64 = 8 << 10;
/// Number of log pages at which SQLite checkpoints: four times its default, so that an import in random order, which
/// rewrites the same index pages again and again, checkpoints each less often.
const LOG_PAGES: i64 = 4_000;
/// Log size from which on the writer waits for readers so that the log can restart, and to which SQLite then truncates
/// it: twice its usual size without readers. `LOG_GROWTH` is how much it must grow before the next attempt.
const LOG_BYTES: u64 = 2 * (LOG_PAGES * PAGE_BYTES) as u64;
const LOG_GROWTH: u64 = LOG_BYTES / 2;
/// Interval between two checks of the log's size: on some file systems a check takes 0.1 ms.
const LOG_LOOK: Duration = Duration::from_millis(100);
/// How long the writer, and so all writes, waits for readers: this long for each `LOG_BYTES`, up to the maximum.
const LOG_PATIENCE: Duration = Duration::from_millis(100);
const MOST_LOG_PATIENCE: Duration = Duration::from_secs(1);
/// Commits reach the disk itself: without `fullfsync`, macOS leaves them in the disk's cache.
const SYNCED: &str = "PRAGMA synchronous = FULL; PRAGMA fullfsync = TRUE; PRAGMA checkpoint_fullfsync = TRUE";
/// Deleted and replaced data is overwritten in the file, also in free pages, so that an erasure leaves no earlier
/// version behind.
const OVERWRITTEN: &str = "PRAGMA secure_delete = TRUE";
/// The statement journal stays in memory. In a file beside the database it would keep old pages, also of erased
/// records, and it would cost a store more than anything but its flush. A statement changes few pages, because work on
/// many rows is done in slices.
pub(crate) const KEPT_IN_MEMORY: &str = "PRAGMA temp_store = MEMORY";
/// Maximum size of a file that is rewritten after an erasure, in bytes. That takes well under a second.
const REWRITTEN_BYTES: i64 = LOG_BYTES as i64;
/// Pause before a failed rewrite is tried again, for example on a full disk.
const REWRITE_PAUSE: Duration = Duration::from_secs(60);
/// Pause before a retry where SQLite refuses without calling its busy handler.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Interval at which the writer checks whether another program still holds the file. SQLite's own pauses grow to 100
/// ms, and favour whoever has just begun to wait.
const LOCK_PAUSE: Duration = Duration::from_micros(250);
/// How long a writer leaves the file alone after a transaction while others write too: each of them checks it within
/// that time.
const TURN_PAUSE: Duration = Duration::from_micros(500);
/// How long other programs count as writing after the file was last found locked.
const RIVALRY: Duration = Duration::from_millis(100);

/// A connection, with the state of its transaction. Used by one thread only.
#[derive(Debug)]
pub struct Session {
    pub(crate) connection: Connection,
    /// Entries that are added to the path index at the end of the transaction.
    pub(crate) paths: Vec<PathEntry>,
    /// Bytes of records that the transaction has written.
    pub(crate) bytes: usize,
    /// Entries that are added to the feed at the end of the transaction.
    pub(crate) feed: Feed,
    /// The commit time of the memories that the transaction appended last.
    pub(crate) stored_at: Option<Option<Timestamp>>,
    /// The number for the next memory, if any memory was ever erased; read once in a transaction that needs it.
    pub(crate) next_memory: Option<Option<i64>>,
    /// Whether the transaction has erased anything, or found an earlier erasure's clean-up pending.
    pub(crate) has_erased: bool,
    /// When the file was last found locked by another program.
    rival: Option<Instant>,
    /// Whether the writer waits for readers to end their snapshots; `None` in a session that writes.
    pub(crate) log_waits: Option<Arc<AtomicBool>>,
}

impl Session {
    /// Opens a session that only reads.
    pub(crate) fn to_read(path: &Path, config: &SqliteConfig, log_waits: Arc<AtomicBool>) -> Result<Self> {
        let connection = open_file(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        prepare(&connection, config.settings().deadline)?;
        Ok(Self { log_waits: Some(log_waits), ..Self::new(connection) })
    }

    /// Makes a session that writes and adds to the feed.
    pub(crate) fn to_write(connection: Connection, feed: Feed) -> Self {
        Self { feed, ..Self::new(connection) }
    }

    pub(crate) fn new(connection: Connection) -> Self {
        let (paths, feed) = (Vec::new(), Feed::default());
        let (stored_at, next_memory, has_erased) = (None, None, false);
        Self { connection, paths, bytes: 0, feed, stored_at, next_memory, has_erased, rival: None, log_waits: None }
    }

    /// Begins a write transaction, so that no later statement can find the database locked. Fails with `Timeout` if
    /// another program holds the lock until the given time.
    pub(crate) fn begin(&mut self, until: Instant) -> Result<()> {
        loop {
            match execute(&self.connection, "BEGIN IMMEDIATE", []) {
                Err(error) if error.kind() == ErrorKind::Timeout && Instant::now() < until => {
                    self.rival = Some(Instant::now());
                    thread::sleep(LOCK_PAUSE);
                }
                begun => return begun.map(drop),
            }
        }
    }

    /// Pauses briefly if other programs write too: without a pause this one would get the lock again each time.
    pub(crate) fn give_way(&self) {
        if self.rival.is_some_and(|rival| rival.elapsed() < RIVALRY) {
            thread::sleep(TURN_PAUSE);
        }
    }

    /// Runs work in the open transaction and commits it; rolls back if anything fails.
    pub(crate) fn in_transaction(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.transact(|session| session.check_writer().and_then(|()| work(session)))
    }

    fn transact(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.paths.clear();
        self.feed.clear();
        (self.stored_at, self.next_memory, self.has_erased) = (None, None, false);
        self.bytes = 0;
        let result = work(self).and_then(|()| self.commit());
        // After some failures SQLite has already ended the transaction.
        if result.is_err() && !self.connection.is_autocommit() {
            // The first error is the one to report.
            let _ = execute(&self.connection, "ROLLBACK", []);
        }
        result
    }

    /// Checks that this program may still write to the file (L7, L9).
    fn check_writer(&self) -> Result<()> {
        match self.least_writer()? {
            READ_ONLY.. => Err(Error::read_only()),
            least if least > WRITER => Err(Error::newer_writer()),
            _ => Ok(()),
        }
    }

    /// Returns whether the namespace is read-only.
    pub(crate) fn is_read_only(&self) -> Result<bool> {
        Ok(self.least_writer()? >= READ_ONLY)
    }

    /// Makes the namespace read-only, or writable again, in a transaction of its own after all that began earlier.
    pub(crate) fn set_read_only(&mut self, is_read_only: bool, until: Instant) -> Result<()> {
        self.begin(until)?;
        self.transact(|session| {
            let least = session.least_writer()? % READ_ONLY + if is_read_only { READ_ONLY } else { 0 };
            execute(&session.connection, statements::SET_LEAST_WRITER, [least.to_string()]).map(drop)
        })
    }

    fn least_writer(&self) -> Result<u32> {
        Ok(first(&self.connection, statements::LEAST_WRITER, [], |row| column(row, 0))?.unwrap_or_default())
    }

    fn commit(&mut self) -> Result<()> {
        paths::insert(&self.connection, &mut self.paths)?;
        self.feed.write(&self.connection)?;
        let committed = execute(&self.connection, "COMMIT", []);
        self.feed.tell();
        committed.map(drop).map_err(|error| match error.kind() {
            // A commit that failed to flush may be on the disk all the same; any other failure rolls back.
            ErrorKind::Unavailable if !error.is_retryable() => error.with_outcome(Outcome::Unknown),
            _ => error,
        })
    }

    /// Returns whether something was written since the connection had counted `changes` changes.
    pub(crate) fn has_written_since(&self, changes: u64) -> bool {
        // After some failures SQLite ends the transaction; later statements would then commit one by one.
        self.connection.total_changes() != changes || self.connection.is_autocommit()
    }

    /// Runs work, and interrupts its statements once `is_over` returns `true` because no caller waits any more.
    pub(crate) fn unless_over<T>(
        &mut self,
        is_over: impl FnMut() -> bool + Send + 'static,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.connection.progress_handler(STEPS, Some(is_over)).map_err(native)?;
        let result = work(self);
        self.connection.progress_handler(0, None::<fn() -> bool>).map_err(native)?;
        result
    }

    /// Starts a new snapshot between two reads of one piece of work if the writer waits for the old one to end.
    pub(crate) fn renew_view(&self) -> Result<()> {
        if self.log_waits.as_ref().is_some_and(|waits| waits.load(Ordering::Relaxed))
            && !self.connection.is_autocommit()
        {
            execute(&self.connection, "ROLLBACK", [])?;
            execute(&self.connection, "BEGIN", [])?;
        }
        Ok(())
    }

    /// Runs work that reads in one snapshot, unless the writer waits for it to end. Interrupts it once `is_over`
    /// returns `true`.
    pub(crate) fn in_one_view<T>(
        &mut self,
        is_over: impl FnMut() -> bool + Send + 'static,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        execute(&self.connection, "BEGIN", [])?;
        let result = self.unless_over(is_over, work);
        // After some failures SQLite has already ended the transaction.
        if !self.connection.is_autocommit() {
            execute(&self.connection, "ROLLBACK", [])?;
        }
        result
    }
}

/// The write-ahead log of a file. SQLite appends to it as long as anybody reads from it, so overlapping readers would
/// let it grow for ever.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// Whether the writer waits for readers.
    waits: Arc<AtomicBool>,
    /// The size of the log, in bytes, when it last failed to restart.
    tried: u64,
    looked: Instant,
    /// Whether log or file may still hold erased data.
    has_erased: bool,
    /// The mark of the file at its last rewrite, and the mark of the path index when its rewrite began.
    rewritten: Option<String>,
    begun: Option<String>,
    /// When a rewrite last failed.
    failed: Option<Instant>,
}

impl Log {
    /// Makes the log of an existing file. SQLite puts it beside the target of a symbolic link.
    pub(crate) fn of(file: &Path, waits: Arc<AtomicBool>) -> Self {
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let mut path = file.into_os_string();
        path.push("-wal");
        let (rewritten, begun, failed) = (None, None, None);
        Self { path: path.into(), waits, tried: 0, looked: Instant::now(), has_erased: false, rewritten, begun, failed }
    }

    /// Restarts the log if it has grown too large. The larger it is, the longer readers are waited for.
    pub(crate) fn keep_short(&mut self, connection: &Connection) {
        if self.looked.elapsed() < LOG_LOOK {
            return;
        }
        self.looked = Instant::now();
        if self.has_erased {
            // What can't be done now is tried again later.
            let _ = self.clean(connection, Duration::ZERO);
        }
        let bytes = fs::metadata(&self.path).map_or(0, |file| file.len());
        self.tried = if bytes < self.tried { 0 } else { self.tried };
        if bytes <= LOG_BYTES.max(self.tried + LOG_GROWTH) {
            return;
        }
        let times = u32::try_from(bytes / LOG_BYTES).unwrap_or(u32::MAX);
        let patience = LOG_PATIENCE.saturating_mul(times).min(MOST_LOG_PATIENCE);
        let is_done = self.checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)", patience);
        self.tried = if is_done { 0 } else { bytes };
    }

    /// Removes data that was just erased from file and log, as far as that is possible now.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        (self.has_erased, self.failed) = (true, None);
        // The erasure is committed, and its mark records what is left to do.
        let _ = self.clean(connection, MOST_LOG_PATIENCE);
    }

    /// Continues the clean-up of erasures, also of earlier programs; returns `true` if nothing is left.
    pub(crate) fn go_on(&mut self, connection: &Connection) -> Result<bool> {
        self.clean(connection, LOG_PATIENCE)
    }

    /// Rewrites the file, as far as its size allows, and truncates the log, which holds earlier pages. Then clears the
    /// mark.
    fn clean(&mut self, connection: &Connection, patience: Duration) -> Result<bool> {
        let Some(mark) = marks::find(connection, UNCLEAN)? else {
            self.has_erased = false;
            return Ok(true);
        };
        self.has_erased = true;
        let is_rewritten = waiting(connection, patience, || self.rewrite(connection, &mark));
        // Even if the file could not be rewritten.
        let is_cut = self.put_away(connection, patience);
        match is_rewritten {
            Ok(true) if is_cut => {}
            Ok(true) => return Err(hindered()),
            Ok(false) => return Ok(false),
            Err(error) => {
                // Another program soon releases the file; other failures last longer.
                self.failed = if error.kind() == ErrorKind::Timeout { self.failed } else { Some(Instant::now()) };
                return Err(hindered());
            }
        }
        let is_last = waiting(connection, patience, || marks::clear(connection, UNCLEAN, &mark))?;
        self.has_erased = !is_last;
        Ok(is_last)
    }

    /// Rewrites a small file: when SQLite moves a row, it may leave a copy in the unused part of a page, which nothing
    /// overwrites. Of a large file only the path index is rewritten, in slices, and only if its page keys hold erased
    /// data. Returns `false` if more is left.
    fn rewrite(&mut self, connection: &Connection, mark: &str) -> Result<bool> {
        if self.rewritten.as_deref() == Some(mark) {
            return Ok(true);
        }
        if self.failed.is_some_and(|failed| failed.elapsed() < REWRITE_PAUSE) {
            return Err(hindered());
        }
        let bytes: Option<i64> = first(connection, statements::BYTES, [], |row| column(row, 0))?;
        let is_small = bytes.is_some_and(|bytes| bytes <= REWRITTEN_BYTES);
        if !self.rewrite_paths(connection, is_small)? {
            return Ok(false);
        }
        if is_small {
            connection.execute_batch("VACUUM").map_err(native)?;
        }
        self.rewritten = Some(mark.to_owned());
        Ok(true)
    }

    fn rewrite_paths(&mut self, connection: &Connection, is_small: bool) -> Result<bool> {
        let Some(mark) = marks::find(connection, UNCLEAN_PATHS)? else { return Ok(true) };
        if is_small {
            in_own_transaction(connection, paths::rewrite)?;
        } else if self.begun.as_ref() != Some(&mark) {
            in_own_transaction(connection, paths::begin_rewrite)?;
            self.begun = Some(mark);
            return Ok(false);
        } else if paths::merge_some(connection)? {
            return Ok(false);
        }
        // A later mark of the index comes with a later mark of the file, and then all of this starts over.
        marks::clear(connection, UNCLEAN_PATHS, &mark)?;
        Ok(true)
    }

    fn put_away(&mut self, connection: &Connection, patience: Duration) -> bool {
        let is_cut = self.checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)", patience);
        self.tried = if is_cut { 0 } else { self.tried };
        is_cut
    }

    /// Checkpoints the log. Returns `false` if readers block it for longer than `patience`, or if it fails; the next
    /// call then reports what is wrong with the file.
    fn checkpoint(&self, connection: &Connection, sql: &str, patience: Duration) -> bool {
        self.waits.store(true, Ordering::Relaxed);
        let checkpoint = || connection.query_row(sql, [], |row| row.get(0));
        let is_blocked = connection.busy_timeout(patience).and_then(|()| checkpoint());
        self.waits.store(false, Ordering::Relaxed);
        let _ = connection.busy_timeout(Duration::ZERO);
        !is_blocked.unwrap_or(true)
    }
}

/// Runs work whose statements wait for other programs up to `patience`.
fn waiting<T>(connection: &Connection, patience: Duration, work: impl FnOnce() -> Result<T>) -> Result<T> {
    connection.busy_timeout(patience).map_err(native)?;
    let result = work();
    let _ = connection.busy_timeout(Duration::ZERO);
    result
}

/// Runs work in a transaction of its own.
fn in_own_transaction(connection: &Connection, work: fn(&Connection) -> Result<()>) -> Result<()> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(native)?;
    work(&transaction)?;
    transaction.commit().map_err(native)
}

fn hindered() -> Error {
    Error::new(ErrorKind::Timeout, "what was erased can't be taken out of the file yet").retryable()
}

/// Opens a connection that can write, with the settings that durability needs.
pub(crate) fn connect(config: &SqliteConfig) -> Result<Connection> {
    let deadline = config.settings().deadline;
    let connection = match &config.location {
        Location::Memory => Connection::open_in_memory().map_err(native)?,
        Location::File(path) => {
            make_folder_of(path)?;
            make_private(path);
            open_file(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?
        }
    };
    prepare(&connection, deadline)?;
    // An existing file keeps its page size.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(native)?;
    if let Location::File(_) = config.location {
        write_ahead(&connection, Instant::now() + deadline)?;
    }
    let log = format!("PRAGMA wal_autocheckpoint = {LOG_PAGES}; PRAGMA journal_size_limit = {LOG_BYTES}");
    connection.execute_batch(&format!("{SYNCED}; {OVERWRITTEN}; {log}")).map_err(native)?;
    Ok(connection)
}

/// Switches the file to a write-ahead log; without it, flushing the log would promise nothing.
pub(crate) fn write_ahead(connection: &Connection, until: Instant) -> Result<()> {
    let mode = loop {
        // Switching needs an exclusive lock for a moment, and SQLite does not wait for it.
        match connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
            .map_err(native)
        {
            Err(error) if error.is_retryable() && Instant::now() < until => thread::sleep(RETRY_PAUSE),
            mode => break mode?,
        }
    };
    if mode == "wal" {
        return Ok(());
    }
    // For example on a network file system, which has no shared memory: SQLite keeps the old mode and reports nothing
    // else.
    let message = "the database can't have a write-ahead log where its file is: put it on a local disk";
    Err(Error::new(ErrorKind::Unavailable, message))
}

/// Opens a file whatever its name: SQLite would parse a name that begins with `file:` as a URL.
pub(crate) fn open_file(path: &Path, flags: OpenFlags) -> Result<Connection> {
    check_path(path)?;
    let path = if path.is_relative() { &Path::new(".").join(path) } else { path };
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(native)
}

fn prepare(connection: &Connection, deadline: Duration) -> Result<()> {
    // A little less, so that the caller learns what it waited for.
    connection.busy_timeout(deadline.mul_f32(0.9)).map_err(native)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    rusqlite::vtab::array::load_module(connection).map_err(native)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(native)
}

/// Checks that the path can be that of a database file.
fn check_path(path: &Path) -> Result<()> {
    // For SQLite both mean a private database for each connection.
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(Error::invalid("the path names no file; SqliteConfig::in_memory() and sqlite::memory: need none"));
    }
    if path.is_dir() { Err(Error::invalid("the path is a folder, not a database file")) } else { Ok(()) }
}

fn make_folder_of(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => fs::create_dir_all(folder).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the folder of the database can't be made").with_source(error)
        }),
        _ => Ok(()),
    }
}

/// Creates the file, if it is missing, with mode 0600; SQLite gives the log the same mode. An existing file keeps its
/// mode.
fn make_private(path: &Path) {
    /// Closing a file releases all of the process's locks on it, so SQLite must not open one in between.
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // A failure here also prevents SQLite, which then reports it.
    let _ = options.open(path);
}
