//! `prompt`: the texts that an agent keeps for its system prompt.

mod common;

use common::{Cli, stderr};
use serde_json::{Value, json};

/// A `prompt` command in one session.
fn prompt(cli: &Cli, command: &str, more: &[&str]) -> String {
    cli.ok(&[&["prompt", command, "--session", "cli:test"], more].concat())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn what_is_kept_goes_into_the_prompt() {
    let cli = Cli::new();
    assert_eq!(prompt(&cli, "show", &[]), "nothing goes into the prompt\n");
    assert_eq!(prompt(&cli, "show", &["--json"]), "null\n");
    assert_eq!(prompt(&cli, "show", &["--store", "user"]), "nothing is kept\n");
    assert_eq!(prompt(&cli, "add", &["The deadline is Friday"]), "revision 1\n");
    assert_eq!(prompt(&cli, "add", &["--store", "user", "--", "- likes tea"]), "revision 1\n");
    let file = format!("@{}", cli.write("plan.md", "# Plan\none\ntwo\n"));
    assert_eq!(prompt(&cli, "add", &[&file]), "revision 2\n");
    let shown = "## About You\n\n- likes tea\n\n## Memory\n\nThe deadline is Friday\n\n\\# Plan\none\ntwo\n";
    assert_eq!(prompt(&cli, "show", &[]), shown);
    assert_eq!(prompt(&cli, "show", &["--store", "memory"]), "The deadline is Friday\n\n# Plan\none\ntwo\n");
    let context = &lines(&prompt(&cli, "show", &["--json"]))[0];
    assert_eq!((&context["source"], &context["truncated"]), (&json!("custom"), &json!(false)));
    assert_eq!(prompt(&cli, "remove", &["e"]), "revision 3: lines removed: 2\n");
    assert_eq!(prompt(&cli, "remove", &["e"]), "nothing changed\n");
    let removed = cli.fed(&["prompt", "remove", "--session", "cli:test", "-"], "plan\r\n");
    assert_eq!(common::stdout(&removed), "nothing changed\n");
    let removed = cli.fed(&["prompt", "remove", "--session", "cli:test", "-"], "# Plan\n");
    assert_eq!(common::stdout(&removed), "revision 4: lines removed: 1\n");
    assert_eq!(prompt(&cli, "replace", &["new"]), "revision 5\n");
    assert_eq!(prompt(&cli, "show", &["--store", "memory", "--json"]), "{\"text\":\"new\"}\n");
}

#[test]
fn users_and_personalities_are_kept_apart() {
    let cli = Cli::new();
    prompt(&cli, "add", &["shared"]);
    prompt(&cli, "add", &["of ada", "--personality", "ada", "--scope", "per-personality"]);
    prompt(&cli, "add", &["likes tea", "--user", "ana", "--store", "user"]);
    let show = |more: &[&str]| prompt(&cli, "show", more);
    assert_eq!(show(&["--personality", "ada"]), "## Memory\n\nshared\n");
    assert_eq!(show(&["--personality", "ada", "--scope", "per-personality"]), "## Memory\n\nof ada\n");
    let elsewhere = cli.ok(&["prompt", "show", "--session", "other", "--user", "ana"]);
    assert_eq!(elsewhere, "## About You\n\nlikes tea\n");
    prompt(&cli, "replace", &["likes coffee", "--user", "ana", "--agent", "ada", "--store", "user"]);
    let of = |agent: &str| prompt(&cli, "show", &["--user", "ana", "--agent", agent, "--store", "user"]);
    assert_eq!((of("ada").as_str(), of("bob").as_str()), ("likes coffee\n", "likes tea\n"));
    cli.ok(&["document", "remove", "--collection", "_prompt", "--where", "metadata.user = 'ana'"]);
    assert_eq!(of("ada"), "nothing is kept\n");
    assert_eq!(show(&["--user", "ana"]), "## Memory\n\nshared\n");
}

#[test]
fn changes_are_told_and_undone() {
    let cli = Cli::new();
    assert_eq!(prompt(&cli, "history", &[]), "nothing was ever kept\n");
    assert!(cli.fails(1, &["prompt", "undo", "--session", "cli:test"]).contains("no change"));
    for _ in 0..2 {
        prompt(&cli, "add", &["one", "--batch-key", "turn 1"]);
    }
    assert_eq!(prompt(&cli, "add", &["one", "--batch-key", "turn 1"]), "applied before: revision 1\n");
    cli.fails(1, &["prompt", "add", "--session", "cli:test", "two", "--batch-key", "turn 1"]);
    prompt(&cli, "replace", &["\u{1b}[31mtwo"]);
    assert_eq!(prompt(&cli, "undo", &[]), "revision 3: revision 2 is undone\n");
    let history = prompt(&cli, "history", &[]);
    let [undo, back, forth, ..] = history.lines().collect::<Vec<_>>()[..] else { panic!("{history}") };
    assert!(undo.starts_with("revision 3, ") && undo.ends_with(", session cli:test on cli, undoes revision 2"));
    assert_eq!((back, forth), ("- \u{FFFD}[31mtwo", "+ one"));
    assert!(history.lines().any(|line| line.starts_with("revision 1, ") && line.ends_with(", batch turn 1")));
    let changes = lines(&prompt(&cli, "history", &["--json"]));
    assert_eq!(changes.len(), 3);
    assert_eq!(changes[0]["diff"], json!({"line": 0, "removed": ["\u{1b}[31mtwo"], "added": ["one"]}));
    assert_eq!(lines(&prompt(&cli, "undo", &["--json"])), [json!({"undid": 1, "revision": 4})]);
    assert_eq!(prompt(&cli, "show", &[]), "nothing goes into the prompt\n");
}

#[test]
fn an_export_carries_the_history() {
    let cli = Cli::new();
    prompt(&cli, "add", &["one"]);
    prompt(&cli, "add", &["two"]);
    let file = cli.write("export.jsonl", cli.ok(&["export"]));
    let other = Cli::new();
    other.ok(&["import", &file]);
    prompt(&other, "undo", &[]);
    assert_eq!(prompt(&other, "show", &["--store", "memory"]), "one\n");
}

#[test]
fn mistakes_have_exit_code_2_and_stay_unseen() {
    let cli = Cli::new();
    let large = "secret ".repeat(6_000);
    let cases: &[&[&str]] = &[
        &["add", "secret"],
        &["add", "--session", "", "secret"],
        &["add", "--session", "s", "--user", "", "secret"],
        &["add", "--session", "s"],
        &["add", "--session", "s", "--store", "secret", "a"],
        &["add", "--session", "s", "--scope", "secret", "a"],
        &["add", "--session", "s", &large],
        &["show", "--session", "s", "secret"],
        &["undo"],
    ];
    for args in cases {
        let error = cli.fails(2, &[&["prompt"], *args].concat());
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn unseen_characters_are_noted() {
    let cli = Cli::new();
    let output = cli.run(&["prompt", "add", "--session", "s", "a\u{200b}b\u{202e}c", "--json"]);
    assert_eq!(stderr(&output), "note: the text holds 2 characters that a reader does not see\n");
    assert_eq!(lines(&common::stdout(&output))[0]["flags"], json!({"invisible": 1, "bidi": 1}));
}
