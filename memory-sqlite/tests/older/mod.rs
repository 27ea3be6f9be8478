//! Ledgers as programs of version 2 and later ones have left them.

use std::path::Path;

use migrations::{Kind, Step};
use rusqlite::{Connection, params};

const FILE: &str = "
    PRAGMA page_size = 8192;
    PRAGMA journal_mode = wal;
    CREATE TABLE schema_migrations (
        version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, complete INTEGER NOT NULL
    ) STRICT";
const NUMBERS: &str = "WITH RECURSIVE up (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < ?1)";
const MEMORIES: &str = "
    INSERT INTO memories (id, slot, space_id, status, revision, metadata, trigger)
    SELECT CAST(printf('%016d', n) AS BLOB), n << 20, 'a-b', 'completed', 1, '{}', printf('{\"text\":\"event%d\"}', n) FROM up";
const PATHS: &str = "INSERT INTO memory_paths (rowid, path) SELECT slot, 'e1a-b u0a' FROM memories";
const DOCUMENTS: &str = "
    INSERT INTO documents (collection, id, created_at, revision, space_id, metadata, content)
    SELECT 'notes', printf('%05d', n), n, 1, 'a-b', '{}', 'text' FROM up";
const DOCUMENT_WORDS: &str = "INSERT INTO document_words (rowid, words) SELECT seq, content FROM documents";
/// With a long word for each, so that the index is large.
const WORDS: &str = "
    INSERT INTO memory_words (rowid, words)
    SELECT seq, printf('event%d %s', seq, hex(randomblob(300))) FROM memories WHERE seq >= ?1";

/// Makes a ledger that is empty, with the wanted steps up to a version.
pub(crate) fn empty(path: &Path, version: u32, is_wanted: impl Fn(&Step) -> bool) -> Connection {
    let file = Connection::open(path).expect("a file");
    file.execute_batch(FILE).expect("a log and the bookkeeping");
    let steps = migrations::sqlite().iter().filter(|step| step.version <= version && is_wanted(step));
    steps.for_each(|step| take(&file, step, true));
    file
}

/// Makes a ledger with this many memories, a tenth as many documents, and, if `indexed` is given, an index of the words
/// of that many newest memories. Returns a connection of a program that is still running.
pub(crate) fn ledger(path: &Path, memories: i64, indexed: Option<i64>) -> Connection {
    let file = empty(path, 2, Step::is_taken);
    fill(&file, memories);
    file.execute_batch(DOCUMENT_WORDS).expect("their words");
    if let Some(indexed) = indexed {
        let words = migrations::sqlite().iter().find(|step| step.kind == Kind::Retired).expect("the step");
        take(&file, words, indexed == memories);
        let from = memories - indexed + 1;
        file.execute(WORDS, [from]).expect("words");
        let reached = "UPDATE agreements SET value = ?1 WHERE name = 'unindexed_below'";
        assert_eq!(file.execute(reached, [from]).expect("how far it is"), 1);
    }
    file
}

/// Adds this many memories, and a tenth as many documents.
pub(crate) fn fill(file: &Connection, memories: i64) {
    file.execute(&format!("{NUMBERS} {MEMORIES}"), [memories]).expect("memories");
    file.execute_batch(PATHS).expect("their paths");
    file.execute(&format!("{NUMBERS} {DOCUMENTS}"), [memories / 10]).expect("documents");
}

fn take(file: &Connection, step: &Step, is_complete: bool) {
    file.execute_batch(step.text).expect("a step");
    let entry = params![step.version, step.name, step.checksum(), is_complete];
    file.execute("INSERT INTO schema_migrations VALUES (?1, ?2, ?3, ?4)", entry).expect("its entry");
}
