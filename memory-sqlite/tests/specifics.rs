//! Properties of SQLite below the contract: memory, group commit, slots, and the plans of its statements.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::workload::{self, Ledger, RowOrder};
use futures::future::join_all;
use memory_core::engine::{Access, Engine, Put, Reader, Removal, Walk, Writer};
use memory_core::{
    Collection, Content, DEFAULT_DEADLINE, Document, DocumentId, DocumentQuery, DocumentSelection, DocumentWrite,
    Durability, ErrorKind, IdempotencyKey, InMemory, Memory, MemoryId, MemoryPatch, MemoryProvider, MemoryQuery,
    NewMemory, Order, QueryBuilder, SpaceId, SpaceSelector, Status, Timestamp, Trigger,
};
use memory_sqlite::{Location, SqliteConfig, SqliteEngine, SqliteMemory};
use proptest::prelude::*;
use rusqlite::{Connection, StatementStatus};
use tempfile::TempDir;

// The statements themselves, to read SQLite's plans for them.
#[allow(dead_code)]
#[path = "../src/statements.rs"]
mod statements;

#[allow(dead_code)]
#[path = "../src/error.rs"]
mod error;

#[tokio::test]
async fn a_document_that_was_removed_and_put_again_is_another_version() {
    let engine = SqliteEngine::open(&SqliteConfig::in_memory()).await.expect("an open database");
    let id = DocumentId::parse("one").expect("valid");
    let first = document("one").apply(&id, None, at(1)).expect("a document");
    let second = Document { content: Content::parse("another text").expect("valid"), ..first.clone() };
    let until = Instant::now() + DEFAULT_DEADLINE;
    let other = Document { id: DocumentId::parse("other").expect("valid"), ..first.clone() };
    let given = Arc::new((first, second.clone(), other));
    let work = engine.run(Access::Write, until, given, |session, (first, second, other)| {
        Box::pin(async move {
            let (collection, ids) = (&first.collection, std::slice::from_ref(&first.id));
            let new = |after| Put { before: None, after, entry: None, is_guarded: false };
            session.put(&[new(first)]).await?;
            let old: Vec<_> = session.documents(collection, ids).await?.into_iter().collect::<Result<_, _>>()?;
            session.remove(collection, &[Removal { found: &old[0], end: None }]).await?;
            session.put(&[new(second)]).await?;
            let again = || Put { before: Some(&old[0]), after: first, entry: None, is_guarded: false };
            let alone = session.put(&[again()]).await?;
            let among = session.put(&[new(other), again()]).await?;
            let done = [alone, among, session.remove(collection, &[Removal { found: &old[0], end: None }]).await?];
            assert!(session.documents(collection, std::slice::from_ref(&other.id)).await?.is_empty(), "half of a step");
            let new = session.documents(collection, ids).await?.remove(0)?;
            Ok((done, old[0].version == new.version, new.record))
        })
    });
    let (done, has_same_seq, present) = work.await.expect("steps");
    assert!(has_same_seq, "a number that is given again must not tell the version");
    assert_eq!((done, present), ([false, false, false], second));
    engine.close().await.expect("closes");
}

