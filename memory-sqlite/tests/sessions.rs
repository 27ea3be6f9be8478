//! Sessions that read: what a recall examines, and how a snapshot ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use memory_core::engine::{Place, Reader, Row, Source, Walk};
use memory_core::{
    Collection, Content, CursorKey, Document, DocumentId, DocumentWrite, Documents, Embedding, Error, ErrorKind,
    Ledger, MemoryProvider, MemoryQuery, Metadata, NewMemory, Order, PageBuilder, Precision, RecordId, Result,
    Revision, Selects, SpaceId, Status, Timestamp, Trigger, Vector, VectorModel, Verdict,
};
use memory_sqlite::SqliteMemory;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, StatementStatus};

use config::SqliteConfig;
use connection::Session;
use statements::{execute, prepare};

// Private modules of the crate.
#[allow(dead_code, unreachable_pub)]
#[path = "../src/config.rs"]
mod config;
#[allow(dead_code, unreachable_pub)]
#[path = "../src/connection.rs"]
mod connection;
#[allow(dead_code)]
#[path = "../src/error.rs"]
mod error;
#[allow(dead_code)]
#[path = "../src/expiry.rs"]
mod expiry;
#[allow(dead_code)]
#[path = "../src/feed.rs"]
mod feed;
#[allow(dead_code)]
#[path = "../src/history.rs"]
mod history;
#[allow(dead_code)]
#[path = "../src/marks.rs"]
mod marks;
#[allow(dead_code)]
#[path = "../src/paths.rs"]
mod paths;
#[path = "../src/read.rs"]
mod read;
#[path = "../src/slots.rs"]
mod slots;
#[allow(dead_code)]
#[path = "../src/statements.rs"]
mod statements;
#[allow(dead_code)]
#[path = "../src/tombstones.rs"]
mod tombstones;
#[path = "../src/vectors.rs"]
mod vectors;

