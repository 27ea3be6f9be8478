//! Vectors in a file: what the tables hold after each write, and what is left of the bytes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use memory_core::engine::{
    Access, Append, Appended, Atomicity, Embed, EmbedRecord, Engine, Put, Reader, Removal, Writer,
};
use memory_core::{
    Collection, Content, Context, DEFAULT_DEADLINE, Document, DocumentId, DocumentSelection, DocumentWrite, Embedding,
    Erasure, ErrorKind, Memory, MemoryId, MemoryPatch, MemoryProvider, Metadata, NewMemory, Outcome, Precision,
    RecordId, Revision, SpaceId, Status, Timestamp, Trigger, Vector, VectorModel,
};
use memory_sqlite::{SqliteConfig, SqliteEngine, SqliteMemory};
use rusqlite::Connection;
use tempfile::TempDir;

/// A byte that only vectors have.
const MARK: &[u8] = b"xyzzy";
/// A vector with this many numbers has pages of its own.
const WIDTH: usize = 4_096;

#[tokio::test]
async fn the_tables_have_the_vectors_of_the_present_texts() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    provider.set_vector_model(&model()).await.expect("a model");
    let documents = provider.documents();

    let ids = provider.store_many(vec![event(1), event(2), event(3)]).await.expect("a batch");
    for id in &ids {
        embed(&provider, *id, Revision::FIRST, MARK).await;
    }
    for name in ["a", "b", "c"] {
        embed(&provider, document(name), documents.put(note(name, "text")).await.expect("a put").revision, MARK).await;
    }
    assert_eq!((rows(&path, "memory"), rows(&path, "document")), (vec![1, 2, 3], vec![1, 2, 3]));

    // Changes that keep the texts.
    let metadata = Metadata::parse(r#"{"topic":1}"#).expect("valid");
    let patch = MemoryPatch::new().with_status(Status::Failed).merge_metadata(metadata.clone()).set_expiry(at(1 << 42));
    provider.update(ids[0], patch).await.expect("an update");
    let mut write = note("a", "text").with_metadata(metadata);
    write.space_id = SpaceId::parse("z").expect("valid");
    documents.put_many(vec![write, note("d", "text")]).await.expect("a batch");
    assert_eq!((rows(&path, "memory"), rows(&path, "document")), (vec![1, 2, 3], vec![1, 2, 3]));

    // Changes of the texts, and removals.
    let context = Context::parse(r#""a context""#).expect("valid");
    let revision = provider.update(ids[0], MemoryPatch::new().set_context(context)).await.expect("an update").revision;
    let changed = documents.put(note("a", "another text")).await.expect("a put");
    assert_eq!((rows(&path, "memory"), rows(&path, "document")), (vec![2, 3], vec![2, 3]));
    let selection = DocumentSelection::ids(notes(), [name("b")]).expect("a selection");
    assert_eq!(documents.remove(&selection, 1).await.expect("a removal"), [name("b")]);
    let erasure = Erasure::records([ids[1].into(), document("c")], "somebody asked for it").expect("an erasure");
    assert_eq!(provider.erase(&erasure).await.expect("a slice").records.len(), 2);
    assert_eq!((rows(&path, "memory"), rows(&path, "document")), (vec![3], vec![]));

    // A record that comes back begins without a vector, and a record keeps its newest vector.
    documents.put(note("b", "text")).await.expect("a put");
    assert_eq!(rows(&path, "document"), [0; 0]);
    embed(&provider, document("a"), changed.revision, MARK).await;
    embed(&provider, ids[0], revision, MARK).await;
    embed(&provider, ids[0], revision, b"kept").await;
    assert_eq!((rows(&path, "memory"), rows(&path, "document")), (vec![1, 3], vec![1]));
    let kept = provider.vectors(&[ids[0].into(), ids[1].into(), document("b")]).await.expect("vectors");
    let kept: Vec<_> =
        kept.into_iter().map(|kept| kept.map(|kept| (kept.record, kept.revision, kept.vector))).collect();
    assert_eq!(kept, [Some((ids[0].into(), revision, vector(b"kept"))), None, None]);
    check_integrity(&path);
}

/// The number of a row that is gone is given again.
#[tokio::test]
async fn a_vector_is_kept_beside_what_was_read_and_nothing_else() {
    let engine = SqliteEngine::open(&SqliteConfig::in_memory()).await.expect("an open database");
    let first = note("a", "text").apply(&name("a"), None, at(1)).expect("a document");
    let second = Document { content: Content::parse("another text").expect("valid"), ..first.clone() };
    let until = Instant::now() + DEFAULT_DEADLINE;
    let work = engine.run(Access::Write, until, Arc::new((first, second)), |session, (first, second)| {
        Box::pin(async move {
            let (collection, ids, of) = (notes(), [first.id.clone()], [RecordId::from(first)]);
            let new = |after| Put { before: None, after, entry: None, is_guarded: false };
            assert!(session.put(&[new(first)]).await?);
            let old = session.documents(&collection, &ids).await?.remove(0)?;
            let embed = |found, bytes: &[u8]| Embed { found: EmbedRecord::Document(found), vector: bytes.to_vec() };
            assert_eq!(session.embed(&[embed(&old, b"1"), embed(&old, b"2")]).await?, [true, true]);
            assert_eq!(session.vectors(&of).await?, [(of[0].clone(), b"2".to_vec())]);
            assert!(session.remove(&collection, &[Removal { found: &old, end: None }]).await?);
            assert!(session.put(&[new(second)]).await?);
            assert_eq!(session.vectors(&of).await?, []);
            let new = session.documents(&collection, &ids).await?.remove(0)?;
            assert_eq!(session.embed(&[embed(&old, b"3"), embed(&new, b"4")]).await?, [false, true]);
            assert_eq!(session.vectors(&of).await?, [(of[0].clone(), b"4".to_vec())]);
            // If the replaced document no longer exists, nothing is put and nothing is removed.
            let again = Put { before: Some(&old), after: first, entry: None, is_guarded: false };
            assert!(!session.put(&[again]).await?);
            assert_eq!(session.vectors(&of).await?, [(of[0].clone(), b"4".to_vec())]);
            Ok((old.version, new.version))
        })
    });
    let (old, new) = work.await.expect("steps");
    assert_eq!(old, new, "a number that is given again");

    let memory = event(1).into_memory(MemoryId::generate());
    let work = engine.run(Access::Write, until, Arc::new(memory), |session, memory| {
        Box::pin(async move {
            append(session, memory).await?;
            let of = [RecordId::from(memory.id)];
            let old = session.memories(&[memory.id]).await?.remove(&memory.id).expect("a memory")?;
            let failed = Memory { status: Status::Failed, revision: memory.revision.next()?, ..memory.clone() };
            assert!(session.replace(&old, &failed, None).await?);
            let new = session.memories(&[memory.id]).await?.remove(&memory.id).expect("a memory")?;
            let embed = |found| Embed { found: EmbedRecord::Memory(found), vector: b"1".to_vec() };
            assert_eq!(session.embed(&[embed(&old)]).await?, [false]);
            assert_eq!(session.vectors(&of).await?, []);
            assert_eq!(session.embed(&[embed(&new), embed(&old)]).await?, [true, false]);
            assert_eq!(session.vectors(&of).await?, [(of[0].clone(), b"1".to_vec())]);
            Ok(())
        })
    });
    work.await.expect("steps");
    engine.close().await.expect("closes");
}

/// As if an operator deletes rows by hand: the next rows get their rowids.
#[tokio::test]
async fn a_row_that_is_deleted_takes_its_vector_along_whoever_deletes_it() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    provider.set_vector_model(&model()).await.expect("a model");
    let documents = provider.documents();
    embed(&provider, provider.store(event(1)).await.expect("a store"), Revision::FIRST, MARK).await;
    embed(&provider, document("a"), documents.put(note("a", "text")).await.expect("a put").revision, MARK).await;
    file(&path).execute_batch("DELETE FROM memories; DELETE FROM documents").expect("deletions");
    let id = provider.store(event(2)).await.expect("a store");
    documents.put(note("b", "text")).await.expect("a put");
    let seq = |table: &str| file(&path).query_row(&format!("SELECT seq FROM {table}"), [], |row| row.get::<_, i64>(0));
    assert_eq!((seq("memories"), seq("documents")), (Ok(1), Ok(1)), "the same numbers");
    assert_eq!(provider.vectors(&[id.into(), document("b")]).await.expect("vectors"), [None, None]);
    assert_eq!((rows(&path, "memory"), rows(&path, "document")), (vec![], vec![]));
}

