-- When memories were appended here, by the clock of their provider: from this row of the ledger to that of the next one. Those that were there
-- before this step are before the first. (A column of the ledger would take some bytes of each of its rows, and so a row of many of its pages.)
CREATE TABLE stores (
    first_memory INTEGER PRIMARY KEY,
    -- Absent where it is not known.
    at           INTEGER
) STRICT;

-- What each update, put and removal has replaced, in the order of the commits. A row is never changed.
CREATE TABLE history (
    seq        INTEGER PRIMARY KEY,
    -- What names the memory or document: also a document that was removed, and another one that was put under its id.
    record     BLOB NOT NULL,
    -- That which the write made; of a removal that which it took away.
    revision   INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    actor      TEXT,
    is_removal INTEGER NOT NULL,
    -- What makes the version before of the one that the write made; empty where there was none.
    before     BLOB NOT NULL
) STRICT;

-- The newest of a record are found by it, since each entry of an index ends with the number of its row.
CREATE INDEX history_of_record ON history (record);

-- A program that leaves no rows there may no longer write.
-- What makes a ledger read-only (L9) stays.
UPDATE agreements SET value = CAST(CAST(value AS INTEGER) / 1000000000 * 1000000000 + 6 AS TEXT) WHERE name = 'writer';
