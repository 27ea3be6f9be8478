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
    context         text
);

CREATE INDEX memories_by_time ON {schema}.memories (created_at, id);
CREATE INDEX memories_by_space ON {schema}.memories (space_id, created_at, id);
CREATE INDEX memories_open ON {schema}.memories (status, created_at, id) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX memories_by_key ON {schema}.memories (idempotency_key) WHERE idempotency_key IS NOT NULL;

-- The path index: one row for each ancestor of a memory's space, under the hash of the ancestor.
CREATE TABLE {schema}.memory_paths (
    path       bigint NOT NULL,
    created_at bigint NOT NULL,
    id         uuid NOT NULL,
    PRIMARY KEY (path, created_at, id)
);

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

-- What all programs on this namespace have to agree on.
CREATE TABLE {schema}.settings (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
