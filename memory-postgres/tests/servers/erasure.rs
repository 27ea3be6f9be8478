//! Erasures beside concurrent writers, and what the tables hold afterwards.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use conformance::server::Marks;
use conformance::server::postgres::LocalPostgres;
use memory_core::{
    ChangeKind, Collection, Content, Context, DocumentId, DocumentSelection, DocumentWrite, Embedding, Erasure, Error,
    ErrorKind, IdempotencyKey, MemoryPatch, MemoryProvider, NewMemory, Outcome, Precision, RecordId, Vector,
    VectorModel, WatchFrom,
};
use memory_postgres::PostgresMemory;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::common::{Case, SECRET, all, at, config, event, holds, open, run, until};
use crate::feed::{everything, next};

/// A store of a transaction that takes its time.
const STORE: &str = "
    INSERT INTO agent_memory.memories (id, created_at, revision, status, space_id, metadata, trigger)
    VALUES (gen_random_uuid(), 7, 1, 'completed', 'late', '{}', '1')";
/// Lets each erasure of memories take its time when it has the lock.
const SLOW: &str = "
    CREATE FUNCTION agent_memory.slow() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
    CREATE TRIGGER slow BEFORE DELETE ON agent_memory.memories FOR EACH STATEMENT EXECUTE FUNCTION agent_memory.slow()";
const IS_ERASING: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')";
/// The statements of the README that remove erased data from the files, for the tables that a certificate names.
const REWRITE: [&str; 5] = [
    "DELETE FROM pg_statistic WHERE starelid IN
        (SELECT oid FROM pg_class WHERE relnamespace = 'agent_memory'::regnamespace)",
    "VACUUM (FULL, ANALYZE) agent_memory.memories, agent_memory.documents, agent_memory.document_paths,
        agent_memory.memory_history, agent_memory.document_history, agent_memory.memory_vectors,
        agent_memory.document_vectors, agent_memory.changes",
    "VACUUM FULL pg_statistic",
    "SELECT pg_switch_wal()",
    "CHECKPOINT",
];

fn note() -> (Collection, DocumentId) {
    (Collection::parse("notes").expect("valid"), DocumentId::parse("n").expect("valid"))
}

fn keyed(number: i64) -> NewMemory {
    event("a-b", number).with_idempotency_key(IdempotencyKey::parse(format!("{SECRET}-{number}")).expect("valid"))
}

async fn erase(provider: &PostgresMemory, records: impl IntoIterator<Item = RecordId>) -> Result<Vec<RecordId>, Error> {
    Ok(provider.erase(&Erasure::records(records, "a test")?).await?.records)
}

/// No row of any table has anything of an erased record, and watches continue where they were.
pub(crate) fn nothing_is_left() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let mut memory = keyed(1);
        memory.space_id = format!("{SECRET}-space").parse()?;
        let id = provider.store(memory).await?;
        provider.update(id, MemoryPatch::new().set_context(Context::parse(&format!("\"{SECRET}\""))?)).await?;
        let (collection, name) = note();
        let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
        let mut tokens = Vec::new();
        // A document that has moved, was removed, and was put again.
        for space in ["x", "y", "z"] {
            let space = format!("{SECRET}-{space}").parse()?;
            let write = DocumentWrite::new(collection.clone(), space, Content::parse(SECRET)?, at(1));
            provider.documents().put(write.with_id(name.clone())).await?;
            loop {
                let change = next(&mut changes).await?;
                if matches!(change.kind, ChangeKind::Stored(_) | ChangeKind::Updated(_)) {
                    tokens.push(change.token);
                    break;
                }
            }
            if tokens.len() == 2 {
                let selection = DocumentSelection::ids(collection.clone(), [name.clone()])?;
                provider.documents().remove(&selection, 1).await?;
            }
        }
        let records = [id.into(), note().into()];
        assert_eq!(erase(&provider, records.clone()).await?, records);

        let mut admin = PgConnection::connect(server.url()).await?;
        let tables =
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'agent_memory'::regnamespace AND relkind = 'r'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut admin).await?;
        assert!(tables.len() > 10, "{tables:?}");
        for table in tables {
            let rows = format!("SELECT t::text FROM agent_memory.{table} t WHERE t::text LIKE '%{SECRET}%'");
            let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(rows)).fetch_all(&mut admin).await?;
            assert_eq!(rows, [""; 0], "{table}");
        }
        for token in tokens {
            let (mut changes, mut erased) = (provider.watch(&everything(token)).await?, Vec::new());
            loop {
                match next(&mut changes).await?.kind {
                    ChangeKind::Reached => break,
                    ChangeKind::Progress => {}
                    ChangeKind::Erased(record) => erased.push(record),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(erased, records);
        }
        Ok(())
    })
}

