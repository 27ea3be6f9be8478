//! A schema that changes beside running programs: who may write, and what a backfill leaves to be done.

use memory_core::{
    Blocks, Collection, Content, Context, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentStore,
    DocumentWrite, ErrorKind, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, NewMemory, Order, Outcome,
    Revision, SpaceId, TextIndex, Timestamp, Trigger,
};
use memory_sqlite::{SqliteConfig, SqliteMemory};
use rusqlite::Connection;
use tempfile::TempDir;

#[tokio::test]
async fn a_program_of_version_1_is_refused_each_write_and_reads() {
    let folder = TempDir::new().expect("a temporary folder");
    let (provider, id) = filled(&folder).await;
    let old = Connection::open(folder.path().join("memory.db")).expect("the file");
    // What begins each of its transactions that write.
    let error = old.prepare("SELECT 1 FROM settings WHERE name = 'ledger_text'").expect_err("refused").to_string();
    assert!(error.contains("no such table: settings"), "{error}");
    let read = "SELECT (SELECT count(*) FROM memories) + (SELECT count(*) FROM documents)";
    assert_eq!(old.query_row(read, [], |row| row.get::<_, i64>(0)).expect("a count"), 2);
    assert_eq!(provider.get(id).await.expect("a memory").map(|memory| memory.revision.get()), Some(1));
}

#[tokio::test]
async fn below_the_minimum_writer_version_a_program_still_reads() {
    let folder = TempDir::new().expect("a temporary folder");
    let (provider, id) = filled(&folder).await;
    let newer = Connection::open(folder.path().join("memory.db")).expect("the file");
    newer.execute_batch("UPDATE agreements SET value = '4' WHERE name = 'writer'").expect("a later step");
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
async fn a_backfill_goes_on_where_it_was_cut_beside_a_program_that_writes() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let writer = open(SqliteConfig::new(&path)).await;
    let mut ids = writer.store_many((0..4_200).map(event).collect()).await.expect("a batch");

    let mut config = SqliteConfig::new(&path);
    config.text_index = TextIndex::All;
    let begun = memory_sqlite::migrate(&config).await.expect("the step");
    assert_eq!(begun.applied, [(2, "words")]);
    let seen = || backfill_in(&path);
    let mut before = seen();
    assert_eq!(before, Some(4_201));
    // What is newer than the step, and what an update changes, the writer indexes by itself.
    ids.push(writer.store(event(4_200)).await.expect("a store"));
    let word = Context::parse(r#"{"word":"changed"}"#).expect("valid");
    writer.update(ids[7], MemoryPatch::new().set_context(word.clone())).await.expect("an update");

    let mut slices = 0;
    let all = loop {
        let all = SqliteMemory::open(config.clone()).expect("valid");
        all.init().await.expect("opens");
        let backfill = all.backfill().await.expect("a slice").expect("it is not complete");
        if backfill.left() <= 2_000 {
            // The query completes what is left.
            break all;
        }
        assert!((backfill.blocks, backfill.total) == (Blocks::LedgerText, 4_201), "{backfill:?}");
        assert!(seen() < before, "it goes on and does not begin anew");
        (before, slices) = (seen(), slices + 1);
        let error = all.query(&by_word("event1")).await.expect_err("not complete");
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
        assert!(error.message().contains("of 4201 records are done; agent-memory migrate"), "{error}");
        let everything = MemoryQuery::builder().all().limit(1).build().expect("a query");
        assert_eq!(all.query(&everything).await.expect("nothing else waits").memories.len(), 1);
        drop(all);
        if slices == 1 {
            writer.update(ids[3], MemoryPatch::new().set_context(word.clone())).await.expect("an update");
        }
    };
    for (number, id) in ids.iter().enumerate() {
        let page = all.query(&by_word(&format!("event{number}"))).await.expect("a page");
        assert_eq!(page.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(), [*id], "event{number}");
    }
    assert_eq!(all.query(&by_word("changed")).await.expect("a page").memories.len(), 2);
    assert_eq!(all.backfill().await.expect("a state"), None);
}

#[tokio::test]
async fn an_index_that_lacks_nothing_is_complete_at_once() {
    let folder = TempDir::new().expect("a temporary folder");
    let mut config = SqliteConfig::new(folder.path().join("memory.db"));
    config.text_index = TextIndex::All;
    open(config).await;
    let file = Connection::open(folder.path().join("memory.db")).expect("the file");
    let complete = "SELECT complete FROM schema_migrations WHERE name = 'words'";
    assert!(file.query_row(complete, [], |row| row.get::<_, bool>(0)).expect("the step"));
}

#[tokio::test]
async fn the_places_of_older_documents_are_filled_in_beside_programs_that_write() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let older = open(SqliteConfig::new(&path)).await;
    let documents = older.documents();
    let document = |number: usize| Document {
        id: DocumentId::parse(format!("{number:05}")).expect("valid"),
        collection: notes(),
        space_id: SpaceId::parse(["a", "a-b", "a/b:c", "ab-c"][number % 4]).expect("valid"),
        content: Content::parse("text").expect("valid"),
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis((number % 100) as i64).expect("valid"),
        updated_at: None,
        revision: Revision::FIRST,
    };
    documents.restore((0..4_200).map(document).collect()).await.expect("a restore");
    let found = async |documents: &dyn DocumentStore| {
        let query = DocumentQuery::builder(notes()).under("a").limit(1_000).order(Order::OldestFirst);
        let query = query.filter_text("id BETWEEN '00100' AND '04000'").build().expect("a query");
        documents.query(&query).await.expect("a page").documents
    };
    let before = found(&*documents).await;
    assert_eq!(before.len(), 1_000);

    let file = Connection::open(&path).expect("the file");
    // As a program has left it that does not know the step.
    let without = "
        DROP TRIGGER document_is_new; DROP TRIGGER document_leaves; DROP TRIGGER document_arrives;
        DROP TRIGGER document_is_gone; DROP VIEW document_entries; DROP TABLE space_positions;
        DROP TABLE document_paths; DELETE FROM agreements WHERE name = 'unplaced_below';
        DELETE FROM schema_migrations WHERE name = 'paths'";
    file.execute_batch(without).expect("the schema before");
    let newer = open(SqliteConfig::new(&path)).await;
    let same = async || assert!(found(&*newer.documents()).await == before, "the answer is another");
    same().await;
    let mut left = newer.backfill().await.expect("a slice").expect("it is not complete");
    assert_eq!((left.blocks, left.total), (Blocks::DocumentPlaces, 4_200));
    // The program that does not know of the places writes among those that are filled in, and those that are not.
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
    // The query completes what is left.
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

/// Down to which row the words are not indexed.
fn backfill_in(path: &std::path::Path) -> Option<i64> {
    let sql = "SELECT CAST(value AS INTEGER) FROM agreements WHERE name = 'unindexed_below'";
    Connection::open(path).expect("the file").query_row(sql, [], |row| row.get(0)).ok()
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

fn by_word(word: &str) -> MemoryQuery {
    MemoryQuery::builder().all().text(word).build().expect("a query")
}
