-- Nothing reads the words of records any more: a query matches the records themselves. Programs that write words are refused.
CREATE OR REPLACE FUNCTION {schema}.check_writer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(substring(current_setting('agent_memory.writer', TRUE) FROM '^[0-9]{1,9}$')::integer, 0) < 4 THEN
        RAISE EXCEPTION 'a newer program has migrated the ledger' USING ERRCODE = 'AM002';
    END IF;
    RETURN NULL;
END $$;

-- Waits for those that write words, and for those that read documents. What an operator has dropped already is no obstacle, and neither
-- are the words that a ledger has never had.
DROP INDEX IF EXISTS {schema}.memory_words_by_word;
DROP TABLE IF EXISTS {schema}.memory_words;
DROP TABLE IF EXISTS {schema}.ledger_text;
DROP TABLE IF EXISTS {schema}.words_backfill;
DROP INDEX IF EXISTS {schema}.documents_by_word;
-- The server marks the column as dropped, and writes no row.
ALTER TABLE {schema}.documents DROP COLUMN IF EXISTS words;

-- Their backfill ends here, however far it was.
UPDATE {schema}.schema_migrations SET complete = TRUE WHERE name = 'words';
