//! Several processes on one file. Each is this test again, with a role.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use memory_core::{
    Error, IdempotencyKey, Memory, MemoryId, MemoryProvider, MemoryQuery, NewMemory, Order, Outcome, SpaceId,
    Timestamp, Trigger,
};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use rusqlite::Connection;
use tempfile::TempDir;

mod older;

/// The role of a child process, and its file.
const ROLE: &str = "MEMORY_TEST_ROLE";
const FILE: &str = "MEMORY_TEST_FILE";
/// How often a writer is killed; 10 unless the environment sets it.
const KILL_ROUNDS: &str = "MEMORY_TEST_KILL_ROUNDS";

const WRITERS: usize = 3;
const READERS: usize = 2;
const STORES: usize = 300;
/// The memories of an older ledger, whose words some slices take away.
const OLDER: i64 = 20_000;
/// How long a measurement of stores takes.
const MEASURED: Duration = Duration::from_secs(5);
/// The bytes of the stores of one group: more than SQLite keeps in memory, so that it writes before the commit.
const LARGE_GROUP: [usize; 9] = [0, 0, 4_000_000, 4_000_000, 4_000_000, 4_000_000, 4_000_000, 0, 0];

fn main() -> ExitCode {
    if let Ok(role) = env::var(ROLE) {
        return play(&role);
    }
    let trials = vec![
        Trial::test("eight_processes_make_one_database", eight_processes_make_one_database),
        Trial::test("writers_and_readers_share_a_file", writers_and_readers_share_a_file),
        Trial::test("how_long_stores_of_three_processes_take", how_long_stores_take).with_ignored_flag(true),
        Trial::test("a_killed_writer_loses_nothing_that_it_acknowledged", a_killed_writer_loses_nothing),
        Trial::test("a_removal_of_words_that_is_killed_goes_on", a_removal_that_is_killed),
        #[cfg(unix)]
        Trial::test("a_log_that_may_not_grow_loses_nothing_that_was_acknowledged", a_log_that_may_not_grow),
        #[cfg(unix)]
        Trial::test("a_group_that_can_not_be_written_is_told_the_truth", a_group_that_can_not_be_written),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn eight_processes_make_one_database() -> Result<(), Failed> {
    for _ in 0..5 {
        let folder = TempDir::new()?;
        // The folder is missing as well.
        let path = folder.path().join("a/b/memory.db");
        let children = (0..8).map(|_| start("init", &path)).collect::<Result<Vec<_>, _>>()?;
        for child in children {
            finish(child)?;
        }
        let applied =
            Connection::open(&path)?
                .query_row("SELECT count(*) FROM schema_migrations WHERE complete", [], |row| row.get::<_, i64>(0))?;
        if applied != 9 {
            return Err(format!("{applied} steps are in the bookkeeping").into());
        }
        check_integrity(&path)?;
    }
    Ok(())
}

fn writers_and_readers_share_a_file() -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let path = folder.path().join("memory.db");
    let writers = (0..WRITERS).map(|_| start("write", &path)).collect::<Result<Vec<_>, _>>()?;
    let readers = (0..READERS).map(|_| start("read", &path)).collect::<Result<Vec<_>, _>>()?;
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(finish(writer)?);
    }
    for reader in readers {
        finish(reader)?;
    }
    if acknowledged.len() != WRITERS * STORES {
        return Err(format!("{} stores were acknowledged", acknowledged.len()).into());
    }
    let stored = read_all(&path)?;
    // Equal lengths, so that nothing exists twice either.
    same(&acknowledged.into_iter().collect(), &stored.iter().map(|memory| memory.id.to_string()).collect::<Vec<_>>())?;
    check_keys(&stored)?;
    check_integrity(&path)
}

/// Prints how long stores take in three processes that store without a pause, alone and side by side. A measurement: no
/// figure makes it fail.
fn how_long_stores_take() -> Result<(), Failed> {
    for processes in [1, 3] {
        let folder = TempDir::new()?;
        let path = folder.path().join("memory.db");
        run(&path, async |_| Ok(()))?;
        let children = (0..processes).map(|_| start("measure", &path)).collect::<Result<Vec<_>, _>>()?;
        for child in children {
            let lines = finish(child)?;
            let mut micros: Vec<u64> = lines.iter().map(|line| line.parse()).collect::<Result<_, _>>()?;
            micros.sort_unstable();
            let at = |share: f64| micros.get((micros.len() as f64 * share) as usize).or(micros.last()).copied();
            let [median, p99, most] = [0.5, 0.99, 1.0].map(|share| at(share).unwrap_or_default());
            println!("one of {processes}: {} stores, median {median} µs, p99 {p99} µs, most {most} µs", micros.len());
        }
    }
    Ok(())
}