/// Without an erasure, too: nothing rewrites the file here.
#[tokio::test]
async fn what_goes_is_overwritten() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    provider.set_vector_model(&model()).await.expect("a model");
    let documents = provider.documents();
    let ids = provider.store_many(vec![event(1), event(2)]).await.expect("a batch");
    for id in &ids {
        embed(&provider, *id, Revision::FIRST, MARK).await;
    }
    for name in ["a", "b"] {
        embed(&provider, document(name), documents.put(note(name, "text")).await.expect("a put").revision, MARK).await;
    }
    // Some are divided among pages.
    assert!(occurrences(&path) > 3 * WIDTH / MARK.len());
    embed(&provider, ids[0], Revision::FIRST, b"kept").await;
    let context = Context::parse(r#""a context""#).expect("valid");
    provider.update(ids[1], MemoryPatch::new().set_context(context)).await.expect("an update");
    documents.put(note("a", "another text")).await.expect("a put");
    let selection = DocumentSelection::ids(notes(), [name("b")]).expect("a selection");
    documents.remove(&selection, 1).await.expect("a removal");
    file(&path).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("an empty log");
    assert_eq!(occurrences(&path), 0);
    assert_eq!((rows(&path, "memory"), rows(&path, "document")), (vec![1], vec![]));
    check_integrity(&path);
}

