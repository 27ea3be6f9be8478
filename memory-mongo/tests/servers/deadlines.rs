//! Calls end at the server, too, when nobody waits for them any more.

use super::*;

/// A call past its deadline ends at the server, whether it searches or waits.
pub(crate) async fn a_call_ends_at_the_server_too() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let (provider, admin) = (open(config(&server.url())).await?, admin(&server.url()).await?);
    provider.documents().put(note("held")).await?;
    let hasty = open(config(&format!("{}&deadline_ms=500", server.url()))).await?;

    let stuck = |mode: &str| {
        let data = doc! { "nss": "agent_memory.memories", "shouldCheckForInterrupt": true };
        doc! { "configureFailPoint": "waitInFindBeforeMakingBatch", "mode": mode, "data": data }
    };
    admin.run_command(stuck("alwaysOn")).await?;
    let everything = MemoryQuery::builder().all().build()?;
    let (queried, began) =
        futures::join!(hasty.query(&everything), eventually(async || is_under_way(&admin, "find").await));
    began?;
    assert_eq!(queried.expect_err("it is stuck").kind(), ErrorKind::Timeout);
    timeout(SOON, eventually(async || !is_under_way(&admin, "find").await)).await??;
    admin.run_command(stuck("off")).await?;

    let documents = admin.client().database("agent_memory").collection::<Document>("documents");
    let mut session = admin.client().start_session().await?;
    session.start_transaction().await?;
    documents.delete_many(doc! {}).session(&mut session).await?;
    let (hasty, selection) = (hasty.documents(), note("held").collection);
    let selection = DocumentSelection::ids(selection, [DocumentId::parse("held")?])?;
    let put = async { hasty.put(note("held")).await.map(drop) };
    let remove = async { hasty.remove(&selection, 1).await.map(drop) };
    let (put, removed) = futures::join!(put, remove);
    // A transaction does not wait for another one: it is given up, and tried again.
    for refused in [put, removed] {
        let refused = refused.expect_err("it is held");
        let told = (refused.kind(), refused.outcome());
        assert!(matches!(told, (ErrorKind::Unavailable, Outcome::NotDone) | (ErrorKind::Timeout, _)), "{refused:?}");
    }
    timeout(SOON, eventually(async || !is_under_way(&admin, "q").await)).await??;
    session.abort_transaction().await?;
    assert_eq!(provider.documents().put(note("held")).await?.revision.get(), 2);
    Ok(())
}

/// A fence that waits for a transaction also ends at the server, so that it does not take effect after the call that
/// lifts it.
pub(crate) async fn a_fence_that_is_given_up_comes_no_more() -> CaseResult {
    let server = LocalMongo::start()?;
    let (provider, admin) = (open(config(&server.url())).await?, admin(&server.url()).await?);
    provider.documents().put(note("held")).await?;
    let hasty = open(config(&format!("{}&deadline_ms=500", server.url()))).await?;
    let documents = admin.client().database("agent_memory").collection::<Document>("documents");
    let mut session = admin.client().start_session().await?;
    session.start_transaction().await?;
    documents.delete_many(doc! {}).session(&mut session).await?;

    let late = hasty.set_read_only(true).await.expect_err("a transaction writes");
    assert_eq!((late.kind(), late.is_retryable()), (ErrorKind::Timeout, true), "{late:?}");
    timeout(SOON, eventually(async || !is_under_way(&admin, "collMod").await)).await??;
    assert!(provider.is_read_only().await?, "the memories are");
    hasty.set_read_only(false).await?;
    session.abort_transaction().await?;
    assert!(!provider.is_read_only().await?);
    provider.store(event("a", 1)).await?;
    assert_eq!(provider.documents().put(note("held")).await?.revision.get(), 2);
    Ok(())
}

