//! The commands for single memories and documents, their output and their exit codes.

mod common;

use common::{Cli, stderr, stdout};
use serde_json::{Value, json};

const ID: &str = "0190a0b0-0000-7000-8000-000000000001";

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_memory_is_stored_changed_and_recalled() {
    let cli = Cli::new();
    let trigger = r#"{"text":"caf\u00e9","price":1.50}"#;
    let id =
        cli.ok(&["store", "--space", "a-b", "--trigger", trigger, "--created-at", "-5", "--metadata", "{\"n\":1}"]);
    let id = id.trim();
    let shown = cli.ok(&["get", id, "--json"]);
    assert!(shown.contains(trigger), "kept byte for byte: {shown}");
    assert_eq!(
        json(&shown),
        json!({"id": id, "spaceId": "a-b", "trigger": {"text": "café", "price": 1.5}, "createdAt": -5,
               "metadata": {"n": 1}, "status": "pending", "revision": 1})
    );

    let changed = cli.ok(&[
        "update",
        id,
        "--context",
        "null",
        "--merge-metadata",
        "{\"n\":null,\"m\":2}",
        "--status",
        "completed",
        "--if-revision",
        "1",
        "--json",
    ]);
    assert_eq!(json(&changed)["revision"], 2);
    let memory = json(&cli.ok(&["get", id, "--json"]));
    assert_eq!(memory.get("context"), Some(&Value::Null), "a context of null is a context");
    assert_eq!((&memory["metadata"], &memory["status"]), (&json!({"m": 2}), &json!("completed")));

    cli.ok(&["update", id, "--clear-context", "--replace-metadata", "{}"]);
    let memory = json(&cli.ok(&["get", id, "--json"]));
    assert_eq!((memory.get("context"), &memory["metadata"]), (None, &json!({})));

    assert!(cli.fails(1, &["update", id, "--status", "failed", "--if-revision", "1"]).contains("revision"));
    assert!(cli.fails(1, &["update", ID, "--status", "failed"]).starts_with("error: "));
    assert!(cli.fails(1, &["get", ID]).contains(ID));
}

