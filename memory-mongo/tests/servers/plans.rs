//! The server's own explanation of what a search examines.

use memory_core::engine::{Access, Reader};

use super::*;

/// The server's own explanation of each search that a recall makes: none sorts, and none examines much more than it
/// returns.
pub(crate) async fn recalls_walk_an_index() -> CaseResult {
    const ROWS: i64 = 20_000;
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    for start in (0..ROWS).step_by(5_000) {
        let space = |number| format!("plugin-discord-{}-{}-{number}", number % 100, number % 1_000);
        let status = |number| if number % 500 == 0 { Status::Pending } else { Status::Completed };
        let batch = (start..start + 5_000).map(|number| event(&space(number), number / 3).with_status(status(number)));
        provider.store_many(batch.collect()).await?;
    }
    let database = admin(&server.url()).await?.client().database("agent_memory");
    database.run_command(doc! { "profile": 2 }).await?;
    let query = || MemoryQuery::builder();
    for builder in [
        query().all(),
        query().under("plugin"),
        query().under("plugin-discord-7"),
        query().exact("plugin-discord-7-7-7"),
        query().prefix("plugin-discord-1"),
        query().glob("plugin-discord-1?-*"),
        query().under("plugin-discord-7").under("plugin-discord-8").exact("plugin-discord-9-9-9"),
        query().all().status(Status::Pending),
        query().under("plugin-discord-7").status(Status::Running),
        query().under("plugin").created_before(at(5_000)).created_after(at(4_000)),
        (0..100).fold(query(), |query, number| query.under(format!("plugin-discord-{number}"))),
        query().under("plugin").created_before(at(5_001)).created_after(at(4_999)).limit(1),
    ] {
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let page = provider.query(&builder.clone().order(order).build()?).await?;
            if let Some(cursor) = page.next {
                provider.query(&builder.clone().order(order).cursor(cursor).build()?).await?;
            }
        }
    }
    database.run_command(doc! { "profile": 0 }).await?;

    let mut searches = database.collection::<Document>("system.profile").find(doc! { "op": "query" }).await?;
    let (mut explained, mut within_one) = (0, 0);
    while searches.advance().await? {
        let command = searches.deserialize_current()?.get_document("command")?.clone();
        if !command.get_str("find").is_ok_and(|name| name == "memories") {
            continue;
        }
        let parts = ["find", "filter", "sort", "limit", "projection"];
        let search: Document = command.into_iter().filter(|(name, _)| parts.contains(&name.as_str())).collect();
        let explain = doc! { "explain": &search, "verbosity": "executionStats" };
        let plan = database.run_command(explain).await?;
        let text = plan.get_document("queryPlanner")?.get_document("winningPlan")?.to_string();
        assert!(text.contains("IXSCAN") && !text.contains("COLLSCAN"), "{search} {text}");
        assert!(!text.contains("\"SORT\""), "a blocking sort: {search} {text}");
        let stats = plan.get_document("executionStats")?;
        let count = |name: &str| stats.get_i32(name);
        let (keys, rows, given) = (count("totalKeysExamined")?, count("totalDocsExamined")?, count("nReturned")?);
        // The first entry of each merged list may be examined and not returned.
        let lists = text.matches("IXSCAN").count() as i32;
        assert!(
            keys <= 2 * given + lists && rows <= 2 * given,
            "{keys} keys, {rows} rows for {given}: {search} {text}"
        );
        explained += 1;
        let filter = search.get_document("filter")?.to_string();
        within_one += usize::from(filter.contains("4999") && filter.contains("5001") && !filter.contains("$lte"));
    }
    assert!(explained >= 30, "{explained} searches");
    // After a row of the only wanted millisecond comes the rest of it, and no empty range.
    assert_eq!(within_one, 2, "one in each order");
    Ok(())
}

