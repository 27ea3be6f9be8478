//! Properties of Redis only: keys, scripts, replicas, durability and TLS.

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use conformance::ledgers;
use conformance::server::redis::{LocalRedis, LocalSentinel};
use conformance::server::redis_cluster::RedisCluster;
use conformance::server::trial;
use conformance::workload::Ledger;
use futures::StreamExt as _;
use libtest_mimic::Arguments;
use memory_core::{
    Actor, ChangeKind, Clock as _, Collection, Context, DocumentId, DocumentQuery, DocumentSelection, Durability,
    Embedding, Erasure, ErrorKind, History, IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery,
    Outcome, Precision, Record, RecordId, Retention, Revision, SpaceId, Status, Sweep, SystemClock, Timestamp, Vector,
    VectorModel, Version, Watch, WatchFrom, Watched,
};
use memory_redis::{RedisConfig, RedisMemory};
use tokio::net::{TcpListener, TcpStream};

mod common;
use common::{Admin, Case, document, event, open, run};

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::removed_documents_leave_no_key", || run(removed_documents_leave_no_key())),
        trial("redis::an_update_leaves_no_stale_entry", || run(an_update_leaves_no_stale_entry())),
        trial("redis::keys_of_odd_names_do_not_collide", || run(keys_of_odd_names_do_not_collide())),
        trial("redis::flushed_scripts_are_loaded_again", || run(flushed_scripts_are_loaded_again())),
        trial("redis::durability_follows_the_configuration", || run(durability_follows_the_configuration())),
        trial("redis::a_write_waits_for_its_replicas", || run(a_write_waits_for_its_replicas())),
        trial("redis::a_refusal_waits_for_its_replicas", || run(a_refusal_waits_for_its_replicas())),
        trial("redis::a_write_confirms_no_read_of_another_primary", || {
            run(a_write_confirms_no_read_of_another_primary())
        }),
        trial("redis::a_call_begins_on_the_present_primary", || run(a_call_begins_on_the_present_primary())),
        trial("redis::reads_follow_writes_to_another_primary", || run(reads_follow_writes_to_another_primary())),
        trial("redis::concurrent_writes_share_a_wait", || run(concurrent_writes_share_a_wait())),
        trial("redis::durability_follows_the_replicas", || run(durability_follows_the_replicas())),
        trial("redis::the_documented_user_may_do_everything", || run(the_documented_user_may_do_everything())),
        trial("redis-cluster::the_documented_user_may_do_everything", || run(the_documented_user_may_use_a_cluster())),
        trial("redis::a_newer_schema_is_refused_by_its_name", || run(a_newer_schema_is_refused_by_its_name())),
        trial("redis::a_program_that_is_too_old_writes_nothing", || run(a_program_that_is_too_old_writes_nothing())),
        trial("redis::a_namespace_is_removed_alone", || run(a_namespace_is_removed_alone())),
        trial("redis::databases_are_apart", || run(databases_are_apart())),
        trial("redis::connections_are_encrypted_and_checked", || run(connections_are_encrypted_and_checked())),
        trial("redis::a_recall_looks_up_little_more_than_it_gives", || {
            run(a_recall_looks_up_little_more_than_it_gives())
        }),
        trial("redis::long_rows_are_never_read_as_a_whole_page", || run(long_rows_are_never_read_as_a_whole_page())),
        trial("redis::no_removal_has_keys_without_end", || run(no_removal_has_keys_without_end())),
        trial("redis::entries_of_removed_documents_are_none", || run(entries_of_removed_documents_are_none())),
        trial("redis::a_restore_brings_back_a_row_that_was_lost", || run(a_restore_brings_back_a_row_that_was_lost())),
        trial("redis::a_damaged_row_is_reported_on_one_page", || run(a_damaged_row_is_reported_on_one_page())),
        trial("redis::a_feed_that_is_gone_begins_anew", || run(a_feed_that_is_gone_begins_anew())),
        trial(
            "redis::an_operator_says_how_many_changes_are_kept",
            || run(an_operator_says_how_many_changes_are_kept()),
        ),
        trial("redis::what_is_refused_leaves_no_change", || run(what_is_refused_leaves_no_change())),
        trial("redis::a_token_of_a_lost_change_is_reset_behind_a_slow_clock", || {
            run(a_token_of_a_lost_change_is_reset_behind_a_slow_clock())
        }),
        trial("redis::a_watch_is_reset_if_what_it_delivered_is_lost", || {
            run(a_watch_is_reset_if_what_it_delivered_is_lost())
        }),
        trial(
            "redis::a_history_stands_in_one_list_of_its_record",
            || run(a_history_stands_in_one_list_of_its_record()),
        ),
        trial("redis::a_long_history_is_read_in_pieces", || run(a_long_history_is_read_in_pieces())),
        trial("redis::a_history_that_cannot_be_read_is_corrupt", || run(a_history_that_cannot_be_read_is_corrupt())),
        trial("redis::no_command_goes_over_the_whole_keyspace", || run(no_command_goes_over_the_whole_keyspace())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The keys before the first document and after the last are the same, except the histories, which stay for operators.
async fn removed_documents_leave_no_key() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    provider.store(event("a-b", 1)).await?;
    let before = keys(&server).await?;
    let documents = provider.documents();
    for (collection, content) in
        [("notes", "an apple and a pear"), ("notes", "a plum"), ("other", "an apple"), ("n", "")]
    {
        for (id, space) in [("1", "a-b/c"), ("1:an", "a"), ("notes:1", "a-b-d")] {
            documents.put(document(collection, id, "a-b", content)?).await?;
            let mut again = document(collection, id, "a-b", &format!("{content} again"))?;
            again.space_id = SpaceId::parse(space)?;
            documents.put(again).await?;
        }
    }
    assert!(keys_beside_histories(&server).await?.len() > before.len());
    for collection in ["notes", "other", "n"] {
        let ids = ["1", "1:an", "notes:1"].into_iter().map(DocumentId::parse).collect::<Result<Vec<_>, _>>()?;
        let selection = DocumentSelection::ids(Collection::parse(collection)?, ids)?;
        assert_eq!(documents.remove(&selection, 3).await?.len(), 3);
    }
    assert_eq!(keys_beside_histories(&server).await?, before);
    let after = keys(&server).await?;
    assert_eq!(after.len(), before.len() + 9);
    assert!(after.contains(b"{agent_memory}:eh:notes:1:an".as_slice()));
    Ok(())
}

