//! Expiry: triggers maintain the lists, whichever program writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use conformance::server::postgres::LocalPostgres;
use memory_core::{
    Collection, Content, DocumentId, DocumentSelection, DocumentWrite, Erasure, ErrorKind, IdempotencyKey, ManualClock,
    MemoryPatch, MemoryProvider, RecordId, Retention, Status,
};
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::common::{Case, at, config, event, open, run, until};
use crate::migrations::{WITHOUT_EXPIRY, WITHOUT_VECTORS};

/// Writes of a program of version 6, whose statements name no time.
pub(crate) const OLDER_STORE: &str = "
    INSERT INTO agent_memory.memories (id, created_at, revision, status, space_id, metadata, trigger, path_1)
    VALUES (gen_random_uuid(), 7, 1, 'completed', 'a-b', '{}', '1', 42)";
pub(crate) const OLDER_UPDATE: &str =
    "UPDATE agent_memory.memories SET status = 'running', updated_at = 7, revision = revision + 1";
pub(crate) const OLDER_NEW: &str = "
    INSERT INTO agent_memory.documents (collection, id, created_at, revision, space_id, metadata, content)
    VALUES ('notes', 'older', 7, 1, 'a-b', '{}', 'a cat')";
pub(crate) const OLDER_PUT: &str =
    "UPDATE agent_memory.documents SET content = 'a dog', updated_at = 7, revision = revision + 1";
pub(crate) const OLDER_REMOVAL: &str = "DELETE FROM agent_memory.documents";
pub(crate) const OLDER_ERASURE: &str = "DELETE FROM agent_memory.memories";

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

/// An id with bytes that a literal of the server would not have as they are.
fn note() -> RecordId {
    (notes(), id()).into()
}

fn id() -> DocumentId {
    DocumentId::parse("é\\x/b").expect("valid")
}

fn write(space: &str) -> DocumentWrite {
    let content = Content::parse("a cat").expect("valid");
    DocumentWrite::new(notes(), space.parse().expect("valid"), content, at(1)).with_id(id())
}

fn at_one_second(url: &str) -> PostgresConfig {
    let mut config = config(url);
    config.clock = Arc::new(ManualClock::new(at(1_000)));
    config
}

/// Checks that the lists have exactly these records, at these times.
async fn check_lists(admin: &mut PgConnection, wanted: &[(i64, RecordId)]) -> Case {
    let listed = "SELECT expires_at, key FROM agent_memory.ledger_expiry
        UNION ALL SELECT expires_at, key FROM agent_memory.document_expiry ORDER BY expires_at, key";
    let listed: Vec<(i64, Vec<u8>)> = sqlx::query_as(listed).fetch_all(admin).await?;
    let mut wanted: Vec<_> = wanted.iter().map(|(millis, record)| (*millis, record.to_key())).collect();
    wanted.sort();
    assert_eq!(listed, wanted);
    Ok(())
}

/// After each kind of write.
pub(crate) fn listed() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(at_one_second(server.url())).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        let key = IdempotencyKey::parse("k")?;
        provider.store(event("a-b", 1)).await?;
        let first = provider.store(event("a-b", 2).expires_at(at(2_000))).await?;
        let keyed = event("a-b", 3).with_idempotency_key(key).expires_at(at(3_000));
        let second = provider.store(keyed).await?;
        let some = vec![event("a-b", 4).expires_at(at(3_000)), event("a-b", 5), event("a-b", 6).expires_at(at(4_000))];
        let some = provider.store_many(some).await?;
        let (third, never, fourth) = (some[0], some[1], some[2]);
        let mut wanted: Vec<(i64, RecordId)> =
            vec![(2_000, first.into()), (3_000, second.into()), (3_000, third.into()), (4_000, fourth.into())];
        check_lists(&mut admin, &wanted).await?;

        provider.update(first, MemoryPatch::new().with_status(Status::Failed)).await?;
        check_lists(&mut admin, &wanted).await?;
        provider.update(first, MemoryPatch::new().set_expiry(at(5_000))).await?;
        provider.update(second, MemoryPatch::new().clear_expiry()).await?;
        provider.update(never, MemoryPatch::new().set_expiry(at(5_000))).await?;
        wanted = vec![(3_000, third.into()), (4_000, fourth.into()), (5_000, first.into()), (5_000, never.into())];
        check_lists(&mut admin, &wanted).await?;
        provider.erase(&Erasure::records([first.into(), third.into()], "a test")?).await?;
        wanted = vec![(4_000, fourth.into()), (5_000, never.into())];
        check_lists(&mut admin, &wanted).await?;

        let documents = provider.documents();
        let with_note = |millis| [wanted.clone(), vec![(millis, note())]].concat();
        documents.put(write("a-b").expires_at(at(4_000))).await?;
        check_lists(&mut admin, &with_note(4_000)).await?;
        documents.put(write("c").expires_at(at(6_000))).await?;
        check_lists(&mut admin, &with_note(6_000)).await?;
        documents.put(write("c").expires_at(at(6_000))).await?;
        check_lists(&mut admin, &with_note(6_000)).await?;
        documents.put(write("c")).await?;
        check_lists(&mut admin, &wanted).await?;
        documents.put(write("c").expires_at(at(6_000))).await?;
        documents.remove(&DocumentSelection::ids(notes(), [id()])?, 1).await?;
        check_lists(&mut admin, &wanted).await?;
        documents.put(write("c").expires_at(at(7_000))).await?;
        check_lists(&mut admin, &with_note(7_000)).await?;
        provider.erase(&Erasure::records([note()], "a test")?).await?;
        check_lists(&mut admin, &wanted).await
    })
}

