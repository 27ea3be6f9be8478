-- The feed: what was written, in the order of the commits. The newest row stays, so that numbers only grow.
CREATE TABLE changes (
    seq          INTEGER PRIMARY KEY,
    -- A number that each program draws when it opens the file. Where a file goes back to an earlier state, other rows come in the places
    -- of those that are lost, and are known by it.
    epoch        INTEGER NOT NULL,
    -- Memories that were appended one after the other, or one that was replaced.
    first_memory INTEGER,
    last_memory  INTEGER,
    -- A document that was put, with the space that it had before if that was another one; or removed, without a revision.
    collection   TEXT,
    id           TEXT,
    space_id     TEXT,
    space_before TEXT,
    revision     INTEGER
) STRICT;

-- A program that leaves no rows there may no longer write.
UPDATE agreements SET value = '5' WHERE name = 'writer';
