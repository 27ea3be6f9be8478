//! Expiry in a file: the list of expiring records, the removal of tombstones, and the retention rules.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use memory_core::engine::{Access, Append, Appended, Atomicity, Engine, Erasing, ErasingRecord, Put, Reader, Writer};
use memory_core::{
    Collection, Content, DEFAULT_DEADLINE, DocumentId, DocumentSelection, DocumentWrite, Erasure, ErrorKind, Memory,
    MemoryId, MemoryPatch, MemoryProvider, NewMemory, Outcome, Reason, RecordId, SpaceId, Status, Timestamp, Tombstone,
    Trigger,
};
use memory_sqlite::{SqliteConfig, SqliteEngine, SqliteMemory};
use rusqlite::Connection;
use tempfile::TempDir;

/// A time that no clock has reached.
const LATER: i64 = 8_000_000_000_000;

#[tokio::test]
async fn the_list_has_what_the_records_say_after_each_write() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    let documents = provider.documents();
    let update = async |id: MemoryId, patch: MemoryPatch| provider.update(id, patch).await.expect("an update");
    let put = async |write: DocumentWrite| documents.put(write).await.expect("a put");

    let never = provider.store(event(1)).await.expect("a store");
    let one = provider.store(event(2).expires_at(at(LATER))).await.expect("a store");
    check(&path, [(LATER, one.into())]);
    update(never, MemoryPatch::new().set_expiry(at(LATER + 1))).await;
    update(one, MemoryPatch::new().with_status(Status::Failed)).await;
    check(&path, [(LATER, one.into()), (LATER + 1, never.into())]);
    update(never, MemoryPatch::new().clear_expiry()).await;
    update(one, MemoryPatch::new().set_expiry(at(LATER + 2))).await;
    check(&path, [(LATER + 2, one.into())]);

    put(note("a", "text").expires_at(at(LATER + 2))).await;
    put(note("b", "text")).await;
    check(&path, [(LATER + 2, document("a")), (LATER + 2, one.into())]);
    put(note("a", "another text")).await;
    put(note("b", "another text").expires_at(at(LATER))).await;
    check(&path, [(LATER, document("b")), (LATER + 2, one.into())]);
    put(note("b", "a third text").expires_at(at(LATER + 3))).await;
    check(&path, [(LATER + 2, one.into()), (LATER + 3, document("b"))]);
    let selection = DocumentSelection::ids(notes(), [id("b")]).expect("a selection");
    assert_eq!(documents.remove(&selection, 1).await.expect("a removal"), [id("b")]);
    put(note("b", "text")).await;
    check(&path, [(LATER + 2, one.into())]);

    let restored = event(3).expires_at(at(LATER + 4)).into_memory(MemoryId::generate());
    assert_eq!(provider.restore(vec![restored.clone()]).await.expect("a restore").written, 1);
    assert_eq!(provider.get(restored.id).await.expect("a get"), Some(restored.clone()));
    let write = note("c", "text").expires_at(at(LATER + 5));
    let restored_note = write.apply(&id("c"), None, at(1)).expect("a document");
    assert_eq!(documents.restore(vec![restored_note.clone()]).await.expect("a restore").written, 1);
    assert_eq!(documents.get(&notes(), &id("c")).await.expect("a get"), Some(restored_note));
    check(&path, [(LATER + 2, one.into()), (LATER + 4, restored.id.into()), (LATER + 5, document("c"))]);
    let erased: [RecordId; 3] = [one.into(), restored.id.into(), document("c")];
    let erasure = Erasure::records(erased, "it is over").expect("an erasure");
    assert_eq!(provider.erase(&erasure).await.expect("a slice").records.len(), 3);
    check(&path, []);
}

