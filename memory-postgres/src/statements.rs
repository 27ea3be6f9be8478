//! All SQL statements, and the conversion of values for the server.

use std::sync::Arc;

use memory_core::{Error, MemoryId, Result, SpaceId};
use uuid::Uuid;

use crate::slices::{Slices, with_vectors};

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $text:expr;)*) => {
        /// The statements of one namespace.
        #[derive(Debug)]
        pub(crate) struct Statements {
            /// The quoted name of the schema.
            pub(crate) schema: String,
            /// Walks from the newest record, and from the oldest.
            pub(crate) newest: Slices,
            pub(crate) oldest: Slices,
            /// Walks over heads only, from the newest record.
            pub(crate) heads: Slices,
            /// Indexed by the number of ancestors of the memory's space.
            pub(crate) insert_memory: Vec<Arc<str>>,
            /// The same, for a memory that a tombstone may block.
            pub(crate) insert_memory_unless_erased: Vec<Arc<str>>,
            $($(#[$doc])* pub(crate) $name: Arc<str>,)*
        }

        impl Statements {
            /// Builds the statements. `Err` as [`quote`].
            pub(crate) fn new(schema: &str) -> Result<Self> {
                let (name, schema) = quote(schema)?;
                let columns = for_each_depth(SpaceId::MAX_BOUNDARIES, |depth| format!(", path_{depth}"));
                let values = for_each_depth(SpaceId::MAX_BOUNDARIES, |depth| format!(", paths[{depth}]"));
                let complete = |text: &str| {
                    let text = text.replace("{path_columns}", &columns).replace("{path_values}", &values);
                    // In one pass, because a name can hold either placeholder.
                    let parts: Vec<_> = text.split("{schema}").map(|part| part.replace("{name}", &name)).collect();
                    parts.join(&schema).into()
                };
                let by_depth = |and| {
                    let insert = |depth| complete(&insert_memory(depth, and));
                    (0..=SpaceId::MAX_BOUNDARIES).map(insert).collect()
                };
                Ok(Self {
                    newest: Slices::new("DESC", &schema),
                    oldest: Slices::new("ASC", &schema),
                    heads: Slices::of_heads("DESC", &schema),
                    insert_memory: by_depth(""),
                    insert_memory_unless_erased: by_depth(unless_erased!("$1", "{key_hash}")),
                    $($name: complete($text),)*
                    schema,
                })
            }
        }
    };
}

/// The columns of a document in a slice. A content over 64 KiB is left out and read later; the last column is its size.
macro_rules! document_slice_columns {
    () => {
        "m.id, m.created_at, m.space_id, m.collection, m.updated_at, m.expires_at, m.revision, m.metadata, \
         CASE WHEN octet_length(m.content) <= 65536 THEN m.content END, octet_length(m.content)"
    };
}

/// The columns of a document's head: the first of those.
macro_rules! document_head_columns {
    () => {
        "m.id, m.created_at, m.space_id, m.collection, m.updated_at, m.expires_at"
    };
}

/// A feed row `c` as a position, with the server and its timeline, and whether all existing rows can be delivered: a
/// row can't as long as an earlier transaction is open. Rows that were restored from the dump of a server that was
/// ahead are skipped: the transaction that wrote them is earlier than the one they name.
macro_rules! told {
    ($row:literal, $more:literal) => {
        concat!(
            "SELECT c.xid::text::bigint, c.seq, c.mark, epoch.server, epoch.timeline,
                last.xid < pg_snapshot_xmin(pg_current_snapshot()), ",
            $more,
            " FROM (SELECT * FROM {schema}.changes
                WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) AND age(xmin) <= age(writer::xid) ",
            $row,
            ") c, {schema}.feed_epoch() epoch, (SELECT xid, seq, mark FROM {schema}.changes
                WHERE xid < pg_snapshot_xmax(pg_current_snapshot()) AND age(xmin) <= age(writer::xid)
                ORDER BY xid DESC, seq DESC LIMIT 1) last
            ORDER BY c.xid, c.seq"
        )
    };
}

