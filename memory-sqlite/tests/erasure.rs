//! Erasure in a file: what is left of the bytes, of the rowids of memories and of the path index.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::engine::{
    Access, Append, Appended, Atomicity, Engine, Erasing, ErasingRecord, FeedPosition, FeedWrite, Reader, Writer,
};
use memory_core::{
    Actor, Collection, Content, Context, DEFAULT_DEADLINE, DocumentQuery, DocumentWrite, Embedding, Erasure, HashKey,
    IdempotencyKey, Memory, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery, Metadata, NewMemory, Order, Precision,
    Reason, RecordId, Revision, SpaceId, Timestamp, Tombstone, Trigger, Vector, VectorModel,
};
use memory_sqlite::{SqliteConfig, SqliteEngine, SqliteMemory};
use rusqlite::Connection;
use tempfile::TempDir;

/// A text that only erased records have.
const MARK: &str = "xyzzy";
const REASON: &str = "somebody asked for it";

#[tokio::test]
async fn the_files_have_nothing_of_what_was_erased() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    for round in 0..2 {
        // Vectors of a model that is no longer the namespace's are removed, too. Those of the second model have pages
        // of their own.
        let width = [100, 4_096][round];
        provider.set_vector_model(&model(width)).await.expect("a model");
        for number in 0..100 {
            let place = [format!("guild-{MARK}{number}-{round}"), format!("guild-{MARK}-m"), "guild-kept".to_owned()];
            let mark = if number % 3 == 2 { "kept" } else { MARK };
            let size = [20, 700, 9_000, 40_000][number % 4];
            let key = IdempotencyKey::parse(format!("{mark}-{number}-{round}")).expect("valid");
            let mut memory = event(&place[number % 3], number as i64).with_idempotency_key(key);
            memory.trigger = Trigger::parse(&format!(r#"{{"text":"{}"}}"#, repeated(mark, size))).expect("valid");
            memory.metadata = Metadata::parse(&format!(r#"{{"user":"{mark}"}}"#)).expect("valid");
            let id = provider.store(memory).await.expect("a store");
            embed(&provider, id, Revision::FIRST, mark, width).await;
            // Both longer and shorter than before.
            for text in [repeated(mark, 2 * size), repeated(mark, size / 2)] {
                let context = Context::parse(&format!("\"{text}\"")).expect("valid");
                let updated = provider.update(id, MemoryPatch::new().set_context(context)).await.expect("an update");
                embed(&provider, id, updated.revision, mark, width).await;
            }
            for content in [repeated(mark, size), repeated(mark, 3 * size), repeated(mark, 30)] {
                let (space, content) = (space(&place[number % 3]), Content::parse(&content).expect("valid"));
                let id = format!("n{number}").parse().expect("valid");
                let write = DocumentWrite::new(notes(), space, content, at(1)).with_id(id);
                let document = provider.documents().put(write).await.expect("a put");
                embed(&provider, &document, document.revision, mark, width).await;
            }
        }
    }
    assert!(occurrences(&path) > 1_000);
    let memories = MemoryQuery::builder().all().filter_text(&format!("metadata.user = '{MARK}'"));
    let documents = DocumentQuery::builder(notes()).prefix(format!("guild-{MARK}"));
    let erasures = [
        Erasure::memories(memories, REASON).expect("an erasure"),
        Erasure::documents(documents, REASON).expect("an erasure"),
    ];
    for erasure in erasures {
        while !provider.erase(&erasure).await.expect("a slice").is_complete {}
    }
    assert_eq!(occurrences(&path), 0);
    assert_eq!(marks(&path), [""; 0]);
    let count = |sql: &str| file(&path).query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number");
    assert_eq!(count("SELECT count(*) FROM memories"), 66);
    assert_eq!(count("SELECT count(*) FROM documents"), 33);
    assert_eq!(count("SELECT count(*) FROM memory_vectors"), 66);
    assert_eq!(count("SELECT count(*) FROM document_vectors"), 33);
    check_integrity(&path);
}

/// Another program reads the earlier state, so the log stays until that ends.
#[tokio::test]
async fn the_log_is_emptied_once_nobody_reads_from_it_any_more() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    let id = provider.store(event(MARK, 1)).await.expect("a store");
    let reader = file(&path);
    let count = || reader.query_row("SELECT count(*) FROM memories", [], |row| row.get::<_, i64>(0)).expect("a number");
    reader.execute_batch("BEGIN").expect("a view");
    assert_eq!(count(), 1);
    let begun = Instant::now();
    erase(&provider, [id.into()]).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "it waits for readers as long as they read");
    assert_eq!(count(), 1);
    assert!(occurrences(&path) > 0);
    reader.execute_batch("COMMIT").expect("the end of the view");
    until_clean(&path).await;
    assert_eq!(occurrences(&path), 0);
}

/// The mark of an erasure outlives the program.
#[tokio::test]
async fn what_a_program_has_left_behind_goes_when_the_file_is_opened_again() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    let id = provider.store(event(MARK, 1)).await.expect("a store");
    let reader = file(&path);
    reader.execute_batch("BEGIN; SELECT count(*) FROM memories").expect("a view");
    erase(&provider, [id.into()]).await;
    drop(provider);
    // Longer than it takes the writer to end.
    tokio::time::sleep(Duration::from_millis(500)).await;
    reader.execute_batch("COMMIT").expect("the end of the view");
    assert!(occurrences(&path) > 0 && !marks(&path).is_empty());
    let _provider = open(&path).await;
    until_clean(&path).await;
    assert_eq!(occurrences(&path), 0);
    check_integrity(&path);
}

