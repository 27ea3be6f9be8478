-- What stays of records that were erased.

-- A program that would bring them back may no longer write.
-- What makes a ledger read-only (L9) stays.
UPDATE agreements SET value = CAST(CAST(value AS INTEGER) / 1000000000 * 1000000000 + 7 AS TEXT) WHERE name = 'writer';
