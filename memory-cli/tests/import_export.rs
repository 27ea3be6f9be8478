//! Import and export: what is repeated, refused, reported, and kept.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use common::{Cli, fixture, stderr, stdout};

fn line(space: usize) -> String {
    format!("{{\"spaceId\":\"s-{space}\",\"trigger\":{{\"text\":\"t\"}},\"createdAt\":{space}}}\n")
}

#[test]
fn an_import_repeated_changes_nothing() {
    let cli = Cli::new();
    assert_eq!(cli.ok(&["import", &fixture()]), "imported 30 lines: 30 new, 0 there already, 0 in conflict\n");
    let before = cli.ok(&["export"]);
    assert_eq!(cli.ok(&["import", &fixture()]), "imported 30 lines: 0 new, 30 there already, 0 in conflict\n");
    assert_eq!(cli.ok(&["export"]), before);
}

#[test]
fn a_session_does_not_find_its_siblings() {
    let cli = Cli::new();
    cli.ok(&["import", &fixture()]);
    assert_eq!(cli.count(&["--under", "locomo-26-session1"]), 10);
    assert_eq!(cli.count(&["--prefix", "locomo-26-session1"]), 30, "the trap");
    assert_eq!(cli.count(&["--prefix", "locomo-26-session1-"]), 10);
    assert_eq!(cli.count(&["--space", "locomo-26-session1-D1_1"]), 1);
    assert_eq!(cli.count(&["--glob", "locomo-*-D1[01]_1"]), 2);
    assert_eq!(cli.count(&["--regex", "_10$", "--under", "locomo-26-session10"]), 12, "a union");
}

#[test]
fn nothing_of_the_batch_with_a_bad_line_stays() {
    let bad = [
        r#"{"spaceId":"s","trigger":1,"createdAt":1,"colour":"secret"}"#,
        r#"{"spaceId":"s","trigger":"secret,"createdAt":1}"#,
        r#"{"spaceId":"s","trigger":"secret","createdAt":"secret"}"#,
        r#"{"kind":"document","spaceId":"s","content":"secret","createdAt":1}"#,
    ];
    for bad in bad {
        let cli = Cli::new();
        let text: String = (0..1_016).map(line).chain([format!("{bad}\n")]).chain((1_017..1_100).map(line)).collect();
        let error = cli.fails(1, &["import", &cli.write("input.jsonl", text)]);
        assert!(error.starts_with("error: line 1017: "), "{error}");
        assert!(error.contains("1000 lines were imported before") && !error.contains("secret"), "{error}");
        assert_eq!(cli.ok(&["export"]).lines().count(), 1_000);
    }
}

#[test]
fn a_line_over_the_limit_is_refused_by_number() {
    let cli = Cli::new();
    let text = format!("{}\n\"{}\"\n", line(1).trim(), "x".repeat(21 << 20));
    let error = cli.fails(1, &["import", &cli.write("input.jsonl", text)]);
    assert!(error.starts_with("error: line 2: longer than"), "{}", &error[..100]);
}

