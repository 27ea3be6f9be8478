//! Ledgers of older programs under those of this version: writers that are refused, and backfills beside running programs.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::CaseResult;
use conformance::server::async_trial;
use conformance::server::mongo::LocalMongo;
use libtest_mimic::Arguments;
use memory_core::engine::{Access, Engine, Reader};
use memory_core::{
    Backfill, Blocks, Collection, Content, Context, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite,
    Erasure, Error, ErrorKind, History, IdempotencyKey, ManualClock, Memory, MemoryId, MemoryPatch, MemoryProvider,
    MemoryQuery, Metadata, NewMemory, Outcome, Record, RecordId, Revision, SpaceId, Status, Timestamp, Trigger,
};
use memory_mongo::{MongoConfig, MongoEngine, MongoMemory};
use migrations::{ERASURE, EXPIRY, FEED, HISTORY, NO_WORDS, PATHS, VECTORS};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};
use mongodb::error::{ErrorKind as DriverKind, WriteFailure};
use mongodb::{Client, Database};

/// The error code of a row that violates a rule of its collection.
const NOT_VALID: i32 = 121;
/// Another number of memories for the backfill.
const MEMORIES: &str = "MEMORY_TEST_MEMORIES";
/// The name of the program that takes slices.
const BACKFILL: &str = "backfill";
/// The steps after version 1, in their order; those after version 2 begin with the third.
const BEHIND_1: [(u32, &str); 8] =
    [(2, "writers"), (2, PATHS), (3, NO_WORDS), (4, FEED), (5, HISTORY), (6, ERASURE), (7, EXPIRY), (8, VECTORS)];

