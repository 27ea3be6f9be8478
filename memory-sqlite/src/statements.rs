//! Every SQL statement, and how rows become records.

use memory_core::{
    Collection, Content, Context, Document, DocumentId, Error, ErrorKind, Head, IdempotencyKey, Memory, MemoryId,
    Metadata, Result, Revision, SpaceId, Status, Timestamp, Trigger,
};
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, Row, ToSql, params};

use crate::error::native;

/// By how many bits a slot's createdAt is shifted: what is left counts the rows of one millisecond.
pub(crate) const SLOT_BITS: u32 = 20;

macro_rules! memory_columns {
    () => {
        "id, slot, space_id, status, trigger, context, updated_at, metadata, revision, idempotency_key"
    };
}

macro_rules! document_columns {
    () => {
        "id, created_at, space_id, collection, content, updated_at, metadata, revision"
    };
}

pub(crate) const INSERT_MEMORY: &str = "
    INSERT INTO memories (id, slot, space_id, status, trigger, context, updated_at, metadata, revision, idempotency_key)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
pub(crate) const INSERT_PATHS: &str = "INSERT INTO memory_paths (rowid, path) VALUES (?1, ?2)";
pub(crate) const MERGE_PATHS: &str = "INSERT INTO memory_paths (memory_paths, rank) VALUES ('merge', ?1)";
pub(crate) const SLOT_HAS_PATH: &str = "SELECT 1 FROM memory_paths WHERE memory_paths MATCH ?2 AND rowid = ?1";
pub(crate) const UPDATE_MEMORY: &str = "
    UPDATE memories SET status = ?2, context = ?3, updated_at = ?4, metadata = ?5, revision = ?6 WHERE id = ?1";
pub(crate) const MEMORY_BY_ID: &str = concat!("SELECT ", memory_columns!(), ", seq FROM memories WHERE id = ?1");
pub(crate) const MEMORY_BY_KEY: &str = "SELECT id, space_id, trigger FROM memories WHERE idempotency_key = ?1";
pub(crate) const ALL_MEMORIES_BY_SEQ: &str = concat!("SELECT ", memory_columns!(), ", seq FROM memories ORDER BY seq");

pub(crate) const LAST_SEQ: &str = "SELECT seq FROM memories ORDER BY seq DESC LIMIT 1";
pub(crate) const LAST_OF_MILLISECOND: &str = "
    SELECT slot, id FROM memories WHERE slot BETWEEN ?1 AND ?2 ORDER BY slot DESC, id DESC LIMIT 1";
pub(crate) const FIRST_FROM_SLOT: &str = "
    SELECT slot, id FROM memories WHERE slot BETWEEN ?1 AND ?2 ORDER BY slot, id LIMIT 1";
pub(crate) const SLOT_FURTHER_BACK: &str =
    "SELECT slot FROM memories WHERE slot < ?1 ORDER BY slot DESC LIMIT 1 OFFSET ?2";
pub(crate) const SLOT_OF_ID: &str = "SELECT slot FROM memories WHERE id = ?1";

pub(crate) const SLOTS_NEWEST_FIRST: &str = "
    SELECT rowid FROM memory_paths WHERE memory_paths MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC";
pub(crate) const SLOTS_OLDEST_FIRST: &str = "
    SELECT rowid FROM memory_paths WHERE memory_paths MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid";
pub(crate) const NEXT_PATH_TOKEN: &str = "SELECT term FROM memory_path_tokens WHERE term >= ?1 LIMIT 1";

/// Where a walk along the slots goes: from behind (?2, ?3), a slot and an id, to the slot ?1. The pair bounds the index itself, so
/// that rows of the first slot that an earlier page had are not read again.
macro_rules! newest_first {
    () => {
        "slot >= ?1 AND (slot, id) < (?2, ?3)"
    };
}
macro_rules! oldest_first {
    () => {
        "slot <= ?1 AND (slot, id) > (?2, ?3)"
    };
}
pub(crate) const MEMORIES_NEWEST_FIRST: &str =
    concat!("SELECT ", memory_columns!(), " FROM memories WHERE ", newest_first!(), " ORDER BY slot DESC, id DESC");