/// In steps of SQLite's virtual machine; a row takes about thirty.
#[tokio::test]
async fn a_filter_and_a_glob_examine_what_their_spaces_hold() {
    const ROWS: usize = 20_000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = SqliteMemory::open(path.clone()).expect("a provider");
    provider.init().await.expect("an open database");
    let row = |number: usize| {
        // Twenty are sparse, two hundred in each channel, and the rest is dense.
        let space = match number % 100 {
            _ if number.is_multiple_of(1_000) => "t-sparse-1".to_owned(),
            channel @ 1..=9 => format!("t-c{channel}-{number}"),
            _ => format!("t-dense-{number}"),
        };
        let trigger = Trigger::parse(r#""an event""#).expect("valid");
        let metadata = Metadata::parse(&format!(r#"{{"topic":{}}}"#, (number + number / 100) % 10)).expect("valid");
        let time = Timestamp::from_millis(number as i64).expect("valid");
        NewMemory::new(SpaceId::parse(space).expect("valid"), trigger, time).with_metadata(metadata)
    };
    for start in (0..ROWS).step_by(10_000) {
        provider.store_many((start..start + 10_000).map(row).collect()).await.expect("a batch");
    }
    provider.shutdown().await.expect("a shutdown");

    let mut session = Session::to_read(&path, &SqliteConfig::new(&path), Arc::default()).expect("the file");
    let statements = [
        statements::NEXT_PATH_TOKEN,
        statements::SLOTS.of(Order::NewestFirst),
        statements::MEMORIES_IN_SLOTS.of(Order::NewestFirst),
    ];
    let in_and_below = |path: &str| vec![Place::Space(path.to_owned()), Place::Below(path.to_owned())];
    let below = |path: &str| vec![Place::Below(path.to_owned())];
    assert_eq!(session.siblings(None, "t-c7-", None, 100).await.expect("reads").map(|many| many.len()), Some(100));
    let channels = session.siblings(None, "t-c", None, 100).await.expect("reads").expect("an index");
    let sparse = session.siblings(None, "t-s", None, 100).await.expect("reads").expect("an index");
    // Each path is found by one look-up, which is no part of the walks.
    let next = prepare(&session.connection, statements::NEXT_PATH_TOKEN).expect("a statement");
    let steps = next.reset_status(StatementStatus::VmStep);
    assert!((1..20_000).contains(&steps), "{steps} steps for some hundred paths");
    drop(next);
    let query = || MemoryQuery::builder().limit(50);
    let key = CursorKey::generate().expect("a key");
    let every_tenth = "metadata.topic = 7";
    for (query, places, given, examined) in [
        (query().under("t-sparse").filter_text("metadata.topic = 0"), in_and_below("t-sparse"), 20, 20),
        (query().under("t-sparse").filter_text(every_tenth), in_and_below("t-sparse"), 0, 20),
        (query().under("t-dense").filter_text(every_tenth), in_and_below("t-dense"), 50, 510),
        (query().glob("t-c7-*"), below("t-c7"), 50, 50),
        (query().glob("t-c7-*x"), below("t-c7"), 0, 200),
        (query().glob("t-c?-*").filter_text(every_tenth), channels, 50, 510),
        (query().glob("t-s*").filter_text(every_tenth), sparse, 0, 20),
    ] {
        let query = query.build().expect("a query");
        let mut page = PageBuilder::new(&query, &key).expect("no cursor");
        let mut visit = |row: &dyn Row<Ledger>| page.offer(row.head(), |head| row.read(head), || row.id());
        let walk = Walk {
            source: Source::Places(&places),
            order: query.order(),
            created_after: None,
            created_before: None,
            behind: None,
            count: query.limit() + 1,
            is_shared: false,
            is_for_heads: false,
            has_vectors: false,
        };
        assert_eq!(session.walk_memories(&walk, &mut visit).await.expect("reads"), None);
        assert_eq!(page.finish().expect("no cursor").memories.len(), given, "{query:?}");
        let steps_of =
            |sql| prepare(&session.connection, sql).expect("a statement").reset_status(StatementStatus::VmStep);
        let steps: usize = statements.iter().map(|sql| steps_of(sql) as usize).sum();
        // Beyond them a walk reads the rest of its stride.
        let most = 40 * (examined + read::STRIDE);
        assert!(
            (20 * examined..=most).contains(&steps),
            "{steps} steps where {examined} rows are to be examined: {query:?}"
        );
    }
}

#[tokio::test]
async fn a_walk_pauses_and_goes_on_in_a_new_view_while_the_writer_waits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = SqliteMemory::open(path.clone()).expect("a provider");
    provider.init().await.expect("an open database");
    let store = async |time| {
        let trigger = Trigger::parse("1").expect("valid");
        let time = Timestamp::from_millis(time).expect("valid");
        provider.store(NewMemory::new(SpaceId::parse("a").expect("valid"), trigger, time)).await.expect("a store");
    };
    for time in 0..3 {
        store(time).await;
    }
    let waits = Arc::new(AtomicBool::new(true));
    let mut session = Session::to_read(&path, &SqliteConfig::new(&path), Arc::clone(&waits)).expect("the file");
    execute(&session.connection, "BEGIN", []).expect("a view");
    let (mut found, mut behind) = (0, None);
    loop {
        let walk = Walk { order: Order::OldestFirst, behind: behind.as_ref(), ..Walk::EVERYTHING };
        let before = found;
        let mut visit = |_: &dyn Row<Ledger>| {
            found += 1;
            Ok(Verdict::Skip)
        };
        behind = session.walk_memories(&walk, &mut visit).await.expect("reads");
        if behind.is_none() {
            break;
        }
        assert_eq!(found, before + 1, "it pauses behind each");
        if found == 1 {
            store(3).await;
        }
        waits.store(found < 2, Ordering::Relaxed);
    }
    assert_eq!(found, 4, "with what was stored meanwhile");
}

#[test]
fn a_file_is_written_ahead_and_synced_as_far_as_the_disk_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let connection = connection::connect(&SqliteConfig::new(folder.path().join("memory.db"))).expect("a file");
    let value = |pragma| connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, Value>(0));
    for (pragma, expected) in [
        ("journal_mode", Value::from("wal".to_owned())),
        ("synchronous", Value::from(2)),
        ("fullfsync", Value::from(1)),
        ("checkpoint_fullfsync", Value::from(1)),
    ] {
        assert_eq!(value(pragma), Ok(expected), "{pragma}");
    }
}