fn a_killed_writer_loses_nothing() -> Result<(), Failed> {
    let rounds = env::var(KILL_ROUNDS).map_or(Ok(10), |rounds| rounds.parse())?;
    let folder = TempDir::new()?;
    let path = folder.path().join("memory.db");
    let mut acknowledged = BTreeSet::new();
    for round in 0..rounds {
        let mut child = start("write-for-ever", &path)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        // Each round is killed at another place.
        for _ in 0..(1 + 37 * round % 200) {
            acknowledged.insert(lines.next().ok_or("the writer ended early")??);
        }
        child.kill()?;
        child.wait()?;
        // Its acknowledgements before the kill count as well; its last line may be truncated.
        acknowledged.extend(lines.map_while(Result::ok).filter(|line| MemoryId::parse(line).is_ok()));

        let stored = read_all(&path)?;
        let ids: BTreeSet<_> = stored.iter().map(|memory| memory.id.to_string()).collect();
        if ids.len() != stored.len() {
            return Err(format!("round {round}: an id is there twice").into());
        }
        if let Some(lost) = acknowledged.difference(&ids).next() {
            return Err(format!("round {round}: {lost} was acknowledged and is lost").into());
        }
        check_keys(&stored)?;
        check_integrity(&path)?;
    }
    Ok(())
}

/// Beside a process that writes.
fn a_removal_that_is_killed() -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let path = folder.path().join("memory.db");
    drop(older::ledger(&path, OLDER, Some(OLDER)));
    let writer = start("write", &path)?;
    let (mut before, mut kills) = (u64::MAX, 0);
    loop {
        let mut child = start("remove-words", &path)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        // It prints what a slice has left, until nothing is left.
        let Some(left) = lines.next().transpose()? else {
            finish(child)?;
            break;
        };
        let left: u64 = left.parse()?;
        if left >= before {
            return Err(format!("{left} records were left after {before}").into());
        }
        // It begins the next slice, and is killed in it.
        let mut input = child.stdin.take().ok_or("no input")?;
        writeln!(input)?;
        child.kill()?;
        child.wait()?;
        check_integrity(&path)?;
        (before, kills) = (left, kills + 1);
    }
    if kills < 2 {
        return Err(format!("it was killed {kills} times").into());
    }
    let acknowledged = finish(writer)?;
    let stored: BTreeSet<_> = read_all(&path)?.iter().map(|memory| memory.id.to_string()).collect();
    if stored.len() != OLDER as usize + STORES || !acknowledged.iter().all(|id| stored.contains(id)) {
        return Err(format!("{} memories are there", stored.len()).into());
    }
    let left: i64 = Connection::open(&path)?.query_row(
        "SELECT (SELECT count(*) FROM sqlite_schema WHERE name LIKE '%words%')
            + (SELECT count(*) FROM schema_migrations WHERE NOT complete)",
        [],
        |row| row.get(0),
    )?;
    if left == 0 { Ok(()) } else { Err(format!("{left} things are left of the words").into()) }
}

