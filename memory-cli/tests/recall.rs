//! Questions in words, over the command line and over HTTP.

use common::server::Server;
use common::{Cli, TOKENS, stderr};
use serde_json::{Value, json};

mod common;

/// A conversation in which the answer to a question is beside the question's words.
const TURNS: [(&str, &str); 6] = [
    ("Mel", "Good morning!"),
    ("Mel", "I have got a new camera"),
    ("Ana", "Oh, which one?"),
    ("Mel", "A small one, from my uncle"),
    ("Ana", "Did you try the lake?"),
    ("Mel", "Not yet, the weather was bad"),
];

/// A folder with that conversation, once in a room and once with another tenant.
fn conversation() -> Cli {
    let cli = Cli::new();
    let mut lines = String::new();
    for tenant in ["guild1", "guild12"] {
        for (number, (speaker, text)) in TURNS.into_iter().enumerate() {
            let memory = json!({
                "spaceId": format!("{tenant}-room-{number}"),
                "trigger": {"speaker": speaker, "text": text},
                "createdAt": 1_683_504_000_000_u64 + number as u64,
                "metadata": {"speaker": speaker},
            });
            lines += &format!("{memory}\n");
        }
    }
    for (id, text) in [("cameras", "Cameras of the house"), ("boats", "The lake has boats")] {
        lines += &format!(
            "{}\n",
            json!({
                "kind": "document", "collection": "notes", "id": id, "spaceId": "guild1-notes", "content": text, "createdAt": 7,
            })
        );
    }
    let imported = cli.fed(&["import", "-"], &lines);
    assert!(imported.status.success(), "{}", stderr(&imported));
    cli
}

