//! Expiry in Redis: the list of expiring records, the removal of tombstones, and the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use conformance::server::redis::LocalRedis;
use conformance::server::redis_cluster::RedisCluster;
use conformance::server::trial;
use libtest_mimic::Arguments;
use memory_core::{
    Clock as _, Collection, Content, Document, DocumentId, DocumentSelection, DocumentWrite, Erasure, ErrorKind,
    IdempotencyKey, ManualClock, MemoryId, MemoryPatch, MemoryProvider, Metadata, Outcome, Reason, RecordId, Retention,
    Revision, SpaceId, Status, Sweep, SystemClock, Timestamp, Tombstone,
};
use memory_redis::{RedisConfig, RedisMemory};
use redis::cmd;

mod common;
use common::{Admin, Case, event, open, run};

const LIST: &str = "{agent_memory}:expiry";
/// How long the tombstone of an expired record is kept.
const KEPT: i64 = 90 * 24 * 60 * 60 * 1_000;

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::the_list_is_exact", || run(the_list_is_exact_on_a_server())),
        trial("redis-cluster::the_list_is_exact", || run(the_list_is_exact_on_a_cluster())),
        trial("redis::what_does_not_expire_costs_no_command", || run(what_does_not_expire_costs_no_command())),
        trial("redis::any_number_of_records_expire_at_once", || run(any_number_of_records_expire_at_once())),
        trial("redis::a_tombstone_is_forgotten_with_its_key", || run(a_tombstone_is_forgotten_with_its_key())),
        trial("redis::rules_are_read_where_nobody_may_write", || run(rules_are_read_where_nobody_may_write())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn the_list_is_exact_on_a_server() -> Case {
    let server = LocalRedis::start()?;
    the_list_is_exact(&server.url()).await
}

async fn the_list_is_exact_on_a_cluster() -> Case {
    let cluster = RedisCluster::start_with(&[])?;
    the_list_is_exact(&cluster.url()).await
}

/// After any write, the list has exactly the records with an expiry time of their own.
async fn the_list_is_exact(url: &str) -> Case {
    let (provider, admin) = (open(RedisConfig::from_url(url)?).await?, Admin::of(url));
    let (documents, mut expected) = (provider.documents(), BTreeMap::new());
    let now = SystemClock.now().as_millis();
    let time = |millis: i64| Timestamp::from_millis(now + 3_600_000 + millis).expect("a time");
    provider.store(event("a-b", 1)).await?;
    documents.put(document("notes", "0", "a", None)?).await?;
    assert!(listed(&admin).await?.is_empty());

    let batch = (0..6).map(|number| match number % 2 {
        0 => event("a-b", number).expires_at(time(number / 4)),
        _ => event("a-b", number),
    });
    let ids = provider.store_many(batch.collect()).await?;
    expected.extend([0_usize, 2, 4].map(|number| (RecordId::from(ids[number]), time(number as i64 / 4))));
    let with_key =
        || event("a-c", 9).expires_at(time(9)).with_idempotency_key(IdempotencyKey::parse("k").expect("a key"));
    let keyed = provider.store(with_key()).await?;
    assert_eq!(provider.store(with_key()).await?, keyed);
    expected.insert(keyed.into(), time(9));
    let restored = MemoryId::generate();
    provider.restore(vec![event("a-d", 1).expires_at(time(3)).into_memory(restored)]).await?;
    expected.insert(restored.into(), time(3));
    assert_eq!(listed(&admin).await?, expected);

    provider.update(ids[4], MemoryPatch::new().with_status(Status::Running)).await?;
    assert_eq!(listed(&admin).await?, expected);
    for (place, patch, expires_at) in [
        (0, MemoryPatch::new().set_expiry(time(7)).with_status(Status::Failed), Some(time(7))),
        (1, MemoryPatch::new().set_expiry(time(8)), Some(time(8))),
        (2, MemoryPatch::new().clear_expiry(), None),
        (3, MemoryPatch::new().clear_expiry(), None),
    ] {
        provider.update(ids[place], patch).await?;
        assert_eq!(provider.get(ids[place]).await?.ok_or("gone")?.expires_at, expires_at);
        expected.remove(&RecordId::from(ids[place]));
        expected.extend(expires_at.map(|time| (ids[place].into(), time)));
        assert_eq!(listed(&admin).await?, expected, "place {place}");
    }

    for (id, space, expires_at) in [
        ("1", "a", Some(time(1))),
        ("1", "a", Some(time(2))),
        ("2", "a-b", Some(time(2))),
        ("2", "a-b", None),
        ("3", "a", None),
        ("3", "b", Some(time(2))),
        ("4", "a", Some(time(4))),
        ("4", "b", Some(time(4))),
    ] {
        let put = documents.put(document("notes", id, space, expires_at)?).await?;
        let record = RecordId::from((put.collection, put.id));
        expected.remove(&record);
        expected.extend(expires_at.map(|time| (record, time)));
        assert_eq!(listed(&admin).await?, expected, "document {id}");
    }
    let (id, collection) = (DocumentId::parse("restored")?, Collection::parse("notes")?);
    let copy = Document {
        id: id.clone(),
        collection: collection.clone(),
        space_id: SpaceId::parse("a")?,
        content: Content::parse("text")?,
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(1)?,
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: Some(time(5)),
    };
    documents.restore(vec![copy]).await?;
    expected.insert((collection.clone(), id).into(), time(5));
    assert_eq!(listed(&admin).await?, expected);

    let ids = ["1", "2"].into_iter().map(DocumentId::parse).collect::<Result<Vec<_>, _>>()?;
    assert_eq!(documents.remove(&DocumentSelection::ids(collection.clone(), ids.clone())?, 2).await?.len(), 2);
    expected.remove(&RecordId::from((collection, ids[0].clone())));
    assert_eq!(listed(&admin).await?, expected);
    assert_eq!(expected.len(), 8);

    let records: Vec<_> = expected.into_keys().collect();
    assert_eq!(provider.erase(&Erasure::records(records.clone(), "they are old")?).await?.records, records);
    assert!(!admin.query::<bool>(cmd("EXISTS").arg(LIST)).await?, "an entry is left");
    Ok(())
}

/// By the server's count: a write of an expiring record costs one more command, and any other write none.
async fn what_does_not_expire_costs_no_command() -> Case {
    let server = LocalRedis::start()?;
    let end = Timestamp::from_millis(SystemClock.now().as_millis() + 3_600_000)?;
    let mut counts = Vec::new();
    for (namespace, expires_at) in [("without", None), ("with", Some(end))] {
        let mut config = RedisConfig::from_url(&server.url())?;
        config.namespace = namespace.to_owned();
        let (provider, mut memory) = (open(config).await?, event("a-b", 1));
        server.command(&["CONFIG", "RESETSTAT"])?;
        memory.expires_at = expires_at;
        let id = provider.store(memory).await?;
        provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
        let documents = provider.documents();
        for id in ["1", "1", "2"] {
            documents.put(document("notes", id, "a", expires_at)?).await?;
        }
        let collection = Collection::parse("notes")?;
        documents.remove(&DocumentSelection::ids(collection.clone(), [DocumentId::parse("1")?])?, 1).await?;
        let records: [RecordId; 2] = [id.into(), (collection, DocumentId::parse("2")?).into()];
        assert_eq!(provider.erase(&Erasure::records(records, "they are old")?).await?.records.len(), 2);
        let stats = server.command(&["INFO", "commandstats"])?;
        counts.push(["zadd", "zrem"].map(|command| {
            let calls = format!("cmdstat_{command}:calls=");
            let calls =
                stats.lines().find_map(|line| line.strip_prefix(&calls)?.split(',').next()?.parse::<u32>().ok());
            calls.unwrap_or_default()
        }));
    }
    // A store, an update and three puts; a removal, and one command for all erased records.
    let [without, with] = [counts[0], counts[1]];
    assert_eq!((with[0] - without[0], with[1] - without[1]), (5, 2), "{counts:?}");
    Ok(())
}

/// Far more than a slice takes, of both kinds, beside entries without a row, which count as none.
async fn any_number_of_records_expire_at_once() -> Case {
    let server = LocalRedis::start()?;
    let (mut config, clock) = (RedisConfig::from_url(&server.url())?, Arc::new(ManualClock::new(time(1_000))));
    config.clock = Arc::<ManualClock>::clone(&clock);
    let (provider, admin) = (open(config).await?, Admin::of(&server.url()));
    let batch = (0..250).map(|number| event("a-b", number).expires_at(time(2_000)));
    let ids = provider.store_many(batch.collect()).await?;
    let mut expected: BTreeSet<_> = ids.into_iter().map(RecordId::from).collect();
    for number in 0..120 {
        let put = document("notes", &format!("{number:03}"), "a", Some(time(2_000)))?;
        let put = provider.documents().put(put).await?;
        expected.insert((put.collection, put.id).into());
    }
    let later = provider.store(event("a-b", 1).expires_at(time(2_001))).await?;
    let (mut add, mut without_row) = (cmd("ZADD"), BTreeSet::new());
    add.arg(LIST);
    for number in 0..330 {
        // Before, between and after the others.
        let id = MemoryId::from_bytes((u128::from(u8::try_from(number % 3)? * 127) << 120 | number).to_be_bytes());
        add.arg(if number < 30 { 1_999 } else { 2_000 }).arg(RecordId::from(id).to_key());
        without_row.insert(RecordId::from(id));
    }
    admin.query::<()>(&add).await?;

    assert_eq!(swept(&provider, Sweep::due()).await?, (BTreeSet::new(), 0));
    clock.set(time(2_000));
    assert_eq!(swept(&provider, Sweep::due()).await?, (expected, 0));
    without_row.insert(later.into());
    assert_eq!(listed(&admin).await?.into_keys().collect::<BTreeSet<_>>(), without_row);
    assert!(provider.get(later).await?.is_some());
    Ok(())
}

/// Unless another tombstone has the key, too.
async fn a_tombstone_is_forgotten_with_its_key() -> Case {
    let server = LocalRedis::start()?;
    let admin = Admin::of(&server.url());
    let key = IdempotencyKey::parse("k")?;
    for (namespace, has_other) in [("alone", false), ("two", true)] {
        let (mut config, clock) = (RedisConfig::from_url(&server.url())?, Arc::new(ManualClock::new(time(1_000))));
        config.clock = Arc::<ManualClock>::clone(&clock);
        config.namespace = namespace.to_owned();
        let provider = open(config).await?;
        let memory = || event("a-b", 1).with_idempotency_key(key.clone());
        let id = provider.store(memory().expires_at(time(2_000))).await?;
        clock.set(time(2_000));
        assert_eq!(swept(&provider, Sweep::all()).await?, (BTreeSet::from([RecordId::from(id)]), 0));
        let other = MemoryId::generate();
        if has_other {
            let hash_key = provider.hash_key().await?.ok_or("no key")?;
            let tombstone = Tombstone {
                record: other.into(),
                at: time(5),
                reason: Reason::parse("somebody asked for it")?,
                actor: None,
                key: Some(hash_key.of_key(&key)),
                places: Vec::new(),
            };
            provider.restore_tombstones(vec![tombstone], &hash_key).await?;
        }
        clock.set(time(2_000 + KEPT - 1));
        assert_eq!(swept(&provider, Sweep::all()).await?, (BTreeSet::new(), 0));
        assert!(provider.tombstone(&id.into()).await?.is_some());
        assert_eq!(provider.store(memory()).await.expect_err("expired").kind(), ErrorKind::Erased);
        clock.set(time(2_000 + KEPT));
        assert_eq!(swept(&provider, Sweep::all()).await?, (BTreeSet::new(), 1));
        assert_eq!(provider.tombstone(&id.into()).await?, None);
        assert_eq!(provider.tombstone(&other.into()).await?.is_some(), has_other);
        let fields: Vec<Vec<u8>> = admin.query(cmd("HKEYS").arg(format!("{{{namespace}}}:tombstones"))).await?;
        match has_other {
            // The other one, the hash of the key, and how many erasures there were.
            true => assert_eq!(fields.len(), 3),
            false => assert!(fields.is_empty(), "{fields:?}"),
        }
        let again = provider.store(memory()).await.map_err(|error| error.kind());
        assert_eq!(again.err(), has_other.then_some(ErrorKind::Erased), "{namespace}");
    }
    Ok(())
}

/// However long they are.
async fn rules_are_read_where_nobody_may_write() -> Case {
    let server = LocalRedis::start_with(&[("repl-diskless-sync-delay", "0")])?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    assert_eq!(provider.retention().await?, []);
    let path = "a".repeat(200);
    let rule = |number: u64| Retention::new(format!("{path}{number:04}"), Duration::from_secs(number + 1));
    let rules = (0..1_000).map(rule).collect::<Result<Vec<_>, _>>()?;
    provider.set_retention(rules.clone()).await?;
    assert_eq!(provider.retention().await?, rules);
    assert_eq!(server.command(&["EXISTS", "{agent_memory}:long"])?, "0", "they are taken for a long row");

    server.command(&["ACL", "SETUSER", "guest", "on", ">guest", "~*", "+@all", "-@write"])?;
    let guest = server.url().replace(&format!(":{}@", server.password()), "guest:guest@");
    let guest = open(RedisConfig::from_url(&guest)?).await?;
    assert_eq!(guest.retention().await?, rules);
    let error = guest.set_retention(Vec::new()).await.expect_err("no permission");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unauthorized, Outcome::NotDone), "{error:?}");

    let replica = LocalRedis::start_replica(&server)?;
    while replica.command(&["EXISTS", "{agent_memory}:retention"])? != "1" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(open(RedisConfig::from_url(&replica.url())?).await?.retention().await?, rules);

    provider.set_read_only(true).await?;
    let error = provider.set_retention(Vec::new()).await.expect_err("read-only");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotDone), "{error:?}");
    assert_eq!(provider.retention().await?, rules);
    provider.set_read_only(false).await?;
    provider.set_retention(Vec::new()).await?;
    assert_eq!(guest.retention().await?, []);
    Ok(())
}

