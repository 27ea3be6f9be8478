-- What stays of records that were erased.
CREATE TABLE tombstones (
    seq      INTEGER PRIMARY KEY,
    -- What names the memory or document, as in the history.
    record   BLOB NOT NULL UNIQUE,
    at       INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    actor    TEXT,
    -- The keyed hash of the idempotency key, 16 bytes.
    key_hash BLOB,
    -- The keyed hashes of the ancestors of the space and of the space itself, 16 bytes each.
    places   BLOB NOT NULL
) STRICT;

CREATE INDEX tombstones_by_key ON tombstones (key_hash) WHERE key_hash IS NOT NULL;

-- Of an erasure, what its tombstone has. A memory that was erased has its id as a text, and no collection.
ALTER TABLE changes ADD COLUMN places BLOB;

-- A program that would bring them back may no longer write.
-- What makes a ledger read-only (L9) stays.
UPDATE agreements SET value = CAST(CAST(value AS INTEGER) / 1000000000 * 1000000000 + 7 AS TEXT) WHERE name = 'writer';
