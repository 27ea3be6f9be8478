//! Changes of the schema while programs run: programs that are too old, the places of documents, and the removal of
//! words.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use conformance::fault::{Fault, Proxy};
use conformance::server::postgres::{LocalPostgres, PgBouncer};
use memory_core::{
    Blocks, Collection, Content, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Error,
    ErrorKind, History, ManualClock, MemoryPatch, MemoryProvider, Metadata, Order, Outcome, Record, Revision, SpaceId,
    Status,
};
use memory_postgres::PostgresMemory;
use migrations::Kind;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tokio::task::JoinSet;

use crate::common::{Case, NOBODY_WAITS, WAITS_FOR_A_LOCK, all, at, check, config, event, holds, open, run, until};

/// A store as version 1 had it.
const STORE: &str = "
    INSERT INTO agent_memory.memories (id, created_at, revision, status, space_id, metadata, trigger, path_1)
    VALUES (gen_random_uuid(), 7, 1, 'completed', 'a-b', '{}', '{\"text\":\"word7\"}', 42)";

/// A store and a put as the versions 1 and 2 had them, with the words.
const STORE_WORDS: &str = "
    WITH stored AS (
        INSERT INTO agent_memory.memories (id, created_at, revision, status, space_id, metadata, trigger, path_1)
        VALUES (gen_random_uuid(), 7, 1, 'completed', 'a-b', '{}', '{\"text\":\"word7\"}', 42) RETURNING id)
    INSERT INTO agent_memory.memory_words (id, words) SELECT id, '{word7}' FROM stored";
const PUT_WORDS: &str = "
    INSERT INTO agent_memory.documents (collection, id, created_at, revision, space_id, metadata, content, words)
    VALUES ('notes', gen_random_uuid()::text, 7, 1, 'a-b', '{}', 'a cat', '{a,cat}')";

/// The steps of ledgers that programs before version 3 have made, without an index of the ledger's words and with one.
const VERSION_1: &[&str] = &["ledger"];
const VERSION_2: &[&str] = &["ledger", "writers", "secrets", "paths"];
const VERSION_2_WORDS: &[&str] = &["ledger", "writers", "secrets", "paths", "words"];

/// Makes a ledger one whose documents have no places.
const WITHOUT_PLACES: &str = "
    DROP TRIGGER documents_placed ON agent_memory.documents;
    DROP TRIGGER documents_moved ON agent_memory.documents;
    DROP FUNCTION agent_memory.place_document(), agent_memory.places_of(text);
    DROP TABLE agent_memory.document_paths, agent_memory.paths_backfill;
    DELETE FROM agent_memory.schema_migrations WHERE name IN ('paths', 'no_words')";
/// Makes a ledger one without a feed.
pub(crate) const WITHOUT_FEED: &str = "
    DROP TRIGGER documents_noted ON agent_memory.documents;
    DROP FUNCTION agent_memory.note_document(), agent_memory.trim_changes(), agent_memory.feed_epoch(),
        agent_memory.listen_to_changes(), agent_memory.tell_changes(text);
    DROP TABLE agent_memory.changes, agent_memory.listening;
    DELETE FROM agent_memory.schema_migrations WHERE name = 'feed'";
/// Makes a ledger one without a history.
pub(crate) const WITHOUT_HISTORY: &str = "
    DROP TABLE agent_memory.memory_history, agent_memory.document_history, agent_memory.history_begin;
    ALTER TABLE agent_memory.memories DROP COLUMN stored_at;
    DELETE FROM agent_memory.schema_migrations WHERE name = 'history'";

/// Makes a ledger one without tombstones.
pub(crate) const WITHOUT_ERASURE: &str = "
    DROP TABLE agent_memory.memory_tombstones, agent_memory.document_tombstones, agent_memory.tombstone_key;
    DROP INDEX agent_memory.changes_by_document;
    ALTER TABLE agent_memory.changes DROP COLUMN places;
    DELETE FROM agent_memory.schema_migrations WHERE name = 'erasure'";

