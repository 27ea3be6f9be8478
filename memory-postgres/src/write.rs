//! The writing part of a session: each step is one statement, or a short transaction.

use std::collections::{HashMap, HashSet};

use memory_core::engine::{Append, Appended, Atomicity, Embed, Erasing, Found, Put, Removal, VersionEntry, Writer};
use memory_core::{
    Collection, Context, IdempotencyKey, Memory, MemoryId, Outcome, Result, Timestamp, Tombstone, path_hash,
};
use sqlx::query::Query;

use crate::connection::{Session, Statement};
use crate::erasure::{self, hash};
use crate::expiry;
use crate::history::{bind_entries, bind_entry};
use crate::row::{column, memory_id};
use crate::statements::id_to_sql;
use crate::vectors;

/// Aborts a transaction that waits longer than 100 ms for another one that holds a key it writes.
const WITHOUT_PATIENCE: &str = "; SET LOCAL lock_timeout = 100";

impl Writer for Session {
    async fn append(&mut self, append: Append<'_>) -> Result<Vec<Appended>> {
        let Append { memories, atomicity, is_repeated, .. } = append;
        let is_one_statement = memories.len() == 1 || memories.iter().all(|memory| memory.idempotency_key.is_none());
        let transaction = match atomicity {
            // One statement is atomic by itself; but of several keys some may be taken.
            _ if is_one_statement => None,
            Atomicity::All => Some(""),
            // Stores of several callers, none of which should wait for another's key: each is retried alone.
            Atomicity::Each => (!is_repeated).then_some(WITHOUT_PATIENCE),
        };
        if let Some(and) = transaction {
            self.begin(and).await?;
        }
        let mut appended = HashMap::new();
        let done = self.append_each(append, &mut appended).await;
        let has_written = appended.values().any(|one| *one == Appended::Written);
        // An open transaction is rolled back when the session is dropped.
        let earlier = Outcome::unknown_if(transaction.is_none() && has_written);
        done.map_err(|error| error.after(earlier))?;
        let is_refused = atomicity == Atomicity::All && appended.values().any(|one| *one != Appended::Written);
        match transaction {
            Some(_) if is_refused => {
                self.rollback().await?;
                appended.retain(|_, one| *one != Appended::Written);
            }
            Some(_) => self.commit().await?,
            None => {}
        }
        let of = |memory: &&Memory| appended.get(&memory.id).copied().unwrap_or(Appended::NotWritten);
        Ok(memories.iter().map(of).collect())
    }

    async fn replace(
        &mut self,
        before: &Found<Memory, i64>,
        after: &Memory,
        entry: Option<&VersionEntry>,
    ) -> Result<bool> {
        let update = self.statement(|on| &on.update_memory);
        let update = update
            .bind(id_to_sql(after.id))
            .bind(before.version)
            .bind(after.status.as_str())
            .bind(after.context.as_ref().map(Context::as_str))
            .bind(after.updated_at.map(Timestamp::as_millis))
            .bind(after.metadata.as_str())
            .bind(i64::from(after.revision));
        let update = bind_entry(update, entry).bind(after.expires_at.map(Timestamp::as_millis));
        Ok(self.write(update).await? > 0)
    }

