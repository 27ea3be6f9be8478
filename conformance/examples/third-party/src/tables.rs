//! The tables, and what is read and written in them.

use memory_core::{Collection, Document, DocumentId, Error, ErrorKind, Memory, MemoryId, Result};
use redb::{Database, ReadableTable, Table, TableDefinition, WriteTransaction};
use serde_json::from_str;

use crate::error::native;

/// The version of the schema: what a later program refuses or migrates.
pub(crate) const VERSION: u32 = 1;

/// The order of the ledger: createdAt, and the bytes of the id.
pub(crate) type Place = (i64, u128);

const META: TableDefinition<'_, &str, u32> = TableDefinition::new("meta");
/// Memories as JSON, which keeps trigger and context byte for byte.
pub(crate) const MEMORIES: TableDefinition<'_, u128, &str> = TableDefinition::new("memories");
pub(crate) const BY_TIME: TableDefinition<'_, Place, ()> = TableDefinition::new("by_time");
/// Those of [`BY_TIME`] that are pending or running, so that finding them costs what they are (Q9).
pub(crate) const OPEN: TableDefinition<'_, Place, ()> = TableDefinition::new("open");
pub(crate) const KEYS: TableDefinition<'_, &str, u128> = TableDefinition::new("idempotency_keys");
/// Documents as JSON, by collection and id.
pub(crate) const DOCUMENTS: TableDefinition<'_, (&str, &str), &str> = TableDefinition::new("documents");

/// Makes what is missing, and refuses what is newer (L4).
pub(crate) fn prepare(database: &Database) -> Result<()> {
    let write = database.begin_write().map_err(native)?;
    {
        let mut meta = write.open_table(META).map_err(native)?;
        let present = meta.get("version").map_err(native)?.map(|version| version.value());
        match present {
            Some(version) if version > VERSION => {
                let message = format!("the schema has version {version}, and this program knows {VERSION}");
                return Err(Error::new(ErrorKind::SchemaMismatch, message));
            }
            Some(_) => {}
            None => drop(meta.insert("version", VERSION).map_err(native)?),
        }
        // To open a table makes it, and a transaction that reads can't.
        write.open_table(MEMORIES).map_err(native)?;
        write.open_table(BY_TIME).map_err(native)?;
        write.open_table(OPEN).map_err(native)?;
        write.open_table(KEYS).map_err(native)?;
        write.open_table(DOCUMENTS).map_err(native)?;
    }
    write.commit().map_err(native)
}

/// The ledger within a transaction that writes.
pub(crate) struct Ledger<'t> {
    memories: Table<'t, u128, &'static str>,
    by_time: Table<'t, Place, ()>,
    open: Table<'t, Place, ()>,
    keys: Table<'t, &'static str, u128>,
}

impl<'t> Ledger<'t> {
    pub(crate) fn of(write: &'t WriteTransaction) -> Result<Self> {
        Ok(Self {
            memories: write.open_table(MEMORIES).map_err(native)?,
            by_time: write.open_table(BY_TIME).map_err(native)?,
            open: write.open_table(OPEN).map_err(native)?,
            keys: write.open_table(KEYS).map_err(native)?,
        })
    }

    pub(crate) fn get(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.memories.get(number(id)).map_err(native)?.map(|json| memory(json.value())).transpose()
    }

    /// The memory behind an idempotency key.
    pub(crate) fn by_key(&self, memory: &Memory) -> Result<Option<Memory>> {
        let Some(key) = &memory.idempotency_key else { return Ok(None) };
        let id = self.keys.get(key.as_str()).map_err(native)?.map(|id| MemoryId::from_bytes(id.value().to_be_bytes()));
        id.map_or(Ok(None), |id| self.get(id))
    }

    /// Writes a memory that is new, or changed.
    pub(crate) fn put(&mut self, memory: &Memory) -> Result<()> {
        let place = place(memory);
        self.memories.insert(number(memory.id), json(memory)?.as_str()).map_err(native)?;
        self.by_time.insert(place, ()).map_err(native)?;
        if memory.status.is_open() {
            self.open.insert(place, ()).map_err(native)?;
        } else {
            self.open.remove(place).map_err(native)?;
        }
        if let Some(key) = &memory.idempotency_key {
            self.keys.insert(key.as_str(), number(memory.id)).map_err(native)?;
        }
        Ok(())
    }
}

/// The documents of a collection; those that can't be read are errors of their own.
pub(crate) fn documents(
    table: &impl ReadableTable<(&'static str, &'static str), &'static str>,
    collection: &Collection,
) -> Result<Vec<(DocumentId, Result<Document>)>> {
    let mut found = Vec::new();
    for entry in table.range((collection.as_str(), "")..).map_err(native)? {
        let (key, json) = entry.map_err(native)?;
        let (name, id) = key.value();
        if name != collection.as_str() {
            break;
        }
        found.push((DocumentId::parse(id)?, document(json.value())));
    }
    Ok(found)
}

/// The id as a number, which is in the order of its bytes.
pub(crate) fn number(id: MemoryId) -> u128 {
    u128::from_be_bytes(*id.as_bytes())
}

pub(crate) fn place(memory: &Memory) -> Place {
    (memory.created_at.as_millis(), number(memory.id))
}

pub(crate) fn memory(json: &str) -> Result<Memory> {
    from_str(json).map_err(|_| Error::corrupt("the row is no memory"))
}

pub(crate) fn document(json: &str) -> Result<Document> {
    from_str(json).map_err(|_| Error::corrupt("the row is no document"))
}

pub(crate) fn json(record: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(record).map_err(|error| Error::new(ErrorKind::Unexpected, "no JSON").with_source(error))
}
