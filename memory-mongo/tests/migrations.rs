//! A ledger of version 1 under programs of this version: writers that are refused, and the backfill of its words beside running programs.

use std::process::ExitCode;
use std::sync::Arc;

use conformance::CaseResult;
use conformance::server::async_trial;
use conformance::server::mongo::LocalMongo;
use libtest_mimic::Arguments;
use memory_core::{
    Blocks, Collection, Content, Context, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Error,
    ErrorKind, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, NewMemory, Outcome,
    Revision, SpaceId, Status, TextIndex, Timestamp, Trigger,
};
use memory_mongo::{MongoConfig, MongoMemory};
use migrations::Report;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{ErrorKind as DriverKind, WriteFailure};
use mongodb::{Client, Database};

/// What a server refuses that breaks a rule of its collection.
const NOT_VALID: i32 = 121;
/// Another number of memories for the backfill.
const MEMORIES: &str = "MEMORY_TEST_MEMORIES";
/// What the programs that index a ledger are called.
const INDEXING: &str = "indexing";

fn main() -> ExitCode {
    let trials = vec![
        async_trial("mongo::writes_of_version_1_are_refused", writes_of_version_1_are_refused),
        async_trial("mongo::writes_below_the_minimum_are_refused", writes_below_the_minimum_are_refused),
        async_trial("mongo::a_ledger_is_indexed_beside_running_programs", a_ledger_is_indexed_beside_running_programs),
        async_trial(
            "mongo::a_ledger_that_version_1_has_indexed_is_complete",
            a_ledger_that_version_1_has_indexed_is_complete,
        ),
        async_trial("mongo::a_new_ledger_needs_no_backfill", a_new_ledger_needs_no_backfill),
        async_trial("mongo::one_build_of_the_index_serves_all_slices", one_build_of_the_index_serves_all_slices),
        async_trial("mongo::a_slice_of_large_rows_is_short", a_slice_of_large_rows_is_short),
        async_trial("mongo::what_has_no_words_is_passed_over", what_has_no_words_is_passed_over),
        async_trial("mongo::older_documents_get_their_places", older_documents_get_their_places),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn writes_of_version_1_are_refused() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    let old = provider.store(event("old", 1)).await?;
    provider.documents().put(write("old")).await?;
    into_version_1(&database).await?;
    assert_eq!(memory_mongo::migrate(&config).await?.applied, [(2, "writers"), (2, "paths")]);
    let new = provider.store(event("new", 2)).await?;
    provider.documents().put(write("new")).await?;

    for name in ["memories", "documents"] {
        let rows = database.collection::<Document>(name);
        let mut present = rows.find(doc! {}).await?;
        while present.advance().await? {
            let mut row: Document = present.deserialize_current()?;
            row.remove("written");
            let (found, set) = (doc! { "_id": row.get("_id") }, doc! { "$set": { "revision": 2_i64, "spaceId": "b" } });
            assert_eq!(refusal(rows.update_one(found.clone(), set).await), NOT_VALID);
            row.insert("revision", 2_i64);
            assert_eq!(refusal(rows.replace_one(found, &row).await), NOT_VALID);
            row.insert("_id", doc! { "collection": "c", "id": "another" });
            assert_eq!(refusal(rows.insert_one(&row).await), NOT_VALID);
        }
        assert_eq!(rows.count_documents(doc! {}).await?, 2);
    }
    for (id, space) in [(old, "old"), (new, "new")] {
        let memory = provider.get(id).await?.ok_or("a memory is gone")?;
        assert_eq!((memory.space_id.as_str(), memory.revision.get()), (space, 1));
        assert_eq!(provider.update(id, completed()).await?.revision.get(), 2, "by a program of this version");
        assert_eq!(provider.documents().put(write(space)).await?.revision.get(), 2);
    }
    // No later revision than its own lets a row pass.
    let memories = database.collection::<Document>("memories");
    for (written, is_refused) in [(2 * 256 + 255, false), (3 * 256 + 2, true)] {
        let set = doc! { "$set": { "written": written } };
        assert_eq!(memories.update_one(doc! { "revision": 2_i64 }, set).await.is_err(), is_refused);
    }
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    // What somebody else has made of a validator becomes one of the rules.
    let validator = doc! { "$and": [{ "revision": { "$gt": 0 } }], "status": { "$exists": true } };
    database.run_command(doc! { "collMod": "memories", "validator": &validator }).await?;
    assert_eq!(memory_mongo::inspect(&config).await?.missing, ["memories.validator"]);
    database.collection::<Document>("schema_migrations").delete_many(doc! { "version": 2 }).await?;
    assert_eq!(memory_mongo::migrate(&config).await?.applied, [(2, "writers"), (2, "paths")]);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    assert_eq!(refusal(memories.update_one(doc! {}, doc! { "$unset": { "status": "" } }).await), NOT_VALID);
    // A rule that another program has taken away comes back.
    database.run_command(doc! { "collMod": "documents", "validator": {} }).await?;
    assert_eq!(memory_mongo::inspect(&config).await?.missing, ["documents.validator"]);
    assert_eq!(memory_mongo::migrate(&config).await?.applied, []);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    // A program of version 1 reads the entries whose ids are longs, and of those only these fields.
    let entries = database.collection::<Document>("schema_migrations");
    let entry = entries.find_one(doc! { "_id": { "$type": "long", "$gt": 1 } }).await?.ok_or("no entry")?;
    assert_eq!((entry.get_i64("_id")?, entry.get_str("name")?), (2, "writers"));
    assert!(entry.get_str("checksum").is_ok());
    assert_eq!(provider.check_health().await?.schema_version, 2);
    Ok(())
}

async fn writes_below_the_minimum_are_refused() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let id = provider.store(event("a", 1)).await?;
    let document = provider.documents().put(write("a")).await?;
    let database = database(&server.url()).await?;
    let steps: Vec<Document> = serde_json::from_str(&migrations::mongo()[1].text.replace(", 2]", ", 4]"))?;
    for step in steps {
        database.run_command(step).await?;
    }

    let keyed = |number: i64| {
        event("b", number).with_idempotency_key(IdempotencyKey::parse(number.to_string()).expect("a key"))
    };
    let memory = |number| event("b", number).into_memory(MemoryId::generate());
    let written = [
        provider.store(event("b", 1)).await.err(),
        provider.store(keyed(1)).await.err(),
        provider.store_many(vec![event("b", 2), keyed(3)]).await.err(),
        provider.restore(vec![memory(4), memory(5)]).await.err(),
        provider.update(id, completed()).await.err(),
        provider.update(id, MemoryPatch::new().set_context(context("c"))).await.err(),
        provider.documents().put(write("a")).await.err(),
        provider.documents().put(write("b")).await.err(),
    ];
    let concurrent = (0..64).map(|number| provider.store(if number % 2 == 0 { event("b", 6) } else { keyed(number) }));
    let concurrent = futures::future::join_all(concurrent).await.into_iter().map(Result::err);
    for error in written.into_iter().chain(concurrent) {
        check_refused(&error.ok_or("a write below the minimum")?);
    }
    let mut copy = document.clone();
    copy.id = DocumentId::generate();
    check_refused(&provider.documents().restore(vec![copy]).await.expect_err("a write below the minimum"));

    let page = provider.query(&MemoryQuery::builder().all().build()?).await?;
    assert_eq!(page.memories, [provider.get(id).await?.ok_or("the memory is gone")?]);
    assert_eq!((page.memories[0].status, page.memories[0].revision.get()), (Status::Pending, 1));
    assert_eq!(provider.documents().get(&document.collection, &document.id).await?, Some(document));
    let keys = database.collection::<Document>("idempotency_keys");
    assert_eq!(keys.count_documents(doc! {}).await?, 0);
    Ok(())
}

