//! Servers that disappear, and primaries that are replaced.

use super::erasure::Held;
use super::*;

/// The space of the memory that is stored last.
const END: &str = "end";
/// Another number of times that the primary is killed.
const ROUNDS: &str = "MEMORY_TEST_MONGO_ROUNDS";

pub(crate) async fn calls_work_again_after_a_restart() -> CaseResult {
    let mut server = LocalMongo::start()?;
    let provider = open(config(&format!("{}&serverSelectionTimeoutMS=500", server.url()))).await?;
    let id = provider.store(event("a-b", 1)).await?;
    server.kill(0)?;
    let down = provider.check_health().await.expect_err("the server is down");
    assert_eq!(down.kind(), ErrorKind::Unavailable, "{down:?}");
    let down = provider.store(event("a-b", 2)).await.expect_err("the server is down");
    assert_eq!(down.kind(), ErrorKind::Unavailable, "{down:?}");
    server.restart(0)?;
    let provider = Arc::new(provider);
    eventually(async || provider.check_health().await.is_ok()).await?;
    assert_eq!(provider.get(id).await?.map(|memory| memory.id), Some(id));
    let patch = MemoryPatch::new().with_status(Status::Completed);
    assert_eq!(provider.update(id, patch).await?.revision.get(), 2);
    Ok(())
}

/// Until a majority has the first write of its term, a new primary does not know which earlier writes a majority has
/// acknowledged: reads wait.
pub(crate) async fn a_new_primary_is_read_when_it_knows() -> CaseResult {
    let server = LocalMongo::start_with(3, &["--setParameter", "enableTestCommands=1"])?;
    // Making the indexes may take longer than a call has here.
    open(config(&server.url())).await?.shutdown().await?;
    let provider = open(config(&format!("{}&deadline_ms=2000", server.url()))).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let old = server.primary()?;
    let elected = (old + 1) % 3;
    let nodes = nodes(&server).await?;
    let admin = nodes[elected].database("admin");
    others_replicate(&nodes, elected, false).await?;
    eventually(async || admin.run_command(doc! { "replSetStepUp": 1 }).await.is_ok()).await?;
    eventually(async || {
        let hello = admin.run_command(doc! { "hello": 1 }).await.expect("an answer");
        hello.get_bool("isWritablePrimary").is_ok_and(|is_primary| is_primary)
    })
    .await?;
    // While the driver looks for the primary, the caller gets the same error.
    eventually(async || {
        let late = provider.get(id).await.expect_err("what a majority has is not known");
        late.kind() == ErrorKind::Timeout
    })
    .await?;
    others_replicate(&nodes, elected, true).await?;
    eventually(async || provider.get(id).await.is_ok_and(|found| found.is_some())).await
}

/// The feed delivers majority-committed changes. While the majority lags behind the primary, the operator is told so.
pub(crate) async fn an_operator_is_told_of_a_majority_that_lags() -> CaseResult {
    let server = LocalMongo::start_with(3, &["--setParameter", "enableTestCommands=1"])?;
    let config = config(&server.url());
    open(config.clone()).await?;
    let (primary, nodes) = (server.primary()?, nodes(&server).await?);
    let held_back = async || memory_mongo::inspect(&config).await.expect("an answer").held_back;
    eventually(async || held_back().await.is_none()).await?;
    others_replicate(&nodes, primary, false).await?;
    let rows = nodes[primary].database("other").collection::<Document>("rows");
    let alone = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
    eventually(async || {
        rows.insert_one(doc! {}).write_concern(alone.clone()).await.expect("the primary writes");
        held_back().await.is_some_and(|held_back| held_back.by.contains("majority") && held_back.longest.is_some())
    })
    .await?;
    others_replicate(&nodes, primary, true).await?;
    eventually(async || held_back().await.is_none()).await
}

