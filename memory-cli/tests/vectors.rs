//! Recall by meaning, over the command line and over HTTP, and its vectors.

use common::embeddings::Embeddings;
use common::moving::{Follower, export};
use common::server::{Mcp, Server};
use common::{Cli, TOKENS, eventually};
use serde_json::{Value, json};

mod common;

/// The events, each in a container of its own.
const TURNS: [(&str, &str); 3] =
    [("guild1-a-1", "The kitten sleeps"), ("guild1-b-1", "We went out in the canoe"), ("guild1-c-1", "So much rain")];

/// A question that shares no word with its answer.
const QUESTION: &str = "Which animal?";

/// A folder with the events and a document.
fn filled() -> Cli {
    let cli = Cli::new();
    for (space, text) in TURNS {
        cli.ok(&["store", "--space", space, "--trigger", &json!({ "text": text }).to_string()]);
    }
    cli.ok(&["document", "put", "--collection", "notes", "--id", "n", "--space", "guild1", "--content", "A boat"]);
    cli
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn embed(cli: &Cli, model: &Embeddings, more: &[&str]) -> Value {
    json_of(&cli.ok(&[&["embed", "--json"], more, &model.options("small")].concat()))
}

fn status(cli: &Cli) -> Value {
    json_of(&cli.ok(&["embed", "--status", "--json"]))
}

/// The texts that a question finds.
fn found(answer: &Value) -> Vec<&str> {
    let hits = answer["hits"].as_array().expect("hits");
    hits.iter().map(|hit| hit["memory"]["trigger"]["text"].as_str().expect("a text")).collect()
}

fn database(cli: &Cli, name: &str) -> String {
    format!("sqlite://{}", cli.path(name).display())
}

#[test]
fn a_question_finds_what_is_meant_once_it_is_embedded() {
    let (cli, model) = (filled(), Embeddings::start());
    assert_eq!(status(&cli), json!({ "model": null, "records": 4, "unembedded": 4 }));
    assert_eq!(embed(&cli, &model, &[]), json!({ "embedded": 4, "refused": 0 }));
    let small = json!({ "name": "small", "width": 4, "precision": "compact" });
    assert_eq!(status(&cli), json!({ "model": small, "records": 4, "unembedded": 0 }));
    assert_eq!(embed(&cli, &model, &[]), json!({ "embedded": 0, "refused": 0 }));
    assert_eq!(model.asked("kitten"), 1);

    let ask = ["recall", "--under", "guild1", "--json", QUESTION];
    let hits = cli.ok(&[&ask[..], &model.options("small")].concat());
    let first = json_of(hits.lines().next().expect("a hit"));
    assert_eq!(first["memory"]["trigger"]["text"], "The kitten sleeps");
    assert!(first["parts"]["meaning"].as_f64() > Some(0.0), "{first}");
    assert_eq!(cli.ok(&[&ask[..], &["--no-meaning"], &model.options("small")].concat()), "");
    assert_eq!(cli.ok(&ask), "");
    let explained = cli.run(&[&["recall", "--all", "--explain", QUESTION], &model.options("small")[..]].concat());
    assert!(common::stdout(&explained).contains("meaning"), "{explained:?}");
    assert!(common::stderr(&explained).contains("cosines go from"), "{explained:?}");
    let notes = ["recall", "--all", "--collection", "notes", "--json", "Which vessel?"];
    assert!(cli.ok(&[&notes[..], &model.options("small")].concat()).contains("A boat"));
}

#[test]
fn a_model_takes_the_place_of_another_one_when_it_is_told_to() {
    let (cli, model) = (filled(), Embeddings::start());
    embed(&cli, &model, &[]);
    let other = model.options("other");
    let refused = cli.fails(1, &[&["embed"], &other[..]].concat());
    assert!(refused.contains("--take-over"), "{refused}");
    let refused = cli.fails(1, &[&["recall", "--all", QUESTION], &other[..]].concat());
    assert!(refused.contains("another embedding model than other"), "{refused}");
    let taken = cli.ok(&[&["embed", "--take-over", "--precision", "exact", "--json"], &other[..]].concat());
    assert_eq!(json_of(&taken)["embedded"], 4);
    let model = json!({ "name": "other", "width": 4, "precision": "exact" });
    assert_eq!(status(&cli), json!({ "model": model, "records": 4, "unembedded": 0 }));
}

#[test]
fn mistakes_are_told() {
    let cli = Cli::new();
    assert!(cli.fails(2, &["embed"]).contains("--embedder"));
    let endpoint = ["--embedder", "http://localhost:1/v1"];
    assert!(cli.fails(2, &[&["embed"], &endpoint[..]].concat()).contains("--embedder-model"));
    let secret = cli.fails(2, &["embed", "--embedder", "redis://:secret@host"]);
    assert!(secret.contains("a folder, or a URL") && !secret.contains("secret"), "{secret}");
    let folder = cli.fails(2, &["embed", "--embedder", "no-folder"]);
    assert_eq!(folder.contains("build it with --features local"), !cfg!(feature = "local"), "{folder}");
    assert!(cli.fails(2, &["embed", "--embedder-width", "5000"]).contains("--embedder-width"));
}

#[test]
fn a_server_embeds_what_is_stored() {
    let (cli, model) = (Cli::new(), Embeddings::start());
    let server = Server::start(&cli, &model.options("small"));
    for (space, text) in TURNS {
        let memory = json!({ "spaceId": space, "trigger": { "text": text } });
        assert_eq!(server.post("/v1/memories", &memory.to_string()).status, 201);
    }
    let ask = |more: &str| server.get(&format!("/v1/recall?under=guild1&text=Which+animal%3F{more}")).json();
    eventually("all are embedded", || ask("")["unembedded"] == 0);
    assert_eq!(found(&ask("&limit=1")), [TURNS[0].1]);
    let by_words = ask("&meaning=false");
    assert_eq!((found(&by_words), by_words.get("unembedded")), (vec![], None));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("agent_memory_vectors_made_total 3"), "{metrics}");

    // By a vector of the caller's own, with words or without.
    let vector = Embeddings::vector("canoe");
    let body = json!({ "under": ["guild1"], "vector": vector, "limit": 1 });
    assert_eq!(found(&server.post("/v1/recall", &body.to_string()).json()), [TURNS[1].1]);
    let body = json!({ "under": ["guild1"], "text": "rain", "limit": 1 });
    assert_eq!(found(&server.post("/v1/recall", &body.to_string()).json()), [TURNS[2].1]);
    for (body, status) in [
        (json!({ "under": ["guild1"] }), 422),
        (json!({ "under": ["guild1"], "vector": [1.0] }), 422),
        (json!({ "under": ["guild1"], "vector": "no vector" }), 422),
        (json!({ "under": ["guild1"], "vector": vector, "meaning": true }), 422),
        (json!({ "under": ["guild1"], "vector": vector, "secret": 1 }), 422),
    ] {
        server.post("/v1/recall", &body.to_string()).problem(status);
    }
    let client = Mcp::connect(&server);
    let answer = client.call("memory_recall", &json!({ "question": QUESTION, "limit": 1 }));
    assert!(answer.contains(TURNS[0].1), "{answer}");
}

