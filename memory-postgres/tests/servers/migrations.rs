//! A schema that changes beside running programs: those that are too old, and the index of the ledger's words.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance::fault::{Fault, Proxy};
use conformance::server::postgres::{LocalPostgres, PgBouncer};
use memory_core::{
    Blocks, Collection, Content, Context, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Error,
    ErrorKind, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, NewMemory, Order, Outcome, Revision,
    SpaceId, Status, TextIndex, Trigger,
};
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tokio::task::JoinSet;

use crate::common::{Case, WAITS_FOR_A_LOCK, all, at, check, config, event, holds, open, run, until};

/// A store as version 1 had it.
const STORE: &str = "
    INSERT INTO agent_memory.memories (id, created_at, revision, status, space_id, metadata, trigger, path_1)
    VALUES (gen_random_uuid(), 7, 1, 'completed', 'a-b', '{}', '{\"text\":\"word7\"}', 42)";

/// Makes 3 the minimum, as a later version will, and takes that back.
const RAISE: &str = "DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('agent_memory.check_writer'::regproc), '< 2', '< 4'); END $$";
const LOWER: &str = "DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('agent_memory.check_writer'::regproc), '< 4', '< 2'); END $$";

/// A connection that does not say which version writes is refused each write by the server, and may read.
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
            // What a transaction has set is empty behind it.
            "BEGIN; SET LOCAL agent_memory.writer = 2; COMMIT",
            "SET agent_memory.writer = 1",
            "SET agent_memory.writer = '2 or more'",
            "SET agent_memory.writer = '99999999999999999999'",
            "SET search_path = ''",
        ];
        for setting in settings {
            old.execute(setting).await?;
            for write in [
                STORE,
                "UPDATE agent_memory.memories SET status = 'running'",
                "INSERT INTO agent_memory.documents SELECT collection, 'e', 1, 1, 1, '', '', '', '{}' FROM agent_memory.documents",
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
        old.execute("SET agent_memory.writer = 2").await?;
        assert_eq!(old.execute(STORE).await?.rows_affected(), 1);

        let config = config(server.url());
        assert_eq!(memory_postgres::inspect(&config).await?.missing, [""; 0]);
        old.execute("DROP TRIGGER memories_writer ON agent_memory.memories").await?;
        assert_eq!(memory_postgres::inspect(&config).await?.missing, ["memories_writer"]);
        Ok(())
    })
}

/// A program below the minimum of the ledger writes nothing, is told so, and goes on reading; behind a pooler too.
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

/// A program below the minimum takes no step of the schema and no slice of a backfill, and makes no secret.
pub(crate) fn no_steps() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = PgConnection::connect(server.url()).await?;
        open(config(server.url())).await?.store(event("a-b", 1)).await?;
        admin.execute(RAISE).await?;
        let refused = memory_postgres::migrate(&indexed(server.url())).await.expect_err("no writer");
        check(&refused, ErrorKind::SchemaMismatch, "upgrade this program");
        holds(server.url(), "SELECT to_regclass('agent_memory.words_backfill') IS NULL").await?;

        admin.execute(LOWER).await?;
        let provider = open(indexed(server.url())).await?;
        admin.execute(RAISE).await?;
        let refused = provider.backfill().await.expect_err("no writer");
        check(&refused, ErrorKind::SchemaMismatch, "upgrade this program");
        holds(server.url(), "SELECT done = 0 FROM agent_memory.words_backfill").await?;
        holds(server.url(), "SELECT NOT EXISTS (SELECT FROM agent_memory.memory_words)").await?;

        admin.execute("DELETE FROM agent_memory.secrets").await?;
        let refused = open(config(server.url())).await.expect_err("no writer");
        check(&refused, ErrorKind::SchemaMismatch, "upgrade this program");
        holds(server.url(), "SELECT NOT EXISTS (SELECT FROM agent_memory.secrets)").await
    })
}

