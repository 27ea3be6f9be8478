//! The history: one row for each update, put and removal, in a table for each kind of record.

use memory_core::engine::{HistoryRow, VersionEntry};
use memory_core::{Actor, RecordId, Result};
use sqlx::postgres::PgRow;

use crate::connection::{Session, Statement};
use crate::row::column;
use crate::statements::id_to_sql;

/// Once the rows have this many bytes, no further one is read.
const BYTES: i64 = 4 << 20;

/// Returns the next entries of a record below a place, newest first.
pub(crate) async fn rows(session: &mut Session, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
    let newest = session.statement(|on| match of {
        RecordId::Memory(_) => &on.memory_history,
        RecordId::Document { .. } => &on.document_history,
    });
    let newest = newest.bind(i64::try_from(below).unwrap_or(i64::MAX)).bind(most as i64).bind(BYTES);
    let newest = match of {
        RecordId::Memory(id) => newest.bind(id_to_sql(*id)),
        RecordId::Document { collection, id } => newest.bind(collection.as_str()).bind(id.as_str()),
    };
    session.rows(newest).await?.iter().map(history_row).collect()
}

fn history_row(row: &PgRow) -> Result<HistoryRow> {
    let (revision, at, is_removal) = (column(row, 1)?, column(row, 2)?, column(row, 4)?);
    let before: Vec<u8> = column(row, 5)?;
    let entry = VersionEntry::from_stored(revision, at, column(row, 3)?, is_removal, before)?;
    Ok(HistoryRow { place: column::<i64>(row, 0)?.unsigned_abs(), entry })
}

/// Binds an entry: its time, actor and previous version. Without a time no entry is stored.
pub(crate) fn bind_entry(statement: Statement, entry: Option<&VersionEntry>) -> Statement {
    statement.bind(time_of(entry)).bind(actor_of(entry)).bind(before_of(entry))
}

/// Binds many entries, as arrays.
pub(crate) fn bind_entries(statement: Statement, entries: &[Option<&VersionEntry>]) -> Statement {
    let times: Vec<_> = entries.iter().copied().map(time_of).collect();
    let actors: Vec<_> = entries.iter().copied().map(actor_of).collect();
    let before: Vec<_> = entries.iter().copied().map(before_of).collect();
    statement.bind(times).bind(actors).bind(before)
}

fn time_of(entry: Option<&VersionEntry>) -> Option<i64> {
    entry.map(|entry| entry.at.as_millis())
}

fn actor_of(entry: Option<&VersionEntry>) -> Option<&str> {
    entry.and_then(|entry| entry.actor.as_ref()).map(Actor::as_str)
}

fn before_of(entry: Option<&VersionEntry>) -> Option<&[u8]> {
    entry.map(|entry| entry.before.as_slice())
}