/// Turns a ledger into one without expiry.
pub(crate) const WITHOUT_EXPIRY: &str = "
    DROP FUNCTION agent_memory.list_memory(), agent_memory.list_document(), agent_memory.put_without_expiry() CASCADE;
    DROP TABLE agent_memory.ledger_expiry, agent_memory.document_expiry, agent_memory.retention;
    ALTER TABLE agent_memory.memories DROP COLUMN expires_at;
    ALTER TABLE agent_memory.documents DROP COLUMN expires_at;
    DELETE FROM agent_memory.schema_migrations WHERE name = 'expiry'";

/// Makes a ledger one without vectors.
pub(crate) const WITHOUT_VECTORS: &str = "
    DROP FUNCTION agent_memory.drop_memory_vector(), agent_memory.drop_document_vector() CASCADE;
    DROP TABLE agent_memory.memory_vectors, agent_memory.document_vectors, agent_memory.vector_model;
    DELETE FROM agent_memory.schema_migrations WHERE name = 'vectors'";

/// Makes 10 the minimum, as a later version will, and takes that back.
pub(crate) const RAISE: &str = "DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('agent_memory.check_writer'::regproc), '< 7', '< 10'); END $$";
const LOWER: &str = "DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('agent_memory.check_writer'::regproc), '< 10', '< 7'); END $$";

/// The server refuses each write of a connection that does not declare its writer version; reads are allowed.
pub(crate) fn old_writers() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let id = provider.store(event("a-b", 1)).await?;
        provider.documents().put(document("d")).await?;
        let mut old = PgConnection::connect(server.url()).await?;
        let there = async || Ok::<_, Error>((all(&provider).await?, documents(&provider).await?));
        let before = there().await?;
        let settings = [
            "SELECT",
            // A setting of a transaction is empty after it.
            "BEGIN; SET LOCAL agent_memory.writer = 7; COMMIT",
            "SET agent_memory.writer = 6",
            "SET agent_memory.writer = '7 or more'",
            "SET agent_memory.writer = '99999999999999999999'",
            "SET search_path = ''",
        ];
        for setting in settings {
            old.execute(setting).await?;
            for write in [
                STORE,
                "UPDATE agent_memory.memories SET status = 'running'",
                "INSERT INTO agent_memory.documents SELECT collection, 'e', 1, 1, 1, '', '', '' FROM agent_memory.documents",
                "UPDATE agent_memory.documents SET content = ''",
                "DELETE FROM agent_memory.documents",
            ] {
                let refused = old.execute(write).await.expect_err(setting);
                assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("AM002"));
            }
            let read = old.fetch_one("SELECT id FROM agent_memory.memories").await?.try_get::<uuid::Uuid, _>(0)?;
            assert_eq!(read.as_bytes(), id.as_bytes());
        }
        assert_eq!(there().await?, before);
        old.execute("SET agent_memory.writer = 7").await?;
        assert_eq!(old.execute(STORE).await?.rows_affected(), 1);

        let config = config(server.url());
        assert_eq!(memory_postgres::inspect(&config).await?.missing, [""; 0]);
        old.execute("DROP TRIGGER memories_writer ON agent_memory.memories").await?;
        assert_eq!(memory_postgres::inspect(&config).await?.missing, ["memories_writer"]);
        Ok(())
    })
}

