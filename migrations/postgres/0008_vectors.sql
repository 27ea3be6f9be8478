-- Vectors: what records mean, as a model tells it. They stand beside the records in tables of their own. So a record that gets one is not
-- written anew, with its entries in all indexes: it stays the version that it is, and neither the feed nor a trigger is told. Memories and
-- documents have a table each, as their histories have.
--
-- Up to a page a vector stays in its row, where it is read at once.
CREATE TABLE {schema}.memory_vectors (
    id     uuid PRIMARY KEY,
    -- The bytes of the core: the model by which it was made, and its numbers.
    vector bytea NOT NULL
) WITH (toast_tuple_target = 8160);

CREATE TABLE {schema}.document_vectors (
    collection text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    vector     bytea NOT NULL,
    PRIMARY KEY (collection, id)
) WITH (toast_tuple_target = 8160);

-- Such numbers can't be compressed. The planner needs no samples of them, which would outlive their records.
ALTER TABLE {schema}.memory_vectors ALTER COLUMN vector SET STORAGE EXTERNAL, ALTER COLUMN vector SET STATISTICS 0;
ALTER TABLE {schema}.document_vectors ALTER COLUMN vector SET STORAGE EXTERNAL, ALTER COLUMN vector SET STATISTICS 0;

-- The model of the namespace, as the core writes it: one row, made when there is one first.
CREATE TABLE {schema}.vector_model (id smallint PRIMARY KEY CHECK (id = 1), model text NOT NULL);

-- A vector goes with its record, and with the text that it is of. Triggers see to that, and not the statements of the programs, since one of the
-- version before knows nothing of vectors. Whoever keeps one has locked its record, so what was kept before a write is seen behind it.
CREATE FUNCTION {schema}.drop_memory_vector() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {schema}.memory_vectors v WHERE v.id = OLD.id;
    RETURN NULL;
END $$;

CREATE FUNCTION {schema}.drop_document_vector() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM {schema}.document_vectors v WHERE v.collection = OLD.collection AND v.id = OLD.id;
    RETURN NULL;
END $$;

-- Whoever may read records may read their vectors, and whoever may write them keeps vectors, and drops them by the triggers. The first one who
-- keeps one says of which model they are.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT vectors, bool_or(privilege_type <> 'SELECT') AS writes,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS to_role
        FROM (VALUES ($of${schema}.memories$of$::regclass, $of${schema}.memory_vectors$of$),
            ($of${schema}.documents$of$::regclass, $of${schema}.document_vectors$of$)) AS kept (records, vectors)
        JOIN pg_class ON pg_class.oid = records CROSS JOIN LATERAL aclexplode(relacl)
        WHERE privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') AND grantee <> relowner
        GROUP BY vectors, grantee
    LOOP
        EXECUTE 'GRANT SELECT ON ' || granted.vectors || $of$, {schema}.vector_model TO $of$ || granted.to_role;
        IF granted.writes THEN
            EXECUTE 'GRANT INSERT, UPDATE, DELETE ON ' || granted.vectors || ' TO ' || granted.to_role;
            EXECUTE $of$GRANT INSERT, UPDATE ON {schema}.vector_model TO $of$ || granted.to_role;
        END IF;
    END LOOP;
END $$;

-- These wait for those that write records, which is why they come last. Those that read go on.
--
-- A program updates the context of a memory, and not its trigger, which a comparison would read whole for nothing.
CREATE TRIGGER memories_answered AFTER UPDATE OF context ON {schema}.memories
    FOR EACH ROW WHEN (OLD.context IS DISTINCT FROM NEW.context) EXECUTE FUNCTION {schema}.drop_memory_vector();
CREATE TRIGGER memories_reworded AFTER UPDATE OF id, trigger ON {schema}.memories
    FOR EACH ROW WHEN (OLD.id <> NEW.id OR OLD.trigger <> NEW.trigger) EXECUTE FUNCTION {schema}.drop_memory_vector();
CREATE TRIGGER memories_gone AFTER DELETE ON {schema}.memories
    FOR EACH ROW EXECUTE FUNCTION {schema}.drop_memory_vector();

CREATE TRIGGER documents_reworded AFTER UPDATE OF collection, id, content ON {schema}.documents
    FOR EACH ROW WHEN ((OLD.collection, OLD.id) <> (NEW.collection, NEW.id) OR OLD.content <> NEW.content)
    EXECUTE FUNCTION {schema}.drop_document_vector();
CREATE TRIGGER documents_gone AFTER DELETE ON {schema}.documents
    FOR EACH ROW EXECUTE FUNCTION {schema}.drop_document_vector();
