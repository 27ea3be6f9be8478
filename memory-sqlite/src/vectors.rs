//! The vectors of records: a table beside each of theirs, by the numbers of their rows.

use memory_core::{RecordId, Result};
use rusqlite::{Connection, Row};

use crate::statements::{self, bytes, first};

/// The vectors of these records, as far as they have one.
pub(crate) fn find(connection: &Connection, of: &[RecordId]) -> Result<Vec<(RecordId, Vec<u8>)>> {
    let read = |row: &Row<'_>| Ok(bytes(row, 0)?.to_vec());
    let mut found = Vec::new();
    for record in of {
        let vector = match record {
            RecordId::Memory(id) => first(connection, statements::MEMORY_VECTOR, [id.as_bytes().as_slice()], read)?,
            RecordId::Document { collection, id } => {
                first(connection, statements::DOCUMENT_VECTOR, [collection.as_str(), id.as_str()], read)?
            }
        };
        found.extend(vector.map(|vector| (record.clone(), vector)));
    }
    Ok(found)
}
