//! MongoDB as it is in operation: refusals, elections, and plans at size.

mod deadlines;
mod deaths;
mod elections;
mod erasure;
mod expiry;
mod feed;
mod history;
mod outcomes;
mod plans;
mod stores;
mod vectors;

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conformance::CaseResult;
use conformance::fault::{Fault, Place, Proxy};
use conformance::server::mongo::LocalMongo;
use conformance::server::{async_trial, run_waiting};
use futures::StreamExt;
use memory_core::engine::Engine;
use memory_core::{
    ChangeKind, Collection, Content, Context, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Erasure,
    Error, ErrorKind, Expect, History, IdempotencyKey, ManualClock, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery,
    Metadata, NewMemory, Order, Outcome, Record, RecordId, Revision, SpaceId, SpaceSelector, Status, Timestamp,
    Trigger, Watch, WatchFrom, Watched,
};
use memory_mongo::{MongoConfig, MongoEngine, MongoMemory};
use migrations::NO_WORDS;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{Acknowledgment, DriverInfo, WriteConcern};
use mongodb::{Client, Database};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Stands in payloads and passwords; no error may show it.
const SECRET: &str = "xyzzy";

/// The time limit for all calls that a dead program has blocked.
const SOON: Duration = Duration::from_secs(5);
/// How many tests run at once.
const AT_ONCE: usize = 3;

fn main() -> ExitCode {
    let trials = vec![
        async_trial("mongo::a_standalone_server_is_refused", a_standalone_server_is_refused),
        async_trial("mongo::users_are_asked_for_their_password", users_are_asked_for_their_password),
        async_trial("mongo::connections_are_encrypted", connections_are_encrypted),
        async_trial("mongo::each_refusal_has_its_kind", each_refusal_has_its_kind),
        async_trial("mongo::what_is_passing_is_tried_again", outcomes::what_is_passing_is_tried_again),
        async_trial("mongo::what_is_told_of_a_write_is_true", outcomes::what_is_told_of_a_write_is_true),
        async_trial("mongo::a_call_ends_at_the_server_too", deadlines::a_call_ends_at_the_server_too),
        async_trial("mongo::a_fence_that_is_given_up_comes_no_more", deadlines::a_fence_that_is_given_up_comes_no_more),
        async_trial("mongo::an_insert_waits_for_one_deadline", deadlines::an_insert_waits_for_one_deadline),
        async_trial("mongo::reads_tell_the_server_their_time", deadlines::reads_tell_the_server_their_time),
        async_trial("mongo::a_refusal_waits_for_a_majority", elections::a_refusal_waits_for_a_majority),
        async_trial("mongo::a_newer_schema_is_refused", a_newer_schema_is_refused),
        async_trial(
            "mongo::what_a_dead_program_has_locked_is_free_again",
            deaths::what_a_dead_program_has_locked_is_free_again,
        ),
        async_trial("mongo::a_dead_program_holds_nobody_up", deaths::a_dead_program_holds_nobody_up),
        async_trial("mongo::slow_writes_ask_the_server_little", deaths::slow_writes_ask_the_server_little),
        async_trial(
            "mongo::the_failure_of_one_store_touches_no_other",
            stores::the_failure_of_one_store_touches_no_other,
        ),
        async_trial("mongo::one_key_does_not_part_a_batch", stores::one_key_does_not_part_a_batch),
        async_trial("mongo::the_largest_insert_is_one_command", stores::the_largest_insert_is_one_command),
        async_trial("mongo::restores_that_race_find_no_conflict", stores::restores_that_race_find_no_conflict),
        async_trial("mongo::calls_work_again_after_a_restart", elections::calls_work_again_after_a_restart),
        async_trial("mongo::calls_wait_for_a_new_primary", elections::calls_wait_for_a_new_primary),
        async_trial("mongo::a_new_primary_is_read_when_it_knows", elections::a_new_primary_is_read_when_it_knows),
        async_trial("mongo::acknowledged_stores_survive_elections", elections::acknowledged_stores_survive_elections),
        async_trial(
            "mongo::an_operator_is_told_of_a_majority_that_lags",
            elections::an_operator_is_told_of_a_majority_that_lags,
        ),
        async_trial("mongo::recalls_walk_an_index", plans::recalls_walk_an_index),
        async_trial(
            "mongo::a_filter_and_a_glob_examine_what_their_spaces_hold",
            plans::a_filter_and_a_glob_examine_what_their_spaces_hold,
        ),
        async_trial("mongo::collections_are_listed_from_name_to_name", plans::collections_are_listed_from_name_to_name),
        async_trial("mongo::entries_have_the_order_of_their_commits", history::entries_have_the_order_of_their_commits),
        async_trial("mongo::histories_walk_an_index", history::histories_walk_an_index),
        async_trial("mongo::a_slice_of_large_entries_is_short", history::a_slice_of_large_entries_is_short),
        async_trial("mongo::nothing_is_left_of_what_is_erased", erasure::nothing_is_left_of_what_is_erased),
        async_trial(
            "mongo::a_new_member_has_nothing_of_what_was_erased",
            erasure::a_new_member_has_nothing_of_what_was_erased,
        ),
        async_trial("mongo::erasures_and_restores_race", erasure::erasures_and_restores_race),
        async_trial("mongo::a_document_goes_on_behind_its_erasure", erasure::a_document_goes_on_behind_its_erasure),
        async_trial("mongo::a_tombstone_that_came_meanwhile_stays", erasure::a_tombstone_that_came_meanwhile_stays),
        async_trial("mongo::what_expires_is_listed", expiry::what_expires_is_listed),
        async_trial("mongo::what_is_forgotten_keeps_nothing_out", expiry::what_is_forgotten_keeps_nothing_out),
        async_trial("mongo::a_mark_stays_for_who_comes_meanwhile", expiry::a_mark_stays_for_who_comes_meanwhile),
        async_trial("mongo::rules_of_retention_are_one_row", expiry::rules_of_retention_are_one_row),
        async_trial("mongo::a_vector_goes_with_its_texts", vectors::a_vector_goes_with_its_texts),
        async_trial("mongo::of_many_vectors_each_is_kept_by_itself", vectors::of_many_vectors_each_is_kept_by_itself),
        async_trial(
            "mongo::what_came_again_takes_no_vector_of_other_texts",
            vectors::what_came_again_takes_no_vector_of_other_texts,
        ),
        async_trial("mongo::a_vector_is_in_no_feed", vectors::a_vector_is_in_no_feed),
        async_trial(
            "mongo::a_vector_that_an_older_program_leaves_counts_no_more",
            vectors::a_vector_that_an_older_program_leaves_counts_no_more,
        ),
        async_trial("mongo::vectors_obey_the_rules_for_writers", vectors::vectors_obey_the_rules_for_writers),
        async_trial("mongo::vectors_are_read_where_they_are_wanted", vectors::vectors_are_read_where_they_are_wanted),
        async_trial("mongo::what_expires_walks_an_index", plans::what_expires_walks_an_index),
        async_trial("mongo::a_page_of_the_feed_has_many_removals", feed::a_page_of_the_feed_has_many_removals),
        async_trial(
            "mongo::a_watch_that_continues_reads_the_log_once",
            feed::a_watch_that_continues_reads_the_log_once,
        ),
        async_trial(
            "mongo::a_query_of_documents_examines_what_its_places_hold",
            plans::a_query_of_documents_examines_what_its_places_hold,
        ),
    ];
    run_waiting(AT_ONCE, trials)
}