async fn a_ledger_is_indexed_beside_running_programs() -> CaseResult {
    let count = std::env::var(MEMORIES).ok().and_then(|count| count.parse().ok()).unwrap_or(4_000);
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let database = database(&server.url()).await?;
    let other = Arc::new(open(config(&server.url())).await?);
    let mut ids = Vec::new();
    for start in (0..count).step_by(1_000) {
        ids.extend(other.store_many((start..count.min(start + 1_000)).map(|at| event("a", at)).collect()).await?);
    }
    into_version_1(&database).await?;

    let mut indexed = config(&format!("{}&appName={INDEXING}", server.url()));
    indexed.text_index = TextIndex::All;
    let applied = |report: Report| report.applied;
    assert_eq!(applied(memory_mongo::plan(&indexed).await?), [(2, "writers"), (2, "paths"), (2, "words")]);
    assert_eq!(applied(memory_mongo::migrate(&indexed).await?), [(2, "writers"), (2, "paths"), (2, "words")]);
    assert_eq!(applied(memory_mongo::migrate(&indexed).await?), []);
    let start = std::time::Instant::now();

    // A program that was opened before stores and updates meanwhile, from the last row to the first.
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writer = tokio::spawn({
        let (other, ids) = (Arc::clone(&other), ids.clone());
        async move {
            let (mut stored, mut updated) = (Vec::new(), 0);
            for (number, id) in ids.into_iter().rev().enumerate() {
                if *stopped.borrow() && updated >= 20 {
                    break;
                }
                stored.push(other.store(event("b", count + number as i64)).await?);
                let patch = match number % 2 {
                    0 => MemoryPatch::new().set_context(context("changed")),
                    _ => completed(),
                };
                other.update(id, patch).await?;
                updated += 1;
            }
            Ok::<_, Error>((stored, updated))
        }
    });

    let query = |word: String| MemoryQuery::builder().all().text(word).build();
    let first = open_without_a_slice(&database, &indexed).await?;
    let progress = first.backfill().await?.ok_or("one slice is all")?;
    assert!(progress.done > 0 && progress.done < progress.total, "{progress:?}");
    let error = first.query(&query("n1".to_owned())?).await.expect_err("an index that is not complete");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_retryable() && error.message().contains(&format!("{} of", progress.done)), "{error}");
    assert_eq!(first.get(ids[0]).await?.map(|memory| memory.id), Some(ids[0]));
    drop(first);

    let second = open_without_a_slice(&database, &indexed).await?;
    let third = open_without_a_slice(&database, &indexed).await?;
    let further = second.backfill().await?.ok_or("two slices are all")?;
    assert!(further.done > progress.done, "it does not begin again: {further:?}");
    let (slices, others) = futures::try_join!(to_the_end(&second), to_the_end(&third))?;
    stop.send(true)?;
    let (stored, updated) = writer.await??;
    println!(
        "{count} memories, {updated} updated and {} stored meanwhile, {:?}, {slices} and {others} slices",
        stored.len(),
        start.elapsed()
    );

    let memories = database.collection::<Document>("memories");
    assert_eq!(memories.count_documents(doc! { "words": { "$exists": false } }).await?, 0);
    let all: Vec<_> = ids.iter().chain(&stored).copied().enumerate().collect();
    for (number, id) in all.iter().step_by(all.len().div_ceil(5_000)) {
        let page = third.query(&query(format!("n{number}"))?).await?;
        assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [*id], "n{number}");
    }
    let changed = ids.iter().rev().take(updated).step_by(2).count();
    for (word, expected) in [("changed", changed), ("first", all.len() - changed)] {
        let found = memories.count_documents(doc! { "words": word }).await?;
        assert_eq!(found, expected as u64, "{word}");
    }
    let plan = doc! { "explain": { "find": "memories", "filter": { "words": "n1" } }, "verbosity": "queryPlanner" };
    assert!(database.run_command(plan).await?.to_string().contains("IXSCAN"));
    assert_eq!(second.backfill().await?, None);
    assert_eq!(memory_mongo::inspect(&indexed).await?.missing, [""; 0]);
    Ok(())
}