fn lines(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn texts(hits: &[Value]) -> Vec<&str> {
    hits.iter().map(|hit| hit["memory"]["trigger"]["text"].as_str().expect("a text")).collect()
}

#[test]
fn the_command_and_the_server_answer_alike() {
    let cli = conversation();
    let told = lines(&cli.ok(&["recall", "--json", "--under", "guild1", "--limit", "3", "Did Mel get a camera?"]));
    assert_eq!(texts(&told)[0], "I have got a new camera");
    assert_eq!(told.len(), 3);
    let server = Server::start(&cli, &[]);
    let answer = server.get("/v1/recall?under=guild1&limit=3&text=Did+Mel+get+a+camera%3F").json();
    assert_eq!(answer["hits"], json!(told));
    assert_eq!((&answer["examined"], &answer["complete"]), (&json!(6), &json!(true)));
    for hit in &told {
        let parts = hit["parts"].as_object().expect("parts");
        let sum: f64 = parts.values().map(|part| part.as_f64().expect("a number")).sum();
        assert!((sum - hit["score"].as_f64().expect("a score")).abs() < 1e-9, "{hit}");
    }
    assert!(told[0]["parts"]["speaker"].as_f64() > Some(0.0), "the question names Mel");
}

#[test]
fn neighbours_and_reasons_are_shown_on_request() {
    let cli = conversation();
    let options = ["--under", "guild1", "--limit", "1", "--neighbours", "1", "--explain"];
    let told = lines(&cli.ok(&[&["recall", "--json", "camera"], &options[..]].concat()));
    let around = [&told[0]["before"][0], &told[0]["after"][0]].map(|turn| &turn["memory"]["trigger"]["text"]);
    assert_eq!(around, ["Good morning!", "Oh, which one?"]);
    assert_eq!(told[0]["terms"][0]["term"], "camera");
    let table = cli.run(&[&["recall", "camera"], &options[..]].concat());
    assert!(stderr(&table).contains("6 records"), "{table:?}");
    let table = common::stdout(&table);
    assert!(table.contains("camera 1.") && table.contains("Good morning!"), "{table}");
    let server = Server::start(&cli, &[]);
    let answer = server.get("/v1/recall?under=guild1&text=camera&limit=1&neighbours=1&explain=true").json();
    assert_eq!(answer["hits"][0], told[0]);
    assert_eq!(answer["explained"]["records"], 6);
    let alone = server.get("/v1/recall?under=guild1&text=camera&limit=1&container=depth:9").json();
    assert_eq!(alone["hits"].as_array().map(Vec::len), Some(1));
}

#[test]
fn documents_are_asked_by_their_collection() {
    let cli = conversation();
    let ask = ["recall", "--json", "--collection", "notes", "--under", "guild1", "a boat on the lake"];
    let told = lines(&cli.ok(&ask));
    assert_eq!(told[0]["document"]["id"], "boats");
    let server = Server::start(&cli, &[]);
    let answer = server.get("/v1/recall?collection=notes&under=guild1&text=a+boat+on+the+lake").json();
    assert_eq!(answer["hits"], json!(told));
    server.get("/v1/recall?collection=notes&under=guild1&text=lake&status=failed").problem(422);
    let refused = cli.fails(2, &["recall", "--collection", "notes", "--all", "--after", "1", "lake"]);
    assert!(refused.contains("--collection"), "{refused}");
}

#[test]
fn a_token_asks_what_it_may_read() {
    let cli = conversation();
    cli.ok(&["store", "--space", "guild1-model-1", "--trigger", r#"{"text":"my camera"}"#]);
    let server = Server::start(&cli, &["--tokens", &cli.write("tokens.toml", TOKENS)]);
    let ask = |token: &str, query: &str| {
        let token = format!("Bearer {token}-0123456789abcdef");
        server.request("GET", &format!("/v1/recall?text=camera&{query}"), &[("authorization", &token)], "")
    };
    let answer = ask("model", "all=true&neighbours=2").json();
    assert_eq!(texts(answer["hits"].as_array().expect("hits")), ["my camera"]);
    assert_eq!(answer["examined"], 1);
    assert_eq!(ask("model", "under=guild12").json()["hits"], json!([]));
    ask("model", "collection=private&all=true").problem(403);
    server.get("/v1/recall?text=camera&all=true").problem(401);
    assert!(ask("runtime", "all=true").json()["examined"].as_u64() > Some(12));
}

#[test]
fn what_is_found_of_known_answers_is_measured() {
    let cli = Cli::new();
    let mut lines = String::new();
    for (number, (_, text)) in TURNS.into_iter().enumerate() {
        let memory = json!({
            "spaceId": format!("talk-1-{number}"), "trigger": text, "createdAt": number, "metadata": {"diaId": format!("D{number}")},
        });
        lines += &format!("{memory}\n");
    }
    cli.write("talk.jsonl", lines);
    cli.write(
        "talk.qa.jsonl",
        r#"{"question": "Who has a camera?", "evidence": ["D1"], "category": "one"}
{"question": "What about the lake?", "evidence": ["D4", "D9"], "category": "one"}
{"question": "Is there a zebra?", "evidence": ["D5"], "category": "none"}
{"question": "What is not among the memories?", "evidence": ["D9"], "category": "none"}
"#,
    );
    let measured: Value = serde_json::from_str(&cli.ok(&["eval", ".", "--json"])).expect("JSON");
    let row = |category: &str, questions: usize, part: f64| {
        let part = json!({"5": part, "10": part, "25": part, "50": part});
        json!({"category": category, "questions": questions, "recall": part})
    };
    let rows = json!([row("all", 3, 2.0 / 3.0), row("none", 1, 0.0), row("one", 2, 1.0)]);
    assert_eq!(measured["rows"], rows);
    assert_eq!(cli.count(&["--all"]), 0, "it leaves nothing behind");
    let table = cli.ok(&["eval", "."]);
    assert!(table.contains("one") && table.contains("p95"), "{table}");
    cli.write("talk.qa.jsonl", "{}");
    assert!(cli.fails(1, &["eval", "."]).contains("line 1"));
    assert!(cli.fails(1, &["eval", "nowhere"]).contains("nowhere"));
}

#[test]
fn questions_of_longmemeval_are_asked() {
    let cli = Cli::new();
    let turn = |content: &str| json!({"role": "user", "content": content});
    let mut answer = turn("I bought a red bicycle");
    answer["has_answer"] = json!(true);
    let entry = |id: &str, question: &str, sessions: Value| {
        json!({
            "question_id": id, "question_type": "single-session-user", "question": question, "answer": "red",
            "question_date": "2023/06/01 (Thu) 09:00", "answer_session_ids": ["s/2"],
            "haystack_session_ids": ["s/1", "s/2"], "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/30 (Tue) 23:40"],
            "haystack_sessions": sessions,
        })
    };
    let marked = entry("a/1", "Which colour has my bicycle?", json!([[turn("It rains")], [turn("Hello"), answer]]));
    let unmarked = entry("b_abs", "Which colour has my car?", json!([[turn("It rains")], [turn("My car is old")]]));
    cli.write("long.json", json!([marked, unmarked]).to_string());
    let measured = cli.ok(&["eval", "sets", "--longmemeval", "long.json", "--json"]);
    let measured: Value = serde_json::from_str(&measured).expect("JSON");
    assert_eq!((&measured["rows"][0]["questions"], &measured["rows"][0]["recall"]["5"]), (&json!(2), &json!(1.0)));
    cli.write("long.json", "{}");
    assert!(cli.fails(1, &["eval", "sets", "--longmemeval", "long.json"]).contains("long.json"));
}

#[test]
fn the_language_is_that_of_the_database_unless_a_question_has_its_own() {
    let cli = Cli::new();
    cli.ok(&["store", "--space", "a", "--trigger", r#""Die Häuser am See""#]);
    let german = format!("sqlite://{}?language=german", cli.path("memory.db").display());
    let asked =
        |more: &[&str]| cli.ok(&[&["recall", "Welches Haus?", "--all", "--json"], more].concat()).lines().count();
    assert_eq!(asked(&[]), 0, "English");
    assert_eq!(asked(&["--language", "german"]), 1);
    assert_eq!(asked(&["--url", &german]), 1);
    assert_eq!(asked(&["--url", &german, "--language", "english"]), 0);
    let server = Server::start(&cli, &["--url", &german]);
    for (language, count) in [("", 1), ("&language=none", 0)] {
        let answer = server.get(&format!("/v1/recall?all=true&text=Welches+Haus%3F{language}")).json();
        assert_eq!(answer["hits"].as_array().expect("hits").len(), count, "{language}");
    }
    assert!(cli.fails(2, &["health", "--url", "sqlite://memory.db?language=klingon"]).contains("language"));
}

#[test]
fn bad_questions_are_told() {
    let cli = conversation();
    let server = Server::start(&cli, &[]);
    for (query, status) in [
        ("text=camera", 422),
        ("text=camera&all=true&under=a", 422),
        ("text=camera&all=true&neighbours=11", 422),
        ("text=camera&all=true&language=klingon", 422),
        ("text=camera&all=true&container=depth:0", 422),
        ("text=camera&all=true&where=nonsense", 422),
        ("text=camera&all=true&limit=1001", 422),
    ] {
        server.get(&format!("/v1/recall?{query}")).problem(status);
    }
    let words: String = (0..257).map(|word| format!("k{word}q+")).collect();
    server.get(&format!("/v1/recall?all=true&text={words}")).problem(413);
    for nothing in ["", "the", "%3F%00"] {
        let answer = server.get(&format!("/v1/recall?all=true&text={nothing}")).json();
        assert_eq!((&answer["hits"], &answer["complete"]), (&json!([]), &json!(true)), "{nothing:?}");
    }
    assert!(cli.fails(2, &["recall", "--all", "--language", "klingon", "x"]).contains("--language"));
    assert!(cli.fails(2, &["recall", "x"]).contains("required"));
    assert!(cli.ok(&["recall", "--all", "the"]).contains("nothing found"));
}
