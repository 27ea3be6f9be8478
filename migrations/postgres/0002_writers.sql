-- A version is a list of named steps.
ALTER TABLE {schema}.schema_migrations DROP CONSTRAINT schema_migrations_pkey, ADD PRIMARY KEY (version, name);

-- The minimum writer version. A program sets its own on each of its connections, or in each transaction; one of version 1 sets none, and
-- each of its writes is an error. A later step raises the minimum by replacing the function, which locks no table.
CREATE FUNCTION {schema}.check_writer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(substring(current_setting('agent_memory.writer', TRUE) FROM '^[0-9]{1,9}$')::integer, 0) < 2 THEN
        RAISE EXCEPTION 'a newer program has migrated the ledger' USING ERRCODE = 'AM002';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER memories_writer BEFORE INSERT OR UPDATE ON {schema}.memories
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.check_writer();
CREATE TRIGGER documents_writer BEFORE INSERT OR UPDATE OR DELETE ON {schema}.documents
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.check_writer();
