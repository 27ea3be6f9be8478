//! The rows that the server returns, and how they become records.

use memory_core::engine::{Row, StoredDocument, StoredMemory, corrupt};
use memory_core::{Document, Documents, Error, Head, Ledger, Memory, MemoryId, Result, Status, Timestamp};
use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Decode, Row as _, Type, ValueRef};
use uuid::Uuid;

use crate::error::native;

/// The index of the payload column in a slice.
const PAYLOAD: usize = 8;

/// Returns whether a row of a slice holds its payload.
pub(crate) fn has_payload(row: &PgRow) -> bool {
    !row.try_get_raw(PAYLOAD).is_ok_and(|value| value.is_null())
}

/// A row as the server returned it.
pub(crate) struct Fetched<'r> {
    pub(crate) row: &'r PgRow,
    /// The row of the slice, whose last column is the vector, if the walk reads vectors.
    pub(crate) vector: Option<&'r PgRow>,
}

impl<'r> Fetched<'r> {
    /// Wraps a row without a vector.
    fn new(row: &'r PgRow) -> Self {
        Self { row, vector: None }
    }

    fn vector_of_slice(&self) -> Result<Option<&'r [u8]>> {
        self.vector.map_or(Ok(None), |row| column(row, row.len() - 1))
    }
}

impl Row<Ledger> for Fetched<'_> {
    fn head(&self) -> Result<Head<'_>> {
        let status = Status::parse(column(self.row, 3)?).map_err(corrupt)?;
        Ok(Head { status: Some(status), ..Row::<Documents>::head(self)? })
    }

    fn read(&self, head: &Head<'_>) -> Result<Memory> {
        let stored = StoredMemory {
            id: head.id,
            created_at: head.created_at.as_millis(),
            space_id: head.space,
            status: head.status.map_or("", Status::as_str),
            updated_at: column(self.row, 4)?,
            expires_at: column(self.row, 5)?,
            revision: column(self.row, 6)?,
            metadata: column(self.row, 7)?,
            trigger: column(self.row, PAYLOAD)?,
            context: column(self.row, 9)?,
            idempotency_key: column(self.row, 10)?,
        };
        stored.read()
    }

    fn id(&self) -> String {
        memory_id(self.row).map_or_else(|_| "unknown".to_owned(), |id| id.to_string())
    }

    fn vector(&self) -> Result<Option<&[u8]>> {
        self.vector_of_slice()
    }
}

impl Row<Documents> for Fetched<'_> {
    fn head(&self) -> Result<Head<'_>> {
        let created_at = Timestamp::from_millis(column(self.row, 1)?).map_err(corrupt)?;
        let time = |index| {
            let millis = column::<Option<i64>>(self.row, index)?;
            millis.map(Timestamp::from_millis).transpose().map_err(corrupt)
        };
        Ok(Head {
            id: bytes(self.row, 0)?,
            space: column(self.row, 2)?,
            created_at,
            updated_at: time(4)?,
            status: None,
            expires_at: time(5)?,
            is_over: false,
        })
    }

    fn read(&self, _: &Head<'_>) -> Result<Document> {
        document_of(self.row)
    }

    fn id(&self) -> String {
        column(self.row, 0).unwrap_or_else(|_| "unknown".to_owned())
    }

    fn vector(&self) -> Result<Option<&[u8]>> {
        self.vector_of_slice()
    }
}

/// Reads a column; a value of another type is `Corrupt`.
pub(crate) fn column<'r, T: Decode<'r, Postgres> + Type<Postgres>>(row: &'r PgRow, index: usize) -> Result<T> {
    row.try_get(index).map_err(native)
}

/// Reads the id of a memory from the first column.
pub(crate) fn memory_id(row: &PgRow) -> Result<MemoryId> {
    Ok(MemoryId::from_bytes(column::<Uuid>(row, 0)?.into_bytes()))
}

pub(crate) fn memory_of(row: &PgRow) -> Result<Memory> {
    let row: &dyn Row<Ledger> = &Fetched::new(row);
    row.read(&row.head()?)
}

pub(crate) fn document_of(row: &PgRow) -> Result<Document> {
    let stored = StoredDocument {
        id: column(row, 0)?,
        created_at: column(row, 1)?,
        space_id: column(row, 2)?,
        collection: column(row, 3)?,
        updated_at: column(row, 4)?,
        expires_at: column(row, 5)?,
        revision: column(row, 6)?,
        metadata: column(row, 7)?,
        content: column(row, PAYLOAD)?,
    };
    stored.read()
}

/// Borrows the bytes of a uuid or text.
pub(crate) fn bytes(row: &PgRow, index: usize) -> Result<&[u8]> {
    let value = row.try_get_raw(index).map_err(native)?;
    value.as_bytes().map_err(|error| Error::corrupt("a stored id has an impossible type").with_source(error))
}