#[tokio::test]
async fn a_database_in_memory_does_all_calls_and_is_its_own() {
    let (one, two) = (open(SqliteConfig::in_memory()).await, open(SqliteConfig::in_memory()).await);

    let id = one.store(event("a-b", 1)).await.expect("a store");
    let batch = one.store_many(vec![event("a-c", 2), event("b", 3)]).await.expect("a batch");
    let updated = one.update(id, MemoryPatch::new().with_status(Status::Completed)).await.expect("an update");
    assert_eq!(updated.revision.get(), 2);
    let found = walk(&one, &MemoryQuery::builder().under("a").order(Order::OldestFirst)).await;
    assert_eq!(ids(&found), [id, batch[0]]);
    assert_eq!(ids(&walk(&one, &MemoryQuery::builder().all().text("3")).await), [batch[1]]);
    let document = one.documents().put(document("one")).await.expect("a document");
    assert_eq!(one.documents().collections().await.expect("collections"), std::slice::from_ref(&document.collection));
    let all = DocumentQuery::builder(document.collection.clone()).all().build().expect("a query");
    assert_eq!(one.documents().query(&all).await.expect("a page").documents, std::slice::from_ref(&document));

    // The other database has none of it, until it gets a copy.
    assert_eq!(two.get(id).await.expect("a get"), None);
    assert_eq!(walk(&two, &MemoryQuery::builder().all()).await, []);
    assert_eq!(two.documents().collections().await.expect("collections"), []);
    let ledger = walk(&one, &MemoryQuery::builder().all()).await;
    assert_eq!(two.restore(ledger.clone()).await.expect("a restore").written, 3);
    assert_eq!(two.documents().restore(vec![document.clone()]).await.expect("a restore").written, 1);
    assert_eq!(walk(&two, &MemoryQuery::builder().all()).await, ledger);

    let selection = DocumentSelection::ids(document.collection.clone(), [document.id.clone()]).expect("a selection");
    assert_eq!(one.documents().remove(&selection, 1).await.expect("a removal"), std::slice::from_ref(&document.id));
    let remaining = two.documents().get(&document.collection, &document.id).await.expect("a get");
    assert_eq!(remaining, Some(document));

    one.shutdown().await.expect("a shutdown");
    assert_eq!(one.get(id).await.expect_err("it is closed").kind(), ErrorKind::Closed);
    assert!(two.get(id).await.expect("the other is open").is_some());
}

#[test]
fn urls_name_files_and_memory() {
    for (url, location) in [
        ("sqlite://data/memory.db", Location::File("data/memory.db".into())),
        ("sqlite:data/memory.db", Location::File("data/memory.db".into())),
        ("sqlite:///var/memory.db", Location::File("/var/memory.db".into())),
        ("sqlite://a%20b.db?readers=2", Location::File("a b.db".into())),
        ("sqlite::memory:", Location::Memory),
    ] {
        assert_eq!(SqliteConfig::from_url(url).expect(url).location, location);
    }
}

#[test]
fn unknown_parameters_are_refused_by_name() {
    for (url, named) in [
        ("sqlite://x.db?mode=ro", "mode"),
        ("sqlite://x.db?readers=0", "readers"),
        ("sqlite://x.db?kept_changes=99999", "kept_changes"),
        ("sqlite://x.db?deadline_ms=soon", "deadline_ms"),
        ("sqlite://x.db?language=klingon", "language"),
        ("sqlite://x.db?text_index=all", "text_index"),
        ("sqlite://", "names no file"),
        ("postgres://x", "sqlite:"),
    ] {
        let error = SqliteConfig::from_url(url).expect_err(url);
        assert!(error.message().contains(named), "{error}");
    }
}

#[tokio::test]
async fn health_tells_files_from_memory() {
    let folder = TempDir::new().expect("a temporary folder");
    let file = open(folder.path().join("memory.db")).await;
    let health = file.check_health().await.expect("health");
    assert_eq!((health.engine, health.schema_version), ("sqlite", 8));
    assert_eq!(health.server_version, rusqlite::version());
    assert_eq!(health.durability, Durability::Durable);

    let memory = open(SqliteConfig::in_memory()).await;
    let health = memory.check_health().await.expect("health");
    assert_eq!(health.schema_version, 8);
    assert!(matches!(health.durability, Durability::AtRisk { bound: None, .. }), "{:?}", health.durability);
}