/// The newest history entries of a record below the place $1: at most $2, until the ones before have more than $3
/// bytes.
macro_rules! newest_entries {
    ($table:literal, $is_removal:literal, $of_record:literal) => {
        concat!(
            "SELECT seq, revision, at, actor, ",
            $is_removal,
            ", before FROM (
                SELECT *, coalesce(sum(octet_length(before)) OVER (
                    ORDER BY seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
                FROM (SELECT * FROM {schema}.",
            $table,
            " WHERE ",
            $of_record,
            " AND seq < $1 ORDER BY seq DESC LIMIT $2) newest) sized
            WHERE bytes_before <= $3 ORDER BY seq DESC"
        )
    };
}

/// Stores the history entry ($9, $10, $11) of a put that was done, if it has one, and returns a row for each put.
macro_rules! keep_entry {
    () => {
        ", kept AS (
            INSERT INTO {schema}.document_history (collection, id, revision, at, actor, is_removal, before)
            SELECT collection, id, revision, $9::bigint, $10::text, FALSE, $11::bytea FROM put WHERE $9::bigint IS NOT NULL)
        SELECT FROM put"
    };
}

/// The same for many puts; if not all are put, the call is rolled back.
macro_rules! keep_entries {
    () => {
        ", kept AS (
            INSERT INTO {schema}.document_history (collection, id, revision, at, actor, is_removal, before)
            SELECT collection, id, revision, at, actor, FALSE, before
            FROM unnest($1::text[], $2::text[], $5::bigint[], $9::bigint[], $10::text[], $11::bytea[])
                AS entry (collection, id, revision, at, actor, before)
            WHERE at IS NOT NULL AND (SELECT count(*) FROM put) = cardinality($1))
        SELECT FROM put"
    };
}

/// Stores many memories of which some may already exist. Paths are passed as texts of arrays, because an array of
/// arrays must be rectangular. A feed row holds few ids, so that a page of the feed reads no more than it delivers.
macro_rules! insert_memories {
    ($column:literal, $values:literal, $condition:expr) => {
        concat!(
            "
        WITH given AS MATERIALIZED (
            SELECT id, created_at, updated_at, revision, status, space_id, idempotency_key, metadata, trigger, context,
                paths::bigint[] AS paths, expires_at",
            $column,
            "
            FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                $8::text[], $9::text[], $10::text[], $11::text[], $13::bigint[]",
            $values,
            ") AS given (id, created_at, updated_at, revision, status,
                space_id, idempotency_key, metadata, trigger, context, paths, expires_at",
            $column,
            ")),
        stored AS (
            INSERT INTO {schema}.memories (id, created_at, updated_at, revision, status, space_id, idempotency_key, metadata,
                trigger, context, stored_at, expires_at{path_columns})
            SELECT id, created_at, updated_at, revision, status, space_id, idempotency_key, metadata, trigger, context,
                $12::bigint, expires_at{path_values}
            FROM given",
            $condition,
            "
            ON CONFLICT DO NOTHING RETURNING id),
        noted AS (
            INSERT INTO {schema}.changes (memories) SELECT array_agg(id)
            FROM (SELECT id, (row_number() OVER () - 1) / 64 AS part FROM stored) parts GROUP BY part)
        SELECT id FROM stored"
        )
    };
}

/// The condition that no tombstone has the memory's id or key. `OFFSET 0` prevents a join, for which the server might
/// read all tombstones.
macro_rules! unless_erased {
    ($id:literal, $key_hash:literal) => {
        concat!(
            " WHERE NOT EXISTS (SELECT FROM {schema}.memory_tombstones t WHERE t.id = ",
            $id,
            " OFFSET 0) AND NOT EXISTS (SELECT FROM {schema}.memory_tombstones t WHERE t.key_hash = ",
            $key_hash,
            " OFFSET 0)"
        )
    };
}

/// The condition that no tombstone blocks a document; its createdAt is passed only if the put is guarded.
macro_rules! unless_kept_out {
    ($collection:literal, $id:literal, $created_at:literal) => {
        concat!(
            " (",
            $created_at,
            "::bigint IS NULL OR NOT EXISTS (SELECT FROM {schema}.document_tombstones t WHERE t.collection = ",
            $collection,
            " AND t.id = ",
            $id,
            " AND t.at >= ",
            $created_at,
            " OFFSET 0))"
        )
    };
}

/// Selects the rows of a table for the documents with the ids $2 in the collections $1. Each is looked up in the index:
/// for a list of ids the server may scan a whole collection if it planned when that was small.
macro_rules! of_documents {
    ($table:literal) => {
        concat!(
            "ctid = ANY (ARRAY(SELECT found.ctid FROM unnest($1::text[], $2::text[]) AS wanted (collection, id)
                CROSS JOIN LATERAL (SELECT ctid FROM {schema}.",
            $table,
            " WHERE collection = wanted.collection AND id = wanted.id OFFSET 0) found))"
        )
    };
}

/// The transaction number of a feed row that must sort after other rows of its record, as in the trigger that notes
/// documents.
macro_rules! behind {
    () => {
        "greatest(pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8)"
    };
}

/// Added to statements that write only to tables without a trigger of their own: the trigger of the records refuses a
/// program that is too old, and any program while the namespace is read-only. It also takes their table lock, for which
/// an erasure waits.
macro_rules! if_writer {
    () => {
        if_writer!("memories")
    };
    ($records:literal) => {
        concat!("writer AS (UPDATE {schema}.", $records, " SET revision = revision WHERE FALSE)")
    };
}

/// Stores vectors beside the records that are unchanged since they were read, replaces earlier ones, and returns those
/// records.
/// Each record is locked first, in the order given, so that a later change of it finds the vector. Each is looked up in
/// the index, as the documents of an erasure are. An equal vector is not written again.
macro_rules! embed {
    ($records:literal, $vectors:literal, $given:literal, $name:literal, $is_found:literal) => {
        concat!(
            "WITH ",
            if_writer!($records),
            ",
        given AS MATERIALIZED (SELECT * FROM unnest(",
            $given,
            ") AS given (",
            $name,
            ", version, vector)),
        found AS MATERIALIZED (
            SELECT given.* FROM given CROSS JOIN LATERAL (
                SELECT FROM {schema}.",
            $records,
            " r WHERE ",
            $is_found,
            " FOR NO KEY UPDATE) r),
        kept AS (
            INSERT INTO {schema}.",
            $vectors,
            " AS v (",
            $name,
            ", vector) SELECT ",
            $name,
            ", vector FROM found
            ON CONFLICT (",
            $name,
            ") DO UPDATE SET vector = excluded.vector WHERE v.vector <> excluded.vector)
        SELECT ",
            $name,
            " FROM found"
        )
    };
}

statements! {
    /// Whether each write is refused.
    is_read_only: "SELECT EXISTS (SELECT FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relname = 'documents' AND relnamespace = to_regnamespace(quote_ident({name}))
            AND tgname = 'documents_read_only' AND tgenabled <> 'D')";
    is_writer: "SELECT current_setting('agent_memory.writer', TRUE) IS NOT DISTINCT FROM $1";
    lock_schema: "SELECT pg_advisory_xact_lock(hashtextextended('agent memory ' || {name}, 0))";
    has_schema: "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = {name})";
    create_schema: "CREATE SCHEMA {schema}";
    remove_schema: "DROP SCHEMA IF EXISTS {schema} CASCADE";
    has_bookkeeping: "SELECT to_regclass(quote_ident({name}) || '.schema_migrations') IS NOT NULL";
    create_bookkeeping: "CREATE TABLE {schema}.schema_migrations (
        version bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, complete boolean NOT NULL)";
    applied: "SELECT version, name, checksum, complete FROM {schema}.schema_migrations";
    insert_applied: concat!("WITH ", if_writer!(), "
        INSERT INTO {schema}.schema_migrations (version, name, checksum, complete) VALUES ($1, $2, $3, $4)");
    secret: "SELECT secret FROM {schema}.secrets";
    keep_secret: concat!("WITH ", if_writer!(), " INSERT INTO {schema}.secrets (id, secret) VALUES (1, $1)
        ON CONFLICT (id) DO UPDATE SET secret = secrets.secret RETURNING secret");
    history_begin: "SELECT at FROM {schema}.history_begin";
    /// If two programs run it at the same time, one inserts nothing, and does not see the other's row in its snapshot.
    keep_history_begin: "INSERT INTO {schema}.history_begin (id, at) VALUES (1, $1) ON CONFLICT (id) DO NOTHING RETURNING at";
    hash_key: "SELECT key FROM {schema}.tombstone_key";
    /// As for `keep_history_begin`.
    keep_hash_key: "INSERT INTO {schema}.tombstone_key (id, key) VALUES (1, $1) ON CONFLICT (id) DO NOTHING RETURNING key";
    retention: "SELECT rules FROM {schema}.retention WHERE id = 1";
    keep_retention: concat!("WITH ", if_writer!(), " INSERT INTO {schema}.retention (id, rules) VALUES (1, $1)
        ON CONFLICT (id) DO UPDATE SET rules = excluded.rules");
    vector_model: "SELECT model FROM {schema}.vector_model WHERE id = 1";
    keep_vector_model: concat!("WITH ", if_writer!(), " INSERT INTO {schema}.vector_model (id, model) VALUES (1, $1)
        ON CONFLICT (id) DO UPDATE SET model = excluded.model");
    health: "SELECT current_setting('server_version'), (SELECT max(version) FROM {schema}.schema_migrations),
        current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')";
    /// The server's time, the tables, valid indexes and enabled triggers of the schema, and its size in bytes.
    inspect: "
        WITH relations AS (SELECT oid, relname, relkind FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident({name})))
        SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, ARRAY(
            SELECT relname::text FROM relations LEFT JOIN pg_index ON indexrelid = oid WHERE indisvalid IS NOT FALSE
            UNION ALL
            SELECT tgname::text FROM pg_trigger JOIN relations ON tgrelid = relations.oid WHERE tgenabled IN ('O', 'A')),
        (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM relations WHERE relkind = 'r')";
    /// The oldest open transaction on the server, which holds the feed back: its process, what that reports about
    /// itself, the transaction's age in seconds, and its name if it is prepared. Without `pg_read_all_stats` a role
    /// sees only the process of another role. The views show only the low half of a transaction number.
    first_running: "
        WITH running AS (SELECT (min(xid::text::bigint) % 4294967296)::text::xid AS xid
            FROM pg_snapshot_xip(pg_current_snapshot()) AS xid),
        locks AS (SELECT pid, xid FROM running JOIN pg_locks ON transactionid = xid WHERE locktype = 'transactionid'
            AND mode = 'ExclusiveLock' AND granted)
        SELECT locks.pid, activity.application_name, activity.datname::text, activity.state,
            extract(epoch FROM clock_timestamp() - coalesce(prepared.prepared, activity.xact_start))::bigint, prepared.gid
        FROM locks
        LEFT JOIN pg_stat_activity activity ON activity.backend_xid = locks.xid
        LEFT JOIN pg_prepared_xacts prepared ON prepared.transaction = locks.xid
        LIMIT 1";

    insert_memories: insert_memories!("", "", "");
    insert_memories_unless_erased: insert_memories!(
        ", key_hash", ", $14::bytea[]", unless_erased!("given.id", "given.key_hash"));
    update_memory: "
        WITH updated AS (
            UPDATE {schema}.memories
            SET status = $3, context = $4, updated_at = $5, metadata = $6, revision = $7, expires_at = $11
            WHERE id = $1 AND revision = $2 RETURNING id, revision),
        kept AS (
            INSERT INTO {schema}.memory_history (id, revision, at, actor, before)
            SELECT id, revision, $8::bigint, $9::text, $10::bytea FROM updated WHERE $8::bigint IS NOT NULL)
        INSERT INTO {schema}.changes (memories) SELECT ARRAY[id] FROM updated";
    memory_history: newest_entries!("memory_history", "FALSE", "id = $4");
    stored_at: "SELECT stored_at FROM {schema}.memories WHERE id = $1";
    memories_by_ids: "SELECT id, created_at, space_id, status, updated_at, expires_at, revision, metadata, trigger, context,
            idempotency_key
        FROM {schema}.memories WHERE id = ANY($1)";
    spaces_of_memories: "SELECT id, space_id FROM {schema}.memories WHERE id = ANY($1)";
    /// The memories with these ids or keys, and the tombstones with them.
    known_memories: "
        SELECT id, idempotency_key, FALSE, NULL::bytea FROM {schema}.memories WHERE id = ANY($1)
        UNION ALL
        SELECT id, idempotency_key, FALSE, NULL FROM {schema}.memories WHERE idempotency_key = ANY($2)
        UNION ALL
        SELECT id, NULL, TRUE, key_hash FROM {schema}.memory_tombstones WHERE id = ANY($1)
        UNION ALL
        SELECT id, NULL, TRUE, key_hash FROM {schema}.memory_tombstones WHERE key_hash = ANY($3)";
    memory_tombstones: "SELECT id, at, reason, actor, key_hash, places FROM {schema}.memory_tombstones WHERE id = ANY($1)";
    document_tombstones: "
        SELECT t.id, t.at, t.reason, t.actor, NULL::bytea, t.places, t.collection
        FROM unnest($1::text[], $2::text[]) AS wanted (collection, id) CROSS JOIN LATERAL (
            SELECT * FROM {schema}.document_tombstones
            WHERE collection = wanted.collection AND id = wanted.id OFFSET 0) t";
    memory_tombstones_behind: "SELECT id, at, reason, actor, key_hash, places FROM {schema}.memory_tombstones
        WHERE id >= $1 ORDER BY id LIMIT $2";
    document_tombstones_behind: "SELECT id, at, reason, actor, NULL::bytea, places, collection FROM {schema}.document_tombstones
        WHERE (collection, id) > ($1, $2) ORDER BY collection, id LIMIT $3";
    /// Erases those that are as they were read, or that did not exist if no revision is given, with their history.
    /// Their feed rows hold only their ids.
    erase_memories: concat!("WITH ", if_writer!(), ",
        given AS MATERIALIZED (
            SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bytea[], $7::bytea[])
                AS given (id, revision, at, reason, actor, places, key_hash)),
        erased AS (
            DELETE FROM {schema}.memories m USING given
            WHERE m.id = ANY($1) AND m.id = given.id AND m.revision = given.revision RETURNING m.id),
        forgotten AS (DELETE FROM {schema}.memory_history WHERE id = ANY($1)),
        kept AS (
            INSERT INTO {schema}.memory_tombstones AS t (id, at, reason, actor, places, key_hash)
            SELECT id, at, reason, actor, places, key_hash FROM given
            ON CONFLICT (id) DO UPDATE SET at = greatest(t.at, excluded.at), reason = excluded.reason,
                actor = excluded.actor, places = excluded.places, key_hash = coalesce(excluded.key_hash, t.key_hash)),
        noted AS (
            INSERT INTO {schema}.changes (xid, memories, places) SELECT ", behind!(), ", ARRAY[id], places FROM given)
        SELECT FROM given WHERE CASE WHEN revision IS NULL
            THEN NOT EXISTS (SELECT FROM {schema}.memories m WHERE m.id = given.id OFFSET 0)
            ELSE id IN (SELECT id FROM erased) END");
    /// Erases those that are as they were read, or that did not exist if no writer is given, with the histories of all
    /// documents that had their ids.
    erase_documents: concat!("
        WITH given AS MATERIALIZED (
            SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bytea[])
                AS given (collection, id, writer, at, reason, actor, places)),
        erased AS (
            DELETE FROM {schema}.documents d USING given
            WHERE d.", of_documents!("documents"), " AND d.collection = given.collection AND d.id = given.id
                AND d.xmin::text::bigint = given.writer
            RETURNING d.collection, d.id),
        forgotten AS (DELETE FROM {schema}.document_history WHERE ", of_documents!("document_history"), "),
        kept AS (
            INSERT INTO {schema}.document_tombstones AS t (collection, id, at, reason, actor, places)
            SELECT collection, id, at, reason, actor, places FROM given
            ON CONFLICT (collection, id) DO UPDATE SET at = greatest(t.at, excluded.at), reason = excluded.reason,
                actor = excluded.actor, places = excluded.places)
        SELECT FROM given WHERE CASE WHEN writer IS NULL
            THEN NOT EXISTS (
                SELECT FROM {schema}.documents d WHERE d.collection = given.collection AND d.id = given.id OFFSET 0)
            ELSE (collection, id) IN (SELECT collection, id FROM erased) END");
    /// The feed rows of the documents stay, because a watch may continue from there. They are changed to name a memory
    /// that never existed, which every program skips.
    note_erased_documents: concat!("
        WITH forgotten AS (
            UPDATE {schema}.changes
            SET memories = ARRAY[gen_random_uuid()], collection = NULL, id = NULL, space_id = NULL, space_before = NULL, revision = NULL
            WHERE ", of_documents!("changes"), " AND places IS NULL)
        INSERT INTO {schema}.changes (xid, collection, id, space_id, places)
        SELECT ", behind!(), ", collection, id, '', places
        FROM unnest($1::text[], $2::text[], $3::bytea[]) AS given (collection, id, places)");
    /// Deletes those that are as they were read.
    forget_memories: concat!("WITH ", if_writer!(), "
        DELETE FROM {schema}.memory_tombstones t
        USING unnest($1::uuid[], $2::bigint[], $3::text[]) AS given (id, at, reason)
        WHERE t.id = ANY($1) AND t.id = given.id AND t.at = given.at AND t.reason = given.reason");
    /// As for `forget_memories`.
    forget_documents: concat!("WITH ", if_writer!(), "
        DELETE FROM {schema}.document_tombstones t
        USING unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS given (collection, id, at, reason)
        WHERE t.", of_documents!("document_tombstones"), " AND t.collection = given.collection AND t.id = given.id
            AND t.at = given.at AND t.reason = given.reason");
    /// The next $4 records that expired by $1, after a position, from both lists; each list is read from its index.
    expired: "
        SELECT expires_at, key FROM (
            (SELECT expires_at, key FROM {schema}.ledger_expiry
            WHERE expires_at <= $1 AND (expires_at, key) > ($2::bigint, $3::bytea) ORDER BY expires_at, key LIMIT $4)
            UNION ALL
            (SELECT expires_at, key FROM {schema}.document_expiry
            WHERE expires_at <= $1 AND (expires_at, key) > ($2::bigint, $3::bytea) ORDER BY expires_at, key LIMIT $4)) listed
        ORDER BY expires_at, key LIMIT $4";
    embed_memories: embed!("memories", "memory_vectors", "$1::uuid[], $2::bigint[], $3::bytea[]", "id",
        "r.id = given.id AND r.revision = given.version");
    embed_documents: embed!("documents", "document_vectors", "$1::text[], $2::text[], $3::bigint[], $4::bytea[]",
        "collection, id", "r.collection = given.collection AND r.id = given.id AND r.xmin::text::bigint = given.version");
    memory_vectors: "SELECT id, vector FROM {schema}.memory_vectors WHERE id = ANY($1)";
    document_vectors: "
        SELECT wanted.collection, wanted.id, v.vector
        FROM unnest($1::text[], $2::text[]) AS wanted (collection, id) CROSS JOIN LATERAL (
            SELECT vector FROM {schema}.document_vectors
            WHERE collection = wanted.collection AND id = wanted.id OFFSET 0) v";
    /// The next space from $3 on, then the first one after the spaces of the same sibling, and so on, as long as they
    /// start with $1.
    siblings: "
        WITH RECURSIVE step (space_id, sibling, number) AS (
            SELECT space_id, $1 || substring(substr(space_id, length($1) + 1) FROM '^[^-/:]*'), 1
            FROM (SELECT space_id FROM {schema}.memories WHERE space_id >= $3 ORDER BY space_id LIMIT 1) first
            WHERE starts_with(space_id, $1)
            UNION ALL
            SELECT next.space_id, $1 || substring(substr(next.space_id, length($1) + 1) FROM '^[^-/:]*'), number + 1
            FROM step CROSS JOIN LATERAL (
                SELECT space_id FROM {schema}.memories
                WHERE space_id >= step.sibling || CASE substr(step.space_id, length(step.sibling) + 1, 1)
                    WHEN '' THEN ' ' WHEN '-' THEN '.' WHEN '/' THEN '0' ELSE ';' END
                ORDER BY space_id LIMIT 1) next
            WHERE number < $2 AND starts_with(next.space_id, $1))
        SELECT sibling, space_id = sibling, space_id FROM step";

    /// How many documents the backfill has covered, and how many there are; no row once it is complete. Above the $1
    /// documents that a call would complete itself, the server's estimate is good enough.
    pending_paths: "SELECT done, greatest(done + rest, CASE WHEN rest > $1 THEN reltuples::bigint END)
        FROM {schema}.paths_backfill reached CROSS JOIN LATERAL (SELECT count(*) AS rest FROM (
            SELECT FROM {schema}.documents WHERE (collection, id) > (reached.collection, reached.id) LIMIT $1 + 1) further) counted
        JOIN pg_class ON relname = 'documents' AND relnamespace = to_regnamespace(quote_ident({name}))";
    reached_paths: "SELECT collection, id FROM {schema}.paths_backfill";
    /// Returns the last of the next $3 documents, and how many there are. They are locked, so that whoever moves or
    /// removes one meanwhile finds its entries.
    backfill_paths: concat!("WITH ", if_writer!(), ",
        slice AS (
            SELECT collection, id, created_at, space_id FROM {schema}.documents
            WHERE (collection, id) > ($1, $2) ORDER BY collection, id LIMIT $3 FOR SHARE),
        placed AS (
            INSERT INTO {schema}.document_paths (collection, level, path, created_at, id)
            SELECT slice.collection, places.level, places.path, slice.created_at, slice.id
            FROM slice CROSS JOIN LATERAL {schema}.places_of(slice.space_id) AS places
            ON CONFLICT DO NOTHING)
        SELECT collection, id, count(*) OVER () FROM slice ORDER BY collection DESC, id DESC LIMIT 1");
    advance_paths: "UPDATE {schema}.paths_backfill SET collection = $1, id = $2, done = done + $3 WHERE (collection, id) < ($1, $2)";
    end_paths: "DELETE FROM {schema}.paths_backfill";
    complete_paths: "UPDATE {schema}.schema_migrations SET complete = TRUE
        WHERE name = 'paths' AND NOT EXISTS (SELECT FROM {schema}.paths_backfill)";

    /// The last columns are the number of records of the row, and the last existing row.
    newest_change: told!(
        "ORDER BY xid DESC, seq DESC LIMIT 1",
        "coalesce(cardinality(c.memories), 1), last.xid::text::bigint, last.seq, last.mark"
    );
    /// A row, which may be held back.
    change: "SELECT c.xid::text::bigint, c.seq, c.mark, epoch.server, epoch.timeline
        FROM {schema}.changes c, {schema}.feed_epoch() epoch
        WHERE (c.xid, c.seq) = ($1::bigint::text::xid8, $2::bigint) AND age(c.xmin) <= age(c.writer::xid)";
    /// The rows from a position on, including its own: at most $3, until the ones before have more than $4 records.
    changes: concat!(
        "SELECT * FROM (",
        told!(
            "AND (xid, seq) >= ($1::bigint::text::xid8, $2::bigint) ORDER BY xid, seq LIMIT $3",
            "c.memories, c.collection, c.id, c.space_id, c.space_before, c.revision, c.places,
                coalesce(sum(coalesce(cardinality(c.memories), 1))
                    OVER (ORDER BY c.xid, c.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before"
        ),
        ") told WHERE before <= $4"
    );
    listen_to_changes: "SELECT {schema}.listen_to_changes()";
    tell_changes: "SELECT {schema}.tell_changes({name})";
    trim_changes: "SELECT {schema}.trim_changes()";
    /// Like `trim_changes`, if there are more than $1 rows, a number that the function does not know, or if the newest
    /// row was restored from a dump.
    trim_changes_beyond: "SELECT CASE
        WHEN newest.is_restored OR newest.seq - oldest.seq > $1::bigint THEN {schema}.trim_changes() ELSE FALSE END
        FROM (SELECT seq, age(xmin) > age(writer::xid) AS is_restored FROM {schema}.changes ORDER BY xid DESC, seq DESC LIMIT 1) newest,
            (SELECT seq FROM {schema}.changes ORDER BY xid, seq LIMIT 1) oldest";

    insert_document: concat!("
        WITH put AS (
            INSERT INTO {schema}.documents
                (collection, id, created_at, updated_at, revision, space_id, metadata, content, expires_at)
            SELECT $1, $2, $3, $4, $5, $6, $7, $8, $13 WHERE", unless_kept_out!("$1", "$2", "$12"), "
            ON CONFLICT DO NOTHING RETURNING collection, id, revision)",
        keep_entry!());
    insert_documents: concat!("
        WITH put AS (
            INSERT INTO {schema}.documents
                (collection, id, created_at, updated_at, revision, space_id, metadata, content, expires_at)
            SELECT collection, id, created_at, updated_at, revision, space_id, metadata, content, expires_at
            FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                $8::text[], $12::bigint[], $13::bigint[])
                AS given (collection, id, created_at, updated_at, revision, space_id, metadata, content, restored, expires_at)
            WHERE", unless_kept_out!("given.collection", "given.id", "given.restored"), "
            ON CONFLICT DO NOTHING RETURNING id)",
        keep_entries!());
    /// Updates those that are as they were read.
    update_documents: concat!("
        WITH given AS MATERIALIZED (
            SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                $8::text[], $12::bigint[], $13::bigint[], $14::bigint[])
                AS given (collection, id, created_at, updated_at, revision, space_id, metadata, content, restored, expires_at,
                    writer)),
        found AS (
            SELECT d.collection, d.id FROM {schema}.documents d
            JOIN given ON d.collection = given.collection AND d.id = given.id AND d.created_at = given.created_at
                AND d.xmin::text::bigint = given.writer
            WHERE", unless_kept_out!("given.collection", "given.id", "given.restored"), "
            ORDER BY d.collection, d.id FOR UPDATE OF d),
        put AS (
            UPDATE {schema}.documents d
            SET updated_at = given.updated_at, revision = given.revision, space_id = given.space_id,
                metadata = given.metadata, content = given.content, expires_at = given.expires_at
            FROM given JOIN found ON found.collection = given.collection AND found.id = given.id
            WHERE d.collection = given.collection AND d.id = given.id RETURNING d.id)",
        keep_entries!());
    update_document: concat!("
        WITH put AS (
            UPDATE {schema}.documents
            SET updated_at = $4, revision = $5, space_id = $6, metadata = $7, content = $8, expires_at = $13
            WHERE collection = $1 AND id = $2 AND created_at = $3 AND xmin::text::bigint = $14 AND",
            unless_kept_out!("$1", "$2", "$12"), "
            RETURNING collection, id, revision)",
        keep_entry!());
    document_history: newest_entries!("document_history", "is_removal", "collection = $4 AND id = $5");
    /// The last column is the transaction that wrote the row: a document that was removed and put again is another one,
    /// even at the same revision.
    documents_by_ids: "
        SELECT id, created_at, space_id, collection, updated_at, expires_at, revision, metadata, content, xmin::text::bigint
        FROM {schema}.documents WHERE collection = $1 AND id = ANY($2::text[])";
    /// Deletes either all of these documents or none, and stores a history entry for each.
    delete_documents: "
        WITH wanted AS (SELECT * FROM unnest($2::text[], $3::bigint[]) AS wanted (id, writer)),
        found AS (
            SELECT d.id FROM {schema}.documents d JOIN wanted ON d.id = wanted.id AND d.xmin::text::bigint = wanted.writer
            WHERE d.collection = $1 ORDER BY d.id FOR UPDATE OF d),
        removed AS (
            DELETE FROM {schema}.documents d USING found
            WHERE d.collection = $1 AND d.id = found.id AND (SELECT count(*) FROM found) = cardinality($2) RETURNING d.id),
        kept AS (
            INSERT INTO {schema}.document_history (collection, id, revision, at, actor, is_removal, before)
            SELECT $1::text, id, revision, at, actor, TRUE, before
            FROM unnest($2::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[])
                AS entry (id, revision, at, actor, before)
            WHERE at IS NOT NULL AND (SELECT count(*) FROM removed) = cardinality($2))
        SELECT FROM removed";
    /// The collections after $1, each from the index; at most $2.
    collections: "
        WITH RECURSIVE step (collection, number) AS (
            (SELECT collection, 1 FROM {schema}.documents WHERE collection > $1 ORDER BY collection LIMIT 1)
            UNION ALL
            SELECT next.collection, number + 1 FROM step CROSS JOIN LATERAL (
                SELECT collection FROM {schema}.documents WHERE collection > step.collection
                ORDER BY collection LIMIT 1) next
            WHERE number < $2)
        SELECT collection FROM step";
    document_heads: &documents_by_time("<", "DESC").replace(document_slice_columns!(), document_head_columns!());
    document_heads_in: &documents_in_places("<", "DESC").replace(document_slice_columns!(), document_head_columns!());
    newest_documents: &documents_by_time("<", "DESC");
    oldest_documents: &documents_by_time(">", "ASC");
    newest_documents_in: &documents_in_places("<", "DESC");
    oldest_documents_in: &documents_in_places(">", "ASC");
    /// The paths of a level of a collection that start with $3, from $5 on, each from the index; at most $4.
    document_siblings: "
        WITH RECURSIVE step (path, number) AS (
            (SELECT path, 1 FROM {schema}.document_paths
            WHERE collection = $1 AND level = $2 AND path >= $5 ORDER BY path LIMIT 1)
            UNION ALL
            SELECT next.path, number + 1 FROM step CROSS JOIN LATERAL (
                SELECT path FROM {schema}.document_paths
                WHERE collection = $1 AND level = $2 AND path > step.path ORDER BY path LIMIT 1) next
            WHERE number < $4 AND starts_with(step.path, $3))
        SELECT path FROM step WHERE starts_with(path, $3)";
}

impl Statements {
    /// Adds the vector of each document after the other columns of a slice.
    pub(crate) fn with_document_vectors(&self, sql: &str) -> Arc<str> {
        let is_whole = sql.contains(document_slice_columns!());
        let columns = if is_whole { document_slice_columns!() } else { document_head_columns!() };
        let vector = format!(
            "(SELECT v.vector FROM {}.document_vectors v WHERE v.collection = m.collection AND v.id = m.id)",
            self.schema
        );
        with_vectors(sql, columns, &vector)
    }
}

/// Inserts one memory, and its feed row. Only the path columns of existing ancestors are named. The hash of its key
/// comes last, if it is used.
fn insert_memory(ancestors: usize, and: &str) -> String {
    let text = "
        WITH stored AS (
            INSERT INTO {schema}.memories (id, created_at, updated_at, revision, status, space_id, idempotency_key, metadata,
                trigger, context, stored_at, expires_at{columns})
            SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12{values}{and} ON CONFLICT DO NOTHING RETURNING id)
        INSERT INTO {schema}.changes (memories) SELECT ARRAY[id] FROM stored";
    let text = text.replace("{columns}", &for_each_depth(ancestors, |depth| format!(", path_{depth}")));
    let text = text.replace("{values}", &for_each_depth(ancestors, |depth| format!(", ${}", 12 + depth)));
    text.replace("{and}", and).replace("{key_hash}", &format!("${}", 13 + ancestors))
}

/// Returns the statement for the next documents of a collection after a position (createdAt, id).
fn documents_by_time(comparison: &str, order: &str) -> String {
    let text = concat!(
        "SELECT ",
        document_slice_columns!(),
        " FROM {schema}.documents m
        WHERE collection = $1 AND (created_at, id) {comparison} ($2, $3)
        ORDER BY created_at {order}, id {order} LIMIT $4"
    );
    text.replace("{comparison}", comparison).replace("{order}", order)
}

/// The same for the documents in some places: the heads of their lists are merged, and only the documents that are
/// finally wanted are read. `OFFSET 0` prevents a join, for which the server might scan the whole collection.
fn documents_in_places(comparison: &str, order: &str) -> String {
    let text = concat!(
        "SELECT ",
        document_slice_columns!(),
        " FROM (
            SELECT found.created_at, found.id
            FROM unnest($5::integer[], $6::text[]) AS place (level, path) CROSS JOIN LATERAL (
                SELECT created_at, id FROM {schema}.document_paths p
                WHERE collection = $1 AND p.level = place.level AND p.path = place.path
                    AND (created_at, id) {comparison} ($2, $3)
                ORDER BY created_at {order}, id {order} LIMIT $4) found
            ORDER BY created_at {order}, id {order} LIMIT $4) c
        CROSS JOIN LATERAL (SELECT * FROM {schema}.documents WHERE collection = $1 AND id = c.id OFFSET 0) m
        ORDER BY c.created_at {order}, c.id {order}"
    );
    text.replace("{comparison}", comparison).replace("{order}", order)
}

/// Concatenates a part for each path column up to this depth.
fn for_each_depth(deepest: usize, part: impl Fn(usize) -> String) -> String {
    (1..=deepest).map(part).collect()
}

/// Quotes the name of a schema, as a literal and as an identifier. `InvalidInput` if the server would not accept it unchanged.
pub(crate) fn quote(name: &str) -> Result<(String, String)> {
    // A longer name would be truncated, and two namespaces could become one. The steps name the schema inside texts
    // quoted with $$.
    if name.is_empty() || name.len() > 63 || name.contains(char::is_control) || name.contains("$$") {
        let message = "a namespace must be the name of a schema: 1 to 63 bytes without control characters or $$";
        return Err(Error::invalid(message));
    }
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(Error::invalid("the namespace is a schema of the server's own: choose another name"));
    }
    let literal = format!("E'{}'", name.replace('\\', r"\\").replace('\'', "''"));
    Ok((literal, format!("\"{}\"", name.replace('"', "\"\""))))
}

/// Converts an id for the server.
pub(crate) fn id_to_sql(id: MemoryId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}
