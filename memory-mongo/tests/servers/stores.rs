//! Stores and restores that travel together.

use super::*;

pub(crate) async fn the_failure_of_one_store_touches_no_other() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = Arc::new(open(config(&server.url())).await?);
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let rule = doc! { "spaceId": { "$ne": "refused" } };
    database.run_command(doc! { "collMod": "memories", "validator": rule }).await?;
    // Nobody knows how a transaction will end that holds what a store writes.
    let mut session = database.client().start_session().await?;
    session.start_transaction().await?;
    let keys = database.collection::<Document>("idempotency_keys");
    keys.insert_one(doc! { "_id": "8" }).session(&mut session).await?;

    let store = |event: NewMemory| {
        let provider = Arc::clone(&provider);
        tokio::spawn(async move { provider.store(event).await })
    };
    let key = |number: i64| IdempotencyKey::parse(number.to_string()).expect("a key");
    let keyed = |number| event("a-b", number).with_idempotency_key(key(number));
    // Two that are sent alone, and one in a batch.
    let mut held = vec![store(keyed(8)), store(keyed(8))];
    let events = (0..32).map(|number| match number {
        7 => event("refused", number),
        number if number % 2 == 0 => keyed(number),
        number => event("a-b", number),
    });
    let mut stores: Vec<_> = events.map(store).collect();
    held.push(stores.remove(8));
    let refused = stores.remove(7);
    for store in stores {
        store.await??;
    }
    let error = refused.await?.expect_err("a row that breaks a rule");
    check(&error, ErrorKind::SchemaMismatch, Error::newer_writer().message());
    assert!(!held.iter().any(JoinHandle::is_finished));
    session.abort_transaction().await?;
    let mut ids = HashSet::new();
    for store in held {
        ids.insert(store.await??);
    }
    assert_eq!(ids.len(), 1, "one key, one memory");
    Ok(())
}

pub(crate) async fn one_key_does_not_part_a_batch() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = Arc::new(open(config(&server.url())).await?);
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let mut session = database.client().start_session().await?;
    session.start_transaction().await?;
    let keys = database.collection::<Document>("idempotency_keys");
    keys.insert_one(doc! { "_id": "held" }).session(&mut session).await?;
    database.run_command(doc! { "profile": 2 }).await?;

    let store = |event: NewMemory| {
        let provider = Arc::clone(&provider);
        tokio::spawn(async move { provider.store(event).await })
    };
    let key = IdempotencyKey::parse("held")?;
    // The first two are sent alone, and the third in a batch with the others.
    let held = [0; 3].map(|number| store(event("a-b", number).with_idempotency_key(key.clone())));
    for store in (0..16).map(|number| store(event("a-b", number))).collect::<Vec<_>>() {
        store.await??;
    }
    let together = doc! { "op": "insert", "ns": "agent_memory.memories", "ninserted": { "$gt": 1 } };
    assert!(database.collection::<Document>("system.profile").count_documents(together).await? > 0);
    session.abort_transaction().await?;
    for store in held {
        store.await??;
    }
    assert_eq!(all(&provider).await?.len(), 17);
    Ok(())
}

/// If the driver split the batch into two commands, only half of it might be done.
pub(crate) async fn the_largest_insert_is_one_command() -> CaseResult {
    /// The limit of one command, without what the driver adds.
    const COMMAND: usize = 48_000_000 - (1 << 16);
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    // Each memory has the largest number of paths, and so the most bytes beyond its texts.
    let space = "a".repeat(SpaceId::MAX_BYTES - 2 * SpaceId::MAX_BOUNDARIES) + &"-a".repeat(SpaceId::MAX_BOUNDARIES);
    let key = IdempotencyKey::parse("k".repeat(256))?;
    let id = provider.store(event(&space, 1).with_idempotency_key(key)).await?;
    let size = provider.get(id).await?.ok_or("a memory is gone")?.size();
    let rows = admin(&server.url()).await?.client().database("agent_memory").collection::<RawDocumentBuf>("memories");
    let row = rows.find_one(doc! {}).await?.ok_or("a row is gone")?.as_bytes().len();
    for (most, bytes) in [MongoEngine::RESTORE].into_iter().chain(MongoEngine::BATCH) {
        let insert = bytes + most * (row - size);
        assert!(insert < COMMAND, "{most} rows of {bytes} bytes become {insert}");
    }
    Ok(())
}

pub(crate) async fn restores_that_race_find_no_conflict() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = Arc::new(open(config(&server.url())).await?);
    for round in 0..20 {
        let key = |number: i64| IdempotencyKey::parse(format!("{round}-{number}")).expect("a key");
        let memory = |number| event("a-b", number).with_idempotency_key(key(number)).into_memory(MemoryId::generate());
        let memories: Vec<_> = (0..20).map(memory).collect();
        let restore = |number| {
            let (provider, memories) = (Arc::clone(&provider), memories.clone());
            tokio::spawn(async move {
                // One after the other.
                for _ in 0..number {
                    provider.get(memories[0].id).await?;
                }
                provider.restore(memories).await
            })
        };
        let mut written = 0;
        for restore in (0..16).map(restore).collect::<Vec<_>>() {
            let report = restore.await??;
            assert_eq!(report.conflicts, [0; 0]);
            written += report.written;
        }
        assert_eq!(written, memories.len());
    }
    Ok(())
}