/// Until a majority has an erasure, an election may undo it and other reads show the memory, so no call answers
/// `Erased`.
pub(crate) async fn a_refusal_waits_for_a_majority() -> CaseResult {
    let server = LocalMongo::start_with(3, &["--setParameter", "enableTestCommands=1"])?;
    let provider = Arc::new(open(config(&server.url())).await?);
    let hasty = Arc::new(open(config(&format!("{}&deadline_ms=5000", server.url()))).await?);
    let (admin, primary, nodes) = (admin(&server.url()).await?, server.primary()?, nodes(&server).await?);
    let keyed = || event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("key").expect("valid"));
    let id = provider.store(keyed()).await?;
    let erasure = Erasure::records([id.into()], "why")?;

    // A store has found the memory with its key, and reads the memory while another call erases it.
    let held = Held::at(&admin, "waitInFindBeforeMakingBatch", "agent_memory.idempotency_keys").await?;
    let (storing, memory) = (Arc::clone(&hasty), keyed());
    let stored = tokio::spawn(async move { storing.store(memory).await });
    held.wait(&admin).await?;
    others_replicate(&nodes, primary, false).await?;
    let (erasing, asked) = (Arc::clone(&provider), erasure.clone());
    let erased = tokio::spawn(async move { erasing.erase(&asked).await });
    let tombstones = nodes[primary].database("agent_memory").collection::<Document>("tombstones");
    eventually(async || tombstones.count_documents(doc! {}).await.is_ok_and(|count| count > 0)).await?;
    held.release(&admin).await?;

    let patch = MemoryPatch::new().with_status(Status::Completed);
    let (stored, updated, again) = futures::join!(stored, hasty.update(id, patch), hasty.erase(&erasure));
    for told in [stored?.map(drop), updated.map(drop), again.map(drop)] {
        let late = told.expect_err("no majority has the erasure");
        assert!(matches!(late.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{late:?}");
    }
    assert!(provider.get(id).await?.is_some(), "a read shows the erasure");
    others_replicate(&nodes, primary, true).await?;
    assert_eq!(erased.await??.records, [id.into()]);
    assert_eq!(hasty.store(keyed()).await.expect_err("its memory was erased").kind(), ErrorKind::Erased);
    Ok(())
}

/// A call that waits for a new primary has written nothing before, so it begins anew there and is done.
pub(crate) async fn calls_wait_for_a_new_primary() -> CaseResult {
    let mut server = LocalMongo::start_with(3, &[])?;
    let provider = open(config(&server.url())).await?;
    let (id, documents) = (provider.store(event("a-b", 1)).await?, provider.documents());
    let (mut kept, mut replaced) = (Vec::new(), Vec::new());
    for number in 0..2 {
        kept.push(documents.put(note(&format!("kept-{number}"))).await?);
        replaced.push(documents.put(note(&format!("replaced-{number}"))).await?);
    }
    for round in 2..4 {
        let mut new = kept.clone();
        for document in &mut new {
            document.id = DocumentId::parse(format!("{}-{round}", document.id))?;
        }
        for document in &mut replaced {
            document.revision = Revision::new(round)?;
        }
        let primary = server.primary()?;
        server.kill(primary)?;
        let (again, written, newer, updated, put) = futures::join!(
            documents.restore(kept.clone()),
            documents.restore(new),
            documents.restore_newer(replaced.clone()),
            provider.update(id, MemoryPatch::new().with_status(Status::Completed)),
            documents.put(note("put")),
        );
        assert_eq!((again?.equal, written?.written, newer?.written), (2, 2, 2));
        assert_eq!(updated?.revision.get(), round);
        put?;
        server.restart(primary)?;
    }
    Ok(())
}

/// A client for each node.
async fn nodes(server: &LocalMongo) -> mongodb::error::Result<Vec<Client>> {
    let mut nodes = Vec::new();
    for node in 0..3 {
        let options = mongodb::options::ClientOptions::parse(server.url_of(node)).await?;
        nodes.push(Client::with_options(options)?);
    }
    Ok(nodes)
}

/// Stops the replication of all nodes but one, or resumes it. They still vote.
async fn others_replicate(nodes: &[Client], but: usize, do_they: bool) -> mongodb::error::Result<()> {
    let mode = if do_they { "off" } else { "alwaysOn" };
    for (_, node) in nodes.iter().enumerate().filter(|(node, _)| *node != but) {
        node.database("admin").run_command(doc! { "configureFailPoint": "stopReplProducer", "mode": mode }).await?;
    }
    Ok(())
}

/// The primary of three nodes is killed under load, again and again. A watch continues from its last token, and misses
/// nothing.
pub(crate) async fn acknowledged_stores_survive_elections() -> CaseResult {
    const TASKS: usize = 8;
    const BEFORE: usize = 100;
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let mut server = LocalMongo::start_with(3, &[])?;
    let provider = Arc::new(open(config(&server.url())).await?);
    let (mut acknowledged, mut expected) = (HashSet::new(), 0);
    let begun = provider.watch(&memories()).await?.next().await.ok_or("the watch has ended")??;
    let following = tokio::spawn(follow(Arc::clone(&provider), begun.token.into()));
    for round in 0..rounds {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let progress = Arc::new(AtomicUsize::new(0));
        let start = |task| writer(&provider, round * TASKS + task, Arc::clone(&progress), stopped.clone());
        let tasks: Vec<_> = (0..TASKS).map(start).collect();
        let primary = server.primary()?;
        eventually(async || progress.load(Ordering::Relaxed) >= BEFORE).await?;
        server.kill(primary)?;
        // The others elect a new one, and the writers continue by themselves.
        let after = provider.store(event("after", round as i64)).await?;
        acknowledged.insert(after);
        expected += 1;
        stop.send(true)?;
        for task in tasks {
            let (stored, count) = task.await??;
            acknowledged.extend(stored);
            expected += count;
        }
        server.restart(primary)?;
        assert_eq!(provider.check_health().await?.engine, "mongo");
    }
    acknowledged.insert(provider.store(event(END, 0)).await?);
    expected += 1;
    let told = following.await??;
    let found = all(&provider).await?;
    let ids: HashSet<_> = found.iter().copied().collect();
    println!("{rounds} primaries killed, {} stores acknowledged, {} found", acknowledged.len(), found.len());
    assert_eq!(ids.len(), found.len(), "an id came twice");
    assert!(acknowledged.is_subset(&ids), "an acknowledged store is lost");
    assert!(ids.is_subset(&told), "the feed has a gap");
    assert_eq!((acknowledged.len(), found.len()), (expected, expected), "a store was lost or done twice");
    Ok(())
}

fn memories() -> Watch {
    Watch::new(Watched::Memories, MemoryQuery::builder().all()).expect("a valid watch")
}

/// Watches until the memory in [`END`] comes, and returns the ids of all changes. Continues from the last token if the
/// server is away.
async fn follow(provider: Arc<MongoMemory>, mut from: WatchFrom) -> Result<HashSet<MemoryId>, Error> {
    let mut told = HashSet::new();
    loop {
        let mut changes = match provider.watch(&memories().from(from.clone())).await {
            Ok(changes) => changes,
            Err(error) if error.is_retryable() => continue,
            Err(error) => return Err(error),
        };
        while let Some(change) = changes.next().await {
            let change = match change {
                Ok(change) => change,
                Err(error) if error.is_retryable() => break,
                Err(error) => return Err(error),
            };
            from = change.token.into();
            if let ChangeKind::Stored(Record::Memory(memory)) = change.kind {
                told.insert(memory.id);
                if memory.space_id.as_str() == END {
                    return Ok(told);
                }
            }
        }
    }
}

/// Stores until it is told to stop; every second store has a key and is repeated. Returns the ids, and the number of
/// memories.
fn writer(
    provider: &Arc<MongoMemory>,
    number: usize,
    progress: Arc<AtomicUsize>,
    stopped: tokio::sync::watch::Receiver<bool>,
) -> JoinHandle<Result<(Vec<MemoryId>, usize), Error>> {
    let provider = Arc::clone(provider);
    tokio::spawn(async move {
        let (mut stored, mut count) = (Vec::new(), 0);
        while !*stopped.borrow() || count < 2 {
            let event = event(&format!("writer-{number}"), count as i64);
            if count % 2 == 0 {
                stored.push(provider.store(event).await?);
            } else {
                let event = event.with_idempotency_key(IdempotencyKey::parse(format!("{number}-{count}"))?);
                let id = provider.store(event.clone()).await?;
                assert_eq!(provider.store(event).await?, id, "a repetition");
                stored.push(id);
            }
            count += 1;
            progress.fetch_add(1, Ordering::Relaxed);
        }
        Ok((stored, count))
    })
}
