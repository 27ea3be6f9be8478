-- A version is a list of named steps.
CREATE TABLE schema_steps (
    version  INTEGER NOT NULL,
    name     TEXT NOT NULL,
    checksum TEXT NOT NULL,
    complete INTEGER NOT NULL,
    PRIMARY KEY (version, name)
) STRICT, WITHOUT ROWID;
INSERT INTO schema_steps SELECT version, name, checksum, complete FROM schema_migrations;
DROP TABLE schema_migrations;
ALTER TABLE schema_steps RENAME TO schema_migrations;

-- The minimum writer version. The function is the program's: one of version 1 does not have it, and each of its writes is an error.
CREATE TRIGGER memories_insert BEFORE INSERT ON memories WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER memories_update BEFORE UPDATE ON memories WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER documents_insert BEFORE INSERT ON documents WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER documents_update BEFORE UPDATE ON documents WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER documents_delete BEFORE DELETE ON documents WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER settings_insert BEFORE INSERT ON settings WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER settings_update BEFORE UPDATE ON settings WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER schema_migrations_insert BEFORE INSERT ON schema_migrations WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
CREATE TRIGGER schema_migrations_update BEFORE UPDATE ON schema_migrations WHEN agent_memory_writer() < 2
    BEGIN SELECT RAISE(ABORT, 'a newer program has migrated the ledger'); END;