/// As on a file system without shared memory between processes.
#[cfg(unix)]
#[test]
fn a_file_that_can_not_have_a_log_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, flags) = (folder.path().join("memory.db"), OpenFlags::default());
    let connection = Connection::open_with_flags_and_vfs(path, flags, c"unix-dotfile").expect("a file");
    let refused = connection::write_ahead(&connection, Instant::now()).expect_err("no log");
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unavailable, false));
    assert!(refused.message().contains("write-ahead log"), "{refused:?}");
}
#[tokio::test]
async fn a_walk_along_documents_examines_what_its_places_hold() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = SqliteMemory::open(path.clone()).expect("a provider");
    provider.init().await.expect("an open database");
    let notes = Collection::parse("notes").expect("valid");
    let document = |number: usize| Document {
        id: DocumentId::parse(format!("{number}")).expect("valid"),
        collection: notes.clone(),
        space_id: SpaceId::parse(if number.is_multiple_of(50) { format!("t-1-{number}") } else { "t-2".to_owned() })
            .expect("valid"),
        content: Content::parse("text").expect("valid"),
        metadata: Metadata::default(),
        created_at: Timestamp::from_millis(number as i64).expect("valid"),
        updated_at: None,
        revision: Revision::FIRST,
        expires_at: None,
    };
    provider.documents().restore((0..5_000).map(document).collect()).await.expect("a restore");
    provider.shutdown().await.expect("a shutdown");

    let mut session = Session::to_read(&path, &SqliteConfig::new(&path), Arc::default()).expect("the file");
    let some = session.siblings(Some(&notes), "t-1-1", Some(""), 21).await.expect("reads").expect("an index");
    assert_eq!(some.len(), 21);
    let rest =
        session.siblings(Some(&notes), "t-1-1", Some(some[20].path()), 21).await.expect("reads").expect("an index");
    let siblings = [some, rest].concat();
    assert_eq!(siblings.len(), 22, "100, 150, and 1000 to 1950");
    let below = [Place::Below("t-1".to_owned())];
    for (places, count) in [(below.as_slice(), 100), (&siblings, siblings.len())] {
        let mut found = Vec::new();
        let mut visit = |row: &dyn Row<Documents>| {
            found.push(row.head()?.created_at);
            Ok(Verdict::Skip)
        };
        let walk = Walk { source: Source::Places(places), ..Walk::EVERYTHING };
        assert_eq!(session.walk_documents(&notes, &walk, &mut visit).await.expect("reads"), None);
        assert!(found.len() == count && found.is_sorted_by(|one, next| one > next), "{found:?}");
        let statements = [statements::DOCUMENTS_IN_PLACE.of(Order::NewestFirst), statements::DOCUMENT_BY_ID.whole()];
        let steps_of =
            |sql| prepare(&session.connection, sql).expect("a statement").reset_status(StatementStatus::VmStep);
        let steps: i32 = statements.iter().map(|sql| steps_of(sql)).sum();
        // Of lists with one document, most look-ups show that there are no more.
        assert!((20 * count..=100 * count).contains(&(steps as usize)), "{steps} steps for {count} documents");
    }
}