/// The status that a memory has left has no entry of it any more, and no word has a key.
async fn an_update_leaves_no_stale_entry() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let id = provider.store(event("a-b", 1).with_context(Context::parse(r#""apple pear""#)?)).await?;
    let patch = MemoryPatch::new().with_status(Status::Completed).set_context(Context::parse(r#""pear plum""#)?);
    provider.update(id, patch).await?;
    assert_eq!(names(&server).await?, ["feed", "h:", "n", "n:a", "r:", "secret", "since", "steps"]);
    provider.update(id, MemoryPatch::new().clear_context().with_status(Status::Running)).await?;
    assert_eq!(names(&server).await?, ["feed", "h:", "n", "n:a", "open", "r:", "secret", "since", "steps"]);
    Ok(())
}

/// Ids, spaces and collections that look like parts of keys are kept apart.
async fn keys_of_odd_names_do_not_collide() -> Case {
    let server = LocalRedis::start()?;
    let mut config = RedisConfig::from_url(&server.url())?;
    config.namespace = "a:r:n:".to_owned();
    let provider = open(config).await?;
    let spaces = [":", "::", ":a", "a:", "n:a", "n", "steps", "open", "keys", "r:", "x:a", "a:n:a", "é:", "*", "?"];
    let memories = spaces.into_iter().zip(0..).map(|(space, time)| {
        let key = IdempotencyKey::parse(space).expect("a key");
        event(space, time).with_idempotency_key(key)
    });
    let stored = provider.store_many(memories.collect()).await?;
    for (space, id) in spaces.into_iter().zip(&stored) {
        let page = provider.query(&MemoryQuery::builder().exact(space).build()?).await?;
        assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [*id], "{space}");
    }
    let documents = provider.documents();
    let ids = ["a", "a:b", ":", "et:a", "collections"];
    for collection in ["a", "a-", "a_", "b"] {
        for id in ids {
            documents.put(document(collection, id, "a-b", &format!("{collection} {id}"))?).await?;
        }
    }
    for collection in ["a", "a-", "a_", "b"] {
        for id in ids {
            let found = documents.get(&Collection::parse(collection)?, &DocumentId::parse(id)?).await?;
            assert_eq!(found.ok_or("gone")?.content.as_str(), format!("{collection} {id}"));
        }
    }
    Ok(())
}

async fn flushed_scripts_are_loaded_again() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let memory = || event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("k").expect("a key"));
    let id = provider.store(memory()).await?;
    server.command(&["SCRIPT", "FLUSH"])?;
    assert_eq!(provider.store(memory()).await?, id);
    server.command(&["SCRIPT", "FLUSH"])?;
    let copy = provider.query(&MemoryQuery::builder().all().build()?).await?.memories;
    assert_eq!(copy.len(), 1);
    server.command(&["SCRIPT", "FLUSH"])?;
    assert_eq!(provider.restore(copy).await?.equal, 1);
    // Of stores that share a round trip some are scripts and the others are one transaction, which is executed at once.
    server.command(&["SCRIPT", "FLUSH"])?;
    let store = |time: i64| {
        let (provider, memory) = (provider.clone(), event("b", time));
        let key = IdempotencyKey::parse(time.to_string()).expect("a key");
        let memory = if time % 2 == 0 { memory.with_idempotency_key(key) } else { memory };
        tokio::spawn(async move { provider.store(memory).await })
    };
    let stores: Vec<_> = (0..64).map(store).collect();
    let mut stored = BTreeSet::new();
    for store in stores {
        stored.insert(store.await??);
    }
    let found = provider.query(&MemoryQuery::builder().exact("b").limit(100).build()?).await?.memories;
    assert_eq!((found.len(), found.iter().map(|memory| memory.id).collect()), (64, stored));
    // Another one takes over while they are loaded.
    let admin = Admin::of(&server.url());
    let flushing = tokio::spawn(async move {
        loop {
            admin.query::<()>(redis::cmd("SCRIPT").arg("FLUSH")).await.expect("flushed");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    for time in 0..500 {
        provider.store(event("c", time)).await?;
    }
    flushing.abort();
    Ok(())
}

async fn durability_follows_the_configuration() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let second = Some(Duration::from_secs(1));
    for (settings, expected) in [
        (&[("appendonly", "no")][..], Err(("appendonly is off", None))),
        (&[("appendonly", "yes"), ("appendfsync", "everysec")], Err(("appendfsync is everysec", second))),
        (&[("appendfsync", "no")], Err(("appendfsync leaves flushing to the system", None))),
        (&[("appendfsync", "always")], Ok(())),
        (&[("maxmemory-policy", "allkeys-lru")], Ok(())),
        (&[("maxmemory", "1gb")], Err(("maxmemory-policy lets the server drop keys", None))),
        (&[("maxmemory-policy", "volatile-lru")], Ok(())),
        (
            &[("no-appendfsync-on-rewrite", "yes")],
            Err(("no-appendfsync-on-rewrite leaves the log unflushed while it is rewritten", None)),
        ),
    ] {
        for (name, value) in settings {
            server.command(&["CONFIG", "SET", name, value])?;
        }
        let expected = match expected {
            Ok(()) => Durability::Durable,
            Err((reason, bound)) => Durability::AtRisk { reason: reason.to_owned(), bound },
        };
        let health = provider.check_health().await?;
        assert_eq!(health.durability, expected, "{settings:?}");
        assert!(health.server_version.contains('.') && health.schema_version == 8, "{health:?}");
    }
    Ok(())
}

/// An address may lead to a replica one day, and to a replica that is away now as well.
async fn durability_follows_the_replicas() -> Case {
    let settings = [("appendonly", "yes"), ("appendfsync", "always"), ("repl-diskless-sync-delay", "0")];
    let server = LocalRedis::start_with(&settings)?;
    let durability = async |url: String| {
        let durability = open(RedisConfig::from_url(&url)?).await?.check_health().await?.durability;
        Ok::<_, memory_core::Error>(durability.to_string())
    };
    assert_eq!(durability(server.url()).await?, "durable");
    let behind = "at risk: a failover loses what its replica has not got yet: set wait_replicas to all of them";
    let sentinel = LocalSentinel::start(&server)?;
    assert_eq!(durability(sentinel.url()).await?, behind, "it has none right now");
    let _replica = LocalRedis::start_replica(&server)?;
    until_online(&server).await?;
    let maybe = "unknown: a replica may take over the address of the server: set wait_replicas to all of them";
    assert_eq!(durability(server.url()).await?, maybe);
    assert_eq!(durability(sentinel.url()).await?, behind);
    for url in [server.url(), sentinel.url()] {
        assert_eq!(durability(format!("{url}?wait_replicas=1&wait_timeout_ms=60000")).await?, "durable");
    }
    Ok(())
}

/// The rights in the README, on a ledger of version 1 in another database, with a replica to wait for.
async fn the_documented_user_may_do_everything() -> Case {
    let server = LocalRedis::start_with(&[("repl-diskless-sync-delay", "0"), ("appendonly", "yes")])?;
    let _replica = LocalRedis::start_replica(&server)?;
    until_online(&server).await?;
    Admin::of(&server.url()).query::<()>(&documented_user()).await?;
    let url = server.url().replace(&format!(":{}@", server.password()), "app:secret@");
    let config = RedisConfig::from_url(&format!("{url}/1?wait_replicas=1&wait_timeout_ms=60000"))?;
    let ledger = include_str!("../../conformance/ledgers/v1/redis-text.txt");
    Admin::of(&format!("{}/1", server.url())).lay(ledger, &config.namespace).await?;
    assert_eq!(memory_redis::plan(&config).await?.before, 1);
    ledgers::check(async || Ok(Arc::new(RedisMemory::open(config.clone())?) as _)).await?;
    use_everything(config).await
}

async fn the_documented_user_may_use_a_cluster() -> Case {
    let cluster = RedisCluster::start_with(&[("appendonly", "yes")])?;
    let url = cluster.url();
    let (admin, hosts) = url.rsplit_once('@').ok_or("no password")?;
    for host in hosts.split(',') {
        let node = format!("{}@{host}", admin.replace("redis+cluster", "redis"));
        Admin::of(&node).query::<()>(&documented_user()).await?;
    }
    let url = format!("redis+cluster://app:secret@{hosts}?wait_replicas=1&wait_timeout_ms=60000");
    use_everything(RedisConfig::from_url(&url)?).await
}

/// The command of README that makes a user.
fn documented_user() -> redis::Cmd {
    let line = include_str!("../README.md").lines().find(|line| line.starts_with("ACL SETUSER app "));
    let mut command = redis::Cmd::new();
    command.arg(line.expect("a line of README").split(' ').collect::<Vec<_>>());
    command
}

/// Makes every call, and removes all data.
async fn use_everything(config: RedisConfig) -> Case {
    assert_eq!(memory_redis::migrate(&config).await?.now, 8);
    let (provider, word) = (open(config.clone()).await?, Context::parse(r#""umbrella""#)?);
    let with_key = event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("k")?);
    let id = provider.store(with_key.clone()).await?;
    assert_eq!(provider.store(with_key).await?, id);
    provider.store_many((2..99).map(|time| event("a-b", time)).collect()).await?;
    provider.store(event("a-c", 99).with_context(Context::parse(&format!("\"{}\"", "x".repeat(1 << 16)))?)).await?;
    provider.update(id, MemoryPatch::new().set_context(word).with_status(Status::Completed)).await?;
    for (query, count) in [
        (MemoryQuery::builder().prefix("a-b").status(Status::Pending).limit(1_000), 97),
        (MemoryQuery::builder().all().text("umbrella"), 1),
    ] {
        let found = provider.query(&query.build()?).await?.memories;
        assert!(found.len() >= count, "{} of {count}", found.len());
    }
    let copy = provider.get(id).await?.ok_or("gone")?;
    let (model, vector) = (VectorModel::new("a model", 1, Precision::Compact)?, Vector::new(&[1.0])?);
    provider.set_vector_model(&model).await?;
    let embedding = Embedding { record: id.into(), revision: copy.revision, vector, texts: None };
    assert_eq!(provider.embed(&model, vec![embedding]).await?, [true]);
    assert!(provider.vectors(&[id.into()]).await?[0].is_some());
    assert_eq!(provider.restore(vec![copy]).await?.equal, 1);
    assert_eq!(versions_of(&provider, id).await?.len(), 2);
    assert!(provider.get_as_of(&id.into(), SystemClock.now()).await?.is_some());
    let documents = provider.documents();
    for content in ["apple", "pear"] {
        documents.put(document("n", "1", "a-b", content)?).await?;
    }
    let query = DocumentQuery::builder(Collection::parse("n")?).all().text("pear").build()?;
    let found = documents.query(&query).await?.documents;
    documents.restore(found).await?;
    let selection = DocumentSelection::ids(Collection::parse("n")?, [DocumentId::parse("1")?])?;
    assert_eq!(documents.remove(&selection, 1).await?.len(), 1);
    assert_eq!(provider.erase(&Erasure::records([id.into()], "it is old")?).await?.records, [id.into()]);
    assert!(provider.tombstone(&id.into()).await?.is_some());
    assert!(!documents.collections().await?.contains(&Collection::parse("n")?));
    let end = Timestamp::from_millis(SystemClock.now().as_millis() + 3_600_000)?;
    let expiring = provider.store(event("a-b", 1).expires_at(end)).await?;
    provider.update(expiring, MemoryPatch::new().clear_expiry()).await?;
    let rules = vec![Retention::new("elsewhere", Duration::from_secs(3_600))?];
    provider.set_retention(rules.clone()).await?;
    assert_eq!(provider.retention().await?, rules);
    let mut round = Some(Sweep::all());
    while let Some(from) = round {
        round = provider.sweep(&from).await?.next;
    }
    while provider.backfill().await?.is_some() {}
    let risk = provider.check_health().await?.durability.to_string();
    assert_eq!(risk, "at risk (up to 1s): appendfsync is everysec", "it may see the configuration");
    assert!(memory_redis::inspect(&config).await?.server_time.is_some());
    provider.shutdown().await?;
    memory_redis::remove(&config).await?;
    assert!(memory_redis::plan(&config).await?.before == 0, "all is gone");
    Ok(())
}

async fn until_online(server: &LocalRedis) -> Case {
    while !server.command(&["INFO", "replication"])?.contains("state=online") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn a_write_waits_for_its_replicas() -> Case {
    let server = LocalRedis::start_with(&[("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "0")])?;
    let url = server.url();
    let provider = open(RedisConfig::from_url(&url)?).await?;
    // Otherwise the first store would fail here, and have done nothing.
    provider.hash_key().await?;
    let patient = RedisConfig::from_url(&format!("{url}?wait_replicas=1&wait_timeout_ms=100"))?;
    let waiting = open(patient).await?;
    let memory = || event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("k").expect("a key"));
    for _ in 0..2 {
        let error = waiting.store(memory()).await.expect_err("there is no replica");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown), "{error:?}");
        assert!(error.message().contains("replicas") && error.is_retryable(), "{error:?}");
    }
    let page = provider.query(&MemoryQuery::builder().all().build()?).await?;
    assert_eq!(page.memories.len(), 1, "it is there all the same, once");
    let replica = LocalRedis::start_replica(&server)?;
    while !replica.command(&["INFO", "replication"])?.contains("master_link_status:up") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The first attempt may come while the replica catches up.
    let id = loop {
        match waiting.store(memory()).await {
            Ok(id) => break id,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
        }
    };
    assert_eq!(id, page.memories[0].id);
    waiting.update(id, MemoryPatch::new().with_status(Status::Completed)).await?;
    let row = |keys: &str| keys.lines().filter(|key| key.contains("}:r:")).count();
    assert_eq!(row(&replica.command(&["KEYS", "*"])?), 1);
    Ok(())
}

/// What a refusal is about must not be lost by a failover.
async fn a_refusal_waits_for_its_replicas() -> Case {
    let server = LocalRedis::start_with(&[("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "0")])?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let key = IdempotencyKey::parse("k")?;
    let kept = provider.store(event("a-b", 1).with_idempotency_key(key.clone())).await?;
    let kept = provider.get(kept).await?.ok_or("gone")?;
    let erased = provider.store(event("a-b", 2)).await?;
    provider.erase(&Erasure::records([erased.into()], "it is old")?).await?;
    let waiting =
        open(RedisConfig::from_url(&format!("{}?wait_replicas=1&wait_timeout_ms=100", server.url()))?).await?;
    let patch = || MemoryPatch::new().with_status(Status::Running);
    let next = Revision::FIRST.next()?;
    let notes = Collection::parse("notes")?;
    let removals = [
        DocumentSelection::ids(notes.clone(), [DocumentId::parse("1")?])?,
        DocumentSelection::matching(DocumentQuery::builder(notes.clone()).exact("a"))?,
    ];
    let erasures = [
        Erasure::memories(MemoryQuery::builder().exact("a-d"), "it is old")?,
        Erasure::documents(DocumentQuery::builder(notes).exact("a"), "it is old")?,
    ];
    let refusals = async || {
        [
            waiting.documents().remove(&removals[0], 1).await.map(drop),
            waiting.documents().remove(&removals[1], 1).await.map(drop),
            waiting.erase(&erasures[0]).await.map(drop),
            waiting.erase(&erasures[1]).await.map(drop),
            waiting.update(erased, patch()).await.map(drop),
            waiting.update(MemoryId::generate(), patch()).await.map(drop),
            waiting.update(kept.id, patch().if_revision(next)).await.map(drop),
            waiting.store(event("a-c", 1).with_idempotency_key(key.clone())).await.map(drop),
            waiting.restore(vec![kept.clone()]).await.map(drop),
        ]
        .map(|refused| refused.err().map(|error| (error.kind(), error.outcome())))
    };
    // The last two end with scripts that make a write for the wait.
    let mut outcomes = [Outcome::NotDone; 9];
    outcomes[7..].fill(Outcome::Unknown);
    assert_eq!(refusals().await, outcomes.map(|outcome| Some((ErrorKind::Unavailable, outcome))));
    let _replica = LocalRedis::start_replica(&server)?;
    // The first attempts may come while the replica catches up.
    let settled = loop {
        let refusals = refusals().await;
        if !refusals.iter().flatten().any(|(kind, _)| *kind == ErrorKind::Unavailable) {
            break refusals;
        }
    };
    let expected = [ErrorKind::Erased, ErrorKind::NotFound, ErrorKind::Conflict, ErrorKind::Conflict];
    let [removals @ .., erased, missing, changed, taken, restored] = settled;
    assert_eq!([erased, missing, changed, taken], expected.map(|kind| Some((kind, Outcome::NotDone))));
    assert_eq!((removals, restored), ([None; 4], None));
    Ok(())
}

/// A server with a replica, which takes over from itself by `DEBUG CHANGE-REPL-ID`, and a provider that waits for the
/// replica.
async fn changeable_primary() -> Result<(LocalRedis, LocalRedis, RedisMemory), Box<dyn Error + Send + Sync>> {
    let settings = [("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "0"), ("enable-debug-command", "yes")];
    let server = LocalRedis::start_with(&settings)?;
    let replica = LocalRedis::start_replica(&server)?;
    until_online(&server).await?;
    let url = format!("{}?wait_replicas=1&wait_timeout_ms=60000", server.url());
    let provider = open(RedisConfig::from_url(&url)?).await?;
    Ok((server, replica, provider))
}

/// The new primary may lack what the call has read from the old one.
async fn a_write_confirms_no_read_of_another_primary() -> Case {
    let (server, _replica, provider) = changeable_primary().await?;
    provider.hash_key().await?;
    let present = provider.store(event("a-b", 1)).await?;
    let erasure = Erasure::records([MemoryId::generate().into(), present.into()], "it is old")?;
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"])?;
    let erasing = tokio::spawn({
        let provider = provider.clone();
        async move { provider.erase(&erasure).await }
    });
    while !server.command(&["CLIENT", "LIST"])?.contains("cmd=evalsha") {
        tokio::task::yield_now().await;
    }
    server.command(&["DEBUG", "CHANGE-REPL-ID"])?;
    server.command(&["CLIENT", "UNPAUSE"])?;
    let error = erasing.await?.expect_err("one of them may exist on the new primary");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown), "{error:?}");
    let error = provider.get(present).await.expect_err("the script was executed");
    assert_eq!(error.kind(), ErrorKind::Erased, "{error:?}");
    Ok(())
}

/// A failover before a call does not concern it.
async fn a_call_begins_on_the_present_primary() -> Case {
    let (server, _replica, provider) = changeable_primary().await?;
    let id = provider.store(event("a-b", 1)).await?;
    for status in [Status::Running, Status::Completed] {
        provider.update(id, MemoryPatch::new().with_status(status)).await?;
        server.command(&["DEBUG", "CHANGE-REPL-ID"])?;
    }
    Ok(())
}

/// A planned failover behind one address leaves the old primary running, and its connections open.
async fn reads_follow_writes_to_another_primary() -> Case {
    let first = LocalRedis::start_with(&[("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "0")])?;
    let second = LocalRedis::start_replica(&first)?;
    until_online(&first).await?;
    let (listener, primary) = (TcpListener::bind("127.0.0.1:0").await?, Arc::new(AtomicU16::new(first.port())));
    let port = listener.local_addr()?.port();
    let target = Arc::clone(&primary);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let port = target.load(Ordering::Relaxed);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    let url = format!("redis://:{}@127.0.0.1:{port}?wait_replicas=1&wait_timeout_ms=60000", first.password());
    let provider = open(RedisConfig::from_url(&url)?).await?;
    let id = provider.store(event("a-b", 1)).await?;
    second.command(&["REPLICAOF", "NO", "ONE"])?;
    primary.store(second.port(), Ordering::Relaxed);
    first.command(&["REPLICAOF", "127.0.0.1", &second.port().to_string()])?;
    while let Err(error) = provider.store(event("a-b", 2)).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    first.command(&["CONFIG", "RESETSTAT"])?;
    assert!(provider.get(id).await?.is_some());
    let commands = first.command(&["INFO", "commandstats"])?;
    assert!(!commands.contains("cmdstat_mget"), "the old primary was read from: {commands}");
    Ok(())
}

/// A server reads nothing from a connection while it executes `WAIT`: writes that waited one after the other would take
/// the sum of all waits.
async fn concurrent_writes_share_a_wait() -> Case {
    let server = LocalRedis::start_with(&[("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "0")])?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let ids = provider.store_many((0..64).map(|time| event("a-b", time)).collect()).await?;
    let waiting = async |millis: u64| {
        let url = format!("{}?wait_replicas=1&wait_timeout_ms={millis}", server.url());
        open(RedisConfig::from_url(&url)?).await
    };
    let updates = |on: &RedisMemory| {
        let update = |id: MemoryId| {
            let (on, patch) = (on.clone(), MemoryPatch::new().with_status(Status::Completed));
            tokio::spawn(async move { on.update(id, patch).await })
        };
        ids.iter().copied().map(update).collect::<Vec<_>>()
    };
    let impatient = waiting(1_000).await?;
    server.command(&["CONFIG", "RESETSTAT"])?;
    for update in updates(&impatient) {
        let error = update.await?.expect_err("there is no replica");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown), "{error:?}");
        assert!(error.message().contains("replicas"), "{error:?}");
    }
    // The first one is sent before the others arrive; there are more only if these took longer than a second to be
    // sent.
    let stats = server.command(&["INFO", "commandstats"])?;
    let waits = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")?.split(',').next());
    let waits: usize = waits.ok_or("nothing was waited for")?.parse()?;
    assert!((1..=6).contains(&waits), "{waits} waits for 64 updates");
    let all = MemoryQuery::builder().all().limit(100).build()?;
    let found = provider.query(&all).await?.memories;
    assert!(found.len() == 64 && found.iter().all(|memory| memory.revision.get() == 2), "each was done once");

    let _replica = LocalRedis::start_replica(&server)?;
    until_online(&server).await?;
    let patient = waiting(60_000).await?;
    for update in updates(&patient) {
        assert_eq!(update.await??.revision.get(), 3);
    }
    // The server refuses one call, and no other.
    server.command(&["SET", "{agent_memory}:et:bad", "no sorted set"])?;
    let put = |number: usize| {
        let (documents, collection) = (patient.documents(), if number.is_multiple_of(2) { "good" } else { "bad" });
        let write = document(collection, &number.to_string(), "a-b", "apple").expect("valid");
        (collection, tokio::spawn(async move { documents.put(write).await }))
    };
    for (collection, put) in (0..64).map(put).collect::<Vec<_>>() {
        match (put.await?, collection) {
            (Ok(document), "good") => assert_eq!(document.revision.get(), 1),
            (Err(error), "bad") => assert_eq!((error.kind(), error.outcome()), (ErrorKind::Corrupt, Outcome::Unknown)),
            (result, _) => panic!("{collection}: {result:?}"),
        }
    }
    Ok(())
}

async fn a_newer_schema_is_refused_by_its_name() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let steps = [
        (1, "ledger"),
        (2, "layout"),
        (2, "paths"),
        (3, "no_words"),
        (4, "feed"),
        (5, "history"),
        (6, "erasure"),
        (7, "expiry"),
        (8, "vectors"),
    ];
    assert_eq!(memory_redis::plan(&config).await?.applied, steps);
    assert!(keys(&server).await?.is_empty(), "a plan changes nothing");
    assert_eq!(memory_redis::migrate(&config).await?.now, 8);
    server.command(&["HSET", "{agent_memory}:schema", "9", "0123 from the future"])?;
    let error = open(config).await.expect_err("a newer schema");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error:?}");
    assert!(error.message().contains("version 9") && error.message().contains("from the future"), "{error:?}");
    Ok(())
}

/// Each kind of write checks the version that a program must know.
async fn a_program_that_is_too_old_writes_nothing() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let (id, documents) = (provider.store(event("a-b", 1)).await?, provider.documents());
    documents.put(document("notes", "1", "a-b", "apple")?).await?;
    provider.store(event("a-b", 2)).await?;
    let (model, vector) = (VectorModel::new("a model", 1, Precision::Compact)?, Vector::new(&[1.0])?);
    provider.set_vector_model(&model).await?;
    let embedding = Embedding { record: id.into(), revision: Revision::FIRST, vector, texts: None };
    assert_eq!(server.command(&["GET", "{agent_memory}:writer"])?, "9");
    server.command(&["SET", "{agent_memory}:writer", &(migrations::WRITER + 1).to_string()])?;
    let patch = MemoryPatch::new().with_status(Status::Completed);
    let selection = DocumentSelection::ids(Collection::parse("notes")?, [DocumentId::parse("1")?])?;
    let with_key = event("a-b", 3).with_idempotency_key(IdempotencyKey::parse("k")?);
    for error in [
        provider.store(event("a-b", 3)).await.expect_err("too old"),
        provider.store_many(vec![event("a-b", 3)]).await.expect_err("too old"),
        provider.store(with_key).await.expect_err("too old"),
        provider.update(id, patch).await.expect_err("too old"),
        documents.put(document("notes", "2", "a-b", "pear")?).await.expect_err("too old"),
        documents.remove(&selection, 1).await.expect_err("too old"),
        provider.erase(&Erasure::records([id.into()], "it is old")?).await.expect_err("too old"),
        provider.embed(&model, vec![embedding]).await.expect_err("too old"),
        provider.set_vector_model(&model).await.expect_err("too old"),
    ] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::SchemaMismatch, Outcome::NotDone), "{error:?}");
        assert!(error.message().contains("upgrade this program"), "{error:?}");
    }
    assert!(provider.get(id).await?.is_some(), "it still reads");
    assert_eq!(provider.query(&MemoryQuery::builder().all().build()?).await?.memories.len(), 2);
    Ok(())
}

async fn a_namespace_is_removed_alone() -> Case {
    let server = LocalRedis::start()?;
    let mut config = RedisConfig::from_url(&server.url())?;
    config.namespace = "tenant?[a-z]".to_owned();
    let other = open({
        let mut other = config.clone();
        other.namespace = "tenant1a".to_owned();
        other
    })
    .await?;
    other.store(event("a-b", 1)).await?;
    let before = keys(&server).await?;
    let provider = open(config.clone()).await?;
    provider.store_many((0..2_000).map(|time| event("a-b", time)).collect()).await?;
    memory_redis::remove(&config).await?;
    assert_eq!(keys(&server).await?, before);
    Ok(())
}

async fn databases_are_apart() -> Case {
    let server = LocalRedis::start()?;
    let first = open(RedisConfig::from_url(&format!("{}/0", server.url()))?).await?;
    let second = open(RedisConfig::from_url(&format!("{}/1", server.url()))?).await?;
    let id = first.store(event("a-b", 1)).await?;
    assert_eq!(second.get(id).await?, None);
    Ok(())
}

async fn connections_are_encrypted_and_checked() -> Case {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("cert.pem"), certificate.cert.pem())?;
    std::fs::write(file("key.pem"), certificate.signing_key.serialize_pem())?;
    // The server runs as another user.
    let readable = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(folder.path(), readable(0o755))?;
    let path = |name: &str| file(name).display().to_string();
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let mut server = LocalRedis::start_with(&[
        ("tls-cert-file", &certificate),
        ("tls-key-file", &key),
        ("tls-ca-cert-file", &certificate),
        ("tls-auth-clients", "no"),
    ])?;
    let port = listen_for_tls(&mut server)?;
    let host = format!("rediss://:{}@localhost:{port}", server.password());
    let trusted = RedisConfig::from_url(&format!("{host}?tls_ca_file={certificate}"))?;
    let provider = open(trusted).await?;
    let id = provider.store(event("a-b", 1)).await?;
    assert!(provider.get(id).await?.is_some());

    for untrusted in [host.clone(), format!("{}?tls_ca_file={certificate}", host.replace("localhost", "127.0.0.1"))] {
        let mut config = RedisConfig::from_url(&untrusted)?;
        config.connect_timeout = Duration::from_millis(100);
        let error = open(config).await.expect_err("nobody vouches for this certificate and name");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    Ok(())
}

/// Lets the server listen for TLS too, on a port of its own.
fn listen_for_tls(server: &mut LocalRedis) -> Result<u16, Box<dyn std::error::Error + Send + Sync>> {
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    server.command(&["CONFIG", "SET", "tls-port", &free.to_string()])?;
    Ok(free)
}

/// Every command that a full life of a provider sends, by the server's own count.
async fn no_command_goes_over_the_whole_keyspace() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let stored = provider.store_many((0..300).map(|time| event(&format!("a-{time}"), time)).collect()).await?;
    provider.update(stored[0], MemoryPatch::new().clear_context().with_status(Status::Failed)).await?;
    for query in [
        MemoryQuery::builder().all(),
        MemoryQuery::builder().exact("a-1"),
        MemoryQuery::builder().under("a"),
        MemoryQuery::builder().prefix("a-1"),
        MemoryQuery::builder().glob("a-*"),
        MemoryQuery::builder().regex("1$"),
        MemoryQuery::builder().all().text("xyzzy"),
        MemoryQuery::builder().all().status(Status::Pending),
    ] {
        provider.query(&query.build()?).await?;
    }
    let documents = provider.documents();
    documents.put(document("notes", "1", "a-b", "apple")?).await?;
    documents.collections().await?;
    let selection = DocumentSelection::ids(Collection::parse("notes")?, [DocumentId::parse("1")?])?;
    documents.remove(&selection, 1).await?;
    let copy = provider.query(&MemoryQuery::builder().all().build()?).await?.memories;
    provider.restore(copy).await?;
    provider.check_health().await?;
    let sent = server.command(&["INFO", "commandstats"])?;
    for forbidden in ["keys", "scan", "smembers", "hkeys", "hvals", "sort", "zunion", "zinter", "flush"] {
        let found = sent.lines().find(|line| line.starts_with(&format!("cmdstat_{forbidden}")));
        assert!(found.is_none(), "{found:?}");
    }
    Ok(())
}

/// However large the ledger is, by the server's count of looked up keys.
async fn a_recall_looks_up_little_more_than_it_gives() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let ledger = Ledger::new(20_000);
    for batch in ledger.batches() {
        provider.store_many(batch).await?;
    }
    for question in ledger.questions() {
        // Once more: the first time, scripts are loaded.
        provider.query(&question.query).await?;
        server.command(&["CONFIG", "RESETSTAT"])?;
        let found = provider.query(&question.query).await?.memories.len();
        let stats = server.command(&["INFO", "stats"])?;
        let count = |name: &str| stats.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<usize>().ok());
        let lookups = count("keyspace_hits:").expect("a count") + count("keyspace_misses:").expect("a count");
        // One of eight rows has the topic that the filter wants, and slices grow by the factor of two.
        assert!(lookups <= 20 * found + 100, "{}: {lookups} keys were looked up for {found} rows", question.name);
    }
    Ok(())
}

/// Whichever call has written the first of them: their lengths are asked for then, before some of them are read.
async fn long_rows_are_never_read_as_a_whole_page() -> Case {
    let server = LocalRedis::start()?;
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let long_event = || event("a-b", 2).with_context(Context::parse(&long).expect("valid"));
    for way in ["store", "store_many", "update", "restore", "put"] {
        let mut config = RedisConfig::from_url(&server.url())?;
        config.namespace = way.to_owned();
        let (provider, other) = (open(config.clone()).await?, open(config).await?);
        let id = provider.store(event("a-b", 1)).await?;
        let recall = MemoryQuery::builder().under("a").build()?;
        let lengths = async || {
            server.command(&["CONFIG", "RESETSTAT"])?;
            let found = other.query(&recall).await?.memories.len();
            let stats = server.command(&["INFO", "commandstats"])?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((found, stats.contains("cmdstat_strlen:")))
        };
        assert_eq!(lengths().await?, (1, false), "{way}");
        match way {
            "store" => drop(provider.store(long_event()).await?),
            "store_many" => drop(provider.store_many(vec![long_event()]).await?),
            "update" => drop(provider.update(id, MemoryPatch::new().set_context(Context::parse(&long)?)).await?),
            "restore" => drop(provider.restore(vec![long_event().into_memory(MemoryId::generate())]).await?),
            _ => drop(provider.documents().put(document("notes", "1", "a-b", &"x".repeat(1 << 20))?).await?),
        }
        let stored = usize::from(way != "update" && way != "put");
        assert_eq!(lengths().await?, (1 + stored, true), "{way}");
    }
    Ok(())
}

/// The server serves nobody else while a script runs. By the server's log, a removal of many documents on deep paths
/// leaves some index entries to later scripts.
async fn no_removal_has_keys_without_end() -> Case {
    let server = LocalRedis::start_with(&LOGGING)?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let before = keys(&server).await?;
    put_deep(&provider).await?;
    assert_eq!(provider.documents().remove(&all_deep()?, 10_000).await?.len(), DEEP as usize);
    assert_eq!(keys_beside_histories(&server).await?, before, "no path is left");
    let most = most_keys(&server).await?;
    // The rows, their histories and their vectors are added to this.
    assert!((50_000..=100_000 + 4 * DEEP).contains(&most), "a script of {most} keys");
    Ok(())
}

/// A removal that ends before its later scripts leaves some entries.
async fn entries_of_removed_documents_are_none() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    put_deep(&provider).await?;
    // A user who may not clear the last paths.
    let user = ["ACL", "SETUSER", "guest", "on", ">guest", "+@all"];
    let allowed = ["[^e]*", "e[^n]*", "en:n", "en:n:a*"].map(|keys| format!("~{{agent_memory}}:{keys}"));
    server.command(&[&user[..], &allowed.each_ref().map(String::as_str)].concat())?;
    let guest = server.url().replace(&format!(":{}@", server.password()), "guest:guest@");
    let guest = open(RedisConfig::from_url(&guest)?).await?;
    let error = guest.documents().remove(&all_deep()?, 10_000).await.expect_err("no permission");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unauthorized, Outcome::Unknown), "{error:?}");
    let left = keys(&server).await?;
    assert!(left.contains(b"{agent_memory}:en:n:z1499".as_slice()), "an entry is left");

    let documents = provider.documents();
    assert_eq!(documents.collections().await?, []);
    // At the same time as before, in another space.
    let again = document("n", "1499", "a-b", "deep")?;
    for found in [0, 1] {
        let query = || Ok::<_, memory_core::Error>(DocumentQuery::builder(Collection::parse("n")?));
        for (query, expected) in [
            (query()?.all().text("deep"), found),
            (query()?.prefix("z1"), 0),
            (query()?.under("z1499"), 0),
            (query()?.prefix("a"), found),
        ] {
            assert_eq!(documents.query(&query.build()?).await?.documents.len(), expected);
        }
        documents.put(again.clone()).await?;
    }
    Ok(())
}

