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

/// How many statements each connection keeps prepared: more than there are.
const STATEMENTS: usize = 160;
/// After how many steps of its virtual machine SQLite looks whether anybody waits for the answer: some thirty rows, which can be large.
const STEPS: i32 = 1_000;
/// How much of the file each connection keeps in memory, in KiB: what a filtered recall of scattered rows looks at.
const CACHE_KIB: i64 = 8 << 10;
/// The bytes of a page of a new file: twice SQLite's own, of which four rows of 880 bytes leave a seventh empty, as small rows are not
/// divided among pages.
const PAGE_BYTES: i64 = 8 << 10;
/// After how many pages the log is put into the file: four times SQLite's own, so that an import in random order, which
/// writes the same pages of its indexes again and again, puts each there less often.
const LOG_PAGES: i64 = 4_000;
/// From how many bytes on the writer waits for readers, so that the log can begin anew, and to how many SQLite cuts it then: twice
/// what it has when no reader is in the way. By how much it has to grow before the next attempt.
const LOG_BYTES: u64 = 2 * (LOG_PAGES * PAGE_BYTES) as u64;
const LOG_GROWTH: u64 = LOG_BYTES / 2;
/// How often its size is looked at: to ask for it takes some file systems 0.1 ms.
const LOG_LOOK: Duration = Duration::from_millis(100);
/// How long readers are waited for at most, while nobody can write: so long for each of those bytes, and no longer than that.
const LOG_PATIENCE: Duration = Duration::from_millis(100);
const MOST_LOG_PATIENCE: Duration = Duration::from_secs(1);
/// What has been committed is on the disk itself: macOS leaves it in the disk's own memory unless it is asked for more.
const SYNCED: &str = "PRAGMA synchronous = FULL; PRAGMA fullfsync = TRUE; PRAGMA checkpoint_fullfsync = TRUE";
/// What is deleted or replaced is overwritten in the file, also in pages that nobody uses any more: an erasure leaves no earlier version behind.
const OVERWRITTEN: &str = "PRAGMA secure_delete = TRUE";
/// What a statement may have to take back stays in memory: a file beside the database would keep what was in the pages, also of what was
/// erased, and costs a store more than all else but its flush. A statement changes few pages, as all that is done with many rows is in slices.
pub(crate) const KEPT_IN_MEMORY: &str = "PRAGMA temp_store = MEMORY";
/// Up to how many bytes a file is written anew behind an erasure, which takes well below a second.
const REWRITTEN_BYTES: i64 = LOG_BYTES as i64;
/// After how long that is tried again when it has failed, such as on a full disk.
const REWRITE_PAUSE: Duration = Duration::from_secs(60);
/// How long to wait before trying again what SQLite refuses without asking its busy handler.
const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// How long the writer waits before it looks again whether another program still holds the file. SQLite's own pauses grow to 100 ms, and
/// who has waited longest waits longest again.
const LOCK_PAUSE: Duration = Duration::from_micros(250);
/// How long a writer leaves the file alone after a transaction while others write too: each of them looks at it in that time.
const TURN_PAUSE: Duration = Duration::from_micros(500);
/// How long others count as there after the file was last found locked.
const RIVALRY: Duration = Duration::from_millis(100);

/// A connection, and what its transaction has learned and left to do. Only one thread uses it.
#[derive(Debug)]
pub struct Session {
    pub(crate) connection: Connection,
    /// What goes into the path index at the end of the transaction.
    pub(crate) paths: Vec<PathEntry>,
    /// How many bytes of records the transaction has written.
    pub(crate) bytes: usize,
    /// What goes into the feed at the end of the transaction.
    pub(crate) feed: Feed,
    /// The time of the memories that the transaction has appended last.
    pub(crate) stored_at: Option<Option<Timestamp>>,
    /// From which number on it appends memories if any was ever erased, once it has asked for that.
    pub(crate) next_memory: Option<Option<i64>>,
    /// Whether it has erased anything, or found what an earlier erasure has left to do.
    pub(crate) has_erased: bool,
    /// When another program was last found to write.
    rival: Option<Instant>,
    /// Whether the writer waits for the views of those that read; `None` for one that writes.
    pub(crate) log_waits: Option<Arc<AtomicBool>>,
}

