-- What stays of records that were erased: of each a tombstone, which has nothing of what the record said. One of a document that was put again,
-- and erased again, takes the place of the earlier one. Memories and documents have a table each, as their histories have.
CREATE TABLE {schema}.memory_tombstones (
    id         uuid PRIMARY KEY,
    at         bigint NOT NULL,
    reason     text NOT NULL,
    actor      text,
    -- A keyed hash of 16 bytes, and in places one behind the other: of the idempotency key, and of the ancestors of the space and of that itself.
    key_hash   bytea,
    places     bytea NOT NULL
);

CREATE INDEX memory_tombstones_by_key ON {schema}.memory_tombstones (key_hash) WHERE key_hash IS NOT NULL;

CREATE TABLE {schema}.document_tombstones (
    collection text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    reason     text NOT NULL,
    actor      text,
    places     bytea NOT NULL,
    PRIMARY KEY (collection, id)
);

-- The key of their hashes: one row, made by the first program that opens the schema with this step.
CREATE TABLE {schema}.tombstone_key (id smallint PRIMARY KEY CHECK (id = 1), key text NOT NULL);

-- Whoever may read records, or write them, may read what stays of those of their kind, since no write brings these back. Nobody but the owner
-- may erase.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT DISTINCT CASE privilege_type WHEN 'SELECT' THEN 'SELECT' ELSE 'INSERT' END AS privilege, tombstones,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS to_role
        FROM (VALUES ($of${schema}.memories$of$::regclass, $of${schema}.memory_tombstones$of$),
            ($of${schema}.documents$of$::regclass, $of${schema}.document_tombstones$of$)) AS kept (records, tombstones)
        JOIN pg_class ON pg_class.oid = records CROSS JOIN LATERAL aclexplode(relacl)
        WHERE privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') AND grantee <> relowner
    LOOP
        EXECUTE 'GRANT SELECT ON ' || granted.tombstones || ' TO ' || granted.to_role;
        -- The first one who writes makes the key.
        EXECUTE 'GRANT ' || granted.privilege || $of$ ON {schema}.tombstone_key TO $of$ || granted.to_role;
    END LOOP;
END $$;

-- A program that would bring them back may no longer write.
CREATE OR REPLACE FUNCTION {schema}.check_writer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(substring(current_setting('agent_memory.writer', TRUE) FROM '^[0-9]{1,9}$')::integer, 0) < 7 THEN
        RAISE EXCEPTION 'a newer program has migrated the ledger' USING ERRCODE = 'AM002';
    END IF;
    RETURN NULL;
END $$;

-- Those who write wait until the index is made. Of so many rows that would take longer than a call may, so an operator makes it first, beside
-- those who write.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass($of${schema}.changes_by_document$of$) AND NOT indisvalid)
        OR to_regclass($of${schema}.changes_by_document$of$) IS NULL AND (SELECT seq FROM {schema}.changes ORDER BY xid DESC, seq DESC LIMIT 1)
            - (SELECT seq FROM {schema}.changes ORDER BY xid, seq LIMIT 1) > 5000000 THEN
        RAISE EXCEPTION 'the feed is large, and its index is not there' USING ERRCODE = 'AM004';
    END IF;
END $$;

-- By this an erasure finds what the feed has of a document. Of memories the feed has the ids alone.
CREATE INDEX IF NOT EXISTS changes_by_document ON {schema}.changes (collection, id) WHERE collection IS NOT NULL;

-- Of a row that tells of an erasure, where the record lay: the places of its tombstone. It names one memory, or a document, whose space_id is
-- then empty, and which an older program takes for one that was removed. The server writes no row. It waits for those that read the feed, which
-- is why this comes last.
ALTER TABLE {schema}.changes ADD COLUMN places bytea;