/// The step is applied while a program of the previous version writes. That program continues, and the lists reflect
/// its writes.
pub(crate) fn beside_older_programs() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let config = at_one_second(server.url());
        open(config.clone()).await?.shutdown().await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        for without in [WITHOUT_VECTORS, WITHOUT_EXPIRY] {
            sqlx::raw_sql(without).execute(&mut admin).await?;
        }
        let (is_over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, count, url) = (Arc::clone(&is_over), Arc::clone(&done), server.url().to_owned());
        let writing = tokio::spawn(async move {
            let mut old = PgConnection::connect(&url).await?;
            old.execute("SET agent_memory.writer = 7").await?;
            while !over.load(Ordering::Relaxed) {
                for write in [OLDER_STORE, OLDER_UPDATE, OLDER_NEW, OLDER_PUT, OLDER_REMOVAL, OLDER_ERASURE] {
                    old.execute(write).await?;
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, sqlx::Error>(old)
        });
        until(|| Ok(done.load(Ordering::Relaxed) > 10)).await?;
        assert_eq!(memory_postgres::migrate(&config).await?.applied, [(7, "expiry"), (8, "vectors")]);
        let before = done.load(Ordering::Relaxed);
        until(|| Ok(done.load(Ordering::Relaxed) > before + 10)).await?;
        is_over.store(true, Ordering::Relaxed);
        let mut old = writing.await??;

        let provider = open(config).await?;
        let memory = provider.store(event("a-b", 1).expires_at(at(5_000))).await?;
        provider.documents().put(write("a-b").expires_at(at(5_000))).await?;
        check_lists(&mut admin, &[(5_000, memory.into()), (5_000, note())]).await?;
        // An update keeps the time, and a put without one clears it.
        old.execute(OLDER_STORE).await?;
        old.execute(OLDER_UPDATE).await?;
        old.execute(OLDER_PUT).await?;
        check_lists(&mut admin, &[(5_000, memory.into())]).await?;
        let is_kept = provider.get(memory).await?.map(|memory| (memory.status, memory.expires_at));
        assert_eq!(is_kept, Some((Status::Running, Some(at(5_000)))));
        let put = provider.documents().get(&notes(), &id()).await?.ok_or("it is there")?;
        assert_eq!((put.content.as_str(), put.expires_at), ("a dog", None));

        provider.documents().put(write("a-b").expires_at(at(6_000))).await?;
        check_lists(&mut admin, &[(5_000, memory.into()), (6_000, note())]).await?;
        old.execute(OLDER_REMOVAL).await?;
        old.execute(OLDER_ERASURE).await?;
        check_lists(&mut admin, &[]).await
    })
}

/// Other handles read the rules of a namespace that takes no writes.
pub(crate) fn read_only() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(at_one_second(server.url())).await?;
        let month = |under: &str| Retention::new(under, Duration::from_secs(30 * 24 * 60 * 60));
        provider.set_retention(vec![month("a")?]).await?;
        provider.set_read_only(true).await?;
        let refused = provider.set_retention(vec![month("b")?]).await.expect_err("it is read-only");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
        let other: PostgresMemory = open(at_one_second(server.url())).await?;
        assert_eq!(other.retention().await?, [month("a")?]);
        provider.set_read_only(false).await?;
        provider.set_retention(vec![month("b")?]).await?;
        assert_eq!(other.retention().await?, [month("b")?]);
        Ok(())
    })
}
