//! The history: a row for each write that replaced or removed a record, or put a document where there was none.

use memory_core::engine::{HistoryRow, VersionEntry};
use memory_core::{Actor, RecordId, Result};
use rusqlite::{Connection, params};

use crate::error::native;
use crate::statements::{self, bytes, column, execute, optional_text, prepare};

/// Once the rows have this many bytes, no further one is read.
const BYTES: usize = 4 << 20;

/// Appends an entry, in the transaction of its write.
pub(crate) fn insert(connection: &Connection, of: &RecordId, entry: &VersionEntry) -> Result<()> {
    let VersionEntry { revision, at, actor, is_removal, before } = entry;
    let actor = actor.as_ref().map(Actor::as_str);
    let row = params![of.to_key(), i64::from(*revision), at.as_millis(), actor, is_removal, before];
    execute(connection, statements::INSERT_HISTORY, row).map(drop)
}

/// Returns the next entries of a record below a place, newest first.
pub(crate) fn rows(connection: &Connection, of: &RecordId, below: u64, most: usize) -> Result<Vec<HistoryRow>> {
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let mut statement = prepare(connection, statements::HISTORY)?;
    let mut rows = statement.query(params![of.to_key(), below, most as i64]).map_err(native)?;
    let (mut found, mut size) = (Vec::new(), 0);
    while size <= BYTES
        && let Some(row) = rows.next().map_err(native)?
    {
        let before = bytes(row, 5)?;
        size += before.len();
        let entry = VersionEntry::from_stored(
            column(row, 1)?,
            column(row, 2)?,
            optional_text(row, 3)?,
            column(row, 4)?,
            before,
        )?;
        found.push(HistoryRow { place: column::<i64>(row, 0)?.unsigned_abs(), entry });
    }
    Ok(found)
}