fn main() -> ExitCode {
    let trials = vec![
        async_trial("mongo::writes_of_version_1_are_refused", writes_of_version_1_are_refused),
        async_trial("mongo::writes_below_the_minimum_are_refused", writes_below_the_minimum_are_refused),
        async_trial("mongo::writes_that_leave_no_entry_are_refused", writes_that_leave_no_entry_are_refused),
        async_trial(
            "mongo::the_history_of_an_older_ledger_begins_when_it_is_opened",
            the_history_of_an_older_ledger_begins_when_it_is_opened,
        ),
        async_trial("mongo::what_an_older_ledger_has_is_erased_too", what_an_older_ledger_has_is_erased_too),
        async_trial(
            "mongo::a_life_that_an_older_program_ended_shows_in_no_other",
            a_life_that_an_older_program_ended_shows_in_no_other,
        ),
        async_trial("mongo::words_go_in_slices_beside_running_programs", words_go_in_slices_beside_running_programs),
        async_trial("mongo::what_version_1_has_indexed_goes_too", what_version_1_has_indexed_goes_too),
        async_trial(
            "mongo::an_index_of_words_that_is_being_built_goes_too",
            an_index_of_words_that_is_being_built_goes_too,
        ),
        async_trial("mongo::what_is_brought_back_goes_again", what_is_brought_back_goes_again),
        async_trial("mongo::a_write_mends_what_is_brought_back", a_write_mends_what_is_brought_back),
        async_trial("mongo::a_new_ledger_needs_no_backfill", a_new_ledger_needs_no_backfill),
        async_trial("mongo::one_build_of_the_index_serves_all_slices", one_build_of_the_index_serves_all_slices),
        async_trial("mongo::a_slice_of_large_rows_is_short", a_slice_of_large_rows_is_short),
        async_trial("mongo::a_row_that_is_damaged_is_passed_over", a_row_that_is_damaged_is_passed_over),
        async_trial("mongo::an_older_ledger_lists_what_expires", an_older_ledger_lists_what_expires),
        async_trial("mongo::the_list_of_a_large_ledger_comes_later", the_list_of_a_large_ledger_comes_later),
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
    assert_eq!(memory_mongo::migrate(&config).await?.applied, BEHIND_1);
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
    // A row must not pass by a revision later than its own.
    let memories = database.collection::<Document>("memories");
    for (written, is_refused) in [(2 * 256 + 255, false), (3 * 256 + 2, true)] {
        let set = doc! { "$set": { "written": written } };
        assert_eq!(memories.update_one(doc! { "revision": 2_i64 }, set).await.is_err(), is_refused);
    }
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    // A validator that somebody else has set becomes one of the rules.
    let validator = doc! { "$and": [{ "revision": { "$gt": 0 } }], "status": { "$exists": true } };
    database.run_command(doc! { "collMod": "memories", "validator": &validator }).await?;
    assert_eq!(memory_mongo::inspect(&config).await?.missing, ["memories.validator"]);
    database.collection::<Document>("schema_migrations").delete_many(doc! { "version": { "$gte": 2 } }).await?;
    assert_eq!(memory_mongo::migrate(&config).await?.applied, BEHIND_1);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    assert_eq!(refusal(memories.update_one(doc! {}, doc! { "$unset": { "status": "" } }).await), NOT_VALID);
    // A rule that another program has removed is restored.
    database.run_command(doc! { "collMod": "documents", "validator": {} }).await?;
    assert_eq!(memory_mongo::inspect(&config).await?.missing, ["documents.validator"]);
    assert_eq!(memory_mongo::migrate(&config).await?.applied, []);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    // A program of version 1 reads only the entries whose ids are longs, and only these fields of them.
    let entries = database.collection::<Document>("schema_migrations");
    for (version, name) in BEHIND_1.into_iter().filter(|(_, name)| *name != PATHS) {
        let entry = entries.find_one(doc! { "_id": i64::from(version) }).await?.ok_or("no entry")?;
        assert_eq!(entry.get_str("name")?, name);
        assert!(entry.get_str("checksum").is_ok());
    }
    assert_eq!(provider.check_health().await?.schema_version, 8);
    Ok(())
}

async fn writes_below_the_minimum_are_refused() -> CaseResult {
    let server = LocalMongo::start()?;
    let provider = open(config(&server.url())).await?;
    let id = provider.store(event("a", 1)).await?;
    let document = provider.documents().put(write("a")).await?;
    let database = database(&server.url()).await?;
    let steps: Vec<Document> = serde_json::from_str(&migrations::mongo()[1].text.replace(", 2]", ", 10]"))?;
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
        provider.erase(&Erasure::records([id.into()], "why")?).await.err(),
        provider.erase(&Erasure::records([of(write("a"))], "why")?).await.err(),
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

/// A program of version 5 would change or remove records without an entry of their earlier state, and store memories
/// without a time (H1, H3).
async fn writes_that_leave_no_entry_are_refused() -> CaseResult {
    let server = LocalMongo::start()?;
    let (provider, database) = (open(config(&server.url())).await?, database(&server.url()).await?);
    let id = provider.store(event("a", 1)).await?;
    provider.documents().put(write("a")).await?;
    for name in ["memories", "documents"] {
        let rows = database.collection::<Document>(name);
        let mut row = rows.find_one(doc! {}).await?.ok_or("a row is gone")?;
        let updated = doc! { "$set": { "revision": 2_i64, "written": 2 * 256 + 5 } };
        assert_eq!(refusal(rows.update_one(doc! {}, updated).await), NOT_VALID, "{name}");
        // The first step of its removal of a document.
        let removed = doc! { "$set": { "removed": "a", "written": 256 + 5 } };
        assert_eq!(refusal(rows.update_one(doc! {}, removed).await), NOT_VALID, "{name}");
        row.insert("_id", doc! { "collection": "c", "id": "another" });
        row.insert("written", 256 + 5);
        assert_eq!(refusal(rows.insert_one(row).await), NOT_VALID, "{name}");
    }
    for record in [id.into(), of(write("a"))] {
        assert_eq!(versions(&provider, &record).await?, [(1, true)]);
    }
    Ok(())
}

/// Earlier records have no time in the history, and exist from its beginning on (H4).
async fn the_history_of_an_older_ledger_begins_when_it_is_opened() -> CaseResult {
    let server = LocalMongo::start()?;
    let (mut config, database) = (config(&server.url()), database(&server.url()).await?);
    let older = open(config.clone()).await?;
    let id = older.store(event("a", 1)).await?;
    let memory = older.get(id).await?.ok_or("a memory is gone")?;
    older.documents().put(write("a")).await?;
    let document = older.documents().put(write("a")).await?;
    into_version_1(&database).await?;

    let clock = Arc::new(ManualClock::new(at(1_000)));
    config.clock = Arc::<ManualClock>::clone(&clock);
    let provider = open(config.clone()).await?;
    clock.set(at(2_000));
    provider.update(id, completed()).await?;
    provider.documents().put(write("a")).await?;
    clock.set(at(3_000));
    // Opening it with another program does not start the history again.
    let provider = open(config).await?;
    let (of_memory, of_document) = (RecordId::from(id), of(write("a")));
    assert_eq!(versions(&provider, &of_memory).await?, [(2, true), (1, false)]);
    assert_eq!(versions(&provider, &of_document).await?, [(3, true), (2, false)]);
    for (record, before) in [(of_memory, Record::Memory(memory)), (of_document, Record::Document(document))] {
        assert_eq!(provider.get_as_of(&record, at(1_000)).await?, Some(before.clone()));
        assert_eq!(provider.get_as_of(&record, at(1_999)).await?, Some(before));
        let now = provider.get_as_of(&record, at(2_000)).await?.ok_or("it is gone")?;
        assert_eq!(now.revision(), provider.history(&History::of(record.clone())).await?.versions[0].revision);
        let early = provider.get_as_of(&record, at(999)).await.expect_err("before the history");
        assert_eq!(early.kind(), ErrorKind::InvalidInput);
    }
    Ok(())
}

/// Its keys have no marks yet, and its documents no places in the history (E1, E3).
async fn what_an_older_ledger_has_is_erased_too() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let older = open(config.clone()).await?;
    let keyed = |name: &str| event("a", 1).with_idempotency_key(IdempotencyKey::parse(name).expect("valid"));
    let ids = older.store_many(vec![keyed("erased"), keyed("kept")]).await?;
    let document = older.documents().put(write("a")).await?;
    into_version_1(&database).await?;

    let provider = open(config).await?;
    let backup = provider.get(ids[0]).await?.ok_or("a memory is gone")?;
    assert_eq!(provider.store(keyed("erased")).await?, ids[0]);
    let both = [ids[0].into(), of(write("a"))];
    assert_eq!(provider.erase(&Erasure::records(both.clone(), "why")?).await?.records, both);
    let again = provider.store(keyed("erased")).await.expect_err("it was erased");
    assert_eq!((again.kind(), again.outcome()), (ErrorKind::Erased, Outcome::NotDone));
    assert_eq!(provider.store(keyed("kept")).await?, ids[1]);
    assert_eq!(provider.restore(vec![backup]).await?.erased, [0]);
    assert_eq!(provider.documents().restore(vec![document]).await?.erased, [0]);
    assert_eq!(memories(&provider).await?.into_keys().collect::<Vec<_>>(), [ids[1]]);
    assert_eq!(provider.documents().put(write("a")).await?.revision, Revision::FIRST);
    Ok(())
}

/// A program of version 4 removes a document without an entry, which the server can't refuse. A put under the same id
/// must continue after the entries of the first document.
async fn a_life_that_an_older_program_ended_shows_in_no_other() -> CaseResult {
    let server = LocalMongo::start()?;
    let (provider, database) = (open(config(&server.url())).await?, database(&server.url()).await?);
    let (documents, rows) = (provider.documents(), database.collection::<Document>("documents"));
    for _ in 0..3 {
        documents.put(write("a")).await?;
    }
    rows.delete_one(doc! {}).await?;
    documents.put(write("a")).await?;
    let record = of(write("a"));
    assert_eq!(versions(&provider, &record).await?, [(1, true)]);
    // A program of version 5 that was let in, since another program had removed the rule, leaves a row without the
    // position of its newest entry.
    let lost = rows.update_one(doc! {}, doc! { "$unset": { "entry": "" } });
    lost.bypass_document_validation(true).await?;
    documents.put(write("a")).await?;
    assert_eq!(versions(&provider, &record).await?, [(2, true), (1, true)]);
    let one = DocumentSelection::ids(Collection::parse("c")?, [DocumentId::parse("a")?])?;
    assert_eq!(documents.remove(&one, 1).await?.len(), 1);
    assert_eq!(versions(&provider, &record).await?, []);
    documents.put_many(vec![write("b"), write("a")]).await?;
    assert_eq!(versions(&provider, &record).await?, [(1, true)]);
    let key = Binary { subtype: BinarySubtype::Generic, bytes: record.to_key() };
    let history = database.collection::<Document>("history");
    let mut entries = history.find(doc! { "_id.of": key }).sort(doc! { "_id": 1 }).await?;
    let mut places = Vec::new();
    while entries.advance().await? {
        places.push(entries.deserialize_current()?.get_document("_id")?.get_i64("place")?);
    }
    assert_eq!(places, [1, 2, 3, 4, 5, 6, 7]);
    Ok(())
}

async fn words_go_in_slices_beside_running_programs() -> CaseResult {
    let count = std::env::var(MEMORIES).ok().and_then(|count| count.parse().ok()).unwrap_or(4_000);
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let other = Arc::new(open(config.clone()).await?);
    let mut ids = Vec::new();
    for start in (0..count).step_by(1_000) {
        ids.extend(other.store_many((start..count.min(start + 1_000)).map(|at| event("a", at)).collect()).await?);
    }
    other.documents().restore((0..900).map(document).collect()).await?;
    let (mut memories, documents) = (memories(&other).await?, documents(&other).await?);
    into_version_2(&database, false).await?;

    assert_eq!(memory_mongo::plan(&config).await?.applied, BEHIND_1[2..]);
    assert_eq!(memory_mongo::migrate(&config).await?.applied, BEHIND_1[2..]);
    assert_eq!(memory_mongo::migrate(&config).await?.applied, []);
    check_no_index(&database).await?;
    let entries = database.collection::<Document>("schema_migrations");
    assert_eq!(entries.count_documents(doc! { "name": "words" }).await?, 0);
    for name in ["memories", "documents"] {
        let rows = database.collection::<Document>(name);
        let set = doc! { "$set": { "revision": 2_i64, "written": 2 * 256 + 3 } };
        assert_eq!(refusal(rows.update_one(doc! {}, set).await), NOT_VALID, "{name}");
        let row = doc! { "_id": name, "revision": 1_i64, "written": 256 + 3, "words": [] };
        assert_eq!(refusal(rows.insert_one(row).await), NOT_VALID, "{name}");
    }
    let start = Instant::now();

    // A program that was opened earlier stores and updates meanwhile, from the last row to the first.
    let patch = |number: usize| match number % 2 {
        0 => MemoryPatch::new().set_context(context("changed")),
        _ => completed(),
    };
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writer = tokio::spawn({
        let (other, ids) = (Arc::clone(&other), ids.clone());
        async move {
            let (mut stored, mut updated) = (Vec::new(), Vec::new());
            for (number, id) in ids.into_iter().rev().enumerate() {
                if *stopped.borrow() && updated.len() >= 20 {
                    break;
                }
                stored.push(other.store(event("b", count + number as i64)).await?);
                updated.push((id, other.update(id, patch(number)).await?));
            }
            Ok::<_, Error>((stored, updated))
        }
    });

    let slices = self::config(&format!("{}&appName={BACKFILL}", server.url()));
    let first = open(slices.clone()).await?;
    let progress = first.backfill().await?.ok_or("one slice is all")?;
    assert_eq!((progress.blocks, progress.done), (Blocks::Nothing, 500));
    assert!(progress.total >= count as u64 + 900, "{progress:?}");
    // One that dies between its rows and its mark.
    let admin = database.client().database("admin");
    let what = doc! {
        "errorCode": 13, "failCommands": ["update"], "namespace": "agent_memory.schema_migrations", "appName": BACKFILL,
    };
    admin.run_command(doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": what }).await?;
    assert_eq!(first.backfill().await.expect_err("it dies").kind(), ErrorKind::Unauthorized);
    admin.run_command(doc! { "configureFailPoint": "failCommand", "mode": "off" }).await?;
    drop(first);
    let rows = database.collection::<Document>("memories");
    let last = rows.find_one(doc! {}).sort(doc! { "_id": 1 }).skip(999).await?.ok_or("a row is gone")?;
    let reached = doc! { "_id": { "$lte": last.get("_id") }, "words": { "$exists": true } };
    assert_eq!(rows.count_documents(reached).await?, 0);

    let (second, third) = (open(slices.clone()).await?, open(slices).await?);
    let further = second.backfill().await?.ok_or("two slices are all")?;
    assert_eq!(further.done, 1_000, "it goes on from the mark");
    let (slices, others) = futures::try_join!(to_the_end(&second), to_the_end(&third))?;
    stop.send(true)?;
    let (stored, updated) = writer.await??;
    println!(
        "{count} memories, {} updated and {} stored meanwhile, {:?}, {slices} and {others} slices",
        updated.len(),
        stored.len(),
        start.elapsed()
    );

    assert_eq!(with_words(&database).await?, [0, 0]);
    check_no_index(&database).await?;
    for provider in [&second, &open(config.clone()).await?] {
        assert_eq!(provider.backfill().await?, None);
    }
    let mut found = self::memories(&third).await?;
    found.retain(|id, _| !stored.contains(id));
    for (number, (id, updated)) in updated.into_iter().enumerate() {
        let before = memories.get_mut(&id).ok_or("an update of nothing")?;
        *before =
            patch(number).apply(before, updated.updated_at.ok_or("an update has no time")?)?.ok_or("no change")?;
    }
    assert!(found == memories, "the memories are not what they were");
    assert!(self::documents(&third).await? == documents, "the documents are not what they were");
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    Ok(())
}

async fn what_version_1_has_indexed_goes_too() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let id = open(config.clone()).await?.store(event("a", 1)).await?;
    into_version_1(&database).await?;
    let memories = database.collection::<Document>("memories");
    memories.update_many(doc! {}, doc! { "$set": { "words": ["first"] } }).await?;
    let validator = doc! { "words": { "$exists": true } };
    database.run_command(doc! { "collMod": "memories", "validator": validator, "validationLevel": "moderate" }).await?;
    database.run_command(index_of_words("memories")?).await?;

    let provider = open(config.clone()).await?;
    check_no_index(&database).await?;
    provider.store(event("a", 2)).await?;
    provider.update(id, MemoryPatch::new().set_context(context("changed"))).await?;
    to_the_end(&provider).await?;
    assert_eq!(with_words(&database).await?, [0, 0]);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    Ok(())
}

async fn an_index_of_words_that_is_being_built_goes_too() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    open(config.clone()).await?.store(event("a", 1)).await?;
    into_version_2(&database, false).await?;
    let rows = database.collection::<Document>("memories");
    rows.drop_index("words").await?;
    let admin = database.client().database("admin");
    let hang = |mode: &str| doc! { "configureFailPoint": "hangAfterStartingIndexBuildUnlocked", "mode": mode };
    admin.run_command(hang("alwaysOn")).await?;
    let build = tokio::spawn({
        let (database, index) = (database.clone(), index_of_words("memories")?);
        async move { database.run_command(index).await }
    });
    while !rows.list_index_names().await?.contains(&"words".to_owned()) {
        tokio::task::yield_now().await;
    }

    let migrated = tokio::spawn(async move { open(config).await });
    let dropped = doc! { "currentOp": 1, "command.dropIndexes": "memories" };
    while admin.run_command(dropped.clone()).await?.get_array("inprog")?.is_empty() {
        tokio::task::yield_now().await;
    }
    admin.run_command(hang("off")).await?;
    assert!(build.await?.is_err(), "the build came to its end");
    let provider = migrated.await??;
    check_no_index(&database).await?;
    to_the_end(&provider).await?;
    assert_eq!(with_words(&database).await?, [0, 0]);
    Ok(())
}

