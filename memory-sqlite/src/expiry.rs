//! The list of the records with an expiry time of their own. Triggers maintain it, except for new memories.

use memory_core::{Memory, RecordId, Result, Timestamp};
use rusqlite::{Connection, params};

use crate::error::native;
use crate::statements::{self, bytes, column, execute, prepare};

/// Adds a new memory to the list, if it expires.
pub(crate) fn insert(connection: &Connection, memory: &Memory) -> Result<()> {
    let Some(time) = memory.expires_at else { return Ok(()) };
    let entry = params![time.as_millis(), RecordId::from(memory.id).to_key()];
    execute(connection, statements::INSERT_EXPIRY, entry).map(drop)
}

/// Returns the next records that expired by a time, in the order of their times.
pub(crate) fn behind(
    connection: &Connection,
    by: Timestamp,
    behind: Option<&(Timestamp, RecordId)>,
    most: usize,
) -> Result<Vec<(Timestamp, RecordId)>> {
    let (after, record) = behind.map_or((i64::MIN, Vec::new()), |(time, record)| (time.as_millis(), record.to_key()));
    let mut rows = prepare(connection, statements::EXPIRED)?;
    let mut rows = rows.query(params![by.as_millis(), after, record]).map_err(native)?;
    let mut found = Vec::new();
    while found.len() < most
        && let Some(row) = rows.next().map_err(native)?
    {
        // An invalid time or id belongs to a damaged record, which hides no other.
        let (time, record) = (Timestamp::from_millis(column(row, 0)?), RecordId::from_key(bytes(row, 1)?));
        found.extend(time.ok().zip(record));
    }
    Ok(found)
}