#[tokio::test]
async fn the_folder_is_made_and_a_closed_database_is_one_file() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("deep/er/memory.db");
    let provider = open(path.clone()).await;
    let id = provider.store(event("a", 1)).await.expect("a store");
    assert!(provider.get(id).await.expect("a get").is_some());
    provider.shutdown().await.expect("a shutdown");
    let files = std::fs::read_dir(path.parent().expect("a folder")).expect("the folder");
    let names: Vec<_> = files.map(|file| file.expect("a file").file_name()).collect();
    assert_eq!(names, ["memory.db"]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_reads_a_new_file_and_an_old_one_keeps_its_mode() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let modes = || {
        let mode =
            |ending| fs::metadata(format!("{}{ending}", path.display())).expect(ending).permissions().mode() & 0o777;
        ["", "-wal", "-shm"].map(mode)
    };
    for mode in [0o600, 0o640] {
        let provider = open(path.clone()).await;
        provider.store(event("a", 1)).await.expect("a store");
        assert_eq!(modes(), [mode; 3]);
        provider.shutdown().await.expect("a shutdown");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("another mode");
    }
}

#[tokio::test]
async fn a_call_that_fails_in_a_group_fails_alone() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(path.clone()).await;
    let taken = event("taken", 0).with_idempotency_key(key("taken"));
    let first = provider.store(taken).await.expect("the first of its key");
    let other = event("other", 0).with_idempotency_key(key("taken"));
    // One call fails after it has written: its second memory is refused by the file.
    change(
        &path,
        "CREATE TRIGGER poison AFTER INSERT ON memories WHEN NEW.space_id = 'poison'
        BEGIN SELECT RAISE(FAIL, 'poison'); END",
    );

    let store = async |number: i64| provider.store(event(&format!("good-{number}"), number)).await;
    let before = join_all((0..100).map(store));
    let conflict = provider.store(other.clone());
    let unknown = provider.update(MemoryId::generate(), MemoryPatch::new().with_status(Status::Failed));
    let batch = provider.store_many(vec![event("batch", 1), other.clone(), event("batch", 2)]);
    let poisoned = provider.store_many(vec![event("batch", 1), event("poison", 2)]);
    let after = join_all((100..200).map(store));
    let (before, conflict, unknown, batch, poisoned, after) =
        futures::join!(before, conflict, unknown, batch, poisoned, after);

    assert_eq!(conflict.expect_err("another space").kind(), ErrorKind::Conflict);
    assert_eq!(unknown.expect_err("an unknown id").kind(), ErrorKind::NotFound);
    assert_eq!(batch.expect_err("another space").kind(), ErrorKind::Conflict);
    assert_eq!(poisoned.expect_err("a refused row").kind(), ErrorKind::Unexpected);
    let mut stored: Vec<_> = before.into_iter().chain(after).map(|stored| stored.expect("a good call")).collect();
    stored.push(first);
    let mut found = ids(&walk(&provider, &MemoryQuery::builder().all()).await);
    stored.sort();
    found.sort();
    assert_eq!(found, stored);
    assert_eq!(walk(&provider, &MemoryQuery::builder().under("good")).await.len(), 200);
    assert_eq!(walk(&provider, &MemoryQuery::builder().exact("batch").exact("poison")).await, []);
}

#[tokio::test]
async fn rows_of_one_millisecond_come_in_the_order_of_their_ids_however_they_arrive() {
    let spaces = ["a-b", "a-c", "a", "b/a", "a-b-c"];
    let row = |number: u8| row(number.wrapping_mul(7), i64::from(number % 3) - 1, spaces[usize::from(number) % 5]);
    let ascending: Vec<_> = {
        let mut rows: Vec<_> = (0..120).map(row).collect();
        rows.sort_by_key(|memory| (memory.created_at, memory.id));
        rows
    };
    let descending: Vec<_> = ascending.iter().rev().cloned().collect();
    // Steps that visit each row once, in a scattered order.
    let mixed: Vec<_> = (0..ascending.len()).map(|place| ascending[place * 97 % ascending.len()].clone()).collect();
    assert_ne!(ascending.len() % 97, 0);
    for (rows, batch) in [(&ascending, 1), (&descending, 1), (&mixed, 1), (&descending, 50), (&mixed, 300)] {
        let provider = open(SqliteConfig::in_memory()).await;
        for batch in rows.chunks(batch) {
            let report = provider.restore(batch.to_vec()).await.expect("a restore");
            assert_eq!(report.written, batch.len());
        }
        check_reading(&provider, &ascending).await;
    }
}

