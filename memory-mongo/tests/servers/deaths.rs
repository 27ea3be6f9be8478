//! Programs that are killed in the middle of a transaction.

use super::*;

pub(crate) async fn what_a_dead_program_has_locked_is_free_again() -> CaseResult {
    let server = LocalMongo::start()?;
    let steps =
        admin(&server.url()).await?.client().database("agent_memory").collection::<Document>("schema_migrations");
    let until = doc! { "$set": { "owner": "nobody", "until": { "$add": ["$$NOW", 1_000] } } };
    steps.update_one(doc! { "_id": "lock" }, vec![until]).upsert(true).await?;
    open(config(&server.url())).await?.store(event("a-b", 1)).await?;
    assert_eq!(steps.count_documents(doc! { "_id": "lock" }).await?, 0, "the lock is given back");
    Ok(())
}

/// Records that a killed program was writing can be written at once: the server itself would keep its transactions for
/// a minute.
pub(crate) async fn a_dead_program_holds_nobody_up() -> CaseResult {
    let (open_to_all, guarded) = (LocalMongo::start()?, LocalMongo::start_with_user("admin", SECRET)?);
    let roles = [doc! { "role": "readWrite", "db": "agent_memory" }];
    admin(&guarded.url())
        .await?
        .run_command(doc! { "createUser": "app", "pwd": SECRET, "roles": roles.as_slice() })
        .await?;
    memory_mongo::migrate(&config(&guarded.url())).await?;
    for url in [open_to_all.url(), guarded.url().replace("admin:", "app:")] {
        let provider = open(config(&url)).await?;
        provider.documents().put(note("dead")).await?;
        let (dead, living) = (program(&url).await?, program(&url).await?);
        let mut sessions = Vec::new();
        for (client, id) in [(&dead, "dead"), (&living, "living")] {
            let database = client.database("agent_memory");
            let (keys, documents) =
                (database.collection("idempotency_keys"), database.collection::<Document>("documents"));
            let mut session = client.start_session().await?;
            session.start_transaction().await?;
            keys.insert_one(doc! { "_id": id }).session(&mut session).await?;
            documents.delete_many(doc! { "_id.id": id }).session(&mut session).await?;
            sessions.push(session);
        }
        dead.shutdown().immediate(true).await;
        let keyed = |key: &str| event("a-b", 1).with_idempotency_key(IdempotencyKey::parse(key).expect("a key"));
        let id = timeout(SOON, provider.store(keyed("dead"))).await??;
        assert_eq!(timeout(SOON, provider.store_many(vec![keyed("dead"), keyed("other")])).await??[0], id);
        assert_eq!(timeout(SOON, provider.documents().put(note("dead"))).await??.revision.get(), 2);

        // Another transaction has begun, with the document only.
        let another = program(&url).await?;
        let mut session = another.start_session().await?;
        session.start_transaction().await?;
        let documents = another.database("agent_memory").collection::<Document>("documents");
        documents.delete_many(doc! { "_id.id": "dead" }).session(&mut session).await?;
        another.shutdown().immediate(true).await;
        assert_eq!(timeout(SOON, provider.documents().put(note("dead"))).await??.revision.get(), 3);

        // A living program continues.
        sessions[1].commit_transaction().await?;
        assert_eq!(all(&provider).await?.len(), 2);
    }
    Ok(())
}

/// Writes that wait for a living program look for dead ones only a few times, and each search has a time limit.
pub(crate) async fn slow_writes_ask_the_server_little() -> CaseResult {
    let server = LocalMongo::start()?;
    let (provider, admin) = (Arc::new(open(config(&server.url())).await?), admin(&server.url()).await?);
    provider.documents().put(note("held")).await?;
    let documents = admin.client().database("agent_memory").collection::<Document>("documents");
    let mut session = admin.client().start_session().await?;
    session.start_transaction().await?;
    documents.delete_many(doc! {}).session(&mut session).await?;
    // The server's log has every command from now on.
    admin.run_command(doc! { "profile": 0, "slowms": -1 }).await?;
    let write = |number| {
        let provider = Arc::clone(&provider);
        tokio::spawn(async move {
            // Each searches at another time than the others.
            tokio::time::sleep(Duration::from_millis(100) * number).await;
            provider.documents().put(note("held")).await
        })
    };
    let writes: Vec<_> = (0..5).map(write).collect();
    tokio::time::sleep(SOON).await;
    admin.run_command(doc! { "profile": 0, "slowms": 100 }).await?;
    session.abort_transaction().await?;
    for write in writes {
        write.await??;
    }
    let log = std::fs::read_to_string(server.folder(0).join("log"))?;
    let searches: Vec<_> = log.lines().filter(|line| line.contains("$currentOp")).collect();
    assert!((1..=8).contains(&searches.len()), "{} searches", searches.len());
    assert!(searches.iter().all(|search| search.contains("maxTimeMS")), "{searches:?}");
    Ok(())
}