async fn a_ledger_that_version_1_has_indexed_is_complete() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let mut indexed = config.clone();
    indexed.text_index = TextIndex::All;
    let provider = open(indexed.clone()).await?;
    let id = provider.store(event("a", 1)).await?;
    into_version_1(&database).await?;
    let validator = doc! { "words": { "$exists": true } };
    database.run_command(doc! { "collMod": "memories", "validator": validator, "validationLevel": "moderate" }).await?;

    // A program that does not want the index keeps it all the same.
    let other = open(config).await?;
    assert_eq!(other.check_health().await?.schema_version, 2);
    other.store(event("a", 2)).await?;
    other.update(id, MemoryPatch::new().set_context(context("changed"))).await?;
    let memories = database.collection::<Document>("memories");
    assert_eq!(memories.count_documents(doc! { "words": "changed" }).await?, 1);
    memory_mongo::migrate(&indexed).await?;
    let entries = database.collection::<Document>("schema_migrations");
    assert_eq!(entries.count_documents(doc! { "name": "words", "complete": { "$ne": false } }).await?, 1);
    Ok(())
}

async fn a_new_ledger_needs_no_backfill() -> CaseResult {
    let server = LocalMongo::start()?;
    let mut config = config(&server.url());
    config.text_index = TextIndex::All;
    let provider = open(config.clone()).await?;
    for start in [0, 1_000, 2_000] {
        provider.store_many((start..start + 1_000).map(|number| event("a", number)).collect()).await?;
    }
    for provider in [&provider, &open(config.clone()).await?] {
        let page = provider.query(&MemoryQuery::builder().all().text("n2500").build()?).await?;
        assert_eq!(page.memories.len(), 1);
        assert_eq!(provider.backfill().await?, None);
    }
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    Ok(())
}