#[tokio::test]
async fn stores_of_one_millisecond_interleave_with_restored_rows() {
    let provider = open(SqliteConfig::in_memory()).await;
    let mut rows = Vec::new();
    for round in 0..40_u8 {
        let restored = row(round.wrapping_mul(83), 5, "a-b");
        provider.restore(vec![restored.clone()]).await.expect("a restore");
        rows.push(restored);
        let id = provider.store(event("a-c", 5)).await.expect("a store");
        rows.push(provider.get(id).await.expect("a get").expect("the row"));
    }
    rows.sort_by_key(|memory| (memory.created_at, memory.id));
    check_reading(&provider, &rows).await;
}

/// A row with an impossible id has its key all the same, and hinders no other row.
#[tokio::test]
async fn a_restore_goes_on_beside_a_row_with_an_impossible_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("memory.db");
    let provider = open(path.clone()).await;
    provider.store(event("a", 1).with_idempotency_key(key("k"))).await.expect("a store");
    change(&path, "UPDATE memories SET id = x'01'");
    let with_key = Memory { idempotency_key: Some(key("k")), ..row(1, 2, "a") };
    let report = provider.restore(vec![with_key, row(2, 3, "a")]).await.expect("a restore");
    assert_eq!((report.written, report.conflicts), (1, vec![0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_in_any_order_read_as_from_the_reference(
        rows in prop::collection::vec((any::<u8>(), -1_i64..=1, 0..SPACES.len(), 0..5_usize), 0..40),
        batch in 1..6_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let provider = open(SqliteConfig::in_memory()).await;
            let reference = InMemory::new();
            reference.init().await.expect("the reference");
            let rows: Vec<_> = rows
                .into_iter()
                .map(|(id, millis, space, status)| Memory { status: Status::ALL[status], ..row(id, millis, SPACES[space]) })
                .collect();
            for batch in rows.chunks(batch) {
                let expected = reference.restore(batch.to_vec()).await.expect("a restore");
                assert_eq!(provider.restore(batch.to_vec()).await.expect("a restore"), expected);
            }
            for query in queries() {
                for (order, limit) in [(Order::NewestFirst, 2), (Order::OldestFirst, 3)] {
                    let query = query.clone().order(order).limit(limit);
                    assert_eq!(walk(&provider, &query).await, walk(&reference, &query).await, "{query:?}");
                }
            }
        });
    }
}

#[tokio::test]
async fn a_union_of_a_thousand_selectors_is_one_query() {
    let provider = open(SqliteConfig::in_memory()).await;
    let events = (0..4_000).map(|number| event(&format!("guild-{number}-Ä"), number)).collect();
    let stored = provider.store_many(events).await.expect("a batch");
    let query = (0..1_000).fold(MemoryQuery::builder(), |query, number| query.exact(format!("guild-{number}-Ä")));
    let found = walk(&provider, &query.order(Order::OldestFirst).limit(1_000)).await;
    assert_eq!(ids(&found), stored[..1_000]);
}