/// The server may evict the row of a memory and keep its idempotency key.
async fn a_restore_brings_back_a_row_that_was_lost() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let row = format!("{{{}}}:r:", config.namespace);
    let provider = open(config).await?;
    let id = provider.store(event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("k")?)).await?;
    let memory = provider.get(id).await?.ok_or("gone")?;
    let removed = redis::cmd("DEL").arg([row.as_bytes(), id.as_bytes()].concat()).clone();
    assert_eq!(Admin::of(&server.url()).query::<i64>(&removed).await?, 1);
    let report = provider.restore(vec![memory.clone()]).await?;
    assert_eq!((report.written, report.conflicts), (1, Vec::new()));
    assert_eq!(provider.get(id).await?, Some(memory));
    Ok(())
}

/// With more places than the server merges, rows are read before their turn.
async fn a_damaged_row_is_reported_on_one_page() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let namespace = config.namespace.clone();
    let provider = open(config).await?;
    let damaged = provider.store(event("a-0", 0)).await?;
    provider.store_many((1..40).map(|time| event("a-0", time)).collect()).await?;
    let key = [format!("{{{namespace}}}:r:").as_bytes(), damaged.as_bytes()].concat();
    Admin::of(&server.url()).query::<()>(redis::cmd("SET").arg(key).arg("x")).await?;
    let spaces = (0..70).map(|number| format!("a-{number}"));
    let query = spaces.fold(MemoryQuery::builder(), |query, space| query.exact(space)).limit(5);
    let (mut read, mut reported, mut cursor) = (0, 0, None);
    loop {
        let page =
            cursor.iter().fold(query.clone(), |query, cursor: &memory_core::Cursor| query.cursor(cursor.as_str()));
        let page = provider.query(&page.build()?).await?;
        (read, reported, cursor) = (read + page.memories.len(), reported + page.unreadable.len(), page.next);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((read, reported), (39, 1));
    Ok(())
}

