//! `run`: pipelines without a model.

use serde_json::{Value, json};

mod common;
use common::{Cli, stderr, stdout};

const TASK: &str = r#"{
    "space": {"id": "chat-ana-m1", "container": "chat"},
    "trigger": {"text": "I adopted a cat", "price": 1.50},
    "metadata": {"topic": "pets"},
    "createdAt": 7
}"#;

fn step(action: &str, arguments: &Value) -> Value {
    json!({ "pluginId": "memory", "action": action, "arguments": arguments })
}

fn pipeline(cli: &Cli, steps: &[Value]) -> String {
    cli.write("pipeline.json", json!({ "steps": steps }).to_string())
}

#[test]
fn the_steps_are_done_and_persisted() {
    let cli = Cli::new();
    let heard = json!({ "$task": "/trigger/text" });
    let file = pipeline(
        &cli,
        &[
            step("memory:add_document", &json!({ "id": "cat", "content": heard })),
            step("memory:query", &json!({ "text": heard })),
        ],
    );
    let line = cli.ok(&["--json", "run", "--pipeline", &file, "--task", TASK]);
    let shown: Value = serde_json::from_str(&line).expect("one JSON value");
    assert_eq!(shown["status"], "completed");
    let kinds: Vec<_> = shown["chain"].as_array().expect("a chain").iter().map(|item| &item["kind"]).collect();
    assert_eq!(kinds, ["related", "plan", "result", "result"]);
    assert_eq!(shown["chain"][3]["content"]["records"][0]["content"], "I adopted a cat");

    let memory = cli.ok(&["--json", "get", shown["id"].as_str().expect("an id")]);
    assert!(memory.contains(r#""content":{"text":"I adopted a cat","price":1.50}"#), "byte for byte: {memory}");
    let memory: Value = serde_json::from_str(&memory).expect("one JSON value");
    assert_eq!((&memory["status"], &memory["createdAt"]), (&json!("completed"), &json!(7)));
    assert_eq!((&memory["metadata"]["topic"], &memory["context"]), (&json!("pets"), &shown["chain"]));
    assert_eq!(cli.ok(&["--json", "document", "query", "--collection", "notes", "--all"]).lines().count(), 1);

    let table = cli.ok(&["run", "--pipeline", &file, "--task", TASK]);
    assert!(table.contains("completed") && table.contains("memory:query: {"), "{table}");
    let elsewhere = ["run", "--pipeline", &file, "--collection", "facts", "--task", TASK];
    cli.ok(&elsewhere);
    assert_eq!(cli.ok(&["--json", "document", "query", "--collection", "facts", "--all"]).lines().count(), 1);
}

#[test]
fn a_failed_step_is_shown_and_persisted() {
    let cli = Cli::new();
    let file = pipeline(&cli, &[step("memory:query", &json!({ "limit": 0 }))]);
    let output = cli.run(&["--json", "run", "--pipeline", &file, "--task", TASK]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown: Value = serde_json::from_str(&stdout(&output)).expect("one JSON value");
    let error = shown["chain"].as_array().expect("a chain").last().expect("an error").clone();
    assert_eq!((&shown["status"], &error["kind"]), (&json!("failed"), &json!("error")));
    assert_eq!(cli.count(&["--all", "--status", "failed"]), 1);
    let output = cli.run(&["run", "--pipeline", &file, "--task", TASK]);
    assert!(stdout(&output).contains("/limit: "), "{}", stdout(&output));
}

#[test]
fn mistakes_are_told_before_anything_is_stored() {
    let cli = Cli::new();
    let file = pipeline(&cli, &[]);
    let (no_json, no_steps) = (cli.write("a.json", "{"), cli.write("b.json", r#"{"step":[]}"#));
    for (pipeline, task, line) in [
        (&no_json, TASK, "error: --pipeline: not valid JSON at line 1"),
        (&no_steps, TASK, "error: --pipeline: does not have the right shape at line 1"),
        (&file, "{}", "error: --task: does not have the right shape"),
        (
            &file,
            r#"{"space":{"id":"a-1","container":"b"},"trigger":1}"#,
            "error: --task: does not have the right shape",
        ),
        (&file, r#"{"space":{"id":"a-1"},"trigger":"xyzzy"#, "error: --task: not valid JSON"),
    ] {
        let error = cli.fails(2, &["run", "--pipeline", pipeline, "--task", task]);
        assert!(error.starts_with(line) && !error.contains("xyzzy"), "{error}");
    }
    let reserved = r#"{"space":{"id":"a-1"},"trigger":1,"metadata":{"task":1}}"#;
    let error = cli.fails(1, &["run", "--pipeline", &file, "--task", reserved]);
    assert!(error.contains("belongs to the runtime"), "{error}");
    assert_eq!(cli.count(&["--all"]), 0);
}