pub(crate) const MEMORIES_OLDEST_FIRST: &str =
    concat!("SELECT ", memory_columns!(), " FROM memories WHERE ", oldest_first!(), " ORDER BY slot, id");

/// The rows of many slots in one go, which costs half of asking for each slot alone.
pub(crate) const IN_SLOTS_NEWEST_FIRST: &str = concat!(
    "SELECT ",
    memory_columns!(),
    " FROM memories WHERE slot IN rarray(?1) AND id < ?2 ORDER BY slot DESC, id DESC"
);
pub(crate) const IN_SLOTS_OLDEST_FIRST: &str =
    concat!("SELECT ", memory_columns!(), " FROM memories WHERE slot IN rarray(?1) AND id > ?2 ORDER BY slot, id");

/// The condition of the index on open memories, to the letter: SQLite takes a partial index only then.
macro_rules! is_open {
    () => {
        "status IN ('pending', 'running')"
    };
}
macro_rules! open_memories {
    ($bounds:expr, $order:literal) => {
        concat!(
            "SELECT ",
            memory_columns!(),
            " FROM memories WHERE ?4 AND status = 'pending' AND ",
            is_open!(),
            " AND ",
            $bounds,
            " UNION ALL SELECT ",
            memory_columns!(),
            " FROM memories WHERE ?5 AND status = 'running' AND ",
            is_open!(),
            " AND ",
            $bounds,
            " ORDER BY ",
            $order
        )
    };
}
pub(crate) const OPEN_NEWEST_FIRST: &str = open_memories!(newest_first!(), "slot DESC, id DESC");
pub(crate) const OPEN_OLDEST_FIRST: &str = open_memories!(oldest_first!(), "slot, id");

/// Only keys are sorted, not payloads. A cross join keeps its order, here and below: the words come first, and not the whole
/// collection.
pub(crate) const SEQS_BY_WORDS: &str = "
    SELECT seq FROM memory_words CROSS JOIN memories ON seq = memory_words.rowid
    WHERE memory_words MATCH ?1 ORDER BY memory_words.rank, slot DESC, id DESC";
pub(crate) const MEMORY_BY_SEQ: &str = concat!("SELECT ", memory_columns!(), " FROM memories WHERE seq = ?1");
pub(crate) const INSERT_MEMORY_WORDS: &str = "INSERT INTO memory_words (rowid, words) VALUES (?1, ?2)";
pub(crate) const DELETE_MEMORY_WORDS: &str = "DELETE FROM memory_words WHERE rowid = ?1";

pub(crate) const HAS_LEDGER_TEXT: &str = "SELECT 1 FROM settings WHERE name = 'ledger_text'";
pub(crate) const SET_LEDGER_TEXT: &str = "INSERT OR IGNORE INTO settings (name, value) VALUES ('ledger_text', 'on')";

pub(crate) const DOCUMENT_BY_ID: &str =
    concat!("SELECT ", document_columns!(), ", seq FROM documents WHERE collection = ?1 AND id = ?2");
pub(crate) const INSERT_DOCUMENT: &str = "
    INSERT INTO documents (id, created_at, space_id, collection, content, updated_at, metadata, revision)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
pub(crate) const UPDATE_DOCUMENT: &str = "
    UPDATE documents SET space_id = ?2, content = ?3, updated_at = ?4, metadata = ?5, revision = ?6 WHERE seq = ?1";
pub(crate) const DELETE_DOCUMENT: &str = "DELETE FROM documents WHERE seq = ?1";
pub(crate) const INSERT_DOCUMENT_WORDS: &str = "INSERT INTO document_words (rowid, words) VALUES (?1, ?2)";
pub(crate) const DELETE_DOCUMENT_WORDS: &str = "DELETE FROM document_words WHERE rowid = ?1";
pub(crate) const COLLECTIONS: &str = "SELECT DISTINCT collection FROM documents ORDER BY collection";
pub(crate) const DOCUMENTS_OF_COLLECTION: &str =
    concat!("SELECT ", document_columns!(), ", seq FROM documents WHERE collection = ?1 ORDER BY id");
