//! Databases as MAIAR makes them.

use conformance::server::TestServer;
use futures::{StreamExt as _, TryStreamExt as _};
use maiar::Record;
use memory_core::Result;
use rusqlite::Connection;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

/// Its tables. Only SQLite has spaces in the sandbox, and only PostgreSQL has a type for JSON.
fn tables(integer: &str, json: &str, space: &str) -> [String; 2] {
    [
        format!(
            "CREATE TABLE memories (id TEXT PRIMARY KEY, space_id TEXT NOT NULL, trigger TEXT NOT NULL, context TEXT, \
             created_at {integer} NOT NULL, updated_at {integer}, metadata {json})"
        ),
        format!(
            "CREATE TABLE sandbox (id TEXT PRIMARY KEY, {space} content TEXT NOT NULL, created_at {integer} NOT NULL)"
        ),
    ]
}

const MEMORIES: &str = r#"INSERT INTO memories VALUES
    ('2f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e', 'plugin-chat-ana', '{"id": "t1", "content": "Hi"}', '[{"n": 1.50}]', 5, 7, '{"topic": "pets"}'),
    ('not-a-uuid', 'plugin-chat-bo', 'plain text', NULL, 6, 8, NULL),
    ('3f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e', 'plugin-chat-bo', '{}', '', 9, NULL, '[1]')"#;

async fn read(url: &str) -> Result<Vec<Record>> {
    maiar::open(url)?.try_collect().await
}

/// The records made from the rows, with the document in this space.
fn check(records: &[Record], space: &str) {
    let [Record::Memory(first), Record::New(second), Record::Memory(third), Record::Document(document)] = records
    else {
        panic!("{records:?}");
    };
    assert_eq!(
        first.context.as_ref().map(|context| context.as_str()),
        Some(r#"[{"n":1.50}]"#),
        "numbers stay as they are"
    );
    let memory = |memory: &memory_core::Memory| serde_json::to_value(memory).expect("JSON");
    assert_eq!(
        memory(first),
        json!({"id": "2f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e", "spaceId": "plugin-chat-ana", "status": "completed",
               "trigger": {"id": "t1", "content": "Hi"}, "context": [{"n": 1.5}], "createdAt": 5, "updatedAt": 7,
               "metadata": {"topic": "pets"}, "revision": 1})
    );
    assert_eq!(
        memory(third),
        json!({"id": "3f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e", "spaceId": "plugin-chat-bo", "status": "observed",
               "trigger": {}, "createdAt": 9, "metadata": {"value": [1]}, "revision": 1})
    );
    assert_eq!(second.idempotency_key.as_ref().map(|key| key.as_str()), Some("maiar:not-a-uuid"));
    assert_eq!((second.trigger.as_str(), second.status), (r#""plain text""#, memory_core::Status::Observed));
    let document: Value = serde_json::to_value(document).expect("JSON");
    assert_eq!(
        document,
        json!({"id": "d1", "collection": "sandbox", "spaceId": space, "content": "Ana has a cat", "createdAt": 4,
               "metadata": {}, "revision": 1})
    );
}

#[tokio::test]
async fn a_sqlite_file_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("maiar 1.db");
    let database = Connection::open(&file).expect("a database");
    for table in tables("INTEGER", "TEXT", "space_id TEXT NOT NULL,") {
        database.execute(&table, []).expect("a table");
    }
    database.execute(MEMORIES, []).expect("rows");
    database.execute("INSERT INTO sandbox VALUES ('d1', 'plugin-chat-ana', 'Ana has a cat', 4)", []).expect("a row");
    let url = format!("sqlite://{}", file.display().to_string().replace(' ', "%20"));
    check(&read(&url).await.expect("records"), "plugin-chat-ana");

    // A stream that is dropped stops its reader, and one row that is wrong ends the stream.
    let first = maiar::open(&url).expect("a file").next().await;
    assert!(matches!(first, Some(Ok(Record::Memory(_)))), "{first:?}");
    database.execute("UPDATE memories SET space_id = '' WHERE created_at = 6", []).expect("an update");
    let items: Vec<_> = maiar::open(&url).expect("a file").collect().await;
    let error = items[1].as_ref().expect_err("a space has a name");
    assert!(items.len() == 2 && error.message().starts_with("the memory not-a-uuid: "), "{items:?}");
}

#[tokio::test]
async fn what_is_no_database_of_maiar_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    std::fs::write(folder.path().join("empty.db"), "").expect("a file");
    std::fs::write(folder.path().join("text.db"), "a text that is no database".repeat(9)).expect("a file");
    for (url, expected) in [
        (url("empty.db"), "no table memories"),
        (url("text.db"), "can't be read"),
        (url("nowhere.db"), "can't be opened"),
        (url("."), "is no file"),
        ("sqlite://".to_owned(), "names no file"),
        ("postgres://app:xyzzy@127.0.0.1:1/none".to_owned(), "can't be reached"),
        ("mysql://app:xyzzy@127.0.0.1:1/none".to_owned(), "must begin with"),
    ] {
        let error = read(&url).await.expect_err(&url);
        assert!(error.message().contains(expected), "{error:?}");
        assert!(!format!("{error:?}").contains("xyzzy"), "{error:?}");
    }
}

#[tokio::test]
async fn a_postgres_database_is_read() {
    let server = TestServer::postgres().unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let schema = format!("maiar_{}", std::process::id());
    let sign = if server.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{sign}options=-csearch_path%3D{schema}", server.url());
    let mut connection = PgConnection::connect(&url).await.expect("the server");
    let mut run = async |sql: String| connection.execute(AssertSqlSafe(sql)).await.map(drop).expect("a statement");
    run(format!("CREATE SCHEMA {schema}")).await;
    for table in tables("BIGINT", "JSONB", "") {
        run(table).await;
    }
    run(MEMORIES.to_owned()).await;
    run("INSERT INTO sandbox VALUES ('d1', 'Ana has a cat', 4)".to_owned()).await;
    check(&read(&url).await.expect("records"), "maiar");
    run("DROP TABLE sandbox".to_owned()).await;
    assert_eq!(read(&url).await.expect("records").len(), 3);
    run(format!("DROP SCHEMA {schema} CASCADE")).await;
}
