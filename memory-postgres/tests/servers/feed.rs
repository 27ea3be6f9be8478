//! The feed of changes, with late transactions, other processes, and servers that have lost data.

use std::collections::HashSet;
use std::num::NonZeroU32;

use conformance::server::postgres::LocalPostgres;
use futures::StreamExt;
use memory_core::{
    Change, ChangeKind, Changes, Collection, Collections, Content, DocumentId, DocumentSelection, DocumentWrite, Error,
    ErrorKind, MemoryPatch, MemoryProvider, MemoryQuery, Record, Status, Watch, WatchFrom, Watched,
};
use memory_postgres::PostgresMemory;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use tokio::time::{Duration, timeout};

use crate::common::{Case, SECRET, at, config, event, holds, open, run};

/// A store of a transaction that takes its time.
const STORE: &str = "
    WITH stored AS (
        INSERT INTO agent_memory.memories (id, created_at, revision, status, space_id, metadata, trigger)
        VALUES (gen_random_uuid(), 7, 1, 'completed', 'late', '{}', '1') RETURNING id)
    INSERT INTO agent_memory.changes (memories) SELECT ARRAY[id] FROM stored";
const PUT: &str = "
    INSERT INTO agent_memory.documents (collection, id, created_at, revision, space_id, metadata, content)
    VALUES ('notes', 'n', 7, 1, 'late', '{}', 'again')";
/// More rows than the feed keeps.
const MANY: &str = "
    INSERT INTO agent_memory.changes (memories) SELECT ARRAY[gen_random_uuid()] FROM generate_series(1, 104000)";
const HAS_LOOKED: &str =
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%.trim_changes()%' AND state = 'idle')";
const IS_LISTENING: &str =
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT %.listen_to_changes()')";
const NOBODY_LISTENS: &str =
    "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT %.listen_to_changes()')";

pub(crate) fn everything(from: impl Into<WatchFrom>) -> Watch {
    let watch = Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all());
    watch.expect("a valid watch").from(from.into())
}

pub(crate) async fn next(changes: &mut Changes) -> Result<Change, Error> {
    let next = timeout(Duration::from_secs(60), changes.next()).await;
    next.expect("a change comes").expect("the watch goes on")
}

/// The record of the next change: its space, or its id if it is gone.
async fn told(changes: &mut Changes) -> Result<String, Error> {
    loop {
        match next(changes).await?.kind {
            ChangeKind::Reached | ChangeKind::Progress => {}
            ChangeKind::Stored(Record::Memory(memory)) => return Ok(memory.space_id.to_string()),
            ChangeKind::Stored(Record::Document(document)) => return Ok(document.space_id.to_string()),
            other => return Ok(format!("{other:?}").chars().take_while(char::is_ascii_alphabetic).collect()),
        }
    }
}

async fn watched(provider: &PostgresMemory) -> Result<Changes, Error> {
    let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
    assert_eq!(next(&mut changes).await?.kind, ChangeKind::Reached);
    Ok(changes)
}

async fn writer(url: &str) -> Result<PgConnection, sqlx::Error> {
    let mut writer = PgConnection::connect(url).await?;
    writer.execute("SET agent_memory.writer = 7").await?;
    Ok(writer)
}

/// Concurrent commits of others come after it, also if that takes longer than a watch waits to begin.
pub(crate) fn late() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let (provider, other) = (open(config(server.url())).await?, open(config(server.url())).await?);
        let mut changes = watched(&provider).await?;
        let mut late = writer(server.url()).await?;
        let mut transaction = late.begin().await?;
        // A part of a transaction has an id of its own.
        transaction.execute("SELECT pg_current_xact_id()").await?;
        transaction.execute("SAVEPOINT step").await?;
        transaction.execute(STORE).await?;
        provider.store(event("b", 1)).await?;
        other.store(event("c", 2)).await?;
        assert!(futures::poll!(changes.next()).is_pending());
        transaction.execute("SELECT pg_sleep(5)").await?;
        // The row exists, and can't be delivered yet.
        let mut since = provider.watch(&everything(WatchFrom::Now)).await?;
        assert!(futures::poll!(changes.next()).is_pending());
        transaction.commit().await?;
        for due in ["late", "b", "c"] {
            assert_eq!(told(&mut changes).await?, due);
        }
        // A watch that began in between may deliver existing records, and misses nothing.
        assert_eq!(next(&mut since).await?.kind, ChangeKind::Reached);
        assert_eq!(told(&mut since).await?, "late");
        Ok(())
    })
}

