-- The vectors of records, by the numbers of their rows. They are no column of the records: with one of 400 bytes a page has a third fewer of
-- these, each update would write it again, and to add it later would move records to other pages, of which copies stay behind. Here a page has
-- nineteen of them in a row, in the order in which their records arrived, and to find the one of a record takes 0.5 µs.
CREATE TABLE memory_vectors (
    seq    INTEGER PRIMARY KEY,
    vector BLOB NOT NULL
) STRICT;

CREATE TABLE document_vectors (
    seq    INTEGER PRIMARY KEY,
    vector BLOB NOT NULL
) STRICT;

-- The number of a row that is gone may be given again, and the next record with it has no vector, whatever has deleted the one before. Where
-- texts change, the program itself deletes the vector, since a trigger would look at each update.
CREATE TRIGGER memory_vector_goes AFTER DELETE ON memories BEGIN
    DELETE FROM memory_vectors WHERE seq = OLD.seq;
END;
CREATE TRIGGER document_vector_goes AFTER DELETE ON documents BEGIN
    DELETE FROM document_vectors WHERE seq = OLD.seq;
END;

-- A program that would keep the vector of other texts may no longer write.
-- What makes a ledger read-only (L9) stays.
UPDATE agreements SET value = CAST(CAST(value AS INTEGER) / 1000000000 * 1000000000 + 9 AS TEXT) WHERE name = 'writer';