/// Somebody deletes the stream, or the server evicts it: each watch starts again, once.
async fn a_feed_that_is_gone_begins_anew() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let everything = || Watch::new(Watched::Memories, MemoryQuery::builder().all()).expect("valid");
    provider.store(event("a", 1)).await?;
    let mut changes = provider.watch(&everything()).await?;
    let lost = changes.next().await.expect("the first")?.token;
    server.command(&["DEL", "{agent_memory}:feed"])?;
    let refused = provider.watch(&everything().from(lost.into())).await.map(drop);
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::FeedReset));
    assert_eq!(changes.next().await.expect("an end").map_err(|error| error.kind()), Err(ErrorKind::FeedReset));
    for from in [WatchFrom::Now, WatchFrom::Beginning] {
        server.command(&["DEL", "{agent_memory}:feed"])?;
        let mut changes = provider.watch(&everything().from(from)).await?;
        while changes.next().await.expect("goes on")?.kind != ChangeKind::Reached {}
        provider.store(event("b", 2)).await?;
        let change = changes.next().await.expect("goes on")?;
        assert!(matches!(change.kind, ChangeKind::Stored(_)), "{:?}", change.kind);
    }
    Ok(())
}

/// The feed keeps as many entries as its writer was configured with.
async fn an_operator_says_how_many_changes_are_kept() -> Case {
    let server = LocalRedis::start()?;
    let fill = "for entry = 1, 250000 do redis.call('XADD', KEYS[1], '*', 'w', '') end";
    let count = || server.command(&["XLEN", "{agent_memory}:feed"]).map(|count| count.parse::<u32>());
    let many = open(RedisConfig::from_url(&format!("{}?kept_changes=200000", server.url()))?).await?;
    let usual = open(RedisConfig::from_url(&server.url())?).await?;
    server.command(&["EVAL", fill, "1", "{agent_memory}:feed"])?;
    for (provider, kept) in [(many, 200_000), (usual, 100_000)] {
        // The server drops some thousand entries at once, as whole nodes of its tree.
        for time in 0..30 {
            provider.store(event("a", time)).await?;
        }
        assert!((kept..kept + 200).contains(&count()??), "{:?}", count());
    }
    Ok(())
}

