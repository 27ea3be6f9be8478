//! L1 to L8: opening, closing, health, schemas, namespaces, deadlines, backfills and heavy calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use memory_core::{
    DocumentQuery, DocumentSelection, Durability, ErrorKind, Expect, History, MemoryId, MemoryPatch, MemoryProvider,
    MemoryQuery, Outcome, Status, Watch, Watched,
};

use crate::case::{CaseResult, Stage, chapter};
use crate::fixture::{
    at, collection, context, document_id, ids, key, kind, ledger, metadata, new_document, new_memory, query, race,
    spaces, the, trigger, walk, walk_documents,
};

chapter!("lifecycle":
    init_twice_keeps_what_is_stored ["L1"],
    eight_handles_can_init_at_once ["L1"],
    init_beside_a_writer_loses_nothing ["L1", "W1"],
    every_call_before_init_is_closed ["L2"],
    every_call_after_shutdown_is_closed ["L2"],
    shutdown_twice_and_before_init_is_harmless ["L2"],
    shutdown_lets_calls_in_flight_finish ["L2"],
    shutdown_closes_its_own_handle_only ["L2", "L5"],
    health_tells_what_the_engine_is ["L3"],
    health_leaves_no_trace ["L3"],
    health_answers_beside_writers ["L3"],
    a_schema_of_this_program_is_taken_as_it_is ["L4"],
    a_newer_schema_is_refused_and_left_alone ["L4"] needs NewerSchema,
    two_namespaces_share_nothing ["L5", "D2"],
    an_idempotency_key_belongs_to_its_namespace ["L5", "W3"],
    six_namespaces_live_in_one_process ["L5"],
    a_call_with_a_tight_deadline_answers_or_times_out ["L6"],
    a_provider_works_after_a_timeout ["L6", "W10"],
    a_late_write_is_unknown_and_a_late_read_is_not_done ["L6", "W11"],
    a_late_batch_is_there_as_a_whole_or_not_at_all ["L6", "W4"],
    a_new_ledger_lacks_nothing ["L7", "L1"],
    calls_get_by_beside_many_heavy_ones ["L8"],
);

/// A second `init` changes nothing, on the same handle or on another one (BUGS.md, row 70).
async fn init_twice_keeps_what_is_stored(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a-1", 1)).await?;
    provider.init().await?;
    assert!(provider.get(id).await?.is_some(), "a second init lost a memory");
    stage.open().await?;
    assert!(provider.get(id).await?.is_some(), "the init of a second handle lost a memory");
    Ok(())
}

/// Eight processes may start on an empty engine at once, each with several callers (langgraph#2887: concurrent `setup` raced).
async fn eight_handles_can_init_at_once(stage: Stage) -> CaseResult {
    let handles = try_join_all((0..8).map(|_| stage.open_uninitialised())).await?;
    for init in race(&handles, 24, |handle, _| async move { handle.init().await }).await {
        init?;
    }
    for (number, handle) in handles.iter().enumerate() {
        handle.store(new_memory(&format!("a-{number}"), number as i64)).await?;
    }
    for handle in &handles {
        assert_eq!(ledger(&**handle).await?.len(), 8, "handles that were initialised together see different ledgers");
    }
    Ok(())
}

/// A process that starts while another one writes disturbs no write.
async fn init_beside_a_writer_loses_nothing(stage: Stage) -> CaseResult {
    let writer = stage.open().await?;
    let writes = async {
        let mut stored = Vec::new();
        for number in 0..40 {
            stored.push(writer.store(new_memory("a", number)).await?);
        }
        Ok(stored)
    };
    let starts = try_join_all((0..4).map(|_| stage.open()));
    let (stored, handles) = futures::try_join!(writes, starts)?;
    for handle in &handles {
        assert_eq!(ids(&ledger(&**handle).await?), stored, "a memory was lost while another handle started");
    }
    Ok(())
}

