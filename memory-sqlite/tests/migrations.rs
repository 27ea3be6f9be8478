//! Changes of the schema while programs run: which programs may write, and what a backfill leaves.

use std::path::Path;
use std::sync::Arc;

use memory_core::{
    Blocks, Collection, Content, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite, ErrorKind, History,
    ManualClock, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, NewMemory, Order, Outcome, Record, RecordId,
    SpaceId, Status, Timestamp, Trigger,
};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use migrations::{PATHS, Step};
use rusqlite::Connection;
use tempfile::TempDir;

mod older;

#[tokio::test]
async fn programs_of_older_versions_are_refused_each_write_and_read() {
    let folder = TempDir::new().expect("a temporary folder");
    let (provider, id) = filled(&folder).await;
    let old = Connection::open(folder.path().join("memory.db")).expect("the file");
    // The first statement of each writing transaction of version 1.
    let error = old.prepare("SELECT 1 FROM settings WHERE name = 'ledger_text'").expect_err("refused").to_string();
    assert!(error.contains("no such table: settings"), "{error}");
    // A program of version 2 compares this with its own version, which is at most 8.
    let least = "SELECT CAST(value AS INTEGER) FROM agreements WHERE name = 'writer'";
    assert_eq!(old.query_row(least, [], |row| row.get(0)), Ok(9));
    let read = "SELECT (SELECT count(*) FROM memories) + (SELECT count(*) FROM documents)";
    assert_eq!(old.query_row(read, [], |row| row.get::<_, i64>(0)).expect("a count"), 2);
    assert_eq!(provider.get(id).await.expect("a memory").map(|memory| memory.revision.get()), Some(1));
}

#[tokio::test]
async fn below_the_minimum_writer_version_a_program_still_reads() {
    let folder = TempDir::new().expect("a temporary folder");
    let (provider, id) = filled(&folder).await;
    let newer = Connection::open(folder.path().join("memory.db")).expect("the file");
    newer.execute_batch("UPDATE agreements SET value = '10' WHERE name = 'writer'").expect("a later step");
    let one = DocumentSelection::ids(notes(), [document_id()]).expect("a selection");
    let errors = [
        provider.store(event(2)).await.expect_err("a store"),
        provider.store_many(vec![event(3), event(4)]).await.expect_err("a batch"),
        provider.update(id, MemoryPatch::new().clear_context()).await.expect_err("an update"),
        provider.documents().put(note()).await.expect_err("a put"),
        provider.documents().remove(&one, 1).await.expect_err("a removal"),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::SchemaMismatch, Outcome::NotDone), "{error}");
        assert!(error.message().contains("upgrade this program"), "{error}");
    }
    let page = provider.query(&MemoryQuery::builder().all().build().expect("a query")).await.expect("a page");
    assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [id]);
    assert!(provider.documents().get(&notes(), &document_id()).await.expect("an answer").is_some());
}

#[tokio::test]
async fn the_words_of_an_older_ledger_go_in_slices_beside_programs_that_run() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    // A program of version 2, with a view of the file, whose index is complete down to the 1,001st memory.
    let older = older::ledger(&path, 8_000, Some(7_000));
    let found = |word: &str| {
        let count = "SELECT count(*) FROM memory_words WHERE memory_words MATCH ?1";
        older.query_row(count, [word], |row| row.get::<_, i64>(0))
    };
    older.execute_batch("BEGIN").expect("a view");
    assert_eq!((found("event1000"), found("event1001")), (Ok(0), Ok(1)));

    let running = open(SqliteConfig::new(&path)).await;
    let (mut left, mut slices, mut stored) = (u64::MAX, 0, Vec::new());
    loop {
        // Only the file knows how far the previous one has come.
        let next = open(SqliteConfig::new(&path)).await;
        let backfill = next.backfill().await.expect("a slice");
        drop(next);
        stored.push(running.store(event(10_000 + slices)).await.expect("a store"));
        let all = MemoryQuery::builder().all().limit(1).build().expect("a query");
        let newest = running.query(&all).await.expect("nothing waits").memories;
        assert_eq!(newest.iter().map(|memory| memory.id).collect::<Vec<_>>(), stored[stored.len() - 1..]);
        check_integrity(&path);
        assert_eq!(found("event1001"), Ok(1), "a view stays what it is");
        let Some(backfill) = backfill else { break };
        assert!(backfill.blocks == Blocks::Nothing && backfill.total >= 8_800, "{backfill:?}");
        assert!(backfill.left() < left, "it goes on and does not begin anew: {backfill}");
        (left, slices) = (backfill.left(), slices + 1);
    }
    assert!(slices > 1, "{slices} slices");
    older.execute_batch("COMMIT").expect("the end of the view");
    let error = found("event1001").expect_err("gone").to_string();
    assert!(error.contains("no such table: memory_words"), "{error}");

    check_wordless(&folder).await;
    let count = "SELECT count(*) FROM memories";
    assert_eq!(older.query_row(count, [], |row| row.get(0)), Ok(8_000 + stored.len() as i64));
    for word in ["event1000", "event1001"] {
        let query = MemoryQuery::builder().all().text(word).build().expect("a query");
        assert_eq!(running.query(&query).await.expect("a page").memories.len(), 1, "{word}");
    }
}