    async fn put(&mut self, puts: &[Put<'_, i64>]) -> Result<bool> {
        if let [put] = puts {
            return self.put_one(put).await;
        }
        self.begin("").await?;
        // Nothing is written before the end of the transaction, whatever happens to the connection.
        let is_done = self.put_each(puts).await.map_err(|error| error.with_outcome(Outcome::NotDone))?;
        if is_done {
            self.commit().await?
        } else {
            self.rollback().await?
        }
        Ok(is_done)
    }

    async fn remove(&mut self, collection: &Collection, removals: &[Removal<'_, i64>]) -> Result<bool> {
        let ids: Vec<_> = removals.iter().map(|removal| removal.found.record.id.as_str()).collect();
        let writers: Vec<_> = removals.iter().map(|removal| removal.found.version).collect();
        let revisions: Vec<_> = removals.iter().map(|removal| i64::from(removal.found.record.revision)).collect();
        let ends: Vec<_> = removals.iter().map(|removal| removal.end.as_ref()).collect();
        let delete = self.statement(|on| &on.delete_documents).bind(collection.as_str()).bind(ids).bind(writers);
        Ok(self.write(bind_entries(delete.bind(revisions), &ends)).await? == removals.len() as u64)
    }

    async fn erase(&mut self, erasings: &[Erasing<'_, i64>]) -> Result<bool> {
        erasure::erase(self, erasings).await
    }

    async fn forget(&mut self, tombstones: &[Tombstone]) -> Result<()> {
        expiry::forget(self, tombstones).await
    }

    async fn embed(&mut self, embeds: &[Embed<'_, i64>]) -> Result<Vec<bool>> {
        vectors::embed(self, embeds).await
    }
}

impl Session {
    async fn put_one(&mut self, put: &Put<'_, i64>) -> Result<bool> {
        let (Put { before, after, entry, .. }, guarded_at) = (put, guarded_at(put));
        let put = match before {
            None => self.statement(|on| &on.insert_document),
            Some(_) => self.statement(|on| &on.update_document),
        };
        let put = put
            .bind(after.collection.as_str())
            .bind(after.id.as_str())
            .bind(after.created_at.as_millis())
            .bind(after.updated_at.map(Timestamp::as_millis))
            .bind(i64::from(after.revision))
            .bind(after.space_id.as_str())
            .bind(after.metadata.as_str())
            .bind(after.content.as_str());
        let put = bind_entry(put, entry.as_ref()).bind(guarded_at).bind(after.expires_at.map(Timestamp::as_millis));
        let put = before.iter().map(|before| before.version).fold(put, Query::bind);
        Ok(self.write(put).await? == 1)
    }

    /// Puts documents: one statement for changed ones, and one for new ones. Returns `false` at the first statement
    /// that has not put all of its documents.
    async fn put_each(&mut self, puts: &[Put<'_, i64>]) -> Result<bool> {
        let mut puts: Vec<_> = puts.iter().collect();
        // All transactions take their locks in the same order, so that they don't deadlock.
        puts.sort_by_cached_key(|put| (put.after.collection.clone(), put.after.id.clone()));
        let (new, changed): (Vec<_>, Vec<_>) = puts.into_iter().partition(|put| put.before.is_none());
        for (puts, statement) in
            [(changed, self.statement(|on| &on.update_documents)), (new, self.statement(|on| &on.insert_documents))]
        {
            if puts.is_empty() {
                continue;
            }
            let versions: Vec<_> = puts.iter().filter_map(|put| Some(put.before?.version)).collect();
            let documents: Vec<_> = puts.iter().map(|put| put.after).collect();
            let entries: Vec<_> = puts.iter().map(|put| put.entry.as_ref()).collect();
            let put = statement
                .bind(all(&documents, |document| document.collection.as_str()))
                .bind(all(&documents, |document| document.id.as_str()))
                .bind(all(&documents, |document| document.created_at.as_millis()))
                .bind(all(&documents, |document| document.updated_at.map(Timestamp::as_millis)))
                .bind(all(&documents, |document| i64::from(document.revision)))
                .bind(all(&documents, |document| document.space_id.as_str()))
                .bind(all(&documents, |document| document.metadata.as_str()))
                .bind(all(&documents, |document| document.content.as_str()));
            let put = bind_entries(put, &entries)
                .bind(all(&puts, guarded_at))
                .bind(all(&documents, |document| document.expires_at.map(Timestamp::as_millis)));
            let put = if versions.is_empty() { put } else { put.bind(versions) };
            if self.write(put).await? != documents.len() as u64 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends each memory that does not exist and was not erased, and finds out what blocks the others.
    async fn append_each(&mut self, append: Append<'_>, appended: &mut HashMap<MemoryId, Appended>) -> Result<()> {
        let mut missing = append.memories.to_vec();
        loop {
            appended.extend(self.insert(append, &missing).await?);
            missing.retain(|memory| !appended.contains_key(&memory.id));
            if !missing.is_empty() {
                appended.extend(self.obstacles(append, &missing).await?);
                missing.retain(|memory| !appended.contains_key(&memory.id));
            }
            if missing.is_empty() {
                return Ok(());
            }
            // The memory that had a key was erased meanwhile.
        }
    }

    /// Returns, for each memory that can't be written, that it was erased, or which memory has its id, or else its key.
    async fn obstacles(&mut self, append: Append<'_>, memories: &[&Memory]) -> Result<HashMap<MemoryId, Appended>> {
        let ids: Vec<_> = memories.iter().map(|memory| id_to_sql(memory.id)).collect();
        let keys: Vec<_> = memories.iter().filter_map(|memory| key_of(memory)).collect();
        let hashes: Vec<_> = memories.iter().filter_map(|memory| key_hash(append, memory)).collect();
        let known = self.statement(|on| &on.known_memories).bind(ids).bind(keys).bind(hashes);
        let rows = self.rows(known).await?;
        let (mut by_id, mut by_key) = (HashMap::new(), HashMap::new());
        let (mut erased, mut erased_keys) = (HashSet::new(), HashSet::new());
        for row in &rows {
            let id = memory_id(row)?;
            if column(row, 2)? {
                erased.insert(id);
                erased_keys.extend(column::<Option<&[u8]>>(row, 3)?.map(hash).transpose()?);
            } else {
                by_id.insert(id, id);
                by_key.extend(column::<Option<&str>>(row, 1)?.map(|key| (key, id)));
            }
        }
        let obstacle = |memory: &&Memory| {
            if erased.contains(&memory.id) || append.hash(memory).is_some_and(|hash| erased_keys.contains(&hash)) {
                return Some((memory.id, Appended::Erased));
            }
            let owner = by_id.get(&memory.id).or_else(|| by_key.get(key_of(memory)?))?;
            Some((memory.id, Appended::Taken(*owner)))
        };
        Ok(memories.iter().filter_map(obstacle).collect())
    }

    /// Inserts those memories that don't exist and were not erased; returns them.
    async fn insert(&mut self, append: Append<'_>, memories: &[&Memory]) -> Result<HashMap<MemoryId, Appended>> {
        if let [memory] = memories {
            let is_written = self.insert_one(append, memory).await?;
            return Ok(is_written.then_some((memory.id, Appended::Written)).into_iter().collect());
        }
        let may_be_erased = memories.iter().any(|memory| may_be_erased(append, memory));
        let insert = self.statement(|on| match may_be_erased {
            true => &on.insert_memories_unless_erased,
            false => &on.insert_memories,
        });
        let insert = insert
            .bind(all(memories, |memory| id_to_sql(memory.id)))
            .bind(all(memories, |memory| memory.created_at.as_millis()))
            .bind(all(memories, |memory| memory.updated_at.map(Timestamp::as_millis)))
            .bind(all(memories, |memory| i64::from(memory.revision)))
            .bind(all(memories, |memory| memory.status.as_str()))
            .bind(all(memories, |memory| memory.space_id.as_str()))
            .bind(all(memories, key_of))
            .bind(all(memories, |memory| memory.metadata.as_str()))
            .bind(all(memories, |memory| memory.trigger.as_str()))
            .bind(all(memories, |memory| memory.context.as_ref().map(Context::as_str)))
            .bind(all(memories, paths_as_text))
            .bind(append.at.map(Timestamp::as_millis))
            .bind(all(memories, |memory| memory.expires_at.map(Timestamp::as_millis)));
        let insert = match may_be_erased {
            true => insert.bind(all(memories, |memory| key_hash(append, memory))),
            false => insert,
        };
        let rows = self.written_rows(insert).await?;
        rows.iter().map(|row| Ok((memory_id(row)?, Appended::Written))).collect()
    }

    /// Inserts one memory; returns whether it was written.
    async fn insert_one(&mut self, append: Append<'_>, memory: &Memory) -> Result<bool> {
        let (paths, may_be_erased) = (paths_of(memory), may_be_erased(append, memory));
        let insert = self.statement(|on| match may_be_erased {
            true => &on.insert_memory_unless_erased[paths.len()],
            false => &on.insert_memory[paths.len()],
        });
        let insert = insert
            .bind(id_to_sql(memory.id))
            .bind(memory.created_at.as_millis())
            .bind(memory.updated_at.map(Timestamp::as_millis))
            .bind(i64::from(memory.revision))
            .bind(memory.status.as_str())
            .bind(memory.space_id.as_str())
            .bind(key_of(memory))
            .bind(memory.metadata.as_str())
            .bind(memory.trigger.as_str())
            .bind(memory.context.as_ref().map(Context::as_str))
            .bind(append.at.map(Timestamp::as_millis))
            .bind(memory.expires_at.map(Timestamp::as_millis));
        let insert: Statement = paths.into_iter().fold(insert, Query::bind);
        let insert = if may_be_erased { insert.bind(key_hash(append, memory)) } else { insert };
        Ok(self.write(insert).await? > 0)
    }
}

fn key_of(memory: &Memory) -> Option<&str> {
    memory.idempotency_key.as_ref().map(IdempotencyKey::as_str)
}

/// Returns the hash by which a tombstone identifies a memory's key.
fn key_hash(append: Append<'_>, memory: &Memory) -> Option<Vec<u8>> {
    append.hash(memory).map(|hash| hash.0.to_vec())
}

/// Returns whether a tombstone may block a memory. A memory with a new id can be blocked only by its key.
fn may_be_erased(append: Append<'_>, memory: &Memory) -> bool {
    append.is_repeated || memory.idempotency_key.is_some()
}

/// Returns the createdAt of a document that a tombstone may block.
fn guarded_at(put: &Put<'_, i64>) -> Option<i64> {
    put.is_guarded.then(|| put.after.created_at.as_millis())
}

fn all<'r, R, T>(records: &[&'r R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    records.iter().map(|record| value(record)).collect()
}

/// Returns the keys of a memory in the path index, broadest ancestor first.
fn paths_of(memory: &Memory) -> Vec<i64> {
    memory.space_id.ancestors().map(path_hash).collect()
}

/// Returns the same keys as the text of an array.
fn paths_as_text(memory: &Memory) -> String {
    let paths: Vec<_> = paths_of(memory).iter().map(i64::to_string).collect();
    format!("{{{}}}", paths.join(","))
}