/// No file of the server has anything of it once the tables and their statistics are rewritten and the log has
/// switched.
pub(crate) fn nothing_is_left_in_files() -> Case {
    // A recycled segment of the log keeps its content until it is overwritten.
    let server =
        LocalPostgres::start_with(&[("wal_recycle", "off"), ("wal_compression", "off"), ("autovacuum", "off")])?;
    run(async {
        let (provider, marks) = (open(config(server.url())).await?, Marks::random());
        let records = marks.write(&provider).await?;
        let meant = embed(&provider, &records).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        for statement in ["ANALYZE", "CHECKPOINT"] {
            admin.execute(statement).await?;
        }
        for part in ["data/base", "data/pg_wal"] {
            marks.check_there(&server.folder().join(part))?;
            assert!(!with_parts_of(&meant, &server.folder().join(part))?.is_empty(), "no vector is in {part}");
        }
        assert_eq!(erase(&provider, records.clone()).await?.len(), records.len());
        for statement in REWRITE {
            admin.execute(statement).await?;
        }
        marks.check_gone(server.folder())?;
        let left = with_parts_of(&meant, server.folder())?;
        assert!(left.is_empty(), "a vector is still in {left:?}");
        Ok(())
    })
}

/// Gives all existing records the same vector, and returns its bytes.
async fn embed(provider: &PostgresMemory, records: &[RecordId]) -> Result<Vec<u8>, Error> {
    const WIDTH: usize = 384;
    let model = VectorModel::new("a model", WIDTH, Precision::Compact)?;
    provider.set_vector_model(&model).await?;
    let numbers: Vec<_> = (0..WIDTH).map(|place| ((place * place) % 1_009) as f32 - 504.5).collect();
    let vector = Vector::new(&numbers)?;
    let mut embeddings = Vec::new();
    for record in records {
        let revision = match record {
            RecordId::Memory(id) => provider.get(*id).await?.map(|memory| memory.revision),
            RecordId::Document { collection, id } => {
                provider.documents().get(collection, id).await?.map(|document| document.revision)
            }
        };
        let embedding = |revision| Embedding { record: record.clone(), revision, vector: vector.clone(), texts: None };
        embeddings.extend(revision.map(embedding));
    }
    assert_eq!(provider.embed(&model, embeddings).await?, [true, true]);
    Ok(vector.kept(Precision::Compact).to_bytes())
}

