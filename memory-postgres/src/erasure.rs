//! Erasure: one tombstone for each erased record, in a table for each kind of record.

use std::time::Instant;

use memory_core::engine::{Erasing, ErasingRecord, Found, corrupt};
use memory_core::{
    Actor, Collection, Document, DocumentId, Error, KeyedHash, Memory, MemoryId, Outcome, Reason, RecordId, Result,
    Timestamp, Tombstone,
};
use sqlx::postgres::PgRow;
use tokio::time::sleep;
use uuid::Uuid;

use crate::connection::{Session, Statement};
use crate::error::is_locked;
use crate::row::{column, memory_id};
use crate::statements::id_to_sql;

/// Limits the wait for a table lock, behind which all writers wait: just long enough for the server to cancel an
/// autovacuum that holds the lock. Also limits how long a silent program, for example one whose machine was lost, keeps
/// the table locked.
const BRIEFLY: &str = "; DO $do$ BEGIN PERFORM set_config('lock_timeout', (setting::bigint + 500)::text, TRUE)
    FROM pg_settings WHERE name = 'deadlock_timeout'; END $do$; SET LOCAL idle_in_transaction_session_timeout = 10000";

/// A record to erase, with its tombstone.
struct Grave<'a, I, T> {
    id: I,
    /// The record as it was read; `None` if it does not exist.
    found: Option<&'a Found<T, i64>>,
    tombstone: &'a Tombstone,
}

impl<I, T> Grave<'_, I, T> {
    fn version(&self) -> Option<i64> {
        self.found.map(|found| found.version)
    }
}

