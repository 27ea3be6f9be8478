//! The server over HTTP.

use std::io::Write;

use common::server::{Mcp, Server, read, read_rest};
use common::{Cli, TOKENS, eventually, older, stderr};
use serde_json::{Value, json};

mod common;

#[test]
fn memories_are_stored_recalled_and_updated() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let body = r#"{"spaceId":"guild1-m1","trigger":{"b":1.50,"a":"\u00e9","n":12345678901234567890123},"context":null,"createdAt":7}"#;
    let stored = server.post("/v1/memories", body);
    assert_eq!(stored.status, 201);
    let path = stored.header("location").expect("a location").to_owned();
    let memory = server.get(&path);
    assert_eq!((memory.status, memory.header("etag")), (200, Some("\"1\"")));
    assert!(memory.body.contains(r#""trigger":{"b":1.50,"a":"\u00e9","n":12345678901234567890123},"context":null"#));

    let key = [("idempotency-key", "\"k1\"")];
    let first = server.request("POST", "/v1/memories", &key, body).json();
    assert_eq!(server.request("POST", "/v1/memories", &[("idempotency-key", "k1")], body).json(), first);
    server.request("POST", "/v1/memories", &key, &body.replace("1.50", "1.5")).problem(409);

    let patch = r#"{"metadata":{"merge":{"topic":"pets"}},"context":{"set":{"reply":"hi"}},"status":"completed"}"#;
    let updated = server.request("PATCH", &path, &[("if-match", "\"1\"")], patch);
    assert_eq!((updated.status, updated.header("etag")), (200, Some("\"2\"")), "{updated:?}");
    server.request("PATCH", &path, &[("if-match", "\"1\"")], patch).problem(412);
    server.request("PATCH", &path, &[], r#"{"context":null}"#).problem(400);
    server.request("PATCH", "/v1/memories/00000000-0000-7000-8000-000000000000", &[], patch).problem(404);

    let found = server.get("/v1/memories?under=guild1&where=metadata.topic+%3D+%27pets%27&status=completed");
    assert_eq!(found.json()["memories"][0]["context"], json!({"reply": "hi"}));
    assert_eq!(server.get("/v1/memories?all=true&status=failed&status=observed").json()["memories"], json!([]));
}

#[test]
fn a_server_of_one_program_answers_nobody_else() {
    let cli = Cli::new();
    let (secret, header) = ("0123456789abcdef", [("authorization", "Bearer 0123456789abcdef")]);
    let with = |token: &str| {
        let mut command = cli.command();
        command.env("AGENT_MEMORY_TOKEN", token);
        command
    };
    let server = Server::start_as(with(secret), &[]);
    let body = r#"{"spaceId":"a-b","trigger":1}"#;
    server.post("/v1/memories", body).problem(401);
    assert_eq!(server.request("POST", "/v1/memories", &header, body).status, 201);
    assert_eq!(server.request("GET", "/v1/memories?all=true", &[("authorization", "Bearer 0")], "").status, 401);
    assert_eq!(server.request("GET", "/v1/memories?all=true", &header, "").json()["memories"][0]["spaceId"], "a-b");
    drop(server);
    let tokens = cli.write("tokens.toml", TOKENS);
    for (token, args, named) in
        [("", vec![], "16 bytes"), ("short", vec![], "16 bytes"), (secret, vec!["--tokens", &tokens], "leave one out")]
    {
        let refused = with(token).arg("serve").args(args).output().expect("the binary runs");
        assert_eq!(refused.status.code(), Some(2));
        let told = stderr(&refused);
        assert!(told.contains(named) && (token.is_empty() || !told.contains(token)), "{told}");
    }
}

#[test]
fn a_batch_is_stored_as_a_whole_and_walked_by_its_cursor() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let memory = |place: usize| json!({"spaceId": format!("g-m{place}"), "trigger": {"n": place, "is": "a word"}, "createdAt": 5});
    let batch = json!({"memories": (0..25).map(memory).collect::<Vec<_>>()});
    let ids = server.post("/v1/memories/batch", &batch.to_string()).json()["ids"].clone();
    for condition in ["", "&text=other+Words:+WORD"] {
        let mut walked = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = server.get(&format!("/v1/memories?under=g&limit=10&order=oldest{condition}{cursor}")).json();
            walked.extend(page["memories"].as_array().expect("memories").iter().map(|memory| memory["id"].clone()));
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(json!(walked), ids, "{condition}");
    }
    let mut bad = batch;
    bad["memories"][24]["spaceId"] = json!("");
    server.post("/v1/memories/batch", &bad.to_string()).problem(422);
    assert_eq!(cli.count(&["--all"]), 25);
}

#[test]
fn documents_are_put_found_and_removed() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let body = r#"{"spaceId":"guild1","content":"Ana has a cat","metadata":{"topic":"pets"}}"#;
    let path = "/v1/documents/notes/people%2Fana%20b";
    let created = server.request("PUT", path, &[("if-none-match", "*")], body);
    assert_eq!((created.status, created.header("location")), (201, Some("/v1/documents/notes/people%2Fana%20b")));
    server.request("PUT", path, &[("if-none-match", "*")], body).problem(412);
    let replaced = server.request("PUT", path, &[("if-match", "\"1\"")], body);
    assert_eq!((replaced.status, replaced.header("etag")), (200, Some("\"2\"")));
    server.request("PUT", path, &[("if-match", "\"1\"")], body).problem(412);
    assert_eq!(server.get(path).json()["id"], "people/ana b");
    let added = server.post("/v1/documents/notes", body).json()["id"].as_str().expect("an id").to_owned();
    let found = server.get("/v1/documents/notes?under=guild1&text=CAT").json();
    assert_eq!(found["documents"].as_array().map(Vec::len), Some(2));
    assert_eq!(server.get("/v1/collections").json(), json!({"collections": ["notes"]}));

    let remove = |query: &str| server.request("DELETE", &format!("/v1/documents/notes?{query}"), &[], "");
    remove("all=true").problem(422);
    remove("under=guild1&max=1").problem(409);
    let dry = remove(&format!("id={added}&dryRun=true"));
    assert_eq!(dry.json(), json!({"ids": [added], "dryRun": true}));
    assert_eq!(remove(&format!("id={added}")).json()["ids"], json!([added]));
    assert_eq!(server.request("DELETE", path, &[], "").status, 204);
    server.request("DELETE", path, &[], "").problem(404);
}

