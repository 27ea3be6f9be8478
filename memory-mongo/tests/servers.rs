//! MongoDB as it is in operation: refusals, elections, and plans at size.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conformance::CaseResult;
use conformance::fault::{Fault, Place, Proxy};
use conformance::server::async_trial;
use conformance::server::mongo::LocalMongo;
use libtest_mimic::Arguments;
use memory_core::engine::Engine;
use memory_core::{
    Collection, Content, Context, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, Error, ErrorKind,
    Expect, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, NewMemory, Order, Outcome,
    Revision, SpaceId, SpaceSelector, Status, TextIndex, Timestamp, Trigger,
};
use memory_mongo::{MongoConfig, MongoEngine, MongoMemory};
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use mongodb::options::{Acknowledgment, DriverInfo, WriteConcern};
use mongodb::{Client, Database};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Stands in payloads and passwords; no error may show it.
const SECRET: &str = "xyzzy";
/// Within this time everybody is served whom a dead program was in the way of.
const SOON: Duration = Duration::from_secs(5);
/// Another number of times that the primary is killed.
const ROUNDS: &str = "MEMORY_TEST_MONGO_ROUNDS";

fn main() -> ExitCode {
    let trials = vec![
        async_trial("mongo::a_standalone_server_is_refused", a_standalone_server_is_refused),
        async_trial("mongo::users_are_asked_for_their_password", users_are_asked_for_their_password),
        async_trial("mongo::connections_are_encrypted", connections_are_encrypted),
        async_trial("mongo::each_refusal_has_its_kind", each_refusal_has_its_kind),
        async_trial("mongo::what_is_passing_is_tried_again", what_is_passing_is_tried_again),
        async_trial("mongo::what_is_told_of_a_write_is_true", what_is_told_of_a_write_is_true),
        async_trial("mongo::a_call_ends_at_the_server_too", a_call_ends_at_the_server_too),
        async_trial("mongo::an_insert_waits_for_one_deadline", an_insert_waits_for_one_deadline),
        async_trial("mongo::reads_tell_the_server_their_time", reads_tell_the_server_their_time),
        async_trial("mongo::a_newer_schema_is_refused", a_newer_schema_is_refused),
        async_trial(
            "mongo::what_a_dead_program_has_locked_is_free_again",
            what_a_dead_program_has_locked_is_free_again,
        ),
        async_trial("mongo::a_dead_program_holds_nobody_up", a_dead_program_holds_nobody_up),
        async_trial("mongo::slow_writes_ask_the_server_little", slow_writes_ask_the_server_little),
        async_trial("mongo::the_failure_of_one_store_touches_no_other", the_failure_of_one_store_touches_no_other),
        async_trial("mongo::one_key_does_not_part_a_batch", one_key_does_not_part_a_batch),
        async_trial("mongo::the_largest_insert_is_one_command", the_largest_insert_is_one_command),
        async_trial("mongo::stores_learn_that_the_ledger_is_indexed", stores_learn_that_the_ledger_is_indexed),
        async_trial("mongo::restores_that_race_find_no_conflict", restores_that_race_find_no_conflict),
        async_trial("mongo::calls_work_again_after_a_restart", calls_work_again_after_a_restart),
        async_trial("mongo::a_new_primary_is_read_when_it_knows", a_new_primary_is_read_when_it_knows),
        async_trial("mongo::acknowledged_stores_survive_elections", acknowledged_stores_survive_elections),
        async_trial("mongo::recalls_walk_an_index", recalls_walk_an_index),
        async_trial(
            "mongo::a_filter_and_a_glob_examine_what_their_spaces_hold",
            a_filter_and_a_glob_examine_what_their_spaces_hold,
        ),
        async_trial(
            "mongo::a_query_of_documents_examines_what_its_places_hold",
            a_query_of_documents_examines_what_its_places_hold,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn a_standalone_server_is_refused() -> CaseResult {
    let server = LocalMongo::start_standalone()?;
    let error = init(config(&server.url())).await;
    check(&error, ErrorKind::Unsupported, "mongod --replSet rs0");
    assert!(error.message().contains("rs.initiate()"), "{error}");
    // What it says is enough.
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

    // Exactly what README names: who may write, but not change the rules of a collection, needs somebody else to migrate.
    let role = |role: &str| doc! { "role": role, "db": "agent_memory" };
    let create = |name: &str, roles: Vec<Document>| doc! { "createUser": name, "pwd": SECRET, "roles": roles };
    admin(&server.url()).await?.run_command(create("app", vec![role("readWrite")])).await?;
    let owner = create("owner", vec![role("readWrite"), role("dbAdmin")]);
    admin(&server.url()).await?.run_command(owner).await?;
    let mut app = config(&server.url().replace("admin:", "app:"));
    use_everything(open(app.clone()).await?).await?;
    app.text_index = TextIndex::All;
    check(&init(app.clone()).await, ErrorKind::Unauthorized, "lacks a permission");
    let mut owner = config(&server.url().replace("admin:", "owner:"));
    owner.text_index = TextIndex::All;
    memory_mongo::migrate(&owner).await?;
    let backfilled = open(app.clone()).await?;
    while backfilled.backfill().await?.is_some() {}
    assert!(provider.get(id).await?.is_some());
    memory_mongo::remove(&owner).await?;
    memory_mongo::migrate(&owner).await?;
    assert_eq!(memory_mongo::inspect(&app).await?.missing, [""; 0]);
    let provider = open(app).await?;
    use_everything(provider.clone()).await?;
    provider.query(&MemoryQuery::builder().all().text(SECRET).build()?).await?;
    Ok(())
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

    // Of a transaction that holds what a store writes, nobody knows how it ends.
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

    // The server itself refuses a document beyond its limit: here the words of the ledger take more than the text.
    let mut indexed = config(&server.url());
    indexed.namespace = "words".to_owned();
    indexed.text_index = TextIndex::All;
    let indexed = open(indexed).await?;
    let large = indexed.store(large()).await;
    check(&large.expect_err("too many words"), ErrorKind::TooLarge, "larger than the server takes");

    for (code, kind, message) in [
        (50, ErrorKind::Timeout, "took too long"),
        (14031, ErrorKind::Unavailable, "disk of the server is full"),
        (26, ErrorKind::SchemaMismatch, "is gone"),
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

async fn what_is_passing_is_tried_again() -> CaseResult {
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    // A server that only pretends not to be the primary does not tell that it is one again, but has to be asked.
    let provider = open(config(&format!("{}&heartbeatFrequencyMS=500", server.url()))).await?;
    let admin = admin(&server.url()).await?;
    let mut stored = vec![provider.store(event("a-b", 1)).await?];
    let keyed = |number: i64| {
        event("a-b", number).with_idempotency_key(IdempotencyKey::parse(format!("k{number}")).expect("a key"))
    };

    // The driver asks twice, but for a write, so it is we who ask a third time.
    for what in [doc! { "closeConnection": true }, doc! { "errorCode": 10107 }, doc! { "errorCode": 91 }] {
        for command in ["insert", "commitTransaction", "find"] {
            let mut what = what.clone();
            what.insert("failCommands", [command]);
            fail(&admin, doc! { "times": 3 }.into(), what).await?;
            stored.push(provider.store(event("a-b", 1)).await?);
            stored.push(provider.store(keyed(stored.len() as i64)).await?);
            assert_eq!(provider.get(stored[0]).await?.map(|memory| memory.id), Some(stored[0]), "{command}");
        }
    }
    // Done, and the answer lost.
    for number in 0..3 {
        let lost = doc! { "failCommands": ["insert"], "writeConcernError": { "code": 91, "errmsg": "on purpose" } };
        fail(&admin, doc! { "times": 1 }.into(), lost).await?;
        stored.push(provider.store(event("a-b", number)).await?);
    }
    stored.sort_unstable();
    let mut found = all(&provider).await?;
    found.sort_unstable();
    assert_eq!(found, stored, "each is there once");

    // What can't be repeated is not.
    let lost = doc! { "failCommands": ["update"], "closeConnection": true };
    fail(&admin, doc! { "times": 1 }.into(), lost).await?;
    let patch = || MemoryPatch::new().with_status(Status::Completed);
    let unknown = provider.update(stored[0], patch()).await.expect_err("a lost answer");
    check(&unknown, ErrorKind::Unavailable, "connection to the server failed");
    assert_eq!(unknown.outcome(), Outcome::Unknown);
    assert_eq!(provider.update(stored[0], patch()).await?.revision.get(), 2);
    Ok(())
}

/// Whatever the server refuses, cuts off or does without telling: nothing that was done is told as not done, or is done twice.
async fn what_is_told_of_a_write_is_true() -> CaseResult {
    const WRITES: &[&str] = &["insert", "update", "delete"];
    const COMMIT: &[&str] = &["commitTransaction"];
    let server = LocalMongo::start_with(1, &["--setParameter", "enableTestCommands=1"])?;
    let (direct, admin) = (open(config(&server.url())).await?, admin(&server.url()).await?);
    let url = format!("{}&heartbeatFrequencyMS=500&deadline_ms=1000", server.url());
    let (provider, mut round) = (open(config(&url)).await?, 0);
    let error = |code: i32| doc! { "errorCode": code };
    let concern = |code: i32| doc! { "writeConcernError": { "code": code, "errmsg": "on purpose" } };
    let refused = [6, 7, 13, 50, 89, 91, 189, 262, 9001, 10107, 11602, 13435].map(|code| (WRITES, error(code)));
    let done = [64, 91, 10107].map(|code| (WRITES, concern(code)));
    let ends = [error(6), error(13), error(10107), concern(64), doc! { "closeConnection": true }];
    let ends = ends.map(|what| (COMMIT, what));
    let cut = (WRITES, doc! { "closeConnection": true });
    for (commands, mut what) in refused.into_iter().chain(done).chain(ends).chain([cut]) {
        round += 1;
        let writes = prepare(&direct, round).await?;
        what.insert("failCommands", commands);
        fail(&admin, "alwaysOn".into(), what.clone()).await?;
        let told = futures::future::join_all(writes.iter().map(|write| write.attempt(&provider))).await;
        fail(&admin, "off".into(), doc! {}).await?;
        for (write, told) in writes.iter().zip(told) {
            write.check(&direct, told, &what).await?;
            match what.get_i32("errorCode") {
                Ok(13) if commands == WRITES => assert_eq!(told, Some(Outcome::NotDone), "{write:?}"),
                // What was cut off may be done all the same, unless it is a part of a transaction.
                Ok(6 | 7 | 50 | 89 | 91 | 189 | 262 | 9001 | 11602) if commands == WRITES && !write.is_together() => {
                    assert_eq!(told, Some(Outcome::Unknown), "{write:?} {what}");
                }
                _ => {}
            }
        }
    }

    // The answer is lost, and who asks again is refused.
    let proxy = Proxy::before(&server.url()).await?;
    let url = format!("{}&directConnection=true&heartbeatFrequencyMS=500&deadline_ms=1000", proxy.url());
    let (behind, mut lost) = (open(config(&url)).await?, 0);
    let refuse = doc! { "failCommands": WRITES, "errorCode": 10107 };
    for bytes in (0..600).step_by(100) {
        round += 1;
        for write in prepare(&direct, round).await? {
            behind.check_health().await?;
            fail(&admin, doc! { "skip": 1 }.into(), refuse.clone()).await?;
            proxy.set(Fault::CutAnswer(Place::Bytes(bytes)));
            let told = write.attempt(&behind).await;
            lost += usize::from(proxy.fault() == Fault::None);
            proxy.set(Fault::None);
            fail(&admin, "off".into(), doc! {}).await?;
            write.check(&direct, told, &doc! { "cut": bytes as i64 }).await?;
        }
    }
    assert!(lost >= 20, "only {lost} answers were lost");
    Ok(())
}

/// A write, and what it is about.
#[derive(Debug)]
enum Write {
    Append(String),
    AppendTogether(String),
    Replace(MemoryId),
    PutNew(String),
    Put(String),
    Remove(String),
    RemoveTogether(String),
    Restore(Box<memory_core::Document>),
}

/// One write of each kind, with what has to be there before.
async fn prepare(direct: &MongoMemory, round: usize) -> Result<Vec<Write>, Error> {
    let name = |kind: &str| format!("{kind}-{round}");
    let documents = direct.documents();
    for id in ["put", "remove", "together", "also-together"] {
        documents.put(note(&name(id))).await?;
    }
    let mut restored = documents.put(note("given")).await?;
    restored.id = DocumentId::parse(name("restored"))?;
    Ok(vec![
        Write::Append(name("append")),
        Write::AppendTogether(name("append-together")),
        Write::Replace(direct.store(event("replaced", 1)).await?),
        Write::PutNew(name("new")),
        Write::Put(name("put")),
        Write::Remove(name("remove")),
        Write::RemoveTogether(name("together")),
        Write::Restore(Box::new(restored)),
    ])
}

impl Write {
    /// Whether it is a transaction.
    fn is_together(&self) -> bool {
        matches!(self, Self::AppendTogether(_) | Self::RemoveTogether(_))
    }

    /// Writes, and gives what the caller is told of its outcome; `None` when it is done.
    async fn attempt(&self, provider: &MongoMemory) -> Option<Outcome> {
        let documents = provider.documents();
        let selection = |ids: &[&str]| {
            let ids = ids.iter().map(|id| DocumentId::parse(*id).expect("valid"));
            DocumentSelection::ids(note("any").collection, ids).expect("valid")
        };
        let keyed = |name: &str| event(name, 1).with_idempotency_key(IdempotencyKey::parse(name).expect("a key"));
        let done = match self {
            Self::Append(name) => provider.store(event(name, 1)).await.map(drop),
            Self::AppendTogether(name) => provider.store_many(vec![event(name, 1), keyed(name)]).await.map(drop),
            Self::Replace(id) => provider.update(*id, MemoryPatch::new().with_status(Status::Failed)).await.map(drop),
            Self::PutNew(name) => documents.put(note(name).expect(Expect::Absent)).await.map(drop),
            Self::Put(name) => documents.put(note(name)).await.map(drop),
            Self::Remove(name) => documents.remove(&selection(&[name.as_str()]), 1).await.map(drop),
            Self::RemoveTogether(name) => {
                documents.remove(&selection(&[name.as_str(), &format!("also-{name}")]), 2).await.map(drop)
            }
            Self::Restore(document) => documents.restore(vec![(**document).clone()]).await.map(drop),
        };
        done.err().map(|error| error.outcome())
    }

    /// Fails when what was told is not what is there.
    async fn check(&self, direct: &MongoMemory, told: Option<Outcome>, trouble: &Document) -> CaseResult {
        let documents = direct.documents();
        let revision = async |id: &str| {
            let document = documents.get(&note(id).collection, &DocumentId::parse(id).expect("valid")).await;
            document.map(|document| document.map_or(0, |document| document.revision.get()))
        };
        let stored = async |name: &str| {
            let page = direct.query(&MemoryQuery::builder().exact(name).build()?).await;
            page.map(|page| page.memories.len() as u64)
        };
        let times = match self {
            Self::Append(name) => stored(name).await?,
            Self::AppendTogether(name) => match stored(name).await? {
                0 => 0,
                2 => 1,
                some => return Err(format!("{some} of two are there: {self:?} {trouble}").into()),
            },
            Self::Replace(id) => direct.get(*id).await?.ok_or("a memory is gone")?.revision.get() - 1,
            Self::PutNew(name) => revision(name).await?,
            Self::Put(name) => revision(name).await? - 1,
            Self::Remove(name) => 1 - revision(name).await?,
            Self::RemoveTogether(name) => match (revision(name).await?, revision(&format!("also-{name}")).await?) {
                (1, 1) => 0,
                (0, 0) => 1,
                some => return Err(format!("{some:?} of two are there: {self:?} {trouble}").into()),
            },
            Self::Restore(document) => u64::from(revision(document.id.as_str()).await? > 0),
        };
        let fits = match told {
            None => times == 1,
            Some(Outcome::NotDone) => times == 0,
            Some(Outcome::Unknown) => times <= 1,
        };
        assert!(fits, "{self:?} was told {told:?} and is there {times} times: {trouble}");
        Ok(())
    }
}

/// What is behind its deadline does not go on at the server, whether it searches or waits.
async fn a_call_ends_at_the_server_too() -> CaseResult {
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
    let (put, removed, began) = futures::join!(put, remove, eventually(async || is_under_way(&admin, "q").await));
    began?;
    for late in [put, removed] {
        let late = late.expect_err("it is held");
        assert_eq!((late.kind(), late.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
    }
    timeout(SOON, eventually(async || !is_under_way(&admin, "q").await)).await??;
    session.abort_transaction().await?;
    assert_eq!(provider.documents().put(note("held")).await?.revision.get(), 2);
    Ok(())
}

/// While the only secondary is behind, nothing is confirmed: inserts end all the same, and with them what their calls hold.
async fn an_insert_waits_for_one_deadline() -> CaseResult {
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

async fn reads_tell_the_server_their_time() -> CaseResult {
    let server = LocalMongo::start()?;
    let mut config = config(&server.url());
    config.text_index = TextIndex::All;
    let provider = open(config).await?;
    let database = admin(&server.url()).await?.client().database("agent_memory");
    database.run_command(doc! { "profile": 2 }).await?;
    let (id, documents) = (provider.store(event("a-b", 1)).await?, provider.documents());
    let keyed = || event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("key").expect("a key"));
    assert_eq!(provider.store(keyed()).await?, provider.store(keyed()).await?);
    provider.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    provider.update(id, MemoryPatch::new()).await?;
    provider.get(id).await?;
    let query = || MemoryQuery::builder().limit(1);
    for query in [query().all(), query().under("a"), query().prefix("a"), query().all().text(SECRET)] {
        provider.query(&query.build()?).await?;
    }
    let collection = documents.put(note("x")).await?.collection;
    documents.put(note("x")).await?;
    let query = || DocumentQuery::builder(collection.clone()).all();
    documents.query(&query().build()?).await?;
    documents.query(&query().text(SECRET).build()?).await?;
    documents.collections().await?;
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
        if ["find", "aggregate", "distinct"].contains(&kind.as_str()) {
            assert!(command.contains_key("maxTimeMS"), "{command}");
            kinds.insert(format!("{kind} {}", target.as_str().unwrap_or_default()));
        }
    }
    let expected =
        ["memories", "documents", "idempotency_keys", "schema_migrations"].map(|name| format!("find {name}"));
    let searches = ["aggregate memories", "aggregate documents", "distinct documents"].map(str::to_owned);
    assert_eq!(kinds, expected.into_iter().chain(searches).collect());
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

async fn what_a_dead_program_has_locked_is_free_again() -> CaseResult {
    let server = LocalMongo::start()?;
    let steps =
        admin(&server.url()).await?.client().database("agent_memory").collection::<Document>("schema_migrations");
    let until = doc! { "$set": { "owner": "nobody", "until": { "$add": ["$$NOW", 1_000] } } };
    steps.update_one(doc! { "_id": "lock" }, vec![until]).upsert(true).await?;
    open(config(&server.url())).await?.store(event("a-b", 1)).await?;
    assert_eq!(steps.count_documents(doc! { "_id": "lock" }).await?, 0, "the lock is given back");
    Ok(())
}

/// What a program was writing when it was killed is served at once: the server itself would keep its transactions for a minute.
async fn a_dead_program_holds_nobody_up() -> CaseResult {
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

        // Documents are written without a transaction, and wait for the one that is in their way.
        let another = program(&url).await?;
        let mut session = another.start_session().await?;
        session.start_transaction().await?;
        let documents = another.database("agent_memory").collection::<Document>("documents");
        documents.delete_many(doc! { "_id.id": "dead" }).session(&mut session).await?;
        another.shutdown().immediate(true).await;
        assert_eq!(timeout(SOON, provider.documents().put(note("dead"))).await??.revision.get(), 3);

        // Whoever is alive goes on.
        sessions[1].commit_transaction().await?;
        assert_eq!(all(&provider).await?.len(), 2);
    }
    Ok(())
}

/// Writes that wait for a living program look for dead ones a few times only, and each look has an end.
async fn slow_writes_ask_the_server_little() -> CaseResult {
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
            // Each looks at another moment than the others.
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

async fn the_failure_of_one_store_touches_no_other() -> CaseResult {
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

async fn one_key_does_not_part_a_batch() -> CaseResult {
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
async fn the_largest_insert_is_one_command() -> CaseResult {
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

async fn stores_learn_that_the_ledger_is_indexed() -> CaseResult {
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

async fn restores_that_race_find_no_conflict() -> CaseResult {
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

async fn calls_work_again_after_a_restart() -> CaseResult {
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

/// Until a majority has the first write of its term, a new primary does not know what a majority has acknowledged before: reads wait.
async fn a_new_primary_is_read_when_it_knows() -> CaseResult {
    let server = LocalMongo::start_with(3, &["--setParameter", "enableTestCommands=1"])?;
    let provider = open(config(&format!("{}&deadline_ms=2000", server.url()))).await?;
    let id = provider.store(event("a-b", 1)).await?;
    let old = server.primary()?;
    let elected = (old + 1) % 3;
    let mut nodes = Vec::new();
    for node in 0..3 {
        let options = mongodb::options::ClientOptions::parse(server.url_of(node)).await?;
        nodes.push(Client::with_options(options)?.database("admin"));
    }
    // The others vote and do not replicate.
    let others_replicate = async |do_they: bool| {
        let mode = if do_they { "off" } else { "alwaysOn" };
        for node in (0..3).filter(|node| *node != elected) {
            nodes[node].run_command(doc! { "configureFailPoint": "stopReplProducer", "mode": mode }).await?;
        }
        Ok::<_, mongodb::error::Error>(())
    };
    others_replicate(false).await?;
    eventually(async || nodes[elected].run_command(doc! { "replSetStepUp": 1 }).await.is_ok()).await?;
    eventually(async || {
        let hello = nodes[elected].run_command(doc! { "hello": 1 }).await.expect("an answer");
        hello.get_bool("isWritablePrimary").is_ok_and(|is_primary| is_primary)
    })
    .await?;
    // While the driver looks for the primary it is the same to the caller.
    eventually(async || {
        let late = provider.get(id).await.expect_err("what a majority has is not known");
        late.kind() == ErrorKind::Timeout
    })
    .await?;
    others_replicate(true).await?;
    eventually(async || provider.get(id).await.is_ok_and(|found| found.is_some())).await
}

/// Three nodes, of which the primary is killed under load, again and again.
async fn acknowledged_stores_survive_elections() -> CaseResult {
    const TASKS: usize = 8;
    const BEFORE: usize = 100;
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let mut server = LocalMongo::start_with(3, &[])?;
    let provider = Arc::new(open(config(&server.url())).await?);
    let (mut acknowledged, mut expected) = (HashSet::new(), 0);
    for round in 0..rounds {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let progress = Arc::new(AtomicUsize::new(0));
        let start = |task| writer(&provider, round * TASKS + task, Arc::clone(&progress), stopped.clone());
        let tasks: Vec<_> = (0..TASKS).map(start).collect();
        let primary = server.primary()?;
        eventually(async || progress.load(Ordering::Relaxed) >= BEFORE).await?;
        server.kill(primary)?;
        // The others elect a new one, and the writers go on by themselves.
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
    let found = all(&provider).await?;
    let ids: HashSet<_> = found.iter().copied().collect();
    println!("{rounds} primaries killed, {} stores acknowledged, {} found", acknowledged.len(), found.len());
    assert_eq!(ids.len(), found.len(), "an id came twice");
    assert!(acknowledged.is_subset(&ids), "an acknowledged store is lost");
    assert_eq!((acknowledged.len(), found.len()), (expected, expected), "a store was lost or done twice");
    Ok(())
}

/// Stores until it is told to stop; every second one has a key and is repeated. Gives the ids, and how many memories that are.
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

/// The server's own explanation of each search that recalls make: none sorts, and none looks at much more than it gives.
async fn recalls_walk_an_index() -> CaseResult {
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
        // Each of the merged lists has a head that may not be given.
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
    // Behind a row of the only millisecond that is asked for comes the rest of it, and no range that is empty.
    assert_eq!(within_one, 2, "one in each order");
    Ok(())
}

/// By the server's own count of all searches that a recall makes.
async fn a_filter_and_a_glob_examine_what_their_spaces_hold() -> CaseResult {
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
        // Siblings are looked for in keys alone: a hundred at once, and two once one has filled a slice.
        assert!(keys <= rows + 200, "{keys} keys for {rows} rows: {query:?}");
    }
    Ok(())
}

/// By the server's own count of all searches that a query makes.
async fn a_query_of_documents_examines_what_its_places_hold() -> CaseResult {
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

/// Makes the commands of providers fail, and leaves those of this test alone.
async fn fail(admin: &Database, mode: Bson, mut what: Document) -> mongodb::error::Result<()> {
    if mode != Bson::from("off") {
        what.insert("appName", "agent-memory");
    }
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": what };
    admin.run_command(command).await.map(drop)
}

/// What the server refuses where the words of the ledger are indexed.
fn large() -> NewMemory {
    let words = |numbers: std::ops::Range<u32>| numbers.map(|word| format!("{word:x} ")).collect::<String>();
    let trigger = Trigger::parse(&format!("\"{}\"", words(0..500_000))).expect("valid");
    let context = Context::parse(&format!("\"{}\"", words(500_000..1_000_000))).expect("valid");
    NewMemory::new(SpaceId::parse("a").expect("valid"), trigger, at(1)).with_context(context)
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