/// A program below the minimum of the ledger writes nothing, gets an error that says so, and can still read; behind a
/// pooler, too.
pub(crate) fn newer_minimum() -> Case {
    let server = LocalPostgres::start()?;
    let pooler = PgBouncer::start(server.url())?;
    run(async {
        let mut pooled = config(pooler.url());
        pooled.pooler = true;
        let mut providers = Vec::new();
        for config in [config(server.url()), pooled] {
            providers.push(Arc::new(open(config).await?));
        }
        let id = providers[0].store(event("a-b", 1)).await?;
        providers[1].documents().put(document("d")).await?;
        let before = (all(&providers[0]).await?, documents(&providers[0]).await?);
        PgConnection::connect(server.url()).await?.execute(RAISE).await?;

        for provider in providers {
            let store = |number| {
                let provider = Arc::clone(&provider);
                async move { provider.store(event("a-b", number)).await }
            };
            let mut refused = Vec::new();
            // Some alone, and some in batches.
            for stored in (2..20).map(store).collect::<JoinSet<_>>().join_all().await {
                refused.extend(stored.err());
            }
            assert_eq!(refused.len(), 18);
            refused.extend(provider.store_many(vec![event("a-b", 2), event("a-b", 3)]).await.err());
            refused.extend(provider.update(id, MemoryPatch::new().with_status(Status::Running)).await.err());
            refused.extend(provider.documents().put(document("e")).await.err());
            let selection = DocumentSelection::ids(notes(), [DocumentId::parse("d")?])?;
            refused.extend(provider.documents().remove(&selection, 1).await.err());
            assert_eq!(refused.len(), 22);
            for error in refused {
                check(&error, ErrorKind::SchemaMismatch, "upgrade this program");
                assert_eq!((error.outcome(), error.is_retryable()), (Outcome::NotDone, false), "{error:?}");
            }
            assert!(provider.get(id).await?.is_some());
            assert_eq!((all(&provider).await?, documents(&provider).await?), before);
        }
        Ok(())
    })
}

/// A step that would block writers for long is refused until an operator has done its slow part.
pub(crate) fn large_feed() -> Case {
    const LARGE: &str = "
        SELECT setval(pg_get_serial_sequence('agent_memory.changes', 'seq'), 6000000);
        INSERT INTO agent_memory.changes (memories) VALUES ('{}')";
    const INDEX: &str = "
        CREATE INDEX CONCURRENTLY changes_by_document ON agent_memory.changes (collection, id) WHERE collection IS NOT NULL";
    let server = LocalPostgres::start()?;
    run(async {
        let config = config(server.url());
        open(config.clone()).await?.documents().put(document("d")).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        for made in [WITHOUT_VECTORS, WITHOUT_EXPIRY, WITHOUT_ERASURE, LARGE] {
            sqlx::raw_sql(made).execute(&mut admin).await?;
        }
        let refused = memory_postgres::migrate(&config).await.expect_err("it is large");
        check(&refused, ErrorKind::SchemaMismatch, "make its new index first");
        admin.execute(INDEX).await?;
        let applied = memory_postgres::migrate(&config).await?.applied;
        assert_eq!(applied, [(6, "erasure"), (7, "expiry"), (8, "vectors")]);
        assert_eq!(memory_postgres::inspect(&config).await?.missing, [""; 0]);
        Ok(())
    })
}

/// A program below the minimum takes no step of the schema and no slice of a backfill, and makes no secret.
pub(crate) fn no_steps() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        open(config(server.url())).await?.documents().put(document("d")).await?;
        for without in [WITHOUT_VECTORS, WITHOUT_EXPIRY, WITHOUT_ERASURE, WITHOUT_HISTORY, WITHOUT_FEED, WITHOUT_PLACES]
        {
            sqlx::raw_sql(without).execute(&mut admin).await?;
        }
        admin.execute(RAISE).await?;
        let refused = memory_postgres::migrate(&config(server.url())).await.expect_err("no writer");
        check(&refused, ErrorKind::SchemaMismatch, "upgrade this program");
        holds(server.url(), "SELECT to_regclass('agent_memory.document_paths') IS NULL").await?;

        admin.execute(LOWER).await?;
        let provider = open(config(server.url())).await?;
        admin.execute(RAISE).await?;
        let refused = provider.backfill().await.expect_err("no writer");
        check(&refused, ErrorKind::SchemaMismatch, "upgrade this program");
        holds(server.url(), "SELECT done = 0 FROM agent_memory.paths_backfill").await?;
        holds(server.url(), "SELECT NOT EXISTS (SELECT FROM agent_memory.document_paths)").await?;

        admin.execute("DELETE FROM agent_memory.secrets").await?;
        let refused = open(config(server.url())).await.expect_err("no writer");
        check(&refused, ErrorKind::SchemaMismatch, "upgrade this program");
        holds(server.url(), "SELECT NOT EXISTS (SELECT FROM agent_memory.secrets)").await
    })
}