/// Words that a program of version 2 adds, which was delayed while the ledger was migrated.
async fn what_is_brought_back_goes_again() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    open(config.clone()).await?.store(event("a", 1)).await?;
    into_version_2(&database, true).await?;
    let provider = open(config.clone()).await?;
    bring_back(&database).await?;
    assert_eq!(memory_mongo::inspect(&config).await?.missing, ["memories.validator", "documents.validator"]);
    let again = open(config.clone()).await?;
    check_no_index(&database).await?;
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    for provider in [provider, again] {
        provider.store(event("a", 3)).await?;
        to_the_end(&provider).await?;
    }
    assert_eq!(with_words(&database).await?, [0, 0]);
    Ok(())
}

/// A program of version 2 that was delayed during its start sets its rules in a ledger of version 3. Open programs can
/// still write.
async fn a_write_mends_what_is_brought_back() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    let id = provider.store(event("a", 1)).await?;
    let keyed = || event("a", 2).with_idempotency_key(IdempotencyKey::parse("k").expect("valid"));
    let documents = provider.documents();
    for number in 0..7 {
        bring_back(&database).await?;
        match number {
            0 => drop(provider.store(event("a", 3)).await?),
            1 => drop(provider.store_many(vec![keyed(), event("a", 4)]).await?),
            2 => drop(provider.update(id, completed()).await?),
            3 => drop(documents.put(write("a")).await?),
            4 => drop(documents.put_many(vec![write("a"), write("b")]).await?),
            5 => drop(provider.erase(&Erasure::records([id.into(), of(write("b"))], "why")?).await?),
            _ => drop(documents.restore(vec![document(7)]).await?),
        }
    }
    assert_eq!(memories(&provider).await?.len(), 3);
    // A ledger that is newer than the program is not changed.
    let newer = doc! { "$expr": { "$gte": [{ "$subtract": ["$written", { "$multiply": ["$revision", 256] }] }, 10] } };
    let rules = doc! { "collMod": "memories", "validator": { "$and": [newer] } };
    database.run_command(rules).await?;
    let entry = doc! { "_id": "later", "version": 10_i64, "name": "later", "checksum": "x" };
    database.collection::<Document>("schema_migrations").insert_one(entry).await?;
    check_refused(&provider.store(event("a", 5)).await.expect_err("the ledger is newer"));
    Ok(())
}