#[tokio::test]
async fn other_programs_see_the_model_at_once() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let [one, other] = [open(&path).await, open(&path).await];
    assert_eq!(other.vector_model().await.expect("an answer"), None);
    let small = VectorModel::new("small", 4, Precision::Compact).expect("valid");
    for model in [model(), small.clone(), model()] {
        one.set_vector_model(&model).await.expect("kept");
        assert_eq!(other.vector_model().await.expect("a model"), Some(model));
    }
    let id = one.store(event(1)).await.expect("a store");
    other.set_read_only(true).await.expect("read-only");
    for refused in [
        one.set_vector_model(&small).await.expect_err("a write"),
        one.embed(&model(), vec![embedding(id, Revision::FIRST, MARK)]).await.expect_err("a write"),
    ] {
        assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    }
    assert_eq!(one.vector_model().await.expect("a model"), Some(model()));
    assert_eq!(one.vectors(&[id.into()]).await.expect("vectors"), [None]);
    other.set_read_only(false).await.expect("open to writes");
    embed(&one, id, Revision::FIRST, MARK).await;
}

type Session = <SqliteEngine as Engine>::Session;

async fn append(session: &mut Session, memory: &Memory) -> memory_core::Result<()> {
    let memories = std::slice::from_ref(&memory);
    let append = Append { memories, atomicity: Atomicity::All, is_repeated: false, at: None, hash_key: None };
    assert_eq!(session.append(append).await?, [Appended::Written]);
    Ok(())
}

/// Stores a vector of these bytes.
async fn embed(provider: &SqliteMemory, record: impl Into<RecordId>, revision: Revision, bytes: &[u8]) {
    let kept = provider.embed(&model(), vec![embedding(record, revision, bytes)]).await;
    assert_eq!(kept.expect("a vector"), [true]);
}

fn embedding(record: impl Into<RecordId>, revision: Revision, bytes: &[u8]) -> Embedding {
    Embedding { record: record.into(), revision, vector: vector(bytes), texts: None }
}

fn vector(bytes: &[u8]) -> Vector {
    // The form of whole numbers with their scale, which makes them a direction.
    let numbers: Vec<_> = bytes.iter().copied().cycle().take(WIDTH).collect();
    let length = numbers.iter().map(|number| f32::from(*number).powi(2)).sum::<f32>().sqrt();
    let form = [1].into_iter().chain(length.recip().to_le_bytes());
    Vector::from_bytes(&form.chain(numbers).collect::<Vec<_>>()).expect("a vector")
}

fn model() -> VectorModel {
    VectorModel::new("large", WIDTH, Precision::Exact).expect("valid")
}

/// The numbers of the records that have a vector.
fn rows(path: &Path, of: &str) -> Vec<i64> {
    let file = file(path);
    let mut rows = file.prepare(&format!("SELECT seq FROM {of}_vectors ORDER BY seq")).expect("a statement");
    let rows = rows.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("numbers")
}

/// How often the mark is in the files.
fn occurrences(path: &Path) -> usize {
    let of = |ending: &str| {
        let bytes = fs::read(format!("{}{ending}", path.display())).unwrap_or_default();
        bytes.windows(MARK.len()).filter(|bytes| *bytes == MARK).count()
    };
    of("") + of("-wal")
}

fn check_integrity(path: &Path) {
    let found = file(path).query_row("PRAGMA integrity_check", [], |row| row.get(0));
    assert_eq!(found, Ok("ok".to_owned()));
}

async fn open(path: &Path) -> SqliteMemory {
    let provider = SqliteMemory::open(path).expect("a provider");
    provider.init().await.expect("an open database");
    provider
}

fn file(path: &Path) -> Connection {
    Connection::open(path).expect("the file")
}

fn event(millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"event {millis}"}}"#)).expect("valid");
    NewMemory::new(SpaceId::parse("a-b").expect("valid"), trigger, at(millis))
}

fn note(id: &str, text: &str) -> DocumentWrite {
    let (space, content) = (SpaceId::parse("a-b").expect("valid"), Content::parse(text).expect("valid"));
    DocumentWrite::new(notes(), space, content, at(1)).with_id(name(id))
}

fn document(id: &str) -> RecordId {
    (notes(), name(id)).into()
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn name(id: &str) -> DocumentId {
    DocumentId::parse(id).expect("valid")
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}