/// While another program holds the file, it can't be rewritten.
#[tokio::test]
async fn the_file_is_written_anew_once_nobody_holds_it() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    drop(open(&path).await);
    let other = file(&path);
    // Unused pages that nothing has overwritten, as programs before version 6 left them.
    other.execute_batch("PRAGMA secure_delete = FALSE; CREATE TABLE gone (text TEXT)").expect("a table");
    other.execute("INSERT INTO gone VALUES (?1)", [repeated(MARK, 40_000)]).expect("a row");
    other.execute_batch("DROP TABLE gone; INSERT INTO agreements VALUES ('unclean', '0')").expect("a mark");
    other.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); BEGIN IMMEDIATE").expect("the lock");
    let _provider = open(&path).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(occurrences(&path) > 0);
    other.execute_batch("COMMIT").expect("the end of the lock");
    until_clean(&path).await;
    assert_eq!(occurrences(&path), 0);
    check_integrity(&path);
}

/// If a file is too large to be rewritten, its path index is rewritten in slices after the erasure.
#[tokio::test]
async fn the_path_index_of_a_large_file_is_written_anew_while_nobody_calls() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    let filler = "CREATE TABLE filler (bytes BLOB); INSERT INTO filler VALUES (zeroblob(70000000))";
    file(&path).execute_batch(filler).expect("a large file");
    let kept = provider.store_many((0..500).map(|number| event(&format!("a-{number:04}"), number)).collect());
    let kept = kept.await.expect("a batch");
    let marked = (0..1_000).map(|number| event(&format!("{MARK}-{number:04}"), number)).collect();
    provider.store_many(marked).await.expect("a batch");
    // As merged as the writer makes it when no call comes.
    file(&path).execute_batch("INSERT INTO memory_paths (memory_paths) VALUES ('optimize')").expect("one part");
    let found_by_mark = || {
        let count = "SELECT count(*) FROM memory_paths_idx WHERE instr(CAST(term AS TEXT), ?1) > 0";
        file(&path).query_row(count, [MARK], |row| row.get::<_, i64>(0)).expect("a number")
    };
    assert!(found_by_mark() > 0);
    let under = Erasure::memories(MemoryQuery::builder().under(MARK), REASON).expect("an erasure");
    let slice = provider.erase(&under.limit(1_000).expect("a limit")).await.expect("a slice");
    assert_eq!((slice.records.len(), slice.is_complete), (1_000, true));
    until_clean(&path).await;
    assert_eq!(found_by_mark(), 0);
    let query = MemoryQuery::builder().under("a").order(Order::OldestFirst).limit(1_000).build().expect("a query");
    let found = provider.query(&query).await.expect("a page").memories;
    assert!(found.iter().map(|memory| memory.id).eq(kept));
    check_integrity(&path);
}

