//! The writing part of a session. All steps of a call run in one transaction, which the writer's thread begins and
//! commits.

use memory_core::engine::{
    Append, Appended, Atomicity, Embed, EmbedRecord, Erasing, Found, Put, Removal, VersionEntry, Writer,
};
use memory_core::{
    Collection, Context, Document, Error, IdempotencyKey, Memory, MemoryId, RecordId, Result, Timestamp, Tombstone,
};
use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Row, params, params_from_iter};

use crate::connection::Session;
use crate::erasure;
use crate::expiry;
use crate::history;
use crate::paths::{self, PathEntry};
use crate::statements::{self, SLOT_BITS, column, execute, first};
use crate::tombstones;

impl Writer for Session {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        let mut appended = Vec::with_capacity(append.memories.len());
        // If no memory was ever erased, tombstones are not searched.
        let has_tombstones = self.next_memory()?.is_some();
        for memory in append.memories {
            appended.push(match has_tombstones && self.is_erased(memory, &append)? {
                true => Appended::Erased,
                false => self.owner(memory, append.is_repeated)?.map_or(Appended::Written, Appended::Taken),
            });
        }
        let is_refused = append.atomicity == Atomicity::All && appended.iter().any(|one| *one != Appended::Written);
        if is_refused {
            let refused = |one| if one == Appended::Written { Appended::NotWritten } else { one };
            return Ok(appended.into_iter().map(refused).collect());
        }
        let fresh = append.memories.iter().zip(&appended).filter(|(_, one)| **one == Appended::Written);
        let mut fresh: Vec<_> = fresh.map(|(memory, _)| *memory).collect();
        // In the order of time, so that rows of one millisecond get separate slots.
        fresh.sort_unstable_by_key(|memory| (memory.created_at, memory.id));
        fresh.into_iter().try_for_each(|memory| self.insert(memory, append.at))?;
        Ok(appended)
    }

    async fn replace(
        &mut self,
        before: &Found<Memory, i64>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> Result<bool> {
        let parameters = params![
            before.version,
            after.id.as_bytes().as_slice(),
            i64::from(before.record.revision),
            after.status.as_str(),
            after.context.as_ref().map(Context::as_str),
            after.updated_at.map(Timestamp::as_millis),
            after.metadata.as_str(),
            i64::from(after.revision),
            after.expires_at.map(Timestamp::as_millis),
        ];
        if execute(&self.connection, statements::UPDATE_MEMORY, parameters)? == 0 {
            return Ok(false);
        }
        self.bytes += after.size();
        if !after.has_texts_of(&before.record) {
            execute(&self.connection, statements::DELETE_MEMORY_VECTOR, [before.version])?;
        }
        self.feed.note_memory(before.version);
        self.keep(&after.id.into(), entry)?;
        Ok(true)
    }

    async fn put(&mut self, puts: &[Put<'_, i64>]) -> Result<bool> {
        // All are checked before any is written: to undo a part, SQLite would have to journal each changed page.
        for put in puts {
            if !self.may_put(put)? {
                return Ok(false);
            }
        }
        puts.iter().try_for_each(|put| self.put_one(put))?;
        Ok(true)
    }

    async fn remove(&mut self, _: &Collection, removals: &[Removal<'_, i64>]) -> Result<bool> {
        for Removal { found, .. } in removals {
            let parameters = params_from_iter(found_values(found));
            if first(&self.connection, statements::DOCUMENT_IS_UNCHANGED, parameters, |_| Ok(()))?.is_none() {
                return Ok(false);
            }
        }
        for Removal { found, end } in removals {
            self.bytes += found.record.size();
            execute(&self.connection, statements::DELETE_DOCUMENT, [found.version])?;
            self.feed.note_removal(&found.record);
            self.keep(&(&found.record).into(), end.as_ref())?;
        }
        Ok(true)
    }

    async fn erase(&mut self, erasings: &[Erasing<'_, i64>]) -> Result<bool> {
        erasure::erase(self, erasings)
    }

    async fn forget(&mut self, tombstones: &[Tombstone]) -> Result<()> {
        tombstones::remove(&self.connection, tombstones)
    }

    async fn embed(&mut self, embeds: &[Embed<'_, i64>]) -> Result<Vec<bool>> {
        embeds.iter().map(|embed| self.embed_one(embed)).collect()
    }
}

impl Session {
    /// Returns whether a put may proceed: no tombstone blocks it, and the document that it replaces is as it was read.
    fn may_put(&self, Put { before, after, is_guarded, .. }: &Put<'_, i64>) -> Result<bool> {
        if *is_guarded && self.keeps_out(&(*after).into(), after.created_at)? {
            return Ok(false);
        }
        Ok(match before {
            None => {
                let name = [after.collection.as_str(), after.id.as_str()];
                first(&self.connection, statements::HAS_DOCUMENT, name, |_| Ok(()))?.is_none()
            }
            Some(before) => {
                let found = params_from_iter(found_values(before));
                first(&self.connection, statements::DOCUMENT_IS_UNCHANGED, found, |_| Ok(()))?.is_some()
            }
        })
    }

    fn put_one(&mut self, Put { before, after, entry, .. }: &Put<'_, i64>) -> Result<()> {
        self.bytes += after.size();
        let put = match before {
            None => execute(&self.connection, statements::INSERT_DOCUMENT, params_from_iter(values_of(after)))?,
            Some(before) => {
                let [_, _, space, _, content, updated_at, metadata, revision, expires_at] = values_of(after);
                let changed = [space, content, updated_at, metadata, revision, expires_at];
                let parameters = found_values(before).chain(changed);
                execute(&self.connection, statements::UPDATE_DOCUMENT, params_from_iter(parameters))?
            }
        };
        // There is no other writer within the transaction.
        if put != 1 {
            return Err(Error::corrupt("a document was there once, and then not, within a transaction"));
        }
        if let Some(before) = before.filter(|before| !after.has_texts_of(&before.record)) {
            execute(&self.connection, statements::DELETE_DOCUMENT_VECTOR, [before.version])?;
        }
        self.feed.note_put(before.map(|before| &before.record), after);
        self.keep(&(*after).into(), entry.as_ref())
    }

    fn embed_one(&mut self, Embed { found, vector }: &Embed<'_, i64>) -> Result<bool> {
        self.bytes += vector.len();
        let kept = match found {
            EmbedRecord::Memory(Found { record, version }) => {
                let (id, revision) = (record.id.as_bytes().as_slice(), i64::from(record.revision));
                execute(&self.connection, statements::KEEP_MEMORY_VECTOR, params![version, id, revision, vector])?
            }
            EmbedRecord::Document(found) => {
                let parameters = found_values(found).chain([ToSqlOutput::from(vector.as_slice())]);
                execute(&self.connection, statements::KEEP_DOCUMENT_VECTOR, params_from_iter(parameters))?
            }
        };
        Ok(kept == 1)
    }

    /// Stores an entry of a record's history.
    fn keep(&mut self, of: &RecordId, entry: Option<&VersionEntry>) -> Result<()> {
        let Some(entry) = entry else { return Ok(()) };
        self.bytes += entry.before.len();
        history::insert(&self.connection, of, entry)
    }

    /// Returns whether a tombstone has the id or the key of a new memory.
    fn is_erased(&self, memory: &Memory, append: &Append<'_>) -> Result<bool> {
        let record = append.is_repeated.then(|| RecordId::from(memory.id).to_key());
        if let Some(record) = record
            && first(&self.connection, statements::HAS_TOMBSTONE, [record], |_| Ok(()))?.is_some()
        {
            return Ok(true);
        }
        let Some(hash) = append.hash(memory) else { return Ok(false) };
        Ok(first(&self.connection, statements::KEY_HAS_TOMBSTONE, [hash.0], |_| Ok(()))?.is_some())
    }

    /// Returns whether a tombstone blocks a document (E3).
    fn keeps_out(&self, record: &RecordId, created_at: Timestamp) -> Result<bool> {
        let parameters = params![record.to_key(), created_at.as_millis()];
        Ok(first(&self.connection, statements::HAS_LATER_TOMBSTONE, parameters, |_| Ok(()))?.is_some())
    }

    /// Returns the number for the next memory, if any was ever erased.
    fn next_memory(&mut self) -> Result<Option<i64>> {
        if self.next_memory.is_none() {
            self.next_memory = Some(first(&self.connection, statements::NEXT_MEMORY, [], |row| column(row, 0))?);
        }
        Ok(self.next_memory.flatten())
    }

    /// Returns the memory that already has the id of a new one, or its key.
    fn owner(&self, memory: &Memory, is_repeated: bool) -> Result<Option<MemoryId>> {
        let id = memory.id.as_bytes().as_slice();
        if is_repeated && first(&self.connection, statements::SLOT_OF_ID, [id], |_| Ok(()))?.is_some() {
            return Ok(Some(memory.id));
        }
        let Some(key) = &memory.idempotency_key else { return Ok(None) };
        // A row with an invalid id still owns its key.
        let read = |row: &Row<'_>| Ok(MemoryId::from_bytes(column(row, 0).unwrap_or_default()));
        first(&self.connection, statements::MEMORY_BY_KEY, [key.as_str()], read)
    }

    fn insert(&mut self, memory: &Memory, at: Option<Timestamp>) -> Result<()> {
        self.bytes += memory.size();
        let (slot, is_shared) = self.slot_for(memory)?;
        let next = self.next_memory()?;
        let parameters = params![
            memory.id.as_bytes().as_slice(),
            slot,
            memory.space_id.as_str(),
            memory.status.as_str(),
            memory.trigger.as_str(),
            memory.context.as_ref().map(Context::as_str),
            memory.updated_at.map(Timestamp::as_millis),
            memory.metadata.as_str(),
            i64::from(memory.revision),
            memory.idempotency_key.as_ref().map(IdempotencyKey::as_str),
            memory.expires_at.map(Timestamp::as_millis),
            next,
        ];
        execute(&self.connection, statements::INSERT_MEMORY, parameters)?;
        let seq = self.connection.last_insert_rowid();
        self.next_memory = Some(next.map(|_| seq + 1));
        expiry::insert(&self.connection, memory)?;
        self.feed.note_memory(seq);
        if self.stored_at != Some(at) {
            execute(&self.connection, statements::INSERT_STORES, params![seq, at.map(Timestamp::as_millis)])?;
            self.stored_at = Some(at);
        }
        self.paths.push(PathEntry { slot, tokens: paths::tokens_of(memory), is_shared });
        Ok(())
    }

    /// Returns the slot for a new row, and whether other rows are in it.
    ///
    /// Slots are in the order of (createdAt, id). A row that is the last of its millisecond, as in a sequence of
    /// stores, gets the next slot. Only a row that comes before another one of its millisecond, or after more than a
    /// million of them, shares a slot: that of the row before it, or else the first one.
    fn slot_for(&self, memory: &Memory) -> Result<(i64, bool)> {
        let start = memory.created_at.as_millis() << SLOT_BITS;
        let end = start | ((1 << SLOT_BITS) - 1);
        let id = memory.id.as_bytes().as_slice();
        // A row with an invalid id still has its place in the order.
        let read = |row: &Row<'_>| Ok((column::<i64>(row, 0)?, statements::bytes(row, 1)? < id));
        let last = first(&self.connection, statements::LAST_OF_MILLISECOND, [start, end], read)?;
        let Some((last, is_before)) = last else { return Ok((start, false)) };
        if is_before {
            return Ok((last + i64::from(last < end), last == end));
        }
        // Finds the last slot whose first row comes before the new one, or else the first slot.
        let (mut low, mut high) = (start, last);
        while low < high {
            let middle = low + (high - low + 1) / 2;
            match first(&self.connection, statements::FIRST_FROM_SLOT, [middle, high], read)? {
                Some((slot, true)) => low = slot,
                _ => high = middle - 1,
            }
        }
        Ok((low, true))
    }
}

/// Returns the column values of a document for an insert.
fn values_of(document: &Document) -> [ToSqlOutput<'_>; 9] {
    [
        document.id.as_str().into(),
        document.created_at.as_millis().into(),
        document.space_id.as_str().into(),
        document.collection.as_str().into(),
        document.content.as_str().into(),
        ToSqlOutput::Owned(Value::from(document.updated_at.map(Timestamp::as_millis))),
        document.metadata.as_str().into(),
        i64::from(document.revision).into(),
        ToSqlOutput::Owned(Value::from(document.expires_at.map(Timestamp::as_millis))),
    ]
}

/// Returns the values that identify a document as it was read.
pub(crate) fn found_values(found: &Found<Document, i64>) -> impl Iterator<Item = ToSqlOutput<'_>> {
    std::iter::once(found.version.into()).chain(values_of(&found.record))
}