/// The records of the list, with their times.
async fn listed(admin: &Admin) -> Result<BTreeMap<RecordId, Timestamp>, Box<dyn std::error::Error + Send + Sync>> {
    let entries: Vec<(Vec<u8>, i64)> = admin.query(cmd("ZRANGE").arg(LIST).arg(0).arg(-1).arg("WITHSCORES")).await?;
    let mut listed = BTreeMap::new();
    for (member, millis) in entries {
        listed.insert(RecordId::from_key(&member).ok_or("an entry of no record")?, Timestamp::from_millis(millis)?);
    }
    Ok(listed)
}

/// The records that a whole round of sweeping erases, and the number of tombstones that it removes.
async fn swept(provider: &RedisMemory, from: Sweep) -> memory_core::Result<(BTreeSet<RecordId>, usize)> {
    let (mut records, mut tombstones, mut round) = (BTreeSet::new(), 0, Some(from));
    while let Some(from) = round {
        let slice = provider.sweep(&from).await?;
        records.extend(slice.records);
        (tombstones, round) = (tombstones + slice.tombstones, slice.next);
    }
    Ok((records, tombstones))
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("a time")
}

fn document(
    collection: &str,
    id: &str,
    space: &str,
    expires_at: Option<Timestamp>,
) -> memory_core::Result<DocumentWrite> {
    let (collection, space) = (Collection::parse(collection)?, SpaceId::parse(space)?);
    let mut write = DocumentWrite::new(collection, space, Content::parse("text")?, Timestamp::from_millis(1)?);
    write.expires_at = expires_at;
    Ok(write.with_id(DocumentId::parse(id)?))
}