async fn a_new_ledger_needs_no_backfill() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    check_no_index(&database).await?;
    for start in [0, 1_000, 2_000] {
        provider.store_many((start..start + 1_000).map(|number| event("a", number)).collect()).await?;
    }
    provider.documents().put(write("a")).await?;
    for provider in [&provider, &open(config.clone()).await?] {
        assert_eq!(provider.backfill().await?, None);
    }
    assert_eq!(with_words(&database).await?, [0, 0]);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    Ok(())
}

async fn one_build_of_the_index_serves_all_slices() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    // The many queries are heavy (L8), and wait for their turns.
    let url = format!("{}&appName={BACKFILL}&deadline_ms=600000", server.url());
    let (config, database) = (config(&url), database(&server.url()).await?);
    open(config.clone()).await?.documents().restore((0..3_000).map(document).collect()).await?;
    without_places(&database).await?;
    let provider = open(config.clone()).await?;
    let admin = database.client().database("admin");
    let hang = |mode: &str| doc! { "configureFailPoint": "hangAfterSettingUpIndexBuild", "mode": mode };
    admin.run_command(hang("alwaysOn")).await?;

    while provider.backfill().await?.ok_or("there is no index")?.done < 3_000 {}
    let query = DocumentQuery::builder(Collection::parse("c")?).exact("a-b").limit(1_000).build()?;
    // More than there are connections.
    let documents = provider.documents();
    for answer in futures::future::join_all((0..128).map(|_| documents.query(&query))).await {
        assert_eq!(answer?.documents.len(), 750);
    }
    assert_eq!(places(provider.backfill().await?).ok_or("there is no index")?.done, 3_000);
    let builds = doc! { "currentOp": 1, "appName": BACKFILL, "command.createIndexes": "documents" };
    assert_eq!(admin.run_command(builds).await?.get_array("inprog")?.len(), 1);
    // While the index is built, the server changes no rule, so a program that has to change one waits.
    let entries = database.collection::<Document>("schema_migrations");
    entries.delete_many(doc! { "version": { "$gte": 3 } }).await?;
    let hasty = MongoConfig::from_url(&format!("{}&deadline_ms=1000", server.url()))?;
    assert!(open(hasty).await.expect_err("it waits").is_retryable());
    admin.run_command(hang("off")).await?;
    to_the_end(&provider).await?;
    assert_eq!(documents.query(&query).await?.documents.len(), 750);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);

    // Rows before the mark do not count as left, even if nobody has counted them.
    let rows = database.collection::<Document>("documents");
    let last = rows.find_one(doc! {}).sort(doc! { "_id": 1 }).skip(2_000).await?.ok_or("a row is gone")?;
    let entry = doc! { "complete": false, "done": 0_i64, "mark": last.get("_id") };
    entries.update_one(doc! { "_id": PATHS }, doc! { "$set": entry }).await?;
    let again = open(config).await?;
    assert_eq!(again.documents().query(&query).await?.documents.len(), 750);
    assert_eq!(places(again.backfill().await?), None);
    Ok(())
}

