//! Erasure over REST.

use common::Cli;
use common::server::{Mcp, Response, Server};
use serde_json::{Value, json};

mod common;

/// An operator of one guild, one who reads less of it, one who may not write the ledger, and a caller with all other
/// rights there.
const TOKENS: &str = r#"
[[token]]
name = "operator"
token = "operator-0123456789abcdef"
read = [{ under = "guild1" }]
write = "guild1"
collections = ["notes"]
ledger = "write"
erase = true

[[token]]
name = "narrow"
token = "narrow-0123456789abcdef"
read = [{ under = "guild1-ana" }]
write = "guild1"
collections = ["notes"]
ledger = "write"
erase = true

[[token]]
name = "reader"
token = "reader-0123456789abcdef"
read = [{ under = "guild1" }]
write = "guild1"
collections = ["notes"]
erase = true

[[token]]
name = "runtime"
token = "runtime-0123456789abcdef"
read = ["all"]
write = "guild1"
collections = ["notes"]
ledger = "write"
"#;

const OPERATOR: &str = "operator-0123456789abcdef";
const NARROW: &str = "narrow-0123456789abcdef";
const READER: &str = "reader-0123456789abcdef";
const RUNTIME: &str = "runtime-0123456789abcdef";

fn store(cli: &Cli, space: &str) -> String {
    cli.ok(&["store", "--space", space, "--trigger", r#"{"text":"xyzzy"}"#, "--idempotency-key", space])
        .trim()
        .to_owned()
}

fn put(cli: &Cli, collection: &str, id: &str, space: &str) {
    cli.ok(&["document", "put", "--collection", collection, "--id", id, "--space", space, "--content", "xyzzy"]);
}

fn call(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> Response {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.request(method, path, &[("authorization", &format!("Bearer {token}"))], &body)
}

/// Erases slice after slice, and returns the erased records.
fn erased(server: &Server, token: &str, body: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let slice = call(server, token, "POST", "/v1/erase", body);
        assert_eq!(slice.status, 200, "{slice:?}");
        all.extend(slice.json()["records"].as_array().expect("a list").iter().cloned());
        if slice.json()["isComplete"] == true {
            return all;
        }
    }
}

#[test]
fn a_token_erases_what_lies_where_it_may_write() {
    let cli = Cli::new();
    let [ana, bob, model] = ["guild1-ana", "guild1-bob", "guild1"].map(|space| store(&cli, space));
    let [sibling, foreign] = ["guild12-ana", "guild2-ana"].map(|space| store(&cli, space));
    put(&cli, "notes", "n", "guild1-ana");
    put(&cli, "notes", "foreign", "guild2-ana");
    put(&cli, "private", "p", "guild1-ana");
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let path = |id: &str| format!("/v1/memories/{id}");
    let ids = json!({"ids": [ana, foreign, "01a1fed6-0358-76ab-aa80-f9ff382e7513"], "reason": "request 17"});
    let refused = call(&server, RUNTIME, "POST", "/v1/erase", &ids);
    refused.problem(403);
    assert_eq!(call(&server, RUNTIME, "GET", &path(&ana), &Value::Null).status, 200);
    // Records elsewhere are treated as nonexistent.
    assert_eq!(erased(&server, OPERATOR, &ids), [json!({"id": ana})]);
    assert_eq!(call(&server, RUNTIME, "GET", &path(&foreign), &Value::Null).status, 200);
    let gone = call(&server, OPERATOR, "GET", &path(&ana), &Value::Null);
    gone.problem(410);
    assert_eq!(gone.json()["error"], "Erased");
    let unknown = call(&server, RUNTIME, "GET", "/v1/memories/01a1fed6-0358-76ab-aa80-f9ff382e7513", &Value::Null);
    for end in ["", "/history", "?asOf=1700000000000"] {
        let gone = call(&server, RUNTIME, "GET", &format!("{}{end}", path(&ana)), &Value::Null);
        gone.problem(404);
        assert_eq!(gone.body, unknown.body, "{end}");
    }
    call(&server, RUNTIME, "PATCH", &path(&ana), &json!({"status": "failed"})).problem(404);
    call(&server, OPERATOR, "PATCH", &path(&ana), &json!({"status": "failed"})).problem(410);
    let again = json!({"spaceId": "guild1-ana", "trigger": {"text": "xyzzy"}, "idempotencyKey": "guild1-ana"});
    let taken = json!({"spaceId": "guild1-ana", "trigger": {"text": "xyzzy"}, "idempotencyKey": "guild1-bob"});
    for is_batch in [false, true] {
        let store = |token, memory: &Value| match is_batch {
            false => call(&server, token, "POST", "/v1/memories", memory),
            true => call(&server, token, "POST", "/v1/memories/batch", &json!({"memories": [memory]})),
        };
        let told = store(OPERATOR, &again);
        told.problem(410);
        assert_eq!(told.json()["error"], "Erased");
        // As if the key belonged to an existing memory.
        let told = store(RUNTIME, &again);
        told.problem(409);
        assert_eq!(told.json(), store(RUNTIME, &taken).json());
    }

    let query =
        json!({"query": {"all": true, "where": "text LIKE '%xyzzy%'"}, "documents": true, "reason": "why", "limit": 1});
    let mut went = erased(&server, OPERATOR, &query);
    went.sort_by_key(Value::to_string);
    let mut expected = [json!({"id": bob}), json!({"id": model}), json!({"collection": "notes", "id": "n"})];
    expected.sort_by_key(Value::to_string);
    assert_eq!(went, expected);
    drop(server);
    for id in [&sibling, &foreign] {
        cli.ok(&["get", id]);
    }
    for (collection, id) in [("notes", "foreign"), ("private", "p")] {
        cli.ok(&["document", "get", "--collection", collection, "--id", id]);
    }
}

#[test]
fn a_token_erases_nothing_that_it_may_not_read() {
    let cli = Cli::new();
    let [ana, bob] = ["guild1-ana", "guild1-bob"].map(|space| store(&cli, space));
    put(&cli, "notes", "own", "guild1-ana");
    put(&cli, "notes", "other", "guild1-bob");
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let query = json!({"query": {"under": ["guild1"]}, "documents": true, "reason": "why"});
    for body in [&query, &json!({"ids": [ana], "reason": "why"})] {
        call(&server, READER, "POST", "/v1/erase", body).problem(403);
    }
    assert!(erased(&server, NARROW, &json!({"ids": [bob], "reason": "why"})).is_empty());
    let went = erased(&server, NARROW, &query);
    assert_eq!(went, [json!({"id": ana}), json!({"collection": "notes", "id": "own"})]);
    let everywhere = json!({"query": {"all": true, "text": "xyzzy"}, "documents": true, "reason": "why"});
    assert!(erased(&server, NARROW, &everywhere).is_empty());
    drop(server);
    cli.ok(&["get", &bob]);
    cli.ok(&["document", "get", "--collection", "notes", "--id", "other"]);
}

#[test]
fn what_can_t_be_meant_is_refused() {
    let cli = Cli::new();
    let id = store(&cli, "guild1");
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let many: Vec<_> = (0..1_001).map(|_| memory_core::MemoryId::generate()).collect();
    for (body, status) in [
        (json!({"query": {"all": true}, "reason": "why"}), 422),
        (json!({"query": {}, "reason": "why"}), 422),
        (json!({"query": {"under": ["guild1"]}}), 422),
        (json!({"query": {"under": ["guild1"]}, "reason": " "}), 422),
        (json!({"query": {"under": ["guild1"]}, "reason": "x".repeat(1_025)}), 413),
        (json!({"query": {"under": ["guild1"]}, "reason": "why", "limit": 0}), 422),
        (json!({"query": {"under": ["guild1"]}, "reason": "why", "limit": 1_001}), 422),
        (json!({"query": {"under": "guild1"}, "reason": "why"}), 422),
        (json!({"query": {"under": ["guild1"], "wehre": "id = ''"}, "reason": "why"}), 422),
        (json!({"query": [["guild1"]], "reason": "why"}), 422),
        (json!({"query": {"under": ["guild1"]}, "reason": "why", "collections": ["notes"]}), 422),
        (json!({"query": {"under": ["guild1"]}, "reason": "why", "documents": true, "collections": ["private"]}), 403),
        (json!({"query": {"under": ["guild1"], "status": ["pending"]}, "reason": "why", "documents": true}), 422),
        (json!({"query": {"under": ["guild1"]}, "ids": [id], "reason": "why"}), 422),
        (json!({"ids": [id], "reason": "why", "documents": true}), 422),
        (json!({"ids": [id], "reason": "why", "limit": 1}), 422),
        (json!({"ids": [], "reason": "why"}), 422),
        (json!({"ids": many, "reason": "why"}), 413),
        (json!({"reason": "why"}), 422),
    ] {
        call(&server, OPERATOR, "POST", "/v1/erase", &body).problem(status);
    }
    // Without its value, each of these parameters would erase more.
    for name in ["space", "under", "prefix", "glob", "regex", "status"] {
        let mut query = json!({"all": true, "text": "xyzzy"});
        query[name] = json!([]);
        let refused = call(&server, OPERATOR, "POST", "/v1/erase", &json!({"query": query, "reason": "why"}));
        refused.problem(422);
        assert_eq!(refused.json()["error"], "InvalidInput", "{name}");
    }
    let none = json!({"query": {"under": ["guild1"]}, "documents": true, "collections": [], "reason": "why"});
    let refused = call(&server, OPERATOR, "POST", "/v1/erase", &none);
    refused.problem(422);
    assert_eq!(refused.json()["error"], "InvalidInput");
    assert_eq!(cli.count(&["--all"]), 1);
}

#[test]
fn only_collections_that_are_named_are_looked_at_where_there_are_many() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let put = |number: usize| {
        let collection = format!("c{number}");
        json!({"collection": collection, "id": "n", "spaceId": "a", "content": "xyzzy", "createdAt": 1})
    };
    let all = json!({"documents": (0..101).map(put).collect::<Vec<_>>()}).to_string();
    assert_eq!(server.post("/v1/documents", &all).status, 200);
    let body = json!({"query": {"space": ["a"]}, "documents": true, "reason": "why"});
    server.post("/v1/erase", &body.to_string()).problem(422);
    let mut named = body.clone();
    named["collections"] = json!(["c7"]);
    let erased = server.post("/v1/erase", &named.to_string()).json();
    assert_eq!(erased, json!({"records": [{"collection": "c7", "id": "n"}], "isComplete": true}));
    // An empty one does not count any more.
    assert_eq!(server.post("/v1/erase", &body.to_string()).json()["isComplete"], false);
    named["collections"] = json!(["_follow"]);
    server.post("/v1/erase", &named.to_string()).problem(422);
}

#[test]
fn who_has_the_machine_erases_over_rest_and_nobody_over_mcp() {
    let cli = Cli::new();
    let id = store(&cli, "a");
    put(&cli, "_prompt", "p", "a");
    let server = Server::start(&cli, &["--ledger", "write", "--write", "a"]);
    let client = Mcp::connect(&server);
    let tools = client.ask("tools/list", &json!({}));
    assert!(tools.contains("memory_update") && !tools.contains("erase"), "{tools}");
    let body = json!({"query": {"space": ["a"]}, "documents": true, "reason": "why"}).to_string();
    let first = server.post("/v1/erase", &body).json();
    assert_eq!(first, json!({"records": [{"id": id}], "isComplete": false}));
    let second = server.post("/v1/erase", &body).json();
    assert_eq!(second, json!({"records": [{"collection": "_prompt", "id": "p"}], "isComplete": true}));
    assert_eq!(server.post("/v1/erase", &body).json(), json!({"records": [], "isComplete": true}));
    server.get(&format!("/v1/memories/{id}")).problem(410);
    let told = client.call("memory_update", &json!({"id": id, "status": "failed"}));
    assert!(told.contains("no memory has it"), "{told}");
    let told = client.call("memory_store", &json!({"trigger": {"text": "xyzzy"}, "idempotencyKey": "a"}));
    assert!(told.contains("the idempotency key belongs to a memory with another trigger or space"), "{told}");
}
