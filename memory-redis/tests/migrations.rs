//! Changes of the schema while programs run: which programs may write, and what a backfill leaves.
//!
//! `MEMORY_TEST_MEMORIES` sets the number of memories of the long ledger; some thousand by default.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use conformance::ledgers;
use conformance::server::redis::LocalRedis;
use conformance::server::trial;
use futures::StreamExt as _;
use libtest_mimic::Arguments;
use memory_core::{
    Backfill, Blocks, ChangeKind, Clock as _, Collection, Content, Document, DocumentId, DocumentQuery,
    DocumentSelection, DocumentWrite, Embedding, Erasure, Error, ErrorKind, History, ManualClock, MemoryId,
    MemoryPatch, MemoryProvider, MemoryQuery, Metadata, Outcome, Precision, Record, RecordId, Revision, SpaceId,
    Status, SystemClock, Timestamp, Vector, VectorModel, Watch, Watched,
};
use memory_redis::{RedisConfig, RedisMemory};
use redis::cmd;

mod common;
use common::{Admin, Case, event, open, run};

const LEDGERS: [&str; 2] = [
    include_str!("../../conformance/ledgers/v1/redis.txt"),
    include_str!("../../conformance/ledgers/v1/redis-text.txt"),
];
/// The keys of a ledger of version 1 that are strings afterwards.
const STRINGS: [&str; 7] = ["collections", "keys", "pending", "running", "spaces", "time", "time:words"];
/// The prefixes of all other keys of version 1, of the keys of words of version 2, and of keys that the backfills read.
const PREFIXES: [&str; 12] = ["m:", "p:", "c:", "w:", "d:", "dt:", "dw:", "old:", "x:", "ew:", "steps:words", "move"];
const NAMESPACE: &str = "agent_memory";