#[test]
fn versions_of_a_memory_are_shown() {
    let cli = Cli::new();
    let id = cli.ok(&["store", "--space", "a-b", "--trigger", r#"{"n":1.50}"#]);
    let id = id.trim();
    let lines = |text: &str| text.lines().map(json).collect::<Vec<_>>();
    let stored_at = lines(&cli.ok(&["history", id, "--json"]))[0]["committedAt"].as_i64().expect("a time");
    cli.ok(&["update", id, "--context", "[1]"]);
    cli.ok(&["update", id, "--status", "completed", "--context", "[1,2]"]);
    let shown = cli.ok(&["history", id, "--json", "--limit", "2"]);
    let versions = lines(&shown);
    assert_eq!(versions.iter().map(|version| version["revision"].clone()).collect::<Vec<_>>(), [json!(3), json!(2)]);
    assert_eq!(versions[1]["memory"]["context"], json!([1]));
    let page = cli.run(&["history", id, "--limit", "2"]);
    let (table, note) = (stdout(&page), stderr(&page));
    assert!(table.contains("completed") && table.contains("[1,2]"), "{table}");
    let cursor = note.trim().strip_prefix("next: --cursor ").expect("more").to_owned();
    let last = lines(&cli.ok(&["history", id, "--json", "--cursor", &cursor]));
    assert_eq!((last.len(), &last[0]["revision"]), (1, &json!(1)));

    let changes = cli.ok(&["history", id, "--diff", "--limit", "2"]);
    let marked: Vec<_> = changes.lines().filter(|line| !line.starts_with("revision")).collect();
    assert_eq!(
        marked,
        ["- status: pending", "+ status: completed", "- context: [1]", "+ context: [1,2]", "+ context: [1]"]
    );
    let then = json(&cli.ok(&["get", id, "--as-of", &stored_at.to_string(), "--json"]));
    assert_eq!(then["spaceId"], "a-b");
    assert!(cli.fails(1, &["history", ID]).contains(ID));
    assert!(cli.fails(2, &["get", id, "--as-of", "1"]).contains("begins"), "before there was a history");
}

#[test]
fn versions_of_a_document_are_shown_and_behind_its_removal_too() {
    let cli = Cli::new();
    let put = |content: &str| {
        cli.ok(&["document", "put", "--collection", "notes", "--id", "n", "--space", "a", "--content", content])
    };
    let history = |more: &[&str]| {
        let shown = cli.ok(&[&["document", "history", "--collection", "notes", "--id", "n", "--json"], more].concat());
        shown.lines().map(|line| json(line)["document"]["content"].clone()).collect::<Vec<_>>()
    };
    put("one");
    put("two");
    assert_eq!(history(&[]), ["two", "one"]);
    cli.ok(&["document", "remove", "--collection", "notes", "--id", "n"]);
    let gone = ["document", "history", "--collection", "notes", "--id", "n"];
    assert!(cli.fails(1, &gone).contains("no document"));
    put("three");
    assert_eq!(history(&[]), ["three"]);
    assert_eq!(history(&["--removed"]), [json!("three"), Value::Null, json!("two"), json!("one")]);
    let changes = cli.ok(&[&gone[..], &["--removed", "--diff"]].concat());
    let heads = changes.lines().filter(|line| line.starts_with("removed at revision 2"));
    assert_eq!(heads.count(), 1, "{changes}");
}

#[test]
fn values_come_from_files_and_standard_input() {
    let cli = Cli::new();
    let file = format!("@{}", cli.write("context.json", "{ \"a\" : 1 }\n"));
    let stored = cli.fed(&["store", "--space", "a", "--trigger", "-", "--context", &file], "[1,\n2]\n");
    assert!(stored.status.success(), "{}", stderr(&stored));
    let twice = cli.fed(&["store", "--space", "a", "--trigger", "-", "--metadata", "-"], "{}");
    assert_eq!(twice.status.code(), Some(2));
    assert!(stderr(&twice).contains("--metadata: another option reads standard input"), "{}", stderr(&twice));
    let memory = cli.ok(&["get", stdout(&stored).trim(), "--json"]);
    assert!(memory.contains(r#""trigger":[1,2],"context":{"a":1},"#), "{memory}");
    assert!(cli.fails(1, &["store", "--space", "a", "--trigger", "@missing.json"]).contains("missing.json"));
}

#[test]
fn values_may_begin_with_a_hyphen() {
    let cli = Cli::new();
    let id = cli.ok(&["store", "--space", "a-m1", "--trigger", "-1.5", "--context", "-2"]);
    cli.ok(&["update", id.trim(), "--context", "-3"]);
    assert_eq!(cli.count(&["--regex", "-m1$"]), 1);
    cli.ok(&["document", "put", "--collection", "c", "--space", "a", "--id", "d", "--content", "- milk"]);
    assert!(cli.ok(&["document", "query", "--collection", "c", "--all", "--text", "-milk"]).contains("- milk"));
}

#[test]
fn a_key_finds_the_first_store() {
    let cli = Cli::new();
    let store = |space| ["store", "--space", space, "--trigger", "1", "--idempotency-key", "k"];
    assert_eq!(cli.ok(&store("a")), cli.ok(&store("a")));
    assert_eq!(cli.count(&["--all"]), 1);
    assert!(cli.fails(1, &store("b")).contains("idempotency key"));
}

#[test]
fn pages_follow_one_another_by_their_cursor() {
    let cli = Cli::new();
    for time in ["1", "2", "3", "4", "5"] {
        cli.ok(&["store", "--space", "a", "--trigger", time, "--created-at", time]);
    }
    let query = |more: &[&str]| {
        let args: Vec<_> = ["query", "--under", "a", "--limit", "2", "--json"].iter().chain(more).copied().collect();
        cli.run(&args)
    };
    let triggers =
        |text: &str| text.lines().map(|line| json(line)["trigger"].as_u64().expect("a number")).collect::<Vec<_>>();
    let mut page = query(&["--order", "oldest"]);
    let mut seen = triggers(&stdout(&page));
    while let Some(cursor) = stderr(&page).trim().strip_prefix("next: --cursor ") {
        page = query(&["--order", "oldest", "--cursor", cursor]);
        seen.extend(triggers(&stdout(&page)));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);
    // One in 64 looks like an option.
    let unknown = query(&["--cursor", "-hAAAA"]);
    assert!(stderr(&unknown).contains("the cursor is not from a page"), "{}", stderr(&unknown));
    assert_eq!(triggers(&stdout(&query(&["--offset", "1"]))), [4, 3]);
    assert_eq!(triggers(&stdout(&query(&["--after", "1", "--before", "4"]))), [3, 2]);
}

#[test]
fn conditions_narrow_a_query() {
    let cli = Cli::new();
    for (status, topic) in [("pending", "rust"), ("completed", "rust"), ("failed", "food")] {
        let metadata = json!({ "topic": topic }).to_string();
        let trigger = json!({ "said": format!("All about {topic}") }).to_string();
        cli.ok(&["store", "--space", "a", "--trigger", &trigger, "--status", status, "--metadata", &metadata]);
    }
    assert_eq!(cli.count(&["--all", "--status", "pending", "--status", "failed"]), 2);
    assert_eq!(cli.count(&["--all", "--text", "rust or iron"]), 2);
    assert_eq!(cli.count(&["--all", "--text", "ABOUT", "--status", "failed", "--order", "oldest"]), 1);
    assert_eq!(cli.count(&["--all", "--text", "said"]), 0, "a key is no word");
    assert_eq!(cli.count(&["--all", "--where", "metadata.topic = 'rust'"]), 2);
    assert_eq!(cli.count(&["--all", "--where", "metadata.topic = 'rust'", "--status", "completed"]), 1);
    let id = json(cli.ok(&["query", "--all", "--json"]).lines().next().expect("a memory"))["id"].clone();
    assert_eq!(cli.count(&["--all", "--exclude", id.as_str().expect("a text")]), 2);
}

#[test]
fn documents_are_put_found_and_removed() {
    let cli = Cli::new();
    let notes = ["--collection", "notes"];
    let run = |command: &str, more: &[&str]| {
        let args: Vec<_> = ["document", command].iter().chain(&notes).chain(more).copied().collect();
        cli.ok(&args)
    };
    for (id, content) in [("a", "apple pie"), ("b", "rust and apple"), ("c", "nothing")] {
        assert_eq!(run("put", &["--id", id, "--space", "s", "--content", content, "--if-absent"]).trim(), id);
    }
    run("put", &["--id", "c", "--space", "s-2", "--content", "\u{1b}[31mpear", "--if-revision", "1"]);
    let put = |more: &[&'static str]| {
        [&["document", "put", "--collection", "notes", "--id", "a", "--space", "s", "--content", "x"], more].concat()
    };
    cli.fails(1, &put(&["--if-absent"]));
    cli.fails(1, &put(&["--if-revision", "7"]));
    let document = json(&run("get", &["--id", "c", "--json"]));
    assert_eq!((&document["revision"], &document["spaceId"]), (&json!(2), &json!("s-2")));
    assert!(!run("get", &["--id", "c"]).contains('\u{1b}'), "a table must not steer the terminal");

    let found = |more: &[&str]| {
        let found = run("query", &[&["--all", "--text", "pie apple", "--json"], more].concat());
        found.lines().map(|line| json(line)["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found(&["--order", "oldest"]), ["a", "b"]);
    assert_eq!(found(&["--limit", "1"]), ["b"], "the newest, whichever has more of the words");
    assert_eq!(run("query", &["--space", "s", "--where", "content LIKE 'rust%'", "--json"]).lines().count(), 1);

    assert_eq!(run("remove", &["--text", "apple", "--dry-run"]), "would remove a\nwould remove b\n");
    let refused = ["document", "remove", "--collection", "notes", "--under", "s", "--max", "2"];
    cli.fails(1, &refused);
    cli.fails(1, &[&refused[..], &["--dry-run"]].concat());
    assert_eq!(run("query", &["--all", "--json"]).lines().count(), 3);
    assert_eq!(run("remove", &["--id", "a", "--id", "c", "--space", "s"]), "removed a\n");
    assert_eq!(run("remove", &["--where", "content LIKE '%pear'", "--json"]), "{\"dryRun\":false,\"id\":\"c\"}\n");
    cli.fails(1, &["document", "get", "--collection", "notes", "--id", "a"]);
}

#[test]
fn many_documents_are_put_from_lines_or_none() {
    let cli = Cli::new();
    let line = |id: &str, more: &str| {
        format!(r#"{{"collection":"notes","id":"{id}","spaceId":"s","content":"text of {id}"{more}}}"#)
    };
    let put = |lines: &[String]| ["document".to_owned(), "put-many".to_owned(), cli.write("lines", lines.join("\n\n"))];
    let ok = put(&[line("a", ""), line("b", r#","expect":"absent""#)]);
    assert_eq!(cli.ok(&ok.each_ref().map(String::as_str)), "a\nb\n");
    for (last, told) in [
        (line("b", r#","expect":"absent""#), "document 1 of the call"),
        (line("c", r#","secret":1"#), "line 3: "),
        (line("c", r#","expect":{"revision":"secret"}"#), "line 3: "),
        (r#"["notes","c","s","secret"]"#.to_owned(), "line 3: not a JSON object"),
    ] {
        let refused = cli.fails(1, &put(&[line("new", ""), last]).each_ref().map(String::as_str));
        assert!(refused.contains(told) && !refused.contains("secret"), "{refused}");
    }
    let fed = cli.fed(&["document", "put-many", "-", "--json"], &line("a", r#","expect":{"revision":1}"#));
    assert_eq!(json(&stdout(&fed))["revision"], 2);
    let ids = cli.ok(&["document", "query", "--collection", "notes", "--all", "--json", "--order", "oldest"]);
    assert_eq!(ids.lines().map(|line| json(line)["id"].clone()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn mistakes_in_the_arguments_have_exit_code_2() {
    let cli = Cli::new();
    let cases: &[&[&str]] = &[
        &["fly"],
        &["query"],
        &["query", "--all", "--under", "a"],
        &["query", "--regex", "("],
        &["query", "--under", ""],
        &["query", "--all", "--where", ""],
        &["query", "--all", "--cursor", "secret"],
        &["query", "--all", "secret"],
        &["store", "--space", "secret\n", "--trigger", "1"],
        &["health", "--url", "mysql://user:secret@host/db"],
        &["health", "--url", "sqlite://memory.db?readers=secret"],
        &["health", "--url", "postgres://user:secret@host/db?pool_size=secret"],
        &["query", "--all", "--limit", "1001"],
        &["query", "--all", "--after", "yesterday"],
        &["query", "--all", "--status", "done"],
        &["query", "--all", "--where", "metadata.a = "],
        &["get", "1"],
        &["update", ID],
        &["update", ID, "--context", "1", "--clear-context"],
        &["store", "--space", "", "--trigger", "1"],
        &["store", "--space", "a", "--trigger", "{secret"],
        &["store", "--space", "a", "--trigger", "1", "--metadata", "[]"],
        &["document", "remove", "--collection", "notes"],
        &["document", "get", "--collection", "NOTES", "--id", "a"],
    ];
    for args in cases {
        let error = cli.fails(2, args);
        assert!(!error.contains("secret"), "{error}");
    }
    let no_command = cli.bare().output().expect("the binary runs");
    assert_eq!((no_command.status.code(), stdout(&no_command).as_str()), (Some(2), ""));
    assert!(stderr(&no_command).contains("Usage: "), "the help");
}

#[test]
fn a_url_without_an_engine_is_refused_with_the_known_schemes() {
    let cli = Cli::new();
    for url in ["mysql://user:secret@host/db", "secret/memory.db"] {
        for command in [&["health"][..], &["migrate"], &["migrate", "--dry-run"], &["quickstart"]] {
            let error = cli.fails(2, &[command, &["--url", url]].concat());
            for scheme in ["sqlite:", "postgres://", "postgresql://"] {
                assert!(error.contains(scheme), "{error}");
            }
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

#[test]
fn standard_output_holds_json_alone() {
    let cli = Cli::new();
    let commands: &[&[&str]] = &[
        &["quickstart"],
        &["store", "--space", "a", "--trigger", "1"],
        &["query", "--all", "--limit", "3"],
        &["document", "query", "--collection", "notes", "--all"],
        &["document", "put", "--collection", "notes", "--space", "a", "--content", "text"],
        &["document", "remove", "--collection", "notes", "--space", "a"],
        &["prompt", "add", "--session", "s", "text"],
        &["prompt", "show", "--session", "s"],
        &["prompt", "history", "--session", "s"],
        &["prompt", "undo", "--session", "s"],
        &["import", &common::fixture()],
        &["export"],
        &["export", "-o", "backup.jsonl"],
        &["health"],
        &["migrate"],
        &["migrate", "--dry-run"],
    ];
    for args in commands {
        let output = cli.ok(&[*args, &["--json"]].concat());
        assert!(!output.is_empty(), "{args:?}");
        for line in output.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{args:?}: {line}");
        }
    }
}

#[test]
fn the_database_is_made_with_its_folder() {
    let cli = Cli::new();
    let run = |args: &[&str]| cli.bare().args(args).output().expect("the binary runs");
    let dry = run(&["migrate", "--dry-run", "--json"]);
    assert!(dry.status.success(), "{}", stderr(&dry));
    assert_eq!(json(&stdout(&dry))["before"], 0);
    assert!(!cli.path("data/memory.db").exists(), "a dry run leaves no trace");

    let quickstart = run(&["quickstart"]);
    assert!(quickstart.status.success(), "{}", stderr(&quickstart));
    assert!(stdout(&quickstart).contains(&cli.path("data").join("memory.db").display().to_string()));
    let shown = stdout(&quickstart);
    let answer = |command: &str| {
        let rest = shown.split_once(command).expect("the command is shown").1;
        rest.split_once("\n\n").expect("an empty line ends its answer").0.to_owned()
    };
    assert!(answer("--under plugin-discord-guild1 --status pending").contains("no memories found"), "{shown}");
    assert!(answer("--prefix plugin-discord-guild1 --status pending").contains("guild12"), "{shown}");
    assert!(cli.path("data/memory.db").is_file());
    let again = run(&["quickstart", "--json"]);
    assert_eq!(json(&stdout(&again))["written"], 0, "a second run duplicates nothing");
    let health = json(&stdout(&run(&["health", "--json"])));
    assert_eq!((&health["engine"], &health["durability"]), (&json!("sqlite"), &json!("durable")));
}

#[test]
fn what_is_no_database_is_refused_and_unharmed() {
    let cli = Cli::new();
    let text = "a text that is long enough to be the header of a database".repeat(9);
    cli.write("text.db", &text);
    std::fs::create_dir(cli.path("folder")).expect("a folder");
    for (url, reason) in [("sqlite://text.db", "not an SQLite database"), ("sqlite://folder", "is a folder")] {
        for command in [&["health"][..], &["migrate"], &["migrate", "--dry-run"], &["query", "--all"]] {
            let error = cli.fails(1, &[command, &["--url", url]].concat());
            assert!(error.contains(reason) && error.contains(&url["sqlite://".len()..]), "{error}");
        }
    }
    assert_eq!(std::fs::read_to_string(cli.path("text.db")).expect("the text"), text);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let cli = Cli::new();
    cli.ok(&["import", &common::fixture()]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut child = cli
        .command()
        .arg("export")
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let status = child.wait().expect("the binary ends");
    assert!(status.success(), "{status}");
}
