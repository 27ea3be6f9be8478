//! Failures of a file: the kind of each error, and that the rows still exist afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_core::{
    Collection, Content, DocumentId, DocumentWrite, Error, ErrorKind, Expect, Memory, MemoryId, MemoryPatch,
    MemoryProvider, MemoryQuery, NewMemory, Order, Outcome, SpaceId, Status, Timestamp, Trigger,
};
use memory_sqlite::{SqliteConfig, SqliteMemory, migrate, plan};
use rusqlite::Connection;
use tempfile::TempDir;

use error::native;

#[path = "../src/error.rs"]
mod error;

/// A word in every payload, which must never be in an error.
const SECRET: &str = "xyzzy";

#[tokio::test]
async fn a_store_that_another_program_blocks_times_out_and_can_be_repeated() {
    let (_folder, path) = place();
    // Long, so that SQLite's answer comes before that of the gate on a slow machine, too.
    let provider = open(&path, Duration::from_secs(5)).await;
    let first = provider.store(event(0)).await.expect("a store");
    let other = Connection::open(&path).expect("another program");
    other.execute_batch("BEGIN IMMEDIATE").expect("its lock");

    let error = provider.store(event(1)).await.expect_err("the file is locked");
    check(&error, ErrorKind::Timeout, "another program holds the database locked");
    assert!(error.is_retryable());
    assert_eq!(error.outcome(), Outcome::NotDone);
    assert!(provider.get(first).await.expect("reads go on").is_some());
    other.execute_batch("COMMIT").expect("the lock is given back");

    let second = provider.store(event(1)).await.expect("the repetition");
    assert_eq!(ids(&all(&provider).await), [first, second]);
}

#[tokio::test]
async fn a_file_that_may_not_be_written_can_be_read_and_refuses_stores() {
    let (_folder, path) = place();
    let before = filled(&path, 3).await;
    // The least version of a program that may write: SQLite takes a file of the future as read-only, for root as well.
    with_byte(&path, WRITE_VERSION, 3, async || {
        let provider = open(&path, Duration::from_secs(30)).await;
        assert_eq!(all(&provider).await, before);
        for error in [
            provider.store(event(1)).await.expect_err("store"),
            provider.update(before[0].id, MemoryPatch::new().with_status(Status::Failed)).await.expect_err("update"),
        ] {
            check(&error, ErrorKind::Unauthorized, "the database file is read-only");
            assert!(!error.is_retryable());
            assert_eq!(error.outcome(), Outcome::NotDone);
        }
        provider.shutdown().await.expect("a shutdown");
        assert_eq!(plan(&path.clone().into()).await.expect("a plan").now, 8);
    })
    .await;
    check_unharmed(&path, &before).await;
}

#[tokio::test]
async fn a_file_of_an_unknown_format_is_corrupt() {
    let (_folder, path) = place();
    let before = filled(&path, 3).await;
    with_byte(&path, READ_VERSION, 3, async || {
        for error in init_errors(&path).await {
            check(&error, ErrorKind::Corrupt, "the file is not an SQLite database");
        }
    })
    .await;
    check_unharmed(&path, &before).await;
}

#[tokio::test]
async fn a_file_that_is_no_database_is_corrupt_and_stays_as_it_is() {
    let (_folder, path) = place();
    let text = format!("{SECRET} is no database. ").repeat(1_000);
    fs::write(&path, &text).expect("a text file");
    for error in init_errors(&path).await {
        check(&error, ErrorKind::Corrupt, "the file is not an SQLite database");
    }
    assert_eq!(fs::read_to_string(&path).expect("the text file"), text);
}