#[test]
fn documents_are_put_together_or_not_at_all() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let document =
        |collection: &str, id: &str| json!({"collection": collection, "id": id, "spaceId": "a", "content": id});
    let put = |documents: Value| server.post("/v1/documents", &json!({ "documents": documents }).to_string());
    let mut nameless = document("notes", "none");
    nameless.as_object_mut().expect("an object").remove("id");
    let answer = put(json!([document("notes", "x"), document("other", "x"), nameless]));
    assert_eq!(answer.status, 200, "{answer:?}");
    let first = answer.json()["documents"].clone();
    let place = |number: usize| (&first[number]["collection"], &first[number]["id"], &first[number]["revision"]);
    assert_eq!(
        [place(0), place(1)],
        [(&json!("notes"), &json!("x"), &json!(1)), (&json!("other"), &json!("x"), &json!(1))]
    );
    assert!(first[2]["id"].as_str().is_some_and(|id| id != "none") && first[2].get("content").is_none());

    let mut second = document("notes", "x");
    for (expect, status) in
        [(json!("absent"), 409), (json!({"revision": 2}), 409), (json!({"revision": 1.0}), 200), (json!("any"), 200)]
    {
        second["expect"] = expect;
        assert_eq!(put(json!([document("notes", "y"), second])).status, status, "{second}");
    }
    assert_eq!(server.get("/v1/documents/notes/y").json()["revision"], 2, "a refused call puts nothing");
    let twice = put(json!([document("notes", "z"), document("notes", "z")]));
    assert_eq!((twice.status, twice.json()["error"].clone()), (422, json!("InvalidInput")));
    put(json!([["notes", "z", "a", "z"]])).problem(422);
    // Names of collections and ids that look like a path of the server are served as before.
    assert_eq!(server.request("PUT", "/v1/documents/batch/batch", &[], r#"{"spaceId":"a","content":"x"}"#).status, 201);
}

#[test]
fn a_value_in_a_body_is_refused_with_the_kind_of_its_error() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let (text, space) = ("x".repeat((1 << 20) + 1), "s".repeat(513));
    let metadata = json!({"k": "x".repeat(64 << 10)});
    let large = [
        ("/v1/memories", json!({"spaceId": space, "trigger": 1})),
        ("/v1/memories", json!({"spaceId": "a", "trigger": 1, "metadata": metadata})),
        ("/v1/memories", json!({"spaceId": "a", "trigger": "x".repeat(4 << 20)})),
        ("/v1/memories/batch", json!({"memories": [{"spaceId": "a", "trigger": "x".repeat(4 << 20)}]})),
        ("/v1/documents/notes", json!({"spaceId": "a", "content": text})),
        ("/v1/documents", json!({"documents": [{"collection": "notes", "spaceId": "a", "content": text}]})),
    ];
    let invalid = [
        ("/v1/memories", json!({"spaceId": "a\u{1}b", "trigger": 1})),
        ("/v1/memories", json!({"spaceId": "a", "trigger": 1, "createdAt": 8_640_000_000_001_i64})),
        ("/v1/documents/notes", json!({"spaceId": "a", "content": "a\0b"})),
    ];
    let cases =
        large.iter().map(|case| (case, 413, "TooLarge")).chain(invalid.iter().map(|case| (case, 422, "InvalidInput")));
    for ((path, body), status, kind) in cases {
        let refused = server.post(path, &body.to_string());
        refused.problem(status);
        assert_eq!(refused.json()["error"], kind, "{path}");
    }
    assert_eq!(cli.count(&["--all"]), 0);
}