/// A transaction puts a document again for whose removal it has waited, although it was begun before that.
pub(crate) fn put_again() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let mut changes = watched(&provider).await?;
        let mut late = writer(server.url()).await?;
        let mut transaction = late.begin().await?;
        transaction.execute("SELECT pg_current_xact_id()").await?;
        let (notes, id) = (Collection::parse("notes")?, DocumentId::parse("n")?);
        let write = DocumentWrite::new(notes.clone(), "first".parse()?, Content::parse("x")?, at(1));
        provider.documents().put(write.with_id(id.clone())).await?;
        provider.documents().remove(&DocumentSelection::ids(notes, [id])?, 1).await?;
        transaction.execute(PUT).await?;
        transaction.commit().await?;
        for due in ["Removed", "late"] {
            assert_eq!(told(&mut changes).await?, due);
        }
        Ok(())
    })
}

/// A page of the feed reads no more than it delivers, however much was stored at once; a row with many ids is delivered
/// like any other.
pub(crate) fn long_rows() -> Case {
    const COUNT: usize = 1_000;
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let begin = provider.watch(&everything(WatchFrom::Now)).await?.next().await.expect("goes on")?.token;
        provider.store_many((0..COUNT as i64).map(|number| event("a", number)).collect()).await?;
        let mut writer = writer(server.url()).await?;
        let longest = "SELECT max(cardinality(memories)) FROM agent_memory.changes";
        let longest: i32 = writer.fetch_one(longest).await?.get(0);
        assert!((2..=64).contains(&longest), "a row with {longest} ids");
        let long = "INSERT INTO agent_memory.changes (memories) SELECT array_agg(id) FROM agent_memory.memories";
        writer.execute(long).await?;
        provider.store(event("last", 1)).await?;
        let (mut changes, mut told) = (provider.watch(&everything(begin)).await?, HashSet::new());
        loop {
            let ChangeKind::Stored(Record::Memory(memory)) = next(&mut changes).await?.kind else { continue };
            if memory.space_id.as_str() == "last" {
                break;
            }
            told.insert(memory.id);
        }
        assert_eq!(told.len(), COUNT);
        Ok(())
    })
}

/// A process listens for others as long as anybody watches.
pub(crate) fn listens() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let (provider, other) = (open(config(server.url())).await?, open(config(server.url())).await?);
        let mut changes = watched(&provider).await?;
        let told = tokio::spawn(async move { told(&mut changes).await });
        holds(server.url(), IS_LISTENING).await?;
        other.store(event("a", 1)).await?;
        assert_eq!(told.await??, "a");
        holds(server.url(), NOBODY_LISTENS).await
    })
}

/// Writers drop surplus rows, and a token of a dropped row is refused.
pub(crate) fn trimmed() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let old = next(&mut provider.watch(&everything(WatchFrom::Now)).await?).await?.token;
        PgConnection::connect(server.url()).await?.execute(MANY).await?;
        provider.store(event("a", 1)).await?;
        holds(server.url(), "SELECT count(*) < 101001 FROM agent_memory.changes").await?;
        let recent = next(&mut provider.watch(&everything(WatchFrom::Now)).await?).await?.token;
        let refused = provider.watch(&everything(old)).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::FeedReset));
        let mut changes = provider.watch(&everything(recent)).await?;
        provider.store(event("b", 2)).await?;
        assert_eq!(told(&mut changes).await?, "b");
        Ok(())
    })
}

