-- The ledger. Rows stand in the order of their arrival, so that an import in any order of time appends.
CREATE TABLE memories (
    seq             INTEGER PRIMARY KEY,
    id              BLOB NOT NULL UNIQUE,
    -- The place in the order of time, shared with memory_paths: createdAt shifted left by 20 bits, and a counter for the
    -- rows of one millisecond. Rows may share a slot; within one they are ordered by id.
    slot            INTEGER NOT NULL,
    created_at      INTEGER GENERATED ALWAYS AS (slot >> 20) VIRTUAL,
    updated_at      INTEGER,
    status          TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    space_id        TEXT NOT NULL,
    idempotency_key TEXT,
    metadata        TEXT NOT NULL,
    trigger         TEXT NOT NULL,
    context         TEXT
) STRICT;

CREATE UNIQUE INDEX memories_by_time ON memories (slot, id);
CREATE INDEX memories_open ON memories (status, slot, id) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX memories_by_key ON memories (idempotency_key) WHERE idempotency_key IS NOT NULL;

-- The path index: per slot one token for each whole id and one for each ancestor. FTS5 is a log-structured merge index, so a
-- store appends to it instead of touching a page per ancestor.
CREATE VIRTUAL TABLE memory_paths USING fts5 (
    path, content = '', detail = none, columnsize = 0, tokenize = "ascii tokenchars '-_./:~'"
);
-- A merge while nobody calls takes two parts of about the same size, and does not wait for four.
INSERT INTO memory_paths (memory_paths, rank) VALUES ('usermerge', 2);
CREATE VIRTUAL TABLE memory_path_tokens USING fts5vocab (memory_paths, instance);

-- The words of the ledger, by seq; kept while the setting says so.
CREATE VIRTUAL TABLE memory_words USING fts5 (
    words, content = '', contentless_delete = 1, tokenize = ascii
);

CREATE TABLE documents (
    seq        INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    id         TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER,
    revision   INTEGER NOT NULL,
    space_id   TEXT NOT NULL,
    metadata   TEXT NOT NULL,
    content    TEXT NOT NULL,
    UNIQUE (collection, id)
) STRICT;

CREATE INDEX documents_by_time ON documents (collection, created_at, id);

-- The words of the documents, by seq.
CREATE VIRTUAL TABLE document_words USING fts5 (
    words, content = '', contentless_delete = 1, tokenize = ascii
);

-- What all programs on this file have to agree on.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
