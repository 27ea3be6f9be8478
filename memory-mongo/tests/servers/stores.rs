//! Stores and restores that travel together.

use super::*;

pub(crate) async fn the_failure_of_one_store_touches_no_other() -> CaseResult {
    let server = LocalMongo::start()?;
    let mut config = config(&server.url());
    config.text_index = TextIndex::All;
    let provider = Arc::new(open(config).await?);
    // Of a transaction that holds what a store writes, nobody knows how it ends.
    let database = admin(&server.url()).await?.client().database("agent_memory");
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
    // Two that go alone, and one that travels with others.
    let mut held = vec![store(keyed(8)), store(keyed(8))];
    let events = (0..32).map(|number| match number {
        7 => large(),
        number if number % 2 == 0 => keyed(number),
        number => event("a-b", number),
    });
    let mut stores: Vec<_> = events.map(store).collect();
    held.push(stores.remove(8));
    let large = stores.remove(7);
    for store in stores {
        store.await??;
    }
    check(&large.await?.expect_err("too many words"), ErrorKind::TooLarge, "larger than the server takes");
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
    // The first two go alone, and the third travels with the others.
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

/// Of no other text do the words take as much room: what the driver sends as two commands might be done by half.
pub(crate) async fn the_largest_insert_is_one_command() -> CaseResult {
    /// What one command takes, but for what the driver adds.
    const COMMAND: usize = 48_000_000 - (1 << 16);
    let server = LocalMongo::start()?;
    let mut config = config(&server.url());
    config.text_index = TextIndex::All;
    let provider = open(config).await?;
    // An ideograph is a word, and parts two others.
    let letters = || ('a'..='z').chain('0'..='9');
    let pairs = letters().flat_map(|first| letters().map(move |second| format!("{first}{second}")));
    let text: String = pairs.zip('\u{4e00}'..).map(|(pair, ideograph)| format!("{pair}{ideograph}")).collect();
    let trigger = Trigger::parse(&format!("\"{text}\""))?;
    let id = provider.store(NewMemory::new(SpaceId::parse("a")?, trigger, at(1))).await?;
    let memory = provider.get(id).await?.ok_or("a memory is gone")?;
    let rows = admin(&server.url()).await?.client().database("agent_memory").collection::<RawDocumentBuf>("memories");
    let row = rows.find_one(doc! {}).await?.ok_or("a row is gone")?.as_bytes().len();
    assert!(row > 6 * memory.size(), "{row} bytes");
    for (_, most) in [MongoEngine::RESTORE].into_iter().chain(MongoEngine::BATCH) {
        let insert = most * row / memory.size();
        assert!(insert < COMMAND, "{most} bytes of text become {insert}");
    }
    Ok(())
}

pub(crate) async fn stores_learn_that_the_ledger_is_indexed() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = Arc::new(open(config(&server.url())).await?);
    let mut indexed = config(&server.url());
    indexed.text_index = TextIndex::All;
    let indexed = open(indexed).await?;
    let stores = (0..64).map(|number| {
        let (provider, mut event) = (Arc::clone(&provider), event("a-b", number));
        event.idempotency_key = (number % 2 == 0).then(|| IdempotencyKey::parse(number.to_string()).expect("a key"));
        tokio::spawn(async move { provider.store(event).await })
    });
    // All of them are refused at first, at the same time.
    for store in stores.collect::<Vec<_>>() {
        store.await??;
    }
    assert_eq!(all(&indexed).await?.len(), 64);
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
                // One comes after the other.
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