#[tokio::test]
async fn a_ledger_of_version_2_goes_on_whatever_words_were_indexed() {
    for indexed in [None, Some(0), Some(30), Some(60)] {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().join("memory.db");
        drop(older::ledger(&path, 60, indexed));
        let begun = memory_sqlite::migrate(&SqliteConfig::new(&path)).await.expect("the step");
        assert_eq!(
            (begun.before, begun.applied, begun.now),
            (2, vec![(3, "no_words"), (4, "feed"), (5, "history"), (6, "erasure"), (7, "expiry"), (8, "vectors")], 8)
        );
        let provider = open(SqliteConfig::new(&path)).await;
        assert_eq!(provider.backfill().await.expect("a state"), None, "so little goes at once");
        let query = MemoryQuery::builder().under("a").text("event1 event30 event60").order(Order::OldestFirst);
        let page = provider.query(&query.build().expect("a query")).await.expect("a page");
        let times: Vec<_> = page.memories.iter().map(|memory| memory.created_at.as_millis()).collect();
        assert_eq!(times, [1, 30, 60]);
        provider.store(event(61)).await.expect("a store");
        provider.documents().put(note()).await.expect("a put");
        check_integrity(&path);
        check_wordless(&folder).await;
    }
}

/// Records from before the history have no time in it, and exist from its beginning on.
#[tokio::test]
async fn the_history_of_an_older_ledger_begins_when_it_is_opened() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    drop(older::ledger(&path, 10, None));
    let mut config = SqliteConfig::new(&path);
    let clock = Arc::new(ManualClock::new(time(1_000)));
    config.clock = Arc::<ManualClock>::clone(&clock);
    let provider = open(config.clone()).await;
    let everything = MemoryQuery::builder().all().build().expect("a query");
    let memory = provider.query(&everything).await.expect("a page").memories.remove(0);
    clock.set(time(2_000));
    provider.update(memory.id, MemoryPatch::new().with_status(Status::Failed)).await.expect("an update");
    clock.set(time(3_000));
    // Opening it with another program does not start the history again.
    let provider = open(config).await;
    let versions = provider.history(&History::of(memory.id)).await.expect("a history").versions;
    let times: Vec<_> = versions.iter().map(|version| (version.revision.get(), version.committed_at)).collect();
    assert_eq!(times, [(2, Some(time(2_000))), (1, None)]);
    let then = async |millis| provider.get_as_of(&memory.id.into(), time(millis)).await;
    assert_eq!(then(1_000).await.expect("a memory"), Some(Record::Memory(memory.clone())));
    assert_eq!(then(999).await.expect_err("before the history").kind(), ErrorKind::InvalidInput);
    let note = DocumentId::parse("00001").expect("valid");
    let versions = provider.history(&History::of((notes(), note))).await.expect("a history").versions;
    assert_eq!(versions.iter().map(|version| version.committed_at).collect::<Vec<_>>(), [None]);
}