/// While the only secondary lags, nothing is confirmed: inserts end at their deadline all the same, and release what
/// their calls hold.
pub(crate) async fn an_insert_waits_for_one_deadline() -> CaseResult {
    let server = LocalMongo::start_with(2, &["--setParameter", "enableTestCommands=1"])?;
    memory_mongo::migrate(&config(&server.url())).await?;
    let (hasty, admin) =
        (open(config(&format!("{}&deadline_ms=3000", server.url()))).await?, admin(&server.url()).await?);
    let secondary = Client::with_uri_str(server.url_of(1 - server.primary()?)).await?;
    let replicates = async |does: bool| {
        let mode = if does { "off" } else { "alwaysOn" };
        let command = doc! { "configureFailPoint": "stopReplProducer", "mode": mode };
        secondary.database("admin").run_command(command).await
    };

    replicates(false).await?;
    let (store, documents) = (hasty.store(event("a-b", 1)), hasty.documents());
    let (stored, put, began) =
        futures::join!(store, documents.put(note("new")), eventually(async || is_under_way(&admin, "insert").await));
    began?;
    for late in [stored.map(drop), put.map(drop)] {
        let late = late.expect_err("no majority has it");
        assert!(matches!(late.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{late:?}");
        assert_eq!(late.outcome(), Outcome::Unknown, "{late:?}");
    }
    timeout(SOON, eventually(async || !is_under_way(&admin, "insert").await)).await??;
    replicates(true).await?;
    eventually(async || hasty.store(event("a-b", 2)).await.is_ok()).await
}

/// Whether a command of a provider is at work.
async fn is_under_way(admin: &Database, command: &str) -> bool {
    let command = format!("command.{command}");
    let found =
        doc! { "currentOp": true, "active": true, "ns": { "$regex": "^agent_memory" }, command: { "$exists": true } };
    let found = admin.run_command(found).await.expect("an answer");
    !found.get_array("inprog").expect("a list").is_empty()
}

pub(crate) async fn reads_tell_the_server_their_time() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let database = admin(&server.url()).await?.client().database("agent_memory");
    // So that there is something to count.
    let begun = doc! { "$set": { "complete": false, "mark": Bson::MinKey, "done": 0_i64 } };
    database.collection::<Document>("schema_migrations").update_one(doc! { "name": NO_WORDS }, begun).await?;
    database.run_command(doc! { "profile": 2 }).await?;
    let (id, documents) = (provider.store(event("a-b", 1)).await?, provider.documents());
    let keyed = || event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("key").expect("a key"));
    assert_eq!(provider.store(keyed()).await?, provider.store(keyed()).await?);
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    provider.update(id, MemoryPatch::new()).await?;
    provider.get(id).await?;
    let query = || MemoryQuery::builder().limit(1);
    for query in [query().all(), query().under("a"), query().prefix("a")] {
        provider.query(&query.build()?).await?;
    }
    let collection = documents.put(note("x")).await?.collection;
    documents.put(note("x")).await?;
    documents.query(&DocumentQuery::builder(collection.clone()).all().build()?).await?;
    documents.collections().await?;
    provider.history(&History::of(id)).await?;
    provider.tombstone(&id.into()).await?;
    documents.remove(&DocumentSelection::matching(DocumentQuery::builder(collection.clone()).under("a"))?, 1).await?;
    provider.check_health().await?;
    provider.backfill().await?;
    database.run_command(doc! { "profile": 0 }).await?;

    let mut reads =
        database.collection::<Document>("system.profile").find(doc! { "op": { "$in": ["query", "command"] } }).await?;
    let mut kinds = HashSet::new();
    while reads.advance().await? {
        let command = reads.deserialize_current()?.get_document("command")?.clone();
        let (kind, target) = command.iter().next().ok_or("no command")?;
        if ["find", "aggregate"].contains(&kind.as_str()) {
            assert!(command.contains_key("maxTimeMS"), "{command}");
            kinds.insert(format!("{kind} {}", target.as_str().unwrap_or_default()));
        }
    }
    let expected = ["memories", "documents", "history", "tombstones", "idempotency_keys", "schema_migrations"]
        .map(|name| format!("find {name}"));
    let searches = ["aggregate memories", "aggregate documents"].map(str::to_owned);
    assert_eq!(kinds, expected.into_iter().chain(searches).collect());
    Ok(())
}
