-- What stays of records that were erased.

-- A program that would bring them back may no longer write.
CREATE OR REPLACE FUNCTION {schema}.check_writer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(substring(current_setting('agent_memory.writer', TRUE) FROM '^[0-9]{1,9}$')::integer, 0) < 7 THEN
        RAISE EXCEPTION 'a newer program has migrated the ledger' USING ERRCODE = 'AM002';
    END IF;
    RETURN NULL;
END $$;
