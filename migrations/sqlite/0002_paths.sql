-- The documents of each place, in the order of time: of each document an entry for its space and one for each ancestor of that. Triggers
-- keep them, so that they are complete whatever program writes.
CREATE TABLE document_paths (
    collection TEXT NOT NULL,
    -- Twice the number of boundaries in the path, and one more of an ancestor: siblings are of one level, and stand side by side in it.
    level      INTEGER NOT NULL,
    path       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    id         TEXT NOT NULL,
    PRIMARY KEY (collection, level, path, created_at, id)
) STRICT, WITHOUT ROWID;

-- The characters of the longest space id, and one more.
CREATE TABLE space_positions (position INTEGER PRIMARY KEY) STRICT;
INSERT INTO space_positions
    WITH RECURSIVE up (position) AS (SELECT 1 UNION ALL SELECT position + 1 FROM up WHERE position < 513)
    SELECT position FROM up;

-- The entries that documents have to have: what comes before each boundary of a space id, and before its end.
CREATE VIEW document_entries AS
    SELECT seq, collection, substr(space_id, 1, position - 1) AS path, created_at, id,
        2 * (position - 1 - length(replace(replace(replace(substr(space_id, 1, position - 1), '-', ''), '/', ''), ':', '')))
            + (position <= length(space_id)) AS level
    FROM documents CROSS JOIN space_positions
    WHERE position <= length(space_id) + 1
        AND (position > length(space_id) OR substr(space_id, position, 1) IN ('-', '/', ':'));

CREATE TRIGGER document_is_new AFTER INSERT ON documents BEGIN
    INSERT OR IGNORE INTO document_paths (collection, level, path, created_at, id)
        SELECT collection, level, path, created_at, id FROM document_entries WHERE seq = NEW.seq;
END;
CREATE TRIGGER document_leaves BEFORE UPDATE ON documents
    WHEN (OLD.collection, OLD.id, OLD.created_at, OLD.space_id) <> (NEW.collection, NEW.id, NEW.created_at, NEW.space_id)
BEGIN
    DELETE FROM document_paths WHERE (collection, level, path, created_at, id) IN (
        SELECT collection, level, path, created_at, id FROM document_entries WHERE seq = OLD.seq);
END;
CREATE TRIGGER document_arrives AFTER UPDATE ON documents
    WHEN (OLD.collection, OLD.id, OLD.created_at, OLD.space_id) <> (NEW.collection, NEW.id, NEW.created_at, NEW.space_id)
BEGIN
    INSERT OR IGNORE INTO document_paths (collection, level, path, created_at, id)
        SELECT collection, level, path, created_at, id FROM document_entries WHERE seq = NEW.seq;
END;
CREATE TRIGGER document_is_gone BEFORE DELETE ON documents BEGIN
    DELETE FROM document_paths WHERE (collection, level, path, created_at, id) IN (
        SELECT collection, level, path, created_at, id FROM document_entries WHERE seq = OLD.seq);
END;

-- The backfill goes down from the newest document that is there, and unplaced_below is the row that it has reached.
INSERT INTO agreements (name, value) SELECT 'unplaced_below', coalesce((SELECT max(seq) FROM documents), 0) + 1;
