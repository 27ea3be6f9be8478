//! An SQLite file of MAIAR, read on its own thread.

use std::fs::File;
use std::thread;

use futures::channel::mpsc::{self, Sender};
use futures::executor::block_on;
use futures::{SinkExt as _, StreamExt as _};
use memory_core::{Address, Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags};

use crate::record::{Record, Records};
use crate::row::{self, AHEAD, DocumentRow, MemoryRow};

const MEMORIES: &str =
    "SELECT id, space_id, trigger, context, created_at, updated_at, metadata FROM memories ORDER BY created_at, id";

/// Reads the file that a URL names after its scheme.
pub(crate) fn read(path: &str) -> Result<Records> {
    let path = Address::decode(path.strip_prefix("//").unwrap_or(path))?;
    if path.is_empty() {
        return Err(Error::invalid("the SQLite URL names no file: sqlite://maiar.db does"));
    }
    let (mut sender, records) = mpsc::channel(AHEAD);
    let reading = move || {
        if let Err(error) = send(&path, &mut sender) {
            put(&mut sender, Err(error));
        }
    };
    let failed = |error| Error::new(ErrorKind::Unexpected, "the thread that reads can't be started").with_source(error);
    thread::Builder::new().name("maiar".to_owned()).spawn(reading).map_err(failed)?;
    Ok(records.boxed())
}

/// Sends all records of the file; stops early if the receiver is dropped.
fn send(path: &str, sender: &mut Sender<Result<Record>>) -> Result<()> {
    // The database's own message about a file that can't be opened would quote its name.
    let file = File::open(path).and_then(|file| file.metadata());
    let file = file.map_err(|error| Error::new(ErrorKind::NotFound, "can't be opened").with_source(error))?;
    if !file.is_file() {
        return Err(Error::invalid("is no file: name one"));
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(unreadable)?;
    if columns(&connection, "memories").map_err(unreadable)?.is_empty() {
        return Err(Error::invalid("has no table memories"));
    }
    let mut statement = connection.prepare(MEMORIES).map_err(unreadable)?;
    for row in statement.query_map([], |row| MemoryRow::try_from(row)).map_err(unreadable)? {
        if !put(sender, row.map_err(unreadable).and_then(Record::from_memory)) {
            return Ok(());
        }
    }
    let columns = columns(&connection, "sandbox").map_err(unreadable)?;
    if columns.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare(row::documents(&columns)).map_err(unreadable)?;
    for row in statement.query_map([], |row| DocumentRow::try_from(row)).map_err(unreadable)? {
        if !put(sender, row.map_err(unreadable).and_then(Record::from_document)) {
            return Ok(());
        }
    }
    Ok(())
}

/// Sends a record. Returns whether to go on: not after an error, and not if the receiver is dropped.
fn put(sender: &mut Sender<Result<Record>>, record: Result<Record>) -> bool {
    let is_good = record.is_ok();
    block_on(sender.send(record)).is_ok() && is_good
}

/// The names of the columns of a table; empty if there is no such table.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn unreadable(error: rusqlite::Error) -> Error {
    Error::new(ErrorKind::Corrupt, "can't be read as an SQLite database of MAIAR").with_source(error)
}