/// Operators' calls have the deadline of other calls if a server does not answer at all.
pub(crate) fn deadlines() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let proxy = Proxy::before(server.url()).await?;
        proxy.set(Fault::Hold);
        let mut config = config(proxy.url());
        config.deadline = Duration::from_millis(500);
        let unanswered = [
            (memory_postgres::migrate(&config).await.map(drop), Outcome::Unknown),
            (memory_postgres::plan(&config).await.map(drop), Outcome::NotDone),
            (memory_postgres::inspect(&config).await.map(drop), Outcome::NotDone),
            (memory_postgres::remove(&config).await, Outcome::Unknown),
        ];
        for (done, outcome) in unanswered {
            let error = done.expect_err("no answer");
            check(&error, ErrorKind::Timeout, "no answer within 500 ms");
            assert_eq!(error.outcome(), outcome);
        }
        Ok(())
    })
}

/// A migration waits for a transaction that writes, and lets others write meanwhile.
pub(crate) fn long_transaction() -> Case {
    for (steps, store) in [(VERSION_1, STORE), (VERSION_2_WORDS, STORE_WORDS)] {
        let server = LocalPostgres::start()?;
        run(async {
            let mut old = older(&server, steps).await?;
            let mut long = old.begin().await?;
            long.execute(store).await?;
            let config = config(server.url());
            let opened = tokio::spawn(async move { open(config).await });
            // An attempt that waited has given way.
            let log = server.folder().join("log");
            until(|| {
                assert!(!opened.is_finished());
                Ok(std::fs::read_to_string(&log)?.contains("canceling statement due to lock timeout"))
            })
            .await?;
            connect_older(server.url()).await?.execute(store).await?;
            long.commit().await?;
            assert_eq!(all(&opened.await??).await?.len(), 2);
            Ok(())
        })?;
    }
    Ok(())
}

/// The server cancels an autovacuum for a migration that waits.
pub(crate) fn vacuumed() -> Case {
    let slow = [("autovacuum_vacuum_cost_limit", "1"), ("autovacuum_vacuum_cost_delay", "100ms")];
    let server = LocalPostgres::start_with(&[slow[0], slow[1], ("autovacuum_naptime", "1s")])?;
    run(async {
        store_as_version_1(&mut older(&server, VERSION_1).await?, 10_000).await?;
        holds(
            server.url(),
            "SELECT EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE relid = 'agent_memory.memories'::regclass)",
        )
        .await?;
        let mut config = config(server.url());
        config.deadline = Duration::from_secs(10);
        open(config).await?;
        assert!(std::fs::read_to_string(server.folder().join("log"))?.contains("canceling autovacuum task"));
        Ok(())
    })
}

/// Each table, index and trigger of the steps is reported when it is missing, and nothing else is.
pub(crate) fn missing() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let config = config(server.url());
        let mut missing = memory_postgres::inspect(&config).await?.missing;
        open(config.clone()).await?;
        assert_eq!(memory_postgres::inspect(&config).await?.missing, [""; 0]);
        // Without the bookkeeping, which no step makes, and without the indexes and sequences that come with their
        // tables.
        let there = "
            WITH relations AS (SELECT oid, relname FROM pg_class WHERE relnamespace = 'agent_memory'::regnamespace)
            SELECT relname::text FROM relations
            WHERE relname <> 'schema_migrations' AND relname NOT LIKE '%\\_seq\\_seq'
                AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = relations.oid)
            UNION ALL
            SELECT tgname::text FROM pg_trigger JOIN relations ON tgrelid = relations.oid";
        let mut there: Vec<String> =
            sqlx::query_scalar(there).fetch_all(&mut PgConnection::connect(server.url()).await?).await?;
        there.sort();
        missing.sort();
        assert_eq!(missing, there);
        Ok(())
    })
}

