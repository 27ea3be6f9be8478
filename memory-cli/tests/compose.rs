//! `compose`: what an agent would know.

mod common;

use common::{Cli, stderr, stdout};
use serde_json::Value;

/// A message of Ana's to the agent `alice`, as a runtime stores it.
fn message(cli: &Cli, text: &str, created_at: &str) -> String {
    let trigger = format!(r#"{{"room":"general","author":"ana","channelType":"GROUP","text":"{text}"}}"#);
    let space = "agent/alice/room/general/messages";
    cli.ok(&["store", "--space", space, "--trigger", &trigger, "--created-at", created_at]).trim().to_owned()
}

#[test]
fn the_text_is_shown_and_explained() {
    let cli = Cli::new();
    message(&cli, "Hello", "1700000000000");
    let id = message(&cli, "Are you there?", "1700000060000");
    let text = cli.ok(&["compose", "--message", &id, "--only", "RECENT_MESSAGES"]);
    let conversation = "# Conversation Messages\n[2023-11-14 22:13] ana: Hello\n\n# Received Message\n";
    assert!(text.starts_with(conversation), "{text}");
    let text = cli.ok(&["compose", "--message", &id, "--explain"]);
    assert!(text.contains("[2023-11-14 22:14] ana: Are you there?") && text.contains("# Providers"), "{text}");
    let row = |name: &str| text.lines().find(|line| line.contains(&format!("│ {name} "))).map(str::to_owned);
    assert!(row("TIME").expect("a row").contains("ok") && row("CHOICE").expect("a row").contains("empty"), "{text}");
    assert!(row("FACTS").is_none() && row("EVALUATORS").is_none(), "{text}");
    let more = cli.ok(&["compose", "--message", &id, "--include", "FACTS,EVALUATORS", "--explain"]);
    assert!(more.contains("│ FACTS ") && more.contains("│ EVALUATORS "), "{more}");
}

#[test]
fn json_has_the_whole_state() {
    let cli = Cli::new();
    let id = message(&cli, "Hello", "1700000000000");
    let character = r#"{"name":"Alice","bio":"An assistant."}"#;
    let options = ["--character", character, "--only", "CHARACTER,TIME", "--json"];
    let output = cli.ok(&[&["compose", "--message", &id], &options[..]].concat());
    let state: Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(state["values"]["agentName"], "Alice");
    assert_eq!(state["data"]["providers"]["CHARACTER"]["values"]["bio"], "An assistant.");
    assert_eq!(
        (&state["outcomes"][0]["provider"], &state["outcomes"][0]["status"]),
        (&"CHARACTER".into(), &"ok".into())
    );
}

#[test]
fn a_budget_cuts_and_says_so() {
    let cli = Cli::new();
    let times = (0..9).map(|minute| 1_700_000_000_000_i64 + minute * 60_000);
    let ids: Vec<_> = times.map(|time| message(&cli, "Hello", &time.to_string())).collect();
    let text = cli.ok(&["compose", "--message", &ids[8], "--only", "RECENT_MESSAGES", "--budget", "200"]);
    assert!(text.trim_end().len() <= 200 && text.contains("[...truncated]"), "{text}");
}

#[test]
fn what_is_missing_is_named() {
    let cli = Cli::new();
    let id = message(&cli, "Hello", "1700000000000");
    let output = cli.run(&["compose", "--message", &id, "--only", "TIME,SHOULD_RESPOND"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("The current date"));
    assert_eq!(stderr(&output), "error: no provider is called SHOULD_RESPOND\n");
    let other = cli.ok(&["store", "--space", "a-b", "--trigger", "{}"]);
    let refused = cli.fails(2, &["compose", "--message", other.trim()]);
    assert!(refused.contains("not a message of an agent"), "{refused}");
    cli.fails(2, &["compose", "--message", &id, "--character", "1"]);
    let unknown = cli.fails(1, &["compose", "--message", "01890000-0000-7000-8000-000000000000"]);
    assert!(unknown.contains("no memory has this id"), "{unknown}");
}
