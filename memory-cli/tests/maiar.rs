//! Importing the database of another program.

use common::Cli;
use rusqlite::Connection;
use serde_json::{Value, json};

mod common;

/// As MAIAR makes them.
const DATABASE: &str = r#"
    CREATE TABLE memories (id TEXT PRIMARY KEY, space_id TEXT NOT NULL, trigger TEXT NOT NULL, context TEXT,
        created_at INTEGER NOT NULL, updated_at INTEGER, metadata TEXT);
    CREATE TABLE sandbox (id TEXT PRIMARY KEY, space_id TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT NULL);
    INSERT INTO sandbox VALUES ('d1', 'plugin-chat-ana', 'Ana has a cat', 4);
    INSERT INTO memories VALUES
    ('2f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e', 'plugin-chat-ana', '{"id": "t1", "content": "Hi"}', '[{"n": 1.50}]', 5, 7, '{"topic": "pets"}'),
    ('not-a-uuid', 'plugin-chat-bo', 'plain text', NULL, 6, 8, NULL),
    ('3f0c3a5e-7d7b-4b52-9d6c-0a4f5b6c7d8e', 'plugin-chat-bo', '{}', '', 9, NULL, 'null');"#;

/// Checks the content of the database, each record without its generated id.
fn check(cli: &Cli) {
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
            json!({"kind": "document", "id": "d1", "collection": "sandbox", "spaceId": "plugin-chat-ana", "content": "Ana has a cat",
                   "createdAt": 4, "metadata": {}, "revision": 1}),
        ]
    );
}

#[test]
fn a_database_of_maiar_is_imported_once() {
    let cli = Cli::new();
    let file = cli.path("maiar.db");
    Connection::open(&file).expect("a database").execute_batch(DATABASE).expect("rows");
    let url = format!("sqlite://{}", file.display());
    let import = ["import", "--from", "maiar", &url];
    assert!(cli.ok(&import).contains("4 new"));
    check(&cli);
    assert!(cli.ok(&import).contains("0 new, 4 there already"), "repeating it changes nothing");
}

#[test]
fn what_is_no_database_of_maiar_is_refused() {
    let cli = Cli::new();
    let empty = format!("sqlite://{}", cli.write("empty.db", ""));
    assert!(cli.fails(1, &["import", "--from", "maiar", &empty]).contains("empty.db: has no table memories"));
    assert!(
        cli.fails(1, &["import", "--from", "maiar", "sqlite://nowhere.db"]).contains("nowhere.db: can't be opened")
    );
    for url in ["mysql://app:xyzzy@host/db", "maiar.db"] {
        let refused = cli.fails(2, &["import", "--from", "maiar", url]);
        assert!(refused.contains("sqlite: or postgres://") && !refused.contains("xyzzy"), "{refused}");
    }
}

#[test]
fn a_url_in_the_place_of_a_file_is_not_shown() {
    let cli = Cli::new();
    let url = "postgres://app:xyzzy@127.0.0.1:1/none";
    for args in
        [&["import", url][..], &["export", "-o", url], &["store", "--space", "a", "--trigger", &format!("@{url}")]]
    {
        let refused = cli.fails(1, args);
        assert!(!refused.contains("xyzzy"), "{args:?}: {refused}");
    }
}