/// Whichever command of a script the user is denied: a watch delivers no write that was not done, and each that was.
async fn what_is_refused_leaves_no_change() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let documents = provider.documents();
    let id = provider.store(event("a", 1)).await?;
    let put = documents.put(document("n", "1", "a-b", "here")?).await?;
    let moved = || {
        let mut write = document("n", "1", "a-b", "there")?;
        write.space_id = SpaceId::parse("elsewhere")?;
        Ok::<_, memory_core::Error>(write)
    };
    let one = DocumentSelection::ids(Collection::parse("n")?, [DocumentId::parse("1")?])?;
    let entries = || server.command(&["XLEN", "{agent_memory}:feed"]);
    let before = entries()?;
    for denied in ["-xadd", "-rpush", "-del", "-set", "-mset"] {
        let user = ["ACL", "SETUSER", "guest", "reset", "on", ">guest", "~*", "+@all", denied];
        server.command(&user)?;
        let url = server.url().replace(&format!(":{}@", server.password()), "guest:guest@");
        let guest = open(RedisConfig::from_url(&url)?).await?;
        let guest_documents = guest.documents();
        let mut refused = Vec::new();
        if denied != "-del" && denied != "-mset" {
            let patch = MemoryPatch::new().with_status(Status::Failed);
            refused.push(guest.update(id, patch).await.expect_err("no permission"));
            refused.push(guest_documents.put(moved()?).await.expect_err("no permission"));
        }
        if denied != "-set" && denied != "-mset" {
            refused.push(guest_documents.remove(&one, 1).await.expect_err("no permission"));
        }
        if denied == "-mset" || denied == "-xadd" {
            refused.push(guest.store(event("a", 2)).await.expect_err("no permission"));
        }
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{denied}: {error:?}");
        }
        assert_eq!(entries()?, before, "{denied}");
        assert_eq!(provider.get(id).await?.map(|memory| memory.revision.get()), Some(1), "{denied}");
        assert_eq!(documents.get(&put.collection, &put.id).await?.as_ref(), Some(&put), "{denied}");
        for record in [RecordId::from(id), RecordId::from((put.collection.clone(), put.id.clone()))] {
            assert_eq!(versions_of(&provider, record).await?.len(), 1, "{denied}");
        }
    }
    Ok(())
}

