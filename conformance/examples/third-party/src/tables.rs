//! The tables, and the session that works on them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use memory_core::{Error, ErrorKind, MemoryId, Result};
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::native;

/// A session: the open file. Each of its steps is a transaction.
#[derive(Debug, Clone)]
pub struct Session(pub(crate) Arc<Database>);

/// The order of the ledger: createdAt, and the bytes of the id.
pub(crate) type Position = (i64, u128);

/// Memories as JSON, which keeps trigger and context byte for byte.
pub(crate) const MEMORIES: TableDefinition<'_, u128, &str> = TableDefinition::new("memories");
pub(crate) const BY_TIME: TableDefinition<'_, Position, ()> = TableDefinition::new("by_time");
/// Those of [`BY_TIME`] that are pending or running, so that finding them costs what they are (Q9).
pub(crate) const OPEN: TableDefinition<'_, Position, ()> = TableDefinition::new("open");
pub(crate) const KEYS: TableDefinition<'_, &str, u128> = TableDefinition::new("idempotency_keys");
/// Documents as JSON, by collection and id.
pub(crate) const DOCUMENTS: TableDefinition<'_, (&str, &str), &str> = TableDefinition::new("documents");
const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");

/// The version of the schema: what a later program refuses or migrates.
pub(crate) const VERSION: u32 = 1;

/// The files that are open: redb takes a file once, and several providers of a process may share it.
static FILES: LazyLock<Mutex<HashMap<PathBuf, Weak<Database>>>> = LazyLock::new(Mutex::default);

impl Session {
    /// Opens a file and makes what is missing of it, or shares it. Refuses a newer schema (L4).
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = files.get(path).and_then(Weak::upgrade) {
            return Ok(Self(database));
        }
        let database = Arc::new(Database::create(path).map_err(native)?);
        let write = database.begin_write().map_err(native)?;
        let version =
            write.open_table(META).map_err(native)?.insert("version", VERSION).map_err(native)?.map(|v| v.value());
        if version.is_some_and(|version| version > VERSION) {
            let message = format!("the schema is newer than version {VERSION}, which this program knows");
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        // To open a table makes it, and a transaction that reads can't.
        write.open_table(MEMORIES).map_err(native)?;
        write.open_table(BY_TIME).map_err(native)?;
        write.open_table(OPEN).map_err(native)?;
        write.open_table(KEYS).map_err(native)?;
        write.open_table(DOCUMENTS).map_err(native)?;
        write.commit().map_err(native)?;
        files.insert(path.to_owned(), Arc::downgrade(&database));
        Ok(Self(database))
    }

    /// A table as it is now.
    pub(crate) fn table<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        table: TableDefinition<'static, K, V>,
    ) -> Result<ReadOnlyTable<K, V>> {
        self.0.begin_read().map_err(native)?.open_table(table).map_err(native)
    }

    pub(crate) fn row(&self, id: MemoryId) -> Result<Option<String>> {
        Ok(self.table(MEMORIES)?.get(number(id)).map_err(native)?.map(|row| row.value().to_owned()))
    }
}

/// An id as a number, which is in the order of its bytes.
pub(crate) fn number(id: MemoryId) -> u128 {
    u128::from_be_bytes(*id.as_bytes())
}

/// A record in its row.
pub(crate) fn record<T: DeserializeOwned>(row: &str) -> Result<T> {
    serde_json::from_str(row).map_err(|_| Error::corrupt("the row is no record"))
}

/// The row of a record.
pub(crate) fn row(record: &impl Serialize) -> Result<String> {
    serde_json::to_string(record).map_err(|error| Error::new(ErrorKind::Unexpected, "no JSON").with_source(error))
}