/// Statements that were prepared before the step know no times. Whichever statement writes, the list is correct.
#[tokio::test]
async fn a_ledger_of_version_6_gets_a_list_of_what_expires() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let older = older::empty(&path, 6, Step::is_taken);
    older::fill(&older, 20);
    let mut update =
        older.prepare("UPDATE memories SET status = 'failed', revision = 7 WHERE id = ?1").expect("an update");
    let mut put = older.prepare("UPDATE documents SET content = 'its', revision = 7 WHERE id = ?1").expect("a put");
    let mut remove = older.prepare("DELETE FROM documents WHERE id = ?1").expect("a removal");

    let begun = memory_sqlite::migrate(&SqliteConfig::new(&path)).await.expect("the step");
    assert_eq!((begun.before, begun.applied, begun.now), (6, vec![(7, "expiry"), (8, "vectors")], 8));
    let least = "SELECT CAST(value AS INTEGER) FROM agreements WHERE name = 'writer'";
    assert_eq!(older.query_row(least, [], |row| row.get(0)), Ok(9), "an older program writes no more");
    let provider = open(SqliteConfig::new(&path)).await;
    let documents = provider.documents();
    let later = time(8_000_000_000_000);
    let query = MemoryQuery::builder().under("a").limit(1).build().expect("a query");
    let id = provider.query(&query).await.expect("a page").memories.remove(0).id;
    provider.update(id, MemoryPatch::new().set_expiry(later)).await.expect("an update");
    let [one, two] = ["00001", "00002"].map(|id| DocumentId::parse(id).expect("valid"));
    for id in [&one, &two] {
        documents.put(note().with_id(id.clone()).expires_at(later)).await.expect("a put");
    }

    assert_eq!(update.execute([id.as_bytes().as_slice()]).expect("an update"), 1);
    assert_eq!(put.execute([one.as_str()]).expect("a put"), 1);
    assert_eq!(remove.execute([two.as_str()]).expect("a removal"), 1);
    let memory = provider.get(id).await.expect("a get").expect("a memory");
    assert_eq!((memory.status, memory.revision.get(), memory.expires_at), (Status::Failed, 7, Some(later)));
    let document = documents.get(&notes(), &one).await.expect("a get").expect("a document");
    assert_eq!((document.content.as_str(), document.expires_at), ("its", Some(later)));
    let listed = "SELECT CAST(expires_at AS TEXT) || ' ' || hex(record) FROM expiries";
    let hex = |key: Vec<u8>| key.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let due =
        [RecordId::from((notes(), one)), id.into()].map(|record| format!("8000000000000 {}", hex(record.to_key())));
    assert_eq!(texts(&path, listed), due);

    // The columns are as strict as if ALTER TABLE had added them.
    for table in ["memories", "documents"] {
        let error = older.execute(&format!("UPDATE {table} SET expires_at = 'soon'"), []).expect_err("no number");
        assert!(error.to_string().contains(&format!("TEXT value in INTEGER column {table}.expires_at")), "{error}");
        let last = "SELECT name FROM pragma_table_xinfo(?1) ORDER BY cid DESC LIMIT 1";
        assert_eq!(older.query_row(last, [table], |row| row.get(0)), Ok("expires_at".to_owned()));
    }
    check_integrity(&path);
}

/// A program that does not know vectors would leave them beside other texts. A read-only ledger stays read-only.
#[tokio::test]
async fn the_programs_of_a_ledger_of_version_7_write_no_more_once_it_has_vectors() {
    for (before, after) in [("8", 9), ("1000000008", 1_000_000_009)] {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().join("memory.db");
        let older = older::empty(&path, 7, Step::is_taken);
        older::fill(&older, 20);
        older.execute("UPDATE agreements SET value = ?1 WHERE name = 'writer'", [before]).expect("the least version");
        let begun = memory_sqlite::migrate(&SqliteConfig::new(&path)).await.expect("the step");
        assert_eq!((begun.before, begun.applied, begun.now), (7, vec![(8, "vectors")], 8));
        let least = "SELECT CAST(value AS INTEGER) FROM agreements WHERE name = 'writer'";
        assert_eq!(older.query_row(least, [], |row| row.get(0)), Ok(after));
        check_integrity(&path);
    }
}

#[tokio::test]
async fn a_new_ledger_has_nothing_to_remove() {
    let folder = TempDir::new().expect("a temporary folder");
    let provider = open(SqliteConfig::new(folder.path().join("memory.db"))).await;
    assert_eq!(provider.backfill().await.expect("a state"), None);
    let words = "SELECT name FROM sqlite_schema WHERE name LIKE '%words%'";
    assert_eq!(texts(&folder.path().join("memory.db"), words), [""; 0]);
}