/// A call that is rolled back leaves nothing in the list.
#[tokio::test]
async fn what_is_not_committed_is_not_in_the_list() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(&path).await;
    let poison = "CREATE TRIGGER poison AFTER INSERT ON memories WHEN NEW.slot >> 20 = 3
        BEGIN SELECT RAISE(FAIL, 'poison'); END";
    file(&path).execute_batch(poison).expect("a trigger");
    let batch = Vec::from([2, 3].map(|millis| event(millis).expires_at(at(LATER))));
    let (poisoned, stored) = futures::join!(provider.store_many(batch), provider.store(event(4).expires_at(at(LATER))));
    assert_eq!(poisoned.expect_err("a refused row").kind(), ErrorKind::Unexpected);
    check(&path, [(LATER, stored.expect("a store").into())]);
}

#[tokio::test]
async fn what_has_expired_comes_in_the_order_of_its_times() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let engine = SqliteEngine::open(&SqliteConfig::new(&path)).await.expect("an open database");
    let memories: Vec<_> = [3, 1, 2, 1, 2, 4]
        .map(|time| event(1).expires_at(at(time)).into_memory(MemoryId::generate()))
        .into_iter()
        .chain([event(1).into_memory(MemoryId::generate())])
        .collect();
    let expiring = |name| note(name, "text").expires_at(at(2)).apply(&id(name), None, at(1)).expect("a document");
    let documents = ["b", "a"].map(expiring);
    let expiries = memories.iter().filter_map(|memory| Some((memory.expires_at?, RecordId::from(memory.id))));
    let of_documents = documents.iter().filter_map(|note| Some((note.expires_at?, document(note.id.as_str()))));
    let mut due: Vec<_> = expiries.chain(of_documents).filter(|(time, _)| *time <= at(3)).collect();
    due.sort_by_key(|(time, record)| (*time, record.to_key()));
    assert_eq!(due.len(), 7);

    let until = Instant::now() + DEFAULT_DEADLINE;
    let work = engine.run(Access::Write, until, Arc::new((memories, documents)), |session, (memories, documents)| {
        Box::pin(async move {
            append(session, memories).await?;
            let put = |after| Put { before: None, after, entry: None, is_guarded: false };
            session.put(&documents.iter().map(put).collect::<Vec<_>>()).await
        })
    });
    assert!(work.await.expect("steps"));
    // Damaged records, which hide no other.
    let damage = "INSERT INTO expiries VALUES (-9223372036854775808, x''), (1, x'6d00'), (2, x'00'), (2, x'64ff')";
    file(&path).execute_batch(damage).expect("entries of no records");
    for most in [1, 2, 3, 7, 100] {
        let work = engine.run(Access::ReadLatest, until, Arc::new(most), |session, most| {
            Box::pin(async move {
                let mut found = Vec::new();
                loop {
                    let some = session.expired(at(3), found.last(), *most).await?;
                    let is_end = some.len() < *most;
                    found.extend(some);
                    if is_end {
                        return Ok(found);
                    }
                }
            })
        });
        assert_eq!(work.await.expect("what has expired"), due, "by {most}");
    }
    engine.close().await.expect("closes");
}