#[tokio::test]
async fn a_space_at_its_limits_is_found_under_every_ancestor() {
    let provider = open(SqliteConfig::in_memory()).await;
    // 32 boundaries of every kind, and 512 bytes, most of which the index has to escape.
    let mut longest: String = (0..32).map(|place| format!("Z%{}~{}", place % 10, ["-", "/", ":"][place % 3])).collect();
    longest.extend(std::iter::repeat_n('"', SpaceId::MAX_BYTES - longest.len()));
    let mut one_less = longest.clone();
    one_less.pop();
    let id = provider.store(event(&longest, 1)).await.expect("a store");
    let other = provider.store(event(&one_less, 2)).await.expect("a store");

    let longest = space(&longest);
    assert_eq!(longest.ancestors().count(), SpaceId::MAX_BOUNDARIES);
    for ancestor in longest.ancestors() {
        for query in [
            MemoryQuery::builder().under(ancestor),
            MemoryQuery::builder().prefix(ancestor),
            MemoryQuery::builder().under(&longest.as_str()[..=ancestor.len()]),
        ] {
            let found = ids(&walk(&provider, &query).await);
            assert_eq!(found, [other, id], "{query:?}");
        }
    }
    assert_eq!(ids(&walk(&provider, &MemoryQuery::builder().exact(longest.as_str())).await), [id]);
    assert_eq!(ids(&walk(&provider, &MemoryQuery::builder().under(longest.as_str())).await), [id]);
    assert_eq!(ids(&walk(&provider, &MemoryQuery::builder().prefix(&one_less)).await), [other, id]);
}

#[tokio::test]
async fn a_prefix_with_many_siblings_is_found_below_their_parent() {
    let provider = open(SqliteConfig::in_memory()).await;
    // More than are merged, with and without a parent.
    for parent in ["", "top/"] {
        let events = (0..250).map(|number| event(&format!("{parent}user{number}-x"), number)).collect();
        let stored = provider.store_many(events).await.expect("a batch");
        let query = MemoryQuery::builder().prefix(format!("{parent}user")).order(Order::OldestFirst).limit(7);
        assert_eq!(ids(&walk(&provider, &query).await), stored);
        let query = MemoryQuery::builder().prefix(format!("{parent}user24")).order(Order::OldestFirst);
        let expected: Vec<_> = [24].into_iter().chain(240..250).map(|number| stored[number]).collect();
        assert_eq!(ids(&walk(&provider, &query).await), expected);
    }
}