/// Before `init`, calls answer `Closed` and have no effect.
async fn every_call_before_init_is_closed(stage: Stage) -> CaseResult {
    // The memory exists, so calls fail only because the provider is not initialised.
    let id = stage.open().await?.store(new_memory("a", 1)).await?;
    let provider = stage.open_uninitialised().await?;
    assert_all_closed(&*provider, id).await;
    provider.init().await?;
    assert_eq!(ids(&ledger(&*provider).await?), [id], "a refused call had an effect");
    Ok(())
}

/// After `shutdown`, calls answer `Closed`, and do not panic (maiar-ai: the pool ended under its users).
async fn every_call_after_shutdown_is_closed(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    let documents = provider.documents();
    provider.shutdown().await?;
    assert_all_closed(&*provider, id).await;
    let got = documents.get(&collection("notes"), &document_id("d")).await;
    assert_eq!(kind(got), Some(ErrorKind::Closed), "a document store from before the shutdown is not closed");
    assert_eq!(kind(provider.init().await), Some(ErrorKind::Closed), "a provider that was shut down stays so");
    assert_eq!(ids(&ledger(&*stage.open().await?).await?), [id], "a refused call had an effect");
    Ok(())
}

/// Closing a closed provider, or one that was never open, is no error (maiar-ai: a second shutdown failed).
async fn shutdown_twice_and_before_init_is_harmless(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    provider.shutdown().await?;
    provider.shutdown().await?;
    try_join_all((0..4).map(|_| provider.shutdown())).await?;
    let never_opened = stage.open_uninitialised().await?;
    never_opened.shutdown().await?;
    assert_eq!(kind(never_opened.init().await), Some(ErrorKind::Closed), "shutdown before init closes too");
    Ok(())
}

/// A call that has started before the shutdown is completed, and its memory exists afterwards.
async fn shutdown_lets_calls_in_flight_finish(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let mut stores: Vec<_> = (0..16).map(|number| provider.store(new_memory("a", number))).collect();
    let mut stored = Vec::new();
    // Each is polled once, so it has started; some may be done by then.
    let mut waiting = Vec::new();
    for mut store in stores.drain(..) {
        match futures::poll!(&mut store) {
            std::task::Poll::Ready(id) => stored.push(id?),
            std::task::Poll::Pending => waiting.push(store),
        }
    }
    let (finished, shutdown) = futures::join!(try_join_all(waiting), provider.shutdown());
    shutdown?;
    stored.extend(finished?);
    stored.sort_unstable();
    let mut present = ids(&ledger(&*stage.open().await?).await?);
    present.sort_unstable();
    assert_eq!(present, stored, "a store in flight was lost by the shutdown");
    Ok(())
}

/// Closing a handle closes no other one, neither on the same data nor elsewhere.
async fn shutdown_closes_its_own_handle_only(stage: Stage) -> CaseResult {
    let (first, second, elsewhere) = (stage.open().await?, stage.open().await?, stage.elsewhere().open().await?);
    first.shutdown().await?;
    second.store(new_memory("a", 1)).await?;
    elsewhere.store(new_memory("a", 1)).await?;
    assert_eq!((ledger(&*second).await?.len(), ledger(&*elsewhere).await?.len()), (1, 1));
    Ok(())
}

/// A health check reports the engine, its version, that of the schema, the latency, and how durable acknowledged writes are (L3).
async fn health_tells_what_the_engine_is(stage: Stage) -> CaseResult {
    let health = stage.open().await?.check_health().await?;
    assert!(!health.engine.is_empty(), "the engine has no name");
    assert!(!health.server_version.is_empty(), "the server has no version");
    assert!(health.schema_version > 0, "an initialised schema has a version");
    assert!(health.latency <= Duration::from_secs(2), "a check that takes longer must be `Unavailable`");
    match health.durability {
        Durability::Durable => {}
        Durability::AtRisk { reason, .. } | Durability::Unknown { reason } => {
            assert!(!reason.is_empty(), "`at risk` and `unknown` must have a reason");
        }
    }
    Ok(())
}

/// Health checks change neither the ledger nor the collections (maiar-ai: the check opened a transaction).
async fn health_leaves_no_trace(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    let before = the(&*provider, id).await?;
    for _ in 0..20 {
        provider.check_health().await?;
    }
    assert_eq!(ledger(&*provider).await?, [before], "a health check changed the ledger");
    assert_eq!(provider.documents().collections().await?, [], "a health check made a collection");
    Ok(())
}