async fn a_standalone_server_is_refused() -> CaseResult {
    let server = LocalMongo::start_standalone()?;
    let error = init(config(&server.url())).await;
    check(&error, ErrorKind::Unsupported, "mongod --replSet rs0");
    assert!(error.message().contains("rs.initiate()"), "{error}");
    // A server that was set up with these two commands works.
    let server = LocalMongo::start()?;
    open(config(&server.url())).await?.store(event("a-b", 1)).await?;
    Ok(())
}

async fn users_are_asked_for_their_password() -> CaseResult {
    let server = LocalMongo::start_with_user("admin", SECRET)?;
    let provider = open(config(&server.url())).await?;
    let id = provider.store(event("a-b", 1)).await?;
    provider.check_health().await?;

    let wrong = server.url().replace(SECRET, "plugh");
    check(&init(config(&wrong)).await, ErrorKind::Unauthorized, "refused the user or its password");
    let nobody = server.url().replace(&format!("admin:{SECRET}@"), "").replace("&authSource=admin", "");
    check(&init(config(&nobody)).await, ErrorKind::Unauthorized, "lacks a permission");

    let reads = doc! { "createUser": "guest", "pwd": SECRET, "roles": [{ "role": "read", "db": "agent_memory" }] };
    admin(&server.url()).await?.run_command(reads).await?;
    let guest = server.url().replace("admin:", "guest:");
    check(&init(config(&guest)).await, ErrorKind::Unauthorized, "lacks a permission");

    // Exactly the roles that the README names: a user who may write, but not change the rules of a collection, can't
    // migrate.
    let role = |role: &str| doc! { "role": role, "db": "agent_memory" };
    let create = |name: &str, roles: Vec<Document>| doc! { "createUser": name, "pwd": SECRET, "roles": roles };
    admin(&server.url()).await?.run_command(create("app", vec![role("readWrite")])).await?;
    let owner = create("owner", vec![role("readWrite"), role("dbAdmin")]);
    admin(&server.url()).await?.run_command(owner).await?;
    let app = config(&server.url().replace("admin:", "app:"));
    use_everything(open(app.clone()).await?).await?;
    // The collections as the step has found them.
    let database = admin(&server.url()).await?.client().database("agent_memory");
    database.run_command(doc! { "collMod": "memories", "validator": {} }).await?;
    let later = doc! { "version": { "$gte": 3 } };
    database.collection::<Document>("schema_migrations").delete_many(later).await?;
    check(&init(app.clone()).await, ErrorKind::Unauthorized, "lacks a permission");
    let owner = config(&server.url().replace("admin:", "owner:"));
    memory_mongo::migrate(&owner).await?;
    let backfilled = open(app.clone()).await?;
    let mut slices = 0;
    while backfilled.backfill().await?.is_some() {
        slices += 1;
    }
    assert!(slices > 0, "there was nothing to do");
    assert!(provider.get(id).await?.is_some());
    memory_mongo::remove(&owner).await?;
    memory_mongo::migrate(&owner).await?;
    assert_eq!(memory_mongo::inspect(&app).await?.missing, [""; 0]);
    use_everything(open(app).await?).await
}

