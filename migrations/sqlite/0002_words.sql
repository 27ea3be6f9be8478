-- The words of the ledger. From here on every store and update indexes those of its memory; the backfill goes down from the newest row
-- that was there, and unindexed_below is the row that it has reached. Where a program of version 1 indexed them, nothing is left to do.
INSERT INTO agreements (name, value)
    SELECT 'unindexed_below', CASE
        WHEN EXISTS (SELECT 1 FROM agreements WHERE name = 'ledger_text') THEN 0
        ELSE coalesce((SELECT max(seq) FROM memories), 0) + 1
    END;
INSERT OR IGNORE INTO agreements (name, value) VALUES ('ledger_text', 'on');