fn main() -> ExitCode {
    let trials = vec![
        trial("redis::a_move_that_is_cut_anywhere_loses_nothing", || run(a_move_that_is_cut_anywhere_loses_nothing())),
        trial("redis::programs_that_move_a_ledger_at_once_lose_nothing", || run(at_once())),
        trial("redis::a_long_move_tells_its_progress", || run(a_long_move_tells_its_progress())),
        trial("redis::a_long_collection_counts_before_its_turn", || run(a_long_collection_counts_before_its_turn())),
        trial("redis::a_program_of_version_1_is_refused_each_write", || {
            run(a_program_of_version_1_is_refused_each_write())
        }),
        trial("redis::what_comes_late_to_an_empty_ledger_is_moved", || {
            run(what_comes_late_to_an_empty_ledger_is_moved())
        }),
        trial("redis::what_comes_late_is_moved_by_two_programs_at_once", || {
            run(what_comes_late_is_moved_by_two_programs_at_once())
        }),
        trial("redis::what_cannot_be_read_is_moved_too", || run(what_cannot_be_read_is_moved_too())),
        trial("redis::what_was_removed_meanwhile_stays_removed", || run(what_was_removed_meanwhile_stays_removed())),
        trial("redis::words_go_beside_running_programs", || run(words_go_beside_running_programs())),
        trial("redis::a_program_that_indexes_words_is_refused", || run(a_program_that_indexes_words_is_refused())),
        trial(
            "redis::a_program_that_keeps_no_history_is_refused",
            || run(a_program_that_keeps_no_history_is_refused()),
        ),
        trial("redis::a_program_that_knows_no_tombstones_is_refused", || {
            run(a_program_that_knows_no_tombstones_is_refused())
        }),
        trial("redis::a_program_that_knows_no_expiry_is_refused", || run(a_program_that_knows_no_expiry_is_refused())),
        trial(
            "redis::a_program_that_knows_no_vectors_is_refused",
            || run(a_program_that_knows_no_vectors_is_refused()),
        ),
        trial("redis::the_history_of_an_older_ledger_begins_when_it_is_opened", || {
            run(the_history_of_an_older_ledger_begins_when_it_is_opened())
        }),
        trial("redis::a_sweep_begins_anew_on_another_server", || run(a_sweep_begins_anew_on_another_server())),
        trial("redis::older_documents_get_their_places", || run(older_documents_get_their_places())),
        trial("redis::documents_without_a_place_are_counted", || run(documents_without_a_place_are_counted())),
        trial("redis::a_slice_that_is_refused_is_sent_again", || run(a_slice_that_is_refused_is_sent_again())),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Each program gets a little further than the one before it would have got from the start.
async fn a_move_that_is_cut_anywhere_loses_nothing() -> Case {
    for (server, config) in older().await? {
        let mut cuts = 0;
        while polled(moved(RedisMemory::open(config.clone())?), cuts + 1).await.transpose()?.is_none() {
            cuts += 1;
        }
        assert!(cuts > 3, "it was cut {cuts} times");
        check_goes_on(&server, &config).await?;
    }
    Ok(())
}

async fn at_once() -> Case {
    for (server, config) in older().await? {
        let programs = (0..8).map(|_| RedisMemory::open(config.clone())).collect::<Result<Vec<_>, _>>()?;
        let moves = programs.into_iter().map(|program| tokio::spawn(moved(program)));
        for moved in moves.collect::<Vec<_>>() {
            moved.await??;
        }
        check_goes_on(&server, &config).await?;
    }
    Ok(())
}

/// The ledger is moved, no key of an older version is left, and it has all that it had.
async fn check_goes_on(server: &LocalRedis, config: &RedisConfig) -> Case {
    check_no_old_key(server).await?;
    ledgers::check(async || Ok(Arc::new(RedisMemory::open(config.clone())?) as _)).await
}

async fn a_long_move_tells_its_progress() -> Case {
    let (server, config) = laid("").await?;
    let admin = Admin::of(&server.url());
    let count = std::env::var("MEMORY_TEST_MEMORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(4_200);
    for number in 0..count {
        if number % 1_000 == 0 {
            let numbers = number..count.min(number + 1_000);
            admin.pipeline(&numbers.flat_map(|number| old_store(number, "a-b")).collect::<Vec<_>>()).await?;
        }
    }
    let (mut left, mut slices, mut lasted) = (u64::MAX, 0, Duration::ZERO);
    let all = loop {
        let program = open(config.clone()).await?;
        let start = Instant::now();
        let Some(backfill) = program.backfill().await?.filter(|backfill| backfill.left() > 2_000) else {
            // The next call completes the rest.
            break program;
        };
        (lasted, slices) = (lasted + start.elapsed(), slices + 1);
        assert!(backfill.blocks == Blocks::Everything && backfill.total == count, "{backfill:?}");
        assert!(backfill.left() < left, "it goes on and does not begin anew");
        left = backfill.left();
        let everything = MemoryQuery::builder().all().build()?;
        for error in [
            program.store(event("a-b", 1)).await.expect_err("not complete"),
            program.query(&everything).await.expect_err("not complete"),
            program.documents().collections().await.expect_err("not complete"),
        ] {
            assert_eq!(
                (error.kind(), error.is_retryable(), error.outcome()),
                (ErrorKind::Unavailable, true, Outcome::NotDone)
            );
            assert!(error.message().contains(&format!("of {count} records")), "{error}");
        }
    };
    println!("{} of {count} memories moved in {slices} slices and {lasted:?}", count - left.min(count));
    let (mut found, mut cursor) = (Vec::new(), None::<memory_core::Cursor>);
    loop {
        let query = MemoryQuery::builder().under("a").limit(1_000);
        let page = cursor.iter().fold(query, |query, cursor| query.cursor(cursor.as_str())).build()?;
        let page = all.query(&page).await?;
        found.extend(page.memories.into_iter().map(|memory| memory.id));
        let Some(next) = page.next else { break };
        cursor = Some(next);
    }
    assert!(found == (0..count).rev().map(id).collect::<Vec<_>>(), "each once, the newest first");
    while let Some(backfill) = all.backfill().await? {
        assert_eq!(backfill.blocks, Blocks::Nothing, "the rest only gives space back");
    }
    check_no_old_key(&server).await
}

/// No call takes it for a short one and begins to move it.
async fn a_long_collection_counts_before_its_turn() -> Case {
    let (server, config) = laid("").await?;
    let admin = Admin::of(&server.url());
    admin.query::<()>(cmd("ZADD").arg("{agent_memory}:collections").arg(0).arg("notes")).await?;
    let mut add = cmd("ZADD");
    add.arg("{agent_memory}:dt:notes");
    for number in 0..3_000 {
        add.arg(number).arg(number);
    }
    admin.query::<()>(&add).await?;
    let program = open(config).await?;
    for expected in ["0 of 3000 records", "64 of 3000 records"] {
        let error = program.store(event("a-b", 1)).await.expect_err("not complete");
        assert!(error.kind() == ErrorKind::Unavailable && error.message().contains(expected), "{error}");
        program.backfill().await?;
    }
    while program.backfill().await?.is_some_and(|backfill| backfill.blocks == Blocks::Everything) {}
    program.store(event("a-b", 1)).await?;
    Ok(())
}

/// The writes of programs of version 1, abbreviated.
const APPEND: &str = "
    local taken = redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HGET', KEYS[1], ARGV[1])
    if taken then return 0 end
    redis.call('SET', KEYS[2], ARGV[3])
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
    return redis.call('ZADD', KEYS[3], 1, ARGV[2])";
const UPDATE: &str = "
    redis.call('SET', KEYS[1], ARGV[1])
    for status = 2, 3 do redis.call('ZREM', KEYS[status], ARGV[2]) end
    return 1";
const PUT: &str = "
    redis.call('SET', KEYS[1], ARGV[1])
    redis.call('ZADD', KEYS[2], 1, ARGV[2])
    redis.call('ZADD', KEYS[3], 0, ARGV[3])
    return 1";

async fn a_program_of_version_1_is_refused_each_write() -> Case {
    let (server, config) = laid(LEDGERS[0]).await?;
    let program = open(config.clone()).await?;
    let (before, documents) = everything(&program).await?;
    let (admin, row) = (Admin::of(&server.url()), old_row("a-b", 7));
    let (new, old) = (id(8), before[0].id);
    let error = admin.pipeline(&old_store(7, "a-b")).await.expect_err("refused");
    assert_eq!(error.code(), Some("WRONGTYPE"), "{error}");
    let key = |name: &str| format!("{{{NAMESPACE}}}:{name}").into_bytes();
    let of_id = |id: MemoryId| [key("m:"), id.as_bytes().to_vec()].concat();
    let scripts = [
        cmd("EVAL")
            .arg(APPEND)
            .arg(3)
            .arg(key("keys"))
            .arg(of_id(new))
            .arg(key("time"))
            .arg("k")
            .arg(new.as_bytes())
            .clone(),
        cmd("EVAL").arg(UPDATE).arg(3).arg(of_id(old)).arg(key("pending")).arg(key("running")).clone(),
        cmd("EVAL").arg(PUT).arg(3).arg(key("d:notes:new")).arg(key("dt:notes")).arg(key("collections")).clone(),
    ];
    let removal = cmd("EVAL").arg("return redis.call('ZREM', KEYS[1], 'x')").arg(1).arg(key("dt:facts")).clone();
    let error = admin.query::<()>(&removal).await.expect_err("refused");
    assert_eq!(error.code(), Some("WRONGTYPE"), "{error}");
    for (mut script, ids) in scripts.into_iter().zip([&[][..], old.as_bytes(), b"new"]) {
        script.arg(&row).arg(ids).arg("notes");
        let error = admin.query::<()>(&script).await.expect_err("refused");
        assert_eq!(error.code(), Some("WRONGTYPE"), "{error}");
    }
    let fields: Vec<(u32, String)> = admin.query(cmd("HGETALL").arg(key("schema"))).await?;
    assert_eq!(fields.iter().map(|(version, _)| *version).max(), Some(8), "it reads numbers, and that it is too old");
    assert_eq!(everything(&program).await?, (before, documents));
    assert_eq!((program.get(id(7)).await?, program.get(new).await?), (None, None));
    assert_eq!(program.documents().get(&Collection::parse("notes")?, &DocumentId::parse("new")?).await?, None);
    assert_eq!(program.check_health().await?.schema_version, 8);

    // It repeats a store whose outcome it does not know, finds the row, and treats the store as done.
    while program.backfill().await?.is_some() {}
    let adopted = program.get(id(7)).await?.ok_or("a row of a store is lost")?;
    let under = program.query(&MemoryQuery::builder().exact("a-b").limit(1_000).build()?).await?;
    assert!(under.memories.contains(&adopted), "it stands where it belongs");
    check_no_old_key(&server).await?;

    // A program that continues after the end of the move. The next migration moves what it left, and a watch delivers
    // that.
    let mut changes = program.watch(&Watch::new(Watched::Memories, MemoryQuery::builder().all())?).await?;
    changes.next().await.ok_or("the end")??;
    admin.pipeline(&old_store(9, "a-b")).await.expect_err("refused");
    assert_eq!((program.backfill().await?, program.get(id(9)).await?), (None, None));
    assert_eq!(memory_redis::migrate(&config).await?.applied, []);
    while program.backfill().await?.is_some() {}
    let late = program.get(id(9)).await?.ok_or("a row of a store is lost")?;
    assert_eq!(changes.next().await.ok_or("the end")??.kind, ChangeKind::Stored(Record::Memory(late)));
    check_no_old_key(&server).await
}

/// One program may just have listed a row to be moved when the other removes the rest.
async fn what_comes_late_is_moved_by_two_programs_at_once() -> Case {
    let (server, config) = laid(LEDGERS[0]).await?;
    let (one, other, admin) = (open(config.clone()).await?, open(config.clone()).await?, Admin::of(&server.url()));
    let swept = async |program: &RedisMemory| -> memory_core::Result<()> {
        while program.backfill().await?.is_some() {}
        Ok(())
    };
    swept(&one).await?;
    for number in 10..60 {
        admin.pipeline(&old_store(number, "a-b")).await.expect_err("refused");
        memory_redis::migrate(&config).await?;
        tokio::try_join!(swept(&one), swept(&other))?;
        assert!(one.get(id(number)).await?.is_some(), "row {number} of a store is lost");
    }
    check_no_old_key(&server).await
}

/// A program of version 1 that has stored nothing yet stores while the ledger is migrated.
async fn what_comes_late_to_an_empty_ledger_is_moved() -> Case {
    let (server, config) = laid("").await?;
    let (admin, first) = (Admin::of(&server.url()), &migrations::redis()[0]);
    let schema = format!("{{{NAMESPACE}}}:schema");
    let line = format!("{} {}", first.checksum(), first.name);
    admin.query::<()>(cmd("HSET").arg(schema).arg(first.version).arg(line)).await?;
    let program = open(config).await?;
    admin.pipeline(&old_store(7, "a-b")).await.expect_err("refused");
    while program.backfill().await?.is_some() {}
    assert!(program.get(id(7)).await?.is_some(), "a row of a store is lost");
    check_no_old_key(&server).await
}

async fn what_cannot_be_read_is_moved_too() -> Case {
    let (server, config) = laid("").await?;
    let admin = Admin::of(&server.url());
    admin.pipeline(&(0..4).flat_map(|number| old_store(number, "a-b")).collect::<Vec<_>>()).await?;
    let key = |number| [format!("{{{NAMESPACE}}}:m:").as_bytes(), id(number).as_bytes()].concat();
    let row = old_row("a-b", 1);
    admin.query::<()>(cmd("SET").arg(key(1)).arg(&row[..row.len() - 1])).await?;
    admin.query::<()>(cmd("SET").arg(key(2)).arg("x")).await?;
    admin.query::<()>(cmd("DEL").arg(key(3))).await?;
    let program = open(config).await?;
    // The one whose head is gone is in no space.
    for (query, unreadable) in [(MemoryQuery::builder().all(), 2), (MemoryQuery::builder().under("a"), 1)] {
        let page = program.query(&query.build()?).await?;
        assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [id(0)]);
        assert_eq!(page.unreadable.len(), unreadable);
    }
    assert_eq!(program.get(id(1)).await.expect_err("it is there").kind(), ErrorKind::Corrupt);
    assert_eq!(program.get(id(3)).await?, None);
    moved(program).await?;
    check_no_old_key(&server).await
}

/// A program that is late with its slice moves nothing any more.
async fn what_was_removed_meanwhile_stays_removed() -> Case {
    let (server, config) = laid(LEDGERS[0]).await?;
    let (mut polls, mut completed) = (0, 0);
    // How many polls it takes to the end varies.
    while completed < 20 {
        polls += 1;
        let late = RedisMemory::open(config.clone())?;
        let mut init = Box::pin(moved(late));
        let is_completed = polled(&mut init, polls).await.transpose()?.is_some();
        completed += usize::from(is_completed);
        let program = open(config.clone()).await?;
        let documents = program.documents();
        for name in documents.collections().await? {
            let found = documents.query(&DocumentQuery::builder(name.clone()).all().build()?).await?.documents;
            let ids = found.into_iter().map(|document| document.id);
            documents.remove(&DocumentSelection::ids(name, ids)?, 1_000).await?;
        }
        if !is_completed {
            init.await?;
        }
        assert_eq!(documents.collections().await?, [], "after {polls} polls");
        memory_redis::remove(&config).await?;
        Admin::of(&server.url()).lay(LEDGERS[0], NAMESPACE).await?;
    }
    Ok(())
}

/// Each slice is taken by a program of its own, while another one reads and stores.
async fn words_go_beside_running_programs() -> Case {
    let (server, config) = laid("").await?;
    let (program, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    assert_eq!(program.backfill().await?, None, "a new ledger has no words");
    // More memories in the index than a slice takes out of it.
    let mut stored = program.store_many((0..9_000).map(|time| event("a-b", time)).collect()).await?;
    program.documents().restore(vec![document(1, "notes", "a", 1)]).await?;
    admin.index_words(NAMESPACE).await?;
    let (mut left, mut slices) = (u64::MAX, 0);
    loop {
        let newer = open(config.clone()).await?;
        let (progress, found) = tokio::join!(newer.backfill(), found_by_word(&program));
        assert!(found?.into_iter().rev().eq(stored.iter().copied()), "each once, the newest first");
        let Some(progress) = progress? else { break };
        assert_eq!((progress.blocks, progress.total), (Blocks::Nothing, stored.len() as u64 + 1), "{progress}");
        assert!(progress.left() <= left, "it goes on and does not begin anew: {progress}");
        (left, slices) = (progress.left(), slices + 1);
        stored.push(program.store(event("a-b", 9_000 + slices)).await?);
    }
    assert!(slices > 3, "it took {slices} slices");
    check_no_old_key(&server).await
}

/// The ids of all pages of a query with a word.
async fn found_by_word(program: &RedisMemory) -> Result<Vec<MemoryId>, Error> {
    let (mut found, mut cursor) = (Vec::new(), None::<memory_core::Cursor>);
    loop {
        let query = MemoryQuery::builder().all().text(common::PAYLOAD).limit(1_000);
        let page = cursor.iter().fold(query, |query, cursor| query.cursor(cursor.as_str())).build()?;
        let page = program.query(&page).await?;
        found.extend(page.memories.into_iter().map(|memory| memory.id));
        let Some(next) = page.next else { return Ok(found) };
        cursor = Some(next);
    }
}

async fn a_program_that_indexes_words_is_refused() -> Case {
    let (server, config) = with_words().await?;
    let admin = Admin::of(&server.url());
    let [writer, word] = ["writer", "x:late"].map(|name| format!("{{{NAMESPACE}}}:{name}"));
    let script = format!("{}\nreturn redis.call('ZADD', KEYS[2], 0, ARGV[1])", older_prelude(3));
    let index = |step: &str| cmd("EVAL").arg(&script).arg(2).arg(&writer).arg(&word).arg(step).clone();
    assert_eq!(admin.query::<i64>(&index("before")).await?, 1);
    let program = open(config).await?;
    let error = admin.query::<i64>(&index("behind")).await.expect_err("refused");
    assert_eq!(error.code(), Some("NEWER"), "{error}");
    while program.backfill().await?.is_some() {}
    check_no_old_key(&server).await
}

/// It would leave a gap in the history.
async fn a_program_that_keeps_no_history_is_refused() -> Case {
    let (server, config) = laid("").await?;
    let (program, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    let stored = program.store(event("a-b", 1)).await?;
    let [schema, writer, row] = ["schema", "writer", "late"].map(|name| format!("{{{NAMESPACE}}}:{name}"));
    admin.query::<()>(cmd("HDEL").arg(&schema).arg(5).arg(6).arg(7).arg(8)).await?;
    admin.query::<()>(cmd("SET").arg(&writer).arg(5)).await?;
    let script = format!("{}\nreturn redis.call('APPEND', KEYS[2], ARGV[1])", older_prelude(5));
    let write = |row: &str, text: &str| cmd("EVAL").arg(&script).arg(2).arg(&writer).arg(row).arg(text).clone();
    assert_eq!(admin.query::<i64>(&write(&row, "x")).await?, 1);
    assert_eq!(
        memory_redis::migrate(&config).await?.applied,
        [(5, "history"), (6, "erasure"), (7, "expiry"), (8, "vectors")]
    );
    let error = admin.query::<i64>(&write(&row, "x")).await.expect_err("refused");
    assert_eq!(error.code(), Some("NEWER"), "{error}");
    assert_eq!(admin.query::<String>(cmd("GET").arg(&row)).await?, "x");
    assert_eq!(program.history(&History::of(stored)).await?.versions.len(), 1);
    Ok(())
}

/// It would bring back erased records.
async fn a_program_that_knows_no_tombstones_is_refused() -> Case {
    let (server, config) = laid("").await?;
    let (program, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    let stored = program.store(event("a-b", 1)).await?;
    // The ledger of a program of version 5.
    let [schema, writer, row] = ["schema", "writer", "late"].map(|name| format!("{{{NAMESPACE}}}:{name}"));
    admin.query::<()>(cmd("HDEL").arg(&schema).arg(6).arg(7).arg(8)).await?;
    admin.query::<()>(cmd("DEL").arg(format!("{{{NAMESPACE}}}:hash_key"))).await?;
    admin.query::<()>(cmd("SET").arg(&writer).arg(6)).await?;
    let script = format!("{}\nreturn redis.call('APPEND', KEYS[2], ARGV[1])", older_prelude(6));
    let write = cmd("EVAL").arg(&script).arg(2).arg(&writer).arg(&row).arg("x").clone();
    assert_eq!(admin.query::<i64>(&write).await?, 1);
    assert_eq!(memory_redis::migrate(&config).await?.applied, [(6, "erasure"), (7, "expiry"), (8, "vectors")]);
    let error = admin.query::<i64>(&write).await.expect_err("refused");
    assert_eq!(error.code(), Some("NEWER"), "{error}");
    let program = open(config).await?;
    assert_eq!(program.erase(&Erasure::records([stored.into()], "it is old")?).await?.records, [stored.into()]);
    assert_eq!(program.get(stored).await.expect_err("it was erased").kind(), ErrorKind::Erased);
    Ok(())
}

/// It would drop the times of the rows that it writes. Its earlier rows can still be read, and none of them expires.
async fn a_program_that_knows_no_expiry_is_refused() -> Case {
    let (server, config) = laid("").await?;
    let (program, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    let stored = program.store(event("a-b", 1)).await?;
    let before = program.get(stored).await?;
    // The ledger of a program of version 6.
    let [schema, writer, row] = ["schema", "writer", "late"].map(|name| format!("{{{NAMESPACE}}}:{name}"));
    admin.query::<()>(cmd("HDEL").arg(&schema).arg(7).arg(8)).await?;
    admin.query::<()>(cmd("SET").arg(&writer).arg(7)).await?;
    let script = format!("{}\nreturn redis.call('APPEND', KEYS[2], ARGV[1])", older_prelude(7));
    let write = cmd("EVAL").arg(&script).arg(2).arg(&writer).arg(&row).arg("x").clone();
    assert_eq!(admin.query::<i64>(&write).await?, 1);
    // An operator has made it read-only, which a step does not change.
    program.set_read_only(true).await?;
    assert_eq!(memory_redis::migrate(&config).await?.applied, [(7, "expiry"), (8, "vectors")]);
    let program = open(config).await?;
    assert!(program.is_read_only().await?);
    program.set_read_only(false).await?;
    let error = admin.query::<i64>(&write).await.expect_err("refused");
    assert_eq!(error.code(), Some("NEWER"), "{error}");
    assert_eq!(program.get(stored).await?, before);
    let end = Timestamp::from_millis(SystemClock.now().as_millis() + 3_600_000)?;
    program.update(stored, MemoryPatch::new().set_expiry(end)).await?;
    assert_eq!(program.get(stored).await?.ok_or("gone")?.expires_at, Some(end));
    Ok(())
}

/// It would leave the vector of a text that it replaces.
async fn a_program_that_knows_no_vectors_is_refused() -> Case {
    let (server, config) = laid("").await?;
    let (program, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    let stored = program.store(event("a-b", 1)).await?;
    // The ledger of a program of version 7.
    let [schema, writer, row] = ["schema", "writer", "late"].map(|name| format!("{{{NAMESPACE}}}:{name}"));
    admin.query::<()>(cmd("HDEL").arg(&schema).arg(8)).await?;
    admin.query::<()>(cmd("SET").arg(&writer).arg(8)).await?;
    let script = format!("{}\nreturn redis.call('APPEND', KEYS[2], ARGV[1])", older_prelude(8));
    let write = cmd("EVAL").arg(&script).arg(2).arg(&writer).arg(&row).arg("x").clone();
    assert_eq!(admin.query::<i64>(&write).await?, 1);
    // An operator has made it read-only, which a step does not change.
    program.set_read_only(true).await?;
    assert_eq!(memory_redis::migrate(&config).await?.applied, [(8, "vectors")]);
    let program = open(config).await?;
    assert!(program.is_read_only().await?);
    program.set_read_only(false).await?;
    let error = admin.query::<i64>(&write).await.expect_err("refused");
    assert_eq!(error.code(), Some("NEWER"), "{error}");
    let model = VectorModel::new("a model", 2, Precision::Exact)?;
    program.set_vector_model(&model).await?;
    let (record, revision, vector) = (stored.into(), Revision::FIRST, Vector::new(&[3.0, 4.0])?);
    let embedding = Embedding { record, revision, vector, texts: None };
    assert_eq!(program.vectors(&[stored.into()]).await?, [None]);
    assert_eq!(program.embed(&model, vec![embedding.clone()]).await?, [true]);
    let kept = program.vectors(&[stored.into()]).await?.pop().flatten();
    assert_eq!(kept.map(|kept| Embedding { texts: None, ..kept }), Some(embedding));
    Ok(())
}

/// Records from before the history have no time in it, and exist from its beginning on.
async fn the_history_of_an_older_ledger_begins_when_it_is_opened() -> Case {
    for (server, mut config) in older().await? {
        // The state before a program that keeps a history has opened it.
        server.command(&["DEL", &format!("{{{NAMESPACE}}}:since")])?;
        let clock = Arc::new(ManualClock::new(time(1_000)));
        config.clock = Arc::<ManualClock>::clone(&clock);
        let program = open(config.clone()).await?;
        while program.backfill().await?.is_some() {}
        let (mut memories, mut documents) = everything(&program).await?;
        let memory = memories.remove(0);
        let document = documents.remove(0).remove(0);
        clock.set(time(2_000));
        program.update(memory.id, MemoryPatch::new().with_status(Status::Failed)).await?;
        let Document { collection, id, space_id, created_at, .. } = document.clone();
        let write = DocumentWrite::new(collection.clone(), space_id, Content::parse("changed")?, created_at);
        program.documents().put(write.with_id(id.clone())).await?;
        clock.set(time(3_000));
        // Opening it with another program does not start the history again.
        let program = open(config).await?;
        for (record, revision) in [
            (RecordId::from(memory.id), memory.revision.get()),
            (RecordId::from((collection, id)), document.revision.get()),
        ] {
            let versions = program.history(&History::of(record.clone())).await?.versions;
            let times: Vec<_> = versions.iter().map(|version| (version.revision.get(), version.committed_at)).collect();
            assert_eq!(times, [(revision + 1, Some(time(2_000))), (revision, None)]);
            let error = program.get_as_of(&record, time(999)).await.expect_err("before the history");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        let then = program.get_as_of(&memory.id.into(), time(1_999)).await?;
        assert_eq!(then, Some(Record::Memory(memory)));
        let key = (document.collection.clone(), document.id.clone());
        assert_eq!(program.get_as_of(&key.into(), time(1_000)).await?, Some(Record::Document(document)));
    }
    Ok(())
}

/// The start of an older program's scripts: like that of this program, but with an earlier version.
fn older_prelude(version: u32) -> String {
    let newer = include_str!("../src/scripts/prelude.lua");
    let older = newer.replace("> 9 then", &format!("> {version} then"));
    assert!(older != newer, "the versions are others");
    older
}

/// After a restart, a failover or a move of the slot, the position that another server gave is meaningless.
async fn a_sweep_begins_anew_on_another_server() -> Case {
    for is_another in [false, true] {
        let (server, config) = with_words().await?;
        let program = open(config).await?;
        let info = server.command(&["INFO", "server"])?;
        let own = info.lines().find_map(|line| line.trim().strip_prefix("run_id:")).ok_or("a server without an id")?;
        let id = if is_another { "0".repeat(own.len()) } else { own.to_owned() };
        // The last place of each table, however large it is.
        let swept = format!("{id} {}", u64::MAX);
        server.command(&["HSET", &format!("{{{NAMESPACE}}}:move"), "swept", &swept])?;
        while program.backfill().await?.is_some() {}
        let left = server.command(&["KEYS", &format!("{{{NAMESPACE}}}:x:*")])?;
        assert_eq!(left.is_empty(), is_another, "the own server goes on there");
    }
    Ok(())
}

/// Runs beside a program that writes. In the end the index equals that of a new namespace with the same documents.
async fn older_documents_get_their_places() -> Case {
    let (server, config) = laid("").await?;
    let (program, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    let documents = program.documents();
    let document = |number: usize| {
        let space = ["a", "a-b", "a/b:c", "ab-c"][number % 4];
        document(number, ["notes", "notes-2"][number / 4_000], space, (number % 100) as i64)
    };
    documents.restore((0..4_200).map(document).collect()).await?;
    let found = async |provider: &RedisMemory| {
        let query = DocumentQuery::builder(Collection::parse("notes")?).under("a").limit(1_000);
        let query = query.filter_text("id LIKE '___0_'").build()?;
        Ok::<_, Error>(provider.documents().query(&query).await?.documents)
    };
    let before = found(&program).await?;
    assert_eq!(before.len(), 320);
    forget_places(&admin).await?;
    let newer = open(config.clone()).await?;
    let mut progress = newer.backfill().await?.ok_or("some are left")?;
    assert_eq!((progress.blocks, progress.done, progress.total), (Blocks::DocumentPlaces, 64, 4_200));
    for (moved, gone) in [(10, 11), (3_910, 3_911), (4_110, 4_111)] {
        let Document { id, collection, content, created_at, .. } = document(moved);
        let write = DocumentWrite::new(collection, SpaceId::parse("z-1")?, content, created_at).with_id(id);
        newer.documents().put(write).await?;
        let Document { id, collection, .. } = document(gone);
        assert_eq!(newer.documents().remove(&DocumentSelection::ids(collection, [id])?, 1).await?.len(), 1);
    }
    // The query completes the last part itself.
    loop {
        assert_eq!(found(&newer).await?, before);
        let Some(next) = newer.backfill().await?.filter(is_of_places) else { break };
        assert!(next.done > progress.done, "{next} after {progress}");
        progress = next;
    }
    assert_eq!(found(&newer).await?, before);

    let mut other = config.clone();
    other.namespace = "other".to_owned();
    let copy = open(other).await?;
    for name in newer.documents().collections().await? {
        let query = |name| DocumentQuery::builder(name).all().limit(1_000);
        let mut page = newer.documents().query(&query(name.clone()).build()?).await?;
        loop {
            copy.documents().restore(page.documents).await?;
            let Some(cursor) = page.next else { break };
            page = newer.documents().query(&query(name.clone()).cursor(&cursor).build()?).await?;
        }
    }
    let there = places(&admin, NAMESPACE).await?;
    assert!(there.len() > 5 && there == places(&admin, "other").await?, "the index is another");
    assert!(!admin.query::<bool>(cmd("EXISTS").arg(format!("{{{NAMESPACE}}}:places"))).await?);
    Ok(())
}

/// Whichever program took a slice at the same time, and whatever was removed meanwhile.
async fn documents_without_a_place_are_counted() -> Case {
    let (server, config) = laid("").await?;
    let (program, admin) = (open(config.clone()).await?, Admin::of(&server.url()));
    let collection = |number| if number < 200 { "notes" } else { "notes-2" };
    let documents = (0..300).map(|number| document(number, collection(number), "a", number as i64));
    program.documents().restore(documents.collect()).await?;
    forget_places(&admin).await?;
    let (newer, other) = (open(config.clone()).await?, open(config).await?);
    let (first, second) = tokio::join!(newer.backfill(), other.backfill());
    first.and(second)?;
    let ids = (0..64).map(|number| DocumentId::parse(format!("{number:05}"))).collect::<Result<Vec<_>, _>>()?;
    let removed = newer.documents().remove(&DocumentSelection::ids(Collection::parse("notes")?, ids)?, 64).await?;
    assert_eq!(removed.len(), 64);
    while let Some(progress) = newer.backfill().await?.filter(is_of_places) {
        let (mut placed, mut all) = (0, 0);
        for name in ["notes", "notes-2"] {
            placed += admin.query::<u64>(cmd("ZCARD").arg(format!("{{{NAMESPACE}}}:en:{name}"))).await?;
            all += admin.query::<u64>(cmd("ZCARD").arg(format!("{{{NAMESPACE}}}:et:{name}"))).await?;
        }
        assert_eq!((progress.done, progress.total), (placed, all));
    }
    Ok(())
}

/// Commands that a node refuses while the slot of the namespace moves away.
async fn a_slice_that_is_refused_is_sent_again() -> Case {
    let settings = [("cluster-enabled", "yes")];
    let (server, other) = (LocalRedis::start_with(&settings)?, LocalRedis::start_with(&settings)?);
    server.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    server.command(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()])?;
    let target = other.command(&["CLUSTER", "MYID"])?;
    let is_one = || {
        let (nodes, info) = (server.command(&["CLUSTER", "NODES"])?, server.command(&["CLUSTER", "INFO"])?);
        Ok::<_, std::io::Error>(nodes.contains(&target) && info.contains("cluster_state:ok"))
    };
    let begun = Instant::now();
    while !is_one()? {
        assert!(begun.elapsed() < Duration::from_secs(60), "the nodes do not become a cluster");
        tokio::task::yield_now().await;
    }
    let config = RedisConfig::from_url(&server.url())?;
    let program = open(config.clone()).await?;
    // All keys that are read exist: only a new path has none.
    program.store(event("a-b", 1)).await?;
    let space = |number| if number == 99 { "a-b" } else { "a" };
    program.documents().restore((0..100).map(|number| document(number, "notes", space(number), 1)).collect()).await?;
    let (schema, admin) = (format!("{{{NAMESPACE}}}:schema"), Admin::of(&server.url()));
    let last: String = admin.query(cmd("HGET").arg(&schema).arg(3)).await?;
    forget_places(&admin).await?;
    let newer = open(config).await?;
    // The next backfill would read keys that do not exist.
    admin.query::<()>(cmd("HSET").arg(&schema).arg(3).arg(last)).await?;
    newer.backfill().await?;
    let slot = server.command(&["CLUSTER", "KEYSLOT", &format!("{{{NAMESPACE}}}")])?;
    server.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target])?;
    let slice = tokio::spawn(async move { newer.backfill().await });
    while !server.command(&["INFO", "errorstats"])?.contains("TRYAGAIN") {
        assert!(!slice.is_finished(), "the slice ended before the server refused it");
        tokio::task::yield_now().await;
    }
    server.command(&["CLUSTER", "SETSLOT", &slot, "STABLE"])?;
    assert_eq!(slice.await??.ok_or("complete too early")?.left(), 0);
    Ok(())
}

fn document(number: usize, collection: &str, space: &str, millis: i64) -> Document {
    Document {
        id: DocumentId::parse(format!("{number:05}")).expect("valid"),
        collection: Collection::parse(collection).expect("valid"),
        space_id: SpaceId::parse(space).expect("valid"),
        content: Content::parse("text").expect("valid"),
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(millis).expect("valid"),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    }
}

/// Turns documents into those of a program that does not know of the index of their places.
async fn forget_places(admin: &Admin) -> redis::RedisResult<()> {
    for key in places(admin, NAMESPACE).await?.into_keys() {
        admin.query::<()>(cmd("DEL").arg([format!("{{{NAMESPACE}}}:").as_bytes(), &key].concat())).await?;
    }
    admin.query::<()>(cmd("DEL").arg(format!("{{{NAMESPACE}}}:writer"))).await?;
    let schema = format!("{{{NAMESPACE}}}:schema");
    let steps: String = admin.query(cmd("HGET").arg(&schema).arg(2)).await?;
    let others: Vec<_> = steps.lines().filter(|line| !line.ends_with(" paths")).collect();
    admin.query::<()>(cmd("HSET").arg(&schema).arg(2).arg(others.join("\n"))).await?;
    admin.query(cmd("HDEL").arg(&schema).arg(3).arg(4).arg(5).arg(6).arg(7).arg(8)).await
}

fn is_of_places(backfill: &Backfill) -> bool {
    backfill.blocks == Blocks::DocumentPlaces
}

/// The index of the places of documents.
async fn places(admin: &Admin, namespace: &str) -> redis::RedisResult<BTreeMap<Vec<u8>, Vec<Vec<u8>>>> {
    let (prefix, mut places) = (format!("{{{namespace}}}:"), BTreeMap::new());
    for key in admin.query::<Vec<Vec<u8>>>(cmd("KEYS").arg(format!("{prefix}en:*"))).await? {
        let members = admin.query(cmd("ZRANGE").arg(&key).arg(0).arg(-1)).await?;
        places.insert(key[prefix.len()..].to_vec(), members);
    }
    Ok(places)
}

/// A server with a ledger of version 1.
async fn laid(ledger: &str) -> Result<(LocalRedis, RedisConfig), Box<dyn std::error::Error + Send + Sync>> {
    let server = LocalRedis::start()?;
    let config = RedisConfig::from_url(&server.url())?;
    if !ledger.is_empty() {
        Admin::of(&server.url()).lay(ledger, NAMESPACE).await?;
    }
    Ok((server, config))
}

/// A server with each kind of older ledger: of version 1, without words and with them, and of version 2.
async fn older() -> Result<Vec<(LocalRedis, RedisConfig)>, Box<dyn std::error::Error + Send + Sync>> {
    Ok(vec![laid(LEDGERS[0]).await?, laid(LEDGERS[1]).await?, with_words().await?])
}

/// A server with a ledger of version 2 that has an index of words.
async fn with_words() -> Result<(LocalRedis, RedisConfig), Box<dyn std::error::Error + Send + Sync>> {
    let (server, config) = laid(LEDGERS[0]).await?;
    moved(RedisMemory::open(config.clone())?).await?;
    Admin::of(&server.url()).index_words(NAMESPACE).await?;
    Ok((server, config))
}

/// Opens a ledger, and moves all of it.
async fn moved(program: RedisMemory) -> Result<(), Error> {
    program.init().await?;
    while program.backfill().await?.is_some() {}
    Ok(())
}

/// Polls a future at most this many times.
async fn polled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let (mut future, mut count) = (Box::pin(future), 0);
    poll_fn(|context| {
        count += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if count >= polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn check_no_old_key(server: &LocalRedis) -> Case {
    let admin = Admin::of(&server.url());
    let keys: Vec<Vec<u8>> = admin.query(cmd("KEYS").arg("*")).await?;
    for key in &keys {
        let name = key.strip_prefix(format!("{{{NAMESPACE}}}:").as_bytes()).ok_or("a key of another namespace")?;
        assert!(!PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes())), "{}", key.escape_ascii());
    }
    for name in STRINGS {
        let kind: String = admin.query(cmd("TYPE").arg(format!("{{{NAMESPACE}}}:{name}"))).await?;
        assert_eq!(kind, "string", "{name}");
    }
    Ok(())
}

type Everything = (Vec<memory_core::Memory>, Vec<Vec<memory_core::Document>>);

async fn everything(program: &RedisMemory) -> Result<Everything, Error> {
    let memories = program.query(&MemoryQuery::builder().all().limit(1_000).build()?).await?.memories;
    let (store, mut documents) = (program.documents(), Vec::new());
    for name in store.collections().await? {
        documents.push(store.query(&DocumentQuery::builder(name).all().limit(1_000).build()?).await?.documents);
    }
    Ok((memories, documents))
}

/// The commands by which a program of version 1 stores a memory.
fn old_store(number: u64, space: &str) -> Vec<redis::Cmd> {
    let (id, row) = (id(number), old_row(space, number));
    let key = |name: &str, rest: &[u8]| [format!("{{{NAMESPACE}}}:{name}").as_bytes(), rest].concat();
    let step = [&(number as i64 - memory_core::Timestamp::MIN.as_millis()).to_be_bytes()[2..], id.as_bytes()].concat();
    vec![
        cmd("MULTI"),
        cmd("SET").arg(key("m:", id.as_bytes())).arg(row).clone(),
        cmd("ZADD").arg(key("p:", b"a")).arg(0).arg(&step).clone(),
        cmd("ZADD").arg(key("spaces", b"")).arg(0).arg([space.as_bytes(), &[0], &step].concat()).clone(),
        cmd("ZADD").arg(key("time", b"")).arg(number).arg(id.as_bytes()).clone(),
        cmd("EXEC"),
    ]
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}

fn id(number: u64) -> MemoryId {
    MemoryId::from_bytes(u128::from(number).to_be_bytes())
}

/// A completed memory in the form of version 1.
fn old_row(space: &str, number: u64) -> Vec<u8> {
    let status = memory_core::Status::ALL.iter().position(|status| *status == memory_core::Status::Completed);
    let mut row = [&[1][..], &number.to_be_bytes(), &1_i64.to_be_bytes(), &number.to_be_bytes()].concat();
    row.extend(i64::MIN.to_be_bytes());
    row.push(status.map_or(0, |place| place as u8));
    for text in [Some(space), Some("{}"), None, Some(r#"{"text":"an event of version 1"}"#), Some("1")] {
        row.extend(text.map_or(u32::MAX, |text| text.len() as u32).to_be_bytes());
        row.extend(text.unwrap_or_default().as_bytes());
    }
    row
}