/// A replica takes over that lacks the last changes. Its clock is behind the newest change that it has, so it gives its
/// own changes the numbers of the lost ones.
async fn a_token_of_a_lost_change_is_reset_behind_a_slow_clock() -> Case {
    let server = LocalRedis::start_with(&[("repl-diskless-sync-delay", "0")])?;
    let primary = open(RedisConfig::from_url(&server.url())?).await?;
    let number = "4000000000000-0";
    server.command(&["XADD", "{agent_memory}:feed", number, "w", ""])?;
    let replica = LocalRedis::start_replica(&server)?;
    let everything = || Watch::new(Watched::Memories, MemoryQuery::builder().all()).expect("valid");
    let token = async |provider: &RedisMemory| {
        let mut changes = provider.watch(&everything()).await?;
        Ok::<_, memory_core::Error>(changes.next().await.expect("the first")?.token)
    };
    let kept = token(&primary).await?;
    while !replica.command(&["XINFO", "STREAM", "{agent_memory}:feed"])?.contains(number) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    replica.command(&["REPLICAOF", "NO", "ONE"])?;
    let promoted = open(RedisConfig::from_url(&replica.url())?).await?;
    let mut lost = Vec::new();
    for time in 0..3 {
        primary.store(event("lost", time)).await?;
        lost.push(token(&primary).await?);
    }
    for time in 0..5 {
        for token in &lost {
            let reset = promoted.watch(&everything().from(token.clone().into())).await.map(drop);
            assert_eq!(reset.map_err(|error| error.kind()), Err(ErrorKind::FeedReset), "behind {time} changes");
        }
        promoted.store(event("kept", time)).await?;
    }
    let newest = |server: &LocalRedis| server.command(&["XREVRANGE", "{agent_memory}:feed", "+", "-", "COUNT", "1"]);
    assert!(newest(&replica)?.contains(&number.replace("-0", "-5")), "it counts as the other one did");
    // The changes that the replica had are not lost.
    let mut changes = promoted.watch(&everything().from(kept.into())).await?;
    for _ in 0..5 {
        let change = changes.next().await.expect("goes on")?;
        assert!(
            matches!(&change.kind, ChangeKind::Stored(Record::Memory(memory)) if memory.space_id.as_str() == "kept")
        );
    }
    Ok(())
}