#[tokio::test]
async fn a_tombstone_goes_only_as_it_was_read() {
    let engine = SqliteEngine::open(&SqliteConfig::in_memory()).await.expect("an open database");
    let until = Instant::now() + DEFAULT_DEADLINE;
    let reason = |text: &str| Reason::parse(text).expect("valid");
    let tombstone = |record: RecordId| {
        let (at, reason) = (at(5), reason("it is over"));
        Tombstone { record, at, reason, actor: None, key: None, places: Vec::new() }
    };
    let records: [RecordId; 4] =
        [MemoryId::generate().into(), MemoryId::generate().into(), document("a"), document("b")];
    let kept = records.map(tombstone);
    let work = engine.run(Access::Write, until, Arc::new(kept.clone()), |session, kept| {
        Box::pin(async move {
            let erasing =
                |tombstone: &Tombstone| Erasing { found: ErasingRecord::Absent, tombstone: tombstone.clone() };
            session.erase(&kept.iter().map(erasing).collect::<Vec<_>>()).await
        })
    });
    assert!(work.await.expect("an erasure"));
    let newest = async || {
        let work = engine.run(Access::ReadLatest, until, Arc::new(()), |session, ()| Box::pin(session.newest_change()));
        work.await.expect("the end of the feed")
    };
    let end = newest().await;

    let [first, second, third, fourth] = kept;
    let earlier = Tombstone { at: at(4), ..second.clone() };
    let other = Tombstone { reason: reason("somebody asked for it"), ..third.clone() };
    let unknown = tombstone(MemoryId::generate().into());
    let read = vec![first, earlier, other, unknown, fourth];
    let work = engine.run(Access::Write, until, Arc::new(read), |session, read| Box::pin(session.forget(read)));
    work.await.expect("a step");
    let work = engine.run(Access::ReadLatest, until, Arc::new(()), |session, ()| {
        Box::pin(async move { session.tombstones_behind(None, 10).await })
    });
    let (mut left, _) = work.await.expect("tombstones");
    left.sort_by_key(|tombstone| tombstone.record.clone());
    assert_eq!(left, [second, third]);
    assert_eq!(newest().await, end, "it leaves nothing in the feed");
    engine.close().await.expect("closes");
}

#[tokio::test]
async fn other_programs_see_the_rules_of_retention_at_once() {
    let folder = TempDir::new().expect("a temporary folder");
    let config = SqliteConfig::new(folder.path().join("memory.db"));
    let one = SqliteEngine::open(&config).await.expect("an open database");
    let other = SqliteEngine::open(&config).await.expect("an open database");
    assert_eq!(other.retention().await.expect("an answer"), None);
    let long = "x".repeat(1 << 20);
    for rules in ["[]", long.as_str(), "[1]"] {
        one.set_retention(rules).await.expect("kept");
        assert!(other.retention().await.expect("rules").as_deref() == Some(rules), "other rules");
    }
    other.set_read_only(true).await.expect("read-only");
    let refused = one.set_retention("[2]").await.expect_err("a write");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert_eq!(one.retention().await.expect("rules").as_deref(), Some("[1]"));
    other.set_read_only(false).await.expect("open to writes");
    one.set_retention("[2]").await.expect("kept");
    assert_eq!(other.retention().await.expect("rules").as_deref(), Some("[2]"));
    one.close().await.expect("closes");
    other.close().await.expect("closes");
}

type Session = <SqliteEngine as Engine>::Session;

async fn append(session: &mut Session, memories: &[Memory]) -> memory_core::Result<()> {
    let memories: Vec<_> = memories.iter().collect();
    let append =
        Append { memories: &memories, atomicity: Atomicity::All, is_repeated: false, at: None, hash_key: None };
    assert!(session.append(append).await?.iter().all(|appended| *appended == Appended::Written));
    Ok(())
}

/// Checks that the list has exactly these records.
fn check(path: &Path, due: impl IntoIterator<Item = (i64, RecordId)>) {
    let due: Vec<_> = due.into_iter().map(|(time, record)| (time, record.to_key())).collect();
    let file = file(path);
    let mut entries = file.prepare("SELECT expires_at, record FROM expiries").expect("a statement");
    let entries = entries.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))).expect("rows");
    assert_eq!(entries.collect::<Result<Vec<_>, _>>().expect("entries"), due);
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

fn note(name: &str, text: &str) -> DocumentWrite {
    let (space, content) = (SpaceId::parse("a-b").expect("valid"), Content::parse(text).expect("valid"));
    DocumentWrite::new(notes(), space, content, at(1)).with_id(id(name))
}

fn document(name: &str) -> RecordId {
    (notes(), id(name)).into()
}

fn notes() -> Collection {
    Collection::parse("notes").expect("valid")
}

fn id(name: &str) -> DocumentId {
    DocumentId::parse(name).expect("valid")
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}