#[test]
fn lines_that_differ_are_reported_and_the_rest_goes_on() {
    let cli = Cli::new();
    let memory = |trigger: &str| {
        format!(r#"{{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"s","trigger":"{trigger}","createdAt":1}}"#)
    };
    let document = |text: &str| {
        format!(r#"{{"kind":"document","id":"d","collection":"c","spaceId":"s","content":"{text}","createdAt":1}}"#)
    };
    let keyed = |space: &str| format!(r#"{{"spaceId":"{space}","trigger":1,"createdAt":1,"idempotencyKey":"k"}}"#);
    cli.fed(&["import", "-"], &[memory("first"), document("first"), keyed("a")].join("\n"));
    let before = cli.ok(&["export"]);
    assert_eq!(before.lines().count(), 3);

    let lines = [line(1), memory("secret"), document("secret"), keyed("b"), memory("first"), line(2)];
    let output = cli.fed(&["import", "-"], &lines.join("\n"));
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    // The first line ends with a line break of its own, so a blank line follows it.
    for expected in ["line 3: the memory 0190a0b0-0000-7000-8000-000000000001", "line 4: the document d", "line 5: "] {
        assert!(errors.contains(expected), "{errors}");
    }
    assert!(!errors.contains("secret"), "{errors}");
    assert_eq!(stdout(&output), "imported 6 lines: 2 new, 1 there already, 3 in conflict\n");
    let after = cli.ok(&["export"]);
    assert!(before.lines().all(|line| after.contains(line)), "{after}");
    assert_eq!(after.lines().count(), 5);
}

#[test]
fn what_was_exported_comes_back_byte_for_byte() {
    let cli = Cli::new();
    cli.ok(&["import", &fixture()]);
    let lines = [
        r#"{"id":"11111111-2222-4333-8444-555555555555","spaceId":"a/b:c","trigger":{"z":1.50,"a":"caf\u00e9 \ud83d\ude00 é\n"},"context":null,"createdAt":-8640000000000,"updatedAt":5,"metadata":{"a":18446744073709551615,"b":[1.0,1e300]},"status":"observed","revision":7,"idempotencyKey":"k"}"#,
        r#"{"spaceId":"x","trigger":[ 1E2 , -0.0 ],"context":[{"step":"\u0041"}],"createdAt":0,"status":"failed"}"#,
        r#"{"kind":"document","collection":"notes","spaceId":"a","content":"line\nbreak \\ \u2028 ","createdAt":9,"metadata":{"k":1.50}}"#,
        r#"{"kind":"document","id":"é id","collection":"a-first","spaceId":"a","content":"","createdAt":1,"updatedAt":2,"revision":3}"#,
    ];
    let imported = cli.fed(&["import", "-"], &lines.join("\n"));
    assert!(imported.status.success(), "{}", stderr(&imported));
    let id = cli.ok(&["store", "--space", "s", "--trigger", "1"]);
    cli.ok(&["update", id.trim(), "--context", "{}", "--status", "running"]);
    assert_eq!(cli.ok(&["export", "-o", "first.jsonl"]), "exported 33 memories and 2 documents\n");
    let first = std::fs::read_to_string(cli.path("first.jsonl")).expect("the export");
    assert!(first.starts_with(lines[0]), "restored as it was: {first}");
    assert!(first.contains(r#""trigger":[1E2,-0.0],"context":[{"step":"\u0041"}]"#), "{first}");
    assert_eq!(first, cli.ok(&["export", "-o", "-"]), "the same on standard output");

    let second = Cli::new();
    second.ok(&["import", &cli.path("first.jsonl").display().to_string()]);
    assert_eq!(second.ok(&["export"]), first);
    let again = second.fed(&["import", "-"], &lines.join("\n"));
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(second.ok(&["export"]), first, "contents that had no id are known again");
}

/// Each record with its versions, also for records that an import takes in several batches.
#[test]
fn an_export_with_the_history_restores_it() {
    let (cli, second) = (Cli::new(), Cli::new());
    let id = cli.ok(&["store", "--space", "s", "--trigger", "1"]);
    let id = id.trim();
    for number in 0..3 {
        cli.ok(&["update", id, "--context", &format!("[{number}]"), "--status", "running"]);
    }
    cli.ok(&["document", "put", "--collection", "notes", "--id", "n", "--space", "s", "--content", "one"]);
    cli.ok(&["document", "put", "--collection", "notes", "--id", "n", "--space", "s", "--content", "two"]);
    let plain = cli.ok(&["export"]);
    cli.ok(&["export", "--history", "-o", "whole.jsonl"]);
    let whole = std::fs::read_to_string(cli.path("whole.jsonl")).expect("the export");
    assert_eq!(whole.lines().count(), 6, "{whole}");
    let whole = cli.path("whole.jsonl").display().to_string();
    assert_eq!(second.ok(&["import", &whole]), "imported 6 lines: 6 new, 0 there already, 0 in conflict\n");
    assert_eq!(second.ok(&["import", &whole]), "imported 6 lines: 0 new, 6 there already, 0 in conflict\n");
    assert_eq!(second.ok(&["export"]), plain);
    for of in
        [["history", id, "--json"].as_slice(), &["document", "history", "--collection", "notes", "--id", "n", "--json"]]
    {
        assert_eq!(second.ok(of), cli.ok(of));
    }
    second.ok(&["update", id, "--status", "failed"]);
    assert!(second.ok(&["import", &whole]).contains("6 there already"), "what is there went on from these");
    cli.ok(&["update", id, "--status", "completed"]);
    cli.ok(&["export", "--history", "-o", "other.jsonl"]);
    let refused = second.run(&["import", &cli.path("other.jsonl").display().to_string()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(&format!("line 5: a version of the memory {id}")), "{}", stderr(&refused));
}

#[test]
fn an_export_with_a_long_history_is_imported_in_batches() {
    let (cli, second) = (Cli::new(), Cli::new());
    let memory = |revision: u32| {
        let (updated, id) = (if revision == 1 { String::new() } else { format!(r#","updatedAt":{revision}"#) }, 7);
        format!(
            r#"{{"kind":"version","committedAt":{revision},"actor":null,"memory":{{"id":"0190a0b0-0000-7000-8000-00000000000{id}","spaceId":"a","trigger":1,"createdAt":0{updated},"metadata":{{"n":{revision}}},"status":"pending","revision":{revision}}}}}"#
        )
    };
    let lines: Vec<_> = (1..=2_500).map(memory).collect();
    let imported = cli.fed(&["import", "-"], &lines.join("\n"));
    assert!(imported.status.success(), "{}", stderr(&imported));
    let whole = cli.ok(&["export", "--history"]);
    assert_eq!(whole.trim_end(), lines.join("\n"));
    let to = format!("sqlite://{}", second.path("memory.db").display());
    assert!(cli.ok(&["copy", "--history", "--to", &to]).contains("1 new, 0 in conflict"));
    assert_eq!(second.ok(&["export", "--history"]), whole);
    assert!(
        cli.ok(&["copy", "--history", "--to", &to]).contains("0 new, 0 in conflict"),
        "it goes on behind what is there"
    );
    let again = cli.fed(&["import", "-"], &lines.join("\n"));
    assert!(stdout(&again).contains("2500 there already, 0 in conflict"), "{}", stdout(&again));
}

#[test]
fn an_export_can_be_narrowed() {
    let cli = Cli::new();
    cli.ok(&["quickstart"]);
    let count = |args: &[&str]| cli.ok(&[&["export"], args].concat()).lines().count();
    assert_eq!(count(&[]), 27);
    assert_eq!(count(&["--all"]), 24, "memories only");
    assert_eq!(count(&["--all", "--documents"]), 27);
    assert_eq!(count(&["--under", "plugin-discord-guild1"]), 16);
    assert_eq!(count(&["--under", "plugin-discord-guild1", "--documents"]), 18);
    assert_eq!(count(&["--status", "pending"]), 1);
    assert_eq!(count(&["--limit", "5"]), 5);
    assert_eq!(count(&["--documents", "--where", "metadata.topic = 'garden'"]), 8);
}

#[test]
fn an_export_that_fails_leaves_the_file_alone() {
    let cli = Cli::new();
    cli.ok(&["import", &fixture()]);
    let backup = cli.write("backup.jsonl", "old\n");
    cli.fails(2, &["export", "-o", &backup, "--limit", "many"]);
    assert_eq!(std::fs::read_to_string(&backup).expect("the backup"), "old\n");
    cli.fails(1, &["export", "-o", &cli.path("").display().to_string()]);
    cli.fails(1, &["export", "-o", &cli.path("missing/backup.jsonl").display().to_string()]);
    cli.ok(&["export", "-o", &backup]);
    assert_eq!(std::fs::read_to_string(&backup).expect("the backup"), cli.ok(&["export"]));
    let left: Vec<_> = std::fs::read_dir(cli.path(""))
        .expect("the folder")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter(|name| !name.starts_with("memory.db"))
        .collect();
    assert_eq!(left, ["backup.jsonl"], "no temporary file stays");
}

#[test]
fn a_file_that_is_not_there_or_a_folder_is_an_error() {
    let cli = Cli::new();
    assert!(cli.fails(1, &["import", "missing.jsonl"]).contains("missing.jsonl"));
    assert!(cli.fails(1, &["import", "."]).contains("is a folder"));
}

#[test]
fn a_kill_loses_no_acknowledged_batch() {
    let cli = Cli::new();
    let mut child = cli
        .command()
        .args(["import", "-", "--progress"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The pipe stays open, so the import can't end by itself before it is killed.
    let mut input = child.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || {
        for number in 0.. {
            if input.write_all(line(number).as_bytes()).is_err() {
                return;
            }
        }
    });
    let acknowledgements = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let acknowledged = acknowledgements
        .map(|line| line.expect("UTF-8"))
        .map(|line| line.strip_prefix("done: ").expect("an acknowledgement").parse::<usize>().expect("a number"))
        .nth(2)
        .expect("three batches");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    writer.join().expect("the pipe broke");
    assert_eq!(acknowledged, 3_000);
    let stored = cli.ok(&["export"]).lines().count();
    assert!(stored >= acknowledged, "{stored} of {acknowledged}");
    assert_eq!(stored % 1_000, 0, "a batch is stored as a whole");
}