/// What an operator asks for has the deadline that calls have, where a server says nothing at all.
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
    let server = LocalPostgres::start()?;
    run(async {
        let mut admin = version_1(&server).await?;
        let mut long = admin.begin().await?;
        long.execute(STORE).await?;
        let config = config(server.url());
        let opened = tokio::spawn(async move { open(config).await });
        // An attempt that waited has given way.
        let log = server.folder().join("log");
        until(|| {
            assert!(!opened.is_finished());
            Ok(std::fs::read_to_string(&log)?.contains("canceling statement due to lock timeout"))
        })
        .await?;
        PgConnection::connect(server.url()).await?.execute(STORE).await?;
        long.commit().await?;
        assert_eq!(all(&opened.await??).await?.len(), 2);
        Ok(())
    })
}

/// The server cancels an autovacuum for a migration that waits.
pub(crate) fn vacuumed() -> Case {
    let slow = [("autovacuum_vacuum_cost_limit", "1"), ("autovacuum_vacuum_cost_delay", "100ms")];
    let server = LocalPostgres::start_with(&[slow[0], slow[1], ("autovacuum_naptime", "1s")])?;
    run(async {
        store_as_version_1(&mut version_1(&server).await?, 10_000).await?;
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

/// What a program of version 1 indexed is not indexed again, and what it began is done from the start.
pub(crate) fn indexed_by_version_1() -> Case {
    // Of one that it has completed, a call waits for nothing, however long it is.
    for (end, count, found) in [("INSERT INTO agent_memory.ledger_text VALUES (TRUE)", 2_001, 0), ("SELECT", 1, 1)] {
        let server = LocalPostgres::start()?;
        run(async {
            let mut admin = version_1(&server).await?;
            // Its words are not there, which tells whether it is indexed.
            store_as_version_1(&mut admin, count).await?;
            admin.execute("ANALYZE agent_memory.memories").await?;
            admin.execute("CREATE TABLE agent_memory.ledger_text (is_complete boolean NOT NULL)").await?;
            admin.execute(end).await?;

            // Every program keeps the index, also before its step was taken.
            let other = open(config(server.url())).await?;
            let stored = other.store(memory(8)).await?;
            let provider = open(indexed(server.url())).await?;
            assert_eq!(by_word(&provider, "word7").await?.len(), found);
            assert_eq!(by_word(&provider, "word8").await?, [stored]);
            assert_eq!(provider.backfill().await?, None);
            Ok(())
        })?;
    }
    Ok(())
}

/// What is stored in a new namespace has its words, so no call waits for a backfill, however many there are.
pub(crate) fn indexed_from_the_start() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(indexed(server.url())).await?;
        let ids = provider.store_many((0..2_001).map(memory).collect()).await?;
        PgConnection::connect(server.url()).await?.execute("ANALYZE agent_memory.memories").await?;
        assert_eq!(by_word(&provider, "word7").await?, [ids[7]]);
        Ok(())
    })
}

/// Each table, index and trigger that a step creates is told while it is missing, and is found once the step was taken.
pub(crate) fn missing() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let config = indexed(server.url());
        let created = |text: &str| text.matches("CREATE ").count() - text.matches("CREATE FUNCTION").count();
        let created: usize = ::migrations::postgres().iter().map(|step| created(step.text)).sum();
        assert_eq!(memory_postgres::inspect(&config).await?.missing.len(), created);
        open(config.clone()).await?;
        assert_eq!(memory_postgres::inspect(&config).await?.missing, [""; 0]);
        Ok(())
    })
}

