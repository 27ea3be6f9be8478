-- The words of the ledger. Waits for the stores that don't know of ledger_text; whoever stores later finds it, and indexes the words.
-- A program of version 1 may have made it.
LOCK TABLE {schema}.memories IN SHARE ROW EXCLUSIVE MODE;
CREATE TABLE IF NOT EXISTS {schema}.ledger_text (is_complete boolean NOT NULL);

-- The memory that the backfill has reached, which goes from the newest to the oldest, and how many it has gone over. It starts at the end
-- where there is no memory, or a program of version 1 has indexed them all.
CREATE TABLE {schema}.words_backfill (created_at bigint NOT NULL, id uuid NOT NULL, done bigint NOT NULL);
INSERT INTO {schema}.words_backfill (created_at, id, done)
    SELECT CASE
        WHEN EXISTS (SELECT FROM {schema}.ledger_text WHERE is_complete) OR NOT EXISTS (SELECT FROM {schema}.memories)
            THEN -9223372036854775807
        ELSE 9223372036854775807
    END, '00000000-0000-0000-0000-000000000000', 0;
