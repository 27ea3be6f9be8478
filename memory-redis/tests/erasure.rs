//! What an erasure leaves in Redis: no byte of the records, and a feed in which every position stays valid.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::server::redis::LocalRedis;
use conformance::server::{Marks, trial};
use futures::StreamExt as _;
use libtest_mimic::Arguments;
use memory_core::engine::{Access, Engine as _, Erasing, ErasingRecord, Reader as _, Writer as _};
use memory_core::{
    ChangeKind, Collection, Collections, Context, DocumentId, DocumentSelection, Erasure, Error, ErrorKind, HashKey,
    IdempotencyKey, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, Outcome, Reason, Record, RecordId,
    Result, Status, Timestamp, Tombstone, TombstonePage, Watch, Watched,
};
use memory_redis::{RedisConfig, RedisEngine, RedisMemory};
use redis::cmd;
use tokio::task::block_in_place;

mod common;
use common::{Admin, Case, document, event, open, run};

/// A word in all texts of the erased records.
const SECRET: &str = "plugh";
const REASON: &str = "somebody asked for it";
const FEED: &str = "{agent_memory}:feed";
/// The pattern of the feed copies' keys.
const COPIES: &str = "*}:feed:*";
/// Adds entries to the feed that name no record, so that a copy takes a while.
const LENGTHEN: &str = "for _ = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'w', '') end";

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::an_erasure_leaves_no_byte", || run(an_erasure_leaves_no_byte())),
        trial("redis::files_that_are_rewritten_have_no_byte", || run(files_that_are_rewritten_have_no_byte())),
        trial("redis::no_entry_of_an_index_is_left", || run(no_entry_of_an_index_is_left())),
        trial("redis::each_place_in_the_feed_stays", || run(each_place_in_the_feed_stays())),
        trial("redis::erasures_at_once_bring_nothing_back", || run(erasures_at_once_bring_nothing_back())),
        trial("redis::what_is_refused_erases_nothing", || run(what_is_refused_erases_nothing())),
        trial("redis::a_copy_goes_on_where_it_was", || run(a_copy_goes_on_where_it_was())),
        trial("redis::what_comes_to_the_feed_meanwhile_goes", || run(what_comes_to_the_feed_meanwhile_goes())),
        trial("redis::a_tombstone_that_came_meanwhile_stays", || run(a_tombstone_that_came_meanwhile_stays())),
        trial("redis::pages_of_tombstones_outlast_a_restart", || run(pages_of_tombstones_outlast_a_restart())),
        trial("redis::what_an_older_program_lists_is_erased", || run(what_an_older_program_lists_is_erased())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Neither a key nor the server's dump of its value has the word; the server does not compress the dump.
async fn an_erasure_leaves_no_byte() -> Case {
    let server = LocalRedis::start_with(&[("rdbcompression", "no")])?;
    let (provider, admin) = (open(RedisConfig::from_url(&server.url())?).await?, Admin::of(&server.url()));
    let secret = |number: usize| format!("{SECRET}-{SECRET}{number}/{SECRET}");
    let memory = |space: &str, number: usize| {
        let mut memory = event(space, number as i64).with_context(Context::parse(&format!("\"{space}\""))?);
        memory.metadata = Metadata::parse(&format!(r#"{{"user":"{space}"}}"#))?;
        Ok::<_, memory_core::Error>(memory.with_idempotency_key(IdempotencyKey::parse(format!("{space} {number}"))?))
    };
    let mut erased = Vec::<RecordId>::new();
    for number in 0..20 {
        // They share feed entries with records that stay.
        let batch = vec![memory("kept-a", number)?, memory(&secret(number), number)?, memory("kept-b", number)?];
        let ids = provider.store_many(batch).await?;
        for id in &ids {
            let patch = MemoryPatch::new().set_context(Context::parse(r#""other""#)?).with_status(Status::Running);
            provider.update(*id, patch).await?;
        }
        erased.push(ids[1].into());
    }
    for (id, space, content) in [
        ("1", secret(1), SECRET),
        ("1", "kept".to_owned(), "other"),
        ("2", secret(2), SECRET),
        ("2", secret(3), "other"),
        ("kept", "kept".to_owned(), "other"),
    ] {
        provider.documents().put(document("notes", id, &space, content)?).await?;
    }
    // The history of a document that was removed and put again.
    let one = DocumentSelection::ids(Collection::parse("notes")?, [DocumentId::parse("2")?])?;
    provider.documents().remove(&one, 1).await?;
    provider.documents().put(document("notes", "2", &secret(4), SECRET)?).await?;
    erased.extend(
        ["1", "2"].map(|id| (Collection::parse("notes").expect("valid"), DocumentId::parse(id).expect("valid")).into()),
    );
    assert!(!found(&admin, SECRET).await?.is_empty());
    erased.sort_unstable();
    assert_eq!(provider.erase(&Erasure::records(erased.clone(), REASON)?).await?.records, erased);
    assert_eq!(found(&admin, SECRET).await?, BTreeSet::new());
    assert_eq!(provider.query(&MemoryQuery::builder().under("kept").limit(100).build()?).await?.memories.len(), 40);
    for record in &erased {
        let tombstone = provider.tombstone(record).await?.ok_or("a tombstone")?;
        assert_eq!(
            (tombstone.reason.as_str(), tombstone.key.is_some()),
            (REASON, matches!(record, RecordId::Memory(_)))
        );
    }
    Ok(())
}

/// The rewritten append-only file, and the snapshot that replaces the previous one.
async fn files_that_are_rewritten_have_no_byte() -> Case {
    let server = LocalRedis::start_with(&[("appendonly", "yes"), ("rdbcompression", "no")])?;
    let (provider, marks) = (open(RedisConfig::from_url(&server.url())?).await?, Marks::random());
    let records = marks.write(&provider).await?;
    marks.check_there(server.folder())?;
    write_files(&server, "BGSAVE").await?;
    let snapshot = server.folder().join("dump.rdb");
    marks.check_there(&snapshot)?;
    assert_eq!(provider.erase(&Erasure::records(records.clone(), REASON)?).await?.records.len(), records.len());
    write_files(&server, "BGREWRITEAOF").await?;
    let found = marks.found(server.folder())?;
    assert!(found.keys().eq([&snapshot]), "{marks}: {found:#?}");
    write_files(&server, "BGSAVE").await?;
    marks.check_gone(server.folder())?;
    Ok(())
}

/// Sends a command that writes files in the background, and waits for its end.
async fn write_files(server: &LocalRedis, command: &str) -> Case {
    server.command(&[command])?;
    for _ in 0..1_000 {
        let state = server.command(&["INFO", "persistence"])?;
        let is_over = |what: &&str| state.contains(&format!("{what}:0"));
        if ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"].iter().all(is_over) {
            let is_done = |what: &&str| state.contains(&format!("{what}:ok"));
            assert!(["rdb_last_bgsave_status", "aof_last_bgrewrite_status"].iter().all(is_done), "{state}");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("{command} does not end").into())
}

/// All sets have the members that they would have if the records had never existed.
async fn no_entry_of_an_index_is_left() -> Case {
    let server = LocalRedis::start()?;
    let admin = Admin::of(&server.url());
    let namespace = |name: &str| {
        let mut config = RedisConfig::from_url(&server.url())?;
        config.namespace = name.to_owned();
        Ok::<_, memory_core::Error>(config)
    };
    let (provider, never) = (open(namespace("one")?).await?, open(namespace("never")?).await?);
    let kept = ["a-b", "a-b-c", "a/b:c", "d", ":", "e-f/g", "a"];
    let gone = ["a", "a-b", "a:b", "a-b/c-d", "a/b:c:", "a/b-x", "d-", "::", "z-y/x", "e-f", "e-f-h"];
    let (documents, mut erased) = (provider.documents(), Vec::<RecordId>::new());
    for (spaces, stays) in [(kept.as_slice(), true), (&gone, false)] {
        for (place, space) in spaces.iter().enumerate() {
            for (number, status) in [Status::Pending, Status::Running, Status::Completed].into_iter().enumerate() {
                let id = provider.store(event(space, number as i64).with_status(status)).await?;
                let name = if stays || place % 2 == 0 { "notes" } else { "gone" };
                let put = document(name, &format!("{stays}-{place}-{number}"), space, "text")?;
                let put = documents.put(put).await?;
                if stays {
                    never.restore(provider.get(id).await?.into_iter().collect()).await?;
                    never.documents().restore(vec![put]).await?;
                } else {
                    erased.extend([id.into(), (put.collection, put.id).into()]);
                }
            }
        }
    }
    assert_ne!(sets(&admin, "one").await?, sets(&admin, "never").await?);
    let count = erased.len();
    assert_eq!(provider.erase(&Erasure::records(erased, REASON)?).await?.records.len(), count);
    let (left, expected) = (sets(&admin, "one").await?, sets(&admin, "never").await?);
    assert!(expected.len() > 10);
    assert_eq!(left, expected);
    Ok(())
}

/// The positions of remaining and of erased records, over several slices of a copy.
async fn each_place_in_the_feed_stays() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let (provider, other) = (open(config.clone()).await?, open(config).await?);
    let everything = || Watch::new(Watched::Both(Collections::All), MemoryQuery::builder().all()).expect("valid");
    let mut changes = provider.watch(&everything()).await?;
    let mut running = other.watch(&everything()).await?;
    let (mut ids, mut tokens) = (Vec::<MemoryId>::new(), Vec::new());
    let next = async |changes: &mut memory_core::Changes| {
        let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(change?.ok_or("it goes on")??)
    };
    while next(&mut changes).await?.kind != ChangeKind::Reached {}
    while next(&mut running).await?.kind != ChangeKind::Reached {}
    for batch in 0..200 {
        ids.extend(provider.store_many((0..20).map(|time| event("a-b", batch * 20 + time)).collect()).await?);
        while tokens.len() < ids.len() {
            let change = next(&mut changes).await?;
            if let ChangeKind::Stored(Record::Memory(memory)) = change.kind {
                assert_eq!(memory.id, ids[tokens.len()]);
                tokens.push(change.token);
            }
        }
    }
    let is_erased = |place: usize| place % 7 == 3;
    let erased: Vec<RecordId> =
        (0..ids.len()).filter(|place| is_erased(*place)).map(|place| ids[place].into()).collect();
    let entries = server.command(&["XLEN", "{agent_memory}:feed"])?.parse::<usize>()?;
    assert!(entries > 500, "{entries} entries are one slice");
    assert_eq!(provider.erase(&Erasure::records(erased.clone(), REASON)?).await?.records.len(), erased.len());
    for (begun, token) in [0, 1, 2, 3, 4, 7, 8, 9, 10, 1_999, 2_000, 3_996, 3_999].map(|place| (place, &tokens[place]))
    {
        let later = (begun + 1..ids.len()).filter(|place| !is_erased(*place)).map(|place| ids[place]);
        let expected: Vec<RecordId> = later.map(RecordId::from).collect();
        let (stored, gone) = told(&other, everything().from(token.clone().into())).await?;
        assert_eq!(stored, expected, "behind place {begun}");
        assert_eq!(gone.into_iter().collect::<BTreeSet<_>>(), erased.iter().cloned().collect(), "behind place {begun}");
    }
    // A watch in progress, which has delivered some of them.
    let mut gone = BTreeSet::new();
    while gone.len() < erased.len() {
        if let ChangeKind::Erased(record) = next(&mut running).await?.kind {
            gone.insert(record);
        }
    }
    let id = other.store(event("a-b", 1)).await?;
    let (stored, gone) = told(&provider, everything().from(tokens[3_999].clone().into())).await?;
    assert_eq!((stored, gone.len()), (vec![id.into()], erased.len()));
    assert!(server.command(&["KEYS", "*}:feed:*"])?.is_empty(), "a copy is left");
    Ok(())
}

/// The records that a watch delivers as stored and as erased, until it has delivered everything.
async fn told(provider: &RedisMemory, watch: Watch) -> Result<(Vec<RecordId>, Vec<RecordId>)> {
    let (mut changes, mut stored, mut erased) = (provider.watch(&watch).await?, Vec::new(), Vec::new());
    while let Some(change) = changes.next().await {
        match change?.kind {
            ChangeKind::Reached => break,
            ChangeKind::Stored(Record::Memory(memory)) => stored.push(memory.id.into()),
            ChangeKind::Erased(record) => erased.push(record),
            _ => {}
        }
    }
    Ok((stored, erased))
}

/// Several programs erase, each in slices, while another stores and updates.
async fn erasures_at_once_bring_nothing_back() -> Case {
    let server = LocalRedis::start_with(&[("rdbcompression", "no")])?;
    let config = RedisConfig::from_url(&server.url())?;
    let (provider, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    for number in 0..60 {
        let batch = (0..20).map(|time| event(&format!("{SECRET}{}-x", time % 4), number * 20 + time));
        provider.store_many(batch.collect()).await?;
    }
    let mut tasks = Vec::new();
    for part in 0..4 {
        // Two of them share a provider.
        let eraser = if part < 2 { provider.clone() } else { open(config.clone()).await? };
        let erasure = Erasure::memories(MemoryQuery::builder().under(format!("{SECRET}{part}")), REASON)?.limit(60)?;
        tasks.push(tokio::spawn(async move {
            let mut count = 0;
            loop {
                let slice = eraser.erase(&erasure).await?;
                count += slice.records.len();
                if slice.is_complete {
                    return Ok::<_, memory_core::Error>(count);
                }
            }
        }));
    }
    let mut kept = BTreeSet::new();
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        let id = provider.store(event("kept", 1)).await?;
        provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
        kept.insert(id);
    }
    for task in tasks {
        assert_eq!(task.await??, 300);
    }
    assert_eq!(found(&admin, SECRET).await?, BTreeSet::new());
    let (mut left, mut cursor) = (BTreeSet::new(), None::<memory_core::Cursor>);
    loop {
        let query = cursor.iter().fold(MemoryQuery::builder().all().limit(1_000), |query, cursor| query.cursor(cursor));
        let page = provider.query(&query.build()?).await?;
        left.extend(page.memories.into_iter().map(|memory| memory.id));
        let Some(next) = page.next else { break };
        cursor = Some(next);
    }
    assert_eq!(left, kept);
    Ok(())
}

/// Whichever command the user is denied.
async fn what_is_refused_erases_nothing() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let id = provider.store(event("a-b", 1).with_idempotency_key(IdempotencyKey::parse("k")?)).await?;
    provider.update(id, MemoryPatch::new().with_status(Status::Running)).await?;
    let put = provider.documents().put(document("n", "1", "a-b", "text")?).await?;
    let erasure = Erasure::records([id.into(), (put.collection.clone(), put.id.clone()).into()], REASON)?;
    let feed = || server.command(&["XRANGE", "{agent_memory}:feed", "-", "+"]);
    let before = feed()?;
    let commands =
        ["hset", "hincrby", "hdel", "xadd", "persist", "expire", "rename", "unlink", "del", "zrem", "evalsha"];
    let reads = ["xrange", "xrevrange", "zrangebylex"];
    for command in reads.into_iter().chain(commands) {
        let denied = format!("-{command}");
        server.command(&["ACL", "SETUSER", "guest", "reset", "on", ">guest", "~*", "+@all", &denied])?;
        let url = server.url().replace(&format!(":{}@", server.password()), "guest:guest@");
        let guest = open(RedisConfig::from_url(&url)?).await?;
        let error = guest.erase(&erasure).await.expect_err(command);
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unauthorized, Outcome::NotDone), "{command}");
        assert_eq!(feed()?, before, "{command}");
        assert_eq!(provider.get(id).await?.map(|memory| memory.revision.get()), Some(2), "{command}");
        assert_eq!(provider.documents().get(&put.collection, &put.id).await?.as_ref(), Some(&put), "{command}");
    }
    // A useless copy expires by itself.
    let copies = server.command(&["KEYS", "*}:feed:*"])?;
    assert!(!copies.is_empty());
    for copy in copies.lines() {
        let left: i64 = server.command(&["TTL", copy])?.parse()?;
        // A copy that is gone by now has none.
        assert!(left == -2 || (0..=60).contains(&left), "{copy} stays for {left}");
    }
    assert_eq!(provider.erase(&erasure).await?.records.len(), 2);
    Ok(())
}

/// Also if nobody waits for the erasure any more. The next erasure removes a useless copy.
async fn a_copy_goes_on_where_it_was() -> Case {
    let server = LocalRedis::start()?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    server.command(&["EVAL", LENGTHEN, "1", FEED, "90000"])?;
    let ids = provider.store_many((0..3).map(|time| event("a-b", time)).collect()).await?;
    let erasure = |place: usize| Erasure::records([ids[place].into()], REASON);
    let entries =
        || Ok::<_, Box<dyn std::error::Error + Send + Sync>>(server.command(&["XLEN", FEED])?.parse::<usize>()?);

    let copied = begin_to_copy(&server, &provider, erasure(0)?).await?;
    server.command(&["CONFIG", "RESETSTAT"])?;
    assert_eq!(provider.erase(&erasure(0)?).await?.records, [ids[0].into()]);
    let (sent, entries_behind) = (server.command(&["INFO", "commandstats"])?, entries()? - copied);
    let added = sent.lines().find_map(|line| line.strip_prefix("cmdstat_xadd:calls=")?.split(',').next());
    let added: usize = added.ok_or("no entry was added")?.parse()?;
    // The erasure is added to the feed first, and then to the copy.
    assert!(added <= entries_behind + 1, "{added} entries were added, {entries_behind} of them behind the copy");
    assert!(server.command(&["KEYS", COPIES])?.is_empty());

    begin_to_copy(&server, &provider, erasure(1)?).await?;
    assert_eq!(provider.erase(&erasure(2)?).await?.records, [ids[2].into()]);
    assert!(server.command(&["KEYS", COPIES])?.is_empty(), "a copy for other records is left");

    // A copy that continued here would lack the dropped entries.
    begin_to_copy(&server, &provider, erasure(1)?).await?;
    server.command(&["XTRIM", FEED, "MAXLEN", "100"])?;
    assert_eq!(provider.erase(&erasure(1)?).await?.records, [ids[1].into()]);
    assert_eq!(entries()?, 101);
    assert!(server.command(&["KEYS", COPIES])?.is_empty());
    Ok(())
}

/// Begins an erasure, and drops it while it copies the feed. Returns the number of entries in the copy.
async fn begin_to_copy(
    server: &LocalRedis,
    provider: &RedisMemory,
    erasure: Erasure,
) -> std::result::Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    let eraser = provider.clone();
    let task = tokio::spawn(async move { eraser.erase(&erasure).await });
    while server.command(&["KEYS", COPIES])?.is_empty() {
        assert!(!task.is_finished(), "it has erased before its copy was seen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()), "it has erased before it was given up");
    // Commands that were sent are executed, whether anybody waits or not: before later ones on the same connection.
    provider.get(MemoryId::generate()).await?;
    let copies = server.command(&["KEYS", COPIES])?;
    assert_eq!(copies.lines().count(), 1, "{copies}");
    Ok(server.command(&["XLEN", &copies])?.parse()?)
}

/// Another program removes a document between the search of the feed and the script.
async fn what_comes_to_the_feed_meanwhile_goes() -> Case {
    let server = LocalRedis::start_with(&[("rdbcompression", "no")])?;
    let (provider, admin) = (open(RedisConfig::from_url(&server.url())?).await?, Admin::of(&server.url()));
    // From here on an erasure sends only its own scripts.
    let id = provider.store(event("a-b", 1)).await?;
    provider.erase(&Erasure::records([id.into()], REASON)?).await?;
    let put = provider.documents().put(document("notes", "1", SECRET, "text")?).await?;
    let one = DocumentSelection::ids(put.collection.clone(), [put.id.clone()])?;
    provider.documents().remove(&one, 1).await?;
    server.command(&["XTRIM", FEED, "MAXLEN", "0"])?;
    // Writes wait in the order of their arrival, and reads continue.
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"])?;
    let (url, removal) = (server.url(), [b"12345678rnotes\x001\0".as_slice(), SECRET.as_bytes()].concat());
    let removal = tokio::spawn(async move {
        let mut add = cmd("XADD");
        add.arg(FEED).arg("*").arg("w").arg(removal);
        Admin::of(&url).query::<String>(&add).await
    });
    until_waiting(&server, "xadd").await?;
    let (eraser, erasure) = (provider.clone(), Erasure::records([(put.collection, put.id).into()], REASON)?);
    let erasure = tokio::spawn(async move { eraser.erase(&erasure).await });
    until_waiting(&server, "evalsha").await?;
    server.command(&["CLIENT", "UNPAUSE"])?;
    removal.await??;
    assert_eq!(erasure.await??.records.len(), 1);
    assert_eq!(found(&admin, SECRET).await?, BTreeSet::new());
    Ok(())
}

/// Waits until a client waits for its turn with this command.
async fn until_waiting(server: &LocalRedis, command: &str) -> Case {
    let command = format!(" cmd={command} ");
    let is_waiting = |line: &str| line.contains(" flags=b ") && line.contains(&command);
    for _ in 0..1_000 {
        if server.command(&["CLIENT", "LIST"])?.lines().any(is_waiting) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("no client waits with{command}").into())
}

/// Another program writes a tombstone between the read of the tombstones and the script. An erasure that has read it
/// replaces it.
async fn a_tombstone_that_came_meanwhile_stays() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let (provider, engine) = (open(config.clone()).await?, RedisEngine::open(&config).await?);
    let put = provider.documents().put(document("notes", "1", "a-b", "text")?).await?;
    let one = DocumentSelection::ids(put.collection.clone(), [put.id.clone()])?;
    provider.documents().remove(&one, 1).await?;
    let removed = RecordId::from((put.collection, put.id));
    // A record that never existed, and one for which a restored tombstone exists already.
    let (never, known) = (RecordId::from(MemoryId::generate()), RecordId::from(MemoryId::generate()));
    let hash_key = provider.hash_key().await?.ok_or("no key")?;
    let of_expiry = |record: &RecordId, at: i64| Ok::<_, Error>(Tombstone::of_expiry(record.clone(), time(at)?));
    provider.restore_tombstones(vec![of_expiry(&known, 1)?], &hash_key).await?;
    let until = Instant::now() + Duration::from_secs(60);
    for record in [removed, never, known] {
        let asked_for = Tombstone { reason: Reason::parse(REASON)?, ..of_expiry(&record, 9)? };
        let asked = Arc::new((provider.clone(), hash_key.clone(), asked_for, of_expiry(&record, 5)?));
        let is_erased = engine.run(Access::Write, until, Arc::clone(&asked), |writer, asked| {
            Box::pin(async move {
                let (provider, hash_key, asked_for, expired) = asked;
                writer.tombstones(std::slice::from_ref(&expired.record)).await?;
                let report = provider.restore_tombstones(vec![asked_for.clone()], hash_key).await?;
                assert_eq!(report.written, 1, "{:?}", expired.record);
                writer.erase(&[Erasing { found: ErasingRecord::Absent, tombstone: expired.clone() }]).await
            })
        });
        assert!(!is_erased.await?, "{record:?}");
        let kept = provider.tombstone(&record).await?.ok_or("a tombstone")?;
        assert_eq!((kept.at, kept.reason.as_str()), (time(9)?, REASON), "{record:?}");

        let is_erased = engine.run(Access::Write, until, asked, |writer, asked| {
            Box::pin(async move {
                let (.., expired) = asked;
                writer.tombstones(std::slice::from_ref(&expired.record)).await?;
                writer.erase(&[Erasing { found: ErasingRecord::Absent, tombstone: expired.clone() }]).await
            })
        });
        assert!(is_erased.await?, "{record:?}");
        assert_eq!(provider.tombstone(&record).await?.ok_or("a tombstone")?.at, time(5)?, "{record:?}");
    }
    Ok(())
}

/// A restarted server scans the hash in another order.
async fn pages_of_tombstones_outlast_a_restart() -> Case {
    let mut server = LocalRedis::start_with(&[("appendonly", "yes"), ("appendfsync", "always")])?;
    let provider = open(RedisConfig::from_url(&server.url())?).await?;
    let (key, mut expected) = (HashKey::generate()?, BTreeSet::<RecordId>::new());
    for _ in 0..3 {
        let mut tombstones = Vec::new();
        for _ in 0..1_000 {
            let (record, at) = (MemoryId::generate().into(), Timestamp::from_millis(1)?);
            let (actor, key, places) = Default::default();
            tombstones.push(Tombstone { record, at, reason: Reason::parse(REASON)?, actor, key, places });
        }
        expected.extend(tombstones.iter().map(|tombstone| tombstone.record.clone()));
        provider.restore_tombstones(tombstones, &key).await?;
    }
    let TombstonePage { tombstones, mut next } = provider.tombstones(None).await?;
    assert!(next.is_some(), "one page has them all");
    block_in_place(|| server.restart())?;
    let mut found: BTreeSet<_> = tombstones.into_iter().map(|tombstone| tombstone.record).collect();
    while let Some(place) = next {
        let page = provider.tombstones(Some(&place)).await?;
        found.extend(page.tombstones.into_iter().map(|tombstone| tombstone.record));
        next = page.next;
    }
    assert_eq!(found, expected);
    Ok(())
}

/// In its word index.
async fn what_an_older_program_lists_is_erased() -> Case {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    let ids = open(config.clone()).await?.store_many((0..10).map(|time| event("a-b", time)).collect()).await?;
    let admin = Admin::of(&server.url());
    admin.index_words(&config.namespace).await?;
    let provider = open(config).await?;
    let all = ids.iter().copied().map(RecordId::from);
    assert_eq!(provider.erase(&Erasure::records(all, REASON)?).await?.records.len(), 10);
    while provider.backfill().await?.is_some() {}
    assert_eq!(sets(&admin, "agent_memory").await?, BTreeMap::new());
    Ok(())
}

/// The keys that have a text in them or in their values.
async fn found(admin: &Admin, text: &str) -> redis::RedisResult<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    for key in admin.query::<Vec<Vec<u8>>>(cmd("KEYS").arg("*")).await? {
        let dump: Option<Vec<u8>> = admin.query(cmd("DUMP").arg(&key)).await?;
        if has(&key) || dump.is_some_and(|dump| has(&dump)) {
            found.insert(key.escape_ascii().to_string());
        }
    }
    Ok(found)
}

/// The sorted sets of a namespace with their members, and the keys of its rows.
async fn sets(admin: &Admin, namespace: &str) -> redis::RedisResult<BTreeMap<String, Vec<Vec<u8>>>> {
    let (prefix, mut sets) = (format!("{{{namespace}}}:"), BTreeMap::new());
    for key in admin.query::<Vec<Vec<u8>>>(cmd("KEYS").arg(format!("{prefix}*"))).await? {
        let name = key[prefix.len()..].escape_ascii().to_string();
        let kind: String = admin.query(cmd("TYPE").arg(&key)).await?;
        if kind == "zset" {
            sets.insert(name, admin.query(cmd("ZRANGE").arg(&key).arg(0).arg(-1)).await?);
        } else if name.starts_with("r:") || name.starts_with("e:") {
            sets.insert(name, Vec::new());
        }
    }
    Ok(sets)
}

fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millis(millis)
}