/// A check under load answers, and does not hold up the load.
async fn health_answers_beside_writers(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let writes = try_join_all((0..40).map(|number| provider.store(new_memory("a", number))));
    let checks = try_join_all((0..8).map(|_| provider.check_health()));
    futures::try_join!(writes, checks)?;
    assert_eq!(ledger(&*provider).await?.len(), 40);
    Ok(())
}

/// A program opens the schema that it has made, and finds its version.
async fn a_schema_of_this_program_is_taken_as_it_is(stage: Stage) -> CaseResult {
    let first = stage.open().await?;
    let version = first.check_health().await?.schema_version;
    first.shutdown().await?;
    for _ in 0..3 {
        let again = stage.open().await?;
        assert_eq!(again.check_health().await?.schema_version, version, "opening changed the schema's version");
        again.shutdown().await?;
    }
    Ok(())
}

/// At each start, `init` refuses the schema of a later program with an error that tells its version and name, and other calls answer
/// `Closed`.
async fn a_newer_schema_is_refused_and_left_alone(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    let id = provider.store(new_memory("a", 1)).await?;
    provider.shutdown().await?;
    stage.harness().make_newer(stage.namespace()).await?;
    for start in 1..=3 {
        let earlier = stage.open_uninitialised().await?;
        let error = earlier.init().await.expect_err("a newer schema");
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "start {start}: {error:?}");
        assert!(error.message().contains(r#"version 99 "future""#), "start {start}: {error}");
        assert_eq!(kind(earlier.get(id).await), Some(ErrorKind::Closed), "start {start}");
        assert_eq!(kind(earlier.store(new_memory("a", 2)).await), Some(ErrorKind::Closed), "start {start}");
    }
    Ok(())
}

/// Two tenants on one server never meet (mastra#2730: two in-memory databases bled into each other).
async fn two_namespaces_share_nothing(stage: Stage) -> CaseResult {
    let (here, there) = (stage.open().await?, stage.elsewhere().open().await?);
    let id = here.store(new_memory("a-1", 1)).await?;
    here.documents().put(new_document("notes", "d", "a-1", "here")).await?;

    assert_eq!(there.get(id).await?, None, "a memory is seen from another namespace");
    assert_eq!(ledger(&*there).await?, [], "a ledger is seen from another namespace");
    let update = there.update(id, MemoryPatch::new().with_status(Status::Failed)).await;
    assert_eq!(kind(update), Some(ErrorKind::NotFound), "a memory can be changed from another namespace");
    assert_eq!(there.documents().collections().await?, [], "a collection is seen from another namespace");
    assert_eq!(there.documents().get(&collection("notes"), &document_id("d")).await?, None);
    let found = walk_documents(&*there.documents(), "notes", |query| query.all().text("here")).await?;
    assert_eq!(found, [], "a document is found from another namespace");

    there.documents().put(new_document("notes", "d", "a-1", "there").expect(Expect::Absent)).await?;
    let selection = DocumentSelection::ids(collection("notes"), [document_id("d")])?;
    there.documents().remove(&selection, 1).await?;
    let document = here.documents().get(&collection("notes"), &document_id("d")).await?;
    let content = document.map(|document| document.content.as_str().to_owned());
    assert_eq!(content.as_deref(), Some("here"), "a document was changed from another namespace");
    Ok(())
}

/// The same key in two namespaces stands for two memories.
async fn an_idempotency_key_belongs_to_its_namespace(stage: Stage) -> CaseResult {
    let (here, there) = (stage.open().await?, stage.elsewhere().open().await?);
    let memory = new_memory("a", 1).with_idempotency_key(key("k"));
    let first = here.store(memory.clone()).await?;
    let second = there.store(memory).await?;
    assert_ne!(first, second, "a key found a memory of another namespace");
    let mut other = new_memory("b", 1).with_idempotency_key(key("k"));
    assert_eq!(kind(there.store(other.clone()).await), Some(ErrorKind::Conflict));
    other.idempotency_key = Some(key("k2"));
    there.store(other).await?;
    assert_eq!((ledger(&*here).await?.len(), ledger(&*there).await?.len()), (1, 2));
    Ok(())
}

/// A host keeps one namespace for each agent, all in one process and all at work.
async fn six_namespaces_live_in_one_process(stage: Stage) -> CaseResult {
    let stages: Vec<_> = (0..6).map(|_| stage.elsewhere()).collect();
    let providers = try_join_all(stages.iter().map(Stage::open)).await?;
    let writes = providers.iter().enumerate().flat_map(|(number, provider)| {
        (0..10).map(move |time| provider.store(new_memory(&format!("agent-{number}"), time)))
    });
    try_join_all(writes).await?;
    for (number, provider) in providers.iter().enumerate() {
        let own = format!("agent-{number}");
        assert_eq!(spaces(&ledger(&**provider).await?), [own.as_str(); 10], "namespaces are mixed up");
    }
    Ok(())
}

/// However short the time, a call gives the right answer or `Timeout`, and every acknowledged record exists.
async fn a_call_with_a_tight_deadline_answers_or_times_out(stage: Stage) -> CaseResult {
    let patient = stage.open().await?;
    for deadline in [Duration::from_nanos(1), Duration::from_millis(1), Duration::from_millis(20)] {
        let Some(hasty) = open_in_time(&stage, deadline).await? else { continue };
        for number in 0..20 {
            let space = format!("{}-{number}", deadline.as_nanos());
            match hasty.store(new_memory(&space, 1)).await {
                Ok(id) => assert_eq!(the(&*patient, id).await?.space_id.as_str(), space),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}"),
            }
            match hasty.query(&query(|query| query.exact("nobody"))).await {
                Ok(page) => assert_eq!(page.memories, []),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}"),
            }
        }
    }
    Ok(())
}