/// The index is switched on over a ledger, 3,000 memories or as many as `MEMORY_TEST_MEMORIES` says, while another program writes. The
/// backfill is cut and goes on in another program, and in the end each memory is found by its words.
pub(crate) fn switched_on() -> Case {
    let count = std::env::var("MEMORY_TEST_MEMORIES").ok().map_or(Ok(3_000), |count| count.parse::<i64>())?;
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(8).unwrap() };
        let writer = Arc::new(open(config).await?);
        let mut ids = Vec::new();
        for start in (0..count).step_by(1_000) {
            ids.extend(writer.store_many((start..count.min(start + 1_000)).map(memory).collect()).await?);
        }
        let mut admin = PgConnection::connect(server.url()).await?;
        admin.execute("SET agent_memory.writer = 2").await?;
        let damage = "UPDATE agent_memory.memories SET trigger = '{\"cut' WHERE id = $1";
        sqlx::query(damage).bind(uuid::Uuid::from_bytes(*ids[0].as_bytes())).execute(&mut admin).await?;

        let is_over = Arc::new(AtomicBool::new(false));
        let writing = tokio::spawn(write_until(Arc::clone(&writer), Arc::clone(&is_over), ids.clone()));
        let report = memory_postgres::migrate(&indexed(server.url())).await?;
        assert_eq!(report.applied, [(2, "words")]);

        // No slice comes to its end while the lock is held, and the provider opens without.
        let mut lock = admin.begin().await?;
        lock.execute("SELECT FROM agent_memory.words_backfill FOR UPDATE").await?;
        let mut hasty = indexed(server.url());
        hasty.statement_timeout = Some(Duration::from_millis(100));
        let first = open(hasty).await?;
        check(
            &by_word(&first, "word1").await.expect_err("no index yet"),
            ErrorKind::Unavailable,
            "the index of words: 0 of",
        );
        assert!(first.get(ids[1]).await?.is_some());
        lock.rollback().await?;
        let progress = first.backfill().await?.ok_or("some are left")?;
        assert!(
            progress.done > 0 && progress.done < count as u64 && progress.blocks == Blocks::LedgerText,
            "{progress}"
        );
        let reached: i64 = admin.fetch_one("SELECT created_at FROM agent_memory.words_backfill").await?.try_get(0)?;
        first.shutdown().await?;

        // A slice is cut in the middle.
        let mut lock = admin.begin().await?;
        lock.execute("SELECT FROM agent_memory.words_backfill FOR UPDATE").await?;
        let interrupted = open(indexed(server.url())).await?;
        let cut = tokio::spawn(async move { interrupted.backfill().await });
        holds(server.url(), WAITS_FOR_A_LOCK).await?;
        // It has read this memory as it was before.
        let raced = ids[reached as usize - 1];
        writer.update(raced, MemoryPatch::new().set_context(Context::parse(r#"{"text":"raced"}"#)?)).await?;
        cut.abort();
        assert!(cut.await.is_err_and(|error| error.is_cancelled()));
        lock.rollback().await?;

        // Two go on at once, where it was.
        let (second, third) = (open(indexed(server.url())).await?, open(indexed(server.url())).await?);
        for provider in [&second, &third] {
            let mut done = progress.done;
            while let Some(progress) = provider.backfill().await? {
                assert!(progress.done >= done, "{progress} after {done}");
                done = progress.done;
            }
        }
        let done: i64 = admin.fetch_one("SELECT done FROM agent_memory.words_backfill").await?.try_get(0)?;
        assert!(done as u64 <= progress.done + reached as u64, "{done} after {progress}: it began again");
        is_over.store(true, Ordering::Relaxed);
        let (stored, updated) = writing.await??;
        assert!(!stored.is_empty() && !updated.is_empty());

        for (number, id) in (0..count)
            .zip(&ids)
            .skip(1)
            .step_by((count as usize / 3_000).max(1))
            .chain(stored.iter().map(|(number, id)| (*number, id)))
        {
            assert_eq!(by_word(&second, &format!("word{number}")).await?, [*id], "{number}");
        }
        for (word, id) in &updated {
            assert_eq!(by_word(&third, word).await?, [*id], "{word}");
        }
        assert_eq!(by_word(&second, "raced").await?, [raced]);
        assert_eq!(by_word(&second, "word0").await?, []);
        let without = "SELECT count(*) FROM agent_memory.memories LEFT JOIN agent_memory.memory_words USING (id) WHERE words IS NULL";
        assert_eq!(admin.fetch_one(without).await?.try_get::<i64, _>(0)?, 1, "the damaged one alone has no words");
        Ok(())
    })
}

/// A slice takes few large memories, and the next one goes on behind them.
pub(crate) fn large_memories() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let large = |number| {
            let mut memory = memory(number);
            let text = format!(r#"{{"text":"word{number} {}"}}"#, "a ".repeat(3 << 19));
            memory.trigger = Trigger::parse(&text).expect("valid");
            memory
        };
        let ids = open(config(server.url())).await?.store_many((0..5).map(large).collect()).await?;
        let provider = open(indexed(server.url())).await?;
        for done in [2, 4] {
            let progress = provider.backfill().await?.ok_or("some are left")?;
            assert_eq!((progress.done, progress.total), (done, 5));
        }
        assert_eq!(provider.backfill().await?, None);
        for (number, id) in ids.into_iter().enumerate() {
            assert_eq!(by_word(&provider, &format!("word{number}")).await?, [id]);
        }
        Ok(())
    })
}