async fn a_slice_of_large_rows_is_short() -> CaseResult {
    const ROWS: u64 = 24;
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    let text = ".".repeat(1 << 20);
    for number in 0..ROWS {
        provider.store(event("a", number as i64).with_context(context(&text))).await?;
    }
    into_version_2(&database, true).await?;
    let provider = open(config).await?;
    let mut done = 0;
    while let Some(progress) = provider.backfill().await? {
        assert!(progress.done - done <= 8, "{} rows in one slice", progress.done - done);
        done = progress.done;
    }
    assert_eq!(done, ROWS);
    assert_eq!(with_words(&database).await?, [0, 0]);
    Ok(())
}

/// The server takes no update of a row whose revision can't be read.
async fn a_row_that_is_damaged_is_passed_over() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    let damaged = [provider.store(event("a", 1)).await?, provider.store(event("a", 2)).await?];
    let sound = provider.store(event("a", 3)).await?;
    into_version_2(&database, true).await?;
    let memories = database.collection::<Document>("memories");
    for (number, damage) in [(1_i64, doc! { "trigger": "{\"cut" }), (2, doc! { "revision": "many" })] {
        let damage = memories.update_one(doc! { "createdAt": number }, doc! { "$set": damage });
        damage.bypass_document_validation(true).await?;
    }

    let provider = open(config).await?;
    to_the_end(&provider).await?;
    assert_eq!(provider.backfill().await?, None);
    assert_eq!(with_words(&database).await?, [1, 0]);
    for id in damaged {
        assert_eq!(provider.get(id).await.expect_err("a damaged row").kind(), ErrorKind::Corrupt);
    }
    assert_eq!(provider.update(sound, completed()).await?.revision.get(), 2);
    Ok(())
}

