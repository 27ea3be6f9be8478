//! `watch`: changes come as lines.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use common::lines::{Running, wait_for};
use common::{Cli, stderr};
use serde_json::{Value, json};

mod common;

/// A watch for programs that has begun.
fn begun(cli: &Cli, args: &[&str]) -> Running {
    let watch = started(cli, args);
    assert_eq!(watch.json()["kind"], "reached");
    watch
}

fn started(cli: &Cli, args: &[&str]) -> Running {
    Running::start(cli.command(), &[&["watch", "--json"], args].concat())
}

fn store(cli: &Cli, space: &str, trigger: &str) -> String {
    cli.ok(&["store", "--space", space, "--trigger", trigger]).trim().to_owned()
}

fn token(change: &Value) -> &str {
    change["token"].as_str().expect("a token")
}

#[test]
fn what_another_process_writes_comes_as_lines() {
    let cli = Cli::new();
    let watch = begun(&cli, &["--under", "a"]);
    store(&cli, "b", r#""outside""#);
    let id = store(&cli, "a-1", r#"{"n":1.50,"text":"caf\u00e9"}"#);
    let line = watch.line();
    let memory = cli.ok(&["get", &id, "--json"]);
    assert!(line.starts_with(r#"{"token":""#), "{line}");
    assert!(line.ends_with(&format!(r#"","kind":"stored","memory":{}}}"#, memory.trim())), "{line}");
    cli.ok(&["update", &id, "--status", "completed"]);
    let updated = watch.expect("updated");
    assert_eq!((&updated["memory"]["revision"], &updated["memory"]["status"]), (&json!(2), &json!("completed")));
    assert!(updated.get("document").is_none() && updated.get("id").is_none(), "{updated}");
}

#[test]
fn a_watch_from_the_start_tells_what_is_there_first() {
    let cli = Cli::new();
    let ids = ["1", "2", "3"].map(|trigger| store(&cli, "a", trigger));
    let watch = started(&cli, &["--all", "--from", "start"]);
    let told = ids.each_ref().map(|_| watch.expect("stored")["memory"]["id"].clone());
    assert_eq!(json!(told), json!(ids));
    assert_eq!(watch.json()["kind"], "reached");
    let later = store(&cli, "a", "4");
    assert_eq!(watch.expect("stored")["memory"]["id"], json!(later));
}

#[test]
fn a_token_goes_on_where_a_killed_watch_was() {
    let cli = Cli::new();
    let watch = begun(&cli, &["--under", "a"]);
    store(&cli, "a", "1");
    let last = watch.expect("stored");
    watch.signal("-KILL");
    assert!(!watch.wait().0.success());
    let missed = ["2", "3"].map(|trigger| store(&cli, "a", trigger));
    let watch = started(&cli, &["--under", "a", "--from", token(&last)]);
    let told = missed.each_ref().map(|_| watch.expect("stored")["memory"]["id"].clone());
    assert_eq!(json!(told), json!(missed));
    // It belongs to its selection.
    let refused = cli.fails(2, &["watch", "--under", "b", "--from", token(&last)]);
    assert!(!refused.contains(token(&last)), "{refused}");
    cli.fails(2, &["watch", "--under", "a", "--from", "-no-token"]);
}

#[test]
fn conditions_and_collections_say_what_is_told() {
    let cli = Cli::new();
    let put = |collection: &str, id: &str, content: &str| {
        cli.ok(&["document", "put", "--collection", collection, "--id", id, "--space", "a", "--content", content]);
    };
    let open = begun(&cli, &["--all", "--status", "pending", "--where", "text ILIKE '%cat%'"]);
    let documents = begun(&cli, &["--all", "--of", "documents", "--collection", "notes"]);
    let both = begun(&cli, &["--all", "--of", "both", "--text", "cat"]);

    let id = store(&cli, "a", r#"{"text":"A cat"}"#);
    assert_eq!(open.expect("stored")["memory"]["id"], json!(id));
    assert_eq!(both.expect("stored")["memory"]["id"], json!(id));
    cli.ok(&["update", &id, "--status", "failed"]);
    let left = open.expect("left");
    assert_eq!((&left["id"], left.get("memory"), left.get("collection")), (&json!(id), None, None));
    assert_eq!(both.expect("updated")["memory"]["id"], json!(id));

    put("others", "x", "A cat");
    put("notes", "x", "A cat");
    assert_eq!(documents.expect("stored")["document"]["collection"], "notes");
    assert_eq!(both.expect("stored")["document"]["collection"], "others");
    assert_eq!(both.expect("stored")["document"]["collection"], "notes");
    put("notes", "x", "A dog");
    assert_eq!(documents.expect("updated")["document"]["content"], "A dog");
    let left = both.expect("left");
    assert_eq!((&left["collection"], &left["id"]), (&json!("notes"), &json!("x")));
    cli.ok(&["document", "remove", "--collection", "notes", "--id", "x"]);
    let removed = documents.expect("removed");
    assert_eq!((&removed["collection"], &removed["id"]), (&json!("notes"), &json!("x")));
}

#[test]
fn mistakes_are_told_before_anything_is_watched() {
    let cli = Cli::new();
    for (args, named) in [
        (vec!["--all", "--collection", "notes"], "--of documents"),
        (vec!["--all", "--of", "documents", "--status", "failed"], "status"),
        (vec!["--all", "--of", "both", "--where", "content = 'x'"], "content"),
        (vec!["--under", ""], "--under"),
        (vec![], "--under"),
    ] {
        let told = cli.fails(2, &[&["watch"], args.as_slice()].concat());
        assert!(told.contains(named), "{args:?}: {told}");
    }
}

#[test]
fn a_signal_ends_it_with_the_option_that_goes_on() {
    let cli = Cli::new();
    let id = store(&cli, "a-1", r#"{"text":"A cat"}"#);
    for signal in ["-INT", "-TERM"] {
        let watch = Running::start(cli.command(), &["watch", "--under", "a", "--from", "start"]);
        let line = watch.line();
        assert!(
            line.starts_with(&format!("stored     {id} ")) && line.ends_with(r#" a-1 pending {"text":"A cat"}"#),
            "{line}"
        );
        // After the second line it knows that the first was written.
        let second = store(&cli, "a-1", "2");
        while !watch.line().contains(&second) {}
        watch.signal(signal);
        let (status, errors) = watch.wait();
        assert!(status.success(), "{errors:?}");
        let token = errors.last().and_then(|line| line.strip_prefix("next: --from ")).expect("a token");
        let next = store(&cli, "a-1", "3");
        let watch = started(&cli, &["--under", "a", "--from", token]);
        let mut told = watch.expect("stored")["memory"]["id"].clone();
        if told == json!(second) {
            told = watch.expect("stored")["memory"]["id"].clone();
        }
        assert_eq!(told, json!(next));
    }
}

#[test]
fn it_ends_when_its_reader_leaves_though_nothing_changes() {
    let cli = Cli::new();
    store(&cli, "a", "1");
    let mut command = cli.command();
    command.args(["watch", "--all", "--from", "start"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut out = child.stdout.take().expect("it is piped");
    out.read_exact(&mut [0; 6]).expect("a line begins");
    drop(out);
    assert!(wait_for(&mut child).success());
}

#[test]
fn a_signal_ends_it_though_its_reader_takes_nothing() {
    let cli = Cli::new();
    let large = cli.write("large.json", format!(r#""{}""#, "x".repeat(1 << 20)));
    store(&cli, "a", &format!("@{large}"));
    let mut command = cli.command();
    command.args(["watch", "--json", "--all", "--from", "start"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    // More lines than a pipe holds wait after these.
    child.stdout.as_mut().expect("it is piped").read_exact(&mut [0; 6]).expect("a line begins");
    let status = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
    assert!(wait_for(&mut child).success());
}

#[test]
fn a_feed_that_went_back_says_to_begin_anew() {
    let cli = Cli::new();
    store(&cli, "a", "1");
    let (file, backup) = (cli.path("memory.db"), cli.path("backup.db"));
    fs::copy(&file, &backup).expect("a copy");
    let watch = begun(&cli, &["--all"]);
    store(&cli, "a", "2");
    let last = watch.expect("stored");
    drop(watch);
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(cli.path(&format!("memory.db{end}")));
    }
    fs::copy(&backup, &file).expect("a copy");
    store(&cli, "a", "3");
    let output = cli.run(&["watch", "--all", "--from", token(&last)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("begin again with --from start"), "{output:?}");
}
