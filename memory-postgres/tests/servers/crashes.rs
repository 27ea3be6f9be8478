//! Servers that are killed while they work.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use conformance::server::postgres::LocalPostgres;
use memory_core::{ErrorKind, MemoryPatch, MemoryProvider, Status};

use crate::common::{Case, all, config, event, open, run};

/// How many tasks store, and how much each stores in a round.
const TASKS: i64 = 8;
const STORES: i64 = 40;

/// Kills and restarts the server under load, 10 times, or as often as `MEMORY_TEST_KILLS` says.
pub(crate) fn acknowledged_stores_survive() -> Case {
    let rounds = std::env::var("MEMORY_TEST_KILLS").ok().map_or(Ok(10), |rounds| rounds.parse())?;
    run(async move {
        let mut server = LocalPostgres::start()?;
        let mut config = config(server.url());
        config.pool_size = const { NonZeroU32::new(8).unwrap() };
        let provider = Arc::new(open(config).await?);
        let mut acknowledged = HashMap::new();
        for round in 0..rounds {
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let provider = Arc::clone(&provider);
                    tokio::spawn(async move {
                        let mut stored = Vec::new();
                        for number in 0..STORES {
                            let number = (round * TASKS + task) * STORES + number;
                            // A store that is not acknowledged may exist or not.
                            stored.extend(provider.store(event("a-b", number)).await.map(|id| (number, id)));
                        }
                        stored
                    })
                })
                .collect();
            // In the middle of the work, later in each round.
            tokio::time::sleep(Duration::from_millis(round as u64 % 20)).await;
            server.restart()?;
            for task in tasks {
                acknowledged.extend(task.await?);
            }
            assert_eq!(provider.check_health().await?.engine, "postgres");
        }
        let mut found = BTreeMap::<_, Vec<_>>::new();
        for memory in all(&provider).await? {
            found.entry(memory.created_at.as_millis()).or_default().push(memory.id);
        }
        for (number, id) in &acknowledged {
            assert_eq!(found.get(number), Some(&vec![*id]), "store {number} was acknowledged");
        }
        assert!(found.values().all(|ids| ids.len() == 1), "a store was done twice");
        println!("{rounds} kills: {} stores acknowledged, {} there", acknowledged.len(), found.len());
        assert!(!acknowledged.is_empty());
        Ok(())
    })
}

pub(crate) fn calls_work_again() -> Case {
    run(async {
        let mut server = LocalPostgres::start()?;
        let mut config = config(server.url());
        config.acquire_timeout = Duration::from_secs(3);
        let provider = open(config).await?;
        let id = provider.store(event("a-b", 1)).await?;
        server.kill()?;
        let down = provider.check_health().await.expect_err("the server is down");
        assert_eq!(down.kind(), ErrorKind::Unavailable, "{down:?}");
        let down = provider.store(event("a-b", 2)).await.expect_err("the server is down");
        assert_eq!(down.kind(), ErrorKind::Unavailable, "{down:?}");
        server.restart()?;
        provider.check_health().await?;
        assert_eq!(provider.get(id).await?.map(|memory| memory.id), Some(id));
        // Connections that have ended with the server don't make an update fail.
        server.restart()?;
        let patch = MemoryPatch::new().with_status(Status::Completed);
        assert_eq!(provider.update(id, patch).await?.revision.get(), 2);
        Ok(())
    })
}