#[tokio::test]
async fn a_folder_is_no_file() {
    let (folder, _) = place();
    for error in init_errors(folder.path()).await {
        check(&error, ErrorKind::InvalidInput, "the path is a folder, not a database file");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_unavailable() {
    let (_folder, path) = place();
    fs::write(&path, SECRET).expect("a file in the place of the folder");
    let below = path.join("deeper/memory.db");
    let error = SqliteMemory::open(below).expect("a provider").init().await.expect_err("no folder");
    check(&error, ErrorKind::Unavailable, "the folder of the database can't be made");
    assert_eq!(fs::read_to_string(&path).expect("the file"), SECRET);
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_is_unavailable_and_init_can_be_repeated() {
    let (_folder, path) = place();
    let before = filled(&path, 3).await;
    let log = beside(&path, "-wal");
    fs::create_dir(&log).expect("a folder in the place of the log");
    let provider = SqliteMemory::open(path.clone()).expect("a provider");
    let error = provider.init().await.expect_err("no log");
    check(&error, ErrorKind::Unavailable, "the database file can't be opened");

    fs::remove_dir(&log).expect("the folder goes");
    provider.init().await.expect("the same provider");
    assert_eq!(all(&provider).await, before);
}

#[tokio::test]
async fn a_damaged_page_is_corrupt_for_the_calls_that_need_it() {
    let (_folder, path) = place();
    let before = filled(&path, 500).await;
    let document = put(&path).await;
    let intact = fs::read(&path).expect("the file");
    let (size, root) = {
        let file = Connection::open(&path).expect("the file");
        let size: u16 = file.query_row("PRAGMA page_size", [], |row| row.get(0)).expect("the size of a page");
        let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'memories'";
        let root: u16 = file.query_row(root, [], |row| row.get(0)).expect("the first page of the ledger");
        (usize::from(size), usize::from(root))
    };
    let mut damaged = intact.clone();
    damaged[(root - 1) * size..root * size].fill(0xff);
    fs::write(&path, &damaged).expect("the damage");

    let provider = open(&path, Duration::from_secs(30)).await;
    let errors = [
        provider.get(before[7].id).await.expect_err("get"),
        provider.query(&everything(50)).await.expect_err("query"),
        provider.update(before[7].id, MemoryPatch::new().with_status(Status::Failed)).await.expect_err("update"),
        provider.store(event(1)).await.expect_err("store"),
    ];
    for error in &errors {
        check(error, ErrorKind::Corrupt, "the database file is damaged");
        assert_eq!(error.outcome(), Outcome::NotDone);
    }
    let (collection, id) = (document.collection.clone(), document.id.clone());
    assert_eq!(provider.documents().get(&collection, &id).await.expect("another page"), Some(document));
    provider.shutdown().await.expect("a shutdown");

    fs::write(&path, &intact).expect("the repair");
    check_unharmed(&path, &before).await;
}

#[tokio::test]
async fn a_log_that_was_cut_keeps_what_was_committed_before_the_cut() {
    let (folder, path) = place();
    let provider = open(&path, Duration::from_secs(30)).await;
    let mut stored = Vec::new();
    for number in 0..40 {
        stored.push(provider.store(event(number)).await.expect("a store"));
    }
    let log = fs::read(beside(&path, "-wal")).expect("the log of an open database");
    for eighths in 0..=8 {
        let copy = folder.path().join(format!("copy-{eighths}.db"));
        fs::copy(&path, &copy).expect("a copy");
        fs::write(beside(&copy, "-wal"), &log[..log.len() * eighths / 8]).expect("a copy of a part of the log");
        let opened = open(&copy, Duration::from_secs(30)).await;
        let found = ids(&all(&opened).await);
        assert_eq!(found, stored[..found.len()], "{eighths} eighths of the log");
        assert_eq!(found.len() == stored.len(), eighths == 8, "{eighths} eighths of the log");
        opened.store(event(99)).await.expect("it goes on");
        opened.shutdown().await.expect("a shutdown");
        check_integrity(&copy);
    }
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_refused_by_version() {
    let (_folder, path) = place();
    let before = filled(&path, 3).await;
    let newer = "INSERT INTO schema_migrations VALUES (99, 'future', 'unknown', TRUE)";
    for (damage, repair, named) in [
        (newer, "DELETE FROM schema_migrations WHERE version = 99", r#"version 99 "future""#),
        ("UPDATE schema_migrations SET checksum = 'x' || checksum", UNEDITED, r#"version 1 "ledger" was edited"#),
        (
            "UPDATE schema_migrations SET complete = FALSE",
            "UPDATE schema_migrations SET complete = TRUE",
            r#"version 1 "ledger" was begun and never finished"#,
        ),
    ] {
        change(&path, damage);
        let bytes = fs::read(&path).expect("the file");
        let config = SqliteConfig::new(&path);
        let errors = [
            SqliteMemory::open(config.clone()).expect("a provider").init().await.expect_err("init"),
            migrate(&config).await.expect_err("migrate"),
            plan(&config).await.expect_err("plan"),
        ];
        for error in &errors {
            check(error, ErrorKind::SchemaMismatch, named);
            assert!(!error.is_retryable());
        }
        assert!(fs::read(&path).expect("the file") == bytes, "a refusal has changed the file");
        change(&path, repair);
        check_unharmed(&path, &before).await;
    }
}

#[tokio::test]
async fn a_plan_for_a_missing_file_tells_every_step_and_leaves_it_missing() {
    let (folder, _) = place();
    let below = folder.path().join("deeper");
    let config = SqliteConfig::new(below.join("memory.db"));
    let report = plan(&config).await.expect("a plan");
    assert_eq!((report.before, report.now), (0, 8));
    assert!(!below.exists());
    assert_eq!(migrate(&config).await.expect("the steps"), report);
    assert_eq!(plan(&config).await.expect("a plan").applied, []);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_reported_and_hides_no_other() {
    for damage in [
        "trigger = '{\"cut'",
        "context = 'xyzzy'",
        "metadata = '[\"xyzzy\"]'",
        "metadata = '{\"cut'",
        "status = 'xyzzy'",
        "space_id = 'xyzzy' || char(10)",
        "space_id = ''",
        "revision = 0",
        "revision = -5",
        "updated_at = 9223372036854775807",
        "expires_at = 9223372036854775807",
        "idempotency_key = ''",
    ] {
        let (_folder, path) = place();
        let before = filled(&path, 7).await;
        let damaged = before[3].id;
        let file = Connection::open(&path).expect("the file");
        file.execute_batch("CREATE TABLE intact AS SELECT * FROM memories").expect("a copy of the rows");
        let sql = format!("UPDATE memories SET {damage} WHERE id = ?1");
        assert_eq!(file.execute(&sql, [damaged.as_bytes().as_slice()]).expect("the damage"), 1);

        let provider = open(&path, Duration::from_secs(30)).await;
        for error in [
            provider.get(damaged).await.expect_err(damage),
            provider.update(damaged, MemoryPatch::new().with_status(Status::Failed)).await.expect_err(damage),
        ] {
            check(&error, ErrorKind::Corrupt, "");
            assert_eq!(error.outcome(), Outcome::NotDone);
        }
        let report = provider.restore(vec![before[3].clone()]).await.expect("a restore");
        assert_eq!(report.conflicts, [0], "{damage}: what can't be read is not overwritten");

        let page = provider.query(&everything(6)).await.expect(damage);
        let others: Vec<_> = before.iter().filter(|memory| memory.id != damaged).cloned().collect();
        assert_eq!(page.memories, others, "{damage}");
        let reported: Vec<_> = page.unreadable.iter().map(|row| row.id.clone()).collect();
        assert_eq!(reported, [damaged.to_string()], "{damage}");
        assert!(!page.unreadable[0].reason.contains(SECRET), "{damage}");
        provider.shutdown().await.expect("a shutdown");

        file.execute_batch(
            "DELETE FROM memories; INSERT INTO memories
            (seq, id, slot, updated_at, status, revision, space_id, idempotency_key, metadata, trigger, context)
            SELECT seq, id, slot, updated_at, status, revision, space_id, idempotency_key, metadata, trigger, context
            FROM intact",
        )
        .expect("the repair");
        drop(file);
        check_unharmed(&path, &before).await;
    }
}

#[tokio::test]
async fn a_row_with_an_impossible_id_is_reported_and_stores_go_on() {
    for id in ["x'01'", "x''", "randomblob(17)"] {
        let (_folder, path) = place();
        let before = filled(&path, 3).await;
        let lost = before[1].id;
        let file = Connection::open(&path).expect("the file");
        let sql = format!("UPDATE memories SET id = {id} WHERE id = ?1");
        assert_eq!(file.execute(&sql, [lost.as_bytes().as_slice()]).expect("the damage"), 1);

        let provider = open(&path, Duration::from_secs(30)).await;
        let page = provider.query(&everything(50)).await.expect(id);
        assert_eq!(ids(&page.memories), [before[0].id, before[2].id], "{id}");
        assert_eq!(page.unreadable.len(), 1, "{id}");
        assert_eq!(provider.get(lost).await.expect("no row has the id"), None);

        // Two neighbors of the damaged row in its millisecond: after it, and between others.
        let after = provider.store(event(1)).await.expect("a store in the same millisecond");
        let between = Memory { id: MemoryId::from_bytes([0; 16]), ..before[1].clone() };
        assert_eq!(provider.restore(vec![between.clone()]).await.expect("a restore").written, 1);
        let page = provider.query(&everything(50)).await.expect(id);
        assert_eq!(ids(&page.memories), [before[0].id, between.id, after, before[2].id], "{id}");
    }
}

#[test]
fn a_full_database_can_be_tried_again() {
    let connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch("PRAGMA max_page_count = 2; CREATE TABLE t (value)").expect("a small database");
    let full = connection.execute_batch("INSERT INTO t VALUES (zeroblob(100000))");
    check_native(full, ErrorKind::Unavailable, "the disk is full, or the database may not grow", true);
}

#[test]
fn a_locked_table_can_be_tried_again() {
    let connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch("CREATE TABLE t (value); INSERT INTO t VALUES (1), (2)").expect("a table");
    let mut reading = connection.prepare("SELECT value FROM t").expect("a statement");
    let mut rows = reading.query([]).expect("a reader");
    assert!(rows.next().expect("a row").is_some());
    let locked = connection.execute_batch("DROP TABLE t");
    check_native(locked, ErrorKind::Unavailable, "a table of the database is locked", true);
}

#[test]
fn an_interrupted_statement_can_be_tried_again() {
    let connection = Connection::open_in_memory().expect("memory");
    let mut counting = connection
        .prepare("WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c")
        .expect("a statement");
    let mut rows = counting.query([]).expect("a reader");
    assert!(rows.next().expect("a row").is_some());
    connection.get_interrupt_handle().interrupt();
    check_native(rows.next().map(drop), ErrorKind::Timeout, "the statement was interrupted", true);
}

#[test]
fn a_value_over_the_limits_of_sqlite_is_too_large() {
    let connection = Connection::open_in_memory().expect("memory");
    let size = connection.query_row("SELECT length(zeroblob(2000000000))", [], |_| Ok(()));
    check_native(size, ErrorKind::TooLarge, "a value is larger than SQLite takes", false);
}

#[test]
fn what_has_no_kind_of_its_own_is_unexpected() {
    let connection = Connection::open_in_memory().expect("memory");
    check_native(connection.execute_batch("SELECT"), ErrorKind::Unexpected, "SQLite refused a statement", false);
}

/// The offsets in a file's header of the versions that SQLite needs to write it and to read it.
const WRITE_VERSION: usize = 18;
const READ_VERSION: usize = 19;

/// Undoes the edit of the checksum.
const UNEDITED: &str = "UPDATE schema_migrations SET checksum = substr(checksum, 2)";

fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    (folder, path)
}

/// A file of SQLite's that belongs to the database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

async fn open(path: &Path, deadline: Duration) -> SqliteMemory {
    let mut config = SqliteConfig::new(path);
    config.deadline = deadline;
    let provider = SqliteMemory::open(config).expect("a provider");
    provider.init().await.expect("an open database");
    provider
}

/// Makes a database with this many memories, and closes it.
async fn filled(path: &Path, count: i64) -> Vec<Memory> {
    let provider = open(path, Duration::from_secs(30)).await;
    provider.store_many((0..count).map(event).collect()).await.expect("the memories");
    let memories = all(&provider).await;
    provider.shutdown().await.expect("a shutdown");
    assert_eq!(memories.len(), usize::try_from(count).expect("a small number"));
    memories
}

async fn put(path: &Path) -> memory_core::Document {
    let provider = open(path, Duration::from_secs(30)).await;
    let collection = Collection::parse("notes").expect("valid");
    let (space, content) = (SpaceId::parse("a-b").expect("valid"), Content::parse(SECRET).expect("valid"));
    let id = DocumentId::parse("one").expect("valid");
    let write = DocumentWrite::new(collection, space, content, at(1)).with_id(id).expect(Expect::Absent);
    let document = provider.documents().put(write).await.expect("a document");
    provider.shutdown().await.expect("a shutdown");
    document
}

fn event(number: i64) -> NewMemory {
    let space = SpaceId::parse(format!("{SECRET}-{}", number % 3)).expect("valid");
    let trigger = Trigger::parse(&format!(r#"{{"text":"{SECRET} {number}"}}"#)).expect("valid");
    NewMemory::new(space, trigger, at(number))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}

fn everything(limit: usize) -> MemoryQuery {
    MemoryQuery::builder().all().order(Order::OldestFirst).limit(limit).build().expect("a query")
}

async fn all(provider: &SqliteMemory) -> Vec<Memory> {
    let page = provider.query(&everything(1_000)).await.expect("a page");
    assert_eq!((page.unreadable, page.next), (vec![], None));
    page.memories
}

fn ids(memories: &[Memory]) -> Vec<MemoryId> {
    memories.iter().map(|memory| memory.id).collect()
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).expect("the file").execute_batch(sql).expect("a change");
}

/// Does something while one byte of the file is another one.
async fn with_byte(path: &Path, at: usize, byte: u8, work: impl AsyncFnOnce()) {
    let intact = fs::read(path).expect("the file");
    let mut changed = intact.clone();
    changed[at] = byte;
    fs::write(path, &changed).expect("the change");
    work().await;
    assert!(fs::read(path).expect("the file") == changed, "the file was changed");
    fs::write(path, &intact).expect("the repair");
}

/// The errors of all ways to open a database.
async fn init_errors(path: &Path) -> Vec<Error> {
    let config = SqliteConfig::new(path);
    vec![
        SqliteMemory::open(config.clone()).expect("a provider").init().await.expect_err("init"),
        migrate(&config).await.expect_err("migrate"),
        plan(&config).await.expect_err("plan"),
    ]
}

#[track_caller]
fn check(error: &Error, kind: ErrorKind, message: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.message().contains(message), "{error:?}");
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains(SECRET), "an error tells a payload: {text}");
    }
}

/// Checks the mapping of SQLite's own error.
#[track_caller]
fn check_native(result: rusqlite::Result<()>, kind: ErrorKind, message: &str, retryable: bool) {
    let error = native(result.expect_err("SQLite refuses it"));
    assert_eq!((error.kind(), error.message()), (kind, message), "{error:?}");
    assert_eq!(error.is_retryable(), retryable);
}

async fn check_unharmed(path: &Path, before: &[Memory]) {
    let provider = open(path, Duration::from_secs(30)).await;
    assert_eq!(all(&provider).await, before);
    provider.store(event(1_000)).await.expect("it goes on");
    assert_eq!(all(&provider).await.len(), before.len() + 1);
    // The next check finds what this one has found.
    provider.shutdown().await.expect("a shutdown");
    let file = Connection::open(path).expect("the file");
    file.execute("DELETE FROM memories WHERE seq > ?1", [i64::try_from(before.len()).expect("small")])
        .expect("the rest");
    drop(file);
    check_integrity(path);
}

fn check_integrity(path: &Path) {
    let file = Connection::open(path).expect("the file");
    let answer: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
    assert_eq!(answer, "ok");
    file.execute_batch("INSERT INTO memory_paths (memory_paths) VALUES ('integrity-check')").expect("the path index");
}