/// Runs beside a program that writes; a program that does not know of places is refused.
async fn older_documents_get_their_places() -> CaseResult {
    let server = LocalMongo::start()?;
    let (config, database) = (config(&server.url()), database(&server.url()).await?);
    let provider = open(config.clone()).await?;
    provider.documents().restore((0..4_200).map(document).collect()).await?;
    let found = async |provider: &MongoMemory| {
        let query = DocumentQuery::builder(Collection::parse("c")?).under("a").limit(1_000);
        let query = query.filter_text("id LIKE '___0_'").build()?;
        Ok::<_, Error>(provider.documents().query(&query).await?.documents)
    };
    let before = found(&provider).await?;
    assert_eq!(before.len(), 336);
    let rows = database.collection::<Document>("documents");
    let older = without_places(&database).await?;

    let newer = open(config).await?;
    let mut progress = newer.backfill().await?.ok_or("some are left")?;
    assert_eq!((progress.blocks, progress.done, progress.total), (Blocks::DocumentPlaces, 500, 4_200));
    assert_eq!(refusal(rows.update_one(doc! { "_id.id": "00010" }, older).await), NOT_VALID);
    // A slice is a write: it waits while the ledger is read-only.
    newer.set_read_only(true).await?;
    let refused = newer.backfill().await.expect_err("read-only");
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unavailable, true), "{refused:?}");
    newer.set_read_only(false).await?;
    for (moved, gone) in [("00010", "00011"), ("04110", "04111")] {
        newer.documents().put(write("z-1").with_id(DocumentId::parse(moved)?)).await?;
        let gone = DocumentSelection::ids(Collection::parse("c")?, [DocumentId::parse(gone)?])?;
        assert_eq!(newer.documents().remove(&gone, 1).await?.len(), 1);
    }
    // The query completes the last part itself.
    loop {
        assert_eq!(found(&newer).await?, before);
        let Some(next) = places(newer.backfill().await?) else { break };
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

/// A program of version 7, which writes no times, runs meanwhile: its updates keep the time of a memory, and its puts
/// clear that of a document.
async fn an_older_ledger_lists_what_expires() -> CaseResult {
    let server = LocalMongo::start()?;
    let (mut config, database) = (config(&server.url()), database(&server.url()).await?);
    config.clock = Arc::new(ManualClock::new(at(0)));
    let older = open(config.clone()).await?;
    let old = older.store(event("a", 1)).await?;
    older.documents().put(write("a")).await?;
    into_version_6(&database).await?;
    assert_eq!(memory_mongo::plan(&config).await?.applied, BEHIND_1[6..]);
    let missing = memory_mongo::inspect(&config).await?.missing;
    assert_eq!(missing, ["memories.expiry", "documents.expiry", "tombstones.key"]);
    assert_eq!(memory_mongo::migrate(&config).await?.applied, BEHIND_1[6..]);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);

    let provider = open(config.clone()).await?;
    assert_eq!(provider.backfill().await?, None);
    let memory = provider.get(old).await?.ok_or("a memory is gone")?;
    assert_eq!(memory.expires_at, None);
    provider.update(old, MemoryPatch::new().set_expiry(at(20))).await?;
    for space in ["a", "b"] {
        provider.documents().put(write(space).expires_at(at(30))).await?;
    }
    let engine = MongoEngine::open(&config).await?;
    let all = [(at(20), RecordId::from(old)), (at(30), of(write("a"))), (at(30), of(write("b")))];
    assert_eq!(expired(&engine).await?, all);

    // Exactly the commands of that program.
    let memories = database.collection::<Document>("memories");
    let set = doc! { "revision": 3_i64, "written": 3 * 256 + 7_i64, "context": "\"older\"" };
    let update = doc! { "$set": set, "$unset": { "words": "" } };
    assert_eq!(memories.update_one(doc! { "revision": 2_i64 }, update).await?.matched_count, 1);
    let documents = database.collection::<Document>("documents");
    let found = doc! { "_id.id": "a" };
    let mut row = documents.find_one(found.clone()).await?.ok_or("a document is gone")?;
    row.remove("expiresAt");
    row.remove("expiryKey");
    row.insert("revision", 3_i64);
    row.insert("written", 3 * 256 + 7_i64);
    assert_eq!(documents.replace_one(found, &row).await?.matched_count, 1);
    assert_eq!(provider.get(old).await?.ok_or("a memory is gone")?.expires_at, Some(at(20)));
    assert_eq!(expired(&engine).await?, [(at(20), RecordId::from(old)), (at(30), of(write("b")))]);
    engine.close().await?;
    Ok(())
}