async fn one_build_of_the_index_serves_all_slices() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let (mut config, database) =
        (config(&format!("{}&appName={INDEXING}", server.url())), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    for start in [0, 1_000, 2_000] {
        provider.store_many((start..start + 1_000).map(|number| event("a", number)).collect()).await?;
    }
    into_version_1(&database).await?;
    config.text_index = TextIndex::All;
    let provider = open(config.clone()).await?;
    let admin = database.client().database("admin");
    let hang = |mode: &str| doc! { "configureFailPoint": "hangAfterSettingUpIndexBuild", "mode": mode };
    admin.run_command(hang("alwaysOn")).await?;

    while provider.backfill().await?.ok_or("there is no index")?.done < 3_000 {}
    let query = MemoryQuery::builder().all().text("n2500").build()?;
    // More than there are connections.
    for answer in futures::future::join_all((0..128).map(|_| provider.query(&query))).await {
        assert_eq!(answer.expect_err("there is no index").kind(), ErrorKind::Unavailable);
    }
    assert!(provider.backfill().await?.is_some());
    let builds = doc! { "currentOp": 1, "appName": INDEXING, "command.createIndexes": "memories" };
    assert_eq!(admin.run_command(builds).await?.get_array("inprog")?.len(), 1);
    admin.run_command(hang("off")).await?;
    to_the_end(&provider).await?;
    assert_eq!(provider.query(&query).await?.memories.len(), 1);

    // Rows that lie before the mark are not left, even if nobody has counted them.
    let memories = database.collection::<Document>("memories");
    let last = memories.find_one(doc! {}).sort(doc! { "_id": 1 }).skip(2_000).await?.ok_or("a row is gone")?;
    let entry = doc! { "complete": false, "done": 0_i64, "mark": last.get("_id") };
    let entries = database.collection::<Document>("schema_migrations");
    entries.update_one(doc! { "_id": "words" }, doc! { "$set": entry }).await?;
    assert_eq!(open(config).await?.query(&query).await?.memories.len(), 1);
    Ok(())
}

