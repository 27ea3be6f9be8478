//! Records expire: by themselves, and by the rules of an operator.

use common::server::{Response, Server};
use common::{Cli, eventually, stderr, stdout};
use serde_json::{Value, json};

mod common;

/// In milliseconds.
const DAY: i64 = 86_400_000;

/// An operator who may erase in one guild, one who reads everything, and one who may not erase.
const TOKENS: &str = r#"
[[token]]
name = "operator"
token = "operator-0123456789abcdef"
read = [{ under = "guild1" }]
write = "guild1"
ledger = "write"
erase = true

[[token]]
name = "auditor"
token = "auditor-0123456789abcdef"
read = ["all"]
write = "guild1"
ledger = "write"
erase = true

[[token]]
name = "runtime"
token = "runtime-0123456789abcdef"
read = ["all"]
write = "guild1"
ledger = "write"
"#;

fn store(cli: &Cli, space: &str, more: &[&str]) -> String {
    cli.ok(&[&["store", "--space", space, "--trigger", "1"], more].concat()).trim().to_owned()
}

fn shown(cli: &Cli, id: &str) -> Value {
    serde_json::from_str(&cli.ok(&["get", id, "--json"])).expect("JSON")
}

fn swept(cli: &Cli) -> Value {
    serde_json::from_str(&cli.ok(&["sweep", "--json"])).expect("JSON")
}

fn patch(server: &Server, id: &str, body: &Value) -> Response {
    server.request("PATCH", &format!("/v1/memories/{id}"), &[], &body.to_string())
}

fn call(server: &Server, token: &str, method: &str, body: &str) -> Response {
    server.request(method, "/v1/retention", &[("authorization", &format!("Bearer {token}-0123456789abcdef"))], body)
}