/// While the server builds the indexes, `init` waits for a limited time, and nobody else waits.
async fn the_list_of_a_large_ledger_comes_later() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let (mut config, database) = (config(&server.url()), database(&server.url()).await?);
    config.clock = Arc::new(ManualClock::new(at(0)));
    open(config.clone()).await?.store(event("a", 1)).await?;
    into_version_6(&database).await?;
    let admin = database.client().database("admin");
    let hang = |mode: &str| doc! { "configureFailPoint": "hangAfterSettingUpIndexBuild", "mode": mode };
    admin.run_command(hang("alwaysOn")).await?;

    config.deadline = Duration::from_secs(6);
    let provider = open(config.clone()).await?;
    let pending = provider.backfill().await?.ok_or("the index is there")?;
    assert_eq!((pending.name, pending.blocks), ("the index of what expires", Blocks::Nothing));
    let id = provider.store(event("a", 2).expires_at(at(20))).await?;
    assert_eq!(provider.get(id).await?.ok_or("a memory is gone")?.expires_at, Some(at(20)));
    let engine = MongoEngine::open(&config).await?;
    let early = expired(&engine).await.expect_err("there is no list yet");
    assert_eq!((early.kind(), early.is_retryable()), (ErrorKind::Unavailable, true), "{early:?}");

    admin.run_command(hang("off")).await?;
    to_the_end(&provider).await?;
    assert_eq!(expired(&engine).await?, [(at(20), RecordId::from(id))]);
    assert_eq!(memory_mongo::inspect(&config).await?.missing, [""; 0]);
    engine.close().await?;
    Ok(())
}

/// All that expires, as the engine has it.
async fn expired(engine: &MongoEngine) -> Result<Vec<(Timestamp, RecordId)>, Error> {
    let until = Instant::now() + Duration::from_secs(60);
    let expired = engine.run(Access::ReadLatest, until, Arc::new(Timestamp::MAX), |reader, by: &Timestamp| {
        Box::pin(reader.expired(*by, None, 100))
    });
    expired.await
}

/// Turns the ledger into one of a program of version 7, whose schema is that of version 6.
async fn into_version_6(database: &Database) -> mongodb::error::Result<()> {
    without_expiry(database).await?;
    database.collection::<Document>("tombstones").drop_index("key").await?;
    let entries = database.collection::<Document>("schema_migrations");
    entries.delete_many(doc! { "version": { "$gte": 7_i64 } }).await.map(drop)
}

/// Turns the ledger into one of a program of version 1.
async fn into_version_1(database: &Database) -> mongodb::error::Result<()> {
    for name in ["memories", "documents"] {
        database.run_command(doc! { "collMod": name, "validator": {} }).await?;
        let rows = database.collection::<Document>(name);
        rows.update_many(doc! {}, doc! { "$unset": { "written": "" } }).await?;
    }
    without_history(database).await?;
    without_erasure(database).await?;
    without_expiry(database).await?;
    let entries = database.collection::<Document>("schema_migrations");
    entries.delete_many(doc! { "version": { "$gte": 2 } }).await?;
    entries.update_many(doc! {}, doc! { "$unset": { "version": "" } }).await.map(drop)
}

/// Turns the ledger into one of a program of version 2 that has indexed its words, or some of them.
async fn into_version_2(database: &Database, is_complete: bool) -> CaseResult {
    let some = if is_complete {
        doc! {}
    } else {
        doc! { "createdAt": { "$lt": 2_000 } }
    };
    for (name, indexed) in [("memories", some), ("documents", doc! {})] {
        database.run_command(doc! { "collMod": name, "validator": {} }).await?;
        let rows = database.collection::<Document>(name);
        let words = doc! { "words": [{ "$toString": "$createdAt" }, "first"] };
        rows.update_many(indexed, vec![doc! { "$set": words }]).await?;
        let written = doc! { "written": { "$add": [{ "$multiply": ["$revision", 256] }, 3] } };
        rows.update_many(doc! {}, vec![doc! { "$set": written }]).await?;
    }
    without_history(database).await?;
    without_erasure(database).await?;
    without_expiry(database).await?;
    bring_back(database).await?;
    let words = migrations::mongo().iter().find(|step| step.name == "words").ok_or("no step")?;
    let mut entry = doc! { "_id": "words", "version": 2_i64, "name": "words", "checksum": words.checksum() };
    if !is_complete {
        entry.extend(doc! { "complete": false, "mark": Bson::MinKey, "done": 0_i64 });
    }
    let entries = database.collection::<Document>("schema_migrations");
    entries.delete_many(doc! { "version": { "$gte": 3 } }).await?;
    entries.insert_one(entry).await?;
    Ok(())
}

/// Removes everything that the step of the history and later writes have added, except the rules and the entry of the
/// step.
async fn without_history(database: &Database) -> mongodb::error::Result<()> {
    database.collection::<Document>("history").drop().await?;
    for (name, field) in [("memories", "storedAt"), ("documents", "entry")] {
        let rows = database.collection::<Document>(name);
        rows.update_many(doc! {}, doc! { "$unset": { field: "" } }).bypass_document_validation(true).await?;
    }
    let bookkeeping = database.collection::<Document>("schema_migrations");
    bookkeeping.delete_many(doc! { "_id": "historySince" }).await.map(drop)
}

/// The same for the step of erasure.
async fn without_erasure(database: &Database) -> mongodb::error::Result<()> {
    database.collection::<Document>("tombstones").drop().await?;
    let marks = doc! { "_id": { "$type": "binData" } };
    database.collection::<Document>("idempotency_keys").delete_many(marks).await?;
    let bookkeeping = database.collection::<Document>("schema_migrations");
    bookkeeping.delete_many(doc! { "_id": "hashKey" }).await.map(drop)
}

/// The same for the step of expiry, which has rows of its own in no collection, and in erasure's one an index.
async fn without_expiry(database: &Database) -> mongodb::error::Result<()> {
    for name in ["memories", "documents"] {
        let rows = database.collection::<Document>(name);
        if rows.list_index_names().await?.contains(&"expiry".to_owned()) {
            rows.drop_index("expiry").await?;
        }
        let fields = doc! { "$unset": { "expiresAt": "", "expiryKey": "" } };
        rows.update_many(doc! {}, fields).bypass_document_validation(true).await?;
    }
    let bookkeeping = database.collection::<Document>("schema_migrations");
    bookkeeping.delete_many(doc! { "_id": "retention" }).await.map(drop)
}