/// The feed keeps as many rows as the operator has set.
pub(crate) fn kept() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let many = config(&format!("{}?kept_changes=110000", server.url()));
        let provider = open(many).await?;
        let old = next(&mut provider.watch(&everything(WatchFrom::Now)).await?).await?.token;
        let mut other = PgConnection::connect(server.url()).await?;
        other.execute(MANY).await?;
        provider.store(event("a", 1)).await?;
        // Once the process has asked whether anybody listens, it has checked the feed, and it drops nothing.
        holds(server.url(), HAS_LOOKED).await?;
        drop(provider.watch(&everything(old.clone())).await?);
        other.execute(MANY).await?;
        provider.shutdown().await?;
        // The next process that opens it checks at its first write.
        let provider = open(config(&format!("{}?kept_changes=110000", server.url()))).await?;
        provider.store(event("a", 2)).await?;
        holds(server.url(), "SELECT count(*) < 111001 FROM agent_memory.changes").await?;
        holds(server.url(), "SELECT count(*) > 109000 FROM agent_memory.changes").await?;
        let refused = provider.watch(&everything(old)).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::FeedReset));
        Ok(())
    })
}

/// A transaction that stays open holds rows back. Concurrent writers drop neither these nor the last one before them.
pub(crate) fn held_back() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let old = next(&mut provider.watch(&everything(WatchFrom::Now)).await?).await?.token;
        let mut open_one = PgConnection::connect(server.url()).await?;
        let mut transaction = open_one.begin().await?;
        transaction.execute("SELECT pg_current_xact_id()").await?;
        let mut other = PgConnection::connect(server.url()).await?;
        other.execute(MANY).await?;
        let is_dropped: bool = other.fetch_one("SELECT agent_memory.trim_changes()").await?.try_get(0)?;
        assert!(!is_dropped, "nothing of it was told");
        drop(provider.watch(&everything(old)).await?);
        let mut changes = watched(&provider).await?;
        assert!(futures::poll!(changes.next()).is_pending());
        transaction.commit().await?;
        provider.store(event("a", 1)).await?;
        holds(server.url(), "SELECT count(*) < 101001 FROM agent_memory.changes").await?;
        watched(&provider).await.map(drop).map_err(Into::into)
    })
}

/// A record may be delivered as a write left it that an open transaction holds back. The loss of that write is noticed.
pub(crate) fn seen() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let before = next(&mut provider.watch(&everything(WatchFrom::Now)).await?).await?.token;
        let id = provider.store(event("a-b", 1)).await?;
        let mut late = PgConnection::connect(server.url()).await?;
        let mut transaction = late.begin().await?;
        transaction.execute("SELECT pg_current_xact_id()").await?;
        provider.update(id, MemoryPatch::new().with_status(Status::Failed)).await?;
        let mut changes = provider.watch(&everything(before)).await?;
        let Change { kind, token } = next(&mut changes).await?;
        assert!(matches!(kind, ChangeKind::Updated(_)), "{kind:?}");
        let mut changes = provider.watch(&everything(token.clone())).await?;
        assert!(timeout(Duration::from_secs(1), changes.next()).await.is_err(), "the update is held back");
        transaction.rollback().await?;
        assert!(matches!(next(&mut changes).await?.kind, ChangeKind::Updated(_)));
        let last = "DELETE FROM agent_memory.changes WHERE seq = (SELECT max(seq) FROM agent_memory.changes)";
        writer(server.url()).await?.execute(last).await?;
        let refused = provider.watch(&everything(token)).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::FeedReset));
        Ok(())
    })
}