#[test]
fn a_memory_is_gone_when_its_time_is_over() {
    let cli = Cli::new();
    let id = store(&cli, "a", &["--expires-in", "30d"]);
    let memory = shown(&cli, &id);
    let kept = memory["expiresAt"].as_i64().expect("a time") - memory["createdAt"].as_i64().expect("a time");
    assert!((30 * DAY..31 * DAY).contains(&kept), "{memory}");
    let other = store(&cli, "b", &[]);
    assert!(shown(&cli, &other).get("expiresAt").is_none());
    assert!(cli.ok(&["get", &id]).contains("expires") && cli.ok(&["query", "--all"]).contains("expires"));
    assert!(!cli.ok(&["query", "--space", "b"]).contains("expires"));

    cli.ok(&["update", &id, "--never-expires"]);
    assert!(shown(&cli, &id).get("expiresAt").is_none());
    let later = memory["createdAt"].as_i64().expect("a time") + DAY;
    cli.ok(&["update", &id, "--expires-at", &later.to_string()]);
    assert_eq!(shown(&cli, &id)["expiresAt"], later);
    cli.fails(1, &["update", &id, "--expires-at", "1"]);
    cli.fails(1, &["store", "--space", "a", "--trigger", "1", "--expires-at", "1"]);
    for mistake in [
        ["--expires-in", "30"].as_slice(),
        &["--expires-in", "999999w"],
        &["--expires-in", "1d", "--expires-at", "9"],
        &["--expires-in", "1d", "--never-expires"],
    ] {
        cli.fails(2, &[&["update", &id], mistake].concat());
    }
    assert_eq!(shown(&cli, &id)["expiresAt"], later);

    cli.ok(&["export", "-o", "backup.jsonl"]);
    cli.ok(&["update", &id, "--expires-in", "1s"]);
    eventually("it is over", || !cli.run(&["get", &id]).status.success());
    assert!(cli.fails(1, &["get", &id]).contains("was erased"));
    assert!(cli.fails(1, &["update", &id, "--never-expires"]).contains("was erased"));
    assert_eq!(cli.count(&["--all"]), 1);
    swept(&cli);
    assert_eq!(swept(&cli), json!({"records": 0, "tombstones": 0, "isComplete": true}));
    assert!(cli.ok(&["export"]).contains(r#""reason":"expired""#));
    // No backup brings it back, although it has a later time there.
    let imported = "imported 2 lines: 0 new, 1 there already, 0 in conflict, 1 left out, which were erased\n";
    assert_eq!(cli.ok(&["import", "backup.jsonl"]), imported);
    // No erasure may use the reason of expired records.
    cli.fails(1, &["erase", &other, "--reason", "expired"]);
    assert_eq!(cli.count(&["--all"]), 1);
}

#[test]
fn a_document_is_gone_when_its_time_is_over() {
    let cli = Cli::new();
    let document = ["--collection", "notes", "--id", "n"];
    let put = [&["document", "put", "--space", "a", "--content", "xyzzy", "--json"], &document[..]].concat();
    let get = [&["document", "get"], &document[..]].concat();
    let first: Value = serde_json::from_str(&cli.ok(&[&put[..], &["--expires-in", "1d"]].concat())).expect("JSON");
    assert!(first["expiresAt"].is_i64(), "{first}");
    assert!(cli.ok(&get).contains("expires"));
    assert!(cli.ok(&["document", "query", "--collection", "notes", "--all"]).contains("expires"));
    // A put without one clears it.
    let second: Value = serde_json::from_str(&cli.ok(&put)).expect("JSON");
    assert_eq!((&second["revision"], second.get("expiresAt")), (&json!(2), None));
    cli.ok(&[&put[..], &["--expires-in", "1s"]].concat());
    eventually("it is over", || !cli.run(&get).status.success());
    assert_eq!(swept(&cli), json!({"records": 1, "tombstones": 0, "isComplete": true}));
    let again: Value = serde_json::from_str(&cli.ok(&put)).expect("JSON");
    assert_eq!(again["revision"], 1, "it begins anew");
}

#[test]
fn it_goes_along_and_what_is_over_stays_out() {
    let cli = Cli::new();
    store(&cli, "a", &["--expires-in", "30d"]);
    let put = ["document", "put", "--collection", "notes", "--id", "n", "--space", "a", "--content", "xyzzy"];
    cli.ok(&[&put[..], &["--expires-in", "30d"]].concat());
    for export in [["export"].as_slice(), &["export", "--history"]] {
        let (exported, other) = (cli.ok(export), Cli::new());
        assert_eq!(exported.matches(r#""expiresAt":"#).count(), 2, "{exported}");
        let imported = other.fed(&["import", "-"], &exported);
        assert!(imported.status.success(), "{}", stderr(&imported));
        assert_eq!(other.ok(export), exported);
    }
    let second = Cli::new();
    let url = format!("sqlite://{}", second.path("memory.db").display());
    assert!(cli.ok(&["copy", "--to", &url, "--json"]).contains(r#""verified":true"#));
    assert_eq!(second.ok(&["export"]), cli.ok(&["export"]));
    let over = [
        r#"{"spaceId":"a","trigger":1,"createdAt":1,"expiresAt":2}"#,
        r#"{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":1,"createdAt":1,"expiresAt":2}"#,
        r#"{"kind":"document","id":"over","collection":"notes","spaceId":"a","content":"b","createdAt":1,"expiresAt":2}"#,
        r#"{"spaceId":"a","trigger":2,"createdAt":1,"expiresAt":null}"#,
    ];
    let imported = second.fed(&["import", "-"], &over.join("\n"));
    assert!(imported.status.success(), "{}", stderr(&imported));
    let told = "imported 4 lines: 1 new, 0 there already, 0 in conflict, 3 left out, which were erased\n";
    assert_eq!(stdout(&imported), told);
    assert_eq!(second.count(&["--all"]), 2);
}

#[test]
fn rules_are_set_listed_and_taken_away() {
    let cli = Cli::new();
    for space in ["guild1-ana", "guild12"] {
        store(&cli, space, &[]);
    }
    assert_eq!(cli.ok(&["retention"]), "no rules found\n");
    assert_eq!(cli.ok(&["retention", "--json"]), "");
    let set = |under: &str, keep: &str| cli.ok(&["retention", "--under", under, "--keep", keep]);
    assert_eq!(set("guild1", "30d"), "what lies under guild1 is kept for 30d\n");
    set("a", "36h");
    assert_eq!(
        cli.ok(&["retention", "--json"]),
        "{\"under\":\"a\",\"keep\":129600000}\n{\"under\":\"guild1\",\"keep\":2592000000}\n"
    );
    let table = cli.ok(&["retention"]);
    assert!(table.contains("30d") && table.contains("36h"), "{table}");
    assert_eq!(cli.count(&["--all"]), 2);
    let target = format!("sqlite://{}", cli.path("copy.db").display());
    cli.ok(&["copy", "--to", &target]);
    assert_eq!(cli.ok(&["--url", &target, "retention", "--json"]), cli.ok(&["retention", "--json"]));
    // The rule applies to existing records, and only while it exists.
    set("guild1", "1ms");
    assert_eq!((cli.count(&["--all"]), cli.count(&["--space", "guild12"])), (1, 1));
    cli.ok(&["retention", "--under", "guild1", "--remove"]);
    assert_eq!(cli.count(&["--all"]), 2);
    assert_eq!(cli.ok(&["retention", "--json"]), "{\"under\":\"a\",\"keep\":129600000}\n");
    set("guild1", "1ms");
    assert_eq!(cli.ok(&["sweep"]), "erased 1 expired records, and removed 0 tombstones\n");
    cli.ok(&["retention", "--under", "guild1", "--remove"]);
    assert_eq!(cli.count(&["--all"]), 1);

    assert!(cli.fails(1, &["retention", "--under", "guild1", "--remove"]).contains("no rule"));
    for mistake in [
        ["--under", "a"].as_slice(),
        &["--keep", "1d"],
        &["--remove"],
        &["--under", "a", "--keep", "0d"],
        &["--under", "a", "--keep", "1 day"],
        &["--under", "", "--keep", "1d"],
        &["--under", "a", "--keep", "1d", "--remove"],
    ] {
        cli.fails(2, &[&["retention"], mistake].concat());
    }
}

#[test]
fn what_expires_is_told_over_rest() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let far = 8_640_000_000_000_i64;
    let stored = server.post("/v1/memories", &json!({"spaceId": "a", "trigger": 1, "expiresAt": far}).to_string());
    assert_eq!(stored.status, 201, "{stored:?}");
    let id = stored.json()["id"].as_str().expect("an id").to_owned();
    let expiry = || server.get(&format!("/v1/memories/{id}")).json().get("expiresAt").cloned();
    assert_eq!(expiry(), Some(json!(far)));
    assert_eq!(patch(&server, &id, &json!({"expiresAt": "clear"})).status, 200);
    assert_eq!(expiry(), None);
    assert_eq!(patch(&server, &id, &json!({"expiresAt": {"set": far - 1}})).status, 200);
    assert_eq!(patch(&server, &id, &json!({"status": "running"})).status, 200);
    assert_eq!(expiry(), Some(json!(far - 1)));
    for wrong in [json!(null), json!(far)] {
        patch(&server, &id, &json!({"expiresAt": wrong})).problem(400);
    }
    for wrong in [json!("never"), json!({"set": null}), json!({"set": far + 1}), json!({"set": 1})] {
        patch(&server, &id, &json!({"expiresAt": wrong})).problem(422);
    }
    server.post("/v1/memories", &json!({"spaceId": "a", "trigger": 1, "expiresAt": 1}).to_string()).problem(422);

    let path = "/v1/documents/notes/n";
    let document = json!({"spaceId": "a", "content": "b", "expiresAt": far});
    let put = server.request("PUT", path, &[], &document.to_string());
    assert_eq!((put.status, &put.json()["expiresAt"]), (201, &json!(far)));
    let put = server.request("PUT", path, &[], &json!({"spaceId": "a", "content": "b"}).to_string());
    assert_eq!((put.status, put.json().get("expiresAt")), (200, None));
    let document = json!({"collection": "notes", "spaceId": "a", "content": "b", "expiresAt": far});
    let put = server.post("/v1/documents", &json!({"documents": [document]}).to_string());
    assert_eq!(put.json()["documents"][0]["expiresAt"], far, "{put:?}");
}

#[test]
fn rules_are_for_who_may_erase_everything() {
    let cli = Cli::new();
    let rules = json!({"rules": [{"under": "guild1", "keep": DAY}]});
    let server = Server::start(&cli, &[]);
    let put = |rules: &Value| server.request("PUT", "/v1/retention", &[], &rules.to_string());
    assert_eq!(server.get("/v1/retention").json(), json!({"rules": []}));
    assert_eq!(put(&rules).json(), rules);
    assert_eq!(server.get("/v1/retention").json(), rules);
    for (wrong, status) in [
        (json!({}), 422),
        (json!({"rules": [["guild1", 1]]}), 422),
        (json!({"rules": [{"under": "guild1"}]}), 422),
        (json!({"rules": [{"under": "", "keep": 1}]}), 422),
        (json!({"rules": [{"under": "a", "keep": 0}]}), 422),
        (json!({"rules": [{"under": "a", "keep": -1}]}), 422),
        (json!({"rules": [{"under": "a", "keep": 1.5}]}), 422),
        (json!({"rules": [{"under": "a", "keep": DAY}, {"under": "a", "keep": 2 * DAY}]}), 422),
    ] {
        put(&wrong).problem(status);
    }
    assert_eq!(server.get("/v1/retention").json(), rules);
    drop(server);

    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    for token in ["operator", "runtime"] {
        call(&server, token, "GET", "").problem(403);
    }
    assert_eq!(call(&server, "auditor", "GET", "").json(), rules);
    for token in ["operator", "auditor", "runtime"] {
        call(&server, token, "PUT", r#"{"rules":[]}"#).problem(403);
    }
    assert_eq!(call(&server, "auditor", "GET", "").json(), rules);
}

#[test]
fn a_server_sweeps_by_itself() {
    let cli = Cli::new();
    store(&cli, "guild1", &[]);
    cli.ok(&["retention", "--under", "guild1", "--keep", "1ms"]);
    let _server = Server::start(&cli, &[]);
    eventually("it is swept", || cli.ok(&["export"]).contains(r#""reason":"expired""#));
}