/// A page of the feed is delivered with the records as they are, so it may hold what only later entries describe. A
/// replica takes over that has the page and not these entries.
async fn a_watch_is_reset_if_what_it_delivered_is_lost() -> Case {
    let server = LocalRedis::start_with(&[("repl-diskless-sync-delay", "0")])?;
    let primary = open(RedisConfig::from_url(&server.url())?).await?;
    let everything = |from: WatchFrom| {
        Watch::new(Watched::Memories, MemoryQuery::builder().all()).expect("a valid watch").from(from)
    };
    let begin = primary.watch(&everything(WatchFrom::Now)).await?.next().await.ok_or("no change")??.token;
    let changed = primary.store(event("a", 1)).await?;
    let erased = primary.store(event("a", 2)).await?;
    // More than a page.
    primary.store_many((0..300).map(|time| event("a", time)).collect()).await?;
    let replica = LocalRedis::start_replica(&server)?;
    let kept = async |from: WatchFrom| {
        let mut changes = primary.watch(&everything(from)).await?;
        let first = changes.next().await.ok_or("no change")??;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((changes, first))
    };
    let (_, stays) = kept(begin.clone().into()).await?;
    let follows =
        |server: &LocalRedis| server.command(&["INFO", "replication"]).map(|info| info.contains("link_status:up"));
    while !follows(&replica)? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    replica.command(&["REPLICAOF", "NO", "ONE"])?;
    let promoted = open(RedisConfig::from_url(&replica.url())?).await?;
    primary.update(changed, MemoryPatch::new().with_status(Status::Failed)).await?;
    primary.erase(&Erasure::records([erased.into()], "asked for")?).await?;
    // One that knows the update, one that does not know the erased memory, and one that has read neither.
    let (mut goes_on, updated) = kept(begin.into()).await?;
    assert!(matches!(&updated.kind, ChangeKind::Updated(Record::Memory(memory)) if memory.id == changed));
    let (_, missed) = kept(updated.token.clone().into()).await?;
    assert!(matches!(&missed.kind, ChangeKind::Stored(Record::Memory(memory)) if memory.id != erased));
    let (_, snapshot) = kept(WatchFrom::Beginning).await?;
    for lost in [updated.token, missed.token, snapshot.token] {
        let reset = promoted.watch(&everything(lost.into())).await.map(drop);
        assert_eq!(reset.map_err(|error| error.kind()), Err(ErrorKind::FeedReset));
    }
    drop(promoted.watch(&everything(stays.token.into())).await?);
    // The watch that goes on reads from the same server, which follows the new primary now.
    replica.command(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"])?;
    server.command(&["CONFIG", "SET", "masterauth", replica.password()])?;
    server.command(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()])?;
    while !follows(&server)? {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let end = loop {
        match goes_on.next().await.ok_or("the watch has ended")? {
            Ok(change) => assert_ne!(change.kind, ChangeKind::Reached, "it goes on without what it has lost"),
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(end, ErrorKind::FeedReset);
    Ok(())
}

/// A list for each memory that was updated, and for each document that was ever put; none for a memory that was only
/// stored.
async fn a_history_stands_in_one_list_of_its_record() -> Case {
    let server = LocalRedis::start()?;
    let (provider, admin) = (open(RedisConfig::from_url(&server.url())?).await?, Admin::of(&server.url()));
    let ids = provider.store_many((0..3).map(|time| event("a-b", time)).collect()).await?;
    for status in [Status::Running, Status::Failed] {
        provider.update(ids[0], MemoryPatch::new().with_status(status).by(Actor::parse("ana")?)).await?;
    }
    for content in ["one", "two"] {
        provider.documents().put(document("n", "1:x", "a-b", content)?).await?;
    }
    let one = DocumentSelection::ids(Collection::parse("n")?, [DocumentId::parse("1:x")?])?;
    provider.documents().remove(&one, 1).await?;
    let of_memory = [b"{agent_memory}:h:".as_slice(), ids[0].as_bytes()].concat();
    let of_document = b"{agent_memory}:eh:n:1:x".to_vec();
    let histories: Vec<_> = keys(&server).await?.into_iter().filter(|key| is_history(key)).collect();
    assert_eq!(histories, [of_document.clone(), of_memory.clone()]);
    for (key, count) in [(of_memory, 2), (of_document, 3)] {
        assert_eq!(admin.query::<i64>(redis::cmd("LLEN").arg(&key)).await?, count);
        let elements: Vec<Vec<u8>> = admin.query(redis::cmd("LRANGE").arg(&key).arg(0).arg(-1)).await?;
        let lengths: Vec<_> = elements.iter().map(Vec::len).collect();
        assert!(lengths.iter().all(|length| *length < 64), "{lengths:?}");
    }
    let versions = versions_of(&provider, ids[0]).await?;
    let actors: Vec<_> = versions.iter().map(|version| version.actor.as_ref().map(Actor::as_str)).collect();
    assert_eq!(actors, [Some("ana"), Some("ana"), None]);
    assert!(versions.iter().all(|version| version.committed_at.is_some()));
    Ok(())
}

/// However large its entries are, and if one is split. Checked by the server's log of what is read at once.
async fn a_long_history_is_read_in_pieces() -> Case {
    let server = LocalRedis::start_with(&LOGGING)?;
    let (provider, admin) = (open(RedisConfig::from_url(&server.url())?).await?, Admin::of(&server.url()));
    let id = provider.store(event("a-b", 1)).await?;
    // Around the length of one piece and of two; more than a slice holds; empty ones; and many short ones.
    let lengths = (65_480..65_540).chain(131_010..131_070).chain([8_000_000, 5_000_000, 0, 7_000_000]).chain([9; 150]);
    let mut expected = Vec::new();
    for (number, length) in lengths.enumerate() {
        let letter = ["a", "b"][number % 2];
        let context = Context::parse(&format!("\"{}\"", letter.repeat(length)))?;
        provider.update(id, MemoryPatch::new().set_context(context.clone())).await?;
        expected.insert(0, Some(context));
    }
    expected.push(None);
    server.command(&["SLOWLOG", "RESET"])?;
    let versions = versions_of(&provider, id).await?;
    let context = |version: &Version| match &version.record {
        Some(Record::Memory(memory)) => memory.context.clone(),
        _ => panic!("a version is no memory"),
    };
    assert!(versions.iter().map(context).eq(expected), "a version is another one");
    let count = pieces_of(&admin, id).await?;
    assert!(count > 600, "{count} pieces");
    type Entry = (i64, i64, i64, Vec<Vec<u8>>, String, String);
    let log: Vec<Entry> = admin.query(redis::cmd("SLOWLOG").arg("GET").arg(-1)).await?;
    let asked = log.iter().map(|(_, _, _, arguments, ..)| arguments).filter(|arguments| arguments[0] == b"LRANGE");
    let mut reads = 0;
    for arguments in asked {
        let place = |place: usize| String::from_utf8_lossy(&arguments[place]).parse::<i64>();
        assert!(place(3)? - place(2)? < 64, "{arguments:?}");
        reads += 1;
    }
    assert!(reads > 10, "{reads} reads");
    Ok(())
}

/// How many pieces the history of a memory has; each has at most 64 KiB.
async fn pieces_of(admin: &Admin, id: MemoryId) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let key = [b"{agent_memory}:h:".as_slice(), id.as_bytes()].concat();
    let elements: Vec<Vec<u8>> = admin.query(redis::cmd("LRANGE").arg(&key).arg(0).arg(-1)).await?;
    assert!(elements.iter().all(|element| element.len() <= 1 << 16));
    Ok(elements.len())
}

/// A truncated entry, or one of an unknown kind, is never skipped.
async fn a_history_that_cannot_be_read_is_corrupt() -> Case {
    let server = LocalRedis::start()?;
    let (provider, admin) = (open(RedisConfig::from_url(&server.url())?).await?, Admin::of(&server.url()));
    let id = provider.store(event("a-b", 1)).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Failed).by(Actor::parse("ana")?)).await?;
    let key = [b"{agent_memory}:h:".as_slice(), id.as_bytes()].concat();
    let entry: Vec<u8> = admin.query(redis::cmd("LINDEX").arg(&key).arg(0)).await?;
    let other_kind = [b"\x09".as_slice(), &entry[1..]].concat();
    let no_beginning = [b"\0".as_slice(), &entry[1..]].concat();
    // After the actor comes the difference to the version before, which the core reads.
    let begin = entry.windows(3).position(|text| text == b"ana").ok_or("no actor")? + 3;
    let cuts = (0..begin).map(|end| &entry[..end]);
    for bad in cuts.chain([other_kind.as_slice(), &no_beginning]) {
        admin.query::<()>(redis::cmd("LSET").arg(&key).arg(0).arg(bad)).await?;
        let error = provider.history(&History::of(id)).await.expect_err("it can't be read");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "after {} bytes", bad.len());
    }
    admin.query::<()>(redis::cmd("LSET").arg(&key).arg(0).arg(&entry)).await?;
    assert_eq!(versions_of(&provider, id).await?.len(), 2);
    Ok(())
}

