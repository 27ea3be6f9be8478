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

-- The minimum writer version, which a program reads in each transaction that writes. One of version 1 reads the settings there under
-- their old name, so that each of its writes is an error before it has done anything.
ALTER TABLE settings RENAME TO agreements;
INSERT INTO agreements (name, value) VALUES ('writer', '2');