/// A call of each kind.
async fn use_everything(provider: MongoMemory) -> CaseResult {
    let keyed = event("a-b", 2).with_idempotency_key(IdempotencyKey::parse("key")?);
    let ids = provider.store_many(vec![event("a-b", 1), keyed]).await?;
    provider.update(ids[0], MemoryPatch::new().with_status(Status::Completed)).await?;
    let memory = provider.get(ids[0]).await?.ok_or("a memory is gone")?;
    assert_eq!(provider.restore(vec![memory]).await?.equal, 1);
    provider.query(&MemoryQuery::builder().prefix("a").build()?).await?;
    let documents = provider.documents();
    for id in ["a", "b", "a"] {
        documents.put(note(id)).await?;
    }
    let query = DocumentQuery::builder(note("a").collection).under("a");
    assert_eq!(documents.query(&query.clone().text(SECRET).build()?).await?.documents.len(), 2);
    let copies = documents.query(&query.clone().build()?).await?.documents;
    assert_eq!(documents.remove(&DocumentSelection::matching(query)?, 2).await?.len(), 2);
    assert_eq!(documents.restore(copies).await?.written, 2);
    documents.collections().await?;
    assert_eq!(provider.history(&History::of(ids[0])).await?.versions.len(), 2);
    assert_eq!(provider.erase(&Erasure::records([ids[0].into()], "why")?).await?.records, [ids[0].into()]);
    provider.check_health().await?;
    provider.backfill().await?;
    Ok(())
}

async fn connections_are_encrypted() -> CaseResult {
    let server = LocalMongo::start_with_tls()?;
    let provider = open(config(&server.url())).await?;
    provider.store(event("a-b", 1)).await?;
    // Whoever trusts other authorities only, does not send it anything.
    let stranger = server.url().split("&tlsCAFile").next().unwrap_or_default().to_owned();
    let error = init(config(&(stranger + "&serverSelectionTimeoutMS=1000"))).await;
    check(&error, ErrorKind::Unavailable, "no server");
    Ok(())
}

