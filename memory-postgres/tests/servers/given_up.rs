//! Calls that end before their answer comes: they end at the server, too.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use conformance::server::postgres::{LocalPostgres, PgBouncer};
use memory_core::{ErrorKind, MemoryProvider, MemoryQuery};
use memory_postgres::PostgresConfig;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::postgres::PgConnection;
use tokio::task::JoinSet;

use crate::common::{Case, LOCK, NOBODY_WAITS, WAITS_FOR_A_LOCK, all, config, event, holds, open, run};

/// An abandoned call is cancelled long before its deadline, and its connection is used again.
pub(crate) fn dropped() -> Case {
    on_each(Duration::from_secs(600), 1, async |server, config| {
        let provider = Arc::new(open(config).await?);
        let query = MemoryQuery::builder().all().build()?;
        let mut admin = PgConnection::connect(server.url()).await?;
        let mut lock = admin.begin().await?;
        lock.execute(LOCK).await?;
        for is_store in [true, false] {
            let (provider, query) = (Arc::clone(&provider), query.clone());
            let call = tokio::spawn(async move {
                match is_store {
                    true => provider.store(event("a-b", 1)).await.map(drop),
                    false => provider.query(&query).await.map(drop),
                }
            });
            holds(server.url(), WAITS_FOR_A_LOCK).await?;
            call.abort();
            holds(server.url(), NOBODY_WAITS).await?;
        }
        lock.rollback().await?;
        assert_eq!(all(&provider).await?, []);
        Ok(())
    })
}

/// A statement ends at its call's deadline, even if no connection is left to cancel it.
pub(crate) fn late() -> Case {
    // As many as the pooler has.
    const CALLS: u32 = 8;
    on_each(Duration::from_secs(5), CALLS, async |server, config| {
        let provider = Arc::new(open(config).await?);
        let query = MemoryQuery::builder().all().build()?;
        let mut admin = PgConnection::connect(server.url()).await?;
        let mut lock = admin.begin().await?;
        lock.execute(LOCK).await?;
        let call = |_| {
            let (provider, query) = (Arc::clone(&provider), query.clone());
            async move { provider.query(&query).await }
        };
        for late in (0..CALLS).map(call).collect::<JoinSet<_>>().join_all().await {
            assert_eq!(late.expect_err("nothing comes through").kind(), ErrorKind::Timeout);
        }
        holds(server.url(), NOBODY_WAITS).await?;
        lock.rollback().await?;
        assert_eq!(all(&provider).await?, []);
        Ok(())
    })
}

/// Runs a case on a server, and behind a pooler, with a statement timeout of the server that is much longer than the
/// case.
fn on_each(deadline: Duration, pool_size: u32, case: impl AsyncFn(&LocalPostgres, PostgresConfig) -> Case) -> Case {
    let server = LocalPostgres::start()?;
    let pooler = PgBouncer::start(server.url())?;
    run(async {
        for (url, is_pooled) in [(server.url(), false), (pooler.url(), true)] {
            let mut config = config(url);
            config.pooler = is_pooled;
            config.deadline = deadline;
            config.statement_timeout = Some(Duration::from_secs(600));
            config.pool_size = NonZeroU32::new(pool_size).unwrap_or(NonZeroU32::MIN);
            case(&server, config).await?;
        }
        Ok(())
    })
}