/// Such a walk does not read payloads.
#[tokio::test]
async fn a_walk_for_heads_reads_heads_and_the_vectors_that_it_asks_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = SqliteMemory::open(path.clone()).expect("a provider");
    provider.init().await.expect("an open database");
    let model = VectorModel::new("any", 2, Precision::Exact).expect("valid");
    provider.set_vector_model(&model).await.expect("a model");
    let (space, notes) = (SpaceId::parse("a-b").expect("valid"), Collection::parse("notes").expect("valid"));
    let time = |millis| Timestamp::from_millis(millis).expect("valid");
    let vector = |number: i64| Vector::new(&[1.0, number as f32]).expect("a vector");
    for number in 0..4 {
        let event = NewMemory::new(space.clone(), Trigger::parse("1").expect("valid"), time(number));
        let id = provider.store(event.with_status(Status::Pending)).await.expect("a store");
        let content = Content::parse("text").expect("valid");
        let write = DocumentWrite::new(notes.clone(), space.clone(), content, time(number));
        let document = provider.documents().put(write).await.expect("a put");
        // Every other one has a vector.
        let records = [RecordId::from(id), RecordId::from(&document)].into_iter().filter(|_| number % 2 == 1);
        let embedding = |record| Embedding { record, revision: Revision::FIRST, vector: vector(number), texts: None };
        provider.embed(&model, records.map(embedding).collect()).await.expect("vectors");
    }
    provider.shutdown().await.expect("a shutdown");

    let mut session = Session::to_read(&path, &SqliteConfig::new(&path), Arc::default()).expect("the file");
    let places = [Place::Below("a".to_owned())];
    let open = [Status::Pending];
    for (is_for_heads, has_vectors) in [(false, false), (false, true), (true, false), (true, true)] {
        for order in [Order::NewestFirst, Order::OldestFirst] {
            for source in [Source::Everything, Source::Places(&places), Source::Open(&open)] {
                let walk = Walk { source, order, is_for_heads, has_vectors, ..Walk::EVERYTHING };
                let mut found = Vec::new();
                let mut visit = |row: &dyn Row<Ledger>| see(row, &mut found);
                assert_eq!(session.walk_memories(&walk, &mut visit).await.expect("reads"), None);
                check_seen(&walk, found, vector);
                if let Source::Open(_) = source {
                    continue;
                }
                let mut found = Vec::new();
                let mut visit = |row: &dyn Row<Documents>| see(row, &mut found);
                assert_eq!(session.walk_documents(&notes, &walk, &mut visit).await.expect("reads"), None);
                check_seen(&walk, found, vector);
            }
        }
    }
}

/// The parts of a row that a walk has found.
struct Seen {
    time: i64,
    has_payload: bool,
    vector: Option<Vec<u8>>,
}

fn see<K: Selects>(row: &dyn Row<K>, found: &mut Vec<Seen>) -> Result<Verdict> {
    let head = row.head()?;
    let (time, has_payload) = (head.created_at.as_millis(), row.read(&head).is_ok());
    found.push(Seen { time, has_payload, vector: row.vector()?.map(<[u8]>::to_vec) });
    Ok(Verdict::Skip)
}

/// Checks that four rows were found, and that every other one has its vector if vectors were asked for.
fn check_seen(walk: &Walk<'_>, found: Vec<Seen>, vector: impl Fn(i64) -> Vector) {
    let times: Vec<_> = found.iter().map(|seen| seen.time).collect();
    assert_eq!(times, walk.order.choose([3, 2, 1, 0], [0, 1, 2, 3]), "{walk:?}");
    for Seen { time, has_payload, vector: kept } in found {
        assert_eq!(has_payload, !walk.is_for_heads, "{walk:?}");
        assert_eq!(kept.is_some(), walk.has_vectors && time % 2 == 1, "{walk:?}");
        // After the bytes that name the model.
        assert!(kept.is_none_or(|kept| kept.ends_with(&vector(time).to_bytes())), "{walk:?}");
    }
}

/// As SQLite does after an error of the file.
#[test]
fn a_view_that_has_ended_leaves_the_error_of_the_work() {
    let connection = Connection::open_in_memory().expect("a database");
    let mut session = Session::new(connection);
    let result: Result<()> = session.in_one_view(
        || false,
        |session| {
            execute(&session.connection, "ROLLBACK", [])?;
            Err(Error::new(ErrorKind::Unavailable, "the file can't be read"))
        },
    );
    assert_eq!(result.expect_err("an error").kind(), ErrorKind::Unavailable);
}
