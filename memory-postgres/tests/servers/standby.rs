//! Streaming replicas: reads from one, and a failover to one.

use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;

use conformance::server::postgres::LocalPostgres;
use futures::future::join_all;
use memory_core::{
    Collection, Content, DocumentWrite, Error, ErrorKind, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider,
    MemoryQuery, Outcome, Status, WatchFrom,
};
use memory_postgres::{PostgresConfig, PostgresMemory};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Row};

use crate::common::{Case, all, at, check, config, event, holds, open, run};
use crate::feed::{everything, next};

pub(crate) fn reads() -> Case {
    let primary = LocalPostgres::start()?;
    let standby = primary.standby()?;
    run(async {
        open(config(primary.url())).await?.shutdown().await?;
        replayed(&primary, &standby).await?;
        let read_url: String = form_urlencoded::byte_serialize(standby.url().as_bytes()).collect();
        let provider = PostgresMemory::open(format!("{}?read_url={read_url}", primary.url()).as_str())?;
        provider.init().await?;
        let mut admin = PgConnection::connect(standby.url()).await?;
        admin.execute("SELECT pg_wal_replay_pause()").await?;
        holds(standby.url(), "SELECT pg_get_wal_replay_pause_state() = 'paused'").await?;

        let id = provider.store(event("a-b", 1)).await?;
        let query = MemoryQuery::builder().under("a").build()?;
        assert_eq!(provider.get(id).await?, None, "the replica does not know it yet");
        assert!(provider.query(&query).await?.memories.is_empty(), "the replica does not know it yet");
        // Reads that must be up to date go to the primary.
        let patch = MemoryPatch::new().with_status(Status::Completed);
        assert_eq!(provider.update(id, patch).await?.revision.get(), 2);

        admin.execute("SELECT pg_wal_replay_resume()").await?;
        replayed(&primary, &standby).await?;
        assert_eq!(provider.get(id).await?.map(|memory| memory.revision.get()), Some(2));
        assert_eq!(provider.query(&query).await?.memories.len(), 1);

        // Alone it can be read.
        let alone = open(config(standby.url())).await?;
        assert_eq!(alone.get(id).await?.map(|memory| memory.id), Some(id));
        check(&alone.store(event("a-b", 2)).await.expect_err("read-only"), ErrorKind::Unauthorized, "read-only");
        Ok(())
    })
}

pub(crate) fn failover() -> Case {
    let mut primary = LocalPostgres::start()?;
    let standby = primary.standby()?;
    run(async {
        // The standby is listed first, and the primary is found all the same.
        let provider = Arc::new(open_at(&[&standby, &primary]));
        provider.init().await?;
        let first = provider.store(event("a-b", 0)).await?;
        replayed(&primary, &standby).await?;

        primary.kill()?;
        // These wait until there is a primary again.
        let store = |number| {
            let provider = Arc::clone(&provider);
            tokio::spawn(async move { provider.store(event("a-b", number)).await.map(|id| (number, id)) })
        };
        let tasks: Vec<_> = (1..9).map(store).collect();
        PgConnection::connect(standby.url()).await?.execute("SELECT pg_promote()").await?;
        let mut expected = vec![(0, first)];
        for task in tasks {
            expected.push(task.await??);
        }
        expected.reverse();
        let found = all(&provider).await?;
        assert_eq!(found.iter().map(|memory| (memory.created_at.as_millis(), memory.id)).collect::<Vec<_>>(), expected);

        // Nobody is left.
        drop(standby);
        let error = open(config(primary.url())).await.expect_err("a killed server");
        check(&error, ErrorKind::Unavailable, "the connection to the server failed");
        Ok(())
    })
}

/// A standby may lack changes that the primary has delivered.
pub(crate) fn feed_reset() -> Case {
    let mut primary = LocalPostgres::start()?;
    let standby = primary.standby()?;
    run(async {
        let provider = open_at(&[&primary, &standby]);
        provider.init().await?;
        provider.store(event("a-b", 0)).await?;
        let mut changes = provider.watch(&everything(WatchFrom::Now)).await?;
        let token = next(&mut changes).await?.token;
        replayed(&primary, &standby).await?;
        primary.kill()?;
        PgConnection::connect(standby.url()).await?.execute("SELECT pg_promote()").await?;
        provider.store(event("a-b", 1)).await?;
        let refused = provider.watch(&everything(token)).await.err().map(|error| error.kind());
        assert_eq!(refused, Some(ErrorKind::FeedReset));
        assert_eq!(next(&mut changes).await.err().map(|error| error.kind()), Some(ErrorKind::FeedReset));
        let mut changes = provider.watch(&everything(WatchFrom::Beginning)).await?;
        for _ in 0..2 {
            next(&mut changes).await?;
        }
        Ok(())
    })
}

