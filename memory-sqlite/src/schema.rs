//! The schema: SQLite as a target of the migrations crate, and what is there for operators to see.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use async_trait::async_trait;
use futures::executor::block_on;
use memory_core::{Backfill, Error, ErrorKind, Inspection, Ledger, Result};
use migrations::{Applied, PATHS, Report, Step, Target, WORDS, wanted};
use rusqlite::{Connection, OpenFlags};

use crate::config::{Location, SqliteConfig};
use crate::connection::{connect, open_file};
use crate::error::native;
use crate::statements::{self, Stored, column, execute, first, prepare};

/// How long files are waited for that are still open, on Windows, and how long between two attempts.
const CLOSING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// How many records a slice of a backfill indexes at most.
const SLICE_ROWS: i64 = 500;
/// From how many bytes of text on it ends.
const SLICE_BYTES: i64 = 4 << 20;

const NAMES: &str = "SELECT name FROM sqlite_schema";
const BYTES: &str = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";

/// Creates or migrates the schema, as `init` does, and tells which steps that took.
pub async fn migrate(config: &SqliteConfig) -> Result<Report> {
    on_a_thread(config, |config| open(config).map(|(_, report)| report)).await
}

/// Tells which steps [`migrate`] would take, and changes nothing; a missing file stays missing.
pub async fn plan(config: &SqliteConfig) -> Result<Report> {
    on_a_thread(config, |config| {
        let mut connection = match &config.location {
            Location::File(path) if path.exists() => open_file(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
            _ => Connection::open_in_memory().map_err(native)?,
        };
        block_on(migrations::plan(&mut SqliteTarget(&mut connection), migrations::sqlite(), wanted(config.text_index)))
    })
    .await
}

/// Removes the database with everything in it, for ever. No provider may be open on it; nothing happens when there is none.
pub async fn remove(config: &SqliteConfig) -> Result<()> {
    on_a_thread(config, |config| {
        let Location::File(path) = &config.location else { return Ok(()) };
        for ending in ["", "-wal", "-shm"] {
            let mut file = path.clone().into_os_string();
            file.push(ending);
            remove_file(Path::new(&file))
                .map_err(|error| Error::new(ErrorKind::Unavailable, "the file can't be removed").with_source(error))?;
        }
        Ok(())
    })
    .await
}

/// Tells which tables and indexes of the schema are missing, and changes nothing. A database in memory is its provider's alone, and
/// misses none.
pub async fn inspect(config: &SqliteConfig) -> Result<Inspection> {
    on_a_thread(config, |config| {
        let Location::File(path) = &config.location else { return Ok(Inspection::default()) };
        let file = open_file(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let present = names(&file)?;
        let bytes: i64 = file.query_row(BYTES, [], |row| row.get(0)).map_err(native)?;
        let (fresh, _) = open(&SqliteConfig::in_memory())?;
        Ok(Inspection::new(names(&fresh)?.difference(&present).cloned().collect(), None, u64::try_from(bytes).ok()))
    })
    .await
}

/// Removes a file if it is there. A provider that was dropped closes its files a little later, and Windows removes none that is open.
fn remove_file(file: &Path) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match fs::remove_file(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if cfg!(windows) && start.elapsed() < CLOSING => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// A connection that can write, with the schema in place, and which steps that took. Where nothing is to be done it only reads, and
/// waits for no other program.
pub(crate) fn open(config: &SqliteConfig) -> Result<(Connection, Report)> {
    let mut connection = connect(config)?;
    let (mut target, wanted) = (SqliteTarget(&mut connection), wanted(config.text_index));
    let mut report = block_on(migrations::plan(&mut target, migrations::sqlite(), wanted))?;
    if !report.applied.is_empty() {
        report = block_on(migrations::migrate(&mut target, migrations::sqlite(), wanted))?;
    }
    Ok((connection, report))
}

/// How far the backfills are that are not complete: that of the ledger's words, if they are wanted, and then that of the documents' places.
pub(crate) fn pending(connection: &Connection, wants_words: bool) -> Result<Vec<Backfill>> {
    let count = |rows: i64| u64::try_from(rows).unwrap_or_default();
    let progress = |(from, last): (i64, i64)| (count(last - from + 1), count(last));
    let unindexed = if wants_words { reached(connection, statements::UNINDEXED)? } else { None };
    let words = unindexed.map(progress).map(|(done, total)| Backfill::of_words(done, total));
    let unplaced = reached(connection, statements::UNPLACED)?;
    let places = unplaced.map(progress).map(|(done, total)| Backfill::of_places(done, total));
    Ok(words.into_iter().chain(places).collect())
}

/// Takes its next slice. Slices go from the newest row to the oldest.
pub(crate) fn backfill(connection: &Connection, wants_words: bool) -> Result<()> {
    if wants_words && let Some((from, _)) = reached(connection, statements::UNINDEXED)? {
        return index_words(connection, from);
    }
    let Some((from, _)) = reached(connection, statements::UNPLACED)? else { return Ok(()) };
    let low = first(connection, statements::DOCUMENT_FURTHER_DOWN, [from, SLICE_ROWS - 1], |row| column(row, 0))?;
    let low = low.unwrap_or_default();
    execute(connection, statements::PLACE_DOCUMENTS, [low, from])?;
    advance(connection, statements::SET_UNPLACED, low, PATHS)
}

/// Indexes the words of the next memories below a row. Within a slice FTS5 is faster upwards.
fn index_words(connection: &Connection, from: i64) -> Result<()> {
    let (mut low, mut bytes) = (0, 0);
    let mut sizes = prepare(connection, statements::SIZES_BELOW)?;
    let mut sizes = sizes.query([from, SLICE_ROWS]).map_err(native)?;
    while bytes < SLICE_BYTES
        && let Some(row) = sizes.next().map_err(native)?
    {
        (low, bytes) = (column(row, 0)?, bytes + column::<i64>(row, 1)?);
    }
    let mut rows = prepare(connection, statements::MEMORIES_FROM_TO)?;
    let mut rows = rows.query([low, from]).map_err(native)?;
    while let Some(row) = rows.next().map_err(native)? {
        // A row that can't be read has no words.
        if let Ok(found) = Stored(row).found::<Ledger>() {
            statements::insert_memory_words(connection, found.version, &found.record)?;
        }
    }
    advance(connection, statements::SET_UNINDEXED, low, WORDS)
}

/// Keeps the row that a backfill has reached, and completes its step with the last.
fn advance(connection: &Connection, set: &str, low: i64, step: &str) -> Result<()> {
    execute(connection, set, [low])?;
    if low <= 1 { execute(connection, statements::COMPLETE, [step]).map(drop) } else { Ok(()) }
}

/// From which row on a backfill is done, and the last row; `None` when it is complete.
fn reached(connection: &Connection, sql: &str) -> Result<Option<(i64, i64)>> {
    first(connection, sql, [], |row| Ok((column(row, 0)?, column(row, 1)?)))
}

fn names(connection: &Connection) -> Result<BTreeSet<String>> {
    let mut statement = connection.prepare(NAMES).map_err(native)?;
    let names = statement.query_map([], |row| row.get(0));
    names.and_then(Iterator::collect).map_err(native)
}

async fn on_a_thread<T: Send + 'static>(config: &SqliteConfig, work: fn(&SqliteConfig) -> Result<T>) -> Result<T> {
    let config = config.clone();
    let ended = |error| Error::new(ErrorKind::Unexpected, "the migration ended early").with_source(error);
    tokio::task::spawn_blocking(move || work(&config)).await.map_err(ended)?
}

/// The lock is the right to write: all steps go in one transaction, and a connection that ends takes it back.
struct SqliteTarget<'c>(&'c mut Connection);

const HAS_BOOKKEEPING: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'";
const CREATE_BOOKKEEPING: &str = "
    CREATE TABLE IF NOT EXISTS schema_migrations (
        version  INTEGER PRIMARY KEY,
        name     TEXT NOT NULL,
        checksum TEXT NOT NULL,
        complete INTEGER NOT NULL
    ) STRICT";
const APPLIED: &str = "SELECT version, name, checksum, complete FROM schema_migrations";
const INSERT_APPLIED: &str =
    "INSERT INTO schema_migrations (version, name, checksum, complete) VALUES (?1, ?2, ?3, ?4)";

impl SqliteTarget<'_> {
    fn execute(&self, step: &Step) -> Result<()> {
        self.0.execute_batch(step.text).map_err(native)?;
        // Nothing has to be indexed where nothing is, and neither what version 1 has indexed.
        let is_complete = match step.name {
            WORDS => reached(self.0, statements::UNINDEXED)?.is_none(),
            PATHS => reached(self.0, statements::UNPLACED)?.is_none(),
            _ => true,
        };
        let entry = (step.version, step.name, step.checksum(), is_complete);
        self.0.execute(INSERT_APPLIED, entry).map(drop).map_err(native)
    }
}