#[tokio::test]
async fn the_places_of_older_documents_are_filled_in_beside_programs_that_write() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let ids: Vec<_> = (0..4_200).map(|number| format!("{number:05}")).collect();
    let place = |number: usize| (["a", "a-b", "a/b:c", "ab-c"][number % 4], (number % 100) as i64);
    let file = older::empty(&path, 2, |step| step.is_taken() && step.name != PATHS);
    file.execute_batch("BEGIN").expect("a transaction");
    for (number, id) in ids.iter().enumerate() {
        let insert = "INSERT INTO documents (collection, id, created_at, revision, space_id, metadata, content)
            VALUES ('notes', ?1, ?2, 1, ?3, '{}', 'text')";
        let (space, time) = place(number);
        file.execute(insert, (id, time, space)).expect("a document");
    }
    file.execute_batch("COMMIT").expect("a commit");
    let mut due: Vec<_> = (100..=4_000).filter(|number| place(*number).0 != "ab-c").collect();
    due.sort_by_key(|number| (place(*number).1, *number));
    let due: Vec<_> = due.into_iter().take(1_000).map(|number| ids[number].as_str()).collect();

    let [newer, other] = [open(SqliteConfig::new(&path)).await, open(SqliteConfig::new(&path)).await];
    let same = async || {
        let query = DocumentQuery::builder(notes()).under("a").limit(1_000).order(Order::OldestFirst);
        let query = query.filter_text("id BETWEEN '00100' AND '04000'").build().expect("a query");
        let found = newer.documents().query(&query).await.expect("a page").documents;
        assert!(found.iter().map(|document| document.id.as_str()).eq(due.iter().copied()), "the answer is another");
    };
    same().await;
    let mut left = newer.backfill().await.expect("a slice").expect("it is not complete");
    assert_eq!((left.blocks, left.total), (Blocks::DocumentPlaces, 4_200));
    // Another program writes documents that have places already, and documents that have none yet.
    let documents = other.documents();
    for (moved, gone) in [("00000", "00001"), ("04100", "04101")] {
        let mut write = note().with_id(DocumentId::parse(moved).expect("valid"));
        write.space_id = SpaceId::parse("z-1").expect("valid");
        documents.put(write).await.expect("a put");
        let gone = DocumentSelection::ids(notes(), [DocumentId::parse(gone).expect("valid")]).expect("a selection");
        assert_eq!(documents.remove(&gone, 1).await.expect("a removal").len(), 1);
    }
    documents.put(note()).await.expect("a put");
    while left.left() > 2_000 {
        same().await;
        let next = newer.backfill().await.expect("a slice").expect("it is not complete");
        assert!(next.left() < left.left(), "it goes on: {next}");
        left = next;
    }
    // The query completes the rest.
    same().await;
    assert_eq!(newer.backfill().await.expect("a state"), None);
    let differing = "
        WITH wanted AS (SELECT collection, level, path, created_at, id FROM document_entries),
            missing AS (SELECT * FROM wanted EXCEPT SELECT * FROM document_paths),
            wrong AS (SELECT * FROM document_paths EXCEPT SELECT * FROM wanted)
        SELECT (SELECT count(*) FROM missing) + (SELECT count(*) FROM wrong), (SELECT count(*) FROM wanted)";
    let counts = file.query_row(differing, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let (differing, entries) = counts.expect("counts");
    assert!(differing == 0 && entries > 8_000, "{differing} of {entries} entries");
    same().await;
    let complete = "SELECT complete FROM schema_migrations WHERE name = 'paths'";
    assert!(file.query_row(complete, [], |row| row.get::<_, bool>(0)).expect("the step"));
}

/// Checks that the ledger of a folder has everything that a new one has, and nothing else.
async fn check_wordless(folder: &TempDir) {
    let [path, new] = ["memory.db", "new.db"].map(|name| folder.path().join(name));
    // The first store makes the key of the hashes, also in a ledger in which nothing was ever erased.
    open(SqliteConfig::new(&new)).await.store(event(1)).await.expect("a store");
    for sql in ["SELECT name FROM sqlite_schema ORDER BY name", "SELECT name FROM agreements ORDER BY name"] {
        assert_eq!(texts(&path, sql), texts(&new, sql));
    }
    assert_eq!(texts(&path, "SELECT name FROM schema_migrations WHERE NOT complete"), [""; 0]);
}

fn check_integrity(path: &Path) {
    assert_eq!(texts(path, "PRAGMA integrity_check"), ["ok"]);
}

/// The first column of a query's rows.
fn texts(path: &Path, sql: &str) -> Vec<String> {
    let file = Connection::open(path).expect("the file");
    let mut statement = file.prepare(sql).expect("a statement");
    let texts = statement.query_map([], |row| row.get(0)).expect("rows");
    texts.collect::<Result<_, _>>().expect("texts")
}

/// A ledger with one memory and one document.
async fn filled(folder: &TempDir) -> (SqliteMemory, MemoryId) {
    let provider = open(SqliteConfig::new(folder.path().join("memory.db"))).await;
    let id = provider.store(event(1)).await.expect("a store");
    provider.documents().put(note()).await.expect("a put");
    (provider, id)
}

async fn open(config: SqliteConfig) -> SqliteMemory {
    let provider = SqliteMemory::open(config).expect("valid");
    provider.init().await.expect("opens");
    provider
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}

fn event(number: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"event{number}"}}"#)).expect("valid");
    let time = Timestamp::from_millis(number).expect("valid");
    NewMemory::new(SpaceId::parse("a-b").expect("valid"), trigger, time)
}

fn note() -> DocumentWrite {
    let (space, time) = (SpaceId::parse("a").expect("valid"), Timestamp::from_millis(1).expect("valid"));
    DocumentWrite::new(notes(), space, Content::parse("text").expect("valid"), time).with_id(document_id())
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn document_id() -> DocumentId {
    DocumentId::parse("one").expect("valid")
}
