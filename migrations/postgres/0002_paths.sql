-- The documents of each place, in the order of time: of each document an entry for its space and one for each ancestor of that. Triggers
-- keep them, so that they are complete whatever program writes. The level of an entry is twice the number of boundaries in its path, and
-- one more of an ancestor: siblings are of one level, and stand side by side in it.
CREATE TABLE {schema}.document_paths (
    collection text COLLATE "C" NOT NULL,
    level      integer NOT NULL,
    path       text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    PRIMARY KEY (collection, level, path, created_at, id)
);

-- What comes before each boundary of a space, and before its end.
CREATE FUNCTION {schema}.places_of(space text, OUT level integer, OUT path text) RETURNS SETOF record
LANGUAGE sql IMMUTABLE AS $$
    SELECT 2 * (n - 1 - length(translate(left(space, n - 1), '-/:', ''))) + (n <= length(space))::integer, left(space, n - 1)
    FROM generate_series(1, length(space) + 1) AS n
    WHERE n > length(space) OR substr(space, n, 1) IN ('-', '/', ':')
$$;

CREATE FUNCTION {schema}.place_document() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    gone record;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        -- One by one, so that each is found by its key, whatever the server guesses of the table.
        FOR gone IN SELECT places.level, places.path FROM {schema}.places_of(OLD.space_id) AS places LOOP
            DELETE FROM {schema}.document_paths p
            WHERE p.collection = OLD.collection AND p.level = gone.level AND p.path = gone.path
                AND p.created_at = OLD.created_at AND p.id = OLD.id;
        END LOOP;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO {schema}.document_paths (collection, level, path, created_at, id)
        SELECT NEW.collection, places.level, places.path, NEW.created_at, NEW.id
        FROM {schema}.places_of(NEW.space_id) AS places
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;

-- Waits for those that write without the trigger.
CREATE TRIGGER documents_placed AFTER INSERT OR DELETE ON {schema}.documents
    FOR EACH ROW EXECUTE FUNCTION {schema}.place_document();
CREATE TRIGGER documents_moved AFTER UPDATE ON {schema}.documents
    FOR EACH ROW
    WHEN ((OLD.collection, OLD.id, OLD.created_at, OLD.space_id) <> (NEW.collection, NEW.id, NEW.created_at, NEW.space_id))
    EXECUTE FUNCTION {schema}.place_document();

-- The document that the backfill has reached, which goes along the primary key, and how many it has gone over. No row when it is complete.
CREATE TABLE {schema}.paths_backfill (collection text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, done bigint NOT NULL);
INSERT INTO {schema}.paths_backfill (collection, id, done) SELECT '', '', 0 WHERE EXISTS (SELECT FROM {schema}.documents);