async fn each_refusal_has_its_kind() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let provider = open(config(&server.url())).await?;
    let admin = admin(&server.url()).await?;

    let unreachable = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100";
    check(&init(config(unreachable)).await, ErrorKind::Unavailable, "no server");

    // A duplicate key, as the contract has it.
    let key = IdempotencyKey::parse("key")?;
    let first = provider.store(event("a-b", 1).with_idempotency_key(key.clone())).await?;
    assert_eq!(provider.store(event("a-b", 2).with_idempotency_key(key.clone())).await?, first);
    let other = provider.store(event("a-c", 1).with_idempotency_key(key)).await.expect_err("a key that is taken");
    check(&other, ErrorKind::Conflict, "another trigger or space");

    // Nobody knows how a transaction will end that holds what a store writes.
    let mut hasty = config(&server.url());
    hasty.deadline = Duration::from_secs(1);
    let hasty = open(hasty).await?;
    let mut session = admin.client().start_session().await?;
    session.start_transaction().await?;
    let keys = admin.client().database("agent_memory").collection::<Document>("idempotency_keys");
    keys.insert_one(doc! { "_id": "held" }).session(&mut session).await?;
    let held = || event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("held").expect("a key"));
    let late = hasty.store(held()).await.expect_err("a write conflict");
    assert!(matches!(late.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) && late.is_retryable(), "{late:?}");
    session.abort_transaction().await?;
    hasty.store(held()).await?;

    for (code, kind, message) in [
        (50, ErrorKind::Timeout, "took too long"),
        (14031, ErrorKind::Unavailable, "disk of the server is full"),
        (26, ErrorKind::SchemaMismatch, "is gone"),
        (10334, ErrorKind::TooLarge, "larger than the server takes"),
        (13, ErrorKind::Unauthorized, "lacks a permission"),
    ] {
        fail(&admin, "alwaysOn".into(), doc! { "errorCode": code, "failCommands": ["insert"] }).await?;
        let refused = provider.store(event("a-b", 1)).await.expect_err("a refusal");
        check(&refused, kind, message);
        fail(&admin, "alwaysOn".into(), doc! { "errorCode": code, "failCommands": ["find"] }).await?;
        let refused = provider.get(first).await.expect_err("a refusal");
        check(&refused, kind, message);
        assert_eq!(refused.outcome(), Outcome::NotDone);
    }
    fail(&admin, "off".into(), doc! {}).await?;
    assert!(provider.get(first).await?.is_some());
    Ok(())
}

async fn a_newer_schema_is_refused() -> CaseResult {
    let server = LocalMongo::start()?;
    open(config(&server.url())).await?;
    let steps =
        admin(&server.url()).await?.client().database("agent_memory").collection::<Document>("schema_migrations");
    steps.insert_one(doc! { "_id": 99_i64, "name": "future", "checksum": "" }).await?;
    check(&init(config(&server.url())).await, ErrorKind::SchemaMismatch, r#"version 99 "future""#);
    Ok(())
}

fn config(url: &str) -> MongoConfig {
    MongoConfig::from_url(url).expect("the URL of a test server")
}

async fn open(config: MongoConfig) -> Result<MongoMemory, Error> {
    let provider = MongoMemory::open(config)?;
    provider.init().await?;
    Ok(provider)
}

async fn init(config: MongoConfig) -> Error {
    MongoMemory::open(config).expect("a provider").init().await.expect_err("a refusal")
}

/// The administrative database, by a client of its own.
async fn admin(url: &str) -> mongodb::error::Result<Database> {
    let mut options = mongodb::options::ClientOptions::parse(url).await?;
    options.write_concern = Some(WriteConcern::builder().w(Acknowledgment::Majority).build());
    Ok(Client::with_options(options)?.database("admin"))
}

/// A client that the server takes for a program on the usual namespace.
async fn program(url: &str) -> mongodb::error::Result<Client> {
    let mut options = mongodb::options::ClientOptions::parse(url).await?;
    options.driver_info = Some(DriverInfo::builder().name("agent-memory/agent_memory").build());
    Client::with_options(options)
}

/// Makes commands of the providers fail, but none of this test.
async fn fail(admin: &Database, mode: Bson, mut what: Document) -> mongodb::error::Result<()> {
    if mode != Bson::from("off") {
        what.insert("appName", "agent-memory");
    }
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": what };
    admin.run_command(command).await.map(drop)
}

fn event(space: &str, millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"{SECRET}"}}"#)).expect("valid");
    NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, at(millis))
}

fn note(id: &str) -> DocumentWrite {
    let (collection, content) = (Collection::parse("notes").expect("valid"), Content::parse(SECRET).expect("valid"));
    let write = DocumentWrite::new(collection, SpaceId::parse("a-b").expect("valid"), content, at(1));
    write.with_id(DocumentId::parse(id).expect("valid"))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}

/// The ids of the whole ledger.
async fn all(provider: &MongoMemory) -> Result<Vec<MemoryId>, Error> {
    let query = || MemoryQuery::builder().all().limit(1_000);
    let mut page = provider.query(&query().build()?).await?;
    let mut ids: Vec<_> = page.memories.iter().map(|memory| memory.id).collect();
    while let Some(cursor) = page.next {
        page = provider.query(&query().cursor(cursor).build()?).await?;
        ids.extend(page.memories.iter().map(|memory| memory.id));
    }
    Ok(ids)
}

/// Waits until something is so.
async fn eventually(is_so: impl AsyncFn() -> bool) -> CaseResult {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    Ok(timeout(Duration::from_secs(60), wait).await?)
}

#[track_caller]
fn check(error: &Error, kind: ErrorKind, message: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.message().contains(message), "{error:?}");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(SECRET), "an error tells a secret: {text}");
    }
}
