//! The connections that a provider keeps.

use std::sync::Arc;
use std::time::Duration;

use conformance::server::postgres::LocalPostgres;
use memory_core::{Error, MemoryPage, MemoryProvider, MemoryQuery};
use memory_postgres::PostgresMemory;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::task::JoinSet;

use crate::common::{Case, all, config, event, holds, open, run};

const NOBODY_IS_CONNECTED: &str =
    "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'agent-memory')";
const LOCK: &str = "LOCK TABLE agent_memory.memories IN ACCESS EXCLUSIVE MODE";
const TWO_WAIT: &str = "SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// Those that were opened for many calls are closed when there are few; the next call opens another one.
pub(crate) fn idle() -> Case {
    let server = LocalPostgres::start()?;
    run(async {
        let mut config = config(server.url());
        config.idle_timeout = Duration::from_millis(200);
        let provider = Arc::new(open(config).await?);
        let mut admin = PgConnection::connect(server.url()).await?;
        let mut lock = admin.begin().await?;
        lock.execute(LOCK).await?;
        let queries = queries(&provider, 2);
        holds(server.url(), TWO_WAIT).await?;
        lock.rollback().await?;
        for page in queries.join_all().await {
            page?;
        }
        holds(server.url(), NOBODY_IS_CONNECTED).await?;
        provider.store(event("a-b", 1)).await?;
        assert_eq!(all(&provider).await?.len(), 1);
        Ok(())
    })
}

/// Begins some queries of the whole ledger.
fn queries(provider: &Arc<PostgresMemory>, count: usize) -> JoinSet<Result<MemoryPage, Error>> {
    let query = |_| {
        let provider = Arc::clone(provider);
        async move { provider.query(&MemoryQuery::builder().all().build()?).await }
    };
    (0..count).map(query).collect()
}
