-- Expiry: what says itself when it expires stands in a list, in the order of these times. Triggers keep the lists, and not the statements of the
-- programs, since one of the version before removes and erases without knowing of them. Where a record has no time they are not called. A list
-- is a table of its own, since an index of the records would be made while those who write wait.
--
-- Memories and documents have a list each, as their histories have. Their names come before those of the records, so that a restore of the data
-- alone fills them first; what the triggers list then is there already. The key of a record is that of the core, by which those of one time are
-- in order.
CREATE TABLE {schema}.ledger_expiry (
    expires_at bigint NOT NULL,
    key        bytea NOT NULL,
    PRIMARY KEY (expires_at, key)
);

CREATE TABLE {schema}.document_expiry (
    expires_at bigint NOT NULL,
    key        bytea NOT NULL,
    PRIMARY KEY (expires_at, key)
);

-- The rules of the operator, as the core writes them: one row, made when there are some first.
CREATE TABLE {schema}.retention (id smallint PRIMARY KEY CHECK (id = 1), rules text NOT NULL);

CREATE FUNCTION {schema}.list_memory() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM {schema}.ledger_expiry l WHERE l.expires_at = OLD.expires_at AND l.key = 'm'::bytea || uuid_send(OLD.id);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO {schema}.ledger_expiry (expires_at, key)
        SELECT NEW.expires_at, 'm'::bytea || uuid_send(NEW.id) WHERE NEW.expires_at IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION {schema}.list_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM {schema}.document_expiry l
        WHERE l.expires_at = OLD.expires_at AND l.key = convert_to(concat('d', OLD.collection, '/', OLD.id), 'UTF8');
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO {schema}.document_expiry (expires_at, key)
        SELECT NEW.expires_at, convert_to(concat('d', NEW.collection, '/', NEW.id), 'UTF8') WHERE NEW.expires_at IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;

-- A put without a time clears the one that is there, and that of a program of the version before names none.
CREATE FUNCTION {schema}.put_without_expiry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.expires_at := NULL;
    RETURN NEW;
END $$;

-- Whoever may read records, or write them, may read the rules, since no call shows what these have over. Whoever may write them keeps the lists,
-- by the triggers. Nobody but the owner may make rules, or take tombstones away.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT list, bool_or(privilege_type <> 'SELECT') AS writes,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END AS to_role
        FROM (VALUES ($of${schema}.memories$of$::regclass, $of${schema}.ledger_expiry$of$),
            ($of${schema}.documents$of$::regclass, $of${schema}.document_expiry$of$)) AS kept (records, list)
        JOIN pg_class ON pg_class.oid = records CROSS JOIN LATERAL aclexplode(relacl)
        WHERE privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') AND grantee <> relowner
        GROUP BY list, grantee
    LOOP
        EXECUTE $of$GRANT SELECT ON {schema}.retention TO $of$ || granted.to_role;
        IF granted.writes THEN
            EXECUTE 'GRANT SELECT, INSERT, DELETE ON ' || granted.list || ' TO ' || granted.to_role;
        END IF;
    END LOOP;
END $$;

-- When a record expires, as it says itself. The server writes no row. It waits for those that read records, which is why this comes last: from
-- here on nobody else does until the end of the step.
LOCK TABLE {schema}.documents IN SHARE ROW EXCLUSIVE MODE;
ALTER TABLE {schema}.memories ADD COLUMN expires_at bigint;
ALTER TABLE {schema}.documents ADD COLUMN expires_at bigint;

CREATE TRIGGER memories_listed AFTER INSERT ON {schema}.memories
    FOR EACH ROW WHEN (NEW.expires_at IS NOT NULL) EXECUTE FUNCTION {schema}.list_memory();
CREATE TRIGGER memories_relisted AFTER UPDATE ON {schema}.memories
    FOR EACH ROW WHEN (OLD.expires_at IS DISTINCT FROM NEW.expires_at OR OLD.expires_at IS NOT NULL AND OLD.id <> NEW.id)
    EXECUTE FUNCTION {schema}.list_memory();
CREATE TRIGGER memories_unlisted AFTER DELETE ON {schema}.memories
    FOR EACH ROW WHEN (OLD.expires_at IS NOT NULL) EXECUTE FUNCTION {schema}.list_memory();

CREATE TRIGGER documents_listed AFTER INSERT ON {schema}.documents
    FOR EACH ROW WHEN (NEW.expires_at IS NOT NULL) EXECUTE FUNCTION {schema}.list_document();
CREATE TRIGGER documents_relisted AFTER UPDATE ON {schema}.documents
    FOR EACH ROW WHEN (OLD.expires_at IS DISTINCT FROM NEW.expires_at
        OR OLD.expires_at IS NOT NULL AND (OLD.collection, OLD.id) <> (NEW.collection, NEW.id))
    EXECUTE FUNCTION {schema}.list_document();
CREATE TRIGGER documents_unlisted AFTER DELETE ON {schema}.documents
    FOR EACH ROW WHEN (OLD.expires_at IS NOT NULL) EXECUTE FUNCTION {schema}.list_document();
CREATE TRIGGER documents_put BEFORE UPDATE ON {schema}.documents
    FOR EACH ROW WHEN (OLD.expires_at IS NOT NULL AND OLD.revision <> NEW.revision
        AND coalesce(substring(current_setting('agent_memory.writer', TRUE) FROM '^[0-9]{1,9}$')::integer, 0) < 8)
    EXECUTE FUNCTION {schema}.put_without_expiry();