/// The feed and the times of stores refer to memories by their rowids.
#[tokio::test]
async fn no_memory_gets_the_number_of_one_that_was_erased() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let engine = SqliteEngine::open(&SqliteConfig::new(&path)).await.expect("an open database");
    let memories: Vec<_> = (0..7).map(|number| event("a-b", number).into_memory(MemoryId::generate())).collect();
    let until = Instant::now() + DEFAULT_DEADLINE;
    // The newest is erased again and again, also in the transaction that has stored it.
    let work = engine.run(Access::Write, until, Arc::new(memories.clone()), |session, memories| {
        Box::pin(async move {
            let begin = session.newest_change().await?.position;
            append(session, &memories[0..3]).await?;
            erase_in(session, &memories[2]).await?;
            append(session, &memories[3..5]).await?;
            erase_in(session, &memories[4]).await?;
            erase_in(session, &memories[3]).await?;
            append(session, &memories[5..6]).await?;
            Ok(begin)
        })
    });
    let begin: FeedPosition = work.await.expect("steps");
    let work = engine.run(Access::Write, until, Arc::new(memories.clone()), |session, memories| {
        Box::pin(async move {
            erase_in(session, &memories[5]).await?;
            append(session, &memories[6..7]).await
        })
    });
    work.await.expect("steps");
    let seqs = |sql: &str| {
        let file = file(&path);
        let mut statement = file.prepare(sql).expect("a statement");
        let seqs = statement.query_map([], |row| row.get::<_, i64>(0)).expect("rows");
        seqs.collect::<Result<Vec<_>, _>>().expect("numbers")
    };
    assert_eq!(seqs("SELECT seq FROM memories ORDER BY seq"), [1, 2, 7]);
    assert_eq!(seqs("SELECT first_memory FROM stores ORDER BY first_memory"), [1, 7]);
    let told = engine.run(Access::ReadLatest, until, Arc::new(begin), |session, begin| {
        Box::pin(async move { session.changes(begin, 100).await })
    });
    let entries = told.await.expect("the feed").entries.into_iter().map(|entry| entry.write);
    let (erased, stored): (Vec<_>, Vec<_>) = entries.partition(|write| matches!(write, FeedWrite::Erasure { .. }));
    let of = |writes: Vec<FeedWrite>| writes.iter().map(FeedWrite::record).collect::<Vec<_>>();
    let records = |places: [usize; 3]| places.map(|place| RecordId::from(memories[place].id));
    assert_eq!(of(stored), records([0, 1, 6]));
    assert_eq!(of(erased)[..], [2, 4, 3, 5].map(|place| RecordId::from(memories[place].id)));
    engine.close().await.expect("closes");
}

/// Of rows that share a slot of the path index, removing one removes only the tokens that no other of them has.
#[tokio::test]
async fn the_path_index_stays_whole() {
    const SPACES: [&str; 6] = ["a", "a-b", "a-bc", "a-b/c", "a:b", "b"];
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    // In descending order of ids, all but the first of a millisecond are inserted before another one.
    let row = |number: u8| {
        // Two zero bytes at the end of an id put markers into the path index.
        let id = MemoryId::from_bytes(std::array::from_fn(|place| if place < 14 { 255 - number } else { 0 }));
        event(SPACES[usize::from(number) % 6], i64::from(number % 3)).into_memory(id)
    };
    let mut left: Vec<_> = (0..240).map(row).collect();
    for rows in left.chunks(7) {
        provider.restore(rows.to_vec()).await.expect("a restore");
    }
    left.sort_by_key(|memory| (memory.created_at, memory.id));
    // Steps that visit each row once, in a scattered order.
    let mut order: Vec<_> = (0..left.len()).map(|place| left[place * 97 % 240].id).collect();
    for count in [1, 1, 1, 5, 40, 100, 1, 90, 1] {
        let erased: Vec<_> = order.drain(..count).collect();
        erase(&provider, erased.iter().copied().map(RecordId::from)).await;
        left.retain(|memory| !erased.contains(&memory.id));
        for path in SPACES {
            let query = MemoryQuery::builder().under(path).order(Order::OldestFirst).limit(1_000).build();
            let found = provider.query(&query.expect("a query")).await.expect("a page").memories;
            let below = MemoryQuery::builder().under(path).build().expect("a query");
            let due = left.iter().filter(|memory| below.spaces().matches(memory.space_id.as_str()));
            assert!(found.iter().eq(due), "{path}");
        }
        check_integrity(&path);
    }
    assert!(left.is_empty() && order.is_empty());
    let tokens = "SELECT count(*) FROM memory_path_tokens";
    assert_eq!(file(&path).query_row(tokens, [], |row| row.get(0)), Ok(0));
    // New rows are found.
    let id = provider.store(event("a-b", 1)).await.expect("a store");
    let query = MemoryQuery::builder().under("a").build().expect("a query");
    let found = provider.query(&query).await.expect("a page").memories;
    assert_eq!(found.iter().map(|memory| memory.id).collect::<Vec<_>>(), [id]);
    check_integrity(&path);
}

/// If pages of the index begin with erased tokens, the keys that find these pages have them, too.
#[tokio::test]
async fn the_path_index_finds_nothing_by_what_was_erased() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    let kept = provider.store_many((0..500).map(|number| event(&format!("a-{number:04}"), number)).collect());
    let kept = kept.await.expect("a batch");
    let marked = (0..1_000).map(|number| event(&format!("{MARK}-{number:04}"), number)).collect();
    provider.store_many(marked).await.expect("a batch");
    provider
        .store_many((0..500).map(|number| event(&format!("z-{number:04}"), number)).collect())
        .await
        .expect("a batch");
    assert!(occurrences(&path) > 0);
    let under = Erasure::memories(MemoryQuery::builder().under(MARK), REASON).expect("an erasure");
    let slice = provider.erase(&under.limit(1_000).expect("a limit")).await.expect("a slice");
    assert_eq!((slice.records.len(), slice.is_complete), (1_000, true));
    assert_eq!(occurrences(&path), 0);
    let query = MemoryQuery::builder().under("a").order(Order::OldestFirst).limit(1_000).build().expect("a query");
    let found = provider.query(&query).await.expect("a page").memories;
    assert!(found.iter().map(|memory| memory.id).eq(kept));
    check_integrity(&path);
}