/// Whatever a ledger has of a word index, nothing is left of it: the schema becomes that of a new ledger, and the
/// records stay.
pub(crate) fn words_go() -> Case {
    const TABLE: &str = "CREATE TABLE agent_memory.ledger_text (is_complete boolean NOT NULL)";
    let server = LocalPostgres::start()?;
    run(async {
        let config = config(server.url());
        let mut admin = PgConnection::connect(server.url()).await?;
        open(config.clone()).await?.shutdown().await?;
        let new = shape(&mut admin).await?;
        memory_postgres::remove(&config).await?;
        for (steps, and) in [
            (VERSION_1, vec![]),
            (VERSION_1, vec![TABLE]),
            (VERSION_1, vec![TABLE, "INSERT INTO agent_memory.ledger_text VALUES (TRUE)"]),
            (VERSION_2, vec![]),
            (VERSION_2, vec!["DROP INDEX agent_memory.memory_words_by_word, agent_memory.documents_by_word"]),
            (VERSION_2_WORDS, vec![]),
            (VERSION_2_WORDS, vec!["UPDATE agent_memory.words_backfill SET created_at = 7, done = 1"]),
            (VERSION_2_WORDS, vec!["UPDATE agent_memory.schema_migrations SET complete = TRUE WHERE name = 'words'"]),
        ] {
            let mut old = older(&server, steps).await?;
            for write in [STORE_WORDS, STORE, PUT_WORDS].into_iter().chain(and.iter().copied()) {
                old.execute(write).await?;
            }
            let before = records(&mut old).await?;
            assert_eq!(before.len(), 3);

            let report = memory_postgres::migrate(&config).await?;
            assert_eq!(report.applied.last(), Some(&(8, "vectors")));
            let provider = open(config.clone()).await?;
            while provider.backfill().await?.is_some() {}
            let now = shape(&mut admin).await?;
            assert_eq!(now.symmetric_difference(&new).collect::<Vec<_>>(), [""; 0], "{steps:?} {and:?}");
            assert_eq!(records(&mut old).await?, before, "{steps:?} {and:?}");
            let begun = "SELECT count(*) FROM agent_memory.schema_migrations WHERE NOT complete";
            assert_eq!(sqlx::query_scalar::<_, i64>(begun).fetch_one(&mut admin).await?, 0, "{steps:?} {and:?}");

            // A program of the previous version writes nothing, and can still read.
            for (write, state) in [
                (STORE, "AM002"),
                ("UPDATE agent_memory.memories SET status = 'running'", "AM002"),
                ("UPDATE agent_memory.documents SET content = ''", "AM002"),
                ("DELETE FROM agent_memory.documents", "AM002"),
                (STORE_WORDS, "42P01"),
                (PUT_WORDS, "42703"),
            ] {
                let refused = old.execute(write).await.expect_err(write);
                assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some(state));
            }
            assert_eq!(records(&mut old).await?, before);

            provider.store(event("a-b", 8)).await?;
            provider.documents().put(document("d")).await?;
            assert_eq!((all(&provider).await?.len(), documents(&provider).await?.len()), (3, 2));
            provider.shutdown().await?;
            memory_postgres::remove(&config).await?;
        }
        Ok(())
    })
}

/// The words are dropped while programs of the previous version write: acknowledged stores exist, and later ones are
/// refused.
pub(crate) fn beside_older_programs() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        older(&server, VERSION_2_WORDS).await?;
        let done = Arc::new(AtomicU64::new(0));
        let write = |statement: &'static str| {
            let (url, done) = (server.url().to_owned(), Arc::clone(&done));
            async move {
                let mut old = connect_older(&url).await?;
                loop {
                    match old.execute(statement).await {
                        Ok(_) => done.fetch_add(1, Ordering::Relaxed),
                        Err(refused) => break Ok::<_, sqlx::Error>((statement, refused)),
                    };
                }
            }
        };
        let programs: JoinSet<_> = [STORE, STORE_WORDS, PUT_WORDS].into_iter().cycle().take(6).map(write).collect();
        until(|| Ok(done.load(Ordering::Relaxed) > 100)).await?;
        let provider = open(config(server.url())).await?;
        for ended in programs.join_all().await {
            let (statement, refused) = ended?;
            let state = match statement {
                STORE => "AM002",
                STORE_WORDS => "42P01",
                _ => "42703",
            };
            assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some(state));
        }
        let mut admin = PgConnection::connect(server.url()).await?;
        assert_eq!(records(&mut admin).await?.len() as u64, done.load(Ordering::Relaxed));
        assert_eq!(provider.backfill().await?, None);
        Ok(())
    })
}

