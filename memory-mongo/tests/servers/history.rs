//! Histories while programs race, and of a large size.

use memory_core::engine::{Access, Reader};

use super::*;

/// Two programs whose clocks are days apart put and remove one document: its entries are in the order of the commits
/// (H1, H5).
pub(crate) async fn entries_have_the_order_of_their_commits() -> CaseResult {
    const ROUNDS: usize = 20;
    let server = LocalMongo::start()?;
    let one = DocumentSelection::ids(note("raced").collection, [DocumentId::parse("raced")?])?;
    let mut tasks = Vec::new();
    for millis in [0, 1_000_000_000] {
        let mut config = config(&server.url());
        config.clock = Arc::new(ManualClock::new(at(millis)));
        let provider = Arc::new(open(config).await?);
        for task in 0..3 {
            let (provider, one) = (Arc::clone(&provider), one.clone());
            tasks.push(tokio::spawn(async move {
                let documents = provider.documents();
                for round in 0..ROUNDS {
                    match (task + round) % 3 {
                        0 => drop(documents.remove(&one, 1).await?),
                        _ => drop(documents.put(note("raced")).await?),
                    }
                }
                Ok::<_, Error>(())
            }));
        }
    }
    for task in tasks {
        task.await??;
    }

    let rows = admin(&server.url()).await?.client().database("agent_memory").collection::<Document>("history");
    let mut entries = rows.find(doc! {}).sort(doc! { "_id": 1 }).await?;
    let (mut place, mut revision) = (0, 0);
    while entries.advance().await? {
        let entry = entries.deserialize_current()?;
        place += 1;
        assert_eq!(entry.get_document("_id")?.get_i64("place")?, place);
        let is_removal = entry.get_bool("isRemoval")?;
        let due = if is_removal { revision } else { revision + 1 };
        assert_eq!(entry.get_i64("revision")?, due, "place {place} behind revision {revision}");
        assert_eq!(entry.get_binary_generic("before")?.is_empty(), revision == 0, "place {place}");
        revision = if is_removal { 0 } else { due };
    }
    let provider = open(config(&server.url())).await?;
    let record = RecordId::from((note("raced").collection, DocumentId::parse("raced")?));
    let versions = provider.history(&History::of(record).limit(1_000)?.with_removed()).await?.versions;
    assert_eq!(versions.len() as i64, place, "one for each entry");
    assert!(place >= 4 * ROUNDS as i64, "{place} entries of {} puts", 4 * ROUNDS);
    Ok(())
}

/// Measured by the server's count of examined rows: a page of a history costs what it holds, however long other
/// histories are.
pub(crate) async fn histories_walk_an_index() -> CaseResult {
    const UPDATES: u64 = 150;
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let ids = provider.store_many((0..3).map(|number| event("a-b", number)).collect()).await?;
    for _ in 0..UPDATES {
        for id in &ids {
            provider.update(*id, MemoryPatch::new().with_status(Status::Running)).await?;
        }
    }
    let database = admin(&server.url()).await?.client().database("agent_memory");
    database.run_command(doc! { "profile": 2 }).await?;
    let page = provider.history(&History::of(ids[1]).limit(10)?).await?;
    let next = page.next.ok_or("there is no second page")?;
    provider.history(&History::of(ids[1]).limit(10)?.cursor(&next)).await?;
    provider.get_as_of(&ids[1].into(), page.versions[0].committed_at.ok_or("no time")?).await?;
    database.run_command(doc! { "profile": 0 }).await?;
    assert_eq!(page.versions[0].revision.get(), UPDATES + 1);

    let searched = doc! { "op": "query", "ns": "agent_memory.history" };
    let mut searches = database.collection::<Document>("system.profile").find(searched).await?;
    let mut count = 0;
    while searches.advance().await? {
        let search = searches.deserialize_current()?;
        assert!(search.get_str("planSummary")?.contains("IXSCAN"), "{search}");
        assert!(!search.contains_key("hasSortStage"), "{search}");
        let (keys, given) = (search.get_i32("keysExamined")?, search.get_i32("nreturned")?);
        assert!((1..=64).contains(&given) && keys <= given + 1, "{search}");
        count += 1;
    }
    assert_eq!(count, 3, "one for each call");
    Ok(())
}

/// Few entries are read at once if they hold long texts.
pub(crate) async fn a_slice_of_large_entries_is_short() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let engine = MongoEngine::open(&config(&server.url())).await?;
    let id = provider.store(event("a-b", 1)).await?;
    for letter in ["a", "b", "c", "d", "e", "f"] {
        let text = format!("\"{}\"", letter.repeat(2 << 20));
        provider.update(id, MemoryPatch::new().set_context(Context::parse(&text)?)).await?;
    }
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let rows = engine.run(Access::ReadLatest, until, Arc::new(RecordId::from(id)), |reader, of: &RecordId| {
        Box::pin(reader.history(of, u64::MAX, 64))
    });
    let places: Vec<_> = rows.await?.iter().map(|row| row.place).collect();
    assert_eq!(places, [7, 6], "what comes behind 4 MiB waits for the next slice");
    assert_eq!(provider.history(&History::of(id)).await?.versions.len(), 7);
    engine.close().await?;
    Ok(())
}
