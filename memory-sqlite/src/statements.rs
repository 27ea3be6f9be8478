//! All SQL statements, and the conversion of rows to records.

use std::sync::LazyLock;

use memory_core::engine::{self, Found, Mark, StoredDocument, StoredMemory, Walk, corrupt};
use memory_core::{Document, Documents, Error, Head, Ledger, Memory, Order, Result, Selects, Status, Timestamp};
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, Params, Row};

use crate::error::native;

/// Number of bits that createdAt is shifted left in a slot; they count the rows of one millisecond.
pub(crate) const SLOT_BITS: u32 = 20;

// The first nine columns are the same for both kinds; the ninth is the vector, or `NULL`.
macro_rules! memory_columns {
    ($vector:literal) => {
        concat!(
            "id, created_at, seq, space_id, updated_at, revision, metadata, expires_at, ",
            $vector,
            ", status, trigger, context, idempotency_key"
        )
    };
}

/// Columns for the head of a memory, at the same indexes.
const MEMORY_HEAD: &str = "id, created_at, seq, space_id, updated_at, NULL, NULL, expires_at, {vector}, status";
const DOCUMENT_COLUMNS: &str =
    "id, created_at, seq, space_id, updated_at, revision, metadata, expires_at, {vector}, collection, content";
const DOCUMENT_HEAD: &str = "id, created_at, seq, space_id, updated_at, NULL, NULL, expires_at, {vector}";

/// If seq is `NULL`, SQLite assigns the next one.
pub(crate) const INSERT_MEMORY: &str = "
    INSERT INTO memories (id, slot, space_id, status, trigger, context, updated_at, metadata, revision, idempotency_key,
        expires_at, seq)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
pub(crate) const INSERT_PATHS: &str = "INSERT INTO memory_paths (rowid, path) VALUES (?1, ?2)";
pub(crate) const MERGE_PATHS: &str = "INSERT INTO memory_paths (memory_paths, rank) VALUES ('merge', ?1)";
pub(crate) const MERGE_ALL_PATHS: &str = "INSERT INTO memory_paths (memory_paths) VALUES ('optimize')";
pub(crate) const DELETE_PATHS: &str = "INSERT INTO memory_paths (memory_paths, rowid, path) VALUES ('delete', ?1, ?2)";
/// Whether FTS5 removes deleted tokens from its pages at once, or only marks them as deleted.
pub(crate) const OVERWRITE_PATHS: &str = "INSERT INTO memory_paths (memory_paths, rank) VALUES ('secure-delete', ?1)";
/// The keys by which FTS5 finds its pages: prefixes of tokens, each after a `0`.
pub(crate) const PATH_SEPARATORS: &str = "SELECT substr(term, 2) FROM memory_paths_idx WHERE length(term) > 1";
pub(crate) const SLOT_HAS_PATH: &str = "SELECT 1 FROM memory_paths WHERE memory_paths MATCH ?2 AND rowid = ?1";
pub(crate) const UPDATE_MEMORY: &str = "
    UPDATE memories SET status = ?4, context = ?5, updated_at = ?6, metadata = ?7, revision = ?8, expires_at = ?9
    WHERE seq = ?1 AND id = ?2 AND revision = ?3";
pub(crate) const MEMORY_BY_ID: &str = concat!("SELECT ", memory_columns!("NULL"), " FROM memories WHERE id = ?1");
pub(crate) const MEMORY_IS_UNCHANGED: &str = "SELECT 1 FROM memories WHERE seq = ?1 AND id = ?2 AND revision = ?3";
pub(crate) const HAS_MEMORY: &str = "SELECT 1 FROM memories WHERE id = ?1";
pub(crate) const DELETE_MEMORY: &str = "DELETE FROM memories WHERE seq = ?1 RETURNING slot";
pub(crate) const MEMORIES_OF_SLOT: &str = "SELECT id, space_id FROM memories WHERE slot = ?1";
pub(crate) const MEMORY_BY_KEY: &str = "SELECT id FROM memories WHERE idempotency_key = ?1";
pub(crate) const LAST_SEQ: &str = "SELECT seq FROM memories ORDER BY seq DESC LIMIT 1";
pub(crate) const LAST_OF_MILLISECOND: &str = "
    SELECT slot, id FROM memories WHERE slot BETWEEN ?1 AND ?2 ORDER BY slot DESC, id DESC LIMIT 1";