/// The files below a folder with at least 31 of these bytes in a row.
fn with_parts_of(bytes: &[u8], folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    const BLOCK: usize = 16;
    let parts: HashSet<&[u8]> = bytes.windows(BLOCK).collect();
    let (mut found, mut paths) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = paths.pop() {
        let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        if path.is_dir() {
            match std::fs::read_dir(&path) {
                Ok(entries) => {
                    for entry in entries {
                        paths.push(entry?.path());
                    }
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        } else {
            match std::fs::read(&path) {
                Ok(file) if file.chunks(BLOCK).any(|block| parts.contains(block)) => found.push(path),
                Ok(_) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Statements that have waited for an erasure find its tombstones, also if transactions are serializable by default.
pub(crate) fn raced() -> Case {
    let server = LocalPostgres::start_with(&[("default_transaction_isolation", "serializable")])?;
    run(async {
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(8).unwrap() };
        let provider = Arc::new(open(config).await?);
        let (first, second) = (provider.store(keyed(1)).await?, provider.store(keyed(2)).await?);
        let backup: Vec<_> = [provider.get(first).await?, provider.get(second).await?].into_iter().flatten().collect();
        sqlx::raw_sql(SLOW).execute(&mut PgConnection::connect(server.url()).await?).await?;
        let eraser = Arc::clone(&provider);
        let erasing = tokio::spawn(async move { erase(&eraser, [first.into(), second.into()]).await });
        holds(server.url(), IS_ERASING).await?;
        let (store, update, batch, restore, stores) = tokio::join!(
            provider.store(keyed(1)),
            provider.update(second, MemoryPatch::new().clear_context()),
            provider.store_many(vec![event("a-b", 1), keyed(2)]),
            provider.restore(backup),
            futures::future::join_all((1..=8).map(|number| provider.store(keyed(number)))),
        );
        assert_eq!(erasing.await??.len(), 2);
        for error in [store.expect_err("erased"), update.expect_err("erased"), batch.expect_err("erased")] {
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Erased, Outcome::NotDone));
        }
        assert_eq!(restore?.erased, [0, 1]);
        let stored: Vec<_> = stores.iter().map(Result::is_ok).collect();
        assert_eq!(stored, [false, false, true, true, true, true, true, true]);
        assert_eq!(all(&provider).await?.len(), 6);
        Ok(())
    })
}

/// An erasure that has to wait for a transaction lets others write meanwhile.
pub(crate) fn gives_way() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = Arc::new(open(config(server.url())).await?);
        let id = provider.store(event("a-b", 1)).await?;
        let mut long = PgConnection::connect(server.url()).await?;
        long.execute("SET agent_memory.writer = 7").await?;
        let mut transaction = long.begin().await?;
        transaction.execute(STORE).await?;
        let eraser = Arc::clone(&provider);
        let erasing = tokio::spawn(async move { erase(&eraser, [id.into()]).await });
        let log = server.folder().join("log");
        until(|| Ok(std::fs::read_to_string(&log)?.contains("canceling statement due to lock timeout"))).await?;
        provider.store(event("a-b", 2)).await?;
        assert!(!erasing.is_finished());
        transaction.commit().await?;
        assert_eq!(erasing.await??, [id.into()]);
        assert_eq!(all(&provider).await?.len(), 2);
        Ok(())
    })
}

/// An erasure that can't get its lock says that nothing is erased, while it still can.
pub(crate) fn gives_up() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.deadline = Duration::from_secs(4);
        let provider = open(config).await?;
        let id = provider.store(event("a-b", 1)).await?;
        let mut long = PgConnection::connect(server.url()).await?;
        let mut transaction = long.begin().await?;
        transaction.execute("LOCK TABLE agent_memory.memories IN SHARE UPDATE EXCLUSIVE MODE").await?;
        let refused = erase(&provider, [id.into()]).await.expect_err("the lock is taken");
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotDone), "{refused:?}");
        assert!(refused.is_retryable());
        transaction.rollback().await?;
        assert_eq!(erase(&provider, [id.into()]).await?, [id.into()]);
        Ok(())
    })
}

/// Also if they have the same id, and if some are removed already.
pub(crate) fn of_several_collections() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let (_, id) = note();
        let named = |collection: &str| Collection::parse(collection).map(|collection| (collection, id.clone()));
        for collection in ["a", "b", "c", "d"] {
            let (collection, id) = named(collection)?;
            let write = DocumentWrite::new(collection, "a-b".parse()?, Content::parse(SECRET)?, at(1));
            provider.documents().put(write.with_id(id)).await?;
        }
        let selection = DocumentSelection::ids(named("b")?.0, [id.clone()])?;
        provider.documents().remove(&selection, 1).await?;
        let erased: [RecordId; 3] = [named("a")?.into(), named("b")?.into(), named("d")?.into()];
        assert_eq!(erase(&provider, erased.clone()).await?, erased);
        for collection in ["a", "b", "c", "d"] {
            let (collection, id) = named(collection)?;
            let is_left = collection.as_str() == "c";
            assert_eq!(provider.documents().get(&collection, &id).await?.is_some(), is_left, "{collection}");
            let tombstone = provider.tombstone(&(collection.clone(), id.clone()).into()).await?;
            assert_eq!(tombstone.is_none(), is_left, "{collection}");
        }
        // The rows of the feed about c, and about the erasures.
        holds(
            server.url(),
            "SELECT array_agg(collection ORDER BY collection) = '{a,b,c,d}' FROM agent_memory.changes WHERE collection IS NOT NULL",
        )
        .await?;
        holds(server.url(), "SELECT count(*) = 1 FROM agent_memory.document_history").await
    })
}