#[test]
fn a_server_answers_by_words_where_its_model_is_another_one() {
    let (cli, model) = (filled(), Embeddings::start());
    embed(&cli, &model, &[]);
    let server = Server::start(&cli, &model.options("other"));
    let answer = server.get("/v1/recall?under=guild1&text=kitten").json();
    assert_eq!((found(&answer), answer.get("unembedded")), (vec![TURNS[0].1], None));
    let refused = server.get("/v1/recall?under=guild1&text=kitten&meaning=true");
    refused.problem(409);
    assert_eq!(refused.json()["error"], "SchemaMismatch");
}

#[test]
fn a_program_gives_vectors_of_its_own() {
    let cli = Cli::new();
    let server = Server::start(&cli, &[]);
    let memory = |text: &str, vector: Value| {
        let memory = json!({ "spaceId": "guild1-a-1", "trigger": { "text": text }, "vector": vector });
        server.post("/v1/memories", &memory.to_string())
    };
    let missing = server.get("/v1/vector-model");
    missing.problem(404);
    assert_eq!(missing.json()["error"], "NotFound");
    memory("The kitten", json!([1.0, 0.0])).problem(409);
    let model = json!({ "name": "mine", "width": 2, "precision": "exact" });
    assert_eq!(server.request("PUT", "/v1/vector-model", &[], &model.to_string()).json(), model);
    assert_eq!(server.get("/v1/vector-model").json(), model);
    memory("The kitten", json!([1.0, 0.0, 0.0])).problem(422);
    assert_eq!(server.get("/v1/memories?all=true").json()["memories"], json!([]), "nothing was stored");

    assert_eq!(memory("The kitten", json!([1.0, 0.0])).status, 201);
    let batch = json!({ "memories": [
        { "spaceId": "guild1-b-1", "trigger": { "text": "The canoe" }, "vector": [0.0, 1.0] },
        { "spaceId": "guild1-c-1", "trigger": { "text": "The rain" } },
    ] });
    assert_eq!(server.post("/v1/memories/batch", &batch.to_string()).status, 201);
    let ask = |vector: Value| {
        let body = json!({ "under": ["guild1"], "vector": vector });
        server.post("/v1/recall", &body.to_string()).json()
    };
    assert_eq!(found(&ask(json!([0.1, 1.0])))[0], "The canoe");
    assert_eq!((found(&ask(json!([1.0, 0.1])))[0], ask(json!([1, 0]))["unembedded"].clone()), ("The kitten", json!(1)));

    let put = json!({ "spaceId": "guild1", "content": "A boat", "vector": [0.0, 1.0] });
    assert_eq!(server.request("PUT", "/v1/documents/notes/n", &[], &put.to_string()).status, 201);
    let puts = json!({ "documents": [
        { "collection": "notes", "id": "m", "spaceId": "guild1", "content": "A cat", "vector": [1.0, 0.0] },
    ] });
    assert_eq!(server.post("/v1/documents", &puts.to_string()).status, 200);
    let added = json!({ "spaceId": "guild1", "content": "Another", "vector": [0.7, 0.7] });
    assert_eq!(server.post("/v1/documents/notes", &added.to_string()).status, 201);
    let body = json!({ "all": true, "collection": "notes", "vector": [0.0, 1.0], "limit": 1 });
    let answer = server.post("/v1/recall", &body.to_string()).json();
    assert_eq!((&answer["hits"][0]["document"]["id"], &answer["unembedded"]), (&json!("n"), &json!(0)));
    // Its present text has no vector yet.
    let put = json!({ "spaceId": "guild1", "content": "A ship" });
    assert_eq!(server.request("PUT", "/v1/documents/notes/n", &[], &put.to_string()).status, 200);
    let answer = server.post("/v1/recall", &body.to_string()).json();
    assert_eq!(answer["unembedded"], 1);
}

