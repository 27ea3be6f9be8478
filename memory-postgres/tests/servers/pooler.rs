//! Behind pgbouncer in transaction mode.

use std::num::NonZeroU32;
use std::sync::Arc;

use conformance::server::postgres::{LocalPostgres, PgBouncer};
use memory_core::{Error, ErrorKind, MemoryProvider, MemoryQuery};

use crate::common::{Case, at, check, config, event, holds, open, run};

/// Two different statements from 64 tasks, on fewer connections.
pub(crate) fn own_answers() -> Case {
    let server = LocalPostgres::start()?;
    let pooler = PgBouncer::start(server.url())?;
    run(async {
        let mut config = config(pooler.url());
        config.pooler = true;
        config.pool_size = const { NonZeroU32::new(32).unwrap() };
        let provider = Arc::new(open(config).await?);
        let mut ids = Vec::new();
        for number in 0..64 {
            ids.push(provider.store(event(&format!("space-{number}"), number)).await?);
        }
        let tasks = ids.into_iter().zip(0..).map(|(id, number)| {
            let provider = Arc::clone(&provider);
            tokio::spawn(async move {
                let query = MemoryQuery::builder().exact(format!("space-{number}")).build()?;
                for _ in 0..20 {
                    let got = provider.get(id).await?.map(|memory| (memory.id, memory.created_at));
                    assert_eq!(got, Some((id, at(number))));
                    let page = provider.query(&query).await?;
                    assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [id]);
                }
                Ok::<_, Error>(())
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await??;
        }
        Ok(())
    })
}

/// A pooler that drops the startup options of a connection is refused before anything is changed.
pub(crate) fn dropped_settings() -> Case {
    let server = LocalPostgres::start()?;
    let pooler = PgBouncer::start(server.url())?;
    run(async {
        let error = open(config(pooler.url())).await.expect_err("no writer");
        check(&error, ErrorKind::InvalidInput, "pooler=transaction");
        holds(server.url(), "SELECT to_regnamespace('agent_memory') IS NULL").await
    })
}