/// A commit that no longer waits for its standby is visible, and lost if the standby takes over before it has it.
pub(crate) fn waits_beyond_its_call() -> Case {
    let primary = LocalPostgres::start()?;
    run(async {
        open(config(primary.url())).await?.shutdown().await?;
        let provider = open(config(&format!("{}?deadline_ms=3000", primary.url()))).await?;
        // The first store with a key writes the key by which tombstones are hashed, too.
        let keyed =
            |number, key| Ok::<_, Error>(event("a-b", number).with_idempotency_key(IdempotencyKey::parse(key)?));
        let first = provider.store(keyed(0, "first")?).await?;
        let second = keyed(1, "second")?;
        let mut admin = without_standby(&primary).await?;
        let store = || provider.store(second.clone());
        for _ in 0..2 {
            // The second one is not told that it is stored.
            check(&store().await.expect_err("nobody confirms it"), ErrorKind::Timeout, "no answer within 3000 ms");
        }
        assert_eq!(ids(&provider).await?, [first]);
        admin.execute("ALTER SYSTEM RESET synchronous_standby_names").await?;
        admin.execute("SELECT pg_reload_conf()").await?;
        let id = loop {
            match store().await {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                stored => break stored?,
            }
        };
        assert_eq!(ids(&provider).await?, [id, first]);
        Ok(())
    })
}

/// However many commits wait for a standby.
pub(crate) fn reads_beside_commits() -> Case {
    let primary = LocalPostgres::start()?;
    run(async {
        open(config(primary.url())).await?.shutdown().await?;
        let mut config = config(&format!("{}?deadline_ms=2000&acquire_timeout_ms=500", primary.url()));
        config.pool_size = const { NonZeroU32::new(4).unwrap() };
        let provider = open(config).await?;
        let first = provider.store(event("a", 0)).await?;
        let mut admin = without_standby(&primary).await?;
        // Stores that come at once would share a commit.
        let documents = provider.documents();
        let note = || {
            Ok::<_, Error>(DocumentWrite::new(Collection::parse("notes")?, "a".parse()?, Content::parse("x")?, at(1)))
        };
        for round in 0..3 {
            let notes = (0..12).map(|_| note()).collect::<Result<Vec<_>, _>>()?;
            let mut puts = pin!(join_all(notes.into_iter().map(|note| documents.put(note))));
            let ended = loop {
                tokio::select! {
                    ended = &mut puts => break ended,
                    found = ids(&provider) => assert_eq!(found?, [first]),
                }
            };
            let refused: Vec<_> = ended.into_iter().map(|put| put.expect_err("nobody confirms it")).collect();
            let (begun, refused): (Vec<_>, Vec<_>) =
                refused.into_iter().partition(|error| error.kind() == ErrorKind::Timeout);
            // Those that began in the first round have all turns.
            assert_eq!(begun.len(), if round == 0 { 3 } else { 0 });
            for error in refused {
                check(&error, ErrorKind::Unavailable, "no connection to the server in time");
                assert_eq!((error.outcome(), error.is_retryable()), (Outcome::NotDone, true));
            }
            let waiting = admin.fetch_one("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").await?;
            assert_eq!(waiting.try_get::<i64, _>(0)?, 3);
        }
        admin.execute("ALTER SYSTEM RESET synchronous_standby_names").await?;
        admin.execute("SELECT pg_reload_conf()").await?;
        while let Err(error) = provider.store(event("a", 2)).await {
            assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
        }
        Ok(())
    })
}

/// Commits of the server wait for a standby that does not exist, from here on.
async fn without_standby(primary: &LocalPostgres) -> Case<PgConnection> {
    let mut admin = PgConnection::connect(primary.url()).await?;
    admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'absent'").await?;
    admin.execute("SELECT pg_reload_conf()").await?;
    holds(primary.url(), "SELECT current_setting('synchronous_standby_names') = 'absent'").await?;
    Ok(admin)
}

async fn ids(provider: &PostgresMemory) -> Result<Vec<MemoryId>, Error> {
    Ok(all(provider).await?.iter().map(|memory| memory.id).collect())
}

/// A provider for several hosts, not initialised.
fn open_at(servers: &[&LocalPostgres]) -> PostgresMemory {
    let configs: Vec<_> = servers.iter().map(|server| config(server.url())).collect();
    let hosts = configs.iter().map(|config| format!("{}:{}", config.server.hosts[0].name, config.server.hosts[0].port));
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let (credentials, _) = servers[0].url().rsplit_once('@').expect("a URL with a password");
    let mut config = PostgresConfig::from_url(&format!("{credentials}@{hosts}/postgres")).expect("a valid URL");
    config.pool_size = const { NonZeroU32::new(4).unwrap() };
    PostgresMemory::open(config).expect("a configuration")
}

/// Waits until the standby has all that the primary has.
async fn replayed(primary: &LocalPostgres, standby: &LocalPostgres) -> Case {
    let mut at_primary = PgConnection::connect(primary.url()).await?;
    let mut at_standby = PgConnection::connect(standby.url()).await?;
    let written: String = at_primary.fetch_one("SELECT pg_current_wal_lsn()::text").await?.try_get(0)?;
    let sql = "SELECT coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, FALSE)";
    while !sqlx::query(sql).bind(&written).fetch_one(&mut at_standby).await?.try_get::<bool, _>(0)? {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(())
}
