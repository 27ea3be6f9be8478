//! The schema: SQLite as a target of the migrations crate, and what is there for operators to see.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use async_trait::async_trait;
use futures::executor::block_on;
use memory_core::{Backfill, Error, ErrorKind, Inspection, Result};
use migrations::{Applied, NO_WORDS, PATHS, Report, Step, Target};
use rusqlite::{Connection, OpenFlags};

use crate::config::{Location, SqliteConfig};
use crate::connection::{connect, open_file};
use crate::error::native;
use crate::statements::{self, column, execute, first};

/// How long files are waited for that are still open, on Windows, and how long between two attempts.
const CLOSING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// How many documents a slice of the backfill places at most.
const SLICE_ROWS: i64 = 500;
/// The tables that are left of the indexes of words: the key of each, and how many of its rows a slice of the removal deletes. A row of
/// `data` has 4 KiB; one of `docsize` has some ten bytes, and each indexed record has one.
const REMOVED: [(&str, &str, usize); 6] = [
    ("removed_memory_words_data", "id", 500),
    ("removed_memory_words_idx", "segid, term", 500),
    ("removed_memory_words_docsize", "id", 2_000),
    ("removed_document_words_data", "id", 500),
    ("removed_document_words_idx", "segid, term", 500),
    ("removed_document_words_docsize", "id", 2_000),
];

const NAMES: &str = "SELECT name FROM sqlite_schema";

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
        block_on(migrations::plan(&mut SqliteTarget(&mut connection), migrations::sqlite()))
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
        let bytes: i64 = file.query_row(statements::BYTES, [], |row| row.get(0)).map_err(native)?;
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
    let mut target = SqliteTarget(&mut connection);
    let mut report = block_on(migrations::plan(&mut target, migrations::sqlite()))?;
    if !report.applied.is_empty() {
        report = block_on(migrations::migrate(&mut target, migrations::sqlite()))?;
    }
    Ok((connection, report))
}

/// How far the backfills are that are not complete: that of the documents' places, and then the removal of the index of words.
pub(crate) fn pending(connection: &Connection) -> Result<Vec<Backfill>> {
    let count = |rows: i64| u64::try_from(rows).unwrap_or_default();
    let places = unplaced(connection)?.map(|(from, last)| Backfill::of_places(count(last - from + 1), count(last)));
    let words = words_left(connection)?.map(|(left, all)| Backfill::of_no_words(count(all - left), count(all)));
    Ok(places.into_iter().chain(words).collect())
}

/// Takes the next slice of the first of them. Documents get their places from the newest row to the oldest.
pub(crate) fn backfill(connection: &Connection) -> Result<()> {
    let is_complete = match unplaced(connection)? {
        Some((from, _)) => {
            let last = [from, SLICE_ROWS - 1];
            let low = first(connection, statements::DOCUMENT_FURTHER_DOWN, last, |row| column(row, 0))?;
            let low: i64 = low.unwrap_or_default();
            execute(connection, statements::PLACE_DOCUMENTS, [low, from])?;
            execute(connection, statements::SET_UNPLACED, [low])?;
            (low <= 1).then_some(PATHS)
        }
        None => remove_words(connection)?.then_some(NO_WORDS),
    };
    is_complete.map_or(Ok(()), |step| execute(connection, statements::COMPLETE, [step]).map(drop))
}

/// From which row on the documents have their places, and the last row; `None` when they all have them.
fn unplaced(connection: &Connection) -> Result<Option<(i64, i64)>> {
    first(connection, statements::UNPLACED, [], |row| Ok((column(row, 0)?, column(row, 1)?)))
}

/// About how many records the index of words still has, and how many records there are; `None` when nothing is left of the index.
fn words_left(connection: &Connection) -> Result<Option<(i64, i64)>> {
    let tables = removed(connection)?;
    if tables.is_empty() {
        return Ok(None);
    }
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(native);
    let mut left = 0;
    for (table, ..) in tables.into_iter().filter(|(table, ..)| table.ends_with("_docsize")) {
        // SQLite looks for either end alone, and would read all rows for both at once.
        let ends = format!("(SELECT max(id) FROM {table}) - (SELECT min(id) FROM {table})");
        left += number(&format!("SELECT coalesce({ends} + 1, 0)"))?;
    }
    // Where texts are long, the other tables last longer.
    let left = left.max(1);
    Ok(Some((left, number(statements::LAST_ROWS)?.max(left))))
}

/// Removes a slice of the index of words, and tells whether nothing is left of it.
fn remove_words(connection: &Connection) -> Result<bool> {
    let mut is_gone = true;
    for (table, key, rows) in removed(connection)? {
        let delete = format!("DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} LIMIT {rows})");
        let is_empty = connection.execute(&delete, []).map_err(native)? < rows;
        if is_empty {
            connection.execute_batch(&format!("DROP TABLE {table}")).map_err(native)?;
        }
        is_gone &= is_empty;
    }
    Ok(is_gone)
}

/// Those of the removed tables that are there.
fn removed(connection: &Connection) -> Result<Vec<(&'static str, &'static str, usize)>> {
    let names = names(connection)?;
    Ok(REMOVED.into_iter().filter(|(table, ..)| names.contains(*table)).collect())
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
        // Where there is little, nothing is left to a backfill.
        let is_complete = match step.name {
            PATHS => unplaced(self.0)?.is_none(),
            NO_WORDS => remove_words(self.0)?,
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