type Session = <SqliteEngine as Engine>::Session;

async fn append(session: &mut Session, memories: &[Memory]) -> memory_core::Result<()> {
    let (memories, at): (Vec<_>, _) = (memories.iter().collect(), memories.first().map(|memory| memory.created_at));
    let append = Append { memories: &memories, atomicity: Atomicity::All, is_repeated: false, at, hash_key: None };
    assert!(session.append(append).await?.iter().all(|appended| *appended == Appended::Written));
    Ok(())
}

async fn erase_in(session: &mut Session, memory: &Memory) -> memory_core::Result<()> {
    let found = session.memories(&[memory.id]).await?.remove(&memory.id).expect("a memory")?;
    let tombstone = Tombstone {
        record: memory.id.into(),
        at: at(6),
        reason: Reason::parse(REASON)?,
        actor: Some(Actor::parse("op")?),
        key: None,
        places: HashKey::generate()?.of_space(&memory.space_id),
    };
    let erasing = Erasing { found: ErasingRecord::Memory(&found), tombstone: tombstone.clone() };
    assert!(session.erase(&[erasing]).await?);
    assert_eq!(session.tombstones(&[memory.id.into()]).await?, std::slice::from_ref(&tombstone));
    let again = Erasing { found: ErasingRecord::Memory(&found), tombstone };
    assert!(!session.erase(&[again]).await?, "it is gone");
    assert_eq!(session.stored_at(memory.id).await?, None);
    Ok(())
}

async fn open(path: &Path) -> SqliteMemory {
    let provider = SqliteMemory::open(path).expect("a provider");
    provider.init().await.expect("an open database");
    provider
}

async fn erase(provider: &SqliteMemory, records: impl IntoIterator<Item = RecordId>) {
    let erasure = Erasure::records(records, REASON).expect("an erasure");
    provider.erase(&erasure).await.expect("a slice");
}

/// Keeps a vector whose bytes are the mark again and again.
async fn embed(provider: &SqliteMemory, record: impl Into<RecordId>, revision: Revision, mark: &str, width: usize) {
    // The form of whole numbers with their scale, which makes them a direction.
    let numbers: Vec<_> = mark.bytes().cycle().take(width).collect();
    let length = numbers.iter().map(|number| f32::from(*number).powi(2)).sum::<f32>().sqrt();
    let form = [1].into_iter().chain(length.recip().to_le_bytes());
    let vector = Vector::from_bytes(&form.chain(numbers).collect::<Vec<_>>()).expect("a vector");
    let embedding = Embedding { record: record.into(), revision, vector, texts: None };
    assert_eq!(provider.embed(&model(width), vec![embedding]).await.expect("a vector"), [true]);
}

fn model(width: usize) -> VectorModel {
    VectorModel::new("any", width, Precision::Exact).expect("valid")
}

/// Waits until no erasure has left anything to do.
async fn until_clean(path: &Path) {
    let cleaned = async {
        while !marks(path).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), cleaned).await.expect("nothing hinders it");
}

/// The marks of unfinished erasures.
fn marks(path: &Path) -> Vec<String> {
    let file = file(path);
    let mut names = file.prepare("SELECT name FROM agreements WHERE name LIKE 'unclean%'").expect("a statement");
    let names = names.query_map([], |row| row.get(0)).expect("rows");
    names.collect::<Result<_, _>>().expect("names")
}

/// How often the mark is in the files.
fn occurrences(path: &Path) -> usize {
    let of = |ending: &str| {
        let bytes = fs::read(format!("{}{ending}", path.display())).unwrap_or_default();
        bytes.windows(MARK.len()).filter(|bytes| *bytes == MARK.as_bytes()).count()
    };
    of("") + of("-wal")
}

fn check_integrity(path: &Path) {
    let found = file(path).query_row("PRAGMA integrity_check", [], |row| row.get(0));
    assert_eq!(found, Ok("ok".to_owned()));
}

fn file(path: &Path) -> Connection {
    Connection::open(path).expect("the file")
}

fn repeated(mark: &str, size: usize) -> String {
    mark.repeat(size / mark.len() + 1)
}

fn event(place: &str, millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"event {millis}"}}"#)).expect("valid");
    NewMemory::new(space(place), trigger, at(millis))
}

fn space(id: &str) -> SpaceId {
    SpaceId::parse(id).expect("valid")
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}