#[async_trait]
impl Target for SqliteTarget<'_> {
    async fn lock(&mut self) -> Result<()> {
        self.0.execute_batch("BEGIN IMMEDIATE").map_err(native)?;
        self.0.execute_batch(CREATE_BOOKKEEPING).map_err(native)
    }

    async fn applied(&mut self) -> Result<Vec<Applied>> {
        if !self.0.prepare(HAS_BOOKKEEPING).and_then(|mut statement| statement.exists([])).map_err(native)? {
            return Ok(Vec::new());
        }
        let mut statement = self.0.prepare(APPLIED).map_err(native)?;
        let rows = statement.query_map([], |row| {
            Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)?, complete: row.get(3)? })
        });
        rows.and_then(Iterator::collect).map_err(native)
    }

    async fn apply(&mut self, step: &Step) -> Result<()> {
        self.0.execute_batch("SAVEPOINT step").map_err(native)?;
        let applied = self.execute(step);
        let end = if applied.is_ok() { "RELEASE step" } else { "ROLLBACK TO step; RELEASE step" };
        let ended = self.0.execute_batch(end);
        applied?;
        ended.map_err(native)
    }

    async fn unlock(&mut self) -> Result<()> {
        self.0.execute_batch("COMMIT").map_err(native)
    }
}