#[test]
fn a_token_embeds_where_it_may_write_and_asks_where_it_may_read() {
    let cli = filled();
    let outside = cli.ok(&["store", "--space", "guild2-a-1", "--trigger", r#"{"text":"outside"}"#]);
    let inside = cli.ok(&["store", "--space", "guild1-model-1", "--trigger", r#"{"text":"inside"}"#]);
    let (outside, inside) = (outside.trim(), inside.trim());
    {
        let server = Server::start(&cli, &[]);
        let model = json!({ "name": "mine", "width": 2 });
        assert_eq!(server.request("PUT", "/v1/vector-model", &[], &model.to_string()).status, 200);
    }
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let call = |token: &str, method: &str, path: &str, body: &Value| {
        let token = format!("Bearer {token}-0123456789abcdef");
        server.request(method, path, &[("authorization", &token)], &body.to_string())
    };
    let of = |embedding: Value| json!({ "model": "mine", "embeddings": [embedding] });
    let memory = |id: &str| of(json!({ "id": id, "revision": 1, "vector": [1.0, 0.0] }));
    assert_eq!(call("runtime", "POST", "/v1/embed", &memory(inside)).json(), json!({ "kept": [true] }));
    call("runtime", "POST", "/v1/embed", &memory(outside)).problem(403);
    call("model", "POST", "/v1/embed", &memory(inside)).problem(403);
    let document = of(json!({ "collection": "notes", "id": "n", "revision": 1, "vector": [1.0, 0.0] }));
    assert_eq!(call("runtime", "POST", "/v1/embed", &document).json(), json!({ "kept": [true] }));
    // For a caller who may not read it, it does not exist.
    assert_eq!(call("model", "POST", "/v1/embed", &document).json(), json!({ "kept": [false] }));
    let earlier = of(json!({ "collection": "notes", "id": "n", "revision": 2, "vector": [1.0, 0.0] }));
    assert_eq!(call("runtime", "POST", "/v1/embed", &earlier).json(), json!({ "kept": [false] }));
    let private = of(json!({ "collection": "private", "id": "n", "revision": 1, "vector": [1.0, 0.0] }));
    call("runtime", "POST", "/v1/embed", &private).problem(403);
    let other = json!({ "model": "other", "embeddings": [] });
    call("runtime", "POST", "/v1/embed", &other).problem(409);
    let wide = of(json!({ "id": inside, "revision": 1, "vector": [1.0, 0.0, 0.0] }));
    call("runtime", "POST", "/v1/embed", &wide).problem(422);
    let replaced = json!({ "name": "other", "width": 2 });
    call("runtime", "PUT", "/v1/vector-model", &replaced).problem(403);

    let ask = json!({ "all": true, "vector": [1.0, 0.0] });
    let answer = call("model", "POST", "/v1/recall", &ask).json();
    assert_eq!((found(&answer), &answer["examined"]), (vec!["inside"], &json!(1)));
    let answer = call("runtime", "POST", "/v1/recall", &ask).json();
    assert_eq!((&answer["examined"], &answer["unembedded"]), (&json!(5), &json!(4)));
}

#[test]
fn an_export_has_the_vectors_and_an_import_brings_them() {
    let (cli, model) = (filled(), Embeddings::start());
    embed(&cli, &model, &[]);
    let lines = cli.ok(&["export"]);
    let first = lines.lines().next().expect("a line");
    assert_eq!(first, r#"{"kind":"vectorModel","name":"small","width":4,"precision":"compact"}"#);
    assert_eq!(lines.matches(r#","vector":""#).count(), 4);
    assert!(!cli.ok(&["export", "--without-vectors"]).contains("vector"));
    let file = cli.write("export.jsonl", &lines);
    let (copy, other) = (database(&cli, "copy.db"), database(&cli, "other.db"));
    let import = |to: &str, file: &str| json_of(&cli.ok(&["--url", to, "import", file, "--json"]));
    let told = import(&copy, &file);
    assert_eq!([&told["lines"], &told["written"], &told["vectors"], &told["vectorsLeftOut"]], [4, 4, 4, 0]);
    assert_eq!(cli.ok(&["--url", &copy, "export"]), lines);
    let told = import(&copy, &file);
    assert_eq!([&told["written"], &told["unchanged"]], [0, 4]);
    assert_eq!(cli.ok(&["--url", &copy, "export"]), lines);

    // A target that has another model keeps it.
    cli.ok(&[&["--url", &other, "embed"], &model.options("other")[..]].concat());
    let told = import(&other, &file);
    assert_eq!([&told["written"], &told["vectors"], &told["vectorsLeftOut"]], [4, 0, 4]);
    assert!(!cli.ok(&["--url", &other, "export"]).contains(r#","vector":""#));

    let history = cli.write("history.jsonl", cli.ok(&["export", "--history"]));
    let told = import(&database(&cli, "history.db"), &history);
    assert_eq!([&told["written"], &told["vectors"]], [4, 4]);
    assert_eq!(cli.ok(&["--url", &database(&cli, "history.db"), "export"]), lines);

    // A line before the vectors names their model.
    let headless = cli.write("headless.jsonl", lines.lines().skip(1).collect::<Vec<_>>().join("\n"));
    let refused = cli.fails(1, &["import", &headless]);
    assert!(refused.contains("line 1: no earlier line names the model"), "{refused}");
}

#[test]
fn a_copy_brings_the_vectors() {
    let (cli, model) = (filled(), Embeddings::start());
    embed(&cli, &model, &[]);
    let (from, to) = (database(&cli, "memory.db"), database(&cli, "copy.db"));
    let copy = || json_of(&cli.ok(&["copy", "--to", &to, "--json"]));
    let told = copy();
    assert_eq!([&told["written"], &told["vectors"], &told["vectorsLeftOut"]], [4, 4, 0]);
    assert_eq!(export(&cli, &to), export(&cli, &from));
    let told = copy();
    assert_eq!([&told["written"], &told["vectors"]], [0, 0], "they are there");
    // How far the source was embedded is its own.
    let marks = |url: &str| cli.ok(&["--url", url, "document", "query", "--collection", "_embed", "--all", "--json"]);
    assert_eq!((marks(&from).is_empty(), marks(&to).is_empty()), (false, true));
}

#[test]
fn a_target_that_takes_over_has_the_vectors_that_were_made_meanwhile() {
    let (cli, model) = (filled(), Embeddings::start());
    let (from, to) = (database(&cli, "memory.db"), database(&cli, "copy.db"));
    let mut follower = Follower::start(&cli, &from, &to);
    follower.wait_for("up to date: ");
    assert!(follower.interrupt().success());
    // No change reports it.
    embed(&cli, &model, &[]);
    let told = json_of(&cli.ok(&["copy", "--follow", "--finish", "--to", &to, "--json"]));
    assert_eq!((&told["verified"], &told["vectors"]), (&json!(true), &json!(4)));
    let source = export(&cli, &from);
    assert_eq!(export(&cli, &to), source);
    assert_eq!(source.iter().filter(|line| line.contains(r#","vector":""#)).count(), 4);
}