#[test]
fn a_token_confines_its_caller() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let call = |token: &str, method: &str, path: &str, body: &str| {
        server.request(method, path, &[("authorization", &format!("Bearer {token}"))], body)
    };
    let (runtime, model) = ("runtime-0123456789abcdef", "model-0123456789abcdef");
    for path in ["/v1/health", "/v1/memories?all=true", "/metrics", "/mcp", "/v1/openapi.json", "/nothing"] {
        let refused = server.get(path);
        refused.problem(401);
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        call("model-0123456789abcdeg", "GET", path, "").problem(401);
    }
    let memory = |space: &str| format!(r#"{{"spaceId":"{space}","trigger":{{"text":"secret"}}}}"#);
    let document = |space: &str| format!(r#"{{"spaceId":"{space}","content":"secret"}}"#);
    for space in ["guild1", "guild1-a", "guild1-model-x"] {
        assert_eq!(call(runtime, "POST", "/v1/memories", &memory(space)).status, 201, "{space}");
        assert_eq!(call(runtime, "PUT", &format!("/v1/documents/notes/{space}"), &document(space)).status, 201);
    }
    for space in ["guild12", "guild2"] {
        call(runtime, "POST", "/v1/memories", &memory(space)).problem(403);
        call(runtime, "PUT", "/v1/documents/notes/x", &document(space)).problem(403);
    }
    let foreign = call(runtime, "GET", "/v1/memories?space=guild1-a", "").json()["memories"][0]["id"].clone();
    let foreign = format!("/v1/memories/{}", foreign.as_str().expect("an id"));
    // The model reads and writes its own space, and its token does not write the ledger.
    let seen = call(model, "GET", "/v1/memories?all=true", "").json();
    assert_eq!(seen["memories"].as_array().map(Vec::len), Some(1));
    call(model, "GET", &foreign, "").problem(404);
    call(model, "PATCH", &foreign, r#"{"status":"failed"}"#).problem(403);
    call(model, "POST", "/v1/memories", &memory("guild1-model")).problem(403);
    call(model, "GET", "/v1/documents/notes/guild1", "").problem(404);
    call(model, "DELETE", "/v1/documents/notes/guild1", "").problem(404);
    call(model, "PUT", "/v1/documents/notes/guild1", &document("guild1-model")).problem(409);
    call(model, "PUT", "/v1/documents/private/x", &document("guild1-model")).problem(403);
    let put = |collection: &str, id: &str, space: &str| {
        let document = |collection: &str, id: &str, space: &str| json!({"collection": collection, "id": id, "spaceId": space, "content": "secret"});
        let documents = [document("notes", "first", "guild1-model"), document(collection, id, space)];
        call(model, "POST", "/v1/documents", &json!({ "documents": documents }).to_string())
    };
    put("notes", "x", "guild1").problem(403);
    put("private", "x", "guild1-model").problem(403);
    put("notes", "guild1", "guild1-model").problem(409);
    call(model, "GET", "/v1/documents/notes/first", "").problem(404);
    assert_eq!(put("notes", "second", "guild1-model-x").status, 200);
    let everything = "/v1/documents/notes?where=id+IS+NOT+NULL&all=true";
    let removed = call(model, "DELETE", everything, "").json();
    assert_eq!(removed["ids"], json!(["first", "guild1-model-x", "second"]));
    assert_eq!(
        call(runtime, "GET", "/v1/documents/notes?all=true", "").json()["documents"].as_array().map(Vec::len),
        Some(2)
    );
}

/// A claim that a runtime would trust: it may read everything, and has to write into another's space.
const FORGED: &str = r#"{"task":{"container":"guild","related":[{"prefix":"g"}],"leaseUntil":0}}"#;

#[test]
fn a_confined_caller_forges_no_task_and_touches_none() {
    let cli = Cli::new();
    let id = cli.ok(&["store", "--space", "guild1-a", "--trigger", "1", "--metadata", FORGED]);
    let task = format!("/v1/memories/{}", id.trim());
    let free = cli.ok(&["store", "--space", "guild1-b", "--trigger", "1"]);
    let free = format!("/v1/memories/{}", free.trim());
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let token = ("authorization", "Bearer runtime-0123456789abcdef");
    let memory = format!(r#"{{"spaceId":"guild1-c","trigger":1,"metadata":{FORGED}}}"#);
    for (method, path, body) in [
        ("POST", "/v1/memories", memory.clone()),
        ("POST", "/v1/memories", memory.replace("task", r"t\u0061sk")),
        ("POST", "/v1/memories/batch", format!(r#"{{"memories":[{{"spaceId":"guild1","trigger":1}},{memory}]}}"#)),
        ("PATCH", &free, format!(r#"{{"metadata":{{"merge":{FORGED}}}}}"#)),
        ("PATCH", &free, format!(r#"{{"metadata":{{"replace":{FORGED}}}}}"#)),
        ("PATCH", &task, r#"{"metadata":{"replace":{}}}"#.to_owned()),
        ("PATCH", &task, r#"{"context":{"set":[]}}"#.to_owned()),
        ("PATCH", &task, r#"{"status":"pending"}"#.to_owned()),
    ] {
        let refused = server.request(method, path, &[token], &body).problem(403);
        assert!(refused.contains("task"), "{method} {path} {body}: {refused}");
    }
    assert_eq!(server.request("PATCH", &free, &[token], r#"{"metadata":{"merge":{"tasks":1}}}"#).status, 200);
    drop(server);

    let server = Server::start(&cli, &["--ledger", "write", "--write", "guild1"]);
    let mcp = Mcp::connect(&server);
    let forged: serde_json::Value = serde_json::from_str(FORGED).expect("JSON");
    let free = &free["/v1/memories/".len()..];
    for (tool, arguments) in [
        ("memory_store", json!({"trigger": 1, "metadata": forged})),
        ("memory_update", json!({"id": free, "mergeMetadata": forged})),
        ("memory_update", json!({"id": free, "replaceMetadata": forged})),
        ("memory_update", json!({"id": id.trim(), "status": "pending"})),
    ] {
        let refused = mcp.call(tool, &arguments);
        assert!(refused.contains("belongs to the runtime"), "{tool} {arguments}: {refused}");
    }
    // A caller without a token of a file may.
    assert_eq!(server.request("PATCH", &task, &[], r#"{"status":"failed"}"#).status, 200);
    assert_eq!(cli.count(&["--all"]), 2);
}

#[test]
fn only_who_is_meant_gets_in() {
    let cli = Cli::new();
    let refused = cli.fails(2, &["serve", "--listen", "0.0.0.0:0"]);
    assert!(refused.contains("--tokens"), "{refused}");
    let missing = cli.fails(2, &["serve", "--tokens", "nowhere.toml"]);
    assert!(missing.contains("nowhere.toml"), "{missing}");

    let server = Server::start(&cli, &["--max-body", "1000", "--allow-host", "memory.example"]);
    for (headers, status) in [
        (&[("host", "memory.example")][..], 200),
        (&[("host", "evil.example")], 421),
        (&[("host", "localhost"), ("origin", "http://evil.example")], 403),
        (&[("host", "localhost"), ("origin", "http://localhost")], 200),
    ] {
        assert_eq!(server.request("GET", "/v1/health", headers, "").status, status, "{headers:?}");
    }
    let mcp = server.request("POST", "/mcp", &[("host", "evil.example")], "{}");
    mcp.problem(421);
    let large = format!(r#"{{"spaceId":"a","trigger":"{}"}}"#, "x".repeat(2_000));
    server.post("/v1/memories", &large).problem(413);
    server.request("POST", "/v1/memories", &[("content-type", "text/plain")], "").problem(415);
    server.post("/v1/memories", "[1]").problem(400);
    for member in [r#""createdAt":"xyzzy""#, r#""status":"xyzzy, expected xyzzy""#, r#""xyzzy, expected xyzzy":1"#] {
        let secret = server.post("/v1/memories", &format!(r#"{{"spaceId":"a","trigger":1,{member}}}"#));
        assert!(!secret.problem(422).contains("xyzzy"), "the answer quotes a value: {secret:?}");
    }
    server.get("/nothing").problem(404);
    let wrong = server.request("DELETE", "/v1/health", &[], "");
    wrong.problem(405);
    assert_eq!(wrong.header("allow"), Some("GET,HEAD"));
}

#[test]
fn what_the_server_does_is_counted_and_described() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    assert_eq!(server.get("/v1/health").json()["engine"], "sqlite");
    let metrics = server.get("/metrics").body;
    let counted = r#"agent_memory_http_requests_total{method="GET",route="/v1/health",status="200"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(server.post("/v1/memories", r#"{"spaceId":"a","trigger":1}"#).status, 201);
    assert_eq!(server.get("/v1/memories?all=true").status, 200);
    assert_eq!(server.get("/v1/memories?all=true&where=id+IS+NULL").status, 200);
    // Work may end after its answer, and the server itself calls the engine at times.
    let is_idle = || {
        let metrics = server.get("/metrics").body;
        ["calls_in_flight", "sessions_in_use", "heavy_calls_running", "heavy_calls_waiting"]
            .iter()
            .all(|name| metrics.contains(&format!("\nagent_memory_{name} 0\n")))
    };
    eventually("nothing runs", is_idle);
    let metrics = server.get("/metrics").body;
    for counted in [
        "heavy_calls_total 1",
        "heavy_calls_refused_total 0",
        "calls_late_total 0",
        "records_examined_total 2",
        "pages_cut_total 0",
    ] {
        assert!(metrics.contains(&format!("\nagent_memory_{counted}\n")), "{counted}: {metrics}");
    }
    let api = server.get("/v1/openapi.json").json();
    assert_eq!(api["openapi"], "3.1.0");
    assert_eq!(api["paths"].as_object().map(serde_json::Map::len), Some(20));
}

#[test]
fn what_was_replaced_is_shown_with_who_did_it() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let call = |token: &str, method: &str, path: &str, body: &str| {
        server.request(method, path, &[("authorization", &format!("Bearer {token}"))], body)
    };
    let (runtime, model) = ("runtime-0123456789abcdef", "model-0123456789abcdef");
    let stored = call(runtime, "POST", "/v1/memories", r#"{"spaceId":"guild1-model","trigger":{"n":1.50}}"#);
    let path = stored.header("location").expect("a location").to_owned();
    let stored_at = call(runtime, "GET", &format!("{path}/history"), "").json()["versions"][0]["committedAt"].clone();
    for context in ["1.0", "2.0"] {
        let patch = format!(r#"{{"context":{{"set":{context}}}}}"#);
        assert_eq!(call(runtime, "PATCH", &path, &patch).status, 200);
    }
    let history = call(model, "GET", &format!("{path}/history?limit=2"), "");
    assert!(history.body.contains(r#""context":2.0"#), "kept byte for byte: {}", history.body);
    let page = history.json();
    let told = |version: &Value| (version["revision"].clone(), version["actor"].clone());
    let versions = page["versions"].as_array().expect("a list");
    assert_eq!(
        versions.iter().map(told).collect::<Vec<_>>(),
        [(json!(3), json!("runtime")), (json!(2), json!("runtime"))]
    );
    let next = format!("{path}/history?cursor={}", page["next"].as_str().expect("more"));
    let rest = call(model, "GET", &next, "").json();
    assert_eq!((rest["versions"][0]["memory"]["revision"].clone(), rest.get("next")), (json!(1), None));
    let then = call(model, "GET", &format!("{path}?asOf={stored_at}"), "");
    assert_eq!(then.status, 200, "{}", then.body);
    assert!(then.json()["revision"].as_u64() < Some(4) && then.body.contains(r#""n":1.50"#), "{}", then.body);
    call(model, "GET", &format!("{path}?asOf=1"), "").problem(422);
    call(model, "GET", "/v1/memories/00000000-0000-7000-8000-000000000000/history", "").problem(404);

    // The caller sees a document that was elsewhere before only where it may read.
    let note = "/v1/documents/notes/n";
    call(runtime, "PUT", note, r#"{"spaceId":"guild1","content":"secret"}"#);
    call(model, "GET", &format!("{note}/history"), "").problem(404);
    call(runtime, "PUT", note, r#"{"spaceId":"guild1-model","content":"told"}"#);
    let seen = call(model, "GET", &format!("{note}/history"), "");
    assert_eq!(seen.json()["versions"].as_array().map(Vec::len), Some(1), "{}", seen.body);
    assert!(!seen.body.contains("secret"), "{}", seen.body);
    let since = seen.json()["versions"][0]["committedAt"].as_i64().expect("a time");
    let before = call(model, "GET", &format!("{note}?asOf={}", since - 1), "");
    assert!(!before.body.contains("secret"), "{}", before.body);
    assert_eq!(call(runtime, "DELETE", note, "").status, 204);
    call(runtime, "GET", &format!("{note}/history"), "").problem(404);
    call(runtime, "GET", &format!("{note}/history?removed=true"), "").problem(403);
    drop(server);
    let server = Server::start(&cli, &[]);
    let all = server.get(&format!("{note}/history?removed=true")).json();
    let versions = all["versions"].as_array().expect("a list");
    assert_eq!(versions.len(), 3, "{all}");
    assert_eq!((&versions[0]["actor"], versions[0].get("document")), (&json!("runtime"), None));
    assert_eq!(versions[2]["document"]["content"], "secret");
    server.get("/v1/documents/notes/nothing/history?removed=true").problem(404);
}

#[test]
fn patterns_are_bounded_in_number() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    assert_eq!(server.post("/v1/memories", r#"{"spaceId":"a-1","trigger":1}"#).status, 201);
    let globs = "glob=?-1&".repeat(31);
    let found = server.get(&format!("/v1/memories?{globs}regex=1$"));
    assert_eq!(found.json()["memories"].as_array().map(Vec::len), Some(1), "{found:?}");
    server.get(&format!("/v1/memories?{globs}glob=a*&regex=(")).problem(413);
    server.get("/v1/documents/notes?regex=(").problem(422);
    server.request("DELETE", "/v1/documents/notes?glob=&dryRun=true", &[], "").problem(422);
}

#[test]
fn requests_are_bounded_in_number_and_time() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--concurrency", "1", "--timeout", "1"]);
    let database = cli.database("memory.db");
    database.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let body = r#"{"spaceId":"a","trigger":"waits for the lock"}"#;
    let mut waiting = server.let_in("/v1/memories", &[], body);
    let full = server.get("/v1/health");
    full.problem(503);
    assert_eq!((full.header("retry-after"), full.json()["retryable"].as_bool()), (Some("1"), Some(true)));
    waiting.write_all(body.as_bytes()).expect("the server reads");
    let late = read(&mut waiting);
    late.problem(504);
    assert_eq!(late.json()["outcome"], "unknown");
    assert_eq!(server.get("/v1/health").status, 200, "the place is free again");
}

#[test]
fn no_token_takes_the_places_of_all_others() {
    let cli = Cli::new();
    let tokens = cli.write("tokens.toml", TOKENS);
    let server = Server::start(&cli, &["--concurrency", "2", "--tokens", &tokens]);
    let as_runtime = ("authorization", "Bearer runtime-0123456789abcdef");
    let as_model = ("authorization", "Bearer model-0123456789abcdef");
    let body = r#"{"spaceId":"guild1","trigger":"waits for its body"}"#;
    let mut waiting = server.let_in("/v1/memories", &[as_runtime], body);
    let get = |token| server.request("GET", "/v1/memories?under=guild1", &[token], "").status;
    assert_eq!(get(as_runtime), 503, "the request that waits has the token's one place");
    assert_eq!(get(as_model), 200, "half of the places are left to the others");
    waiting.write_all(body.as_bytes()).expect("the server reads");
    assert_eq!(read(&mut waiting).status, 201);
    assert_eq!(get(as_runtime), 200);
}

#[test]
fn a_probe_needs_no_token_and_takes_no_place() {
    let cli = Cli::new();
    let mut command = cli.command();
    command.env("AGENT_MEMORY_TOKEN", "secret-0123456789abcdef");
    let server = Server::start_as(command, &["--concurrency", "1"]);
    let token = ("authorization", "Bearer secret-0123456789abcdef");
    let body = r#"{"spaceId":"guild1","trigger":"waits for its body"}"#;
    let mut waiting = server.let_in("/v1/memories", &[token], body);
    server.request("GET", "/v1/health", &[token], "").problem(503);
    for (path, answer) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        // An orchestrator may use any host name.
        for headers in [&[][..], &[("host", "memory.internal.example")]] {
            let told = server.request("GET", path, headers, "");
            assert_eq!((told.status, told.body.as_str()), (200, answer), "{told:?}");
        }
        server.post(path, "").problem(405);
    }
    assert_eq!(cli.ok(&["probe", &server.address]), "");
    waiting.write_all(body.as_bytes()).expect("the server reads");
    assert_eq!(read(&mut waiting).status, 201);

    let address = server.address.clone();
    drop(server);
    let error = cli.fails(1, &["probe", &address]);
    assert!(error.starts_with("error: the server can't be asked"), "{error}");
}
#[test]
fn tool_calls_are_bounded_in_number_and_time() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--concurrency", "1", "--timeout", "1"]);
    let clients = [Mcp::connect(&server), Mcp::connect(&server)];
    let database = cli.database("memory.db");
    database.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let save = json!({"content": "waits for the lock"});
    let mut calls = clients.each_ref().map(|client| client.begin("memory_add_document", &save));
    // Their order is not defined.
    let answers = calls.each_mut().map(read_rest);
    let told = |sentence: &str| answers.iter().filter(|answer| answer.contains(sentence)).count();
    let counts = (told("limit of concurrent calls"), told("longer than the server allows"));
    assert_eq!(counts, (1, 1), "{answers:?}");
    drop(database);
    assert!(clients[0].call("memory_add_document", &save).contains("spaceId"), "the place is free again");
}

#[test]
fn sessions_are_bounded_in_number() {
    let cli = Cli::new();
    let server = Server::start(&cli, &["--concurrency", "1"]);
    let mut clients: Vec<_> = (0..16).map(|_| Mcp::connect(&server)).collect();
    let refused = Mcp::introduce(&server, &[]);
    assert!(refused.body.contains("limit of sessions"), "{refused:?}");
    clients.pop().expect("a client").end();
    eventually("the place is free again", || Mcp::introduce(&server, &[]).body.contains("serverInfo"));
}

#[test]
fn no_token_takes_the_sessions_of_all_others() {
    let cli = Cli::new();
    let tokens = cli.write("tokens.toml", TOKENS);
    let server = Server::start(&cli, &["--concurrency", "1", "--tokens", &tokens]);
    let introduce = |token| Mcp::introduce(&server, &[("authorization", token)]);
    for _ in 0..8 {
        assert!(introduce("Bearer runtime-0123456789abcdef").body.contains("serverInfo"));
    }
    let refused = introduce("Bearer runtime-0123456789abcdef");
    assert!(refused.body.contains("limit of sessions"), "{refused:?}");
    assert!(introduce("Bearer model-0123456789abcdef").body.contains("serverInfo"), "half are left to the others");
}

#[test]
fn a_client_that_leaves_is_counted_no_more() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let in_flight = |count| {
        // The request for the metrics is one of them.
        let counted = format!("agent_memory_http_requests_in_flight {count}\n");
        eventually(&counted, || server.get("/metrics").body.contains(&counted));
    };
    let mut stream = server.connect();
    let request = server.raw("POST", "/v1/memories", &[], r#"{"spaceId":"a","trigger":"never complete"}"#);
    stream.write_all(&request.as_bytes()[..request.len() - 10]).expect("the server reads");
    in_flight(2);
    drop(stream);
    in_flight(1);
}

#[test]
fn a_backfill_goes_on_behind_the_server_and_is_logged() {
    let cli = Cli::new();
    drop(older::ledger(&cli.path("memory.db"), 8_000, Some(8_000)));
    let server = Server::start(&cli, &["--log", "info"]);
    let file = cli.database("memory.db");
    eventually("the index of words is gone", || {
        // Nobody waits for it.
        let found = server.get("/v1/memories?all=true&text=event7&order=oldest").json();
        assert_eq!(found["memories"][0]["trigger"], json!({"text": "event7"}));
        let left = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%words%'";
        file.query_row(left, [], |row| row.get::<_, i64>(0)).expect("a count") == 0
    });
    server.terminate();
    let (status, log) = server.wait();
    assert!(status.success() && log.contains("backfill: the removal of the index of words: "), "{log}");
}

#[test]
fn payloads_are_logged_only_on_request() {
    const SECRETS: [&str; 5] = ["in-a-body", "in-a-query", "in-an-answer", "in-a-call", "in-a-mistake"];
    let logged = |args: &[&str]| {
        let cli = Cli::new();
        cli.ok(&["store", "--space", "a-b", "--trigger", r#""in-an-answer""#]);
        let server = Server::start(&cli, &[&["--log", "trace"], args].concat());
        assert_eq!(server.post("/v1/memories", r#"{"spaceId":"a-b","trigger":"in-a-body"}"#).status, 201);
        server.post("/v1/memories", r#"{"spaceId":"a-b","trigger":1,"createdAt":"in-a-mistake"}"#).problem(422);
        let found = server.get("/v1/memories?under=a&where=text+%3D+%27in-an-answer%27+OR+id+%3D+%27in-a-query%27");
        assert!(found.body.contains("in-an-answer"), "{found:?}");
        let mcp = Mcp::connect(&server);
        let saved = mcp.call("memory_add_document", &json!({"content": "in-a-call"}));
        assert!(saved.contains("spaceId"), "{saved}");
        mcp.call("memory_query", &json!({"where": "in-a-mistake"}));
        mcp.call("memory_query", &json!("in-a-mistake"));
        server.terminate();
        let (status, log) = server.wait();
        assert!(status.success() && log.contains("answered") && log.contains("memory_add_document"), "{log}");
        log
    };
    let log = logged(&[]);
    for secret in SECRETS {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
    let log = logged(&["--log-payloads"]);
    for secret in SECRETS {
        assert!(log.contains(secret), "{secret}: {log}");
    }
}

#[test]
fn what_comes_before_an_introduction_is_not_quoted() {
    let cli = Cli::new();
    let first = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1, "message": "xyzzy"}});
    let output = cli.fed(&["serve", "--stdio"], &format!("{first}\n"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = stderr(&output);
    assert!(told.starts_with("error: the client") && !told.contains("xyzzy"), "{told}");
}

#[test]
fn a_shutdown_lets_requests_finish() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let body = r#"{"spaceId":"a","trigger":"slow"}"#;
    let request = server.raw("POST", "/v1/memories", &[], body);
    let (first, rest) = request.split_at(request.len() - 10);
    let mut stream = server.connect();
    stream.write_all(first.as_bytes()).expect("the server reads");
    // The request is known to be in flight when the server counts it.
    eventually("it is in flight", || server.get("/metrics").body.contains("agent_memory_http_requests_in_flight 2\n"));
    server.terminate();
    eventually("nobody listens", || std::net::TcpStream::connect(&server.address).is_err());
    stream.write_all(rest.as_bytes()).expect("the server reads on");
    assert_eq!(read(&mut stream).status, 201);
    assert!(server.wait().0.success());
    assert_eq!(cli.count(&["--all"]), 1);
}