pub(crate) const FIRST_FROM_SLOT: &str = "
    SELECT slot, id FROM memories WHERE slot BETWEEN ?1 AND ?2 ORDER BY slot, id LIMIT 1";
pub(crate) const SLOT_FURTHER_BACK: &str =
    "SELECT slot FROM memories WHERE slot < ?1 ORDER BY slot DESC LIMIT 1 OFFSET ?2";
pub(crate) const SLOT_OF_ID: &str = "SELECT slot FROM memories WHERE id = ?1";

pub(crate) const NEXT_PATH_TOKEN: &str = "SELECT term FROM memory_path_tokens WHERE term >= ?1 LIMIT 1";

/// A statement in four forms: whole records or heads only, with or without vectors.
pub(crate) struct Walked {
    whole: String,
    heads: String,
    whole_with_vectors: String,
    heads_with_vectors: String,
}

impl Walked {
    /// In the text, `{memory}` and `{document}` stand for columns, `{memories}` and `{documents}` for the tables.
    fn new(text: &str) -> Self {
        let whole = text.replace("{memory}", memory_columns!("{vector}")).replace("{document}", DOCUMENT_COLUMNS);
        let heads = text.replace("{memory}", MEMORY_HEAD).replace("{document}", DOCUMENT_HEAD);
        let alone = |text: &str| {
            let text = text.replace("{memories}", "memories").replace("{documents}", "documents");
            text.replace("{vector}", "NULL")
        };
        let with_vectors = |text: &str| {
            let text = text.replace("{memories}", "memories LEFT JOIN memory_vectors USING (seq)");
            let text = text.replace("{documents}", "documents LEFT JOIN document_vectors USING (seq)");
            text.replace("{vector}", "vector")
        };
        Self {
            whole: alone(&whole),
            heads: alone(&heads),
            whole_with_vectors: with_vectors(&whole),
            heads_with_vectors: with_vectors(&heads),
        }
    }

    /// Returns the form with whole records and without vectors.
    pub(crate) fn whole(&self) -> &str {
        &self.whole
    }

    /// Returns the form that a walk needs.
    pub(crate) fn of(&self, walk: &Walk<'_>) -> &str {
        match (walk.is_for_heads, walk.has_vectors) {
            (false, false) => &self.whole,
            (true, false) => &self.heads,
            (false, true) => &self.whole_with_vectors,
            (true, true) => &self.heads_with_vectors,
        }
    }
}

/// A statement in both orders of time.
pub(crate) struct InOrder {
    newest_first: Walked,
    oldest_first: Walked,
}

impl InOrder {
    /// In the text, `{behind}` compares with the position that rows come after, and `{until}` with the last one.
    fn new(text: &str) -> Self {
        let with = |behind, until, order| {
            Walked::new(&text.replace("{behind}", behind).replace("{until}", until).replace("{order}", order))
        };
        Self { newest_first: with("<", ">=", "DESC"), oldest_first: with(">", "<=", "ASC") }
    }

    /// Returns the form with whole records and without vectors.
    pub(crate) fn of(&self, order: Order) -> &str {
        self.in_order(order).whole()
    }

    /// Returns the form that a walk needs, in its order.
    pub(crate) fn of_walk(&self, walk: &Walk<'_>) -> &str {
        self.in_order(walk.order).of(walk)
    }

    fn in_order(&self, order: Order) -> &Walked {
        order.choose(&self.newest_first, &self.oldest_first)
    }
}