async fn a_slice_of_large_rows_is_short() -> CaseResult {
    const ROWS: u64 = 24;
    let server = LocalMongo::start()?;
    let (mut config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    // A mebibyte with one word.
    let text = format!("word{}", ".".repeat(1 << 20));
    for number in 0..ROWS {
        provider.store(event("a", number as i64).with_context(context(&text))).await?;
    }
    into_version_1(&database).await?;
    config.text_index = TextIndex::All;
    let provider = open(config).await?;
    let mut done = 0;
    while let Some(progress) = provider.backfill().await? {
        assert!(progress.done - done <= 8, "{} rows in one slice", progress.done - done);
        done = progress.done;
    }
    assert!(done >= ROWS - 8, "{done} rows, and no more");
    let page = provider.query(&MemoryQuery::builder().all().text("word").limit(1_000).build()?).await?;
    assert!(!page.memories.is_empty());
    Ok(())
}

/// A row that is damaged, and one that has no place for its words.
async fn what_has_no_words_is_passed_over() -> CaseResult {
    let server = LocalMongo::start()?;
    let (mut config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    let damaged = provider.store(event("a", 1)).await?;
    let words = |numbers: std::ops::Range<u32>| numbers.map(|word| format!("{word:x} ")).collect::<String>();
    let trigger = Trigger::parse(&format!("\"{}\"", words(0..500_000)))?;
    let large = NewMemory::new(SpaceId::parse("a")?, trigger, at(2)).with_context(context(&words(500_000..1_000_000)));
    let large = provider.store(large).await?;
    let sound = provider.store(event("a", 3)).await?;
    let memories = database.collection::<Document>("memories");
    let damage = doc! { "$set": { "trigger": "{\"cut" } };
    memories.update_one(doc! { "createdAt": 1_i64 }, damage).await?;
    into_version_1(&database).await?;

    config.text_index = TextIndex::All;
    let provider = open(config).await?;
    assert_eq!(provider.backfill().await?, None);
    let page = provider.query(&MemoryQuery::builder().all().text("first").build()?).await?;
    assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [sound]);
    assert_eq!(provider.get(damaged).await.expect_err("a damaged row").kind(), ErrorKind::Corrupt);
    assert!(provider.get(large).await?.is_some());
    assert_eq!(memories.count_documents(doc! { "words": { "$exists": false } }).await?, 0);
    assert_eq!(provider.update(large, completed()).await?.revision.get(), 2);
    let patch = MemoryPatch::new().set_context(context(&words(500_001..1_000_001)));
    let error = provider.update(large, patch).await.expect_err("too many words");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotDone));
    Ok(())
}

/// Beside a program that writes, while one that does not know of places is refused.
async fn older_documents_get_their_places() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    let document = |number: usize| memory_core::Document {
        id: DocumentId::parse(format!("{number:05}")).expect("valid"),
        collection: Collection::parse("c").expect("valid"),
        space_id: SpaceId::parse(["a", "a-b", "a/b:c", "ab-c"][number % 4]).expect("valid"),
        content: Content::parse("text").expect("valid"),
        metadata: Metadata::default(),
        created_at: at((number % 100) as i64),
        updated_at: None,
        revision: Revision::FIRST,
    };
    provider.documents().restore((0..4_200).map(document).collect()).await?;
    let found = async |provider: &MongoMemory| {
        let query = DocumentQuery::builder(Collection::parse("c")?).under("a").limit(1_000);
        let query = query.filter_text("id LIKE '___0_'").build()?;
        Ok::<_, Error>(provider.documents().query(&query).await?.documents)
    };
    let before = found(&provider).await?;
    assert_eq!(before.len(), 336);
    // As a program has left it that does not know the step.
    let rows = database.collection::<Document>("documents");
    database.run_command(doc! { "collMod": "documents", "validator": {} }).await?;
    rows.drop_index("paths").await?;
    rows.drop_index("spaces").await?;
    let older = doc! { "$unset": { "paths": "" }, "$set": { "written": 256 + 2 } };
    rows.update_many(doc! {}, older.clone()).await?;
    database.collection::<Document>("schema_migrations").delete_one(doc! { "_id": "paths" }).await?;

    let newer = open(config).await?;
    let mut progress = newer.backfill().await?.ok_or("some are left")?;
    assert_eq!((progress.blocks, progress.done, progress.total), (Blocks::DocumentPlaces, 500, 4_200));
    assert_eq!(refusal(rows.update_one(doc! { "_id.id": "00010" }, older).await), NOT_VALID);
    for (moved, gone) in [("00010", "00011"), ("04110", "04111")] {
        newer.documents().put(write("z-1").with_id(DocumentId::parse(moved)?)).await?;
        let gone = DocumentSelection::ids(Collection::parse("c")?, [DocumentId::parse(gone)?])?;
        assert_eq!(newer.documents().remove(&gone, 1).await?.len(), 1);
    }
    // At last the query completes what is left.
    loop {
        assert_eq!(found(&newer).await?, before);
        let Some(next) = newer.backfill().await? else { break };
        assert!(next.done >= progress.done, "{next} after {progress}");
        progress = next;
    }
    assert_eq!(found(&newer).await?, before);
    assert_eq!(rows.count_documents(doc! { "paths": { "$exists": false } }).await?, 0);
    let moved = DocumentQuery::builder(Collection::parse("c")?).under("z").build()?;
    assert_eq!(newer.documents().query(&moved).await?.documents.len(), 2);
    assert_eq!(memory_mongo::inspect(&self::config(&server.url())).await?.missing, [""; 0]);
    Ok(())
}