/// The entries of documents that were there are made while a program that does not know of them moves, removes and puts documents. Then
/// the entries are those that the documents have to have, and the answer is what it was all the time.
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
        let without = "DROP TRIGGER documents_placed ON agent_memory.documents;
            DROP TRIGGER documents_moved ON agent_memory.documents;
            DROP FUNCTION agent_memory.place_document(), agent_memory.places_of(text);
            DROP TABLE agent_memory.document_paths, agent_memory.paths_backfill;
            DELETE FROM agent_memory.schema_migrations WHERE name = 'paths'";
        let mut admin = PgConnection::connect(server.url()).await?;
        sqlx::raw_sql(without).execute(&mut admin).await?;

        let newer = open(config(server.url())).await?;
        let mut progress = newer.backfill().await?.ok_or("some are left")?;
        assert!(
            progress.blocks == Blocks::DocumentPlaces && progress.done == 128 && progress.total >= 2_129,
            "{progress}"
        );
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
        // At last the query completes what is left.
        loop {
            assert_eq!(found(&newer).await?, before);
            let Some(next) = newer.backfill().await? else { break };
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

/// Stores and updates in turns: what was stored by its number, and what was updated by its word.
async fn write_until(
    writer: Arc<PostgresMemory>,
    is_over: Arc<AtomicBool>,
    ids: Vec<MemoryId>,
) -> Result<(Vec<(i64, MemoryId)>, Vec<(String, MemoryId)>), Error> {
    let (mut stored, mut updated) = (Vec::new(), Vec::new());
    // From the oldest and from the middle on, so that updates come before and behind the backfill.
    let mut left = ids[1..ids.len() / 2].to_vec();
    while !is_over.load(Ordering::Relaxed) || stored.is_empty() || updated.is_empty() {
        let number = (ids.len() + stored.len()) as i64;
        stored.push((number, writer.store(memory(number)).await?));
        if left.is_empty() {
            continue;
        }
        let id = if number % 2 == 0 { left.remove(0) } else { left.remove(left.len() - 1) };
        let word = format!("updated{number}");
        let patch = MemoryPatch::new().set_context(Context::parse(&format!(r#"{{"text":"{word}"}}"#))?);
        writer.update(id, patch).await?;
        updated.push((word, id));
    }
    Ok((stored, updated))
}

/// A ledger of version 1, and a connection to it.
async fn version_1(server: &LocalPostgres) -> Result<PgConnection, Box<dyn std::error::Error + Send + Sync>> {
    let mut admin = PgConnection::connect(server.url()).await?;
    let step = migrations::postgres()[0];
    let sql = format!(
        "CREATE SCHEMA agent_memory;
        CREATE TABLE agent_memory.schema_migrations (
            version bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, complete boolean NOT NULL);
        INSERT INTO agent_memory.schema_migrations VALUES (1, 'ledger', '{}', TRUE);
        {}",
        step.checksum(),
        step.text.replace("{schema}", "agent_memory")
    );
    admin.execute(AssertSqlSafe(sql)).await?;
    Ok(admin)
}

async fn store_as_version_1(admin: &mut PgConnection, count: usize) -> Case {
    let stores = format!("DO $$ BEGIN FOR number IN 1..{count} LOOP {STORE}; END LOOP; END $$");
    admin.execute(AssertSqlSafe(stores)).await?;
    Ok(())
}

fn indexed(url: &str) -> PostgresConfig {
    let mut config = config(url);
    config.text_index = TextIndex::All;
    config
}

fn memory(number: i64) -> NewMemory {
    let mut memory = event("a-b", number);
    memory.trigger = Trigger::parse(&format!(r#"{{"text":"word{number}"}}"#)).expect("valid");
    memory
}

async fn by_word(provider: &PostgresMemory, word: &str) -> Result<Vec<MemoryId>, Error> {
    let page = provider.query(&MemoryQuery::builder().all().text(word).build()?).await?;
    Ok(page.memories.iter().map(|memory| memory.id).collect())
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