/// By the server's count over all searches of a recall.
pub(crate) async fn a_filter_and_a_glob_examine_what_their_spaces_hold() -> CaseResult {
    const ROWS: i64 = 20_000;
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let row = |number: i64| {
        // Twenty are sparse, two hundred in each channel, and the rest is dense.
        let space = match number % 100 {
            _ if number % 1_000 == 0 => "t-sparse-1".to_owned(),
            channel @ 1..=9 => format!("t-c{channel}-{number}"),
            _ => format!("t-dense-{number}"),
        };
        let metadata = Metadata::parse(&format!(r#"{{"topic":{}}}"#, (number + number / 100) % 10));
        event(&space, number).with_metadata(metadata.expect("valid"))
    };
    for start in (0..ROWS).step_by(5_000) {
        provider.store_many((start..start + 5_000).map(row).collect()).await?;
    }
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let profile = database.collection::<Document>("system.profile");
    let query = || MemoryQuery::builder().limit(50);
    let every_tenth = "metadata.topic = 7";
    for (query, given, held) in [
        (query().under("t-sparse").filter_text("metadata.topic = 0"), 20, 20),
        (query().under("t-sparse").filter_text(every_tenth), 0, 20),
        (query().under("t-dense").filter_text(every_tenth), 50, 510),
        (query().glob("t-c7-*"), 50, 50),
        (query().glob("t-c7-*x"), 0, 200),
        (query().glob("t-c?-*").filter_text(every_tenth), 50, 510),
        (query().glob("t-s*").filter_text(every_tenth), 0, 20),
    ] {
        let query = query.build()?;
        database.run_command(doc! { "profile": 2 }).await?;
        let found = provider.query(&query).await?.memories.len();
        database.run_command(doc! { "profile": 0 }).await?;
        assert_eq!(found, given, "{query:?}");
        let (mut rows, mut keys) = (0, 0);
        let mut searches = profile.find(doc! { "ns": "agent_memory.memories" }).await?;
        while searches.advance().await? {
            let search = searches.deserialize_current()?;
            rows += search.get_i32("docsExamined")?;
            keys += search.get_i32("keysExamined")?;
        }
        profile.drop().await?;
        // Slices double, so that the last one reaches as far again as all before it, and the first has a row more than a page.
        assert!(
            rows >= held.min(51) && rows <= 2 * held + 51,
            "{rows} rows where {held} are to be examined: {query:?}"
        );
        // Siblings are searched in index keys only: a hundred at once, and two once one of them has filled a slice.
        assert!(keys <= rows + 200, "{keys} keys for {rows} rows: {query:?}");
    }
    Ok(())
}

/// By the server's count over all searches of a query.
pub(crate) async fn a_query_of_documents_examines_what_its_places_hold() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let notes = Collection::parse("notes")?;
    let document = |number: i64| memory_core::Document {
        id: DocumentId::parse(number.to_string()).expect("valid"),
        collection: notes.clone(),
        space_id: SpaceId::parse(if number % 50 == 0 { format!("t-1-{number}") } else { "t-2".to_owned() })
            .expect("valid"),
        content: Content::parse("text").expect("valid"),
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(number).expect("valid"),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    };
    provider.documents().restore((0..20_000).map(document).collect()).await?;
    let database = admin(&server.url()).await?.client().database("agent_memory");
    let profile = database.collection::<Document>("system.profile");
    let query = || DocumentQuery::builder(notes.clone());
    for (query, held) in [
        (query().under("t-1").filter_text("content = 'other'"), 400),
        (query().exact("t-1-50").exact("t-1-950").order(Order::OldestFirst), 2),
        (query().prefix("t-1-19").filter_text("content = 'other'"), 22),
        (query().all().within(SpaceSelector::under("t-1-100")?), 1),
    ] {
        let query = query.build()?;
        database.run_command(doc! { "profile": 2 }).await?;
        provider.documents().query(&query).await?;
        database.run_command(doc! { "profile": 0 }).await?;
        let (mut rows, mut keys) = (0, 0);
        let mut searches = profile.find(doc! { "ns": "agent_memory.documents" }).await?;
        while searches.advance().await? {
            let search = searches.deserialize_current()?;
            rows += search.get_i32("docsExamined")?;
            keys += search.get_i32("keysExamined")?;
        }
        profile.drop().await?;
        assert!((1..=2 * held + 51).contains(&rows), "{rows} rows where {held} are to be examined: {query:?}");
        assert!(keys <= rows + 200, "{keys} keys for {rows} rows: {query:?}");
    }
    Ok(())
}

/// However many documents they hold.
pub(crate) async fn collections_are_listed_from_name_to_name() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    for name in ["notes", "plans", "tasks"] {
        let write = |number: i64| {
            DocumentWrite::new(
                Collection::parse(name).expect("a name"),
                SpaceId::parse("a").expect("a space"),
                Content::parse("x").expect("a content"),
                at(number),
            )
        };
        provider.documents().put_many((0..1_000).map(write).collect()).await?;
    }
    let database = admin(&server.url()).await?.client().database("agent_memory");
    database.run_command(doc! { "profile": 2 }).await?;
    let names: Vec<_> = provider.documents().collections().await?.iter().map(Collection::to_string).collect();
    database.run_command(doc! { "profile": 0 }).await?;
    assert_eq!(names, ["notes", "plans", "tasks"]);
    let listed = doc! { "command.aggregate": "documents" };
    let plan = database.collection::<Document>("system.profile").find_one(listed).await?.ok_or("nothing was listed")?;
    assert!(plan.get_str("planSummary")?.starts_with("DISTINCT_SCAN"), "{plan}");
    assert!(plan.get_i32("keysExamined")? <= 10, "{plan}");
    Ok(())
}

