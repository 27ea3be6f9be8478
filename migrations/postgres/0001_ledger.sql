-- {schema} stands for the quoted name of the namespace.

-- The ledger. Texts that are compared have the collation C, so that the locale of the server changes nothing.
CREATE TABLE {schema}.memories (
    id              uuid PRIMARY KEY,
    created_at      bigint NOT NULL,
    updated_at      bigint,
    revision        bigint NOT NULL,
    status          text COLLATE "C" NOT NULL,
    space_id        text COLLATE "C" NOT NULL,
    idempotency_key text COLLATE "C",
    metadata        text NOT NULL,
    trigger         text NOT NULL,
    context         text,

    -- The path index: the hashes of the space's ancestors, path_3 of the one with three segments. Columns instead of an array, so that
    -- an index can answer by itself; one that is NULL takes no bytes.
    path_1 bigint, path_2 bigint, path_3 bigint, path_4 bigint, path_5 bigint, path_6 bigint,
    path_7 bigint, path_8 bigint, path_9 bigint, path_10 bigint, path_11 bigint, path_12 bigint,
    path_13 bigint, path_14 bigint, path_15 bigint, path_16 bigint, path_17 bigint, path_18 bigint,
    path_19 bigint, path_20 bigint, path_21 bigint, path_22 bigint, path_23 bigint, path_24 bigint,
    path_25 bigint, path_26 bigint, path_27 bigint, path_28 bigint, path_29 bigint, path_30 bigint,
    path_31 bigint, path_32 bigint
);

CREATE INDEX memories_by_time ON {schema}.memories (created_at, id);
CREATE INDEX memories_by_space ON {schema}.memories (space_id, created_at, id);
CREATE INDEX memories_open ON {schema}.memories (status, created_at, id) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX memories_by_key ON {schema}.memories (idempotency_key) WHERE idempotency_key IS NOT NULL;

-- As many as a space can have ancestors. Partial, so that a memory is only in those of its own.
CREATE INDEX memories_under_1 ON {schema}.memories (path_1, created_at, id) WHERE path_1 IS NOT NULL;
CREATE INDEX memories_under_2 ON {schema}.memories (path_2, created_at, id) WHERE path_2 IS NOT NULL;
CREATE INDEX memories_under_3 ON {schema}.memories (path_3, created_at, id) WHERE path_3 IS NOT NULL;
CREATE INDEX memories_under_4 ON {schema}.memories (path_4, created_at, id) WHERE path_4 IS NOT NULL;
CREATE INDEX memories_under_5 ON {schema}.memories (path_5, created_at, id) WHERE path_5 IS NOT NULL;
CREATE INDEX memories_under_6 ON {schema}.memories (path_6, created_at, id) WHERE path_6 IS NOT NULL;
CREATE INDEX memories_under_7 ON {schema}.memories (path_7, created_at, id) WHERE path_7 IS NOT NULL;
CREATE INDEX memories_under_8 ON {schema}.memories (path_8, created_at, id) WHERE path_8 IS NOT NULL;
CREATE INDEX memories_under_9 ON {schema}.memories (path_9, created_at, id) WHERE path_9 IS NOT NULL;
CREATE INDEX memories_under_10 ON {schema}.memories (path_10, created_at, id) WHERE path_10 IS NOT NULL;
CREATE INDEX memories_under_11 ON {schema}.memories (path_11, created_at, id) WHERE path_11 IS NOT NULL;
CREATE INDEX memories_under_12 ON {schema}.memories (path_12, created_at, id) WHERE path_12 IS NOT NULL;
CREATE INDEX memories_under_13 ON {schema}.memories (path_13, created_at, id) WHERE path_13 IS NOT NULL;
CREATE INDEX memories_under_14 ON {schema}.memories (path_14, created_at, id) WHERE path_14 IS NOT NULL;
CREATE INDEX memories_under_15 ON {schema}.memories (path_15, created_at, id) WHERE path_15 IS NOT NULL;
CREATE INDEX memories_under_16 ON {schema}.memories (path_16, created_at, id) WHERE path_16 IS NOT NULL;
CREATE INDEX memories_under_17 ON {schema}.memories (path_17, created_at, id) WHERE path_17 IS NOT NULL;
CREATE INDEX memories_under_18 ON {schema}.memories (path_18, created_at, id) WHERE path_18 IS NOT NULL;
CREATE INDEX memories_under_19 ON {schema}.memories (path_19, created_at, id) WHERE path_19 IS NOT NULL;
CREATE INDEX memories_under_20 ON {schema}.memories (path_20, created_at, id) WHERE path_20 IS NOT NULL;
CREATE INDEX memories_under_21 ON {schema}.memories (path_21, created_at, id) WHERE path_21 IS NOT NULL;
CREATE INDEX memories_under_22 ON {schema}.memories (path_22, created_at, id) WHERE path_22 IS NOT NULL;
CREATE INDEX memories_under_23 ON {schema}.memories (path_23, created_at, id) WHERE path_23 IS NOT NULL;
CREATE INDEX memories_under_24 ON {schema}.memories (path_24, created_at, id) WHERE path_24 IS NOT NULL;
CREATE INDEX memories_under_25 ON {schema}.memories (path_25, created_at, id) WHERE path_25 IS NOT NULL;
CREATE INDEX memories_under_26 ON {schema}.memories (path_26, created_at, id) WHERE path_26 IS NOT NULL;
CREATE INDEX memories_under_27 ON {schema}.memories (path_27, created_at, id) WHERE path_27 IS NOT NULL;
CREATE INDEX memories_under_28 ON {schema}.memories (path_28, created_at, id) WHERE path_28 IS NOT NULL;
CREATE INDEX memories_under_29 ON {schema}.memories (path_29, created_at, id) WHERE path_29 IS NOT NULL;
CREATE INDEX memories_under_30 ON {schema}.memories (path_30, created_at, id) WHERE path_30 IS NOT NULL;
CREATE INDEX memories_under_31 ON {schema}.memories (path_31, created_at, id) WHERE path_31 IS NOT NULL;
CREATE INDEX memories_under_32 ON {schema}.memories (path_32, created_at, id) WHERE path_32 IS NOT NULL;

-- The words of the ledger, each once per memory; kept while the setting says so.
CREATE TABLE {schema}.memory_words (
    id    uuid PRIMARY KEY,
    words text[] COLLATE "C" NOT NULL
);

CREATE INDEX memory_words_by_word ON {schema}.memory_words USING gin (words);

CREATE TABLE {schema}.documents (
    collection text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint,
    revision   bigint NOT NULL,
    space_id   text COLLATE "C" NOT NULL,
    metadata   text NOT NULL,
    content    text NOT NULL,
    words      text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (collection, id)
);

CREATE INDEX documents_by_time ON {schema}.documents (collection, created_at, id);
CREATE INDEX documents_by_word ON {schema}.documents USING gin (words);