#[tokio::test]
async fn no_statement_of_a_recall_scans_or_sorts() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    open(path.clone()).await.shutdown().await.expect("a shutdown");
    let file = Connection::open(&path).expect("the file");
    rusqlite::vtab::array::load_module(&file).expect("the module");
    for (sql, index) in [
        (statements::MEMORY_BY_ID, "sqlite_autoindex_memories_1"),
        (statements::MEMORY_BY_KEY, "memories_by_key"),
        (statements::SLOT_OF_ID, "sqlite_autoindex_memories_1"),
        (statements::LAST_OF_MILLISECOND, "memories_by_time"),
        (statements::FIRST_FROM_SLOT, "memories_by_time"),
        (statements::MEMORIES.of(Order::NewestFirst), "memories_by_time"),
        (statements::MEMORIES.of(Order::OldestFirst), "memories_by_time"),
        (statements::OPEN_MEMORIES.of(Order::NewestFirst), "memories_open"),
        (statements::OPEN_MEMORIES.of(Order::OldestFirst), "memories_open"),
        (statements::DOCUMENT_BY_ID.whole(), "sqlite_autoindex_documents_1"),
        (statements::TOMBSTONE, "sqlite_autoindex_tombstones_1"),
        (statements::HAS_TOMBSTONE, "sqlite_autoindex_tombstones_1"),
        (statements::KEY_HAS_TOMBSTONE, "tombstones_by_key"),
        (statements::HAS_LATER_TOMBSTONE, "sqlite_autoindex_tombstones_1"),
        (statements::DELETE_TOMBSTONE, "sqlite_autoindex_tombstones_1"),
        (statements::EXPIRED, "expiries USING PRIMARY KEY ((expires_at,record)>(?,?) AND expires_at<?)"),
        (statements::DOCUMENTS.of(Order::NewestFirst), "documents_by_time"),
        (statements::DOCUMENTS.of(Order::OldestFirst), "documents_by_time"),
    ] {
        let plan = plan_of(&file, sql);
        assert!(plan.iter().any(|step| step.contains(index)), "{sql}: {plan:#?}");
        let is_search = |step: &String| !step.contains("SCAN") && !step.contains("TEMP B-TREE");
        assert!(plan.iter().all(is_search), "{sql}: {plan:#?}");
    }
    for sql in [statements::OPEN_MEMORIES.of(Order::NewestFirst), statements::OPEN_MEMORIES.of(Order::OldestFirst)] {
        let plan = plan_of(&file, sql);
        assert!(plan.iter().any(|step| step.starts_with("MERGE")), "{sql}: {plan:#?}");
    }
    // FTS5 calls each of its plans a scan; these get the words and the range, and return the order.
    for sql in
        [statements::SLOTS.of(Order::NewestFirst), statements::SLOTS.of(Order::OldestFirst), statements::SLOT_HAS_PATH]
    {
        let plan = plan_of(&file, sql);
        assert!(matches!(&plan[..], [step] if step.contains("memory_paths VIRTUAL TABLE INDEX")), "{sql}: {plan:#?}");
        assert!(!plan[0].ends_with("INDEX 0:"), "{sql}: {plan:#?}");
    }
    let plain = [Order::NewestFirst, Order::OldestFirst].map(|order| Walk { order, ..Walk::EVERYTHING });
    let with_vectors = plain.map(|walk| Walk { has_vectors: true, is_for_heads: true, ..walk });
    // The list of slots is a table, too, which is read once.
    for walk in plain.iter().chain(&with_vectors) {
        let sql = statements::MEMORIES_IN_SLOTS.of_walk(walk);
        let plan = plan_of(&file, sql);
        let search = "SEARCH memories USING INDEX memories_by_time (slot=? AND id";
        assert!(plan.iter().any(|step| step.starts_with(search)), "{sql}: {plan:#?}");
        assert!(plan.iter().all(|step| step != "SCAN memories" && !step.contains("TEMP B-TREE")), "{sql}: {plan:#?}");
    }
    // A vector is found by its rowid, and the rest is found as without it.
    for walk in &with_vectors {
        for (sql, index, vectors) in [
            (statements::MEMORIES_IN_SLOTS.of_walk(walk), "memories_by_time", "memory_vectors"),
            (statements::MEMORIES.of_walk(walk), "memories_by_time", "memory_vectors"),
            (statements::OPEN_MEMORIES.of_walk(walk), "memories_open", "memory_vectors"),
            (statements::DOCUMENTS.of_walk(walk), "documents_by_time", "document_vectors"),
            (statements::DOCUMENT_BY_ID.of(walk), "sqlite_autoindex_documents_1", "document_vectors"),
            (statements::MEMORY_VECTOR, "sqlite_autoindex_memories_1", "memory_vectors"),
            (statements::DOCUMENT_VECTOR, "sqlite_autoindex_documents_1", "document_vectors"),
        ] {
            let plan = plan_of(&file, sql);
            let search = format!("SEARCH {vectors} USING INTEGER PRIMARY KEY");
            for due in [index, &search] {
                assert!(plan.iter().any(|step| step.contains(due)), "{sql}: {plan:#?}");
            }
            assert!(plan.iter().all(|step| !step.contains("TEMP B-TREE")), "{sql}: {plan:#?}");
        }
    }
}

#[tokio::test]
async fn open_memories_cost_what_they_are_and_not_what_the_ledger_holds() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(path.clone()).await;
    let completed = |number: i64| event("a-b", number).with_status(Status::Completed);
    for batch in 0..2 {
        let events = (0..10_000).map(|number| completed(batch * 10_000 + number)).collect();
        provider.store_many(events).await.expect("a batch");
    }
    let mut open = Vec::new();
    for number in 0..10 {
        open.push(provider.store(event("a-b", number * 2_000)).await.expect("a store"));
    }
    let query = MemoryQuery::builder().all().status(Status::Pending).order(Order::OldestFirst);
    assert_eq!(ids(&walk(&provider, &query).await), open);
    provider.shutdown().await.expect("a shutdown");

    let file = Connection::open(&path).expect("the file");
    let mut statement = file.prepare(statements::OPEN_MEMORIES.of(Order::OldestFirst)).expect("the statement");
    let mut rows = statement.query((i64::MAX, i64::MIN, Vec::<u8>::new(), true, true)).expect("rows");
    let mut count = 0;
    while rows.next().expect("a row").is_some() {
        count += 1;
    }
    drop(rows);
    assert_eq!(count, 10);
    let steps = statement.get_status(StatementStatus::VmStep);
    assert!(steps < 2_000, "{steps} steps for 10 rows of 20,010");
}

