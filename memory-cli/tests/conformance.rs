//! `conformance`, by the binary itself. A few cases are enough: the tests of the suite show that cases find bugs.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use common::{Cli, eventually, stderr, stdout};
use serde_json::Value;

#[test]
fn two_engines_are_compared_and_leave_nothing_behind() {
    let cli = Cli::new();
    let sqlite = format!("sqlite://{}", cli.path("tested.db").display());
    let (report, junit) = (cli.path("report.json"), cli.path("report.xml"));
    let shown = cli.ok(&[
        "conformance",
        "--url",
        "memory:",
        "--url",
        &sqlite,
        "--only",
        "update",
        "--only",
        "S3",
        "--only",
        "reading.a_damaged_row_hides_no_other",
        "--skip",
        "update.unknown_id_is_not_found=known",
        "--report",
        &report.display().to_string(),
        "--junit",
        &junit.display().to_string(),
    ]);
    assert!(shown.contains("update.each_field_works_alone"), "{shown}");
    assert!(shown.contains("0 differences: green"), "{shown}");
    assert!(shown.contains("1 skipped") && shown.contains("1 unsupported"), "{shown}");
    assert!(!cli.path("tested.db").exists());
    let files: Vec<_> =
        std::fs::read_dir(cli.path("")).expect("the folder").flatten().map(|file| file.file_name()).collect();
    assert_eq!(files.len(), 2, "only the reports: {files:?}");

    let report: Value = serde_json::from_slice(&std::fs::read(report).expect("a report")).expect("JSON");
    assert_eq!(report["verdict"], "green");
    let names: Vec<_> = report["engines"].as_array().into_iter().flatten().map(|engine| &engine["name"]).collect();
    assert_eq!(names, ["in-memory", "sqlite"]);
    let skipped =
        report["cases"].as_array().into_iter().flatten().find(|case| case["id"] == "update.unknown_id_is_not_found");
    assert_eq!(skipped.expect("a case")["results"][1]["reason"], "known");
    let junit = std::fs::read_to_string(junit).expect("a report");
    assert!(junit.contains(r#"<testsuite name="sqlite""#) && junit.contains("skipped: known"), "{junit}");
}

#[test]
fn an_engine_that_can_erase_is_tested_for_it() {
    let cli = Cli::new();
    let sqlite = format!("sqlite://{}", cli.path("tested.db").display());
    // Each of these cases asks for the plain refusal of an engine that can't.
    let erases = "erasure.records_are_erased_or_that_is_refused_plainly";
    let shown = cli.ok(&["conformance", "--url", &sqlite, "--only", erases, "--only", "X1", "--only", "M1"]);
    assert!(shown.contains("green") && !shown.contains("unsupported"), "{shown}");
}

/// The command's own programs name leases as transient. The cases name members of their own, or none.
#[test]
fn only_a_case_says_what_is_transient() {
    let cli = Cli::new();
    let sqlite = format!("sqlite://{}", cli.path("tested.db").display());
    let shown = cli.ok(&["conformance", "--url", &sqlite, "--only", "H8"]);
    assert!(shown.contains("green") && !shown.contains("unsupported"), "{shown}");
}

#[test]
fn an_engine_that_fails_makes_the_run_red() {
    let cli = Cli::new();
    // No folder, so that no database can be in it.
    let sqlite = format!("sqlite://{}/tested.db", cli.write("file", ""));
    let case = "update.unknown_id_is_not_found";
    let output = cli.run(&["conformance", "--url", "memory:", "--url", &sqlite, "--only", case]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stderr(&output).trim(), format!("sqlite::{case}: error"));
    assert!(stdout(&output).contains(&format!("≠ {case}")), "{}", stdout(&output));
    assert!(stdout(&output).trim_end().ends_with("1 differences: red"), "{}", stdout(&output));
}

#[test]
fn a_run_in_which_nothing_ran_is_invalid() {
    let cli = Cli::new();
    let junit = cli.path("report.xml");
    let nothing = ["--skip", "W3=all of it", "--only", "W3", "--junit", &junit.display().to_string()];
    let output = cli.run(&[&["conformance", "--url", "memory:"], nothing.as_slice()].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("invalid"), "{}", stdout(&output));
    let junit = std::fs::read_to_string(junit).expect("a report");
    assert!(junit.contains(r#"<error message="invalid: on an engine nothing ran""#), "{junit}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_nothing_behind_and_is_not_green() {
    let cli = Cli::new();
    let child = start(&cli, &[]);
    eventually("it makes a file", || files(&cli) > 0);
    let output = terminated(&cli, child);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.trim_end().ends_with("invalid: the run was interrupted"), "{shown}");
    assert!(shown.contains(" skipped"), "{shown}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_soak_leaves_nothing_behind_and_tells_what_it_did() {
    let cli = Cli::new();
    let mut child = start(&cli, &["--soak", "1h", "--clients", "2"]);
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("it is piped")).read_line(&mut line).expect("a line without a terminal");
    assert!(line.contains(" s; sqlite ") && line.contains(" calls, 0 differences"), "{line}");
    let output = terminated(&cli, child);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains(" s, interrupted; sqlite ") && shown.contains(" calls, 0 differences"), "{shown}");
    assert!(!shown.contains(" 0 calls"), "{shown}");
}

/// The command on a file in this folder.
#[cfg(unix)]
fn start(cli: &Cli, args: &[&str]) -> Child {
    let url = format!("sqlite://{}", cli.path("tested.db").display());
    let mut command = cli.command();
    command.args(["conformance", "--url", &url]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

/// Its output after a signal to end, which leaves nothing in the folder.
#[cfg(unix)]
fn terminated(cli: &Cli, child: Child) -> Output {
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
    let output = child.wait_with_output().expect("the binary ends");
    assert_eq!(files(cli), 0, "nothing is left");
    output
}

#[cfg(unix)]
fn files(cli: &Cli) -> usize {
    cli.path("").read_dir().expect("the folder").flatten().count()
}

#[test]
fn mistakes_are_told_on_one_line() {
    let cli = Cli::new();
    let unknown = cli.fails(2, &["conformance", "--url", "memory:", "--only", "nowhere"]);
    assert!(unknown.contains("nowhere: neither a case nor a chapter nor a rule"), "{unknown}");
    let in_memory = cli.fails(2, &["conformance", "--url", "sqlite::memory:"]);
    assert!(in_memory.contains("one handle only"), "{in_memory}");
    let file = "redis://app:secret@db/report.json";
    let unwritten = cli.fails(1, &["conformance", "--url", "memory:", "--only", "W3", "--report", file]);
    assert!(unwritten.contains("named like a URL can't be written") && !unwritten.contains("secret"), "{unwritten}");
    let several = cli.fails(2, &["health", "--url", "sqlite://a.db", "--url", "sqlite://b.db"]);
    assert!(several.contains("takes only one"), "{several}");
}

#[test]
fn a_soak_tells_what_it_did() {
    let cli = Cli::new();
    let shown = cli.ok(&["conformance", "--url", "memory:", "--soak", "1s", "--clients", "2"]);
    assert!(shown.contains(" calls, 0 differences") && !shown.contains(" 0 calls"), "{shown}");
    let json = cli.ok(&["conformance", "--url", "memory:", "--soak", "1s", "--json", "--seed", "7"]);
    let state: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&state["engine"], &state["seed"]), (&"in-memory".into(), &7.into()));
}