/// If a program or a server is killed during the step, nothing has changed, and the next start applies the step.
pub(crate) fn killed() -> Case {
    run(async {
        let mut server = LocalPostgres::start()?;
        let mut old = older(&server, VERSION_2_WORDS).await?;
        old.execute(STORE_WORDS).await?;
        let is_half_done = "SELECT EXISTS (
            SELECT FROM pg_locks WHERE NOT granted AND relation = 'agent_memory.documents'::regclass)";
        for kills_server in [false, true] {
            // It has dropped the words of the ledger, and waits for readers of documents.
            let mut reading = PgConnection::connect(server.url()).await?;
            reading.execute("BEGIN; SELECT FROM agent_memory.documents").await?;
            let config = config(server.url());
            let opened = tokio::spawn(async move { open(config).await });
            holds(server.url(), is_half_done).await?;
            if kills_server {
                server.restart()?;
                opened.await??;
            } else {
                opened.abort();
                assert!(opened.await.is_err_and(|error| error.is_cancelled()));
                holds(server.url(), NOBODY_WAITS).await?;
                old.execute(STORE_WORDS).await?;
            }
        }
        holds(server.url(), "SELECT to_regclass('agent_memory.memory_words') IS NULL").await?;
        let provider = open(config(server.url())).await?;
        assert_eq!(all(&provider).await?.len(), 2);
        assert_eq!(provider.backfill().await?, None);
        Ok(())
    })
}

