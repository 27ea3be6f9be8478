//! Writing to the ledger: what becomes of memories that are stored, changed or restored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use memory_core::{
    Context, Error, Group, IdempotencyKey, Memory, MemoryId, MemoryPatch, Outcome, RestoreReport, Result,
    StoreTogether, Timestamp, Updated, check_repetition, path_hash, words,
};
use sqlx::query::Query;
use uuid::Uuid;

use crate::connection::{Connections, Session, retry_repeatable};
use crate::error::{native, native_write};
use crate::statements::{self, column, id_to_sql, memory_id, revision_to_sql};

/// How many memories, and how many bytes, travel together.
pub(crate) const GROUP: (usize, usize) = (256, 4 << 20);
/// How many memories, and about how many bytes, are restored by one statement.
const RESTORED: (usize, usize) = (1_000, 16 << 20);

#[async_trait]
impl StoreTogether for Connections {
    fn group(&self) -> &Group {
        &self.group
    }

    async fn store_alone(&self, memory: Arc<Memory>, _: Outcome) -> Result<MemoryId> {
        Ok(self.store_all(&[&memory]).await?.remove(0))
    }

    async fn store_group(&self, memories: Vec<Arc<Memory>>) -> Result<Vec<Result<MemoryId, Outcome>>> {
        let memories: Vec<_> = memories.iter().map(Arc::as_ref).collect();
        let has_keys = memories.iter().any(|memory| memory.idempotency_key.is_some());
        loop {
            // A key that another transaction holds lets everybody wait.
            let mut session = if has_keys { self.group_transaction().await? } else { self.write().await? };
            let stored = self.store_each(&mut session, &memories).await?;
            session.commit().await?;
            if let Some(stored) = stored {
                return Ok(stored.into_iter().map(|stored| stored.map_err(|error| error.outcome())).collect());
            }
            self.refresh_has_ledger_text().await?;
        }
    }
}

impl Connections {
    /// Stores all or none, and gives the ids in their order.
    pub(crate) async fn store_all(&self, memories: &[&Memory]) -> Result<Vec<MemoryId>> {
        if memories.is_empty() {
            return Ok(Vec::new());
        }
        loop {
            let attempt = || async {
                // One statement is all or nothing by itself; but of several keys some may be known.
                let is_atomic = memories.len() == 1 || memories.iter().all(|memory| memory.idempotency_key.is_none());
                let mut session = if is_atomic { self.write().await? } else { self.transaction().await? };
                let stored = self.store_each(&mut session, memories).await;
                match stored.and_then(|ids| ids.map(|ids| ids.into_iter().collect()).transpose()) {
                    Ok(Some(ids)) => session.commit().await.map(|()| Some(ids)),
                    // The session is given up, which rolls it back.
                    other => other,
                }
            };
            // Under its own id a memory is stored once, however often that is tried (W11).
            if let Some(ids) = retry_repeatable(attempt).await? {
                return Ok(ids);
            }
            self.refresh_has_ledger_text().await?;
        }
    }

    /// What becomes of each: its id, that of the one which it repeats, or a conflict. `None` when they have to be written with
    /// their words.
    async fn store_each(&self, session: &mut Session, memories: &[&Memory]) -> Result<Option<Vec<Result<MemoryId>>>> {
        let inserted = self.insert(session, memories).await?;
        let missing: Vec<_> = memories.iter().filter(|memory| !inserted.contains(&memory.id)).copied().collect();
        if missing.is_empty() {
            return Ok(Some(memories.iter().map(|memory| Ok(memory.id)).collect()));
        }
        let ids: Vec<_> = missing.iter().map(|memory| id_to_sql(memory.id)).collect();
        let keys: Vec<_> = missing.iter().filter_map(|memory| key_of(memory)).map(str::to_owned).collect();
        let rows = session.statement(&self.statements.known_memories).bind(ids).bind(keys);
        let rows = rows.fetch_all(&mut **session).await.map_err(native)?;
        // An earlier attempt may have stored some.
        let (mut stored, mut by_key) = (inserted, HashMap::new());
        for row in &rows {
            stored.insert(memory_id(row, 0)?);
            by_key.insert(column::<Option<&str>>(row, 1)?, row);
        }
        let each = memories.iter().map(|memory| {
            if stored.contains(&memory.id) {
                return Ok(Some(Ok(memory.id)));
            }
            let Some(row) = key_of(memory).and_then(|key| by_key.get(&Some(key))) else { return Ok(None) };
            let first = memory_id(row, 0)?;
            Ok(Some(check_repetition(memory, column(row, 2)?, column(row, 3)?).map(|()| first)))
        });
        each.collect()
    }

