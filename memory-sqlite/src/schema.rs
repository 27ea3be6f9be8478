//! The schema: SQLite as a target of the migrations crate, and the inspection for operators.

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

/// On Windows, how long to wait for files that are still open, and the pause between two attempts.
const CLOSING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Maximum number of documents that a slice of the places backfill covers.
const SLICE_ROWS: i64 = 500;
/// The tables that remain of the word indexes. A row of `data` has 4 KiB, one of `docsize` about ten bytes, and each
/// indexed record has one.
const REMOVED: [RemovedTable; 6] = [
    RemovedTable { name: "removed_memory_words_data", key: "id", rows: 500 },
    RemovedTable { name: "removed_memory_words_idx", key: "segid, term", rows: 500 },
    RemovedTable { name: "removed_memory_words_docsize", key: "id", rows: 2_000 },
    RemovedTable { name: "removed_document_words_data", key: "id", rows: 500 },
    RemovedTable { name: "removed_document_words_idx", key: "segid, term", rows: 500 },
    RemovedTable { name: "removed_document_words_docsize", key: "id", rows: 2_000 },
];

const NAMES: &str = "SELECT name FROM sqlite_schema";

/// A table that is being removed.
struct RemovedTable {
    name: &'static str,
    /// The columns of its primary key.
    key: &'static str,
    /// Number of rows that a slice of the removal deletes.
    rows: usize,
}

/// Creates or migrates the schema, as `init` does, and returns the applied steps.
pub async fn migrate(config: &SqliteConfig) -> Result<Report> {
    on_a_thread(config, |config| open(config).map(|(_, report)| report)).await
}

/// Returns the steps that [`migrate`] would apply. Changes nothing; a missing file stays missing.
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

/// Deletes the database with all its data. No provider may be open on it. Does nothing if there is none.
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

/// Returns the missing tables, indexes, views and triggers of the schema, and the size of the file. Changes nothing. A
/// database in memory is private to its provider, and misses none.
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

/// Removes a file if it exists. A dropped provider closes its files a little later, and Windows does not remove an open
/// file.
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

/// Opens a connection that can write, and migrates the schema; also returns the applied steps. If no step is due, it
/// only reads and waits for no other program.
pub(crate) fn open(config: &SqliteConfig) -> Result<(Connection, Report)> {
    let mut connection = connect(config)?;
    let mut target = SqliteTarget(&mut connection);
    let mut report = block_on(migrations::plan(&mut target, migrations::sqlite()))?;
    if !report.applied.is_empty() {
        report = block_on(migrations::migrate(&mut target, migrations::sqlite()))?;
    }
    Ok((connection, report))
}

/// Returns the progress of the incomplete backfills: first the documents' places, then the removal of the word index.
pub(crate) fn pending(connection: &Connection) -> Result<Vec<Backfill>> {
    let count = |rows: i64| u64::try_from(rows).unwrap_or_default();
    let places = unplaced(connection)?.map(|(from, last)| Backfill::of_places(count(last - from + 1), count(last)));
    let words = words_left(connection)?.map(|(left, all)| Backfill::of_no_words(count(all - left), count(all)));
    Ok(places.into_iter().chain(words).collect())
}

/// Runs the next slice of the first backfill. Documents get their places from the newest row to the oldest.
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

/// Returns the row from which on documents have places, and the last row; `None` if all have.
fn unplaced(connection: &Connection) -> Result<Option<(i64, i64)>> {
    first(connection, statements::UNPLACED, [], |row| Ok((column(row, 0)?, column(row, 1)?)))
}

/// Returns the approximate number of records left in the word index, and of all records; `None` if the index is gone.
fn words_left(connection: &Connection) -> Result<Option<(i64, i64)>> {
    let tables = removed(connection)?;
    if tables.is_empty() {
        return Ok(None);
    }
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(native);
    let mut left = 0;
    for RemovedTable { name, .. } in tables.into_iter().filter(|table| table.name.ends_with("_docsize")) {
        // SQLite finds one end by the index, but scans all rows if asked for both at once.
        let ends = format!("(SELECT max(id) FROM {name}) - (SELECT min(id) FROM {name})");
        left += number(&format!("SELECT coalesce({ends} + 1, 0)"))?;
    }
    // If texts are long, the other tables take longer.
    let left = left.max(1);
    Ok(Some((left, number(statements::LAST_ROWS)?.max(left))))
}

/// Removes a slice of the word index; returns whether the index is gone.
fn remove_words(connection: &Connection) -> Result<bool> {
    let mut is_gone = true;
    for RemovedTable { name, key, rows } in removed(connection)? {
        let delete = format!("DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} LIMIT {rows})");
        let is_empty = connection.execute(&delete, []).map_err(native)? < rows;
        if is_empty {
            connection.execute_batch(&format!("DROP TABLE {name}")).map_err(native)?;
        }
        is_gone &= is_empty;
    }
    Ok(is_gone)
}

/// Returns those of the removed tables that still exist.
fn removed(connection: &Connection) -> Result<Vec<RemovedTable>> {
    let names = names(connection)?;
    Ok(REMOVED.into_iter().filter(|table| names.contains(table.name)).collect())
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

/// Locks by a write transaction: all steps share one, and a connection that ends rolls it back.
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
        // A backfill that is small enough is done at once.
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