/// Returns the tombstones of these records.
pub(crate) async fn tombstones(session: &mut Session, of: &[RecordId]) -> Result<Vec<Tombstone>> {
    let (mut memories, mut collections, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    for record in of {
        match record {
            RecordId::Memory(id) => memories.push(id_to_sql(*id)),
            RecordId::Document { collection, id } => {
                collections.push(collection.as_str());
                documents.push(id.as_str());
            }
        }
    }
    let mut tombstones = Vec::new();
    if !memories.is_empty() {
        for row in session.rows(session.statement(|on| &on.memory_tombstones).bind(memories)).await? {
            tombstones.push(tombstone_of(&row, memory_id(&row)?.into())?);
        }
    }
    if !documents.is_empty() {
        let found = session.statement(|on| &on.document_tombstones).bind(collections).bind(documents);
        for row in session.rows(found).await? {
            tombstones.push(document_tombstone_of(&row)?);
        }
    }
    Ok(tombstones)
}

/// Returns the next tombstones in the order of their records' keys: those of memories, then those of documents.
pub(crate) async fn tombstones_behind(
    session: &mut Session,
    behind: Option<&[u8]>,
    most: usize,
) -> Result<(Vec<Tombstone>, Option<Vec<u8>>)> {
    let no_page = || Error::invalid("the cursor is not from a page of tombstones");
    let behind = behind.map(|key| RecordId::from_key(key).ok_or_else(no_page)).transpose()?;
    let (mut found, mut collection, mut document) = (Vec::new(), String::new(), String::new());
    if let Some(RecordId::Document { collection: of, id }) = behind {
        (collection, document) = (of.as_str().to_owned(), id.as_str().to_owned());
    } else {
        // An open bound would be no condition for the index.
        let first = match behind {
            Some(RecordId::Memory(id)) => id_to_sql(id).as_u128().checked_add(1),
            _ => Some(0),
        };
        if let Some(first) = first {
            let memories = session.statement(|on| &on.memory_tombstones_behind).bind(Uuid::from_u128(first));
            for row in session.rows(memories.bind(most as i64)).await? {
                found.push(tombstone_of(&row, memory_id(&row)?.into())?);
            }
        }
    }
    let rest = most - found.len();
    if rest > 0 {
        let documents = session.statement(|on| &on.document_tombstones_behind);
        for row in session.rows(documents.bind(collection).bind(document).bind(rest as i64)).await? {
            found.push(document_tombstone_of(&row)?);
        }
    }
    let next = found.last().filter(|_| found.len() == most).map(|last| last.record.to_key());
    Ok((found, next))
}

fn document_tombstone_of(row: &PgRow) -> Result<Tombstone> {
    let id = DocumentId::parse(column::<&str>(row, 0)?).map_err(corrupt)?;
    let collection = Collection::parse(column::<&str>(row, 6)?).map_err(corrupt)?;
    tombstone_of(row, (collection, id).into())
}

fn tombstone_of(row: &PgRow, record: RecordId) -> Result<Tombstone> {
    Ok(Tombstone {
        record,
        at: Timestamp::from_millis(column(row, 1)?).map_err(corrupt)?,
        reason: Reason::parse(column::<&str>(row, 2)?).map_err(corrupt)?,
        actor: column::<Option<&str>>(row, 3)?.map(Actor::parse).transpose().map_err(corrupt)?,
        key: column::<Option<&[u8]>>(row, 4)?.map(hash).transpose()?,
        places: hashes(column(row, 5)?)?,
    })
}

/// Reads a stored hash.
pub(crate) fn hash(bytes: &[u8]) -> Result<KeyedHash> {
    let bytes = bytes.try_into().map_err(|_| Error::corrupt("a stored hash has an impossible length"))?;
    Ok(KeyedHash(bytes))
}

/// Reads concatenated hashes.
pub(crate) fn hashes(bytes: &[u8]) -> Result<Vec<KeyedHash>> {
    bytes.chunks(KeyedHash::BYTES).map(hash).collect()
}

/// Erases records, all or none. Except in a sweep of expired records, nobody else writes records of their kind
/// meanwhile: earlier writes have ended by then, and later ones find the tombstones.
pub(crate) async fn erase(session: &mut Session, erasings: &[Erasing<'_, i64>]) -> Result<bool> {
    loop {
        let start = Instant::now();
        match erase_once(session, erasings).await {
            Ok(true) => return session.commit().await.map(|()| true),
            Ok(false) => return session.rollback().await.map(|()| false),
            Err(error) if is_locked(&error) => {
                let waited = start.elapsed();
                session.rollback().await?;
                // A timeout of the call would not tell that nothing was erased.
                if !session.has_left(2 * waited) {
                    return Err(error.with_outcome(Outcome::NotDone));
                }
                // Gives the waiting writers as much time as the attempt took.
                sleep(waited).await;
            }
            // Nothing is erased before the end of the transaction, whatever happens to the connection.
            Err(error) => return Err(error.with_outcome(Outcome::NotDone)),
        }
    }
}

/// Erases records in a transaction that stays open. Returns `false` at the first statement that has not found all of
/// its records as they were read.
async fn erase_once(session: &mut Session, erasings: &[Erasing<'_, i64>]) -> Result<bool> {
    let (mut memories, mut documents) = (Vec::new(), Vec::new());
    for Erasing { found, tombstone } in erasings {
        match &tombstone.record {
            RecordId::Memory(id) => {
                let found = if let ErasingRecord::Memory(found) = found { Some(*found) } else { None };
                memories.push(Grave { id: *id, found, tombstone });
            }
            RecordId::Document { collection, id } => {
                let found = if let ErasingRecord::Document(found) = found { Some(*found) } else { None };
                documents.push(Grave { id: (collection, id), found, tombstone });
            }
        }
    }
    let schema = &session.on().schema;
    // An expired record blocks nobody: a store that uses its key during the sweep may succeed, as it may some time
    // later (X4). So a put over it makes nobody else wait, and versions detect changes.
    let is_exclusive = erasings.iter().any(|erasing| !erasing.tombstone.is_of_expiry());
    let lock = |is_wanted: bool, table: &str| match is_wanted && is_exclusive {
        true => format!("; LOCK TABLE {schema}.{table} IN SHARE ROW EXCLUSIVE MODE"),
        false => String::new(),
    };
    // In the same order as the fence, and as everybody else who locks both.
    let alone = [lock(!memories.is_empty(), "memories"), lock(!documents.is_empty(), "documents")].concat();
    session.begin(&[BRIEFLY, &alone].concat()).await?;
    Ok((memories.is_empty() || erase_memories(session, &memories).await?)
        && (documents.is_empty() || erase_documents(session, &documents).await?))
}

async fn erase_memories(session: &mut Session, memories: &[Grave<'_, MemoryId, Memory>]) -> Result<bool> {
    let ids: Vec<_> = memories.iter().map(|grave| id_to_sql(grave.id)).collect();
    let revisions: Vec<_> = memories.iter().map(Grave::version).collect();
    let keys: Vec<_> = memories.iter().map(|grave| grave.tombstone.key.map(|key| key.0.to_vec())).collect();
    let erase = session.statement(|on| &on.erase_memories).bind(ids).bind(revisions);
    let erase = bind_tombstones(erase, memories).bind(keys);
    Ok(session.write(erase).await? == memories.len() as u64)
}

async fn erase_documents(
    session: &mut Session,
    documents: &[Grave<'_, (&Collection, &DocumentId), Document>],
) -> Result<bool> {
    let collections: Vec<_> = documents.iter().map(|grave| grave.id.0.as_str()).collect();
    let ids: Vec<_> = documents.iter().map(|grave| grave.id.1.as_str()).collect();
    let writers: Vec<_> = documents.iter().map(Grave::version).collect();
    let erase = session.statement(|on| &on.erase_documents).bind(collections.clone()).bind(ids.clone()).bind(writers);
    if session.write(bind_tombstones(erase, documents)).await? != documents.len() as u64 {
        return Ok(false);
    }
    // A trigger has noted their removal, with their spaces.
    let note = session.statement(|on| &on.note_erased_documents).bind(collections).bind(ids);
    session.write(note.bind(all_places(documents))).await?;
    Ok(true)
}

/// Binds the tombstones' times, reasons, actors and places.
fn bind_tombstones<I, T>(statement: Statement, graves: &[Grave<'_, I, T>]) -> Statement {
    let times: Vec<_> = graves.iter().map(|grave| grave.tombstone.at.as_millis()).collect();
    let reasons: Vec<_> = graves.iter().map(|grave| grave.tombstone.reason.as_str()).collect();
    let actors: Vec<_> = graves.iter().map(|grave| grave.tombstone.actor.as_ref().map(Actor::as_str)).collect();
    statement.bind(times).bind(reasons).bind(actors).bind(all_places(graves))
}

fn all_places<I, T>(graves: &[Grave<'_, I, T>]) -> Vec<Vec<u8>> {
    graves.iter().map(|grave| KeyedHash::concat(&grave.tombstone.places)).collect()
}