impl Session {
    /// A session that only reads.
    pub(crate) fn to_read(path: &Path, config: &SqliteConfig, log_waits: Arc<AtomicBool>) -> Result<Self> {
        let connection = open_file(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        prepare(&connection, config.settings().deadline)?;
        Ok(Self { log_waits: Some(log_waits), ..Self::new(connection) })
    }

    /// A session that writes, and tells of what it writes.
    pub(crate) fn to_write(connection: Connection, feed: Feed) -> Self {
        Self { feed, ..Self::new(connection) }
    }

    pub(crate) fn new(connection: Connection) -> Self {
        let (paths, feed) = (Vec::new(), Feed::default());
        let (stored_at, next_memory, has_erased) = (None, None, false);
        Self { connection, paths, bytes: 0, feed, stored_at, next_memory, has_erased, rival: None, log_waits: None }
    }

    /// Begins a transaction with the right to write, so that no later statement can find the database locked. `Timeout` when another
    /// program holds it until then.
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

    /// Leaves the file to other programs for a moment if they write too, since who goes on at once would find it free each time.
    pub(crate) fn give_way(&self) {
        if self.rival.is_some_and(|rival| rival.elapsed() < RIVALRY) {
            thread::sleep(TURN_PAUSE);
        }
    }

    /// Runs work in the transaction that was begun and commits it, or rolls it back when anything fails.
    pub(crate) fn in_transaction(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.transact(|session| session.check_writer().and_then(|()| work(session)))
    }

    fn transact(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.paths.clear();
        self.feed.clear();
        (self.stored_at, self.next_memory, self.has_erased) = (None, None, false);
        self.bytes = 0;
        let result = work(self).and_then(|()| self.commit());
        // After some failures SQLite itself has ended the transaction.
        if result.is_err() && !self.connection.is_autocommit() {
            // The first failure is the one to tell.
            let _ = execute(&self.connection, "ROLLBACK", []);
        }
        result
    }

    /// Whether this program may still write to the file (L7, L9).
    fn check_writer(&self) -> Result<()> {
        match self.least_writer()? {
            READ_ONLY.. => Err(Error::read_only()),
            least if least > WRITER => Err(Error::newer_writer()),
            _ => Ok(()),
        }
    }

    /// Whether nobody may write to the file.
    pub(crate) fn is_read_only(&self) -> Result<bool> {
        Ok(self.least_writer()? >= READ_ONLY)
    }

    /// Lets nobody write to the file any more, or everybody who may otherwise. A transaction of its own, behind all that were begun before.
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
            // A commit that could not be flushed may be on the disk all the same; every other failure rolls back.
            ErrorKind::Unavailable if !error.is_retryable() => error.with_outcome(Outcome::Unknown),
            _ => error,
        })
    }

    /// Whether something was written since the connection had made so many changes.
    pub(crate) fn has_written_since(&self, changes: u64) -> bool {
        // After some failures SQLite itself ends the transaction; what followed would be committed statement by statement.
        self.connection.total_changes() != changes || self.connection.is_autocommit()
    }

    /// Runs work whose statements end early once it is over: when nobody waits for it any more.
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

    /// Begins a new view between two reads of one piece of work if the writer waits for the one that it has.
    pub(crate) fn renew_view(&self) -> Result<()> {
        if self.log_waits.as_ref().is_some_and(|waits| waits.load(Ordering::Relaxed))
            && !self.connection.is_autocommit()
        {
            execute(&self.connection, "ROLLBACK", [])?;
            execute(&self.connection, "BEGIN", [])?;
        }
        Ok(())
    }

    /// Runs work that reads with one view of the database, unless the writer waits for that. It ends early once it is over.
    pub(crate) fn in_one_view<T>(
        &mut self,
        is_over: impl FnMut() -> bool + Send + 'static,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        execute(&self.connection, "BEGIN", [])?;
        let result = self.unless_over(is_over, work);
        // After some failures SQLite has ended the view itself.
        if !self.connection.is_autocommit() {
            execute(&self.connection, "ROLLBACK", [])?;
        }
        result
    }
}

/// The log of a file. SQLite goes on to write behind its end while anybody reads from it, so readers that overlap would let it grow for
/// ever.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// Whether readers are waited for.
    waits: Arc<AtomicBool>,
    /// How many bytes it had when it could not begin anew.
    tried: u64,
    looked: Instant,
    /// Whether it, or the file, may have what was erased.
    has_erased: bool,
    /// The mark of the file when that was last written anew, and the mark of the path index when that was begun.
    rewritten: Option<String>,
    begun: Option<String>,
    /// When that has failed.
    failed: Option<Instant>,
}

impl Log {
    /// The log of a file that is there. SQLite has it beside the target of a link.
    pub(crate) fn of(file: &Path, waits: Arc<AtomicBool>) -> Self {
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let mut path = file.into_os_string();
        path.push("-wal");
        let (rewritten, begun, failed) = (None, None, None);
        Self { path: path.into(), waits, tried: 0, looked: Instant::now(), has_erased: false, rewritten, begun, failed }
    }