/// The entries of existing documents are made while a program that does not know of them moves, removes and puts
/// documents. In the end the entries match the documents, and the answers are the same all the time.
pub(crate) fn placed() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let older = Arc::new(open(config(server.url())).await?);
        let document = |number: usize| Document {
            id: DocumentId::parse(format!("{number:05}")).expect("valid"),
            collection: Collection::parse("notes").expect("valid"),
            space_id: SpaceId::parse(["a", "a-b", "a/é:c", "ab-c"][number % 4]).expect("valid"),
            content: Content::parse("text").expect("valid"),
            metadata: Metadata::default(),
            created_at: at((number % 100) as i64),
            updated_at: None,
            revision: Revision::FIRST,
            expires_at: None,
        };
        for start in (0..4_200).step_by(300) {
            older.documents().restore((start..start + 300).map(document).collect()).await?;
        }
        let found = async |provider: &PostgresMemory| {
            let query = DocumentQuery::builder(Collection::parse("notes")?).under("a").limit(1_000);
            let query = query.filter_text("id LIKE '___0_'").order(Order::OldestFirst).build()?;
            Ok::<_, Error>(provider.documents().query(&query).await?.documents)
        };
        let before = found(&older).await?;
        assert_eq!(before.len(), 336);
        let mut admin = PgConnection::connect(server.url()).await?;
        for without in [WITHOUT_VECTORS, WITHOUT_EXPIRY, WITHOUT_ERASURE, WITHOUT_HISTORY, WITHOUT_FEED, WITHOUT_PLACES]
        {
            sqlx::raw_sql(without).execute(&mut admin).await?;
        }

        let first = open(config(server.url())).await?;
        let mut progress = first.backfill().await?.ok_or("some are left")?;
        assert!(
            progress.blocks == Blocks::DocumentPlaces && progress.done == 128 && progress.total >= 2_129,
            "{progress}"
        );
        // A slice is interrupted in the middle, while a document that it has covered moves.
        let mut lock = admin.begin().await?;
        lock.execute("SELECT FROM agent_memory.paths_backfill FOR UPDATE").await?;
        let cut = tokio::spawn(async move { first.backfill().await });
        holds(server.url(), WAITS_FOR_A_LOCK).await?;
        let Document { id, collection, content, created_at, .. } = document(215);
        let moved = DocumentWrite::new(collection, SpaceId::parse("z")?, content, created_at).with_id(id);
        older.documents().put(moved).await?;
        cut.abort();
        assert!(cut.await.is_err_and(|error| error.is_cancelled()));
        holds(server.url(), NOBODY_WAITS).await?;
        lock.rollback().await?;

        // Two programs continue at once from there.
        let (newer, other) = (open(config(server.url())).await?, open(config(server.url())).await?);
        progress = newer.backfill().await?.ok_or("some are left")?;
        assert_eq!(progress.done, 256, "{progress}");
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, writer) = (Arc::clone(&is_over), Arc::clone(&older));
        let writing = tokio::spawn(async move {
            for number in (0..4_200).cycle().step_by(61).filter(|number| number / 10 % 10 != 0) {
                let Document { id, collection, content, created_at, .. } = document(number);
                let space = SpaceId::parse(["z", "a-b-c", "a", "é/b"][number / 7 % 4])?;
                let write = DocumentWrite::new(collection.clone(), space, content, created_at).with_id(id.clone());
                writer.documents().put(write.clone()).await?;
                if number % 3 == 0 {
                    writer.documents().remove(&DocumentSelection::ids(collection, [id])?, 1).await?;
                }
                if number % 2 == 0 {
                    writer.documents().put(write).await?;
                }
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok::<_, Error>(())
        });
        // The query completes the last part itself.
        loop {
            assert_eq!(found(&newer).await?, before);
            let (next, others) = tokio::join!(newer.backfill(), other.backfill());
            others?;
            let Some(next) = next? else { break };
            assert!(next.done > progress.done, "{next} after {progress}");
            progress = next;
        }
        is_over.store(true, Ordering::Relaxed);
        writing.await??;
        assert_eq!(found(&newer).await?, before);
        let differing = "
            WITH wanted AS (
                SELECT collection, places.level, places.path, created_at, id
                FROM agent_memory.documents, agent_memory.places_of(space_id) AS places),
            missing AS (SELECT * FROM wanted EXCEPT SELECT * FROM agent_memory.document_paths),
            wrong AS (SELECT * FROM agent_memory.document_paths EXCEPT SELECT * FROM wanted)
            SELECT (SELECT count(*) FROM missing), (SELECT count(*) FROM wrong), (SELECT count(*) FROM wanted),
                (SELECT complete FROM agent_memory.schema_migrations WHERE name = 'paths')";
        let row = admin.fetch_one(differing).await?;
        let count = |index| row.try_get::<i64, _>(index);
        assert!((count(0)?, count(1)?) == (0, 0) && count(2)? > 4_200, "{:?} of {}", (count(0), count(1)), count(2)?);
        assert!(row.try_get::<bool, _>(3)?);
        Ok(())
    })
}

/// Records from before the history have no time in it, and exist from its beginning on.
pub(crate) fn history_begins() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut old = older(&server, VERSION_2).await?;
        for write in [STORE, PUT_WORDS] {
            old.execute(write).await?;
        }
        let clock = Arc::new(ManualClock::new(at(1_000)));
        let mut config = config(server.url());
        config.clock = Arc::<ManualClock>::clone(&clock);
        let provider = open(config.clone()).await?;
        let (memory, note) = (all(&provider).await?.remove(0), documents(&provider).await?.remove(0));
        clock.set(at(2_000));
        provider.update(memory.id, MemoryPatch::new().with_status(Status::Failed)).await?;
        clock.set(at(3_000));
        // Opening it with another program does not start the history again.
        let provider = open(config).await?;
        let versions = provider.history(&History::of(memory.id)).await?.versions;
        let times: Vec<_> = versions.iter().map(|version| (version.revision.get(), version.committed_at)).collect();
        assert_eq!(times, [(2, Some(at(2_000))), (1, None)]);
        let then = async |millis| provider.get_as_of(&memory.id.into(), at(millis)).await;
        assert_eq!(then(1_000).await?, Some(Record::Memory(memory.clone())));
        assert_eq!(then(999).await.expect_err("before the history").kind(), ErrorKind::InvalidInput);
        let versions = provider.history(&History::of((notes(), note.id))).await?.versions;
        assert_eq!(versions.iter().map(|version| version.committed_at).collect::<Vec<_>>(), [None]);
        Ok(())
    })
}

