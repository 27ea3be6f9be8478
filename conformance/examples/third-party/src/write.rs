//! How a session writes: one transaction for each step.

use std::collections::HashSet;

use memory_core::engine::{Append, Appended, Found, Put, Removal, VersionEntry, Writer};
use memory_core::{Collection, Memory, MemoryId, Result};
use redb::{ReadableTable, WriteTransaction};

use crate::error::native;
use crate::tables::{BY_TIME, DOCUMENTS, KEYS, MEMORIES, OPEN, SECRETS, Session, number, row};

impl Writer for Session {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        self.step(|write| {
            let owners = append.memories.iter().filter_map(|memory| owner(write, memory).transpose());
            let appended = append.outcomes(&owners.collect::<Result<_>>()?, &HashSet::new());
            let mut each = append.memories.iter().zip(&appended).filter(|(_, each)| **each == Appended::Written);
            each.try_for_each(|(memory, _)| insert(write, memory)).map(|()| appended)
        })
    }

    async fn replace(
        &mut self,
        before: &Found<Memory, String>,
        after: &Memory,
        _: Option<&VersionEntry>,
    ) -> Result<bool> {
        self.step(|write| {
            let id = number(after.id);
            let present =
                write.open_table(MEMORIES).map_err(native)?.get(id).map_err(native)?.map(|row| row.value().to_owned());
            if present.as_ref() != Some(&before.version) { Ok(false) } else { insert(write, after).map(|()| true) }
        })
    }

    async fn put(&mut self, puts: &[Put<'_, String>]) -> Result<bool> {
        let write = self.0.begin_write().map_err(native)?;
        for Put { before, after, .. } in puts {
            let mut table = write.open_table(DOCUMENTS).map_err(native)?;
            let key = (after.collection.as_str(), after.id.as_str());
            let present = table.insert(key, row(after)?.as_str()).map_err(native)?.map(|row| row.value().to_owned());
            if present.as_ref() != before.map(|found| &found.version) {
                // Dropping the transaction undoes what was put before.
                return Ok(false);
            }
        }
        write.commit().map_err(native).map(|()| true)
    }

    async fn remove(&mut self, collection: &Collection, removals: &[Removal<'_, String>]) -> Result<bool> {
        let write = self.0.begin_write().map_err(native)?;
        for Removal { found: document, .. } in removals {
            let mut table = write.open_table(DOCUMENTS).map_err(native)?;
            let removed = table.remove((collection.as_str(), document.record.id.as_str())).map_err(native)?;
            if removed.is_none_or(|row| row.value() != document.version) {
                // Dropping the transaction undoes what was removed before.
                return Ok(false);
            }
        }
        write.commit().map_err(native).map(|()| true)
    }
}

impl Session {
    /// Stores the proposed secret if there is none yet, and returns the stored one.
    pub(crate) fn secret(&self, proposed: &str) -> Result<String> {
        self.step(|write| {
            let mut secrets = write.open_table(SECRETS).map_err(native)?;
            let kept = secrets.get(()).map_err(native)?.map_or(proposed.to_owned(), |row| row.value().to_owned());
            secrets.insert((), kept.as_str()).map_err(native)?;
            Ok(kept)
        })
    }

    /// Runs a step in a transaction. A failed step writes nothing.
    fn step<T>(&self, step: impl FnOnce(&WriteTransaction) -> Result<T>) -> Result<T> {
        let write = self.0.begin_write().map_err(native)?;
        let done = step(&write)?;
        write.commit().map_err(native)?;
        Ok(done)
    }
}

/// The id of the new memory, and that of the row which has its id or its idempotency key.
fn owner(write: &WriteTransaction, memory: &Memory) -> Result<Option<(MemoryId, MemoryId)>> {
    if write.open_table(MEMORIES).map_err(native)?.get(number(memory.id)).map_err(native)?.is_some() {
        return Ok(Some((memory.id, memory.id)));
    }
    let Some(key) = &memory.idempotency_key else { return Ok(None) };
    let owner = write.open_table(KEYS).map_err(native)?.get(key.as_str()).map_err(native)?.map(|id| id.value());
    Ok(owner.map(|id| (memory.id, MemoryId::from_bytes(id.to_be_bytes()))))
}

/// Writes a new or changed memory.
fn insert(write: &WriteTransaction, memory: &Memory) -> Result<()> {
    let id = number(memory.id);
    let position = (memory.created_at.as_millis(), id);
    write.open_table(MEMORIES).map_err(native)?.insert(id, row(memory)?.as_str()).map_err(native)?;
    write.open_table(BY_TIME).map_err(native)?.insert(position, ()).map_err(native)?;
    let mut open = write.open_table(OPEN).map_err(native)?;
    let changed = if memory.status.is_open() { open.insert(position, ()) } else { open.remove(position) };
    changed.map_err(native)?;
    if let Some(key) = &memory.idempotency_key {
        write.open_table(KEYS).map_err(native)?.insert(key.as_str(), id).map_err(native)?;
    }
    Ok(())
}