pub(crate) const DOCUMENTS_NEWEST_FIRST: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM documents WHERE collection = ?1 AND (created_at, id) < (?2, ?3) ORDER BY created_at DESC, id DESC"
);
pub(crate) const DOCUMENTS_OLDEST_FIRST: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM documents WHERE collection = ?1 AND (created_at, id) > (?2, ?3) ORDER BY created_at, id"
);
pub(crate) const DOCUMENT_SEQS_BY_WORDS: &str = "
    SELECT seq FROM document_words CROSS JOIN documents ON seq = document_words.rowid
    WHERE document_words MATCH ?1 AND collection = ?2 ORDER BY document_words.rank, created_at DESC, id DESC";
pub(crate) const DOCUMENT_BY_SEQ: &str = concat!("SELECT ", document_columns!(), " FROM documents WHERE seq = ?1");

pub(crate) const SCHEMA_VERSION: &str = "SELECT max(version) FROM schema_migrations";

/// A statement from the connection's cache.
pub(crate) fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    connection.prepare_cached(sql).map_err(native)
}

/// Runs a statement that returns nothing.
pub(crate) fn execute(connection: &Connection, sql: &str, parameters: impl rusqlite::Params) -> Result<()> {
    prepare(connection, sql)?.execute(parameters).map(drop).map_err(native)
}

/// The first row of a statement, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query(parameters).map_err(native)?;
    rows.next().map_err(native)?.map(read).transpose()
}

/// A value of a row.
pub(crate) fn column<T: FromSql>(row: &Row<'_>, index: usize) -> Result<T> {
    row.get(index).map_err(|error| Error::corrupt("a stored value has an impossible type").with_source(error))
}

/// Writes a memory into a slot.
pub(crate) fn insert_memory(connection: &Connection, memory: &Memory, slot: i64) -> Result<()> {
    let parameters = params![
        memory.id.as_bytes().as_slice(),
        slot,
        memory.space_id.as_str(),
        memory.status.as_str(),
        memory.trigger.as_str(),
        memory.context.as_ref().map(Context::as_str),
        memory.updated_at.map(Timestamp::as_millis),
        memory.metadata.as_str(),
        revision_to_sql(memory.revision),
        memory.idempotency_key.as_ref().map(IdempotencyKey::as_str),
    ];
    execute(connection, INSERT_MEMORY, parameters)
}

/// Writes what an update can change.
pub(crate) fn update_memory(connection: &Connection, memory: &Memory) -> Result<()> {
    let parameters = params![
        memory.id.as_bytes().as_slice(),
        memory.status.as_str(),
        memory.context.as_ref().map(Context::as_str),
        memory.updated_at.map(Timestamp::as_millis),
        memory.metadata.as_str(),
        revision_to_sql(memory.revision),
    ];
    execute(connection, UPDATE_MEMORY, parameters)
}

/// Writes a new document; its seq is then the last inserted rowid.
pub(crate) fn insert_document(connection: &Connection, document: &Document) -> Result<()> {
    let parameters = params![
        document.id.as_str(),
        document.created_at.as_millis(),
        document.space_id.as_str(),
        document.collection.as_str(),
        document.content.as_str(),
        document.updated_at.map(Timestamp::as_millis),
        document.metadata.as_str(),
        revision_to_sql(document.revision),
    ];
    execute(connection, INSERT_DOCUMENT, parameters)
}

/// Writes what a put can change.
pub(crate) fn update_document(connection: &Connection, seq: i64, document: &Document) -> Result<()> {
    let parameters = params![
        seq,
        document.space_id.as_str(),
        document.content.as_str(),
        document.updated_at.map(Timestamp::as_millis),
        document.metadata.as_str(),
        revision_to_sql(document.revision),
    ];
    execute(connection, UPDATE_DOCUMENT, parameters)
}

/// What [`memory_columns`] tell before the payload is read.
pub(crate) fn memory_head<'r>(row: &'r Row<'_>) -> Result<Head<'r>> {
    Ok(Head {
        id: bytes(row, 0)?,
        space: text(row, 2)?,
        created_at: created_at_of(column(row, 1)?)?,
        // A status that can't be read must not keep the rest from being judged.
        status: Status::parse(text(row, 3)?).ok(),
    })
}