/// A limit on the size of files stops the log in the middle of a commit, as a broken disk does.
#[cfg(unix)]
fn a_log_that_may_not_grow() -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let path = folder.path().join("memory.db");
    run(&path, async |_| Ok(()))?;
    let limited = Command::new("sh")
        .args(["-c", r#"trap '' XFSZ; ulimit -f 600; exec "$0""#])
        .arg(env::current_exe()?)
        .env(ROLE, "write-until-refused")
        .env(FILE, &path)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut acknowledged = finish(limited)?;
    let refusal = acknowledged.pop().ok_or("no output")?;
    if refusal != "Unavailable: the file can't be read or written; outcome Unknown; retryable false" {
        return Err(format!("the writer was refused with {refusal}").into());
    }
    if acknowledged.is_empty() {
        return Err("the writer could not even begin".into());
    }
    let stored = read_all(&path)?;
    let ids: Vec<_> = stored.iter().map(|memory| memory.id.to_string()).collect();
    // Only the refused store may be there or not.
    if !ids.starts_with(&acknowledged) || ids.len() > acknowledged.len() + 1 {
        return Err(format!("{} were acknowledged, {} are there", acknowledged.len(), ids.len()).into());
    }
    check_keys(&stored)?;
    check_integrity(&path)
}

/// SQLite ends a transaction by itself if the file can't be written; later calls of the group must not be stored alone.
#[cfg(unix)]
fn a_group_that_can_not_be_written() -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let path = folder.path().join("memory.db");
    run(&path, async |_| Ok(()))?;
    let limited = Command::new("sh")
        .args(["-c", r#"trap '' XFSZ; ulimit -f 9000; exec "$0""#])
        .arg(env::current_exe()?)
        .env(ROLE, "write-large-group")
        .env(FILE, &path)
        .stdout(Stdio::piped())
        .spawn()?;
    let answers = finish(limited)?;
    let stored = read_all(&path)?;
    let is_stored = |number: &str| {
        let has_number = |key: &IdempotencyKey| key.as_str().ends_with(&format!("-{number}"));
        stored.iter().any(|memory| memory.idempotency_key.as_ref().is_some_and(has_number))
    };
    if answers.iter().filter(|answer| answer.ends_with("stored")).count() == LARGE_GROUP.len() {
        return Err("everything could be written".into());
    }
    for answer in &answers {
        let (number, outcome) = answer.split_once(' ').ok_or("no outcome")?;
        if (outcome == "stored") != is_stored(number) {
            return Err(
                format!("the answer was {answer}, and in the file are {} of {}", stored.len(), answers.len()).into()
            );
        }
    }
    check_keys(&stored)?;
    check_integrity(&path)
}

/// Runs the role of a child. Each line that it writes is the id of an acknowledged store.
fn play(role: &str) -> ExitCode {
    let path = PathBuf::from(env::var_os(FILE).unwrap_or_default());
    let result = match role {
        "init" => run(&path, async |_| Ok(())),
        "write" => run(&path, async |provider| {
            for number in 0..STORES {
                tell(provider.store(event(number, 0)).await?);
            }
            Ok(())
        }),
        "measure" => run(&path, async |provider| {
            let (begun, mut micros) = (Instant::now(), Vec::new());
            while begun.elapsed() < MEASURED {
                let store = Instant::now();
                provider.store(event(micros.len(), 600)).await?;
                micros.push(store.elapsed().as_micros());
            }
            micros.iter().for_each(|micros| println!("{micros}"));
            Ok(())
        }),
        "write-for-ever" => run(&path, async |provider| {
            for group in 0.. {
                // Several at a time, so that a kill hits groups.
                let stores = (0..8).map(|place| provider.store(event(group * 8 + place, 0)));
                futures::future::try_join_all(stores).await?.into_iter().for_each(tell);
            }
            Ok(())
        }),
        "write-until-refused" => run(&path, async |provider| {
            for number in 0.. {
                match provider.store(event(number, 10_000)).await {
                    Ok(id) => tell(id),
                    Err(error) => {
                        let (kind, message) = (error.kind(), error.message());
                        let (outcome, retryable) = (error.outcome(), error.is_retryable());
                        println!("{kind:?}: {message}; outcome {outcome:?}; retryable {retryable}");
                        break;
                    }
                }
            }
            Ok(())
        }),
        "write-large-group" => run(&path, async |provider| {
            let stores = LARGE_GROUP.into_iter().enumerate().map(|(number, size)| provider.store(event(number, size)));
            for (number, answer) in futures::future::join_all(stores).await.into_iter().enumerate() {
                match answer {
                    Ok(_) => println!("{number} stored"),
                    Err(error) if error.outcome() == Outcome::NotDone => println!("{number} refused"),
                    // Either is the truth.
                    Err(_) => {}
                }
            }
            Ok(())
        }),
        "remove-words" => run(&path, async |provider| {
            let mut lines = std::io::stdin().lines();
            while let Some(backfill) = provider.backfill().await? {
                println!("{}", backfill.left());
                lines.next();
            }
            Ok(())
        }),
        "read" => run(&path, async |provider| {
            let mut before = BTreeSet::new();
            while before.len() < WRITERS * STORES {
                let memories = walk(provider).await?;
                let now: BTreeSet<_> = memories.iter().map(|memory| memory.id).collect();
                assert_eq!(now.len(), memories.len(), "a walk has found a row twice");
                assert!(now.is_superset(&before), "a row has gone");
                before = now;
            }
            Ok(())
        }),
        _ => return ExitCode::FAILURE,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn tell(id: MemoryId) {
    let mut out = std::io::stdout().lock();
    // A parent that has gone needs no answer.
    let _ = writeln!(out, "{id}").and_then(|()| out.flush());
}

/// Opens the file, does something with it, and closes it.
fn run<T>(path: &Path, work: impl AsyncFnOnce(&SqliteMemory) -> Result<T, Error>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let provider = SqliteMemory::open(SqliteConfig::new(path))?;
        provider.init().await?;
        let result = work(&provider).await?;
        provider.shutdown().await.map(|()| result)
    })
}

fn read_all(path: &Path) -> Result<Vec<Memory>, Failed> {
    run(path, walk).map_err(|error| format!("{error:?}").into())
}

async fn walk(provider: &SqliteMemory) -> Result<Vec<Memory>, Error> {
    let query = MemoryQuery::builder().all().order(Order::OldestFirst).limit(97);
    let mut found = Vec::new();
    let mut page = provider.query(&query.clone().build()?).await?;
    loop {
        assert!(page.unreadable.is_empty(), "a row can't be read");
        found.extend(page.memories);
        let Some(next) = page.next else { return Ok(found) };
        page = provider.query(&query.clone().cursor(next.as_str()).build()?).await?;
    }
}

/// Each child has keys and spaces of its own, and ascending times.
fn event(number: usize, size: usize) -> NewMemory {
    let child = std::process::id();
    let space = SpaceId::parse(format!("child-{child}-{number}")).expect("valid");
    let trigger = Trigger::parse(&format!("\"{}\"", "x".repeat(size))).expect("valid");
    let time = Timestamp::from_millis(i64::try_from(number / 7).expect("small")).expect("valid");
    let key = IdempotencyKey::parse(format!("{child}-{number}")).expect("valid");
    NewMemory::new(space, trigger, time).with_idempotency_key(key)
}

fn start(role: &str, path: &Path) -> Result<Child, std::io::Error> {
    Command::new(env::current_exe()?)
        .env(ROLE, role)
        .env(FILE, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Waits for a child, and returns its lines.
fn finish(child: Child) -> Result<Vec<String>, Failed> {
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("a child has failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

fn same(expected: &BTreeSet<String>, found: &[String]) -> Result<(), Failed> {
    let distinct: BTreeSet<_> = found.iter().cloned().collect();
    if distinct.len() == found.len() && distinct == *expected {
        return Ok(());
    }
    let lost = expected.difference(&distinct).count();
    Err(format!("{} were expected, {} were found, {lost} are lost", expected.len(), found.len()).into())
}

/// No event exists twice under different ids.
fn check_keys(memories: &[Memory]) -> Result<(), Failed> {
    let spaces: BTreeSet<_> = memories.iter().map(|memory| memory.space_id.as_str()).collect();
    if spaces.len() == memories.len() { Ok(()) } else { Err("an event is there twice".into()) }
}

fn check_integrity(path: &Path) -> Result<(), Failed> {
    let file = Connection::open(path)?;
    let answer: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if answer != "ok" {
        return Err(answer.into());
    }
    file.execute_batch("INSERT INTO memory_paths (memory_paths) VALUES ('integrity-check')")?;
    // Each row is found under the last segment of its path, which is its own. An entry that ends with a boundary is a
    // marker, since no space here ends with one.
    let counts = "SELECT count(*), (SELECT count(*) FROM memories) FROM memory_path_tokens
        WHERE term LIKE 'e%' AND term NOT LIKE '%-'";
    let (tokens, rows) = file.query_row(counts, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    if tokens == rows { Ok(()) } else { Err(format!("{rows} rows, {tokens} of them in the path index").into()) }
}
