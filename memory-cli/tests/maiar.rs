//! Importing the tables of another program.

use common::{Cli, stderr, stdout};
use conformance::server::TestServer;
use rusqlite::Connection;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

mod common;

/// As MAIAR makes them; only SQLite has spaces in the sandbox, and JSON as a type of its own is PostgreSQL's.
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
    ('3f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e', 'plugin-chat-bo', '{}', '', 9, NULL, 'null')"#;

/// What is in the database, each record without the ids that were made.
fn check(cli: &Cli, space: &str) {
    let exported = cli.ok(&["export"]);
    let mut records: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(records.len(), 4, "{exported}");
    assert!(exported.contains(r#""context":[{"n":1.50}]"#), "numbers stay as they were written: {exported}");
    let made = records[1]["id"].take();
    assert!(made.is_string());
    assert_eq!(
        records,
        [
            json!({"id": "2f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e", "spaceId": "plugin-chat-ana", "status": "completed",
                   "trigger": {"id": "t1", "content": "Hi"}, "context": [{"n": 1.5}], "createdAt": 5, "updatedAt": 7,
                   "metadata": {"topic": "pets"}, "revision": 1}),
            json!({"id": null, "spaceId": "plugin-chat-bo", "status": "observed", "trigger": "plain text", "createdAt": 6,
                   "metadata": {}, "revision": 1, "idempotencyKey": "maiar:not-a-uuid"}),
            json!({"id": "3f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e", "spaceId": "plugin-chat-bo", "status": "observed",
                   "trigger": {}, "createdAt": 9, "metadata": {}, "revision": 1}),
            json!({"kind": "document", "id": "d1", "collection": "sandbox", "spaceId": space, "content": "Ana has a cat",
                   "createdAt": 4, "metadata": {}, "revision": 1}),
        ]
    );
}

#[test]
fn a_sqlite_file_of_maiar_is_imported_once() {
    let cli = Cli::new();
    let file = cli.path("maiar.db");
    let maiar = Connection::open(&file).expect("a database");
    for table in tables("INTEGER", "TEXT", "space_id TEXT NOT NULL,") {
        maiar.execute(&table, []).expect("a table");
    }
    maiar.execute(MEMORIES, []).expect("rows");
    maiar.execute("INSERT INTO sandbox VALUES ('d1', 'plugin-chat-ana', 'Ana has a cat', 4)", []).expect("a row");
    drop(maiar);
    let import = ["import", "--from", "maiar-sqlite", &file.display().to_string()];
    assert!(cli.ok(&import).contains("4 new"));
    check(&cli, "plugin-chat-ana");
    assert!(cli.ok(&import).contains("0 new, 4 there already"), "repeating it changes nothing");
    let empty = cli.write("empty.db", "");
    assert!(cli.fails(1, &["import", "--from", "maiar-sqlite", &empty]).contains("no table memories"));
    assert!(cli.fails(1, &["import", "--from", "maiar-sqlite", "nowhere.db"]).contains("nowhere.db"));
}

#[test]
fn a_postgres_database_of_maiar_is_imported_once() {
    let server = TestServer::postgres().unwrap_or_else(|missing| panic!("{}", missing.reason()));
    let cli = Cli::new();
    let schema = format!("maiar_{}", std::process::id());
    let sign = if server.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{sign}options=-csearch_path%3D{schema}", server.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let sql = async |text: String| {
        let mut connection = PgConnection::connect(&url).await.expect("the server");
        connection.execute(AssertSqlSafe(text)).await.expect("a statement");
    };
    runtime.block_on(async {
        sql(format!("CREATE SCHEMA {schema}")).await;
        for table in tables("BIGINT", "JSONB", "") {
            sql(table).await;
        }
        sql(MEMORIES.to_owned()).await;
        sql("INSERT INTO sandbox VALUES ('d1', 'Ana has a cat', 4)".to_owned()).await;
    });
    let import = ["import", "--from", "maiar-postgres", &url];
    // The URL may hold a password, so it may stand in the environment.
    let imported = cli.command().args(&import[..3]).env("AGENT_MEMORY_FROM", &url).output().expect("the binary runs");
    assert!(stdout(&imported).contains("4 new"), "{}", stderr(&imported));
    check(&cli, "maiar");
    assert!(cli.ok(&import).contains("0 new, 4 there already"), "repeating it changes nothing");
    runtime.block_on(sql(format!("DROP SCHEMA {schema} CASCADE")));
    let refused = cli.fails(1, &["import", "--from", "maiar-postgres", "postgres://app:xyzzy@127.0.0.1:1/none"]);
    assert!(!refused.contains("xyzzy"), "{refused}");
    let url = "postgres://app:xyzzy@127.0.0.1:1/none";
    for args in [
        &["import", url][..],
        &["import", "--from", "maiar-sqlite", url],
        &["export", "-o", url],
        &["store", "--space", "a", "--trigger", &format!("@{url}")],
    ] {
        let refused = cli.fails(1, args);
        assert!(!refused.contains("xyzzy"), "{args:?}: {refused}");
    }
}