#[tokio::test]
async fn the_path_index_is_merged_while_nobody_calls() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let provider = open(path.clone()).await;
    let mut stored = Vec::new();
    for number in 0..40 {
        stored.push(provider.store(event("a-b", number)).await.expect("a store"));
    }
    let file = Connection::open(&path).expect("the file");
    let count = "SELECT count(DISTINCT segid) FROM memory_paths_idx";
    let parts = || file.query_row(count, [], |row| row.get::<_, u32>(0)).expect("a number");
    let merged = async {
        while parts() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), merged).await.expect("one part is left");
    let query = MemoryQuery::builder().under("a").order(Order::OldestFirst);
    assert_eq!(ids(&walk(&provider, &query).await), stored);
    provider.shutdown().await.expect("a shutdown");
}

#[tokio::test]
async fn a_memory_takes_at_most_250_bytes_beyond_its_texts_in_any_order_of_time() {
    for order in RowOrder::ALL {
        let folder = TempDir::new().expect("a temporary folder");
        let config = SqliteConfig::from(folder.path().join("memory.db"));
        let provider = open(config.clone()).await;
        let ledger = Ledger { order, ..Ledger::new(50_000) };
        let mut texts = 0;
        for batch in ledger.batches() {
            texts += batch.iter().map(workload::size).sum::<usize>();
            provider.store_many(batch).await.expect("a batch");
        }
        let bytes = memory_sqlite::inspect(&config).await.expect("a file").bytes.expect("a size") as usize;
        let beyond = (bytes - texts) / ledger.rows;
        assert!(beyond <= 250, "{order:?}: {beyond} bytes");
        provider.shutdown().await.expect("a shutdown");
    }
}

#[tokio::test]
async fn a_file_with_smaller_pages_keeps_them() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("memory.db");
    let file = Connection::open(&path).expect("the file");
    file.execute_batch("PRAGMA page_size = 4096; CREATE TABLE other (it)").expect("a page of 4 KiB");
    drop(file);
    for number in 0..2 {
        let provider = open(path.clone()).await;
        provider.store(event("a-b", number)).await.expect("a store");
        provider.shutdown().await.expect("a shutdown");
    }
    let file = Connection::open(&path).expect("the file");
    assert_eq!(file.query_row("PRAGMA page_size", [], |row| row.get(0)), Ok(4_096));
    assert_eq!(file.query_row("SELECT count(*) FROM memories", [], |row| row.get(0)), Ok(2));
    assert_eq!(file.query_row("PRAGMA integrity_check", [], |row| row.get(0)), Ok("ok".to_owned()));
}

const SPACES: [&str; 8] = ["a", "a-b", "a-bc", "a-b/c", "a:b", "A-b", "é-b", "b"];

/// One query for each way to select.
fn queries() -> Vec<QueryBuilder<memory_core::Ledger>> {
    let builder = MemoryQuery::builder;
    let within = SpaceSelector::under("a-b").expect("valid");
    vec![
        builder().all(),
        builder().exact("a-b"),
        builder().exact("a-b").exact("b").exact("nowhere"),
        builder().under("a"),
        builder().under("a-"),
        builder().under("a").exact("a-b").prefix("a-"),
        builder().prefix("a-b"),
        builder().prefix("é"),
        builder().glob("a?b*"),
        builder().glob("*b"),
        builder().regex("^a.b$"),
        builder().regex("b"),
        builder().all().within(within.clone()),
        builder().prefix("a").within(within),
        builder().all().status(Status::Pending),
        builder().under("a").status(Status::Pending).status(Status::Running),
        builder().under("a").status(Status::Completed),
        builder().all().created_after(at(-1)),
        builder().under("a").created_before(at(1)),
        builder().all().filter_text("status <> 'failed' AND createdAt >= 0"),
    ]
}

