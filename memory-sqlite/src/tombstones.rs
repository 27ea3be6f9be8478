//! The tombstones: one row for each erased record.

use memory_core::engine::corrupt;
use memory_core::{Actor, Error, KeyedHash, Reason, RecordId, Result, Timestamp, Tombstone};
use rusqlite::{Connection, Row, params};

use crate::error::native;
use crate::statements::{self, bytes, column, execute, first, optional_text, prepare, text};

/// Stores a tombstone, replacing an earlier one of the same record.
pub(crate) fn insert(connection: &Connection, tombstone: &Tombstone) -> Result<()> {
    let Tombstone { record, at, reason, actor, key, places } = tombstone;
    let (actor, key) = (actor.as_ref().map(Actor::as_str), key.as_ref().map(|key| key.0.as_slice()));
    let row = params![record.to_key(), at.as_millis(), reason.as_str(), actor, key, KeyedHash::concat(places)];
    execute(connection, statements::INSERT_TOMBSTONE, row).map(drop)
}

/// Deletes these tombstones, each if it is unchanged.
pub(crate) fn remove(connection: &Connection, tombstones: &[Tombstone]) -> Result<()> {
    for Tombstone { record, at, reason, .. } in tombstones {
        let parameters = params![record.to_key(), at.as_millis(), reason.as_str()];
        execute(connection, statements::DELETE_TOMBSTONE, parameters)?;
    }
    Ok(())
}

/// Returns the tombstones of these records.
pub(crate) fn find(connection: &Connection, of: &[RecordId]) -> Result<Vec<Tombstone>> {
    let mut found = Vec::new();
    for record in of {
        found.extend(first(connection, statements::TOMBSTONE, [record.to_key()], read)?);
    }
    Ok(found)
}

/// Returns the next tombstones in the order of their records' keys.
pub(crate) fn behind(connection: &Connection, record: &[u8], most: usize) -> Result<Vec<Tombstone>> {
    let mut rows = prepare(connection, statements::TOMBSTONES)?;
    let mut rows = rows.query(params![record, most as i64]).map_err(native)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(native)? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<Tombstone> {
    let record = RecordId::from_key(bytes(row, 5)?);
    Ok(Tombstone {
        record: record.ok_or_else(|| Error::corrupt("a tombstone is of no record"))?,
        at: Timestamp::from_millis(column(row, 0)?).map_err(corrupt)?,
        reason: Reason::parse(text(row, 1)?).map_err(corrupt)?,
        actor: optional_text(row, 2)?.map(Actor::parse).transpose().map_err(corrupt)?,
        key: column::<Option<[u8; KeyedHash::BYTES]>>(row, 3)?.map(KeyedHash),
        places: KeyedHash::all_of(bytes(row, 4)?).ok_or_else(|| Error::corrupt("the hashes of a tombstone are cut"))?,
    })
}
