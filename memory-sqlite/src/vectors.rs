//! The vectors of records: a table beside each table of records, by row number.

use memory_core::{RecordId, Result};
use rusqlite::{Connection, Row};

use crate::statements::{self, bytes, first};

/// Returns the vectors of these records; those without one are left out.
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