    /// Lets the log begin anew when it has grown too large. Who reads from it is waited for, the longer the larger it is.
    pub(crate) fn keep_short(&mut self, connection: &Connection) {
        if self.looked.elapsed() < LOG_LOOK {
            return;
        }
        self.looked = Instant::now();
        if self.has_erased {
            // What is left is tried again later.
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

    /// Takes what was just erased out of the file and the log, as far as that can be done now.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        (self.has_erased, self.failed) = (true, None);
        // The erasure is committed, and its mark tells what is left.
        let _ = self.clean(connection, MOST_LOG_PATIENCE);
    }

    /// Goes on with what erasures have left to do, also those of earlier programs; `true` when nothing is left.
    pub(crate) fn go_on(&mut self, connection: &Connection) -> Result<bool> {
        self.clean(connection, LOG_PATIENCE)
    }

    /// Writes the file anew, as far as its size allows, and cuts the log to nothing, which has earlier pages. Then the mark goes.
    fn clean(&mut self, connection: &Connection, patience: Duration) -> Result<bool> {
        let Some(mark) = marks::find(connection, UNCLEAN)? else {
            self.has_erased = false;
            return Ok(true);
        };
        self.has_erased = true;
        let is_rewritten = waiting(connection, patience, || self.rewrite(connection, &mark));
        // Also where the file could not be written anew.
        let is_cut = self.put_away(connection, patience);
        match is_rewritten {
            Ok(true) if is_cut => {}
            Ok(true) => return Err(hindered()),
            Ok(false) => return Ok(false),
            Err(error) => {
                // Another program is soon done with the file; other failures last longer.
                self.failed = if error.kind() == ErrorKind::Timeout { self.failed } else { Some(Instant::now()) };
                return Err(hindered());
            }
        }
        let is_last = waiting(connection, patience, || marks::clear(connection, UNCLEAN, &mark))?;
        self.has_erased = !is_last;
        Ok(is_last)
    }

    /// Writes a small file anew: when SQLite moves a row, it may leave a copy in the free part of a page, which nothing overwrites. Of a large
    /// one only the path index, a slice at a time, and only if its pages are found by what was erased. `false` when more is left.
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
        // With a later mark of the index comes one of the file, with which all of this begins anew.
        marks::clear(connection, UNCLEAN_PATHS, &mark)?;
        Ok(true)
    }

    fn put_away(&mut self, connection: &Connection, patience: Duration) -> bool {
        let is_cut = self.checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)", patience);
        self.tried = if is_cut { 0 } else { self.tried };
        is_cut
    }

    /// Puts the log into the file. Not when somebody reads from it for longer than that, or when it fails: what is wrong with the file is told
    /// by the next call.
    fn checkpoint(&self, connection: &Connection, sql: &str, patience: Duration) -> bool {
        self.waits.store(true, Ordering::Relaxed);
        let checkpoint = || connection.query_row(sql, [], |row| row.get(0));
        let is_blocked = connection.busy_timeout(patience).and_then(|()| checkpoint());
        self.waits.store(false, Ordering::Relaxed);
        let _ = connection.busy_timeout(Duration::ZERO);
        !is_blocked.unwrap_or(true)
    }
}

/// Runs work whose statements wait for other programs so long.
fn waiting<T>(connection: &Connection, patience: Duration, work: impl FnOnce() -> Result<T>) -> Result<T> {
    connection.busy_timeout(patience).map_err(native)?;
    let result = work();
    let _ = connection.busy_timeout(Duration::ZERO);
    result
}

/// Runs work in a transaction of its own, all or nothing.
fn in_own_transaction(connection: &Connection, work: fn(&Connection) -> Result<()>) -> Result<()> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(native)?;
    work(&transaction)?;
    transaction.commit().map_err(native)
}

fn hindered() -> Error {
    Error::new(ErrorKind::Timeout, "what was erased can't be taken out of the file yet").retryable()
}

/// A connection that can write, with the settings that durability needs.
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
    // A file that has pages already keeps their size.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(native)?;
    if let Location::File(_) = config.location {
        write_ahead(&connection, Instant::now() + deadline)?;
    }
    let log = format!("PRAGMA wal_autocheckpoint = {LOG_PAGES}; PRAGMA journal_size_limit = {LOG_BYTES}");
    connection.execute_batch(&format!("{SYNCED}; {OVERWRITTEN}; {log}")).map_err(native)?;
    Ok(connection)
}

/// Sees to it that the file has a log, without which a flush of the log would promise nothing.
pub(crate) fn write_ahead(connection: &Connection, until: Instant) -> Result<()> {
    let mode = loop {
        // Switching needs the file for a moment, and SQLite does not wait for it by itself.
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
    // Such as a file system of a network, which shares no memory: SQLite leaves the mode as it is, and says no more than that.
    let message = "the database can't have a write-ahead log where its file is: put it on a local disk";
    Err(Error::new(ErrorKind::Unavailable, message))
}

/// A connection on a file, whatever its name: SQLite would read one that begins with `file:` as a URL with settings.
pub(crate) fn open_file(path: &Path, flags: OpenFlags) -> Result<Connection> {
    check_path(path)?;
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
fn check_path(path: &Path) -> Result<()> {
    // To SQLite both are databases that each connection has for itself.
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

/// Makes the file, if it is missing, so that only its owner can read and write it; SQLite gives its log the same mode. A file that is
/// there keeps its mode.
fn make_private(path: &Path) {
    /// To close a file takes away all locks that the process has on it, so none may be opened by SQLite in between.
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // What prevents it prevents SQLite, too, which tells it.
    let _ = options.open(path);
}