/// Adds the rules and the indexes of version 2 for words.
async fn bring_back(database: &Database) -> CaseResult {
    for name in ["memories", "documents"] {
        let rules = commands("collMod", name)?.into_iter();
        let rules: Vec<_> = rules.filter_map(|command| command.get("validator").cloned()).collect();
        let validator = doc! { "collMod": name, "validator": { "$and": rules }, "validationLevel": "strict" };
        database.run_command(validator).await?;
        database.run_command(index_of_words(name)?).await?;
    }
    Ok(())
}

/// The commands of this kind, up to version 2, on a collection.
fn commands(kind: &str, name: &str) -> serde_json::Result<Vec<Document>> {
    let steps = migrations::mongo().iter().filter(|step| step.version <= 2);
    let commands: Vec<Vec<Document>> = steps.map(|step| serde_json::from_str(step.text)).collect::<Result<_, _>>()?;
    let is_one = |command: &Document| command.get_str(kind).is_ok_and(|on| on == name);
    Ok(commands.into_iter().flatten().filter(is_one).collect())
}

/// The command that makes the index of the words of a collection.
fn index_of_words(name: &str) -> serde_json::Result<Document> {
    let mut commands = commands("createIndexes", name)?.into_iter();
    Ok(commands.find(|command| command.to_string().contains("words")).expect("a command"))
}

/// Turns the documents into those of a program of version 2 that does not know of places, and returns its update
/// command.
async fn without_places(database: &Database) -> mongodb::error::Result<Document> {
    let rows = database.collection::<Document>("documents");
    database.run_command(doc! { "collMod": "documents", "validator": {} }).await?;
    rows.drop_index("paths").await?;
    rows.drop_index("spaces").await?;
    let older = doc! { "$unset": { "paths": "" }, "$set": { "written": 256 + 2 } };
    rows.update_many(doc! {}, older.clone()).await?;
    let entries = database.collection::<Document>("schema_migrations");
    entries.delete_many(doc! { "$or": [{ "name": PATHS }, { "version": { "$gte": 3 } }] }).await?;
    Ok(older)
}

/// A backfill of places.
fn places(backfill: Option<Backfill>) -> Option<Backfill> {
    backfill.filter(|backfill| backfill.blocks == Blocks::DocumentPlaces)
}

/// How many memories and documents have words.
async fn with_words(database: &Database) -> mongodb::error::Result<[u64; 2]> {
    let count =
        async |name| database.collection::<Document>(name).count_documents(doc! { "words": { "$exists": true } }).await;
    Ok([count("memories").await?, count("documents").await?])
}

async fn check_no_index(database: &Database) -> CaseResult {
    for name in ["memories", "documents"] {
        let indexes = database.collection::<Document>(name).list_index_names().await?;
        assert!(!indexes.contains(&"words".to_owned()), "{name}: {indexes:?}");
    }
    Ok(())
}

/// Takes slices until nothing is left to do, and returns how many.
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

/// The name of a put's document.
fn of(write: DocumentWrite) -> RecordId {
    (write.collection, write.id.expect("an id")).into()
}

/// The versions of a record, newest first: the revision of each, and whether its time is known.
async fn versions(provider: &MongoMemory, of: &RecordId) -> Result<Vec<(u64, bool)>, Error> {
    let versions = provider.history(&History::of(of.clone())).await?.versions;
    Ok(versions.iter().map(|version| (version.revision.get(), version.committed_at.is_some())).collect())
}

fn document(number: usize) -> memory_core::Document {
    memory_core::Document {
        id: DocumentId::parse(format!("{number:05}")).expect("valid"),
        collection: Collection::parse("c").expect("valid"),
        space_id: SpaceId::parse(["a", "a-b", "a/b:c", "ab-c"][number % 4]).expect("valid"),
        content: Content::parse("text").expect("valid"),
        metadata: Metadata::default(),
        created_at: at((number % 100) as i64),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    }
}

/// The whole ledger, by its ids.
async fn memories(provider: &MongoMemory) -> Result<BTreeMap<MemoryId, Memory>, Error> {
    let query = || MemoryQuery::builder().all().limit(1_000);
    let mut page = provider.query(&query().build()?).await?;
    let mut memories = page.memories;
    while let Some(cursor) = page.next {
        page = provider.query(&query().cursor(cursor).build()?).await?;
        memories.append(&mut page.memories);
    }
    Ok(memories.into_iter().map(|memory| (memory.id, memory)).collect())
}

/// All documents; they fit on one page.
async fn documents(provider: &MongoMemory) -> Result<Vec<memory_core::Document>, Error> {
    let query = DocumentQuery::builder(Collection::parse("c")?).all().limit(1_000).build()?;
    Ok(provider.documents().query(&query).await?.documents)
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

/// The error code with which the server refused a row.
#[track_caller]
fn refusal<T: std::fmt::Debug>(written: mongodb::error::Result<T>) -> i32 {
    match *written.expect_err("a write of version 1").kind {
        DriverKind::Write(WriteFailure::WriteError(refusal)) => refusal.code,
        other => panic!("{other:?}"),
    }
}