/// An operator learns which transaction the feed waits for, and nothing of its statements.
pub(crate) fn named() -> Case {
    let server = LocalPostgres::start_with(&[("autovacuum", "off"), ("max_prepared_transactions", "1")])?;
    run(async {
        let provider = open(config(server.url())).await?;
        let held_back = async |url: &str| memory_postgres::inspect(&config(url)).await.map(|found| found.held_back);
        let mut other = PgConnection::connect(server.url()).await?;
        other.execute("SET application_name = 'a slow \"report\"'").await?;
        other.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'").await?;
        let process: i32 = other.fetch_one("SELECT pg_backend_pid()").await?.try_get(0)?;
        assert_eq!(held_back(server.url()).await?, None, "nobody writes");
        other.execute("BEGIN").await?;
        other.execute("SELECT 'xyzzy', pg_current_xact_id()").await?;
        // A later one waits as well.
        provider.store(event("a", 1)).await?;

        let named = held_back(server.url()).await?.ok_or("a transaction is open")?;
        let expected = format!(
            "the transaction of process {process} (application \"a slow \\\"report\\\"\", database \"postgres\", idle in \
             transaction)"
        );
        assert_eq!(named.by, expected);
        assert!(named.longest.is_some());
        assert!(!format!("{named:?}").contains(SECRET));
        let (_, place) = server.url().rsplit_once('@').ok_or("a URL with a password")?;
        let seen = held_back(&format!("postgres://guest:guest@{place}")).await?.ok_or("a transaction is open")?;
        assert!(seen.by.contains(&format!("process {process}, of which")), "{seen:?}");
        assert_eq!(seen.longest, None);

        other.execute("PREPARE TRANSACTION 'forgotten'").await?;
        let named = held_back(server.url()).await?.ok_or("a transaction is prepared")?;
        assert_eq!(named.by, "the prepared transaction \"forgotten\"");
        assert!(named.longest.is_some());
        other.execute("COMMIT PREPARED 'forgotten'").await?;
        assert_eq!(held_back(server.url()).await?, None);
        Ok(())
    })
}

/// A watch that begins while rows are held back waits a little, and others use the only connection meanwhile.
pub(crate) fn waits_without_connection() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(1).unwrap() };
        let provider = open(config).await?;
        let mut late = writer(server.url()).await?;
        let mut transaction = late.begin().await?;
        transaction.execute(STORE).await?;
        let id = provider.store(event("b", 1)).await?;
        tokio::select! {
            biased;
            begun = watched(&provider) => panic!("it has begun first: {}", begun.is_ok()),
            found = provider.get(id) => assert!(found?.is_some()),
        }
        transaction.commit().await?;
        watched(&provider).await.map(drop).map_err(Into::into)
    })
}

/// A restored dump names transactions of another server. Its rows are not delivered after what is written here.
pub(crate) fn restored() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let provider = open(config(server.url())).await?;
        let (notes, id) = (Collection::parse("notes")?, DocumentId::parse("n")?);
        let put = async |provider: &PostgresMemory| {
            let write = DocumentWrite::new(notes.clone(), "first".parse()?, Content::parse("x")?, at(1));
            provider.documents().put(write.with_id(id.clone())).await
        };
        put(&provider).await?;
        provider.documents().remove(&DocumentSelection::ids(notes.clone(), [id.clone()])?, 1).await?;
        let mut admin = PgConnection::connect(server.url()).await?;
        // As if that server had run for longer, or for less, and had dropped the first row already.
        for ahead in [50, -5] {
            let dump = format!(
                "CREATE TABLE dump AS SELECT * FROM agent_memory.changes WHERE xid <> '0';
                TRUNCATE agent_memory.changes;
                UPDATE dump SET xid = (xid::text::bigint + {ahead})::text::xid8,
                    writer = (writer::text::bigint + {ahead})::text::xid8;
                INSERT INTO agent_memory.changes SELECT * FROM dump;
                DROP TABLE dump"
            );
            admin.execute(AssertSqlSafe(dump)).await?;
            let mut changes = watched(&provider).await?;
            put(&provider).await?;
            assert_eq!(told(&mut changes).await?.to_lowercase(), if ahead > 0 { "first" } else { "updated" });
            for _ in 0..60 {
                admin.execute("SELECT pg_current_xact_id()").await?;
            }
            provider.store(event("b", 1)).await?;
            assert_eq!(told(&mut changes).await?, "b");
            admin.execute("SELECT agent_memory.trim_changes()").await?;
            let is_left = "SELECT NOT EXISTS (SELECT FROM agent_memory.changes WHERE xid > pg_current_xact_id())";
            holds(server.url(), is_left).await?;
        }
        Ok(())
    })
}