macro_rules! in_both_orders {
    ($($(#[$doc:meta])* $name:ident: $text:literal;)*) => {
        $($(#[$doc])* pub(crate) static $name: LazyLock<InOrder> = LazyLock::new(|| InOrder::new($text));)*
    };
}

in_both_orders! {
    SLOTS: "
        SELECT rowid FROM memory_paths WHERE memory_paths MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid {order}";
    /// From after (?2, ?3), a slot and an id, to the slot ?1. The row value bounds the index, so that rows of the first
    /// slot that an earlier page had are not read again.
    MEMORIES: "
        SELECT {memory} FROM {memories} WHERE slot {until} ?1 AND (slot, id) {behind} (?2, ?3) ORDER BY slot {order}, id {order}";
    /// The rows of many slots at once, at half the cost of a query for each slot.
    MEMORIES_IN_SLOTS: "
        SELECT {memory} FROM {memories} WHERE slot IN rarray(?1) AND id {behind} ?2 ORDER BY slot {order}, id {order}";
    /// Like `MEMORIES`. Each part repeats the condition of the partial index literally, because SQLite uses a partial
    /// index only then.
    OPEN_MEMORIES: "
        SELECT {memory}, slot FROM {memories} WHERE ?4 AND status = 'pending' AND status IN ('pending', 'running')
            AND slot {until} ?1 AND (slot, id) {behind} (?2, ?3)
        UNION ALL
        SELECT {memory}, slot FROM {memories} WHERE ?5 AND status = 'running' AND status IN ('pending', 'running')
            AND slot {until} ?1 AND (slot, id) {behind} (?2, ?3)
        ORDER BY slot {order}, id {order}";
    /// The next documents of one place after (?4, ?5), at most ?6.
    DOCUMENTS_IN_PLACE: "
        SELECT created_at, id FROM document_paths
        WHERE collection = ?1 AND level = ?2 AND path = ?3 AND (created_at, id) {behind} (?4, ?5)
        ORDER BY created_at {order}, id {order} LIMIT ?6";
    DOCUMENTS: "
        SELECT {document} FROM {documents} WHERE collection = ?1 AND (created_at, id) {behind} (?2, ?3)
        ORDER BY created_at {order}, id {order}";
}

/// The lowest version of a program that may write.
pub(crate) const LEAST_WRITER: &str = "SELECT CAST(value AS INTEGER) FROM agreements WHERE name = 'writer'";
pub(crate) const SET_LEAST_WRITER: &str = "UPDATE agreements SET value = ?1 WHERE name = 'writer'";
pub(crate) const AGREEMENT: &str = "SELECT value FROM agreements WHERE name = ?1";
/// The update changes nothing; it makes the statement return the row.
pub(crate) const AGREE: &str = "
    INSERT INTO agreements (name, value) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET value = value RETURNING value";
/// For values that may be replaced, unlike the other agreements.
pub(crate) const SET_AGREEMENT: &str = "INSERT OR REPLACE INTO agreements (name, value) VALUES (?1, ?2)";
pub(crate) const SECRET: &str = "secret";
pub(crate) const HASH_KEY: &str = "hash_key";
pub(crate) const VECTOR_MODEL: &str = "vector_model";
pub(crate) const HISTORY_SINCE: &str = "history_since";
/// The stored value if the ledger keeps no history.
pub(crate) const NO_HISTORY: &str = "none";
/// The number for the next memory, if any was ever erased: no memory gets the number of one that is gone.
pub(crate) const NEXT_MEMORY: &str = "
    SELECT max(CAST(value AS INTEGER), coalesce((SELECT max(seq) FROM memories), 0) + 1)
    FROM agreements WHERE name = 'next_memory'";
pub(crate) const SET_NEXT_MEMORY: &str = "
    INSERT INTO agreements (name, value)
    SELECT 'next_memory', coalesce(max(seq), 0) + 1 FROM memories WHERE TRUE
    ON CONFLICT (name) DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))";
/// Each mark has a new random value, so that finished work for an earlier mark does not count for this one.
pub(crate) const SET_MARK: &str = "INSERT OR REPLACE INTO agreements (name, value) VALUES (?1, hex(randomblob(8)))";
pub(crate) const CLEAR_MARK: &str = "DELETE FROM agreements WHERE name = ?1 AND value = ?2";
/// The row from which on documents have places, and the last row; none if all have.
pub(crate) const UNPLACED: &str = "
    SELECT CAST(value AS INTEGER), coalesce((SELECT max(seq) FROM documents), 0) FROM agreements
    WHERE name = 'unplaced_below' AND CAST(value AS INTEGER) > 1";
pub(crate) const SET_UNPLACED: &str = "UPDATE agreements SET value = ?1 WHERE name = 'unplaced_below'";
pub(crate) const DOCUMENT_FURTHER_DOWN: &str =
    "SELECT seq FROM documents WHERE seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2";
pub(crate) const PLACE_DOCUMENTS: &str = "
    INSERT OR IGNORE INTO document_paths (collection, level, path, created_at, id)
    SELECT collection, level, path, created_at, id FROM document_entries WHERE seq >= ?1 AND seq < ?2";
/// The last row numbers of both tables, added up.
pub(crate) const LAST_ROWS: &str = "
    SELECT coalesce((SELECT max(seq) FROM memories), 0) + coalesce((SELECT max(seq) FROM documents), 0)";
pub(crate) const COMPLETE: &str = "UPDATE schema_migrations SET complete = TRUE WHERE name = ?1";

pub(crate) static DOCUMENT_BY_ID: LazyLock<Walked> =
    LazyLock::new(|| Walked::new("SELECT {document} FROM {documents} WHERE collection = ?1 AND id = ?2"));
pub(crate) const INSERT_DOCUMENT: &str = "
    INSERT INTO documents (id, created_at, space_id, collection, content, updated_at, metadata, revision, expires_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (collection, id) DO NOTHING";

/// The condition that a document is as it was read. Its seq does not suffice, because SQLite reuses the seq of a
/// removed document.
macro_rules! is_unchanged {
    () => {
        "seq = ?1 AND id = ?2 AND created_at = ?3 AND space_id = ?4 AND collection = ?5 AND content = ?6 AND updated_at IS ?7
        AND metadata = ?8 AND revision = ?9 AND expires_at IS ?10"
    };
}
pub(crate) const HAS_DOCUMENT: &str = "SELECT 1 FROM documents WHERE collection = ?1 AND id = ?2";
pub(crate) const DOCUMENT_IS_UNCHANGED: &str = concat!("SELECT 1 FROM documents WHERE ", is_unchanged!());
pub(crate) const UPDATE_DOCUMENT: &str = concat!(
    "UPDATE documents SET space_id = ?11, content = ?12, updated_at = ?13, metadata = ?14, revision = ?15,
        expires_at = ?16 WHERE ",
    is_unchanged!()
);
pub(crate) const DELETE_DOCUMENT: &str = "DELETE FROM documents WHERE seq = ?1";
pub(crate) const NEXT_DOCUMENT_PATH: &str = "
    SELECT path FROM document_paths WHERE collection = ?1 AND level = ?2 AND path >= ?3 ORDER BY path LIMIT 1";
/// The collections after ?1, at most ?2, each by one index lookup.
pub(crate) const COLLECTIONS: &str = "
    WITH RECURSIVE step (collection, number) AS (
        SELECT min(collection), 1 FROM documents WHERE collection > ?1
        UNION ALL
        SELECT (SELECT min(collection) FROM documents WHERE collection > step.collection), number + 1
        FROM step WHERE step.collection IS NOT NULL AND number < ?2)
    SELECT collection FROM step WHERE collection IS NOT NULL";

pub(crate) const INSERT_CHANGED_MEMORIES: &str =
    "INSERT INTO changes (epoch, first_memory, last_memory) VALUES (?1, ?2, ?3)";
pub(crate) const INSERT_CHANGED_DOCUMENT: &str = "
    INSERT INTO changes (epoch, collection, id, space_id, space_before, revision) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
pub(crate) const INSERT_ERASURE: &str = "INSERT INTO changes (epoch, collection, id, places) VALUES (?1, ?2, ?3, ?4)";
/// Clears the feed rows of some documents, each given as collection, slash and id. The rows stay, because they are
/// positions.
pub(crate) const FORGET_CHANGES: &str = "
    UPDATE changes SET collection = NULL, id = NULL, space_id = NULL, space_before = NULL, revision = NULL
    WHERE places IS NULL AND collection || '/' || id IN rarray(?1)";
pub(crate) const MARK_CHANGES: &str = "UPDATE changes SET epoch = ?1 WHERE seq > ?2";
pub(crate) const NEWEST_CHANGE: &str =
    "SELECT seq, epoch, coalesce(last_memory - first_memory, 0) FROM changes ORDER BY seq DESC LIMIT 1";
pub(crate) const OLDEST_CHANGE: &str = "SELECT seq FROM changes ORDER BY seq LIMIT 1";
pub(crate) const EPOCH_OF_CHANGE: &str = "SELECT epoch FROM changes WHERE seq = ?1";
pub(crate) const CHANGES: &str = "
    SELECT seq, epoch, first_memory, last_memory, collection, id, space_id, space_before, revision, places FROM changes
    WHERE seq >= ?1 ORDER BY seq";
pub(crate) const CHANGED_MEMORIES: &str =
    "SELECT seq, id, space_id FROM memories WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq LIMIT ?3";
/// Deletes the oldest of the surplus rows, at most ?2.
pub(crate) const DROP_CHANGES: &str = "
    DELETE FROM changes WHERE seq <= (SELECT max(seq) FROM changes) - ?1 AND seq < (SELECT min(seq) FROM changes) + ?2";

/// Does nothing if the memory before has the same time.
pub(crate) const INSERT_STORES: &str = "
    INSERT OR REPLACE INTO stores (first_memory, at) SELECT ?1, ?2
    WHERE ?2 IS NOT (SELECT at FROM stores WHERE first_memory <= ?1 ORDER BY first_memory DESC LIMIT 1)";
pub(crate) const STORED_AT: &str = "
    SELECT at FROM stores WHERE first_memory <= (SELECT seq FROM memories WHERE id = ?1)
    ORDER BY first_memory DESC LIMIT 1";
/// Deletes the time of an erased memory, unless other memories share it.
pub(crate) const DELETE_STORES: &str = "
    DELETE FROM stores
    WHERE first_memory = (SELECT max(first_memory) FROM stores WHERE first_memory <= ?1) AND NOT EXISTS (
        SELECT 1 FROM memories WHERE seq >= first_memory AND seq < coalesce(
            (SELECT min(later.first_memory) FROM stores AS later WHERE later.first_memory > ?1), 9223372036854775807))";
pub(crate) const INSERT_HISTORY: &str = "
    INSERT INTO history (record, revision, at, actor, is_removal, before) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
pub(crate) const HISTORY: &str = "
    SELECT seq, revision, at, actor, is_removal, before FROM history WHERE record = ?1 AND seq < ?2
    ORDER BY seq DESC LIMIT ?3";
pub(crate) const DELETE_HISTORY: &str = "DELETE FROM history WHERE record = ?1";

pub(crate) const INSERT_TOMBSTONE: &str = "
    INSERT OR REPLACE INTO tombstones (record, at, reason, actor, key_hash, places) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
pub(crate) const TOMBSTONE: &str =
    "SELECT at, reason, actor, key_hash, places, record FROM tombstones WHERE record = ?1";
pub(crate) const TOMBSTONES: &str = "
    SELECT at, reason, actor, key_hash, places, record FROM tombstones WHERE record > ?1 ORDER BY record LIMIT ?2";
pub(crate) const HAS_TOMBSTONE: &str = "SELECT 1 FROM tombstones WHERE record = ?1";
pub(crate) const KEY_HAS_TOMBSTONE: &str = "SELECT 1 FROM tombstones WHERE key_hash = ?1";
/// Deletes a tombstone if it is still the same.
pub(crate) const DELETE_TOMBSTONE: &str = "DELETE FROM tombstones WHERE record = ?1 AND at = ?2 AND reason = ?3";
/// Whether a document was erased at ?2 or later.
pub(crate) const HAS_LATER_TOMBSTONE: &str = "SELECT 1 FROM tombstones WHERE record = ?1 AND at >= ?2";

/// For a new memory; triggers maintain all other entries.
pub(crate) const INSERT_EXPIRY: &str = "INSERT OR IGNORE INTO expiries (expires_at, record) VALUES (?1, ?2)";
/// Entries up to ?1, after (?2, ?3).
pub(crate) const EXPIRED: &str = "
    SELECT expires_at, record FROM expiries WHERE expires_at <= ?1 AND (expires_at, record) > (?2, ?3)
    ORDER BY expires_at, record";
pub(crate) const RETENTION: &str = "SELECT rules FROM retention";
pub(crate) const SET_RETENTION: &str = "INSERT OR REPLACE INTO retention (id, rules) VALUES (1, ?1)";

/// Stores the vector of a record if the record is as it was read.
pub(crate) const KEEP_MEMORY_VECTOR: &str = "
    INSERT OR REPLACE INTO memory_vectors (seq, vector)
    SELECT seq, ?4 FROM memories WHERE seq = ?1 AND id = ?2 AND revision = ?3";
pub(crate) const KEEP_DOCUMENT_VECTOR: &str = concat!(
    "INSERT OR REPLACE INTO document_vectors (seq, vector) SELECT seq, ?11 FROM documents WHERE ",
    is_unchanged!()
);
pub(crate) const DELETE_MEMORY_VECTOR: &str = "DELETE FROM memory_vectors WHERE seq = ?1";
pub(crate) const DELETE_DOCUMENT_VECTOR: &str = "DELETE FROM document_vectors WHERE seq = ?1";
pub(crate) const MEMORY_VECTOR: &str =
    "SELECT vector FROM memory_vectors WHERE seq = (SELECT seq FROM memories WHERE id = ?1)";
pub(crate) const DOCUMENT_VECTOR: &str = "
    SELECT vector FROM document_vectors WHERE seq = (SELECT seq FROM documents WHERE collection = ?1 AND id = ?2)";

pub(crate) const SCHEMA_VERSION: &str = "SELECT max(version) FROM schema_migrations";

/// The size of the file in bytes.
pub(crate) const BYTES: &str = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";

/// Returns a statement from the connection's cache.
pub(crate) fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    connection.prepare_cached(sql).map_err(native)
}

/// Executes a statement that returns no rows; returns the number of changed rows.
pub(crate) fn execute(connection: &Connection, sql: &str, parameters: impl Params) -> Result<usize> {
    prepare(connection, sql)?.execute(parameters).map_err(native)
}

/// Returns the first row of a statement, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    parameters: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query(parameters).map_err(native)?;
    rows.next().map_err(native)?.map(read).transpose()
}

/// Reads a column; `Corrupt` if it has another type.
pub(crate) fn column<T: FromSql>(row: &Row<'_>, index: usize) -> Result<T> {
    row.get(index).map_err(|error| Error::corrupt("a stored value has an impossible type").with_source(error))
}

/// A row of memories or of documents.
pub(crate) struct Stored<'r>(pub(crate) &'r Row<'r>);

impl engine::Row<Ledger> for Stored<'_> {
    fn head(&self) -> Result<Head<'_>> {
        // A row with an unreadable status is still judged by its other columns.
        self.head_with(Status::parse(text(self.0, 9)?).ok())
    }

    fn read(&self, head: &Head<'_>) -> Result<Memory> {
        let stored = StoredMemory {
            id: head.id,
            created_at: head.created_at.as_millis(),
            updated_at: column(self.0, 4)?,
            revision: column(self.0, 5)?,
            // An unreadable status becomes an empty one, which is invalid too.
            status: head.status.map_or("", Status::as_str),
            space_id: head.space,
            idempotency_key: optional_text(self.0, 12)?,
            metadata: text(self.0, 6)?,
            trigger: text(self.0, 10)?,
            context: optional_text(self.0, 11)?,
            expires_at: column(self.0, 7)?,
        };
        stored.read()
    }

    fn id(&self) -> String {
        self.shown_id::<Ledger>()
    }

    fn vector(&self) -> Result<Option<&[u8]>> {
        self.kept_vector()
    }
}