    /// Writes memories that are not there, and tells which those are.
    async fn insert(&self, session: &mut Session, memories: &[&Memory]) -> Result<HashSet<MemoryId>> {
        let has_words = self.has_ledger_text.load(Ordering::Relaxed);
        let words = |memory: &&Memory| has_words.then(|| words_of(memory));
        if let ([memory], false) = (memories, has_words) {
            return self.insert_one(session, memory).await;
        }
        let insert = session.statement(&self.statements.insert_memories);
        let insert = insert
            .bind(all(memories, |memory| id_to_sql(memory.id)))
            .bind(all(memories, |memory| memory.created_at.as_millis()))
            .bind(all(memories, |memory| memory.updated_at.map(Timestamp::as_millis)))
            .bind(all(memories, |memory| revision_to_sql(memory.revision)))
            .bind(all(memories, |memory| memory.status.as_str()))
            .bind(all(memories, |memory| memory.space_id.as_str().to_owned()))
            .bind(all(memories, |memory| memory.idempotency_key.as_ref().map(|key| key.as_str().to_owned())))
            .bind(all(memories, |memory| memory.metadata.as_str().to_owned()))
            .bind(all(memories, |memory| memory.trigger.as_str().to_owned()))
            .bind(all(memories, |memory| memory.context.as_ref().map(|context| context.as_str().to_owned())))
            .bind(memories.iter().map(words).collect::<Vec<_>>())
            .bind(all(memories, paths_as_text))
            .bind(self.statements.ledger_text.clone());
        let rows = insert.fetch_all(&mut **session).await.map_err(native_write)?;
        rows.iter().map(|row| memory_id(row, 0)).collect()
    }

    /// The same for one, without its words.
    async fn insert_one(&self, session: &mut Session, memory: &Memory) -> Result<HashSet<MemoryId>> {
        let paths = paths_of(memory);
        let insert = session.statement(&self.statements.insert_memory[paths.len()]);
        let insert = insert
            .bind(id_to_sql(memory.id))
            .bind(memory.created_at.as_millis())
            .bind(memory.updated_at.map(Timestamp::as_millis))
            .bind(revision_to_sql(memory.revision))
            .bind(memory.status.as_str())
            .bind(memory.space_id.as_str().to_owned())
            .bind(memory.idempotency_key.as_ref().map(|key| key.as_str().to_owned()))
            .bind(memory.metadata.as_str().to_owned())
            .bind(memory.trigger.as_str().to_owned())
            .bind(memory.context.as_ref().map(|context| context.as_str().to_owned()))
            .bind(self.statements.ledger_text.clone());
        let insert = paths.into_iter().fold(insert, Query::bind);
        let done = insert.execute(&mut **session).await.map_err(native_write)?;
        Ok((done.rows_affected() > 0).then_some(memory.id).into_iter().collect())
    }

    /// `None` when the memory was changed meanwhile.
    pub(crate) async fn update(&self, id: MemoryId, patch: &MemoryPatch, now: Timestamp) -> Result<Option<Updated>> {
        let mut session = self.write().await?;
        let memory = self.memory(&mut session, id).await?;
        let memory = memory.ok_or_else(Error::not_found)?;
        let Some(patched) = patch.apply(&memory, now)? else {
            return session.commit().await.map(|()| Some(Updated::from(&memory)));
        };
        let has_new_words = patched.context != memory.context;
        let words = (has_new_words && self.has_ledger_text.load(Ordering::Relaxed)).then(|| words_of(&patched));
        let update = session.statement(&self.statements.update_memory);
        let update = update
            .bind(id_to_sql(id))
            .bind(revision_to_sql(memory.revision))
            .bind(patched.status.as_str())
            .bind(patched.context.as_ref().map(|context: &Context| context.as_str().to_owned()))
            .bind(patched.updated_at.map(Timestamp::as_millis))
            .bind(patched.metadata.as_str().to_owned())
            .bind(words)
            .bind(has_new_words)
            .bind(self.statements.ledger_text.clone());
        let changed = update.fetch_optional(&mut *session).await.map_err(native_write)?;
        session.commit().await?;
        if changed.is_none() {
            self.refresh_has_ledger_text().await?;
        }
        Ok(changed.map(|_| Updated::from(&patched)))
    }