/// All versions of a record, over all pages.
async fn versions_of(provider: &RedisMemory, of: impl Into<RecordId>) -> memory_core::Result<Vec<Version>> {
    let (mut versions, mut history) = (Vec::new(), History::of(of));
    loop {
        let page = provider.history(&history).await?;
        versions.extend(page.versions);
        let Some(next) = page.next else { return Ok(versions) };
        history = history.cursor(next);
    }
}

/// Settings of a server that logs each command.
const LOGGING: [(&str, &str); 2] = [("slowlog-log-slower-than", "0"), ("slowlog-max-len", "1000000")];

/// How many keys the largest script had, by the log of the server.
async fn most_keys(server: &LocalRedis) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    type Entry = (i64, i64, i64, Vec<Vec<u8>>, String, String);
    let log: Vec<Entry> = Admin::of(&server.url()).query(redis::cmd("SLOWLOG").arg("GET").arg(-1)).await?;
    let scripts = log.iter().filter(|(.., arguments, _, _)| arguments[0] == b"EVALSHA");
    let count = |arguments: &[Vec<u8>]| String::from_utf8_lossy(&arguments[2]).parse::<u32>();
    let (mut most, mut longest) = (0, 0);
    for (_, _, micros, arguments, _, _) in scripts {
        (most, longest) = (count(arguments)?.max(most), longest.max(*micros));
    }
    println!("the longest script had {most} keys and took {longest} µs");
    Ok(most)
}

/// How many documents [`put_deep`] puts: more than one script clears.
const DEEP: u32 = 1_500;

/// Puts documents whose paths no other one has; the last ones are below `z`.
async fn put_deep(provider: &RedisMemory) -> memory_core::Result<()> {
    for number in 0..DEEP {
        let top = if number < 1_400 { "a" } else { "z" };
        let mut write = document("n", &format!("{number:04}"), "a-b", "deep")?;
        write.space_id = SpaceId::parse(format!("{top}{number:04}{}", "-x".repeat(32)))?;
        provider.documents().put(write).await?;
    }
    Ok(())
}

fn all_deep() -> memory_core::Result<DocumentSelection> {
    DocumentSelection::matching(DocumentQuery::builder(Collection::parse("n")?).all().text("deep"))
}

/// All keys of a server.
async fn keys(server: &LocalRedis) -> redis::RedisResult<BTreeSet<Vec<u8>>> {
    Admin::of(&server.url()).query(redis::cmd("KEYS").arg("*")).await
}

/// All keys of a server except those of documents' histories.
async fn keys_beside_histories(server: &LocalRedis) -> redis::RedisResult<BTreeSet<Vec<u8>>> {
    Ok(keys(server).await?.into_iter().filter(|key| !is_history(key)).collect())
}

/// Whether a key is the history of a record.
fn is_history(key: &[u8]) -> bool {
    ["h:", "eh:"].iter().any(|kind| key.starts_with(format!("{{agent_memory}}:{kind}").as_bytes()))
}

/// The kinds of all keys, without hash tag and ids, except those that the steps of the schema made.
async fn names(server: &LocalRedis) -> redis::RedisResult<Vec<String>> {
    let of_steps = ["collections", "keys", "pending", "running", "schema", "spaces", "time", "time:words", "writer"];
    let name = |key: Vec<u8>| {
        let name = String::from_utf8_lossy(&key).replace("{agent_memory}:", "");
        let of_one = ["r:", "h:"].into_iter().find(|kind| name.starts_with(*kind));
        of_one.map(str::to_owned).unwrap_or(name)
    };
    let names = keys(server).await?.into_iter().map(name);
    Ok(names.filter(|name| !of_steps.contains(&name.as_str())).collect())
}