impl engine::Row<Documents> for Stored<'_> {
    fn head(&self) -> Result<Head<'_>> {
        self.head_with(None)
    }

    fn read(&self, head: &Head<'_>) -> Result<Document> {
        let stored = StoredDocument {
            id: text(self.0, 0)?,
            collection: text(self.0, 9)?,
            created_at: head.created_at.as_millis(),
            updated_at: column(self.0, 4)?,
            revision: column(self.0, 5)?,
            space_id: head.space,
            metadata: text(self.0, 6)?,
            content: text(self.0, 10)?,
            expires_at: column(self.0, 7)?,
        };
        stored.read()
    }

    fn id(&self) -> String {
        self.shown_id::<Documents>()
    }

    fn vector(&self) -> Result<Option<&[u8]>> {
        self.kept_vector()
    }
}

impl Stored<'_> {
    fn head_with(&self, status: Option<Status>) -> Result<Head<'_>> {
        let created_at = Timestamp::from_millis(column(self.0, 1)?).map_err(corrupt)?;
        let (updated_at, expires_at) = (self.time(4)?, self.time(7)?);
        let (id, space) = (bytes(self.0, 0)?, text(self.0, 3)?);
        Ok(Head { id, space, created_at, updated_at, status, expires_at, is_over: false })
    }

    /// Reads an optional time. `None` also for an impossible value, which reading the whole record reports.
    fn time(&self, index: usize) -> Result<Option<Timestamp>> {
        let millis = column::<Option<i64>>(self.0, index)?;
        Ok(millis.and_then(|millis| Timestamp::from_millis(millis).ok()))
    }

    fn kept_vector(&self) -> Result<Option<&[u8]>> {
        match self.0.get_ref(8).map_err(native)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            _ => Err(Error::corrupt("a stored vector is no bytes")),
        }
    }

    fn shown_id<K: Selects>(&self) -> String {
        bytes(self.0, 0).map_or_else(|_| "unknown".to_owned(), K::shown_id)
    }

    /// Returns the position of the row, even of a damaged one.
    pub(crate) fn mark(&self) -> Result<Mark> {
        Ok(Mark { millis: column(self.0, 1)?, id: bytes(self.0, 0)?.to_vec() })
    }

    /// Reads the record, with its seq as the version.
    pub(crate) fn found<K: Selects>(&self) -> Result<Found<K::Record, i64>>
    where
        Self: engine::Row<K>,
    {
        let head = engine::Row::<K>::head(self)?;
        Ok(Found { record: engine::Row::<K>::read(self, &head)?, version: column(self.0, 2)? })
    }
}

/// Borrows the text of a column.
pub(crate) fn text<'r>(row: &'r Row<'_>, index: usize) -> Result<&'r str> {
    optional_text(row, index)?.ok_or_else(|| Error::corrupt("a stored value is missing"))
}

/// Borrows the bytes of a text or blob, such as an id.
pub(crate) fn bytes<'r>(row: &'r Row<'_>, index: usize) -> Result<&'r [u8]> {
    match row.get_ref(index).map_err(native)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(bytes),
        _ => Err(Error::corrupt("a stored id is a number")),
    }
}

pub(crate) fn optional_text<'r>(row: &'r Row<'_>, index: usize) -> Result<Option<&'r str>> {
    match row.get_ref(index).map_err(native)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => {
            std::str::from_utf8(bytes).map(Some).map_err(|_| Error::corrupt("a stored text is not UTF-8"))
        }
        _ => Err(Error::corrupt("a stored value is not a text")),
    }
}