/// A ledger to which a program before version 3 has applied these steps, and a connection of that program.
async fn older(server: &LocalPostgres, steps: &[&str]) -> Result<PgConnection, sqlx::Error> {
    let mut old = connect_older(server.url()).await?;
    let bookkeeping = "CREATE SCHEMA agent_memory;
        CREATE TABLE agent_memory.schema_migrations (
            version bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, complete boolean NOT NULL)";
    sqlx::raw_sql(bookkeeping).execute(&mut old).await?;
    for step in migrations::postgres().iter().filter(|step| steps.contains(&step.name)) {
        let text = step.text.replace("{schema}", r#""agent_memory""#);
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut old).await?;
        let applied = "INSERT INTO agent_memory.schema_migrations VALUES ($1, $2, $3, $4)";
        let applied = sqlx::query(applied).bind(i64::from(step.version)).bind(step.name).bind(step.checksum());
        // Without documents the backfill of places is complete at once.
        applied.bind(step.kind != Kind::Retired).execute(&mut old).await?;
    }
    Ok(old)
}

async fn connect_older(url: &str) -> Result<PgConnection, sqlx::Error> {
    let mut old = PgConnection::connect(url).await?;
    old.execute("SET agent_memory.writer = 3").await?;
    Ok(old)
}

/// The columns, indexes, triggers and functions that the schema has.
async fn shape(admin: &mut PgConnection) -> Result<BTreeSet<String>, sqlx::Error> {
    let shape = "
        WITH relations AS (SELECT oid, relname FROM pg_class WHERE relnamespace = 'agent_memory'::regnamespace)
        SELECT concat_ws(' ', relname, attname, atttypid::regtype, attnotnull)
        FROM pg_attribute JOIN relations ON attrelid = relations.oid WHERE attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT indexdef FROM pg_indexes WHERE schemaname = 'agent_memory'
        UNION ALL
        SELECT pg_get_triggerdef(pg_trigger.oid) FROM pg_trigger JOIN relations ON tgrelid = relations.oid
        UNION ALL
        SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'agent_memory'::regnamespace";
    Ok(sqlx::query_scalar(shape).fetch_all(admin).await?.into_iter().collect())
}

/// The records of the ledger and of the documents, without words, and without when they were stored and expire.
async fn records(admin: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    let records = "
        SELECT (to_jsonb(m) - 'stored_at' - 'expires_at')::text FROM agent_memory.memories m
        UNION ALL SELECT (to_jsonb(d) - 'words' - 'expires_at')::text FROM agent_memory.documents d ORDER BY 1";
    sqlx::query_scalar(records).fetch_all(admin).await
}

async fn store_as_version_1(admin: &mut PgConnection, count: usize) -> Case {
    let stores = format!("DO $$ BEGIN FOR number IN 1..{count} LOOP {STORE}; END LOOP; END $$");
    admin.execute(AssertSqlSafe(stores)).await?;
    Ok(())
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn document(id: &str) -> DocumentWrite {
    let content = Content::parse("a cat").expect("valid");
    let write = DocumentWrite::new(notes(), "a-b".parse().expect("valid"), content, at(1));
    write.with_id(DocumentId::parse(id).expect("valid"))
}

async fn documents(provider: &PostgresMemory) -> Result<Vec<memory_core::Document>, Error> {
    Ok(provider.documents().query(&DocumentQuery::builder(notes()).all().build()?).await?.documents)
}