/// Compares every kind of selection, in both orders and in pages of several sizes, with a sort of the stored memories.
async fn check_reading(provider: &dyn MemoryProvider, ascending: &[Memory]) {
    for query in queries() {
        let spaces = query.clone().build().expect("a query");
        let matching = |memory: &&Memory| {
            spaces.spaces().matches(memory.space_id.as_str())
                && spaces.within().is_none_or(|within| within.matches(memory.space_id.as_str()))
                && (spaces.statuses().is_empty() || spaces.statuses().contains(&memory.status))
                && spaces.created_after().is_none_or(|time| memory.created_at > time)
                && spaces.created_before().is_none_or(|time| memory.created_at < time)
                && (spaces.filter().is_none() || memory.created_at >= at(0))
        };
        let mut expected: Vec<_> = ascending.iter().filter(matching).map(|memory| memory.id).collect();
        for order in [Order::OldestFirst, Order::NewestFirst] {
            for limit in [1, 2, 7, 1_000] {
                let query = query.clone().order(order).limit(limit);
                assert_eq!(ids(&walk(provider, &query).await), expected, "{query:?}");
            }
            expected.reverse();
        }
    }
}

async fn open(config: impl Into<SqliteConfig>) -> SqliteMemory {
    let provider = SqliteMemory::open(config).expect("a provider");
    provider.init().await.expect("an open database");
    provider
}

async fn walk(provider: &dyn MemoryProvider, query: &QueryBuilder<memory_core::Ledger>) -> Vec<Memory> {
    let mut found = Vec::new();
    let mut page = provider.query(&query.clone().build().expect("a query")).await.expect("a page");
    loop {
        assert_eq!(page.unreadable, []);
        found.extend(page.memories);
        let Some(next) = page.next else { return found };
        page = provider.query(&query.clone().cursor(next.as_str()).build().expect("a query")).await.expect("a page");
    }
}

fn plan_of(file: &Connection, sql: &str) -> Vec<String> {
    let mut statement = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a plan");
    let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
    let rows = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get("detail")).expect("a plan");
    rows.map(|detail| detail.expect("a step")).collect()
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).expect("the file").execute_batch(sql).expect("a change");
}

fn event(place: &str, millis: i64) -> NewMemory {
    let trigger = Trigger::parse(&format!(r#"{{"text":"event {millis}"}}"#)).expect("valid");
    NewMemory::new(space(place), trigger, at(millis))
}

/// A row whose id a test has chosen.
fn row(id: u8, millis: i64, place: &str) -> Memory {
    // Two zero bytes at the end of an id put markers into the path index.
    let bytes = std::array::from_fn(|place| if place < 14 { id } else { 0 });
    event(place, millis).into_memory(MemoryId::from_bytes(bytes))
}

fn document(id: &str) -> DocumentWrite {
    let content = Content::parse("a text").expect("valid");
    let collection = Collection::parse("notes").expect("valid");
    DocumentWrite::new(collection, space("a"), content, at(1)).with_id(DocumentId::parse(id).expect("valid"))
}

fn ids(memories: &[Memory]) -> Vec<MemoryId> {
    memories.iter().map(|memory| memory.id).collect()
}

fn space(id: &str) -> SpaceId {
    SpaceId::parse(id).expect("valid")
}

fn key(key: &str) -> IdempotencyKey {
    IdempotencyKey::parse(key).expect("valid")
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("valid")
}
