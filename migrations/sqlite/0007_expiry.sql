-- When a record expires, as it says itself, in milliseconds since 1970.
-- ALTER TABLE would write just this text, and then read every row of a STRICT table to check it. No row has anything to check.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ', expires_at INTEGER) STRICT')
    WHERE type = 'table' AND name = 'memories';
UPDATE sqlite_schema SET sql = replace(sql, 'UNIQUE (collection, id)', 'expires_at INTEGER, UNIQUE (collection, id)')
    WHERE type = 'table' AND name = 'documents';
-- Reads the schema anew. Other programs do so since tables and triggers come with it.
PRAGMA writable_schema = RESET;
-- The step fails where a table has not got its column.
SELECT expires_at FROM memories WHERE FALSE;
SELECT expires_at FROM documents WHERE FALSE;

-- The records that say when they expire, in that order, each by what names it in the history. Triggers keep them, so that they are right
-- whatever program writes. The entry of a new memory comes from the program itself, which alone names the column: a trigger would take 0.3 µs
-- of each store, also of a memory that never expires.
CREATE TABLE expiries (
    expires_at INTEGER NOT NULL,
    record     BLOB NOT NULL,
    PRIMARY KEY (expires_at, record)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER memory_expires_otherwise AFTER UPDATE OF expires_at ON memories
    WHEN OLD.expires_at IS NOT NEW.expires_at
BEGIN
    DELETE FROM expiries WHERE expires_at = OLD.expires_at AND record = CAST('m' || OLD.id AS BLOB);
    INSERT OR IGNORE INTO expiries (expires_at, record)
        SELECT NEW.expires_at, CAST('m' || NEW.id AS BLOB) WHERE NEW.expires_at IS NOT NULL;
END;
CREATE TRIGGER memory_expires_no_more AFTER DELETE ON memories WHEN OLD.expires_at IS NOT NULL BEGIN
    DELETE FROM expiries WHERE expires_at = OLD.expires_at AND record = CAST('m' || OLD.id AS BLOB);
END;

CREATE TRIGGER document_expires AFTER INSERT ON documents WHEN NEW.expires_at IS NOT NULL BEGIN
    INSERT OR IGNORE INTO expiries (expires_at, record)
        VALUES (NEW.expires_at, CAST('d' || NEW.collection || '/' || NEW.id AS BLOB));
END;
CREATE TRIGGER document_expires_otherwise AFTER UPDATE OF expires_at ON documents
    WHEN OLD.expires_at IS NOT NEW.expires_at
BEGIN
    DELETE FROM expiries
        WHERE expires_at = OLD.expires_at AND record = CAST('d' || OLD.collection || '/' || OLD.id AS BLOB);
    INSERT OR IGNORE INTO expiries (expires_at, record)
        SELECT NEW.expires_at, CAST('d' || NEW.collection || '/' || NEW.id AS BLOB) WHERE NEW.expires_at IS NOT NULL;
END;
CREATE TRIGGER document_expires_no_more AFTER DELETE ON documents WHEN OLD.expires_at IS NOT NULL BEGIN
    DELETE FROM expiries
        WHERE expires_at = OLD.expires_at AND record = CAST('d' || OLD.collection || '/' || OLD.id AS BLOB);
END;

-- The rules of retention, in one row. They may be long, and what all programs have agreed on is read by each transaction that writes.
CREATE TABLE retention (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    rules TEXT NOT NULL
) STRICT;

-- A program that would keep the time of a document that is put without one may no longer write.
-- What makes a ledger read-only (L9) stays.
UPDATE agreements SET value = CAST(CAST(value AS INTEGER) / 1000000000 * 1000000000 + 8 AS TEXT) WHERE name = 'writer';