/// Makes the ledger what a program of version 1 has left.
async fn into_version_1(database: &Database) -> mongodb::error::Result<()> {
    for name in ["memories", "documents"] {
        database.run_command(doc! { "collMod": name, "validator": {} }).await?;
        let rows = database.collection::<Document>(name);
        rows.update_many(doc! {}, doc! { "$unset": { "written": "" } }).await?;
    }
    let entries = database.collection::<Document>("schema_migrations");
    entries.delete_many(doc! { "version": 2 }).await?;
    entries.update_many(doc! {}, doc! { "$unset": { "version": "" } }).await.map(drop)
}

/// A provider whose `init` can't do a slice of the backfill.
async fn open_without_a_slice(database: &Database, config: &MongoConfig) -> Result<MongoMemory, Error> {
    let fail = async |mode: Bson| {
        let what = doc! {
            "errorCode": 13, "failCommands": ["find"], "namespace": "agent_memory.memories", "appName": INDEXING,
        };
        let command = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": what };
        let unexpected = |error| Error::new(ErrorKind::Unexpected, "no fail point").with_source(error);
        database.client().database("admin").run_command(command).await.map(drop).map_err(unexpected)
    };
    fail("alwaysOn".into()).await?;
    let provider = open(config.clone()).await?;
    fail("off".into()).await?;
    Ok(provider)
}

/// Takes slices until nothing is left to do, and tells how many.
async fn to_the_end(provider: &MongoMemory) -> Result<usize, Error> {
    let mut slices = 1;
    while provider.backfill().await?.is_some() {
        slices += 1;
    }
    Ok(slices)
}

fn config(url: &str) -> MongoConfig {
    MongoConfig::from_url(url).expect("the URL of a test server")
}

async fn open(config: MongoConfig) -> Result<MongoMemory, Error> {
    let provider = MongoMemory::open(config)?;
    provider.init().await?;
    Ok(provider)
}

async fn database(url: &str) -> mongodb::error::Result<Database> {
    Ok(Client::with_uri_str(url).await?.database("agent_memory"))
}

/// A memory with a word of its own, and one of its context.
fn event(space: &str, number: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"n{number} was here"}}"#)).expect("valid");
    NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, at(number)).with_context(context("first"))
}

/// A document with the name of its space.
fn write(space: &str) -> DocumentWrite {
    let (collection, content) = (Collection::parse("c").expect("valid"), Content::parse("text").expect("valid"));
    DocumentWrite::new(collection, SpaceId::parse(space).expect("valid"), content, at(1))
        .with_id(DocumentId::parse(space).expect("valid"))
}

fn context(text: &str) -> Context {
    Context::parse(&format!("\"{text}\"")).expect("valid")
}

fn completed() -> MemoryPatch {
    MemoryPatch::new().with_status(Status::Completed)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}

#[track_caller]
fn check_refused(error: &Error) {
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::SchemaMismatch, Outcome::NotDone), "{error:?}");
    assert_eq!(error.message(), Error::newer_writer().message());
}

/// The code by which the server refused a row.
#[track_caller]
fn refusal<T: std::fmt::Debug>(written: mongodb::error::Result<T>) -> i32 {
    match *written.expect_err("a write of version 1").kind {
        DriverKind::Write(WriteFailure::WriteError(refusal)) => refusal.code,
        other => panic!("{other:?}"),
    }
}