/// By the server's count: a slice costs what it returns, however many rows have no time or a later one.
pub(crate) async fn what_expires_walks_an_index() -> CaseResult {
    const ROWS: i64 = 10_000;
    let server = LocalMongo::start()?;
    let mut config = config(&server.url());
    config.clock = Arc::new(ManualClock::new(at(0)));
    let (provider, engine) = (open(config.clone()).await?, MongoEngine::open(&config).await?);
    let memory = |number: i64| match number % 20 {
        0 => event("a-b", number).expires_at(at(1 + number / 1_000)),
        1 => event("a-b", number).expires_at(at(ROWS)),
        _ => event("a-b", number),
    };
    for start in (0..ROWS).step_by(5_000) {
        provider.store_many((start..start + 5_000).map(memory).collect()).await?;
    }
    let documents = provider.documents();
    documents.put_many((0..500).map(|number| note(&number.to_string()).expires_at(at(3))).collect()).await?;

    let database = admin(&server.url()).await?.client().database("agent_memory");
    database.run_command(doc! { "profile": 2 }).await?;
    let (mut behind, mut found) = (None::<(Timestamp, RecordId)>, Vec::new());
    loop {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let slice = engine.run(Access::ReadLatest, until, Arc::new(behind), |reader, behind: &Option<_>| {
            Box::pin(reader.expired(at(9), behind.as_ref(), 64))
        });
        let slice = slice.await?;
        let is_last = slice.len() < 64;
        behind = slice.last().cloned();
        found.extend(slice);
        if is_last {
            break;
        }
    }
    database.run_command(doc! { "profile": 0 }).await?;
    assert!(found.is_sorted_by_key(|(at, record)| (*at, record.to_key())));
    assert_eq!(found.len(), 950);

    let searched = doc! { "op": "query", "command.hint": "expiry" };
    let mut searches = database.collection::<Document>("system.profile").find(searched).await?;
    let mut count = 0;
    while searches.advance().await? {
        let search = searches.deserialize_current()?;
        let plan = search.get_str("planSummary")?;
        assert!(plan == "EOF" || plan.contains("IXSCAN") && !plan.contains("COLLSCAN"), "{search}");
        assert!(!search.contains_key("hasSortStage"), "{search}");
        let [keys, rows] = [search.get_i32("keysExamined")?, search.get_i32("docsExamined")?];
        let given = search.get_i32("nreturned")?;
        assert!(keys <= given + 4 && rows <= given + 4, "{keys} keys, {rows} rows for {given}: {search}");
        count += 1;
    }
    assert_eq!(count, 2 * (950 / 64 + 1), "one of each list for each slice");
    engine.close().await?;
    Ok(())
}