/// A call that ran out of time breaks nothing else: the same provider continues to answer.
async fn a_provider_works_after_a_timeout(stage: Stage) -> CaseResult {
    stage.open().await?;
    let Some(hasty) = open_in_time(&stage, Duration::from_millis(100)).await? else {
        // Even `init` takes longer on this engine, so there is no such provider.
        return Ok(());
    };
    let text = trigger(&format!("\"{}\"", "x".repeat(4_000)));
    let large = (0..10_000).map(|time| {
        let mut memory = new_memory("large", time);
        memory.trigger = text.clone();
        memory
    });
    if let Err(error) = hasty.store_many(large.collect()).await {
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    }
    for attempt in 0.. {
        match hasty.store(new_memory("small", 1)).await {
            Ok(id) => {
                assert_eq!(the(&*stage.open().await?, id).await?.space_id.as_str(), "small");
                return Ok(());
            }
            Err(error) => assert!(error.kind() == ErrorKind::Timeout && attempt < 300, "after the timeout: {error:?}"),
        }
    }
    Ok(())
}

/// After a late write the outcome is unknown; after a late read nothing was written.
async fn a_late_write_is_unknown_and_a_late_read_is_not_done(stage: Stage) -> CaseResult {
    let id = stage.open().await?.store(new_memory("a", 1)).await?;
    let Some(hasty) = open_in_time(&stage, Duration::from_millis(1)).await? else { return Ok(()) };
    for number in 0..50 {
        let patch = MemoryPatch::new().merge_metadata(metadata(&format!(r#"{{"n":{number}}}"#)));
        if let Err(error) = hasty.update(id, patch).await {
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{error:?}");
        }
        if let Err(error) = hasty.get(id).await {
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotDone), "{error:?}");
        }
    }
    Ok(())
}

/// A batch that ran out of time is stored completely or not at all.
async fn a_late_batch_is_there_as_a_whole_or_not_at_all(stage: Stage) -> CaseResult {
    let patient = stage.open().await?;
    let Some(hasty) = open_in_time(&stage, Duration::from_millis(10)).await? else { return Ok(()) };
    for round in 0..5 {
        let space = format!("round-{round}");
        let result = hasty.store_many((0..500).map(|time| new_memory(&space, time)).collect()).await;
        let count = walk(&*patient, |query| query.exact(&space)).await?.len();
        match result {
            Ok(ids) => assert_eq!((ids.len(), count), (500, 500), "an acknowledged batch is not there"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
                assert!(count == 0 || count == 500, "{count} of 500 memories of a late batch are there");
            }
        }
    }
    Ok(())
}

/// A provider with a tight deadline, or `None` if not even its `init` completes in that time.
async fn open_in_time(stage: &Stage, deadline: Duration) -> memory_core::Result<Option<Arc<dyn MemoryProvider>>> {
    let hasty = stage.clone().with_deadline(deadline).open_uninitialised().await?;
    for _ in 0..10 {
        match hasty.init().await {
            Ok(()) => return Ok(Some(hasty)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}"),
        }
    }
    Ok(None)
}

/// Checks that calls on memories and on documents answer `Closed`. Their input is valid, so they can fail for no other reason.
async fn assert_all_closed(provider: &dyn MemoryProvider, id: MemoryId) {
    let memory = new_memory("a", 1);
    let documents = provider.documents();
    let notes = collection("notes");
    let everything = DocumentQuery::builder(notes.clone()).all().build().expect("a valid query");
    let selection = DocumentSelection::ids(notes.clone(), [document_id("d")]).expect("a valid selection");
    let write = new_document("notes", "d", "a", "text");
    let document = write.apply(&document_id("d"), None, at(1)).expect("nothing is expected");
    let watch = Watch::new(Watched::Memories, MemoryQuery::builder().all()).expect("a valid watch");
    let failures = [
        ("check_health", kind(provider.check_health().await)),
        ("store", kind(provider.store(memory.clone()).await)),
        ("store_many", kind(provider.store_many(vec![memory.clone()]).await)),
        ("store_many of nothing", kind(provider.store_many(Vec::new()).await)),
        ("update", kind(provider.update(id, MemoryPatch::new().with_status(Status::Failed)).await)),
        ("update with nothing", kind(provider.update(id, MemoryPatch::new()).await)),
        ("get", kind(provider.get(id).await)),
        ("query", kind(provider.query(&query(|query| query.all())).await)),
        ("watch", kind(provider.watch(&watch).await)),
        ("history", kind(provider.history(&History::of(id)).await)),
        ("get_as_of", kind(provider.get_as_of(&id.into(), at(1_000_000)).await)),
        ("query with limit 0", kind(provider.query(&query(|query| query.all().limit(0))).await)),
        ("restore", kind(provider.restore(vec![memory.into_memory(MemoryId::from_bytes([1; 16]))]).await)),
        ("restore of nothing", kind(provider.restore(Vec::new()).await)),
        ("documents.put", kind(documents.put(write.clone()).await)),
        ("documents.put_many", kind(documents.put_many(vec![write]).await)),
        ("documents.put_many of nothing", kind(documents.put_many(Vec::new()).await)),
        ("documents.get", kind(documents.get(&notes, &document_id("d")).await)),
        ("documents.query", kind(documents.query(&everything).await)),
        ("documents.remove", kind(documents.remove(&selection, 10).await)),
        ("documents.restore", kind(documents.restore(vec![document]).await)),
        ("documents.restore of nothing", kind(documents.restore(Vec::new()).await)),
        ("documents.collections", kind(documents.collections().await)),
    ];
    for (call, failure) in failures {
        assert_eq!(failure, Some(ErrorKind::Closed), "{call} must answer `Closed`");
    }
}

/// A ledger that this program has made has no backfill to complete, neither when it is new nor when it has records,
/// through any handle. Calling `backfill` all the same does not disturb writers.
async fn a_new_ledger_lacks_nothing(stage: Stage) -> CaseResult {
    let provider = stage.open().await?;
    assert_eq!(provider.backfill().await?, None, "a new ledger");
    let stored = provider.store_many((0..2_500).map(|time| new_memory("a-1", time)).collect()).await?;
    let other = stage.open().await?;
    for (number, id) in stored.iter().take(20).enumerate() {
        let patch = MemoryPatch::new().set_context(context(&format!(r#""word{number}""#)));
        let (asked, written) = tokio::join!(other.backfill(), provider.update(*id, patch));
        written?;
        assert_eq!(asked?, None, "beside a writer");
        provider.documents().put(new_document("notes", &number.to_string(), "a-1", "text")).await?;
    }
    for handle in [provider, other, stage.open().await?] {
        assert_eq!(handle.backfill().await?, None);
        assert_eq!(ledger(&*handle).await?.len(), 2_500);
        let found = handle.query(&query(|query| query.all().text("word7"))).await?;
        assert_eq!(ids(&found.memories), [stored[7]]);
    }
    Ok(())
}

/// Many callers repeat queries that find nothing, and removals that find more than `max` documents. Other calls do not wait for these heavy
/// calls, and each heavy call gets its answer, or `Unavailable`, which can be retried.
async fn calls_get_by_beside_many_heavy_ones(stage: Stage) -> CaseResult {
    const CALLERS: usize = 64;
    let provider = stage.open().await?;
    provider.store_many((0..2_000).map(|time| new_memory("a-b", time)).collect()).await?;
    let documents = provider.documents();
    for number in 0..100 {
        let id = format!("d{number}");
        documents.put(new_document("notes", &id, "a-b", "text")).await?;
    }
    let nothing = query(|query| query.all().filter_text("text LIKE '%nowhere%' AND metadata.x IS NOT NULL"));
    let notes = DocumentQuery::builder(collection("notes"));
    let selection = DocumentSelection::matching(notes.all().filter_text("text LIKE '%x%'"))?;
    let (ended, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let mut heavy = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (provider, documents) = (Arc::clone(&provider), Arc::clone(&documents));
        let (nothing, selection) = (nothing.clone(), selection.clone());
        let (ended, is_over) = (Arc::clone(&ended), Arc::clone(&is_over));
        heavy.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let failure = match caller % 4 {
                    0 => kind(documents.remove(&selection, 10).await).filter(|kind| *kind != ErrorKind::LimitExceeded),
                    _ => match provider.query(&nothing).await {
                        Ok(page) => {
                            assert!(page.memories.is_empty() && page.next.is_none());
                            None
                        }
                        Err(error) => {
                            assert_eq!((error.outcome(), error.is_retryable()), (Outcome::NotDone, true));
                            Some(error.kind())
                        }
                    },
                };
                assert!(matches!(failure, None | Some(ErrorKind::Unavailable)), "{failure:?}");
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    // From then on, some heavy calls hold all permits, and the others wait.
    while ended.load(Ordering::Relaxed) < CALLERS {
        if let Some(failed) = heavy.try_join_next() {
            failed?;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // If a call had to wait for a permit, all heavy calls that already wait would end before it, in each round. On a slow
    // machine heavy calls may end before it anyway, so of five rounds only the least number is checked.
    let mut overtaken = [usize::MAX; 4];
    for time in 0..5 {
        let mut before = ended.load(Ordering::Relaxed);
        let mut passed = |call: usize| {
            let now = ended.load(Ordering::Relaxed);
            overtaken[call] = overtaken[call].min(now - before);
            before = now;
        };
        let id = provider.store(new_memory("c", time)).await?;
        passed(0);
        assert!(provider.get(id).await?.is_some());
        passed(1);
        let page = provider.query(&query(|query| query.exact("c").limit(1))).await?;
        assert_eq!(ids(&page.memories), [id]);
        passed(2);
        documents.put(new_document("others", "d", "c", "text")).await?;
        passed(3);
    }
    // A health check has two seconds, which may not be enough on a busy machine, so it is repeated.
    let mut health = provider.check_health().await;
    for _ in 0..10 {
        if health.is_err() {
            health = provider.check_health().await;
        }
    }
    health?;
    is_over.store(true, Ordering::Relaxed);
    while let Some(caller) = heavy.join_next().await {
        caller?;
    }
    let [store, get, query, put] = overtaken;
    let message = format!(
        "at least {store} heavy calls ended within a store, {get} within a get, {query} within a query, {put} within a put"
    );
    assert!(overtaken.iter().all(|overtaken| *overtaken < CALLERS - CALLERS / 8), "{message}");
    Ok(())
}