    pub(crate) async fn memory(&self, session: &mut Session, id: MemoryId) -> Result<Option<Memory>> {
        let row = session.statement(&self.statements.memory_by_id).bind(id_to_sql(id));
        let row = row.fetch_optional(&mut **session).await.map_err(native)?;
        row.as_ref().map(statements::memory).transpose()
    }

    pub(crate) async fn restore(&self, memories: &[Memory]) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let mut rest = memories;
        while !rest.is_empty() {
            let (some, others) = rest.split_at(restored_at_once(rest));
            let start = memories.len() - rest.len();
            let mut given: Vec<_> = some.iter().collect();
            loop {
                let mut session = self.write().await?;
                let inserted = self.insert(&mut session, &given).await?;
                given.retain(|memory| !inserted.contains(&memory.id));
                report.written += inserted.len();
                let found = self.present(&mut session, &given).await?;
                session.commit().await?;
                match found {
                    Some(present) => {
                        let missing = given.iter().map(|memory| memory.id).collect::<HashSet<_>>();
                        for (place, memory) in some.iter().enumerate() {
                            match present.get(&memory.id) {
                                _ if !missing.contains(&memory.id) => {}
                                Some(Some(present)) if present == memory => report.equal += 1,
                                _ => report.conflicts.push(start + place),
                            }
                        }
                        break;
                    }
                    None => self.refresh_has_ledger_text().await?,
                }
            }
            rest = others;
        }
        Ok(report)
    }

    /// What is there under the ids of these memories, `None` for what can't be read. Nothing when neither id nor key of one
    /// is there, so that it could have been written.
    async fn present(
        &self,
        session: &mut Session,
        memories: &[&Memory],
    ) -> Result<Option<HashMap<MemoryId, Option<Memory>>>> {
        let mut present = HashMap::new();
        if memories.is_empty() {
            return Ok(Some(present));
        }
        let ids: Vec<_> = memories.iter().map(|memory| id_to_sql(memory.id)).collect();
        let rows = session.statement(&self.statements.memories_by_ids).bind(ids.clone());
        for row in rows.fetch_all(&mut **session).await.map_err(native)? {
            present.insert(memory_id(&row, 0)?, statements::memory(&row).ok());
        }
        let keys = memories.iter().filter_map(|memory| memory.idempotency_key.as_ref());
        let keys: Vec<_> = keys.map(|key| key.as_str().to_owned()).collect();
        let rows = session.statement(&self.statements.known_memories).bind(Vec::<Uuid>::new()).bind(keys);
        let rows = rows.fetch_all(&mut **session).await.map_err(native)?;
        let keys = rows.iter().map(|row| column::<Option<&str>>(row, 1)).collect::<Result<HashSet<_>>>()?;
        let explains = |memory: &&Memory| {
            let key = memory.idempotency_key.as_ref().map(IdempotencyKey::as_str);
            present.contains_key(&memory.id) || key.is_some() && keys.contains(&key)
        };
        Ok(memories.iter().all(explains).then_some(present))
    }
}

fn key_of(memory: &Memory) -> Option<&str> {
    memory.idempotency_key.as_ref().map(IdempotencyKey::as_str)
}

fn all<T>(memories: &[&Memory], value: impl Fn(&Memory) -> T) -> Vec<T> {
    memories.iter().map(|memory| value(memory)).collect()
}

/// How many of the first memories one statement restores: as long as their ids differ, and few enough.
fn restored_at_once(memories: &[Memory]) -> usize {
    let (mut ids, mut bytes) = (HashSet::new(), 0);
    let fits = |memory: &&Memory| {
        bytes += memory.size();
        ids.len() < RESTORED.0 && (bytes <= RESTORED.1 || ids.is_empty()) && ids.insert(memory.id)
    };
    memories.iter().take_while(fits).count()
}

/// The keys of a memory in the path index, that of the broadest ancestor first.
fn paths_of(memory: &Memory) -> Vec<i64> {
    memory.space_id.ancestors().map(path_hash).collect()
}

/// The same as the text of an array.
fn paths_as_text(memory: &Memory) -> String {
    let paths: Vec<_> = paths_of(memory).iter().map(i64::to_string).collect();
    format!("{{{}}}", paths.join(","))
}

/// The words of a memory, each once, with spaces between them.
pub(crate) fn words_of(memory: &Memory) -> String {
    let words = words::distinct(&words::text_of(&memory.trigger, memory.context.as_ref()));
    words.into_iter().collect::<Vec<_>>().join(" ")
}
