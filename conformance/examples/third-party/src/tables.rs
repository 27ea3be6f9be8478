//! The tables, and the session that works on them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use memory_core::{Error, ErrorKind, MemoryId, Result};
use redb::{Database, Key, ReadOnlyTable, ReadableDatabase, TableDefinition, Value};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::native;

/// A session on the open file. Each of its steps is a transaction.
#[derive(Debug, Clone)]
pub struct Session(pub(crate) Arc<Database>);

/// The key of a ledger row, in the order of the ledger: createdAt, and the bytes of the id.
pub(crate) type Position = (i64, u128);

/// Memories as JSON, which keeps trigger and context byte for byte.
pub(crate) const MEMORIES: TableDefinition<'_, u128, &str> = TableDefinition::new("memories");
pub(crate) const BY_TIME: TableDefinition<'_, Position, ()> = TableDefinition::new("by_time");
/// The keys in [`BY_TIME`] of pending and running memories, so that the cost of finding them depends on their number only (Q9).
pub(crate) const OPEN: TableDefinition<'_, Position, ()> = TableDefinition::new("open");
pub(crate) const KEYS: TableDefinition<'_, &str, u128> = TableDefinition::new("idempotency_keys");
/// Documents as JSON, by collection and id.
pub(crate) const DOCUMENTS: TableDefinition<'_, (&str, &str), &str> = TableDefinition::new("documents");
/// The version of the schema, by which a program refuses or migrates the data of another one.
const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
/// The key that seals cursors.
pub(crate) const SECRETS: TableDefinition<'_, (), &str> = TableDefinition::new("secrets");
pub(crate) const VERSION: u32 = 1;
/// The open files: redb opens a file once, and several providers of a process may share it.
static FILES: LazyLock<Mutex<HashMap<PathBuf, Weak<Database>>>> = LazyLock::new(Mutex::default);

impl Session {
    /// Opens a file and creates its missing tables, or shares the open file. Refuses a newer schema (L4).
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = files.get(path).and_then(Weak::upgrade) {
            return Ok(Self(database));
        }
        let database = Arc::new(Database::create(path).map_err(native)?);
        let write = database.begin_write().map_err(native)?;
        let before =
            write.open_table(META).map_err(native)?.insert("version", VERSION).map_err(native)?.map(|v| v.value());
        if before.is_some_and(|before| before > VERSION) {
            return Err(Error::new(ErrorKind::SchemaMismatch, "the schema is newer than this program"));
        }
        // Opening a table creates it, which a reading transaction can't do.
        write.open_table(MEMORIES).and(write.open_table(KEYS).map(drop)).map_err(native)?;
        write.open_table(BY_TIME).and(write.open_table(OPEN).map(drop)).map_err(native)?;
        write.open_table(DOCUMENTS).map_err(native)?;
        write.commit().map_err(native)?;
        files.insert(path.to_owned(), Arc::downgrade(&database));
        Ok(Self(database))
    }

    pub(crate) fn table<K: Key, V: Value>(&self, table: TableDefinition<'static, K, V>) -> Result<ReadOnlyTable<K, V>> {
        self.0.begin_read().map_err(native)?.open_table(table).map_err(native)
    }
}

/// An id as a number that sorts as the bytes of the id do.
pub(crate) fn number(id: MemoryId) -> u128 {
    u128::from_be_bytes(*id.as_bytes())
}

pub(crate) fn record<T: DeserializeOwned>(row: &str) -> Result<T> {
    serde_json::from_str(row).map_err(|_| Error::corrupt("the row is no record"))
}

pub(crate) fn row(record: &impl Serialize) -> Result<String> {
    serde_json::to_string(record).map_err(|_| Error::corrupt("the record has no row"))
}