/// The memory in [`memory_columns`].
pub(crate) fn memory(row: &Row<'_>) -> Result<Memory> {
    memory_of(row, &memory_head(row)?)
}

/// The memory in [`memory_columns`] whose head has been read.
pub(crate) fn memory_of(row: &Row<'_>, head: &Head<'_>) -> Result<Memory> {
    let id = <[u8; 16]>::try_from(head.id).map_err(|_| Error::corrupt("a stored id has not 16 bytes"))?;
    Ok(Memory {
        id: MemoryId::from_bytes(id),
        space_id: SpaceId::parse(head.space).map_err(corrupt)?,
        trigger: Trigger::from_stored(text(row, 4)?)?,
        context: optional_text(row, 5)?.map(Context::from_stored).transpose()?,
        created_at: head.created_at,
        updated_at: column::<Option<i64>>(row, 6)?.map(time).transpose()?,
        metadata: Metadata::from_stored(text(row, 7)?)?,
        status: head.status.ok_or_else(|| Error::corrupt("a stored status is unknown"))?,
        revision: revision(row, 8)?,
        idempotency_key: optional_text(row, 9)?.map(IdempotencyKey::parse).transpose().map_err(corrupt)?,
    })
}

/// What [`document_columns`] tell before the content is read.
pub(crate) fn document_head<'r>(row: &'r Row<'_>) -> Result<Head<'r>> {
    let created_at = time(column(row, 1)?)?;
    Ok(Head { id: text(row, 0)?.as_bytes(), space: text(row, 2)?, created_at, status: None })
}

/// The document in [`document_columns`].
pub(crate) fn document(row: &Row<'_>) -> Result<Document> {
    Ok(Document {
        id: DocumentId::parse(text(row, 0)?).map_err(corrupt)?,
        collection: Collection::parse(text(row, 3)?).map_err(corrupt)?,
        space_id: SpaceId::parse(text(row, 2)?).map_err(corrupt)?,
        content: Content::parse(text(row, 4)?).map_err(corrupt)?,
        metadata: Metadata::from_stored(text(row, 6)?)?,
        created_at: time(column(row, 1)?)?,
        updated_at: column::<Option<i64>>(row, 5)?.map(time).transpose()?,
        revision: revision(row, 7)?,
    })
}

/// The text of a column, without a copy.
pub(crate) fn text<'r>(row: &'r Row<'_>, index: usize) -> Result<&'r str> {
    optional_text(row, index)?.ok_or_else(|| Error::corrupt("a stored value is missing"))
}

fn optional_text<'r>(row: &'r Row<'_>, index: usize) -> Result<Option<&'r str>> {
    match row.get_ref(index).map_err(native)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => {
            std::str::from_utf8(bytes).map(Some).map_err(|_| Error::corrupt("a stored text is not UTF-8"))
        }
        _ => Err(Error::corrupt("a stored value is not a text")),
    }
}

fn bytes<'r>(row: &'r Row<'_>, index: usize) -> Result<&'r [u8]> {
    match row.get_ref(index).map_err(native)? {
        ValueRef::Blob(bytes) => Ok(bytes),
        _ => Err(Error::corrupt("a stored id is not a blob")),
    }
}

fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millis(millis).map_err(corrupt)
}

fn created_at_of(slot: i64) -> Result<Timestamp> {
    time(slot >> SLOT_BITS)
}

fn revision(row: &Row<'_>, index: usize) -> Result<Revision> {
    let number = u64::try_from(column::<i64>(row, index)?).unwrap_or_default();
    Revision::new(number).map_err(corrupt)
}

fn revision_to_sql(revision: Revision) -> impl ToSql {
    // At most 2^53 - 1.
    revision.get() as i64
}

/// A stored value that core refuses: its own kind would blame the caller.
fn corrupt(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => error,
        _ => Error::corrupt("a stored value breaks a rule of the contract").with_source(error),
    }
}
